"""The same two sources and the same fusion in LangChain and in LlamaIndex, over their own vector stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from phasegraph._typing import Float32Array
from phasegraph.demo.bundled import passage_text, precomputed, question_embedder
from phasegraph.errors import MissingDependencyError
from phasegraph.evaluation.datasets import Dataset
from phasegraph.graph import EntityGraph
from phasegraph.result import Result

LIMIT = 50


@dataclass(frozen=True, slots=True)
class Side:
    """One framework's retriever.

    Parameters
    ----------
    name : str
    retrieve : callable
        Query to the ids of the framework's own documents or nodes.
    results : list of Result
        The core's answer to each query retrieved, in order.
    """

    name: str
    retrieve: Callable[[str], tuple[str, ...]]
    results: list[Result]

    def ask(self, query: str) -> tuple[tuple[str, ...], Result]:
        """The framework's ids for a query, and the core's answer behind them."""
        returned = self.retrieve(query)
        return returned, self.results[-1]


def langchain_side(dataset: Dataset, graph: EntityGraph) -> Side:
    """``PhaseGraphRetriever`` over a real ``InMemoryVectorStore`` and the entity graph."""
    try:
        from langchain_core.documents import Document
        from langchain_core.embeddings import Embeddings
        from langchain_core.vectorstores import InMemoryVectorStore

        from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever
    except ImportError as error:
        raise MissingDependencyError("this side needs LangChain; pip install 'phasegraph[langchain]'") from error
    known, ask = precomputed(dataset), question_embedder(dataset)

    class Precomputed(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[Any]:
            return [known[text] for text in texts]

        def embed_query(self, text: str) -> Any:
            return ask(text)

    documents = [
        Document(passage_text(one.title, one.text), id=one.id, metadata={"title": one.title})
        for one in dataset.passages
    ]
    embedder = Precomputed()
    store = InMemoryVectorStore.from_documents(documents, embedder)
    walk = EntityGraphRetriever(graph=graph, documents=documents, embeddings=embedder)
    results: list[Result] = []
    retriever = PhaseGraphRetriever(
        vector=store.as_retriever(), graph=walk, limit=LIMIT, timeout=60.0, on_result=results.append
    )
    return Side("langchain", lambda query: tuple(str(document.id) for document in retriever.invoke(query)), results)


def llamaindex_side(dataset: Dataset, graph: EntityGraph) -> Side:
    """``CalibratedFusionRetriever`` over a real ``SimpleVectorStore`` and the entity graph."""
    try:
        from llama_index.core import VectorStoreIndex
        from llama_index.core.embeddings import BaseEmbedding
        from llama_index.core.schema import TextNode

        from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever
    except ImportError as error:
        raise MissingDependencyError("this side needs LlamaIndex; pip install 'phasegraph[llamaindex]'") from error
    known, ask = precomputed(dataset), question_embedder(dataset)

    class Precomputed(BaseEmbedding):  # type: ignore[misc, unused-ignore]
        def _get_text_embedding(self, text: str) -> list[float]:
            return _plain(known[text])

        def _get_query_embedding(self, query: str) -> list[float]:
            return _plain(ask(query))

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return _plain(ask(query))

    nodes = [
        TextNode(
            id_=one.id, text=passage_text(one.title, one.text), metadata={"title": one.title}, embedding=_plain(vector)
        )
        for one, vector in zip(dataset.passages, dataset.passage_vectors, strict=True)
    ]
    embedder = Precomputed()
    index = VectorStoreIndex(nodes, embed_model=embedder)
    walk = EntityGraphRetriever(graph, nodes=nodes, embed_model=embedder)
    results: list[Result] = []
    retriever = CalibratedFusionRetriever(
        vector=index.as_retriever(), graph=walk, limit=LIMIT, timeout=60.0, on_result=results.append
    )
    return Side("llamaindex", lambda query: tuple(node.node_id for node in retriever.retrieve(query)), results)


def _plain(vector: Float32Array) -> list[float]:
    return [float(value) for value in vector]
