"""The shared tests that no hit is lost without a warning, for LangChain."""

from langchain_core.documents import Document
from tests.suites.losses import LossSuite

from langchain_phasegraph import CalibratedFusionRetriever


class TestLosses(LossSuite):
    retriever = CalibratedFusionRetriever

    def document(self, name, text, **metadata):
        return Document(page_content=text, id=name, metadata=metadata)

    def asked(self, retriever):
        return [(one.id, one.page_content) for one in retriever.invoke("q")]
