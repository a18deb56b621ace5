"""The bonus of a candidate that holds the query word for word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError
from phasegraph.priors.context import Context


@dataclass(frozen=True, slots=True)
class ExactMatchBonus:
    """Bonus of a candidate that holds the query word for word (reconstructed: the design record names it only).

    Parameters
    ----------
    weight : float, default 0.0
        >= 0. The bonus is ``weight / (rank_constant + 1)``: one more source that ranks every exact hit first.
    rank_constant : float, default 60
        > 0.

    Notes
    -----
    A candidate is exact where its attribute ``exact`` is true, else where its ``text`` holds the query, letter
    case and runs of white space apart.

    Examples
    --------
    >>> bonus = ExactMatchBonus(weight=6.1)
    >>> bonus(["a", "b"], Context(query="deep  Sea", attributes={"a": {"text": "The deep sea."}})).round(3)
    array([0.1, 0. ])
    """

    weight: float = 0.0
    rank_constant: float = 60.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.weight) and self.weight >= 0):
            raise InvalidInputError(f"weight must be finite and >= 0; got {self.weight!r}")
        if not (np.isfinite(self.rank_constant) and self.rank_constant > 0):
            raise InvalidInputError(f"rank_constant must be finite and positive; got {self.rank_constant!r}")

    @property
    def additive(self) -> bool:
        """True: it is added."""
        return True

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """(n,) bonuses >= 0."""
        query = " ".join(context.query.split()).casefold()
        bonus = self.weight / (self.rank_constant + 1.0)
        return np.array([bonus if _is_exact(query, context.attributes.get(i)) else 0.0 for i in ids])

    def to_dict(self) -> dict[str, object]:
        """JSON-ready state."""
        return {"name": "exact_match", "weight": self.weight, "rank_constant": self.rank_constant}


def _is_exact(query: str, attributes: Mapping[str, object] | None) -> bool:
    if attributes is None or not query:
        return False
    stated = attributes.get("exact")
    if isinstance(stated, bool):
        return stated
    text = attributes.get("text")
    return isinstance(text, str) and query in " ".join(text.split()).casefold()
