"""Test helpers: indexes with the same nine passages, a small property graph, small retrievers, and a splitter."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llama_index.core import PropertyGraphIndex, StorageContext, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import KG_NODES_KEY, KG_RELATIONS_KEY, EntityNode, Relation
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import NodeWithScore, TextNode, TransformComponent

VECTORS = {f"p{i}": (1.0 - i / 10, (i / 10) * (-1) ** i) for i in range(9)}
ORDER = tuple(VECTORS)


class TextModel(BaseEmbedding):
    """A base of embedding models that embed a query as a text."""

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


class Looked(TextModel):
    """An embedding model that gives a text the vector of the passage it names last; queries are nearest to p0."""

    vectors: dict[str, Sequence[float]] = VECTORS
    default: Sequence[float] = (1.0, 0.02)

    def _get_text_embedding(self, text: str) -> list[float]:
        vector = np.array(self.vectors.get(text.split()[-1], self.default), dtype=np.float64)
        return [float(value) for value in vector / np.linalg.norm(vector)]


def sentences(size: int) -> SentenceSplitter:
    """A splitter that finds sentences without NLTK, whose data LlamaIndex 0.13 downloads."""
    split = re.compile(r"(?<=\. )").split
    return SentenceSplitter(chunk_size=size, chunk_overlap=0, include_metadata=False, chunking_tokenizer_fn=split)


def passages() -> list[TextNode]:
    return [TextNode(id_=name, text=f"text of {name}") for name in ORDER]


def simple() -> VectorStoreIndex:
    return VectorStoreIndex(passages(), embed_model=Looked())


def faiss(kind: str) -> VectorStoreIndex:
    import faiss as library
    from llama_index.vector_stores.faiss import FaissVectorStore

    store = FaissVectorStore(getattr(library, kind)(2))
    return VectorStoreIndex(
        passages(), embed_model=Looked(), storage_context=StorageContext.from_defaults(vector_store=store)
    )


def chroma() -> VectorStoreIndex:
    import chromadb
    from llama_index.vector_stores.chroma import ChromaVectorStore

    store = ChromaVectorStore(chromadb.EphemeralClient().create_collection(f"c{uuid.uuid4().hex}"))
    return VectorStoreIndex(
        passages(), embed_model=Looked(), storage_context=StorageContext.from_defaults(vector_store=store)
    )


INDEXES: dict[str, Callable[[], VectorStoreIndex]] = {
    "Simple": simple,
    "Faiss L2": lambda: faiss("IndexFlatL2"),
    "Faiss IP": lambda: faiss("IndexFlatIP"),
    "Chroma": chroma,
}

FACTS = {
    "c1": [("Ada", "met", "Babbage")],
    "c2": [("Ada", "wrote", "Notes")],
    "c3": [("Ada", "born in", "London"), ("Babbage", "built", "Engine")],
}
CHUNKS = {"c1": "Ada met Babbage.", "c2": "Ada wrote the Notes.", "c3": "Ada was born in London; Babbage built it."}
DIRECTIONS = {"c1": (1, 0, 0), "c2": (0.8, 0.6, 0), "c3": (0, 0, 1), "Ada": (1, 0.1, 0), "Babbage": (0, 0.3, 1)}


class Known(TransformComponent):
    """An extractor that adds the entities and relations from `FACTS` to each chunk."""

    def __call__(self, nodes: Any, **kwargs: Any) -> Any:
        for node in nodes:
            facts = FACTS[node.id_]
            node.metadata[KG_NODES_KEY] = [EntityNode(name=name) for s, _, o in facts for name in (s, o)]
            node.metadata[KG_RELATIONS_KEY] = [
                Relation(label=label, source_id=EntityNode(name=s).id, target_id=EntityNode(name=o).id)
                for s, label, o in facts
            ]
        return nodes


class Keywords(CustomLLM):
    """A language model that always answers with the same keywords."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text="Ada^Babbage")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        yield self.complete(prompt)


def property_graph() -> PropertyGraphIndex:
    directions = {**DIRECTIONS, "Babbage.": (1, 0, 0), "Notes.": (0.8, 0.6, 0), "it.": (0, 0, 1)}
    return PropertyGraphIndex(
        [TextNode(id_=name, text=text) for name, text in CHUNKS.items()],
        kg_extractors=[Known()],
        property_graph_store=SimplePropertyGraphStore(),
        embed_model=Looked(vectors=directions, default=(0.6, 0.5, 0.2)),
        llm=Keywords(),
        use_async=False,
    )


class Listed(BaseRetriever):
    """A retriever that returns `answer`, calls it if it is a function, or raises it if it is an error."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def _retrieve(self, query_bundle: Any) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer() if callable(self.answer) else self.answer


def hits(**scores: float | None) -> list[NodeWithScore]:
    return [NodeWithScore(node=TextNode(id_=name, text=f"text of {name}"), score=s) for name, s in scores.items()]


def listed(**scores: float | None) -> Listed:
    return Listed(hits(**scores))


def ids_of(found: Sequence[NodeWithScore]) -> list[str]:
    return [hit.node.node_id for hit in found]
