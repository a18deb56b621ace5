"""Fuse lists of documents from searches that have already run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from langchain_phasegraph.base import configured
from langchain_phasegraph.conversion import (
    ACCESS,
    ScoredDocuments,
    check_distinct,
    documents_of,
    ranking_of,
    reader_of,
    unpack,
)
from langchain_phasegraph.filters import filter_of, only_matching
from phasegraph import FusionPipeline, Ranking, Result
from phasegraph.retrieval import HitFields, HitReader, ListFuser, Once, accepts_old_names, list_pipeline


class ListFusion(RunnableLambda[Mapping[str, Any], list[Document]]):
    """A runnable that takes a mapping of names to lists of documents, and fuses the lists.

    :func:`fuse_lists` creates it.
    """

    def __init__(
        self,
        pipeline: FusionPipeline,
        fields: Mapping[str, HitFields] | None,
        score_key: str | None,
        evidence_key: str | None,
    ) -> None:
        super().__init__(self.fuse, name="fuse_lists")
        check_distinct(score_key, evidence_key)
        self._fuser = ListFuser(
            pipeline, fields, ACCESS, hits="documents", unpack=unpack, reader_of=reader_of, ranking_of=_filtered_ranking
        )
        self._score_key, self._once = score_key, Once()
        self._evidence_key = evidence_key

    def fuse(self, lists: Mapping[str, Any]) -> list[Document]:
        """Return the fused documents."""
        return documents_of(
            *self._fuser.decide(lists),
            score_key=self._score_key,
            evidence_key=self._evidence_key,
            once=self._once,
        )

    def explain(self, lists: Mapping[str, Any], query: str | None = None) -> Result:
        """Return the complete result for the lists: scores, contributions, candidates, warnings and a report per list.

        Parameters
        ----------
        lists : mapping of str to list
            The lists of documents by name, as for ``invoke``.
        query : str, optional
            The query, for priors that read the query.
        """
        return self._fuser.decide(lists, query)[0]


def _filtered_ranking(reader: HitReader, documents: ScoredDocuments, notes: list[str]) -> Ranking:
    """Drop documents that do not match the call's filter, and convert the others to a ranking."""
    wanted = filter_of(configured())
    return ranking_of(reader, documents if wanted is None else only_matching(documents, wanted), None, notes)


@accepts_old_names
def fuse_lists(
    *,
    k: int | None = None,
    weights: Mapping[str, float] | None = None,
    pipeline: FusionPipeline | None = None,
    fields: Mapping[str, HitFields] | None = None,
    score_key: str | None = None,
    evidence_key: str | None = None,
) -> ListFusion:
    """Create a runnable that fuses lists of documents from earlier searches.

    Parameters
    ----------
    k : int, optional
        Number of documents to return, >= 0. By default, the pipeline's `k`.
    weights : mapping of str to float, optional
        Weight of each list by its name; every list must have a weight. Cannot be combined with `pipeline`, which has
        its own weights.
    pipeline : FusionPipeline, optional
        The pipeline that fuses the lists.
    fields : mapping of str to HitFields, optional
        For each list, by its name: the fields of a hit with its id and score, and the direction of the scores.
    score_key, evidence_key
        As for :class:`~langchain_phasegraph.PhaseGraphRetriever`.

    Returns
    -------
    ListFusion
        A runnable from a mapping of name to list of documents (or of (document, score) pairs) to the fused documents;
        its ``explain`` returns the complete result.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument has a wrong type or is out of range.

    Examples
    --------
    >>> one, two, three = (Document("text", id=name) for name in ("1", "2", "3"))
    >>> [document.id for document in fuse_lists(k=1).invoke({"a": [one, two], "b": [two, three]})]
    ['2']
    """
    return ListFusion(list_pipeline(pipeline, weights, k), fields, score_key, evidence_key)
