"""LlamaIndex's vector stores, each filled with the slice."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable
from typing import Any

from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore
from matrix_rows import REBUILT, RESCORED, SELECTED, Opened, Row
from matrix_servers import Servers, need
from matrix_slice import LlamaIndexVectors, Slice


def opened(store: Any, data: Slice, close: Callable[[], object] = lambda: None) -> Opened:
    """A vector store behind an index, through the index's retriever."""
    storage = None if store is None else StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex(data.nodes(), embed_model=LlamaIndexVectors(), storage_context=storage)
    return through(index.as_retriever(similarity_top_k=len(data.rows)), data, close)


def through(retriever: BaseRetriever, data: Slice, close: Callable[[], object] = lambda: None) -> Opened:
    """Whatever a retriever of the framework returns."""

    def function(question: str, limit: int) -> list[NodeWithScore]:
        asked: Any = copy.copy(retriever)
        asked.similarity_top_k = limit
        return retriever.retrieve(question) if limit >= len(data.rows) else asked.retrieve(question)

    def own(question: str, k: int) -> list[tuple[str, float | None]]:
        return [(hit.node.node_id, hit.score) for hit in function(question, k)]

    return Opened(retriever, own, function, identity="`node_id`", close=close)


def simple(data: Slice, servers: Servers) -> Opened:
    return opened(None, data)


def faiss(kind: str) -> Callable[[Slice, Servers], Opened]:
    def build(data: Slice, servers: Servers) -> Opened:
        need("faiss", "llama_index.vector_stores.faiss")
        import faiss as library
        from llama_index.vector_stores.faiss import FaissVectorStore

        return opened(FaissVectorStore(getattr(library, kind)(data.vectors.shape[1])), data)

    return build


def chroma(space: str) -> Callable[[Slice, Servers], Opened]:
    def build(data: Slice, servers: Servers) -> Opened:
        need("chromadb", "llama_index.vector_stores.chroma")
        import chromadb
        from llama_index.vector_stores.chroma import ChromaVectorStore

        client, name = chromadb.EphemeralClient(), f"m{uuid.uuid4().hex}"
        collection = client.create_collection(name, configuration={"hnsw": {"space": space, "ef_search": 400}})
        return opened(ChromaVectorStore(collection), data, lambda: client.delete_collection(name))

    return build


def qdrant(distance: str) -> Callable[[Slice, Servers], Opened]:
    def build(data: Slice, servers: Servers) -> Opened:
        need("llama_index.vector_stores.qdrant")
        from llama_index.vector_stores.qdrant import QdrantVectorStore
        from qdrant_client import QdrantClient
        from qdrant_client.models import Distance, VectorParams

        client = QdrantClient(":memory:")
        metric = Distance(distance)
        client.create_collection("m", vectors_config=VectorParams(size=data.vectors.shape[1], distance=metric))
        return opened(QdrantVectorStore("m", client=client), data, client.close)

    return build


def postgres(data: Slice, servers: Servers) -> Opened:
    need("llama_index.vector_stores.postgres")
    from llama_index.vector_stores.postgres import PGVectorStore

    store = PGVectorStore(
        connection_string=f"postgresql+psycopg2{servers.postgres}",
        async_connection_string=f"postgresql+asyncpg{servers.postgres}",
        table_name=f"m{uuid.uuid4().hex}",
        schema_name="public",
        embed_dim=data.vectors.shape[1],
    )
    return opened(store, data)


def neo4j_vector(strategy: str) -> Callable[[Slice, Servers], Opened]:
    def build(data: Slice, servers: Servers) -> Opened:
        need("llama_index.vector_stores.neo4jvector")
        from llama_index.vector_stores.neo4jvector import Neo4jVectorStore

        uri, user, password = servers.neo4j
        label, index = f"MatrixLlama{strategy}", f"matrix_llama_{strategy}"
        store = Neo4jVectorStore(
            username=user,
            password=password,
            url=uri,
            embedding_dimension=data.vectors.shape[1],
            index_name=index,
            node_label=label,
            distance_strategy=strategy,
        )

        def close() -> None:
            store.database_query(f"DROP INDEX {index} IF EXISTS")
            store.database_query(f"MATCH (n:{label}) DETACH DELETE n")
            store._driver.close()

        return opened(store, data, close)

    return build


def bm25(data: Slice, servers: Servers) -> Opened:
    need("llama_index.retrievers.bm25")
    from llama_index.retrievers.bm25 import BM25Retriever

    return through(BM25Retriever.from_defaults(nodes=data.nodes(), similarity_top_k=len(data.rows)), data)


LLAMAINDEX = (
    Row("LlamaIndex", "SimpleVectorStore", "cosine", "higher", simple),
    Row("LlamaIndex", "Faiss, IndexFlatL2", "squared distance", "lower", faiss("IndexFlatL2"), filtered=SELECTED),
    Row("LlamaIndex", "Faiss, IndexFlatIP", "inner product", "higher", faiss("IndexFlatIP"), filtered=SELECTED),
    Row("LlamaIndex", "Chroma, l2", "exp(− squared distance)", "higher", chroma("l2")),
    Row("LlamaIndex", "Chroma, cosine", "exp(cosine − 1)", "higher", chroma("cosine")),
    Row("LlamaIndex", "Chroma, ip", "exp(inner product − 1)", "higher", chroma("ip")),
    Row("LlamaIndex", "Qdrant, cosine", "cosine", "higher", qdrant("Cosine")),
    Row("LlamaIndex", "Qdrant, dot", "inner product", "higher", qdrant("Dot")),
    Row("LlamaIndex", "Qdrant, euclid", "distance", "lower", qdrant("Euclid")),
    Row("LlamaIndex", "Postgres", "cosine", "higher", postgres),
    Row(
        "LlamaIndex",
        "Neo4jVector, cosine",
        "(1 + cosine) / 2",
        "higher",
        neo4j_vector("cosine"),
        tolerance=0.05,
        neo4j=True,
    ),
    Row(
        "LlamaIndex",
        "Neo4jVector, euclidean",
        "1 / (1 + squared distance)",
        "higher",
        neo4j_vector("euclidean"),
        tolerance=0.05,
        neo4j=True,
        filtered=RESCORED,
    ),
    Row("LlamaIndex", "BM25Retriever", "BM25", "higher", bm25, exact=False, filtered=REBUILT),
)
