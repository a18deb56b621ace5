"""The laws where numbers and texts are at their limits: denormals, the largest floats, any script, strings of marks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from strategies import extreme_rankings

from phasegraph import FusionPipeline, Ranking
from phasegraph.testing.laws import LAWS


@pytest.mark.parametrize("law", sorted(LAWS))
def test_a_law_holds_at_the_limits_of_floats_and_in_any_script(law: str) -> None:
    @settings(max_examples=100, deadline=None, derandomize=True, database=None)
    @given(extreme_rankings(minimum=2))
    def check(found: list[Ranking]) -> None:
        LAWS[law](FusionPipeline(), found)

    check()
