"""Lists that are already there, fused without retrieving."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from langchain_phasegraph.conversion import Reader, Winner, check_documents, documents_of, winners_of
from phasegraph import FusionPipeline, Result
from phasegraph.retrieval import Direction, with_text_warnings
from phasegraph.retrieval.engine import check_readings, decide_lists, list_pipeline
from phasegraph.retrieval.source_config import Reading


class _Lists:
    """See :func:`fuse_lists`."""

    def __init__(
        self, pipeline: FusionPipeline, readings: Mapping[str, Reading], score_key: str | None, block: bool
    ) -> None:
        self.pipeline = pipeline
        self.readings = dict(readings)
        self.score_key = score_key
        self.block = block
        self._readers: dict[str, Reader] = {}

    def explain(self, lists: Mapping[str, object], query: str | None = None) -> tuple[Result, list[Winner]]:
        """The whole answer, and whose documents it gives."""
        result = decide_lists(
            self.pipeline,
            lists,
            lambda name, notes: self._reader(name).ranking(check_documents(name, lists[name]), None, notes),
            query,
        )
        winners = winners_of(result)
        return with_text_warnings(result, winners), winners

    def fuse(self, lists: Mapping[str, object]) -> list[Document]:
        """The fused documents."""
        result, winners = self.explain(lists)
        return documents_of(result, winners, score_key=self.score_key, block=self.block)

    def _reader(self, name: str) -> Reader:
        reader = self._readers.get(name)
        if reader is None:
            reading = self.readings.get(name, Reading())
            reader = self._readers.setdefault(
                name, Reader(name, reading, Direction(reading.higher_is_better, source=name))
            )
        return reader


class ListFusion(RunnableLambda[Mapping[str, Any], list[Document]]):
    """What :func:`fuse_lists` makes: a runnable from lists by name to the fused documents."""

    def __init__(self, lists: _Lists) -> None:
        super().__init__(lists.fuse, name="fuse_lists")
        self._lists = lists

    def explain(self, lists: Mapping[str, Any], query: str | None = None) -> Result:
        """The whole answer to lists: scores, contributions, candidates, warnings and a report per list.

        Parameters
        ----------
        lists : mapping of str to list
            As for ``invoke``.
        query : str, optional
            For priors that read it.
        """
        return self._lists.explain(lists, query)[0]


def fuse_lists(
    *,
    k: int | None = None,
    weights: Mapping[str, float] | None = None,
    pipeline: FusionPipeline | None = None,
    readings: Mapping[str, Reading] | None = None,
    score_key: str | None = "score",
    provenance: bool = True,
) -> ListFusion:
    """A runnable that fuses lists of documents which were retrieved before.

    Parameters
    ----------
    k : int, optional
        Documents returned, >= 0. Default: the pipeline's.
    weights : mapping of str to float, optional
        By list name; every list must be named.
    pipeline : FusionPipeline, optional
        How to fuse.
    readings : mapping of str to Reading, optional
        How the ids and scores of a list are read, and its direction; a :class:`SourceSpec` serves as well.
    score_key, provenance
        As for :class:`~langchain_phasegraph.PhaseGraphRetriever`.

    Returns
    -------
    ListFusion
        A runnable from a mapping of name to list of documents (or of (document, score) pairs) to the fused documents;
        its ``explain`` gives the whole answer.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument is outside what is said above.

    Examples
    --------
    >>> one, two, three = (Document("text", id=name) for name in ("1", "2", "3"))
    >>> [document.id for document in fuse_lists(k=1).invoke({"a": [one, two], "b": [two, three]})]
    ['2']
    """
    lists = _Lists(list_pipeline(pipeline, weights, k), check_readings(readings), score_key, provenance)
    return ListFusion(lists)
