"""Ids of documents: splitter output without ids, repeated ids, and stores that generate ids."""

import copy
import warnings

import pytest
from langchain_chroma import Chroma
from langchain_community.retrievers import BM25Retriever
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_qdrant import QdrantVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever
from phasegraph import InvalidInputError, PhasegraphWarning

EMBEDDINGS = DeterministicFakeEmbedding(size=16)
NAMES = ["Vertigo", "Hitchcock", "Leytonstone", "London", "Paris", "Rome", "Oslo", "Berlin", "Madrid", "Lisbon"]
QUERY = "Where did Vertigo meet Rome?"
STORES = {
    "InMemory": lambda documents: InMemoryVectorStore.from_documents(documents, EMBEDDINGS),
    "FAISS": lambda documents: FAISS.from_documents(documents, EMBEDDINGS),
    "Chroma": lambda documents: Chroma.from_documents(documents, EMBEDDINGS, collection_name="identity"),
    "Qdrant": lambda documents: QdrantVectorStore.from_documents(
        documents, EMBEDDINGS, location=":memory:", collection_name="identity"
    ),
}


def chunks(**metadata):
    """Split six pages into chunks; `metadata` maps keys to functions of the page."""
    pages = [
        Document(
            ". ".join(
                f"{NAMES[(page + row) % 10]} met {NAMES[(page * 5 + row * 7) % 10]} {page}.{row}" for row in range(30)
            ),
            metadata={key: make(page) for key, make in metadata.items()},
        )
        for page in range(6)
    ]
    return RecursiveCharacterTextSplitter(chunk_size=200, chunk_overlap=0).split_documents(pages)


@pytest.fixture(params=sorted(STORES))
def made(request):
    stores = []

    def make(documents):
        stores.append(STORES[request.param](copy.deepcopy(documents)))
        return stores[-1]

    yield make
    for store in stores:
        if isinstance(store, Chroma):
            store.delete_collection()


def test_a_splitters_chunks_without_ids_meet_those_of_a_store_that_made_ids_up(made):
    given = chunks()
    assert {one.id for one in given} == {None}
    graph, store = EntityGraphRetriever.from_documents(given), made(given)
    retriever = PhaseGraphRetriever(vector=store, graph=graph, k=len(given), evidence_key="why")
    result = retriever.explain(QUERY)
    assert len(result.candidates.ids) == len(given)
    assert any(note.endswith("joined to hits of other sources with the same text") for note in result.reports[0].notes)
    found = retriever.invoke(QUERY)
    assert sorted(one.page_content for one in found) == sorted(one.page_content for one in given)
    both = [one.metadata["why"]["sources"] for one in found]
    assert all(one["vector"]["rank"] is not None for one in both)
    assert all(one["graph"]["evidence"]["path"] for one in both if one["graph"]["rank"] is not None)


def test_without_ids_the_answer_is_the_one_with_ids():
    given = chunks()
    named = [Document(one.page_content, id=f"c{row:03}") for row, one in enumerate(given)]
    answers = []
    for documents in (given, named):
        store = InMemoryVectorStore.from_documents(copy.deepcopy(documents), EMBEDDINGS)
        graph = EntityGraphRetriever.from_documents(documents)
        retriever = PhaseGraphRetriever(vector=store, graph=graph, k=50, score_key="score")
        answers.append({one.page_content: one.metadata["score"] for one in retriever.invoke(QUERY)})
    assert answers[0] == pytest.approx(answers[1], abs=1e-12)


def test_a_loaders_id_that_repeats_over_1500_chunks_is_replaced_and_said():
    given = [
        Document(f"Chunk {row} of page {row % 65} is about Rome.", metadata={"id": row % 65}) for row in range(1500)
    ]
    with pytest.warns(PhasegraphWarning, match="metadata 'id' gives one id to different texts") as said:
        graph = EntityGraphRetriever.from_documents(given)
    assert len(said) == 1
    assert len(graph.graph.passages) == 1500 == len(graph.documents)
    with pytest.warns(PhasegraphWarning, match="gives one id to different texts"):
        assert len(EntityGraphRetriever(graph=graph.graph, documents=given).lookup.held) == 1500


@pytest.mark.parametrize("key", ["id", "doc_id", "source_id", "chunk_id", "pk"])
def test_a_repeated_id_of_any_known_key_is_no_id_and_a_unique_one_is(key):
    with pytest.warns(PhasegraphWarning, match=f"metadata '{key}' gives one id"):
        graph = EntityGraphRetriever.from_documents(chunks(**{key: lambda page: f"page{page}"})).graph
    assert len(graph.passages) == len(chunks())
    unique = [Document(f"Text {row}.", metadata={key: row}) for row in range(9)]
    assert sorted(EntityGraphRetriever.from_documents(unique).graph.passages) == [str(row) for row in range(9)]


def test_the_next_key_serves_where_one_repeats():
    given = [Document(f"Text {row}.", metadata={"id": "page", "chunk_id": row}) for row in range(5)]
    with pytest.warns(PhasegraphWarning, match="metadata 'id' gives one id"):
        assert sorted(EntityGraphRetriever.from_documents(given).graph.passages) == list("01234")


def test_a_bm25_over_a_loaders_repeated_ids_loses_no_chunk(made):
    given = chunks(id=lambda page: f"page{page}")
    with pytest.warns(PhasegraphWarning, match="source 'bm25': metadata 'id' gives one id to different texts"):
        retriever = PhaseGraphRetriever(
            vector=made(given), retrievers={"bm25": BM25Retriever.from_documents(copy.deepcopy(given))}, k=len(given)
        )
    with pytest.warns(PhasegraphWarning, match="'bm25' returns hits without an id"):
        found = retriever.invoke(QUERY)
    assert sorted(one.page_content for one in found) == sorted(one.page_content for one in given)


def test_a_repeated_id_in_the_answers_of_an_unknown_retriever_is_seen_when_it_comes():
    given = chunks(id=lambda page: f"page{page}")
    retriever = PhaseGraphRetriever(retrievers={"own": lambda query: given}, k=len(given))
    with pytest.warns(PhasegraphWarning) as said:
        assert len(retriever.invoke(QUERY)) == len(given)
    assert [str(one.message)[:36] for one in said] == [
        "source 'own': metadata 'id' gives on", "source 'own' returns hits without an",
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(retriever.invoke(QUERY)) == len(given)


def test_texts_that_are_there_twice_without_an_id_are_kept_once_and_said():
    with pytest.warns(PhasegraphWarning, match="1 of 3 have no id and repeat the text of another"):
        graph = EntityGraphRetriever.from_documents([Document("Rome."), Document(" Rome. "), Document("Oslo.")])
    assert len(graph.graph.passages) == 2


def test_a_bm25_with_a_repeated_document_id_is_refused():
    bm25 = BM25Retriever.from_documents([Document("one text", id="a"), Document("another", id="a")])
    with pytest.raises(InvalidInputError, match="source 'bm25': id 'a' is repeated"):
        PhaseGraphRetriever(retrievers={"bm25": bm25})


def test_texts_lost_under_a_repeated_id_in_an_answer_are_warned_about_once():
    answer = [(Document("one", id="a"), 2.0), (Document("two", id="a"), 1.0)]
    retriever = PhaseGraphRetriever(retrievers={"own": lambda query: answer})
    with pytest.warns(PhasegraphWarning, match=r"'own' returns different texts under one id \('a'\)"):
        assert [one.page_content for one in retriever.invoke("q")] == ["one"]
    report = retriever.explain("q").reports[0]
    assert "different texts under one id ('a'), and only the best of these hits is used" in report.notes
