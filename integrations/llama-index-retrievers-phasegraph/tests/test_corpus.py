"""The shared tests of retrievers that own their nodes, for LlamaIndex."""

import copy
import hashlib
import pickle
from functools import cache

import faiss
import numpy as np
import pytest
from llama_index.core import Settings, StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import Document, NodeRelationship, RelatedNodeInfo, TextNode, TransformComponent
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters
from llama_index.vector_stores.faiss import FaissVectorStore
from llamaindex_stores import INDEXES, TextModel, sentences
from pydantic import Field
from tests.suites.corpus import CorpusSuite

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever
from phasegraph import InvalidInputError, InvalidTypeError, PhasegraphWarning, StoreError


@cache
def word_vector(word, size):
    """Return the vector of a word, which depends on nothing else."""
    seed = int(hashlib.sha256(word.encode(errors="replace")).hexdigest()[:8], 16)
    return np.random.default_rng(seed).standard_normal(size)


class Hashed(TextModel):
    """An embedding model with a vector for every word; the vector of a text is the sum of its words' vectors."""

    model_name: str = "plain"
    size: int = 16

    def _get_query_embedding(self, query):
        if self.model_name == "silent":
            raise OSError("no route to host")
        words = query.lower().replace(".", "").split() or [""]
        salted = [f"{word}{'' if self.model_name == 'plain' else self.model_name}" for word in words]
        return sum(word_vector(word, self.size) for word in salted).tolist()

    def _get_text_embedding(self, text):
        return self._get_query_embedding(text)


class Counting(Hashed):
    """An embedding model that records the embedded texts, without the metadata that precede them."""

    texts: list[str] = Field(default_factory=list)

    def _get_text_embedding(self, text):
        self.texts.append(text.rpartition("\n")[2])
        return super()._get_text_embedding(text)


Counting.__name__ = "Hashed"


class TestLlamaIndex(CorpusSuite):
    framework = "llama_index"
    embeds_query = "_get_query_embedding"
    copiers = (copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)))  # noqa: S301

    def document(self, name, text, **metadata):
        named = {} if name is None else {"id_": name}
        return TextNode(text=text, metadata=metadata, **named)

    def dated(self, text, day):
        metadata = {"source": "a.md", "day": day}
        return TextNode(text=text, metadata=metadata, excluded_embed_metadata_keys=["day"])

    def model(self, name="plain", size=16):
        return Hashed(model_name=name, size=size)

    def counting(self):
        return Counting()

    def made(self, documents, path=None, model=None, **fields):
        fields = ({} if path is None else {"vector_store": self.vector_store}) | fields
        return CalibratedFusionRetriever.from_nodes(documents, model or Hashed(), path=path, **fields)

    def opened(self, path, model=None, **fields):
        return CalibratedFusionRetriever.load(path, model or Hashed(), **fields)

    def graph_of(self, documents, *model):
        return EntityGraphRetriever.from_nodes(documents, *model)

    def opened_graph(self, path, model=None, **fields):
        return EntityGraphRetriever.load(path, model, **fields)

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
        with pytest.warns(PhasegraphWarning, match="filter key 'n' is in no passage"):
            narrow = whole.within(later)
        self.add(narrow, [self.document(f"n{n}", f"Ada met Bo in {n}.", team="red", n=n) for n in (1, 2)])
        self.add(whole, [self.document("n3", "Ada met Bo again.", team="red", n=1)])
        assert {one.node_id for one in narrow.retrieve("Ada met Bo")} == {"n1", "n3"}
        whole.delete(["n3"])
        assert {one.node_id for one in narrow.retrieve("Ada met Bo")} == {"n1"}
        assert "n2" in {one.node_id for one in whole.retrieve("Ada met Bo")}


@pytest.mark.parametrize("given", ["corpus", "docstore"])
def test_the_document_of_a_node_is_its_parent_by_the_id_outside_of_its_metadata(given):
    files = [Document(text=" ".join(f"{name} met Bo in Room {row}." for row in range(9)), id_=name) for name in "AC"]
    chunks, store = sentences(24).get_nodes_from_documents(files), SimpleDocumentStore()
    assert len(chunks) > len(files)
    store.add_documents(files)
    fields = {"group_by": "ref_doc_id", "parents": True if given == "corpus" else store}
    retriever = CalibratedFusionRetriever.from_nodes(chunks, Hashed(), **fields)
    found = {one.node.ref_doc_id: one.text for one in retriever.retrieve("Who met Bo in Room 3?")}
    assert found.keys() == {"A", "C"}
    for name, text in found.items():
        assert [f"{name} met Bo in Room {row}." in text for row in range(9)] == [True] * 9
    retriever = CalibratedFusionRetriever.from_nodes(chunks, Hashed(), **fields | {"group_by": "nothing"})
    with pytest.warns(PhasegraphWarning, match="'nothing'") as warned:
        retriever.retrieve("Bo?")
    retriever.retrieve("Who met Bo?")
    assert len(warned) == 1


