"""Workers: always enough, reused, bounded when idle."""

from __future__ import annotations

import asyncio
import threading

import pytest

from phasegraph.sources import Gatherer, SourceSettings
from phasegraph.sources.workers import WorkerPool, await_on


def test_no_job_waits_behind_another(until):
    pool, together, done = WorkerPool(), threading.Barrier(20, timeout=60), []
    for number in range(20):
        pool.submit(lambda _: together.wait(), lambda number, _: done.append(number), number)
    until(lambda: len(done) == 20)
    assert sorted(done) == list(range(20))
    assert pool.threads == 20


def test_a_thread_that_is_free_is_used_again(until):
    pool, done = WorkerPool(), []
    for number in range(50):
        pool.submit(lambda number: number + 1, lambda number, result: done.append((number, result)), number)
        until(lambda number=number: len(done) == number + 1)
    assert done == [(number, number + 1) for number in range(50)]
    assert pool.threads == 1


def test_a_job_is_outstanding_until_its_answer_was_taken(until):
    pool, seen = WorkerPool(), []
    pool.submit(lambda _: None, lambda _argument, _result: seen.append(pool.outstanding), None)
    until(lambda: seen and not pool.outstanding)
    assert seen == [1]


def test_idle_threads_go_away(monkeypatch, until):
    monkeypatch.setattr("phasegraph.sources.workers._IDLE_SECONDS", 0.01)
    pool, done = WorkerPool(), []
    pool.submit(lambda _: None, lambda _argument, _result: done.append(1), None)
    until(lambda: pool.threads == 0)
    pool.submit(lambda _: None, lambda _argument, _result: done.append(1), None)
    until(lambda: len(done) == 2)


def test_after_a_burst_only_so_many_idle_threads_stay(monkeypatch, until):
    monkeypatch.setattr("phasegraph.sources.workers._MOST_IDLE", 4)
    pool, together = WorkerPool(), threading.Barrier(30, timeout=60)
    for _ in range(30):
        pool.submit(lambda _: together.wait(), lambda _argument, _result: None, None)
    until(lambda: pool.outstanding == 0 and pool.threads <= 5)
    assert pool.threads >= 4


def test_where_the_system_gives_no_thread_the_source_is_reported_and_the_others_answer(monkeypatch, source, statuses):
    monkeypatch.setattr("phasegraph.sources.workers._process.pool", WorkerPool())

    def none_left(self):
        raise RuntimeError("can't start new thread")

    gatherer = Gatherer(dict.fromkeys("ab", SourceSettings()))
    sources = {name: source(name) for name in "ab"}
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        with pytest.raises(RuntimeError, match=r"all sources failed\. a: RuntimeError; b: RuntimeError"):
            gatherer.gather(sources, "who?")
    assert statuses(gatherer.gather(sources, "who?")) == {"a": "ok", "b": "ok"}
    assert gatherer.health["a"].in_flight == 0


def test_a_coroutine_for_a_closed_loop_is_closed():
    async def answer():
        return 1

    loop, coroutine = asyncio.new_event_loop(), answer()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        await_on(loop, coroutine)
    assert coroutine.cr_frame is None  # closed, so Python does not warn that it was never awaited
