"""A retriever made from an index takes the nodes of this index, and no other nodes of the docstore."""

import copy
import json
import pickle
import threading
import time
import warnings

import pytest
from llama_index.core import StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.node_parser import HierarchicalNodeParser, get_leaf_nodes
from llama_index.core.retrievers import AutoMergingRetriever
from llama_index.core.schema import (
    Document,
    ImageDocument,
    ImageNode,
    IndexNode,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.retrievers.bm25 import BM25Retriever
from llamaindex_stores import INDEXES, sentences
from test_corpus import Hashed

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever
from llama_index.retrievers.phasegraph.function_retriever import IndexIds
from llama_index.retrievers.phasegraph.lookup import own_ids
from phasegraph import InvalidInputError, PhasegraphWarning
from phasegraph.retrieval import SourceSpec

QUESTION = "Who met Bo in Room 3?"


def nodes(name="x", count=6):
    """Return nodes named `name` and a number; two consecutive nodes are of one document."""
    return [
        TextNode(
            text=f"Ada met Bo in Room {row} of {name}.", id_=f"{name}{row}",
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"{name} file {row // 2}")},
        )
        for row in range(count)
    ]  # fmt: skip


def two_indexes(folder=None):
    """Return two indexes over one storage context; with `folder`, they are stored there and loaded again."""
    kept = StorageContext.from_defaults()
    made = []
    for name in ("x", "y"):
        made.append(VectorStoreIndex(nodes(name), storage_context=kept, embed_model=Hashed()))
        made[-1].set_index_id(name)
    if folder is None:
        return made
    kept.persist(folder)
    again = StorageContext.from_defaults(persist_dir=folder)
    return [load_index_from_storage(again, index_id=name, embed_model=Hashed()) for name in ("x", "y")]


@pytest.mark.parametrize("stored", [False, True])
def test_an_index_gives_no_nodes_of_other_indexes_in_its_storage(tmp_path, stored):
    for index, name in zip(two_indexes(str(tmp_path) if stored else None), "xy", strict=True):
        own = {f"{name}{row}" for row in range(6)}
        retriever = CalibratedFusionRetriever.from_index(index, k=20)
        assert set(retriever.ids()) == own
        assert {one.node_id for one in retriever.retrieve(QUESTION)} == own
        graph = EntityGraphRetriever(retriever.graph._source.graph, index)
        assert set(graph._search.look_up(["x1", "y1"])) == {f"{name}1"}


def test_a_faiss_index_looks_up_no_nodes_of_other_indexes():
    index = INDEXES["Faiss IP"]()
    index.docstore.add_documents(nodes("y"))
    retriever = CalibratedFusionRetriever.from_index(index, k=20)
    assert set(retriever.ids()) == {f"p{row}" for row in range(9)}
    assert set(EntityGraphRetriever(retriever.graph._source.graph, index)._search.look_up(["p1", "y1"])) == {"p1"}


@pytest.mark.parametrize("deleted", [1, 2])
def test_deleted_documents_that_stay_in_the_docstore_do_not_come_back(deleted):
    index = VectorStoreIndex(nodes("x"), embed_model=Hashed())
    for row in range(deleted):
        index.delete_ref_doc(f"x file {row}")
    retriever, left = CalibratedFusionRetriever.from_index(index, k=20), {f"x{row}" for row in range(2 * deleted, 6)}
    assert set(index.docstore.docs) > left
    assert {one.node_id for one in retriever.retrieve(QUESTION)} == left
    assert retriever.documents() == {f"x file {row}": 2 for row in range(deleted, 3)}
    other = VectorStoreIndex(nodes("x"), embed_model=Hashed())
    other.delete_nodes(["x0", "x5"])  # the index still names these nodes, but their vectors are deleted
    assert set(CalibratedFusionRetriever.from_index(other).ids()) == {"x1", "x2", "x3", "x4"}


def test_parents_in_the_docstore_are_no_passages_and_leaves_are_merged_as_before():
    text = " ".join(f"Ada met Bo in Room {row}. Cy sang in Hall {row}." for row in range(40))
    levels = {str(size): sentences(size) for size in (256, 64)}
    split = HierarchicalNodeParser.from_defaults(node_parser_ids=[*levels], node_parser_map=levels)
    parsed = split.get_nodes_from_documents([Document(text=text, id_="book")])
    leaves, kept = get_leaf_nodes(parsed), StorageContext.from_defaults()
    kept.docstore.add_documents(parsed)
    index = VectorStoreIndex(leaves, storage_context=kept, embed_model=Hashed())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        retriever = CalibratedFusionRetriever.from_index(index, k=6)
        found = retriever.explain(QUESTION)
        merged = AutoMergingRetriever(retriever, kept).retrieve(QUESTION)
    assert set(retriever.ids()) == {one.node_id for one in leaves}
    assert not any(report.dropped for report in found.reports)
    assert not found.degraded
    assert merged
    gone = leaves[0].node_id
    retriever.delete([gone])
    assert gone not in index.docstore.docs
    assert set(index.docstore.docs) == {one.node_id for one in parsed} - {gone}


