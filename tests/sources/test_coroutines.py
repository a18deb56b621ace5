"""Coroutines: whose loop they run on, how they are cancelled, what they may not do to the caller."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.suites.manual_time import auntil

from phasegraph.errors import PhasegraphError
from phasegraph.ranking import Ranking
from phasegraph.sources import AsyncCallableSource, AsyncSource, BreakerSettings, Gatherer, Source, SourceSettings


def test_asearch_is_awaited_on_the_callers_loop_and_search_runs_elsewhere():
    threads = {}

    class Both:
        def search(self, query, limit, upstream):
            threads["search"] = threading.current_thread()
            return Ranking("s", ["a"], [1.0])

        async def asearch(self, query, limit, upstream):
            threads["asearch"] = threading.current_thread()
            return Ranking("s", ["a"], [1.0])

    asyncio.run(Gatherer({"s": SourceSettings()}).agather({"s": Both()}, "who?"))
    assert threads == {"asearch": threading.current_thread()}
    threads.clear()
    asyncio.run(Gatherer({"s": SourceSettings(in_thread=True)}).agather({"s": Both()}, "who?"))
    assert list(threads) == ["search"]
    assert threads["search"] is not threading.current_thread()


def test_an_asearch_that_is_only_inherited_from_the_protocol_is_none(statuses):
    class OnlySync(Source, AsyncSource):
        def search(self, query, limit, upstream):
            return Ranking("s", ["a"], [1.0])

    found = asyncio.run(Gatherer({"s": SourceSettings()}).agather({"s": OnlySync()}, "who?"))
    assert statuses(found) == {"s": "ok"}


def test_a_coroutine_that_blocks_is_harmless_in_a_thread(statuses, source, hang, clock):
    class Blocks:
        async def asearch(self, query, limit, upstream):
            hang.function(0.5)()
            return Ranking("s", ["a"], [1.0])

    gatherer = Gatherer({"s": SourceSettings(in_thread=True), "t": SourceSettings()}, timeout=0.5, clock=clock)
    found = asyncio.run(gatherer.agather({"s": Blocks(), "t": source("t")}, "who?"))
    assert clock.now() == 0.5
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


def test_a_coroutine_that_refuses_to_be_cancelled_does_not_hold_the_caller(healthy, statuses, hang, clock):
    async def once():
        over, waits = asyncio.Event(), []

        class Stubborn:
            async def asearch(self, query, limit, upstream):
                try:
                    await hang.coroutine(0.5)()
                except asyncio.CancelledError:
                    waits.append(clock.waiting)
                    clock.advance(0.125)
                    await over.wait()
                return Ranking("s", ["a"], [1.0])

        gatherer = Gatherer({"s": SourceSettings(), "healthy": SourceSettings()}, timeout=0.5, clock=clock)
        found = await gatherer.agather({"s": Stubborn(), "healthy": healthy}, "who?")
        assert waits == [1], "the caller gives it a moment to end"
        assert gatherer.health["s"].in_flight == 1, "it goes on"
        over.set()
        await auntil(lambda: not gatherer.health["s"].in_flight)
        return statuses(found)

    assert asyncio.run(once()) == {"s": "timeout", "healthy": "ok"}
    assert clock.now() == 0.625


def test_a_search_that_is_a_coroutine_function_is_told_its_right_name(ask, healthy):
    class Misnamed:
        async def search(self, query, limit, upstream):
            return Ranking("s", ["a"], [1.0])

    gatherer = Gatherer(dict.fromkeys(["healthy", "s"], SourceSettings()))
    report = ask(gatherer, {"healthy": healthy, "s": Misnamed()}, "who?").reports[1]
    assert report.reason == "search returned a coroutine: name the coroutine function asearch"


def test_a_callable_may_be_a_coroutine_function(ask):
    async def fn(query, limit):
        return [("a", 1.0)]

    assert ask(Gatherer({"s": SourceSettings()}), {"s": AsyncCallableSource("s", fn)}, "w").rankings[0].ids == ("a",)


@pytest.mark.filterwarnings("ignore:source 's' failed 1 times in a row")
def test_a_coroutine_given_up_before_its_first_step_is_not_in_flight(native, source):
    async def once():
        settings = {
            "n": SourceSettings(),
            "s": SourceSettings(on_error="raise", circuit_breaker=BreakerSettings(failures=1)),
        }
        gatherer = Gatherer(settings)
        sources = {"n": native("n", 30.0), "s": source("s", lambda query, limit: 1 / 0)}
        with pytest.raises(ZeroDivisionError):
            await gatherer.agather({"s": sources["s"]}, "who?")
        with pytest.raises(PhasegraphError, match="circuit breaker open"):
            await gatherer.agather(sources, "who?")
        assert sources["n"].started == 0
        assert gatherer.health["n"].in_flight == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(once())


def test_a_loop_that_was_blocked_by_others_still_takes_what_lies_ready(statuses, clock):
    """The deadline passed while the loop was blocked, and the answer needs a few more rounds of the loop."""

    async def once():
        ready, begun = asyncio.Event(), []

        class Ready:
            async def asearch(self, query, limit, upstream):
                begun.append(query)
                await ready.wait()
                for _ in range(3):
                    await asyncio.sleep(0)
                return Ranking("n", ["a"], [1.0])

        gatherer = Gatherer({"n": SourceSettings()}, timeout=0.5, clock=clock)
        asked = asyncio.create_task(gatherer.agather({"n": Ready()}, "who?"))
        await auntil(lambda: begun)
        clock.advance(0.75)
        ready.set()
        return statuses(await asked)

    assert asyncio.run(once()) == {"n": "ok"}


def test_a_loop_that_was_blocked_once_does_not_put_off_what_is_due_later(statuses, source, native, hang, clock):
    async def once():
        settings = {"early": SourceSettings(timeout=0.25), "late": SourceSettings(), "there": SourceSettings()}
        gatherer = Gatherer(settings, timeout=1.0, clock=clock)
        early, late = native("early", 30.0), native("late", 30.0)
        asked = asyncio.create_task(gatherer.agather({"early": early, "late": late, "there": source("there")}, "who?"))
        await auntil(lambda: early.started and late.started and not hang.jobs)
        clock.advance(0.75)
        for _ in range(9):
            await asyncio.sleep(0)
        assert not early.cancelled, "it gets a moment, since the loop was late itself"
        clock.advance(0.005)
        await auntil(lambda: early.cancelled)
        clock.advance(1.0 - clock.now())
        return statuses(await asked)

    assert asyncio.run(once()) == {"early": "timeout", "late": "timeout", "there": "ok"}
    assert clock.now() == 1.0
