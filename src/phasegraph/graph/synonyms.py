"""Entity pairs above a cosine: all of them, exactly, without comparing all of them in full.

The leading k directions of the embeddings hold most of every vector. With ``x = head + tail``,
``cos(x, y) <= head_x · head_y + |tail_x| |tail_y|`` (Cauchy-Schwarz), which is the product of two vectors of
k + 1 numbers. Pairs whose bound is below the threshold are done with; for the others the bound is drawn closer
with some more directions, and the few that still pass are computed in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._typing import Float32Array, FloatArray, Int32Array, IntArray
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.checks import check_range
from phasegraph.pipeline.checks import check_count

_TILE = 512
_CHUNK = 2048
_SAMPLE = 768
_SLACK = 5e-5
"""More than float32 products and projections of unit vectors can be wrong by."""
_CLOSER_COST = 30.0
"""A pair looked at again costs about as much as this many pairs in a product over all dimensions."""
_HEADS = (32, 48, 64, 80, 96, 128, 192)


@dataclass(frozen=True, eq=False)
class SynonymPairs:
    """Pairs of rows above a cosine, by (left, right).

    Parameters
    ----------
    left, right : (s,) array of int32
        Rows, left < right, no pair twice.
    cosine : (s,) array of float
        At least the threshold, at most 1.
    """

    left: Int32Array
    right: Int32Array
    cosine: FloatArray = field(repr=False)

    def __len__(self) -> int:
        return len(self.left)


def synonym_pairs(
    embeddings: ArrayLike, *, threshold: float, start: int = 0, max_pairs: int = 20_000_000
) -> SynonymPairs:
    """All pairs of rows whose cosine reaches a threshold.

    Parameters
    ----------
    embeddings : (n, d) array of float
        One row per entity, finite, of any length; a row of zeros has no synonyms.
    threshold : float
        In (0, 1].
    start : int
        Only pairs of which one row is `start` or later: for entities added to those below `start`, whose own
        pairs are known. The pairs are to the bit those that a search over all rows would add.
    max_pairs : int
        The most that may be found.

    Returns
    -------
    SynonymPairs
        None missed and none added; the cosines are computed in float64.

    Raises
    ------
    InvalidTypeError, InvalidInputError
        If an embedding is not finite (its row is named), a setting is out of range, or there are more than
        `max_pairs` pairs.

    Notes
    -----
    Memory beyond the input is one float32 copy of it, a smaller one, and tiles of a few MB.

    Examples
    --------
    >>> found = synonym_pairs([[1.0, 0.0], [0.0, 1.0], [2.0, 0.1]], threshold=0.9)
    >>> found.left.tolist(), found.right.tolist(), found.cosine.round(4).tolist()
    ([0], [2], [0.9988])
    """
    rows = finite_rows(embeddings, "embeddings")
    threshold = check_range("threshold", threshold, 0, 1, ends="(]")
    start, max_pairs = check_count("start", start), check_count("max_pairs", max_pairs)
    if start > len(rows):
        raise InvalidInputError(f"start must lie in [0, {len(rows)}]; got {start}")
    lengths = np.sqrt(np.concatenate([_dots(rows, rows, at, at) for at in _chunks(len(rows))] or [np.empty(0)]))
    bounds = _bounds(_unit(rows, lengths), threshold)
    found: list[tuple[IntArray, IntArray, FloatArray]] = []
    count = 0
    for left, right in _batched(_candidates(bounds, threshold - _SLACK, start)):
        for part in _exactly(rows, lengths, left, right, threshold):
            found.append(part)
            count += len(part[0])
            if count > max_pairs:
                raise InvalidInputError(
                    f"threshold must leave at most {max_pairs} pairs (max_pairs); {threshold} leaves more"
                )
    return _sorted(found)


def finite_rows(given: ArrayLike, name: str) -> Any:
    """Check that `given` holds rows of finite numbers; `name` is what an error calls it."""
    try:
        rows = np.asarray(given)
    except ValueError as error:
        raise InvalidTypeError(f"{name} must be numbers in rows of one length; got {given!r:.80}") from error
    if rows.dtype.kind not in "fiu":
        raise InvalidTypeError(f"{name} must be numbers in rows of one length; got {rows.dtype}")
    if rows.ndim != 2 or not rows.shape[1]:
        raise InvalidInputError(f"{name} must be two-dimensional, with columns; got shape {rows.shape}")
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise InvalidInputError(f"{name} must be finite; row {bad[0]} holds NaN or infinity")
    return rows


def _chunks(count: int) -> Iterator[IntArray]:
    for first in range(0, count, _CHUNK):
        yield np.arange(first, min(first + _CHUNK, count))


def _dots(one: Any, two: Any, left: IntArray, right: IntArray) -> FloatArray:
    """Products of rows in float64, each the same whatever it is computed along with."""
    a, b = one[left].astype(np.float64), two[right].astype(np.float64)
    products: FloatArray = np.einsum("ij,ij->i", a, b)
    return products


def _unit(rows: Any, lengths: FloatArray) -> Float32Array:
    unit = rows.astype(np.float32)
    unit /= np.maximum(lengths, np.finfo(np.float32).tiny).astype(np.float32)[:, None]
    return np.ascontiguousarray(unit)


@dataclass(frozen=True, eq=False)
class _Bounds:
    """Two sets of vectors: products of `head` bound the cosines, those of `middle` draw the bounds closer.

    Parameters
    ----------
    head : (n, k + 1) array of float32
        Leading coordinates, and the length of the rest.
    middle : (n, m + 1) array of float32, or None
        The coordinates after those, and the length of what is left then. None: `head` is the whole vector.
    """

    head: Float32Array
    middle: Float32Array | None

    def closer(self, left: IntArray, right: IntArray, bound: Float32Array) -> Float32Array:
        """Closer bounds for some pairs."""
        if self.middle is None:
            return bound
        tails = self.head[left, -1] * self.head[right, -1]
        inner: Float32Array = np.einsum("ij,ij->i", self.middle[left], self.middle[right])
        drawn: Float32Array = bound - tails + inner
        return drawn


def _bounds(unit: Float32Array, threshold: float) -> _Bounds:
    """Bounds of the size that is cheapest for these vectors, by a sample."""
    n, d = unit.shape
    if n <= 2 * _SAMPLE:
        return _Bounds(unit, None)
    sample = unit[:: max(1, n // (8 * _SAMPLE))]
    _, directions = np.linalg.eigh(sample.T @ sample)
    basis = np.ascontiguousarray(directions[:, ::-1])
    few = unit[:: n // _SAMPLE][:_SAMPLE] @ basis
    best, kept = float(d), 0
    for k in (k for k in _HEADS if k < d):
        bounds = np.column_stack([few[:, :k], _rest(few[:, :k])])
        share = float((bounds @ bounds.T >= threshold - _SLACK).mean()) - 1.0 / len(few)
        cost = k + 1 + share * _CLOSER_COST * d
        if cost < best:
            best, kept = cost, k
    if not kept:
        return _Bounds(unit, None)
    both = unit @ basis[:, : min(d, 2 * kept + 32)]
    head = np.column_stack([both[:, :kept], _rest(both[:, :kept])])
    return _Bounds(head, np.column_stack([both[:, kept:], _rest(both)]))


def _rest(head: Float32Array) -> Float32Array:
    """Length of what these coordinates leave out of unit vectors, never too short."""
    rest = 1.0 - np.einsum("ij,ij->i", head, head, dtype=np.float64)
    lengths: Float32Array = np.sqrt(np.maximum(rest, 0.0) + 1e-5).astype(np.float32)
    return lengths


def _candidates(bounds: _Bounds, least: float, start: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Pairs (left < right, right >= start) whose bound reaches `least`, tile by tile."""
    head, across = bounds.head, np.ascontiguousarray(bounds.head.T)
    tile = np.empty(_TILE * _TILE, dtype=np.float32)
    for top in range(start, len(head), _TILE):
        lower = head[top : top + _TILE]
        for first in range(0, top + len(lower), _TILE):
            upper = across[:, first : first + _TILE]
            product = tile[: len(lower) * upper.shape[1]].reshape(len(lower), upper.shape[1])
            np.matmul(lower, upper, out=product)
            hits = np.flatnonzero(product >= np.float32(least))
            right, left = np.divmod(hits, upper.shape[1])
            right, left = right + top, left + first
            passed = bounds.closer(left, right, product.ravel()[hits]) >= np.float32(least)
            passed &= left < right
            yield left[passed], right[passed]


