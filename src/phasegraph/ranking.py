"""What sources return, and the union of it: rankings, reports, candidates, ranks and the one tie rule.

A :class:`Ranking` is one source's answer to one query, always in one canonical order (score descending, id
ascending), so that everything after it is a pure function of its content. :func:`pool` joins rankings by id
into :class:`Candidates`, where a score that a source did not return is NaN and never zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from itertools import compress, repeat
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Literal, SupportsFloat, TypeAlias

import numpy as np

from phasegraph._shared import kept_while_short
from phasegraph._typing import BoolArray, FloatArray, IntArray
from phasegraph._validation import check_choice, check_count, check_flag, check_number, check_range
from phasegraph.errors import InvalidInputError, InvalidTypeError

RERANK = "rerank"
"""Name of the ranking that a reranker gives of the fused candidates."""
_NUMERIC = frozenset({float, int, np.float64, np.float32, np.float16, np.int64, np.int32})


def all_true(flags: BoolArray) -> bool:
    """Whether every flag is true."""
    return bool(np.logical_and.reduce(flags))


def moderate(values: FloatArray) -> FloatArray:
    """The values, times a power of two where their squares or sums would overflow or vanish.

    Parameters
    ----------
    values : array of float
        Finite.

    Returns
    -------
    array of float
        Of the same shape and order.

    Examples
    --------
    >>> moderate(np.array([1.0, 2.0])), bool(np.isfinite(moderate(np.array([1e308, -1e308])).std()))
    (array([1., 2.]), True)
    """
    largest = float(np.abs(values).max(initial=0.0))
    if 1e-100 < largest < 1e100 or not largest:
        return values
    return np.asarray(np.ldexp(values, -math.frexp(largest)[1]))


def as_floats(scores: Sequence[object] | FloatArray) -> FloatArray:
    """Numbers as float64, anything that is not a number as NaN."""
    if isinstance(scores, np.ndarray) and scores.dtype.kind in "fiu":
        return scores.astype(np.float64)
    if set(map(type, scores)) <= _NUMERIC:
        try:
            return np.array(scores, dtype=np.float64)
        except OverflowError:
            pass
    return np.array([_as_float(score) for score in scores], dtype=np.float64)


def _as_float(score: object) -> float:
    if isinstance(score, Decimal | SupportsFloat) and not isinstance(score, bool | np.bool_ | str | bytes):
        try:
            return float(score)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            pass
    return float("nan")


def read_only(value: Any) -> None:
    """As ``__post_init__`` of a frozen dataclass, leave nobody to write into its arrays and dictionaries."""
    for name in value.__dataclass_fields__:
        one = getattr(value, name)
        if isinstance(one, np.ndarray):
            one.setflags(write=False)
        elif isinstance(one, dict):
            object.__setattr__(value, name, MappingProxyType(one))


def by_fields(value: Any) -> tuple[Callable[..., Any], tuple[type, Mapping[str, Any]]]:
    """As ``__reduce__`` of a frozen dataclass, make it again, with all its checks, from its fields."""
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
        Mean and standard deviation of the transformed scores; finite, `scale` positive.
    transform : {"identity", "log"}, default "identity"
        What is applied to a score first; ``log`` is ``log(score + floor)``.
    floor : float, default 0.0
        Added before the logarithm; >= 0.

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
        numbers = self.location, self.scale, self.floor
        if (
            set(map(type, numbers)) == {float}
            and math.isfinite(sum(numbers))
            and self.scale > 0.0 <= self.floor
            and self.transform in ("identity", "log")
        ):
            return
        check_number("Background.location", self.location, minimum=None)
        check_range("Background.scale", self.scale, ends="(]")
        check_choice("Background.transform", self.transform, ("identity", "log"))
        check_number("Background.floor", self.floor)

    def standardise(self, scores: FloatArray, /) -> FloatArray:
        """Standard deviations above the source's mean, shape of `scores`; higher is better."""
        if self.transform == "identity":
            values = scores - self.location
        else:
            values = scores + self.floor
            np.maximum(values, _TINY, out=values)
            np.log(values, out=values)
            values -= self.location
        values /= self.scale
        return values