@pytest.mark.parametrize("name", ["Simple", "Chroma"])
def test_a_sync_counts_the_nodes_that_the_index_embeds(name):
    retriever = CalibratedFusionRetriever.from_index(INDEXES[name]())
    new = [TextNode(text=f"Cy sang in Hall {row}.", id_=f"new{row}", metadata={"source": "new.md"}) for row in range(2)]
    assert retriever.sync(new).embedded == 2
    assert retriever.sync(new).embedded == 0


@pytest.mark.parametrize("name", sorted(INDEXES))
def test_a_retriever_is_built_over_what_an_index_holds_with_its_ids(name):
    index = INDEXES[name]()
    retriever = CalibratedFusionRetriever.from_index(index, k=9)
    found = retriever.explain("text of p3")
    assert set(found.ids) == {f"p{number}" for number in range(9)}
    sources = {one.source for one in found.evidence("p3").sources if one.rank is not None}
    assert sources == {"vector", "graph", "bm25"}


def test_an_index_in_memory_is_changed_with_the_graph():
    nodes = [TextNode(text=f"Ada met Bo in Room {n}.", id_=f"n{n}") for n in range(5)]
    index = VectorStoreIndex(nodes, embed_model=Hashed())
    retriever = CalibratedFusionRetriever.from_index(index)
    assert retriever._corpus.index.graph.embeddings.shape == (5, 16)
    retriever.add_nodes([TextNode(text="Cy sang in Room 9.", id_="new")])
    retriever.delete(["n0"])
    assert set(index.docstore.docs) == {"n1", "n2", "n3", "n4", "new"}
    assert retriever.retrieve("Who sang in Room 9?")[0].node_id == "new"


def test_nodes_that_carry_vectors_of_another_model_are_refused_at_the_first_change(tmp_path):
    nodes = [TextNode(text=f"Ada met Bo in Room {n}.", id_=f"n{n}") for n in range(4)]
    for node in nodes:
        node.embedding = Hashed(model_name="other").get_text_embedding(node.get_content("embed"))
    retriever = CalibratedFusionRetriever.from_nodes(nodes, Hashed(model_name="third"))
    with pytest.raises(InvalidInputError, match="to the stored vector of the same passage"):
        retriever.add_nodes([TextNode(text="Cy sang.")])
    with pytest.raises(InvalidInputError, match="Hashed third"):
        CalibratedFusionRetriever.from_nodes(nodes, Hashed(model_name="third"), path=tmp_path / "new").add_nodes(
            [TextNode(text="Cy sang.")]
        )
    retriever = CalibratedFusionRetriever.from_nodes(nodes, Hashed(model_name="other"))
    assert len(retriever.add_nodes([TextNode(text="Cy sang.")])) == 1


def test_an_empty_index_and_other_things_are_refused():
    with pytest.raises(InvalidInputError, match="the index has no nodes"):
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
    with pytest.raises(InvalidTypeError, match="nodes must be a list of nodes; it contains a str"):
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


def test_an_index_that_another_model_filled_is_refused():
    nodes = [TextNode(text=f"Ada met Bo in {n}.", id_=f"n{n}") for n in range(4)]
    kept = VectorStoreIndex(nodes, embed_model=Hashed()).storage_context
    with pytest.raises(
        InvalidInputError,
        match=r"the store was embedded with another model, but the given model is Hashed other.*build the store again",
    ):
        CalibratedFusionRetriever.from_index(load_index_from_storage(kept, embed_model=Hashed(model_name="other")))
    assert CalibratedFusionRetriever.from_index(load_index_from_storage(kept, embed_model=Hashed())).ids()


def test_the_number_of_nodes_has_both_its_names():
    graph = EntityGraphRetriever.from_nodes([TextNode(text=f"Ada met Bo {n}.", id_=f"n{n}") for n in range(5)])
    graph.k = 2
    assert (graph.similarity_top_k, len(graph.retrieve("Who met Bo?"))) == (2, 2)


