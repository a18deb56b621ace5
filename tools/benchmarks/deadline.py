"""Measure by how much calls exceed their deadline while one of their steps is slow.

python tools/benchmarks/deadline.py [--calls 20] [--timeout 0.2] [--edges 2500000]

Every step is made to take seconds, one at a time, and both frameworks are called synchronously and asynchronously. A
plain timer in a separate process measures how late this machine is at the same time. The timer is in a separate process
because a library that blocks this process's interpreter must not count as a delay of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import multiprocessing
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from queue import Empty
from typing import Any

warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
from langchain_core.documents import Document  # noqa: E402
from langchain_core.embeddings import Embeddings  # noqa: E402
from langchain_core.vectorstores import InMemoryVectorStore  # noqa: E402
from llama_index.core.base.embeddings.base import BaseEmbedding  # noqa: E402
from llama_index.core.retrievers import BaseRetriever  # noqa: E402
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode  # noqa: E402
from scipy import sparse  # noqa: E402

import langchain_phasegraph as of_langchain  # noqa: E402
from llama_index.retrievers import phasegraph as of_llama_index  # noqa: E402
from phasegraph import AllSourcesFailed, FusionPipeline  # noqa: E402
from phasegraph.acceptance import AcceptancePolicy  # noqa: E402
from phasegraph.graph import EntityGraph  # noqa: E402
from phasegraph.retrieval import HitFields, SourceSpec  # noqa: E402
from phasegraph.selection import SelectionPolicy  # noqa: E402
from phasegraph.sources.workers import pool  # noqa: E402

SECONDS = 2.0


@dataclass
class Slow:
    """A function that waits for some seconds; it is used as an embedding model, a prior, a correction or a source."""

    free: threading.Event = field(default_factory=threading.Event)
    additive = False

    def __call__(self, *_: Any) -> Any:
        self.free.wait(SECONDS)
        return []

    def vector(self, _: str) -> list[float]:
        self.free.wait(SECONDS)
        return [1.0, 0.0]

    def weigh(self, ids: Any, _: Any) -> Any:
        self.free.wait(SECONDS)
        return np.ones(len(ids)), ()

    def to_dict(self) -> dict[str, object]:
        return {"name": "slow"}


class LangChainModel(Embeddings):
    def __init__(self, vector: Callable[[str], list[float]]) -> None:
        self.vector = vector

    def embed_query(self, text: str) -> list[float]:
        return self.vector(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.vector(text) for text in texts]


class LlamaIndexModel(BaseEmbedding):
    vector: Any

    def _get_query_embedding(self, query: str) -> list[float]:
        return self.vector(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self.vector(text)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self.vector(query)


class Embedding(BaseRetriever):
    """A LlamaIndex retriever that returns fixed hits and has an embedding model."""

    def __init__(self, hits: list[Any], model: Any) -> None:
        super().__init__()
        self.hits, self._embed_model = hits, model

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=node, score=score) for node, score in self.hits]


class LangChain:
    """What the measurement needs of LangChain: documents, retrievers and calls."""

    package = of_langchain
    retriever = of_langchain.PhaseGraphRetriever

    def document(self, name: str, text: str) -> Any:
        return Document(text, id=name)

    def embedding(self, hits: list[Any], vector: Callable[[str], list[float]]) -> dict[str, Any]:
        store = InMemoryVectorStore(LangChainModel(vector))
        return {"retrievers": {"one": lambda query: hits, "store": store}, "weights": {"one": 1, "store": 0}}

    def over(self, graph: Any, documents: Any) -> Any:
        return of_langchain.EntityGraphRetriever(graph=graph, documents=documents)

    def ask(self, retriever: Any, query: str) -> Any:
        return retriever.invoke(query)

    async def aask(self, retriever: Any, query: str) -> Any:
        return await retriever.ainvoke(query)


class LlamaIndex:
    """What the measurement needs of LlamaIndex: nodes, retrievers and calls."""

    package = of_llama_index
    retriever = of_llama_index.CalibratedFusionRetriever

    def document(self, name: str, text: str) -> Any:
        return TextNode(id_=name, text=text)

    def embedding(self, hits: list[Any], vector: Callable[[str], list[float]]) -> dict[str, Any]:
        return {"vector": Embedding(hits, LlamaIndexModel(vector=vector))}

    def over(self, graph: Any, documents: Any) -> Any:
        return of_llama_index.EntityGraphRetriever(graph, documents)

    def ask(self, retriever: Any, query: str) -> Any:
        return retriever.retrieve(query)

    async def aask(self, retriever: Any, query: str) -> Any:
        return await retriever.aretrieve(query)


def hits_of(framework: Any, count: int, text: str = "text") -> list[Any]:
    """Return pairs of a framework's document and its score, by descending score."""
    return [(framework.document(f"p{n}", f"{text} {n}"), float(count - n)) for n in range(count)]


