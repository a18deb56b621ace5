"""A filter under ``configurable`` applies even if LangChain calls a retriever without passing the configuration on."""

import asyncio
from typing import TypedDict

import pytest
from langchain_classic.retrievers import ContextualCompressionRetriever, EnsembleRetriever
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough, chain
from langchain_core.tools import create_retriever_tool, tool
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever, fuse_lists
from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.retrieval import HitFields, SourceSpec

EMBEDDINGS = DeterministicFakeEmbedding(size=8)
QUERY = "Who met Ada in Rome?"
RED, BLUE = ({"configurable": {"phasegraph_filter": {"tenant": name}}} for name in ("red", "blue"))


def documents():
    return [
        Document(f"Ada met {name}{row} in Rome.", id=f"{name}-{row}", metadata={"tenant": name, "row": row})
        for row in range(6)
        for name in ("red", "blue")
    ]


def fused(**fields):
    vector = InMemoryVectorStore.from_documents(documents(), EMBEDDINGS)
    return PhaseGraphRetriever(vector=vector, graph=EntityGraphRetriever.from_documents(documents()), k=12, **fields)


def walking(**fields):
    return EntityGraphRetriever.from_documents(documents(), k=12, **fields)


def explaining(**fields):
    """Create a runnable that searches the fused retriever with `explain` and returns all candidates."""
    retriever = fused(**fields)

    def called(query):
        result = retriever.explain(query)
        return [result.candidates.rankings[0].payloads[one] for one in result.candidates.ids]

    async def awaited(query):
        result = await retriever.aexplain(query)
        return [result.candidates.rankings[0].payloads[one] for one in result.candidates.ids]

    return RunnableLambda(called, awaited)


def bare(retriever):
    """Return a function that calls the retriever without a configuration."""
    return RunnableLambda(lambda query: retriever.invoke(query), lambda query: retriever.ainvoke(query))


def node(retriever):
    class State(TypedDict):
        query: str
        found: list

    async def awaited(state):
        return {"found": await retriever.ainvoke(state["query"])}

    graph = StateGraph(State)
    graph.add_node("find", RunnableLambda(lambda state: {"found": retriever.invoke(state["query"])}, awaited))
    graph.add_edge(START, "find")
    graph.add_edge("find", END)
    compiled = graph.compile()

    async def acalled(query, config):
        return (await compiled.ainvoke({"query": query}, config))["found"]

    return RunnableLambda(lambda query, config: compiled.invoke({"query": query}, config)["found"], acalled)


def with_another_configuration(retriever):
    """Return a function that calls the retriever with another configuration, which has no filter."""
    own = {"configurable": {"session": "x"}, "tags": ["inner"]}
    return RunnableLambda(lambda query: retriever.invoke(query, own), lambda query: retriever.ainvoke(query, own))


def compressing(retriever):
    """Create a LangChain retriever that passes only its callbacks to the phasegraph retriever."""
    return ContextualCompressionRetriever(
        base_retriever=retriever, base_compressor=DocumentCompressorPipeline(transformers=[])
    )


def tool_of(retriever):
    made = create_retriever_tool(retriever, "find", "Finds.", response_format="content_and_artifact")
    call = {"name": "find", "id": "1", "type": "tool_call"}
    return (lambda query: {**call, "args": {"query": query}}) | made | (lambda message: message.artifact)


def tool_node(retriever):
    @tool(response_format="content_and_artifact")
    def find(query: str):
        """Search the retriever."""
        found = retriever.invoke(query)
        return "", found

    from langchain_core.messages import AIMessage
    from langgraph.graph import MessagesState

    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([find]))
    graph.add_edge(START, "tools")
    compiled = graph.compile()

    def called(query):
        call = AIMessage("", tool_calls=[{"name": "find", "args": {"query": query}, "id": "1"}])
        return compiled.invoke({"messages": [call]})["messages"][-1].artifact

    return RunnableLambda(called)


@chain
def decorated(asked):
    return asked[0].invoke(asked[1])


