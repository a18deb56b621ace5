"""Entities near a query by embedding: of facts, or of names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasegraph._typing import Float32Array, Int32Array
from phasegraph.errors import InvalidInputError
from phasegraph.graph.entity_graph import EntityGraph, normalise_name
from phasegraph.graph.entity_graph.graph import checked_embeddings
from phasegraph.graph.linking.seeds import Seeding


@dataclass(frozen=True, slots=True, eq=False)
class FactIndex:
    """Facts, or names, that can be found by embedding.

    Parameters
    ----------
    ends : (F, 2) or (F, 1) array of int32
        Rows of `EntityGraph.entities`: subject and object of a fact, or the one entity of a name.
    embeddings : (F, d) array of float32
        L2-normalised, of the facts or names as text.
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

    Examples
    --------
    >>> from phasegraph.graph import Extraction, graph_from_extractions
    >>> graph = graph_from_extractions(["0"], [Extraction("0", ["ada", "bo", "cy"])])
    >>> index = FactIndex.of(graph, [("ada", "met", "bo"), ("bo", "met", "cy")], [[0.6, 0.8], [0.0, 1.0]])
    >>> nearest_entities(graph, index, [1.0, 0.0], 1).masses.tolist()
    [0.5, 0.5]
    """
    near = index.embeddings @ unit_vector(vector, index.embeddings.shape[1])
    best = np.lexsort((np.arange(len(near)), -near))[:top]
    ends = index.ends[best]
    entities, place = np.unique(ends.ravel(), return_inverse=True)
    shares = np.repeat(np.maximum(near[best], 0).astype(np.float64), ends.shape[1])
    masses = np.bincount(place, weights=shares, minlength=len(entities)) / np.maximum(graph.frequency[entities], 1)
    total = float(masses.sum())
    held = masses > 0
    nodes = entities[held].astype(np.intp) + len(graph.passages)
    return Seeding(nodes, masses[held] / total if total > 0 else masses[held])


def unit_vector(vector: Any, dimensions: int) -> Float32Array:
    """A query's embedding, checked and normalised.

    Raises
    ------
    InvalidInputError
        If it has another length, or is not finite.
    """
    values = np.asarray(vector, dtype=np.float32)
    if values.shape != (dimensions,):
        raise InvalidInputError(f"the query's embedding must have shape ({dimensions},); got {values.shape}")
    length = float(np.sqrt(np.dot(values.astype(np.float64), values)))
    if not np.isfinite(length):
        raise InvalidInputError("the query's embedding must be finite; it holds NaN or infinity")
    return values / np.float32(length) if length > 0 else values
