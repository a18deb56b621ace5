"""A limit of a source to some nodes: a warning names other sources that search more nodes of the same index."""

import warnings

import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever, VectorIndexRetriever
from llama_index.core.schema import TextNode
from llama_index.retrievers.bm25 import BM25Retriever
from llamaindex_stores import chroma
from test_corpus import Hashed
from test_index_nodes import nodes

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever
from phasegraph import PhasegraphWarning

SOME = ["x1", "x2"]


def made(name="x", **more):
    return VectorStoreIndex(nodes(name), embed_model=Hashed(), **more)


def words(*, among=None):
    return BM25Retriever.from_defaults(
        nodes=[one for one in nodes() if among is None or one.node_id in among], similarity_top_k=2
    )


def some(index):
    return VectorIndexRetriever(index, node_ids=SOME)


def one_document(index, name="x"):
    return index.as_retriever(doc_ids=[f"{name} file 0"])


def walk(index):
    return EntityGraphRetriever(EntityGraphRetriever.from_nodes(nodes())._source.graph, index)


def inserted(index):
    retriever = index.as_retriever()
    index.insert_nodes([TextNode(text="Cy sang.", id_="new")])
    return retriever


def fused(*retrievers):
    return QueryFusionRetriever([*retrievers], num_queries=1, llm=MockLLM())


OTHERS = {
    "node_ids and the index": lambda x: {"limited": some(x), "other": x},
    "node_ids and words": lambda x: {"limited": some(x), "other": words()},
    "node_ids and a walk over the index": lambda x: {"limited": some(x), "other": walk(x)},
    "node_ids and a corpus from the index": lambda x: {
        "limited": some(x), "other": CalibratedFusionRetriever.from_index(x)},
    "doc_ids and the index": lambda x: {"limited": one_document(x), "other": x},
    "doc_ids and another document": lambda x: {
        "limited": one_document(x), "other": x.as_retriever(doc_ids=["x file 0", "x file 1"])},
    "nested": lambda x: {"limited": CalibratedFusionRetriever(some(x)), "other": words()},
    "nested in LlamaIndex": lambda x: {"limited": fused(some(x)), "other": fused(words())},
    "nested beside": lambda x: {"limited": some(x), "other": CalibratedFusionRetriever(words())},
    "inserted later": lambda x: {"limited": inserted(x), "other": x},
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHERS)
def test_a_warning_names_a_source_that_searches_more_nodes_of_the_index(kind):
    sources = OTHERS[kind](made())
    said = r"'limited' searches only a part of its index \((node|doc)_ids=\).*which 'other' can find: give filters="
    with pytest.warns(PhasegraphWarning, match=said) as found:
        retriever = CalibratedFusionRetriever(retrievers=sources)
    assert len([one for one in found if "a part of its index" in str(one.message)]) == 1
    assert retriever.retrieve("Who met Bo?")


RIGHT = {
    "the same nodes": lambda x, y: {"a": some(x), "b": words(among=SOME)},
    "the same limit": lambda x, y: {"a": some(x), "b": some(x)},
    "the same documents": lambda x, y: {"a": one_document(x), "b": one_document(x)},
    "the nodes of the document": lambda x, y: {"a": one_document(x), "b": words(among=["x0", "x1"])},
    "two indexes": lambda x, y: {"a": one_document(x), "b": one_document(y, "y")},
    "another index": lambda x, y: {"a": some(x), "b": y},
    "a part of the nodes": lambda x, y: {"a": words(among=SOME), "b": some(x), "c": words(among=SOME[:1])},
    "words of another index": lambda x, y: {"a": some(y), "b": words()},
    "a function": lambda x, y: {"a": some(x), "b": lambda query: nodes()},
    "no limit": lambda x, y: {"a": x, "b": x.as_retriever(), "c": words()},
    "inserted later, same nodes": lambda x, y: {"a": inserted(x), "b": words()},
}


@pytest.mark.parametrize("kind", RIGHT)
@pytest.mark.filterwarnings("error")
def test_no_warning_if_no_source_is_known_to_search_more(kind):
    kept = StorageContext.from_defaults()
    CalibratedFusionRetriever(retrievers=RIGHT[kind](made(storage_context=kept), made("y", storage_context=kept)))


@pytest.mark.filterwarnings("error")
def test_a_source_that_is_not_asked_causes_no_warning():
    index = made()
    CalibratedFusionRetriever(some(index), retrievers={"all": index}, weights={"vector": 1, "all": 0})
    CalibratedFusionRetriever(index, retrievers={"part": some(index)}, weights={"vector": 1, "part": 0})


def test_over_a_store_with_texts_the_store_tells_the_index():
    index = chroma()
    retriever = index.as_retriever(doc_ids=["file"])
    with pytest.warns(PhasegraphWarning, match="'limited' searches only a part .*which 'other' can find"):
        CalibratedFusionRetriever(retrievers={"limited": retriever, "other": index})
    again = VectorStoreIndex.from_vector_store(index.vector_store, embed_model=Hashed())
    with pytest.warns(PhasegraphWarning, match="'limited' searches only a part .*which 'other' can find"):
        CalibratedFusionRetriever(retrievers={"limited": retriever, "other": again})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CalibratedFusionRetriever(retrievers={"limited": retriever, "other": chroma()})


@pytest.mark.filterwarnings("error")
def test_another_index_over_the_same_docstore_causes_no_warning():
    first, second = chroma(), chroma()
    first._docstore = second._docstore
    limited = VectorIndexRetriever(first, node_ids=SOME)
    CalibratedFusionRetriever(retrievers={"limited": limited, "other": second, "words": words()})


def test_the_check_reads_no_node(monkeypatch):
    index = made()
    limited = {"a": one_document(index), "b": some(index), "c": words(), "d": index}
    monkeypatch.setattr(type(index.docstore), "get_nodes", None)
    monkeypatch.setattr(type(index.docstore), "get_document", None)
    with pytest.warns(PhasegraphWarning, match="a part of its index"):
        CalibratedFusionRetriever(retrievers=limited)
