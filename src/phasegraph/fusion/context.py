"""The inputs of a decision other than the rankings: the query, the time, and the fields and texts of hits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import ArrayLike

from phasegraph._support.typing import FloatArray
from phasegraph.lexical import HitWords
from phasegraph.ranking import Ranking

TEXT = "text"

_TEXTS = (TEXT, "page_content", "content")


def _attribute_of(hit: object, name: str) -> object:
    """Return an entry of a mapping or an attribute of an object; None if it is absent or cannot be read."""
    if isinstance(hit, Mapping):
        return hit.get(name)
    try:
        return getattr(hit, name, None)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a property that raises an error counts as absent
        return None


def metadata_of_hit(hit: object, /) -> Mapping[str, object]:
    """Return the fields of a hit: its ``metadata`` and, if the hit is a mapping, its entries."""
    inner = _attribute_of(hit, "metadata")
    held = inner if isinstance(inner, Mapping) else {}
    return {**held, **hit} if isinstance(hit, Mapping) else held


def text_of_hit(hit: object, /) -> str:
    """Return the text of a hit: the hit itself if it is a string, else its ``text``, ``page_content`` or ``content``.

    Without such a text, return an empty string.
    """
    if isinstance(hit, str):
        return hit
    return next((found for name in _TEXTS if isinstance(found := _attribute_of(hit, name), str)), "")


@dataclass(frozen=True, slots=True)
class Context:
    """The data that a decision reads besides the rankings.

    Parameters
    ----------
    query : str
        The text of the query.
    now : float, optional
        The current time in seconds since the epoch; only priors that use an age need it.
    attributes : mapping of str to mapping
        Fields by candidate id, for example ``importance`` and ``authority`` in [0, 1], ``timestamp``, or ``text``. The
        field ``exact``, True or False, overrides the search for exact matches. Attributes take precedence over the
        fields of the hits. An unusable value is an error.
    embeddings : mapping of str to (d,) array, or callable
        Embeddings by candidate id, or a function ``embeddings(ids)`` that returns an (n, d) array. Selections that
        measure redundancy need them.
    costs : mapping of str to float
        Costs by candidate id, for example in tokens; a selection with a budget needs them.
    words : HitWords, optional
        The query's words in the texts of the hits, for adaptive weights and the confidence; see
        :func:`phasegraph.lexical.read_hits`.
    metadata_of, text_of : callable
        Functions that return the fields and the text of a hit; hits are the payloads of a ranking. Default:
        :func:`metadata_of_hit` and :func:`text_of_hit`.
    rankings : tuple of Ranking
        The rankings whose hits priors read. The pipeline sets them to the rankings that it fuses.
    blend : float, default 1
        Weight of a reranker's ranking (named ``rerank``) in the total, in [0, 1]. With 0, the ranking has no effect;
        with 1, it alone sets the order.
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
        """Yield the values of the field `key` in a candidate's hits, in the order of the rankings.

        For the key ``text``, yield the texts of the hits. Absent, blank and NaN values are skipped.
        """
        for ranking in self.rankings:
            hit = ranking.payloads.get(identifier)
            if hit is None:
                continue
            text = self.text_of(hit) if key == TEXT else ""
            value = text or self.metadata_of(hit).get(key)
            if not (value is None or (isinstance(value, str) and not value.strip()) or _is_nan(value)):
                yield value

    def text(self, identifier: str, key: str = TEXT) -> str:
        """Return the text of a candidate: its attribute `key`, else the text of the first hit with a text, else ""."""
        given = self.attributes.get(identifier, {}).get(key)
        found = (given, *self.values(identifier, key)) if given is None else (given,)
        return next((one for one in found if isinstance(one, str)), "")


def _is_nan(value: object) -> bool:
    """Return True for the float NaN, which tables use for an absent value."""
    return isinstance(value, float) and math.isnan(value)
