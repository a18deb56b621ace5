"""Real retrievers that fuse three sources over made-up passages; a plan injects faults into the sources."""

from __future__ import annotations

import contextvars
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from phasegraph import Ranking
from phasegraph.testing import FaultPlan
from phasegraph.testing.faults import broken

NAMES = ("graph", "lexical", "vector")
QUESTIONS = 64  # different ones, as far as what the sources return goes
_HITS = 60  # more than the limit of 50, which a huge answer is cut to as well
_POOL = 150


def _prepared(name: str, seed: int) -> Ranking:
    rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
    ids = [f"p{row:03}" for row in rng.permutation(_POOL)[:_HITS]]
    scores = np.round(np.sort(rng.gamma(2.0, 1.0, _HITS))[::-1], 2 * (seed % 2))  # every second answer is full of ties
    return Ranking(name, ids, scores - 2.0 * (name == "lexical"))


PREPARED = {name: [_prepared(name, seed) for seed in range(QUESTIONS)] for name in NAMES}


def question(number: int) -> str:
    """Return a query that is different for each number."""
    return f"question {number}"


def seed_of(query: str) -> int:
    """Return the number of the prepared answer that sources give to a query."""
    return zlib.crc32(query.encode()) % QUESTIONS


@dataclass(frozen=True, slots=True)
class Searching:
    """A source as a function of the query: it returns hits of a framework, or fails as the fault plan says.

    Parameters
    ----------
    name : str
    made : callable
        ``made(id)`` returns the framework's passage.
    plan : FaultPlan or None
    seconds : float
        How long the source hangs, if the plan lets it hang.
    """

    name: str
    made: Callable[[str], Any]
    plan: FaultPlan | None = None
    seconds: float = 0.0

    def __call__(self, query: str) -> Any:
        ranking = PREPARED[self.name][seed_of(query)]
        kind = None if self.plan is None else self.plan.strikes(self.name, query)
        return self._hits(ranking if kind is None else broken(kind, ranking, self.seconds))

    def _hits(self, answer: Any) -> Any:
        """Return a source's answer, with ids replaced by the framework's passages if the answer is a list of pairs."""
        if isinstance(answer, Ranking):
            answer = list(zip(answer.ids, answer.scores.tolist(), strict=True))
        if isinstance(answer, list):
            return [self._pair(one) for one in answer]
        return map(self._pair, answer) if isinstance(answer, Iterator) else answer

    def _pair(self, one: Any) -> Any:
        return (self.made(one[0]), *one[1:]) if isinstance(one, tuple) else one


@dataclass(frozen=True, slots=True)
class Answered:
    """What a call of a retriever returned and reported.

    Parameters
    ----------
    passages : tuple
        Ids and texts, best first.
    bits : bytes
        Published scores, fused values and contributions, as the bytes of their arrays.
    degraded : frozenset of str or None
        The sources that the answer reports as failed; None if the answer cannot report this.
    dropped : mapping of str to int
        The numbers of hits that the answer reports as dropped.
    late : frozenset of str
        The sources that the answer reports as late.
    """

    passages: tuple[tuple[str, str], ...]
    bits: bytes
    degraded: frozenset[str] | None
    dropped: Mapping[str, int]
    late: frozenset[str] = frozenset()


_results: contextvars.ContextVar[list[Any]] = contextvars.ContextVar("results")


def _keep(result: Any) -> None:
    _results.get().append(result)


def _answered(passages: Sequence[tuple[str, str]], results: list[Any]) -> Answered:
    (result,) = results
    bits = b"".join(one.tobytes() for one in (result.scores, result.fused, result.contributions))
    degraded = frozenset(one.source for one in result.reports if one.degraded)
    if bool(degraded) is not result.degraded:
        raise AssertionError(f"degraded is {result.degraded}, and {sorted(degraded)} are reported")
    dropped = {one.source: one.dropped for one in result.reports if one.dropped}
    late = frozenset(one.source for one in result.reports if one.status == "timeout")
    return Answered(tuple(passages), bits, degraded, dropped, late)


@cache
def document(identifier: str) -> Any:
    """Return the LangChain document with an id; the same object in every call."""
    from langchain_core.documents import Document

    return Document(f"text of {identifier}", id=identifier)


@cache
def node(identifier: str) -> Any:
    """Return the LlamaIndex node with an id; the same object in every call."""
    from llama_index.core.schema import TextNode

    return TextNode(id_=identifier, text=f"text of {identifier}")