@dataclass(frozen=True, slots=True)
class QueryWords:
    """What a source knows about the query's words, where its scores take them into account.

    Parameters
    ----------
    idf : mapping of str to float
        Every different word of the query and how rare it is in the source's collection.
    named : float, default 0
        In [0, 1]: how far the query names what some passage is about.
    tokenizer : str or callable, default "english"
        How texts are split, as for :class:`~phasegraph.lexical.LexicalIndex`.
    """

    idf: Mapping[str, float]
    named: float = 0.0
    tokenizer: str | Callable[[str], Sequence[str]] = "english"

    def __post_init__(self) -> None:
        if type(self.named) is not float or not 0.0 <= self.named <= 1.0:
            check_range("QueryWords.named", self.named, 0, 1)


_KINDS: Mapping[str, tuple[Any, str]] = {
    "reason": (str, "text"),
    "background": (Background | None, "Background or None"),
    "words": (QueryWords | None, "QueryWords or None"),
    "payloads": (Mapping, "a mapping"),
}


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
    words : QueryWords, optional
        Of a source that knows the query's words beside its own evidence, as our walk does.
    distances : bool, default False
        Lower is better in `raw`; `scores` are those numbers negated.

    Attributes
    ----------
    positions : mapping of str to int
        Row of each id; made here.
    row_of : callable
        ``row_of(id)`` is its row, or None; ``row_of(id, other)`` `other`. Quicker than through `positions`.

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
    words: QueryWords | None = field(default=None, repr=False)
    distances: bool = False
    positions: MappingProxyType[str, int] = field(init=False, repr=False)
    row_of: Callable[..., int | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._check_header()
        source, ids = self.source, self.ids
        if isinstance(ids, str | bytes):
            raise InvalidTypeError(f"Ranking.ids must be a sequence of strings; source {source!r} gave one string")
        scores = _numbers(source, "scores", self.scores)
        if scores.ndim != 1 or len(scores) != len(ids):
            raise InvalidInputError(f"Ranking.scores must have one value per id; got {scores.shape} for {len(ids)} ids")
        raw = scores if self.raw is None else _numbers(source, "raw", self.raw)
        if raw.shape != scores.shape:
            raise InvalidInputError(f"Ranking.raw must have shape {scores.shape}; got {raw.shape}")
        falls = _falls(scores)
        if not falls and not all_true(np.isfinite(scores)):
            raise InvalidInputError(f"Ranking.scores must be finite; source {source!r} gave NaN or infinity")
        ids = tuple(ids)
        if not _all_text(ids):
            wrong = next((one for one in ids if not isinstance(one, str)), "")
            raise InvalidTypeError(f"Ranking.ids must be strings that are not empty; source {source!r} gave {wrong!r}")
        self._settle(ids, scores, raw, falls)

    def _check_header(self) -> None:
        """Refuse what is wrong in the fields that are of the list as a whole."""
        source = self.source
        if not isinstance(source, str) or not source.strip():
            raise InvalidTypeError(f"Ranking.source must be a name that is not blank; got {source!r}")
        check_count("Ranking.dropped", self.dropped)
        if self.size is not None:
            check_count("Ranking.size", self.size)
        for name, (kind, wanted) in _KINDS.items():
            given = getattr(self, name)
            if not isinstance(given, kind):
                raise InvalidTypeError(
                    f"Ranking.{name} must be {wanted}; source {source!r} gave {type(given).__name__}"
                )
        check_flag("Ranking.rank_only", self.rank_only)
        check_flag("Ranking.distances", self.distances)

    def _settle(self, ids: tuple[str, ...], scores: FloatArray, raw: FloatArray, falls: bool) -> None:
        """Take checked hits, in the canonical order; `falls`: every score is below the one before."""
        positions = _positions(ids)
        if len(positions) != len(ids) or not (falls or _is_ordered(ids, scores)):
            ids, scores, raw = _canonical(ids, scores, raw)
            positions = _positions(ids)
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

    def without(self, ids: Collection[str], /) -> Ranking:
        """The same ranking without some hits.

        >>> Ranking("vector", ["a", "b"], [0.9, 0.5]).without({"a"}).ids
        ('b',)
        """
        kept = [row for row, one in enumerate(self.ids) if one not in ids]
        raw = None if self.raw is None else self.raw[kept]
        return replace(self, ids=tuple(self.ids[row] for row in kept), scores=self.scores[kept], raw=raw)

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
        payloads: Mapping[str, object] = MappingProxyType({}),
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
        count, rank_only, distances = len(ids), False, False
        text = None if _all_text(ids) else np.array([isinstance(one, str) and one != "" for one in ids], dtype=bool)
        if scores is None or (count and not isinstance(scores, np.ndarray) and all(one is None for one in scores)):
            named = ids if text is None else list(compress(ids, text))
            rank_only, dropped, kept = True, count - len(named), tuple(named)
            if len(set(kept)) < len(kept):
                kept = tuple(dict.fromkeys(kept))
            signed, values, falls = _places(len(kept)), _unknown(len(kept)), True
        else:
            values, distances = as_floats(scores), not higher_is_better
            signed = -values if distances else values
            falls = text is None and _falls(signed)
            if not falls:
                usable = np.isfinite(values) if text is None else np.isfinite(values) & text
                if not all_true(usable):
                    ids, values, signed = list(compress(ids, usable)), values[usable], signed[usable]
            kept, dropped = tuple(ids), count - len(ids)
        made, put = object.__new__(cls), object.__setattr__
        put(made, "source", source)
        put(made, "rank_only", rank_only)
        put(made, "background", background)
        put(made, "size", size)
        put(made, "payloads", payloads)
        put(made, "dropped", dropped)
        put(made, "reason", reason)
        put(made, "words", None)
        put(made, "distances", distances)
        made._check_header()
        made._settle(kept, signed, values, falls)
        return made


@kept_while_short
def _places(count: int) -> FloatArray:
    """Minus the ranks: the scores of a list of which only the order is known."""
    return np.arange(-1.0, -count - 1.0, -1.0)


@kept_while_short
def _unknown(count: int) -> FloatArray:
    return np.full(count, np.nan)


def _all_text(ids: Sequence[object]) -> bool:
    """Whether every id is a string and none is empty; joining them is the quickest way to see that they are strings."""
    try:
        "".join(ids)  # type: ignore[arg-type]
    except TypeError:
        return False
    return all(ids)


def _positions(ids: tuple[str, ...]) -> dict[str, int]:
    """Row of each id; of a repeated one the last."""
    return dict(zip(ids, range(len(ids)), strict=True))


def _numbers(source: str, name: str, values: object) -> FloatArray:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"Ranking.{name} must be numbers; source {source!r} gave something else") from error


