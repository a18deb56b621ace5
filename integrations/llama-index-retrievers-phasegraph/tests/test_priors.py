"""Priors read the metadata and texts of LlamaIndex's own nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.retrievers.bm25 import BM25Retriever

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, PhaseGraphPostprocessor
from phasegraph import ExactMatchBonus, FusionPipeline, PhasegraphWarning, RecencyPrior, UnitPrior
from phasegraph.acceptance import AcceptancePolicy

NODES = [
    TextNode(text="Rome lies on the Tiber.", id_="rome", metadata={"fame": 1.0, "published": "1999-01-01"}),
    TextNode(text="The code is ERR-1042.", id_="code", metadata={"fame": "0.5", "published": "2026-01-01T00:00:00Z"}),
    TextNode(text="Oslo lies on a fjord.", id_="oslo", metadata={"fame": "unknown"}),
]
INDEX = VectorStoreIndex(NODES, embed_model=MockEmbedding(embed_dim=8))
BM25 = BM25Retriever.from_defaults(nodes=NODES, similarity_top_k=3)


def _retriever(*priors: object) -> CalibratedFusionRetriever:
    pipeline = replace(FusionPipeline.reciprocal_rank(), priors=priors)
    return CalibratedFusionRetriever(vector=INDEX, retrievers={"bm25": BM25}, pipeline=pipeline)


def test_metadata_reaches_the_priors_and_what_is_missing_is_counted() -> None:
    result = _retriever(UnitPrior("fame", strength=1.0)).explain("Which town?")
    assert dict(zip(result.ids, result.priors.tolist(), strict=True)) == {"rome": 1.0, "code": 0.5, "oslo": 1.0}
    (reading,) = result.extras["priors"]
    assert (reading.found, reading.missing, reading.unusable) == (2, 0, 1)
    assert "'oslo' has 'unknown'" in result.warnings[-1]


def test_dates_are_read_from_the_metadata() -> None:
    result = _retriever(RecencyPrior(365.25 * 86400, strength=1.0, key="published")).explain("Which town?")
    value = dict(zip(result.ids, result.priors.tolist(), strict=True))
    assert 0 < value["rome"] < 1e-6 < value["code"] < value["oslo"] == 1.0


@pytest.mark.parametrize("query", ["What is ERR-1042?", 'What is "err-1042"?'])
def test_an_exact_match_in_the_text_is_one_more_source(query: str) -> None:
    retriever = _retriever(ExactMatchBonus(weight=100.0))
    assert retriever.retrieve(query)[0].node_id == "code"
    assert [one.source for one in retriever.explain(query).reports] == ["bm25", "exact_match", "vector"]


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
