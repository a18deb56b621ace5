"""The shared tests of priors, for LlamaIndex, and priors in the postprocessor."""

from __future__ import annotations

from dataclasses import replace

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.retrievers.bm25 import BM25Retriever
from tests.suites.priors import PASSAGES, PriorSuite

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, PhaseGraphPostprocessor
from phasegraph import FusionPipeline, PhasegraphWarning, UnitPrior
from phasegraph.acceptance import AcceptancePolicy

NODES = [TextNode(text=text, id_=name, metadata=metadata) for name, (text, metadata) in PASSAGES.items()]
INDEX = VectorStoreIndex(NODES, embed_model=MockEmbedding(embed_dim=8))


class TestPriors(PriorSuite):
    retriever = CalibratedFusionRetriever

    def sources(self):
        bm25 = BM25Retriever.from_defaults(nodes=NODES, similarity_top_k=3)
        return {"vector": INDEX, "retrievers": {"bm25": bm25}}

    def first(self, retriever, query):
        hit = retriever.retrieve(query)[0]
        return hit.node_id, hit.metadata


def test_the_postprocessor_reads_hits_alike() -> None:
    pipeline = replace(FusionPipeline.reciprocal_rank(), priors=(UnitPrior("fame", strength=1.0),))
    named = [TextNode(text=one.text, id_=one.node_id, metadata={**one.metadata, "source": "a"}) for one in NODES[:2]]
    hits = [NodeWithScore(node=node, score=score) for node, score in zip(named, (0.1, 0.2), strict=True)]
    found = PhaseGraphPostprocessor(pipeline=pipeline).postprocess_nodes(hits, QueryBundle("Which town?"))
    assert [one.node_id for one in found] == ["rome", "code"]


def test_lists_whose_threshold_rejects_everything_warn_at_the_third() -> None:
    fused = PhaseGraphPostprocessor(pipeline=FusionPipeline(accept=AcceptancePolicy({"a": 5.0})))
    lists = {"a": [(node, 1.0) for node in NODES]}
    assert fused.fuse(lists) == fused.fuse(lists) == []
    with pytest.warns(PhasegraphWarning, match="threshold of 'a' rejected all hits"):
        fused.fuse(lists)
