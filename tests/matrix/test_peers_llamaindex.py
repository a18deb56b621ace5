"""What LlamaIndex's own retrievers get wrong, shown on them and not found here; a fix of theirs is seen here first."""

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.indices.property_graph import LLMSynonymRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from matrix_llamaindex import simple
from matrix_ours import ids
from matrix_property_graph import Names, in_memory_graph, named
from matrix_slice import LlamaIndexVectors

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever
from phasegraph import InvalidInputError


class Leg(BaseRetriever):
    """Returns these hits, the very same objects each time."""

    def __init__(self, *hits):
        super().__init__()
        self.hits = [NodeWithScore(node=TextNode(id_=name, text=name), score=score) for name, score in hits]

    def _retrieve(self, query_bundle):
        return self.hits


class Reversed(LlamaIndexVectors):
    """Another model: it points the other way."""

    def _get_query_embedding(self, query):
        return [-value for value in super()._get_query_embedding(query)]


def fused(legs, mode="reciprocal_rerank", **more):
    return QueryFusionRetriever(legs, llm=MockLLM(), num_queries=1, use_async=False, mode=mode, **more)


@pytest.fixture(scope="module")
def graph(data):
    return in_memory_graph(data)[0]


def test_the_embedding_of_one_source_is_not_searched_with_by_the_next(data):
    index = simple(data, None).given._index
    legs = {"a": index.as_retriever(similarity_top_k=10)}
    legs["b"] = index.as_retriever(similarity_top_k=10, embed_model=Reversed())
    right = {name: ids(leg.retrieve(data.questions[0])) for name, leg in legs.items()}
    assert not set(right["a"]) & set(right["b"])
    theirs = ids(fused(list(legs.values()), similarity_top_k=20).retrieve(data.questions[0]))
    assert set(theirs) == set(right["a"]), "the second model's passages never come"
    found = CalibratedFusionRetriever(retrievers=legs, fetch_k=10).explain(data.questions[0]).candidates.rankings
    assert {one.source: list(one.ids) for one in found} == right


def test_agreement_of_vectors_and_graph_on_a_passage_counts(data, graph):
    synonyms = LLMSynonymRetriever(graph.property_graph_store, llm=Names(), include_text=True, path_depth=1)
    vector = simple(data, None).given._index.as_retriever(similarity_top_k=10)
    question = data.questions[0]
    walked, dense = ids(synonyms.retrieve(question)), ids(vector.retrieve(question))
    shared = [name for name in dense if name in walked]
    assert shared
    theirs = fused([vector, synonyms], similarity_top_k=50).retrieve(question)
    assert len(ids(theirs)) == len(set(dense) | set(walked)), "merged by id at the end"
    scores = {hit.node.node_id: hit.score for hit in theirs}
    assert all(scores[name] <= 1 / 60 for name in shared), "at most one list's share of a passage that both found"
    ours = CalibratedFusionRetriever(vector=vector, graph=synonyms, similarity_top_k=50, evidence_key="phasegraph")
    blocks = {hit.node.node_id: hit.metadata["phasegraph"]["sources"] for hit in ours.retrieve(question)}
    for name in shared:
        assert all(one["rank"] is not None for one in blocks[name].values())


def test_a_triple_leads_to_a_passage_that_states_it(data, graph):
    synonyms = LLMSynonymRetriever(graph.property_graph_store, llm=Names(), include_text=False, path_depth=1)
    stated = {
        name: {" -> ".join([named(s), p or "related", named(o)]) for s, p, o in said}
        for name, said in data.triples.items()
    }
    theirs = [(hit.node.ref_doc_id, hit.text) for one in data.questions for hit in synonyms.retrieve(one)]
    wrong = [text for name, text in theirs if text not in stated[name]]
    assert len(wrong) > len(theirs) / 20, "the passage of the subject's last mention"
    ours = CalibratedFusionRetriever(graph=synonyms, similarity_top_k=50, evidence_key="phasegraph")
    for question in data.questions:
        for hit in ours.retrieve(question):
            facts = hit.metadata["phasegraph"]["sources"]["graph"]["evidence"]["facts"]
            assert set(facts) <= stated[hit.node.node_id]


def test_a_triple_has_the_same_id_every_time(data, graph):
    synonyms = LLMSynonymRetriever(graph.property_graph_store, llm=Names(), include_text=False, path_depth=1)
    first, second = (ids(synonyms.retrieve(data.questions[0])) for _ in range(2))
    assert first
    assert not set(first) & set(second)
    ours = CalibratedFusionRetriever(graph=synonyms)
    assert ids(ours.retrieve(data.questions[0])) == ids(ours.retrieve(data.questions[0]))


def test_weights_count():
    legs = [Leg(("a", 0.9), ("b", 0.8)), Leg(("b", 0.9), ("a", 0.1))]
    weighted = fused(legs, retriever_weights=[1.0, 0.0]).retrieve("q")
    assert weighted[0].score == weighted[1].score, "reciprocal ranks do not look at them"
    sources = dict(zip("xy", legs, strict=True))
    assert ids(CalibratedFusionRetriever(retrievers=sources, weights={"x": 1.0, "y": 0.0}).retrieve("q")) == ["a", "b"]
    with pytest.raises(ZeroDivisionError):
        fused(legs, "relative_score", retriever_weights=[1.0, -1.0])
    with pytest.raises(InvalidInputError, match="weights"):
        CalibratedFusionRetriever(retrievers=sources, weights={"x": 1.0, "y": -1.0})


def test_a_hit_without_a_score_beside_one_with_a_score_is_no_error():
    with pytest.raises(TypeError):
        fused([Leg(("a", 0.9), ("b", None))], "relative_score").retrieve("q")
    result = CalibratedFusionRetriever(vector=Leg(("a", 0.9), ("b", None))).explain("q")
    assert "a" in result.ids
    assert result.reports[0].dropped == 1
