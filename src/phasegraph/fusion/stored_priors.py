"""The registry of priors by name, and their construction from JSON."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType

from phasegraph._support.validation import check_choice
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.fusion.exact_match import ExactMatchBonus
from phasegraph.fusion.prior import Prior
from phasegraph.fusion.priors import RecencyPrior, UnitPrior
from phasegraph.fusion.superposition import SuperpositionPrior


def prior_from_dict(state: Mapping[str, object]) -> Prior:
    """Create a prior from the output of its ``to_dict``; raise InvalidInputError for an unknown name or option."""
    options = {str(key): value for key, value in state.items() if key != "name"}
    name = state.get("name")
    check_choice("prior name", name, PRIORS)
    try:
        return PRIORS[str(name)](**options)
    except InvalidTypeError:
        raise
    except TypeError as error:
        raise InvalidInputError(
            f"prior {name!r} takes the options {', '.join(inspect.signature(PRIORS[str(name)]).parameters)}; got "
            f"{sorted(options)}"
        ) from error


_KINDS = (UnitPrior, RecencyPrior, ExactMatchBonus, SuperpositionPrior)

PRIORS: Mapping[str, Callable[..., Prior]] = MappingProxyType({kind.name: kind for kind in _KINDS})