PLACES = {
    "itself": lambda one: one,
    "RunnableLambda": bare,
    "RunnableLambda in RunnableLambda": lambda one: bare(bare(one)),
    "with another configuration": with_another_configuration,
    "LCEL": lambda one: RunnablePassthrough() | one | RunnableLambda(list),
    "RunnableParallel": lambda one: RunnableParallel(a=bare(one), b=RunnablePassthrough()) | (lambda found: found["a"]),
    "@chain": lambda one: (lambda query: (one, query)) | decorated,
    "LangGraph": node,
    "create_retriever_tool": tool_of,
    "ToolNode": tool_node,
    "fallbacks": lambda one: RunnableLambda(lambda query: 1 / 0).with_fallbacks([bare(one)]),
    "compression in a RunnableLambda": lambda one: bare(compressing(one)),
    "EnsembleRetriever": lambda one: EnsembleRetriever(retrievers=[one, one], c=1),
}
RETRIEVERS = {"fused": fused, "walk": walking, "explain": explaining}
OF_A_RETRIEVER = (
    "create_retriever_tool",
    "compression in a RunnableLambda",
    "EnsembleRetriever",
    "with another configuration",
)


def tenants(found):
    assert found
    return {one.metadata["tenant"] for one in found}


@pytest.mark.parametrize(
    ("kind", "place"),
    [(kind, place) for kind in RETRIEVERS for place in PLACES if kind != "explain" or place not in OF_A_RETRIEVER],
)
def test_it_holds_called_awaited_streamed_and_in_batches(kind, place):
    asked = PLACES[place](RETRIEVERS[kind]())

    async def awaited():
        streamed = [one async for one in asked.astream(QUERY, RED)]
        batch = await asked.abatch([QUERY, QUERY], [RED, BLUE])
        both = await asyncio.gather(asked.ainvoke(QUERY, RED), asked.ainvoke(QUERY, BLUE))
        return streamed, batch, both

    assert tenants(asked.invoke(QUERY, RED)) == {"red"}
    assert tenants(asked.with_config(RED).invoke(QUERY)) == {"red"}
    assert [tenants(one) for one in asked.batch([QUERY, QUERY], [BLUE, RED])] == [{"blue"}, {"red"}]
    assert [tenants(one) for one in asked.stream(QUERY, BLUE)] == [{"blue"}]
    streamed, batch, both = asyncio.run(awaited())
    assert [tenants(one) for one in (*streamed, *batch, *both)] == [{"red"}, {"red"}, {"blue"}, {"red"}, {"blue"}]
    assert tenants(asked.invoke(QUERY)) == {"red", "blue"}, "without a filter nothing is left out"


@pytest.mark.parametrize("kind", ["fused", "walk"])
def test_filters_around_a_call_in_it_and_of_the_retriever_hold_together(kind):
    def inner(own):
        return RunnableLambda(lambda query: RETRIEVERS[kind](**own).invoke(query, narrower, filter={"row": {"$gt": 1}}))

    narrower = {"configurable": {"phasegraph_filter": {"row": {"$lt": 4}}}}
    found = inner({"filter": {"row": {"$ne": 2}}}).invoke(QUERY, RED)
    assert {one.id for one in found} == {"red-3"}
    for disagreeing in ({"filter": {"tenant": "blue"}}, {}):
        with pytest.raises(InvalidInputError, match=r"filters must agree; got .* for 'tenant'"):
            RunnableLambda(lambda query, own=disagreeing: RETRIEVERS[kind](**own).invoke(query, BLUE)).invoke(
                QUERY, RED
            )


@pytest.mark.parametrize("kind", ["fused", "walk"])
@pytest.mark.parametrize("wrong", [{}, "tenant = 'red'", {"tenant": {"$like": "r"}}, 7])
def test_what_is_no_filter_fails_instead_of_being_passed_over(kind, wrong):
    with pytest.raises(InvalidTypeError, match="filter: "):
        bare(RETRIEVERS[kind]()).invoke(QUERY, {"configurable": {"phasegraph_filter": wrong}})


@pytest.mark.parametrize("kind", ["fused", "walk"])
@pytest.mark.parametrize(
    "own", [{}, {"configurable": {}}, {"configurable": {"phasegraph_filter": None}}, {"tags": ["x"]}]
)
def test_no_configuration_of_a_call_takes_the_filter_around_it_away(kind, own):
    retriever = RETRIEVERS[kind]()
    assert tenants(RunnableLambda(lambda query: retriever.invoke(query, own)).invoke(QUERY, RED)) == {"red"}
    outside = {"phasegraph_filter": {"tenant": "blue"}}  # LangChain moves unknown keys into configurable
    assert tenants(retriever.invoke(QUERY, outside)) == {"blue"}
    with pytest.raises(InvalidInputError, match="filters must agree"):
        RunnableLambda(lambda query: retriever.invoke(query, outside)).invoke(QUERY, RED)