def _documents(*numbers, text="Ada met Bo in Room {}."):
    return [Document(text=text.format(number), id_=f"file{number}", metadata={"page": number}) for number in numbers]


def _retriever(place=None):
    return CalibratedFusionRetriever.from_nodes([TextNode(text="Zoe stays.", id_="z")], Hashed(), path=place)


def test_documents_are_refreshed_updated_and_deleted_as_an_index_does(tmp_path):
    split = sentences(20)
    long = Document(text="Cy sang in Paris. " * 8, id_="long")
    index = VectorStoreIndex([], embed_model=Hashed())
    index._transformations = [split]
    retriever = _retriever(tmp_path / "corpus")

    def same(documents):
        assert retriever.refresh_ref_docs(documents, transformations=[split]) == index.refresh_ref_docs(documents)

    for documents in (
        [*_documents(1, 2, 3), long],
        _documents(1, 2, 3),
        [*_documents(1, text="New {}."), *_documents(2)],
    ):
        same(documents)
    again = CalibratedFusionRetriever.load(tmp_path / "corpus", Hashed())
    for one in (retriever, again):
        counts = one.documents()
        assert counts.pop("long") == len(one.ids(where={"ref_doc_id": "long"}))
        assert counts == {"": 1, "file1": 1, "file2": 1, "file3": 1}
    assert len(index.ref_doc_info["long"].node_ids) == retriever.documents()["long"] > 1
    retriever.update_ref_doc(Document(text="Short.", id_="long"))
    retriever.delete_ref_doc("file2")
    assert retriever.documents() == {"": 1, "file3": 1, "file1": 1, "long": 1}
    with pytest.warns(PhasegraphWarning, match="0 deleted"):
        retriever.delete_ref_doc("file2")


@pytest.mark.parametrize("strategy", list(DocstoreStrategy))
def test_an_ingestion_pipeline_with_a_docstore_writes_to_a_retriever(tmp_path, strategy):
    retriever = _retriever(tmp_path / "corpus")
    pipeline = IngestionPipeline(
        transformations=[SentenceSplitter(), Hashed()], docstore=SimpleDocumentStore(),
        vector_store=retriever.as_vector_store(), docstore_strategy=strategy,
    )  # fmt: skip
    pipeline.run(documents=_documents(1, 2, 3))
    assert retriever.documents() == {"": 1, "file1": 1, "file2": 1, "file3": 1}
    pipeline.run(documents=[*_documents(1), *_documents(2, text="New {}.")])
    texts = sorted(one.text for one in retriever._corpus.index.records.values())
    new, old, gone = "New 2.", "Ada met Bo in Room 2.", "Ada met Bo in Room 3."
    assert new in texts
    assert (old in texts) == (strategy == DocstoreStrategy.DUPLICATES_ONLY)
    assert (gone in texts) == (strategy != DocstoreStrategy.UPSERTS_AND_DELETE)
    assert CalibratedFusionRetriever.load(tmp_path / "corpus", Hashed()).documents() == retriever.documents()


def test_a_blank_node_does_not_stop_an_ingestion_pipeline_or_an_update():
    retriever = CalibratedFusionRetriever.from_nodes([TextNode(text="Ada met Bo.", id_="a")], Hashed())
    pipeline = IngestionPipeline(transformations=[Hashed()], vector_store=retriever.as_vector_store())
    good, blank = Document(text="Cy sang.", id_="good"), Document(text=" ", id_="blank")
    for given, left in (([blank, good], 2), ([blank], 2)):
        with pytest.warns(PhasegraphWarning, match="^1 node without text is left out, for example 'blank'"):
            pipeline.run(documents=given)
        assert len(retriever.ids()) == left
    retriever.update_ref_doc(Document(text="Di wept.", id_="file"))
    assert len(retriever.ids()) == 3
    with pytest.warns(PhasegraphWarning, match="^1 node without text is left out"):
        retriever.update_ref_doc(Document(text="", id_="file"), transformations=[Whole()])
    assert sorted(retriever.ids()) == ["a", "good"]


class Whole(TransformComponent):
    """A transformation that makes a node of each document, also of a blank document."""

    def __call__(self, nodes, **kwargs):
        return [
            TextNode(text=one.text, relationships={NodeRelationship.SOURCE: one.as_related_node_info()})
            for one in nodes
        ]  # fmt: skip


