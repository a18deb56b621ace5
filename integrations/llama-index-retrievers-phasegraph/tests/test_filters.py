"""MetadataFilters: a retriever's own filters apply to every source, and matching nodes are cached while valid."""

import json
import uuid
from typing import ClassVar

import chromadb
import faiss
import numpy as np
import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.indices.query.query_transform.base import IdentityQueryTransform
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import AutoMergingRetriever, QueryFusionRetriever, TransformRetriever
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.retrievers.bm25 import BM25Retriever
from llama_index.vector_stores.chroma import ChromaVectorStore
from llama_index.vector_stores.faiss import FaissVectorStore
from llamaindex_stores import Looked

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever
from phasegraph import AllSourcesFailed, InvalidInputError, PhasegraphWarning

QUERY = "Who met Ada in Rome?"


def nodes():
    return [
        TextNode(id_=f"n{row:02}", text=f"Ada met Bo{row} in Rome in {1990 + row}.",
                 metadata={"row": row, "lang": ("en", "de", "fr")[row % 3]} | ({"part": row / 4} if row < 20 else {}))
        for row in range(30)
    ]  # fmt: skip


STORES = {
    "Simple": lambda: None,
    "Chroma": lambda: ChromaVectorStore(chromadb.EphemeralClient().create_collection(f"c{uuid.uuid4().hex}")),
    "Faiss": lambda: FaissVectorStore(faiss.IndexFlatL2(4)),
}


@pytest.fixture(params=sorted(STORES))
def index(request):
    store = STORES[request.param]()
    storage = None if store is None else StorageContext.from_defaults(vector_store=store)
    return VectorStoreIndex(nodes(), embed_model=MockEmbedding(4), storage_context=storage)


def wanted(*parts, condition=FilterCondition.AND):
    return MetadataFilters(
        filters=[MetadataFilter(key=key, operator=operator, value=value) for key, operator, value in parts],
        condition=condition,
    )


EN = wanted(("lang", FilterOperator.EQ, "en"))


def rows(found):
    return sorted(hit.metadata["row"] for hit in found)


def test_filters_of_the_vector_retriever_reach_the_graph_and_the_words(index):
    if isinstance(index.vector_store, FaissVectorStore):
        pytest.skip("the framework has no filters for FAISS")
    vector = index.as_retriever(similarity_top_k=9, filters=EN)
    sources = {"graph": EntityGraphRetriever.from_nodes(nodes())}
    sources["retrievers"] = {"bm25": BM25Retriever.from_defaults(nodes=nodes())}
    retriever = CalibratedFusionRetriever(vector=vector, **sources, k=60)
    assert rows(retriever.retrieve(QUERY)) == list(range(0, 30, 3))
    assert rows(retriever.retrieve(QUERY, filters=wanted(("row", FilterOperator.LT, 9)))) == [0, 3, 6]
    assert all(len(ranking) == 10 for ranking in retriever.explain(QUERY).candidates.rankings)
    vector._filters = wanted(("row", FilterOperator.IN, [4, 5]))
    assert rows(retriever.retrieve(QUERY)) == [4, 5]


def test_filters_of_a_narrowed_graph_and_of_a_fused_retriever_reach_the_others_too(index):
    graph = EntityGraphRetriever.from_nodes(nodes()).within(EN)
    assert rows(CalibratedFusionRetriever(vector=index, graph=graph, k=60).retrieve(QUERY)) == list(range(0, 30, 3))
    inner = CalibratedFusionRetriever(graph=EntityGraphRetriever.from_nodes(nodes())).within(EN)
    outer = CalibratedFusionRetriever(retrievers={"inner": inner, "other": index}, k=60)
    assert rows(outer.retrieve(QUERY)) == list(range(0, 30, 3))
    fewer = graph.within(wanted(("row", FilterOperator.LT, 9)))
    assert rows(fewer.retrieve(QUERY)) == [0, 3, 6]


