"""The laws over every registered calibrator and rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import repeats
from strategies import rankings

from phasegraph import Background, FusionPipeline, ListCalibrator, Ranking, fit_reference_ecdf
from phasegraph.calibration import CALIBRATORS, Calibrator
from phasegraph.fusion import FUSION_RULES
from phasegraph.testing.laws import KNOWN_EXCEPTIONS, LAWS, LawViolation

_OPTIONS = {"theoretical_min_max": {"infimum": 0.0}}
_SCALE_OF = {"calibrated": "background", "bounded": "min_max", "percentile": "percentile", "order": "raw"}


def _calibrator(name: str) -> Calibrator:
    if name == "reference_ecdf":
        return fit_reference_ecdf(np.linspace(0.0, 1.0, 101) ** 2, normal_scores=True)
    if name == "background":
        return FusionPipeline().calibrator
    return ListCalibrator(name, _OPTIONS.get(name, {}))


def _pipelines() -> list[tuple[str, str]]:
    by_calibrator = [(name, "linear") for name in CALIBRATORS]
    by_rule = [(_SCALE_OF[rule.expects], name) for name, rule in FUSION_RULES.items()]
    return sorted({*by_calibrator, *by_rule, ("min_max", "comb_sum")})


@pytest.mark.parametrize(("calibrator", "rule"), _pipelines())
def test_every_law_holds_for_every_calibrator_and_rule(calibrator: str, rule: str) -> None:
    pipeline = FusionPipeline(calibrator=_calibrator(calibrator), rule=rule, weighting="equal")
    named = {rule, calibrator} if FUSION_RULES[rule].expects != "order" else {rule}
    exceptions = [law for law in LAWS if any((name, law) in KNOWN_EXCEPTIONS for name in named)]

    @settings(max_examples=repeats(10, 4), deadline=None, derandomize=True, database=None)
    @given(rankings())
    def check(found: list[Ranking]) -> None:
        for law in LAWS:
            if law not in exceptions:
                LAWS[law](pipeline, found)

    check()
    for law in exceptions:
        with pytest.raises(LawViolation):
            _search_counterexample(law, pipeline)


def _search_counterexample(law: str, pipeline: FusionPipeline) -> None:
    """An exception that is written down must be real: some rankings break the law."""
    rng = np.random.default_rng(7)
    for _ in range(600):
        found = []
        for name in ("graph", "vector"):
            size = int(rng.integers(1, 13))
            ids = [f"p{i:02d}" for i in rng.permutation(15)[:size]]
            found.append(Ranking(name, ids, np.round(rng.random(size) ** 3 + 0.001, 6)))
        LAWS[law](pipeline, found)


@settings(max_examples=repeats(300, 75), deadline=None, derandomize=True, database=None)
@given(rankings(minimum=2), st.sampled_from(sorted(LAWS)))
def test_every_law_holds_for_the_default(found: list[Ranking], law: str) -> None:
    LAWS[law](FusionPipeline(), found)


def test_a_law_that_is_broken_is_reported() -> None:
    class Wrong(FusionPipeline):
        def decide(self, rankings, context=None, *, reports=(), k=None):  # type: ignore[no-untyped-def]
            return super().decide(rankings, context, reports=reports, k=max(0, (k or 1) - 1))

    with pytest.raises(LawViolation, match="once"):
        LAWS["union"](Wrong(), [Ranking("v", ["a", "b"], [2.0, 1.0])])


def _orders_before_and_after(found: list[Ranking], extra: int, weights: dict[str, float] | None) -> list[list[str]]:
    """Documents that every source returned, as given and with worst hits at the end of every list."""
    background = Background(location=0.2, scale=0.3)
    everywhere = set.intersection(*(set(one.ids) for one in found))
    orders = []
    for count in (0, extra):
        stated = [
            Ranking(
                one.source,
                [*one.ids, *(f"worst{i}" for i in range(count))],
                [*one.scores, *(one.scores[-1] - 1.0 - i for i in range(count))],
                background=background,
                size=1000,
            )
            for one in found
        ]
        result = FusionPipeline(weights=weights).decide(stated, k=100)
        orders.append([i for i in result.ids if i in everywhere])
    return orders


@settings(max_examples=repeats(60, 15), deadline=None, derandomize=True, database=None)
@given(rankings(minimum=2, stated=False), st.integers(1, 5))
def test_an_appended_worst_hit_changes_no_order_where_backgrounds_are_stated(found: list[Ranking], extra: int) -> None:
    """I19, for the stated tier and weights that are given, among documents that every source returned."""
    before, after = _orders_before_and_after(found, extra, {one.source: 1.0 for one in found})
    assert before == after


@settings(max_examples=repeats(60, 15), deadline=None, derandomize=True, database=None)
@given(rankings(minimum=2, stated=False), st.integers(1, 5))
def test_a_worst_hit_behind_the_first_twenty_changes_no_default_weight(found: list[Ranking], extra: int) -> None:
    """I19 for the default, whose weights look at twenty hits: a worst hit among these may move them."""
    long = [
        Ranking(
            one.source,
            [*one.ids, *(f"{one.source}{i}" for i in range(20))],
            [*one.scores, *(one.scores[-1] - 0.01 * (i + 1) for i in range(20))],
        )
        for one in found
    ]
    before, after = _orders_before_and_after(long, extra, None)
    assert before == after


def test_a_fitted_source_whose_scores_are_all_poor_gets_low_values() -> None:
    """I20: the reason to calibrate against a reference sample rather than the list."""
    ecdf = fit_reference_ecdf(np.linspace(0.4, 0.9, 500))
    poor = Ranking("vector", list("abcdef"), [0.40, 0.39, 0.38, 0.37, 0.36, 0.35])
    assert ecdf(poor).values.max() <= 0.05


@settings(max_examples=repeats(60, 15), deadline=None, derandomize=True, database=None)
@given(rankings(minimum=2))
def test_hits_with_unusable_scores_are_as_if_they_had_never_come(found: list[Ranking]) -> None:
    """I13."""
    bad = [float("nan"), float("inf"), None, "0.9", True]
    dirty = [
        Ranking.from_hits(
            one.source,
            [*(f"bad{i}" for i in range(len(bad))), *one.ids],
            [*bad, *one.scores.tolist()],
            background=one.background,
        )
        for one in found
    ]
    clean, after = FusionPipeline().decide(found, k=100), FusionPipeline().decide(dirty, k=100)
    assert clean.ids == after.ids
    assert clean.fused.tobytes() == after.fused.tobytes()
    assert all(report.dropped == len(bad) for report in after.reports)


@settings(max_examples=repeats(60, 15), deadline=None, derandomize=True, database=None)
@given(rankings())
def test_a_duplicate_inside_a_source_counts_once_with_its_best_score(found: list[Ranking]) -> None:
    """I16."""
    doubled = [
        Ranking(one.source, [*one.ids, *one.ids], [*one.scores, *(one.scores - 0.5)], background=one.background)
        for one in found
    ]
    clean, after = FusionPipeline().decide(found, k=100), FusionPipeline().decide(doubled, k=100)
    assert clean.ids == after.ids
    assert clean.fused.tobytes() == after.fused.tobytes()


@settings(max_examples=repeats(60, 15), deadline=None, derandomize=True, database=None)
@given(rankings(minimum=2, stated=False))
def test_negative_scores_are_ordinary(found: list[Ranking]) -> None:
    """I15."""
    shifted = [Ranking(one.source, one.ids, one.scores - 100.0) for one in found]
    assert set(FusionPipeline().decide(found, k=100).ids) == set(FusionPipeline().decide(shifted, k=100).ids)
    assert np.isfinite(FusionPipeline().decide(shifted, k=100).fused).all()
