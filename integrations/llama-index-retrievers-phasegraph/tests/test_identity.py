"""Ids of nodes: a corpus that was split twice, and repeated ids."""

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import TextNode
from llama_index.retrievers.bm25 import BM25Retriever
from llamaindex_stores import sentences

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever
from phasegraph import InvalidInputError, PhasegraphWarning

PAGES = [Document(text=" ".join(f"Rome met Oslo in {page}.{row}." for row in range(60))) for page in range(4)]


def split():
    return sentences(60).get_nodes_from_documents(PAGES)


def test_a_splitters_nodes_serve_all_sources_and_a_corpus_split_twice_is_warned_about_once():
    nodes = split()
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(4))
    same = CalibratedFusionRetriever(vector=index, graph=EntityGraphRetriever.from_nodes(nodes), k=len(nodes))
    assert len({hit.text for hit in same.retrieve("Rome")}) == len(same.retrieve("Rome"))
    twice = CalibratedFusionRetriever(vector=index, graph=EntityGraphRetriever.from_nodes(split()))
    with pytest.warns(PhasegraphWarning, match="'graph' and 'vector' share no id, and return the same text"):
        twice.retrieve("Rome")
    twice.retrieve("Rome")


def test_a_bm25_with_a_repeated_node_id_is_refused():
    bm25 = BM25Retriever.from_defaults(nodes=[TextNode(id_="a", text="one text"), TextNode(id_="a", text="another")])
    with pytest.raises(InvalidInputError, match="source 'bm25': id 'a' is repeated"):
        CalibratedFusionRetriever(retrievers={"bm25": bm25})


def test_the_same_node_twice_in_an_answer_is_no_loss():
    node = TextNode(id_="a", text="one")
    retriever = CalibratedFusionRetriever(retrievers={"own": lambda query: [(node, 2.0), (node, 1.0)]})
    assert [hit.text for hit in retriever.retrieve("q")] == ["one"]
