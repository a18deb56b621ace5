"""The iterations over the whole graph: power and Chebyshev."""

from __future__ import annotations

import math

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError, NotConvergedError
from phasegraph.graph.pagerank.operator import Precision, WalkOperator
from phasegraph.graph.pagerank.reset import Seeds
from phasegraph.graph.pagerank.result import PageRankResult


def power(
    graph: WalkOperator, seeds: Seeds, follow: float, tolerance: float, limit: int, precision: Precision
) -> PageRankResult:
    """Repeat x ← f M x + (1 - sum of that) r, which moves dangling mass to the reset distribution.

    Between distributions the map contracts L1 distances by f, so that f / (1 - f) times the last step bounds
    the error.
    """
    step = graph.pull(precision)
    restart = seeds.dense(graph.size).astype(precision)
    mass, bound = restart, math.inf
    for iteration in range(1, limit + 1):
        moved = step @ mass
        moved *= follow
        moved += (1.0 - float(moved.sum(dtype=np.float64))) * restart
        bound = follow / (1.0 - follow) * float(np.abs(moved - mass).sum(dtype=np.float64))
        mass = moved
        if bound <= tolerance:
            return _whole(mass, bound, iteration, graph)
    raise _unconverged("power", limit, bound, tolerance)


def chebyshev(
    graph: WalkOperator, seeds: Seeds, follow: float, tolerance: float, limit: int, precision: Precision
) -> PageRankResult:
    """Chebyshev's semi-iteration for y = f M y + (1 - f) r, then y / sum(y).

    M is similar to a symmetric matrix with spectrum in [-1, 1] when the graph is undirected, and only then.
    Isolated nodes leak in y; dividing by its sum sends what they leak to the reset distribution.
    """
    if not graph.symmetric:
        raise InvalidInputError('method="chebyshev" needs an undirected graph; got one with one-way edges')
    step = graph.pull(precision)
    restart = (1.0 - follow) * seeds.dense(graph.size)
    restart = restart.astype(precision)
    before, mass = np.zeros_like(restart), restart
    omega, bound = 2.0, math.inf
    for iteration in range(1, limit + 1):
        moved = step @ mass
        moved *= follow
        moved += restart
        bound = 2.0 * float(np.abs(moved - mass).sum(dtype=np.float64)) / (1.0 - follow)
        total = float(moved.sum(dtype=np.float64))
        if bound <= tolerance * total:
            return _whole(np.maximum(moved, 0.0), bound / total, iteration, graph)
        omega = 1.0 / (1.0 - 0.5 * follow * follow) if iteration == 1 else 1.0 / (1.0 - 0.25 * follow**2 * omega)
        moved -= before
        moved *= omega
        moved += before
        before, mass = mass, moved
    raise _unconverged("chebyshev", limit, bound, tolerance)


def _whole(mass: FloatArray, bound: float, iterations: int, graph: WalkOperator) -> PageRankResult:
    dense = mass.astype(np.float64)
    dense /= dense.sum()
    dense.flags.writeable = False
    nodes = np.arange(graph.size, dtype=np.int32)
    return PageRankResult(nodes, dense, graph.size, bound, iterations, iterations * graph.edges, graph.size)


def _unconverged(method: str, limit: int, bound: float, tolerance: float) -> NotConvergedError:
    return NotConvergedError(
        f"{method} must reach an L1 error of at most {tolerance:g}; after {limit} iterations the bound is {bound:g}"
    )
