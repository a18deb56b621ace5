"""The circuit breaker: when it opens, who may try, what closes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasegraph.errors import AllSourcesFailed, PhasegraphWarning
from phasegraph.sources import BreakerSettings, Gatherer, SourceSettings
from phasegraph.sources.breaker import Breaker


def _opened(failures=1, probe_interval=10.0, now=0.0):
    breaker = Breaker(failures, probe_interval)
    _fail(breaker, failures, now)
    return breaker


def _fail(breaker, times=1, now=0.0):
    for _ in range(times):
        breaker.record(succeeded=False, now=now)


def test_it_opens_at_the_last_of_the_consecutive_failures():
    breaker = Breaker(3, 10.0)
    _fail(breaker, 2)
    assert breaker.allows(0.0)
    _fail(breaker)
    assert not breaker.allows(9.99)


def test_a_success_in_between_starts_the_count_again():
    breaker = Breaker(3, 10.0)
    _fail(breaker, 2)
    breaker.record(succeeded=True, now=0.0)
    _fail(breaker, 2)
    assert breaker.state == "closed"


def test_after_the_interval_one_search_tries_and_no_other():
    breaker = _opened()
    assert breaker.allows(10.0)
    assert breaker.begin(10.0)
    assert breaker.state == "half_open"
    assert not breaker.allows(11.0)


@pytest.mark.parametrize(("succeeded", "state"), [(True, "closed"), (False, "open")])
def test_a_trial_that_succeeds_closes_it_and_one_that_fails_opens_it_anew(succeeded, state):
    breaker = _opened()
    breaker.begin(12.0)
    breaker.record(succeeded=succeeded, now=12.5)
    assert breaker.state == state
    assert breaker.allows(21.9) is succeeded


def test_a_trial_given_back_can_be_taken_again():
    breaker = _opened()
    breaker.begin(10.0)
    breaker.release()
    assert breaker.allows(10.0)


def test_a_search_that_began_before_it_opened_neither_closes_nor_renews_it():
    breaker = _opened()
    breaker.record(succeeded=True, now=5.0, probe=False)
    assert breaker.state == "open"
    breaker.record(succeeded=False, now=5.0, probe=False)
    assert breaker.allows(10.0)


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 6))
def test_it_is_open_exactly_after_that_many_failures_in_a_row(outcomes, failures):
    breaker = Breaker(failures, 1.0)
    run, opened = 0, False
    for succeeded in outcomes:
        breaker.record(succeeded=succeeded, now=0.0, probe=False)
        run = 0 if succeeded else run + 1
        opened = opened or run >= failures
        assert (breaker.state == "open") is opened


def _try_and_miss(breaker, now):
    assert breaker.allows(now)
    breaker.begin(now)
    _fail(breaker, now=now + 1.0)
    assert not breaker.allows(now + 1.0)


def test_a_trial_that_ends_well_though_late_is_followed_by_one_more_at_once():
    breaker = _opened()
    _try_and_miss(breaker, 10.0)
    breaker.succeeded_late()
    assert breaker.allows(11.0)


def test_a_source_that_is_always_late_is_tried_twice_an_interval_and_no_more():
    breaker = _opened()
    for now in (10.0, 22.0, 34.0):
        _try_and_miss(breaker, now)
        breaker.succeeded_late()
        _try_and_miss(breaker, now + 1.0)
        breaker.succeeded_late()
        assert not breaker.allows(now + 10.9)


def test_the_interval_is_counted_from_the_beginning_of_a_trial():
    """A trial that hangs to its deadline would else cost its source that time twice."""
    breaker = _opened()
    breaker.begin(10.0)
    _fail(breaker, now=18.0)
    assert not breaker.allows(19.9)
    assert breaker.allows(20.0)


def test_neither_a_closed_breaker_nor_one_that_is_trying_takes_notice_of_a_late_success():
    breaker = _opened()
    breaker.begin(1.0)
    breaker.succeeded_late()
    _fail(breaker, now=5.0)
    assert not breaker.allows(5.0)
    breaker.begin(15.0)
    breaker.record(succeeded=True, now=16.0)
    breaker.succeeded_late()
    assert breaker.state == "closed"


def test_a_source_that_keeps_failing_is_left_alone_and_tried_again(ask, source, clock):
    asked, broken = [], [True]

    def fn(query, limit):
        asked.append(query)
        if broken[0]:
            raise OSError
        return [("a", 1.0)]

    settings = SourceSettings(circuit_breaker=BreakerSettings(failures=2, probe_interval=0.5))
    gatherer = Gatherer({"s": settings, "t": SourceSettings()}, clock=clock)
    sources = {"s": source("s", fn), "t": source("t")}
    with pytest.warns(PhasegraphWarning, match="source 's' failed 2 times in a row"):
        reports = [ask(gatherer, sources, "who?").reports[0] for _ in range(4)]
    expected = [("error", "OSError")] * 2 + [("skipped", "circuit breaker open")] * 2
    assert [(one.status, one.reason) for one in reports] == expected
    assert len(asked) == 2
    assert gatherer.health["s"].circuit_breaker == "open"
    broken[0] = False
    clock.advance(0.5)
    assert ask(gatherer, sources, "who?").reports[0].status == "ok"
    assert gatherer.health["s"].circuit_breaker == "closed"
    assert len(asked) == 3


def test_no_breaker_asks_for_ever(source):
    gatherer = Gatherer({"s": SourceSettings(circuit_breaker=None), "t": SourceSettings()})
    sources = {"s": source("s", lambda query, limit: 1 / 0), "t": source("t")}
    assert {gatherer.gather(sources, "who?").reports[0].status for _ in range(30)} == {"error"}


def test_an_open_breaker_with_every_source_behind_it_still_says_that_all_failed(source):
    gatherer = Gatherer({"s": SourceSettings(circuit_breaker=BreakerSettings(failures=1))})
    for expected in ("ZeroDivisionError", "PhasegraphError"):
        with pytest.raises(AllSourcesFailed) as caught:
            gatherer.gather({"s": source("s", lambda query, limit: 1 / 0)}, "who?")
        assert type(caught.value.causes["s"]).__name__ == expected


@pytest.mark.filterwarnings("ignore:source 's' failed 1 times in a row")
def test_a_source_that_is_slow_when_it_comes_back_does_not_wait_another_interval(source, hang, clock, until):
    """Its first search after the return misses its deadline; without its late word the next came an interval on."""

    def down(query, limit):
        raise OSError

    settings = SourceSettings(timeout=0.5, circuit_breaker=BreakerSettings(failures=1, probe_interval=8.0))
    gatherer = Gatherer({"s": settings, "t": SourceSettings()}, timeout=None, clock=clock)

    def status(*given):
        return gatherer.gather({"s": source("s", *given), "t": source("t")}, "who?").reports[0].status

    assert status(down) == "error"
    clock.advance(8.0)
    assert status(hang.function(0.5, [("a", 1.0)])) == "timeout", "the trial itself is late"
    assert status() == "skipped"
    hang.released.set()
    until(lambda: status() == "ok")
    assert clock.now() == 8.5, "no interval was waited for"
    assert gatherer.health["s"].circuit_breaker == "closed"