class LangChain:
    """phasegraph's retriever in LangChain over sources with faults."""

    name = "phasegraph, LangChain"
    made = staticmethod(document)

    def __init__(self, names: Sequence[str] = NAMES, plan: FaultPlan | None = None, seconds: float = 0.0, **more: Any):
        from langchain_phasegraph import Execution, HitFields, PhaseGraphRetriever, SourceSpec

        def source(name: str) -> SourceSpec:
            return SourceSpec(
                retriever=Searching(name, self.made, plan, seconds),
                fields=HitFields(higher_is_better=True),
                execution=Execution(circuit_breaker=None),
            )

        sources = {name: source(name) for name in names}
        self.retriever = PhaseGraphRetriever(retrievers=sources, on_result=_keep, **more)

    def ask(self, query: str) -> Answered:
        _results.set(found := [])
        documents = self.retriever.invoke(query)
        return _answered([(str(one.id), one.page_content) for one in documents], found)

    async def aask(self, query: str) -> Answered:
        _results.set(found := [])
        documents = await self.retriever.ainvoke(query)
        return _answered([(str(one.id), one.page_content) for one in documents], found)


class LlamaIndex:
    """phasegraph's retriever in LlamaIndex over sources with faults."""

    name = "phasegraph, LlamaIndex"
    made = staticmethod(node)

    def __init__(self, names: Sequence[str] = NAMES, plan: FaultPlan | None = None, seconds: float = 0.0, **more: Any):
        from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, Execution, HitFields, SourceSpec

        def source(name: str) -> SourceSpec:
            return SourceSpec(
                retriever=Searching(name, self.made, plan, seconds),
                fields=HitFields(higher_is_better=True),
                execution=Execution(circuit_breaker=None),
            )

        sources = {name: source(name) for name in names}
        self.retriever = CalibratedFusionRetriever(retrievers=sources, on_result=_keep, **more)

    def ask(self, query: str) -> Answered:
        _results.set(found := [])
        nodes = self.retriever.retrieve(query)
        return _answered([(one.node_id, one.text) for one in nodes], found)

    async def aask(self, query: str) -> Answered:
        _results.set(found := [])
        nodes = await self.retriever.aretrieve(query)
        return _answered([(one.node_id, one.text) for one in nodes], found)


OURS = {"langchain": LangChain, "llamaindex": LlamaIndex}


class EnsembleOf:
    """LangChain's EnsembleRetriever over sources with faults; a retriever of LangChain returns no scores."""

    name = "LangChain Ensemble"

    def __init__(self, names: Sequence[str] = NAMES, plan: FaultPlan | None = None, seconds: float = 0.0, **more: Any):
        from langchain_classic.retrievers import EnsembleRetriever
        from langchain_core.retrievers import BaseRetriever

        class Listed(BaseRetriever):
            search: Any

            def _get_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
                return _without_scores(self.search(query))

        self.retriever = EnsembleRetriever(
            retrievers=[Listed(search=Searching(name, document, plan, seconds)) for name in names]
        )

    def ask(self, query: str) -> Answered:
        found = self.retriever.invoke(query)
        return Answered(tuple((str(one.id), one.page_content) for one in found), b"", None, {})


def _without_scores(answer: Any) -> Any:
    if isinstance(answer, list) and answer and all(isinstance(one, tuple) and len(one) == 2 for one in answer):
        return [one for one, _ in answer]
    return (one for one, _ in answer) if isinstance(answer, Iterator) else answer


class QueryFusionOf:
    """LlamaIndex's QueryFusionRetriever over sources with faults, by reciprocal rank."""

    name = "LlamaIndex QueryFusion"

    def __init__(self, names: Sequence[str] = NAMES, plan: FaultPlan | None = None, seconds: float = 0.0, **more: Any):
        from llama_index.core.base.base_retriever import BaseRetriever
        from llama_index.core.llms import MockLLM
        from llama_index.core.retrievers import QueryFusionRetriever
        from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
        from llama_index.core.schema import NodeWithScore

        class Listed(BaseRetriever):
            def __init__(self, search: Any) -> None:
                super().__init__()
                self.search = search

            def _retrieve(self, query_bundle: Any) -> Any:
                answer = self.search(query_bundle.query_str)
                if not isinstance(answer, list) or not all(isinstance(one, tuple) and len(one) == 2 for one in answer):
                    return answer
                return [NodeWithScore(node=one, score=score) for one, score in answer]

        self.retriever = QueryFusionRetriever(
            [Listed(Searching(name, node, plan, seconds)) for name in names],
            llm=MockLLM(),
            mode=FUSION_MODES.RECIPROCAL_RANK,
            similarity_top_k=10,
            num_queries=1,
            use_async=False,
        )

    def ask(self, query: str) -> Answered:
        found = self.retriever.retrieve(query)
        bits = np.array([np.nan if one.score is None else one.score for one in found]).tobytes()
        return Answered(tuple((one.node_id, one.text) for one in found), bits, None, {})
