"""Pickle, deepcopy and process pools: graph, embeddings, filters and calibration included."""

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import pytest
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_phasegraph import EntityGraphRetriever, HitFields, PhaseGraphRetriever, SourceSpec, fuse_lists
from phasegraph.graph import GraphSource

EMBEDDINGS = DeterministicFakeEmbedding(size=16)
QUESTION = "Where was the director of Vertigo born?"
PASSAGES = [
    Document("Vertigo is a film by Alfred Hitchcock.", id="film", metadata={"title": "Vertigo", "lang": "en"}),
    Document("He was born in Leytonstone.", id="man", metadata={"title": "Alfred Hitchcock", "lang": "en"}),
    Document("A district of London.", id="place", metadata={"title": "Leytonstone", "lang": "en"}),
    *(Document(f"Text {n}.", id=f"p{n}", metadata={"title": f"Page {n}", "lang": "de"}) for n in range(8)),
]


def vectors():
    store = InMemoryVectorStore(EMBEDDINGS)
    store.add_documents(PASSAGES)
    return store


def lexical(query):
    return [(document, float(len(document.page_content))) for document in PASSAGES[:6]]


def calibrated():
    spec = SourceSpec(retriever=vectors().as_retriever(), fields=HitFields(size=11))
    retriever = PhaseGraphRetriever(vector=spec, graph=EntityGraphRetriever.from_documents(PASSAGES), k=4)
    return retriever.calibrate([f"question {n}" for n in range(24)], progress=False)


RETRIEVERS = {
    "readme": lambda: PhaseGraphRetriever(
        vector=vectors().as_retriever(), graph=EntityGraphRetriever.from_documents(PASSAGES), k=3
    ),
    "graph alone": lambda: EntityGraphRetriever.from_documents(PASSAGES, embeddings=EMBEDDINGS),
    "graph source": lambda: PhaseGraphRetriever(
        vector=vectors(), graph=GraphSource(EntityGraphRetriever.from_documents(PASSAGES).graph)
    ),
    "embeddings": lambda: PhaseGraphRetriever(
        vector=vectors(), graph=EntityGraphRetriever.from_documents(PASSAGES, embeddings=EMBEDDINGS), selection="mmr"
    ),
    "filter": lambda: PhaseGraphRetriever(
        vector=vectors(), graph=EntityGraphRetriever.from_documents(PASSAGES), filter={"lang": "en"}
    ),
    "faiss": lambda: PhaseGraphRetriever(vector=FAISS.from_documents(PASSAGES, EMBEDDINGS)),
    "functions": lambda: PhaseGraphRetriever(
        retrievers=[lexical, vectors()], weights=[0.5, 0.5], accept={"source_1": 1.0}, metadata_key="evidence"
    ),
    "calibrated": calibrated,
}


def ask(retriever, question):
    return [(document.id, document.page_content) for document in retriever.invoke(question)]


@pytest.mark.parametrize("name", sorted(RETRIEVERS))
@pytest.mark.parametrize("way", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])  # noqa: S301
def test_a_copy_answers_the_same(name, way):
    retriever = RETRIEVERS[name]()
    before = ask(retriever, QUESTION)
    assert before
    assert ask(way(retriever), QUESTION) == before
    if isinstance(retriever, PhaseGraphRetriever):
        assert way(retriever).fitted_pipeline.to_dict() == retriever.fitted_pipeline.to_dict()
        assert way(retriever).explain(QUESTION).scores.tolist() == retriever.explain(QUESTION).scores.tolist()


def test_lists_are_fused_by_a_copy_too():
    fused = pickle.loads(pickle.dumps(fuse_lists(k=2)))  # noqa: S301
    assert len(fused.invoke({"a": PASSAGES[:3], "b": PASSAGES[1:4]})) == 2


def test_a_result_and_its_evidence_survive():
    result = RETRIEVERS["readme"]().explain(QUESTION)
    again = pickle.loads(pickle.dumps(result))  # noqa: S301
    assert again.ids == result.ids
    assert again.evidence(result.ids[0]).score == result.evidence(result.ids[0]).score


def test_a_process_pool_uses_what_it_was_sent():
    retrievers = [RETRIEVERS[name]() for name in ("readme", "filter", "calibrated")]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as workers:
        found = list(workers.map(ask, retrievers, [QUESTION] * 3))
    assert found == [ask(retriever, QUESTION) for retriever in retrievers]
