"""Restrict the graph, the facts and the rankings to the passages that a caller may see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from phasegraph._support.recent import Recent
from phasegraph._support.typing import IntArray
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.model.entity_graph import Csr, EntityGraph
from phasegraph.graph.walk.facts import FactIndex
from phasegraph.graph.walk.row_lookups import within
from phasegraph.pagerank.push import out_edges
from phasegraph.ranking import Ranking

Allowed: TypeAlias = Callable[[str], object] | Collection[str]
MOST_PARTS, _FEW = 16, 8
"""Maximum number of cached restricted graphs per graph; ratio of passages to allowed ids up to which all passages are
checked instead of looking up each id."""
_kept: WeakKeyDictionary[EntityGraph, Recent] = WeakKeyDictionary()
_kept_facts: WeakKeyDictionary[EntityGraph, WeakKeyDictionary[FactIndex, FactIndex]] = WeakKeyDictionary()


def restrict_graph(graph: EntityGraph, allowed: Allowed) -> EntityGraph | None:
    """Return a graph that contains only the `allowed` passages; None if no passage is allowed.

    `allowed` is a function of a passage id, or a collection of passage ids. Other passages are removed, together with
    entities that only other passages mention. All frequencies and weights are computed again. The result is cached: the
    same passages give the same object while it is in use.

    A graph does not record which passage states a fact. The edge between two entities stays only if every passage that
    mentions both entities is allowed. Otherwise, the walk could use a fact that only a hidden passage states. A fact
    that an allowed passage also states may therefore be lost. To lose no fact, remove passages from an index
    (:meth:`phasegraph.graph.index.graph_index.GraphIndex.remove`), which contains the facts of each passage.

    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph([{"id": "a", "text": "Ada met Bo."}, {"id": "b", "text": "Cy met Bo."}])
    >>> restrict_graph(graph, {"a"}).entities
    ('ada', 'bo')
    """
    graph.check_files()
    rows = allowed_rows(graph, allowed)
    if not len(rows):
        return None
    if len(rows) == len(graph.passages):
        return graph
    part: EntityGraph = _kept.setdefault(graph, Recent(most=MOST_PARTS)).get(rows.tobytes(), lambda: _part(graph, rows))
    return part


def passage_ids(source: Any, /) -> Sequence[str]:
    """Return the ids of all passages of a graph source; the source's ``within`` accepts these ids.

    >>> from phasegraph.graph import GraphSource, build_graph
    >>> passage_ids(GraphSource(build_graph([{"id": "a", "text": "Ada met Bo."}])))
    ('a',)
    """
    listed = getattr(source, "passage_ids", None)
    if not callable(listed) or not callable(getattr(source, "within", None)):
        raise InvalidInputError(f"a {type(source).__name__} cannot be filtered; give each tenant its own corpus")
    ids: Sequence[str] = listed()
    return ids


def allowed_rows(graph: Any, allowed: Allowed) -> IntArray:
    """Return the ascending rows of the allowed passages.

    If there are few allowed ids, each id is looked up; otherwise, all passages are checked.
    """
    if callable(allowed):
        return np.flatnonzero([bool(allowed(name)) for name in graph.passages])
    names = allowed_ids(allowed)
    if len(names) * _FEW > len(graph.passages):
        return np.flatnonzero([name in names for name in graph.passages])
    rows = graph.passage_rows
    return np.array(sorted(row for name in names if (row := rows.get(name)) is not None), dtype=np.intp)


def _part(graph: EntityGraph, rows: IntArray) -> EntityGraph:
    """Return a graph that contains only the passages in the ascending `rows`."""
    mentions = graph.mentions[rows]
    columns = np.unique(mentions.indices)
    vectors = graph.embeddings
    return EntityGraph(
        tuple(graph.passages[row] for row in rows.tolist()),
        tuple(graph.entities[column] for column in columns.tolist()),
        _among(mentions, columns),
        _among(graph.homes[rows], columns),
        _own_facts(graph, rows, columns),
        _among(graph.synonyms[columns], columns),
        graph.weights,
        None if vectors is None else vectors[rows],
        None if graph.lexical is None else graph.lexical.part(rows),
    )


def _among(matrix: Csr, columns: Any) -> Csr:
    """Return the given ascending columns of a sparse matrix; the cost depends on the number of the matrix's entries."""
    there, place = within(matrix.indices, columns), np.searchsorted(columns, matrix.indices).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(there)])[matrix.indptr]
    return sparse.csr_array((matrix.data[there], place[there], starts), shape=(matrix.shape[0], len(columns)))