def _falls(scores: FloatArray) -> bool:
    """Whether every score is finite and below the one before."""
    if not len(scores):
        return True
    return math.isfinite(scores[0]) and math.isfinite(scores[-1]) and all_true(scores[:-1] > scores[1:])


def _is_ordered(ids: tuple[str, ...], scores: FloatArray) -> bool:
    better, next_ones = scores[:-1], scores[1:]
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


Status: TypeAlias = Literal["ok", "empty", "partial", "timeout", "error", "skipped"]
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
        ``declared``, ``fitted``, ``per_list`` or the name of a per-list calibrator; ``""`` where nothing was fused.
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
        hits, dropped = len(ranking.ids), ranking.dropped
        return cls(ranking.source, status, reason, "", 0.0, hits, dropped, tier, out_of_range_share=out_of_range_share)

    @property
    def answered(self) -> bool:
        """Whether the source contributed a ranking with at least one hit."""
        return self.status in ("ok", "partial") and self.hits > 0

    def calibrated(self, tier: str, out_of_range_share: float = 0.0) -> SourceReport:
        """The same report, of a source calibrated by `tier`, with that share of its scores beyond the sample."""
        return SourceReport(
            self.source, self.status, self.reason, self.error_class, self.milliseconds, self.hits, self.dropped, tier,
            self.missing, self.notes, out_of_range_share,
        )  # fmt: skip

    @property
    def drifted(self) -> bool:
        """Whether most of its scores lie beyond the reference sample: a changed model or collection does that.

        Of n + 1 queries alike at most two have any score above or below those of all others, so that after n
        calibration queries a false alarm has a chance of at most 2 / (n + 1).
        """
        return self.out_of_range_share > 0.5

    @property
    def degraded(self) -> bool:
        """Whether the source could not look, or looked only in part."""
        return self.status in _DEGRADED


