"""The retriever returns nothing if the confidence is too low, with a real store and an entity graph."""

from __future__ import annotations

import zlib

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever
from phasegraph import Confidence
from phasegraph.lexical import split

PASSAGES = [
    Document("Vertigo is a film by Alfred Hitchcock.", id="film", metadata={"title": "Vertigo"}),
    Document("Alfred Hitchcock was born in Leytonstone.", id="man", metadata={"title": "Alfred Hitchcock"}),
    Document("Leytonstone is a part of London.", id="place", metadata={"title": "Leytonstone"}),
    Document("Paris is the capital of France.", id="other", metadata={"title": "Paris"}),
]
ON, OFF = "Where was Alfred Hitchcock born?", "Which ramen restaurant in Osaka has a terrace?"
ASKS = ("Where is {}?", "Who knows {}?", "Tell me about {}.", "What was {} born as?", "Is {} a film?")
QUESTIONS = {ask.format(one.metadata["title"]): {one.id} for one in PASSAGES for ask in ASKS}


class Words(Embeddings):
    """An embedding model that counts the words of a text, in 512 dimensions."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        out = [1e-6] * 512
        for word in split(text):
            out[zlib.crc32(word.encode()) % 512] += 1.0
        return out


@pytest.fixture
def sources():
    store = InMemoryVectorStore(Words())
    store.add_documents(PASSAGES)
    return {"vector": store, "graph": EntityGraphRetriever.from_documents(PASSAGES)}


def test_calibrated_it_answers_what_the_corpus_holds_and_abstains_from_the_rest(tmp_path, sources):
    retriever = PhaseGraphRetriever(**sources, accept=Confidence(min=0.2)).calibrate(list(QUESTIONS))
    assert retriever.invoke(ON)
    assert retriever.invoke(OFF) == []
    result = retriever.explain(OFF)
    assert (result.reason, result.degraded) == ("abstained", False)
    assert result.confidence < 0.2 < retriever.explain(ON).confidence
    assert result.confidence_evidence.reason == ""
    retriever.save(tmp_path / "fitted.json")
    again = PhaseGraphRetriever(**sources, pipeline=tmp_path / "fitted.json")
    assert again.fitted_pipeline.confidence.bar == pytest.approx(retriever.fitted_pipeline.confidence.bar)
    assert again.invoke(OFF) == []


async def test_judged_questions_make_it_a_probability(sources):
    seen = []
    retriever = PhaseGraphRetriever(**sources, on_result=seen.append)
    await retriever.acalibrate(list(QUESTIONS), relevant=QUESTIONS)
    assert await retriever.ainvoke(ON)
    await retriever.ainvoke(OFF)
    assert [one.confidence_evidence.probability for one in seen] == [True, True]
    assert seen[0].confidence > 0.5 > seen[1].confidence


def test_documents_say_nothing_of_it(sources):
    retriever = PhaseGraphRetriever(**sources, evidence_key="phasegraph")
    assert "confidence" not in str(retriever.invoke(ON)[0].metadata)
    assert retriever.explain(ON).confidence is not None


def test_without_a_graph_the_words_are_weighed_by_the_hits(sources):
    seen = []
    alone = PhaseGraphRetriever(vector=sources["vector"], on_result=seen.append)
    alone.invoke(ON)
    assert seen[0].confidence is None
    assert "use explain() or accept=Confidence(...)" in seen[0].confidence_evidence.reason
    assert alone.explain(ON).confidence > 2 * alone.explain(OFF).confidence
    assert alone.explain(ON).confidence_evidence.reason == "without a walk that knows the words"


def test_a_warning_says_where_there_is_none():
    mute = PhaseGraphRetriever(vector=lambda query: [(Document("", id="a"), 0.9)], accept=Confidence(min=0.5))
    result = mute.explain("who?")
    assert (result.ids, result.confidence) == (("a",), None)
    assert "acceptance by confidence has no confidence, and it rejected nothing" in result.warnings[-1]
