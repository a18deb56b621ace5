"""(n, m) calibrated values to (n,) fused values. A rule is a function and its entry in :data:`FUSION_RULES`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from phasegraph._typing import FloatArray
from phasegraph.fusion.basic import comb_mnz, comb_sum, linear, reciprocal_rank
from phasegraph.fusion.boltzmann import boltzmann, boltzmann_temperature

__all__ = [
    "FUSION_RULES",
    "FusionRule",
    "boltzmann",
    "boltzmann_temperature",
    "comb_mnz",
    "comb_sum",
    "linear",
    "reciprocal_rank",
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
    """

    name: str
    function: Callable[..., FloatArray]
    expects: Expects = "calibrated"
    additive: bool = True
    row_wise: bool = True
    options: tuple[str, ...] = ()
    experimental: bool = False
    reference: str = ""


_RULES = (
    FusionRule("linear", linear, reference="weighted sum of calibrated values"),
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
)

FUSION_RULES: Mapping[str, FusionRule] = MappingProxyType({rule.name: rule for rule in _RULES})
