"""LangChain's vector stores, each filled with the slice."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from matrix_rows import DROPPED, REBUILT, RESCORED, SELECTED, TESTED, Opened, Row
from matrix_servers import Servers, need
from matrix_slice import LangChainVectors, Slice

KEYS = ("_id", "id", "pk", "chunk_id")


def opened(store: VectorStore, data: Slice, close: Callable[[], object] = lambda: None) -> Opened:
    """A store through its own score search."""
    count = len(data.rows)

    def function(question: str, k: int = count) -> list[tuple[Document, float]]:
        return store.similarity_search_with_score(question, k=k)

    def relevance(question: str) -> list[float]:
        return [float(score) for _, score in store.similarity_search_with_relevance_scores(question, k=count)]

    def own(question: str, k: int) -> list[tuple[str, float | None]]:
        return [(identity(found)[1], float(score)) for found, score in function(question, k)]

    where = identity(function(data.questions[0])[0][0])[0]
    return Opened(store, own, function, relevance, identity=where, close=close)


def identity(document: Document) -> tuple[str, str]:
    """Where a hit's id is, and the id."""
    if document.id is not None:
        return "`Document.id`", document.id
    key = next(key for key in KEYS if key in document.metadata)
    own = "" if key in ("_id", "id") else ", which you must write, because the store returns no id"
    return f"metadata `{key}`{own}", str(document.metadata[key])


def in_memory(data: Slice, servers: Servers) -> Opened:
    store = InMemoryVectorStore(LangChainVectors(data))
    store.add_documents(data.documents())
    return opened(store, data)


def faiss(strategy: str) -> Callable[[Slice, Servers], Opened]:
    def build(data: Slice, servers: Servers) -> Opened:
        need("faiss", "langchain_community")
        from langchain_community.vectorstores import FAISS
        from langchain_community.vectorstores.utils import DistanceStrategy

        strategies = {"distance_strategy": DistanceStrategy(strategy)}
        return opened(FAISS.from_documents(data.documents(), LangChainVectors(data), ids=data.ids, **strategies), data)

    return build


def chroma(space: str) -> Callable[[Slice, Servers], Opened]:
    def build(data: Slice, servers: Servers) -> Opened:
        need("langchain_chroma")
        from langchain_chroma import Chroma

        settings: dict[str, Any] = {"collection_configuration": {"hnsw": {"space": space, "ef_search": 400}}}
        store = Chroma(f"m{uuid.uuid4().hex}", LangChainVectors(data), **settings)
        store.add_documents(data.documents())
        return opened(store, data, store.delete_collection)

    return build


def qdrant(distance: str) -> Callable[[Slice, Servers], Opened]:
    def build(data: Slice, servers: Servers) -> Opened:
        need("langchain_qdrant")
        from langchain_qdrant import QdrantVectorStore
        from qdrant_client import QdrantClient
        from qdrant_client.models import Distance, VectorParams

        client = QdrantClient(":memory:")
        metric = Distance(distance)
        client.create_collection("m", vectors_config=VectorParams(size=data.vectors.shape[1], distance=metric))
        store = QdrantVectorStore(client, "m", LangChainVectors(data), distance=metric)
        store.add_documents(data.documents(), ids=data.ids)
        return opened(store, data, client.close)

    return build


def pgvector(strategy: str) -> Callable[[Slice, Servers], Opened]:
    def build(data: Slice, servers: Servers) -> Opened:
        need("langchain_postgres")
        from langchain_postgres import PGVector
        from langchain_postgres.vectorstores import DistanceStrategy

        store = PGVector(
            LangChainVectors(data),
            connection=f"postgresql+psycopg{servers.postgres}",
            collection_name=f"m{uuid.uuid4().hex}",
            distance_strategy=DistanceStrategy(strategy),
        )
        store.add_documents(data.documents(), ids=data.ids)
        return opened(store, data, store.delete_collection)

    return build


def pgvector_store(strategy: str) -> Callable[[Slice, Servers], Opened]:
    def build(data: Slice, servers: Servers) -> Opened:
        need("langchain_postgres")
        from langchain_postgres import PGEngine, PGVectorStore
        from langchain_postgres.v2.indexes import DistanceStrategy

        engine = PGEngine.from_connection_string(f"postgresql+asyncpg{servers.postgres}")
        table = f"m{uuid.uuid4().hex}"
        engine.init_vectorstore_table(table, data.vectors.shape[1])
        store = PGVectorStore.create_sync(
            engine, LangChainVectors(data), table, distance_strategy=DistanceStrategy[strategy]
        )
        store.add_documents(data.documents(), ids=data.ids)
        return opened(store, data)

    return build


def lancedb(distance: str) -> Callable[[Slice, Servers], Opened]:
    def build(data: Slice, servers: Servers) -> Opened:
        need("lancedb", "langchain_community")
        import tempfile

        from langchain_community.vectorstores import LanceDB

        folder = tempfile.TemporaryDirectory(prefix="phasegraph-lance-")
        vectors = LangChainVectors(data)
        store = LanceDB(uri=folder.name, embedding=vectors, table_name="m", distance=distance)
        store.add_documents(data.documents(), ids=data.ids)
        return opened(store, data, folder.cleanup)

    return build


