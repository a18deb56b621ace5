"""What a source remembers of a corpus from query to query, for as long as the corpus does not change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from threading import Lock

from phasegraph.graph.neo4j.connection import BULK_SECONDS, Neo4jConnection
from phasegraph.graph.neo4j.edges import corpus_state
from phasegraph.graph.neo4j.kept_edges import KeptEdges
from phasegraph.graph.neo4j.lookups import COUNT_ALLOWED, PASSAGE_IDS, STAMP, Stamp, stamp_of

MOST_VIEWS = 16
EDGES_OF_A_VIEW = 100_000


@dataclass(frozen=True, eq=False)
class View:
    """What one asker may see of a corpus.

    Parameters
    ----------
    allowed : tuple of str or None
        Ids of the passages, sorted; None: all there are.
    count : int
        How many of them the corpus has.
    kept : KeptEdges
        Edges, weighed by what the view holds.
    """

    allowed: tuple[str, ...] | None
    count: int
    kept: KeptEdges = field(default_factory=KeptEdges)


class CorpusMemory:
    """Of one corpus: its passage ids and the views of it that were used last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stamp: Stamp | None = None
        self._ids: tuple[str, ...] | None = None
        self._views: OrderedDict[frozenset[str] | None, View] = OrderedDict()

    def view(self, connection: Neo4jConnection, corpus: str, stamp: Stamp, allowed: frozenset[str] | None) -> View:
        """The view of these passages, the same while the corpus has this stamp."""
        with self._lock:
            self._settle(stamp)
            found = self._views.get(allowed)
            if found is not None:
                self._views.move_to_end(allowed)
                return found
        ids = None if allowed is None else tuple(sorted(allowed))
        if ids is None:
            made = View(None, corpus_state(connection, corpus)[0])
        else:
            rows = connection.read(COUNT_ALLOWED, {"corpus": corpus, "allowed": ids}) if ids else [[0]]
            made = View(ids, int(rows[0][0]) if rows else 0, KeptEdges(EDGES_OF_A_VIEW))
        with self._lock:
            self._settle(stamp)
            made = self._views.setdefault(allowed, made)
            while len(self._views) > MOST_VIEWS:
                self._views.popitem(last=False)
        return made

    def ids(self, connection: Neo4jConnection, corpus: str) -> tuple[str, ...]:
        """Ids of the corpus's passages, sorted; read once for each state of the corpus."""
        rows = connection.read(STAMP, {"corpus": corpus})
        stamp = stamp_of(*rows[0]) if rows else ("", 0)
        with self._lock:
            self._settle(stamp)
            found = self._ids
        if found is None:
            rows = connection.read(PASSAGE_IDS, {"corpus": corpus}, deadline=BULK_SECONDS)
            found = tuple(sorted(str(row[0]) for row in rows))
            with self._lock:
                if stamp == self._stamp:
                    self._ids = found
        return found

    def chosen(
        self, connection: Neo4jConnection, corpus: str, allowed: Callable[[str], object] | Collection[str]
    ) -> frozenset[str]:
        """The ids that a function lets through, or those of a collection."""
        if not callable(allowed):
            return frozenset(allowed)
        return frozenset(one for one in self.ids(connection, corpus) if allowed(one))

    def _settle(self, stamp: Stamp) -> None:
        if stamp != self._stamp:
            self._stamp, self._ids = stamp, None
            self._views.clear()
