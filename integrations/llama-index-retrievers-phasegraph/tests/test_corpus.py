"""Retrievers over nodes of one's own, in LlamaIndex."""

import copy
import hashlib
import pickle

import numpy as np
import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters
from llamaindex_stores import INDEXES
from tests.suites.corpus import CorpusSuite

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever
from phasegraph import InvalidInputError, InvalidTypeError


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
    copiers = (copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)))  # noqa: S301

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

    def test_a_narrowed_retriever_stays_narrow_and_sees_what_came_and_went(self):
        red, later = (
            MetadataFilters(filters=[MetadataFilter(key=key, value=value)])
            for key, value in (("team", "red"), ("n", 1))
        )
        whole = self.made(self.documents(range(8)), filters=red)
        narrow = whole.within(later)
        self.add(narrow, [self.document(f"n{n}", f"Ada met Bo in {n}.", team="red", n=n) for n in (1, 2)])
        self.add(whole, [self.document("n3", "Ada met Bo again.", team="red", n=1)])
        assert {one.node_id for one in narrow.retrieve("Ada met Bo")} == {"n1", "n3"}
        whole.delete(["n3"])
        assert {one.node_id for one in narrow.retrieve("Ada met Bo")} == {"n1"}
        assert "n2" in {one.node_id for one in whole.retrieve("Ada met Bo")}


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
    for wrong in (TextNode(text="Ada met Bo."), "Ada", None):
        with pytest.raises(InvalidTypeError, match="nodes must be a list of nodes"):
            CalibratedFusionRetriever.from_nodes(wrong, Hashed())
    with pytest.raises(InvalidTypeError, match="nodes must hold nodes; got str"):
        CalibratedFusionRetriever.from_nodes(["Ada"], Hashed())


def test_what_is_wrong_is_said_before_anything_is_embedded(tmp_path):
    class Costly(Hashed):
        def _get_text_embedding(self, text):
            raise AssertionError

    for wrong, fields in [(TextNode(text=" ", metadata={"page": 3}), {}), (TextNode(text="Ada met Bo."), {"k": -1})]:
        with pytest.raises(InvalidInputError, match=r"'page': 3|k must"):
            CalibratedFusionRetriever.from_nodes([wrong], Costly(), path=tmp_path / "new", **fields)
    graph = EntityGraphRetriever.from_nodes([TextNode(text="Ada met Bo.")], embed_model=Hashed())
    graph.save(tmp_path / "graph")
    with pytest.raises(InvalidInputError, match="embed_model="):
        EntityGraphRetriever.load(tmp_path / "graph").add_nodes([TextNode(text="Cy sang.")])


def test_what_left_the_index_by_other_ways_can_be_deleted_and_replaced():
    index = VectorStoreIndex(
        [TextNode(text=f"Ada met Bo in {n}.", id_=f"n{n}") for n in range(4)], embed_model=Hashed()
    )
    retriever = CalibratedFusionRetriever.from_index(index)
    index.delete_nodes(["n1", "n2"], delete_from_docstore=True)
    retriever.delete(["n1"])
    retriever.add_nodes([TextNode(text="Cy sang.", id_="n2")])
    assert set(index.docstore.docs) == {"n0", "n2", "n3"}


def test_the_number_of_nodes_has_both_its_names():
    graph = EntityGraphRetriever.from_nodes([TextNode(text=f"Ada met Bo {n}.", id_=f"n{n}") for n in range(5)])
    graph.k = 2
    assert (graph.similarity_top_k, len(graph.retrieve("Who met Bo?"))) == (2, 2)
