"""Filters: operators for every store, a store's own filter in every source, and filters that cannot be applied."""

import re

import pytest
from langchain_chroma import Chroma
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MergerRetriever,
    MultiQueryRetriever,
)
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_community.retrievers import BM25Retriever
from langchain_community.vectorstores import FAISS, LanceDB
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import ConfigurableField, RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_qdrant import QdrantVectorStore
from qdrant_client import models

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever, SourceSpec, store_filters
from langchain_phasegraph.conversion import ScoredDocuments
from langchain_phasegraph.filters import ALSO, only_matching
from langchain_phasegraph.store_filters import own_filter, store_settings
from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.retrieval import FilterRefusedError

EMBEDDINGS = DeterministicFakeEmbedding(size=16)
QUERY = "Who met Ada in Rome?"


def documents():
    return [
        Document(
            f"Ada met Bo{row} in Rome in {1990 + row}.",
            id=f"00000000-0000-0000-0000-{row:012}",
            metadata={"row": row, "year": 1990 + row, "lang": ("en", "de", "fr")[row % 3], "good": row % 2 == 0}
            | ({"part": row / 4} if row < 20 else {}),
        )
        for row in range(30)
    ]


@pytest.fixture
def made(tmp_path):
    def chroma():
        store = Chroma("filters", EMBEDDINGS, persist_directory=str(tmp_path / "chroma"))
        store.add_documents(documents())
        return store

    def lance():
        pytest.importorskip("lancedb")  # of the dependency group "matrix"
        store = LanceDB(uri=str(tmp_path / "lance"), embedding=EMBEDDINGS, table_name="m")
        store.add_documents(documents(), ids=[one.id for one in documents()])
        return store

    return {
        "InMemory": lambda: InMemoryVectorStore.from_documents(documents(), EMBEDDINGS),
        "FAISS": lambda: FAISS.from_documents(documents(), EMBEDDINGS, ids=[one.id for one in documents()]),
        "Chroma": chroma,
        "Qdrant": lambda: QdrantVectorStore.from_documents(
            documents(), EMBEDDINGS, location=":memory:", collection_name="m"
        ),
        "LanceDB": lance,
    }


def rows(found):
    return sorted(one.metadata["row"] for one in found)


WANTED = {
    "equal": ({"lang": "en"}, lambda m: m["lang"] == "en"),
    "a bool": ({"good": True}, lambda m: m["good"]),
    "$eq": ({"row": {"$eq": 3}}, lambda m: m["row"] == 3),
    "$ne": ({"lang": {"$ne": "en"}}, lambda m: m["lang"] != "en"),
    "$in": ({"lang": {"$in": ["en", "fr"]}}, lambda m: m["lang"] in ("en", "fr")),
    "$in numbers": ({"row": {"$in": [1, 5, 99]}}, lambda m: m["row"] in (1, 5)),
    "$nin": ({"lang": {"$nin": ["en", "fr"]}}, lambda m: m["lang"] == "de"),
    "$gt": ({"year": {"$gt": 2010}}, lambda m: m["year"] > 2010),
    "a range": ({"year": {"$gte": 1995, "$lt": 2000}}, lambda m: 1995 <= m["year"] < 2000),
    "a range of fractions": ({"part": {"$lte": 1.5}}, lambda m: m.get("part", 9) <= 1.5),
    "$or": ({"$or": [{"lang": "en"}, {"row": {"$lt": 4}}]}, lambda m: m["lang"] == "en" or m["row"] < 4),
    "$or of missing keys": ({"$or": [{"part": 0.25}, {"row": 29}]}, lambda m: m["row"] in (1, 29)),
    "$and": ({"$and": [{"lang": "en"}, {"year": {"$gt": 2000}}]}, lambda m: m["lang"] == "en" and m["year"] > 2000),
    "nested": (
        {"good": True, "$or": [{"$and": [{"lang": "de"}, {"row": {"$gt": 9}}]}, {"lang": {"$in": ["fr"]}, "row": 2}]},
        lambda m: m["good"] and ((m["lang"] == "de" and m["row"] > 9) or m["row"] == 2),
    ),
    "nothing": ({"lang": "it"}, lambda m: False),
    "$ne of a missing key": ({"part": {"$ne": 0.25}}, lambda m: "part" in m and m["part"] != 0.25),
}


