"""The graph of an index with a change log: a graph that merges the log on demand, and a view without merging.

The base graph is the graph before the changes in the log. A search that scores only some passages, called listed
passages, reads the base graph and the log without merging. All other uses merge the base graph and the log first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phasegraph._support.packed import ChangedNames
from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import Float32Array, IntArray
from phasegraph.graph.index.change_log import ChangeLog
from phasegraph.graph.index.changed_edges import ChangedEdges
from phasegraph.graph.index.combined_arrays import StackedRows, StackedTexts
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.lexical import ChangedWords


class LoggedView(EntityGraph):
    """A view of a base graph with its change log, for searches that score only some passages (listed passages).

    The rows of the base graph come first, then the rows of new passages or entities. Deleted passages and entities
    still have rows. New entities are not in the order of their names.
    """

    _gone: IntArray
    _base: EntityGraph
    _titles: IntArray

    def __init__(self, log: ChangeLog) -> None:
        base = log.base
        lexical: Any = base.lexical
        gone = np.array(sorted(log.gone.values()), dtype=np.int64)
        found = ChangedEdges(log)
        entities = StackedTexts(base.entities, tuple(found.names))
        vectors = None if base.embeddings is None else StackedRows(base.embeddings, log.vectors)
        vars(self).update(
            passages=StackedTexts(base.passages, tuple(log.came)), entities=entities, weights=base.weights,
            embeddings=vectors, lexical=ChangedWords(lexical, log.lexical, log.left, gone), passage_rows=log.rows,
            entity_rows=ChangedNames(base.entities, found.names, found.vanished), frequency=found.frequency,
            anchored=found.anchored, operator=found.operator, size=found.operator.size, count=len(log.rows),
            _gone=gone, _base=base, _titles=found.titles(), mapped=base.mapped,
        )  # fmt: skip

    def rows_at(self, places: IntArray) -> IntArray:
        """Convert positions among the existing passages to rows, which also count deleted passages."""
        found: IntArray = places + np.searchsorted(self._gone - np.arange(len(self._gone)), places, side="right")
        return found

    def places_of(self, rows: IntArray) -> IntArray:
        """Convert rows, which also count deleted passages, to positions among the existing passages."""
        found: IntArray = rows - np.searchsorted(self._gone, rows)
        return found

    def cosines_to(self, unit: Float32Array) -> Float32Array:
        """Compute the cosine of each row's embedding to a unit vector; see :meth:`EntityGraph.cosines_to`."""
        vectors: Any = self.embeddings
        cosines: Float32Array = vectors.times(unit)
        return cosines

    def titles_at(self, rows: IntArray) -> IntArray:
        """Return the pair of numbers that identifies each passage's title; see :meth:`EntityGraph.titles_at`."""
        first = len(self._base.passages)
        found = np.empty((len(rows), 2), dtype=np.int64)
        old = rows < first
        found[old] = self._base.titles_at(rows[old])
        found[~old] = self._titles[rows[~old] - first]
        return found


class MergedField:
    """A descriptor for a field of :class:`LoggedGraph`; reading the field first merges base graph and change log."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, graph: LoggedGraph | None, owner: type | None = None) -> Any:
        return self if graph is None else getattr(graph.whole, self._name)


class LoggedGraph(EntityGraph):
    """The graph of an index with a change log; the log is merged into the base graph only if necessary.

    A search that scores only some passages reads the unmerged `view`. Reading any other field first merges the base
    graph and the log. The merged graph is identical, to the bit, to a graph that is built from the existing passages. A
    copy that ``dataclasses.replace`` makes has no log.
    """

    passages: Any = MergedField()
    entities: Any = MergedField()
    mentions: Any = MergedField()
    homes: Any = MergedField()
    facts: Any = MergedField()
    synonyms: Any = MergedField()
    weights: Any = MergedField()
    embeddings: Any = MergedField()
    lexical: Any = MergedField()
    operator: Any = MergedField()
    frequency: Any = MergedField()
    anchored: Any = MergedField()

    def __init__(self, *given: Any, **fields: Any) -> None:
        graph = EntityGraph(*given, **fields)
        vars(self).update(whole=graph, view=graph, mapped=graph.mapped)

    @classmethod
    def of(cls, log: ChangeLog, merged: Callable[[], EntityGraph]) -> LoggedGraph:
        """Create the graph of an index with the change `log`; ``merged()`` merges base graph and log when needed."""
        made = cls.__new__(cls)
        vars(made).update(_log=log, _merged=merged, mapped=log.base.mapped)
        return made

    @lazy_property
    def whole(self) -> EntityGraph:
        """The graph after merging the base graph and the change log."""
        graph: EntityGraph = vars(self)["_merged"]()
        return graph

    @lazy_property
    def view(self) -> EntityGraph:
        """The unmerged view of base graph and change log, for searches that score only some passages."""
        return LoggedView(vars(self)["_log"])

    @property
    def count(self) -> int:
        """The number of passages."""
        return self.view.count

    def __repr__(self) -> str:
        return f"<EntityGraph of {self.count:,} passages, some of them in a log>"

    def __reduce__(self) -> Any:
        return self.whole.__reduce__()
