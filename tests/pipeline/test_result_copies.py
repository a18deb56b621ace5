"""An answer is handed to another process as it is."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phasegraph import Background, FusionPipeline, Ranking
from phasegraph.fusion.context import Context
from phasegraph.graph import EntityGraph, GraphSource, build_graph
from phasegraph.result import Result

COPIES = [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy]  # noqa: S301 - our own bytes
PASSAGES = [
    {"id": "a", "title": "Ada", "text": "Ada met Bo."},
    {"id": "b", "title": "Bo", "text": "Bo sang in Paris."},
    {"id": "c", "title": "Paris", "text": "Paris is a city."},
]


def _graph() -> EntityGraph:
    return build_graph(PASSAGES, embeddings=np.eye(3, 4))


def _answer() -> Result:
    graph = GraphSource(_graph()).search("Who met Bo?", 10, {})
    vector = Ranking("vector", ["a", "b"], [0.9, 0.2], background=Background(0.1, 0.1))
    return FusionPipeline().decide([vector, graph], Context(query="Who met Bo?"), k=3)


@pytest.mark.parametrize("again", COPIES)
def test_a_result_comes_back_with_its_evidence(again: Callable[[Any], Any]) -> None:
    given = _answer()
    found = again(given)
    assert (found.ids, found.scores.tobytes(), found.fused.tobytes()) == (
        given.ids, given.scores.tobytes(), given.fused.tobytes()
    )  # fmt: skip
    assert [found.evidence(name) for name in given.ids] == [given.evidence(name) for name in given.ids]
    assert found.evidence("a") == again(given.evidence("a"))
    for name in ("reports", "agreement", "degraded", "reason", "warnings", "confidence", "confidence_evidence"):
        assert getattr(found, name) == getattr(given, name), name
    for array in (found.scores, found.fused, found.contributions, found.calibrated):
        assert not array.flags.writeable
