"""LangChain: how a filter is given, how it joins those that are there already, and what is refused."""

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from matrix_langchain import LANGCHAIN, bm25, in_memory
from matrix_ours import ids, walk
from matrix_servers import marked, opened_or_skipped
from matrix_tenants import Tenant

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever
from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.graph import GraphSource

ROWS = [row for row in LANGCHAIN if row.store in ("InMemoryVectorStore", "Chroma, cosine", "BM25Retriever")]


@pytest.fixture(scope="module", params=marked(ROWS))
def store(request, data, servers):
    opened = opened_or_skipped(request.param, data, servers)
    yield opened.given
    opened.close()


@pytest.fixture(scope="module")
def chroma(data, servers):
    opened = opened_or_skipped(next(row for row in LANGCHAIN if row.store == "Chroma, cosine"), data, servers)
    yield opened.given
    opened.close()


@pytest.fixture(scope="module")
def title(data):
    """The title of one of the first tenant's passages."""
    return next(one["title"] for one in data.rows if one["tenant"] == "red")


async def test_given_once_per_call_and_by_configuration_it_is_the_same(store, data):
    parts = {"vector": store, "graph": walk("LangChain", data), "timeout": None}
    question, wanted = data.questions[0], {"tenant": "red"}
    once = PhaseGraphRetriever(**parts, filter=wanted).invoke(question)
    ours = PhaseGraphRetriever(**parts)
    assert ours.invoke(question, filter=wanted) == once
    assert ours.invoke(question, {"configurable": {"phasegraph_filter": wanted}}) == once
    assert ids(await ours.ainvoke(question, filter=wanted)) == ids(once)
    assert not set(ids(ours.invoke(question))) <= set(data.of("red").ids), "without a filter nothing is left out"


@pytest.mark.parametrize("given", ["search_kwargs", "bound"])
def test_a_filter_of_the_stores_own_retriever_stays_in_force(chroma, data, title, given):
    own = {"filter": {"title": title}}
    retriever = (
        chroma.as_retriever(search_kwargs=own) if given == "search_kwargs" else chroma.as_retriever().bind(**own)
    )
    ours = PhaseGraphRetriever(vector=retriever, timeout=None)
    assert {one.metadata["title"] for one in ours.invoke(data.questions[0])} == {title}
    found = ours.invoke(data.questions[0], filter={"tenant": "red"})
    assert {(one.metadata["title"], one.metadata["tenant"]) for one in found} == {(title, "red")}
    assert not ours.invoke(data.questions[0], filter={"tenant": "blue"})


def test_a_filter_bound_to_any_other_source_stays_in_force_too(data, title):
    graph = walk("LangChain", data).bind(filter={"title": title})
    ours = PhaseGraphRetriever(graph=graph, vector=in_memory(data, None).given, timeout=None)
    result = ours.explain(data.questions[0], filter={"tenant": "red"})
    (walked,) = (one for one in result.candidates.rankings if one.source == "graph")
    titles = {one["id"]: one["title"] for one in data.rows}
    assert {titles[name] for name in walked.ids} <= {title}


async def test_calibrating_looks_at_nothing_else_either(store, data):
    seen = []

    def listener(query, filter):  # noqa: A002
        seen.append(filter)
        return [(one, float(row)) for row, one in enumerate(data.documents())]

    ours = PhaseGraphRetriever(vector=store, retrievers={"other": listener}, filter={"tenant": "red"}, timeout=None)
    asked = [*data.questions, *(row["text"] for row in data.rows[:20])]
    await ours.calibrate(asked, progress=False).acalibrate(asked, progress=False)
    assert seen == [{"tenant": "red"}] * (2 * len(asked))
    apart = PhaseGraphRetriever(retrievers={"other": listener}, filter={"tenant": "blue"})
    apart.calibrate(asked, progress=False)
    assert ours.fitted_pipeline.calibrators["other"] != apart.fitted_pipeline.calibrators["other"]


def test_a_retriever_of_ours_among_the_sources_hands_the_filter_on(store, data):
    inner = PhaseGraphRetriever(vector=store, timeout=None)
    ours = PhaseGraphRetriever(retrievers={"inner": inner}, graph=walk("LangChain", data), timeout=None)
    mine = set(data.of("red").ids)
    view = Tenant("LangChain", ours, "red")
    assert set(ids(view.ask(data.questions[0]))) <= mine
    assert not [name for name in data.of("blue").ids if name in "".join(view.told)]


