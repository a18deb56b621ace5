"""The answer of one source to one query.

A :class:`Ranking` is always sorted by score (descending), then by id (ascending). The order in which a source returns
its hits therefore never affects an answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from phasegraph._support.frozen import by_fields
from phasegraph._support.numbers import all_true, as_floats
from phasegraph._support.shared import kept_while_short
from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_choice, check_count, check_flag, check_number, check_range
from phasegraph.errors import InvalidInputError, InvalidTypeError

RERANK = "rerank"
"""The source name of the ranking in which a reranker orders the fused candidates."""

SUMMARY_PREFIX = "summary:"
"""Prefix of the ids of summaries. A summary replaces several passages, and no store contains it."""

Transform = Literal["identity", "log"]

_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, slots=True)
class Background:
    """The mean and standard deviation of the scores that a source gives to its whole collection for a query.

    Parameters
    ----------
    location, scale : float
        Mean and standard deviation of the transformed scores; finite, `scale` positive.
    transform : {"identity", "log"}, default "identity"
        Transformation of the scores; ``log`` means ``log(score + floor)``.
    floor : float, default 0.0
        Number that is added to a score before the logarithm, >= 0.

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
        """Transform n scores, and return each as (score - `location`) / `scale`: standard deviations above the mean."""
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
    """Statistics about the words of a query, from a source that knows the words of its texts, such as the graph walk.

    Parameters
    ----------
    idf : mapping of str to float
        The inverse document frequency of every distinct query word in the source's collection.
    named : float, default 0
        The degree, in [0, 1], to which the query names the subject of a passage.
    tokenizer : str or callable, default "english"
        The tokenizer that splits texts into words; see :class:`~phasegraph.lexical.LexicalIndex`.
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
    """The answer of one source to one query: unique ids, sorted by score (descending), then by id (ascending).

    Parameters
    ----------
    source : str
        Name of the source, not blank.
    ids : sequence of str
        The ids of the hits, non-empty strings. A repeated id counts once, with its best score.
    scores : (n,) array_like of float
        The score of each hit, finite; higher is better. Give distances negated.
    raw : (n,) array_like of float, optional
        The scores as the source returned them; default `scores`.
    rank_only : bool, default False
        Whether the scores only encode an order. A score is then minus the rank; unordered hits share their mean rank.
    background : Background, optional
        The mean and deviation of the source's scores over its whole collection, if known.
    size : int, optional
        Number of items in the source's collection, if known.
    payloads : mapping of str to object
        Documents, nodes or paths by id. Fusion passes them through and does not read them.
    dropped : int
        Number of removed hits: their score or id was unusable, or their passage was deleted.
    reason : str
        The source's explanation for an empty ranking, if it gives an explanation.
    words : QueryWords, optional
        Statistics about the query's words, if the source has them; the graph walk does.
    distances : bool, default False
        Whether `raw` contains distances, for which lower is better; `scores` are the negated distances.
    deleted : int
        Number of the `dropped` hits that were usable, but whose passages were deleted from the store.

    Attributes
    ----------
    positions : mapping of str to int
        The row of each id, computed from `ids`.
    row_of : callable
        ``row_of(id)`` returns the row of an id, or None. ``row_of(id, default)`` returns `default` for an unknown id.
        It is faster than a lookup in `positions`.

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
    deleted: int = 0
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
            raise InvalidInputError(
                f"Ranking.scores must be finite; source {source!r} gave NaN or infinity at position "
                f"{int(np.argmin(np.isfinite(scores)))}"
            )
        ids = tuple(ids)
        if not _all_text(ids):
            wrong = next((one for one in ids if not isinstance(one, str)), "")
            raise InvalidTypeError(f"Ranking.ids must be strings that are not empty; source {source!r} gave {wrong!r}")
        self._settle(ids, scores, raw, falls)

    def _check_header(self) -> None:
        """Raise an error if a field other than the ids and scores is invalid."""
        source = self.source
        if not isinstance(source, str) or not source.strip():
            raise InvalidTypeError(f"Ranking.source must be a name that is not blank; got {source!r}")
        check_count("Ranking.dropped", self.dropped)
        check_count("Ranking.deleted", self.deleted)
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
        """Store the given valid hits in sorted order; `falls` is True if every score is below the previous score."""
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
        """Return a copy of the ranking without the hits in `ids`.

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
        """Build a ranking from the hits of a store; hits with an unusable score or id are dropped and counted.

        Parameters
        ----------
        source, ids, background, size, payloads, reason
            As in :class:`Ranking`.
        scores : sequence of object or None
            A number per hit. A hit is dropped if its score is NaN, infinite, a boolean or not a number. It is also
            dropped if its id is empty or not a string. ``None``, or ``None`` for every hit, makes the ranking
            rank-only, in the given order.
        higher_is_better : bool, default True
            False for distances: they are negated in `scores` and unchanged in `raw`.

        Returns
        -------
        Ranking
            The usable hits; `dropped` is the number of other hits.

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
        put(made, "deleted", 0)
        made._check_header()
        made._settle(kept, signed, values, falls)
        return made


def standing(ranking: Ranking, identifier: str, /) -> tuple[float | None, float | None, float | None]:
    """Return the rank, raw score and score of a candidate in a ranking; None for each if the ranking lacks it.

    Parameters
    ----------
    ranking : Ranking
        The ranking of a source.
    identifier : str
        The id of the candidate.

    Returns
    -------
    tuple of float or None
        The rank, which starts at 1 and is the mean rank of tied hits; the raw score, which is also None if the source
        gave no score; and the score.

    Examples
    --------
    >>> standing(Ranking("vector", ["a", "b", "c"], [0.9, 0.5, 0.5]), "c")
    (2.5, 0.5, 0.5)
    """
    hit, scores = ranking.row_of(identifier), ranking.scores
    if hit is None:
        return None, None, None
    rank, score = hit + 1.0, scores.item(hit)
    if score in (scores.item(row) for row in (hit - 1, hit + 1) if 0 <= row < len(scores)):
        rising = -scores
        rank = float(rising.searchsorted(-score, "left") + rising.searchsorted(-score, "right") + 1) / 2.0
    raw = score if ranking.raw is None else ranking.raw.item(hit)
    return rank, None if math.isnan(raw) else raw, score


@kept_while_short
def _places(count: int) -> FloatArray:
    """Return the scores -1, -2, …, -`count`, which a ranking without scores gets for its order."""
    return np.arange(-1.0, -count - 1.0, -1.0)


@kept_while_short
def _unknown(count: int) -> FloatArray:
    return np.full(count, np.nan)


def _all_text(ids: Sequence[object]) -> bool:
    """Return True if every id is a non-empty string; joining the ids is the fastest test for strings."""
    try:
        "".join(ids)  # type: ignore[arg-type]
    except TypeError:
        return False
    return all(ids)


def _positions(ids: tuple[str, ...]) -> dict[str, int]:
    """Return the row of each id; for a repeated id, the last row."""
    return dict(zip(ids, range(len(ids)), strict=True))


def _numbers(source: str, name: str, values: object) -> FloatArray:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(
            f"Ranking.{name} must be numbers; source {source!r} gave a value that is not a number"
        ) from error


def _falls(scores: FloatArray) -> bool:
    """Return True if every score is finite and below the previous score."""
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
    """Sort hits by score (descending), then by id (ascending), and keep the best hit of each id."""
    best: dict[str, int] = {}
    for row in sorted(range(len(ids)), key=lambda row: (-scores[row], ids[row])):
        best.setdefault(ids[row], row)
    rows = list(best.values())
    return tuple(best), scores[rows], raw[rows]
