"""The graph of an index with a log: a view of base and log for searches by lists, and both merged for all else."""

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
    """What a search by lists walks: the rows of the base, then those of what came.

    Passages that left still have rows, and entities their old ones, in no order of names beyond the base's.
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
        """Rows of the passages at these places among those there are."""
        found: IntArray = places + np.searchsorted(self._gone - np.arange(len(self._gone)), places, side="right")
        return found

    def places_of(self, rows: IntArray) -> IntArray:
        """Places of these passages, none of which left, among those there are."""
        found: IntArray = rows - np.searchsorted(self._gone, rows)
        return found

    def cosines_to(self, unit: Float32Array) -> Float32Array:
        """As :meth:`EntityGraph.cosines_to`: of the base's passages, then of passages that came."""
        vectors: Any = self.embeddings
        cosines: Float32Array = vectors.times(unit)
        return cosines

    def titles_at(self, rows: IntArray) -> IntArray:
        """As :meth:`EntityGraph.titles_at`: those of the base's passages, and of passages that came."""
        first = len(self._base.passages)
        found = np.empty((len(rows), 2), dtype=np.int64)
        old = rows < first
        found[old] = self._base.titles_at(rows[old])
        found[~old] = self._titles[rows[~old] - first]
        return found


class MergedField:
    """A field of a :class:`LoggedGraph`: that of base and log merged."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, graph: LoggedGraph | None, owner: type | None = None) -> Any:
        return self if graph is None else getattr(graph.whole, self._name)


class LoggedGraph(EntityGraph):
    """The graph of an index with a log: searches walk its `view`; whatever else is asked merges both first.

    It is, to the bit, the graph that is built of the passages there are, and worked out at the first look at a field.
    A copy with other fields (``dataclasses.replace``) has no log.
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
        """The graph of base and log; `merged` makes one of both."""
        made = cls.__new__(cls)
        vars(made).update(_log=log, _merged=merged, mapped=log.base.mapped)
        return made

    @lazy_property
    def whole(self) -> EntityGraph:
        """The merged graph."""
        graph: EntityGraph = vars(self)["_merged"]()
        return graph

    @lazy_property
    def view(self) -> EntityGraph:
        """What a search by lists walks."""
        return LoggedView(vars(self)["_log"])

    @property
    def count(self) -> int:
        """How many passages there are."""
        return self.view.count

    def __repr__(self) -> str:
        return f"<EntityGraph of {self.count:,} passages, some of them in a log>"

    def __reduce__(self) -> Any:
        return self.whole.__reduce__()
