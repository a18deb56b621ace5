"""Faults that only LangChain has."""

import asyncio
import warnings

import pytest
from langchain_core.documents import Document
from langchain_stores import Listed, pairs

from langchain_phasegraph import PhaseGraphRetriever
from phasegraph import PhasegraphWarning


def test_pairs_mixed_with_documents_are_malformed():
    mixed = [*pairs(a=3.0), Document("text of b", id="b")]
    result = PhaseGraphRetriever(vector=lambda q: pairs(a=1.0), graph=lambda q: mixed).explain("q")
    assert (result.reports[0].status, result.ids) == ("error", ("a",))
    assert "some hits are pairs with a score and other hits have no score" in result.reports[0].reason


def test_huge_texts_are_not_touched():
    documents = [Document("x" * 10_000_000, id="a")]
    assert PhaseGraphRetriever(vector=Listed(answer=documents)).invoke("q")[0].page_content is documents[0].page_content


def half():
    """Return a retriever with a source that fails."""

    def fails(query):
        raise OSError("no route")

    return PhaseGraphRetriever(vector=Listed(answer=[Document("a", id="a")]), graph=fails)


def test_a_warning_of_a_call_names_the_users_line():
    """Also through LangChain's chains and an event loop."""
    calls = [
        lambda retriever: retriever.invoke("q"),
        lambda retriever: (retriever | len).invoke("q"),
        lambda retriever: asyncio.run(retriever.ainvoke("q")),
    ]
    for call in calls:
        retriever = half()
        with pytest.warns(PhasegraphWarning, match="source 'graph' failed") as said:
            call(retriever)
        assert [(one.filename, one.lineno) for one in said] == [(__file__, call.__code__.co_firstlineno)]


def test_two_retrievers_with_the_same_warning_warn_once_each():
    first, second = half(), half()

    def ask():
        first.invoke("q")
        second.invoke("q")

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for _ in range(2):
            ask()
    line = ask.__code__.co_firstlineno
    assert [(one.filename, one.lineno) for one in said] == [(__file__, line + 1), (__file__, line + 2)]
