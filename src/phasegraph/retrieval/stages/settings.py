"""The resolved stages of a retriever: rewriting, routing, reranking and correction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
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
    """The resolved stages of a retriever: their functions and settings; None means that a stage is not used.

    `reads_hits` is True if the reranker receives passages instead of texts. `rewritings` has the rewriting settings of
    each source that has a rewriter.
    """

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
        """Create the stages from the constructor's arguments and the sources' rewritings; errors name the argument."""
        ranks = None if rerank is None else Rerank.given(rerank)
        if not isinstance(corrective, Corrective | None):
            raise InvalidTypeError(f"corrective must be Corrective(...) or None; got {type(corrective).__name__}")
        model = None if ranks is None else _over_cached(ranks.model, adapt.reranker)
        grader = rewriter = None
        if corrective is not None:
            kept = "the first answer is returned"
            rewriter = Step("the rewriting of corrective", adapt.rewriter(corrective.rewrite), kept)
            if corrective.grade is not None:
                grader = Step("the grade of corrective", adapt.grader(corrective.grade), kept)
        return cls(
            None if route is None else Routing.of(adapt.router(route)),
            ranks,
            corrective,
            None if ranks is None else Step("rerank", model, "the fused order is used"),
            grader,
            rewriter,
            getattr(model, "reads_hits", False) is True,
            rewritings,
        )

    @property
    def are_set(self) -> bool:
        """True if the retriever has any stage."""
        return bool(self.rewritings or self.route or self.rerank or self.corrective)

    def at_least(self, count: int, names: Collection[str]) -> Stages:
        """Return a copy that requests at least `count` hits for each rewritten query of the sources `names`."""
        found = {
            name: replace(one, limit=max(one.limit, count)) if one.limit is not None and name in names else one
            for name, one in self.rewritings.items()
        }
        return replace(self, rewritings=found)

    def rewriting(self, sources: Mapping[str, AnySource], deadline: Deadline) -> Mapping[str, AnySource]:
        """Wrap each source that has a rewriter; the wrapper rewrites the query, and then searches the source.

        Rewriting may take half of the time until `deadline`.
        """
        if not self.rewritings:
            return sources
        how = self.rewritings
        return {
            name: rewritten(name, source, how[name], deadline) if name in how else source
            for name, source in sources.items()
        }

    @property
    def steps(self) -> list[Step]:
        """The user's functions in all stages, each as a :class:`Step` with the warnings that it has not given yet."""
        named = (
            None if self.route is None else self.route.step, self.reranker, self.grader, self.rewriter,
            *(rewriting.step for rewriting in self.rewritings.values()),
        )  # fmt: skip
        return [one for one in named if one is not None]


def _over_cached(given: Any, adapt: Callable[[Any], Any]) -> Any:
    """Convert a model by ``adapt(model)``; for a cached model, convert the inner model and return it with its cache."""
    if not isinstance(given, CachedModel):
        return adapt(given)
    return given.over(None if given.model is None else adapt(given.model))


class StageAdapter:
    """A converter of a framework's objects to functions; this base class accepts only functions.

    `names` are the names of the retriever's sources.
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        self.names = names

    def is_model(self, given: Any) -> bool:
        """Return True if the argument is a language model of the framework.

        This base class returns False. Integrations override this method, and also return True for None. None takes the
        place of the model in an offline replay, which uses only cached answers.
        """
        return False

    def text_model(self, given: Any) -> Any:
        """Convert a language model to a function from prompt to text."""
        return given

    def other(self, given: Any, names: tuple[str, ...]) -> Any:
        """Convert any other object of the framework to a function whose parameters have the given names."""
        return given

    def reranker(self, given: Any) -> Any:
        """Convert a reranker to a function ``rerank(query, texts)``.

        If the function has the attribute ``reads_hits`` with the value True, it is ``rerank(query, passages)``.
        """
        return self.other(given, ("query", "texts"))

    def router(self, given: Any) -> Any:
        """Convert a router to a function ``route(query)`` or ``route(query, ranking)``.

        A language model becomes a :class:`ChatRouter`.
        """
        if self._speaks(given):
            given = ChatRouter(given, {name: name for name in self.names})
        return self._over(given, ("query",))

    def grader(self, given: Any) -> Any:
        """Convert a grader to a function ``grade(query, texts)``; a language model becomes a :class:`ChatGrade`."""
        return self._over(ChatGrade(given) if self._speaks(given) else given, ("query", "texts"))

    def rewriter(self, given: Any) -> Any:
        """Convert a rewriter to a function ``rewrite(query)``; a language model becomes a :class:`Rewriter`."""
        return self._over(Rewriter(given, (REWRITE_PROMPT,), "single") if self._speaks(given) else given, ("query",))

    def _speaks(self, given: Any) -> bool:
        """Return True if the argument is a language model, or a cached language model."""
        return self.is_model(given.model if isinstance(given, CachedModel) else given)

    def _over(self, given: Any, names: tuple[str, ...]) -> Any:
        if isinstance(given, OverModel) and not isinstance(given, CachedModel):
            return given.over(_over_cached(given.model, self._spoken))
        return _over_cached(given, partial(self.other, names=names))

    def _spoken(self, model: Any) -> Any:
        """Convert a language model to a function from prompt to text; raise InvalidTypeError for other types."""
        if self.is_model(model):
            return self.text_model(model)
        if not callable(model):
            raise InvalidTypeError(
                f"model must be a language model or a function from prompt to text; got {type(model).__name__}"
            )
        return model
