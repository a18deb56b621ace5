"""Four kinds of edges between chunks, none of which needs a name: order, likeness, references, identifiers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from scipy import sparse

from phasegraph._typing import Float32Array
from phasegraph.graph.synonyms import synonym_pairs

Csr = Any
Pairs = Iterable[tuple[int, int]]

_REFERENCE = re.compile(r"\b(section|sec|figure|fig|table|chapter|equation|eq)s?\.?\s*\(?(\d+(?:\.\d+)*[a-z]?)\b", re.I)
_CITATION = re.compile(r"\[(\d{1,3}(?:\s*[,–-]\s*\d{1,3})*)\]")
_FULL = {"sec": "section", "fig": "figure", "eq": "equation"}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,}")
_CODE_SIGNS = frozenset("{}[]=;_<>")
_CODE_SHARE = 0.02
_COMMON = 100
_PLAIN = """
self class return import from else elif None True False with while yield lambda pass break continue raise except
finally assert async await global nonlocal print super property staticmethod classmethod public private protected
static void const function this null true false throw catch switch case default typedef struct enum interface
extends implements package namespace using template typename string boolean float double long short char unsigned
that have this when then will what which into only also must should would could there their they them some such
than been were your
"""
_KEYWORDS = frozenset(_PLAIN.split())


def sequential(documents: Sequence[str], positions: Sequence[float]) -> Pairs:
    """Chunks that follow each other in a document, as (earlier, later) rows.

    Examples
    --------
    >>> list(sequential(["a", "b", "a", "a"], [0, 0, 2, 1]))
    [(0, 3), (3, 2)]
    """
    for rows in members(documents).values():
        yield from pairwise(sorted(rows, key=lambda row: (positions[row], row)))


def references(texts: Sequence[str], documents: Sequence[str], *, across: bool = False) -> Pairs:
    """Chunks with the same marker: "Section 2.1", "Fig. 3", "[7]".

    Parameters
    ----------
    texts, documents : sequences of str
    across : bool
        Whether markers mean the same in all documents.

    Notes
    -----
    A marker that more than a hundred chunks hold joins none.

    Examples
    --------
    >>> list(references(["See Fig. 3.", "Figure 3: growth [2]", "[1, 2]"], ["a", "a", "a"]))
    [(0, 1), (1, 2)]
    """
    holders: dict[tuple[str, str], list[int]] = {}
    for row, text in enumerate(texts):
        for marker in dict.fromkeys(markers(text)):
            holders.setdefault(("" if across else documents[row], marker), []).append(row)
    for rows in holders.values():
        if len(rows) <= _COMMON:
            yield from combinations(rows, 2)


def markers(text: str) -> Iterator[str]:
    """The references of a text, in one spelling."""
    for kind, number in _REFERENCE.findall(text):
        low = kind.lower()
        yield f"{_FULL.get(low, low)} {number.lower()}"
    for listed in _CITATION.findall(text):
        for number in re.findall(r"\d+", listed):
            yield f"[{number}]"


def identifiers(texts: Sequence[str], documents: Sequence[str], code: Sequence[bool], fewest: int, most: int) -> Pairs:
    """Chunks of code of one document with the same identifier, where between `fewest` and `most` hold it.

    Examples
    --------
    >>> texts = ["def read_file(path): ...", "read_file(name)", "x = read_file"]
    >>> list(identifiers(texts, ["a", "a", "b"], [True, True, True], 2, 12))
    [(0, 1)]
    """
    holders: dict[tuple[str, str], list[int]] = {}
    for row, text in enumerate(texts):
        if code[row]:
            for word in dict.fromkeys(_IDENTIFIER.findall(text)):
                if word not in _KEYWORDS:
                    holders.setdefault((documents[row], word), []).append(row)
    for rows in holders.values():
        if fewest <= len(rows) <= most:
            yield from combinations(rows, 2)


def looks_like_code(text: str) -> bool:
    """Whether brackets (round ones apart), underscores and assignments make up more than a fiftieth of a text.

    Examples
    --------
    >>> looks_like_code("if (n == 0) { return f(n); }"), looks_like_code("Ada met Bo (in Paris) and sang.")
    (True, False)
    """
    solid = [sign for sign in text if not sign.isspace()]
    return sum(sign in _CODE_SIGNS for sign in solid) > _CODE_SHARE * max(len(solid), 1)


def semantic(embeddings: Float32Array, threshold: float, nearest: int) -> Csr:
    """(P, P) symmetric csr of cosines above `threshold`, where either is among the other's `nearest`.

    Examples
    --------
    >>> semantic(np.array([[1, 0], [1, 0.1], [0, 1]], dtype=np.float32), 0.7, 16).nnz
    2
    """
    size = len(embeddings)
    pairs = synonym_pairs(embeddings, threshold=threshold)
    rows = np.concatenate([pairs.left, pairs.right]).astype(np.int64)
    columns = np.concatenate([pairs.right, pairs.left]).astype(np.int64)
    cosines = np.concatenate([pairs.cosine, pairs.cosine])
    order = np.lexsort((columns, -cosines, rows))
    rows, columns, cosines = rows[order], columns[order], cosines[order]
    starts = np.searchsorted(rows, np.arange(size))
    kept = np.arange(len(rows)) - starts[rows] < nearest
    one_way = sparse.csr_array((cosines[kept], (rows[kept], columns[kept])), shape=(size, size))
    return one_way.maximum(one_way.T).tocsr().astype(np.float32)


def matrix(pairs: Pairs, size: int) -> Csr:
    """(P, P) symmetric csr of how often each pair is given, without a diagonal."""
    counted = Counter((min(pair), max(pair)) for pair in pairs if pair[0] != pair[1])
    left = np.fromiter((pair[0] for pair in counted), dtype=np.int32, count=len(counted))
    right = np.fromiter((pair[1] for pair in counted), dtype=np.int32, count=len(counted))
    counts = np.fromiter(counted.values(), dtype=np.float32, count=len(counted))
    half = sparse.csr_array((counts, (left, right)), shape=(size, size))
    whole = (half + half.T).tocsr()
    whole.sort_indices()
    return whole


def members(documents: Sequence[str]) -> dict[str, list[int]]:
    """Rows by document, in order of appearance."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(documents):
        rows.setdefault(name, []).append(row)
    return rows
