"""Query-independent evidence: importance, recency, authority; and one more source that ranks exact matches.

A prior multiplies the fused value (it is no source of its own and adds no candidate). It reads the fields and texts of
the hits themselves, and what the context holds apart by id, so that deciding stays a pure function.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from itertools import pairwise
from numbers import Integral
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._typing import FloatArray, IntArray
from phasegraph._validation import check_choice, check_flat, check_number, check_range
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.lexical import CJK, HitWords
from phasegraph.ranking import Ranking

TEXT = "text"
_TEXTS = (TEXT, "page_content", "content")


def _attribute_of(hit: object, name: str) -> object:
    """An entry of a mapping, or an attribute; None where it is not there or cannot be read."""
    if isinstance(hit, Mapping):
        return hit.get(name)
    try:
        return getattr(hit, name, None)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a property that raises says nothing
        return None


def metadata_of_hit(hit: object, /) -> Mapping[str, object]:
    """What a hit of any kind says of itself: its ``metadata``, and the entries of a mapping."""
    inner = _attribute_of(hit, "metadata")
    held = inner if isinstance(inner, Mapping) else {}
    return {**held, **hit} if isinstance(hit, Mapping) else held


def text_of_hit(hit: object, /) -> str:
    """A hit's text: itself, or its ``text``, ``page_content`` or ``content``; else empty."""
    if isinstance(hit, str):
        return hit
    return next((found for name in _TEXTS if isinstance(found := _attribute_of(hit, name), str)), "")


@dataclass(frozen=True, slots=True)
class Context:
    """Data that a decision reads besides the rankings, gathered beforehand.

    Parameters
    ----------
    query : str
        The query's text.
    now : float, optional
        Seconds since the epoch; needed by a recency prior only.
    attributes : mapping of str to mapping
        Per candidate id, what lies apart from the hits: ``importance`` and ``authority`` in [0, 1], ``timestamp``,
        ``text`` or ``exact`` for the exact match. It wins over what the hit says, and a value that cannot be used is
        an error.
    embeddings : mapping of str to (d,) array, or callable
        Per candidate id, or ``embeddings(ids) -> (n, d) array``; needed by a selection that weighs redundancy.
    costs : mapping of str to float
        Per candidate id, for example tokens; needed by a selection with a budget.
    words : HitWords, optional
        What the texts of the hits say about the query's words, for the default's weights; see
        :func:`phasegraph.lexical.read_hits`.
    metadata_of, text_of : callable
        Fields and text of a hit (a payload of a ranking). Default: the ``metadata`` of an object or the entries of a
        mapping, and its ``text``, ``page_content`` or ``content``.
    rankings : tuple of Ranking
        The hits that priors read; the pipeline puts in those it fuses.
    blend : float, default 1
        How far a ranking named ``rerank`` decides, in [0, 1]: 0 not at all, 1 alone.
    """

    query: str = ""
    now: float | None = None
    attributes: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)
    embeddings: Mapping[str, FloatArray] | Callable[[Sequence[str]], ArrayLike] = field(
        default_factory=dict, repr=False
    )
    costs: Mapping[str, float] = field(default_factory=dict, repr=False)
    words: HitWords | None = None
    metadata_of: Callable[[Any], Mapping[str, object]] = field(default=metadata_of_hit, repr=False)
    text_of: Callable[[Any], str] = field(default=text_of_hit, repr=False)
    rankings: tuple[Ranking, ...] = field(default=(), repr=False)
    blend: float = 1.0

    def values(self, identifier: str, key: str) -> Iterator[object]:
        """What the hits of a candidate hold under `key`, in the order of the rankings; ``text`` is their text."""
        for ranking in self.rankings:
            hit = ranking.payloads.get(identifier)
            if hit is None:
                continue
            text = self.text_of(hit) if key == TEXT else ""
            value = text or self.metadata_of(hit).get(key)
            if not (value is None or (isinstance(value, str) and not value.strip()) or _is_nan(value)):
                yield value

    def text(self, identifier: str, key: str = TEXT) -> str:
        """The text of a candidate: its attribute, else that of the first hit that has one; else empty."""
        given = self.attributes.get(identifier, {}).get(key)
        found = (given, *self.values(identifier, key)) if given is None else (given,)
        return next((one for one in found if isinstance(one, str)), "")


