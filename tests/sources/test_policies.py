"""What becomes of errors: skipped, raised, strict, passed through, never quoted."""

from __future__ import annotations

import pytest

from phasegraph.errors import AllSourcesFailed, DegradedError
from phasegraph.sources import BreakerSettings, Gatherer, SourceSettings


@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_not_a_sources_to_have_passes_through_at_once(ask, held, kind, source, clock):
    """The clock stands still: the call waits for no deadline."""

    def fn(query, limit):
        raise kind

    gatherer = Gatherer(dict.fromkeys(["held", "s"], SourceSettings()), timeout=30.0, clock=clock)
    with pytest.raises(kind):
        ask(gatherer, {"held": held, "s": source("s", fn)}, "who?")
    assert not held.released.is_set()


@pytest.mark.filterwarnings("ignore:source 's' failed 1 times in a row")
def test_an_interrupted_trial_does_not_keep_the_breaker_shut(healthy, statuses, source, clock):
    behaviour = [ZeroDivisionError()]

    def fn(query, limit):
        if behaviour[0] is not None:
            raise behaviour[0]
        return [("a", 1.0)]

    settings = {"s": SourceSettings(circuit_breaker=BreakerSettings(failures=1, probe_interval=0.5))}
    gatherer = Gatherer(settings, clock=clock)
    asked = {"s": source("s", fn)}
    with pytest.raises(AllSourcesFailed):
        gatherer.gather(asked, "who?")
    clock.advance(0.5)
    behaviour[0] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        gatherer.gather(asked, "who?")
    behaviour[0] = None
    assert statuses(gatherer.gather(asked, "who?")) == {"s": "ok"}


def test_on_error_raise_raises_the_sources_own_error_at_once(ask, held, source, clock):
    error = OSError("down")

    def fn(query, limit):
        raise error

    gatherer = Gatherer({"held": SourceSettings(), "s": SourceSettings(on_error="raise")}, timeout=30.0, clock=clock)
    with pytest.raises(OSError, match="down") as caught:
        ask(gatherer, {"held": held, "s": source("s", fn)}, "who?")
    assert caught.value is error
    assert not held.released.is_set()


def test_on_error_raise_raises_for_a_missed_deadline_too(ask, held):
    with pytest.raises(TimeoutError, match="held"):
        ask(Gatherer({"held": SourceSettings(on_error="raise", timeout=0.03)}), {"held": held}, "who?")


def test_all_failing_is_an_error_with_every_cause(ask, source):
    broken = {"s": source("s", lambda query, limit: 1 / 0)}
    with pytest.raises(AllSourcesFailed) as caught:
        ask(Gatherer({"s": SourceSettings()}), broken, "who?")
    assert isinstance(caught.value.causes["s"], ZeroDivisionError)


def test_strict_names_the_source_and_the_reason(ask, healthy, source):
    gatherer = Gatherer({"healthy": SourceSettings(), "s": SourceSettings()}, strict=True)
    with pytest.raises(DegradedError, match=r"s: error \(ZeroDivisionError\)"):
        ask(gatherer, {"healthy": healthy, "s": source("s", lambda query, limit: 1 / 0)}, "who?")
    ask(gatherer, {"healthy": healthy, "s": source("s", lambda query, limit: [])}, "who?")


def test_no_reason_holds_the_message_of_a_foreign_error(ask, healthy, source):
    def fn(query, limit):
        raise OSError("password=hunter2")

    found = ask(
        Gatherer(dict.fromkeys(["healthy", "s"], SourceSettings())), {"healthy": healthy, "s": source("s", fn)}, "w"
    )
    assert found.reports[1].reason == found.reports[1].error_class == "OSError"
    assert "hunter2" in str(found.causes["s"])
