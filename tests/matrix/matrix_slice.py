"""A slice of the bundled questions: a hundred real passages with their vectors, triples and two tenants."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import TextNode

FOLDER = Path(__file__).parents[2] / "data" / "musique-openie"
PASSAGES, QUESTIONS = 100, 6


@dataclass(frozen=True)
class Slice:
    """Passages, questions and their unit vectors.

    Ids are UUIDs made from the bundled ones: Qdrant and LangChain's PGVectorStore take no others.
    """

    rows: tuple[dict[str, str], ...]
    questions: tuple[str, ...]
    vectors: np.ndarray
    queries: np.ndarray
    triples: dict[str, list[tuple[str, str, str]]]

    @cached_property
    def ids(self) -> list[str]:
        return [row["id"] for row in self.rows]

    def cosines(self, question: str) -> dict[str, float]:
        """The exact cosine of every passage with a question."""
        return dict(zip(self.ids, (self.vectors @ self.queries[self.questions.index(question)]).tolist(), strict=True))

    def documents(self) -> list[Document]:
        return [Document(page_content=row["text"], id=row["id"], metadata=metadata(row)) for row in self.rows]

    def nodes(self, *, embedded: bool = True) -> list[TextNode]:
        """With their vectors, or as a graph holds them: what is told of an answer then isn't mostly numbers."""
        return [
            TextNode(
                id_=row["id"], text=row["text"], metadata=metadata(row), embedding=vector.tolist() if embedded else None
            )
            for row, vector in zip(self.rows, self.vectors, strict=True)
        ]

    def of(self, tenant: str) -> Slice:
        """What a tenant would have by itself."""
        kept = [place for place, row in enumerate(self.rows) if row["tenant"] == tenant]
        rows = tuple(self.rows[place] for place in kept)
        triples = {row["id"]: self.triples[row["id"]] for row in rows if row["id"] in self.triples}
        return replace(self, rows=rows, vectors=self.vectors[kept], triples=triples)

    @cached_property
    def looked_up(self) -> dict[str, list[float]]:
        """The vector of every text."""
        texts = [*(row["text"] for row in self.rows), *self.questions]
        return dict(zip(texts, np.vstack([self.vectors, self.queries]).tolist(), strict=True))


def metadata(row: dict[str, str]) -> dict[str, Any]:
    return {"title": row["title"], "tenant": row["tenant"], "chunk_id": row["id"]}


@lru_cache(maxsize=1)
def real_slice() -> Slice:
    """The passages that answer the first questions, and the first others."""
    questions = lines("queries.jsonl")[:QUESTIONS]
    wanted = {hop for question in questions for hop in question["hops"]}
    corpus = lines("corpus.jsonl")
    others = [row["id"] for row in corpus if row["id"] not in wanted][: PASSAGES - len(wanted)]
    places = [place for place, row in enumerate(corpus) if row["id"] in wanted or row["id"] in set(others)]
    names = {corpus[place]["id"]: as_uuid(corpus[place]["id"]) for place in places}
    rows = tuple(
        {**corpus[place], "id": names[corpus[place]["id"]], "tenant": "red" if number % 2 else "blue"}
        for number, place in enumerate(places)
    )
    triples = {
        names[row["id"]]: [tuple(triple) for triple in row["triples"] if len(triple) == 3]
        for row in lines("triples.jsonl")
        if row["id"] in names
    }
    vectors = unit(np.load(FOLDER / "passages.f16.npy")[places])
    queries = unit(np.load(FOLDER / "queries.f16.npy")[:QUESTIONS])
    return Slice(rows, tuple(question["question"] for question in questions), vectors, queries, triples)


def as_uuid(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, name))


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def unit(vectors: np.ndarray) -> np.ndarray:
    wide = vectors.astype(np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


class LangChainVectors(Embeddings):
    """The bundled vectors as LangChain embeddings; other texts get one of their own."""

    def __init__(self, data: Slice) -> None:
        self.data = data

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.data.looked_up.get(text) or made_up(text)


class LlamaIndexVectors(BaseEmbedding):
    """The same for LlamaIndex."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return real_slice().looked_up.get(text) or made_up(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def made_up(text: str) -> list[float]:
    """A vector for a text that has none: the mean of its words', each drawn by the word."""
    words = text.lower().split() or [""]
    total = np.sum([np.random.default_rng(list(word.encode())).normal(size=384) for word in words], axis=0)
    return (total / np.linalg.norm(total)).tolist()
