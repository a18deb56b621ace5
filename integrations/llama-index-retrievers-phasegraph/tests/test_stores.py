"""Scores of real stores: the direction is known, ids are kept, and the index and the retriever stay unchanged."""

import copy
import json

import numpy as np
import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import VectorStoreQueryMode
from llama_index.retrievers.bm25 import BM25Retriever
from llamaindex_stores import INDEXES, Looked, ids_of, passages

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever


@pytest.fixture(params=sorted(INDEXES))
def real(request):
    return INDEXES[request.param]()


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
    for hit in CalibratedFusionRetriever(vector=real, evidence_key="phasegraph").retrieve("what?"):
        json.dumps(hit.metadata, allow_nan=False)
        for mode in (MetadataMode.LLM, MetadataMode.EMBED):
            assert "phasegraph" not in hit.node.get_content(metadata_mode=mode)
        assert "phasegraph" in hit.node.get_content(metadata_mode=MetadataMode.ALL)


def test_evidence_is_left_out_unless_it_is_asked_for(index):
    for hit in CalibratedFusionRetriever(vector=index).retrieve("what?"):
        assert "phasegraph" not in hit.metadata
        assert "phasegraph" not in hit.node.excluded_llm_metadata_keys


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
    assert (
        retriever.explain("what?").reports[0].notes[0]
        == "rank only: in its search mode, the scores are not similarities"
    )


def test_an_embedding_that_the_caller_gives_is_used_and_kept(index):
    bundle = QueryBundle("what?", embedding=[0.2, 0.8])
    found = CalibratedFusionRetriever(vector=index, k=9).retrieve(bundle)
    assert ids_of(found) == ids_of(index.as_retriever(similarity_top_k=9).retrieve(copy.deepcopy(bundle)))
    assert bundle.embedding == [0.2, 0.8]


async def test_an_index_that_refuses_more_hits_than_it_holds_is_asked_again():
    from sklearn.neighbors import NearestNeighbors

    model, found = Looked(), passages()
    nearest = NearestNeighbors().fit(np.array([model.get_text_embedding(one.text) for one in found]))

    class Neighbours(BaseRetriever):
        similarity_top_k = 4

        def _retrieve(self, query_bundle):
            query = [model.get_query_embedding(query_bundle.query_str)]
            distances, rows = nearest.kneighbors(query, n_neighbors=self.similarity_top_k)
            pairs = zip(rows[0], distances[0], strict=True)
            return [NodeWithScore(node=found[row], score=-float(one)) for row, one in pairs]

    def function(query, limit):
        made = Neighbours()
        made.similarity_top_k = limit
        return made.retrieve(query)

    async def later(query, limit):
        return function(query, limit)

    for given in (Neighbours(), function, later):
        result = await CalibratedFusionRetriever(vector=given).aexplain("what?")
        (report,) = result.reports
        assert (report.status, report.hits) == ("ok", 9)
        assert (
            "the source refused to return 50 hits (ValueError), so it was asked again for 9 hits: set fetch_k=9 to ask "
            "only once" in report.notes
        )
    assert CalibratedFusionRetriever(vector=function).explain("what?").reports[0].hits == 9
