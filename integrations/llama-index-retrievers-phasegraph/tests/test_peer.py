"""Defects of QueryFusionRetriever, and that the phasegraph retriever does not have them."""

import copy

import pytest
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.indices.property_graph import LLMSynonymRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_stores import CHUNKS, INDEXES, ORDER, Keywords, Listed, Looked, hits, ids_of, property_graph, simple

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, SourceSpec

MODES = ("reciprocal_rerank", "relative_score", "dist_based_score", "simple")


def peer(retrievers, **options):
    return QueryFusionRetriever(retrievers, llm=MockLLM(), num_queries=1, use_async=False, **options)


@pytest.mark.parametrize("mode", MODES)
def test_a_leg_of_distances_is_not_reversed(mode):
    own = INDEXES["Faiss L2"]().as_retriever(similarity_top_k=9)
    right = ids_of(own.retrieve("what?"))
    assert ids_of(peer([own], mode=mode, similarity_top_k=9).retrieve("what?")) == right[::-1]
    assert ids_of(CalibratedFusionRetriever(vector=own).retrieve("what?")) == right


def test_an_embedding_of_one_leg_does_not_reach_another():
    class Backwards(Looked):
        def _get_query_embedding(self, query: str) -> list[float]:
            return [-1.0, 0.0]

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

    index = simple()
    one = index.as_retriever(similarity_top_k=9)
    other = index.as_retriever(similarity_top_k=9, embed_model=Backwards())
    legs = {"a": one, "b": other}
    right = {name: ids_of(leg.retrieve("what?")) for name, leg in legs.items()}
    assert right["a"] != right["b"]
    found = CalibratedFusionRetriever(retrievers=legs).explain("what?").candidates.rankings
    assert {ranking.source: list(ranking.ids) for ranking in found} == right


def test_vector_and_graph_meet_by_passage_and_agreement_counts():
    graph = property_graph()
    synonyms = LLMSynonymRetriever(graph.property_graph_store, llm=Keywords(), include_text=True)
    vector = Listed([NodeWithScore(node=TextNode(id_="c2", text=CHUNKS["c2"]), score=0.9)])
    retriever = CalibratedFusionRetriever(vector=vector, graph=synonyms, evidence_key="phasegraph")
    block = retriever.retrieve("Ada?")[0].metadata["phasegraph"]
    assert block["id"] == "c2"
    assert all(one["rank"] is not None for one in block["sources"].values())


def test_scores_of_the_legs_are_left_alone():
    shared = hits(a=0.9, b=0.5)
    before = copy.deepcopy(shared)
    CalibratedFusionRetriever(vector=Listed(shared)).retrieve("what?")
    assert shared == before
    peer([Listed(shared)], mode="relative_score").retrieve("what?")
    assert shared != before


def test_as_many_come_as_are_asked_for():
    graph = property_graph()
    synonyms = LLMSynonymRetriever(graph.property_graph_store, llm=Keywords(), include_text=True)
    vector = Listed([NodeWithScore(node=TextNode(id_=name, text=text), score=0.9) for name, text in CHUNKS.items()])
    assert len(CalibratedFusionRetriever(vector=vector, graph=synonyms, similarity_top_k=3).retrieve("Ada?")) == 3


def test_weights_count():
    one, other = Listed(hits(a=0.9, b=0.8, c=0.7, d=0.6, e=0.5)), Listed(hits(e=0.9, d=0.8, c=0.7, b=0.6, a=0.5))
    sources = {"one": SourceSpec(retriever=one, weight=1.0), "other": SourceSpec(retriever=other, weight=0.0)}
    assert ids_of(CalibratedFusionRetriever(retrievers=sources).retrieve("what?")) == list("abcde")
    equal = CalibratedFusionRetriever(retrievers={"one": one, "other": other}, weights={"one": 9.0, "other": 1.0})
    assert ids_of(equal.retrieve("what?")) == list("abcde")


def test_neither_a_model_nor_an_embedding_is_looked_up(monkeypatch):
    from llama_index.core.settings import _Settings

    def refuse(self):
        pytest.fail("looked up a default")

    monkeypatch.setattr(_Settings, "llm", property(refuse))
    monkeypatch.setattr(_Settings, "embed_model", property(refuse))
    assert CalibratedFusionRetriever(vector=Listed(hits(a=1.0))).retrieve("what?")
    assert issubclass(Looked, BaseEmbedding)
    assert len(ORDER) == 9
