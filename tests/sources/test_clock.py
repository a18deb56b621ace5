"""Time as a value: both clocks keep one contract, and a call reads no other time."""

from __future__ import annotations

import asyncio
import copy
import pickle
import re
import threading
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest
from tests.suites.manual_time import auntil

import phasegraph
from phasegraph._support.clock import CLOCK, DEADLINE, FOREVER, NO_DEADLINE, Deadline
from phasegraph.errors import InvalidInputError
from phasegraph.sources import Gatherer, SourceSettings
from phasegraph.testing import ManualClock


class Machine:
    """The clock of the machine, which moves by itself."""

    clock, soon = CLOCK, 0.02

    def passes(self):
        pass


class Manual:
    """A clock that a test moves."""

    soon = 0.5

    def __init__(self):
        self.clock = ManualClock()

    def passes(self):
        self.clock.advance(self.soon)


@pytest.fixture(params=[Machine, Manual])
def time(request):
    return request.param()


def test_an_item_that_is_there_is_taken_whatever_the_time(time):
    items, clock = SimpleQueue(), time.clock
    for until in (clock.now() - 1.0, clock.now(), FOREVER):
        items.put(until)
        assert clock.get(items, until) == until


def test_a_queue_is_waited_for_until_the_time(time):
    due = time.clock.now() + time.soon
    time.passes()
    with pytest.raises(Empty):
        time.clock.get(SimpleQueue(), due)
    assert time.clock.now() >= due


def test_a_thread_that_waits_is_woken_by_an_item_and_by_the_time(until):
    clock, items, told = ManualClock(), SimpleQueue(), []

    def wait():
        for _ in range(2):
            try:
                told.append(clock.get(items, 0.5))
            except Empty:
                told.append("late")

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: clock.waiting == 1)
    items.put("item")
    until(lambda: told == ["item"] and clock.waiting == 1)
    clock.advance(0.25)
    assert told == ["item"]
    clock.advance(0.25)
    thread.join()
    assert (told, clock.waiting) == (["item", "late"], 0)


async def test_an_awaited_value_comes_or_is_cancelled_at_the_time(time):
    clock, ended = time.clock, []

    async def value():
        await asyncio.sleep(0)
        return 3

    async def never():
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(True)

    assert await clock.wait_for(value(), clock.now() + 60.0) == 3
    assert await clock.wait_for(value(), FOREVER) == 3
    late = asyncio.create_task(clock.wait_for(never(), clock.now() + time.soon))
    await asyncio.sleep(0)
    time.passes()
    with pytest.raises(TimeoutError):
        await late
    assert ended == [True]


async def test_futures_are_waited_for_until_the_time_and_none_is_cancelled(time):
    loop, clock = asyncio.get_running_loop(), time.clock
    done, open_one = loop.create_future(), loop.create_future()
    done.set_result(None)
    await clock.wait({done}, FOREVER)
    waits = asyncio.create_task(clock.wait({done, open_one}, clock.now() + time.soon))
    await asyncio.sleep(0)
    time.passes()
    await waits
    assert not open_one.done()
    cancelled = asyncio.create_task(clock.wait({open_one}, FOREVER))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert not open_one.done()


async def test_a_function_is_called_at_its_time_and_not_once_cancelled(time):
    loop, called = asyncio.get_running_loop(), []
    due = time.clock.now() + time.soon
    time.clock.call_at(loop, due, called.append, "called")
    time.clock.call_at(loop, due, called.append, "cancelled").cancel()
    assert called == []
    time.passes()
    await auntil(lambda: called)
    time.clock.call_at(loop, due, called.append, "past")
    await auntil(lambda: len(called) == 2)
    assert called == ["called", "past"]


def test_a_loop_that_was_closed_is_called_no_more():
    clock, loop = ManualClock(), asyncio.new_event_loop()
    clock.call_at(loop, 0.5, print)
    loop.close()
    clock.advance(0.5)
    assert clock.waiting == 0


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_time_does_not_stand_still_or_run_backwards(seconds):
    with pytest.raises(InvalidInputError, match="seconds"):
        ManualClock().advance(seconds)


def test_a_step_may_take_a_part_of_the_time_that_is_left():
    clock = ManualClock()
    deadline = Deadline.after(clock, 8.0)
    clock.advance(4.0)
    assert (deadline.left(), deadline.part(0.5).due, deadline.part(0.5, most=2.0).due) == (4.0, 6.0, 5.0)
    assert Deadline.after(clock, None).part(0.5, most=2.0).due == 5.0
    clock.advance(8.0)
    assert deadline.left() == 0.001, "what is quick is still taken"
    assert (NO_DEADLINE.left(), NO_DEADLINE.part(0.5).due) == (None, FOREVER)


def test_a_source_knows_its_deadline(ask, source, clock):
    seen = []

    def fn(query, limit):
        seen.append((DEADLINE.get().clock, DEADLINE.get().due))
        return []

    settings = {"s": SourceSettings(timeout=0.5), "t": SourceSettings()}
    ask(Gatherer(settings, timeout=8.0, clock=clock), {"s": source("s", fn), "t": source("t", fn)}, "who?")
    assert sorted(seen, key=lambda one: one[1]) == [(clock, 0.5), (clock, 8.0)]


def test_a_copy_of_a_gatherer_keeps_its_clock(clock):
    assert pickle.loads(pickle.dumps(Gatherer({"s": SourceSettings()}))).clock is CLOCK  # noqa: S301 - our own bytes
    assert copy.deepcopy(Gatherer({"s": SourceSettings()}, clock=clock)).clock is clock


def test_a_call_reads_and_waits_on_its_own_clock_alone():
    """Only what outlives calls may look at the time of the machine: idle workers, and an event loop that is blocked."""
    timed = re.compile(r"monotonic\(|perf_counter\(|\bsleep\(|asyncio\.(?:wait_for|timeout)|call_later\(|get\(timeout=")
    home = Path(phasegraph.__file__).parent
    files = [file for room in ("sources", "retrieval") for file in (home / room).rglob("*.py")]
    found = [str(file.relative_to(home)) for file in files if timed.search(file.read_text(encoding="utf-8"))]
    assert found == [str(Path("sources", "workers.py"))]
