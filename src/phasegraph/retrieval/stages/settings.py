"""The stages of a retriever, settled: rewriting, routing, reranking and correction."""

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
    """The stages of a retriever, settled: what they call, and how they are set."""

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
        """The stages of a constructor's arguments and of its sources, or an error that names the argument."""
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
        """Whether a call does more than ask and decide."""
        return bool(self.rewritings or self.route or self.rerank or self.corrective)

    def rewriting(self, sources: Mapping[str, AnySource], deadline: Deadline) -> Mapping[str, AnySource]:
        """The sources of a call with a deadline; where a source has a rewriter, its query is rewritten first."""
        if not self.rewritings:
            return sources
        how = self.rewritings
        return {
            name: rewritten(name, source, how[name], deadline) if name in how else source
            for name, source in sources.items()
        }

    @property
    def steps(self) -> list[Step]:
        """All that may warn."""
        named = (
            None if self.route is None else self.route.step, self.reranker, self.grader, self.rewriter,
            *(rewriting.step for rewriting in self.rewritings.values()),
        )  # fmt: skip
        return [one for one in named if one is not None]


def _over_cached(given: Any, adapt: Callable[[Any], Any]) -> Any:
    """What `adapt` makes of a model; of a cached model the same cache around what it makes of the model inside."""
    if not isinstance(given, CachedModel):
        return adapt(given)
    return given.over(None if given.model is None else adapt(given.model))


class StageAdapter:
    """What a framework makes callable: here, nothing but what is so already. `names` are those of the sources."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self.names = names

    def is_model(self, given: Any) -> bool:
        """Whether it is a language model of the framework; there, None in an offline cache stands for one."""
        return False

    def text_model(self, given: Any) -> Any:
        """A language model as a function from prompt to text."""
        return given

    def other(self, given: Any, names: tuple[str, ...]) -> Any:
        """Anything else of the framework as a function of arguments of these names."""
        return given

    def reranker(self, given: Any) -> Any:
        """``rerank(query, texts)``, or with ``reads_hits`` ``rerank(query, passages)``."""
        return self.other(given, ("query", "texts"))

    def router(self, given: Any) -> Any:
        """``route(query)`` or ``route(query, ranking)``; a language model chooses among the names of the sources."""
        if self._speaks(given):
            given = ChatRouter(given, {name: name for name in self.names})
        return self._over(given, ("query",))

    def grader(self, given: Any) -> Any:
        """``grade(query, texts)``."""
        return self._over(ChatGrade(given) if self._speaks(given) else given, ("query", "texts"))

    def rewriter(self, given: Any) -> Any:
        """``rewrite(query)``; a language model is asked for a better query."""
        return self._over(Rewriter(given, (REWRITE_PROMPT,), "single") if self._speaks(given) else given, ("query",))

    def _speaks(self, given: Any) -> bool:
        """Whether it is a language model, cached or not."""
        return self.is_model(given.model if isinstance(given, CachedModel) else given)

    def _over(self, given: Any, names: tuple[str, ...]) -> Any:
        if isinstance(given, OverModel) and not isinstance(given, CachedModel):
            return given.over(_over_cached(given.model, self._spoken))
        return _over_cached(given, partial(self.other, names=names))

    def _spoken(self, model: Any) -> Any:
        """A language model as a function from prompt to text."""
        if self.is_model(model):
            return self.text_model(model)
        if not callable(model):
            raise InvalidTypeError(
                f"model must be a language model or a function from prompt to text; got {type(model).__name__}"
            )
        return model
