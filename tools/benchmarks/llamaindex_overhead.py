"""Measure the cost of phasegraph in LlamaIndex, as ratios to QueryFusionRetriever in one run in which both take turns.

python tools/benchmarks/llamaindex_overhead.py
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from interleaved import TEXT, interleaved, interleaved_async, report
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever
from llama_index.retrievers.phasegraph.conversion import ranking_of, reader_of
from phasegraph import Context, FusionPipeline
from phasegraph.retrieval import HitFields
from phasegraph.retrieval.provenance import provenance


def hits(start: int, count: int) -> list[NodeWithScore]:
    """Return `count` nodes with scores and 800 characters each; their ids begin at number `start`."""
    return [
        NodeWithScore(node=TextNode(id_=f"passage-{i}", text=f"{i} {TEXT}"), score=1.0 - (i - start) / 3000)
        for i in range(start, start + count)
    ]


class Fixed(BaseRetriever):
    """A retriever that returns fixed nodes."""

    def __init__(self, answer: list[NodeWithScore], seconds: float = 0.0) -> None:
        super().__init__()
        self.answer = answer
        self.seconds = seconds

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self.seconds:
            time.sleep(self.seconds)
        return self.answer


class AsyncFixed(Fixed):
    """A retriever that returns fixed nodes, with its own asynchronous search."""

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self.answer


def ours_over(legs: list[BaseRetriever]) -> BaseRetriever:
    """Create phasegraph's retriever over the retrievers `legs`, with its defaults."""
    return CalibratedFusionRetriever(retrievers={"first": legs[0], "second": legs[1]})


def theirs_over(legs: list[BaseRetriever], *, use_async: bool = False) -> QueryFusionRetriever:
    """Create a QueryFusionRetriever over the retrievers `legs`: reciprocal rank fusion, one query, no model."""
    mode: str = "reciprocal_rerank"
    return QueryFusionRetriever(
        legs, llm=MockLLM(), mode=mode, similarity_top_k=10, num_queries=1, use_async=use_async  # type: ignore[arg-type]
    )  # fmt: skip


def retrieve_ratios() -> None:
    """Print the ratios of phasegraph to QueryFusionRetriever for whole calls, synchronous and asynchronous."""
    for name, kind, seconds, rounds, bar in (
        ("retrieve, two no-op sources of 50", Fixed, 0.0, 300, 1.2),
        ("retrieve, two sources of 5 ms", Fixed, 0.005, 60, None),
        ("aretrieve, two no-op sources of 50", AsyncFixed, 0.0, 300, None),
    ):
        ours, theirs, plain = (
            fuse([kind(hits(0, 50), seconds), kind(hits(25, 50), seconds)])  # its own: one of them writes into the hits
            for fuse in (ours_over, lambda legs: theirs_over(legs, use_async=True), theirs_over)
        )
        if name.startswith("aretrieve"):
            found = asyncio.run(interleaved_async([partial(one.aretrieve, "query") for one in (ours, theirs)], rounds))
        else:
            jobs: list[Callable[[], object]] = [partial(one.retrieve, "query") for one in (ours, theirs, plain)]
            if not seconds:
                busy = interleaved(jobs, rounds, time.process_time)
                report(f"{name}, processor time", busy[0], busy[1], bar)
            found = interleaved(jobs, rounds)
        report(name, found[0], found[1], bar)
        if len(found) > 2:
            report(f"{name}, use_async=False there", found[0], found[2])


def fusing_ratios() -> None:
    """Print the ratios for fusion alone: converting nodes to rankings, and `decide` with evidence.

    The lists have 200 and 2000 hits.
    """
    lists = [hits(0, 200), hits(100, 2000)]
    fusion = theirs_over([Fixed([]), Fixed([])])
    readers = [reader_of(name, HitFields(higher_is_better=True)) for name in ("first", "second")]
    pipeline = FusionPipeline()

    def build() -> list[object]:
        return [ranking_of(reader, given, None, []) for reader, given in zip(readers, lists, strict=True)]

    def decide(rankings: list[object]) -> object:
        return provenance(pipeline.decide(rankings, Context()))  # type: ignore[arg-type]

    ready = build()
    times = interleaved(
        [
            lambda: decide(ready),
            lambda: decide(build()),
            lambda: fusion._reciprocal_rerank_fusion({("q", i): list(given) for i, given in enumerate(lists)}),
        ],
        60,
    )
    report("decide with provenance, 200 + 2000", times[0], times[2], 0.05)
    report("rankings from nodes and decide, 200 + 2000", times[1], times[2])


if __name__ == "__main__":
    print(f"{'':52s} {'phasegraph':>12s}  {'QueryFusion':>12s}")
    retrieve_ratios()
    fusing_ratios()
