"""The sources of a call embed a question once, and no failure of one search affects another search."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from phasegraph._support.question_vector import aquestion_vector, question_vector
from phasegraph._support.shared import OVER, one_call

MODEL = object()


class Counted:
    """A model that counts its calls; the first `failures` calls raise an error."""

    def __init__(self, failures=0):
        self.calls, self.failures = 0, failures

    def __call__(self):
        self.calls += 1
        if self.calls <= self.failures:
            raise OSError("401")
        return [float(self.calls)]

    async def later(self):
        await asyncio.sleep(0.01)
        return self()


def test_a_call_embeds_each_question_once_for_each_model():
    first, other = Counted(), Counted()
    with one_call():
        assert [question_vector(MODEL, "a", first) for _ in range(3)] == [[1.0]] * 3
        assert question_vector(MODEL, "b", first) == [2.0]
        assert question_vector(object(), "a", other) == [1.0]
    with one_call():
        assert question_vector(MODEL, "a", first) == [3.0]
    assert [question_vector(MODEL, "a", first) for _ in range(2)] == [[4.0], [5.0]]  # outside of a call


def test_a_search_that_changes_its_vector_changes_no_other_vector():
    with one_call():
        question_vector(MODEL, "a", Counted()).append(9.0)
        assert question_vector(MODEL, "a", Counted()) == [1.0]


def test_searches_at_the_same_time_share_one_call():
    model, started = Counted(), threading.Barrier(8)

    def search():
        started.wait()
        return question_vector(MODEL, "a", model)

    with one_call(), ThreadPoolExecutor(8) as pool:
        found = [pool.submit(contextvars.copy_context().run, search) for _ in range(8)]
        assert [one.result() for one in found] == [[1.0]] * 8
    assert model.calls == 1


def test_searches_that_wait_for_a_failing_search_share_its_error(monkeypatch):
    failing, calls, waiting = threading.Event(), [], set()

    def waits():
        waiting.add(threading.get_ident())
        if len(waiting) == 3:
            failing.set()

    def embed():
        calls.append(1)
        failing.wait(30)
        raise OSError("401")

    monkeypatch.setattr("phasegraph._support.question_vector.go_on", waits)

    def search():
        with pytest.raises(OSError, match="401"):
            question_vector(MODEL, "a", embed)

    with one_call(), ThreadPoolExecutor(4) as pool:
        for one in [pool.submit(contextvars.copy_context().run, search) for _ in range(4)]:
            one.result()
    assert len(calls) == 1


def test_a_failure_is_not_kept():
    model = Counted(failures=1)
    with one_call():
        with pytest.raises(OSError, match="401"):
            question_vector(MODEL, "a", model)
        assert question_vector(MODEL, "a", model) == [2.0]


def test_a_waiting_search_ends_with_its_call():
    blocked, entered = threading.Event(), threading.Event()

    def embed():
        entered.set()
        blocked.wait(30)
        return [1.0]

    def given_up():
        OVER.set([True])
        return question_vector(MODEL, "a", Counted())

    with one_call(), ThreadPoolExecutor(2) as pool:
        first = pool.submit(contextvars.copy_context().run, question_vector, MODEL, "a", embed)
        entered.wait(30)
        with pytest.raises(TimeoutError):
            pool.submit(contextvars.copy_context().run, given_up).result(30)
        blocked.set()
        assert first.result(30) == [1.0]


async def test_searches_on_the_event_loop_share_one_call():
    model = Counted()
    with one_call():
        found = await asyncio.gather(*(aquestion_vector(MODEL, "a", model.later) for _ in range(5)))
        assert found == [[1.0]] * 5
        assert question_vector(MODEL, "a", model) == [1.0]
    assert model.calls == 1


async def test_a_search_that_fails_or_is_canceled_leaves_the_question_to_the_next():
    model = Counted(failures=1)
    with one_call():
        first, second, third = (asyncio.ensure_future(aquestion_vector(MODEL, "a", model.later)) for _ in range(3))
        await asyncio.sleep(0)
        first.cancel()
        found = await asyncio.gather(first, second, third, return_exceptions=True)
    assert [type(one) for one in found] == [asyncio.CancelledError, OSError, OSError]


def test_a_second_event_loop_does_not_wait_for_the_first():
    model = Counted()

    async def first():
        slow = asyncio.ensure_future(aquestion_vector(MODEL, "a", lambda: asyncio.sleep(0.2, [7.0])))
        await asyncio.sleep(0)
        inner = await asyncio.to_thread(asyncio.run, aquestion_vector(MODEL, "a", model.later))
        return inner, await slow

    with one_call():
        assert asyncio.run(first()) == ([1.0], [7.0])