def _is_nan(value: object) -> bool:
    """Whether it is the number by which tables say that nothing is there."""
    return isinstance(value, float) and math.isnan(value)


@dataclass(frozen=True, slots=True)
class FieldReading:
    """How many of the candidates held a field that a prior reads.

    Parameters
    ----------
    prior, key : str
        Name of the prior; the field.
    found, missing, unusable : int
        Candidates with a value, without one, and with one that cannot be used; the last two count as neutral.
    example : str
        The first value that cannot be used, and why.
    """

    prior: str
    key: str
    found: int
    missing: int
    unusable: int
    example: str = ""

    @property
    def warning(self) -> str:
        """A line where the prior could not act, or had to pass something over; else empty."""
        if self.unusable:
            count = self.found + self.missing + self.unusable
            return (
                f"prior {self.prior!r} could not use the field {self.key!r} of {self.unusable} of {count} candidates, "
                f"which count as neutral: {self.example}"
            )
        if self.missing and not self.found:
            return f"prior {self.prior!r} found no field {self.key!r} in any of the {self.missing} candidates"
        return ""


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


class _Stored:
    """A prior whose state is its registered name and its fields."""

    __slots__ = ()
    name: ClassVar[str]
    additive: ClassVar[bool] = False

    def to_dict(self: Any) -> dict[str, object]:
        """JSON-ready state."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {"name": self.name, **{key: list(one) if isinstance(one, tuple) else one for key, one in values.items()}}


EXACT_MATCH = "exact_match"
_QUOTED = re.compile(r'"([^"]+)"|“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|(?<!\w)\'([^\']+)\'(?!\w)')
_WORD = re.compile(rf"[{CJK}]|[^\W{CJK}]+(?:[-./_+#]+[^\W{CJK}]+)*[+#]*")
_RUN = re.compile(rf"[{CJK}]{{2,}}")
# Words of questions: rare in passages, and no terms.
_ASKING = frozenset(
    _WORD.findall(
        "about and are between both can could did does for from had has have how into its many much more most name "
        "named of often the their there these this those was were what when where which while who whom whose why will "
        "with would"
    )
)
_SHORTEST = 3


@dataclass(frozen=True, slots=True)
class ExactMatchBonus(_Stored):
    """One more ranked source: the candidates that hold the query's quoted or rare terms, letter for letter.

    Parameters
    ----------
    weight : float, default 1.0
        >= 0, in the unit of the weights of the sources: 1 beside weights of 1 each counts as much as one of them,
        whichever of them answered. Where the pipeline sets the weights itself, their mean counts 1.
    key : str, default "text"
        The text of the hits, or the metadata field that is compared.
    rare_share : float, default 0.1
        In [0, 1]; a word of the query is rare where at most this share of the candidates, or one of them, holds it.

    Notes
    -----
    Terms are what stands in quotation marks, the query as a whole, and its rare words of three letters or more (or
    with a digit), words of questions such as "which" left out; of Chinese and Japanese, which part no words, its rare
    pairs of characters. Terms are compared word by word (character by character), letter case apart. A candidate ranks
    by how many terms it holds; one that holds none is not returned. It adds no candidate. Ties share their mean rank,
    as in every source: under reciprocal rank a single exact hit gets ``weight / (rank_constant + 1)``. Under a z-score
    or raw values a candidate that is not returned counts with its 0 terms.

    An attribute ``exact`` of the context, true or false, decides for its candidate instead. In the reports and the
    evidence the source is named ``exact_match``; thresholds, agreement and the consensus bonus leave it out.

    The design record names the bonus and gives no formula: reconstructed as one more source.

    Examples
    --------
    >>> bonus = ExactMatchBonus(weight=0.5)
    >>> context = Context(query='Who wrote "The Deep Sea"?', attributes={"a": {"text": "The deep sea, a novel."}})
    >>> bonus(["a", "b"], context)
    array([1., 0.])
    """

    name: ClassVar[str] = EXACT_MATCH
    weight: float = 1.0
    key: str = TEXT
    rare_share: float = 0.1

    def __post_init__(self) -> None:
        check_number("weight", self.weight)
        _check_key("key", self.key)
        check_range("rare_share", self.rare_share, 0, 1)

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """(n,) array: the number of terms each candidate holds."""
        return self._counted(ids, [_padded(context.text(identifier, self.key)) for identifier in ids], context)

    def ranking(self, ids: Sequence[str], context: Context, /) -> tuple[Ranking, FieldReading]:
        """The candidates that hold a term, and how many had a text; the ranking's reason says why it is empty."""
        texts = [_padded(context.text(identifier, self.key)) for identifier in ids]
        counts = self._counted(ids, texts, context)
        rows = np.flatnonzero(counts > 0)
        reason = "" if len(rows) else "no candidate holds a quoted or rare term of the query"
        found = sum(map(bool, texts))
        made = Ranking(EXACT_MATCH, [ids[row] for row in rows.tolist()], counts[rows], reason=reason)
        return made, FieldReading(self.name, self.key, found, len(texts) - found, 0)

    def _counted(self, ids: Sequence[str], texts: Sequence[str], context: Context) -> FloatArray:
        terms = self._terms(context.query, texts)
        out = np.array([float(sum(term in text for term in terms)) for text in texts])
        for row, identifier in enumerate(ids):
            stated = context.attributes.get(identifier, {}).get("exact")
            if isinstance(stated, bool):
                out[row] = max(len(terms), 1) if stated else 0.0
        return out

    def _terms(self, query: str, texts: Sequence[str]) -> list[str]:
        """Quoted phrases, the whole query and its rare words, each padded with blanks."""
        quoted = [_padded(next(filter(None, groups))) for groups in _QUOTED.findall(query)]
        rest = _QUOTED.sub(" ", query)
        most = max(1, int(self.rare_share * sum(map(bool, texts))))
        words = [f" {word} " for word in _padded(rest).split() if _may_be_rare(word)]
        words += [f" {one} {other} " for run in _RUN.findall(rest) for one, other in pairwise(run)]
        rare = [word for word in words if 1 <= sum(word in text for text in texts) <= most]
        return list(dict.fromkeys(filter(None, [*quoted, _padded(query), *rare])))