def test_one_of_several_conditions_is_enough_where_they_are_joined_by_or(index):
    either = wanted(("part", FilterOperator.EQ, 0.25), ("row", FilterOperator.EQ, 29), condition=FilterCondition.OR)
    sources = {"vector": index, "graph": EntityGraphRetriever.from_nodes(nodes())}
    sources["retrievers"] = {"bm25": BM25Retriever.from_defaults(nodes=nodes())}
    result = CalibratedFusionRetriever(**sources).explain(QUERY, filters=either)
    for ranking in result.candidates.rankings:
        assert sorted(ranking.ids) == ["n01", "n29"], ranking.source


def test_an_index_of_words_is_built_once_per_filter(monkeypatch):
    bm25 = BM25Retriever.from_defaults(nodes=nodes())
    retriever, built = CalibratedFusionRetriever(retrievers={"bm25": bm25}), []
    index = type(bm25.bm25).index
    monkeypatch.setattr(
        type(bm25.bm25), "index", lambda self, *more, **named: built.append(1) or index(self, *more, **named)
    )
    for _ in range(4):
        assert rows(retriever.retrieve(QUERY, filters=EN)) == list(range(0, 30, 3))
    assert len(built) == 1


def test_a_node_that_is_changed_or_deleted_is_not_returned(index):
    graph = EntityGraphRetriever(EntityGraphRetriever.from_nodes(nodes())._source, index, similarity_top_k=60)
    kept = graph.within(EN)
    assert rows(kept.retrieve(QUERY)) == list(range(0, 30, 3))
    if isinstance(index.vector_store, ChromaVectorStore):
        index.delete_nodes(["n00"])
    else:
        index.docstore.delete_document("n00")
    for asked in (kept, graph.within(EN)):
        assert rows(asked.retrieve(QUERY)) == list(range(3, 30, 3))


def test_filters_that_contradict_one_another_are_refused_where_the_retriever_is_made(index):
    english, german = (index.as_retriever(filters=wanted(("lang", FilterOperator.EQ, one))) for one in ("en", "de"))
    with pytest.raises(
        InvalidInputError,
        match=r"\(source_1, source_2\) .* every source.*: filters must agree",
    ):
        CalibratedFusionRetriever(retrievers=[english, german])


def test_filters_over_the_store_in_memory_give_its_own_answers_also_after_changes():
    draw = np.random.default_rng(3)
    nodes = [
        TextNode(id_=f"n{row}", text=f"text {row}", metadata={"team": "ab"[row % 2], "page": row}) for row in range(60)
    ]
    for node in nodes:
        node.embedding = draw.standard_normal(2).tolist()
    index = VectorStoreIndex(nodes[:40], embed_model=Looked())
    fused = CalibratedFusionRetriever(vector=index, k=9, fetch_k=9)
    kinds = [
        MetadataFilters(filters=[MetadataFilter(key="team", value="a")]),
        MetadataFilters(filters=[MetadataFilter(key="page", value=20, operator=FilterOperator.GTE)]),
    ]

    def same():
        for filters in kinds:
            own = index.as_retriever(similarity_top_k=9, filters=filters)  # it would not see nodes of later insertions
            for query in ("p1", "p5"):
                plain = own.retrieve(query)
                found = fused.explain(query, filters=filters)
                scores = {one.node_id: one.score for one in plain}
                assert {name: found.evidence(name).sources[0].raw for name in found.ids} == scores

    same()
    index.insert_nodes(nodes[40:])
    index.delete_nodes(["n2", "n21"], delete_from_docstore=True)
    same()
    index.vector_store.data.metadata_dict["n4"] = {"team": "b", "page": 4}
    same()


def fusing(*retrievers):
    return QueryFusionRetriever(list(retrievers), llm=MockLLM(), num_queries=1, use_async=False)


WRAPPED = {
    "fusion": lambda one: fusing(one, one),
    "merging": lambda one: AutoMergingRetriever(one, one._index.storage_context),
    "transform": lambda one: TransformRetriever(one, IdentityQueryTransform()),
    "two": lambda one: fusing(TransformRetriever(one, IdentityQueryTransform())),
}


@pytest.mark.parametrize("how", WRAPPED)
def test_filters_of_a_retriever_inside_another_reach_every_source(how):
    index = VectorStoreIndex(nodes(), embed_model=MockEmbedding(4))
    inner, graph = WRAPPED[how](index.as_retriever(filters=EN)), EntityGraphRetriever.from_nodes(nodes())
    found = CalibratedFusionRetriever(vector=inner, graph=graph, k=60).retrieve(QUERY)
    assert rows(found) == list(range(0, 30, 3))


