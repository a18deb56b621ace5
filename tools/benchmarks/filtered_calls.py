"""Measure the cost of a repeated call with a filter, as a ratio to the same call without a filter.

    python tools/benchmarks/filtered_calls.py [--passages 100000] [--calls 30]

The vectors are in a store of the framework, an entity graph covers the same passages, and both are fused. One filter
matches half of the passages, another filter 1 % of them. The first call with a filter is listed separately, because it
builds data that later calls reuse.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

warnings.filterwarnings("ignore", category=DeprecationWarning)

import faiss  # noqa: E402
import numpy as np  # noqa: E402
from langchain_community.docstore.in_memory import InMemoryDocstore  # noqa: E402
from langchain_community.vectorstores import FAISS  # noqa: E402
from langchain_core.documents import Document  # noqa: E402
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings  # noqa: E402
from langchain_core.vectorstores import InMemoryVectorStore  # noqa: E402
from llama_index.core import StorageContext, VectorStoreIndex  # noqa: E402
from llama_index.core.embeddings import BaseEmbedding  # noqa: E402
from llama_index.core.schema import TextNode  # noqa: E402
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters  # noqa: E402
from llama_index.vector_stores.faiss import FaissVectorStore  # noqa: E402

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever  # noqa: E402
from llama_index.retrievers.phasegraph import CalibratedFusionRetriever  # noqa: E402
from llama_index.retrievers.phasegraph import EntityGraphRetriever as EntityGraphRetrieverOfNodes  # noqa: E402
from phasegraph.graph import EntityGraph, build_graph  # noqa: E402

SIZE, WORDS, NAMES = 64, 40, 30_000
EMBEDDINGS = DeterministicFakeEmbedding(size=SIZE)
QUESTIONS = [f"Where did Person{one} meet Person{one * 7 % NAMES} in w{one}?" for one in range(1, 200)]


class Looked(BaseEmbedding):
    """An embedding model for LlamaIndex that embeds texts and queries as `EMBEDDINGS` does."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return EMBEDDINGS.embed_query(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        return EMBEDDINGS.embed_query(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return EMBEDDINGS.embed_query(query)


class Given(Embeddings):
    """A LangChain embedding model that looks up given vectors of documents, and embeds queries as `EMBEDDINGS` does."""

    def __init__(self, documents: list[Document], vectors: np.ndarray) -> None:
        self._by_text = {one.page_content: row for row, one in enumerate(documents)}
        self._vectors = vectors

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the given vectors of the texts."""
        return [self._vectors[self._by_text[text]].tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector that `EMBEDDINGS` computes for a query."""
        return EMBEDDINGS.embed_query(text)


def corpus(count: int) -> tuple[list[dict[str, str]], list[dict[str, object]], np.ndarray]:
    """Return made-up passages, their metadata and their vectors.

    The words follow Zipf's law, and each passage has four names.
    """
    rng = np.random.default_rng(0)
    words = np.minimum(rng.zipf(1.3, (count, WORDS)), 20_000)
    people = rng.integers(0, NAMES, (count, 4))
    rows = [
        {
            "id": f"p{row}",
            "title": f"Person{people[row, 0]}",
            "text": " ".join([f"w{word}" for word in words[row]] + [f"and Person{one} met" for one in people[row]]),
        }
        for row in range(count)
    ]
    metadata = [{"lang": ("en", "de")[row % 2], "tenant": row % 100} for row in range(count)]
    vectors = rng.standard_normal((count, SIZE)).astype(np.float32)
    return rows, metadata, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def milliseconds(ask: Callable[[str], object], calls: int) -> tuple[float, float]:
    """Ask different questions; return the milliseconds of the first call, and the median of the other calls."""
    taken = []
    for question in QUESTIONS[: calls + 1]:
        begun = time.perf_counter()
        ask(question)
        taken.append(1000 * (time.perf_counter() - begun))
    return taken[0], statistics.median(taken[1:])


