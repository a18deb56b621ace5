"""Fuse lists of nodes from searches that have already run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index.core.bridge.pydantic import ConfigDict, PrivateAttr
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index.retrievers.phasegraph.conversion import check_key, nodes_of, ranking_of, reader_of, unpack
from llama_index.retrievers.phasegraph.embedding import access_of
from phasegraph import FusionPipeline, InvalidInputError, InvalidTypeError, Ranking, Result
from phasegraph.retrieval import (
    HitFields,
    HitReader,
    ListFuser,
    Once,
    accepts_old_names,
    check_count,
    list_pipeline,
    unexpected_argument,
)


class PhaseGraphPostprocessor(BaseNodePostprocessor):
    """A node postprocessor that fuses nodes from several searches that have already run.

    Parameters
    ----------
    top_n : int, optional
        Number of nodes to return, >= 0. By default, the pipeline's `k`.
    group_by : str, default "source"
        Metadata key that names the list of a node. The nodes of a list must be in the list's order, best first.
    weights : mapping of str to float, optional
        Weight of each list by its name; every list must have a weight. Cannot be combined with `pipeline`, which has
        its own weights.
    pipeline : FusionPipeline, optional
        The pipeline that fuses the lists.
    fields : mapping of str to HitFields, optional
        For each list, by its name: the fields of a hit with its id and score, and the direction of the scores.
    evidence_key : str, optional
        As for :class:`CalibratedFusionRetriever`.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument has a wrong type or is out of range.

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> one, two, three = (TextNode(id_=name, text=name) for name in ("1", "2", "3"))
    >>> lists = {"a": [one, two], "b": [two, three]}
    >>> [hit.node_id for hit in PhaseGraphPostprocessor(top_n=1).fuse(lists)]
    ['2']
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    top_n: int
    group_by: str
    evidence_key: str | None
    _fuser: ListFuser = PrivateAttr()
    _many_lists: Once = PrivateAttr(default_factory=Once)

    @accepts_old_names
    def __init__(
        self,
        top_n: int | None = None,
        group_by: str = "source",
        *,
        weights: Mapping[str, float] | None = None,
        pipeline: FusionPipeline | None = None,
        fields: Mapping[str, HitFields] | None = None,
        evidence_key: str | None = None,
        **kwargs: Any,
    ) -> None:
        known = {*type(self).model_fields, "weights", "pipeline", "fields"}
        for name in kwargs.keys() - known:
            raise unexpected_argument(name, known)
        if check_key("group_by", group_by) is None:
            raise InvalidTypeError("group_by must be a metadata key, such as 'source'; got None")
        chosen = list_pipeline(pipeline, weights, None if top_n is None else check_count("top_n", top_n))
        stated: dict[str, Any] = {
            "top_n": chosen.k,
            "group_by": group_by,
            "evidence_key": check_key("evidence_key", evidence_key),
        }
        fuser = ListFuser(
            chosen, fields, access_of(), hits="nodes", unpack=unpack, reader_of=reader_of, ranking_of=_ranking
        )
        super().__init__(**stated, **kwargs)
        self._fuser = fuser

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which the framework serializes this class."""
        return "PhaseGraphPostprocessor"

    def fuse(self, lists: Mapping[str, Any], query: str | None = None) -> list[NodeWithScore]:
        """Return fused copies of the nodes, best first.

        Parameters
        ----------
        lists : mapping of str to sequence
            Nodes with or without scores, or (node, score) pairs, by the name of their source.
        query : str, optional
            The query, for priors that read the query.
        """
        return nodes_of(*self._fuser.decide(lists, query), self.evidence_key)

    def explain(self, lists: Mapping[str, Any], query: str | None = None) -> Result:
        """Return the complete result; the parameters are those of :meth:`fuse`."""
        return self._fuser.decide(lists, query)[0]

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if not nodes:
            return []
        lists: dict[str, list[NodeWithScore]] = {}
        for hit in nodes:
            key, name = self.group_by, hit.node.metadata.get(self.group_by)
            if not isinstance(name, str) or not name.strip():
                raise InvalidInputError(
                    f"every node must name its list under metadata[{key!r}]; node {hit.node.node_id!r} has {name!r}"
                )
            lists.setdefault(name, []).append(hit)
        # The key names a file or a topic instead of a search: several searches find some nodes twice.
        if len(nodes) < 2 * len(lists) > 6 and len({hit.node.node_id for hit in nodes}) == len(nodes):
            self._many_lists.warn(
                f"group_by={self.group_by!r}: {len(nodes)} nodes have {len(lists)} values of this metadata key, and "
                "each value counts as a separate search, so the order of the nodes is lost. Name a key whose value "
                "is the name of the search, such as 'vector', or use fuse({'vector': nodes, ...})"
            )
        return self.fuse(lists, None if query_bundle is None else query_bundle.query_str)


def _ranking(reader: HitReader, hits: list[NodeWithScore], notes: list[str]) -> Ranking:
    return ranking_of(reader, hits, None, notes)
