"""What sources return, and the union of it: rankings, reports, candidates, ranks and the one tie rule.

A :class:`Ranking` is one source's answer to one query, always in one canonical order (score descending, id
ascending), so that everything after it is a pure function of its content. :func:`pool` joins rankings by id
into :class:`Candidates`, where a score that a source did not return is NaN and never zero.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from itertools import compress, repeat
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Literal, SupportsFloat, TypeAlias

import numpy as np

from phasegraph._typing import BoolArray, FloatArray, IntArray
from phasegraph.errors import InvalidInputError, InvalidTypeError

_NUMERIC = frozenset({float, int, np.float64, np.float32, np.float16, np.int64, np.int32})


def is_number(value: object) -> bool:
    """Whether `value` is a real number; a boolean is none."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def all_none(scores: Sequence[object]) -> bool:
    """Whether every one of at least one score is None."""
    return scores[0] is None and all(score is None for score in scores)


def all_true(flags: BoolArray) -> bool:
    """Whether every flag is true; a search through its bytes costs half of ``flags.all()``."""
    return b"\0" not in flags.tobytes()


def as_floats(scores: Sequence[object] | FloatArray) -> FloatArray:
    """Numbers as float64, anything that is not a number as NaN."""
    if isinstance(scores, np.ndarray) and scores.dtype.kind in "fiu":
        return scores.astype(np.float64)
    if len(scores) and type(scores[0]) is float:
        found = _all_floats(scores)
        if found is not None:
            return found
    if set(map(type, scores)) <= _NUMERIC:
        try:
            return np.array(scores, dtype=np.float64)
        except OverflowError:
            return np.array([_as_float(score) for score in scores], dtype=np.float64)
    return np.array([_as_float(score) for score in scores], dtype=np.float64)


def _all_floats(scores: Sequence[object] | FloatArray) -> FloatArray | None:
    """The numbers, where all of them are and none can be a boolean in disguise; else None.

    Packing is the quickest conversion: a third of what NumPy needs for a list.
    """
    try:
        found = np.frombuffer(struct.pack(f"{len(scores)}d", *scores))
    except (struct.error, TypeError, ValueError, OverflowError, RuntimeError):
        return None
    return found if all_true(found != 0.0) and all_true(found != 1.0) else None


def _as_float(score: object) -> float:
    if isinstance(score, bool | np.bool_ | str | bytes) or score is None:
        return float("nan")
    if isinstance(score, Decimal | SupportsFloat):
        try:
            return float(score)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            return float("nan")
    return float("nan")


def by_fields(value: Any) -> tuple[Callable[..., Any], tuple[type, Mapping[str, Any]]]:
    """``__reduce__`` of a frozen dataclass: it is made again, and checked again, from its fields.

    Nothing of this library reads a pickle from a file; it is for worker processes and for ``copy.deepcopy``.
    """
    given = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
    plain = {name: dict(one) if isinstance(one, MappingProxyType) else one for name, one in given.items()}
    return _made, (type(value), plain)


def _made(kind: type, given: Mapping[str, Any]) -> Any:
    return kind(**given)


Transform = Literal["identity", "log"]
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, slots=True)
class Background:
    """Location and scale of a source's whole score distribution for the query at hand, over all it holds.

    Parameters
    ----------
    location, scale : float
        Mean and standard deviation of the transformed scores; `scale` is positive.
    transform : {"identity", "log"}, default "identity"
        What is applied to a score first; ``log`` is ``log(score + floor)``.
    floor : float, default 0.0
        Added before the logarithm; >= 0.

    Raises
    ------
    InvalidInputError
        If a number is not finite, `scale` is not positive or `floor` is negative.

    Examples
    --------
    >>> Background(location=0.1, scale=0.2).standardise(np.array([0.5])).round(3)
    array([2.])
    """

    location: float
    scale: float
    transform: Transform = "identity"
    floor: float = 0.0

    def __post_init__(self) -> None:
        for name in ("location", "scale", "floor"):
            if not is_number(getattr(self, name)):
                raise InvalidTypeError(f"Background.{name} must be a number; got {getattr(self, name)!r}")
        if not np.isfinite(self.location):
            raise InvalidInputError(f"Background.location must be finite; got {self.location!r}")
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise InvalidInputError(f"Background.scale must be finite and positive; got {self.scale!r}")
        if self.transform not in ("identity", "log"):
            raise InvalidInputError(f"Background.transform must be 'identity' or 'log'; got {self.transform!r}")
        if not (np.isfinite(self.floor) and self.floor >= 0):
            raise InvalidInputError(f"Background.floor must be finite and >= 0; got {self.floor!r}")

    def standardise(self, scores: FloatArray, /) -> FloatArray:
        """Standard deviations above the source's mean, shape of `scores`; higher is better."""
        if self.transform == "identity":
            values = scores - self.location
        else:
            values = np.log(np.maximum(scores + self.floor, _TINY))
            values -= self.location
        values /= self.scale
        return values


