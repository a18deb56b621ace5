"""A walk that stays within what the asker may see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from phasegraph._typing import IntArray
from phasegraph.candidates import Ranking
from phasegraph.errors import InvalidTypeError
from phasegraph.graph.entity_graph import EntityGraph
from phasegraph.graph.entity_graph.weights import Csr
from phasegraph.graph.linking import FactIndex
from phasegraph.graph.source.graph_source import GraphSource
from phasegraph.sources.protocol import Given

Allowed: TypeAlias = "Callable[[str], object] | Collection[str]"
_MOST_KEPT = 16
_kept: WeakKeyDictionary[EntityGraph, dict[bytes, EntityGraph]] = WeakKeyDictionary()
_kept_facts: WeakKeyDictionary[EntityGraph, WeakKeyDictionary[FactIndex, FactIndex]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class RestrictedGraphSource:
    """A graph source that knows nothing but the allowed passages; made by :meth:`GraphSource.within`.

    Parameters
    ----------
    source : GraphSource
    allowed : callable or collection of str
        ``allowed(passage_id)`` says whether a passage may be seen; or the ids of those that may.

    Raises
    ------
    InvalidTypeError
        If `source` is no GraphSource, or `allowed` neither.

    Notes
    -----
    The walk runs on :func:`restrict_graph`, and rankings that seed it and embedded facts are restricted, too
    (:meth:`FactIndex.within`): what is not allowed is neither walked through nor scored, counted, returned or named.
    With nothing allowed the answer is empty.

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph([{"id": name, "text": "Ada met Bo."} for name in ("mine", "theirs")])
    >>> RestrictedGraphSource(GraphSource(graph), {"mine"}).search("Who met Bo?", 10, {}).ids
    ('mine',)
    """

    source: GraphSource
    allowed: Allowed
    _inner: GraphSource | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.source, GraphSource):
            raise InvalidTypeError(f"source must be a GraphSource; got {type(self.source).__name__}")
        graph = restrict_graph(self.source.graph, self.allowed)
        inner = None
        if graph is not None:
            inner = replace(self.source, graph=graph, facts=_restricted_facts(self.source, graph))
        object.__setattr__(self, "_inner", inner)

    @property
    def name(self) -> str:
        """Its name."""
        return self.source.name

    @property
    def needs(self) -> tuple[str, ...]:
        """Dense rankings that seed it."""
        return tuple(self.source.needs)

    @property
    def graph(self) -> EntityGraph | None:
        """The graph it walks; None where nothing is allowed."""
        return None if self._inner is None else self._inner.graph

    def prepare(self) -> RestrictedGraphSource:
        """Do now what the first search would wait for; see :meth:`GraphSource.prepare`."""
        if self._inner is not None:
            self._inner.prepare()
        return self

    def search(self, query: str, limit: int | None, given: Given) -> Ranking:
        """Rank allowed passages; as :meth:`GraphSource.search`."""
        if self._inner is None:
            return Ranking(self.name, (), np.empty(0), reason="no passage of the graph is allowed")
        rows = self._inner.graph.passage_rows
        return self._inner.search(query, limit, {key: only(one, rows) for key, one in given.items()})


def restrict_graph(graph: EntityGraph, allowed: Allowed) -> EntityGraph | None:
    """The graph of the allowed passages alone.

    Parameters
    ----------
    graph : EntityGraph
        Left as it is.
    allowed : callable or collection of str
        As for :class:`RestrictedGraphSource`.

    Returns
    -------
    EntityGraph or None
        Passages that are not allowed are gone, entities that only they mention too, and every frequency and weight
        is counted anew; None where no passage is left. The same value for the same passages, while it is in use.

    Raises
    ------
    InvalidTypeError
        If `allowed` is neither a function nor a collection of ids.

    Notes
    -----
    A graph does not record which passage states a fact. The edge between two entities is kept where every passage
    that mentions both is allowed, so that no fact of another's is walked; one that an allowed passage states, too, may
    be lost. :meth:`phasegraph.graph.index.GraphIndex.remove` keeps the records and loses none.

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph([{"id": "a", "text": "Ada met Bo."}, {"id": "b", "text": "Cy met Bo."}])
    >>> restrict_graph(graph, {"a"}).entities
    ('ada', 'bo')
    """
    test = allowed if callable(allowed) else members(allowed).__contains__
    seen = np.array([bool(test(name)) for name in graph.passages])
    if not seen.any():
        return None
    if seen.all():
        return graph
    kept, key = _kept.setdefault(graph, {}), np.packbits(seen).tobytes()
    if key not in kept:
        if len(kept) >= _MOST_KEPT:
            kept.pop(next(iter(kept)), None)
        kept[key] = _part(graph, np.flatnonzero(seen), seen)
    return kept[key]


def _restricted_facts(source: GraphSource, part: EntityGraph) -> FactIndex | None:
    """The source's embedded facts for one who sees a part of the graph; worked out once while the part is in use."""
    facts = source.facts
    if facts is None or part is source.graph:
        return facts
    kept = _kept_facts.setdefault(part, WeakKeyDictionary())
    if facts not in kept:
        kept[facts] = facts.within(source.graph, part)
    return kept[facts]


def _part(graph: EntityGraph, rows: IntArray, seen: Any) -> EntityGraph:
    """The graph of these rows."""
    mentions = graph.mentions[rows]
    columns = np.flatnonzero(np.bincount(mentions.indices, minlength=len(graph.entities)))
    facts = graph.facts[columns][:, columns]
    hidden = graph.mentions[np.flatnonzero(~seen)][:, columns]
    vectors = graph.embeddings
    return EntityGraph(
        tuple(graph.passages[row] for row in rows.tolist()),
        tuple(graph.entities[column] for column in columns.tolist()),
        mentions[:, columns],
        graph.homes[rows][:, columns],
        _own_facts(facts, hidden),
        graph.synonyms[columns][:, columns],
        graph.weights,
        None if vectors is None else vectors[rows],
    )


def _own_facts(facts: Csr, hidden: Csr) -> Csr:
    """Facts whose two ends no hidden passage mentions together."""
    pairs = facts.tocoo()
    if not pairs.nnz or not hidden.nnz:
        return facts
    mentioned = (hidden > 0).astype(np.int32).tocsc()
    shared = np.asarray(mentioned[:, pairs.row].multiply(mentioned[:, pairs.col]).sum(axis=0)).ravel()
    own = shared == 0
    return sparse.csr_array((pairs.data[own], (pairs.row[own], pairs.col[own])), shape=facts.shape, dtype=facts.dtype)


def members(allowed: Any) -> frozenset[str]:
    """The ids of a collection of them."""
    if isinstance(allowed, str) or not isinstance(allowed, Collection):
        raise InvalidTypeError(f"allowed must be a function of a passage id or a collection of ids; got {allowed!r}")
    other = next((type(one).__name__ for one in allowed if not isinstance(one, str)), None)
    if other is not None:
        raise InvalidTypeError(f"allowed must hold ids of passages, which are str; it holds a value of type {other}")
    return frozenset(allowed)


def only(ranking: Ranking | None, rows: Mapping[str, int]) -> Ranking | None:
    """The ranking of those passages alone; None where none is left."""
    if ranking is None or all(name in rows for name in ranking.ids):
        return ranking
    places = [place for place, name in enumerate(ranking.ids) if name in rows]
    if not places:
        return None
    return Ranking(
        ranking.source,
        [ranking.ids[place] for place in places],
        ranking.scores[places],
        rank_only=ranking.rank_only,
    )