def test_retrievers_that_are_merged_with_different_filters_are_refused_beside_another_source():
    index = VectorStoreIndex(nodes(), embed_model=MockEmbedding(4))
    mixed = fusing(index.as_retriever(filters=EN), index.as_retriever())
    with pytest.raises(InvalidInputError, match="QueryFusionRetriever do not have the same filters: give them as"):
        CalibratedFusionRetriever(vector=mixed, graph=EntityGraphRetriever.from_nodes(nodes()))
    assert CalibratedFusionRetriever(vector=mixed).retrieve(QUERY)


OLD = wanted(("row", FilterOperator.LT, 3), ("row", FilterOperator.GT, 26), condition=FilterCondition.OR)
NESTED = MetadataFilters(filters=[*EN.filters, OLD])


def test_filters_with_or_are_combined_with_others_and_may_be_nested(index):
    retriever = CalibratedFusionRetriever.from_index(index, k=60)
    for found in (
        retriever.retrieve(QUERY, filters=NESTED),
        retriever.within(EN).retrieve(QUERY, filters=OLD),
        retriever.within(OLD).within(EN).retrieve(QUERY),
    ):
        assert rows(found) == [0, 27]
    lacks = MetadataFilters(filters=[wanted(("part", FilterOperator.LT, 1))], condition=FilterCondition.NOT)
    assert rows(EntityGraphRetriever.from_nodes(nodes(), similarity_top_k=60).within(lacks).retrieve(QUERY)) == list(
        range(4, 20)
    )
    with pytest.raises(InvalidInputError, match="filters is empty"):
        retriever.within(MetadataFilters(filters=[MetadataFilters(filters=[])]))


def test_a_nested_filter_counts_as_the_required_filter_only_if_every_node_must_match_it():
    safe = CalibratedFusionRetriever(graph=EntityGraphRetriever.from_nodes(nodes()), required_filter_key="lang", k=60)
    assert rows(safe.retrieve(QUERY, filters=MetadataFilters(filters=[NESTED]))) == [0, 27]
    either = MetadataFilters(filters=[EN, OLD], condition=FilterCondition.OR)
    with pytest.raises(InvalidInputError, match="required_filter_key"):
        safe.retrieve(QUERY, filters=either)


def test_a_node_without_the_key_is_empty(recwarn):
    index = VectorStoreIndex(nodes(), embed_model=MockEmbedding(4))
    empty = wanted(("part", FilterOperator.IS_EMPTY, None))
    retriever = CalibratedFusionRetriever.from_index(index, k=60)
    assert rows(retriever.retrieve(QUERY, filters=empty)) == list(range(20, 30))
    assert len(retriever.ids(where=empty)) == 10
    assert len(retriever.retrieve(QUERY, filters=wanted(("other", FilterOperator.IS_EMPTY, None)))) == 30
    assert not recwarn


def test_an_operator_that_the_store_does_not_know_ends_the_call_and_does_not_count_as_a_failure():
    storage = StorageContext.from_defaults(vector_store=STORES["Chroma"]())
    index = VectorStoreIndex(nodes(), embed_model=MockEmbedding(4), storage_context=storage)
    retriever = CalibratedFusionRetriever.from_index(index, k=60)
    for _ in range(11):
        with pytest.raises(
            InvalidInputError, match=r"ChromaVectorStore refuses filters= with 'text_match' on 'lang' \('en'\)"
        ):
            retriever.retrieve(QUERY, filters=wanted(("lang", FilterOperator.TEXT_MATCH, "en")))
    assert all(report.status == "ok" for report in retriever.explain(QUERY, filters=EN).reports)


class Multiplying(ChromaVectorStore):
    """A store that multiplies the question's vector with its vectors of length 4, as Qdrant in memory does."""

    asked: ClassVar[list] = []

    def query(self, query, **kwargs):
        self.asked.append(query.filters)
        np.zeros((30, 4)) @ np.array(query.query_embedding)
        return super().query(query, **kwargs)