def test_a_source_that_takes_no_filter_fails_rather_than_answer(data):
    secret = Document("theirs", id="x", metadata={"tenant": "blue"})
    for beside in ({}, {"graph": walk("LangChain", data)}):
        ours = PhaseGraphRetriever(vector=lambda query: [(secret, 1.0)], **beside)
        for asked in (ours.explain, ours.invoke):
            with pytest.raises(InvalidInputError, match="source 'vector' does not support filter="):
                asked(data.questions[0], filter={"tenant": "red"})


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
    assert set(ids(graph.invoke(data.questions[0]))) <= set(data.of("red").ids)
    with pytest.raises(InvalidInputError, match="filters must agree; got 'red' and 'blue' for 'tenant'"):
        graph.invoke(data.questions[0], filter={"tenant": "blue"})


ASKED_IN_WORDS = ("LanceDB, l2", "Qdrant, cosine", "PGVector, cosine", "PGVectorStore, cosine")


@pytest.mark.parametrize("row", marked([row for row in LANGCHAIN if row.store in ASKED_IN_WORDS]))
def test_a_value_is_never_read_as_a_query(data, servers, row):
    opened = opened_or_skipped(row, data, servers)
    ours = PhaseGraphRetriever(vector=opened.given, timeout=None)
    for value in ("x' OR '1' = '1", "red' --", "red'; DROP TABLE m; --"):
        assert not ours.invoke(data.questions[0], filter={"tenant": value})
    assert ours.invoke(data.questions[0], filter={"tenant": "red"})
    opened.close()


def test_what_lancedb_cannot_keep_is_refused(data, servers, monkeypatch):
    opened = opened_or_skipped(next(row for row in LANGCHAIN if row.store == "LanceDB, l2"), data, servers)
    mmr = PhaseGraphRetriever(vector=opened.given.as_retriever(search_type="mmr"), timeout=None)
    with pytest.raises(InvalidInputError, match="this store cannot apply filter= with search_type='mmr'"):
        mmr.invoke(data.questions[0], filter={"tenant": "red"})
    monkeypatch.setattr("langchain_phasegraph.store_filters._MOST_ROWS", 99)
    with pytest.raises(InvalidInputError, match="filter= supports LanceDB tables of up to 99 rows"):
        PhaseGraphRetriever(vector=opened.given, timeout=None).invoke(data.questions[0], filter={"tenant": "red"})
    opened.close()


def test_a_bm25_of_another_kind_is_refused(data):
    given = bm25(data, None).given

    class Other(type(given)):
        pass

    other = Other(**{name: getattr(given, name) for name in ("vectorizer", "docs", "k", "preprocess_func")})
    for source in (other, RunnableLambda(given.invoke), given | RunnableLambda(list)):
        with pytest.raises(InvalidInputError, match="source 'vector' does not support filter="):
            PhaseGraphRetriever(vector=source, timeout=None).invoke("who?", filter={"tenant": "red"})


def test_a_bm25_under_a_filter_is_left_as_it_was_and_built_once(data):
    given = bm25(data, None).given
    before = dict(vars(given))
    built = []
    given.preprocess_func = lambda text: built.append(text) or text.split()
    ours = PhaseGraphRetriever(vector=given, timeout=None)
    for _ in range(3):
        ours.invoke("who?", filter={"tenant": "red"})
    assert len(built) == len(data.of("red").rows) + 3
    assert {**vars(given), "preprocess_func": before["preprocess_func"]} == before


def test_a_graph_without_its_documents_cannot_tell_whose_they_are(data):
    graph = EntityGraphRetriever(graph=GraphSource(walk("LangChain", data).graph))
    with pytest.raises(InvalidInputError, match="filter= needs the metadata of the passages: give documents="):
        graph.invoke(data.questions[0], filter={"tenant": "red"})


@pytest.mark.parametrize(
    "wrong", ["tenant = 'red'", {}, {"$or": "a"}, {"a) OR (b": "c"}, {"tenant": ["red"]}, {1: "red"}]
)
def test_what_is_no_filter_is_named(data, wrong):
    ours = PhaseGraphRetriever(graph=walk("LangChain", data))
    with pytest.raises(InvalidTypeError, match="filter: "):
        ours.invoke(data.questions[0], filter=wrong)
