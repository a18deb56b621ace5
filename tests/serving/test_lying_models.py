"""A model that embeds otherwise than before: its source is lost to the answer and reported, and the others answer."""

from __future__ import annotations

import numpy as np
import pytest
from tests.serving.conftest import embed

from phasegraph.apps.server.view import View

LIES = {
    "fewer dimensions": lambda query: embed(query)[:5],
    "more dimensions": lambda query: np.concatenate([embed(query)] * 2),
    "a matrix": lambda query: embed(query)[None, :],
    "NaN": lambda query: np.full(26, np.nan),
    "one NaN": lambda query: np.where(np.arange(26) == 3, np.nan, embed(query)),
    "infinity": lambda query: np.full(26, np.inf),
    "no numbers": lambda query: ["a"] * 26,
    "nothing": lambda query: None,
}


@pytest.mark.parametrize("lie", sorted(LIES))
def test_a_model_that_lies_from_its_second_call_costs_its_own_source_alone(index, lie):
    calls = []

    def model(query):
        calls.append(query)
        return embed(query) if len(calls) == 1 else LIES[lie](query)

    view = View(index, model, only={"team": "red"}, timeout=None)
    assert not view.search("Who met the keeper in Oslo?")["degraded"]
    found = view.explain("Who met the keeper in Rome?")
    assert found["degraded"]
    assert {one["source"] for one in found["sources"] if one["status"] == "error"} >= {"vector"}
    assert found["passages"]
    assert all(one["id"].startswith("red-") for one in found["passages"])
    assert all(np.isfinite(one["score"]) for one in found["passages"])
