"""Embedded facts and names: the entities of the facts and names nearest to a query are seeds of the walk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasegraph._support.frozen import by_fields
from phasegraph._support.products import times_vector
from phasegraph._support.typing import Float32Array, FloatArray, Int32Array, IntArray
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.model.entity_graph import EntityGraph, Extraction, checked_embeddings
from phasegraph.graph.model.words import normalise_name
from phasegraph.graph.walk.linking import Seeding
from phasegraph.graph.walk.relevance import unit_vector


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class FactIndex:
    """An index of facts and entity names by their embeddings.

    :meth:`of`, :meth:`of_extractions`, :meth:`of_names` and :meth:`plus` create an index. With ``GraphSource(facts=)``,
    the entities of the nearest facts and names are additional seeds. These seeds help if a question paraphrases a name,
    or states a relation without its entities.

    Parameters
    ----------
    ends : (F, 2) or (F, 1) array of int32
        Rows in `EntityGraph.entities`: the subject and object of a fact, or the entity of a name. If there are two
        columns, a name has -1 in the second column.
    embeddings : (F, d) array of float32
        L2-normalized embeddings of the facts or names as text.
    stated : (F,) sequence of tuple of str
        Ids of the passages that state each fact, empty for a fact whose passages are unknown; () if all are unknown.
    texts : (F,) sequence of tuple of str
        Subject, predicate and object of each fact, or a name alone, as supplied; () if the texts are unknown.
    """

    ends: Int32Array
    embeddings: Float32Array
    stated: tuple[tuple[str, ...], ...] = ()
    texts: tuple[tuple[str, ...], ...] = ()

    __reduce__ = by_fields

    def __post_init__(self) -> None:
        if self.stated and len(self.stated) != len(self.ends):
            raise InvalidInputError(
                f"stated must contain the passages of each of {len(self.ends)} facts; got {len(self.stated)} entries"
            )
        if self.texts and len(self.texts) != len(self.ends):
            raise InvalidInputError(
                f"texts must contain the text of each of {len(self.ends)} facts; got {len(self.texts)} entries"
            )

    def text(self, graph: EntityGraph, row: int) -> tuple[str, ...]:
        """Return a fact as the texts of its subject, predicate and object, or a name as a single text.

        If the texts are unknown, the predicate is left out, and the other texts are the names of entities.
        """
        if self.texts:
            return self.texts[row]
        return tuple(graph.entities[end] for end in self.ends[row].tolist() if end >= 0)

    @classmethod
    def of(
        cls,
        graph: EntityGraph,
        facts: Iterable[tuple[str, str, str]],
        embeddings: Any,
        *,
        passages: Iterable[str | Collection[str]] | None = None,
    ) -> FactIndex:
        """Create an index of facts (subject, predicate, object); row i of `embeddings` belongs to fact i.

        A fact is left out if its subject or object is not an entity of the graph. `passages` contains, for each fact,
        the id or ids of the passages that state the fact. A caller who is allowed to see none of these passages cannot
        find the fact (:meth:`within`). With None, the passages are unknown.
        """
        rows, listed = graph.entity_rows, [(str(s), str(p), str(o)) for s, p, o in facts]
        ends = [(rows.get(normalise_name(s), -1), rows.get(normalise_name(o), -1)) for s, _, o in listed]
        vectors = checked_embeddings("fact embeddings", embeddings, len(ends))
        pairs = np.array(ends, dtype=np.int32).reshape(-1, 2)
        known = (pairs >= 0).all(axis=1)
        stated = () if passages is None else _stated(passages, len(ends))
        kept = np.flatnonzero(known).tolist()
        said = tuple(stated[row] for row in kept) if stated else ()
        return cls(pairs[known], vectors[known], said, tuple(listed[row] for row in kept))

    @classmethod
    def of_extractions(
        cls, graph: EntityGraph, extractions: Iterable[Extraction], embed: Callable[[Sequence[str]], Any]
    ) -> FactIndex:
        """Create an index of every distinct fact of the extractions, embedded as "subject predicate object".

        ``embed(texts) -> (n, d)`` computes the vectors. The extractions also supply the passages that state each fact.

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
        """Create an index of names of entities; row i of `embeddings` belongs to name i.

        Names that are not entities of the graph are left out.

        >>> from phasegraph.graph import Extraction, graph_from_extractions
        >>> graph = graph_from_extractions(["0"], [Extraction("0", ["ada", "bo"])])
        >>> FactIndex.of_names(graph, ["Bo", "Cy"], [[1.0, 0.0], [0.0, 1.0]]).ends.tolist()
        [[1]]
        """
        listed = list(names)
        rows = [graph.entity_rows.get(normalise_name(name), -1) for name in listed]
        vectors = checked_embeddings("name embeddings", embeddings, len(rows))
        found = np.array(rows, dtype=np.int32)
        known = tuple((str(listed[row]),) for row in np.flatnonzero(found >= 0).tolist())
        return cls(found[found >= 0][:, None], vectors[found >= 0], (), known)

    def plus(self, other: FactIndex) -> FactIndex:
        """Combine this index with another index of the same graph, for example facts with names.

        >>> from phasegraph.graph import Extraction, graph_from_extractions
        >>> graph = graph_from_extractions(["0"], [Extraction("0", ["ada", "bo"])])
        >>> names = FactIndex.of_names(graph, graph.entities, [[1.0, 0.0], [0.0, 1.0]])
        >>> FactIndex.of(graph, [("ada", "met", "bo")], [[0.6, 0.8]]).plus(names).ends.tolist()
        [[0, 1], [0, -1], [1, -1]]
        """
        widths = self.embeddings.shape[1], other.embeddings.shape[1]
        if widths[0] != widths[1]:
            raise InvalidInputError(
                f"both fact indexes' embeddings must have the same length; got lengths {widths[0]} and {widths[1]}"
            )
        ends = [np.pad(one.ends, ((0, 0), (0, 2 - one.ends.shape[1])), constant_values=-1) for one in (self, other)]
        stated: tuple[tuple[str, ...], ...] = ()
        if self.stated or other.stated:
            stated = tuple(each for one in (self, other) for each in one.stated or ((),) * len(one.ends))
        texts = (*self.texts, *other.texts) if self.texts and other.texts else ()
        return FactIndex(np.concatenate(ends), np.concatenate([self.embeddings, other.embeddings]), stated, texts)

    def within(self, graph: EntityGraph, part: EntityGraph) -> FactIndex:
        """Restrict the index to the entities and facts that a caller may see, given the restricted graph `part`.

        The result contains the names of the part's entities, and the facts that the part's passages state. A fact whose
        passages are unknown stays if `part` has an edge between its entities. `part` has this edge only if no hidden
        passage mentions both entities.
        """
        # Rows ascend, because the entities of both graphs are in ascending order of their names.
        at = np.array([graph.entity_rows[name] for name in part.entities], dtype=np.int64)
        place = np.searchsorted(at, self.ends).astype(np.int32)
        ends = np.where(np.append(at, -1)[place] == self.ends, place, np.int32(-1))
        ends[self.ends < 0] = -1
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
        texts = tuple(self.texts[row] for row in left.tolist() if self.texts)
        return FactIndex(ends[left], self.embeddings[left], stated, texts)

    def near(self, vector: Any) -> Float32Array:
        """Compute the cosine of each fact and name to a query's embedding, an array of shape (F,)."""
        cosines: Float32Array = times_vector(self.embeddings, unit_vector(vector, self.embeddings.shape[1]))
        return cosines


