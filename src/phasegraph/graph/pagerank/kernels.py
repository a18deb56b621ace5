"""The rounds of a push in the subset of Python that numba compiles, and the choice of kernel.

Each function does, number for number and in the same order, what the rounds in
:mod:`phasegraph.graph.pagerank.push` do with numpy, so that results and counters are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

from phasegraph.errors import InvalidInputError, MissingDependencyError

Kernel = Literal["auto", "numpy", "compiled"]
Rounds = Callable[..., tuple[int, int, int, int]]


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
def machine_code(rounds: Rounds) -> Rounds:
    """Compile `rounds` at its first call; the machine code is cached on disk where that can be written."""
    numba = _numba()
    try:
        compiled: Rounds = numba.njit(cache=True, nogil=True)(rounds)
    except RuntimeError:  # numba found no folder to cache in
        compiled = numba.njit(nogil=True)(rounds)
    return compiled


def static_rounds(
    indptr: Any,
    indices: Any,
    weights: Any,
    inverse_out: Any,
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
                if stamp[v] <= rounds:
                    if stamp[v] == 0:
                        touched[held] = v
                        held += 1
                    stamp[v] = rounds + 1
                    received[arrived] = v
                    arrived += 1
        size = 0
        for i in range(arrived):
            v = received[i]
            if left[v] > threshold * max(indptr[v + 1] - indptr[v], 1):
                frontier[size] = v
                size += 1
        rounds += 1
        scanned += edges
    return size, rounds, scanned, held
