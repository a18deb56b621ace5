"""Scores out of real stores: direction known, ids kept, nothing written into the index or the retriever."""

import copy
import json

import pytest
from llama_index.core.schema import MetadataMode, QueryBundle
from llama_index.core.vector_stores.types import VectorStoreQueryMode
from llama_index.retrievers.bm25 import BM25Retriever
from llamaindex_stores import INDEXES, ORDER, ids_of, passages

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, SourceSpec


@pytest.fixture(params=sorted(INDEXES))
def real(request):
    return INDEXES[request.param]()


def test_the_best_passage_of_every_store_comes_first_and_the_worst_last(real):
    found = CalibratedFusionRetriever(vector=real, similarity_top_k=9).retrieve("what?")
    plain = real.as_retriever(similarity_top_k=9).retrieve("what?")
    assert ids_of(found) == ids_of(plain)
    assert [hit.text for hit in found] == [hit.text for hit in plain]
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)
    assert all(type(score) is float for score in scores)


async def test_async_gives_the_same_as_sync_over_every_store(real):
    retriever = CalibratedFusionRetriever(vector=real.as_retriever(), k=9)
    assert await retriever.aretrieve("what?") == retriever.retrieve("what?")


def test_raw_scores_are_the_stores_own_and_the_direction_is_reported(real):
    own = {hit.node_id: hit.score for hit in real.as_retriever(similarity_top_k=9).retrieve("what?")}
    retriever = CalibratedFusionRetriever(vector=real, k=9, metadata_key="phasegraph")
    for hit in retriever.retrieve("what?"):
        assert hit.metadata["phasegraph"]["sources"]["vector"]["raw"] == pytest.approx(own[hit.node_id])
    higher = own[ORDER[0]] > own[ORDER[-1]]
    (report,) = retriever.explain("what?").reports
    assert report.notes == (f"{'higher' if higher else 'lower'} is better: known for this store",)


def test_what_is_returned_can_be_changed_without_changing_the_index(real):
    own = real.as_retriever(similarity_top_k=9)
    before = copy.deepcopy(own.retrieve("what?"))
    for hit in CalibratedFusionRetriever(vector=own).retrieve("what?"):
        hit.node.metadata["mine"] = True
        hit.node.excluded_llm_metadata_keys.append("mine")
        hit.node.relationships.clear()
        hit.score = -1.0
    assert own.retrieve("what?") == before


def test_provenance_is_plain_json_and_reaches_neither_a_prompt_nor_an_embedding(real):
    for hit in CalibratedFusionRetriever(vector=real, metadata_key="phasegraph").retrieve("what?"):
        json.dumps(hit.metadata, allow_nan=False)
        for mode in (MetadataMode.LLM, MetadataMode.EMBED):
            assert "phasegraph" not in hit.node.get_content(metadata_mode=mode)
        assert "phasegraph" in hit.node.get_content(metadata_mode=MetadataMode.ALL)


def test_evidence_is_left_out_unless_it_is_asked_for(index):
    for hit in CalibratedFusionRetriever(vector=index).retrieve("what?"):
        assert "phasegraph" not in hit.metadata
        assert "phasegraph" not in hit.node.excluded_llm_metadata_keys


@pytest.mark.parametrize(("limit", "expected"), [(50, 9), (6, 6), (None, 2)])
def test_the_limit_replaces_the_retrievers_own_number_and_none_leaves_it(index, limit, expected):
    own = index.as_retriever(similarity_top_k=2)
    assert len(CalibratedFusionRetriever(vector=own, limit=limit).retrieve("what?")) == expected
    assert len(CalibratedFusionRetriever(vector=SourceSpec(retriever=own, limit=limit)).retrieve("what?")) == expected
    assert own.similarity_top_k == 2


def test_settings_of_the_retriever_are_read_at_every_call(index):
    own = index.as_retriever()
    retriever = CalibratedFusionRetriever(vector=own)
    assert len(retriever.retrieve("what?")) == 9
    own._node_ids = ["p3", "p4"]
    assert set(ids_of(retriever.retrieve("what?"))) == {"p3", "p4"}


def test_bm25_asks_for_no_more_than_it_has_and_keeps_its_own_number():
    bm25 = BM25Retriever.from_defaults(nodes=passages(), similarity_top_k=2)
    found = CalibratedFusionRetriever(retrievers={"bm25": bm25}, k=9).retrieve("text of p3")
    assert (found[0].node_id, len(found), bm25.similarity_top_k) == ("p3", 9, 2)


def test_scores_that_are_all_equal_count_as_membership_and_add_no_order(index):
    bm25 = BM25Retriever.from_defaults(nodes=passages())
    retriever = CalibratedFusionRetriever(vector=index, retrievers={"bm25": bm25}, k=9)
    assert ids_of(retriever.retrieve("nothing matches")) == list(
        ids_of(CalibratedFusionRetriever(vector=index, k=9).retrieve("nothing matches"))
    )


def test_mmr_keeps_its_own_members_and_gives_ranks(index):
    own = index.as_retriever(similarity_top_k=4, vector_store_query_mode=VectorStoreQueryMode.MMR)
    members = ids_of(own.retrieve("what?"))
    retriever = CalibratedFusionRetriever(vector=own)
    assert ids_of(retriever.retrieve("what?")) == members
    assert retriever.explain("what?").reports[0].notes[0] == "rank only: the scores of its mode are not similarities"


def test_an_embedding_that_the_caller_gives_is_used_and_kept(index):
    bundle = QueryBundle("what?", embedding=[0.2, 0.8])
    found = CalibratedFusionRetriever(vector=index, k=9).retrieve(bundle)
    assert ids_of(found) == ids_of(index.as_retriever(similarity_top_k=9).retrieve(copy.deepcopy(bundle)))
    assert bundle.embedding == [0.2, 0.8]
