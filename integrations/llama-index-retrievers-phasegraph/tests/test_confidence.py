"""The retriever returns nothing if the confidence is too low, with a real index and an entity graph."""

from __future__ import annotations

import zlib

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode
from llamaindex_stores import TextModel

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever
from phasegraph import Confidence
from phasegraph.lexical import split

TEXTS = {
    "film": ("Vertigo", "Vertigo is a film by Alfred Hitchcock."),
    "man": ("Alfred Hitchcock", "Alfred Hitchcock was born in Leytonstone."),
    "place": ("Leytonstone", "Leytonstone is a part of London."),
    "other": ("Paris", "Paris is the capital of France."),
}
ON, OFF = "Where was Alfred Hitchcock born?", "Which ramen restaurant in Osaka has a terrace?"
ASKS = ("Where is {}?", "Who knows {}?", "Tell me about {}.", "What was {} born as?", "Is {} a film?")
QUESTIONS = {ask.format(title): {name} for name, (title, _) in TEXTS.items() for ask in ASKS}


class Words(TextModel):
    """An embedding model that counts the words of a text, in 512 dimensions."""

    def _get_text_embedding(self, text: str) -> list[float]:
        out = [1e-6] * 512
        for word in split(text):
            out[zlib.crc32(word.encode()) % 512] += 1.0
        return out


@pytest.fixture
def sources():
    nodes = [TextNode(id_=name, text=text, metadata={"title": title}) for name, (title, text) in TEXTS.items()]
    index = VectorStoreIndex(nodes, embed_model=Words())
    return {"vector": index.as_retriever(similarity_top_k=4), "graph": EntityGraphRetriever.from_nodes(nodes)}


def test_calibrated_it_answers_what_the_corpus_holds_and_abstains_from_the_rest(tmp_path, sources):
    retriever = CalibratedFusionRetriever(**sources, accept=Confidence(min=0.2)).calibrate(list(QUESTIONS))
    assert retriever.retrieve(ON)
    assert retriever.retrieve(OFF) == []
    result = retriever.explain(OFF)
    assert (result.reason, result.degraded) == ("abstained", False)
    assert result.confidence < 0.2 < retriever.explain(ON).confidence
    assert result.confidence_evidence.reason == ""
    retriever.save(tmp_path / "fitted.json")
    again = CalibratedFusionRetriever(**sources, pipeline=tmp_path / "fitted.json")
    assert again.fitted_pipeline.confidence == retriever.fitted_pipeline.confidence
    assert again.retrieve(OFF) == []


async def test_judged_questions_make_it_a_probability(sources):
    seen = []
    retriever = CalibratedFusionRetriever(**sources, on_result=seen.append)
    await retriever.acalibrate(list(QUESTIONS), relevant=QUESTIONS)
    assert await retriever.aretrieve(ON)
    await retriever.aretrieve(OFF)
    assert [one.confidence_evidence.probability for one in seen] == [True, True]
    assert seen[0].confidence > 0.5 > seen[1].confidence


def test_nodes_say_nothing_of_it(sources):
    retriever = CalibratedFusionRetriever(**sources, evidence_key="phasegraph")
    assert "confidence" not in str(retriever.retrieve(ON)[0].node.metadata)
    assert retriever.explain(ON).confidence is not None


def test_without_a_graph_the_words_are_weighed_by_the_hits(sources):
    alone = CalibratedFusionRetriever(vector=sources["vector"])
    assert alone.explain(ON).confidence > 2 * alone.explain(OFF).confidence
    assert alone.explain(ON).confidence_evidence.reason == "without a walk that knows the words"