def test_index_nodes_with_an_object_are_left_to_the_index():
    part = VectorStoreIndex(nodes("y"), embed_model=Hashed())
    door = IndexNode(text="Ada met Bo in a Room of y.", index_id="part", obj=part.as_retriever())
    index = VectorStoreIndex(nodes("x"), objects=[door], embed_model=Hashed())
    with pytest.warns(PhasegraphWarning, match="1 of 7 nodes of the index are index nodes with an object") as warned:
        retriever = CalibratedFusionRetriever.from_index(index, k=20)
    found = retriever.retrieve("Ada met Bo in a Room of y.")
    assert len(warned) == 1
    assert set(retriever.ids()) == {f"x{row}" for row in range(6)}
    names = {one.node_id for one in found}
    assert door.node_id not in names
    assert names & {f"y{row}" for row in range(6)}


def test_the_index_also_searches_nodes_that_were_added_later():
    index = VectorStoreIndex(nodes("x"), embed_model=Hashed())
    made, wrapped = CalibratedFusionRetriever.from_index(index), CalibratedFusionRetriever(index)
    made.add_nodes([TextNode(text="Cy sang in Hall 9.", id_="new")])
    for retriever in (made, wrapped, copy.deepcopy(made), pickle.loads(pickle.dumps(wrapped))):  # noqa: S301
        (vector,) = [one for one in retriever.explain("Cy sang in Hall 9.").evidence("new").sources
                     if one.source == "vector"]  # fmt: skip
        assert vector.rank == 1


def test_nodes_of_an_index_without_text_are_left_out():
    page = TextNode(text=" ", id_="page", metadata={"file": "__init__.py"})
    picture = ImageNode(id_="picture", image_url="https://example.org/ada.png", metadata={"page": 2})
    index = VectorStoreIndex([*nodes("x"), page, picture], embed_model=Hashed())
    with pytest.warns(PhasegraphWarning, match="^2 nodes without text are left out, for example 'page'"):
        retriever = CalibratedFusionRetriever.from_index(index, k=20)
    assert set(retriever.ids()) == {f"x{row}" for row in range(6)}
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*were added to the store")
        found = retriever.explain(QUESTION)
    assert set(found.ids) > set(retriever.ids())  # the index itself still finds them
    assert [report.notes for report in found.reports if report.source == "graph"] == [()]


def test_the_error_of_a_blank_node_shows_the_users_metadata_alone():
    with pytest.raises(InvalidInputError, match=r"'page' must have text; leave out passages of blank pages$"):
        CalibratedFusionRetriever.from_nodes([TextNode(text="", id_="page")], Hashed())


def test_a_source_whose_hits_are_all_deleted_is_not_called_unusable():
    index = VectorStoreIndex(nodes("x", 40), embed_model=Hashed())
    words = BM25Retriever.from_defaults(nodes=nodes("x", 40), similarity_top_k=1)
    retriever = CalibratedFusionRetriever(index, retrievers={"bm25": SourceSpec(retriever=words, fetch_k=1)})
    index.delete_nodes(["x13"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "source 'bm25': 1 of 1 hits dropped")
        found = retriever.explain("13")
    assert [(report.source, report.status) for report in found.reports] == [("bm25", "empty"), ("vector", "ok")]
    assert not found.degraded


def pictured(name="x"):
    """Return an index with two documents, the second of which has a picture without text, and its retriever."""
    picture = ImageNode(
        text="", id_="pic", metadata={"caption": "Room 3 Bo"},
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"{name} file 1")},
    )  # fmt: skip
    index = VectorStoreIndex([*nodes(name), picture], embed_model=Hashed())
    with pytest.warns(PhasegraphWarning, match="^1 node without text is left out"):
        return index, CalibratedFusionRetriever.from_index(index, k=20)


@pytest.mark.parametrize(
    ("delete", "left"),
    [
        (lambda made: made.delete_ref_doc("x file 1"), 4),
        (lambda made: made.delete(["pic"]), 6),
        (lambda made: made.delete(where={"caption": "Room 3 Bo"}), 6),
        (lambda made: made.delete(["x2", "pic", "x3"]), 4),
        (lambda made: made.as_vector_store().delete("x file 1"), 4),
        (lambda made: made.as_vector_store().delete_nodes(["pic"]), 6),
        (lambda made: made.update_ref_doc(Document(text="Ada met Bo in Room 9.", id_="x file 1")), 5),
    ],
)
@pytest.mark.filterwarnings("ignore:filter key .caption. is in no passage:phasegraph.PhasegraphWarning")
def test_a_picture_of_a_deleted_document_is_not_found(delete, left):
    index, retriever = pictured()
    assert "pic" in {one.node_id for one in retriever.retrieve(QUESTION)}
    counted = delete(retriever)
    assert counted in (None, {6: 1, 4: 3}.get(left))
    found = {one.node_id for one in retriever.retrieve(QUESTION)}
    assert "pic" not in found
    assert len(found) == len(retriever.ids()) == left
    assert "pic" not in index.docstore.docs
    with pytest.raises(InvalidInputError, match="'pic' is not in the index"):
        retriever.delete(["pic"])