@pytest.mark.parametrize("store", ["InMemory", "FAISS", "Chroma", "Qdrant", "LanceDB"])
@pytest.mark.filterwarnings("ignore:source 'vector' returns hits without an id", "ignore:sources 'bm25' and 'vector'")
@pytest.mark.filterwarnings("ignore:sources 'graph' and 'vector'")
def test_operators_mean_the_same_in_every_store_and_every_source(made, store):
    sources = {
        "vector": made[store](),
        "graph": EntityGraphRetriever.from_documents(documents()),
        "retrievers": {"bm25": BM25Retriever.from_documents(documents())},
    }
    for name, (wanted, test) in WANTED.items():
        expected = [one.metadata["row"] for one in documents() if test(one.metadata)]
        result = PhaseGraphRetriever(**sources, k=60).explain(QUERY, filter=wanted)
        assert all(report.status in ("ok", "empty") for report in result.reports), (name, result.reports)
        for ranking in result.candidates.rankings:
            held = [ranking.payloads[one] for one in ranking.ids]
            assert rows(held) == expected, (name, ranking.source)
        assert len({report.source for report in result.reports if report.status == "ok"}) == (3 if expected else 0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "an empty filter has no condition"),
        ({"a.b": "en"}, "may contain only letters, digits and _; got 'a.b'"),
        ({"lang": ["en"]}, "value of 'lang' must be a string.*write {'lang': {'$in':"),
        ({"lang": {"$like": "e%"}}, "unknown operator '$like' of 'lang'; allowed are $eq"),
        ({"lang": {"$in": "en"}}, "$in of 'lang' needs a list of at least one value; got 'en'"),
        ({"lang": {"$in": []}}, "$in of 'lang' needs a list of at least one value"),
        ({"lang": {"$nin": [None]}}, "$nin of 'lang' needs a list of strings"),
        ({"lang": {"$gt": [1]}}, "$gt of 'lang' needs a string, number or bool"),
        ({"lang": {"$eq": {"$eq": "en"}}}, "$eq of 'lang' needs a string"),
        ({"lang": {}}, "dict of operators of 'lang' is empty"),
        ({"$or": []}, "$or needs a list of at least one filter"),
        ({"$or": [{"lang": "en"}, {}]}, "an empty filter has no condition"),
        ({"$and": {"lang": "en"}}, "$and needs a list"),
        ({"$not": [{"lang": "en"}]}, "got '$not'; between keys, only $and and $or are allowed"),
        ({"$where": [print]}, "got '$where'"),
    ],
)
def test_the_wrong_part_of_a_filter_is_named(made, wrong, said):
    pattern = "filter: .*" + ".*".join(map(re.escape, said.split(".*")))
    with pytest.raises(InvalidTypeError, match=pattern):
        PhaseGraphRetriever(vector=made["InMemory"](), filter=wrong)


OWN = {
    "Chroma": {"lang": {"$in": ["en"]}},
    "FAISS": {"lang": ["en"]},
    "FAISS, a function": lambda metadata: metadata["lang"] == "en",
    "InMemory": lambda document: document.metadata["lang"] == "en",
    "Qdrant": models.Filter(
        must=[models.FieldCondition(key="metadata.lang", match=models.MatchValue(value="en"))],
        must_not=[models.FieldCondition(key="metadata.year", range=models.Range(gt=2100))],
    ),
}