@pytest.mark.parametrize("own", [None, wanted(("row", FilterOperator.LT, 9))])
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_question_that_also_fails_without_the_filters_is_a_failure_of_the_source(asynchronous, own):
    store = Multiplying(chroma_collection=chromadb.EphemeralClient().create_collection(f"c{uuid.uuid4().hex}"))
    storage = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex(nodes(), embed_model=MockEmbedding(4), storage_context=storage)

    async def explained(dimensions, filters):
        store.asked.clear()
        vector = index.as_retriever(embed_model=MockEmbedding(dimensions), filters=own)
        retriever = CalibratedFusionRetriever(vector=vector)
        return (
            await retriever.aexplain(QUERY, filters=filters)
            if asynchronous
            else retriever.explain(QUERY, filters=filters)
        )

    with pytest.raises(AllSourcesFailed) as caught:
        await explained(3, EN)
    assert "mismatch" in str(caught.value.__cause__)
    assert store.asked[1:] == [own]
    unknown = wanted(("lang", FilterOperator.TEXT_MATCH, "en"))
    with pytest.raises(InvalidInputError, match=r"Multiplying refuses filters= with .*'text_match'.* on 'lang'"):
        await explained(4, unknown)
    assert store.asked[1:] == [own]
    assert (await explained(4, EN)).ids
    assert len(store.asked) == 1


class Texts(BaseModel):
    """The values of a filter, which must be texts."""

    values: list[str]


class Validating(ChromaVectorStore):
    """A store that validates the values of a filter with pydantic, as Qdrant does for the operators != and in."""

    def query(self, query, **kwargs):
        if query.filters is not None:
            Texts(values=[one.value for one in query.filters.filters])
        return super().query(query, **kwargs)


def test_a_value_that_the_store_does_not_take_ends_the_call_and_is_named():
    store = Validating(chroma_collection=chromadb.EphemeralClient().create_collection(f"c{uuid.uuid4().hex}"))
    storage = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex(nodes(), embed_model=MockEmbedding(4), storage_context=storage)
    retriever = CalibratedFusionRetriever.from_index(index, k=60)
    both = wanted(("part", FilterOperator.NE, 1.5), ("lang", FilterOperator.EQ, "en"))
    with pytest.raises(
        InvalidInputError, match=r"Validating refuses filters= with '!=', '==' on 'lang' \('en'\), 'part' \(1\.5\)"
    ):
        retriever.retrieve(QUERY, filters=both)


class Garbled(ChromaVectorStore):
    """A store whose server answers no JSON."""

    def query(self, query, **kwargs):
        return json.loads("<html>")


def test_an_answer_of_the_store_that_cannot_be_read_is_a_failure_of_the_source_alone():
    collection = chromadb.EphemeralClient().create_collection(f"c{uuid.uuid4().hex}")
    storage = StorageContext.from_defaults(vector_store=Garbled(chroma_collection=collection))
    index = VectorStoreIndex(nodes(), embed_model=MockEmbedding(4), storage_context=storage)
    retriever = CalibratedFusionRetriever(vector=index, graph=EntityGraphRetriever.from_nodes(nodes()), k=60)
    with pytest.warns(PhasegraphWarning, match="JSONDecodeError"):
        result = retriever.explain(QUERY, filters=EN)
    assert {report.source: report.status for report in result.reports} == {"vector": "error", "graph": "ok"}


def rows_of_a_database(query, filters=None):
    return [{"id": f"n{row:02}", "text": f"Ada met Bo{row} in Rome in {1990 + row}."} for row in range(30)]


def ids_of_a_database(query, filters=None):
    return [{"id": f"n{row:02}"} for row in range(30)]


def texts_of_a_database(query, filters=None):
    return [f"Ada met Bo{row} in Rome in {1990 + row}." for row in range(30)]


