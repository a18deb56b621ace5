"""Bad arguments of what only LangChain has."""

import uuid

import pytest
from langchain_core.documents import Document
from langchain_stores import listed

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever, SourceSpec
from phasegraph import InvalidInputError, InvalidTypeError

ONE = {"vector": listed("a")}


def test_a_retriever_inside_itself_is_an_error_when_it_is_built():
    retriever = PhaseGraphRetriever(**ONE)
    outer = PhaseGraphRetriever(vector=retriever)
    for bad in (retriever, outer, outer.with_retry(), SourceSpec(retriever=retriever)):
        with pytest.raises(InvalidInputError, match="the retriever contains itself"):
            retriever.vector = bad
    assert retriever.invoke("q")[0].id == "a"


@pytest.mark.parametrize("k", [-1, True, 1.5, "2"])
def test_a_bad_k_at_the_call_is_an_error(k):
    with pytest.raises(InvalidInputError, match="k must"):
        PhaseGraphRetriever(**ONE).invoke("q", k=k)


@pytest.mark.parametrize("upstream", [None, {}])
def test_a_bad_k_is_named_by_the_graph_retriever_with_and_without_rankings_to_start_from(upstream):
    retriever = EntityGraphRetriever.from_documents([Document("Ada met Bo.", id="a")])
    with pytest.raises(InvalidInputError, match=r"^k must"):
        retriever.invoke("Who met Bo?", k=-1, upstream=upstream)


async def test_an_unknown_keyword_at_the_call_is_an_error_that_says_what_was_probably_meant():
    retriever = PhaseGraphRetriever(**ONE)
    for call in (retriever.invoke, retriever.ainvoke):
        with pytest.raises(InvalidTypeError, match="unexpected argument 'top_k'; did you mean 'k'"):
            await call("q", top_k=3)
    with pytest.raises(InvalidTypeError, match="'weights'; known are filter, k"):
        retriever.invoke("q", weights={"vector": 1})
    assert retriever.invoke("q", run_id=uuid.uuid4())