def _batched(parts: Iterator[tuple[IntArray, IntArray]]) -> Iterator[tuple[IntArray, IntArray]]:
    """The same pairs in fewer, larger parts."""
    held: list[tuple[IntArray, IntArray]] = []
    count = 0
    for part in parts:
        held.append(part)
        count += len(part[0])
        if count >= _CHUNK:
            yield _joined(held)
            held, count = [], 0
    if held:
        yield _joined(held)


def _joined(parts: list[tuple[IntArray, IntArray]]) -> tuple[IntArray, IntArray]:
    return np.concatenate([left for left, _ in parts]), np.concatenate([right for _, right in parts])


def _exactly(
    rows: Any, lengths: FloatArray, left: IntArray, right: IntArray, threshold: float
) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """Those of the pairs whose cosine reaches the threshold, with it."""
    for at in _chunks(len(left)):
        a, b = left[at], right[at]
        scale = lengths[a] * lengths[b]
        cosine = np.divide(_dots(rows, rows, a, b), scale, out=np.zeros(len(a)), where=scale > 0)
        cosine = np.minimum(cosine, 1.0)
        kept = cosine >= threshold
        if kept.any():
            yield a[kept], b[kept], cosine[kept]


def _sorted(found: list[tuple[IntArray, IntArray, FloatArray]]) -> SynonymPairs:
    left = np.concatenate([part[0] for part in found] or [np.empty(0, dtype=np.intp)])
    right = np.concatenate([part[1] for part in found] or [np.empty(0, dtype=np.intp)])
    cosine = np.concatenate([part[2] for part in found] or [np.empty(0)])
    order = np.lexsort((right, left))
    arrays = left[order].astype(np.int32), right[order].astype(np.int32), cosine[order]
    for array in arrays:
        array.flags.writeable = False
    return SynonymPairs(*arrays)
