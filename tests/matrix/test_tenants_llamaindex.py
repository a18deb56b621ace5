"""LlamaIndex: two tenants in one store, kept apart by MetadataFilters in every source and in the walk."""

import json

import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import FilterCondition, MetadataFilter, MetadataFilters
from llama_index.retrievers.bm25 import BM25Retriever
from matrix_llamaindex import LLAMAINDEX
from matrix_ours import ids, of, walk
from matrix_servers import marked, opened_or_skipped

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever
from phasegraph import InvalidInputError, InvalidTypeError

FILTERED = ("SimpleVectorStore", "Chroma, cosine", "Qdrant, cosine", "Postgres", "Neo4jVector, cosine")
ROWS = [row for row in LLAMAINDEX if row.store in FILTERED]


@pytest.fixture(scope="module", params=marked(ROWS))
def store(request, data, servers):
    opened = opened_or_skipped(request.param, data, servers)
    yield opened.given
    opened.close()


def only(tenant):
    return MetadataFilters(filters=[MetadataFilter(key="tenant", value=tenant)])


@pytest.mark.parametrize("tenant", ["red", "blue"])
def test_what_another_may_see_is_neither_returned_nor_named(store, data, tenant):
    mine, theirs = of(data, tenant), of(data, "blue" if tenant == "red" else "red")
    ours = CalibratedFusionRetriever(vector=store, graph=walk("LlamaIndex", data), deadline=None, k=20)
    inside = ours.within(only(tenant))
    for question in data.questions[:3]:
        found = inside.retrieve(question)
        assert len(found) == 20
        assert set(ids(found)) <= mine
        told = json.dumps([hit.metadata for hit in found])
        assert not [name for name in theirs if name in told]
        result = inside.explain(question)
        assert set(result.candidates.ids) <= mine
        assert [report.status for report in result.reports] == ["ok", "ok"]
    assert not set(ids(ours.retrieve(data.questions[0]))) <= mine, "the retriever itself is left as it was"


async def test_awaited_it_keeps_the_filter_too(store, data):
    inside = CalibratedFusionRetriever(vector=store, graph=walk("LlamaIndex", data), deadline=None).within(only("red"))
    assert ids(await inside.aretrieve(data.questions[0])) == ids(inside.retrieve(data.questions[0]))


def test_a_filter_of_the_stores_own_retriever_stays_in_force(data):
    row = next(row for row in ROWS if row.store == "SimpleVectorStore")
    index = row.open(data, None).given
    title = next(one["title"] for one in data.rows if one["tenant"] == "red")
    index._filters = MetadataFilters(filters=[MetadataFilter(key="title", value=title)])
    found = CalibratedFusionRetriever(vector=index).within(only("red")).retrieve(data.questions[0])
    assert {(hit.metadata["title"], hit.metadata["tenant"]) for hit in found} == {(title, "red")}
    assert not CalibratedFusionRetriever(vector=index).within(only("blue")).retrieve(data.questions[0])


def test_what_cannot_keep_a_filter_is_refused(data):
    bm25 = BM25Retriever.from_defaults(nodes=data.nodes())
    for source in (bm25, lambda query: []):
        with pytest.raises(InvalidInputError, match="a source must take filters"):
            CalibratedFusionRetriever(graph=source).within(only("red"))
    either = MetadataFilters(filters=only("red").filters, condition=FilterCondition.OR)
    for wrong, error in ((None, InvalidTypeError), (MetadataFilters(filters=[]), InvalidInputError)):
        with pytest.raises(error, match="filters must"):
            CalibratedFusionRetriever(graph=walk("LlamaIndex", data)).within(wrong)
    with pytest.raises(InvalidInputError, match="condition AND"):
        CalibratedFusionRetriever(vector=lambda query, filters: []).within(either).within(only("red"))


def test_a_function_that_takes_filters_and_does_not_keep_them_gives_nothing_away():
    hits = [(TextNode(id_=name, text=name, metadata={"tenant": name}), 1.0) for name in ("red", "blue")]
    asked = []

    def careless(query, filters=None):
        asked.append(filters)
        return [*hits, (TextNode(id_="none", text="none"), 0.5)]

    inside = CalibratedFusionRetriever(vector=careless).within(only("red"))
    assert ids(inside.retrieve("who?")) == ["red"]
    assert [one.value for one in asked[0].filters] == ["red"]
