"""Lists that are already there, fused without retrieving."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableLambda

from langchain_phasegraph.documents import check_documents
from langchain_phasegraph.reading import Reader
from langchain_phasegraph.writing import documents_of, winners_of
from phasegraph import Context, FusionPipeline, InvalidInputError, InvalidTypeError, Ranking, Result, SourceReport
from phasegraph.adapters import Direction, with_notes
from phasegraph.adapters.specs import Reading
from phasegraph.pipeline.checks import check_count, check_weights_mapping


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

    def decide(self, lists: Mapping[str, object]) -> Result:
        """The whole answer."""
        if not isinstance(lists, Mapping):
            raise InvalidTypeError(f"lists must be a mapping of names to lists; got {type(lists).__name__}")
        if not lists:
            raise InvalidInputError("lists must hold at least one list; got none")
        rankings: list[Ranking] = []
        notes: dict[str, list[str]] = {}
        for name in sorted(lists):
            notes[name] = []
            rankings.append(self._reader(name).ranking(check_documents(name, lists[name]), None, notes[name]))
        reports = [SourceReport.of(one) for one in rankings]
        return self.pipeline.decide(rankings, Context(), reports=with_notes(reports, notes))

    def fuse(self, lists: Mapping[str, object]) -> list[Document]:
        """The fused documents."""
        result = self.decide(lists)
        return documents_of(result, winners_of(result), score_key=self.score_key, block=self.block)

    def _reader(self, name: str) -> Reader:
        reader = self._readers.get(name)
        if reader is None:
            reading = self.readings.get(name, Reading())
            reader = self._readers.setdefault(name, Reader(name, reading, Direction(reading.higher_is_better)))
        return reader


def fuse_lists(
    *,
    k: int = 10,
    weights: Mapping[str, float] | None = None,
    pipeline: FusionPipeline | None = None,
    readings: Mapping[str, Reading] | None = None,
    score_key: str | None = "score",
    provenance: bool = True,
) -> Runnable[Mapping[str, Any], list[Document]]:
    """A runnable that fuses lists of documents which were retrieved before.

    Parameters
    ----------
    k : int, default 10
        Documents returned, >= 0.
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
    Runnable
        From a mapping of name to list of documents (or of (document, score) pairs) to the fused documents.

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
    chosen = FusionPipeline() if pipeline is None else pipeline
    if not isinstance(chosen, FusionPipeline):
        raise InvalidTypeError(f"pipeline must be a FusionPipeline or None; got {type(chosen).__name__}")
    if weights is not None:
        chosen = replace(chosen, weights=check_weights_mapping(weights))
    for name, reading in (readings or {}).items():
        if not isinstance(reading, Reading):
            raise InvalidTypeError(f"readings[{name!r}] must be a Reading; got {type(reading).__name__}")
    lists = _Lists(replace(chosen, k=check_count("k", k)), readings or {}, score_key, provenance)
    return RunnableLambda(lists.fuse, name="fuse_lists")