@pytest.mark.parametrize("function", [rows_of_a_database, ids_of_a_database, texts_of_a_database])
def test_a_hit_that_does_not_show_its_metadata_is_not_empty(function):
    index = VectorStoreIndex(nodes(), embed_model=MockEmbedding(4))
    retriever = CalibratedFusionRetriever(vector=index, graph=function, k=60)
    empty = wanted(("part", FilterOperator.IS_EMPTY, None))
    assert rows(retriever.retrieve(QUERY, filters=empty)) == list(range(20, 30))
    either = MetadataFilters(filters=[MetadataFilters(filters=[empty])], condition=FilterCondition.OR)
    assert rows(retriever.retrieve(QUERY, filters=either)) == list(range(20, 30))


def test_nodes_that_match_nested_filters_are_found_once_until_the_store_changes(monkeypatch):
    index = VectorStoreIndex(nodes(), embed_model=MockEmbedding(4))
    retriever = CalibratedFusionRetriever(vector=index, k=60, fetch_k=60)
    found = [rows(retriever.retrieve(QUERY, filters=NESTED))]
    read = []

    class Read(dict):
        def __contains__(self, key):
            read.append(key)
            return super().__contains__(key)

    held = index.vector_store.data.metadata_dict
    monkeypatch.setattr(index.vector_store.data, "metadata_dict", {name: Read(one) for name, one in held.items()})
    for _ in range(2):
        found.append(rows(retriever.retrieve(QUERY, filters=NESTED)))
    assert found == [[0, 27]] * 3
    assert len(read) < 2 * 30 * 3
    index.insert_nodes([TextNode(id_="new", text="Ada met Cy.", metadata={"row": 1, "lang": "en"})])
    assert rows(retriever.retrieve(QUERY, filters=NESTED)) == [0, 1, 27]


def test_a_node_that_another_thread_is_inserting_does_not_match():
    index = VectorStoreIndex(nodes(), embed_model=MockEmbedding(4))
    index.vector_store.data.metadata_dict.pop("n27")
    assert rows(CalibratedFusionRetriever(vector=index, k=60).retrieve(QUERY, filters=NESTED)) == [0]


def test_nested_filters_in_a_store_without_metadata_are_refused():
    index = VectorStoreIndex(nodes(), embed_model=MockEmbedding(4))
    index.vector_store.data.metadata_dict.clear()
    with pytest.raises(InvalidInputError, match="the SimpleVectorStore has no metadata"):
        CalibratedFusionRetriever(vector=index).retrieve(QUERY, filters=NESTED)


def test_values_that_cannot_be_compared_are_named_without_the_value_of_a_passage():
    mixed = [*nodes(), TextNode(id_="old", text="Ada met Cy in Rome.", metadata={"row": "secret"})]
    walk = EntityGraphRetriever.from_nodes(mixed)
    with pytest.raises(
        InvalidInputError, match=r"the metadata key 'row' with 9 by the operator '<': .* a str"
    ) as caught:
        walk.within(wanted(("row", FilterOperator.LT, 9))).retrieve(QUERY)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("store", sorted(STORES))
def test_a_passage_of_another_tenant_cannot_make_the_filters_of_a_tenant_fail(store):
    given = [*nodes(), TextNode(id_="old", text="Ada met Cy in Rome.", metadata={"row": "secret", "lang": "xx"})]
    made = STORES[store]()
    storage = None if made is None else StorageContext.from_defaults(vector_store=made)
    index = VectorStoreIndex(given, embed_model=MockEmbedding(4), storage_context=storage)
    retriever = CalibratedFusionRetriever.from_index(index, k=60)
    few = wanted(("row", FilterOperator.LT, 9))
    both = MetadataFilters(filters=[*few.filters, *EN.filters])
    for made in (retriever.within(EN).explain(QUERY, filters=few), retriever.explain(QUERY, filters=both)):
        assert sorted(made.ids) == ["n00", "n03", "n06"]
        assert all(report.status == "ok" for report in made.reports)


def test_vectors_of_another_size_are_a_failure_of_the_source_also_with_filters():
    index = VectorStoreIndex(nodes(), embed_model=MockEmbedding(4))
    vector = index.as_retriever(embed_model=MockEmbedding(5))
    retriever = CalibratedFusionRetriever(vector=vector, graph=EntityGraphRetriever.from_nodes(nodes()))
    with pytest.warns(PhasegraphWarning, match="source 'vector' failed"):
        assert retriever.retrieve(QUERY, filters=EN)
