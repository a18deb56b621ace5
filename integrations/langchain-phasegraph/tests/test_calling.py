"""A source is searched in the same way with and without callback handlers."""

import asyncio

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from pydantic import Field

from langchain_phasegraph import PhaseGraphRetriever


class Remembering(BaseRetriever):
    """A retriever that records the run managers of its calls."""

    runs: list = Field(default_factory=list)

    def _get_relevant_documents(self, query, *, run_manager):
        self.runs.append(run_manager)
        return [Document("text", id="p")]

    async def _aget_relevant_documents(self, query, *, run_manager):
        self.runs.append(run_manager)
        return [Document("text", id="p")]


class Counting(Remembering):
    """A retriever that overrides ``invoke``."""

    calls: list = Field(default_factory=list)

    def invoke(self, input, config=None, **kwargs):  # noqa: A002
        self.calls.append(config["run_name"])
        return super().invoke(input, config, **kwargs)


class Ears(BaseCallbackHandler):
    """A callback handler that records the names of the runs that start."""

    def __init__(self):
        self.names = []

    def on_retriever_start(self, serialized, query, *, name=None, **kwargs):
        self.names.append(name)

    def on_chain_start(self, serialized, inputs, *, name=None, **kwargs):
        self.names.append(name)


def ask(retriever, asynchronous, **config):
    given = {"tags": ["outer"], "metadata": {"user": "u"}, **config}
    return asyncio.run(retriever.ainvoke("q", given)) if asynchronous else retriever.invoke("q", given)


def shape(run):
    metadata = {key: value for key, value in run.metadata.items() if not key.startswith("ls_")}
    inherited = {key: value for key, value in run.inheritable_metadata.items() if not key.startswith("ls_")}
    return type(run), set(run.tags), set(run.inheritable_tags), metadata, inherited, run.parent_run_id is None


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_run_nobody_listens_to_has_the_tags_metadata_and_parent_of_one_that_is_heard(asynchronous):
    source = Remembering(tags=["mine"], metadata={"owner": "me"})
    retriever = PhaseGraphRetriever(retrievers={"one": source})
    ask(retriever, asynchronous)
    ask(retriever, asynchronous, callbacks=[Ears()])
    quiet, heard = source.runs
    assert shape(quiet) == shape(heard)
    assert {"one", "outer", "mine"} <= set(quiet.tags)
    assert quiet.run_id != heard.run_id


@pytest.mark.parametrize("heard", [False, True])
def test_an_invoke_of_its_own_is_what_is_asked(heard):
    source = Counting()
    ask(PhaseGraphRetriever(retrievers={"one": source}), asynchronous=False, callbacks=[Ears()] if heard else [])
    assert source.calls == ["one"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_listener_inside_a_source_hears_what_the_caller_does_not(asynchronous):
    ears = Ears()

    def inside(query):
        return [Document("text", id="p")]

    source = RunnableLambda(inside, name="inside").with_config(callbacks=[ears])
    found = ask(PhaseGraphRetriever(retrievers={"one": source}), asynchronous)
    assert [document.id for document in found] == ["p"]
    assert len(ears.names) == 1


def test_what_a_source_asks_within_its_run_is_asked_under_it():
    inner = Remembering()

    class Outer(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return inner.invoke(query, {"callbacks": run_manager.get_child()})

    ask(PhaseGraphRetriever(retrievers={"one": Outer()}), asynchronous=False)
    assert inner.runs[0].parent_run_id is not None
    assert "outer" in inner.runs[0].tags