@pytest.mark.parametrize("store", sorted(OWN))
@pytest.mark.parametrize("how", ["search_kwargs", "bound"])
async def test_a_filter_in_the_vector_retriever_reaches_every_source(made, store, how):
    vectors = made[store.partition(",")[0]]()
    own = {"filter": OWN[store]}
    vector = vectors.as_retriever(search_kwargs=own) if how == "search_kwargs" else vectors.as_retriever().bind(**own)
    seen = []

    def function(query, filter=None):  # noqa: A002
        seen.append(filter)
        return documents()

    sources = {
        "graph": EntityGraphRetriever.from_documents(documents()),
        "retrievers": {"bm25": BM25Retriever.from_documents(documents()), "function": function},
    }
    retriever = PhaseGraphRetriever(vector=vector, **sources, k=60)
    english = [row for row in range(30) if row % 3 == 0]
    assert rows(retriever.invoke(QUERY)) == rows(await retriever.ainvoke(QUERY)) == english
    assert rows(retriever.invoke(QUERY, filter={"row": {"$lt": 9}})) == [0, 3, 6]
    result = retriever.explain(QUERY)
    assert all(report.status == "ok" for report in result.reports)
    assert all(len(ranking) == 10 for ranking in result.candidates.rankings)
    assert None not in seen


def test_a_filter_in_the_vector_retriever_is_read_at_every_call(made):
    vector = made["InMemory"]().as_retriever()
    retriever = PhaseGraphRetriever(vector=vector, graph=EntityGraphRetriever.from_documents(documents()), k=60)
    assert len(retriever.invoke(QUERY)) == 30
    vector.search_kwargs["filter"] = lambda document: document.metadata["row"] == 7
    assert rows(retriever.invoke(QUERY)) == [7]


def test_filters_of_a_graph_and_of_a_fused_retriever_reach_the_others_too(made):
    graph = EntityGraphRetriever.from_documents(documents(), filter={"lang": "en"})
    assert rows(PhaseGraphRetriever(vector=made["FAISS"](), graph=graph, k=60).invoke(QUERY)) == list(range(0, 30, 3))
    inner = PhaseGraphRetriever(vector=made["Chroma"]().as_retriever(search_kwargs={"filter": {"row": 4}}))
    outer = PhaseGraphRetriever(retrievers={"inner": inner, "other": made["FAISS"]()}, k=60)
    assert rows(outer.invoke(QUERY)) == [4]


def test_a_filter_that_others_cannot_be_given_fails_where_the_retriever_is_made(made, tmp_path):
    graph = EntityGraphRetriever.from_documents(documents())
    chroma = made["Chroma"]()
    for settings, why in (
        ({"where_document": {"$contains": "Rome"}}, "'where_document' is specific to that store"),
        (
            {"filter": {"lang": {"$contains": "e"}}},
            r"it is specific to that store \(unknown operator '\$contains' of 'lang'; allowed are \$eq",
        ),
    ):
        own = chroma.as_retriever(search_kwargs=settings)
        with pytest.raises(InvalidInputError, match=f"source 'vector' has its own filter.*{why}.*give filter="):
            PhaseGraphRetriever(vector=own, graph=graph)
        PhaseGraphRetriever(vector=own)
    english, german = (chroma.as_retriever(search_kwargs={"filter": {"lang": lang}}) for lang in ("en", "de"))
    with pytest.raises(InvalidInputError, match="filters must agree; got 'en' and 'de' for 'lang'"):
        PhaseGraphRetriever(retrievers=[english, german])
    for other, why in (
        (lambda query: [], "it does not support filter="),
        (EntityGraphRetriever(graph=graph.graph), "it does not know the metadata of its passages: pass documents="),
    ):
        with pytest.raises(InvalidInputError, match=f"'vector' has its own filter.*source 'graph' cannot apply: {why}"):
            PhaseGraphRetriever(vector=english, graph=other)


@pytest.mark.parametrize(
    "given",
    [
        models.Filter(must=[models.HasIdCondition(has_id=[1])]),
        models.Filter(must=[models.FieldCondition(key="other.lang", match=models.MatchValue(value="en"))]),
        models.Filter(min_should=models.MinShould(conditions=[], min_count=1)),
    ],
)
def test_a_qdrant_filter_that_says_something_else_is_not_guessed(made, given):
    with pytest.raises(InvalidInputError, match="specific to that store"):
        own_filter(made["Qdrant"](), {"filter": given})


