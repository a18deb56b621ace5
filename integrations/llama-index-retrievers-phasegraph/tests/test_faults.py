"""Faults of sources: the report names the source, and the answer is the answer without this source."""

import asyncio

import pytest
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters
from llamaindex_stores import ids_of

from llama_index.retrievers.phasegraph import (
    CalibratedFusionRetriever,
    EntityGraphRetriever,
)
from phasegraph import PhasegraphWarning, Ranking

GOOD = {f"p{i}": 1.0 - i / 10 for i in range(8)}


def test_passages_that_a_narrowed_graph_must_not_name_are_no_answer():
    """A custom source that ignores its filter causes an error, not an unfiltered answer."""

    class Careless:
        depends_on = ()

        def search(self, query, limit, upstream):
            return Ranking("graph", ["blue", "red"], [2.0, 1.0])

        def within(self, allowed):
            return self

        def passage_ids(self):
            return ("blue", "red")

    nodes = [TextNode(id_=name, text=name, metadata={"colour": name}) for name in ("blue", "red")]
    red = MetadataFilters(filters=[MetadataFilter(key="colour", value="red")])
    walk = EntityGraphRetriever(Careless(), nodes)
    retriever = CalibratedFusionRetriever(vector=lambda query, filters: [(nodes[1], 1.0)], graph=walk, filters=red)
    report, _ = retriever.explain("who?").reports
    assert (report.status, "do not match the filters" in report.reason) == ("error", True)
    assert ids_of(retriever.retrieve("who?")) == ["red"]


def fails(query):
    raise OSError("no route")


def test_a_warning_of_a_call_names_the_users_line():
    """Also through LlamaIndex's query engine and an event loop."""
    calls = [
        lambda retriever: retriever.retrieve("who?"),
        lambda retriever: asyncio.run(retriever.aretrieve("who?")),
        lambda retriever: RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).query("who?"),
    ]
    for call in calls:
        retriever = CalibratedFusionRetriever(vector=lambda query: [(TextNode(id_="a", text="a"), 1.0)], graph=fails)
        with pytest.warns(PhasegraphWarning, match="source 'graph' failed") as said:
            call(retriever)
        assert [(one.filename, one.lineno) for one in said] == [(__file__, call.__code__.co_firstlineno)]
