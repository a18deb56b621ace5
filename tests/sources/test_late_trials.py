"""A trial that misses its deadline and ends well says that the source is back, only slow as yet."""

import threading
import time

from phasegraph.sources import BreakerSettings, CallableSource, Gatherer, SourceSettings
from phasegraph.sources.settings import Breaker


def opened():
    circuit_breaker = Breaker(1, 10.0)
    circuit_breaker.record(succeeded=False, now=0.0)
    return circuit_breaker


def try_and_miss(circuit_breaker, now):
    assert circuit_breaker.allows(now)
    circuit_breaker.begin()
    circuit_breaker.record(succeeded=False, now=now + 1.0)
    assert not circuit_breaker.allows(now + 1.0)


def test_a_trial_that_ends_well_though_late_is_followed_by_one_more_at_once():
    circuit_breaker = opened()
    try_and_miss(circuit_breaker, 10.0)
    circuit_breaker.succeeded_late()
    assert circuit_breaker.allows(11.0)


def test_what_is_always_late_is_tried_twice_an_interval_and_no_more():
    circuit_breaker = opened()
    for now in (10.0, 22.0, 34.0):
        try_and_miss(circuit_breaker, now)
        circuit_breaker.succeeded_late()
        try_and_miss(circuit_breaker, now + 1.0)
        circuit_breaker.succeeded_late()
        assert not circuit_breaker.allows(now + 11.9)


def test_the_interval_is_counted_from_the_beginning_of_a_trial():
    """A trial that hangs to its deadline would else cost its source that time twice."""
    circuit_breaker = opened()
    circuit_breaker.begin(10.0)
    circuit_breaker.record(succeeded=False, now=18.0)
    assert not circuit_breaker.allows(19.9)
    assert circuit_breaker.allows(20.0)


def test_neither_a_closed_breaker_nor_one_that_is_trying_takes_notice():
    circuit_breaker = opened()
    circuit_breaker.begin()
    circuit_breaker.succeeded_late()
    circuit_breaker.record(succeeded=False, now=5.0)
    assert not circuit_breaker.allows(5.0)
    circuit_breaker.begin()
    circuit_breaker.record(succeeded=True, now=16.0)
    circuit_breaker.succeeded_late()
    assert circuit_breaker.state == "closed"


def test_a_source_that_is_slow_when_it_comes_back_does_not_wait_another_interval():
    """Its first search after the return takes two deadlines; without its late word the next came an interval on."""
    down, slow = threading.Event(), threading.Event()
    down.set()

    def fn(query, limit):
        if down.is_set():
            raise OSError
        if not slow.is_set():
            slow.set()
            time.sleep(0.2)
        return [("a", 1.0)]

    settings = SourceSettings(circuit_breaker=BreakerSettings(failures=1, probe_interval=0.5))
    gatherer = Gatherer({"s": settings}, timeout=0.1, on_all_failed="empty")

    def ask():
        return gatherer.gather({"s": CallableSource("s", fn)}, "who?").reports[0].status

    assert ask() == "error"
    down.clear()
    time.sleep(0.5)
    assert ask() == "timeout", "the trial itself is late"
    missed = time.monotonic()
    while ask() != "ok":
        assert time.monotonic() - missed < 0.3, "an interval was waited for"
        time.sleep(0.01)
    assert gatherer.health["s"].circuit_breaker == "closed"
