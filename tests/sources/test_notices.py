"""A source that dies, is left out, is too busy or comes back is logged and warned about once per change."""

from __future__ import annotations

import asyncio
import logging
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from phasegraph.errors import AllSourcesFailed, DegradedError, PhasegraphWarning
from phasegraph.ranking import Ranking
from phasegraph.sources import BreakerSettings, Gatherer, SourceSettings

OPEN = r"source 's' failed 2 times in a row \(last: OSError\) and is skipped; one search in 30 s tries it again"
LOGGED = "The logger 'phasegraph' shows the error at the level DEBUG"
FAILED = ("WARNING", f"source 's' failed (OSError); answers do not include it. {LOGGED}")
BACK = ("WARNING", "source 's' answers again")
UNUSABLE = ("WARNING", "source 's' returns hits without a usable score and id, so answers do not include them. Check")
GOOD, BAD, NONE = [("a", 1.0)], [("a", float("nan")), ("b", "high")], []


class Scripted:
    """Answers as told: a list of hits, or an error."""

    def __init__(self, answer=GOOD):
        self.answer = answer

    def search(self, query, limit, upstream):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return Ranking.from_hits("s", *zip(*self.answer, strict=True)) if self.answer else Ranking("s", [], [])


@pytest.fixture
def logged(caplog):
    """What was logged since the last look, as (level, text)."""
    caplog.set_level(logging.INFO, "phasegraph")

    def look():
        found = [(one.levelname, one.getMessage()) for one in caplog.records if one.name == "phasegraph"]
        caplog.clear()
        return found

    return look


@pytest.fixture
def scripted(ask, source, clock):
    """A scripted source beside a healthy one, and a call that asks both."""
    one = Scripted()
    settings = SourceSettings(circuit_breaker=BreakerSettings(failures=2, probe_interval=30.0))
    gatherer = Gatherer({"s": settings, "t": SourceSettings()}, clock=clock)

    def call(answer):
        one.answer = answer
        return ask(gatherer, {"s": one, "t": source("t")}, "who?").reports[0].status

    return call


def test_a_failure_is_logged_once_and_so_is_the_next_answer(scripted, logged):
    with pytest.warns(PhasegraphWarning) as caught:
        assert [scripted(answer) for answer in (GOOD, OSError("password=hunter2"), GOOD, GOOD)] == [
            "ok", "error", "ok", "ok",
        ]  # fmt: skip
    assert [str(one.message) for one in caught] == [FAILED[1], BACK[1]]
    assert logged() == [FAILED, BACK]
    with pytest.warns(PhasegraphWarning) as caught:
        scripted(OSError())
    assert [str(one.message) for one in caught] == [FAILED[1]]
    assert logged() == [FAILED]


def test_a_source_that_never_answered_is_named_at_its_first_failure(scripted, logged):
    with pytest.warns(PhasegraphWarning, match=r"source 's' failed \(OSError\); answers do not include it"):
        scripted(OSError())
    assert logged() == [FAILED]


def test_an_opening_breaker_warns_and_logs_once_and_its_closing_logs(scripted, logged, clock):
    scripted(OSError())
    with pytest.warns(PhasegraphWarning, match=OPEN) as caught:
        scripted(OSError())
    assert len(caught) == 1
    assert [(level, text.split(" (")[0]) for level, text in logged()] == [
        ("WARNING", "source 's' failed"), ("WARNING", "source 's' failed 2 times in a row"),
    ]  # fmt: skip
    clock.advance(30.0)
    assert scripted(OSError()) == "error"  # a trial that fails changes nothing
    assert {scripted(OSError()) for _ in range(3)} == {"skipped"}
    assert logged() == []
    clock.advance(30.0)
    assert scripted(GOOD) == "ok"
    assert logged() == [BACK]


