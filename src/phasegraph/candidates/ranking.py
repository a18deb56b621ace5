"""One source's answer to one query, in canonical order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.candidates.background import Background
from phasegraph.candidates.copying import by_fields
from phasegraph.candidates.numbers import all_none, all_true, as_floats
from phasegraph.errors import InvalidInputError, InvalidTypeError

Header: TypeAlias = "tuple[Background | None, int | None, Mapping[str, object], str]"
_EMPTY: Mapping[str, object] = MappingProxyType({})
_ROWS = tuple(range(4096))  # row numbers that need not be made anew for every ranking
_IDS = "Ranking.ids must be strings that are not empty; source {0!r} gave {1!r}"


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """One source's answer to one query; hits in the order (score descending, id ascending), ids unique.

    Parameters
    ----------
    source : str
        Name of the source, not blank.
    ids : sequence of str
        Non-empty strings. A repeated id counts once, with its best score.
    scores : (n,) array_like of float
        Finite; higher is better (a distance comes negated).
    raw : (n,) array_like of float, optional
        The scores as the source gave them; default `scores`.
    rank_only : bool, default False
        The scores only encode an order (they are minus the rank).
    background : Background, optional
        The whole distribution, where the source knows it.
    size : int, optional
        Number of items the source searches, where it knows it.
    payloads : mapping of str to object
        Documents, nodes or paths by id; opaque here.
    dropped : int
        Hits removed on the way in.
    reason : str
        Why the ranking is empty, where the source says.

    Attributes
    ----------
    positions : mapping of str to int
        Row of each id; made here.
    row_of : callable
        ``row_of(id)`` is its row, or None; ``row_of(id, other)`` `other`. Quicker than through `positions`.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field breaks what is said above.

    Examples
    --------
    >>> Ranking("vector", ["b", "a", "c"], [0.5, 0.9, 0.5]).ids
    ('a', 'b', 'c')
    """

    source: str
    ids: Sequence[str]
    scores: FloatArray
    raw: FloatArray | None = None
    rank_only: bool = False
    background: Background | None = None
    size: int | None = None
    payloads: Mapping[str, object] = field(default_factory=dict, repr=False)
    dropped: int = 0
    reason: str = ""
    positions: MappingProxyType[str, int] = field(init=False, repr=False)
    row_of: Callable[..., int | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_header(self)
        scores = _as_array(self.source, "scores", self.scores)
        if scores.ndim != 1 or len(scores) != len(self.ids):
            raise InvalidInputError(
                f"Ranking.scores must have one value per id; got {scores.shape} for {len(self.ids)} ids"
            )
        if not all_true(np.isfinite(scores)):
            raise InvalidInputError(f"Ranking.scores must be finite; source {self.source!r} gave NaN or infinity")
        raw = scores if self.raw is None else _as_array(self.source, "raw", self.raw)
        if raw.shape != scores.shape:
            raise InvalidInputError(f"Ranking.raw must have shape {scores.shape}; got {raw.shape}")
        self._settle(scores, raw)

    def _settle(self, scores: FloatArray, raw: FloatArray) -> None:
        """Put the hits in order; `scores` and `raw` are finite, and nobody else's."""
        ids = _check_ids(self.source, self.ids)
        positions = _positions(ids)
        if len(positions) != len(ids) or not _is_ordered(ids, scores):
            ids, scores, raw = _canonical(ids, scores, raw)
            positions = _positions(ids)
        if "" in positions:
            raise InvalidTypeError(_IDS.format(self.source, ""))
        scores.setflags(write=False)
        raw.setflags(write=False)
        put = object.__setattr__
        put(self, "ids", ids)
        put(self, "scores", scores)
        put(self, "raw", raw)
        put(self, "positions", MappingProxyType(positions))
        put(self, "row_of", positions.get)
        if isinstance(self.payloads, dict):
            put(self, "payloads", self.payloads.copy())

    __reduce__ = by_fields

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def from_hits(
        cls,
        source: str,
        ids: Sequence[str],
        scores: Sequence[object] | FloatArray | None,
        *,
        higher_is_better: bool = True,
        background: Background | None = None,
        size: int | None = None,
        payloads: Mapping[str, object] = _EMPTY,
        reason: str = "",
    ) -> Ranking:
        """Build a ranking from what a store returned, dropping and counting unusable scores.

        Parameters
        ----------
        source, ids, background, size, payloads, reason
            As in :class:`Ranking`.
        scores : sequence of object or None
            Numbers of any kind. NaN, infinite, boolean, text and other non-numbers drop their hit, and so
            does an id that is no text or empty.
            ``None``, or ``None`` for every hit, makes the ranking rank-only, in the order given.
        higher_is_better : bool, default True
            False for distances: scores are negated, `raw` keeps them.

        Returns
        -------
        Ranking
            With `dropped` set to the number of hits removed.

        Raises
        ------
        InvalidInputError
            If `scores` and `ids` differ in length.

        Examples
        --------
        >>> ranking = Ranking.from_hits("v", ["a", "b", "c"], [0.2, float("nan"), 0.1], higher_is_better=False)
        >>> ranking.ids, ranking.scores, ranking.dropped
        (('c', 'a'), array([-0.1, -0.2]), 1)
        """
        if scores is not None and len(scores) != len(ids):
            raise InvalidInputError(
                f"scores must have one entry per id; source {source!r} gave {len(scores)} for {len(ids)} ids"
            )
        count = len(ids)
        header = (background, size, payloads, reason)
        if scores is None or (count and not isinstance(scores, np.ndarray) and all_none(scores)):
            return cls._in_order(source, ids, header)
        values = as_floats(scores)
        keep = np.isfinite(values)
        if not all_true(keep):
            ids, values = _rows(ids, values, np.flatnonzero(keep).tolist())
        signed = values if higher_is_better else -values
        try:
            return cls._made(source, ids, signed, values, False, count - len(ids), header)
        except InvalidTypeError:
            if all(map(_is_id, ids)):
                raise
        kept = [row for row, identifier in enumerate(ids) if _is_id(identifier)]
        named = [ids[row] for row in kept]
        return cls._made(source, named, signed[kept], values[kept], False, count - len(kept), header)

    @classmethod
    def _in_order(cls, source: str, ids: Sequence[str], header: Header) -> Ranking:
        """The ranking of hits of which only the order is known."""
        try:
            made = cls._made(source, ids, _falling(len(ids)), np.full(len(ids), np.nan), True, 0, header)
            if len(made.ids) == len(ids):
                return made
        except InvalidTypeError:
            if all(map(_is_id, ids)):
                raise
        named = [identifier for identifier in ids if _is_id(identifier)]
        unique = tuple(dict.fromkeys(named))
        raw = np.full(len(unique), np.nan)
        return cls._made(source, unique, _falling(len(unique)), raw, True, len(ids) - len(named), header)

    @classmethod
    def _made(
        cls,
        source: str,
        ids: Sequence[str],
        scores: FloatArray,
        raw: FloatArray,
        rank_only: bool,
        dropped: int,
        header: Header,
    ) -> Ranking:
        """The ranking of numbers that are known to be finite, one per id, and in arrays of their own."""
        made = object.__new__(cls)
        values = (source, ids, scores, raw, rank_only, *header, dropped)
        for put, value in zip(_PUT, values, strict=True):
            put(made, value)
        _check_header(made)
        made._settle(scores, raw)
        return made


