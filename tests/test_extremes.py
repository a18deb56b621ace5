"""Scores of any size, denormals and the largest floats among them: what comes of them is finite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from repeats import repeats

from phasegraph import Background, FusionPipeline, InvalidInputError, ListCalibrator, PhasegraphError, Ranking, Result
from phasegraph._support.numbers import moderate
from phasegraph.calibration import fit_reference_ecdf
from phasegraph.calibration.per_list import LIST_CALIBRATORS
from phasegraph.fusion import FUSION_RULES
from phasegraph.fusion.context import Context
from phasegraph.fusion.pipeline import PIPELINE_NAMES
from phasegraph.fusion.weighting import adaptive_weights, effective_number

LARGEST = 1.7976931348623157e308
EDGES = [0.0, 5e-324, 1e-323, 2.2e-308, 1e-300, 1e-160, 1e-16, 0.5, 1.0, 1e16, 1e154, 1e160, 1e300, 1e308, LARGEST]
number = st.sampled_from([*EDGES, *(-one for one in EDGES)]) | st.floats(allow_nan=False, allow_infinity=False)
positive = number.map(abs).filter(bool)
unicode_id = st.text(min_size=1, max_size=4) | st.text("\u0301\u0308\u20dd", min_size=1, max_size=8)


@st.composite
def extreme_rankings(draw: st.DrawFn) -> list[Ranking]:
    """One to three rankings of any ids, scores and backgrounds there can be."""
    shared = draw(st.lists(unicode_id, min_size=1, max_size=25, unique=True))
    out = []
    for name in draw(st.lists(st.sampled_from(["vector", "graph", "bm25"]), min_size=1, max_size=3, unique=True)):
        ids = draw(st.lists(st.sampled_from(shared), min_size=1, unique=True))
        few = draw(st.lists(number, min_size=1, max_size=4))
        scores = [draw(st.sampled_from(few)) for _ in ids]
        background = None
        if draw(st.booleans()):
            kind: Any = draw(st.sampled_from(["identity", "log"]))
            background = Background(draw(number), draw(positive), kind, draw(positive))
        size = draw(st.none() | st.integers(1, 10**12))
        out.append(Ranking(name, ids, np.array(scores), background=background, size=size))
    return out


def check(values: Any, low: float = -np.inf, high: float = np.inf) -> None:
    array = np.asarray(values, dtype=np.float64)
    assert np.isfinite(array).all(), array
    assert ((array >= low) & (array <= high)).all(), array


@given(extreme_rankings())
@settings(max_examples=repeats(30, 10))
def test_everything_a_result_says_is_finite(given: Sequence[Ranking]) -> None:
    for name in PIPELINE_NAMES:
        note(f"pipeline {name}")
        try:
            result = FusionPipeline.named(name, None).decide(given, Context(query="q"))
        except PhasegraphError:
            continue  # a rule that cannot take such scores says so
        everything_is_finite(result)


def everything_is_finite(result: Result) -> None:
    check(result.scores, 0, 1)
    for key in ("fused", "contributions", "calibrated", "weights", "bonuses", "priors"):
        check(getattr(result, key))
    check(list(result.agreement.values()), 0, 1)
    if result.confidence is not None:
        check(result.confidence, 0, 1)
    check([one for one in asdict(result.confidence_evidence).values() if isinstance(one, float)])
    for identifier in result.ids:
        evidence = result.evidence(identifier)
        check([evidence.score, evidence.fused, evidence.bonus, evidence.prior])
        for one in evidence.sources:
            check([value for value in (one.rank, one.raw, one.score, one.calibrated, one.weight) if value is not None])


@given(extreme_rankings())
@settings(max_examples=repeats(100, 25))
def test_adaptive_weights_are_shares_whatever_the_scores(given: Sequence[Ranking]) -> None:
    weights = adaptive_weights(given)
    check(weights, 0, 1)
    assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    "masses", [[5e-324] * 3, [1e308] * 20, [LARGEST, 5e-324], [1e-323, 5e-324, 0.0], [LARGEST, -LARGEST]]
)
@pytest.mark.parametrize("location", [0.0, -8.0, LARGEST, -LARGEST, 5e-324])
def test_the_effective_number_of_any_masses_is_between_1_and_20(masses: list[float], location: float) -> None:
    for kind in ("identity", "log"):
        background = Background(location, 1.0, kind, 1e-4)
        ids = [f"p{row}" for row in range(len(masses))]
        found = effective_number(Ranking("graph", ids, np.array(masses), background=background))
        check(found, 1 - 1e-12, 20 + 1e-9)


@given(st.lists(number, min_size=1, max_size=12))
def test_a_list_normalised_by_itself_is_finite(scores: list[float]) -> None:
    ids = [f"p{row}" for row in range(len(scores))]
    for name in LIST_CALIBRATORS:
        note(f"calibrator {name}")
        calibrator = ListCalibrator(name, {"infimum": -LARGEST} if name == "theoretical_min_max" else {})
        try:
            found = calibrator(Ranking("v", ids, np.array(scores)))
        except InvalidInputError:
            continue
        check(found.values)
        check(found.missing)
        if calibrator.bounded:
            check(found.values, 0, 1)


@given(st.lists(st.tuples(number, number), min_size=1, max_size=8), st.tuples(positive, positive))
@settings(max_examples=repeats(30, 10))
def test_a_rule_gives_finite_values_or_says_why_not(
    values: list[tuple[float, float]], weights: tuple[float, float]
) -> None:
    scaled = np.array(weights) / max(weights)
    for name, rule in sorted(FUSION_RULES.items()):
        note(f"rule {name}")
        with np.errstate(all="ignore"):
            try:
                found = rule.function(np.array(values) / LARGEST, weights=scaled, missing=np.zeros(2))
            except InvalidInputError:
                continue
        check(found)


@given(st.lists(number, min_size=20, max_size=40), number)
def test_a_reference_of_any_scores_gives_percentiles(sample: list[float], asked: float) -> None:
    for normal in (False, True):
        try:
            fitted = fit_reference_ecdf(np.array(sample), normal_scores=normal)
        except InvalidInputError:
            return
        found = fitted(Ranking("v", ["a", "b"], np.array([asked, sample[0]])))
        check(found.values, *((-np.inf, np.inf) if normal else (0, 1)))
        check(found.missing)


@given(st.lists(number, min_size=1, max_size=8))
def test_moderating_changes_no_ratio(values: list[float]) -> None:
    array = np.array(values)
    found = moderate(array)
    check(found**2)
    held = np.abs(array) > 1e-300  # what is far below the largest may vanish
    largest = float(np.abs(array).max())
    if 1e-100 < largest < 1e100:
        assert found is array
    elif largest:
        assert ((np.sign(found) == np.sign(array)) | ~held | (np.abs(array) < largest * 1e-290)).all()
