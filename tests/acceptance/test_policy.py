from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import repeats

from phasegraph import Ranking
from phasegraph.acceptance import AcceptanceOutcome, AcceptancePolicy, Threshold
from phasegraph.candidates import Candidates, pool
from phasegraph.errors import InvalidInputError, InvalidTypeError

VECTOR = Ranking("vector", ["a", "b", "c"], [0.9, 0.6, 0.3])
GRAPH = Ranking("graph", ["b", "d"], [8.0, 2.0])
SCORES = {"a": 0.7, "b": 0.9, "c": 0.2, "d": 0.5}


def _decide(policy: AcceptancePolicy, *rankings: Ranking, answered: tuple[str, ...] | None = None) -> AcceptanceOutcome:
    found = pool(rankings or (VECTOR, GRAPH))
    scores = np.array([SCORES[name] for name in found.ids])
    return policy.decide(found, found.scores, scores, found.sources if answered is None else answered)


def _verdicts(policy: AcceptancePolicy) -> dict[str, int]:
    found = pool((VECTOR, GRAPH))
    return dict(zip(found.ids, _decide(policy).verdicts.tolist(), strict=True))


def test_no_thresholds_accept_everything_and_say_so() -> None:
    outcome = _decide(AcceptancePolicy())
    assert outcome.accepted.all()
    assert outcome.reason == "no_thresholds"


def test_each_source_is_judged_in_its_own_unit_and_the_best_verdict_counts() -> None:
    assert _verdicts(AcceptancePolicy({"vector": 0.8, "graph": 5.0})) == {"a": 1, "b": 1, "c": -1, "d": -1}


def test_a_source_without_a_threshold_accepts_or_vouches_for_nothing() -> None:
    assert _verdicts(AcceptancePolicy({"vector": 0.8})) == {"a": 1, "b": 1, "c": -1, "d": 1}
    strict = AcceptancePolicy({"vector": 0.8}, unknown_source="reject")
    assert _verdicts(strict) == {"a": 1, "b": -1, "c": -1, "d": -1}


def test_between_the_two_bounds_is_ambiguous() -> None:
    policy = AcceptancePolicy({"vector": Threshold(0.8, lower=0.5), "graph": 100.0})
    assert _verdicts(policy) == {"a": 1, "b": 0, "c": -1, "d": -1}


def test_the_final_threshold_is_on_the_published_score() -> None:
    assert _verdicts(AcceptancePolicy(final=0.5)) == {"a": 1, "b": 1, "c": -1, "d": 1}
    assert _verdicts(AcceptancePolicy(final=0.0)) == {"a": 1, "b": 1, "c": 1, "d": 1}


def test_one_threshold_over_calibrated_values_reads_only_what_a_source_returned() -> None:
    found = pool((VECTOR, GRAPH))
    calibrated = np.full((len(found), 2), 9.0)  # what is filled in for a missing value must not count
    calibrated[~np.isnan(found.scores)] = found.scores[~np.isnan(found.scores)] / 10
    outcome = AcceptancePolicy(common=0.5).decide(found, calibrated, np.full(len(found), 0.5), found.sources)
    assert [found.ids[row] for row in np.flatnonzero(outcome.accepted)] == ["b"]


def test_the_lowest_of_the_three_verdicts_counts() -> None:
    policy = AcceptancePolicy({"vector": 0.2, "graph": 0.0}, final=0.6)
    assert _verdicts(policy) == {"a": 1, "b": 1, "c": -1, "d": -1}


def test_an_empty_set_abstains_by_default_and_says_why() -> None:
    outcome = _decide(AcceptancePolicy(final=1.0))
    assert not outcome.accepted.any()
    assert outcome.abstained
    assert outcome.reason == "all_below_threshold"


def test_no_candidates_are_not_an_abstention() -> None:
    empty = pool([])
    outcome = AcceptancePolicy(final=1.0).decide(empty, empty.scores, np.empty(0), ())
    assert outcome.reason == "no_candidates"
    assert not outcome.abstained


def test_on_empty_best_keeps_the_best_and_says_so() -> None:
    outcome = _decide(AcceptancePolicy(final=1.0, on_empty="best"))
    found = pool((VECTOR, GRAPH))
    assert [found.ids[row] for row in np.flatnonzero(outcome.accepted)] == ["b"]
    assert outcome.reason == "kept_best"


def test_min_keep_fills_up_with_the_best_of_the_rest() -> None:
    found = pool((VECTOR, GRAPH))
    outcome = _decide(AcceptancePolicy(final=0.85, min_keep=3))
    assert sorted(found.ids[row] for row in np.flatnonzero(outcome.accepted)) == ["a", "b", "d"]
    assert _decide(AcceptancePolicy(final=0.85, min_keep=99)).accepted.all()
    assert _decide(AcceptancePolicy(final=0.5, min_keep=2)).reason == "accepted"


