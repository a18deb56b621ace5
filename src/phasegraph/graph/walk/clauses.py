"""Split a question into clauses, which different passages may answer."""

from __future__ import annotations

import re

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph.graph.walk.scoring import deviations

FEWEST_BY_WORDS, FEWEST_BY_VECTORS = 3, 2
"""Minimum number of clauses for which a question is split: with BM25 scores alone, and with embedded clauses."""
_SHORTEST = 4
"""Minimum number of words in a clause."""
_CUT = re.compile(
    r"[,;:?]+|\b(?:and|while|whereas|but|or|which|who|whom|whose|that|when|where|as|compared to|with|after|before"
    r"|between)\b",
    re.IGNORECASE,
)


def clauses(question: str) -> tuple[str, ...]:
    """Split a question at punctuation, and at English words that start or join clauses.

    A part is joined to the previous part if either of the two parts has fewer than four words. This method is our own
    and not published.

    >>> clauses("Which company built the old bridge, and who paid for all of it in the end?")
    ('company built the old bridge', 'paid for all of it in the end')
    >>> clauses("Who built the bridge?")
    ('built the bridge',)
    """
    parts: list[str] = []
    for part in map(str.strip, _CUT.split(question)):
        if part and parts and min(len(part.split()), len(parts[-1].split())) < _SHORTEST:
            parts[-1] = f"{parts[-1]} {part}"
        elif part:
            parts.append(part)
    return tuple(parts)


def clause_relevance(words: list[FloatArray], cosines: list[FloatArray]) -> FloatArray:
    """Compute the relevance of n passages to each of c clauses, an array of shape (c, n).

    `words` contains, for each clause, the BM25 scores of the passages. `cosines` contains, for each clause, the
    passages' cosines to the embedded clause, or is empty. The relevance is the sum of the deviations of BM25 score and
    cosine (:func:`~phasegraph.graph.walk.scoring.deviations`).
    """
    found = np.array([deviations(one) for one in words])
    return found + np.array([deviations(one) for one in cosines]) if cosines else found
