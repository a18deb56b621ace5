"""A retriever's acceptance, selection and correction arguments, checked once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from phasegraph.acceptance import AcceptancePolicy, Threshold
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.pipeline import Context, FusionPipeline, Result
from phasegraph.selection import SelectionPolicy

Accept: TypeAlias = AcceptancePolicy | Mapping[str, Threshold | float]
Correct: TypeAlias = Callable[[Result], "str | Awaitable[str | None] | None"]
EmbedHits: TypeAlias = Callable[[Sequence[Any]], Any]


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
    embed : callable, optional
        The framework's own objects to an (n, d) array, for a selection that weighs redundancy.
    """

    accept: Accept | None = None
    selection: SelectionPolicy | str | None = None
    correct: Correct | None = None
    embed: EmbedHits | None = None

    def of_pipeline(self, pipeline: FusionPipeline, sources: Sequence[str]) -> FusionPipeline:
        """The pipeline with these stages in place of its own; an error names the field."""
        for name in ("correct", "embed"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise InvalidTypeError(f"{name} must be a function or None; got {getattr(self, name)!r}")
        if self.accept is not None:
            pipeline = replace(pipeline, accept=_policy(self.accept, sources))
        if self.selection is not None:
            pipeline = replace(pipeline, selection=_selection(self.selection))
        return pipeline

    def context(self, given: Context, result_of: Mapping[str, Any]) -> Context:
        """The context with embeddings made from the framework's objects, where it has none of its own."""
        if self.embed is None or callable(given.embeddings) or given.embeddings:
            return given
        embed = self.embed
        return replace(given, embeddings=lambda ids: embed([result_of[identifier] for identifier in ids]))

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
