"""Scratch arrays of a push, reused from query to query and cleared by the list of touched nodes."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from phasegraph._typing import FloatArray, Int32Array, IntArray
from phasegraph.graph.pagerank.kernels import collect, machine_code


class PushWorkspace:
    """O(n) scratch memory that costs O(touched) to clear.

    One walk at a time; walks in several threads need one workspace each (which is what leaving `workspace`
    out gives them).

    Parameters
    ----------
    size : int
        How many nodes the graph has, at least 1.

    Attributes
    ----------
    left : (n,) array of float
        Mass that waits at a node to be pushed on.
    gained : (n,) array of float
        Mass that has stopped at a node.
    stamp : (n,) array of int32
        0 where the walk has not been; otherwise the last round (from 1) in which mass arrived.
    """

    def __init__(self, size: int) -> None:
        self.left: FloatArray = np.zeros(size)
        self.gained: FloatArray = np.zeros(size)
        self.stamp: Int32Array = np.zeros(size, dtype=np.int32)

    @property
    def size(self) -> int:
        """How many nodes it serves."""
        return len(self.left)

    @cached_property
    def first(self) -> Int32Array:
        """(n,) scratch: position of a node's first occurrence in a list."""
        return np.zeros(self.size, dtype=np.int32)

    @cached_property
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
            machine_code(collect)(touched, (self.left, self.gained, self.stamp), gained, left)
            return gained, left
        touched = touched.astype(np.intp)
        gained, left = self.gained.take(touched), self.left.take(touched)
        for array in (self.left, self.gained, self.stamp):
            array[touched] = 0
        return gained, left

    def reset(self) -> None:
        """Make it clean whatever was written to it, in O(n)."""
        for array in (self.left, self.gained, self.stamp):
            array.fill(0)