def nearest_entities(
    graph: EntityGraph, index: FactIndex, vector: Any, top: int, rows: IntArray | None = None
) -> Seeding:
    """Return, as seeds, the entities of the `top` facts or names that are nearest to a query's embedding.

    Ties are broken by row. If `rows` is given, the facts and names in these rows are used instead. A fact or name adds
    its cosine, or 0 if the cosine is negative, to the mass of each of its entities. The mass is divided by the number
    of passages that mention the entity, and all masses are scaled to the sum 1. If no cosine is positive, the result is
    empty and contains the reason.

    >>> from phasegraph.graph import Extraction, graph_from_extractions
    >>> graph = graph_from_extractions(["0"], [Extraction("0", ["ada", "bo", "cy"])])
    >>> index = FactIndex.of(graph, [("ada", "met", "bo"), ("bo", "met", "cy")], [[0.6, 0.8], [0.0, 1.0]])
    >>> nearest_entities(graph, index, [1.0, 0.0], 1).masses.tolist()
    [0.5, 0.5]
    """
    near = index.near(vector)
    best = nearest_facts(near, top) if rows is None else rows
    ends = index.ends[best]
    known = ends >= 0
    if ends.max(initial=-1) >= len(graph.entities):
        raise InvalidInputError(f"facts must belong to this graph; the graph has no entity in row {ends.max()}")
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
        raise InvalidInputError(f"passages must contain the ids for each of {count} facts; got {len(given)} entries")
    wrong = next((one for each in given for one in each if not isinstance(one, str)), None)
    if wrong is not None:
        raise InvalidTypeError(f"passages must contain ids of type str; got {wrong!r:.80}")
    return given


def nearest_facts(near: Float32Array | FloatArray, top: int) -> IntArray:
    """Return the positions of the `top` highest similarities, highest first; ties are broken by position."""
    places = np.arange(len(near))
    if 0 < top < len(near):
        places = np.flatnonzero(near >= np.partition(near, len(near) - top)[len(near) - top])
    return places[np.lexsort((places, -near[places]))[:top]]
