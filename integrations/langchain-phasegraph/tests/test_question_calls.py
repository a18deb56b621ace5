"""The model embeds a question once in each call; if the model fails, only the vector search is lost."""

import asyncio
import contextvars
import re

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from tests.suites.question_calls import NOTE, QUERY, TEXTS, vector_of_words

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever
from langchain_phasegraph.search_by_vector import search_by_vector
from phasegraph._support.shared import OVER
from phasegraph.errors import PhasegraphWarning

FAILED = r"source 'vector' failed \(OSError\)"


def documents():
    return [Document(text, id=title, metadata={"title": title, "year": 1958}) for title, text in TEXTS.items()]


class Model(Embeddings):
    """A model of words that counts the questions that it embeds."""

    def __init__(self):
        self.asked, self.fails = [], False

    def embed_documents(self, texts):
        return [vector_of_words(text) for text in texts]

    def embed_query(self, text):
        self.asked.append(text)
        if self.fails:
            raise OSError("401 invalid api key")
        return vector_of_words(text)


@pytest.fixture
def model():
    return Model()


def stores(kind, model):
    if kind == "memory":
        return InMemoryVectorStore.from_documents(documents(), model)
    if kind == "faiss":
        pytest.importorskip("faiss")
        from langchain_community.vectorstores import FAISS

        return FAISS.from_documents(documents(), model)
    pytest.importorskip("langchain_chroma")
    from langchain_chroma import Chroma

    return Chroma.from_documents(documents(), model, collection_name=f"questions{id(model)}")


def retrievers(kind, model, tmp_path):
    if kind == "documents":
        return PhaseGraphRetriever.from_documents(documents(), model)
    if kind == "folder":
        PhaseGraphRetriever.from_documents(documents(), model, path=tmp_path / "folder")
        return PhaseGraphRetriever.load(tmp_path / "folder", model)
    if kind == "parts":
        graph = EntityGraphRetriever.from_documents(documents(), embeddings=model)
        return PhaseGraphRetriever(vector=stores("memory", model), graph=graph)
    return PhaseGraphRetriever.from_vectorstore(stores(kind, model))


@pytest.mark.parametrize("kind", ["documents", "folder", "parts", "memory", "faiss", "chroma"])
def test_a_question_costs_one_call_of_the_model(kind, model, tmp_path):
    retriever = retrievers(kind, model, tmp_path)
    model.asked.clear()
    found = [[one.id for one in retriever.invoke(QUERY)], [one.id for one in asyncio.run(retriever.ainvoke(QUERY))]]
    assert found[0] == found[1]
    assert "Alfred Hitchcock" in found[0]
    assert model.asked == [QUERY] * 2
    retriever.batch([QUERY, "Oslo?", QUERY])
    assert sorted(model.asked[2:]) == sorted([QUERY, "Oslo?", QUERY])


@pytest.mark.parametrize("kind", ["memory", "faiss", "chroma"])
@pytest.mark.parametrize("settings", [{}, {"k": 2}, {"k": 3, "filter": {"title": "Vertigo"}}])
def test_a_search_by_vector_returns_the_scores_of_the_search_by_text(kind, settings, model):
    store = stores(kind, model)
    if kind == "memory" and "filter" in settings:
        settings = {**settings, "filter": lambda document: document.metadata["title"] == "Vertigo"}
    assert search_by_vector(store, QUERY, settings) == store.similarity_search_with_score(QUERY, **settings)


def test_a_class_of_the_user_is_searched_by_text(model):
    class Own(InMemoryVectorStore):
        def similarity_search_with_score(self, query, k=4, **options):
            return super().similarity_search_with_score(query, k, **options)[:1]

    assert len(search_by_vector(Own.from_documents(documents(), model), QUERY, {"k": 3})) == 1


@pytest.mark.parametrize("kind", ["documents", "memory"])
def test_a_failing_model_costs_the_vector_search_and_not_the_walk(kind, model, tmp_path):
    retriever = retrievers(kind, model, tmp_path)
    whole = [one.id for one in retriever.invoke(QUERY)]
    model.fails = True
    with pytest.warns(PhasegraphWarning, match=FAILED) as said:
        result = retriever.explain(QUERY)
    assert len(said) == 1
    reports = {one.source: one for one in result.reports}
    assert (reports["vector"].status, reports["graph"].status, reports["graph"].reason) == ("error", "ok", NOTE)
    assert "Alfred Hitchcock" in result.ids
    narrow = retriever.explain(QUERY, filter={"title": "Vertigo"})
    assert {one.source: one.reason for one in narrow.reports}["graph"].startswith(NOTE)
    assert set(narrow.ids) == {"Vertigo"}
    model.fails = False
    model.asked.clear()
    with pytest.warns(PhasegraphWarning, match="answers again"):
        assert [one.id for one in retriever.invoke(QUERY)] == whole
    assert model.asked == [QUERY]


def test_a_walk_alone_warns_until_the_model_answers_again(model):
    retriever = EntityGraphRetriever.from_documents(documents(), embeddings=model)
    words = EntityGraphRetriever.from_documents(documents())
    for _ in range(2):
        model.fails = True
        with pytest.warns(PhasegraphWarning) as said:
            found = [retriever.invoke(QUERY) for _ in range(3)]
        assert [str(one.message) for one in said] == [NOTE]
        assert "401" in str(said[0].message.__cause__)
        assert [one.id for one in found[2]] == [one.id for one in words.invoke(QUERY)]
        model.fails = False
        assert retriever.invoke(QUERY)


def test_a_search_whose_call_has_ended_does_not_walk_on(model, monkeypatch):
    def fails_late(text):
        OVER.set([True])
        raise OSError("the service took too long")

    retriever = EntityGraphRetriever.from_documents(documents(), embeddings=model)
    monkeypatch.setattr(model, "embed_query", fails_late)
    with pytest.raises(TimeoutError, match="its call has ended"):
        contextvars.copy_context().run(retriever.invoke, QUERY)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"year": "1958"}, "no passage has a text under the filter key 'year' (the values are numbers)"),
        ({"year": {"$gte": "1950"}}, "no passage has a text under the filter key 'year' (the values are numbers)"),
        ({"title": {"$in": [1, 2]}}, "no passage has a number under the filter key 'title' (the values are texts)"),
        ({"tags": "a"}, "no passage has a text under the filter key 'tags' (the values are lists)"),
        ({"year": 1.0}, ""),
        ({"year": {"$ne": "1958"}}, ""),
    ],
)
def test_a_filter_value_of_another_type_is_said_once(wanted, said, model):
    given = documents()
    given[0].metadata["tags"] = ["a"]
    retriever = PhaseGraphRetriever.from_documents(given, model)
    config = {"configurable": {"phasegraph_filter": wanted}}
    if said:
        with pytest.warns(PhasegraphWarning, match=re.escape(said)) as heard:
            assert retriever.invoke(QUERY, config=config) == []
        assert len(heard) == 1
    retriever.invoke(QUERY, config=config)


def test_the_hybrid_configuration_of_another_kind_of_store_is_left_alone(model):
    store = stores("memory", model)
    store.hybrid_search_config = {"weights": [0.5, 0.5]}  # and not the configuration of a PGVectorStore
    retriever = PhaseGraphRetriever(vector=store)
    assert retriever.invoke(QUERY)
    assert store.hybrid_search_config == {"weights": [0.5, 0.5]}
