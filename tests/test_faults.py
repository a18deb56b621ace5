"""The catalogue of faults, as far as it concerns asking sources; each test carries its number.

The oracle throughout: with sources F failed, what was gathered equals, to the bit, what a gatherer built without
F gathers; and asking and awaiting give the same.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import pytest
from tests.suites.manual_time import until

from phasegraph.errors import AllSourcesFailed, InvalidInputError
from phasegraph.ranking import Ranking
from phasegraph.sources import CallableSource, Gatherer, SourceSettings
from phasegraph.testing import FAILING, HARMLESS, FaultPlan, FaultySource

HITS = {
    "graph": [("d", 7.0), ("a", 3.0), ("c", 3.0)],
    "bm25": [("b", -1.0), ("e", -4.5)],
    "vector": [("a", 0.9), ("b", 0.8), ("c", 0.1)],
}


def healthy(*names):
    return {name: CallableSource(name, lambda query, limit, name=name: HITS[name]) for name in names or HITS}


def returning(name, value):
    return {name: CallableSource(name, lambda query, limit: value() if callable(value) else value)}


def content(found):
    return [(one.source, one.ids, one.scores.tobytes(), one.raw.tobytes()) for one in found.rankings]


def both(sources, *, settings=None, **options):
    """Ask and await with a fresh gatherer each, check that they agree, and give the answer."""
    settings = settings or dict.fromkeys(sources, SourceSettings())
    asked = Gatherer(settings, **options).gather(sources, "who?")
    awaited = asyncio.run(Gatherer(settings, **options).agather(sources, "who?"))
    assert content(asked) == content(awaited)
    assert [(r.source, r.status, r.reason) for r in asked.reports] == [
        (r.source, r.status, r.reason) for r in awaited.reports
    ]
    return asked


def report(found, name):
    return next(one for one in found.reports if one.source == name)


@pytest.mark.parametrize("kind", sorted(FAILING))
@pytest.mark.parametrize("struck", sorted(HITS))
def test_1_9_10_11_a_source_that_fails_costs_the_others_nothing(kind, struck):
    sources = healthy()
    sources[struck] = FaultySource(sources[struck], struck, FaultPlan(1.0, [kind]))
    found = both(sources)
    others = healthy(*(name for name in HITS if name != struck))
    assert content(found) == content(both(others))
    assert report(found, struck).status == "error"
    assert found.degraded
    assert "hunter2" not in str(found.reports)


def test_2_all_failing_is_an_error_with_every_cause():
    broken = {name: CallableSource(name, lambda query, limit: 1 / 0) for name in HITS}
    with pytest.raises(AllSourcesFailed) as caught:
        both(broken)
    assert {name: type(error) for name, error in caught.value.causes.items()} == dict.fromkeys(HITS, ZeroDivisionError)


def test_3_all_empty_is_an_empty_answer_that_is_not_degraded():
    found = both({**returning("graph", []), **returning("vector", [])})
    assert (found.rankings, found.degraded) == ((), False)
    assert {one.status for one in found.reports} == {"empty"}


def test_4_one_failing_and_the_other_empty_is_an_empty_answer_that_is_degraded():
    found = both({**returning("graph", None), **returning("vector", [])})
    assert (found.rankings, found.degraded) == ((), True)


@pytest.mark.parametrize("struck", sorted(HITS))
def test_5_a_late_source_leaves_what_the_others_gave(struck):
    sources = healthy()
    sources[struck] = FaultySource(sources[struck], struck, FaultPlan(1.0, ["hang"]), hang_seconds=60.0)
    found = both(sources, settings={name: SourceSettings(timeout=0.05 if name == struck else None) for name in HITS})
    assert content(found) == content(both(healthy(*(name for name in HITS if name != struck))))
    assert report(found, struck).status == "timeout"


def test_6_a_source_that_hangs_for_ever_holds_a_bounded_number_of_workers():
    hang, entered = threading.Event(), []

    def fn(query, limit):
        entered.append(query)
        hang.wait(60)

    settings = {
        "vector": SourceSettings(),
        "graph": SourceSettings(timeout=0.02, max_in_flight=3, circuit_breaker=None),
    }
    gatherer = Gatherer(settings)
    try:
        for _ in range(12):
            assert len(gatherer.gather({**healthy("vector"), "graph": CallableSource("graph", fn)}, "q").rankings) == 1
        until(lambda: len(entered) == gatherer.health["graph"].in_flight == 3)
    finally:
        hang.set()


def test_7_a_cancellation_raised_by_a_source_passes_through_and_leaves_no_task():
    async def once():
        class Cancelled:
            async def asearch(self, query, limit, upstream):
                raise asyncio.CancelledError

        class Sibling:
            cancelled = False

            async def asearch(self, query, limit, upstream):
                try:
                    await asyncio.sleep(30)
                finally:
                    self.cancelled = True

        sibling = Sibling()
        gatherer = Gatherer(dict.fromkeys(["graph", "vector"], SourceSettings()))
        with pytest.raises(asyncio.CancelledError):
            await gatherer.agather({"graph": Cancelled(), "vector": sibling}, "who?")
        assert sibling.cancelled
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(once())


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError])
def test_8_an_interrupt_is_never_swallowed(kind):
    def fn(query, limit):
        raise kind

    with pytest.raises(kind):
        both({**healthy("vector"), "graph": CallableSource("graph", fn)})


@pytest.mark.parametrize(
    "value",
    [None, 7, "text", b"bytes", {"a": 1.0}, [("a",)], [("a", 1, 2)], ["ab"], [None]],
)
def test_9_11_what_is_not_a_ranking_is_an_error_that_says_what_came(value):
    found = both({**healthy("vector"), **returning("graph", value)})
    assert re.match("a (source must return a Ranking or|hit must be a) .*pairs?.*; got", report(found, "graph").reason)
    assert report(found, "graph").error_class == "MalformedAnswerError"
    assert content(found) == content(both(healthy("vector")))


@pytest.mark.parametrize("identifier", [3, "", None])
def test_28_a_hit_without_a_usable_id_is_dropped_and_counted(identifier):
    fn = CallableSource("graph", lambda query, limit: [(identifier, 1.0), ("a", 0.5)])
    found = both({**healthy("vector"), "graph": fn})
    assert report(found, "graph").dropped == 1
    assert next(one for one in found.rankings if one.source == "graph").ids == ("a",)


@pytest.mark.parametrize("kind", sorted(HARMLESS))
@pytest.mark.parametrize("struck", sorted(HITS))
def test_12_to_16_21_25_an_unusable_hit_is_as_if_it_had_never_come(kind, struck):
    sources = healthy()
    sources[struck] = FaultySource(sources[struck], struck, FaultPlan(1.0, [kind]))
    found = both(sources)
    assert content(found) == content(both(healthy()))
    assert report(found, struck).dropped == (0 if kind in ("duplicates", "reversed") else 1)
    assert not found.degraded


@pytest.mark.filterwarnings("ignore:source 'graph' returns hits without a usable score")
def test_12_20_a_source_without_one_usable_score_is_seen_to_be_degraded():
    found = both({**healthy("vector"), **returning("graph", [("a", float("nan")), ("b", float("nan"))])})
    assert content(found) == content(both(healthy("vector")))
    assert (report(found, "graph").status, report(found, "graph").dropped) == ("partial", 2)
    assert found.degraded


def test_14_scores_that_are_all_missing_leave_an_order():
    found = both(returning("graph", [("b", None), ("a", None)]))
    assert (found.rankings[0].ids, found.rankings[0].rank_only) == (("b", "a"), True)


@pytest.mark.parametrize("score", [Decimal("0.5"), np.float32(0.5), np.float64(0.5), np.array(0.5), 1])
def test_15_numbers_of_other_kinds_are_numbers(score):
    assert both(returning("graph", [("a", score)])).rankings[0].scores[0] == float(score)


def test_17_to_19_equal_single_and_negative_scores_are_ordinary():
    found = both(
        {
            **returning("graph", [("b", 2.0), ("a", 2.0)]),
            **returning("bm25", [("x", -3.0)]),
            **returning("vector", [("p", -9.0), ("q", -1.0)]),
        }
    )
    assert [one.ids for one in found.rankings] == [("x",), ("a", "b"), ("q", "p")]


def test_46_a_gatherer_within_itself_is_an_error():
    gatherer = Gatherer({"vector": SourceSettings(on_error="raise")})

    class Itself:
        def search(self, query, limit, upstream):
            return gatherer.gather({"vector": self}, query).rankings[0]

    with pytest.raises(InvalidInputError, match="contains itself"):
        gatherer.gather({"vector": Itself()}, "who?")


def test_47_a_sync_call_works_inside_a_running_loop():
    class Native:
        async def asearch(self, query, limit, upstream):
            return Ranking("graph", ["a"], [1.0])

    async def once():
        gatherer = Gatherer(dict.fromkeys(["graph", "vector"], SourceSettings()))
        return gatherer.gather({"graph": Native(), **healthy("vector")}, "who?")

    assert [one.source for one in asyncio.run(once()).rankings] == ["graph", "vector"]


def test_48_one_gatherer_serves_one_loop_after_another_and_two_at_once():
    gatherer = Gatherer(dict.fromkeys(HITS, SourceSettings()))
    expected = content(gatherer.gather(healthy(), "who?"))
    for _ in range(3):
        assert content(asyncio.run(gatherer.agather(healthy(), "who?"))) == expected
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda _: content(asyncio.run(gatherer.agather(healthy(), "who?"))), range(20)))
    assert found == [expected] * 20


def test_49_a_hundred_threads_get_the_same():
    gatherer = Gatherer(dict.fromkeys(HITS, SourceSettings()), strict=True)
    expected = content(gatherer.gather(healthy(), "who?"))
    together = threading.Barrier(100, timeout=30)

    def ask(_):
        together.wait()
        return [content(gatherer.gather(healthy(), "who?")) for _ in range(5)]

    with ThreadPoolExecutor(100) as threads:
        assert list(threads.map(ask, range(100))) == [[expected] * 5] * 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_50_a_forked_child_asks_with_workers_of_its_own():
    gatherer = Gatherer(dict.fromkeys(HITS, SourceSettings()), timeout=5.0, strict=True)
    sources = healthy()
    expected = content(gatherer.gather(sources, "who?"))
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if content(gatherer.gather(sources, "who?")) == expected else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_51_sources_changed_during_the_call_do_not_change_it():
    sources = {}

    def meddle(query, limit):
        sources.pop("vector", None)
        sources["bm25"] = None
        return HITS["graph"]

    sources.update({**healthy("vector"), "graph": CallableSource("graph", meddle)})
    gatherer = Gatherer(dict.fromkeys(HITS, SourceSettings()))
    assert [one.source for one in gatherer.gather(sources, "who?").rankings] == ["graph", "vector"]


def test_52_what_a_source_keeps_and_returns_again_is_not_changed():
    kept = [("b", 0.5), ("a", 0.9), ("c", float("nan"))]
    ranking = Ranking("vector", ["a"], [1.0])
    sources = {**returning("graph", kept), **returning("vector", ranking)}
    assert content(both(sources)) == content(both(sources))
    assert repr(kept) == repr([("b", 0.5), ("a", 0.9), ("c", float("nan"))])
    assert both(sources).rankings[1] is ranking


@pytest.mark.parametrize("seed", range(3))
def test_the_oracle_holds_for_any_mixture_of_faults(seed):
    kinds = [*FAILING, *HARMLESS, "empty"]
    plans = {name: FaultPlan(0.3, kinds, seed) for name in HITS}
    gatherer = Gatherer(dict.fromkeys(HITS, SourceSettings(circuit_breaker=None)))
    sources = {name: FaultySource(one, name, plans[name]) for name, one in healthy().items()}
    for number in range(150):
        query = f"question {number}"
        struck = {name: plans[name].strikes(name, query) for name in HITS}
        gone = sorted(name for name, kind in struck.items() if kind in FAILING)
        left = [name for name, kind in struck.items() if kind not in FAILING and kind != "empty"]
        if len(gone) == len(HITS):
            with pytest.raises(AllSourcesFailed):
                gatherer.gather(sources, query)
            continue
        found = gatherer.gather(sources, query)
        assert content(found) == (content(gatherer.gather(healthy(*left), query)) if left else [])
        assert [one.source for one in found.reports if one.degraded] == gone
