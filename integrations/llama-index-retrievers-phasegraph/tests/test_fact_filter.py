"""The fact filter in LlamaIndex: an LLM over a graph source, alone and in a fusion."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.schema import TextNode

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever, text_model
from phasegraph import PhasegraphWarning
from phasegraph.graph import Extraction, FactIndex, GraphSource, filter_facts_with, graph_from_extractions

NODES = [
    TextNode(text=f"Ada {verb} Bo in place {row}.", id_=str(row)) for row, verb in enumerate(["met", "saw", "left"])
]
RECORDS = [Extraction(one.id_, triples=[("ada", one.text.split()[1], "bo")]) for one in NODES]
VECTORS = [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]
GRAPH = graph_from_extractions([one.id_ for one in NODES], RECORDS, embeddings=VECTORS)
SOURCE = GraphSource(
    GRAPH, embedder=lambda query: [0.9, 0.1], facts=FactIndex.of_extractions(GRAPH, RECORDS, lambda texts: VECTORS)
)


class Saying(CustomLLM):
    """A language model that always returns the same answer."""

    answer: str

    @property
    def metadata(self):
        return LLMMetadata()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any):
        return CompletionResponse(text=self.answer)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any):
        raise NotImplementedError


def fused(source):
    index = VectorStoreIndex(NODES, embed_model=MockEmbedding(embed_dim=2))
    return CalibratedFusionRetriever(vector=index, graph=EntityGraphRetriever(source, NODES))


def asked(answer):
    return fused(replace(SOURCE, fact_filter=filter_facts_with(text_model(Saying(answer=answer)))))


def reason(result):
    return next(one.reason for one in result.reports if one.source == "graph")


def test_keeping_all_facts_is_no_filter_to_the_bit():
    one, other = fused(SOURCE).explain("Who met Bo?"), asked('{"facts": [1, 2, 3]}').explain("Who met Bo?")
    assert one.ids == other.ids
    assert one.scores.tobytes() == other.scores.tobytes()


def test_the_papers_answer_keeps_the_facts_that_it_lists():
    listed = [["Ada", verb, "Bo"] for verb in ("met", "saw", "left")]
    plainly = asked('{"facts": [1, 2, 3]}').explain("Who met Bo?")
    for answer, said in ((listed, ""), ([*listed, ["Ada", "met", "Cy"]], ""), ([], "kept none of 3 facts")):
        result = asked(json.dumps({"fact": answer})).explain("Who met Bo?")
        assert said in reason(result)
        assert (result.scores.tobytes() == plainly.scores.tobytes()) == bool(answer)


def test_keeping_none_is_said_in_the_report():
    retriever = asked('{"facts": []}')
    assert "kept none of 3 facts" in reason(retriever.explain("Who met Bo?"))
    assert [one.node_id for one in asyncio.run(retriever.aretrieve("Who met Bo?"))]


def test_an_answer_that_cannot_be_read_costs_nothing():
    retriever = asked("I would rather not.")
    with pytest.warns(PhasegraphWarning, match="fact filter failed"):
        result = retriever.explain("Who met Bo?")
    assert reason(result).startswith("the fact filter failed (")
    assert result.scores.tobytes() == fused(SOURCE).explain("Who met Bo?").scores.tobytes()