def large_graph(edges: int) -> EntityGraph:
    """Build a random graph with `edges` directed edges between passages and entities."""
    passages, entities, rng = edges // 25, edges // 40, np.random.default_rng(0)
    rows = np.repeat(np.arange(passages), 13)
    columns = (rng.random(len(rows)) ** 2 * entities).astype(np.int64)
    mentions = sparse.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(passages, entities))
    mentions.sum_duplicates()
    homes = sparse.csr_array(
        (np.ones(min(passages, entities), np.float32), (np.arange(min(passages, entities)),) * 2),
        shape=(passages, entities),
    )
    none = sparse.csr_array((entities, entities), dtype=np.float32)
    names = tuple(f"name {n:07}" for n in range(entities))
    ids = tuple(f"p{n}" for n in range(passages))
    return EntityGraph(ids, names, mentions, homes, none, none)


def stages(framework: Any, timeout: float, edges: int) -> Mapping[str, tuple[Any, Slow, int]]:
    """Return the measured cases by name: a retriever, its slow part, and the number of calls that are made at most."""
    five, far = hits_of(framework, 5), Slow()

    def made(**arguments: Any) -> Any:
        given = {"retrievers": {"one": lambda query: five}, "timeout": timeout, **arguments}
        return framework.retriever(**given)

    def one(found: Any, **fields: Any) -> SourceSpec:
        return SourceSpec(retriever=lambda query: found, fetch_k=fields.pop("fetch_k", 50), fields=HitFields(**fields))

    many = hits_of(framework, 200)
    rng = np.random.default_rng(0)
    vectors = {f"text {n}": rng.normal(size=64).tolist() for n in range(200)}

    def embedded(text: str) -> list[float]:
        return vectors.get(text, [1.0] * 64)

    document = framework.document("x", "text")
    million = [(document, float(-row)) for row in range(1_000_000)]
    names = iter(())

    def numbered(_: Any) -> str:
        nonlocal names
        found = next(names, None)
        if found is None:
            names = map("p{}".format, range(1_000_000))
            found = next(names)
        return found

    long = hits_of(framework, 20, "Marks " + 60_000 * "e\u0301\u0316")
    graph = framework.over(large_graph(edges), lambda ids: {name: framework.document(name, name) for name in ids})
    return {
        "a source that hangs": (made(retrievers={"one": lambda query: five, "slow": far}), far, 1_000),
        "embeddings for a selection": (
            framework.retriever(**framework.embedding(five, far.vector), selection="mmr", timeout=timeout), far, 1_000,
        ),
        "selection of 200 by von_neumann": (
            framework.retriever(
                **framework.embedding(many, embedded), fetch_k=None, k=200, timeout=timeout,
                selection=SelectionPolicy("von_neumann", penalty=0.01),
            ), far, 3,
        ),
        "selection by legacy_entropy, k 1,000 of 9,000": (
            made(
                retrievers={"one": one(hits_of(framework, 9_000), fetch_k=None)}, k=1_000, fetch_k=None,
                selection="legacy_entropy",
            ), far, 3,
        ),
        "a prior": (made(pipeline=FusionPipeline(priors=(far,))), far, 1_000),
        "correction (on_empty)": (made(accept=AcceptancePolicy({"one": 9.0}, on_empty=far)), far, 1_000),
        "resolve": (made(retrievers={"one": lambda query: five, "far": one(five, resolve=far)}), far, 1_000),
        "a million hits, limit 50": (
            made(retrievers={"one": lambda query: five, "many": one(million, id=numbered)}), far, 3,
        ),
        "a million hits, no limit": (
            made(retrievers={"one": lambda query: five, "many": one(million, id=numbered, fetch_k=None)}, fetch_k=None),
            far, 3,
        ),
        "two sources of 9,000": (
            made(
                retrievers={name: one(hits_of(framework, 9_000), fetch_k=None) for name in ("one", "two")},
                fetch_k=None,
                pipeline=FusionPipeline(priors=(far,)),
            ), far, 10,
        ),
        "texts of 180,000 marks without ids": (
            made(retrievers={"one": lambda query: [(framework.document(None, text), score) for text, score in [
                (hit.text if hasattr(hit, "text") else hit.page_content, score) for hit, score in long]]}), far, 3,
        ),
        f"the first evidence over {edges:,} edges": (made(retrievers={"graph": graph}, evidence_key="why"), far, 1),
    }  # fmt: skip


