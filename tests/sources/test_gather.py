"""Asking all at once: time, order, limits, workers. Each test runs sync and async."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading

import pytest
from tests.suites.manual_time import auntil

from phasegraph.errors import PhasegraphWarning
from phasegraph.ranking import Ranking
from phasegraph.sources import CallableSource, Gatherer, SourceSettings


def test_rankings_and_reports_come_in_name_order_whatever_finishes_first(ask, source):
    names = ["d", "b", "a", "c"]
    ended = [threading.Event() for _ in names]

    def after(place):
        def fn(query, limit):
            for event in ended[:place]:
                event.wait()
            ended[place].set()
            return [("a", 1.0)]

        return fn

    sources = {name: source(name, after(place)) for place, name in enumerate(names)}
    found = ask(Gatherer({name: SourceSettings() for name in names}), sources, "who?")
    assert [ranking.source for ranking in found.rankings] == ["a", "b", "c", "d"]
    assert [report.source for report in found.reports] == ["a", "b", "c", "d"]


def test_sources_run_at_the_same_time(ask, statuses, source):
    meeting = threading.Barrier(5, timeout=60)

    def fn(query, limit):
        meeting.wait()
        return [("a", 1.0)]

    names = "abcde"
    found = ask(Gatherer(dict.fromkeys(names, SourceSettings())), {n: source(n, fn) for n in names}, "who?")
    assert set(statuses(found).values()) == {"ok"}


def test_the_query_and_the_limit_reach_the_source(ask, source):
    seen = []
    ask(Gatherer({"s": SourceSettings(limit=7)}), {"s": source("s", lambda q, n: seen.append((q, n)) or [])}, " who? ")
    assert seen == [(" who? ", 7)]


def test_more_hits_than_asked_for_are_cut_and_the_report_says_so(ask, source):
    many = source("s", lambda query, limit: [(f"{i:02}", float(i)) for i in range(60)])
    found = ask(Gatherer({"s": SourceSettings(limit=3)}), {"s": many}, "who?")
    assert found.rankings[0].ids == ("59", "58", "57")
    assert "60 hits" in found.reports[0].notes[0]
    assert len(ask(Gatherer({"s": SourceSettings(limit=None)}), {"s": many}, "who?").rankings[0]) == 60


def test_equal_notes_of_several_searches_are_reported_once():
    class Noting:
        notes = ("rank only", "2 of 3 hits dropped", "rank only")

        def search(self, query, limit, upstream):
            return Ranking("s", ["a"], [1.0])

    found = Gatherer({"s": SourceSettings()}).gather({"s": Noting()}, "who?")
    assert found.reports[0].notes == ("rank only", "2 of 3 hits dropped")


def test_a_hanging_source_costs_its_deadline_and_no_more(ask, hang, source, healthy, statuses, clock):
    gatherer = Gatherer({"held": SourceSettings(timeout=0.5), "healthy": SourceSettings()}, timeout=30.0, clock=clock)
    found = ask(gatherer, {"held": source("held", hang.function(0.5)), "healthy": healthy}, "who?")
    assert clock.now() == 0.5
    assert statuses(found) == {"held": "timeout", "healthy": "ok"}
    assert isinstance(found.causes["held"], TimeoutError)
    assert {report.source: report.milliseconds for report in found.reports} == {"healthy": 0.0, "held": 500.0}


def test_on_the_clock_of_the_machine_a_hanging_source_is_given_up_long_before_it_ends(ask, held, healthy, statuses):
    gatherer = Gatherer({"held": SourceSettings(timeout=0.05), "healthy": SourceSettings()}, timeout=None)
    found = ask(gatherer, {"held": held, "healthy": healthy}, "who?")
    assert statuses(found) == {"held": "timeout", "healthy": "ok"}
    assert found.reports[1].milliseconds >= 50


def test_the_deadline_of_the_call_holds_for_every_source(ask, hang, native, source, healthy, statuses, clock):
    gatherer = Gatherer(dict.fromkeys(["held", "healthy", "n"], SourceSettings()), timeout=0.5, clock=clock)
    sources = {"held": source("held", hang.function(0.5)), "healthy": healthy, "n": native("n", 30.0)}
    assert statuses(ask(gatherer, sources, "who?")) == {"held": "timeout", "healthy": "ok", "n": "timeout"}
    assert clock.now() == 0.5


def test_a_late_answer_is_not_heard_by_a_later_call(ask, held, healthy):
    gatherer = Gatherer({"held": SourceSettings(timeout=0.03), "healthy": SourceSettings()})
    ask(gatherer, {"held": held, "healthy": healthy}, "first")
    held.released.set()
    for _ in range(20):
        found = ask(gatherer, {"healthy": healthy}, "second")
        assert [ranking.ids for ranking in found.rankings] == [("a", "b")]


def test_beyond_the_limit_in_flight_a_source_is_busy_and_no_more_workers_are_stuck(ask, held, takes, until, clock):
    settings = SourceSettings(timeout=0.5, max_in_flight=2, circuit_breaker=None)
    gatherer = Gatherer({"held": settings, "other": SourceSettings()}, timeout=None, clock=clock)
    sources = {"held": held, "other": takes("other", 0.5)}
    reports = [ask(gatherer, sources, "who?").reports[0] for _ in range(6)]
    assert [one.status for one in reports] == ["timeout"] * 2 + ["skipped"] * 4
    assert {one.reason for one in reports[2:]} == {"earlier searches were still running"}
    until(lambda: held.entered == 2)
    assert gatherer.health["held"].in_flight == 2
    held.released.set()
    until(lambda: not gatherer.health["held"].in_flight)
    assert ask(gatherer, {"held": held}, "who?").reports[0].status == "ok"
    assert held.entered == 3


async def _at_once(gatherer, sources, count):
    return await asyncio.gather(*(gatherer.agather(sources, str(one)) for one in range(count)))


def test_beyond_the_limit_in_flight_searches_wait_their_turn_within_the_timeout(clock):
    running, most, asked = [], [], []
    pair = threading.Barrier(2, timeout=60)

    def counted(query, limit):
        running.append(query)
        most.append(len(running))
        asked.append(query)
        pair.wait()
        running.pop()
        return [(query, 1.0)]

    class Awaited:
        def __init__(self):
            self.pair = asyncio.Barrier(2)

        async def asearch(self, query, limit, upstream):
            running.append(query)
            most.append(len(running))
            await self.pair.wait()
            running.pop()
            return Ranking("s", [query], [1.0])

    for one in (CallableSource("s", counted), Awaited()):
        most.clear()
        gatherer = Gatherer({"s": SourceSettings(max_in_flight=2)}, clock=clock)
        found = asyncio.run(_at_once(gatherer, {"s": one}, 12))
        assert [each.rankings[0].ids for each in found] == [(str(number),) for number in range(12)]
        assert max(most) == 2
    for number in range(0, 12, 2):  # first come, first served
        assert set(asked[number : number + 2]) == {str(number), str(number + 1)}


@pytest.mark.filterwarnings("ignore:source .s. answers again")
def test_a_search_that_waits_too_long_is_skipped_and_those_behind_it_are_asked(healthy, clock, until):
    """The first search answers in half of the time, the second hangs beyond the time, the others never begin."""
    begun, first_told, over = [], threading.Event(), threading.Event()

    def fn(query, limit):
        begun.append(query)
        if len(begun) == 1:
            until(lambda: len(gatherer._states["s"]._waiting) == 7)
            clock.advance(0.25)
        elif len(begun) == 2:
            first_told.wait()
            clock.advance(0.25)
            over.wait()
        return [("a", 1.0)]

    settings = {"s": SourceSettings(timeout=0.5, max_in_flight=1), "healthy": SourceSettings()}
    gatherer = Gatherer(settings, timeout=None, clock=clock)
    sources = {"s": CallableSource("s", fn), "healthy": healthy}

    async def eight():
        asked = [asyncio.create_task(gatherer.agather(sources, str(number))) for number in range(8)]
        first = await asked[0]
        await auntil(lambda: len(begun) == 2)
        first_told.set()
        return [first, *(await asyncio.gather(*asked[1:]))]

    with pytest.warns(PhasegraphWarning, match="source 's' was busy"):
        reports = [one.reports[1] for one in asyncio.run(eight())]
    assert [(one.status, one.reason) for one in reports] == [
        ("ok", ""), ("timeout", "no answer in time"), *[("skipped", "earlier searches were still running")] * 6,
    ]  # fmt: skip
    assert begun == ["0", "1"]
    over.set()
    until(lambda: not gatherer.health["s"].in_flight)
    assert not gatherer._states["s"]._waiting
    assert gatherer.gather(sources, "who?").reports[1].status == "ok"


def test_what_the_caller_knows_by_context_the_source_knows(ask, native, source):
    variable = contextvars.ContextVar("variable", default="unset")
    seen = []

    class Dependent:
        async def asearch(self, query, limit, upstream):
            seen.append(variable.get())
            return Ranking("d", ["a"], [1.0])

    def fn(query, limit):
        seen.append(variable.get())
        variable.set("changed by a source")
        return [("a", 1.0)]

    token = variable.set("set by the caller")
    gatherer = Gatherer({"s": SourceSettings(), "d": SourceSettings(depends_on=("s",))})
    ask(gatherer, {"s": source("s", fn), "d": Dependent()}, "who?")
    assert seen == ["set by the caller"] * 2
    assert variable.get() == "set by the caller"
    variable.reset(token)


def test_without_deadlines_a_call_takes_as_long_as_its_sources(ask, statuses, takes, clock):
    found = ask(Gatherer({"s": SourceSettings()}, timeout=None, clock=clock), {"s": takes("s", 1e6)}, "who?")
    assert statuses(found) == {"s": "ok"}
    assert found.reports[0].milliseconds == 1e9


def test_a_hanging_source_does_not_keep_the_interpreter_from_ending():
    script = (
        "import time\n"
        "from phasegraph.sources import *\n"
        "g = Gatherer({'s': SourceSettings(timeout=.05), 't': SourceSettings()}, timeout=30)\n"
        "hang = CallableSource('s', lambda q, n: time.sleep(60))\n"
        "assert g.gather({'s': hang, 't': CallableSource('t', lambda q, n: [('a', 1)])}, 'q').rankings\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)


def test_a_call_leaves_no_circle_for_the_collector(source, native):
    gatherer = Gatherer(dict.fromkeys(["fails", "n", "s"], SourceSettings(circuit_breaker=None)))
    sources = {"s": source("s"), "n": native("n"), "fails": source("fails", lambda query, limit: 1 / 0)}

    async def garbage():
        gc.collect()
        for _ in range(20):
            gatherer.gather(sources, "who?")
            await gatherer.agather(sources, "who?")
        return gc.collect()

    gc.disable()
    try:
        assert asyncio.run(garbage()) < 20
    finally:
        gc.enable()