def test_a_missed_deadline_is_a_failure_like_any_other(ask, held, takes, logged, clock):
    gatherer = Gatherer({"held": SourceSettings(timeout=0.5), "t": SourceSettings()}, clock=clock)
    ask(gatherer, {"held": held, "t": takes("t", 0.5)}, "who?")
    text = "source 'held' failed (no answer in time); answers do not include it"
    assert logged() == [("WARNING", text)]


def test_hits_that_are_all_unusable_warn_once_per_change(scripted, logged):
    scripted(GOOD)
    for _ in range(2):
        with pytest.warns(PhasegraphWarning, match="source 's' returns hits without a usable score"):
            assert scripted(BAD) == "partial"
        assert [scripted(answer) for answer in (BAD, NONE, BAD)] == ["partial", "empty", "partial"]
        scripted(GOOD)
        (level, text), back = logged()
        assert (level, back) == (UNUSABLE[0], BACK)
        assert text.startswith(UNUSABLE[1])


def test_nothing_found_is_no_change_and_ends_an_outage(scripted, logged):
    assert [scripted(NONE), scripted(OSError()), scripted(NONE)] == ["empty", "error", "empty"]
    assert logged() == [FAILED, BACK]


def test_the_warning_names_the_callers_line(scripted, source):
    gatherer = Gatherer({"s": SourceSettings(), "t": SourceSettings()})
    with pytest.warns(PhasegraphWarning) as caught:
        gatherer.gather({"s": Scripted(BAD), "t": source("t")}, "who?")
    assert caught[0].filename == __file__

    async def awaited():
        await Gatherer(gatherer.settings).agather({"s": Scripted(BAD), "t": source("t")}, "who?")

    with pytest.warns(PhasegraphWarning) as caught:
        asyncio.run(awaited())
    assert caught[0].filename == __file__


def test_where_warnings_are_errors_the_call_that_tells_raises_and_the_next_answers(scripted, logged, clock):
    with warnings.catch_warnings():
        warnings.simplefilter("error", PhasegraphWarning)
        with pytest.raises(PhasegraphWarning, match="answers do not include it"):
            scripted(OSError())
        with pytest.raises(PhasegraphWarning, match=OPEN):
            scripted(OSError())
        assert scripted(OSError()) == "skipped"
        clock.advance(30.0)
        assert scripted(GOOD) == "ok"
    assert [level for level, _ in logged()] == ["WARNING"] * 3


def test_two_warnings_as_errors_are_raised_one_after_the_other(ask, source):
    class Bad(Scripted):
        def search(self, query, limit, upstream):
            return Ranking.from_hits(self.answer, ["a"], [float("nan")])

    gatherer = Gatherer(dict.fromkeys("abt", SourceSettings()))
    sources = {"a": Bad("a"), "b": Bad("b"), "t": source("t")}
    for name in "ab":
        with pytest.raises(PhasegraphWarning, match=f"source '{name}'"):
            ask(gatherer, sources, "who?")
    assert [one.status for one in ask(gatherer, sources, "who?").reports] == ["partial", "partial", "ok"]


@pytest.mark.parametrize(("strict", "error"), [(False, AllSourcesFailed), (True, DegradedError)])
def test_an_error_of_the_call_goes_before_the_warning_and_carries_it(ask, source, strict, error):
    settings = {"s": SourceSettings(circuit_breaker=BreakerSettings(failures=1)), "t": SourceSettings()}
    sources = {"s": Scripted(OSError()), "t": source("t")} if strict else {"s": Scripted(OSError())}
    with pytest.raises(error) as caught:
        ask(Gatherer(settings, strict=strict), sources, "who?")
    assert "failed 1 times in a row" in caught.value.__notes__[0]
    with pytest.raises(error), pytest.warns(PhasegraphWarning, match="failed 1 times in a row"):
        ask(Gatherer(settings, strict=strict), sources, "who?")


