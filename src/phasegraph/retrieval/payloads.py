"""The framework's own hits, by id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph.ranking import Ranking


class Payloads(Mapping[str, Any]):
    """The framework's hits by id (the first hit of each id), with the source's evidence.

    A hit that is None, because the source knows only its id, counts as missing.

    >>> Payloads(["a", "b", "a"], [1, 2, 3])["a"]
    1
    """

    __slots__ = ("_hits", "_ids", "_index", "_ranking", "derived", "evidence")

    def __init__(
        self,
        ids: Sequence[str],
        hits: Sequence[Any],
        evidence: Mapping[str, object] | None = None,
    ) -> None:
        self._ids = ids
        self._hits = hits
        self._index: dict[str, Any] | None = None
        self._ranking: Ranking | None = None
        self.derived: frozenset[str] = getattr(ids, "derived", frozenset())
        """Ids that were read from metadata: two passages of one document may have the same."""
        self.evidence: Mapping[str, object] = {} if evidence is None else evidence

    def __reduce__(self) -> tuple[object, ...]:
        return Payloads, (list(self._ids), list(self._hits), dict(self.evidence))

    def follow(self, ranking: Ranking) -> None:
        """Find hits by the rows of `ranking`, which has the same order; then no separate index is needed."""
        self._ranking = ranking

    def get(self, identifier: str, default: Any = None, /) -> Any:
        """The hit, or `default`."""
        if self._ranking is None:
            return self.by_id.get(identifier, default)
        row = self._ranking.row_of(identifier)
        hit = None if row is None else self._hits[row]
        return default if hit is None else hit

    def best_first(self, scores: FloatArray) -> None:
        """Let the best hit of a repeated id stand for this id instead of the first; NaN is the worst score."""
        order = np.argsort(np.where(np.isfinite(scores), -scores, np.inf), kind="stable").tolist()
        self._ids, self._hits = [self._ids[row] for row in order], [self._hits[row] for row in order]

    @property
    def by_id(self) -> dict[str, Any]:
        """Return the hits as a plain dictionary."""
        if self._index is None:
            pairs = zip(reversed(self._ids), reversed(self._hits), strict=True)
            self._index = {name: hit for name, hit in pairs if hit is not None}
        return self._index

    def __getitem__(self, identifier: str) -> Any:
        return self.by_id[identifier]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_id)

    def __len__(self) -> int:
        return len(self.by_id)


def hits_of(payloads: Mapping[str, Any], ids: Sequence[str]) -> list[Any]:
    """Return the hits for some ids; None for missing hits."""
    ranking = payloads._ranking if isinstance(payloads, Payloads) else None
    if ranking is None or not isinstance(payloads, Payloads):
        return list(map(payloads.get, ids))
    hits = payloads._hits
    return [None if row is None else hits[row] for row in map(ranking.row_of, ids)]