def _own_facts(graph: EntityGraph, rows: IntArray, columns: Any) -> Csr:
    """Return the matrix of facts between the entities `columns`, without facts that a hidden passage may state.

    A fact is left out if a passage outside `rows`, the allowed passages, mentions both of its entities.
    """
    facts = _among(graph.facts[columns], columns)
    pairs = facts.tocoo()
    if not pairs.nnz:
        return facts
    ends = np.unique(pairs.row)  # the matrix of facts is symmetric, so its rows contain both entities of each fact
    hidden = _mentioning(graph, rows, columns[ends])
    shared = np.asarray(
        hidden[np.searchsorted(ends, pairs.row)].multiply(hidden[np.searchsorted(ends, pairs.col)]).sum(axis=1)
    ).ravel()
    own = shared == 0
    return sparse.csr_array((pairs.data[own], (pairs.row[own], pairs.col[own])), shape=facts.shape, dtype=facts.dtype)


def _mentioning(graph: EntityGraph, rows: IntArray, entities: Any) -> Csr:
    """Return the mentions of n entities in passages outside `rows`, as a sparse matrix of shape (n, P).

    An entry is 1 if the passage is outside `rows` and mentions the entity, otherwise 0.

    The mentions are read from the walk's edges. Entities that are too common to have edges are read from the matrix of
    mentions.
    """
    walk, count = graph.operator, len(graph.passages)
    nodes = entities.astype(np.int64) + count
    owners, edges = out_edges(walk, nodes)
    targets = walk.indices.take(edges).astype(np.int64)
    inside = targets < count
    targets, owners = targets[inside], owners[inside]
    found = np.bincount(owners, minlength=len(nodes))
    lacking = np.flatnonzero(found < graph.frequency[entities])
    if len(lacking):
        common = _among(graph.mentions, entities[lacking]).tocoo()
        targets, owners = np.concatenate([targets, common.row]), np.concatenate([owners, lacking[common.col]])
    seen = within(targets, rows)
    ones = np.ones(len(targets) - int(seen.sum()), dtype=np.int32)
    hidden = sparse.csr_array((ones, (owners[~seen], targets[~seen])), shape=(len(nodes), count))
    return (hidden > 0).astype(np.int32)


def allowed_ids(allowed: Any) -> frozenset[str]:
    """Return the allowed ids as a set; raise InvalidTypeError if they are not a collection of texts."""
    if isinstance(allowed, str) or not isinstance(allowed, Collection):
        raise InvalidTypeError(f"allowed must be a function of a passage id or a collection of ids; got {allowed!r}")
    other = next((type(one).__name__ for one in allowed if not isinstance(one, str)), None)
    if other is not None:
        raise InvalidTypeError(f"allowed must contain passage ids of type str; it contains a value of type {other}")
    return frozenset(allowed)


def restrict_ranking(ranking: Ranking | None, rows: Mapping[str, int]) -> Ranking | None:
    """Restrict a ranking to the passages with an id in `rows`; None if there is no ranking, or no passage is left."""
    if ranking is None or all(name in rows for name in ranking.ids):
        return ranking
    places = [place for place, name in enumerate(ranking.ids) if name in rows]
    if not places:
        return None
    ids = [ranking.ids[place] for place in places]
    return Ranking(ranking.source, ids, ranking.scores[places], rank_only=ranking.rank_only)


def restricted_facts(facts: FactIndex | None, graph: EntityGraph, part: EntityGraph) -> FactIndex | None:
    """Restrict the embedded facts of a graph to its restricted graph `part`; None if there are no embedded facts.

    The result is cached while `part` is in use.
    """
    if facts is None or part is graph:
        return facts
    kept = _kept_facts.setdefault(part, WeakKeyDictionary())
    if facts not in kept:
        kept[facts] = facts.within(graph, part)
    return kept[facts]
