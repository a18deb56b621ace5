"""The interface of priors, and a base class for priors that are stored as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Protocol, runtime_checkable

from phasegraph._support.typing import FloatArray
from phasegraph.fusion.context import Context


@runtime_checkable
class Prior(Protocol):
    """A function that returns a multiplier per candidate or, if `additive`, a bonus per candidate.

    A prior may also have a method ``weigh(ids, context)``. It returns the values together with counts of the candidates
    that have the fields which the prior reads.
    """

    @property
    def additive(self) -> bool:
        """True if the values are added to the fused values, False if they are multiplied with the fused values."""
        ...

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """Return an (n,) array with a value for each candidate in `ids`."""
        ...

    def to_dict(self) -> Mapping[str, object]:
        """Return the prior in plain JSON types, with its registered ``name``."""
        ...


class StoredPrior:
    """A base class for priors whose JSON form is the registered name and the dataclass fields."""

    __slots__ = ()
    name: ClassVar[str]
    additive: ClassVar[bool] = False

    def to_dict(self: Any) -> dict[str, object]:
        """Return the prior in plain JSON types."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {"name": self.name, **{key: list(one) if isinstance(one, tuple) else one for key, one in values.items()}}
