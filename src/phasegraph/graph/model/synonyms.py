"""Synonym edges between entities whose embedded names have a high cosine.

The search finds all pairs above a threshold. Upper bounds on cosines exclude most other pairs, whose cosines are then
not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from phasegraph._support.frozen import by_fields
from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import Float32Array, FloatArray, Int32Array, IntArray
from phasegraph._support.validation import check_count, check_range
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.model.entity_graph import Csr, EntityGraph, checked_embeddings
from phasegraph.graph.model.storage import packed, unpacked
from phasegraph.graph.model.words import normalise_name

_TILE = 512
_CHUNK = 2048
_SAMPLE = 768
_SLACK = 5e-5
"""Upper bound of the rounding error in cosines of unit vectors that float32 products compute."""
_CLOSER_COST = 30.0
"""Cost of a closer bound for a single pair, relative to the cost per pair of a matrix product over all dimensions."""
MAX_PAIRS = 20_000_000
"""Maximum number of synonym pairs; more pairs are an error."""
_HEADS = (32, 48, 64, 80, 96, 128, 192)
"""Numbers of leading coordinates among which the search for synonyms chooses the number with the lowest cost.

From this many leading coordinates, the search computes an upper bound of each cosine. It skips a pair of names if the
bound is below the threshold.
"""


@dataclass(frozen=True, eq=False)
class SynonymPairs:
    """Pairs of rows whose cosine is at least a threshold, and their cosines.

    Pair i consists of the rows ``left[i]`` and ``right[i]``, with left < right. Pairs are unique and sorted.
    """

    left: Int32Array
    right: Int32Array
    cosine: FloatArray = field(repr=False)

    def __len__(self) -> int:
        return len(self.left)


def synonym_pairs(
    embeddings: ArrayLike, *, threshold: float, start: int = 0, max_pairs: int = MAX_PAIRS
) -> SynonymPairs:
    """Find all pairs of rows whose cosine, computed in float64, is at least a threshold in (0, 1].

    `embeddings`, of shape (n, d), must be finite, and need not be normalized; a row of zeros has no synonyms. Only
    pairs with at least one row number >= `start` are returned, for updates after new entities. Raises InvalidInputError
    for more than `max_pairs` pairs. The search needs memory for a float32 copy of the input, a smaller copy, and tiles
    of a few MB.

    >>> found = synonym_pairs([[1.0, 0.0], [0.0, 1.0], [2.0, 0.1]], threshold=0.9)
    >>> found.left.tolist(), found.right.tolist(), found.cosine.round(4).tolist()
    ([0], [2], [0.9988])
    """
    rows = finite_rows(embeddings, "embeddings")
    threshold = check_range("threshold", threshold, 0, 1, ends="(]")
    start, max_pairs = check_count("start", start), check_count("max_pairs", max_pairs)
    if start > len(rows):
        raise InvalidInputError(f"start must be in [0, {len(rows)}]; got {start}")
    return _pairs(rows, threshold, start, len(rows), max_pairs)


def pairs_across(one: Float32Array, other: Float32Array, *, threshold: float) -> SynonymPairs:
    """Find the pairs of a row of `one` and a row of `other` with a cosine of at least `threshold`.

    The row numbers of `other` follow the row numbers of `one`. Pairs within `one` and within `other` are left out. The
    cosines are identical, to the bit, to the cosines of :func:`synonym_pairs` over all rows.

    >>> rows = np.eye(2, dtype=np.float32)
    >>> found = pairs_across(rows, rows, threshold=0.9)
    >>> found.left.tolist(), found.right.tolist()
    ([0, 1], [2, 3])
    """
    return _pairs(np.concatenate([one, other]), threshold, len(one), len(one), MAX_PAIRS)


def _pairs(rows: Any, threshold: float, start: int, stop: int, max_pairs: int) -> SynonymPairs:
    """Find the synonyms among the pairs of rows (left, right) with left < right, left < `stop` and right >= `start`.

    Two rows are synonyms if their cosine is at least `threshold`. Raises InvalidInputError for more than `max_pairs`
    pairs.
    """
    lengths = np.sqrt(np.concatenate([_dots(rows, rows, at, at) for at in _chunks(len(rows))] or [np.empty(0)]))
    bounds = _bounds(_unit(rows, lengths), threshold)
    found: list[tuple[IntArray, IntArray, FloatArray]] = []
    count = 0
    for left, right in _batched(_candidates(bounds, threshold - _SLACK, start, stop)):
        for part in _exactly(rows, lengths, left, right, threshold):
            found.append(part)
            count += len(part[0])
            if count > max_pairs:
                raise too_many(threshold, max_pairs)
    return _sorted(found)


def too_many(threshold: float, max_pairs: int) -> InvalidInputError:
    """Create the error for a threshold that more than `max_pairs` pairs reach."""
    return InvalidInputError(
        f"threshold={threshold} leaves more than max_pairs={max_pairs} pairs: choose a higher threshold"
    )


def finite_rows(given: ArrayLike, name: str) -> Any:
    """Check that `given` is a two-dimensional array of finite numbers, and return it; error messages contain `name`."""
    try:
        rows = np.asarray(given)
    except ValueError as error:
        raise InvalidTypeError(f"{name} must be numbers in rows of equal length; got {given!r:.80}") from error
    if rows.dtype.kind not in "fiu":
        raise InvalidTypeError(f"{name} must be numbers in rows of equal length; got {rows.dtype}")
    if rows.ndim != 2 or not rows.shape[1]:
        raise InvalidInputError(f"{name} must be two-dimensional, with at least one column; got shape {rows.shape}")
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise InvalidInputError(f"{name} must be finite; row {bad[0]} contains NaN or infinity")
    return rows


def _chunks(count: int) -> Iterator[IntArray]:
    for first in range(0, count, _CHUNK):
        yield np.arange(first, min(first + _CHUNK, count))


def _dots(one: Any, two: Any, left: IntArray, right: IntArray) -> FloatArray:
    """Compute in float64, for each i, the dot product of row ``left[i]`` of `one` and row ``right[i]`` of `two`.

    A product does not depend on the other pairs of rows, not even in its last bit.
    """
    a, b = one[left].astype(np.float64), two[right].astype(np.float64)
    products: FloatArray = np.einsum("ij,ij->i", a, b)
    return products


def _unit(rows: Any, lengths: FloatArray) -> Float32Array:
    unit = rows.astype(np.float32)
    unit /= np.maximum(lengths, np.finfo(np.float32).tiny).astype(np.float32)[:, None]
    return np.ascontiguousarray(unit)


@dataclass(frozen=True, eq=False)
class _Bounds:
    """Data for upper bounds on the cosines of unit vectors: `head` for coarse bounds, `middle` for closer bounds.

    `head`, of shape (n, k + 1), contains the first k coordinates and the length of the remaining part. `middle`, of
    shape (n, m + 1), contains the next m coordinates and the length of the part after them. If `middle` is None, `head`
    is the whole vector.
    """

    head: Float32Array
    middle: Float32Array | None

    def closer(self, left: IntArray, right: IntArray, bound: Float32Array) -> Float32Array:
        """Return closer upper bounds on the cosines of pairs of rows; `bound` contains their coarse bounds."""
        if self.middle is None:
            return bound
        tails = self.head[left, -1] * self.head[right, -1]
        inner: Float32Array = np.einsum("ij,ij->i", self.middle[left], self.middle[right])
        drawn: Float32Array = bound - tails + inner
        return drawn


def _bounds(unit: Float32Array, threshold: float) -> _Bounds:
    """Compute the data for upper bounds on the cosines of unit vectors, from their leading coordinates.

    The number of leading coordinates with the lowest cost is estimated from a sample of the vectors.
    """
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
    """Return an upper bound on the length of each unit vector after its first coordinates (`head`) are removed."""
    rest = 1.0 - np.einsum("ij,ij->i", head, head, dtype=np.float64)
    lengths: Float32Array = np.sqrt(np.maximum(rest, 0.0) + 1e-5).astype(np.float32)
    return lengths


def _candidates(bounds: _Bounds, least: float, start: int, stop: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield batches of pairs (left, right) whose upper bound on the cosine is at least `least`.

    Only pairs with left < right, left < `stop` and right >= `start` are yielded.
    """
    head, across = bounds.head, np.ascontiguousarray(bounds.head.T)
    tile = np.empty(_TILE * _TILE, dtype=np.float32)
    for top in range(start, len(head), _TILE):
        lower = head[top : top + _TILE]
        for first in range(0, min(top + len(lower), stop), _TILE):
            upper = across[:, first : min(first + _TILE, stop)]
            product = tile[: len(lower) * upper.shape[1]].reshape(len(lower), upper.shape[1])
            np.matmul(lower, upper, out=product)
            hits = np.flatnonzero(product >= np.float32(least))
            right, left = np.divmod(hits, upper.shape[1])
            right, left = right + top, left + first
            passed = bounds.closer(left, right, product.ravel()[hits]) >= np.float32(least)
            passed &= left < right
            yield left[passed], right[passed]