def _padded(text: str) -> str:
    """The words of a text, and its Chinese and Japanese characters, with one blank around each; empty without any."""
    words = _WORD.findall(text.casefold())
    return f" {' '.join(words)} " if words else ""


def _may_be_rare(word: str) -> bool:
    return word not in _ASKING and (len(word) >= _SHORTEST or any(map(str.isdigit, word)))


def importance_multiplier(importance: FloatArray, /, *, strength: float = 0.3) -> FloatArray:
    """``(1 - strength) + strength * importance``, both in [0, 1]: the design record's prior."""
    check_range("strength", strength, 0, 1)
    return (1.0 - strength) + strength * _column("importance", importance, 0.0, 1.0)


def recency(age: FloatArray, /, *, half_life: float) -> FloatArray:
    """``exp(-ln 2 * age / half_life)``: one half after each half-life. A date in the future has age 0."""
    check_range("half_life", half_life, ends="(]")
    return np.asarray(np.exp(-math.log(2.0) * np.maximum(check_flat("age", age), 0.0) / half_life))


@dataclass(frozen=True, slots=True)
class UnitPrior(_Stored):
    """Multiplier from a field in [0, 1]: importance or authority.

    Parameters
    ----------
    key : str
        Metadata field of the hits, or attribute of the context: ``importance``, ``authority`` or one of the caller's
        own. A text that reads as a number will do.
    strength : float, default 0.3
        In [0, 1]; the multiplier is ``(1 - strength) + strength * value``.
    neutral : float, default 1.0
        Value of a candidate without the field, in [0, 1]; 1 leaves it as it is.

    Examples
    --------
    >>> prior = UnitPrior("authority", strength=0.5)
    >>> prior(["a", "b"], Context(attributes={"a": {"authority": 0.0}}))
    array([0.5, 1. ])
    """

    name: ClassVar[str] = "unit"
    key: str = "importance"
    strength: float = 0.3
    neutral: float = 1.0

    def __post_init__(self) -> None:
        _check_key("key", self.key)
        check_range("strength", self.strength, 0, 1)
        check_range("neutral", self.neutral, 0, 1)

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """Multipliers in [1 - strength, 1]."""
        return self.weigh(ids, context)[0]

    def weigh(self, ids: Sequence[str], context: Context, /) -> tuple[FloatArray, tuple[FieldReading, ...]]:
        """The multipliers, and how many candidates held the field."""
        values, reading = _read_field(ids, context, self.name, self.key, _as_share, self.neutral)
        return importance_multiplier(values, strength=self.strength), (reading,)


