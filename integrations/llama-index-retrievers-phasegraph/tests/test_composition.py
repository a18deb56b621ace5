"""The retriever inside LlamaIndex's own fusion, which must recognize a passage in the hits of different queries."""

import copy
import json
import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.indices.query.query_transform.base import IdentityQueryTransform
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.retrievers import QueryFusionRetriever, TransformRetriever
from llama_index.core.schema import TextNode
from llamaindex_stores import ORDER, Listed, Looked, hits, ids_of

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever
from phasegraph import PhasegraphWarning
from phasegraph.graph import GraphSource, build_graph
from phasegraph.retrieval import EvidenceBlock

MODES = ("reciprocal_rerank", "relative_score", "dist_based_score", "simple")
KEYS = (None, "phasegraph")


class ThreeQueries(CustomLLM):
    """A model that always answers with the same three queries."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text="what of p2\nwhat of p5\nwhat of p8")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        yield self.complete(prompt)


def nodes():
    return [TextNode(id_=name, text=f"text of {name}", metadata={"title": f"Page {name}"}) for name in ORDER]


def index():
    return VectorStoreIndex(nodes(), embed_model=Looked())


def ours(key=None, **options):
    graph = EntityGraphRetriever.from_nodes(nodes(), evidence_key=key)
    return CalibratedFusionRetriever(vector=index(), graph=graph, evidence_key=key, similarity_top_k=4, **options)


def fused(retrievers, mode, use_async=False, top=20):
    return QueryFusionRetriever(
        retrievers, llm=ThreeQueries(), num_queries=4, mode=mode, use_async=use_async, similarity_top_k=top
    ).retrieve("who wrote p0")


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("use_async", [False, True])
def test_inside_the_frameworks_fusion_every_passage_comes_once(mode, key, use_async):
    inner = ours(key)
    alone = [inner.retrieve(query) for query in ("who wrote p0", "what of p2", "what of p5", "what of p8")]
    expected = {hit.node_id for found in alone for hit in found}
    found = fused([inner], mode, use_async)
    assert sorted(ids_of(found)) == sorted(expected)
    assert all((key in hit.metadata) is (key is not None) for hit in found)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("mode", MODES)
def test_as_many_passages_come_as_with_the_plain_retriever_in_its_place(mode, key):
    plain = index().as_retriever(similarity_top_k=4)
    ranked_alike = CalibratedFusionRetriever(vector=plain, similarity_top_k=4, evidence_key=key)
    assert ids_of(ranked_alike.retrieve("what of p2")) == ids_of(plain.retrieve("what of p2"))
    own, framework = fused([ranked_alike], mode), fused([plain], mode)
    assert len(ids_of(own)) == len(set(ids_of(own))) == len(framework)
    assert set(ids_of(own)) == set(ids_of(framework))


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("mode", MODES)
def test_beside_a_plain_retriever_they_meet_by_passage(mode, key):
    plain, inner = index().as_retriever(similarity_top_k=4), ours(key)
    found = fused([inner, plain], mode)
    assert len(ids_of(found)) == len(set(ids_of(found)))
    assert set(ids_of(fused([plain], mode))) <= set(ids_of(found))
    hashes = {node.node_id: node.hash for node in nodes()}
    assert all(hit.node.hash == hashes[hit.node_id] for hit in inner.retrieve("what of p2"))


def test_evidence_in_the_metadata_is_out_of_its_text_and_in_all_else():
    hit = ours("phasegraph").retrieve("what of p2")[0]
    for node in (hit.node, hit.node.model_copy(), copy.deepcopy(hit.node)):
        assert "phasegraph" not in str(node.metadata)
        assert node.metadata["phasegraph"]["sources"]["vector"]["rank"] == 1.0
        assert json.loads(json.dumps(node.metadata))["phasegraph"]["position"] == 1
        assert node.hash == hit.node.hash


def test_an_evidence_key_that_the_nodes_have_themselves_is_kept_and_warned_about():
    with pytest.warns(PhasegraphWarning, match="already use the metadata key 'title': its value is unchanged"):
        found = ours("title").retrieve("what of p2")
    assert all(hit.metadata["title"] == f"Page {hit.node_id}" for hit in found)


@pytest.mark.parametrize("made", ["source", "deepcopy"])
def test_a_method_that_the_framework_wraps_embeds_in_a_copy_too(made):
    model = Looked()
    vectors = np.array([model.get_text_embedding(node.text) for node in nodes()])
    graph = build_graph(
        [{"id": node.node_id, "title": node.node_id, "text": node.text} for node in nodes()], embeddings=vectors
    )
    source = GraphSource(graph, embedder=model.get_query_embedding)
    other = pickle.loads(pickle.dumps(source)) if made == "source" else copy.deepcopy(source)  # noqa: S301
    assert other.search("what of p2", 5, {}).ids == source.search("what of p2", 5, {}).ids


@pytest.mark.parametrize("key", KEYS)
def test_reciprocal_ranks_of_a_passage_that_several_queries_found_add_up(key):
    inner = ours(key)
    expected: dict[str, float] = {}
    for query in ("who wrote p0", "what of p2", "what of p5", "what of p8"):
        for rank, hit in enumerate(inner.retrieve(query)):
            expected[hit.node_id] = expected.get(hit.node_id, 0.0) + 1 / (rank + 60)
    found = fused([inner], "reciprocal_rerank")
    assert {hit.node_id: hit.score for hit in found} == pytest.approx(expected)
    assert max(expected.values()) > 1 / 60
    assert all(one.score >= two.score for one, two in pairwise(found))


@pytest.mark.parametrize("key", KEYS)
def test_hits_are_new_in_every_call_and_a_nodes_hash_is_the_same(key):
    for retriever in (ours(key), EntityGraphRetriever.from_nodes(nodes(), evidence_key=key)):
        first, second = retriever.retrieve("Page p1 and Page p2"), retriever.retrieve("Page p2")
        again = retriever.retrieve("Page p1 and Page p2")
        assert not {id(hit) for hit in first} & {id(hit) for hit in again}
        for hit in first:
            hit.score = -1.0
        assert all(hit.score >= 0 for hit in retriever.retrieve("Page p1 and Page p2"))
        hashes = {hit.node_id: hit.node.hash for hit in first}
        shared = [hit for hit in second if hit.node_id in hashes]
        assert shared
        assert all(hit.node.hash == hashes[hit.node_id] for hit in shared)
        if key is not None:
            assert isinstance(first[0].metadata[key], EvidenceBlock)
            assert key in first[0].node.excluded_llm_metadata_keys
            assert key in first[0].node.excluded_embed_metadata_keys


def test_a_nested_retriever_hands_over_scores_of_which_higher_is_better():
    """The direction is never inferred, even if the hits are few and not ordered by score."""
    inner = CalibratedFusionRetriever(vector=Listed(hits(a=0.1, b=0.4, c=0.9)), fetch_k=None)
    report = CalibratedFusionRetriever(retrievers={"inner": inner}).explain("who?").reports[0]
    assert report.notes[0] == "higher is better: known for this store"
    assert report.calibration == "estimated"


def test_the_limit_reaches_the_retriever_inside_a_query_transform():
    nodes = [TextNode(text=f"Page p{row}", id_=f"p{row}") for row in range(6)]
    inner = VectorStoreIndex(nodes, embed_model=Looked()).as_retriever(similarity_top_k=2)
    transformed = TransformRetriever(inner, IdentityQueryTransform())
    report = CalibratedFusionRetriever(vector=transformed).explain("p1").reports[0]
    assert report.hits == 6
    assert inner.similarity_top_k == 2
    assert CalibratedFusionRetriever(vector=transformed, fetch_k=None).explain("p1").reports[0].hits == 2
