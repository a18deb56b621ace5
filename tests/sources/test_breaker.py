"""The breaker as a machine: when it opens, who may try, what closes it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from phasegraph.sources import BreakerSettings, CallableSource, Gatherer, SourceSettings
from phasegraph.sources.settings import Breaker


def _fail(circuit_breaker, times, now=0.0):
    for _ in range(times):
        circuit_breaker.record(succeeded=False, now=now)


def test_it_opens_at_the_last_of_the_consecutive_failures():
    circuit_breaker = Breaker(3, 10.0)
    _fail(circuit_breaker, 2)
    assert circuit_breaker.allows(0.0)
    _fail(circuit_breaker, 1)
    assert not circuit_breaker.allows(9.99)


def test_a_success_in_between_starts_the_count_again():
    circuit_breaker = Breaker(3, 10.0)
    _fail(circuit_breaker, 2)
    circuit_breaker.record(succeeded=True, now=0.0)
    _fail(circuit_breaker, 2)
    assert circuit_breaker.state == "closed"


def test_after_the_interval_one_search_tries_and_no_other():
    circuit_breaker = Breaker(1, 10.0)
    _fail(circuit_breaker, 1)
    assert circuit_breaker.allows(10.0)
    assert circuit_breaker.begin()
    assert circuit_breaker.state == "half_open"
    assert not circuit_breaker.allows(11.0)


def test_a_trial_that_succeeds_closes_it_and_one_that_fails_opens_it_anew():
    for succeeded, state in ((True, "closed"), (False, "open")):
        circuit_breaker = Breaker(1, 10.0)
        _fail(circuit_breaker, 1)
        circuit_breaker.begin()
        circuit_breaker.record(succeeded=succeeded, now=12.0)
        assert circuit_breaker.state == state
        assert circuit_breaker.allows(21.9) is succeeded


def test_a_trial_given_back_can_be_taken_again():
    circuit_breaker = Breaker(1, 10.0)
    _fail(circuit_breaker, 1)
    circuit_breaker.begin()
    circuit_breaker.release()
    assert circuit_breaker.allows(10.0)


def test_a_search_that_began_before_it_opened_neither_closes_nor_renews_it():
    circuit_breaker = Breaker(1, 10.0)
    _fail(circuit_breaker, 1, now=0.0)
    circuit_breaker.record(succeeded=True, now=5.0, probe=False)
    assert circuit_breaker.state == "open"
    circuit_breaker.record(succeeded=False, now=5.0, probe=False)
    assert circuit_breaker.allows(10.0)


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 6))
def test_it_is_open_exactly_after_that_many_failures_in_a_row(outcomes, failures):
    circuit_breaker = Breaker(failures, 1.0)
    run, opened = 0, False
    for succeeded in outcomes:
        circuit_breaker.record(succeeded=succeeded, now=0.0, probe=False)
        run = 0 if succeeded else run + 1
        opened = opened or run >= failures
        assert (circuit_breaker.state == "open") is opened


def test_a_source_that_keeps_failing_is_left_alone_and_tried_again(ask):
    asked = []
    broken = [True]

    def fn(query, limit):
        asked.append(query)
        if broken[0]:
            raise OSError
        return [("a", 1.0)]

    settings = SourceSettings(circuit_breaker=BreakerSettings(failures=2, probe_interval=0.05))
    gatherer = Gatherer({"s": settings, "t": SourceSettings()})
    sources = {"s": CallableSource("s", fn), "t": CallableSource("t", lambda query, limit: [("b", 1.0)])}
    reports = [ask(gatherer, sources, "who?").reports[0] for _ in range(4)]
    assert [(one.status, one.reason) for one in reports] == [("error", "OSError")] * 2 + [
        ("skipped", "breaker open")
    ] * 2
    assert len(asked) == 2
    assert gatherer.health["s"].circuit_breaker == "open"
    broken[0] = False
    _until(lambda: ask(gatherer, sources, "who?").reports[0].status == "ok")
    assert gatherer.health["s"].circuit_breaker == "closed"
    assert len(asked) == 3


def test_no_breaker_asks_for_ever():
    gatherer = Gatherer({"s": SourceSettings(circuit_breaker=None)}, on_all_failed="empty")
    source = {"s": CallableSource("s", lambda query, limit: 1 / 0)}
    assert {gatherer.gather(source, "who?").reports[0].status for _ in range(30)} == {"error"}


def test_an_open_breaker_with_every_source_behind_it_still_says_that_all_failed():
    import pytest

    from phasegraph.errors import AllSourcesFailed

    gatherer = Gatherer({"s": SourceSettings(circuit_breaker=BreakerSettings(failures=1))})
    source = {"s": CallableSource("s", lambda query, limit: 1 / 0)}
    for expected in ("ZeroDivisionError", "PhasegraphError"):
        with pytest.raises(AllSourcesFailed) as caught:
            gatherer.gather(source, "who?")
        assert type(caught.value.causes["s"]).__name__ == expected


def _until(condition, seconds=5.0):
    import time

    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)
