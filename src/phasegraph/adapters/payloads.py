"""The framework's own objects, by id."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from phasegraph.candidates import Ranking

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

    __slots__ = ("_hits", "_ids", "_index", "_row_of")

    def __init__(self, ids: Sequence[str], hits: Sequence[Hit]) -> None:
        self._ids = ids
        self._hits = hits
        self._index: dict[str, Hit] | None = None
        self._row_of: Callable[..., int | None] | None = None

    def follow(self, ranking: Ranking) -> None:
        """Find the hits by the rows of `ranking`, whose order is theirs: no index of their own is needed."""
        self._row_of = ranking.row_of

    def get(self, identifier: str, default: Any = None, /) -> Any:
        """The hit, or `default`."""
        if self._row_of is None:
            return self.by_id.get(identifier, default)
        row = self._row_of(identifier)
        return default if row is None else self._hits[row]

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
