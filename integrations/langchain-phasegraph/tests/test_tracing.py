"""The searches of sources are child runs of the call, named after the source."""

import json
import warnings

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.load import dumpd
from langchain_core.tracers import BaseTracer
from langchain_stores import Listed, ids_of, listed, pairs

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever


class Runs(BaseTracer):
    """A tracer that records the finished root runs."""

    def __init__(self):
        super().__init__()
        self.roots = []

    def _persist_run(self, run):
        self.roots.append(run)


def retriever(store):
    return PhaseGraphRetriever(
        vector=store.as_retriever(tags=["mine"], metadata={"owner": "me"}), graph=lambda q: pairs(p0=2.0, p1=1.0)
    )


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_each_source_is_a_child_run_under_its_name(store, asynchronous):
    runs = Runs()
    config = {"callbacks": [runs], "tags": ["outer"], "metadata": {"user": "u"}, "run_name": "search"}
    asked = retriever(store)
    found = await asked.ainvoke("p0", config) if asynchronous else asked.invoke("p0", config)
    (root,) = runs.roots
    assert (root.name, root.run_type) == ("search", "retriever")
    assert root.extra["metadata"]["ls_retriever_name"] == "phasegraph"
    assert ids_of(root.outputs["documents"]) == ids_of(found)
    children = {child.name: child for child in root.child_runs}
    assert sorted(children) == ["graph", "vector"]
    assert {child.run_type for child in children.values()} == {"retriever"}
    vector = children["vector"]
    assert {"vector", "outer", "mine"} <= set(vector.tags)
    assert vector.extra["metadata"]["ls_vector_store_provider"] == "InMemoryVectorStore"
    assert (vector.extra["metadata"]["owner"], vector.extra["metadata"]["user"]) == ("me", "u")
    assert len(vector.outputs["documents"]) == 9


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_failed_source_is_a_failed_child_run(asynchronous):
    runs = Runs()
    asked = PhaseGraphRetriever(vector=listed("a"), graph=Listed(answer=KeyError("x")))
    if asynchronous:
        await asked.ainvoke("q", {"callbacks": [runs]})
    else:
        asked.invoke("q", {"callbacks": [runs]})
    (root,) = runs.roots
    assert root.error is None
    assert {child.name: bool(child.error) for child in root.child_runs} == {"graph": True, "vector": False}


class Broken(BaseCallbackHandler):
    def on_retriever_start(self, *args, **kwargs):
        raise RuntimeError("tracer")

    def on_retriever_end(self, *args, **kwargs):
        raise RuntimeError("tracer")


class AsyncBroken(AsyncCallbackHandler):
    async def on_retriever_start(self, *args, **kwargs):
        raise RuntimeError("tracer")


@pytest.mark.parametrize("handler", [Broken(), AsyncBroken()])
async def test_a_tracer_that_raises_costs_nothing(store, handler):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = {"callbacks": [handler]}
        assert ids_of(retriever(store).invoke("p0", config)) == ids_of(await retriever(store).ainvoke("p0", config))
        assert not retriever(store).explain("p0").degraded


def test_explaining_is_silent_about_children_unless_a_run_is_under_way(store):
    assert retriever(store).explain("p0").ids


def test_what_a_tracer_is_told_of_a_retriever_holds_no_corpus(store):
    passages = [Document(f"secret passage {row}", id=f"p{row}", metadata={"title": f"T{row}"}) for row in range(300)]
    graph = EntityGraphRetriever.from_documents(passages)
    for one in (graph, PhaseGraphRetriever(vector=store, graph=graph), PhaseGraphRetriever(retrievers=[graph] * 20)):
        told = json.dumps(dumpd(one))
        assert len(told) < 500
        assert "secret passage" not in told
        assert "p17" not in told
