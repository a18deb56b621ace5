"""A source that wants another's ranking first. Each test runs sync and async."""

from __future__ import annotations

import time

import pytest

from phasegraph.errors import DegradedError
from phasegraph.ranking import Ranking
from phasegraph.sources import Gatherer, SourceSettings


def test_a_need_is_handed_over_when_it_has_settled(ask, slow):
    seen = {}

    class Walk:
        def search(self, query, limit, given):
            seen.update(given)
            return Ranking("walk", ["w"], [1.0])

    gatherer = Gatherer({"vector": SourceSettings(), "walk": SourceSettings(needs=("vector",))})
    found = ask(gatherer, {"vector": slow("vector", 0.03), "walk": Walk()}, "who?")
    assert seen["vector"] is found.rankings[0]
    assert found.reports[1].without == ()
    assert not found.degraded


@pytest.mark.parametrize("why", ["failed", "absent", "empty", "late"])
def test_a_need_that_cannot_be_had_is_none_whatever_the_reason(ask, held, why, source):
    seen = []

    class Walk:
        def search(self, query, limit, given):
            seen.append(dict(given))
            return Ranking("walk", ["w"], [1.0])

    vectors = {
        "failed": {"held": source("held", lambda query, limit: 1 / 0)},
        "absent": {},
        "empty": {"held": source("held", lambda query, limit: [])},
        "late": {"held": held},
    }[why]
    gatherer = Gatherer({"held": SourceSettings(), "walk": SourceSettings(needs=("held",))}, deadline=0.2)
    found = ask(gatherer, {**vectors, "walk": Walk()}, "who?")
    assert seen == [{"held": None}]
    assert found.reports[-1].without == ("held",)
    assert found.reports[-1].status == "ok"


def test_a_need_that_comes_after_half_of_the_deadline_is_still_fused(ask, statuses, slow):
    class Walk:
        def search(self, query, limit, given):
            time.sleep(0.4)
            return Ranking("walk", ["w"], [1.0])

    gatherer = Gatherer({"vector": SourceSettings(), "walk": SourceSettings(needs=("vector",))}, deadline=1.0)
    found = ask(gatherer, {"vector": slow("vector", 0.6), "walk": Walk()}, "who?")
    assert statuses(found) == {"vector": "ok", "walk": "ok"}
    assert found.reports[1].without == ("vector",)
    assert found.degraded
    with pytest.raises(DegradedError, match="walk: ran without vector"):
        ask(
            Gatherer(gatherer.settings, deadline=1.0, strict=True), {"vector": slow("vector", 0.6), "walk": Walk()}, "w"
        )


def test_needs_may_form_a_chain_and_a_deadline_counts_from_the_start_of_the_search(ask, slow):
    class Next:
        def __init__(self, name, need):
            self.name, self.need = name, need

        def search(self, query, limit, given):
            return Ranking(self.name, [*given[self.need].ids, self.name], [2.0, 1.0][: len(given[self.need]) + 1])

    gatherer = Gatherer(
        {
            "a": SourceSettings(needs=("b",), deadline=0.5),
            "b": SourceSettings(needs=("c",), deadline=0.5),
            "c": SourceSettings(),
        },
        deadline=20.0,
    )

    class B(Next):
        def search(self, query, limit, given):
            assert given["c"].ids == ("c",)
            return Ranking("b", ["b"], [1.0])

    found = ask(gatherer, {"c": slow("c", 0.6), "b": B("b", "c"), "a": Next("a", "b")}, "who?")
    assert [ranking.ids for ranking in found.rankings] == [("b", "a"), ("b",), ("c",)]


def test_a_dependent_that_hangs_is_given_up_at_its_own_deadline(ask, held, statuses, source, slack):
    gatherer = Gatherer({"v": SourceSettings(), "held": SourceSettings(needs=("v",), deadline=0.05)}, deadline=30.0)
    start = time.monotonic()
    found = ask(gatherer, {"v": source("v"), "held": held}, "who?")
    assert time.monotonic() - start < slack
    assert statuses(found) == {"held": "timeout", "v": "ok"}
