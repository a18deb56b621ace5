"""A pipeline's fields to JSON types and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from phasegraph.acceptance import AcceptancePolicy
from phasegraph.calibration import calibrator_from_dict
from phasegraph.errors import InvalidInputError
from phasegraph.priors import prior_from_dict
from phasegraph.selection import SelectionPolicy

if TYPE_CHECKING:
    from phasegraph.pipeline.pipeline import FusionPipeline

_PLAIN = ("pool_cap_mode", "rule", "weighting", "consensus_bonus", "consensus_bounded", "k", "strict")


def pipeline_to_dict(pipeline: FusionPipeline) -> dict[str, object]:
    """Every field as JSON types."""
    state: dict[str, object] = {name: getattr(pipeline, name) for name in _PLAIN}
    state["pool_caps"] = dict(pipeline.pool_caps)
    state["rule_options"] = dict(pipeline.rule_options)
    state["weights"] = None if pipeline.weights is None else dict(pipeline.weights)
    state["calibrator"] = dict(pipeline.calibrator.to_dict())
    state["calibrators"] = {name: dict(one.to_dict()) for name, one in pipeline.calibrators.items()}
    state["accept"] = None if pipeline.accept is None else pipeline.accept.to_dict()
    state["selection"] = None if pipeline.selection is None else pipeline.selection.to_dict()
    state["agreement_floor"] = [[*pair, share] for pair, share in pipeline.agreement_floor.items()]
    state["priors"] = [dict(prior.to_dict()) for prior in pipeline.priors]
    return state


def pipeline_from_dict(state: Mapping[str, object]) -> dict[str, object]:
    """Constructor arguments from :func:`pipeline_to_dict`'s state."""
    known = {
        *_PLAIN,
        "pool_caps",
        "rule_options",
        "weights",
        "calibrator",
        "calibrators",
        "priors",
        "accept",
        "selection",
        "agreement_floor",
    }
    unknown = sorted(set(state) - known)
    if unknown:
        raise InvalidInputError(f"a pipeline's fields must be among {sorted(known)}; got {unknown}")
    fields = dict(state)
    if "calibrator" in fields:
        fields["calibrator"] = calibrator_from_dict(_mapping("calibrator", fields["calibrator"]))
    own = _mapping("calibrators", fields.get("calibrators", {}))
    fields["calibrators"] = {
        name: calibrator_from_dict(_mapping(f"calibrators[{name!r}]", one)) for name, one in own.items()
    }
    for name, kind in (("accept", AcceptancePolicy), ("selection", SelectionPolicy)):
        if fields.get(name) is not None:
            fields[name] = kind.from_dict(_mapping(name, fields[name]))
    fields["agreement_floor"] = {(one[0], one[1]): one[2] for one in _rows("agreement_floor", fields)}
    priors = fields.get("priors", [])
    if not isinstance(priors, list):
        raise InvalidInputError(f"priors must be a list; got {type(priors).__name__}")
    fields["priors"] = tuple(prior_from_dict(_mapping("priors", one)) for one in priors)
    return fields


def _rows(name: str, fields: Mapping[str, object]) -> list[tuple[str, str, float]]:
    rows = fields.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 3 for row in rows):
        raise InvalidInputError(f"{name} must be a list of [source, other source, share]; got {rows!r:.200}")
    return rows


def _mapping(name: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} must be a mapping; got {type(value).__name__}")
    return value