def tick(over: Event, late: Any) -> None:
    """Wait 2 ms again and again; if a wait takes more than 4 ms, put its end and its delay in seconds into `late`."""
    while not over.is_set():
        before = time.monotonic()
        time.sleep(0.002)
        now = time.monotonic()
        if now - before > 0.004:
            late.put((now, now - before - 0.002))


def main() -> None:
    """Measure both frameworks with every slow step, and print by how much their calls exceed the deadline."""
    logging.getLogger("phasegraph").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--timeout", type=float, default=0.2)
    parser.add_argument("--edges", type=int, default=2_500_000)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    spawning = multiprocessing.get_context("spawn")
    over, queue = spawning.Event(), spawning.Queue()
    timer = spawning.Process(target=tick, args=(over, queue), daemon=True)
    timer.start()
    time.sleep(1.0)
    print("ms over the deadline     |      call            |      await           | stall beside")
    print(f"{'':48}|  p50    p99  worst   |  p50    p99  worst   | worst")
    for framework in (LangChain(), LlamaIndex()):
        made = stages(framework, given.timeout, given.edges)
        gc.collect()
        gc.freeze()  # no collection searches what the measurement itself holds: millions of objects
        for name, (retriever, slow, most) in made.items():
            if given.only in name:
                told = [
                    measured(framework, retriever, slow, min(given.calls, most), given.timeout, way) for way in (0, 1)
                ]
                shown = " | ".join("{:6.1f} {:6.1f} {:6.1f}".format(*np.percentile(one, (50, 99, 100))) for one in told)
                stall = 0.0
                while True:
                    try:
                        stall = max(stall, queue.get(timeout=0.05)[1])
                    except Empty:
                        break
                print(f"{type(framework).__name__:11}{name[:45]:46} | {shown} | {stall * 1e3:6.1f}", flush=True)
            gc.collect()
    over.set()
    sys.exit(0)


def measured(framework: Any, retriever: Any, slow: Slow, calls: int, timeout: float, awaited: int) -> list[float]:
    """Return by how many milliseconds each of `calls` consecutive calls exceeds the deadline.

    `awaited` chooses asynchronous calls.
    """
    found = []
    slow.free.clear()
    for number in range(calls):
        query = f"Who met name {number:07}?"
        if awaited:

            async def ask(query: str = query) -> float:
                began = time.monotonic()
                with suppress(AllSourcesFailed):
                    await framework.aask(retriever, query)
                seconds = time.monotonic() - began
                slow.free.set()  # asyncio.run waits for the default executor
                return seconds

            seconds = asyncio.run(ask())
            slow.free.clear()
        else:
            began = time.monotonic()
            with suppress(AllSourcesFailed):
                framework.ask(retriever, query)
            seconds = time.monotonic() - began
        found.append(max(0.0, seconds - timeout) * 1e3)
    slow.free.set()
    until = time.monotonic() + 30.0
    while pool().outstanding and time.monotonic() < until:
        time.sleep(0.05)
    return found


if __name__ == "__main__":
    main()