Header: TypeAlias = "tuple[Background | None, int | None, Mapping[str, object], str]"
_EMPTY: Mapping[str, object] = MappingProxyType({})
_ROWS = tuple(range(4096))  # row numbers that need not be made anew for every ranking
_IDS_RANKING = "Ranking.ids must be strings that are not empty; source {0!r} gave {1!r}"


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
            raise InvalidTypeError(_IDS_RANKING.format(self.source, ""))
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
        raise InvalidTypeError(_IDS_RANKING.format(source, wrong)) from None
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


Status: TypeAlias = Literal["ok", "empty", "partial", "timeout", "error", "skipped"]
MOST = 0.5
_DEGRADED = frozenset({"partial", "timeout", "error", "skipped"})
_STATUS, _WITHOUT = attrgetter("status"), attrgetter("missing")


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What one source did for one query.

    Parameters
    ----------
    source : str
        Name of the source.
    status : {"ok", "empty", "partial", "timeout", "error", "skipped"}
        ``empty`` found nothing, ``error``/``timeout``/``skipped`` could not look, ``partial`` looked in part.
    reason : str
        One line; never holds query text or secrets.
    error_class : str
        Class name of what was raised, or ``""``.
    milliseconds : float
        Wall time from the call to the settlement of the source.
    hits, dropped : int
        Hits kept; hits removed because their score or id was unusable.
    calibration : str
        ``stated``, ``fitted``, ``list`` or the name of a per-list calibrator; ``""`` where nothing was fused.
    missing : tuple of str
        Sources whose ranking was asked for and had not arrived.
    notes : tuple of str
        Anything handled that the caller should know (direction inferred, ids hashed, order contradicted…).
    out_of_range_share : float
        Share of its scores that lie beyond the reference sample they were calibrated by, in [0, 1]; 0 where there is
        none.
    """

    source: str
    status: Status
    reason: str = ""
    error_class: str = ""
    milliseconds: float = 0.0
    hits: int = 0
    dropped: int = 0
    calibration: str = ""
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    out_of_range_share: float = 0.0

    @classmethod
    def of(cls, ranking: Ranking, tier: str = "", out_of_range_share: float = 0.0) -> SourceReport:
        """The report of a ranking that came without one, calibrated by `tier`."""
        status, reason = found_in(ranking)
        return cls(
            ranking.source,
            status,
            reason,
            "",
            0.0,
            len(ranking.ids),
            ranking.dropped,
            tier,
            out_of_range_share=out_of_range_share,
        )

    @property
    def answered(self) -> bool:
        """Whether the source contributed a ranking with at least one hit."""
        return self.status in ("ok", "partial") and self.hits > 0

    def calibrated(self, tier: str, out_of_range_share: float = 0.0) -> SourceReport:
        """The same report, of a source that was calibrated by `tier`, that share of its scores beyond the sample."""
        return SourceReport(
            self.source, self.status, self.reason, self.error_class, self.milliseconds, self.hits, self.dropped,
            tier, self.missing, self.notes, out_of_range_share,
        )  # fmt: skip

    @property
    def drifted(self) -> bool:
        """Whether most of its scores lie beyond the reference sample: a changed model or collection does that.

        Of n + 1 queries alike at most two have any score above or below those of all others, so that after n
        calibration queries a false alarm has a chance of at most 2 / (n + 1).
        """
        return self.out_of_range_share > MOST

    @property
    def degraded(self) -> bool:
        """Whether the source could not look, or looked only in part."""
        return self.status in _DEGRADED


def found_in(ranking: Ranking) -> tuple[Status, str]:
    """Status of a source that returned this ranking, and why: ``partial`` where none of its hits was usable."""
    if len(ranking):
        return "ok", ranking.reason
    if ranking.dropped:
        return "partial", f"none of its {ranking.dropped} hits had a usable score and id"
    return "empty", ranking.reason


def degradations(reports: Sequence[SourceReport]) -> dict[str, str]:
    """Per degraded source, in name order, why: its own failure, or a ranking it needed that came too late."""
    if _DEGRADED.isdisjoint(map(_STATUS, reports)) and not any(map(_WITHOUT, reports)):
        return {}
    status = {report.source: report.status for report in reports}
    found: dict[str, str] = {}
    for report in reports:
        missed = [need for need in report.missing if status.get(need, "empty") != "empty"]
        if report.degraded:
            found[report.source] = f"{report.status} ({report.reason})" if report.reason else report.status
        elif missed:
            found[report.source] = f"ran without {', '.join(missed)}"
    return found


_STRIDES = 64
_FEW = 32
_IDS, _SOURCE = attrgetter("ids"), attrgetter("source")
_ABSENT = repeat(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The union of several rankings of one query.

    Parameters
    ----------
    ids : tuple of str
        The n distinct ids. Their order is fixed by the content of the rankings, not by how they were given.
    sources : tuple of str
        The m source names, ascending.
    rankings : tuple of Ranking
        One per source, in the order of `sources`.
    positions : tuple of (n_j,) array of int
        For each ranking, the row in `ids` of each of its hits.
    """

    ids: tuple[str, ...]
    sources: tuple[str, ...]
    rankings: tuple[Ranking, ...]
    positions: tuple[IntArray, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def scores(self) -> FloatArray:
        """(n, m) array: each column in its source's own unit, higher is better, NaN = not returned."""
        return self.spread([ranking.scores for ranking in self.rankings])

    @property
    def returned(self) -> IntArray:
        """(n,) array of int: how many sources returned each candidate, 1 to m."""
        counts = np.zeros(len(self.ids), dtype=np.intp)
        for rows in self.positions:
            counts[rows] += 1
        return counts

    def spread(self, columns: Sequence[FloatArray], fill: Sequence[float] | None = None) -> FloatArray:
        """Per-hit values of each ranking laid out as an (n, m) array, NaN or `fill` where not returned."""
        out = np.empty((len(self.ids), len(self.sources)), order="F")
        for column, (rows, values) in enumerate(zip(self.positions, columns, strict=True)):
            target = out[:, column]
            target.fill(np.nan if fill is None else fill[column])
            target[rows] = values
        return out


def pool(rankings: Sequence[Ranking]) -> Candidates:
    """Union of the rankings by id.

    Parameters
    ----------
    rankings : sequence of Ranking
        At most one per source name; empty ones are left out.

    Returns
    -------
    Candidates
        Sources in name order; the same for any order of `rankings`.

    Raises
    ------
    InvalidInputError
        If two rankings carry the same source name.

    Examples
    --------
    >>> found = pool([Ranking("v", ["a", "b"], [0.9, 0.5]), Ranking("g", ["b"], [3.0])])
    >>> found.ids, found.sources
    (('a', 'b'), ('g', 'v'))
    >>> found.scores
    array([[nan, 0.9],
           [3. , 0.5]])
    """
    present = tuple(sorted(filter(_IDS, rankings), key=_SOURCE))
    names = tuple(map(_SOURCE, present))
    if len(set(names)) != len(names):
        raise InvalidInputError(f"rankings must come from sources with different names; got {names}")
    if not present:
        return Candidates((), (), (), ())
    lengths = list(map(len, map(_IDS, present)))
    column, *others = sorted(range(len(present)), key=lengths.__getitem__, reverse=True)
    largest, first = present[column], lengths[column]
    positions = [np.arange(first)] * len(present)
    added: list[str] = []  # the ids that the largest ranking lacks
    for column in others:
        ids = present[column].ids
        positions[column] = rows = np.fromiter(map(largest.row_of, ids, _ABSENT), np.intp, lengths[column])
        lacking = rows < 0
        fresh = compress(ids, lacking.tobytes())
        if added:
            row_of = {one: row for row, one in enumerate(added, first)}
            rows[lacking] = [row_of.setdefault(one, first + len(row_of)) for one in fresh]
            added = list(row_of)
        else:
            added = list(fresh)
            rows[lacking] = np.arange(first, first + len(added))
    for array in positions:
        array.setflags(write=False)
    return Candidates((*largest.ids, *added), names, present, tuple(positions))


def tied_ranks(values: FloatArray, /) -> FloatArray:
    """Ranks from 1, best (highest) first, ties sharing their mean rank.

    Parameters
    ----------
    values : (n,) array of float
        Higher is better; NaN = not returned, and stays NaN.

    Returns
    -------
    (n,) array of float
        In [1, n] or NaN.

    Examples
    --------
    >>> tied_ranks(np.array([0.2, 0.9, 0.2, np.nan]))
    array([2.5, 1. , 2.5, nan])
    """
    out = np.full(len(values), np.nan)
    present = np.flatnonzero(~np.isnan(values))
    if not len(present):
        return out
    order = present[np.argsort(-values[present], kind="stable")]
    ordered = values[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    ends = np.r_[starts[1:], len(ordered)]
    out[order] = np.repeat((starts + 1 + ends) / 2.0, ends - starts)
    return out


def top_order(values: FloatArray, ids: Sequence[str], k: int | None = None) -> IntArray:
    """Rows of the first `k` by (value descending, id ascending): the tie rule of the whole library.

    Parameters
    ----------
    values : (n,) array of float
        Not NaN.
    ids : sequence of str
        The n ids.
    k : int, optional
        How many; default all.

    Returns
    -------
    (min(k, n),) array of int

    Examples
    --------
    >>> top_order(np.array([0.5, 0.9, 0.5]), ["b", "c", "a"], 2)
    array([1, 2])
    """
    count = len(values)
    wanted = count if k is None else min(k, count)
    if wanted <= 0:
        return np.empty(0, dtype=np.intp)
    bound = _bound(values, wanted) if wanted < count else None
    rows = np.arange(count) if bound is None else (values >= bound).nonzero()[0]
    kept = values if bound is None else values[rows]
    if wanted < len(rows) and len(rows) > _FEW:
        ordered = kept.copy()
        ordered.partition(len(rows) - wanted)
        inside = (kept >= ordered[len(rows) - wanted]).nonzero()[0]
        rows, kept = rows[inside], kept[inside]
    if len(rows) > _FEW:
        order = (-kept).argsort(kind="stable")
        rows, kept = rows[order], kept[order]
        if all_true(kept[1:] != kept[:-1]):
            return rows[:wanted]
    return _sorted(rows.tolist(), kept.tolist(), ids)[:wanted]


def _sorted(rows: list[int], values: list[float], ids: Sequence[str]) -> IntArray:
    """The rows by (value descending, id ascending)."""
    pairs = sorted([(-value, ids[row], row) for value, row in zip(values, rows, strict=True)])
    return np.array([row for _, _, row in pairs], dtype=np.intp)


def _bound(values: FloatArray, wanted: int) -> float | None:
    """A value that at least `wanted` of many values reach, close to their `wanted`-th largest; None for few values.

    The largest of every 64 are compared instead of all; they are taken in strides, because lists come ordered.
    """
    width = len(values) // _STRIDES
    if wanted > width:
        return None
    peaks = np.maximum.reduce(values[: width * _STRIDES].reshape(_STRIDES, width), axis=0)
    peaks.partition(width - wanted)
    return float(peaks[width - wanted])


PoolCapMode = Literal["list", "unique_only"]


def cap_ranking(ranking: Ranking, cap: int, mode: PoolCapMode, elsewhere: frozenset[str]) -> Ranking:
    """The ranking cut to its first `cap` hits, or to `cap` hits that no other source returned.

    Under ``list`` the whole list is cut (before percentiles are taken); under ``unique_only`` hits that other
    sources also returned are kept whatever their rank.
    """
    if mode == "list":
        rows = list(range(min(cap, len(ranking))))
    else:
        rows, alone = [], 0
        for row, identifier in enumerate(ranking.ids):
            if identifier in elsewhere:
                rows.append(row)
            elif alone < cap:
                rows.append(row)
                alone += 1
    if len(rows) == len(ranking):
        return ranking
    return Ranking(
        ranking.source,
        [ranking.ids[row] for row in rows],
        ranking.scores[rows],
        None if ranking.raw is None else ranking.raw[rows],
        ranking.rank_only,
        ranking.background,
        ranking.size,
        ranking.payloads,
        ranking.dropped,
        ranking.reason,
    )


def apply_caps(rankings: Sequence[Ranking], caps: Mapping[str, int], mode: PoolCapMode) -> list[Ranking]:
    """Every capped source cut to its cap."""
    capped = []
    for ranking in rankings:
        cap = caps.get(ranking.source)
        if cap is not None:
            others = frozenset(i for other in rankings if other is not ranking for i in other.ids)
            ranking = cap_ranking(ranking, cap, mode, others if mode == "unique_only" else frozenset())
        if len(ranking):
            capped.append(ranking)
    return capped
