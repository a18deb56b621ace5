"""Find pairs of documents with nearly the same text, by the sequences of four words that they share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from phasegraph._support.validation import check_range
from phasegraph.lexical import tokenizer_of

RUN = 4
"""Number of consecutive words in a run; a text with fewer words is a single run."""
_FIRST, _MOST = 10, 64
"""Number of smallest hashes by which documents are compared; maximum number of earlier documents per hash."""
_Hashes = NDArray[np.uint64]
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class NearDuplicates(NamedTuple):
    """The names of two documents, and their Jaccard similarity in [0, 1] (see :func:`similar_texts`)."""

    first: str
    second: str
    similarity: float


def similar_texts(documents: Iterable[tuple[str, Iterable[str]]], least: float = 0.8) -> list[NearDuplicates]:
    """Find pairs of documents with a similarity of at least `least`; return the most similar pairs first.

    The similarity is the Jaccard similarity of the documents' sets of four-word sequences. Two documents are compared
    if they share one of the ten smallest hashes of their sequences. At a similarity of .8, fewer than one pair in a
    million is missed; at .5, one pair in a thousand. For each shared hash, a document is compared with at most the 64
    preceding documents. If more than 64 documents are equal, some of their pairs are therefore not listed.

    Parameters
    ----------
    documents : iterable of (str, iterable of str)
        Name and texts of each document.
    least : float, default 0.8
        Minimum similarity, in (0, 1].

    Examples
    --------
    >>> text = "Ada met Bo in Oslo in the year in which the engine was made"
    >>> similar_texts([("a", [text]), ("b", [text + " new"]), ("c", ["Cy sang."])])
    [NearDuplicates(first='a', second='b', similarity=0.9166666666666666)]
    """
    check_range("least", least, 0, 1, ends="(]")
    split = tokenizer_of("plain")
    names: list[str] = []
    hashes: list[_Hashes] = []
    met: dict[int, list[int]] = defaultdict(list)
    found: list[NearDuplicates] = []
    for name, texts in documents:
        own = _hashes(texts, split)
        if not len(own):
            continue
        row, partners = len(names), dict[int, None]()
        for value in own[:_FIRST].tolist():
            partners |= dict.fromkeys(met[value][-_MOST:])
            met[value].append(row)
        for other in partners:
            similarity = _jaccard(hashes[other], own)
            if similarity >= least:
                found.append(NearDuplicates(names[other], name, similarity))
        names.append(name)
        hashes.append(own)
    return sorted(found, key=lambda pair: (-pair.similarity, pair.first, pair.second))


def _hashes(texts: Iterable[str], split: Any) -> _Hashes:
    """Return the distinct hashes of the four-word sequences in the texts, in ascending order.

    ``split(text)`` returns the words of a text.
    """
    parts = []
    for text in texts:
        words = np.array([crc32(word.encode("utf-8", "surrogatepass")) for word in split(text)], dtype=np.uint64)
        if not len(words):
            continue
        run = min(RUN, len(words))
        value = np.zeros(len(words) - run + 1, dtype=np.uint64)
        for step in range(run):
            value = _mixed(value * _SPREAD + words[step : len(words) - run + 1 + step])
        parts.append(value)
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.uint64)


def _mixed(values: _Hashes) -> _Hashes:
    """Mix the bits of each hash, so that similar values become very different values."""
    values = (values ^ (values >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    return values ^ (values >> np.uint64(29))


def _jaccard(one: _Hashes, other: _Hashes) -> float:
    both = len(np.intersect1d(one, other, assume_unique=True))
    return both / (len(one) + len(other) - both)


def near_duplicates(index: Any, documents: Mapping[str, Iterable[str]], least: float = 0.8) -> list[NearDuplicates]:
    """Find pairs of similar documents in an index; see :func:`similar_texts`.

    `documents` maps the name of each document to its passage ids; documents with an empty name are left out.
    """
    records = index.records
    held = records.held

    def texts(ids: Iterable[str]) -> Iterator[str]:
        return (held[one].text if one in held else records.content(one)[0] for one in ids)

    return similar_texts(((name, texts(ids)) for name, ids in documents.items() if name), least)
