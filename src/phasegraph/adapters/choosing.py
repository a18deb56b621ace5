"""A retriever's acceptance, selection and correction arguments, checked once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from phasegraph.acceptance import AcceptancePolicy, Threshold
from phasegraph.adapters.embedding import Embedding
from phasegraph.errors import InvalidInputError, InvalidTypeError
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
        """What `correct` says of a result of which everything was rejected: a query, None, or an awaitable."""
        return self.correct(result) if self.correct is not None and result.reason == "all_rejected" else None


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
