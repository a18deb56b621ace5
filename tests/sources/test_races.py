"""Many threads and tasks, deadlines that fall when answers come: nothing is lost, doubled or left behind."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from phasegraph.errors import AllSourcesFailed
from phasegraph.ranking import Ranking
from phasegraph.sources import BreakerSettings, Gatherer, SourceSettings

pytestmark = pytest.mark.filterwarnings("ignore:source .* (times in a row|was busy)")
NAMES = ("a", "b", "c", "d")


class Uncertain:
    """Takes about as long as it may, needs what it is told to, and says which query it answered."""

    def __init__(self, name, seed):
        self.name, self.draw = name, random.Random(seed)

    def _what(self, query):
        if self.draw.random() < 0.1:
            raise OSError
        return Ranking(self.name, [f"{query}/{self.name}"], [1.0])

    def search(self, query, limit, upstream):
        time.sleep(self.draw.random() * 0.004)
        return self._what(query)


class UncertainTask(Uncertain):
    async def asearch(self, query, limit, upstream):
        await asyncio.sleep(self.draw.random() * 0.004)
        return self._what(query)


def _gatherer():
    circuit_breaker = BreakerSettings(failures=4, probe_interval=0.002)
    one = SourceSettings(timeout=0.003, circuit_breaker=circuit_breaker, max_in_flight=5)
    settings = {
        **dict.fromkeys(NAMES, one),
        "c": SourceSettings(depends_on=("a",)),
        "d": SourceSettings(depends_on=("b", "c")),
    }
    return Gatherer(settings, timeout=0.008)


def _check(found, query):
    assert [report.source for report in found.reports] == list(NAMES)
    answered = {ranking.source: ranking.ids for ranking in found.rankings}
    assert answered == {one.source: (f"{query}/{one.source}",) for one in found.reports if one.status == "ok"}
    assert set(found.causes) == {one.source for one in found.reports if one.degraded}
    assert all(report.milliseconds < 2000 for report in found.reports)


@contextlib.contextmanager
def _or_all_failed():
    try:
        yield
    except AllSourcesFailed as error:
        assert set(error.causes) == set(NAMES)  # noqa: PT017 - it need not be raised


def _settles(gatherer):
    end = time.monotonic() + 5
    while any(one.in_flight for one in gatherer.health.values()):
        assert time.monotonic() < end, gatherer.health
        time.sleep(0.005)
    assert "half_open" not in {one.circuit_breaker for one in gatherer.health.values()}, "a trial was never given back"


def test_threads_whose_deadlines_fall_when_answers_come():
    gatherer = _gatherer()
    sources = {name: Uncertain(name, seed) for seed, name in enumerate(NAMES)}

    def ask(thread):
        for number in range(60):
            query = f"{thread}.{number}"
            with _or_all_failed():
                _check(gatherer.gather(sources, query), query)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(ask, range(8)))
    _settles(gatherer)
    time.sleep(0.01)
    sources = {name: Uncertain(name, 1) for name in NAMES}

    def answers():
        with _or_all_failed():
            return gatherer.gather(sources, "q").reports[0].status == "ok"

    assert any(answers() for _ in range(200))


def test_tasks_that_are_cancelled_when_answers_come():
    gatherer = _gatherer()
    kinds = (UncertainTask, Uncertain, UncertainTask, Uncertain)
    sources = {name: kind(name, seed) for seed, (name, kind) in enumerate(zip(NAMES, kinds, strict=True))}
    draw = random.Random(5)

    async def ask(task):
        for number in range(15):
            query = f"{task}.{number}"
            with contextlib.suppress(TimeoutError):  # a call that is cancelled must leave nothing; _settles looks
                async with asyncio.timeout(draw.random() * 0.02):
                    with _or_all_failed():
                        _check(await gatherer.agather(sources, query), query)

    async def many():
        await asyncio.gather(*(ask(task) for task in range(30)))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(many())
    _settles(gatherer)
