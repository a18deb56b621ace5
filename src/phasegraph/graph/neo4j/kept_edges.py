"""Edges that earlier queries fetched, kept until the corpus changes.

Walks meet the same well-connected nodes again and again. What is kept is bounded by a number of edges and
dropped as a whole when the corpus's stamp moves, because one new passage changes weights everywhere.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import TypeAlias

from phasegraph.errors import InvalidInputError

Node: TypeAlias = tuple[bool, str]
"""Whether it is a passage, and its id or name."""

Edges: TypeAlias = tuple[bool, Sequence[str], Sequence[float]]
"""Whether they lead to passages, where they lead, and their weights."""

Found: TypeAlias = Mapping[Node, Sequence[Edges]]


class KeptEdges:
    """Edges by node, for one corpus and one set of weights; the longest unused go first. Thread-safe.

    Parameters
    ----------
    limit : int, default 500_000
        Edges kept at most, at least 0; 0 keeps none.

    Raises
    ------
    InvalidInputError
        If `limit` is out of range.
    """

    def __init__(self, limit: int = 500_000) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise InvalidInputError(f"limit must be an integer of at least 0; {limit!r:.40} was given")
        self._limit = limit
        self._lock = Lock()
        self._stamp: int | None = None
        self._held: OrderedDict[Node, Sequence[Edges]] = OrderedDict()
        self._edges = 0

    def __len__(self) -> int:
        """How many edges are kept."""
        return self._edges

    def edges_of(self, nodes: Iterable[Node], stamp: int, fetch: Callable[[Sequence[Node]], Found]) -> Found:
        """Return the edges of some nodes, in the order of the nodes, fetching those that are not here."""
        wanted = list(nodes)
        with self._lock:
            if stamp != self._stamp:
                self._held.clear()
                self._edges, self._stamp = 0, stamp
            found = {node: self._held[node] for node in wanted if node in self._held}
            for node in found:
                self._held.move_to_end(node)
        missing = [node for node in wanted if node not in found]
        if missing:
            fresh = fetch(missing)
            found.update({node: fresh.get(node, ()) for node in missing})
            self._keep({node: found[node] for node in missing}, stamp)
        return {node: found[node] for node in wanted}

    def _keep(self, fresh: Found, stamp: int) -> None:
        with self._lock:
            if stamp != self._stamp:
                return
            for node, kinds in fresh.items():
                if node not in self._held:
                    self._held[node] = kinds
                    self._edges += _size(kinds)
            while self._edges > self._limit and self._held:
                self._edges -= _size(self._held.popitem(last=False)[1])


def _size(kinds: Sequence[Edges]) -> int:
    """Edges of a node; one that has none takes room as well."""
    return 1 + sum(len(names) for _, names, _ in kinds)