async def test_it_holds_for_what_a_callback_of_the_retriever_asks():
    seen, other = [], fused()
    retriever = fused(on_result=lambda result: seen.append(tenants(other.invoke(QUERY))))
    retriever.invoke(QUERY, RED)
    await retriever.ainvoke(QUERY, RED)
    bare(retriever).invoke(QUERY, BLUE)
    assert seen == [{"red"}, {"red"}, {"blue"}]


def test_calibrating_within_a_run_looks_at_nothing_else():
    seen = []

    def listener(query, filter=None):  # noqa: A002
        seen.append(filter)
        return [(one, float(row)) for row, one in enumerate(documents())]

    retriever = PhaseGraphRetriever(retrievers={"a": listener})
    asked = [f"question {row}" for row in range(20)]
    RunnableLambda(lambda _: list(retriever.calibrate(asked, progress=False).name or "")).invoke(None, RED)
    assert seen == [{"tenant": "red"}] * 20


def test_lists_that_are_fused_within_a_run_are_filtered():
    lists = {"a": documents(), "b": documents()[::-1]}
    assert tenants(fuse_lists(k=12).invoke(lists, RED)) == {"red"}
    assert tenants(RunnableLambda(lambda given: fuse_lists(k=12).invoke(given)).invoke(lists, BLUE)) == {"blue"}
    result = RunnableLambda(lambda given: fuse_lists(k=12).explain(given)).invoke(lists, BLUE)
    assert {one.partition("-")[0] for one in result.candidates.ids} == {"blue"}


# If a source cannot apply the filter, the call fails.


def refusing():
    """Return retrievers, by name, with a source that cannot apply a filter."""
    whole = fused()
    walk = EntityGraphRetriever(graph=whole.graph.graph)
    other = [("vector", InMemoryVectorStore.from_documents(documents(), EMBEDDINGS))]
    return {
        "a function": PhaseGraphRetriever(vector=whole.vector, retrievers={"other": lambda query: documents()}),
        "a chain": PhaseGraphRetriever(
            vector=whole.vector, retrievers={"other": RunnableLambda(lambda q: documents())}
        ),
        "a graph without documents": PhaseGraphRetriever(**dict(other), graph=walk),
        "a walk without documents": walk,
    }


@pytest.mark.filterwarnings("ignore:documents= was not given")
@pytest.mark.parametrize("kind", sorted(refusing()))
@pytest.mark.parametrize("place", ["itself", "RunnableLambda", "LangGraph"])
async def test_where_a_source_cannot_keep_it_the_call_fails(kind, place):
    retriever = refusing()[kind]
    asked = PLACES[place](retriever)
    assert asked.invoke(QUERY)
    for _ in range(4):  # a breaker that opened would leave the source out
        with pytest.raises(InvalidInputError, match=r"does not support filter=|filter= needs the metadata"):
            asked.invoke(QUERY, RED)
        with pytest.raises(InvalidInputError, match=r"does not support filter=|filter= needs the metadata"):
            await asked.ainvoke(QUERY, RED)
    with pytest.raises(InvalidInputError, match=r"filter="):
        retriever.invoke(QUERY, filter={"tenant": "red"})
    assert asked.invoke(QUERY)


@pytest.mark.parametrize("kind", ["fused", "walk"])
async def test_where_a_filter_is_required_a_call_that_lost_it_on_the_way_fails(kind):
    retriever = RETRIEVERS[kind](required_filter_key="tenant")
    assert (
        tenants(retriever.invoke(QUERY, RED)) == tenants(retriever.invoke(QUERY, filter={"tenant": "red"})) == {"red"}
    )
    both = {"$and": [{"tenant": {"$in": ["red"]}}, {"row": {"$gt": 1}}]}
    assert tenants(await retriever.ainvoke(QUERY, filter=both)) == {"red"}
    assert tenants(RETRIEVERS[kind](required_filter_key="tenant", filter={"tenant": "blue"}).invoke(QUERY)) == {"blue"}
    assert tenants(bare(compressing(retriever)).invoke(QUERY, RED)) == {"red"}
    for asked, more in (
        (retriever, {}),
        (bare(retriever), {}),
        (retriever, {"filter": {"row": 1}}),
        (retriever, {"filter": {"tenant": {"$ne": "x"}}}),
        (retriever, {"filter": {"$or": [{"tenant": "red"}, {"row": 1}]}}),
        (compressing(retriever), {"config": RED}),  # LangChain's compression hands its callbacks on, and nothing else
    ):
        with pytest.raises(InvalidInputError, match="required_filter_key='tenant'"):
            asked.invoke(QUERY, **more)
        with pytest.raises(InvalidInputError, match="required_filter_key='tenant'"):
            await asked.ainvoke(QUERY, **more)
    with pytest.raises(InvalidInputError, match="required_filter_key must be"):
        RETRIEVERS[kind](required_filter_key="a) or (b")


