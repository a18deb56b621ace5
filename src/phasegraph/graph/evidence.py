"""What the words of a query add to a walk: to its seeds, to the edges it prefers, and to what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from phasegraph._typing import BoolArray, FloatArray, IntArray
from phasegraph._validation import check_count, check_range
from phasegraph.errors import InvalidInputError
from phasegraph.lexical import cover
from phasegraph.ranking import top_order

_TOP = 20
"""How many of the best scores say whether a walk points anywhere."""
NO_SPREAD = 1e-9
"""A deviation up to which scores are equal but for rounding."""
_STEEP = 50.0
"""Logarithm of a score beyond which it grows more slowly: one passage among millions may stand 1,000 deviations out."""
_SENTENCE = 3
"""Words from which on a query that stands in one passage as a whole looks for that passage."""


class Terms(Protocol):
    """The words of a query as :class:`~phasegraph.lexical.QueryTerms` has them, of all passages or of some."""

    @property
    def scores(self) -> FloatArray:
        """(n,) BM25."""
        ...

    @property
    def words(self) -> tuple[str, ...]:
        """Those that the collection has."""
        ...

    @property
    def idf(self) -> FloatArray:
        """(t,) of these."""
        ...

    @property
    def all_idf(self) -> Mapping[str, float]:
        """Of every word of the query."""
        ...

    @property
    def shares(self) -> FloatArray:
        """(t,) shares of the words in their idf."""
        ...

    def held_by(self, passages: IntArray, /) -> BoolArray:
        """(n, t) which of the passages has which of the words."""
        ...


@dataclass(frozen=True, slots=True)
class WordSettings:
    """How the query's words count in a walk.

    Parameters
    ----------
    weight : float, default 0.2
        What the best BM25 score adds to a cosine; others in proportion.
    seed_pool : int, default 50
        Passages from which seeds are chosen, those of the highest relevance.
    seed_cover : float, default 0.3
        What it adds to a seed's relevance to have all words, by idf, that no seed before has.
    diffuse : (float, float), default (10, 13)
        Effective number of the walk's 20 best scores at which plain relevance starts to take its place, and has.
    unnamed : float, default 0.3
        Share that plain relevance has at least, in [0, 1], where the query names nothing that a passage is about.
    dense_share : float, default 0.7
        Share of the cosines in that plain relevance, in [0, 1]; the rest is BM25's.
    complete : float, default 0.8
        In [0, 1). Where the best passage by BM25 has more than this share of the query's words, by idf squared, the
        cosines' share falls; where it has all of them, and they are three or more, the query looks for that passage,
        and BM25 alone decides.
    cover : float, default 3
        What it adds to a score's logarithm to have all words, by idf, that no passage before has.
    cover_pool, cover_picks : int, default 30, 10
        Among how many of the best, and for how many places.
    """

    weight: float = 0.2
    seed_pool: int = 50
    seed_cover: float = 0.3
    diffuse: tuple[float, float] = (10.0, 13.0)
    unnamed: float = 0.3
    dense_share: float = 0.7
    complete: float = 0.8
    cover: float = 3.0
    cover_pool: int = 30
    cover_picks: int = 10

    def __post_init__(self) -> None:
        for name in ("weight", "seed_cover", "cover"):
            check_range(f"WordSettings.{name}", getattr(self, name))
        for name in ("unnamed", "dense_share"):
            check_range(f"WordSettings.{name}", getattr(self, name), 0, 1)
        check_range("WordSettings.complete", self.complete, 0, 1, ends="[)")
        for name in ("seed_pool", "cover_pool", "cover_picks"):
            check_count(f"WordSettings.{name}", getattr(self, name), minimum=1)
        if not isinstance(self.diffuse, tuple) or len(self.diffuse) != 2 or not 1 <= self.diffuse[0] < self.diffuse[1]:
            raise InvalidInputError(f"WordSettings.diffuse must be two ascending numbers from 1; got {self.diffuse!r}")


def relevance_by_words(cosines: FloatArray, terms: Terms, settings: WordSettings) -> FloatArray:
    """(P,) cosines with what BM25 adds to them."""
    highest = float(terms.scores.max(initial=0.0))
    return cosines + settings.weight * terms.scores / highest if highest > 0 else cosines


def seeds_by_words(
    relevance: FloatArray, terms: Terms, ids: Sequence[str], count: int, sharpness: float, settings: WordSettings
) -> tuple[IntArray, FloatArray]:
    """Rows and masses, which sum to 1, of at most `count` relevant passages that have different words of the query."""
    best = top_order(relevance, ids, settings.seed_pool)
    best = best[relevance[best] > 0]
    places, worth = cover(relevance[best], terms.held_by(best), terms.shares, settings.seed_cover, count)
    masses = (worth / worth[0]) ** sharpness if len(worth) else worth
    return best[places], masses / masses.sum() if len(masses) else masses


def blended(
    logs: FloatArray,
    cosines: FloatArray,
    terms: Terms,
    named: float,
    settings: WordSettings,
    standing: FloatArray | None = None,
) -> FloatArray:
    """(P,) logarithms of a walk's scores, mixed with plain relevance as far as the walk says little.

    `standing` (P,) says for how many passages each of these stands in means and deviations: itself, if not given.
    """
    low, high = settings.diffuse
    spread = min(max((effective_number(logs) - low) / (high - low), 0.0), 1.0)
    doubt = 1 - (1 - spread) * (1 - settings.unnamed * (1 - named))
    whole = _completeness(terms, settings.complete)
    doubt = 1.0 if whole == 1.0 else doubt
    dense = settings.dense_share * (1 - whole) * _standardised(cosines, standing)
    words = _standardised(terms.scores, standing)
    plain = dense + (1 - settings.dense_share * (1 - whole)) * words
    if not plain.any():
        return logs
    return (1 - doubt) * logs + doubt * moments(logs, standing)[1] * plain


def _completeness(terms: Terms, least: float) -> float:
    """Share of the query's words, by idf squared, that the best passage by BM25 has, mapped from [`least`, 1]."""
    if len(terms.all_idf) < _SENTENCE or len(terms.words) == 0:
        return 0.0
    held = terms.held_by(np.array([int(np.argmax(terms.scores))]))[0]
    if held.all() and len(held) == len(terms.all_idf):
        return 1.0
    total = sum(idf * idf for idf in terms.all_idf.values())
    share = float((terms.idf[held] ** 2).sum()) / total if total else 0.0
    return min(max((share - least) / (1.0 - least), 0.0), 1.0 - 1e-9)


