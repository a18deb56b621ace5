"""Many threads and tasks, deadlines that fall when answers come: nothing is lost, doubled or left behind."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.suites.manual_time import until

from phasegraph.errors import AllSourcesFailed
from phasegraph.ranking import Ranking
from phasegraph.sources import BreakerSettings, Gatherer, SourceSettings

pytestmark = pytest.mark.filterwarnings("ignore:source .* (times in a row|was busy)")
NAMES = ("a", "b", "c", "d")


class Uncertain:
    """Takes about as long as it may, needs what it is told to, and says which query it answered."""

    def __init__(self, name, seed, clock):
        self.name, self.draw, self.clock = name, random.Random(seed), clock

    def _what(self, query):
        if self.draw.random() < 0.1:
            raise OSError
        return Ranking(self.name, [f"{query}/{self.name}"], [1.0])

    def search(self, query, limit, upstream):
        self.clock.advance(self.draw.random() * 0.004)
        for _ in range(self.draw.randrange(60)):
            time.sleep(0)  # other threads may notice that they are late
        return self._what(query)


class UncertainTask(Uncertain):
    async def asearch(self, query, limit, upstream):
        for _ in range(self.draw.randrange(9)):
            await asyncio.sleep(0)
        self.clock.advance(self.draw.random() * 0.004)
        return self._what(query)


def _gatherer(clock):
    circuit_breaker = BreakerSettings(failures=4, probe_interval=0.002)
    one = SourceSettings(timeout=0.003, circuit_breaker=circuit_breaker, max_in_flight=5)
    settings = {
        **dict.fromkeys(NAMES, one),
        "c": SourceSettings(depends_on=("a",)),
        "d": SourceSettings(depends_on=("b", "c")),
    }
    return Gatherer(settings, timeout=0.008, clock=clock)


def _check(found, query):
    assert [report.source for report in found.reports] == list(NAMES)
    answered = {ranking.source: ranking.ids for ranking in found.rankings}
    assert answered == {one.source: (f"{query}/{one.source}",) for one in found.reports if one.status == "ok"}
    assert set(found.causes) == {one.source for one in found.reports if one.degraded}


@contextlib.contextmanager
def _or_all_failed():
    try:
        yield
    except AllSourcesFailed as error:
        assert set(error.causes) == set(NAMES)  # noqa: PT017 - it need not be raised


def _settles(gatherer):
    until(lambda: not any(one.in_flight for one in gatherer.health.values()))
    assert "half_open" not in {one.circuit_breaker for one in gatherer.health.values()}, "a trial was never given back"


def test_threads_whose_deadlines_fall_when_answers_come(clock):
    """Every search lets time pass for all calls that are under way."""
    gatherer = _gatherer(clock)
    sources = {name: Uncertain(name, seed, clock) for seed, name in enumerate(NAMES)}
    seen = Counter()

    def ask(thread):
        for number in range(60):
            query = f"{thread}.{number}"
            with _or_all_failed():
                found = gatherer.gather(sources, query)
                _check(found, query)
                seen.update(one.status for one in found.reports)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(ask, range(8)))
    assert seen["ok"]
    _settles(gatherer)
    clock.advance(1.0)
    sources = {name: Uncertain(name, 1, clock) for name in NAMES}

    def answers():
        with _or_all_failed():
            return gatherer.gather(sources, "q").reports[0].status == "ok"

    assert any(answers() for _ in range(200))


def test_tasks_that_are_cancelled_when_answers_come(clock):
    gatherer = _gatherer(clock)
    kinds = (UncertainTask, Uncertain, UncertainTask, Uncertain)
    sources = {name: kind(name, seed, clock) for seed, (name, kind) in enumerate(zip(NAMES, kinds, strict=True))}
    draw, ended = random.Random(5), Counter()

    async def asked(query):
        with _or_all_failed():
            _check(await gatherer.agather(sources, query), query)
        ended["answered"] += 1

    async def ask(task):
        for number in range(15):
            call = asyncio.create_task(asked(f"{task}.{number}"))
            for _ in range(draw.randrange(60)):
                await asyncio.sleep(0)
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):  # a cancelled call must leave nothing; _settles looks
                await call
            ended["all"] += 1

    async def many():
        await asyncio.gather(*(ask(task) for task in range(30)))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(many())
    assert ended["answered"] < ended["all"] == 450
    _settles(gatherer)