def test_where_a_filter_is_required_explaining_needs_it_and_calibrating_does_not():
    retriever = fused(required_filter_key="tenant")
    with pytest.raises(InvalidInputError, match="required_filter_key='tenant'"):
        retriever.explain(QUERY)
    retriever.calibrate([f"Who met Ada{row}?" for row in range(20)], progress=False)
    assert len(retriever.explain(QUERY, filter={"tenant": "red"}).ids) == 6


# Passages from `resolve` are filtered, too.


def resolving(found, **fields):
    spec = SourceSpec(
        retriever=InMemoryVectorStore.from_documents(documents(), EMBEDDINGS), fields=HitFields(resolve=found)
    )
    return PhaseGraphRetriever(vector=spec, k=12, evidence_key="why", **fields)


def parents(ids):
    """Return the parents of passages by id; an even row has a parent of the other tenant."""
    other = {"red": "blue", "blue": "red"}
    made = {}
    for one in ids:
        name, _, row = one.partition("-")
        owner = other[name] if int(row) % 2 == 0 else name
        made[one] = Document(f"parent of {owner}", metadata={"tenant": owner, "row": int(row)})
    return made


async def aparents(ids):
    return parents(ids)


@pytest.mark.parametrize("resolve", [parents, lambda ids: [parents(ids)[one] for one in ids]])
async def test_what_resolve_brings_back_is_filtered(resolve):
    retriever = resolving(resolve)
    heard = []

    class Heard(BaseCallbackHandler):
        def on_retriever_end(self, found, **more):
            heard.extend(one.metadata["tenant"] for one in found)

    for found in (
        retriever.invoke(QUERY, {**RED, "callbacks": [Heard()]}),
        await retriever.ainvoke(QUERY, RED),
        retriever.invoke(QUERY, filter={"tenant": "red"}),
    ):
        assert sorted(one.id for one in found) == ["red-1", "red-3", "red-5"]
        assert {one.page_content for one in found} == {"parent of red"}
    assert set(heard) == {"red"}
    result = retriever.explain(QUERY, filter={"tenant": "red"})
    assert sorted(result.candidates.ids) == ["red-1", "red-3", "red-5"]
    assert "blue" not in repr(result.reports) + repr(result.warnings)
    (report,) = result.reports
    assert any("3 of 6" in note for note in report.notes), report.notes
    assert report.hits == 3


def test_a_resolve_that_says_nothing_of_what_its_texts_are_gives_none():
    retriever = resolving(lambda ids: {one: "a text" for one in ids})
    result = retriever.explain(QUERY, filter={"tenant": "red"})
    assert (result.ids, result.reports[0].status) == ((), "empty")
    assert len(resolving(lambda ids: {}).invoke(QUERY, RED)) == 6, "its own passages match"


async def test_what_an_awaited_resolve_brings_back_is_filtered():
    async def vectors(query, filter=None):  # noqa: A002
        return [one for one in documents() if filter is None or one.metadata["tenant"] == filter["tenant"]]

    spec = SourceSpec(retriever=vectors, fields=HitFields(resolve=aparents))
    retriever = PhaseGraphRetriever(vector=spec, k=12)
    assert sorted(one.id for one in await retriever.ainvoke(QUERY, RED)) == ["red-1", "red-3", "red-5"]


@pytest.mark.parametrize("order", [("red", "blue"), ("blue", "red")])
def test_of_passages_of_equal_id_only_the_own_one_is_shown(order):
    def store(name):
        held = [Document(f"Ada met {name}{row}.", id=str(row), metadata={"tenant": name}) for row in range(6)]
        return InMemoryVectorStore.from_documents(held, EMBEDDINGS)

    retriever = PhaseGraphRetriever(retrievers={name: store(name) for name in order}, k=12, evidence_key="why")
    found = retriever.invoke(QUERY, RED)
    assert len(found) == 6
    assert tenants(found) == {"red"}
    assert all(set(one.metadata["why"]["sources"]) == {"red"} for one in found)
    result = retriever.explain(QUERY, filter={"tenant": "red"})
    assert [(one.source, one.status) for one in result.reports] == [("blue", "empty"), ("red", "ok")]
    assert "blue1" not in repr(result) + repr([result.evidence(one) for one in result.ids])
    assert result.warnings == ()
