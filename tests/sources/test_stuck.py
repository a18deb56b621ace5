"""Nothing that a source answers, or that its objects do, stops a worker or the event loop that sources share."""

from __future__ import annotations

import asyncio
import threading
import warnings

import pytest

from phasegraph import PhasegraphError, PhasegraphWarning
from phasegraph.errors import AllSourcesFailed, InvalidTypeError
from phasegraph.ranking import Background, Ranking
from phasegraph.sources import AsyncCallableSource, CallableSource, Gatherer, SourceSettings
from phasegraph.sources.workers import WorkerPool, own_loop

FINE = CallableSource("fine", lambda query, limit: [("a", 1.0)])


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"reason": 404}, r"Ranking\.reason must be text"),
        ({"reason": b"no"}, r"Ranking\.reason must be text"),
        ({"background": (0.0, 1.0)}, r"Ranking\.background must be Background"),
        ({"words": {"a": 1.0}}, r"Ranking\.words must be QueryWords"),
        ({"payloads": None}, r"Ranking\.payloads must be a mapping"),
        ({"payloads": ["a"]}, r"Ranking\.payloads must be a mapping"),
        ({"rank_only": 1}, r"Ranking\.rank_only must be True or False"),
        ({"distances": "no"}, r"Ranking\.distances must be True or False"),
    ],
)
def test_a_ranking_refuses_fields_of_another_type(given, named):
    with pytest.raises(InvalidTypeError, match=named):
        Ranking("v", ["a"], [1.0], **given)


def test_a_ranking_takes_what_is_right():
    assert Ranking("v", ["a"], [1.0], background=Background(0.0, 1.0), reason="because").reason == "because"


class SilentError(PhasegraphError):
    def __str__(self):
        raise RuntimeError("no words")


class OddMeta(type):
    @property
    def __name__(cls):
        raise RuntimeError("no name")


class NamelessError(Exception, metaclass=OddMeta):
    pass


class OddRanking(Ranking):
    calls = 0

    def __len__(self):
        OddRanking.calls += 1
        if OddRanking.calls > 1:
            raise RuntimeError("no length")
        return 1


class Odd:
    """Whatever is asked of it raises."""

    def _raise(self, *_):
        raise RuntimeError("odd")

    __len__ = __iter__ = __repr__ = __str__ = __eq__ = __bool__ = __getitem__ = __format__ = _raise
    __hash__ = None


class OddEnd(list):
    def __del__(self):
        raise RuntimeError("not gone")


def raises(error):
    def search(query, limit):
        raise error()

    return search


def odd_ranking(query, limit):
    OddRanking.calls = 0
    return OddRanking("odd", ["a"], [1.0])


ODD_ANSWERS = {
    "silent": raises(SilentError),
    "nameless": raises(NamelessError),
    "ranking": odd_ranking,
    "object": lambda query, limit: Odd(),
    "hits": lambda query, limit: [Odd(), Odd()],
    "ids": lambda query, limit: [(Odd(), 1.0)],
    "scores": lambda query, limit: [("a", Odd())],
    "end": lambda query, limit: OddEnd([1, 2]),
    "reason": lambda query, limit: Ranking("odd", ["a"], [1.0], reason=404),
}


@pytest.mark.parametrize("kind", ODD_ANSWERS)
@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_odd_answer_costs_its_source_and_nothing_else(kind, awaited, monkeypatch, until):
    pool = WorkerPool()
    monkeypatch.setattr("phasegraph.sources.workers._process.pool", pool)
    gatherer = Gatherer({"fine": SourceSettings(), "odd": SourceSettings(circuit_breaker=None)}, timeout=60.0)
    sources = {"fine": FINE, "odd": CallableSource("odd", ODD_ANSWERS[kind])}
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = asyncio.run(gatherer.agather(sources, "who?")) if awaited else gatherer.gather(sources, "who?")
        assert found.rankings[0].ids == ("a",)
        fine, odd = found.reports
        assert fine.status == "ok"
        assert odd.status != "timeout", "nobody waited for what had come"
    until(lambda: pool.outstanding == 0)
    assert all(one.in_flight == 0 for one in gatherer.health.values())


@pytest.mark.filterwarnings("ignore::phasegraph.PhasegraphWarning")
def test_an_error_without_words_can_be_reported_alone():
    with pytest.raises(AllSourcesFailed, match="SilentError"):
        Gatherer({"odd": SourceSettings()}).gather({"odd": CallableSource("odd", raises(SilentError))}, "who?")


