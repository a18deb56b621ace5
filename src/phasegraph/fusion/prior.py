"""What a prior is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Protocol, runtime_checkable

from phasegraph._support.typing import FloatArray
from phasegraph.fusion.context import Context


@runtime_checkable
class Prior(Protocol):
    """A multiplier (or, where `additive`, a bonus) per candidate.

    One that also has ``weigh(ids, context) -> (values, readings)`` says how many candidates held what it reads.
    """

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


class StoredPrior:
    """A prior whose state is its registered name and its fields."""

    __slots__ = ()
    name: ClassVar[str]
    additive: ClassVar[bool] = False

    def to_dict(self: Any) -> dict[str, object]:
        """JSON-ready state."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {"name": self.name, **{key: list(one) if isinstance(one, tuple) else one for key, one in values.items()}}
