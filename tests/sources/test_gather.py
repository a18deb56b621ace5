"""Asking all at once: time, order, needs, limits, what passes through. Each test runs sync and async."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
import time

import pytest

from phasegraph.candidates import Ranking
from phasegraph.errors import AllSourcesFailed, DegradedError
from phasegraph.sources import (
    AsyncCallableSource,
    AsyncSource,
    BreakerSettings,
    CallableSource,
    Gatherer,
    Source,
    SourceSettings,
)

SLACK = 1.0  # seconds a loaded machine may take; the 50 ms are measured in the benchmark


def statuses(found):
    return {report.source: report.status for report in found.reports}


def source(name, fn=lambda query, limit: [("a", 1.0)]):
    return CallableSource(name, fn)


def slow(name, seconds):
    def fn(query, limit):
        time.sleep(seconds)
        return [(name, 1.0)]

    return CallableSource(name, fn)


def test_rankings_and_reports_come_in_name_order_whatever_finishes_first(ask):
    names = ["d", "b", "a", "c"]
    sources = {name: slow(name, 0.01 * place) for place, name in enumerate(names)}
    found = ask(Gatherer({name: SourceSettings() for name in names}), sources, "who?")
    assert [ranking.source for ranking in found.rankings] == ["a", "b", "c", "d"]
    assert [report.source for report in found.reports] == ["a", "b", "c", "d"]


def test_sources_run_at_the_same_time(ask):
    meeting = threading.Barrier(5, timeout=5)

    def fn(query, limit):
        meeting.wait()
        return [("a", 1.0)]

    names = "abcde"
    found = ask(Gatherer(dict.fromkeys(names, SourceSettings())), {n: source(n, fn) for n in names}, "who?")
    assert set(statuses(found).values()) == {"ok"}


def test_the_query_and_the_limit_reach_the_source(ask):
    seen = []
    ask(Gatherer({"s": SourceSettings(limit=7)}), {"s": source("s", lambda q, n: seen.append((q, n)) or [])}, " who? ")
    assert seen == [(" who? ", 7)]


def test_more_hits_than_asked_for_are_cut_and_the_report_says_so(ask):
    many = source("s", lambda query, limit: [(f"{i:02}", float(i)) for i in range(60)])
    found = ask(Gatherer({"s": SourceSettings(limit=3)}), {"s": many}, "who?")
    assert found.rankings[0].ids == ("59", "58", "57")
    assert "60 hits" in found.reports[0].notes[0]
    assert len(ask(Gatherer({"s": SourceSettings(limit=None)}), {"s": many}, "who?").rankings[0]) == 60


def test_a_hanging_source_costs_its_deadline_and_no_more(ask, held, healthy):
    gatherer = Gatherer({"held": SourceSettings(deadline=0.05), "healthy": SourceSettings()}, deadline=30.0)
    start = time.monotonic()
    found = ask(gatherer, {"held": held, "healthy": healthy}, "who?")
    assert time.monotonic() - start < 0.05 + SLACK
    assert statuses(found) == {"held": "timeout", "healthy": "ok"}
    assert isinstance(found.causes["held"], TimeoutError)
    assert found.reports[1].milliseconds >= 50


def test_the_deadline_of_the_call_holds_for_every_source(ask, held, native, healthy):
    gatherer = Gatherer(dict.fromkeys(["held", "healthy", "n"], SourceSettings()), deadline=0.05)
    start = time.monotonic()
    found = ask(gatherer, {"held": held, "healthy": healthy, "n": native("n", 30.0)}, "who?")
    assert time.monotonic() - start < 0.05 + SLACK
    assert statuses(found) == {"held": "timeout", "healthy": "ok", "n": "timeout"}


def test_a_late_answer_is_not_heard_by_a_later_call(ask, held, healthy):
    gatherer = Gatherer({"held": SourceSettings(deadline=0.03), "healthy": SourceSettings()})
    ask(gatherer, {"held": held, "healthy": healthy}, "first")
    held.released.set()
    for _ in range(20):
        found = ask(gatherer, {"healthy": healthy}, "second")
        assert [ranking.ids for ranking in found.rankings] == [("a", "b")]


def test_beyond_the_limit_in_flight_a_source_is_busy_and_no_more_workers_are_stuck(ask, held, healthy):
    settings = SourceSettings(deadline=0.03, max_in_flight=2, breaker=None)
    gatherer = Gatherer({"held": settings, "healthy": SourceSettings()})
    sources = {"held": held, "healthy": healthy}
    reports = [ask(gatherer, sources, "who?").reports[1] for _ in range(6)]
    assert [one.status for one in reports] == ["timeout"] * 2 + ["skipped"] * 4
    assert {one.reason for one in reports[2:]} == {"busy"}
    assert held.entered == 2
    assert gatherer.health["held"].in_flight == 2
    held.released.set()
    end = time.monotonic() + 5
    while gatherer.health["held"].in_flight:
        assert time.monotonic() < end
    assert ask(gatherer, sources, "who?").reports[1].status == "ok"


def test_a_need_is_handed_over_when_it_has_settled(ask):
    seen = {}

    class Walk:
        def search(self, query, limit, given):
            seen.update(given)
            return Ranking("walk", ["w"], [1.0])

    gatherer = Gatherer({"vector": SourceSettings(), "walk": SourceSettings(needs=("vector",))})
    found = ask(gatherer, {"vector": slow("vector", 0.03), "walk": Walk()}, "who?")
    assert seen["vector"] is found.rankings[0]
    assert found.reports[1].without == ()
    assert not found.degraded


@pytest.mark.parametrize("why", ["failed", "absent", "empty", "late"])
def test_a_need_that_cannot_be_had_is_none_whatever_the_reason(ask, held, why):
    seen = []

    class Walk:
        def search(self, query, limit, given):
            seen.append(dict(given))
            return Ranking("walk", ["w"], [1.0])

    vectors = {
        "failed": {"held": source("held", lambda query, limit: 1 / 0)},
        "absent": {},
        "empty": {"held": source("held", lambda query, limit: [])},
        "late": {"held": held},
    }[why]
    gatherer = Gatherer({"held": SourceSettings(), "walk": SourceSettings(needs=("held",))}, deadline=0.2)
    found = ask(gatherer, {**vectors, "walk": Walk()}, "who?")
    assert seen == [{"held": None}]
    assert found.reports[-1].without == ("held",)
    assert found.reports[-1].status == "ok"


def test_a_need_that_comes_after_half_of_the_deadline_is_still_fused(ask):
    class Walk:
        def search(self, query, limit, given):
            time.sleep(0.4)
            return Ranking("walk", ["w"], [1.0])

    gatherer = Gatherer({"vector": SourceSettings(), "walk": SourceSettings(needs=("vector",))}, deadline=1.0)
    found = ask(gatherer, {"vector": slow("vector", 0.6), "walk": Walk()}, "who?")
    assert statuses(found) == {"vector": "ok", "walk": "ok"}
    assert found.reports[1].without == ("vector",)
    assert found.degraded
    with pytest.raises(DegradedError, match="walk: ran without vector"):
        ask(
            Gatherer(gatherer.settings, deadline=1.0, strict=True), {"vector": slow("vector", 0.6), "walk": Walk()}, "w"
        )


def test_needs_may_form_a_chain_and_a_deadline_counts_from_the_start_of_the_search(ask):
    class Next:
        def __init__(self, name, need):
            self.name, self.need = name, need

        def search(self, query, limit, given):
            return Ranking(self.name, [*given[self.need].ids, self.name], [2.0, 1.0][: len(given[self.need]) + 1])

    gatherer = Gatherer(
        {
            "a": SourceSettings(needs=("b",), deadline=0.5),
            "b": SourceSettings(needs=("c",), deadline=0.5),
            "c": SourceSettings(),
        },
        deadline=20.0,
    )

    class B(Next):
        def search(self, query, limit, given):
            assert given["c"].ids == ("c",)
            return Ranking("b", ["b"], [1.0])

    found = ask(gatherer, {"c": slow("c", 0.6), "b": B("b", "c"), "a": Next("a", "b")}, "who?")
    assert [ranking.ids for ranking in found.rankings] == [("b", "a"), ("b",), ("c",)]


def test_a_dependent_that_hangs_is_given_up_at_its_own_deadline(ask, held):
    gatherer = Gatherer({"v": SourceSettings(), "held": SourceSettings(needs=("v",), deadline=0.05)}, deadline=30.0)
    start = time.monotonic()
    found = ask(gatherer, {"v": source("v"), "held": held}, "who?")
    assert time.monotonic() - start < SLACK
    assert statuses(found) == {"held": "timeout", "v": "ok"}


def test_what_the_caller_knows_by_context_the_source_knows(ask, native):
    variable = contextvars.ContextVar("variable", default="unset")
    seen = []

    class Dependent:
        async def asearch(self, query, limit, given):
            seen.append(variable.get())
            return Ranking("d", ["a"], [1.0])

    def fn(query, limit):
        seen.append(variable.get())
        variable.set("changed by a source")
        return [("a", 1.0)]

    token = variable.set("set by the caller")
    gatherer = Gatherer({"s": SourceSettings(), "d": SourceSettings(needs=("s",))})
    ask(gatherer, {"s": source("s", fn), "d": Dependent()}, "who?")
    assert seen == ["set by the caller"] * 2
    assert variable.get() == "set by the caller"
    variable.reset(token)


def test_asearch_is_awaited_on_the_callers_loop_and_search_runs_elsewhere():
    threads = {}

    class Both:
        def search(self, query, limit, given):
            threads["search"] = threading.current_thread()
            return Ranking("s", ["a"], [1.0])

        async def asearch(self, query, limit, given):
            threads["asearch"] = threading.current_thread()
            return Ranking("s", ["a"], [1.0])

    asyncio.run(Gatherer({"s": SourceSettings()}).agather({"s": Both()}, "who?"))
    assert threads == {"asearch": threading.current_thread()}
    threads.clear()
    asyncio.run(Gatherer({"s": SourceSettings(in_thread=True)}).agather({"s": Both()}, "who?"))
    assert list(threads) == ["search"]
    assert threads["search"] is not threading.current_thread()


def test_an_asearch_that_is_only_inherited_from_the_protocol_is_none():
    class OnlySync(Source, AsyncSource):
        def search(self, query, limit, given):
            return Ranking("s", ["a"], [1.0])

    found = asyncio.run(Gatherer({"s": SourceSettings()}).agather({"s": OnlySync()}, "who?"))
    assert statuses(found) == {"s": "ok"}


def test_a_coroutine_that_blocks_is_harmless_in_a_thread():
    class Blocks:
        async def asearch(self, query, limit, given):
            time.sleep(0.5)
            return Ranking("s", ["a"], [1.0])

    gatherer = Gatherer({"s": SourceSettings(in_thread=True), "t": SourceSettings()}, deadline=0.1)
    start = time.monotonic()
    found = asyncio.run(gatherer.agather({"s": Blocks(), "t": source("t")}, "who?"))
    assert time.monotonic() - start < 0.45
    assert statuses(found) == {"s": "timeout", "t": "ok"}


def test_a_coroutine_in_a_thread_answers_in_time(ask, native):
    found = ask(Gatherer({"n": SourceSettings(in_thread=True)}), {"n": native("n")}, "who?")
    assert found.rankings[0].ids == ("n1", "n2")


def test_cancelling_the_call_cancels_the_coroutines_and_waits_for_them(native, held):
    async def once():
        one, other = native("a", 30.0), native("b", 30.0)
        gatherer = Gatherer(dict.fromkeys(["a", "b", "held"], SourceSettings()))
        task = asyncio.create_task(gatherer.agather({"a": one, "b": other, "held": held}, "who?"))
        while not (one.started and other.started):
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (one.cancelled, other.cancelled) == (1, 1)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert gatherer.health["a"].in_flight == gatherer.health["b"].in_flight == 0

    asyncio.run(once())


def test_cancelling_before_the_first_step_leaves_nothing_in_flight(native):
    async def once():
        gatherer = Gatherer({"a": SourceSettings()})
        task = asyncio.create_task(gatherer.agather({"a": native("a", 30.0)}, "who?"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        assert gatherer.health["a"].in_flight == 0

    asyncio.run(once())


def test_a_timeout_around_the_call_works_as_for_any_coroutine(native):
    async def once():
        async with asyncio.timeout(0.02):
            await Gatherer({"a": SourceSettings()}).agather({"a": native("a", 30.0)}, "who?")

    with pytest.raises(TimeoutError):
        asyncio.run(once())


def test_a_coroutine_that_refuses_to_be_cancelled_does_not_hold_the_caller(healthy):
    class Stubborn:
        async def asearch(self, query, limit, given):
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                await asyncio.sleep(1.5)
            return Ranking("s", ["a"], [1.0])

    async def once():
        gatherer = Gatherer({"s": SourceSettings(), "healthy": SourceSettings()}, deadline=0.03)
        start = time.monotonic()
        found = await gatherer.agather({"s": Stubborn(), "healthy": healthy}, "who?")
        return time.monotonic() - start, statuses(found)

    took, found = asyncio.run(once())
    assert took < 1.0
    assert found == {"s": "timeout", "healthy": "ok"}


@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_not_a_sources_to_have_passes_through_at_once(ask, held, kind):
    def fn(query, limit):
        raise kind

    gatherer = Gatherer(dict.fromkeys(["held", "s"], SourceSettings()), deadline=30.0, on_all_failed="empty")
    start = time.monotonic()
    with pytest.raises(kind):
        ask(gatherer, {"held": held, "s": source("s", fn)}, "who?")
    assert time.monotonic() - start < SLACK


def test_an_interrupted_trial_does_not_keep_the_breaker_shut(healthy):
    behaviour = [ZeroDivisionError()]

    def fn(query, limit):
        if behaviour[0] is not None:
            raise behaviour[0]
        return [("a", 1.0)]

    settings = {"s": SourceSettings(breaker=BreakerSettings(failures=1, probe_interval=0.01))}
    gatherer = Gatherer(settings, on_all_failed="empty")
    asked = {"s": source("s", fn)}
    gatherer.gather(asked, "who?")
    time.sleep(0.02)
    behaviour[0] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        gatherer.gather(asked, "who?")
    behaviour[0] = None
    assert statuses(gatherer.gather(asked, "who?")) == {"s": "ok"}


def test_on_error_raise_raises_the_sources_own_error_at_once(ask, held):
    error = OSError("down")

    def fn(query, limit):
        raise error

    gatherer = Gatherer({"held": SourceSettings(), "s": SourceSettings(on_error="raise")}, deadline=30.0)
    start = time.monotonic()
    with pytest.raises(OSError, match="down") as caught:
        ask(gatherer, {"held": held, "s": source("s", fn)}, "who?")
    assert caught.value is error
    assert time.monotonic() - start < SLACK


def test_on_error_raise_raises_for_a_missed_deadline_too(ask, held):
    with pytest.raises(TimeoutError, match="held"):
        ask(Gatherer({"held": SourceSettings(on_error="raise", deadline=0.03)}), {"held": held}, "who?")


def test_all_failing_may_be_an_empty_answer_that_says_so(ask):
    broken = {"s": source("s", lambda query, limit: 1 / 0)}
    with pytest.raises(AllSourcesFailed) as caught:
        ask(Gatherer({"s": SourceSettings()}), broken, "who?")
    assert isinstance(caught.value.causes["s"], ZeroDivisionError)
    found = ask(Gatherer({"s": SourceSettings()}, on_all_failed="empty"), broken, "who?")
    assert (found.rankings, found.degraded) == ((), True)


def test_strict_names_the_source_and_the_reason(ask, healthy):
    gatherer = Gatherer({"healthy": SourceSettings(), "s": SourceSettings()}, strict=True)
    with pytest.raises(DegradedError, match="s: error, ZeroDivisionError"):
        ask(gatherer, {"healthy": healthy, "s": source("s", lambda query, limit: 1 / 0)}, "who?")
    ask(gatherer, {"healthy": healthy, "s": source("s", lambda query, limit: [])}, "who?")


def test_no_reason_holds_the_message_of_a_foreign_error(ask, healthy):
    def fn(query, limit):
        raise OSError("password=hunter2")

    found = ask(
        Gatherer(dict.fromkeys(["healthy", "s"], SourceSettings())), {"healthy": healthy, "s": source("s", fn)}, "w"
    )
    assert found.reports[1].reason == found.reports[1].error_class == "OSError"
    assert "hunter2" in str(found.causes["s"])


def test_a_callable_may_be_a_coroutine_function(ask):
    async def fn(query, limit):
        return [("a", 1.0)]

    assert ask(Gatherer({"s": SourceSettings()}), {"s": AsyncCallableSource("s", fn)}, "w").rankings[0].ids == ("a",)


def test_without_deadlines_a_call_takes_as_long_as_its_sources(ask):
    found = ask(Gatherer({"s": SourceSettings()}, deadline=None), {"s": slow("s", 0.1)}, "who?")
    assert statuses(found) == {"s": "ok"}


def test_a_hanging_source_does_not_keep_the_interpreter_from_ending():
    script = (
        "import time\n"
        "from phasegraph.sources import *\n"
        "g = Gatherer({'s': SourceSettings(), 't': SourceSettings()}, deadline=.05)\n"
        "hang = CallableSource('s', lambda q, n: time.sleep(60))\n"
        "assert g.gather({'s': hang, 't': CallableSource('t', lambda q, n: [('a', 1)])}, 'q').rankings\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)
