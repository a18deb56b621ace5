"""The value that holds a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse

from phasegraph._typing import Float32Array, Int32Array
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.entity_graph.weights import Csr, EdgeWeights, adjacency, document_frequency
from phasegraph.graph.pagerank import WalkOperator


@dataclass(frozen=True, eq=False)
class EntityGraph:
    """Passages, entities, and the counts that join them.

    Made by :func:`phasegraph.graph.build_graph`; matrices are CSR with int32 indices and are read-only.

    Parameters
    ----------
    passages : tuple of str
        The P passage ids, unique.
    entities : tuple of str
        The E normalised names, unique and in ascending order.
    mentions : (P, E) csr array of int32
        How often a passage mentions an entity; 1 also where it only is about it.
    homes : (P, E) csr array of int8
        2 where the entity is a name of the passage's title, 1 where the passage starts with it.
    facts : (E, E) csr array of int32, optional
        How many triples join two entities; symmetric, no diagonal.
    synonyms : (E, E) csr array of float32, optional
        Similarity in (0, 1] of names for the same thing; symmetric, no diagonal.
    weights : EdgeWeights
    embeddings : (P, d) array of float32, optional
        L2-normalised, row i = passage i.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If ids repeat, shapes do not fit, or embeddings hold NaN or infinity (naming the row).

    Notes
    -----
    A node is a passage (0 to P - 1) or an entity (P to P + E - 1). With embeddings, the entities' abstractness is
    :func:`~phasegraph.graph.abstractness.graph_abstractness`.

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph(
    ...     [{"id": "a", "title": "Ada", "text": "Ada met Bo."}, {"id": "b", "title": "Bo", "text": "Bo sang."}]
    ... )
    >>> graph.entities, graph.mentions.toarray().tolist()
    (('ada', 'bo'), [[1, 1], [0, 1]])
    """

    passages: tuple[str, ...]
    entities: tuple[str, ...]
    mentions: Csr
    homes: Csr
    facts: Csr = None
    synonyms: Csr = None
    weights: EdgeWeights = field(default_factory=EdgeWeights)
    embeddings: Float32Array | None = None

    def __post_init__(self) -> None:
        shape, square = (len(self.passages), len(self.entities)), (len(self.entities), len(self.entities))
        if not self.passages:
            raise InvalidInputError("passages must hold at least one; got none")
        wanted = (
            ("mentions", np.int32, shape),
            ("homes", np.int8, shape),
            ("facts", np.int32, square),
            ("synonyms", np.float32, square),
        )
        for name, dtype, size in wanted:
            object.__setattr__(self, name, _checked(name, getattr(self, name), dtype, size))
        if self.embeddings is not None:
            vectors = checked_embeddings("embeddings", self.embeddings, len(self.passages))
            object.__setattr__(self, "embeddings", vectors)

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.passages) + len(self.entities)

    @cached_property
    def adjacency(self) -> Csr:
        """(P + E, P + E) csr array of float32: the weight of the edge from row to column."""
        return _frozen(adjacency(self.mentions, self.homes, self.facts, self.synonyms, self.weights))

    @cached_property
    def operator(self) -> WalkOperator:
        """The adjacency, prepared for walks."""
        return WalkOperator.from_adjacency(self.adjacency)

    @cached_property
    def frequency(self) -> Int32Array:
        """(E,) array of int32: how many passages mention each entity."""
        counts = document_frequency(self.mentions)
        counts.flags.writeable = False
        return counts

    @cached_property
    def anchored(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """(E,) array of bool: whether some passage is about the entity."""
        has_home = np.bincount(self.homes.indices, minlength=len(self.entities)) > 0
        has_home.flags.writeable = False
        return has_home

    @cached_property
    def passage_rows(self) -> Mapping[str, int]:
        """Row of each passage id."""
        return MappingProxyType({name: row for row, name in enumerate(self.passages)})

    @cached_property
    def entity_rows(self) -> Mapping[str, int]:
        """Row of each entity name."""
        return MappingProxyType({name: row for row, name in enumerate(self.entities)})


def _checked(name: str, given: Csr, dtype: Any, shape: tuple[int, int]) -> Csr:
    if given is None:
        return _frozen(sparse.coo_array(shape, dtype=dtype).tocsr())
    matrix: Any = given
    if not sparse.issparse(given):
        raise InvalidTypeError(f"{name} must be a scipy sparse matrix; got {type(given).__name__}")
    if matrix.shape != shape:
        raise InvalidInputError(f"{name} must have shape {shape}; got {matrix.shape}")
    return _frozen(matrix.tocsr().astype(dtype, copy=False))


def _frozen(matrix: Csr) -> Csr:
    """A matrix of the same arrays with int32 indices, none of which can be written to."""
    out = sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
    out.data = _read_only(matrix.data)
    out.indices = _read_only(matrix.indices.astype(np.int32, copy=False))
    out.indptr = _read_only(matrix.indptr.astype(np.int32 if matrix.nnz < 2**31 else np.int64, copy=False))
    return out


def _read_only(array: Any) -> Any:
    view = array.view()
    view.flags.writeable = False
    return view


def checked_embeddings(name: str, given: Any, rows: int) -> Float32Array:
    """Embeddings as normalised float32, read-only.

    Parameters
    ----------
    name : str
        For messages.
    given : (rows, d) array_like of float
    rows : int

    Returns
    -------
    (rows, d) array of float32
        A copy, unless it was normalised float32 before. Rows of zeros stay zero.

    Raises
    ------
    InvalidInputError
        For another number of rows, no columns, or NaN and infinity (naming the row).
    """
    try:
        vectors = np.asarray(given, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{name} must be numbers in rows of one length; got {given!r:.80}") from error
    if vectors.ndim != 2 or len(vectors) != rows or not vectors.shape[1]:
        raise InvalidInputError(f"{name} must have {rows} rows, and columns; got shape {vectors.shape}")
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    bad = np.flatnonzero(~np.isfinite(lengths))
    if len(bad):
        raise InvalidInputError(f"{name} must be finite; row {int(bad[0])} holds NaN or infinity")
    loose = (lengths > 0) & (np.abs(lengths - 1) > 1e-6)
    if loose.any():
        divisors = np.where(loose, lengths, 1).astype(np.float32)
        vectors = np.divide(vectors, divisors[:, None], dtype=np.float32)
    frozen: Float32Array = _read_only(np.ascontiguousarray(vectors))
    return frozen
