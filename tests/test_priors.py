from __future__ import annotations

import numpy as np
import pytest

from phasegraph import Context, ExactMatchBonus, FusionPipeline, InvalidInputError, Ranking, RecencyPrior, UnitPrior
from phasegraph.errors import InvalidTypeError
from phasegraph.priors import PRIORS, SuperpositionPrior, importance_multiplier, prior_from_dict, recency, superposition


def test_importance_one_at_rank_27_beats_importance_zero_at_rank_one() -> None:
    """The strength the design record's prior really has: 61 / .7 - 60 = 27.14."""
    ids = [f"p{i:02d}" for i in range(1, 31)]
    ranking = Ranking("lexical", ids, np.arange(30, 0, -1.0))
    pipeline = FusionPipeline.reciprocal_rank()
    with_prior = FusionPipeline(
        calibrator=pipeline.calibrator, rule="rrf", rule_options=pipeline.rule_options, priors=(UnitPrior(),), k=30
    )
    for rank, wins in ((27, True), (28, False)):
        attributes = {i: {"importance": 0.0} for i in ids} | {ids[rank - 1]: {"importance": 1.0}}
        order = with_prior.decide([ranking], Context(attributes=attributes)).ids
        assert (order[0] == ids[rank - 1]) is wins


def test_a_missing_importance_changes_nothing() -> None:
    ranking = Ranking("v", ["a", "b"], [2.0, 1.0])
    plain = FusionPipeline().decide([ranking])
    weighed = FusionPipeline(priors=(UnitPrior(),)).decide([ranking])
    assert weighed.scores.tobytes() == plain.scores.tobytes()


def test_recency_halves_with_each_half_life_and_a_future_date_counts_as_now() -> None:
    np.testing.assert_allclose(recency(np.array([-100.0, 0.0, 10.0, 20.0]), half_life=10.0), [1, 1, 0.5, 0.25])


def test_the_hourly_rate_of_the_quantum_document_has_a_half_life_of_2_77_hours() -> None:
    hours = np.log(2) / 0.25
    assert hours == pytest.approx(2.77, abs=0.005)
    assert recency(np.array([24.0]), half_life=hours)[0] == pytest.approx(0.00248, abs=5e-6)


def test_the_exact_match_bonus_is_one_more_source_ranking_the_hit_first() -> None:
    context = Context(query="Deep sea", attributes={"b": {"text": "the deep\n sea"}, "c": {"exact": False}})
    assert ExactMatchBonus(weight=0.5)(["a", "b", "c"], context).tolist() == [0.0, 0.5 / 61, 0.0]


def test_a_low_prior_lowers_a_candidate_whose_fused_value_is_negative() -> None:
    ranking = Ranking("v", ["a", "b"], [-5.0, -5.1])
    pipeline = FusionPipeline(calibrator=FusionPipeline.reciprocal_rank().calibrator, priors=(UnitPrior(strength=1.0),))
    context = Context(attributes={"a": {"importance": 0.1}, "b": {"importance": 1.0}})
    assert pipeline.decide([ranking], context).ids == ("b", "a")


@pytest.mark.parametrize(
    "prior", [UnitPrior("authority", 0.4, 0.2), RecencyPrior(60.0, 0.5), ExactMatchBonus(0.3), SuperpositionPrior()]
)
def test_every_prior_survives_its_state(prior: object) -> None:
    assert prior_from_dict(prior.to_dict()) == prior  # type: ignore[attr-defined]


def test_every_registered_prior_has_a_case_above() -> None:
    assert sorted(PRIORS) == ["exact_match", "recency", "superposition", "unit"]


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: UnitPrior(strength=1.5), "strength"),
        (lambda: UnitPrior(neutral=float("nan")), "neutral"),
        (lambda: RecencyPrior(half_life=0.0), "half_life"),
        (lambda: ExactMatchBonus(weight=-1.0), "weight"),
        (lambda: ExactMatchBonus(rank_constant=0.0), "rank_constant"),
        (lambda: importance_multiplier(np.array([1.2])), "importance"),
        (lambda: recency(np.array([np.nan]), half_life=1.0), "age"),
        (lambda: prior_from_dict({"name": "fame"}), "prior name"),
        (lambda: prior_from_dict({"name": "unit", "colour": 1}), "options"),
        (lambda: prior_from_dict({"name": "unit", "strength": "much"}), "strength must be a number; got 'much'"),
        (lambda: RecencyPrior(60.0)(["a"], Context()), "Context.now"),
        (lambda: SuperpositionPrior()(["a"], Context()), "Context.now"),
        (lambda: SuperpositionPrior(weights=(1.0, 1.0, 1.0)), "weights"),
    ],
)
def test_a_wrong_prior_names_the_field(build: object, field: str) -> None:
    with pytest.raises(InvalidInputError, match=field):
        build()  # type: ignore[operator]


def test_an_attribute_that_is_no_number_names_the_candidate() -> None:
    with pytest.raises(InvalidTypeError, match="'a'"):
        UnitPrior()(["a"], Context(attributes={"a": {"importance": "high"}}))


def test_relevance_and_energy_golden() -> None:
    found = superposition([0.8], [3600.0], [0.5], frequency=1.5)
    assert found.relevance[0] == pytest.approx(0.7497001958, abs=5e-11)
    assert found.energy[0] == pytest.approx(1.5221199217, abs=5e-11)


def test_the_collapse_probability_is_the_weighted_mean_whatever_the_energy() -> None:
    for hbar, frequency in ((1.0, 0.0), (0.1, 7.0), (3.0, -2.0)):
        found = superposition([0.8, 0.1], [0.0, 86400.0], [0.5, 1.0], frequency=frequency, hbar=hbar)
        np.testing.assert_allclose(found.probability, found.relevance)


def test_recency_at_the_documents_rate_is_gone_after_a_day_and_the_future_counts_as_now() -> None:
    only = (0.0, 1.0, 0.0)
    found = superposition([0.0] * 3, [86400.0, -86400.0, 0.0], [0.0] * 3, weights=only)
    np.testing.assert_allclose(found.relevance, [np.exp(-6.0), 1.0, 1.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cosine": [-0.1]}, "cosine"),
        ({"authority": [1.1]}, "authority"),
        ({"age_seconds": [np.nan]}, "age_seconds"),
        ({"age_seconds": [1.0, 2.0]}, "one value per passage"),
        ({"weights": (0.9, 0.9, 0.1)}, "weights"),
        ({"weights": (-0.1, 0.9, 0.1)}, "weights"),
        ({"hbar": 0.0}, "hbar"),
        ({"decay_per_hour": -1.0}, "decay_per_hour"),
    ],
)
def test_values_outside_their_range_are_refused(change: dict, message: str) -> None:
    values = {"cosine": [0.5], "age_seconds": [1.0], "authority": [0.5], **change}
    options = {name: value for name, value in values.items() if name in ("weights", "hbar", "decay_per_hour")}
    with pytest.raises(InvalidInputError, match=message):
        superposition(values["cosine"], values["age_seconds"], values["authority"], **options)