@pytest.mark.parametrize("store", ["Chroma", "Qdrant"])
@pytest.mark.parametrize("inside", [lambda one: one, lambda one: {"$or": [{"lang": "en"}, {"row": 1, **one}]}])
def test_a_text_that_the_store_cannot_compare_is_refused_with_its_key(made, store, inside):
    retriever = PhaseGraphRetriever(vector=made[store](), graph=EntityGraphRetriever.from_documents(documents()), k=60)
    with pytest.raises(InvalidInputError, match=r"compares only numbers with \$gte; got 'e' for 'lang'"):
        retriever.invoke(QUERY, filter=inside({"lang": {"$gte": "e"}}))


class Plain(VectorStore):
    """A store of an unknown class that ignores filters."""

    def __init__(self, count):
        self.held = [Document(f"text {row}", id=str(row), metadata={"row": row}) for row in range(count)]

    def similarity_search_with_score(self, query, k=4, **kwargs):
        return [(one, 1.0 - row / 1e6) for row, one in enumerate(self.held[:k])]

    def similarity_search(self, query, k=4, **kwargs):
        return self.held[:k]

    @classmethod
    def from_texts(cls, texts, embedding, metadatas=None, **kwargs):
        raise NotImplementedError


def test_a_store_that_knows_no_operators_is_searched_deep_enough_or_refused():
    found = PhaseGraphRetriever(vector=Plain(11_000), fetch_k=5, k=5).invoke("q", filter={"row": {"$gte": 9_990}})
    assert rows(found) == list(range(9_990, 9_995))
    assert rows(PhaseGraphRetriever(vector=Plain(900)).invoke("q", filter={"row": {"$in": [3, 800]}})) == [3, 800]
    with pytest.raises(InvalidInputError, match="of the 10000 passages nearest to the query only 4 match"):
        PhaseGraphRetriever(vector=Plain(11_000), fetch_k=5).invoke("q", filter={"row": {"$gte": 9_996}})


def test_a_document_that_is_changed_or_deleted_is_not_returned_and_a_filter_is_worked_out_once(monkeypatch):
    from phasegraph.graph import GraphSource

    built = []
    within = GraphSource.within
    monkeypatch.setattr(GraphSource, "within", lambda self, allowed: built.append(1) or within(self, allowed))
    held = {one.id: one for one in documents()}
    whole = EntityGraphRetriever.from_documents(documents()).graph
    graph = EntityGraphRetriever(
        graph=whole, documents=lambda ids: {one: held[one] for one in ids if one in held}, k=60
    )
    wanted = {"lang": "en"}
    for _ in range(5):
        assert rows(graph.invoke(QUERY, filter=wanted)) == list(range(0, 30, 3))
    assert len(built) == 1
    names = list(held)
    held[names[0]] = Document("changed", id=names[0], metadata={"lang": "de", "row": 0})
    del held[names[3]]
    for _ in range(3):
        assert rows(graph.invoke(QUERY, filter=wanted)) == list(range(6, 30, 3))
    assert len(built) == 2


def test_a_filter_over_faiss_follows_what_is_added_and_deleted(made):
    store = made["FAISS"]()
    retriever = PhaseGraphRetriever(vector=store, k=60)
    wanted = {"lang": {"$in": ["en"]}}
    assert len(retriever.invoke(QUERY, filter=wanted)) == 10
    store.add_documents([Document("Ada again.", id="new", metadata={"row": 30, "lang": "en"})])
    assert rows(retriever.invoke(QUERY, filter=wanted)) == list(range(0, 31, 3))
    store.delete([documents()[0].id])
    assert rows(retriever.invoke(QUERY, filter=wanted)) == list(range(3, 31, 3))


# Faults that a mutation test planted and that no test found


def test_a_store_in_memory_keeps_several_values_and_none_that_is_greater(made):
    def found(**wanted):
        retriever = PhaseGraphRetriever(vector=made["InMemory"](), fetch_k=30, k=30)
        return rows(retriever.invoke(QUERY, filter=wanted))

    passes = store_settings(made["InMemory"](), {"row": 7})["filter"]
    assert [row for row in range(10) if passes(Document("", metadata={"row": row}))] == [7]
    assert found(row=7) == [7]
    assert found(lang="de", good=True) == [4, 10, 16, 22, 28]