@pytest.mark.parametrize("key", ["source", "doc_id", "ref_doc_id", "file_path"])
def test_the_document_of_a_node_stands_in_its_metadata(key, tmp_path):
    def nodes(*texts):
        return [TextNode(text=text, metadata={key: f"{n % 2}.md"}) for n, text in enumerate(texts)]

    made = CalibratedFusionRetriever.from_nodes(nodes("Ada met Bo.", "Cy sang.", "Di."), Hashed(), path=tmp_path / "f")
    for one in (made, CalibratedFusionRetriever.load(tmp_path / "f", Hashed())):
        assert one.documents() == {"0.md": 2, "1.md": 1}
        assert {hit.node.metadata[key] for hit in one.retrieve("Who sang?")} <= {"0.md", "1.md"}
    assert str(made.sync(nodes("Ada met Bo.", "Cy wept.", "Di."), full=True)).startswith("0 documents added, 1 changed")
    assert made.delete(where={key: "0.md"}) == 2
    assert made.documents() == {"1.md": 1}


def test_files_that_are_read_again_are_the_same_documents(tmp_path):
    """LlamaIndex draws a new id for a file, and for every page of a PDF, at each reading; the path stays."""

    def read(second="Cy sang."):
        pages = [("a.pdf", "Ada met Bo."), ("a.pdf", second), ("b.md", "Di wept.")]
        files = [Document(text=text, metadata={"file_path": path}) for path, text in pages]
        return SentenceSplitter().get_nodes_from_documents(files)

    CalibratedFusionRetriever.from_nodes(read(), Hashed(), path=tmp_path / "f")
    retriever = CalibratedFusionRetriever.load(tmp_path / "f", Hashed())
    assert retriever.documents() == {"a.pdf": 2, "b.md": 1}
    assert str(retriever.sync(read())) == (
        "0 documents added, 0 changed, 0 deleted, 2 as they were; 0 passages embedded"
    )
    assert str(retriever.sync(read("Cy danced."), full=True)) == (
        "0 documents added, 1 changed, 0 deleted, 1 as they were; 1 passage embedded"
    )


def test_nodes_with_other_excluded_keys_are_embedded_after_a_deletion():
    """As the docstring of ``sync`` says: ``reembed`` embeds the stored nodes."""

    def node(*excluded):
        metadata = {"source": "a.md", "team": "red"}
        return TextNode(text="Ada met Bo.", metadata=metadata, excluded_embed_metadata_keys=["source", *excluded])

    def embedded(text):
        vector = np.asarray(Hashed().get_text_embedding(text))
        stored = np.asarray(retriever._corpus.index.graph.embeddings[0])  # of length 1
        return np.allclose(stored, vector / np.linalg.norm(vector), atol=1e-3)

    retriever = CalibratedFusionRetriever.from_nodes([node()], Hashed())
    assert retriever.sync([node("team")]).unchanged == 1
    retriever.reembed(Hashed(), progress=False)
    assert embedded("team: red\n\nAda met Bo.")
    retriever.delete(retriever.ids())
    assert retriever.sync([node("team")]).embedded == 1
    assert embedded("Ada met Bo.")


def test_a_sync_says_that_new_documents_are_copies():
    def read():
        return SentenceSplitter().get_nodes_from_documents([Document(text="Ada met Bo."), Document(text="Cy sang.")])

    retriever = CalibratedFusionRetriever.from_nodes(read(), Hashed())
    with pytest.warns(PhasegraphWarning, match="2 of 2 added documents have the same passages.*source_key="):
        retriever.sync(read())
    assert retriever.sync(read(), full=True).deleted == 4


def test_the_only_document_is_replaced_by_a_pipeline_and_the_store_answers():
    node = TextNode(text="Ada met Bo.", relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="file1")})
    retriever = CalibratedFusionRetriever.from_nodes([node], Hashed())
    store = retriever.as_vector_store()
    store.delete("file1")
    assert (retriever.ids(), retriever.retrieve("Who met Bo?")) == ([], [])
    store.add([TextNode(text="Cy sang.", id_="new")])
    assert retriever.ids() == ["new"]
    assert [one.text for one in store.get_nodes(["new", "no"])] == ["Cy sang."]
    found = VectorStoreIndex.from_vector_store(store, embed_model=Hashed()).as_retriever().retrieve("Who sang?")
    assert [one.node.text for one in found] == ["Cy sang."]
    store.delete_nodes(["no"])
    with pytest.raises(InvalidInputError, match="node_ids or filters"):
        store.delete_nodes()