def _batched(parts: Iterator[tuple[IntArray, IntArray]]) -> Iterator[tuple[IntArray, IntArray]]:
    """Merge small batches of pairs into batches of at least `_CHUNK` pairs; the last batch can be smaller."""
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
    """Compute the exact cosines of the pairs (``left[i]``, ``right[i]``); yield the pairs that reach the threshold.

    `lengths` are the lengths of the `rows`. The pairs are yielded in batches of three arrays: left, right and cosine.
    """
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


NameVectors: TypeAlias = Mapping[str, Any] | Callable[[Sequence[str]], Any]


@dataclass(frozen=True, eq=False)
class NameSynonyms:
    """A set of names with embeddings; two names are synonyms if their cosine is at least the threshold.

    Create it with :meth:`of`.

    Parameters
    ----------
    threshold : float, default 0.8
        Minimum cosine of synonyms, in (0, 1].
    names : tuple of str
        Normalized, unique names in ascending order.
    vectors : (n, d) array of float32, optional
        L2-normalized embeddings; row i belongs to name i. None if there are no names.
    embed : callable, optional
        A function ``embed(names) -> (n, d) vectors`` for names without a vector. The vector of a name must not depend
        on the other names in the call; otherwise, an updated graph differs from a new graph.
    required : bool, default False
        If True, an entity without a vector is an error; if False, it has no synonyms.

    Notes
    -----
    All pairs are found (:func:`synonym_pairs`). The weight of a synonym edge is the cosine times
    ``EdgeWeights.synonym``. HippoRAG 2 uses a threshold of 0.8.

    References
    ----------
    Gutiérrez, B. J. et al. (2025). From RAG to memory (HippoRAG 2). arXiv:2502.14802

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> synonyms = NameSynonyms.of({"Bo": [1.0, 0.1], "Bodil": [1.0, 0.0], "Ada": [0.0, 1.0]}, threshold=0.9)
    >>> passages = [{"id": "a", "text": "Ada met Bo."}, {"id": "b", "text": "Bodil sang."}]
    >>> graph = build_graph(passages, synonyms=synonyms)
    >>> graph.entities, (graph.synonyms.toarray() * 1000).astype(int).tolist()
    (('ada', 'bo', 'bodil'), [[0, 0, 0], [0, 0, 995], [0, 995, 0]])
    """

    threshold: float = 0.8
    names: tuple[str, ...] = ()
    vectors: Float32Array | None = field(default=None, repr=False)
    embed: Callable[[Sequence[str]], Any] | None = None
    required: bool = False

    __reduce__ = by_fields

    def __post_init__(self) -> None:
        check_range("threshold", self.threshold, 0, 1, ends="(]")
        if (self.vectors is None) != (not self.names):
            raise InvalidInputError(
                f"names and vectors must be given together; got {len(self.names)} names and "
                f"{'no vectors' if self.vectors is None else 'vectors'}"
            )
        if self.vectors is not None:
            vectors = checked_embeddings("name embeddings", self.vectors, len(self.names))
            object.__setattr__(self, "vectors", vectors)

    @classmethod
    def of(cls, embeddings: NameVectors, *, threshold: float = 0.8) -> NameSynonyms:
        """Create a set of synonyms from embeddings of names, or from a function that embeds names.

        `embeddings` is a mapping of names to vectors, or a function ``embeddings(names) -> (n, d) vectors`` that embeds
        all entities. If several names have the same normal form, the first name counts. With a mapping, entities
        without a vector have no synonyms.
        """
        return cls(threshold).knowing((), embeddings)

    def __call__(self, entities: Sequence[str]) -> Csr:
        """Return the matrix of synonym edges between `entities`, as ``build_graph(..., synonyms=)`` needs it."""
        return self.knowing(entities).edges(entities)

    @lazy_property
    def rows(self) -> Mapping[str, int]:
        """The position of each name in `names`, which is also the row of its vector."""
        return {name: row for row, name in enumerate(self.names)}

    def knowing(self, entities: Sequence[str], more: NameVectors | None = None) -> NameSynonyms:
        """Return a copy that also has vectors for the normalized names `entities`.

        `more` contains additional embeddings, in the forms that :meth:`of` accepts. A function replaces the field
        `embed`, and the field `required` becomes True. Missing vectors are computed with `embed`, if it is set. If
        `required` is True, the copy contains the names `entities` alone, and a missing vector is an error. Otherwise,
        the copy keeps all earlier names, and a name without a vector has no synonyms.

        Raises InvalidInputError if a required vector is missing, or if a name gets a second, different vector.
        """
        if more is None:
            return self._embedded(entities)
        if isinstance(more, Mapping):
            found: dict[str, Any] = {}
            for name, vector in more.items():
                if not isinstance(name, str):
                    raise InvalidTypeError(f"names must be strings; got {name!r}")
                found.setdefault(normalise_name(name), vector)
            found.pop("", None)
            return self._with(found)._embedded(entities)
        if not callable(more):
            raise InvalidTypeError(
                f"name embeddings must be a mapping of names to vectors or a callable; got {type(more).__name__}"
            )
        return replace(self, embed=more, required=True)._embedded(entities)

    def edges(
        self, entities: Sequence[str], *, graph: EntityGraph | None = None, earlier: NameSynonyms | None = None
    ) -> Csr:
        """Return the synonym edges between the `entities`, a symmetric matrix of cosines with shape (E, E).

        An entity without a vector has no edges. For an update, pass the old `graph`, and as `earlier` the synonyms from
        which the edges of this graph were made. These arguments do not change the result, but only pairs with a new
        entity are then compared. `earlier` must have the same threshold as this object, and the same vectors for names
        that are in both.
        """
        known = graph.entity_rows.keys() & earlier.rows.keys() if graph is not None and earlier is not None else set()
        held = [name for name in entities if name in self.rows]
        order = [name for name in held if name in known]
        start = len(order)
        order += [name for name in held if name not in known]
        place = {name: row for row, name in enumerate(entities)}
        first, second, values = np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.float32)
        if graph is not None and graph.synonyms.nnz:
            moved = np.array([place.get(name, -1) if name in known else -1 for name in graph.entities], dtype=np.intp)
            old = graph.synonyms.tocoo()
            first, second = moved.take(old.row), moved.take(old.col)
            there = (first >= 0) & (second > first)
            first, second, values = first[there], second[there], old.data[there]
        if self.vectors is not None and start < len(order):
            vectors = self.vectors[[self.rows[name] for name in order]]
            found = synonym_pairs(vectors, threshold=self.threshold, start=start)
            rows = np.array([place[name] for name in order], dtype=np.intp)
            first = np.concatenate([first, rows[found.left]])
            second = np.concatenate([second, rows[found.right]])
            values = np.concatenate([values, found.cosine.astype(np.float32)])
        ends = np.concatenate([first, second]), np.concatenate([second, first])
        entries: Any = (np.concatenate([values, values]), ends)
        matrix: Csr = sparse.csr_array(entries, shape=(len(entities), len(entities))).astype(np.float32)
        matrix.sort_indices()
        return matrix

    def _embedded(self, entities: Sequence[str]) -> NameSynonyms:
        lacking = [name for name in dict.fromkeys(entities) if name not in self.rows]
        found: dict[str, Any] = {}
        if lacking and self.embed is not None:
            found = dict(zip(lacking, self._checked(self.embed(lacking), len(lacking)), strict=True))
        elif lacking and self.required:
            raise InvalidInputError(f"the name of entity {lacking[0]!r} has no embedding: give an embedding for it")
        wider = self._with(found)
        if not self.required:
            return wider
        wanted = sorted(set(entities))
        if not wanted or wider.vectors is None:
            return replace(wider, names=(), vectors=None)
        return replace(wider, names=tuple(wanted), vectors=wider.vectors[[wider.rows[name] for name in wanted]])

    def _with(self, found: Mapping[str, Any]) -> NameSynonyms:
        """Return a copy with additional vectors, given by normalized name."""
        if not found:
            return self
        try:
            given = np.array([np.asarray(each, dtype=np.float32) for each in found.values()])
        except (TypeError, ValueError) as error:
            raise InvalidTypeError(f"name embeddings must be numbers in rows of equal length; {error}") from error
        vectors = dict(zip(found, self._checked(given, len(found)), strict=True))
        for name in vectors.keys() & self.rows.keys():
            if self.vectors is not None and not np.array_equal(vectors[name], self.vectors[self.rows[name]]):
                raise InvalidInputError(
                    f"name {name!r} already has a different embedding; give each name only one embedding"
                )
        own = {} if self.vectors is None else dict(zip(self.names, self.vectors, strict=True))
        names = sorted({**own, **vectors})
        return replace(self, names=tuple(names), vectors=np.array([own.get(n, vectors.get(n)) for n in names]))

    def _checked(self, given: Any, count: int) -> Float32Array:
        vectors = checked_embeddings("name embeddings", given, count)
        if self.vectors is not None and vectors.shape[1] != self.vectors.shape[1]:
            raise InvalidInputError(
                f"name embeddings must have {self.vectors.shape[1]} columns, like the earlier name embeddings; got "
                f"{vectors.shape[1]}"
            )
        return vectors


def synonym_parts(synonyms: NameSynonyms) -> tuple[dict[str, object], dict[str, NDArray[Any]]]:
    """Convert synonyms to a mapping for a JSON manifest and named arrays; the function `embed` is left out."""
    arrays: dict[str, NDArray[Any]] = dict(packed("names", synonyms.names))
    if synonyms.vectors is not None:
        arrays["names_vectors"] = synonyms.vectors
    return {"threshold": float(synonyms.threshold), "required": synonyms.required}, arrays


def synonyms_from_parts(body: Any, arrays: Mapping[str, NDArray[Any]]) -> NameSynonyms | None:
    """Create synonyms from the parts of :func:`synonym_parts`; None if `body` is None."""
    if body is None:
        return None
    vectors: Any = arrays.get("names_vectors")
    return NameSynonyms(body["threshold"], unpacked("names", arrays), vectors, required=bool(body["required"]))
