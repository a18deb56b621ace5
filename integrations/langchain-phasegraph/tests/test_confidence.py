"""The shared tests of confidence, for LangChain."""

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from tests.suites.confidence import TEXTS, ConfidenceSuite, counted

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever
from phasegraph import Confidence

DOCUMENTS = [Document(text, id=name, metadata={"title": title}) for name, (title, text) in TEXTS.items()]


class Words(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return list(map(counted, texts))

    def embed_query(self, text: str) -> list[float]:
        return counted(text)


class TestConfidence(ConfidenceSuite):
    retriever = PhaseGraphRetriever

    def sources(self):
        store = InMemoryVectorStore.from_documents(DOCUMENTS, Words())
        return {"vector": store, "graph": EntityGraphRetriever.from_documents(DOCUMENTS)}

    def ask(self, retriever, query):
        return retriever.invoke(query)

    async def aask(self, retriever, query):
        return await retriever.ainvoke(query)


def test_a_warning_says_where_there_is_none():
    mute = PhaseGraphRetriever(vector=lambda query: [(Document("", id="a"), 0.9)], accept=Confidence(min=0.5))
    result = mute.explain("who?")
    assert (result.ids, result.confidence) == (("a",), None)
    assert "acceptance by confidence has no confidence, and it rejected nothing" in result.warnings[-1]