@pytest.mark.parametrize("wrong", [{}, {"page": [1]}, {3: "x"}, "x"])
def test_a_where_that_is_no_filter_is_refused(wrong):
    with pytest.raises((InvalidInputError, InvalidTypeError), match=r"where|filters"):
        _retriever().ids(where=wrong)


def test_vectors_of_nodes_may_be_an_array():
    nodes = [TextNode(id_="a", text="Ada met Bo."), TextNode(id_="b", text="Cy sang.")]
    arrays = [EntityGraphRetriever.from_nodes(nodes, vectors=one) for one in (np.eye(2), np.eye(2).tolist())]
    first, second = (one.corpus.index.graph.embeddings for one in arrays)
    assert np.array_equal(first, second)
    assert np.array_equal(first, np.eye(2))


def test_no_nodes_are_refused_by_name():
    with pytest.raises(
        InvalidInputError, match=r"nodes is empty: give .*build it from one node, and then call retriever\.delete"
    ):
        CalibratedFusionRetriever.from_nodes([], Hashed())


def test_a_changed_node_is_embedded_if_the_model_sees_the_change_or_the_node_has_a_vector():
    retriever = CalibratedFusionRetriever.from_nodes(
        [TextNode(text="Ada met Bo.", metadata={"source": "a.md", "page": 1})], Hashed()
    )
    for page, vector in ((2, None), (2, [1.0] * 16)):
        node = TextNode(text="Ada met Bo.", metadata={"source": "a.md", "page": page, "seen": str(vector)})
        node.excluded_embed_metadata_keys, node.embedding = ["seen"], vector
        assert retriever.sync([node]).embedded == 1
    assert np.ptp(retriever._corpus.index.graph.view.embeddings) == 0


def test_the_model_of_the_settings_is_used_if_the_user_set_it(tmp_path, monkeypatch):
    nodes = [TextNode(text="Ada met Bo.", id_="a"), TextNode(text="Cy sang.", id_="c")]
    monkeypatch.setattr(Settings, "_embed_model", None)
    for make in (lambda: CalibratedFusionRetriever.from_nodes(nodes), lambda: CalibratedFusionRetriever.load(tmp_path)):
        with pytest.raises(InvalidTypeError, match=r"got None: give embed_model=, or set Settings\.embed_model"):
            make()
    assert Settings._embed_model is None
    Settings.embed_model = Hashed()
    made = CalibratedFusionRetriever.from_nodes(nodes, path=tmp_path / "folder")
    for retriever in (made, CalibratedFusionRetriever.load(tmp_path / "folder")):
        assert retriever._embeds is Settings.embed_model
        assert retriever.retrieve("Who met Bo?")[0].node_id == "a"
    assert EntityGraphRetriever.from_nodes(nodes)._embeds is None


def test_a_list_of_nodes_as_a_source_names_the_method_that_takes_nodes():
    with pytest.raises(InvalidTypeError, match=r"got a list of nodes; use \w+\.from_nodes\(nodes, embed_model\)$"):
        CalibratedFusionRetriever(vector=[TextNode(text="Ada met Bo.")])
    with pytest.raises(InvalidTypeError, match=r"give several sources as retrievers="):
        CalibratedFusionRetriever(vector=[len, len])


def test_a_store_that_cannot_delete_refuses_such_a_change_before_it_embeds_anything():
    model = Counting()
    storage = StorageContext.from_defaults(vector_store=FaissVectorStore(faiss.IndexFlatL2(model.size)))
    nodes = [TextNode(text=f"Ada met Bo{row}.", id_=f"n{row}", metadata={"source": f"{row}.md"}) for row in range(4)]
    index = VectorStoreIndex(nodes, embed_model=model, storage_context=storage)
    retriever = CalibratedFusionRetriever.from_index(index)
    changed = TextNode(text="Cy sang.", id_="n0", metadata={"source": "0.md"})
    model.texts.clear()
    for change in (
        lambda: retriever.delete(["n0"]),
        lambda: retriever.delete(where={"source": "0.md"}),
        lambda: retriever.sync([changed]),
        lambda: retriever.add_nodes([changed]),
        lambda: retriever.as_vector_store().add([changed]),
    ):
        with pytest.raises(StoreError, match=r"FaissVectorStore cannot delete nodes.*nothing was changed"):
            change()
    assert not model.texts
    assert len(retriever.ids()) == 4
    retriever.add_nodes([TextNode(text="Cy sang.", id_="new", metadata={"source": "new.md"})])
    retriever.sync([TextNode(text="Di danced.", id_="newer", metadata={"source": "newer.md"})])
    assert len(retriever.ids()) == 6
