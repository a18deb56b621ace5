"""A source that wants another's ranking first. Each test runs sync and async."""

from __future__ import annotations

import threading

import pytest

from phasegraph.errors import DegradedError
from phasegraph.ranking import Ranking
from phasegraph.sources import Gatherer, SourceSettings


def test_a_need_is_handed_over_when_it_has_settled(ask, takes, clock):
    seen = {}

    class Walk:
        def search(self, query, limit, upstream):
            seen.update(upstream)
            return Ranking("walk", ["w"], [1.0])

    settings = {"vector": SourceSettings(), "walk": SourceSettings(depends_on=("vector",))}
    found = ask(Gatherer(settings, timeout=1.0, clock=clock), {"vector": takes("vector", 0.25), "walk": Walk()}, "who?")
    assert seen["vector"] is found.rankings[0]
    assert found.reports[1].missing == ()
    assert not found.degraded


@pytest.mark.parametrize("why", ["failed", "absent", "empty", "late"])
def test_a_need_that_cannot_be_had_is_none_whatever_the_reason(ask, hang, why, source, until, clock):
    seen = []

    def late(query, limit):
        clock.advance(0.5)
        until(lambda: seen)
        hang.function(0.5)()

    class Walk:
        def search(self, query, limit, upstream):
            seen.append(dict(upstream))
            return Ranking("walk", ["w"], [1.0])

    vectors = {
        "failed": {"held": source("held", lambda query, limit: 1 / 0)},
        "absent": {},
        "empty": {"held": source("held", lambda query, limit: [])},
        "late": {"held": source("held", late)},
    }[why]
    settings = {"held": SourceSettings(), "walk": SourceSettings(depends_on=("held",))}
    gatherer = Gatherer(settings, timeout=1.0, clock=clock)
    found = ask(gatherer, {**vectors, "walk": Walk()}, "who?")
    assert seen == [{"held": None}]
    assert found.reports[-1].missing == ("held",)
    assert found.reports[-1].status == "ok"


@pytest.mark.parametrize("strict", [False, True])
def test_a_need_that_comes_after_half_of_the_deadline_is_still_fused(ask, statuses, source, hang, until, clock, strict):
    walking = threading.Event()

    def vector(query, limit):
        clock.advance(0.5)
        walking.wait()
        clock.advance(0.125)
        return [("v", 1.0)]

    class Walk:
        def search(self, query, limit, upstream):
            walking.set()
            until(lambda: hang.jobs == 1)  # the vectors have come
            clock.advance(0.25)
            return Ranking("walk", ["w"], [1.0])

    settings = {"vector": SourceSettings(), "walk": SourceSettings(depends_on=("vector",))}
    gatherer = Gatherer(settings, timeout=1.0, strict=strict, clock=clock)
    sources = {"vector": source("vector", vector), "walk": Walk()}
    if strict:
        with pytest.raises(DegradedError, match="walk: ran without vector"):
            ask(gatherer, sources, "who?")
        return
    found = ask(gatherer, sources, "who?")
    assert statuses(found) == {"vector": "ok", "walk": "ok"}
    assert found.reports[1].missing == ("vector",)
    assert found.degraded


def test_needs_may_form_a_chain_and_a_deadline_counts_from_the_start_of_the_search(ask, takes, clock):
    class Next:
        def __init__(self, name, need):
            self.name, self.need = name, need

        def search(self, query, limit, upstream):
            return Ranking(self.name, [*upstream[self.need].ids, self.name], [2.0, 1.0][: len(upstream[self.need]) + 1])

    gatherer = Gatherer(
        {
            "a": SourceSettings(depends_on=("b",), timeout=0.5),
            "b": SourceSettings(depends_on=("c",), timeout=0.5),
            "c": SourceSettings(),
        },
        timeout=8.0,
        clock=clock,
    )

    class B(Next):
        def search(self, query, limit, upstream):
            assert upstream["c"].ids == ("c",)
            return Ranking("b", ["b"], [1.0])

    found = ask(gatherer, {"c": takes("c", 0.75), "b": B("b", "c"), "a": Next("a", "b")}, "who?")
    assert [ranking.ids for ranking in found.rankings] == [("b", "a"), ("b",), ("c",)]


def test_a_dependent_that_hangs_is_given_up_at_its_own_deadline(ask, hang, takes, statuses, source, clock):
    settings = {"v": SourceSettings(), "held": SourceSettings(depends_on=("v",), timeout=0.5)}
    gatherer = Gatherer(settings, timeout=30.0, clock=clock)
    found = ask(gatherer, {"v": takes("v", 0.25), "held": source("held", hang.function(0.5))}, "who?")
    assert statuses(found) == {"held": "timeout", "v": "ok"}
    assert clock.now() == 0.75
