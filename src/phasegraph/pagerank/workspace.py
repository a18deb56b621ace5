"""Scratch arrays of a push, reused from query to query and cleared by the list of touched nodes."""

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
    """Refuse an unknown kernel, or "compiled" where numba is missing, without loading numba."""
    if kernel not in ("auto", "numpy", "compiled"):
        raise InvalidInputError(f'kernel must be "auto", "numpy" or "compiled"; got {kernel!r}')
    if kernel == "compiled" and (sys.modules.get("numba", ...) is None or find_spec("numba") is None):
        raise MissingDependencyError('kernel="compiled" needs numba: pip install "phasegraph[graph]"')


def use_compiled(kernel: str) -> bool:
    """Whether to use the compiled kernels: "auto" does where numba is installed."""
    check_kernel(kernel)
    return kernel != "numpy" and _load_kernels() is not None


def compiled_kernels() -> ModuleType:
    """The compiled functions; only after :func:`use_compiled` has said yes."""
    found = _load_kernels()
    if found is None:
        raise MissingDependencyError('the compiled kernel needs numba: pip install "phasegraph[graph]"')
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
    """What the (n,) nodes hold during a push.

    `left` is mass that waits to be pushed on, `gained` mass that has stopped. `stamp` is 0 where the walk has not been,
    otherwise the last round in which mass arrived, or 1.
    """

    left: FloatArray
    gained: FloatArray
    stamp: Int32Array | FloatArray


class PushWorkspace:
    """O(n) scratch memory that costs O(touched) to clear; serves one walk at a time.

    Parameters
    ----------
    size : int
        How many nodes the graph has, at least 1.
    """

    def __init__(self, size: int) -> None:
        self.size = check_count("size", size, minimum=1)

    @lazy_property
    def plain(self) -> State:
        """What the numpy kernel writes to: one array each."""
        return State(np.zeros(self.size), np.zeros(self.size), np.zeros(self.size, dtype=np.int32))

    @lazy_property
    def records(self) -> FloatArray:
        """What the compiled kernel writes to: (n, 3), so that a node's values share a cache line."""
        return np.zeros((self.size, 3))

    def state(self, compiled: bool) -> State:
        """The arrays of the one or the other kernel."""
        return State(*self.records.T) if compiled else self.plain

    @lazy_property
    def first(self) -> Int32Array:
        """(n,) scratch: position of a node's first occurrence in a list."""
        return np.zeros(self.size, dtype=np.int32)

    @lazy_property
    def queues(self) -> tuple[Int32Array, Int32Array, Int32Array, FloatArray]:
        """Scratch of the compiled kernel, a place to spare in each: touched, frontier, receivers, amounts."""
        touched, frontier, received = (np.zeros(self.size + 1, dtype=np.int32) for _ in range(3))
        return touched, frontier, received, np.zeros(self.size)

    def distinct(self, nodes: IntArray) -> Int32Array:
        """The distinct values of `nodes` in order of first occurrence, in O(len(nodes))."""
        place = np.arange(len(nodes), dtype=np.int32)
        self.first[nodes[::-1]] = place[::-1]
        kept = nodes.compress(self.first.take(nodes) == place).astype(np.int32)
        return kept

    def collect(self, touched: Int32Array, compiled: bool) -> tuple[FloatArray, FloatArray]:
        """Take out what `touched`, every node that was written to, has gained and left: it is clean then."""
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
        """Make it clean whatever was written to it, in O(n)."""
        for array in self.state(compiled):
            array.fill(0)


class WorkspacePool:
    """Idle workspaces of a graph of `size` nodes: as many as there have been walks at the same time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._idle: deque[PushWorkspace] = deque()

    def borrow(self) -> PushWorkspace:
        """Take an idle workspace, or a new one; hand it back, clean, with :meth:`give_back`."""
        try:
            return self._idle.pop()
        except IndexError:
            return PushWorkspace(self.size)

    def give_back(self, workspace: PushWorkspace) -> None:
        """Keep a clean workspace for the next walk."""
        self._idle.append(workspace)
