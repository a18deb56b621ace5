"""LangChain's own conformance suite for retrievers, nothing overridden."""

from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests

from langchain_phasegraph import PhaseGraphRetriever


def sources() -> dict[str, Any]:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=16))
    store.add_documents([Document(f"passage {i}", id=f"p{i}") for i in range(8)])
    return {
        "vector": store.as_retriever(),
        "graph": lambda query: [Document(f"passage {i}", id=f"p{i}") for i in (7, 2)],
    }


class TestPhaseGraphRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[PhaseGraphRetriever]:
        return PhaseGraphRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return sources()

    @property
    def retriever_query_example(self) -> str:
        return "a question"
