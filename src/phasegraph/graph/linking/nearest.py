"""Entities near a query by embedding: of facts, or of names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasegraph._typing import Float32Array, Int32Array, IntArray
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.entity_graph import EntityGraph, normalise_name
from phasegraph.graph.entity_graph.graph import checked_embeddings
from phasegraph.graph.linking.seeds import Seeding


@dataclass(frozen=True, slots=True, eq=False)
class FactIndex:
    """Facts, names or both, that can be found by embedding; made by :meth:`of`, :meth:`of_names`, :meth:`plus`.

    Parameters
    ----------
    ends : (F, 2) or (F, 1) array of int32
        Rows of `EntityGraph.entities`: subject and object of a fact, or the one entity of a name (and then -1
        where there are two columns).
    embeddings : (F, d) array of float32
        L2-normalised, of the facts or names as text.

    Notes
    -----
    Given to ``GraphSource(facts=)``, the entities of what is nearest to the query are seeds besides those that the
    query names: for questions that put a name in other words, or a relation without its entities.
    """

    ends: Int32Array
    embeddings: Float32Array

    @classmethod
    def of(cls, graph: EntityGraph, facts: Iterable[tuple[str, str, str]], embeddings: Any) -> FactIndex:
        """Match facts with a graph.

        Parameters
        ----------
        graph : EntityGraph
        facts : iterable of (subject, predicate, object)
            Those of which an end is no entity of the graph are left out.
        embeddings : (F, d) array_like of float
            One row per fact given.

        Returns
        -------
        FactIndex

        Raises
        ------
        InvalidInputError
            If the rows do not match the facts, or hold NaN.
        """
        rows = graph.entity_rows
        ends = [(rows.get(normalise_name(s), -1), rows.get(normalise_name(o), -1)) for s, _, o in facts]
        vectors = checked_embeddings("fact embeddings", embeddings, len(ends))
        pairs = np.array(ends, dtype=np.int32).reshape(-1, 2)
        known = (pairs >= 0).all(axis=1)
        return cls(pairs[known], vectors[known])

    @classmethod
    def of_names(cls, graph: EntityGraph, names: Iterable[str], embeddings: Any) -> FactIndex:
        """Match embedded names with a graph; otherwise as :meth:`of`.

        Examples
        --------
        >>> from phasegraph.graph import Extraction, graph_from_extractions
        >>> graph = graph_from_extractions(["0"], [Extraction("0", ["ada", "bo"])])
        >>> FactIndex.of_names(graph, ["Bo", "Cy"], [[1.0, 0.0], [0.0, 1.0]]).ends.tolist()
        [[1]]
        """
        rows = [graph.entity_rows.get(normalise_name(name), -1) for name in names]
        vectors = checked_embeddings("name embeddings", embeddings, len(rows))
        found = np.array(rows, dtype=np.int32)
        return cls(found[found >= 0][:, None], vectors[found >= 0])

    def plus(self, other: FactIndex) -> FactIndex:
        """Both in one, of the same graph: the nearest of all of them give seeds.

        Raises
        ------
        InvalidInputError
            If the embeddings differ in length.

        Examples
        --------
        >>> from phasegraph.graph import Extraction, graph_from_extractions
        >>> graph = graph_from_extractions(["0"], [Extraction("0", ["ada", "bo"])])
        >>> names = FactIndex.of_names(graph, graph.entities, [[1.0, 0.0], [0.0, 1.0]])
        >>> FactIndex.of(graph, [("ada", "met", "bo")], [[0.6, 0.8]]).plus(names).ends.tolist()
        [[0, 1], [0, -1], [1, -1]]
        """
        widths = self.embeddings.shape[1], other.embeddings.shape[1]
        if widths[0] != widths[1]:
            raise InvalidInputError(f"embeddings must have one length; got {widths[0]} and {widths[1]}")
        ends = [np.pad(one.ends, ((0, 0), (0, 2 - one.ends.shape[1])), constant_values=-1) for one in (self, other)]
        return FactIndex(np.concatenate(ends), np.concatenate([self.embeddings, other.embeddings]))


def nearest_entities(graph: EntityGraph, index: FactIndex, vector: Any, top: int) -> Seeding:
    """Entities of the facts or names nearest to a query.

    Parameters
    ----------
    graph : EntityGraph
    index : FactIndex
    vector : (d,) array_like of float
        The query's embedding.
    top : int
        How many facts or names; ties by row.

    Returns
    -------
    Seeding
        Masses sum to 1: cosines (negative ones count as 0) divided by the number of passages that mention the entity.
        Empty, with the reason, where no cosine is positive.

    Raises
    ------
    InvalidInputError
        If the vector has another length or is not finite, or the index is that of another graph.

    Examples
    --------
    >>> from phasegraph.graph import Extraction, graph_from_extractions
    >>> graph = graph_from_extractions(["0"], [Extraction("0", ["ada", "bo", "cy"])])
    >>> index = FactIndex.of(graph, [("ada", "met", "bo"), ("bo", "met", "cy")], [[0.6, 0.8], [0.0, 1.0]])
    >>> nearest_entities(graph, index, [1.0, 0.0], 1).masses.tolist()
    [0.5, 0.5]
    """
    near = index.embeddings @ unit_vector(vector, index.embeddings.shape[1])
    best = _first(near, top)
    ends = index.ends[best]
    known = ends >= 0
    if ends.max(initial=-1) >= len(graph.entities):
        raise InvalidInputError(f"facts must be those of the graph; it has no entity in row {ends.max()}")
    entities, place = np.unique(ends[known], return_inverse=True)
    shares = np.repeat(np.maximum(near[best], 0).astype(np.float64), known.sum(axis=1))
    masses = np.bincount(place, weights=shares, minlength=len(entities)) / np.maximum(graph.frequency[entities], 1)
    total = float(masses.sum())
    held = masses > 0
    nodes = entities[held].astype(np.intp) + len(graph.passages)
    if total <= 0:
        return Seeding(nodes, masses[held], "no embedded fact or name is near the query")
    return Seeding(nodes, masses[held] / total)


def _first(near: Float32Array, top: int) -> IntArray:
    """Places of the `top` highest values, ties by place."""
    places = np.arange(len(near))
    if 0 < top < len(near):
        places = np.flatnonzero(near >= np.partition(near, len(near) - top)[len(near) - top])
    return places[np.lexsort((places, -near[places]))[:top]]


def unit_vector(vector: Any, dimensions: int) -> Float32Array:
    """A query's embedding, checked and normalised.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If it holds no numbers, has another length, or is not finite.
    """
    try:
        values = np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"the query's embedding must be numbers; got {vector!r:.80}") from error
    if values.shape != (dimensions,):
        raise InvalidInputError(f"the query's embedding must have shape ({dimensions},); got {values.shape}")
    length = float(np.sqrt(np.dot(values.astype(np.float64), values)))
    if not np.isfinite(length):
        raise InvalidInputError("the query's embedding must be finite; it holds NaN or infinity")
    return values / np.float32(length) if length > 0 else values
