"""Fuse lists that are there already, without a retriever."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
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
from phasegraph.retrieval.joining import join_by_text
from phasegraph.retrieval.notes import joined_notes, with_notes
from phasegraph.retrieval.notices import FirstAnswers, IdOverlapWarning
from phasegraph.retrieval.source_config import check_no_exact_match


def list_pipeline(
    pipeline: FusionPipeline | None, weights: Mapping[str, float] | None, k: int | None
) -> FusionPipeline:
    """The pipeline of a fusion of lists that are already there, or an error that names the argument."""
    if pipeline is not None and not isinstance(pipeline, FusionPipeline):
        raise InvalidTypeError(f"pipeline must be a FusionPipeline or None; got {type(pipeline).__name__}")
    if pipeline is not None and weights is not None:
        raise InvalidInputError("weights= and pipeline= cannot both give the weights: leave one out")
    return Chosen(k, weights).on(FusionPipeline() if pipeline is None else pipeline)


def decide_lists(
    pipeline: FusionPipeline,
    lists: Mapping[str, Any],
    read: Callable[[str, Any, list[str]], Ranking],
    query: str | None,
    access: HitAccess,
    watch: FirstAnswers,
) -> Answer:
    """Read lists that are already there, in name order, and decide; the `query` is for priors that read it.

    ``read(name, list, notes)`` gives the ranking of a list; what it notes goes to its report.
    """
    if not isinstance(lists, Mapping):
        raise InvalidTypeError(f"lists must be a mapping of names to lists; got {type(lists).__name__}")
    if not lists:
        raise InvalidInputError("lists must hold at least one list; got none")
    check_no_exact_match(lists)
    if query:
        check_query(query, LONGEST_QUERY)
    notes: dict[str, list[str]] = {name: [] for name in sorted(lists)}
    found = [read(name, lists[name], noted) for name, noted in notes.items()]
    rankings, parted = IdOverlapWarning().part(found, access.text)
    rankings, joined = join_by_text(rankings, access.text)
    for name, lines in joined_notes(parted, joined).items():
        notes[name] += lines
    reports = with_notes([SourceReport.of(one) for one in rankings], notes)
    context = access.context(query or "")
    if needs_words(pipeline, rankings):
        context = replace(context, words=access.words(query or "", rankings))
    if pipeline.accept is not None:
        watch.see(pipeline.accept, rankings)
    result = pipeline.decide(rankings, context, reports=reports)
    hits = select_hits(result, access.text)
    return with_text_warnings(result, hits), hits
