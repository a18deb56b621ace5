from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

from phasegraph.acceptance import JudgedScores, Threshold, check_drift, fit_threshold, revoke_on_drift
from phasegraph.errors import DegradedError, InsufficientDataError, InvalidInputError, PhasegraphWarning


def _draw(rng: np.random.Generator, queries: int, shift: float = 0.0, share: float = 0.35):
    names = np.repeat(np.arange(queries), 10)
    labels = rng.random(len(names)) < np.repeat(rng.beta(4 * share, 4 * (1 - share), size=queries), 10)
    scores = 0.15 * rng.normal(size=len(names)) + 0.2 * labels + shift
    return scores, names, labels


def _fitted(rng: np.random.Generator) -> Threshold:
    scores, names, labels = _draw(rng, 200)
    return fit_threshold(JudgedScores(scores, labels, names))


def test_the_same_queries_again_never_drift_and_a_false_alarm_is_rare() -> None:
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(200):
        threshold = _fitted(rng)
        scores, names, labels = _draw(rng, 100)
        alarms += check_drift(threshold, scores, names, labels=labels, level=0.05).drifted
    assert alarms <= 20  # 5 % of 200 is 10; 20 is three deviations above


def test_a_shift_of_a_third_of_a_deviation_is_seen() -> None:
    rng = np.random.default_rng(1)
    threshold = _fitted(rng)
    scores, names, _ = _draw(rng, 200, shift=0.05)
    report = check_drift(threshold, scores, names)
    assert report.drifted
    assert min(report.p_values.values()) < 0.01 / 2
    assert "drifted on 200 new queries against 200" in report.sentence


def test_a_fall_of_prevalence_is_seen_with_labels() -> None:
    rng = np.random.default_rng(2)
    threshold = _fitted(rng)
    scores, names, labels = _draw(rng, 200, share=0.15)
    assert check_drift(threshold, scores, names, labels=labels).p_values["prevalence"] < 0.001


def test_drift_revokes_loudly() -> None:
    rng = np.random.default_rng(3)
    threshold = Threshold(0.1, promise="Few are wrong.", reference=_fitted(rng).reference)
    scores, names, _ = _draw(rng, 200, shift=0.2)
    with pytest.warns(PhasegraphWarning, match="revoked"):
        revoked = revoke_on_drift(threshold, scores, names)
    assert not revoked.certified
    assert "p = " in revoked.revoked
    with pytest.raises(DegradedError, match="revoked"):
        revoke_on_drift(threshold, scores, names, strict=True)


def test_no_drift_leaves_the_threshold_alone_and_says_nothing() -> None:
    rng = np.random.default_rng(4)
    threshold = _fitted(rng)
    scores, names, _ = _draw(rng, 60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert revoke_on_drift(threshold, scores, names, level=1e-6) is threshold


def test_input_that_cannot_be_tested_is_refused() -> None:
    threshold = _fitted(np.random.default_rng(5))
    with pytest.raises(InvalidInputError, match="fitted to judged hits"):
        check_drift(Threshold(0.3), [0.1], ["a"])
    with pytest.raises(InsufficientDataError, match="at least 8"):
        check_drift(threshold, [0.1, 0.2], ["a", "b"])
    with pytest.raises(InvalidInputError, match="finite"):
        check_drift(threshold, [np.nan] * 9, range(9))
    with pytest.raises(InvalidInputError, match="queries must name one query for each score"):
        check_drift(threshold, [0.1] * 9, range(8))
    with pytest.raises(InvalidInputError, match="labels"):
        check_drift(threshold, [0.1] * 9, range(9), labels=[2] * 9)
    with pytest.raises(InvalidInputError, match="level"):
        check_drift(threshold, [0.1] * 9, range(9), level=0.0)


def test_the_test_statistic_agrees_with_scipy() -> None:
    rng = np.random.default_rng(6)
    threshold = _fitted(rng)
    scores, names, _ = _draw(rng, 90, shift=0.02)
    report = check_drift(threshold, scores, names)
    assert threshold.reference is not None
    tops = [scores[names == name].max() for name in range(90)]
    expected = stats.ks_2samp(threshold.reference.tops, tops, method="asymp")
    assert report.statistics["best score"] == pytest.approx(expected.statistic)
    assert report.p_values["best score"] == pytest.approx(expected.pvalue, abs=0.05)