@dataclass(frozen=True, slots=True)
class RecencyPrior(_Stored):
    """Multiplier that halves its variable part with each half-life.

    Parameters
    ----------
    half_life : float
        Seconds, > 0.
    strength : float, default 0.3
        In [0, 1]; the multiplier is ``(1 - strength) + strength * recency``.
    key : str, default "timestamp"
        Metadata field of the hits, or attribute of the context, that :func:`as_seconds` reads; a candidate without it
        keeps multiplier 1.

    Examples
    --------
    >>> prior = RecencyPrior(half_life=3600.0, strength=1.0)
    >>> prior(["a", "b"], Context(now=7200.0, attributes={"a": {"timestamp": 3600.0}}))
    array([0.5, 1. ])
    """

    name: ClassVar[str] = "recency"
    half_life: float
    strength: float = 0.3
    key: str = "timestamp"

    def __post_init__(self) -> None:
        _check_key("key", self.key)
        check_range("strength", self.strength, 0, 1)
        recency(np.zeros(1), half_life=self.half_life)

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """Multipliers in [1 - strength, 1]; InvalidInputError where the context has no `now`."""
        return self.weigh(ids, context)[0]

    def weigh(self, ids: Sequence[str], context: Context, /) -> tuple[FloatArray, tuple[FieldReading, ...]]:
        """The multipliers, and how many candidates held the field."""
        ages, reading = _ages(ids, context, self.name, self.key)
        return importance_multiplier(recency(ages, half_life=self.half_life), strength=self.strength), (reading,)


def as_seconds(value: object, /, *, now: float) -> float:
    """A time of any usual form as seconds since the epoch.

    Parameters
    ----------
    value : object
        A number, a ``datetime``, ``date`` or what has a ``to_native`` (the Neo4j driver's times); ISO 8601 or RFC 2822
        text; a year, or a year and a month, as text. A number counts seconds up to 10^11, milliseconds up to 10^14,
        microseconds up to 10^17, nanoseconds above; but a whole number from 1000 to 9999 is a year, and one of eight
        digits that reads as a day, such as 20240131, is that day, unless `now` itself is that early. What states no
        zone is in UTC.
    now : float
        Seconds since the epoch.

    Returns
    -------
    float

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If it is none of these.

    Examples
    --------
    >>> [as_seconds(value, now=1.8e9) for value in ("1970-01-02", 86400, "Fri, 02 Jan 1970 00:00:00 GMT")]
    [86400.0, 86400.0, 86400.0]
    >>> as_seconds(2001, now=1.8e9) == as_seconds("2001-01-01", now=1.8e9) == as_seconds(978307200000, now=1.8e9)
    True
    >>> as_seconds(20010101, now=1.8e9) == as_seconds(978307200, now=1.8e9) == as_seconds(978307200000000, now=1.8e9)
    True
    """
    native = getattr(value, "to_native", None)
    value = native() if callable(native) else value
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, str):
        value = _from_text(value.strip())
    if isinstance(value, Integral | float) and not isinstance(value, bool) and value == (whole := _whole(value)):
        value = _day(whole, now) or value
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp()
    if isinstance(value, str):
        raise InvalidTypeError(f"a time must be a date, a text that holds one, or seconds; got {value!r}")
    seconds = check_number("a time", value, minimum=None)
    for _ in range(3):
        if abs(seconds) > _LONGEST:
            seconds /= 1000.0
    return seconds


_YEARS, _DAYS, _LONGEST = (1000, 9999), (1000_01_01, 9999_12_31), 1e11


def _whole(value: Any) -> int | None:
    return int(value) if math.isfinite(value) else None


