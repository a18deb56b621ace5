"""LlamaIndex: how MetadataFilters join those that are there already, and what is refused."""

import faiss
import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index.retrievers.bm25 import BM25Retriever
from llama_index.vector_stores.faiss import FaissVectorStore
from matrix_llamaindex import LLAMAINDEX
from matrix_ours import ids, walk
from matrix_slice import LlamaIndexVectors
from matrix_tenants import listening, only

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever
from phasegraph import InvalidInputError, InvalidTypeError


def test_a_filter_of_the_stores_own_retriever_stays_in_force(data):
    row = next(row for row in LLAMAINDEX if row.store == "SimpleVectorStore")
    index = row.open(data, None).given
    title = next(one["title"] for one in data.rows if one["tenant"] == "red")
    index._filters = MetadataFilters(filters=[MetadataFilter(key="title", value=title)])
    found = CalibratedFusionRetriever(vector=index).within(only("red")).retrieve(data.questions[0])
    assert {(hit.metadata["title"], hit.metadata["tenant"]) for hit in found} == {(title, "red")}
    assert not CalibratedFusionRetriever(vector=index).within(only("blue")).retrieve(data.questions[0])


def test_what_cannot_keep_a_filter_is_refused(data):
    class Other(BM25Retriever):
        pass

    for source in (Other.from_defaults(nodes=data.nodes()), lambda query: []):
        with pytest.raises(InvalidInputError, match=r"source 'graph' does not support filters="):
            CalibratedFusionRetriever(graph=source).within(only("red"))
    for wrong, error, said in (
        (None, InvalidTypeError, "filters must be MetadataFilters"),
        (MetadataFilters(filters=[]), InvalidInputError, "filters is empty"),
    ):
        with pytest.raises(error, match=said):
            CalibratedFusionRetriever(graph=walk("LlamaIndex", data)).within(wrong)


@pytest.mark.parametrize("more", [{}, {"language": "de"}, {"skip_stemming": True}, {"filters": only("red")}])
def test_a_bm25_within_filters_scores_as_one_that_never_held_the_others(data, more):
    whole = BM25Retriever.from_defaults(nodes=data.nodes(), similarity_top_k=10, **more)
    before = dict(vars(whole))
    apart = BM25Retriever.from_defaults(nodes=data.of("red").nodes(), similarity_top_k=10, **more)
    inside = CalibratedFusionRetriever(vector=whole).within(only("red"))
    for question in data.questions:
        (found,), (expected,) = (
            one.explain(question).candidates.rankings for one in (inside, CalibratedFusionRetriever(vector=apart))
        )
        assert (found.ids, found.scores.tolist()) == (expected.ids, expected.scores.tolist())
    assert vars(whole) == before
    if more.get("filters"):
        assert not CalibratedFusionRetriever(vector=whole).within(only("blue")).retrieve(data.questions[0])


def test_a_bm25_whose_index_is_not_of_its_nodes_is_refused(data):
    whole = BM25Retriever.from_defaults(nodes=data.nodes())
    whole.corpus = whole.corpus[:-1]
    with pytest.raises(InvalidInputError, match="needs a BM25 index that stores the nodes as they were indexed"):
        CalibratedFusionRetriever(vector=whole).within(only("red"))


@pytest.mark.parametrize("kind", ["HNSW16", "IVF4,Flat", "LSH"])
def test_a_faiss_index_selects_rows_or_fails(data, kind):
    vectors = data.vectors.astype("float32")
    made = faiss.index_factory(vectors.shape[1], kind)
    made.train(vectors)
    storage = StorageContext.from_defaults(vector_store=FaissVectorStore(made))
    index = VectorStoreIndex(data.nodes(), embed_model=LlamaIndexVectors(), storage_context=storage)
    ours = CalibratedFusionRetriever(vector=index)
    assert not set(ids(ours.retrieve(data.questions[0]))) <= set(data.of("red").ids)
    inside = ours.within(only("red"))
    if kind == "LSH":
        with pytest.raises(InvalidInputError, match="IndexLSH cannot search only some of its rows"):
            inside.retrieve(data.questions[0])
        return
    found = inside.retrieve(data.questions[0])
    assert found
    assert set(ids(found)) <= set(data.of("red").ids)


def test_a_function_that_takes_filters_and_does_not_keep_them_gives_nothing_away():
    """Nor does it where its hits share an id, or to whoever listens."""
    hits = [(TextNode(id_="same", text=name, metadata={"tenant": name}), 1.0) for name in ("blue", "red")]
    asked, told = [], []

    def careless(query, filters=None):
        asked.append(filters)
        return [*hits, (TextNode(id_="none", text="none"), 0.5)]

    inside = CalibratedFusionRetriever(vector=careless).within(only("red"))
    with listening(told):
        assert [hit.text for hit in inside.retrieve("who?")] == ["red"]
    assert "red" in "".join(told)
    assert "blue" not in "".join(told)
    assert [one.value for one in asked[0].filters] == ["red"]
