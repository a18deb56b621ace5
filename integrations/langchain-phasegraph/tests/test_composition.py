"""The retriever inside LangChain's own retrievers, which compare documents: no passage is returned twice."""

import pytest
from langchain_classic.retrievers import EnsembleRetriever, MultiQueryRetriever
from langchain_core.language_models import FakeListChatModel
from langchain_stores import ids_of, in_memory, passages

from langchain_phasegraph import CalibratedFusionRetriever, EntityGraphRetriever, PhaseGraphRetriever

QUESTIONS = ["text of p1", "text of p3", "text of p5", "text of p7"]


def ours(**more):
    graph = EntityGraphRetriever.from_documents(passages())
    return PhaseGraphRetriever(vector=in_memory(), graph=graph, k=4, **more)


def plain():
    return in_memory().as_retriever(search_kwargs={"k": 4})


def test_the_name_it_has_in_the_other_framework_is_the_same_retriever():
    assert CalibratedFusionRetriever is PhaseGraphRetriever


def several(retriever):
    model = FakeListChatModel(responses=["\n".join(QUESTIONS)])
    return MultiQueryRetriever.from_llm(retriever=retriever, llm=model)


@pytest.mark.parametrize("more", [{}, {"evidence_key": "phasegraph"}])
async def test_inside_a_multi_query_retriever_every_passage_comes_once(more):
    expected = several(plain()).invoke("q")
    for found in (several(ours(**more)).invoke("q"), await several(ours(**more)).ainvoke("q")):
        assert len(ids_of(found)) == len(set(ids_of(found)))
        assert len(set(ids_of(found))) >= len(set(ids_of(expected)))


def test_inside_an_ensemble_beside_the_plain_store_every_passage_comes_once_and_scores_add_up():
    for id_key in (None, "page"):
        both = EnsembleRetriever(retrievers=[ours(), plain()], weights=[0.5, 0.5], id_key=id_key)
        found = ids_of(both.invoke("text of p3"))
        assert len(found) == len(set(found))
        first, second = ids_of(ours().invoke("text of p3")), ids_of(plain().invoke("text of p3"))
        score = {
            one: sum(0.5 / (60 + ranks.index(one) + 1) for ranks in (first, second) if one in ranks)
            for one in {*first, *second}
        }
        assert [score[one] for one in found] == sorted(score.values(), reverse=True)


def test_the_graph_alone_beside_the_store_leaves_no_mass_in_the_metadata():
    both = EnsembleRetriever(retrievers=[EntityGraphRetriever.from_documents(passages()), plain()])
    assert all(set(document.metadata) <= {"page"} for document in both.invoke("text of p3"))
    graph = EntityGraphRetriever.from_documents(passages(), score_key="score", evidence_key="phasegraph")
    inside = PhaseGraphRetriever(vector=in_memory(), graph=graph, score_key="score")
    for document, score in zip(inside.invoke("text of p3"), inside.explain("text of p3").scores, strict=True):
        assert document.metadata["score"] == score
        assert set(document.metadata) == {"page", "score"}
