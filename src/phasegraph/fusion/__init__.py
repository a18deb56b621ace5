"""(n, m) calibrated values to (n,) fused values. A rule is a function and its entry in :data:`FUSION_RULES`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from phasegraph._typing import FloatArray
from phasegraph.fusion.experimental import (
    gumbel_copula,
    interference,
    log_linear,
    normal_scores,
    plackett_luce,
    power_mean,
    tsallis,
    wasserstein_temperature,
)
from phasegraph.fusion.rules import (
    boltzmann,
    boltzmann_temperature,
    borda,
    comb_anz,
    comb_med,
    comb_mnz,
    comb_sum,
    dbsf,
    inverse_square_rank,
    linear,
    linear_terms,
    reciprocal_rank,
)

__all__ = [
    "FUSION_RULES",
    "FusionRule",
    "boltzmann",
    "boltzmann_temperature",
    "borda",
    "comb_anz",
    "comb_med",
    "comb_mnz",
    "comb_sum",
    "dbsf",
    "gumbel_copula",
    "interference",
    "inverse_square_rank",
    "linear",
    "log_linear",
    "normal_scores",
    "plackett_luce",
    "power_mean",
    "reciprocal_rank",
    "tsallis",
    "wasserstein_temperature",
]


Expects = Literal["calibrated", "bounded", "percentile", "order"]


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
    options : tuple of str
        Keyword options beyond weights and missing.
    experimental : bool
        The formula is reconstructed, or nothing shows that it helps.
    reference : str
        Where it comes from.
    terms : callable, optional
        ``terms(filled, weights) -> (n, m)`` parts that add up to the function's value, from values without NaN and
        weights that are known to be right, or ``terms(column, weight)`` of one source: what the pipeline uses in
        place of the function where there is one.
    """

    name: str
    function: Callable[..., FloatArray]
    expects: Expects = "calibrated"
    additive: bool = True
    row_wise: bool = True
    options: tuple[str, ...] = ()
    experimental: bool = False
    reference: str = ""
    terms: Callable[[FloatArray, FloatArray | float], FloatArray] | None = None


_RULES = (
    FusionRule("linear", linear, reference="weighted sum of calibrated values", terms=linear_terms),
    FusionRule(
        "rrf",
        reciprocal_rank,
        expects="order",
        row_wise=False,
        options=("rank_constant",),
        reference="Cormack, Clarke, Büttcher, SIGIR 2009",
    ),
    FusionRule("comb_sum", comb_sum, expects="bounded", reference="Fox and Shaw, TREC-2, 1994"),
    FusionRule("comb_mnz", comb_mnz, expects="bounded", additive=False, reference="Fox and Shaw, TREC-2, 1994"),
    FusionRule(
        "boltzmann",
        boltzmann,
        expects="percentile",
        row_wise=False,
        options=("epsilon", "temperature_factor", "temperature", "norm"),
        reference="PhaseGraph, arXiv:2603.28886",
    ),
    FusionRule(
        "comb_anz",
        comb_anz,
        expects="bounded",
        additive=False,
        reference="Fox and Shaw, TREC-2, 1994",
    ),
    FusionRule(
        "comb_med",
        comb_med,
        expects="bounded",
        additive=False,
        reference="Fox and Shaw, TREC-2, 1994",
    ),
    FusionRule(
        "isr",
        inverse_square_rank,
        expects="order",
        additive=False,
        row_wise=False,
        reference="Mourão, Martins, Magalhães, 2015",
    ),
    FusionRule(
        "borda",
        borda,
        expects="order",
        row_wise=False,
        reference="Aslam and Montague, SIGIR 2001",
    ),
    FusionRule(
        "dbsf",
        dbsf,
        row_wise=False,
        reference="Mazzeschi, Distribution-based score fusion, 2023",
    ),
    FusionRule(
        "log_linear",
        log_linear,
        expects="percentile",
        row_wise=False,
        options=("epsilon",),
        experimental=True,
        reference="PhaseGraph, arXiv:2603.28886, appendix C",
    ),
    FusionRule(
        "power_mean",
        power_mean,
        expects="percentile",
        additive=False,
        options=("exponent",),
        experimental=True,
        reference="PhaseGraph, arXiv:2603.28886, appendix C",
    ),
    FusionRule(
        "tsallis",
        tsallis,
        expects="percentile",
        row_wise=False,
        options=("q", "epsilon"),
        experimental=True,
        reference="PhaseGraph, arXiv:2603.28886, appendix C",
    ),
    FusionRule(
        "gumbel_copula",
        gumbel_copula,
        expects="percentile",
        additive=False,
        row_wise=False,
        options=("theta",),
        experimental=True,
        reference="PhaseGraph, arXiv:2603.28886, appendix C",
    ),
    FusionRule(
        "interference",
        interference,
        expects="percentile",
        additive=False,
        row_wise=False,
        options=("phase", "epsilon"),
        experimental=True,
        reference="PhaseGraph, arXiv:2603.28886, appendix C",
    ),
    FusionRule(
        "normal_scores",
        normal_scores,
        expects="order",
        row_wise=False,
        experimental=True,
        reference="PhaseGraph, arXiv:2603.28886, appendix C",
    ),
    FusionRule(
        "wasserstein_temperature",
        wasserstein_temperature,
        additive=False,
        row_wise=False,
        options=("strength",),
        experimental=True,
        reference="PhaseGraph, arXiv:2603.28886, appendix C",
    ),
    FusionRule(
        "plackett_luce",
        plackett_luce,
        expects="order",
        row_wise=False,
        options=("prior", "tolerance", "iterations"),
        experimental=True,
        reference="PhaseGraph, arXiv:2603.28886, appendix C",
    ),
)
FUSION_RULES: Mapping[str, FusionRule] = MappingProxyType({rule.name: rule for rule in _RULES})
