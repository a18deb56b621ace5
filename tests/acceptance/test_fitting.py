from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import repeats

from phasegraph.acceptance import JudgedScores, Threshold, fit_global_threshold, fit_grid, fit_threshold, sscc_threshold
from phasegraph.acceptance.fitting import area_under_curve
from phasegraph.errors import InsufficientDataError, InvalidInputError

SCORES = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]
LABELS = [1, 1, 0, 1, 0, 0, 1, 0]


def _judged() -> JudgedScores:
    return JudgedScores(SCORES, LABELS)


def test_youden_golden() -> None:
    """At 0.6: 3 of 4 relevant and 3 of 4 irrelevant on their side."""
    found = fit_threshold(_judged())
    assert found.value == pytest.approx(0.55)
    assert found.statistics["balanced_accuracy"] == pytest.approx(0.75)
    assert found.statistics["coverage"] == pytest.approx(0.5)


def test_f1_golden() -> None:
    """At 0.6: 2 * 3 / (4 + 4); at 0.3 only 2 * 4 / (7 + 4)."""
    found = fit_threshold(_judged(), objective="f1")
    assert (found.value, found.statistics["f1"]) == (pytest.approx(0.55), pytest.approx(0.75))


def test_recall_target_takes_the_highest_threshold_that_reaches_it() -> None:
    assert fit_threshold(_judged(), objective="recall", target=0.75).value == pytest.approx(0.55)
    assert fit_threshold(_judged(), objective="recall", target=1.0).value == pytest.approx(0.25)


def test_precision_target_takes_the_lowest_threshold_that_reaches_it() -> None:
    assert fit_threshold(_judged(), objective="precision", target=0.75).value == pytest.approx(0.55)
    assert fit_threshold(_judged(), objective="precision", target=1.0).value == pytest.approx(0.75)


def test_a_precision_nobody_reaches_is_refused_with_the_best_there_is() -> None:
    judged = JudgedScores([0.9, 0.8, 0.7], [0, 1, 1])
    with pytest.raises(InsufficientDataError, match=r"precision 0\.9.*best is 0\.6667"):
        fit_threshold(judged, objective="precision", target=0.9)


def test_observed_instead_of_midway() -> None:
    assert fit_threshold(_judged(), midway=False).value == 0.6


def test_the_lowest_threshold_has_nothing_below_it_to_be_midway_to() -> None:
    assert fit_threshold(_judged(), objective="precision", target=0.5).value == 0.2


def test_grid_golden() -> None:
    """Grid 0.2, 0.27, ...: balanced accuracy .75 first where 0.5 is out, at 0.55."""
    found = fit_grid(_judged(), points=11)
    assert found.value == pytest.approx(0.2 + 5 * 0.07)
    assert found.statistics["balanced_accuracy"] == pytest.approx(0.75)
    assert found.method == "grid-11"


def test_the_paper_formula_golden() -> None:
    assert sscc_threshold(0.132, 4.28, bi_encoder=True).value == pytest.approx(0.69696)
    assert sscc_threshold(0.132, 4.28, bi_encoder=False).value == 0.132
    assert sscc_threshold(0.0, 9.0, bi_encoder=True).value == 0.0


def test_area_under_curve_golden() -> None:
    """Pairs: 13 of 16 for (0.9, 0.8, 0.6, 0.3) against (0.7, 0.5, 0.4, 0.2): 4 + 4 + 3 + 1 = 12."""
    assert area_under_curve(_judged()) == pytest.approx(12 / 16)
    assert area_under_curve(JudgedScores([1.0, 1.0], [0, 1])) == 0.5


def test_one_level_for_all_sources_accepts_what_each_ecdf_does() -> None:
    judged = {
        "vector": JudgedScores(SCORES, LABELS),
        "graph": JudgedScores([30.0, 20.0, 10.0, 5.0], [1, 0, 1, 0]),
    }
    found = fit_global_threshold(judged)
    level = found["vector"].statistics["level"]
    assert level == found["graph"].statistics["level"]
    for name, one in judged.items():
        share = np.searchsorted(np.sort(one.scores), one.scores, side="right") / len(one)
        np.testing.assert_array_equal(one.scores >= found[name].value, share >= level)


def test_a_level_that_a_source_never_reaches_accepts_nothing_of_it() -> None:
    judged = {"a": JudgedScores([1.0, 1.0, 1.0, 2.0], [0, 0, 0, 1]), "b": JudgedScores([0.0, 5.0], [0, 1])}
    found = fit_global_threshold(judged, fit=lambda one: Threshold(1.5))
    assert all(found[name].value > one.scores.max() for name, one in judged.items())


def test_one_level_ignores_the_unit_of_a_source() -> None:
    judged = _judged()
    plain = fit_global_threshold({"a": judged, "b": judged})
    scaled = fit_global_threshold({"a": judged, "b": JudgedScores(100 * judged.scores - 7, judged.labels)})
    assert scaled["b"].value == pytest.approx(100 * plain["b"].value - 7)
    assert scaled["a"].value == plain["a"].value


@settings(max_examples=repeats(200, 50), deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=12).filter(
        lambda pairs: 0 < sum(label for _, label in pairs) < len(pairs)
    )
)
def test_the_exact_optimum_is_never_beaten_by_any_threshold(pairs: list[tuple[int, bool]]) -> None:
    scores = np.array([float(score) for score, _ in pairs])
    labels = np.array([label for _, label in pairs])
    found = fit_threshold(JudgedScores(scores, labels))

    def balanced(value: float) -> float:
        return float((scores[labels] >= value).mean() + (scores[~labels] < value).mean()) / 2

    assert found.statistics["balanced_accuracy"] == pytest.approx(balanced(found.value))
    assert all(balanced(found.value) >= balanced(value) - 1e-12 for value in np.arange(-1, 8, 0.5))


@pytest.mark.parametrize(("objective", "target"), [("recall", None), ("recall", 0.0), ("precision", 1.1), ("f1", 0.5)])
def test_targets_that_make_no_sense_are_refused(objective: str, target: float | None) -> None:
    with pytest.raises(InvalidInputError, match="target"):
        fit_threshold(_judged(), objective=objective, target=target)  # type: ignore[arg-type]


def test_unknown_objectives_few_points_and_no_sources_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="objective"):
        fit_threshold(_judged(), objective="accuracy")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="points"):
        fit_grid(_judged(), points=1)
    with pytest.raises(InsufficientDataError, match="at least one source"):
        fit_global_threshold({})
    with pytest.raises(InvalidInputError, match="tau_0"):
        sscc_threshold(float("nan"), 1.0, bi_encoder=True)


def test_fitted_thresholds_carry_their_numbers_and_promise_nothing() -> None:
    judged = JudgedScores(SCORES, LABELS, list("aabbccdd"))
    found = fit_threshold(judged)
    assert (found.queries, found.hits, found.statistics["positives"]) == (4, 8, 4)
    assert not found.certified
    assert found.reference is not None
    assert found.reference.tops == (0.3, 0.5, 0.7, 0.9)
    assert found.reference.prevalence == (0.0, 0.5, 0.5, 1.0)
