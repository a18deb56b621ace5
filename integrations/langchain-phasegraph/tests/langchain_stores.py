"""Test helpers: LangChain stores with the same nine passages, and small retrievers."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

VECTORS = {f"p{i}": (1.0 - i / 10, (i / 10) * (-1) ** i) for i in range(9)}
ORDER = tuple(VECTORS)


class Fixed(Embeddings):
    """An embedding model that gives a text the vector of the passage it names last; queries are nearest to p0."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        x, y = VECTORS.get(text.split()[-1], (1.0, 0.02))
        length = (x * x + y * y) ** 0.5
        return [x / length, y / length]


def passages() -> list[Document]:
    return [Document(page_content=f"text of {name}", id=name, metadata={"page": i}) for i, name in enumerate(ORDER)]


def in_memory() -> VectorStore:
    store = InMemoryVectorStore(Fixed())
    store.add_documents(passages())
    return store


def faiss(strategy: str) -> VectorStore:
    from langchain_community.vectorstores import FAISS
    from langchain_community.vectorstores.utils import DistanceStrategy

    documents = passages()
    return FAISS.from_documents(
        documents, Fixed(), ids=[str(d.id) for d in documents], distance_strategy=DistanceStrategy(strategy)
    )


def chroma(space: str) -> VectorStore:
    from langchain_chroma import Chroma

    store = Chroma(f"c{uuid.uuid4().hex}", Fixed(), collection_configuration={"hnsw": {"space": space}})
    store.add_documents(passages())
    return store


STORES: dict[str, Callable[[], VectorStore]] = {
    "InMemory": in_memory,
    "FAISS L2": lambda: faiss("EUCLIDEAN_DISTANCE"),
    "FAISS IP": lambda: faiss("MAX_INNER_PRODUCT"),
    "FAISS cosine": lambda: faiss("COSINE"),
    "Chroma l2": lambda: chroma("l2"),
    "Chroma cosine": lambda: chroma("cosine"),
    "Chroma ip": lambda: chroma("ip"),
}


class Listed(BaseRetriever):
    """A retriever that returns `answer`, calls it if it is a function, or raises it if it is an error."""

    answer: Any

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer() if callable(self.answer) else self.answer


def listed(*ids: str, **metadata: Any) -> Listed:
    return Listed(answer=[Document(page_content=f"text of {i}", id=i, metadata=dict(metadata)) for i in ids])


def pairs(**scores: float) -> list[tuple[Document, float]]:
    return [(Document(page_content=f"text of {i}", id=i), score) for i, score in scores.items()]


def ids_of(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]
