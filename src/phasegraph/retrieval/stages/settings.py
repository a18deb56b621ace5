"""The resolved stages of a retriever: rewriting, routing, reranking and correction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from phasegraph._support.clock import Deadline
from phasegraph.errors import InvalidTypeError
from phasegraph.retrieval.stages.cached_models import CachedModel
from phasegraph.retrieval.stages.corrective import REWRITE_PROMPT, ChatGrade, Corrective
from phasegraph.retrieval.stages.models import OverModel
from phasegraph.retrieval.stages.reranking import Rerank
from phasegraph.retrieval.stages.rewriting import Rewriter, Rewriting, rewritten
from phasegraph.retrieval.stages.routing import ChatRouter, Routing
from phasegraph.sources.protocol import AnySource
from phasegraph.sources.steps import Step


@dataclass(frozen=True, slots=True)
class Stages:
    """The resolved stages of a retriever: their functions and settings."""

    route: Routing | None = None
    rerank: Rerank | None = None
    corrective: Corrective | None = None
    reranker: Step | None = None
    grader: Step | None = None
    rewriter: Step | None = None
    reads_hits: bool = False
    rewritings: Mapping[str, Rewriting] = field(default_factory=dict)

    @classmethod
    def of(
        cls, route: Any, rerank: Any, corrective: Any, rewritings: Mapping[str, Rewriting], adapt: StageAdapter
    ) -> Stages:
        """Resolve the stages from the arguments of a constructor and its sources; errors name the argument."""
        ranks = None if rerank is None else Rerank.given(rerank)
        if not isinstance(corrective, Corrective | None):
            raise InvalidTypeError(f"corrective must be Corrective(...) or None; got {type(corrective).__name__}")
        model = None if ranks is None else _over_cached(ranks.model, adapt.reranker)
        grader = rewriter = None
        if corrective is not None:
            kept = "the answer is kept as it is"
            rewriter = Step("the rewriting of corrective", adapt.rewriter(corrective.rewrite), kept)
            if corrective.grade is not None:
                grader = Step("the grade of corrective", adapt.grader(corrective.grade), kept)
        return cls(
            None if route is None else Routing.of(adapt.router(route)),
            ranks,
            corrective,
            None if ranks is None else Step("rerank", model, "the order is the fused one"),
            grader,
            rewriter,
            getattr(model, "reads_hits", False) is True,
            rewritings,
        )

    @property
    def are_set(self) -> bool:
        """Whether a call has any stage."""
        return bool(self.rewritings or self.route or self.rerank or self.corrective)

    def rewriting(self, sources: Mapping[str, AnySource], deadline: Deadline) -> Mapping[str, AnySource]:
        """Wrap each source that has a rewriter, so that its query is rewritten first, within the deadline."""
        if not self.rewritings:
            return sources
        how = self.rewritings
        return {
            name: rewritten(name, source, how[name], deadline) if name in how else source
            for name, source in sources.items()
        }

    @property
    def steps(self) -> list[Step]:
        """Return all steps, which may give warnings."""
        named = (
            None if self.route is None else self.route.step, self.reranker, self.grader, self.rewriter,
            *(rewriting.step for rewriting in self.rewritings.values()),
        )  # fmt: skip
        return [one for one in named if one is not None]


def _over_cached(given: Any, adapt: Callable[[Any], Any]) -> Any:
    """Adapt a model; if the model is cached, adapt the inner model and keep the cache around it."""
    if not isinstance(given, CachedModel):
        return adapt(given)
    return given.over(None if given.model is None else adapt(given.model))


class StageAdapter:
    """Converts a framework's objects to functions; this base class accepts only functions. `names` are the sources."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self.names = names

    def is_model(self, given: Any) -> bool:
        """Whether the argument is a language model of the framework; None stands for a model in an offline cache."""
        return False

    def text_model(self, given: Any) -> Any:
        """Turn a language model into a function from prompt to text."""
        return given

    def other(self, given: Any, names: tuple[str, ...]) -> Any:
        """Turn any other object of the framework into a function of arguments with these names."""
        return given

    def reranker(self, given: Any) -> Any:
        """Return the function ``rerank(query, texts)``, or ``rerank(query, passages)`` if it ``reads_hits``."""
        return self.other(given, ("query", "texts"))

    def router(self, given: Any) -> Any:
        """Return the function ``route(query)`` or ``route(query, ranking)``; a language model chooses source names."""
        if self._speaks(given):
            given = ChatRouter(given, {name: name for name in self.names})
        return self._over(given, ("query",))

    def grader(self, given: Any) -> Any:
        """Return the function ``grade(query, texts)``."""
        return self._over(ChatGrade(given) if self._speaks(given) else given, ("query", "texts"))

    def rewriter(self, given: Any) -> Any:
        """Return the function ``rewrite(query)``; a language model is asked for a better query."""
        return self._over(Rewriter(given, (REWRITE_PROMPT,), "single") if self._speaks(given) else given, ("query",))

    def _speaks(self, given: Any) -> bool:
        """Whether the argument is a language model, cached or not."""
        return self.is_model(given.model if isinstance(given, CachedModel) else given)

    def _over(self, given: Any, names: tuple[str, ...]) -> Any:
        if isinstance(given, OverModel) and not isinstance(given, CachedModel):
            return given.over(_over_cached(given.model, self._spoken))
        return _over_cached(given, partial(self.other, names=names))

    def _spoken(self, model: Any) -> Any:
        """Turn a language model into a function from prompt to text; an error for other types."""
        if self.is_model(model):
            return self.text_model(model)
        if not callable(model):
            raise InvalidTypeError(
                f"model must be a language model or a function from prompt to text; got {type(model).__name__}"
            )
        return model
