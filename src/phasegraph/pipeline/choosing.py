"""After fusing: which candidates are accepted, and which of them go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from phasegraph._typing import FloatArray, IntArray
from phasegraph.acceptance import AcceptanceOutcome
from phasegraph.candidates import Candidates, top_order
from phasegraph.errors import DegradedError, InvalidInputError, PhasegraphError
from phasegraph.pipeline.parts import publish
from phasegraph.priors import Context
from phasegraph.selection import SelectionPolicy, SelectionResult, scaled_relevance

if TYPE_CHECKING:
    from phasegraph.pipeline.pipeline import FusionPipeline

SELECTION_POOL = 50


def choose(
    pipeline: FusionPipeline, candidates: Candidates, values: FloatArray, final: FloatArray, context: Context
) -> tuple[IntArray, dict[str, object], tuple[str, ...]]:
    """Rows of the answer, best first or in the order they were picked, and what each stage says of it.

    Parameters
    ----------
    pipeline : FusionPipeline
    candidates : Candidates
    values : (n, m) array of float
        Calibrated values.
    final : (n,) array of float
        Fused values with their priors.
    context : Context

    Returns
    -------
    (rows, extras, warnings)
        At most k rows; ``extras`` holds the outcome of acceptance and of selection, where they ran.

    Raises
    ------
    DegradedError
        If the pipeline is strict, and selection failed or a promise does not hold.
    """
    extras: dict[str, object] = {}
    allowed: IntArray | None = None
    if pipeline.accept is not None:
        outcome = pipeline.accept.decide(candidates, values, publish(final), candidates.sources)
        extras["acceptance"] = outcome
        allowed = np.flatnonzero(outcome.accepted)
    depth = pipeline.k if pipeline.selection is None else max(pipeline.k, SELECTION_POOL)
    rows = top_order(final, candidates.ids, depth) if allowed is None else _best(final, candidates.ids, allowed, depth)
    warnings = _broken_promises(extras) if extras else ()
    if pipeline.selection is not None and len(rows):
        found, failed = _together(pipeline, pipeline.selection, candidates, final, rows, context)
        extras["selection"] = found
        rows = rows[found.rows]
        warnings += failed
    if pipeline.strict and warnings:
        raise DegradedError(f"strict=True accepts no degradation; got {'; '.join(warnings)}")
    return rows, extras, warnings


def _together(
    pipeline: FusionPipeline,
    policy: SelectionPolicy,
    candidates: Candidates,
    final: FloatArray,
    rows: IntArray,
    context: Context,
) -> tuple[SelectionResult, tuple[str, ...]]:
    """Which of the rows go together; the fused order, and a line that says so, where that cannot be worked out."""
    ids = [candidates.ids[row] for row in rows.tolist()]
    relevance = scaled_relevance(final[rows])
    costs = None if policy.budget is None else _costs(context, ids)
    if policy.needs_embeddings and not callable(context.embeddings) and not context.embeddings:
        raise InvalidInputError(
            "selection by redundancy needs an embedding of every candidate in Context.embeddings (a mapping or a "
            "callable); got none"
        )
    try:
        embeddings = _embeddings(context, ids) if policy.needs_embeddings else None
        return policy.select(relevance, embeddings, pipeline.k, costs=costs), ()
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a selection that fails never costs the answer
        why = str(error) if isinstance(error, PhasegraphError) else type(error).__name__
        failed = f"selection by {policy.method} failed, the order is the fused one: {why}"
        return replace(policy, method="top").select(relevance, None, pipeline.k, costs=costs), (failed,)


def abstained(extras: dict[str, object]) -> bool:
    """Whether there were candidates and acceptance let none through."""
    outcome = extras.get("acceptance")
    return isinstance(outcome, AcceptanceOutcome) and outcome.abstained


def _broken_promises(extras: dict[str, object]) -> tuple[str, ...]:
    """A line for every promise that does not hold for this answer."""
    outcome = extras.get("acceptance")
    if not isinstance(outcome, AcceptanceOutcome):
        return ()
    return tuple(
        f"the promise of the threshold {one.name!r} does not hold for this answer: {one.reason}"
        for one in outcome.certificates
        if not one.valid
    )


def _best(final: FloatArray, ids: Sequence[str], allowed: IntArray, depth: int) -> IntArray:
    inside = top_order(final[allowed], [ids[row] for row in allowed.tolist()], depth)
    return allowed[inside]


def _embeddings(context: Context, ids: Sequence[str]) -> FloatArray:
    """(n, d) rows for the pool, from the context's mapping or callable."""
    given = context.embeddings
    if callable(given):
        return np.asarray(given(ids), dtype=np.float64)
    lacking = [identifier for identifier in ids if identifier not in given]
    if lacking:
        raise InvalidInputError(
            f"Context.embeddings must hold an embedding of every candidate; {len(lacking)} of {len(ids)} have none, "
            f"{lacking[0]!r} among them"
        )
    return np.array([given[identifier] for identifier in ids], dtype=np.float64)


def _costs(context: Context, ids: Sequence[str]) -> FloatArray:
    lacking = next((identifier for identifier in ids if identifier not in context.costs), None)
    if lacking is not None:
        raise InvalidInputError(f"selection with a budget needs Context.costs of every candidate; {lacking!r} has none")
    return np.array([context.costs[identifier] for identifier in ids], dtype=np.float64)
