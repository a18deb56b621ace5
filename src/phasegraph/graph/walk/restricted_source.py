"""A graph source that is restricted to the passages that its caller may see."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.restricting import restrict_ranking
from phasegraph.graph.walk.walker import GraphWalker
from phasegraph.ranking import Ranking
from phasegraph.sources.protocol import Upstream


@dataclass(frozen=True, eq=False)
class RestrictedGraphSource(GraphWalker):
    """A graph source that is restricted to the allowed passages; :meth:`GraphSource.within` creates it.

    Parameters
    ----------
    source : GraphSource
        The source over the whole graph.
    inner : GraphSource or None
        The same source over the graph of the allowed passages; None if no passage is allowed.

    Notes
    -----
    The walk runs on the graph of the allowed passages (:func:`~phasegraph.graph.walk.restricting.restrict_graph`).
    Rankings that seed the walk and embedded facts are restricted, too (:meth:`FactIndex.within`). The walk does not
    pass through other passages, and other passages are not scored, counted, returned or named. If no passage is
    allowed, the ranking is empty. A pickle contains the ids of the allowed passages.

    Examples
    --------
    >>> from phasegraph.graph import GraphSource, build_graph
    >>> graph = build_graph([{"id": name, "text": "Ada met Bo."} for name in ("mine", "theirs")])
    >>> GraphSource(graph).within({"mine"}).search("Who met Bo?", 10, {}).ids
    ('mine',)
    """

    source: Any
    inner: Any = field(repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restricted, (self.source, frozenset(() if self.graph is None else self.graph.passages))

    @property
    def name(self) -> str:
        """The name of the source."""
        return str(self.source.name)

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The names of the sources whose dense rankings can seed the walk."""
        return tuple(self.source.depends_on)

    @property
    def graph(self) -> EntityGraph | None:
        """The graph of the allowed passages; None if no passage is allowed."""
        return None if self.inner is None else self.inner.graph

    def prepare(self) -> Self:
        """Prepare the first search; see :meth:`GraphSource.prepare`."""
        if self.inner is not None:
            self.inner.prepare()
        return self

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Rank the allowed passages for `query`; parameters and result as in :meth:`GraphSource.search`."""
        if self.graph is None:
            return Ranking(self.name, (), np.empty(0), reason="no passage of the graph is allowed")
        rows = self.graph.passage_rows
        seen = {key: restrict_ranking(ranking, rows) for key, ranking in upstream.items()}
        found: Ranking = self.inner.search(query, limit, seen)
        return found


def _restricted(source: Any, allowed: Collection[str]) -> RestrictedGraphSource:
    """Restrict a source to the allowed passages; unpickling calls this function."""
    made: RestrictedGraphSource = source.within(allowed)
    return made