@dataclass(frozen=True)
class Names:
    """What a slice is called in Neo4j."""

    label: str
    index: str
    words: str = "matrix_words"


CHUNKS = Names("MatrixChunk", "matrix_chunks")


def in_neo4j(names: Names, data: Slice, servers: Servers, **settings: Any) -> tuple[Any, Callable[[], object]]:
    """The slice in a vector store of Neo4j, and how to remove it."""
    need("langchain_neo4j")
    from langchain_neo4j import Neo4jVector

    uri, user, password = servers.neo4j
    shared: dict[str, Any] = {"url": uri, "username": user, "password": password, **settings}
    named = {"node_label": names.label, "index_name": names.index}
    store = Neo4jVector.from_documents(data.documents(), LangChainVectors(data), ids=data.ids, **named, **shared)

    def close() -> None:
        for index in (names.index, names.words):
            store.query(f"DROP INDEX {index} IF EXISTS")
        store.query(f"MATCH (n:{names.label}) DETACH DELETE n")
        store._driver.close()

    return store, close


def neo4j_vector(strategy: str) -> Callable[[Slice, Servers], Opened]:
    def build(data: Slice, servers: Servers) -> Opened:
        need("langchain_neo4j")
        from langchain_neo4j.vectorstores.utils import DistanceStrategy

        names = Names(f"Matrix{strategy}", f"matrix_{strategy.lower()}")
        store, close = in_neo4j(names, data, servers, distance_strategy=DistanceStrategy(strategy))
        return opened(store, data, close)

    return build


def chunks_in_neo4j(data: Slice, servers: Servers) -> Callable[[], object]:
    """The slice under a vector index and a full-text index; returns how to remove them."""
    return in_neo4j(CHUNKS, data, servers, keyword_index_name=CHUNKS.words, search_type="hybrid")[1]


def bm25(data: Slice, servers: Servers) -> Opened:
    need("rank_bm25", "langchain_community")
    from langchain_community.retrievers import BM25Retriever

    retriever = BM25Retriever.from_documents(data.documents(), k=len(data.rows))

    def own(question: str, k: int) -> list[tuple[str, float | None]]:
        return [(str(found.id), None) for found in retriever.invoke(question)[:k]]

    return Opened(retriever, own, identity="`Document.id`")


LANGCHAIN = (
    Row("LangChain", "InMemoryVectorStore", "cosine", "higher", in_memory, filtered=TESTED),
    Row("LangChain", "FAISS, L2", "squared distance", "lower", faiss("EUCLIDEAN_DISTANCE"), filtered=SELECTED),
    Row("LangChain", "FAISS, inner product", "inner product", "higher", faiss("MAX_INNER_PRODUCT"), filtered=SELECTED),
    Row("LangChain", "FAISS, cosine", "squared distance", "lower", faiss("COSINE"), filtered=SELECTED),
    Row("LangChain", "Chroma, l2", "squared distance", "lower", chroma("l2")),
    Row("LangChain", "Chroma, cosine", "1 − cosine", "lower", chroma("cosine")),
    Row("LangChain", "Chroma, ip", "1 − inner product", "lower", chroma("ip")),
    Row("LangChain", "Qdrant, cosine", "cosine", "higher", qdrant("Cosine")),
    Row("LangChain", "Qdrant, dot", "inner product", "higher", qdrant("Dot")),
    Row("LangChain", "Qdrant, euclid", "distance", "lower", qdrant("Euclid")),
    Row("LangChain", "PGVector, cosine", "1 − cosine", "lower", pgvector("cosine")),
    Row("LangChain", "PGVector, euclidean", "distance", "lower", pgvector("l2")),
    Row("LangChain", "PGVector, inner product", "− inner product", "lower", pgvector("inner")),
    Row("LangChain", "PGVectorStore, cosine", "1 − cosine", "lower", pgvector_store("COSINE_DISTANCE")),
    Row("LangChain", "PGVectorStore, euclidean", "distance", "lower", pgvector_store("EUCLIDEAN")),
    Row("LangChain", "PGVectorStore, inner product", "inner product", "higher", pgvector_store("INNER_PRODUCT")),
    Row("LangChain", "LanceDB, l2", "squared distance", "lower", lancedb("l2"), filtered=DROPPED),
    Row("LangChain", 'LanceDB, `distance="cosine"`', "squared distance", "lower", lancedb("cosine"), filtered=DROPPED),
    Row(
        "LangChain",
        "Neo4jVector, cosine",
        "(1 + cosine) / 2",
        "higher",
        neo4j_vector("COSINE"),
        tolerance=0.05,
        neo4j=True,
    ),
    Row(
        "LangChain",
        "Neo4jVector, euclidean",
        "1 / (1 + squared distance)",
        "higher",
        neo4j_vector("EUCLIDEAN_DISTANCE"),
        tolerance=0.05,
        neo4j=True,
        filtered=RESCORED,
    ),
    Row("LangChain", "BM25Retriever", "none", "ranks only", bm25, exact=False, filtered=REBUILT),
)
