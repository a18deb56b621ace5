"""Personalised PageRank: which solver, with which tolerance, for one query or many."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_count, check_flag, check_range
from phasegraph.errors import InvalidInputError, NotConvergedError
from phasegraph.pagerank.operator import Precision, WalkOperator
from phasegraph.pagerank.push import (
    PageRankResult,
    PushSettings,
    Reset,
    Seeds,
    StaticTransitions,
    as_seeds,
    run_push,
)
from phasegraph.pagerank.workspace import Kernel, PushWorkspace, use_compiled


def power(
    graph: WalkOperator, seeds: Seeds, follow: float, tolerance: float, limit: int, precision: Precision
) -> PageRankResult:
    """Repeat x ← f M x + (1 - sum of that) r, which moves dangling mass to the reset distribution.

    The map contracts L1 distances of distributions by f: f / (1 - f) times the last step bounds the error.
    """
    step = graph.step if precision == "float64" else graph.narrow_step
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
    step = graph.step if precision == "float64" else graph.narrow_step
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
        f"{method} did not reach an L1 error of {tolerance:g}: after {limit} iterations the bound is {bound:g}"
    )


Method = Literal["power", "chebyshev", "push"]
RANKING_TOLERANCE = 3e-6
"""Push threshold at which the first 20 nodes are those of the exact walk."""
SCORE_TOLERANCE = 1e-7
"""Push threshold at which the masses are good enough to calibrate."""
MOST_ITERATIONS = 10_000
"""No walk takes more steps than this unless it is told to."""


def personalized_pagerank(
    graph: WalkOperator | Any,
    reset: Reset,
    *,
    follow_probability: float,
    tolerance: float | None = None,
    method: Method = "power",
    workspace: PushWorkspace | None = None,
    kernel: Kernel = "auto",
    polish: int = 0,
    complete: bool = True,
    refine: int = 100,
    precision: Precision = "float64",
    max_iterations: int | None = None,
) -> PageRankResult:
    """Stationary mass of a walk that follows an out-edge or restarts at the seeds.

    Parameters
    ----------
    graph : WalkOperator or (n, n) sparse matrix
        Entry (u, v) is the weight of the edge u > v; an out-edge is followed with a probability
        proportional to its weight. A matrix is prepared anew at every call: make a `WalkOperator` once.
    reset : (n,) array of float, or a pair (nodes, weights)
        Not negative, with a positive sum, by which it is divided.
    follow_probability : float
        Probability of walking on, in [0, 1); 1 minus it is the probability of a restart.
    tolerance : float, optional
        For "power" and "chebyshev" a bound on the L1 error of the mass (default 1e-10; 1e-4 in float32).
        For "push" the mass per out-edge below which a node is not pushed on (default `RANKING_TOLERANCE`);
        the mass it has not placed exactly is the result's `residual`.
    method : {"power", "chebyshev", "push"}
        "power" is the reference. "chebyshev" needs an undirected graph. "push" costs O(1 / tolerance) edges,
        not O(edges); rounds that would read a quarter of the graph are done as one product over all of it.
    workspace : PushWorkspace, optional
        Scratch memory of a push; by default one that the graph keeps.
    kernel : {"auto", "numpy", "compiled"}
        For "push": compiled by numba (``phasegraph[graph]``) where installed, or numpy, with the same values and
        counters.
    polish : int
        For "push": whole-graph rounds at the end, each of which multiplies the residual by
        `follow_probability` or less. 2 with a tolerance of 3e-7 equals `SCORE_TOLERANCE` on small graphs.
    complete : bool
        For "push" on an undirected graph: place the residual in proportion to the weighted degree on the nodes that
        were reached, and give the first `refine` of them the next step exactly. Errors of scores are at least five
        times smaller; without it, and on directed graphs, the masses are lower bounds.
    refine : int
        See `complete`; costs the edges of so many nodes, hubs among them.
    precision : {"float64", "float32"}
        Of the iterations; a push always sums in float64.
    max_iterations : int, optional
        Default: about twice what the theory asks for, at most `MOST_ITERATIONS`.

    Returns
    -------
    PageRankResult
        Masses in [0, 1]; they sum to 1 (a push: to between 1 - `residual` and 1).

    Raises
    ------
    InvalidInputError, MissingDependencyError
        For an argument out of range, "chebyshev" on a directed graph, or ``kernel="compiled"`` without numba.
    NotConvergedError
        If the tolerance is not reached; an unconverged mass is never returned.

    Notes
    -----
    A node without out-edges restarts (as in igraph's PRPACK and NetworkX), zero weights are no edges, self loops count
    and parallel edges add up. There is no `damping`: HippoRAG's is the probability of following an edge, other papers'
    alpha that of a restart.

    References
    ----------
    Haveliwala, T. (2002). Topic-sensitive PageRank. doi:10.1145/511446.511513
    Gutiérrez, B. J. et al. (2025). From RAG to memory (HippoRAG 2). arXiv:2502.14802

    Examples
    --------
    >>> from scipy import sparse
    >>> edges = sparse.csr_array(([1.0, 3.0, 1.0, 2.0], ([0, 0, 1, 2], [1, 2, 2, 0])), shape=(4, 4))
    >>> walk = personalized_pagerank(edges, [1.0, 0.0, 0.0, 1.0], follow_probability=0.5)
    >>> walk.mass.round(6).tolist()
    [0.426667, 0.053333, 0.186667, 0.333333]
    """
    prepared = graph if isinstance(graph, WalkOperator) else WalkOperator.from_adjacency(graph)
    seeds = as_seeds(reset, prepared.size)
    if precision not in ("float64", "float32"):
        raise InvalidInputError(f'precision must be "float64" or "float32"; got {precision!r}')
    if method == "push":
        settings = push_settings(follow_probability, tolerance, polish, max_iterations, kernel, complete, refine)
        return run_push(StaticTransitions(prepared), prepared.pool, seeds, settings, workspace)
    follow = check_range("follow_probability", follow_probability, 0, 1, ends="[)")
    exact = 1e-10 if precision == "float64" else 1e-4
    bound = exact if tolerance is None else check_range("tolerance", tolerance, ends="(]")
    limit = _limit(max_iterations, follow, bound)
    if method == "power":
        return power(prepared, seeds, follow, bound, limit, precision)
    if method == "chebyshev":
        return chebyshev(prepared, seeds, follow, bound, limit, precision)
    raise InvalidInputError(f'method must be "power", "chebyshev" or "push"; got {method!r}')


def personalized_pagerank_batch(
    graph: WalkOperator | Any, resets: Iterable[Reset], **options: Any
) -> list[PageRankResult]:
    """One walk per reset distribution over one prepared graph.

    Parameters
    ----------
    graph : WalkOperator or (n, n) sparse matrix
    resets : iterable of reset distributions
    **options
        As for :func:`personalized_pagerank`.

    Returns
    -------
    list of PageRankResult
        Each equal to the bit to that of a call of its own.

    Examples
    --------
    >>> from scipy import sparse
    >>> pair = sparse.csr_array([[0.0, 1.0], [1.0, 0.0]])
    >>> [w.mass.tolist() for w in personalized_pagerank_batch(pair, [([0], [1])], follow_probability=0.0)]
    [[1.0, 0.0]]
    """
    prepared = graph if isinstance(graph, WalkOperator) else WalkOperator.from_adjacency(graph)
    return [personalized_pagerank(prepared, reset, **options) for reset in resets]


def push_settings(
    follow_probability: float,
    tolerance: float | None,
    polish: int,
    max_iterations: int | None,
    kernel: Kernel,
    complete: bool = True,
    refine: int = 100,
) -> PushSettings:
    """The checked settings of a push."""
    follow = check_range("follow_probability", follow_probability, 0, 1, ends="[)")
    threshold = RANKING_TOLERANCE if tolerance is None else check_range("tolerance", tolerance, ends="(]")
    rounds, first = check_count("polish", polish), check_count("refine", refine)
    limit = _limit(max_iterations, follow, threshold)
    return PushSettings(follow, threshold, rounds, limit, use_compiled(kernel), check_flag("complete", complete), first)


def _limit(given: int | None, follow: float, tolerance: float) -> int:
    """Steps after which `follow` to their power is far below the tolerance."""
    if given is None:
        needed = 0.0 if follow == 0.0 else math.log(min(tolerance, 1.0) * (1.0 - follow) / 4.0) / math.log(follow)
        return min(int(2 * needed) + 20, MOST_ITERATIONS)
    return check_count("max_iterations", given, minimum=1)