def test_a_worker_goes_on_after_a_job_that_raises(until, caplog):
    pool, done = WorkerPool(), []

    def odd(*_):
        raise SystemExit("no")

    pool.submit(lambda _: None, odd, None)
    pool.submit(odd, lambda *_: None, None)
    until(lambda: pool.outstanding == 0)
    threads = pool.threads
    pool.submit(lambda _: None, lambda *_: done.append(1), None)
    until(lambda: done)
    assert pool.threads == threads
    assert "raised" in caplog.text


def test_a_worker_whose_answer_takes_its_time_to_go_is_busy(until):
    pool, going, free, done = WorkerPool(), threading.Event(), threading.Event(), []

    class Slow:
        def __del__(self):
            going.set()
            free.wait(60)

    pool.submit(lambda _: Slow(), lambda *_: None, None)
    until(going.is_set)
    pool.submit(lambda _: None, lambda *_: done.append(1), None)
    try:
        until(lambda: done)
        assert pool.threads == 2
    finally:
        free.set()


def asked(gatherer, sources, *, name="async"):
    """The report of the source of that name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = gatherer.gather({"fine": FINE, **sources}, "who?")
    return next(one for one in found.reports if one.source == name)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_the_event_loop_outlives_a_task_of_a_source_that_ends_it(kind):
    async def leave():
        raise kind("no")

    async def bad(query, limit):
        task = asyncio.get_running_loop().create_task(leave())
        await asyncio.wait([task])
        task.exception()
        return [("a", 1.0)]

    async def stops(query, limit):
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return [("a", 1.0)]

    async def good(query, limit):
        return [("a", 1.0)]

    gatherer = Gatherer({"async": SourceSettings(), "fine": SourceSettings()}, timeout=20.0)
    for function in (bad, stops, good):
        assert asked(gatherer, {"async": AsyncCallableSource("async", function)}).status == "ok"


def test_an_interrupt_of_a_source_reaches_the_caller():
    async def leave(query, limit):
        raise SystemExit("out")

    gatherer = Gatherer({"async": SourceSettings()}, timeout=20.0)
    with pytest.raises(SystemExit):
        gatherer.gather({"async": AsyncCallableSource("async", leave)}, "who?")


def test_an_event_loop_that_a_source_blocks_is_replaced_and_the_source_named(monkeypatch, until, hang, clock):
    async def blocks(query, limit):
        until(lambda: clock.waiting and not hang.jobs)
        clock.advance(0.5)
        hang.released.wait(60)
        return [("a", 1.0)]

    async def good(query, limit):
        return [("a", 1.0)]

    settings = {"async": SourceSettings(), "blocks": SourceSettings(), "fine": SourceSettings()}
    gatherer, first = Gatherer(settings, timeout=0.5, clock=clock), own_loop()
    try:
        assert asked(gatherer, {"blocks": AsyncCallableSource("blocks", blocks)}, name="blocks").status == "timeout"
        monkeypatch.setattr("phasegraph.sources.workers._BLOCKED_SECONDS", 0.0)
        with pytest.warns(PhasegraphWarning, match="'blocks' blocks the event loop.*in_thread=True"):
            found = Gatherer(settings, timeout=60.0).gather(
                {"fine": FINE, "async": AsyncCallableSource("async", good)}, "who?"
            )
        assert [one.status for one in found.reports] == ["ok", "ok"]
        assert own_loop() is not first
    finally:
        hang.released.set()
    until(first.is_closed)


def test_an_event_loop_at_rest_is_kept(monkeypatch):
    monkeypatch.setattr("phasegraph.sources.workers._BLOCKED_SECONDS", 0.0)
    monkeypatch.setattr("phasegraph.sources.workers._MOMENT_SECONDS", 30.0)  # a busy machine is no blocked loop

    async def good(query, limit):
        await asyncio.sleep(0)
        return [("a", 1.0)]

    gatherer, first = Gatherer({"async": SourceSettings(), "fine": SourceSettings()}, timeout=60.0), own_loop()
    for _ in range(5):
        assert asked(gatherer, {"async": AsyncCallableSource("async", good)}).status == "ok"
    assert own_loop() is first
