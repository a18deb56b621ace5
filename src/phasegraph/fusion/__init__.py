"""Fusion rules: each rule computes (n,) fused values from (n, m) calibrated values.

A rule is a function with an entry in :data:`FUSION_RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from types import MappingProxyType
from typing import Literal

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph.fusion import experimental
from phasegraph.fusion.rules import (
    boltzmann,
    borda,
    comb_anz,
    comb_med,
    comb_mnz,
    comb_sum,
    dbsf,
    inverse_square_rank,
    linear,
    reciprocal_rank,
)

__all__ = ["FUSION_RULES", "FusionRule"]


_CALIBRATORS = {"calibrated": "background", "bounded": "min_max", "percentile": "percentile", "order": "raw"}


@dataclass(frozen=True, slots=True)
class FusionRule:
    """A fusion rule: a function from a candidate's calibrated values to its fused value, with its properties.

    Parameters
    ----------
    name : str
        The key of the rule in :data:`FUSION_RULES`.
    function : callable
        ``function(values, /, *, weights, missing, **options)`` returns an (n,) array.
    expects : {"calibrated", "bounded", "percentile", "order"}
        The scale that `values` needs. ``calibrated``: any common scale. ``bounded``: a common scale within [0, 1].
        ``percentile``: percentiles of each source's own list, in [0, 1]. ``order``: any scale, because only the order
        matters.
    additive : bool
        Whether the fused value is a sum with a term per source.
    row_wise : bool
        Whether a candidate's fused value depends only on its own row.
    sums : bool
        Whether the literature adds a term per source without dividing by the sum of the weights. Equal weights are then
        1 each, and the fused value is the textbook's value.
    calibrator : str
        Name of the calibrator for a pipeline that is built from the rule's name; default the calibrator for `expects`.
    experimental : bool
        Whether the formula is reconstructed, or no measurement shows that it helps.
    reference : str
        The publication that defines the rule.
    by_source : mapping of str to float
        Options that a pipeline may also give by source name, such as ``{"q": {"graph": 1.5}}``. The value here is the
        option's default for sources that the pipeline does not name.
    terms : callable, optional
        ``terms(filled, weights)`` returns (n, m) parts that add up to the function's value; ``terms(column, weight)``
        returns the part of one source. The values must not be NaN, and the weights must be valid. The pipeline calls
        `terms` instead of `function` if it is given.

    Attributes
    ----------
    options : tuple of str
        The keyword options of the function except `weights` and `missing`.
    """

    name: str
    function: Callable[..., FloatArray]
    expects: Literal["calibrated", "bounded", "percentile", "order"] = "calibrated"
    additive: bool = True
    row_wise: bool = True
    sums: bool = False
    calibrator: str = ""
    experimental: bool = False
    reference: str = ""
    by_source: Mapping[str, float] = field(default_factory=dict)
    terms: Callable[[FloatArray, FloatArray | float], FloatArray] | None = None
    options: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        own = [name for name in signature(self.function).parameters if name not in ("values", "weights", "missing")]
        object.__setattr__(self, "options", tuple(own))
        object.__setattr__(self, "calibrator", self.calibrator or _CALIBRATORS[self.expects])

    def options_for(self, options: Mapping[str, object], sources: Sequence[str]) -> dict[str, object]:
        """Return the options; an option that is given by source name becomes an (m,) array in order of `sources`."""
        return {
            name: np.array([given.get(source, self.by_source[name]) for source in sources])
            if isinstance(given, Mapping)
            else given
            for name, given in options.items()
        }


_FOX_SHAW = "Fox and Shaw, TREC-2, 1994"
_reconstructed = partial(FusionRule, experimental=True, reference="PhaseGraph, arXiv:2603.28886, appendix C")
_RULES = (
    FusionRule("linear", linear, reference="weighted sum of calibrated values", terms=np.multiply),
    FusionRule(
        "rrf", reciprocal_rank, "order", row_wise=False, sums=True, reference="Cormack, Clarke, Büttcher, SIGIR 2009"
    ),
    FusionRule("comb_sum", comb_sum, sums=True, calibrator="min_max", reference=_FOX_SHAW),
    FusionRule("comb_mnz", comb_mnz, "bounded", additive=False, sums=True, reference=_FOX_SHAW),
    FusionRule("comb_anz", comb_anz, "bounded", additive=False, reference=_FOX_SHAW),
    FusionRule("comb_med", comb_med, "bounded", additive=False, reference=_FOX_SHAW),
    FusionRule("boltzmann", boltzmann, "percentile", row_wise=False, reference="PhaseGraph, arXiv:2603.28886"),
    FusionRule(
        "isr",
        inverse_square_rank,
        "order",
        False,
        row_wise=False,
        sums=True,
        reference="Mourão, Martins, Magalhães, 2015",
    ),
    FusionRule("borda", borda, "order", row_wise=False, sums=True, reference="Aslam and Montague, SIGIR 2001"),
    FusionRule(
        "dbsf",
        dbsf,
        row_wise=False,
        sums=True,
        calibrator="raw",
        reference="Mazzeschi, Distribution-based score fusion, 2023",
    ),
    _reconstructed("log_linear", experimental.log_linear, "percentile", row_wise=False),
    _reconstructed("power_mean", experimental.power_mean, "percentile", additive=False),
    _reconstructed("tsallis", experimental.tsallis, "percentile", row_wise=False, by_source={"q": 1.0}),
    _reconstructed("gumbel_copula", experimental.gumbel_copula, "percentile", additive=False, row_wise=False),
    _reconstructed("interference", experimental.interference, "percentile", additive=False, row_wise=False),
    _reconstructed("normal_scores", experimental.normal_scores, "order", row_wise=False),
    _reconstructed(
        "wasserstein_temperature",
        experimental.wasserstein_temperature,
        additive=False,
        row_wise=False,
        calibrator="raw",
    ),
    _reconstructed("plackett_luce", experimental.plackett_luce, "order", row_wise=False),
)
FUSION_RULES: Mapping[str, FusionRule] = MappingProxyType({rule.name: rule for rule in _RULES})
