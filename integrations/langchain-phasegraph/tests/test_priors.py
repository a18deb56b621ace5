"""The shared tests of priors, for LangChain, and priors in the fusion of lists."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langchain_community.retrievers import BM25Retriever
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from tests.suites.priors import PASSAGES, PriorSuite

from langchain_phasegraph import PhaseGraphRetriever, fuse_lists
from phasegraph import FusionPipeline, PhasegraphWarning, UnitPrior
from phasegraph.acceptance import AcceptancePolicy

DOCUMENTS = [Document(text, id=name, metadata=metadata) for name, (text, metadata) in PASSAGES.items()]
STORE = InMemoryVectorStore.from_documents(DOCUMENTS, DeterministicFakeEmbedding(size=32))


class TestPriors(PriorSuite):
    retriever = PhaseGraphRetriever

    def sources(self):
        return {"vector": STORE, "retrievers": {"bm25": BM25Retriever.from_documents(DOCUMENTS)}}

    def first(self, retriever, query):
        hit = retriever.invoke(query)[0]
        return hit.id, hit.metadata


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