def test_hits_that_a_store_returned_despite_its_filter_are_counted_as_dropped():
    given = ScoredDocuments(documents()[:6])
    given.scores, given.dropped = [1.0] * 6, 2
    kept = only_matching(given, {"lang": "en"})
    assert (rows(kept), kept.dropped) == ([0, 3], 2 + 4)


def test_a_search_without_words_of_the_store_keeps_the_callers_own_filter():
    also = {ALSO: {"row": 1}}
    assert "filter" not in store_settings(Plain(1), also)
    assert store_settings(Plain(1), also, {"row": 1})["filter"] == {"row": 1}
    assert store_settings(Plain(1), {"lang": "en"}, {"row": 1})["filter"] == {"row": 1, "lang": "en"}
    for own in ({"$or": [{"row": 1}]}, {"row": {"$gt": 1}}, {"row": [1, 2]}):
        with pytest.raises(
            InvalidInputError,
            match="only if that filter is a mapping of keys to plain values",
        ):
            store_settings(Plain(1), {"lang": "en"}, own)


def test_a_qdrant_condition_outside_the_metadata_is_no_filter_of_ours():
    inside, outside = (
        models.FieldCondition(key=key, match=models.MatchValue(value="en")) for key in ("metadata.lang", "lang")
    )
    assert store_filters._of_qdrant(inside, "metadata.") == {"lang": {"$eq": "en"}}
    assert store_filters._of_qdrant(outside, "metadata.") is None
    no_test = models.FieldCondition(key="metadata.lang", match=models.MatchText(text="en"))
    assert store_filters._of_qdrant(no_test, "metadata.") is None


def english(store):
    return store.as_retriever(search_kwargs={"k": 9, "filter": {"lang": "en"}})


WRAPPED = {
    "retry": lambda one: one.with_retry(),
    "fallbacks": lambda one: one.with_fallbacks([one]),
    "ensemble": lambda one: EnsembleRetriever(retrievers=[one, one]),
    "merger": lambda one: MergerRetriever(retrievers=[one]),
    "multi-query": lambda one: MultiQueryRetriever.from_llm(one, FakeListChatModel(responses=["Ada?"])),
    "compression": lambda one: ContextualCompressionRetriever(
        base_retriever=one, base_compressor=DocumentCompressorPipeline(transformers=[])
    ),
    "before": lambda one: RunnableLambda(lambda query: query) | one,
    "after": lambda one: one | RunnableLambda(lambda found: found),
    "bound to another": lambda one: one.vectorstore.as_retriever().bind(filter={"lang": "en"}),
    "configured": lambda one: chosen(one.vectorstore).with_config(configurable={"how": one.search_kwargs}),
}


def chosen(store):
    return store.as_retriever().configurable_fields(search_kwargs=ConfigurableField("how"))


@pytest.mark.parametrize("how", WRAPPED)
def test_the_filter_of_a_retriever_inside_another_runnable_reaches_every_source(how, made):
    graph, vector = EntityGraphRetriever.from_documents(documents()), WRAPPED[how](english(made["Chroma"]()))
    found = PhaseGraphRetriever(vector=vector, graph=graph, k=60).invoke(QUERY)
    assert found
    assert {one.metadata["lang"] for one in found} == {"en"}
    with pytest.raises(InvalidInputError, match="'vector' has its own filter, which source 'graph' cannot apply"):
        PhaseGraphRetriever(vector=vector, graph=lambda query: [])


async def test_a_filter_that_a_call_configures_reaches_every_source(made):
    graph, vector = EntityGraphRetriever.from_documents(documents()), chosen(made["Chroma"]())
    retriever = PhaseGraphRetriever(vector=vector, graph=graph, k=60)
    config = {"configurable": {"how": {"filter": {"lang": "en"}}}}
    for found in (retriever.invoke(QUERY, config), await retriever.ainvoke(QUERY, config)):
        assert rows(found) == list(range(0, 30, 3))
    assert len(retriever.invoke(QUERY)) == 30
    outer = PhaseGraphRetriever(
        retrievers={"inner": retriever, "words": BM25Retriever.from_documents(documents())}, k=60
    )
    assert rows(outer.invoke(QUERY, config)) == list(range(0, 30, 3))


