"""Entities near a query by embedding: of facts, or of names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasegraph._typing import Float32Array, Int32Array, IntArray
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.entity_graph import EntityGraph, Extraction, normalise_name
from phasegraph.graph.entity_graph.graph import checked_embeddings
from phasegraph.graph.linking.seeds import Seeding


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class FactIndex:
    """Facts, names or both, that can be found by embedding.

    Made by :meth:`of`, :meth:`of_extractions`, :meth:`of_names`, :meth:`plus`.

    Parameters
    ----------
    ends : (F, 2) or (F, 1) array of int32
        Rows of `EntityGraph.entities`: subject and object of a fact, or the one entity of a name (and then -1
        where there are two columns).
    embeddings : (F, d) array of float32
        L2-normalised, of the facts or names as text.
    stated : (F,) sequence of tuple of str
        Ids of the passages that state each fact; an empty one where they are not known, as for a name. None at all:
        not known of any.

    Notes
    -----
    Given to ``GraphSource(facts=)``, the entities of what is nearest to the query are seeds besides those that the
    query names: for questions that put a name in other words, or a relation without its entities.
    """

    ends: Int32Array
    embeddings: Float32Array
    stated: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.stated and len(self.stated) != len(self.ends):
            raise InvalidInputError(
                f"stated must hold the passages of each of {len(self.ends)} facts; got {len(self.stated)}"
            )

    @classmethod
    def of(
        cls,
        graph: EntityGraph,
        facts: Iterable[tuple[str, str, str]],
        embeddings: Any,
        *,
        passages: Iterable[str | Collection[str]] | None = None,
    ) -> FactIndex:
        """Match facts with a graph.

        Parameters
        ----------
        graph : EntityGraph
        facts : iterable of (subject, predicate, object)
            Those of which an end is no entity of the graph are left out.
        embeddings : (F, d) array_like of float
            One row per fact given.
        passages : iterable of str or collection of str, optional
            For each fact the id or ids of the passages that state it, so that one who may not see them does not find
            it (:meth:`within`).

        Returns
        -------
        FactIndex

        Raises
        ------
        InvalidInputError
            If the rows or the passages do not match the facts, or an embedding holds NaN.
        """
        rows = graph.entity_rows
        ends = [(rows.get(normalise_name(s), -1), rows.get(normalise_name(o), -1)) for s, _, o in facts]
        vectors = checked_embeddings("fact embeddings", embeddings, len(ends))
        pairs = np.array(ends, dtype=np.int32).reshape(-1, 2)
        known = (pairs >= 0).all(axis=1)
        stated = () if passages is None else _stated(passages, len(ends))
        return cls(pairs[known], vectors[known], tuple(stated[row] for row in np.flatnonzero(known)) if stated else ())

    @classmethod
    def of_extractions(
        cls, graph: EntityGraph, extractions: Iterable[Extraction], embed: Callable[[Sequence[str]], Any]
    ) -> FactIndex:
        """Embed every fact once, as "subject predicate object", with the passages that state it.

        Parameters
        ----------
        graph : EntityGraph
        extractions : iterable of Extraction
            As the graph was built from.
        embed : callable
            ``embed(texts) -> (n, d)`` vectors.

        Examples
        --------
        >>> from phasegraph.graph import graph_from_extractions
        >>> records = [Extraction(name, triples=[("ada", "met", "bo")]) for name in "01"]
        >>> graph = graph_from_extractions(["0", "1"], records)
        >>> FactIndex.of_extractions(graph, records, lambda texts: [[len(text), 0.0] for text in texts]).stated
        (('0', '1'),)
        """
        found: dict[tuple[str, str, str], dict[str, None]] = {}
        for record in extractions:
            for triple in record.triples:
                found.setdefault(triple, {})[record.passage_id] = None
        vectors = embed([" ".join(triple) for triple in found]) if found else np.empty((0, 1))
        return cls.of(graph, found, vectors, passages=found.values())

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
        stated: tuple[tuple[str, ...], ...] = ()
        if self.stated or other.stated:
            stated = tuple(each for one in (self, other) for each in one.stated or ((),) * len(one.ends))
        return FactIndex(np.concatenate(ends), np.concatenate([self.embeddings, other.embeddings]), stated)

    def within(self, graph: EntityGraph, part: EntityGraph) -> FactIndex:
        """What may be found of it by one who may see only a part of the graph's passages.

        Parameters
        ----------
        graph : EntityGraph
            That of the index.
        part : EntityGraph
            What :func:`~phasegraph.graph.source.restrict_graph` left of it.

        Returns
        -------
        FactIndex
            Of `part`: names of its entities; facts that one of its passages states, or, where that is not known,
            facts whose edge it kept (no hidden passage mentions both ends).
        """
        rows = np.array([*(part.entity_rows.get(name, -1) for name in graph.entities), -1], dtype=np.int32)
        ends = rows[self.ends]
        kept = ends[:, 0] >= 0
        if ends.shape[1] == 2:
            name, size = self.ends[:, 1] < 0, len(part.entities)
            edges = part.facts.tocoo()
            keys = edges.row.astype(np.int64) * size + edges.col
            linked = (ends >= 0).all(axis=1) & np.isin(ends[:, 0].astype(np.int64) * size + ends[:, 1], keys)
            known = np.array([bool(each) for each in self.stated] or [False] * len(ends), dtype=bool)
            seen = np.array(
                [any(one in part.passage_rows for one in each) for each in self.stated] or linked, dtype=bool
            )
            kept &= name | np.where(known, seen & (ends >= 0).all(axis=1), linked)
        left = np.flatnonzero(kept)
        stated = tuple(
            tuple(one for one in self.stated[row] if one in part.passage_rows) for row in left if self.stated
        )
        return FactIndex(ends[left], self.embeddings[left], stated)


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


def _stated(passages: Iterable[str | Collection[str]], count: int) -> list[tuple[str, ...]]:
    given = [(each,) if isinstance(each, str) else tuple(each) for each in passages]
    if len(given) != count:
        raise InvalidInputError(f"passages must name those of each of {count} facts; got {len(given)}")
    wrong = next((one for each in given for one in each if not isinstance(one, str)), None)
    if wrong is not None:
        raise InvalidTypeError(f"passages must be ids; got {wrong!r:.80}")
    return given


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