def _day(number: int | None, now: float) -> date | None:
    """The day that a whole number writes, as year or as year, month and day; None where it counts seconds."""
    if number is None:
        return None
    if _YEARS[0] <= number <= _YEARS[1] < now:
        return date(number, 1, 1)
    if _DAYS[0] <= number <= _DAYS[1] < now:
        with suppress(ValueError):
            return date(number // 10000, number // 100 % 100, number % 100)
    return None


def _from_text(text: str) -> object:
    """A date, or the number that the text holds; the text itself where it is neither."""
    if re.fullmatch(r"\d{4}(-\d{2})?", text):
        text = f"{text}-01" if "-" in text else f"{text}-01-01"
    for read in (datetime.fromisoformat, float, parsedate_to_datetime):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _as_share(value: object) -> float:
    """A number in [0, 1], or a text that holds one."""
    return check_range("it", _parsed(value), 0, 1)


def _parsed(value: object) -> object:
    """The number that a text holds; anything else as it is."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _read_field(
    ids: Sequence[str], context: Context, prior: str, key: str, read: Callable[[Any], float], neutral: float
) -> tuple[FloatArray, FieldReading]:
    """(n,) values of a field, `neutral` where a candidate has none that can be used, and how many have one.

    An attribute of the context that cannot be used is the caller's mistake, and raised; a hit's is counted.
    """
    out = np.full(len(ids), float(neutral))
    missing = unusable = 0
    example = ""
    for row, identifier in enumerate(ids):
        given = context.attributes.get(identifier, {}).get(key)
        if given is not None:
            try:
                out[row] = read(given)
            except InvalidInputError as error:
                raise type(error)(f"attribute {key!r} of candidate {identifier!r}: {error}") from error
            continue
        failed = ""
        for value in context.values(identifier, key):
            try:
                out[row] = read(value)
                break
            except InvalidInputError as error:
                failed = failed or f"{identifier!r} has {value!r:.40}, and {error}"
        else:
            missing += not failed
            unusable += bool(failed)
            example = example or failed
    return out, FieldReading(prior, key, len(ids) - missing - unusable, missing, unusable, example)


def _ages(ids: Sequence[str], context: Context, prior: str, key: str) -> tuple[FloatArray, FieldReading]:
    """(n,) seconds since the time in a field, 0 where a candidate has none, and how many have one."""
    now = context.now
    if now is None:
        raise InvalidInputError("this prior needs Context.now (seconds since the epoch); got None")
    times, reading = _read_field(ids, context, prior, key, lambda value: as_seconds(value, now=now), now)
    return now - times, reading


def _check_key(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidTypeError(f"{name} must be the name of a field; got {value!r}")


@dataclass(frozen=True, slots=True, eq=False)
class Superposition:
    """Relevance in [0, 1], energy and amplitude of each passage, as the document computes them: (n,) arrays."""

    relevance: FloatArray
    energy: FloatArray
    amplitude: np.ndarray[tuple[int, ...], np.dtype[np.complex128]]

    @property
    def probability(self) -> FloatArray:
        """(n,) array: squared length of the amplitude, which is `relevance` again."""
        return np.asarray(np.abs(self.amplitude) ** 2)

    @property
    def entropy(self) -> FloatArray:
        """(n,) array: the document's local entropy ``-P ln P`` in nats, P the relevance; in [0, 1/e]."""
        return np.asarray(-self.relevance * np.log(np.where(self.relevance > 0, self.relevance, 1.0)))

    def of(self, rows: IntArray, /) -> Superposition:
        """Of some of the passages, in the order given."""
        return Superposition(self.relevance[rows], self.energy[rows], self.amplitude[rows])


_SUM_ERROR = 1e-9


def superposition(
    cosine: FloatArray,
    age_seconds: FloatArray,
    authority: FloatArray,
    /,
    *,
    frequency: FloatArray | float = 0.0,
    weights: tuple[float, float, float] = (0.6, 0.25, 0.15),
    decay_per_hour: float = 0.25,
    h: float = 1.0,
    k: float = 0.1,
    hbar: float = 1.0,
) -> Superposition:
    """Weighted mean of similarity, recency and authority, in the vocabulary of the quantum document.

    Parameters
    ----------
    cosine, authority : (n,) array_like of float
        In [0, 1]; a negative cosine has no square root, so map it first.
    age_seconds : (n,) array_like of float
        A time in the future counts as age 0.
    frequency : (n,) array_like of float or float, default 0
        Finite; only enters the energy, which nothing depends on.
    weights : (float, float, float), default (0.6, 0.25, 0.15)
        Alpha, beta and gamma, of cosine, recency and authority; >= 0, summing to 1.
    decay_per_hour : float, default 0.25
        >= 0. The document uses the number .25 both for this and for the weight of recency; they are two
        parameters here. At .25 recency halves every 2.8 hours and is .0025 after a day.
    h, k : float, default 1 and 0.1
        Finite; what frequency and age add to the energy.
    hbar : float, default 1
        > 0; the document gives none.

    Returns
    -------
    Superposition

    Notes
    -----
    ``relevance = 0.6 * cosine + 0.25 * recency + 0.15 * authority``, ``energy = h * frequency + k * (1 - recency)``,
    ``amplitude = sqrt(relevance) * exp(i * energy / hbar)``. Nothing interferes: phase, energy and both constants
    cannot influence any output but themselves, and the collapse probability equals the weighted mean. The document's
    code squares the relevance, its formulas do not; the formulas are followed.
    """
    if len(weights) != 3 or min(weights) < 0 or abs(math.fsum(weights) - 1.0) > _SUM_ERROR:
        raise InvalidInputError(f"weights must be three numbers >= 0 that sum to 1; got {weights!r}")
    first, second, third = weights
    check_number("decay_per_hour", decay_per_hour)
    check_number("h", h, minimum=None)
    check_number("k", k, minimum=None)
    check_range("hbar", hbar, ends="(]")
    similarity = _column("cosine", cosine, 0.0, 1.0)
    standing = _column("authority", authority, 0.0, 1.0)
    ages = _column("age_seconds", age_seconds, -np.inf, np.inf)
    if not len(similarity) == len(standing) == len(ages):
        raise InvalidInputError("cosine, age_seconds and authority must have one value per passage")
    counts = np.broadcast_to(_column("frequency", np.atleast_1d(frequency), -np.inf, np.inf), ages.shape)
    recency = np.exp(-decay_per_hour * np.maximum(ages, 0.0) / 3600.0)
    relevance = first * similarity + second * recency + third * standing
    energy = h * counts + k * (1 - recency)
    return Superposition(relevance, energy, np.sqrt(relevance) * np.exp(1j * energy / hbar))


def _column(name: str, values: FloatArray, low: float, high: float) -> FloatArray:
    column = check_flat(name, values)
    if len(column) and (column.min() < low or column.max() > high):
        raise InvalidInputError(f"{name} must be in [{low:g}, {high:g}]; got {column.min():g} to {column.max():g}")
    return column


@dataclass(frozen=True, slots=True)
class SuperpositionPrior(_Stored):
    """The document's relevance as a multiplier: a weighted mean of similarity, recency and authority.

    Parameters
    ----------
    weights : (float, float, float), default (0.6, 0.25, 0.15)
        Alpha, beta and gamma, of cosine, recency and authority; >= 0, summing to 1.
    decay_per_hour : float, default 0.25
        >= 0; see :func:`superposition`.
    strength : float, default 0.3
        In [0, 1]; the multiplier is ``(1 - strength) + strength * relevance``.
    h, k : float, default 1 and 0.1
        What frequency and age add to the energy, which stands in the evidence and changes nothing else.
    source : str, default "vector"
        The source whose own score is the cosine, where no field ``cosine`` says it; one in [-1, 0) counts as 0.
    cosine, timestamp, authority, frequency : str
        Metadata fields of the hits, or attributes of the context.

    Notes
    -----
    A candidate without a field counts as 1 in it (similar, new, of full authority) and as frequency 0, so that it
    loses nothing. A selection by ``legacy_entropy`` takes this relevance for its own.

    Examples
    --------
    >>> from phasegraph import Context
    >>> context = Context(now=3600.0, attributes={"a": {"cosine": 0.8, "timestamp": 0.0, "authority": 0.5}})
    >>> SuperpositionPrior(strength=1.0)(["a", "b"], context).round(4)
    array([0.7497, 1.    ])
    """

    name: ClassVar[str] = "superposition"
    weights: tuple[float, float, float] = (0.6, 0.25, 0.15)
    decay_per_hour: float = 0.25
    strength: float = 0.3
    h: float = 1.0
    k: float = 0.1
    source: str = "vector"
    cosine: str = "cosine"
    timestamp: str = "timestamp"
    authority: str = "authority"
    frequency: str = "frequency"

    def __post_init__(self) -> None:
        for name in ("source", "cosine", "timestamp", "authority", "frequency"):
            _check_key(name, getattr(self, name))
        check_range("strength", self.strength, 0, 1)
        object.__setattr__(self, "weights", tuple(self.weights))
        one = np.ones(1)
        superposition(one, one, one, weights=self.weights, decay_per_hour=self.decay_per_hour, h=self.h, k=self.k)

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """Multipliers in [1 - strength, 1]; InvalidInputError where the context has no `now`."""
        return self.multipliers(self.state(ids, context)[0])

    def multipliers(self, state: Superposition, /) -> FloatArray:
        """``(1 - strength) + strength * relevance``."""
        return (1.0 - self.strength) + self.strength * state.relevance

    def state(self, ids: Sequence[str], context: Context, /) -> tuple[Superposition, tuple[FieldReading, ...]]:
        """Relevance, energy and amplitude of the candidates, and how many held each field."""
        cosines, similar = self._cosines(ids, context)
        ages, timed = _ages(ids, context, self.name, self.timestamp)
        authorities, standing = _read_field(ids, context, self.name, self.authority, _as_share, 1.0)
        counts, _ = _read_field(ids, context, self.name, self.frequency, _as_number, 0.0)
        found = superposition(
            cosines, ages, authorities, frequency=counts, weights=self.weights, decay_per_hour=self.decay_per_hour,
            h=self.h, k=self.k,
        )  # fmt: skip
        return found, (similar, timed, standing)

    def _cosines(self, ids: Sequence[str], context: Context) -> tuple[FloatArray, FieldReading]:
        """The field, else the score that the source itself gave, which is no cosine where it is a distance."""
        values, reading = _read_field(ids, context, self.name, self.cosine, _as_cosine, np.nan)
        ranking = next((one for one in context.rankings if one.source == self.source), None)
        if ranking is not None and not ranking.rank_only and not ranking.distances:
            for row in np.flatnonzero(np.isnan(values)).tolist():
                place = ranking.positions.get(ids[row])
                if place is not None and -1.0 <= ranking.scores[place] <= 1.0 + 1e-6:
                    values[row] = _as_cosine(float(ranking.scores[place]))
        missing = int(np.isnan(values).sum())
        found = FieldReading(
            self.name, self.cosine, len(ids) - missing, missing - min(missing, reading.unusable),
            min(missing, reading.unusable), reading.example if missing else "",
        )  # fmt: skip
        return np.nan_to_num(values, nan=1.0), found


def _as_number(value: object) -> float:
    return check_number("it", _parsed(value), minimum=None)


def _as_cosine(value: object) -> float:
    """A cosine in [0, 1]: a negative one, which has no square root, is 0; rounding above 1 is 1."""
    return min(max(check_range("it", _parsed(value), -1.0, 1.0 + 1e-6), 0.0), 1.0)


def prior_from_dict(state: Mapping[str, object]) -> Prior:
    """Rebuild a prior from its ``to_dict`` state; InvalidInputError where a name or an option is unknown."""
    options = {str(key): value for key, value in state.items() if key != "name"}
    name = state.get("name")
    check_choice("prior name", name, PRIORS)
    try:
        return PRIORS[str(name)](**options)
    except InvalidTypeError:
        raise
    except TypeError as error:
        raise InvalidInputError(f"prior {name!r} does not take the options {sorted(options)}") from error


_KINDS = (UnitPrior, RecencyPrior, ExactMatchBonus, SuperpositionPrior)
PRIORS: Mapping[str, Callable[..., Prior]] = MappingProxyType({kind.name: kind for kind in _KINDS})
