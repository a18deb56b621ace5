"""Inside the frameworks' own retrievers, which tell documents apart by comparing them: no passage comes twice."""

import pytest
from langchain_classic.retrievers import EnsembleRetriever, MultiQueryRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import FakeListChatModel
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_stores import ids_of, in_memory, pairs, passages

from langchain_phasegraph import CalibratedFusionRetriever, EntityGraphRetriever, PhaseGraphRetriever
from phasegraph import PhasegraphWarning

QUESTIONS = ["text of p1", "text of p3", "text of p5", "text of p7"]


def ours(**more):
    graph = EntityGraphRetriever.from_documents(passages())
    return PhaseGraphRetriever(vector=in_memory(), graph=graph, k=4, **more)


def plain():
    return in_memory().as_retriever(search_kwargs={"k": 4})


def several(retriever):
    model = FakeListChatModel(responses=["\n".join(QUESTIONS)])
    return MultiQueryRetriever.from_llm(retriever=retriever, llm=model)


@pytest.mark.parametrize("more", [{}, {"metadata_key": "phasegraph"}])
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
    graph = EntityGraphRetriever.from_documents(passages(), score_key="score", metadata_key="phasegraph")
    inside = PhaseGraphRetriever(vector=in_memory(), graph=graph, score_key="score")
    for document, score in zip(inside.invoke("text of p3"), inside.explain("text of p3").scores, strict=True):
        assert document.metadata["score"] == score
        assert set(document.metadata) == {"page", "score"}


def test_nothing_of_the_query_is_in_what_is_compared():
    shown = ours(metadata_key="phasegraph")
    first = {document.id: document for document in shown.invoke("text of p1")}
    second = {document.id: document for document in shown.invoke("text of p3")}
    shared = set(first) & set(second)
    assert shared
    assert all(first[one] == second[one] for one in shared)
    assert any(dict(first[one].metadata["phasegraph"]) != dict(second[one].metadata["phasegraph"]) for one in shared)


class Same(Embeddings):
    def embed_documents(self, texts):
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text):
        return [1.0, 2.0]


def test_lists_of_retrievers_and_weights_are_taken_as_the_ensemble_takes_them():
    sources = [lambda query: pairs(a=3.0, b=2.0, c=1.0), lambda query: pairs(b=9.0, d=4.0, a=1.0)]
    retriever = PhaseGraphRetriever(retrievers=sources, weights=[0.25, 0.75])
    assert sorted(ids_of(retriever.invoke("q"))) == ["a", "b", "c", "d"]
    weights = dict(zip(retriever.explain("q").candidates.sources, retriever.explain("q").weights, strict=True))
    assert weights == {"source_1": 0.25, "source_2": 0.75}
    assert CalibratedFusionRetriever is PhaseGraphRetriever


async def test_documents_of_which_only_one_store_gives_ids_are_joined_by_their_text():
    texts = ["the first  text", "the second text", "the third text", "the fourth text", "the fifth"]
    store = InMemoryVectorStore(Same())
    store.add_documents([Document(text, id=f"id-{row}") for row, text in enumerate(texts)])
    nameless = [(Document(text.replace("  ", " ")), 5.0 - row) for row, text in enumerate(texts)]
    retriever = PhaseGraphRetriever(retrievers=[store, lambda query: nameless], k=10)
    with pytest.warns(PhasegraphWarning, match="source 'source_2' returns hits without an id"):
        result = retriever.explain("q")
    assert sorted(result.ids) == [f"id-{row}" for row in range(5)]
    assert "5 of 5 hits without an id joined to other sources' by their text" in result.reports[1].notes
    assert sorted(ids_of(await retriever.ainvoke("q"))) == sorted(result.ids)
