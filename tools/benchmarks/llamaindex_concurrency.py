"""Measure 50 concurrent calls of `aretrieve` over LlamaIndex's in-memory store, whose search blocks the interpreter.

    python tools/benchmarks/llamaindex_concurrency.py [--passages 11545] [--calls 50] [--rounds 5]

In each round, three retrievers take turns: the plain retriever, phasegraph over it, and phasegraph over it and an
entity graph. The program prints total seconds, and the median ratio to the plain retriever in the same round. It also
prints the number of answers without all sources, and the longest time for which the event loop was blocked.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import time
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import TextNode

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever
from phasegraph import Result

DIMENSIONS = 384


class Drawn(BaseEmbedding):
    """An embedding model that draws a vector from the length and first letters of a text; it takes almost no time."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return np.random.default_rng(len(text)).normal(size=DIMENSIONS).tolist()

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class Total(NamedTuple):
    """The seconds of all calls, and the longest time for which the event loop did nothing else."""

    seconds: float
    stall: float


async def at_once(retriever: BaseRetriever, questions: Sequence[str]) -> Total:
    """Ask all questions at once on the running event loop, and return the times."""
    longest, last = 0.0, time.perf_counter()

    async def tick() -> None:
        nonlocal longest, last
        while True:
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.perf_counter() - last - 0.005), time.perf_counter()

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    begun = last = time.perf_counter()
    await asyncio.gather(*(retriever.aretrieve(question) for question in questions))
    seconds = time.perf_counter() - begun
    await asyncio.sleep(0.01)
    ticking.cancel()
    return Total(seconds, longest)


def retrievers(passages: int, answers: list[Result]) -> dict[str, Any]:
    """Return, by name, the plain retriever and two of phasegraph; these append their results to `answers`."""
    vectors = np.random.default_rng(0).normal(size=(passages, DIMENSIONS))
    names = [f"Name{row}" for row in range(passages // 3 + 1)]
    nodes = [
        TextNode(
            id_=f"p{row}",
            text=f"{names[row % len(names)]} met {names[row * 7 % len(names)]} in the town of {row} things.",
            embedding=vector.tolist(),
            metadata={"title": names[row % len(names)]},
        )
        for row, vector in enumerate(vectors)
    ]
    index = VectorStoreIndex(nodes, embed_model=Drawn())
    plain = index.as_retriever(similarity_top_k=50)
    graph = EntityGraphRetriever.from_nodes(nodes)
    return {
        "plain": plain,
        "fused": CalibratedFusionRetriever(vector=plain, on_result=answers.append),
        "fused with a graph": CalibratedFusionRetriever(vector=plain, graph=graph, on_result=answers.append),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("passages", 11_545), ("calls", 50), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("phasegraph").setLevel(logging.ERROR)
    answers: list[Result] = []
    made = retrievers(given.passages, answers)
    questions = [f"What did Name{row} do with Name{row + 9}?" for row in range(given.calls)]
    found: dict[str, list[Total]] = {name: [] for name in made}
    degraded = dict.fromkeys(made, 0)
    for _ in range(given.rounds):
        for name, retriever in made.items():
            answers.clear()
            found[name].append(asyncio.run(at_once(retriever, questions)))
            degraded[name] += sum(result.degraded for result in answers)
    print(f"{given.calls} calls at once, {given.passages} passages, {given.rounds} rounds")
    for name, totals in found.items():
        ratio = statistics.median(
            one.seconds / other.seconds for one, other in zip(totals, found["plain"], strict=True)
        )
        print(
            f"{name:20s} {statistics.median(one.seconds for one in totals):6.2f} s  ratio {ratio:5.2f} (at most 1.2)  "
            f"degraded {degraded[name]}  longest stall {max(one.stall for one in totals):5.2f} s"
        )


if __name__ == "__main__":
    main()
