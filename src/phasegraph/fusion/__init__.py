"""(n, m) calibrated values to (n,) fused values. A rule is a function and its entry in :data:`FUSION_RULES`."""

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
    """One way to turn calibrated values into one value.

    Parameters
    ----------
    name : str
        Its key in :data:`FUSION_RULES`.
    function : callable
        ``function(values, /, *, weights, missing, **options) -> (n,) array``.
    expects : {"calibrated", "bounded", "percentile", "order"}
        What `values` must be: any common scale; a scale within [0, 1]; own-list percentiles in [0, 1];
        anything whose order counts.
    additive : bool
        The fused value is a sum of one term per source.
    row_wise : bool
        A candidate's fused value depends on its own row only, not on the rest of the lists.
    sums : bool
        The literature adds one term per source without dividing: where all weights are equal each counts 1, so that
        the fused value is the textbook's.
    calibrator : str
        The calibrator that the rule has where it is asked for by name; default by `expects`.
    experimental : bool
        The formula is reconstructed, or nothing shows that it helps.
    reference : str
        Where it comes from.
    by_source : mapping of str to float
        Options that a pipeline may also hold by source name, such as ``{"q": {"graph": 1.5}}``, and what a source takes
        that is not named there.
    terms : callable, optional
        ``terms(filled, weights) -> (n, m)`` parts that add up to the function's value, from values without NaN and
        weights that are known to be right, or ``terms(column, weight)`` of one source: what the pipeline uses in
        place of the function where there is one.

    Attributes
    ----------
    options : tuple of str
        Keyword options of the function beyond weights and missing.
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
        """Options with a number for each of the `sources`, (m,) arrays, where they are held by source name."""
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
