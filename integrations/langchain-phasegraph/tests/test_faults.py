"""Faults that only LangChain has."""

from langchain_core.documents import Document
from langchain_stores import Listed, pairs

from langchain_phasegraph import PhaseGraphRetriever


def test_pairs_mixed_with_documents_are_malformed():
    mixed = [*pairs(a=3.0), Document("text of b", id="b")]
    result = PhaseGraphRetriever(vector=lambda q: pairs(a=1.0), graph=lambda q: mixed).explain("q")
    assert (result.reports[0].status, result.ids) == ("error", ("a",))
    assert "some hits are pairs with a score and other hits have no score" in result.reports[0].reason


def test_huge_texts_are_not_touched():
    documents = [Document("x" * 10_000_000, id="a")]
    assert PhaseGraphRetriever(vector=Listed(answer=documents)).invoke("q")[0].page_content is documents[0].page_content
