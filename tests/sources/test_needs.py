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
        def search(self, query, limit, upstream):
            seen.update(upstream)
            return Ranking("walk", ["w"], [1.0])

    gatherer = Gatherer({"vector": SourceSettings(), "walk": SourceSettings(depends_on=("vector",))})
    found = ask(gatherer, {"vector": slow("vector", 0.03), "walk": Walk()}, "who?")
    assert seen["vector"] is found.rankings[0]
    assert found.reports[1].missing == ()
    assert not found.degraded


@pytest.mark.parametrize("why", ["failed", "absent", "empty", "late"])
def test_a_need_that_cannot_be_had_is_none_whatever_the_reason(ask, held, why, source):
    seen = []

    class Walk:
        def search(self, query, limit, upstream):
            seen.append(dict(upstream))
            return Ranking("walk", ["w"], [1.0])

    vectors = {
        "failed": {"held": source("held", lambda query, limit: 1 / 0)},
        "absent": {},
        "empty": {"held": source("held", lambda query, limit: [])},
        "late": {"held": held},
    }[why]
    gatherer = Gatherer({"held": SourceSettings(), "walk": SourceSettings(depends_on=("held",))}, timeout=0.2)
    found = ask(gatherer, {**vectors, "walk": Walk()}, "who?")
    assert seen == [{"held": None}]
    assert found.reports[-1].missing == ("held",)
    assert found.reports[-1].status == "ok"


def test_a_need_that_comes_after_half_of_the_deadline_is_still_fused(ask, statuses, slow):
    class Walk:
        def search(self, query, limit, upstream):
            time.sleep(0.4)
            return Ranking("walk", ["w"], [1.0])

    gatherer = Gatherer({"vector": SourceSettings(), "walk": SourceSettings(depends_on=("vector",))}, timeout=1.0)
    found = ask(gatherer, {"vector": slow("vector", 0.6), "walk": Walk()}, "who?")
    assert statuses(found) == {"vector": "ok", "walk": "ok"}
    assert found.reports[1].missing == ("vector",)
    assert found.degraded
    with pytest.raises(DegradedError, match="walk: ran without vector"):
        ask(Gatherer(gatherer.settings, timeout=1.0, strict=True), {"vector": slow("vector", 0.6), "walk": Walk()}, "w")


def test_needs_may_form_a_chain_and_a_deadline_counts_from_the_start_of_the_search(ask, slow):
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
        timeout=20.0,
    )

    class B(Next):
        def search(self, query, limit, upstream):
            assert upstream["c"].ids == ("c",)
            return Ranking("b", ["b"], [1.0])

    found = ask(gatherer, {"c": slow("c", 0.6), "b": B("b", "c"), "a": Next("a", "b")}, "who?")
    assert [ranking.ids for ranking in found.rankings] == [("b", "a"), ("b",), ("c",)]


def test_a_dependent_that_hangs_is_given_up_at_its_own_deadline(ask, held, statuses, source, slack):
    gatherer = Gatherer({"v": SourceSettings(), "held": SourceSettings(depends_on=("v",), timeout=0.05)}, timeout=30.0)
    start = time.monotonic()
    found = ask(gatherer, {"v": source("v"), "held": held}, "who?")
    assert time.monotonic() - start < slack
    assert statuses(found) == {"held": "timeout", "v": "ok"}
