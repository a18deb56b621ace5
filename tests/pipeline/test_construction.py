"""What a pipeline refuses to be built of, in code and from a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from phasegraph import FusionPipeline, InvalidInputError, ListCalibrator
from phasegraph._support.serialization import write_document
from phasegraph.calibration import BackgroundCalibrator, fit_reference_ecdf
from phasegraph.errors import InvalidTypeError
from phasegraph.fusion import FUSION_RULES


@pytest.mark.parametrize("temperature", [-1, 0, float("nan"), "x", [1.0]])
def test_a_temperature_that_every_query_would_refuse_is_refused_at_once(temperature: object) -> None:
    with pytest.raises(InvalidInputError, match="rule_options of 'boltzmann'"):
        FusionPipeline(
            calibrator=ListCalibrator("percentile"), rule="boltzmann", rule_options={"temperature": temperature}
        )


@pytest.mark.parametrize(
    "rule", [name for name, rule in FUSION_RULES.items() if rule.expects in ("bounded", "percentile")]
)
def test_a_rule_for_values_within_0_and_1_refuses_calibrators_that_leave_them(rule: str) -> None:
    normal = fit_reference_ecdf(np.linspace(0.0, 1.0, 30), normal_scores=True)
    for out_of_range_share in (BackgroundCalibrator(), ListCalibrator("raw"), ListCalibrator("z_score"), normal):
        with pytest.raises(InvalidInputError, match=r"^calibrator must"):
            FusionPipeline(calibrator=out_of_range_share, rule=rule)
        with pytest.raises(InvalidInputError, match=r"^calibrators\['vector'\] must"):
            FusionPipeline(
                calibrator=ListCalibrator("percentile"), calibrators={"vector": out_of_range_share}, rule=rule
            )
    for inside in (ListCalibrator("max"), ListCalibrator("min_max"), replace(normal, normal_scores=False)):
        assert FusionPipeline(calibrator=inside, rule=rule).calibrator is inside


ODD = [
    {"rule": ["x"]},
    {"pool_caps": 5},
    {"rule_options": None},
    {"weighting": ["x"]},
    {"strict": "no"},
    {"k": None},
    {"accept": 5},
    {"accept": {"thresholds": {"v": 5}}},
    {"accept": {"on_empty": ["x"]}},
    {"selection": {"method": ["x"]}},
    {"selection": {"mu": "x"}},
    {"priors": [{"name": "unit", "strength": "x"}]},
    {"priors": [5]},
    {"weights": {"v": None}},
    {"calibrator": {"name": "min_max", "options": {"constant": "x"}}},
    {"calibrator": {"name": "min_max", "options": {"constant": 7}}},
    {"calibrator": {"name": "background", "assumed_size": True}},
    {"calibrators": {"v": {**fit_reference_ecdf(np.arange(30.0)).to_dict(), "size": -5}}},
    {"calibrators": {"v": {**fit_reference_ecdf(np.arange(30.0)).to_dict(), "knots": [[1], [2, 3]]}}},
    {"calibrators": {"v": {**fit_reference_ecdf(np.arange(30.0)).to_dict(), "fraction": True}}},
]


@pytest.mark.parametrize("odd", ODD)
def test_an_intact_file_with_odd_content_is_refused_with_an_error_of_ours(
    odd: dict[str, object], tmp_path: Path
) -> None:
    write_document(tmp_path / "odd.json", "pipeline", 1, {**FusionPipeline().to_dict(), **odd})
    with pytest.raises(InvalidInputError):
        FusionPipeline.load(tmp_path / "odd.json")


@pytest.mark.parametrize(
    ("name", "options", "error", "field"),
    [
        ("min_max", {"constant": 7}, InvalidInputError, "constant"),
        ("min_max", {"constant": "x"}, InvalidTypeError, "constant"),
        ("log_z_score", {"floor": -1.0}, InvalidInputError, "floor"),
        ("theoretical_min_max", {"infimum": float("nan")}, InvalidInputError, "infimum"),
        ("theoretical_min_max", {"infimum": True}, InvalidTypeError, "infimum"),
        ("percentile", None, InvalidTypeError, "options"),
        (["percentile"], {}, InvalidInputError, "name"),
    ],
)
def test_a_calibrator_s_options_are_checked_when_it_is_built(
    name: str, options: dict[str, float], error: type[Exception], field: str
) -> None:
    with pytest.raises(error, match=field):
        ListCalibrator(name, options)


def test_a_calibrator_of_your_own_may_stand_under_any_rule() -> None:
    class Half:
        def __call__(self, ranking: object) -> None: ...

        def to_dict(self) -> dict[str, object]:
            return {}

    assert FusionPipeline(calibrator=Half(), rule="boltzmann").rule == "boltzmann"  # type: ignore[arg-type]