def test_a_refresh_keeps_pictures_and_replaces_changed_ones():
    documents = [Document(text="Ada met Bo.", id_="a"), ImageDocument(text="", id_="p", metadata={"page": 1})]
    index = VectorStoreIndex.from_documents(documents, embed_model=Hashed())
    with pytest.warns(PhasegraphWarning, match="^1 node without text is left out"):
        retriever = CalibratedFusionRetriever.from_index(index)
    before = set(index.docstore.docs)
    assert retriever.refresh_ref_docs(documents) == [False, False]
    assert set(index.docstore.docs) == before
    changed = ImageDocument(text="", id_="p", metadata={"page": 2})
    with pytest.warns(PhasegraphWarning, match="^1 node without text is left out"):
        assert retriever.refresh_ref_docs([documents[0], changed]) == [False, True]
    pages = [one.metadata.get("page") for one in index.docstore.docs.values()]
    assert sorted(pages, key=str) == [2, None]


@pytest.mark.filterwarnings("ignore:filter key .caption. is in no passage:phasegraph.PhasegraphWarning")
def test_a_node_that_another_thread_adds_is_not_deleted(monkeypatch):
    index, retriever = pictured()
    plain = retriever._corpus.state.store.strays
    adding = threading.Thread(target=lambda: retriever.add_nodes([TextNode(text="Cy met Dee.", id_="new")]))

    def slowly(known):
        adding.start()
        time.sleep(0.1)  # the addition could write to the index now
        return plain(known)

    monkeypatch.setattr(retriever._corpus.state.store, "strays", slowly)
    retriever.delete(where={"caption": "Room 3 Bo"})
    adding.join()
    assert "new" in retriever.ids()
    assert "new" in index.docstore.docs


def test_a_document_of_a_picture_alone_can_be_deleted():
    index, retriever = pictured()
    retriever.delete(["x2", "x3"])
    assert "pic" in index.docstore.docs
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*no passage matches")
        retriever.delete_ref_doc("x file 1")
    assert "pic" not in index.docstore.docs


def test_an_index_that_was_empty_is_searched_with_its_later_nodes():
    index = VectorStoreIndex([], embed_model=Hashed())
    retriever = CalibratedFusionRetriever(index)
    index.insert_nodes(nodes("x"))
    assert {one.node_id for one in retriever.retrieve(QUESTION)} == {f"x{row}" for row in range(6)}


def test_texts_in_a_store_are_found_beside_a_picture_that_the_index_lists():
    index = INDEXES["Chroma"]()
    index.insert_nodes([ImageNode(text="a picture of p0", id_="pic")])
    assert list(index.index_struct.nodes_dict) == ["pic"]
    asked, query = [], type(index.vector_store).query

    class Asked(type(index.vector_store)):
        def query(self, given, **kwargs):
            asked.append(given.node_ids)
            return query(self, given, **kwargs)

    index.vector_store.__class__ = Asked
    assert len(CalibratedFusionRetriever(index, k=20).retrieve("p0")) == 10
    assert asked == [None]  # Qdrant would search only the listed nodes


def test_a_store_receives_the_ids_of_the_nodes_as_a_list():
    asked = []

    class Store(SimpleVectorStore):
        def query(self, query, **kwargs):
            asked.append(json.dumps(query.node_ids))
            return super().query(query, **kwargs)

    context = StorageContext.from_defaults(vector_store=Store())
    retriever = CalibratedFusionRetriever(VectorStoreIndex(nodes("x"), storage_context=context, embed_model=Hashed()))
    assert len(retriever.retrieve(QUESTION)) == 6
    assert asked == [json.dumps([f"x{row}" for row in range(6)])]


def test_ids_of_an_index_can_be_read_while_nodes_are_inserted():
    index = VectorStoreIndex(nodes("x"), embed_model=Hashed())

    class Growing(dict):
        """A dictionary of vectors that gets another entry while an id is looked up, as from another thread."""

        def __contains__(self, name):
            index.index_struct.nodes_dict[f"y{len(index.index_struct.nodes_dict)}"] = name
            return super().__contains__(name)

    index.vector_store.data.embedding_dict = Growing(index.vector_store.data.embedding_dict)
    assert own_ids(index) == {f"x{row}" for row in range(6)}
    names = IndexIds(index)
    for _ in names:
        index.index_struct.nodes_dict[f"y{len(names)}"] = "y"
