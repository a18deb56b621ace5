"""The shared tests of the fact filter, for LangChain."""

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.vectorstores import InMemoryVectorStore
from tests.suites.fact_filter import TEXTS, FactFilterSuite

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever, text_model

DOCUMENTS = [Document(text, id=str(row)) for row, text in enumerate(TEXTS)]


class TestFactFilter(FactFilterSuite):
    def fused(self, source):
        store = InMemoryVectorStore.from_documents(DOCUMENTS, DeterministicFakeEmbedding(size=16))
        return PhaseGraphRetriever(vector=store, graph=EntityGraphRetriever(graph=source, documents=DOCUMENTS))

    def model(self, answer):
        return text_model(FakeListChatModel(responses=[answer]))

    async def hits(self, retriever, query):
        return await retriever.ainvoke(query)
