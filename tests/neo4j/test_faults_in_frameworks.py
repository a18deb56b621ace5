"""Each server fault met through the real source, as the frameworks ask it: the other source answers, in time."""

import asyncio
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fake_bolt import FAULTS, fake_bolt
from fault_runs import Metronome, connected

from phasegraph.neo4j import Neo4jGraphSource
from phasegraph.sources import CallableSource, Gatherer, SourceSettings

DEADLINE, LATE = 0.2, 0.05
# A retriever's own work, under its callbacks and spans, comes on top of the call's.
FRAMEWORK = 0.03


def by_the_core(source, taken):
    settings = SourceSettings(circuit_breaker=None)
    gatherer = Gatherer({"graph": settings, "vector": settings}, timeout=DEADLINE)
    sources = {"graph": source, "vector": CallableSource("vector", lambda query, limit: [("v", 1.0)])}

    def ids(found):
        taken.append(found.reports[0])
        return [each for ranking in found.rankings if ranking.source == "vector" for each in ranking.ids]

    async def awaited():
        return ids(await gatherer.agather(sources, "who?"))

    return lambda: ids(gatherer.gather(sources, "who?")), awaited


def by_langchain(source, taken):
    from langchain_core.documents import Document

    from langchain_phasegraph import PhaseGraphRetriever

    retriever = PhaseGraphRetriever(
        vector=lambda query: [Document("Ada met Bo.", id="v")],
        graph=source,
        timeout=DEADLINE,
        on_result=lambda result: taken.append(next(one for one in result.reports if one.source == "graph")),
    )

    async def awaited():
        return [document.id for document in await retriever.ainvoke("who?")]

    return lambda: [document.id for document in retriever.invoke("who?")], awaited


def by_llama_index(source, taken):
    from llama_index.core import schema

    from llama_index.retrievers.phasegraph import CalibratedFusionRetriever

    retriever = CalibratedFusionRetriever(
        vector=lambda query: [schema.NodeWithScore(node=schema.TextNode(text="Ada met Bo.", id_="v"), score=1.0)],
        graph=source,
        timeout=DEADLINE,
        on_result=lambda result: taken.append(next(one for one in result.reports if one.source == "graph")),
    )

    async def awaited():
        return [hit.node_id for hit in await retriever.aretrieve("who?")]

    return lambda: [hit.node_id for hit in retriever.retrieve("who?")], awaited


@pytest.mark.parametrize("asked", [by_the_core, by_langchain, by_llama_index])
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "deadlock_then_ok"])
def test_a_fault_is_reported_and_costs_nothing_else(fault, asked):
    taken, times = [], []
    with fake_bolt(fault) as server, connected(server, DEADLINE) as connection, Metronome() as metronome:
        wait, awaited = asked(Neo4jGraphSource(connection, "c"), taken)

        def timed(call):
            began = time.monotonic()
            assert call() == ["v"]
            ended = time.monotonic()
            times.append((began, ended))

        assert wait() == ["v"]  # the first call of a process imports what it needs
        timed(wait)
        timed(lambda: asyncio.run(awaited()))
        timed(wait)
    assert [report.status in ("error", "timeout") for report in taken[1:]] == [True] * 3
    late = [ended - began - DEADLINE - metronome.excused(began, ended) for began, ended in times]
    assert max(late) < LATE + FRAMEWORK, late
