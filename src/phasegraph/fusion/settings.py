"""The fields of a pipeline, and the checks of each field and of their combination."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from phasegraph._support.validation import (
    KnownFields,
    check_choice,
    check_count,
    check_flag,
    check_mapping,
    check_number,
)
from phasegraph.acceptance import AcceptancePolicy
from phasegraph.acceptance.confidence import Confidence, ConfidenceModel
from phasegraph.calibration import BackgroundCalibrator, Calibrator
from phasegraph.calibration.per_query import calibrator_for
from phasegraph.candidates import PoolCapMode
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.fusion import FUSION_RULES
from phasegraph.fusion.exact_match import EXACT_MATCH, ExactMatchBonus
from phasegraph.fusion.grouping import GroupBy
from phasegraph.fusion.prior import Prior
from phasegraph.fusion.superposition import SuperpositionPrior
from phasegraph.fusion.weighting import WEIGHTINGS
from phasegraph.ranking import Ranking
from phasegraph.selection import SelectionPolicy


def check_weights_mapping(weights: Mapping[str, float]) -> Mapping[str, float]:
    """Return the weights by source name; raise an error unless they are finite, >= 0, and not all 0."""
    if not isinstance(weights, Mapping):
        raise InvalidTypeError(f"weights must be a mapping of source name to number; got {weights!r}")
    checked = {str(name): check_number(f"weights[{name!r}]", value) for name, value in weights.items()}
    if not checked:
        raise InvalidInputError("weights must name at least one source; got an empty mapping")
    if not any(value > 0 for value in checked.values()):
        raise InvalidInputError(f"weights must not all be 0; got {checked}")
    return MappingProxyType(dict(sorted(checked.items())))


def check_floor(value: object) -> Mapping[tuple[str, str], float]:
    """Return `min_agreement` as a read-only, sorted mapping; raise an error unless it is valid.

    Each key is an ordered pair of different source names, and each value a share in [0, 1].
    """
    pairs = isinstance(value, Mapping) and all(
        isinstance(key, tuple) and len(key) == 2 and all(isinstance(one, str) for one in key) and key[0] != key[1]
        for key in value
    )
    if not isinstance(value, Mapping) or not pairs:
        raise InvalidTypeError(f"min_agreement must map pairs of different source names to numbers; got {value!r}")
    checked = {key: check_number(f"min_agreement[{key!r}]", share) for key, share in sorted(value.items())}
    if any(share > 1 for share in checked.values()):
        raise InvalidInputError(f"min_agreement must contain only shares in [0, 1]; got {checked}")
    return MappingProxyType(checked)


def check_rule_options(
    rule: str, options: Mapping[str, object], weights: Mapping[str, float] | None
) -> Mapping[str, object]:
    """Return the options read-only; raise an error for an unknown option or a value that the rule does not accept.

    If `weights` are given, an option that is given by source name may contain only source names in `weights`.
    """
    allowed, by_source = FUSION_RULES[rule].options, FUSION_RULES[rule].by_source
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise InvalidInputError(f"rule_options of {rule!r} must be among {list(allowed)}; got {unknown}")
    held = {
        name: check_mapping(f"rule_options[{name!r}]", one)
        for name, one in options.items()
        if name in by_source and isinstance(one, Mapping)
    }
    for name, of in held.items():
        foreign = [] if weights is None else sorted(set(of) - set(weights))
        if foreign:
            raise InvalidInputError(
                f"rule_options[{name!r}] must be a number, or a mapping that names only sources of weights "
                f"({', '.join(weights or ())}); it names {', '.join(foreign)}"
            )
    plain = {name: one for name, one in options.items() if name not in held}
    tried = [plain, *({**plain, name: one} for name, of in held.items() for one in of.values())]
    try:
        for one in filter(None, tried):
            _probe(rule, tuple((name, type(value), value) for name, value in one.items()))
    except InvalidInputError as error:
        raise type(error)(f"rule_options of {rule!r}: {error}") from error
    except Exception as error:
        raise InvalidTypeError(
            f"rule_options of {rule!r} have a value of a wrong type; got {dict(options)}: {error}"
        ) from error
    return MappingProxyType({**options, **held})


@lru_cache(maxsize=64)
def _probe(rule: str, options: tuple[tuple[str, type, object], ...]) -> None:
    """Run the rule once on a tiny matrix, and raise an error if the fused values are not finite.

    `options` contains the name, type and value of each option. The result is cached by these arguments. The type is
    needed because 1 and True are equal.
    """
    given: dict[str, Any] = {name: value for name, _, value in options}
    values = np.array([[1.0, 0.5], [0.5, 1.0], [0.75, np.nan]])
    with np.errstate(all="ignore"):
        fused = FUSION_RULES[rule].function(values, weights=np.ones(2), missing=np.zeros(2), **given)
    if not np.isfinite(fused).all():
        raise InvalidInputError(f"the options must give finite fused values; got {given}")


def check_scale(rule: str, calibrator: object, calibrators: Mapping[str, object]) -> None:
    """Raise InvalidInputError if the rule needs values in [0, 1], and a calibrator can return other values."""
    expects = FUSION_RULES[rule].expects
    if expects not in ("bounded", "percentile"):
        return
    named = [("calibrator", calibrator), *((f"calibrators[{name!r}]", one) for name, one in calibrators.items())]
    for name, one in named:
        if not getattr(one, "bounded", True):
            wanted = "percentile" if expects == "percentile" else "min_max"
            raise InvalidInputError(
                f"{name} must give values in [0, 1] for the rule {rule!r}, as ListCalibrator({wanted!r}) does; "
                f"got {one!r:.200}"
            )


def check_calibrator(name: str, value: object) -> None:
    """Raise InvalidTypeError unless `value` is callable and has a ``to_dict`` method, as every calibrator has."""
    if isinstance(value, type) or not callable(value) or not hasattr(value, "to_dict"):
        raise InvalidTypeError(f"{name} must be a Calibrator; got {value!r}")


def check_priors(value: object) -> tuple[Any, ...]:
    """Return the priors as a tuple; raise an error if an entry is not a prior.

    At most one prior may be an :class:`ExactMatchBonus`, and at most one a :class:`SuperpositionPrior`.
    """
    if not isinstance(value, tuple | list):
        raise InvalidTypeError(f"priors must be a tuple of priors; got {value!r}")
    for one in value:
        if not callable(one) or isinstance(one, type) or not hasattr(one, "additive") or not hasattr(one, "to_dict"):
            raise InvalidTypeError(f"priors must contain only priors; got {one!r}")
    for kind in (ExactMatchBonus, SuperpositionPrior):
        if sum(isinstance(one, kind) for one in value) > 1:
            raise InvalidInputError(f"priors must contain at most one {kind.__name__}; got {value!r}")
    return tuple(value)


PARTS: Mapping[str, Any] = MappingProxyType(
    {"accept": AcceptancePolicy, "selection": SelectionPolicy, "group_by": GroupBy}
)
_PART_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "accept": "an AcceptancePolicy, a Confidence",
        "selection": "a SelectionPolicy, the name of a method",
        "group_by": "a GroupBy, the name of a metadata key",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionSettings(KnownFields):
    """The fields of a :class:`~phasegraph.FusionPipeline` with their checks; that class documents each field."""

    pool_caps: Mapping[str, int] = field(default_factory=dict, hash=False)
    pool_cap_mode: PoolCapMode = "list"
    calibrator: Calibrator = field(default_factory=BackgroundCalibrator, hash=False)
    calibrators: Mapping[str, Calibrator] = field(default_factory=dict, hash=False)
    rule: str = "linear"
    rule_options: Mapping[str, object] = field(default_factory=dict, hash=False)
    weights: Mapping[str, float] | None = field(default=None, hash=False)
    weighting: str = "adaptive"
    consensus_bonus: float = 0.0
    consensus_bounded: bool = False
    priors: tuple[Prior, ...] = ()
    accept: AcceptancePolicy | None = None
    selection: SelectionPolicy | None = None
    group_by: GroupBy | None = None
    k: int = 10
    strict: bool = False
    min_agreement: Mapping[tuple[str, str], float] = field(default_factory=dict, hash=False)
    confidence: ConfidenceModel = field(default_factory=ConfidenceModel)

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("pool_caps", "calibrators", "rule_options"):
            put(self, name, check_mapping(name, getattr(self, name)))
        put(self, "min_agreement", check_floor(self.min_agreement))
        caps = {name: check_count(f"pool_caps[{name!r}]", cap, minimum=1) for name, cap in self.pool_caps.items()}
        put(self, "pool_caps", MappingProxyType(caps))
        check_choice("pool_cap_mode", self.pool_cap_mode, ("list", "unique_only"))
        check_calibrator("calibrator", self.calibrator)
        for source, own in self.calibrators.items():
            check_calibrator(f"calibrators[{source!r}]", own)
        check_choice("rule", self.rule, FUSION_RULES)
        check_scale(self.rule, self.calibrator, self.calibrators)
        if self.weights is not None:
            put(self, "weights", check_weights_mapping(self.weights))
        put(self, "rule_options", check_rule_options(self.rule, self.rule_options, self.weights))
        check_choice("weighting", self.weighting, WEIGHTINGS)
        put(self, "consensus_bonus", check_number("consensus_bonus", self.consensus_bonus))
        put(self, "priors", check_priors(self.priors))
        if self.weights is not None and self.exact_match is not None and EXACT_MATCH in self.weights:
            raise InvalidInputError(f"weights must not name {EXACT_MATCH!r}; set the weight of ExactMatchBonus instead")
        if isinstance(self.accept, Confidence):
            put(self, "accept", AcceptancePolicy(confidence=self.accept))
        if isinstance(self.selection, str):
            put(self, "selection", SelectionPolicy(self.selection))
        if isinstance(self.group_by, str):
            put(self, "group_by", GroupBy(self.group_by))
        if not isinstance(self.confidence, ConfidenceModel):
            raise InvalidTypeError(f"confidence must be a ConfidenceModel; got {self.confidence!r:.80}")
        for name, kind in PARTS.items():
            if not isinstance(getattr(self, name), kind | None):
                raise InvalidTypeError(f"{name} must be {_PART_WORDS[name]} or None; got {getattr(self, name)!r}")
        put(self, "k", check_count("k", self.k))
        check_flag("consensus_bounded", self.consensus_bounded)
        check_flag("strict", self.strict)

    @property
    def exact_match(self) -> ExactMatchBonus | None:
        """The :class:`ExactMatchBonus` among the priors, if its weight is positive; otherwise None."""
        if not self.priors:
            return None
        return next((one for one in self.priors if isinstance(one, ExactMatchBonus) and one.weight > 0), None)

    def calibrator_of(self, ranking: Ranking) -> Calibrator:
        """Return the calibrator for a ranking: its source's entry in `calibrators`, or the default `calibrator`.

        The default takes precedence if it is background calibration and the ranking has a background.
        """
        return calibrator_for(ranking, self.calibrators, self.calibrator)
