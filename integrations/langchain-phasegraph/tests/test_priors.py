"""Priors read the metadata and texts of LangChain's own documents."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langchain_community.retrievers import BM25Retriever
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_phasegraph import PhaseGraphRetriever, fuse_lists
from phasegraph import ExactMatchBonus, FusionPipeline, PhasegraphWarning, RecencyPrior, UnitPrior
from phasegraph.acceptance import AcceptancePolicy

DOCUMENTS = [
    Document("Rome lies on the Tiber.", id="rome", metadata={"fame": 1.0, "published": "1999-01-01"}),
    Document("The code is ERR-1042.", id="code", metadata={"fame": "0.5", "published": "2026-01-01T00:00:00Z"}),
    Document("Oslo lies on a fjord.", id="oslo", metadata={"fame": "unknown"}),
]
STORE = InMemoryVectorStore.from_documents(DOCUMENTS, DeterministicFakeEmbedding(size=32))
BM25 = BM25Retriever.from_documents(DOCUMENTS)


def _retriever(*priors: object) -> PhaseGraphRetriever:
    pipeline = replace(FusionPipeline.reciprocal_rank(), priors=priors)
    return PhaseGraphRetriever(vector=STORE, retrievers={"bm25": BM25}, pipeline=pipeline)


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
    assert retriever.invoke(query)[0].id == "code"
    result = retriever.explain(query)
    assert [report.source for report in result.reports] == ["bm25", "exact_match", "vector"]
    shown = PhaseGraphRetriever(vector=STORE, pipeline=retriever.pipeline, evidence_key="why").invoke(query)[0]
    assert shown.metadata["why"]["sources"]["exact_match"]["rank"] == 1.0


def test_lists_that_are_already_there_are_read_alike() -> None:
    pipeline = replace(FusionPipeline.reciprocal_rank(), priors=(UnitPrior("fame", strength=1.0),))
    found = fuse_lists(pipeline=pipeline).explain({"a": DOCUMENTS[:2][::-1]})
    assert found.ids == ("rome", "code")


def test_lists_whose_threshold_rejects_everything_warn_at_the_third() -> None:
    fused = fuse_lists(pipeline=FusionPipeline(accept=AcceptancePolicy({"a": 5.0})))
    lists = {"a": [(document, 1.0) for document in DOCUMENTS]}
    assert fused.invoke(lists) == fused.invoke(lists) == []
    with pytest.warns(PhasegraphWarning, match="threshold of 'a' rejected all hits"):
        fused.invoke(lists)
