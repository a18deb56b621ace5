"""What deciding may read beside the rankings: the query, the time, and what the hits say."""

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