def covering(
    scores: FloatArray, rows: IntArray, ids: Sequence[str], terms: Terms, limit: int | None, settings: WordSettings
) -> tuple[IntArray, FloatArray]:
    """The first `limit` of these rows with scores that fall, the best rearranged to have the query's words early."""
    wanted = None if limit is None else max(limit, settings.cover_pool)
    if wanted is not None and wanted < len(rows):
        rows = rows[scores[rows] >= np.partition(scores[rows], len(rows) - wanted)[len(rows) - wanted]]
    order = rows[top_order(scores[rows], [ids[row] for row in rows.tolist()], wanted)]
    head = order[: settings.cover_pool]
    places, worth = cover(scores[head], terms.held_by(head), terms.shares, settings.cover, settings.cover_picks)
    rest: BoolArray = np.ones(len(order), dtype=np.bool_)
    rest[places] = False
    order, values = np.concatenate([head[places], order[rest]]), np.concatenate([worth, scores[order[rest]]])
    return order[:limit], values[:limit]


def effective_number(logs: FloatArray) -> float:
    """Exponential of the entropy of the shares of the 20 largest of exp(`logs`): 1 (one passage) to 20 (flat)."""
    top = logs if len(logs) <= _TOP else np.partition(logs, len(logs) - _TOP)[-_TOP:]
    shares = np.exp(top - top.max())
    shares /= shares.sum()
    held = shares[shares > 0]
    return float(np.exp(-(held * np.log(held)).sum()))


def moments(values: FloatArray, standing: FloatArray | None = None) -> tuple[float, float]:
    """Mean and deviation, where each value may stand for many."""
    if standing is None:
        return float(values.mean()), float(values.std())
    mean = float(np.average(values, weights=standing))
    return mean, float(np.sqrt(np.average((values - mean) ** 2, weights=standing)))


def _standardised(values: FloatArray, standing: FloatArray | None) -> FloatArray:
    mean, spread = moments(values, standing)
    return (values - mean) / spread if spread > NO_SPREAD else np.zeros(len(values))


def published(values: FloatArray) -> FloatArray:
    """Positive scores in the order of these logarithms, finite whatever they are."""
    beyond = np.maximum(values - _STEEP, 0.0)
    return np.asarray(np.exp(np.minimum(values, _STEEP) + np.log1p(beyond)))