def _falling(count: int) -> FloatArray:
    """Minus the ranks from 1."""
    return np.arange(-1.0, -count - 1.0, -1.0)


def _rows(ids: Sequence[str], values: FloatArray, rows: list[int]) -> tuple[list[str], FloatArray]:
    return [ids[row] for row in rows], values[rows]


def _is_id(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _positions(ids: tuple[str, ...]) -> dict[str, int]:
    """Row of each id; of a repeated one the last."""
    return dict(zip(ids, _ROWS if len(ids) <= len(_ROWS) else range(len(ids)), strict=False))


def _as_array(source: str, name: str, values: object) -> FloatArray:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"Ranking.{name} must be numbers; source {source!r} gave something else") from error


def _check_header(ranking: Ranking) -> None:
    if not isinstance(ranking.source, str) or not ranking.source.strip():
        raise InvalidTypeError(f"Ranking.source must be a name that is not blank; got {ranking.source!r}")
    if isinstance(ranking.ids, str | bytes):
        raise InvalidTypeError(f"Ranking.ids must be a sequence of strings; source {ranking.source!r} gave one string")
    dropped = ranking.dropped
    if isinstance(dropped, bool) or not isinstance(dropped, int) or dropped < 0:
        raise InvalidInputError(f"Ranking.dropped must be an integer >= 0; got {dropped!r}")
    size = ranking.size
    if size is not None and (isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0):
        raise InvalidInputError(f"Ranking.size must be an integer >= 0 or None; got {size!r}")


def _check_ids(source: str, ids: Iterable[str]) -> tuple[str, ...]:
    checked = tuple(ids)
    try:
        "".join(checked)  # the cheapest way to see that every one is text
    except TypeError:
        wrong = next(value for value in checked if not isinstance(value, str))
        raise InvalidTypeError(_IDS.format(source, wrong)) from None
    return checked


def _is_ordered(ids: tuple[str, ...], scores: FloatArray) -> bool:
    better, next_ones = scores[:-1], scores[1:]
    if all_true(better > next_ones):
        return True
    ties = np.flatnonzero(better == next_ones)
    return all_true(better >= next_ones) and all(ids[row] < ids[row + 1] for row in ties.tolist())


def _canonical(
    ids: tuple[str, ...], scores: FloatArray, raw: FloatArray
) -> tuple[tuple[str, ...], FloatArray, FloatArray]:
    """Order by (score descending, id ascending) and keep each id's best hit."""
    best: dict[str, int] = {}
    for row in sorted(range(len(ids)), key=lambda row: (-scores[row], ids[row])):
        best.setdefault(ids[row], row)
    rows = list(best.values())
    return tuple(best), scores[rows], raw[rows]


_HEADER = ("source", "ids", "scores", "raw", "rank_only", "background", "size", "payloads", "reason", "dropped")
_PUT = tuple([vars(Ranking)[name].__set__ for name in _HEADER])  # the slots themselves: a frozen value's only door