def test_on_empty_callable_names_the_ids_to_keep() -> None:
    def first(candidates: Candidates, scores: np.ndarray) -> list[str]:
        return [min(candidates.ids)]

    outcome = _decide(AcceptancePolicy(final=1.0, on_empty=first))
    assert outcome.reason == "callback"
    assert int(outcome.accepted.sum()) == 1
    assert _decide(AcceptancePolicy(final=1.0, on_empty=lambda c, s: [])).abstained
    with pytest.raises(InvalidInputError, match="ids of the candidates"):
        _decide(AcceptancePolicy(final=1.0, on_empty=lambda c, s: ["nobody"]))


CERTIFIED = Threshold(0.6, promise="At most a fifth is wrong.", sources=("graph", "vector"))


def test_a_certificate_holds_when_the_same_sources_answered() -> None:
    (certificate,) = _decide(AcceptancePolicy(final=CERTIFIED)).certificates
    assert (certificate.name, certificate.valid, certificate.reason) == ("final", True, "")


def test_a_certificate_is_void_when_a_source_did_not_answer() -> None:
    (certificate,) = _decide(AcceptancePolicy(final=CERTIFIED), VECTOR).certificates
    assert not certificate.valid
    assert "graph, which did not answer" in certificate.reason


def test_a_certificate_for_the_whole_is_void_when_another_source_joined() -> None:
    other = Ranking("web", ["a"], [1.0])
    (certificate,) = _decide(AcceptancePolicy(final=CERTIFIED), VECTOR, GRAPH, other).certificates
    assert "without web" in certificate.reason


def test_a_certificate_is_void_when_revoked_overruled_or_narrowed() -> None:
    cases = {
        "revoked": AcceptancePolicy(final=CERTIFIED.revoke("scores drifted")),
        "below the threshold was accepted": AcceptancePolicy(final=CERTIFIED, min_keep=4),
        "another threshold": AcceptancePolicy({"vector": 0.95, "graph": 9.0}, final=CERTIFIED),
    }
    for reason, policy in cases.items():
        (certificate,) = _decide(policy).certificates
        assert not certificate.valid
        assert reason in certificate.reason


def test_a_source_has_its_own_certificate_while_it_answers() -> None:
    own = Threshold(0.5, promise="Of vector's hits few are wrong.", sources=("vector",))
    policy = AcceptancePolicy({"vector": own, "graph": 1.0})
    assert [(one.name, one.valid) for one in _decide(policy).certificates] == [("vector", True)]
    assert _decide(policy, GRAPH).certificates == ()


numbers = st.floats(-1, 10, allow_nan=False).map(lambda value: round(value, 1))


@settings(max_examples=repeats(200, 50), deadline=None, derandomize=True, database=None)
@given(numbers, numbers, st.floats(0, 1), st.floats(0, 2), st.sampled_from(["vector", "graph", "final"]))
def test_raising_any_threshold_only_removes(vector: float, graph: float, final: float, rise: float, which: str) -> None:
    values = {"vector": vector, "graph": graph, "final": final}
    raised = {**values, which: min(values[which] + rise, 1.0) if which == "final" else values[which] + rise}

    def accepted(given_values: dict[str, float]) -> np.ndarray:
        named = {name: given_values[name] for name in ("vector", "graph")}
        return _decide(AcceptancePolicy(named, final=given_values["final"])).accepted

    assert (accepted(raised) <= accepted(values)).all()


def test_minus_infinity_is_no_threshold() -> None:
    assert _verdicts(AcceptancePolicy({"vector": -math.inf, "graph": 5.0})) == _verdicts(
        AcceptancePolicy({"graph": 5.0})
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("final", 1.1), ("final", -0.1), ("final", -math.inf), ("common", math.nan), ("min_keep", -1),
        ("min_keep", True), ("min_keep", 1.5), ("on_empty", "guess"), ("unknown_source", "maybe"),
        ("thresholds", {"vector": math.nan}), ("thresholds", [0.3]),
    ],
)  # fmt: skip
def test_fields_outside_their_range_are_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidInputError):
        AcceptancePolicy(**{field: value})  # type: ignore[arg-type]


def test_arrays_of_the_wrong_shape_are_refused() -> None:
    found = pool((VECTOR, GRAPH))
    with pytest.raises(InvalidInputError, match="shapes"):
        AcceptancePolicy().decide(found, found.scores[:2], np.zeros(len(found)), found.sources)


def test_json_round_trip() -> None:
    policy = AcceptancePolicy(
        {"vector": CERTIFIED, "graph": -math.inf},
        final=0.3,
        common=Threshold(0.1, lower=0.0),
        min_keep=2,
        on_empty="best",
    )
    text = json.dumps(policy.to_dict(), allow_nan=False)
    assert AcceptancePolicy.from_dict(json.loads(text)) == policy
    with pytest.raises(InvalidInputError, match="no field"):
        AcceptancePolicy.from_dict({"tresholds": {}})  # codespell:ignore tresholds
    with pytest.raises(InvalidTypeError, match="thresholds"):
        AcceptancePolicy.from_dict({"thresholds": [1]})
    with pytest.raises(InvalidInputError, match="is a function"):
        AcceptancePolicy(on_empty=lambda c, s: []).to_dict()