def found_in(ranking: Ranking) -> tuple[Status, str]:
    """Status of a source that returned this ranking, and why: ``partial`` where none of its hits was usable."""
    if len(ranking):
        return "ok", ranking.reason
    if ranking.dropped:
        return "partial", ranking.reason or f"none of its {ranking.dropped} hits had a usable score and id"
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
_FEW, _MANY = 32, 512
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
            target, lacking = out[:, column], np.nan if fill is None else fill[column]
            count = len(values)
            if rows is _first_rows(count):
                target[:count] = values
                target[count:] = lacking
            else:
                target.fill(lacking)
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
    positions = [_first_rows(first)] * len(present)
    added: list[str] = []  # the ids that the largest ranking lacks
    for column in others:
        ids = present[column].ids
        positions[column] = rows = np.fromiter(map(largest.row_of, ids, _ABSENT), np.intp, lengths[column])
        lacking = rows < 0
        fresh = [ids[row] for row in lacking.nonzero()[0].tolist()]
        if added:
            row_of = {one: row for row, one in enumerate(added, first)}
            rows[lacking] = [row_of.setdefault(one, first + len(row_of)) for one in fresh]
            added = list(row_of)
        else:
            added = list(fresh)
            rows[lacking] = np.arange(first, first + len(added))
    for array in positions:
        array.setflags(write=False)
    return Candidates(tuple(largest.ids) + tuple(added), names, present, tuple(positions))


@kept_while_short
def _first_rows(count: int) -> IntArray:
    """The first rows, read-only."""
    rows = np.arange(count)
    rows.setflags(write=False)
    return rows


def tied_ranks(values: FloatArray, /) -> FloatArray:
    """Ranks from 1, best (highest) first, ties sharing their mean rank; NaN stays NaN."""
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
    if wanted < count <= _MANY:
        order = (-values).argsort(kind="stable")[: wanted + 1]
        first = values[order]
        if all_true(first[1:] != first[:-1]):
            return order[:wanted]
    bound = reached_by(values, wanted) if wanted < count else None
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
    pairs = sorted([(-value, ids[row], row) for value, row in zip(kept.tolist(), rows.tolist(), strict=True)])
    return np.array([row for _, _, row in pairs[:wanted]], dtype=np.intp)


def reached_by(values: FloatArray, wanted: int) -> float | None:
    """A value that at least `wanted` of many values reach, close to their `wanted`-th largest; None for few values.

    The largest of every 64 are compared instead of all; they are taken in strides, because lists come ordered.

    Parameters
    ----------
    values : (n,) array of float
        Not NaN.
    wanted : int
        How many, at least 1.

    Returns
    -------
    float or None

    Examples
    --------
    >>> reached_by(np.arange(10_000.0), 20) <= 9980
    True
    """
    width = len(values) // _STRIDES
    if wanted > width:
        return None
    peaks = np.maximum.reduce(values[: width * _STRIDES].reshape(_STRIDES, width), axis=0)
    peaks.partition(width - wanted)
    return float(peaks[width - wanted])


PoolCapMode = Literal["list", "unique_only"]


def cap_ranking(ranking: Ranking, cap: int, mode: PoolCapMode, elsewhere: frozenset[str]) -> Ranking:
    """First `cap` hits, or under ``unique_only`` `cap` hits that are not `elsewhere` beside all that are."""
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
    raw = None if ranking.raw is None else ranking.raw[rows]
    return replace(ranking, ids=[ranking.ids[row] for row in rows], scores=ranking.scores[rows], raw=raw)


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