@pytest.mark.parametrize("other", [lambda store: store.as_retriever(), lambda store: FUNCTION])
def test_retrievers_that_are_merged_with_different_filters_are_refused_beside_another_source(other, made):
    store, graph = made["Chroma"](), EntityGraphRetriever.from_documents(documents())
    mixed = EnsembleRetriever(retrievers=[english(store), other(store)])
    assert PhaseGraphRetriever(vector=mixed).invoke(QUERY)
    with pytest.raises(InvalidInputError, match="EnsembleRetriever do not have the same filter: give them as sources"):
        PhaseGraphRetriever(vector=mixed, graph=graph)


FUNCTION = RunnableLambda(lambda query: documents())


def test_branches_with_different_filters_are_refused_and_a_search_for_another_query_passes_its_filter_on_to_none(made):
    store, graph = made["Chroma"](), EntityGraphRetriever.from_documents(documents())
    branches = RunnableParallel(a=english(store), b=store.as_retriever(), query=RunnablePassthrough())
    merged = branches | (lambda found: found["a"] + found["b"])
    with pytest.raises(InvalidInputError, match="RunnableParallel do not have the same filter"):
        PhaseGraphRetriever(vector=merged, graph=graph)
    second = english(store) | (lambda found: QUERY) | store.as_retriever()
    assert len(PhaseGraphRetriever(vector=second, graph=graph, k=60).invoke(QUERY)) == 30
    with pytest.raises(FilterRefusedError, match="required_filter_key"):
        PhaseGraphRetriever(vector=second, required_filter_key="lang").invoke(QUERY)


async def test_a_configured_filter_that_does_not_reach_the_retriever_does_not_count_as_a_filter(made):
    retriever = PhaseGraphRetriever(vector=WRAPPED["compression"](chosen(made["Chroma"]())), required_filter_key="lang")
    config = {"configurable": {"how": {"filter": {"lang": "en"}}}}
    with pytest.raises(FilterRefusedError, match="required_filter_key"):
        retriever.invoke(QUERY, config)
    with pytest.raises(FilterRefusedError, match="required_filter_key"):
        await retriever.ainvoke(QUERY, config)
    inside = RunnableLambda(lambda query: retriever.invoke(query)).invoke(QUERY, config)
    assert {one.metadata["lang"] for one in inside} == {"en"}


class Spaces(InMemoryVectorStore):
    """A store that searches a namespace, and looks up ids in another namespace."""

    def similarity_search_with_score(self, query, k=4, namespace=None, **options):
        return [(one, score) for one, score in super().similarity_search_with_score(query, k) if namespace == "mine"]

    def get_by_ids(self, ids):
        return [Document(f"theirs {name}", id=name) for name in ids]


@pytest.mark.parametrize("bound", [False, True])
def test_a_passage_of_another_namespace_with_the_same_id_does_not_replace_a_hit(bound):
    store = Spaces.from_documents(documents(), DeterministicFakeEmbedding(size=8))
    own = store.as_retriever(search_kwargs={} if bound else {"namespace": "mine"})
    spec = SourceSpec(retriever=own.bind(namespace="mine") if bound else own, fetch_k=1)
    found = PhaseGraphRetriever(vector=spec, graph=EntityGraphRetriever.from_documents(documents()), k=60).invoke(QUERY)
    assert len(found) == 30
    assert [one.page_content for one in found if "theirs" in one.page_content] == []


@pytest.mark.parametrize("fetch_k", [50, None])
@pytest.mark.parametrize("store", ["Chroma", "FAISS", "InMemory"])
async def test_mmr_with_a_k_of_its_own_keeps_the_filter_of_a_call(store, fetch_k, made):
    own = made[store]().as_retriever(search_type="mmr", search_kwargs={"k": 3})
    retriever = PhaseGraphRetriever(vector=own, fetch_k=fetch_k)
    for found in (
        retriever.invoke(QUERY, filter={"lang": "en"}),
        await retriever.ainvoke(QUERY, filter={"lang": "en"}),
    ):
        assert [one.metadata["lang"] for one in found] == ["en"] * 3
