"""The shared tests of the notebook page of ``inspect``, for LangChain."""

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from tests.suites.notebooks import InspectSuite

from langchain_phasegraph import PhaseGraphRetriever


class TestInspectLangChain(InspectSuite):
    def made(self, passages, **fields):
        documents = [Document(text, id=name, metadata={"title": title}) for name, (title, text) in passages.items()]
        return PhaseGraphRetriever.from_documents(documents, DeterministicFakeEmbedding(size=8), **fields)
