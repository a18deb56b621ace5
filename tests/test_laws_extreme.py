"""The laws where numbers and texts are at their limits: denormals, the largest floats, any script, strings of marks."""

from __future__ import annotations

import numpy as np
from hypothesis import given, note, settings
from repeats import repeats
from strategies import extreme_rankings

from phasegraph import FusionPipeline, Ranking
from phasegraph.fusion.decide import publish
from phasegraph.testing.laws import LAWS


@settings(max_examples=repeats(100, 25), deadline=None, derandomize=True, database=None)
@given(extreme_rankings(minimum=2))
def test_every_law_holds_at_the_limits_of_floats_and_in_any_script(found: list[Ranking]) -> None:
    for law in sorted(LAWS):
        note(law)
        LAWS[law](FusionPipeline(), found)


def test_published_scores_fall_wherever_fused_values_fall_by_one_unit_in_the_last_place():
    for start in (3.8087885444852114, -2.5, 0.3, 1e-9, -1e-9, 11.9):
        values = start + np.spacing(start) * np.arange(2000)
        assert (np.diff(publish(values)) * np.sign(np.diff(values)) >= 0).all(), start
    assert publish(np.array([-1.0, 0.0, 1.0])).tolist() == [0.25, 0.5, 0.75]


def test_scores_descend_where_fused_values_differ_by_one_unit():
    ids = ("A", "a", "b", "c", "d", "e", "f", "g", "h")
    one = Ranking("bm25", ids, np.array([0.0] * 8 + [-1.0]))
    other = Ranking("graph", ("x", "y", *ids, "z"), np.array([2.3e-308, 5e-324] + [0.0] * 10))
    LAWS["bounded"](FusionPipeline(weighting="equal"), [one, other])
