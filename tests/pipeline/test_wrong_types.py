"""What is of the wrong type is refused by an error of ours that names the field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phasegraph import Background, Context, FusionPipeline, InvalidInputError, Ranking, fit_reference_ecdf
from phasegraph.acceptance import AcceptancePolicy, JudgedScores, fit_threshold, sscc_threshold
from phasegraph.selection import SelectionPolicy

ONE = Ranking("v", ["a", "b", "c"], [0.9, 0.5, 0.1])
JUDGED = JudgedScores([0.9, 0.5, 0.1, 0.05], [1, 1, 0, 0])
PLAIN: Any = FusionPipeline()


def _on_empty(answer: object) -> object:
    policy = AcceptancePolicy({"v": 2.0}, on_empty=lambda found, scores: answer)  # type: ignore[arg-type, return-value]
    return FusionPipeline(accept=policy).decide([ONE])


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: PLAIN.decide(one for one in [ONE]), "rankings"),
        (lambda: PLAIN.decide(None), "rankings"),
        (lambda: PLAIN.decide(ONE), "rankings"),
        (lambda: PLAIN.decide([ONE], "who?"), "context"),
        (lambda: Background("x", 1), "location"),  # type: ignore[arg-type]
        (lambda: Background(0.0, True), "scale"),
        (lambda: fit_reference_ecdf(["a"] * 30), "samples"),  # type: ignore[list-item]
        (lambda: SelectionPolicy().select(np.ones(2), [[1.0], [1.0, 2.0]], 1), "embeddings"),  # type: ignore[arg-type]
        (lambda: SelectionPolicy("top").select(["a", "b"], None, 1), "relevance"),  # type: ignore[arg-type]
        (lambda: JudgedScores(["a"], [1]), "JudgedScores.scores"),  # type: ignore[list-item]
        (lambda: sscc_threshold("x", 1.0, bi_encoder=True), "tau_0"),  # type: ignore[arg-type]
        (lambda: fit_threshold(JUDGED, objective="recall", target="x"), "target"),  # type: ignore[arg-type]
        (lambda: AcceptancePolicy({1: 0.5}), "thresholds"),  # type: ignore[dict-item]
        (lambda: _on_empty(None), "on_empty"),
        (lambda: _on_empty("a"), "on_empty"),
    ],
)
def test_what_is_of_the_wrong_type_is_named(call: Callable[[], object], field: str) -> None:
    with pytest.raises(InvalidInputError, match=field):
        call()


def test_a_tuple_of_rankings_and_a_context_are_taken() -> None:
    assert FusionPipeline().decide((ONE,), Context(query="who?")).ids == ("a", "b", "c")
    assert _on_empty(("a",)).ids == ("a",)  # type: ignore[attr-defined]
