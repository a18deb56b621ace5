"""Lists that are already there: the pipeline that fuses them, and the one call that does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from phasegraph.adapters.provenance import with_notes
from phasegraph.adapters.specs import Reading
from phasegraph.candidates import Ranking, SourceReport
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.pipeline import Context, FusionPipeline, Result
from phasegraph.pipeline.checks import check_count, check_weights_mapping


def list_pipeline(
    pipeline: FusionPipeline | None, weights: Mapping[str, float] | None, k: int | None, *, field: str = "k"
) -> FusionPipeline:
    """The pipeline of a fusion of lists, or an error that names the field.

    Parameters
    ----------
    pipeline : FusionPipeline, optional
    weights : mapping of str to float, optional
        In place of the pipeline's.
    k : int, optional
        In place of the pipeline's.
    field : str
        What `k` is called there.

    Examples
    --------
    >>> list_pipeline(FusionPipeline(k=4), None, None).k
    4
    """
    chosen = FusionPipeline() if pipeline is None else pipeline
    if not isinstance(chosen, FusionPipeline):
        raise InvalidTypeError(f"pipeline must be a FusionPipeline or None; got {type(chosen).__name__}")
    if weights is not None:
        chosen = replace(chosen, weights=check_weights_mapping(weights))
    return chosen if k is None else replace(chosen, k=check_count(field, k))


def check_readings(readings: Mapping[str, Reading] | None) -> dict[str, Reading]:
    """How each list is read, by name, or an error that names the list."""
    for name, reading in (readings or {}).items():
        if not isinstance(reading, Reading):
            raise InvalidTypeError(f"readings[{name!r}] must be a Reading; got {type(reading).__name__}")
    return dict(readings or {})


def decide_lists(
    pipeline: FusionPipeline, lists: Mapping[str, Any], read: Callable[[str, list[str]], Ranking], query: str | None
) -> Result:
    """Read every list, in name order, and decide.

    Parameters
    ----------
    pipeline : FusionPipeline
    lists : mapping of str to list
    read : callable
        ``read(name, notes)`` gives the ranking of a list; what it notes goes to its report.
    query : str, optional
        For priors that read it.
    """
    if not isinstance(lists, Mapping):
        raise InvalidTypeError(f"lists must be a mapping of names to lists; got {type(lists).__name__}")
    if not lists:
        raise InvalidInputError("lists must hold at least one list; got none")
    notes: dict[str, list[str]] = {name: [] for name in sorted(lists)}
    rankings = [read(name, found) for name, found in notes.items()]
    reports = with_notes([SourceReport.of(one) for one in rankings], notes)
    return pipeline.decide(rankings, Context(query=query or ""), reports=reports)
