"""Injected faults: repeatable, as frequent as asked, and only of the kinds asked for."""

from __future__ import annotations

import pytest

from phasegraph.errors import InvalidInputError
from phasegraph.testing import FAULTS, FaultPlan, FaultySource, InjectedError


def test_a_plan_strikes_the_same_queries_every_time_and_others_with_another_seed():
    plans = [FaultPlan(0.5, seed=seed) for seed in (1, 1, 2)]
    struck = [[plan.strikes("vector", f"q{number}") for number in range(200)] for plan in plans]
    assert struck[0] == struck[1] != struck[2]


def test_a_plan_strikes_as_often_as_asked_and_every_kind():
    plan = FaultPlan(0.2)
    struck = [plan.strikes("vector", f"q{number}") for number in range(5000)]
    kinds = [kind for kind in struck if kind]
    assert 0.18 < len(kinds) / 5000 < 0.22  # five standard errors are .028
    assert set(kinds) == set(FAULTS)


@pytest.mark.parametrize(
    "options", [{"rate": -0.1}, {"rate": 1.1}, {"rate": 0.1, "kinds": ["typo"]}, {"rate": 0.1, "kinds": []}]
)
def test_a_plan_outside_its_range_is_an_error(options):
    with pytest.raises(InvalidInputError, match="FaultPlan"):
        FaultPlan(**options)


def test_a_source_that_is_not_struck_answers_as_the_one_it_wraps(source):
    healthy = source("s")
    wrapped = FaultySource(healthy, "s", FaultPlan(0.0))
    assert wrapped.search("who?", 5, {}).ids == healthy.search("who?", 5, {}).ids
    with pytest.raises(InjectedError):
        FaultySource(healthy, "s", FaultPlan(1.0, ["raise"])).search("who?", 5, {})
