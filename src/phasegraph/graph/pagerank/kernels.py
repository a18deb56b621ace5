"""The rounds of a push in the subset of Python that numba compiles, and the choice of kernel.

Each function does, number for number and in the same order, what the rounds in
:mod:`phasegraph.graph.pagerank.push` do with numpy, so that results and counters are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeVar

from phasegraph.errors import InvalidInputError, MissingDependencyError

Kernel = Literal["auto", "numpy", "compiled"]
Rounds = Callable[..., tuple[int, int, int, int]]
Compilable = TypeVar("Compilable", bound=Callable[..., Any])


def use_compiled(kernel: str) -> bool:
    """Whether to use machine code: "auto" does where numba is installed.

    Raises
    ------
    InvalidInputError
        If `kernel` is not a known name.
    MissingDependencyError
        If "compiled" is asked for without numba.
    """
    if kernel not in ("auto", "numpy", "compiled"):
        raise InvalidInputError(f'kernel must be "auto", "numpy" or "compiled"; got {kernel!r}')
    if kernel == "numpy":
        return False
    available = _numba() is not None
    if kernel == "compiled" and not available:
        raise MissingDependencyError('kernel="compiled" needs numba: pip install "phasegraph[graph]"')
    return available


@cache
def _numba() -> Any:
    try:
        import numba
    except ImportError:
        return None
    return numba


@cache
def machine_code(function: Compilable) -> Compilable:
    """Compile `function` at its first call; the machine code is cached on disk where that can be written."""
    numba = _numba()
    try:
        compiled: Compilable = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found no folder to cache in
        compiled = numba.njit(nogil=True)(function)
    return compiled


def static_rounds(
    indptr: Any,
    indices: Any,
    weights: Any,
    inverse_out: Any,
    costs: Any,
    follow: float,
    threshold: float,
    state: Any,
    queues: Any,
    held: int,
    size: int,
    dense_edges: int,
    rounds: int,
    limit: int,
) -> tuple[int, int, int, int]:
    """Push rounds over fixed weights.

    The lists are written without branches: an entry that does not count is overwritten by the next, for
    which each list has one place more than there are nodes.

    Returns the new frontier's size, the rounds done, the edges scanned and the number of touched nodes.
    """
    left, gained, stamp = state
    touched, frontier, received, amounts = queues
    scanned = 0
    while size > 0 and rounds <= limit:
        edges = 0
        for i in range(size):
            edges += indptr[frontier[i] + 1] - indptr[frontier[i]]
        if edges > dense_edges:
            break
        for i in range(size):
            u = frontier[i]
            amounts[i] = follow * left[u]
            gained[u] += (1.0 - follow) * left[u]
            left[u] = 0.0
        arrived = 0
        for i in range(size):
            u = frontier[i]
            share = amounts[i] * inverse_out[u]
            for e in range(indptr[u], indptr[u + 1]):
                v = indices[e]
                left[v] += share * weights[e]
                before = stamp[v]
                stamp[v] = rounds + 1
                touched[held] = v
                held += before == 0
                received[arrived] = v
                arrived += before <= rounds
        size = 0
        for i in range(arrived):
            v = received[i]
            frontier[size] = v
            size += left[v] > threshold * costs[v]
        rounds += 1
        scanned += edges
    return size, rounds, scanned, held


def collect(nodes: Any, state: Any, gained_out: Any, left_out: Any) -> None:
    """Copy out what the touched nodes hold, and clear the workspace, in one pass."""
    left, gained, stamp = state
    for i in range(len(nodes)):
        v = nodes[i]
        gained_out[i] = gained[v]
        left_out[i] = left[v]
        gained[v] = 0.0
        left[v] = 0.0
        stamp[v] = 0
