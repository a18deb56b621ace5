"""Sources that look wrong: less agreement than when calibrated, and scores beyond the reference sample."""

from dataclasses import replace

import numpy as np
import pytest

from phasegraph import DegradedError, FusionPipeline, InvalidInputError, InvalidTypeError, Ranking
from phasegraph.calibration import fit_reference_ecdf
from phasegraph.fusion.fitting import fit_min_agreement

IDS = [f"p{i:02d}" for i in range(40)]


def lists(shared, length=10):
    """Two lists of which `shared` of the hits are the same."""
    other = [*IDS[:shared], *IDS[20 : 20 + length - shared]]
    scores = np.arange(length, 0, -1.0)
    return [Ranking("graph", IDS[:length], scores), Ranking("vector", other, scores)]


def test_the_floor_is_the_fifth_percentile_of_the_calibration_queries():
    answers = [lists(shared) for shared in [2, *[5] * 20]]
    floor = fit_min_agreement(answers, FusionPipeline())
    assert floor == {("graph", "vector"): 0.5, ("vector", "graph"): 0.5}
    assert fit_min_agreement([lists(i % 10) for i in range(100)], FusionPipeline())[("graph", "vector")] == 0.0
    assert fit_min_agreement(answers[:19], FusionPipeline()) == {}
    assert fit_min_agreement(answers, FusionPipeline(weights={"graph": 1.0, "vector": 0.0})) == {}


def test_sources_that_agree_less_than_when_calibrated_are_warned_about():
    pipeline = FusionPipeline(min_agreement={("vector", "graph"): 0.4, ("graph", "vector"): 0.4})
    (said,) = pipeline.decide(lists(2)).warnings
    assert "'graph' and 'vector' agree less than in 95 % of their calibration queries" in said
    assert "20% and 20% of a top 10" in said
    assert "usually at least 40% and 40%" in said
    assert pipeline.decide(lists(4)).warnings == ()
    assert FusionPipeline().decide(lists(2)).warnings == ()


def test_sources_that_never_agreed_are_not_warned_about_again():
    floor = {("graph", "vector"): 0.0, ("vector", "graph"): 0.0}
    assert FusionPipeline(min_agreement=floor).decide(lists(0)).warnings == ()
    half_known = FusionPipeline(min_agreement={("graph", "vector"): 0.4})
    assert "agree on nothing" in half_known.decide(lists(0)).warnings[0]


def test_the_floor_survives_saving(tmp_path):
    pipeline = FusionPipeline(min_agreement={("vector", "graph"): 0.4, ("graph", "vector"): 0.25})
    pipeline.save(tmp_path / "pipeline.json")
    again = FusionPipeline.load(tmp_path / "pipeline.json")
    assert again == pipeline
    assert list(again.min_agreement.items()) == [(("graph", "vector"), 0.25), (("vector", "graph"), 0.4)]


@pytest.mark.parametrize(
    ("floor", "kind"),
    [
        ({"graph": 0.5}, InvalidTypeError),
        ({("graph", "graph"): 0.5}, InvalidTypeError),
        ({("graph", "vector", "x"): 0.5}, InvalidTypeError),
        ({("graph", "vector"): 1.5}, InvalidInputError),
        ({("graph", "vector"): -0.1}, InvalidInputError),
        ({("graph", "vector"): float("nan")}, InvalidInputError),
        ({("graph", "vector"): "x"}, InvalidTypeError),
        ([0.5], InvalidTypeError),
    ],
)
def test_a_floor_that_is_none_is_named(floor, kind):
    with pytest.raises(kind, match="min_agreement"):
        FusionPipeline(min_agreement=floor)


@pytest.mark.parametrize("rows", [{"a": 1}, [["a", "b"]], [["a", "b", "c"]], [["a", "b", None]], ["abc"]])
def test_a_damaged_floor_is_named(rows):
    with pytest.raises(InvalidInputError, match="min_agreement"):
        FusionPipeline.from_dict({"min_agreement": rows})


def fitted(**fields):
    reference = fit_reference_ecdf(np.linspace(0.2, 0.9, 200), normal_scores=True)
    return FusionPipeline(calibrators={"vector": reference}, **fields)


def answer(scores):
    return [Ranking("vector", IDS[: len(scores)], scores)]


def test_the_report_says_what_share_of_the_scores_lies_outside_the_calibration_range():
    found = fitted().decide(answer([1.0, 0.95, 0.5, 0.3]))
    assert found.reports[0].out_of_range_share == 0.5
    assert not found.reports[0].drifted
    assert found.warnings == ()
    assert fitted().decide(answer([0.9, 0.5, 0.2])).reports[0].out_of_range_share == 0.0
    assert FusionPipeline().decide(answer([9.0, 8.0])).reports[0].out_of_range_share == 0.0


@pytest.mark.parametrize("scores", [[30.0, 20.0, 0.5], [0.5, -1.0, -2.0], [5.0, 0.5, -5.0]])
def test_scores_of_another_model_are_drift_and_strict_refuses_them(scores):
    found = fitted().decide(answer(scores))
    assert found.reports[0].drifted
    assert not found.degraded
    (said,) = found.warnings
    assert said.startswith("67% of the scores of 'vector' lie outside the range it was calibrated on")
    with pytest.raises(DegradedError, match="67% of the scores of 'vector' lie outside"):
        fitted(strict=True).decide(answer(scores))


def test_a_query_like_the_others_seldom_has_a_score_outside():
    """Of 41 queries alike at most two have one, whatever the scores."""
    rng = np.random.default_rng(0)
    drifted = out_of_range_share = 0
    for _ in range(300):
        sample = rng.standard_t(2, size=(41, 1)) + rng.normal(size=(41, 10))
        reference = fit_reference_ecdf(sample[:40])
        out_of_range_share += reference.out_of_range_share(sample[40]) > 0
        drifted += reference.out_of_range_share(sample[40]) > 0.5
    assert out_of_range_share <= 300 * 2 / 41 + 12
    assert drifted <= out_of_range_share


def test_a_source_that_states_its_background_does_not_drift():
    from phasegraph.ranking import Background

    own = replace(answer([30.0, 20.0])[0], background=Background(0.0, 1.0))
    assert fitted(strict=True).decide([own]).reports[0].out_of_range_share == 0.0