def test_a_source_whose_error_is_raised_is_not_logged_too(ask, logged):
    gatherer = Gatherer({"s": SourceSettings(on_error="raise")})
    with pytest.raises(OSError, match="mine"):
        ask(gatherer, {"s": Scripted(OSError("mine"))}, "who?")
    ask(gatherer, {"s": Scripted()}, "who?")
    assert logged() == []


def test_many_threads_are_told_once(source, logged):
    settings = SourceSettings(circuit_breaker=BreakerSettings(failures=5, probe_interval=30.0))
    gatherer = Gatherer({"s": settings, "t": SourceSettings()})
    sources = {"s": Scripted(OSError()), "t": source("t")}

    def ask_often():
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: gatherer.gather(sources, "who?"), range(200)))
        gatherer.gather(sources, "who?")

    with pytest.warns(PhasegraphWarning, match="5 times in a row") as caught:
        ask_often()
    assert [one.category for one in caught].count(PhasegraphWarning) == 2  # garbage of other tests may warn, too
    assert [level for level, _ in logged()] == ["WARNING", "WARNING"]


def test_a_copy_has_its_own_memory(source, logged):
    gatherer = Gatherer({"s": SourceSettings(), "t": SourceSettings()})
    for one in (gatherer, pickle.loads(pickle.dumps(gatherer))):  # noqa: S301 - our own bytes
        for _ in range(2):
            one.gather({"s": Scripted(OSError()), "t": source("t")}, "who?")
        assert logged() == [FAILED]


def test_the_class_of_a_foreign_error_is_in_the_warning_and_its_text_in_the_cause_alone(scripted, logged, caplog):
    secret = OSError("password=hunter2")
    with pytest.warns(PhasegraphWarning, match=r"failed \(OSError\)") as caught:
        scripted(secret)
    assert caught[0].message.__cause__ is secret
    assert "hunter2" not in caplog.text
    caplog.set_level(logging.DEBUG, "phasegraph")
    with pytest.warns(PhasegraphWarning, match="2 times in a row"):
        scripted(secret)
    assert "hunter2" in caplog.text  # for whoever asks for it


def test_strict_raises_with_what_the_sources_raised(ask, source):
    secret, other = OSError("password=hunter2"), KeyError("nope")

    def failing(query, limit):
        raise other

    gatherer = Gatherer(dict.fromkeys("sut", SourceSettings()), strict=True)
    with pytest.raises(DegradedError, match=r"s: error \(OSError\); u: error \(KeyError\)") as caught:
        ask(gatherer, {"s": Scripted(secret), "u": source("u", failing), "t": source("t")}, "who?")
    assert caught.value.__cause__ is secret
    assert "u: KeyError: 'nope'" in caught.value.__notes__
    assert "hunter2" not in str(caught.value)


def test_a_source_too_busy_to_be_asked_is_told_once_and_so_is_its_return(held, takes, logged, until, clock):
    settings = {
        "held": SourceSettings(max_in_flight=1, circuit_breaker=None),
        "t": SourceSettings(timeout=2.0, circuit_breaker=None),  # it moves the clock in every call, late or not
    }
    gatherer = Gatherer(settings, timeout=30.0, clock=clock)
    sources = {"held": held, "t": takes("t", 0.5)}

    def ask_often():
        with ThreadPoolExecutor(1) as threads:
            first = threads.submit(gatherer.gather, sources, "who?")
            until(lambda: held.entered and clock.now() == 0.5)
            found = [gatherer.gather(sources, "who?", seconds=0.5).reports[0] for _ in range(3)]
            held.released.set()
            return [*found, first.result().reports[0]]

    with pytest.warns(PhasegraphWarning) as caught:
        reports = ask_often()
    waited = ("skipped", "earlier searches were still running")
    assert [(one.status, one.reason) for one in reports] == [*[waited] * 3, ("ok", "")]
    told = [str(one.message).partition(":")[0] for one in caught]
    assert told == ["source 'held' was busy", "source 'held' answers again"]
    assert len(logged()) == 2
