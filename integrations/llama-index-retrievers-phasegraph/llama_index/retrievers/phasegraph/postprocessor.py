"""Lists that are already there, fused without retrieving."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.bridge.pydantic import ConfigDict, PrivateAttr
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index.retrievers.phasegraph.conversion import Reader, nodes_of, winners_of
from llama_index.retrievers.phasegraph.retriever_sources import check_flag, unpack
from phasegraph import FusionPipeline, InvalidInputError, InvalidTypeError, Result
from phasegraph.retrieval import Direction, with_text_warnings
from phasegraph.retrieval.engine import check_readings, decide_lists, list_pipeline
from phasegraph.retrieval.source_config import Reading


class PhaseGraphPostprocessor(BaseNodePostprocessor):
    """Fuses nodes that several retrievers returned before.

    Parameters
    ----------
    top_n : int, optional
        Nodes returned, >= 0. Default: the pipeline's k.
    group_by : str, default "source"
        Metadata key under which a node says which list it came from; the nodes of a list stand in its order.
    weights : mapping of str to float, optional
        By list name; every list must be named.
    pipeline : FusionPipeline, optional
        How to fuse.
    readings : mapping of str to Reading, optional
        How the ids and scores of a list are read, and its direction; a :class:`SourceSpec` serves as well.
    provenance : bool, default True
        As for :class:`CalibratedFusionRetriever`.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument is outside what is said above.

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
    provenance: bool
    _pipeline: FusionPipeline = PrivateAttr()
    _readings: dict[str, Reading] = PrivateAttr()
    _readers: dict[str, Reader] = PrivateAttr(default_factory=dict)

    def __init__(
        self,
        top_n: int | None = None,
        group_by: str = "source",
        *,
        weights: Mapping[str, float] | None = None,
        pipeline: FusionPipeline | None = None,
        readings: Mapping[str, Reading] | None = None,
        provenance: bool = True,
        **kwargs: Any,
    ) -> None:
        if not isinstance(group_by, str) or not group_by.strip():
            raise InvalidTypeError(f"group_by must be a metadata key; got {group_by!r}")
        chosen = list_pipeline(pipeline, weights, top_n, field="top_n")
        read = check_readings(readings)
        fields: dict[str, Any] = {
            "top_n": chosen.k,
            "group_by": group_by,
            "provenance": check_flag("provenance", provenance),
        }
        super().__init__(**fields, **kwargs)
        self._pipeline = chosen
        self._readings = read

    @classmethod
    def class_name(cls) -> str:
        """Name under which the framework writes it down."""
        return "PhaseGraphPostprocessor"

    def fuse(self, lists: Mapping[str, Any], query: str | None = None) -> list[NodeWithScore]:
        """Fused copies of the nodes, best first.

        Parameters
        ----------
        lists : mapping of str to sequence
            Nodes with or without scores, or (node, score) pairs, by the name of their source.
        query : str, optional
            For priors that read it.
        """
        result = self.explain(lists, query)
        return nodes_of(result, winners_of(result), block=self.provenance)

    def explain(self, lists: Mapping[str, Any], query: str | None = None) -> Result:
        """The whole answer; parameters as in :meth:`fuse`."""
        result = decide_lists(
            self._pipeline,
            lists,
            lambda name, notes: self._reader(name).ranking(_checked(name, lists[name]), None, notes),
            query,
        )
        return with_text_warnings(result, winners_of(result))

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
                    f"every node must say its source under metadata[{key!r}]; {hit.node.node_id!r} has {name!r}"
                )
            lists.setdefault(name, []).append(hit)
        return self.fuse(lists, None if query_bundle is None else query_bundle.query_str)

    def _reader(self, name: str) -> Reader:
        reader = self._readers.get(name)
        if reader is None:
            reading = self._readings.get(name, Reading())
            reader = self._readers.setdefault(
                name, Reader(name, reading, Direction(reading.higher_is_better, source=name))
            )
        return reader


def _checked(name: str, given: object) -> Sequence[NodeWithScore]:
    try:
        return unpack(given)
    except InvalidTypeError as error:
        raise InvalidTypeError(f"lists[{name!r}]: {str(error).removeprefix('malformed: ')}") from error
