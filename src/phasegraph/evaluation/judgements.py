"""What counts as found for a query, apart from where the judgement came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

_NO_GRADES: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Judgement:
    """What counts as found for one query.

    Parameters
    ----------
    query : str
        Id of the query.
    hops : tuple of tuple of str
        Per hop the ids of the passages that satisfy it (usually one).
    last_hop_known : bool, default True
        Whether the last of `hops` is the last one to follow; if not, LastHop leaves the query out.
    grades : mapping of str to float, optional
        Gain per id for nDCG; default 1 for the first passage of each hop.
    """

    query: str
    hops: tuple[tuple[str, ...], ...]
    last_hop_known: bool = True
    grades: Mapping[str, float] = field(default_factory=lambda: _NO_GRADES)

    @property
    def passages(self) -> frozenset[str]:
        """Ids of all passages of all hops."""
        return frozenset(passage for hop in self.hops for passage in hop)
