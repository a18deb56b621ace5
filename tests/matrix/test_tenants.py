"""Two tenants in one store: a filter given once reaches every source, the walk included, and nothing leaks."""

import json

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from matrix_langchain import LANGCHAIN
from matrix_ours import ids, of, walk
from matrix_servers import marked, opened_or_skipped

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever
from phasegraph import AllSourcesFailed, InvalidInputError, InvalidTypeError

FILTERED = (
    "InMemoryVectorStore", "FAISS, L2", "FAISS, inner product", "Chroma, cosine", "Qdrant, cosine", "PGVector, cosine",
    "Neo4jVector, cosine",
)  # fmt: skip
ROWS = [row for row in LANGCHAIN if row.store in FILTERED]


@pytest.fixture(scope="module", params=marked(ROWS))
def store(request, data, servers):
    opened = opened_or_skipped(request.param, data, servers)
    yield opened.given
    opened.close()


class Heard(BaseCallbackHandler):
    """Everything a trace is told."""

    def __init__(self):
        self.told = []

    def on_retriever_end(self, documents, **more):
        self.told.extend(documents)


@pytest.mark.parametrize("tenant", ["red", "blue"])
def test_what_another_may_see_is_neither_returned_nor_named_in_any_trace(store, data, tenant):
    mine, theirs = of(data, tenant), of(data, "blue" if tenant == "red" else "red")
    ours = PhaseGraphRetriever(vector=store, graph=walk("LangChain", data), deadline=None, k=20)
    for question in data.questions[:3]:
        heard = Heard()
        found = ours.invoke(question, {"callbacks": [heard]}, filter={"tenant": tenant})
        assert len(found) == 20
        assert set(ids(found)) <= mine
        told = json.dumps([one.metadata for one in (*found, *heard.told)]) + str([one.id for one in heard.told])
        assert not [name for name in theirs if name in told]
        result = ours.explain(question, filter={"tenant": tenant})
        assert set(result.candidates.ids) <= mine
        assert [report.status for report in result.reports] == ["ok", "ok"]
        limit = min(50, len(mine))
        assert next(one for one in result.reports if one.source == "vector").hits == limit


async def test_given_once_per_call_and_by_configuration_it_is_the_same(store, data):
    parts = {"vector": store, "graph": walk("LangChain", data), "deadline": None}
    question, wanted = data.questions[0], {"tenant": "red"}
    once = PhaseGraphRetriever(**parts, filter=wanted).invoke(question)
    ours = PhaseGraphRetriever(**parts)
    assert ours.invoke(question, filter=wanted) == once
    assert ours.invoke(question, {"configurable": {"phasegraph_filter": wanted}}) == once
    assert ids(await ours.ainvoke(question, filter=wanted)) == ids(once)
    assert not set(ids(ours.invoke(question))) <= of(data, "red"), "without a filter nothing is left out"


def test_no_match_is_an_empty_answer(store, data):
    ours = PhaseGraphRetriever(vector=store, graph=walk("LangChain", data), deadline=None)
    result = ours.explain(data.questions[0], filter={"tenant": "nobody"})
    assert (result.ids, [report.status for report in result.reports]) == ((), ["empty", "empty"])


def test_a_filter_of_the_stores_own_retriever_stays_in_force(data):
    row = next(row for row in ROWS if row.store == "Chroma, cosine")
    opened = opened_or_skipped(row, data, None)
    title = next(one["title"] for one in data.rows if one["tenant"] == "red")
    own = opened.given.as_retriever(search_kwargs={"filter": {"title": title}})
    found = PhaseGraphRetriever(vector=own, deadline=None).invoke(data.questions[0], filter={"tenant": "red"})
    assert {(one.metadata["title"], one.metadata["tenant"]) for one in found} == {(title, "red")}
    opened.close()


def test_a_source_that_takes_no_filter_fails_rather_than_answer(data):
    secret = Document("theirs", id="x", metadata={"tenant": "blue"})
    ours = PhaseGraphRetriever(vector=lambda query: [(secret, 1.0)], graph=walk("LangChain", data))
    result = ours.explain(data.questions[0], filter={"tenant": "red"})
    assert "x" not in result.candidates.ids
    assert {one.source: one.status for one in result.reports}["vector"] == "error"
    with pytest.raises(AllSourcesFailed):
        PhaseGraphRetriever(vector=lambda query: [(secret, 1.0)]).invoke("who?", filter={"tenant": "red"})


def test_a_source_that_takes_a_filter_and_does_not_keep_it_gives_nothing_away():
    hits = [(Document(name, id=name, metadata={"tenant": name}), 1.0) for name in ("red", "blue")]

    def careless(query, filter):  # noqa: A002
        return [*hits, (Document("none", id="none"), 0.5)]

    ours = PhaseGraphRetriever(vector=careless)
    assert ids(ours.invoke("who?", filter={"tenant": "red"})) == ["red"]


def test_filters_of_a_graph_and_of_a_call_hold_together(data):
    graph = EntityGraphRetriever(
        graph=walk("LangChain", data).graph, documents=data.documents(), filter={"tenant": "red"}
    )
    assert set(ids(graph.invoke(data.questions[0]))) <= of(data, "red")
    with pytest.raises(InvalidInputError, match="filters must agree; got 'red' and 'blue' for 'tenant'"):
        graph.invoke(data.questions[0], filter={"tenant": "blue"})


def test_lancedb_is_refused_because_langchain_writes_values_into_its_query(data, servers):
    opened = opened_or_skipped(next(row for row in LANGCHAIN if row.store == "LanceDB, l2"), data, servers)
    with pytest.raises(AllSourcesFailed, match="InvalidInputError"):
        PhaseGraphRetriever(vector=opened.given, deadline=None).invoke("who?", filter={"tenant": "x' OR '1' = '1"})
    opened.close()


@pytest.mark.parametrize(
    "wrong", ["tenant = 'red'", {}, {"$or": "a"}, {"a) OR (b": "c"}, {"tenant": ["red"]}, {1: "red"}]
)
def test_what_is_no_filter_is_named(data, wrong):
    ours = PhaseGraphRetriever(graph=walk("LangChain", data))
    with pytest.raises(InvalidTypeError, match="filter must map metadata keys"):
        ours.invoke(data.questions[0], filter=wrong)
