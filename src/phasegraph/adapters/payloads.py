"""The framework's own objects, by id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, TypeVar

Hit = TypeVar("Hit")


class Payloads(Mapping[str, Hit], Generic[Hit]):
    """Hits by id, the first of each; indexed when first asked.

    Parameters
    ----------
    ids : (n,) sequence of str
    hits : (n,) sequence

    Examples
    --------
    >>> Payloads(["a", "b", "a"], [1, 2, 3])["a"]
    1
    """

    __slots__ = ("_hits", "_ids", "_index")

    def __init__(self, ids: Sequence[str], hits: Sequence[Hit]) -> None:
        self._ids = ids
        self._hits = hits
        self._index: dict[str, Hit] | None = None

    @property
    def by_id(self) -> dict[str, Hit]:
        """The hits as a plain dictionary."""
        if self._index is None:
            self._index = dict(zip(reversed(self._ids), reversed(self._hits), strict=True))
        return self._index

    def __getitem__(self, identifier: str) -> Hit:
        return self.by_id[identifier]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_id)

    def __len__(self) -> int:
        return len(self.by_id)
