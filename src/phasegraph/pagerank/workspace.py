"""Scratch arrays of a push, reused by later walks; after a walk, only entries of nodes that it reached are cleared."""

from __future__ import annotations

import sys
from collections import deque
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Literal, NamedTuple

import numpy as np

from phasegraph._support.shared import LOADING, lazy_property
from phasegraph._support.typing import FloatArray, Int32Array, IntArray
from phasegraph._support.validation import check_count
from phasegraph.errors import InvalidInputError, MissingDependencyError

Kernel = Literal["auto", "numpy", "compiled"]


def check_kernel(kernel: str) -> None:
    """Raise an error for an unknown kernel, or for "compiled" if numba is missing; numba is not loaded."""
    if kernel not in ("auto", "numpy", "compiled"):
        raise InvalidInputError(f'kernel must be "auto", "numpy" or "compiled"; got {kernel!r}')
    if kernel == "compiled" and (sys.modules.get("numba", ...) is None or find_spec("numba") is None):
        raise MissingDependencyError('kernel="compiled" needs numba 0.61 or later: pip install "phasegraph[graph]"')


def use_compiled(kernel: str) -> bool:
    """Return True if the compiled kernel is used; "auto" uses it if numba 0.61 or later is installed."""
    check_kernel(kernel)
    return kernel != "numpy" and _load_kernels() is not None


def compiled_kernels() -> ModuleType:
    """Return the module of compiled functions; raise MissingDependencyError if numba is missing or too old."""
    found = _load_kernels()
    if found is None:
        raise MissingDependencyError('the compiled kernel needs numba 0.61 or later: pip install "phasegraph[graph]"')
    return found


@cache
def _load_kernels() -> ModuleType | None:
    with LOADING:
        try:
            from phasegraph.pagerank import _numba_kernels as compiled
        except ImportError:
            return None
        return compiled


class State(NamedTuple):
    """The state of all nodes during a push, in arrays of shape (n,).

    `left` is the mass that a node has not pushed yet, and `gained` is the mass that has stopped at a node. `stamp` is 0
    for a node that the walk has not reached, and positive for other nodes. The compiled kernel writes the number of the
    last round in which mass arrived; other code writes 1.
    """

    left: FloatArray
    gained: FloatArray
    stamp: Int32Array | FloatArray


class PushWorkspace:
    """The scratch memory of a walk; only one walk at a time can use it.

    The size of the memory is proportional to the number of nodes. The time to clear it is proportional to the number of
    nodes that the walk reached.

    Parameters
    ----------
    size : int
        Number of nodes of the graph, at least 1.
    """

    def __init__(self, size: int) -> None:
        self.size = check_count("size", size, minimum=1)
        self._listed: Int32Array | None = None

    @lazy_property
    def plain(self) -> State:
        """The state of the numpy kernel, in three separate arrays."""
        return State(np.zeros(self.size), np.zeros(self.size), np.zeros(self.size, dtype=np.int32))

    @lazy_property
    def records(self) -> FloatArray:
        """The state of the compiled kernel, an array of shape (n, 3), in which a node's values share a cache line."""
        return np.zeros((self.size, 3))

    def state(self, compiled: bool) -> State:
        """Return the state arrays of the compiled kernel or of the numpy kernel."""
        return State(*self.records.T) if compiled else self.plain

    @lazy_property
    def first(self) -> Int32Array:
        """A scratch array of shape (n,) for the position of each node's first occurrence in a list."""
        return np.zeros(self.size, dtype=np.int32)

    @lazy_property
    def queues(self) -> tuple[Int32Array, Int32Array, Int32Array, FloatArray]:
        """The scratch arrays of the compiled kernel: touched nodes, nodes to push, receiving nodes, amounts of mass.

        Each list of nodes has space for an additional entry.
        """
        touched, frontier, received = (np.zeros(self.size + 1, dtype=np.int32) for _ in range(3))
        return touched, frontier, received, np.zeros(self.size)

    def distinct(self, nodes: IntArray) -> Int32Array:
        """Return the distinct values of `nodes` in the order of first occurrence, in time O(len(nodes))."""
        self._listed, place = None, np.arange(len(nodes), dtype=np.int32)
        self.first[nodes[::-1]] = place[::-1]
        kept = nodes.compress(self.first.take(nodes) == place).astype(np.int32)
        return kept

    def among(self, listed: Int32Array, values: FloatArray, nodes: IntArray) -> FloatArray:
        """Return the value of each node in `nodes`; `values` are the values of the distinct nodes `listed`.

        A node that is not listed has the value 0. The places of the nodes that were listed last are kept, because
        several steps of a search look up nodes of the same walk.
        """
        if self._listed is not listed:
            self._listed = None  # an interrupt must not leave the places of two lists
            self.first[listed] = np.arange(len(listed), dtype=np.int32)
            self._listed = listed
        place = self.first.take(nodes)  # the places of other nodes are from earlier lists, so nodes are compared
        return np.where(listed.take(place, mode="clip") == nodes, values.take(place, mode="clip"), 0.0)

    def collect(self, touched: Int32Array, compiled: bool) -> tuple[FloatArray, FloatArray]:
        """Return the gained and the unsent mass of the `touched` nodes as two arrays, and clear the workspace.

        `touched` must contain every node with a changed state.
        """
        if compiled:
            gained, left = np.empty(len(touched)), np.empty(len(touched))
            compiled_kernels().collect(touched, self.records, gained, left)
            return gained, left
        rows = touched.astype(np.intp)
        gained, left = self.plain.gained.take(rows), self.plain.left.take(rows)
        for array in self.plain:
            array[rows] = 0
        return gained, left

    def reset(self, compiled: bool) -> None:
        """Clear the state of all nodes, in time O(n)."""
        for array in self.state(compiled):
            array.fill(0)


class WorkspacePool:
    """The idle workspaces of a graph of `size` nodes; a new workspace is created if all are in use."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._idle: deque[PushWorkspace] = deque()

    def borrow(self) -> PushWorkspace:
        """Return an idle or a new workspace; the caller must clear it and give it back with :meth:`give_back`."""
        try:
            return self._idle.pop()
        except IndexError:
            return PushWorkspace(self.size)

    def give_back(self, workspace: PushWorkspace) -> None:
        """Return a cleared workspace to the pool, so that a later walk can use it."""
        self._idle.append(workspace)
