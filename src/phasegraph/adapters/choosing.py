"""A retriever's acceptance, selection and correction arguments, checked once."""

from __future__ import annotations

from asyncio import wait_for
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import iscoroutine
from typing import Any, TypeAlias

from phasegraph.acceptance import AcceptancePolicy, Threshold
from phasegraph.adapters.embedding import Embedding
from phasegraph.errors import InvalidInputError, InvalidTypeError, PhasegraphError
from phasegraph.pipeline import FusionPipeline, Result
from phasegraph.selection import SelectionPolicy

Accept: TypeAlias = AcceptancePolicy | Mapping[str, Threshold | float]
Correct: TypeAlias = Callable[[Result], "str | Awaitable[str | None] | None"]


@dataclass(frozen=True, slots=True)
class Choosing:
    """What happens after fusing.

    Parameters
    ----------
    accept : AcceptancePolicy or mapping of str to threshold, optional
        Thresholds by source, on its own scores.
    selection : SelectionPolicy or str, optional
        Or the name of its method.
    correct : callable, optional
        Called with the result of a query of which everything was rejected; the query it returns is asked once.
    embedding : Embedding
        Where vectors come from, for a selection that weighs redundancy.
    """

    accept: Accept | None = None
    selection: SelectionPolicy | str | None = None
    correct: Correct | None = None
    embedding: Embedding = field(default_factory=Embedding)

    def of_pipeline(self, pipeline: FusionPipeline, sources: Sequence[str]) -> FusionPipeline:
        """The pipeline with these stages in place of its own; an error names the field."""
        if self.correct is not None and not callable(self.correct):
            raise InvalidTypeError(f"correct must be a function or None; got {self.correct!r}")
        if self.accept is not None:
            pipeline = replace(pipeline, accept=_policy(self.accept, sources))
        if self.selection is not None:
            pipeline = replace(pipeline, selection=_selection(self.selection))
        return pipeline

    def again(self, result: Result) -> Any:
        """What `correct` says of a result of which everything was rejected: a query, None, an awaitable, its error."""
        if self.correct is None or result.reason != "all_rejected":
            return None
        try:
            return self.correct(result)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - what corrects never costs the answer there is
            return error


class UncorrectedError(PhasegraphError):
    """What `correct` gave cannot be asked; the first result stands."""


async def awaited(said: Awaitable[Any], seconds: float | None) -> Any:
    """What an awaitable gives within `seconds`, or the error it ends with."""
    try:
        return await wait_for(said, seconds)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - as in a call that is not asynchronous
        return error


def check_correction(said: object, seconds: float | None) -> str:
    """The query that `correct` gave, or UncorrectedError where there is none or no time is left to ask it."""
    if isinstance(said, TimeoutError) or (seconds is not None and seconds <= 0):
        why = "left no time to ask again"
    elif isinstance(said, Exception):
        why = f"raised {type(said).__name__}"
    elif isinstance(said, str):
        if said.strip():
            return said
        why = "returned a blank query"
    elif iscoroutine(said):
        why = "returned a coroutine, which only asynchronous calls await"
    else:
        why = f"must return a query or None; it returned {type(said).__name__}"
    if iscoroutine(said):
        said.close()
    raise UncorrectedError(f"correct {why}")


def uncorrected(result: Result, error: PhasegraphError) -> Result:
    """The first result, which says why it was not corrected."""
    why = str(error) if isinstance(error, UncorrectedError) else "correct gave a query that no source answered"
    return replace(result, warnings=(*result.warnings, f"{why}; the first result is kept"))


def _policy(given: Accept, sources: Sequence[str]) -> AcceptancePolicy:
    if isinstance(given, AcceptancePolicy):
        policy = given
    elif isinstance(given, Mapping):
        policy = AcceptancePolicy(given)
    else:
        raise InvalidTypeError(f"accept must be a mapping of source to threshold or an AcceptancePolicy; got {given!r}")
    unknown = sorted(set(policy.thresholds) - set(sources))
    if unknown:
        raise InvalidInputError(f"accept must name sources among {list(sources)}; got {unknown}")
    return policy


def _selection(given: SelectionPolicy | str) -> SelectionPolicy:
    if isinstance(given, SelectionPolicy):
        return given
    if not isinstance(given, str):
        raise InvalidTypeError(f"selection must be a SelectionPolicy or the name of a method; got {given!r}")
    return SelectionPolicy(given)  # type: ignore[arg-type]
