"""Map the ids of a ranking to the framework's documents or nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph.ranking import Ranking


class Payloads(Mapping[str, Any]):
    """A mapping of ids to the framework's documents or nodes (hits).

    `evidence` maps ids to the evidence that says how the source found the hit. If an id is repeated, its first hit
    counts. If the source returns only an id, the hit is None, and the mapping does not contain the id.

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
        """The ids that were read from metadata. Such an id may belong to several passages of a document."""
        self.evidence: Mapping[str, object] = {} if evidence is None else evidence

    def __reduce__(self) -> tuple[object, ...]:
        return Payloads, (list(self._ids), list(self._hits), dict(self.evidence))

    def follow(self, ranking: Ranking) -> None:
        """From now on, find a hit by the row of its id in `ranking`.

        The ids of `ranking` must be those from which this mapping was created, in the same order.
        """
        self._ranking = ranking

    def get(self, identifier: str, default: Any = None, /) -> Any:
        """Return the hit with an id; return `default` if the id is unknown or has no hit."""
        if self._ranking is None:
            return self.by_id.get(identifier, default)
        row = self._ranking.row_of(identifier)
        hit = None if row is None else self._hits[row]
        return default if hit is None else hit

    def best_first(self, scores: FloatArray) -> None:
        """Sort the hits by falling score; a repeated id then gives its best hit. NaN is the worst score."""
        order = np.argsort(np.where(np.isfinite(scores), -scores, np.inf), kind="stable").tolist()
        self._ids, self._hits = [self._ids[row] for row in order], [self._hits[row] for row in order]

    @property
    def by_id(self) -> dict[str, Any]:
        """A dictionary of the hits by id; ids without a hit are left out."""
        if self._index is None:
            pairs = zip(reversed(self._ids), reversed(self._hits), strict=True)
            self._index = {name: hit for name, hit in pairs if hit is not None}
        return self._index

    def all_by_id(self) -> dict[str, Any]:
        """Return a dictionary of the hits by id, with None for ids without a hit; it is faster than `by_id`."""
        return dict(zip(reversed(self._ids), reversed(self._hits), strict=True))

    def __getitem__(self, identifier: str) -> Any:
        return self.by_id[identifier]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_id)

    def __len__(self) -> int:
        return len(self.by_id)


def with_hits(ranking: Ranking, hits: Sequence[Any]) -> Ranking:
    """Return a copy of a ranking with `hits`, one for each id, as payloads; its old payloads become the evidence.

    The ids and scores of a ranking are checked when it is created, so they are not checked again.
    """
    made, payloads = object.__new__(Ranking), Payloads(ranking.ids, hits, ranking.payloads)
    for one in fields(Ranking):
        object.__setattr__(made, one.name, getattr(ranking, one.name))
    object.__setattr__(made, "payloads", payloads)
    payloads.follow(made)
    return made


def hits_of(payloads: Mapping[str, Any], ids: Sequence[str]) -> list[Any]:
    """Return the hit of each id in `ids`, in order, or None for an id without a hit; `payloads` maps ids to hits."""
    ranking = payloads._ranking if isinstance(payloads, Payloads) else None
    if ranking is None or not isinstance(payloads, Payloads):
        return list(map(payloads.get, ids))
    hits = payloads._hits
    return [None if row is None else hits[row] for row in map(ranking.row_of, ids)]
