"""What deciding may look at besides the rankings, and what a prior is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from numpy.typing import ArrayLike

from phasegraph._typing import FloatArray


@dataclass(frozen=True, slots=True)
class Context:
    """What deciding may look at besides the rankings; data gathered before.

    Parameters
    ----------
    query : str
        The query's text.
    now : float, optional
        Seconds since the epoch; needed by a recency prior only.
    attributes : mapping of str to mapping
        Per candidate id: ``importance`` and ``authority`` in [0, 1], ``timestamp`` in seconds since the epoch,
        ``text`` or ``exact`` for the exact-match bonus.
    embeddings : mapping of str to (d,) array, or callable
        Per candidate id, or ``embeddings(ids) -> (n, d) array``; needed by a selection that weighs redundancy.
    costs : mapping of str to float
        Per candidate id, for example tokens; needed by a selection with a budget.
    """

    query: str = ""
    now: float | None = None
    attributes: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)
    embeddings: Mapping[str, FloatArray] | Callable[[Sequence[str]], ArrayLike] = field(
        default_factory=dict, repr=False
    )
    costs: Mapping[str, float] = field(default_factory=dict, repr=False)


@runtime_checkable
class Prior(Protocol):
    """A multiplier (or, where `additive`, a bonus) per candidate."""

    @property
    def additive(self) -> bool:
        """Whether the values are added to the fused value rather than multiplied with it."""
        ...

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """(n,) values for the candidates."""
        ...

    def to_dict(self) -> Mapping[str, object]:
        """JSON-ready state with its registered ``name``."""
        ...