def langchain(
    graph: EntityGraph, rows: list[dict[str, str]], metadata: list[dict[str, object]], vectors: np.ndarray
) -> dict[str, Callable[[dict[str, object] | None], Callable[[str], object]]]:
    """Return, by store, a function from a filter (or None) to a function that asks a question with this filter."""
    documents = [
        Document(one["text"], id=one["id"], metadata=dict(also)) for one, also in zip(rows, metadata, strict=True)
    ]
    index = faiss.IndexFlatIP(SIZE)
    index.add(vectors)
    held = InMemoryDocstore({str(one.id): one for one in documents})
    memory = InMemoryVectorStore(EMBEDDINGS)
    memory.store = {
        row["id"]: {"id": row["id"], "vector": vector, "text": row["text"], "metadata": also}
        for row, also, vector in zip(rows, metadata, vectors.tolist(), strict=True)
    }
    stores = {
        "FAISS": FAISS(EMBEDDINGS, index, held, {row: one["id"] for row, one in enumerate(rows)}),
        "InMemoryVectorStore": memory,
    }
    walk = EntityGraphRetriever(graph=graph, documents={str(one.id): one for one in documents})

    def asking(
        retriever: PhaseGraphRetriever,
    ) -> Callable[[dict[str, object] | None], Callable[[str], object]]:
        return lambda wanted: lambda question: retriever.invoke(question, **({"filter": wanted} if wanted else {}))

    found = {
        f"LangChain, {name}": asking(PhaseGraphRetriever(vector=store, graph=walk, timeout=None))
        for name, store in stores.items()
    }
    folder = Path(tempfile.mkdtemp()) / "folder"
    kept = PhaseGraphRetriever.from_documents(documents, Given(documents, vectors), path=folder, timeout=None)
    return {**found, "LangChain, a folder of from_documents": asking(kept)}


def llama_index(
    graph: EntityGraph, rows: list[dict[str, str]], metadata: list[dict[str, object]], vectors: np.ndarray
) -> dict[str, Callable[[dict[str, object] | None], Callable[[str], object]]]:
    """Return, by store, a function from a filter (or None) to a function that asks a question with this filter."""
    nodes = [
        TextNode(id_=one["id"], text=one["text"], metadata=dict(also), embedding=vector)
        for one, also, vector in zip(rows, metadata, vectors.tolist(), strict=True)
    ]
    stores = {"FaissVectorStore": FaissVectorStore(faiss.IndexFlatIP(SIZE)), "SimpleVectorStore": None}
    walk = EntityGraphRetrieverOfNodes(graph, nodes)

    def asking(store: object) -> Callable[[dict[str, object] | None], Callable[[str], object]]:
        storage = None if store is None else StorageContext.from_defaults(vector_store=store)
        index = VectorStoreIndex(nodes, embed_model=Looked(), storage_context=storage)
        retriever = CalibratedFusionRetriever(vector=index, graph=walk, timeout=None)

        def call(wanted: dict[str, object] | None) -> Callable[[str], object]:
            parts = [MetadataFilter(key=key, value=value) for key, value in (wanted or {}).items()]
            more = {"filters": MetadataFilters(filters=list(parts))} if parts else {}
            return lambda question: retriever.retrieve(question, **more)

        return call

    return {f"LlamaIndex, {name}": asking(store) for name, store in stores.items()}


def main() -> None:
    """Measure calls with and without filters over every store, and print the milliseconds and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--calls", type=int, default=30)
    given = parser.parse_args()
    rows, metadata, vectors = corpus(given.passages)
    graph = build_graph(rows, embeddings=vectors)
    print(f"{given.passages} passages, {len(graph.entities)} entities, median of {given.calls} calls, milliseconds")
    print(f"{'':34s} {'no filter':>10s} {'filter':>16s} {'first':>9s} {'repeated':>9s} {'ratio':>6s}")
    for make in (langchain, llama_index):
        for name, call in make(graph, rows, metadata, vectors).items():
            plain = milliseconds(call(None), given.calls)[1]
            for wanted in ({"lang": "en"}, {"tenant": 7}):
                first, repeated = milliseconds(call(wanted), given.calls)
                shown = ", ".join(f"{key} {value}" for key, value in wanted.items())
                print(f"{name:34s} {plain:10.1f} {shown:>16s} {first:9.0f} {repeated:9.1f} {repeated / plain:6.2f}")


if __name__ == "__main__":
    main()
