"""Sources that rank the passages of a graph without a walk: by BM25 alone, or by vectors alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from phasegraph._support.frozen import by_fields
from phasegraph._support.ordering import possibly_best
from phasegraph._support.typing import Float32Array, FloatArray, IntArray
from phasegraph._support.validation import check_count, check_query
from phasegraph.errors import InvalidInputError
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.listed import COMPARED, WORDS_LISTED
from phasegraph.graph.walk.relevance import unit_vector
from phasegraph.graph.walk.restricting import restrict_graph
from phasegraph.graph.walk.walker import Embedder, best_passages, check_embedder
from phasegraph.ranking import Ranking
from phasegraph.sources.protocol import Upstream

Nearest: TypeAlias = Callable[[Float32Array, int], Sequence[str]]


@dataclass(frozen=True, eq=False)
class _FlatSource:
    """The base class of sources that score each passage of a graph separately, without a walk."""

    graph: EntityGraph
    name: str = ""

    __reduce__ = by_fields

    def passage_ids(self) -> Sequence[str]:
        """Return the ids of all passages; :meth:`within` accepts these ids."""
        return self.graph.passages

    def within(self, allowed: Collection[str]) -> Any:
        """Return a source that ranks only the allowed passages; it finds nothing if no passage is allowed."""
        part = restrict_graph(self.graph, allowed)
        return NoPassages(self.name) if part is None else replace(self, graph=part)

    def _ranked(self, graph: EntityGraph, scores: FloatArray, rows: Any, limit: int | None, reason: str) -> Ranking:
        """Rank the `limit` best passages (None: all) among `rows` by `scores`; `reason` is for an empty ranking."""
        limit = None if limit is None else check_count("limit", limit, minimum=1)
        ids, best = best_passages(graph, rows, scores, limit)
        return Ranking(self.name, ids, best, reason="" if ids else reason)


@dataclass(frozen=True, eq=False)
class LexicalSource(_FlatSource):
    """A source that ranks passages by BM25, with the BM25 index of a graph.

    Parameters
    ----------
    graph : EntityGraph
        A graph with a BM25 index (``lexical``).
    name : str, default "bm25"
        Name of the source in rankings and reports.

    Notes
    -----
    :class:`~phasegraph.lexical.LexicalIndex` describes the scores. A passage without a query word is not ranked. With
    more than 50,000 passages and a `limit`, the source does not score all passages. It scores passages with rare query
    words, and passages with many of the frequent query words.

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph([{"id": "a", "text": "Ada met Bo."}, {"id": "b", "text": "Cy sang."}])
    >>> LexicalSource(graph).search("Who sang?", 10, {}).ids
    ('b',)
    """

    name: str = "bm25"

    def __post_init__(self) -> None:
        if self.graph.view.lexical is None:
            raise InvalidInputError("graph has no BM25 index of its passages: build the graph with texts")

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Rank passages for `query`; parameters and result as in :meth:`phasegraph.sources.Source.search`."""
        self.graph.check_files()
        none = "no passage has a word of the query"
        if limit is not None and self.graph.view.count > COMPARED:
            lexical: Any = self.graph.view.lexical
            terms = lexical.look_up_listed(check_query(query), max(limit, WORDS_LISTED))
            return self._ranked(self.graph.view, terms.scores_of(terms.found), terms.found, limit, none)
        lexical = self.graph.lexical
        scores = lexical.look_up(check_query(query)).scores
        held = np.flatnonzero(scores > 0)
        return self._ranked(self.graph, scores[held], held, limit, none)


@dataclass(frozen=True, eq=False)
class VectorSource(_FlatSource):
    """A source that ranks passages by cosine; by default, it compares every passage, so the result is exact.

    Parameters
    ----------
    graph : EntityGraph
        A graph with embeddings.
    name : str, default "vector"
        Name of the source in rankings and reports.
    embedder : callable
        A function ``embedder(query) -> (d,) vector``.
    nearest : callable, optional
        A function ``nearest(vector, limit) -> ids`` that searches a vector index with the same vectors. Only the
        returned passages are then compared with the query. A source that is restricted by :meth:`within` does not use
        this function.

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> passages = [{"id": "a", "text": "Ada met Bo."}, {"id": "b", "text": "Cy sang."}]
    >>> graph = build_graph(passages, embeddings=[[1.0, 0.0], [0.6, 0.8]])
    >>> VectorSource(graph, embedder=lambda query: [0.0, 2.0]).search("Who sang?", 1, {}).ids
    ('b',)
    """

    name: str = "vector"
    embedder: Embedder | None = None
    nearest: Nearest | None = None

    def __post_init__(self) -> None:
        check_embedder(self)
        if self.graph.view.embeddings is None:
            raise InvalidInputError("graph has no embeddings: build the graph with embeddings=")

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Rank passages for `query`; parameters and result as in :meth:`phasegraph.sources.Source.search`."""
        self.graph.check_files()
        graph = self.graph.view
        held: Any = graph.embeddings
        embed: Any = self.embedder
        unit = unit_vector(embed(check_query(query)), held.shape[1])
        if limit is None:
            rows = graph.rows_at(np.arange(graph.count))
        elif self.nearest is None:
            rows = nearest_rows(graph, unit, limit)
        else:
            near = (graph.passage_rows.get(one, -1) for one in self.nearest(unit, limit))
            rows = np.unique(np.array([row for row in near if row >= 0], dtype=np.int64))
        compared = held if isinstance(held, np.ndarray) and len(rows) == len(held) else held[rows]
        scores = np.einsum("ij,j->i", compared, unit).astype(np.float64)  # a row's result does not depend on others
        return self._ranked(graph, scores, rows, limit, "there is no passage")

    def within(self, allowed: Collection[str]) -> Any:
        """Return a source that ranks only the allowed passages, and compares all of them with the query."""
        return _FlatSource.within(replace(self, nearest=None), allowed)


def nearest_rows(graph: EntityGraph, unit: Float32Array, limit: int) -> IntArray:
    """Return, in ascending order, the rows of all passages that may be among the `limit` nearest to a vector.

    All passages are compared. More than `limit` rows are returned if passages have equal cosines, or if rounding errors
    could change their order.
    """
    rows, cosines = graph.rows_at(np.arange(graph.count)), graph.cosines_to(unit)
    cosines = cosines if len(rows) == len(cosines) else cosines[rows]
    return rows[possibly_best(cosines, limit, len(unit))]


@dataclass(frozen=True, slots=True)
class NoPassages:
    """A source that finds nothing, for a caller who may not see any passage."""

    name: str

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Return an empty ranking."""
        return Ranking(self.name, (), np.empty(0), reason="no passage of the graph is allowed")
