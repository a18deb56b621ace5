"""Retrievers over nodes of one's own, in LlamaIndex."""

import hashlib

import numpy as np
import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters
from llamaindex_stores import INDEXES

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever
from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.testing.corpus_suite import CorpusSuite


class Hashed(BaseEmbedding):
    """A vector of its own for every word; a text's is their sum."""

    def _get_query_embedding(self, query):
        words = query.lower().replace(".", "").split() or [""]
        seeds = [int(hashlib.sha256(word.encode(errors="replace")).hexdigest()[:8], 16) for word in words]
        return sum(np.random.default_rng(seed).standard_normal(16) for seed in seeds).tolist()

    def _get_text_embedding(self, text):
        return self._get_query_embedding(text)

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)


class TestLlamaIndex(CorpusSuite):
    def document(self, name, text, **metadata):
        named = {} if name is None else {"id_": name}
        return TextNode(text=text, metadata=metadata, **named)

    def made(self, documents, path=None, **fields):
        return CalibratedFusionRetriever.from_nodes(documents, Hashed(), path=path, **fields)

    def opened(self, path, **fields):
        return CalibratedFusionRetriever.load(path, Hashed(), **fields)

    def graph_of(self, documents):
        return EntityGraphRetriever.from_nodes(documents)

    def opened_graph(self, path):
        return EntityGraphRetriever.load(path)

    def add(self, retriever, documents):
        return retriever.add_nodes(documents)

    def aadd(self, retriever, documents):
        return retriever.aadd_nodes(documents)

    def ask(self, retriever, query, **only):
        if only:
            matches = [MetadataFilter(key=key, value=value) for key, value in only.items()]
            retriever = retriever.within(MetadataFilters(filters=matches))
        return [(one.node_id, one.text, one.metadata) for one in retriever.retrieve(query)]

    def test_nodes_come_back_with_their_relationships_and_excluded_keys(self, place):
        node = TextNode(text="Ada met Bo.", id_="a", metadata={"secret": "x"}, excluded_llm_metadata_keys=["secret"])
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="file")
        retriever = self.made([node, *self.documents([1])], place)
        for again in [retriever] if place is None else [retriever, self.opened(place)]:
            found = next(one.node for one in again.retrieve("Ada") if one.node_id == "a")
            assert found.ref_doc_id == "file"
            assert found.excluded_llm_metadata_keys == ["secret"]

    def test_filters_of_the_constructor_hold_after_changes(self):
        red = MetadataFilters(filters=[MetadataFilter(key="team", value="red")])
        retriever = self.made(self.documents(range(8)), filters=red)
        self.add(retriever, self.documents([9, 10]))
        retriever.delete(["d1"])
        found = {one.node_id for question in ("Letter 4", "Byron") for one in retriever.retrieve(question)}
        assert found
        assert found <= {"d3", "d5", "d7", "d9"}


@pytest.mark.parametrize("name", sorted(INDEXES))
def test_a_retriever_is_built_over_what_an_index_holds_with_its_ids(name):
    index = INDEXES[name]()
    retriever = CalibratedFusionRetriever.from_index(index, k=9)
    found = retriever.explain("text of p3")
    assert set(found.ids) == {f"p{number}" for number in range(9)}
    sources = {one.source for one in found.evidence("p3").sources if one.rank is not None}
    assert sources == {"vector", "graph", "lexical"}


def test_an_index_in_memory_is_changed_with_the_graph():
    nodes = [TextNode(text=f"Ada met Bo in Room {n}.", id_=f"n{n}") for n in range(5)]
    index = VectorStoreIndex(nodes, embed_model=Hashed())
    retriever = CalibratedFusionRetriever.from_index(index)
    assert retriever._corpus.index.graph.embeddings.shape == (5, 16)
    retriever.add_nodes([TextNode(text="Cy sang in Room 9.", id_="new")])
    retriever.delete(["n0"])
    assert set(index.docstore.docs) == {"n1", "n2", "n3", "n4", "new"}
    assert retriever.retrieve("Who sang in Room 9?")[0].node_id == "new"


def test_an_empty_index_and_other_things_are_refused():
    with pytest.raises(InvalidInputError, match="must hold nodes"):
        CalibratedFusionRetriever.from_index(
            VectorStoreIndex([], embed_model=Hashed(), storage_context=StorageContext.from_defaults())
        )
    with pytest.raises(InvalidTypeError, match="VectorStoreIndex"):
        CalibratedFusionRetriever.from_index("index")
    with pytest.raises(InvalidTypeError, match="embed_model must be"):
        CalibratedFusionRetriever.from_nodes([TextNode(text="Ada met Bo.")], lambda text: [1.0])
