"""Fuse lists of hits from earlier searches, without a retriever."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phasegraph._support.validation import LONGEST_QUERY, check_query
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.ranking import Ranking
from phasegraph.reports import SourceReport
from phasegraph.retrieval.access import HitAccess
from phasegraph.retrieval.answer import Answer, select_hits, with_text_warnings
from phasegraph.retrieval.call import needs_words
from phasegraph.retrieval.engine import Chosen
from phasegraph.retrieval.joining import join_hits
from phasegraph.retrieval.notes import joined_notes, with_notes
from phasegraph.retrieval.notices import FirstAnswers
from phasegraph.retrieval.once import Once
from phasegraph.retrieval.reading import HitReader
from phasegraph.retrieval.source_config import check_no_exact_match
from phasegraph.retrieval.source_spec import HitFields


def list_pipeline(
    pipeline: FusionPipeline | None, weights: Mapping[str, float] | None, k: int | None
) -> FusionPipeline:
    """Check the caller's arguments, and return the pipeline that fuses the lists.

    The result is `pipeline`, or the default pipeline with `weights` if `pipeline` is None; both together are an error.
    The pipeline returns `k` results, or its own number of results if `k` is None.
    """
    if pipeline is not None and not isinstance(pipeline, FusionPipeline):
        raise InvalidTypeError(f"pipeline must be a FusionPipeline or None; got {type(pipeline).__name__}")
    if pipeline is not None and weights is not None:
        raise InvalidInputError("weights= and pipeline= cannot both give the weights: leave one out")
    return Chosen(k, weights).on(FusionPipeline() if pipeline is None else pipeline)


class ListFuser:
    """An object that fuses lists of hits from earlier searches.

    `hits` is the framework's word for hits. ``unpack(list)`` returns the hits of a list. ``reader_of(name, fields)``
    creates the reader of the lists with this name; later calls reuse it. ``ranking_of(reader, hits, notes)`` converts
    the hits to a ranking, and adds notes for the report of the list.
    """

    def __init__(
        self,
        pipeline: FusionPipeline,
        fields: Mapping[str, HitFields] | None,
        access: HitAccess,
        *,
        hits: str,
        unpack: Callable[[Any], Any],
        reader_of: Callable[[str, HitFields], HitReader],
        ranking_of: Callable[[HitReader, Any, list[str]], Ranking],
    ) -> None:
        if not isinstance(fields, Mapping | None):
            raise InvalidTypeError(f"fields must be a mapping of names to HitFields; got {type(fields).__name__}")
        for name, given in (fields or {}).items():
            if not isinstance(given, HitFields):
                raise InvalidTypeError(f"fields[{name!r}] must be HitFields; got {type(given).__name__}")
        self.pipeline, self._fields, self._access = pipeline, dict(fields or {}), access
        self._hits, self._unpack, self._reader_of, self._ranking_of = hits, unpack, reader_of, ranking_of
        self._readers: dict[str, HitReader] = {}
        self._watch, self._shared_ids = FirstAnswers(), Once()

    def decide(self, lists: Mapping[str, Any], query: str | None = None) -> Answer:
        """Fuse the lists, and return the result with its hits; priors and the confidence may need the `query`."""
        pipeline, access = self.pipeline, self._access
        if not isinstance(lists, Mapping):
            raise InvalidTypeError(f"lists must be a mapping of names to lists; got {type(lists).__name__}")
        if not lists:
            raise InvalidInputError("lists is empty: give at least one list of hits")
        check_no_exact_match(lists)
        if query:
            check_query(query, LONGEST_QUERY)
        notes: dict[str, list[str]] = {name: [] for name in sorted(lists)}
        found = [self._read(name, lists[name], noted) for name, noted in notes.items()]
        rankings, joined = join_hits(found, access.text, self._shared_ids)
        reports = with_notes([SourceReport.of(one) for one in rankings], joined_notes(notes, joined))
        context = access.context(query or "", rankings if needs_words(pipeline, rankings) else None)
        if pipeline.accept is not None:
            self._watch.see(pipeline.accept, rankings)
        result = pipeline.decide(rankings, context, reports=reports)
        hits = select_hits(result, access)
        return with_text_warnings(result, hits), hits

    def _read(self, name: str, given: Any, notes: list[str]) -> Ranking:
        if isinstance(given, str):
            raise InvalidTypeError(f"lists[{name!r}] must be a list of {self._hits}; got a text")
        try:
            hits = self._unpack(given)
        except InvalidTypeError as error:
            raise InvalidTypeError(f"lists[{name!r}]: {error}") from error
        except InvalidInputError as error:
            raise InvalidInputError(f"lists[{name!r}]: {error}") from error
        reader = self._readers.get(name)
        if reader is None:
            reader = self._readers.setdefault(name, self._reader_of(name, self._fields.get(name, HitFields())))
        return self._ranking_of(reader, hits, notes)
