"""Query-independent evidence: importance, recency, authority, and a bonus for an exact match.

A prior multiplies the fused value (it is no source of its own and adds no candidate); the exact-match bonus is
added to it. What they read comes with the context, by id, so that deciding stays a pure function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from phasegraph.errors import InvalidInputError
from phasegraph.priors.context import Context, Prior
from phasegraph.priors.exact import ExactMatchBonus
from phasegraph.priors.multipliers import RecencyPrior, UnitPrior, importance_multiplier, recency
from phasegraph.priors.superposition import Superposition, SuperpositionPrior, superposition

__all__ = [
    "PRIORS",
    "Context",
    "ExactMatchBonus",
    "Prior",
    "RecencyPrior",
    "Superposition",
    "SuperpositionPrior",
    "UnitPrior",
    "importance_multiplier",
    "prior_from_dict",
    "recency",
    "superposition",
]


def prior_from_dict(state: Mapping[str, object]) -> Prior:
    """Rebuild a prior from its ``to_dict`` state.

    Parameters
    ----------
    state : mapping
        With a registered ``name`` and the prior's options.

    Returns
    -------
    Prior

    Raises
    ------
    InvalidInputError
        If the name is unknown or an option does not belong to it.

    Examples
    --------
    >>> prior_from_dict({"name": "unit", "key": "authority"})
    UnitPrior(key='authority', strength=0.3, neutral=1.0)
    """
    options = {str(key): value for key, value in state.items() if key != "name"}
    name = state.get("name")
    if not isinstance(name, str) or name not in PRIORS:
        raise InvalidInputError(f"prior name must be one of {sorted(PRIORS)}; got {name!r}")
    try:
        return PRIORS[name](**options)
    except TypeError as error:
        raise InvalidInputError(f"prior {name!r} does not take the options {sorted(options)}") from error


PRIORS: Mapping[str, Callable[..., Prior]] = MappingProxyType(
    {"unit": UnitPrior, "recency": RecencyPrior, "exact_match": ExactMatchBonus, "superposition": SuperpositionPrior}
)
