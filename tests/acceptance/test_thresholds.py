from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from phasegraph.acceptance import DriftReference, JudgedScores, Threshold, conformal_threshold, fit_threshold
from phasegraph.errors import InvalidInputError, InvalidTypeError


def test_a_given_number_promises_nothing() -> None:
    assert not Threshold(0.3).promises
    assert not Threshold(0.3).certified
    assert (Threshold(0.3).queries, Threshold(0.3).hits) == (0, 0)
    assert "reference" not in repr(Threshold(0.3))


def test_zero_and_negative_and_minus_infinity_are_thresholds() -> None:
    assert Threshold(0.0).accepts(0.0)
    assert not Threshold(0.0).accepts(-1e-9)
    assert Threshold(-2.5).floor == -2.5
    assert Threshold(-math.inf).accepts(-1e300)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_no_score_can_be_compared_with_are_refused(value: float) -> None:
    with pytest.raises(InvalidInputError, match=r"Threshold\.value"):
        Threshold(value)


@pytest.mark.parametrize("value", ["0.3", None, True, [0.3]])
def test_other_types_are_refused(value: object) -> None:
    with pytest.raises(InvalidTypeError, match=r"Threshold\.value"):
        Threshold(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [("lower", 0.6), ("lower", math.nan), ("confidence", 1.0), ("confidence", 0.0), ("level", math.inf), ("hits", -1)],
)
def test_fields_outside_their_range_are_refused(field: str, value: float) -> None:
    with pytest.raises(InvalidInputError, match=field):
        Threshold(0.5, **{field: value})


def test_revoking_keeps_the_value_and_withdraws_the_promise() -> None:
    fitted = Threshold(0.5, promise="At most a fifth is wrong.")
    gone = fitted.revoke("scores drifted")
    assert fitted.certified
    assert not gone.certified
    assert (gone.value, gone.revoked) == (0.5, "scores drifted")
    with pytest.raises(InvalidInputError, match="reason"):
        fitted.revoke(" ")


def test_json_round_trip_is_exact() -> None:
    judged = JudgedScores([0.1 + 0.2, 0.7, 0.5, 1 / 3], [0, 1, 0, 1], list("aabb"))
    for threshold in (
        Threshold(-math.inf),
        fit_threshold(judged),
        replace(fit_threshold(judged), lower=-math.inf, sources=("b", "a")),
        conformal_threshold(judged, miss_rate=0.5),
        Threshold(0.2).revoke("why not"),
    ):
        text = json.dumps(threshold.to_dict(), allow_nan=False)
        assert Threshold.from_dict(json.loads(text)) == threshold


@pytest.mark.parametrize(
    "change",
    [
        {"colour": 1},
        {"value": "high"},
        {"statistics": [1]},
        {"sources": "vector"},
        {"reference": {"tops": [1.0]}},
        {"reference": {"tops": ["x"], "means": [1.0], "prevalence": [1.0]}},
        {"reference": [1.0]},
        {"promise": 3},
        {"queries": "many"},
        {"sources": [1]},
    ],
)
def test_damaged_json_is_refused(change: dict) -> None:
    with pytest.raises(InvalidInputError):
        Threshold.from_dict({**Threshold(0.3).to_dict(), **change})


def test_json_that_is_no_object_or_lacks_the_value_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match="object"):
        Threshold.from_dict([0.3])  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="'value'"):
        Threshold.from_dict({"method": "given"})


def test_a_reference_needs_finite_numbers() -> None:
    with pytest.raises(InvalidInputError, match="tops"):
        DriftReference((), (1.0,), (1.0,))
    with pytest.raises(InvalidInputError, match="means"):
        DriftReference((1.0,), (math.nan,), (1.0,))
