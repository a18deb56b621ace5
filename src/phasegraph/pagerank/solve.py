"""Compute personalized PageRank by one of three methods."""

from __future__ import annotations

import math
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
    """Compute the stationary mass by power iteration: y = f M x, then x ← y + (1 - sum(y)) r.

    f is the follow probability, M the transition matrix, x the mass, and r the reset distribution. The mass of nodes
    without out-edges also goes to r. A step multiplies the L1 distance of two distributions by f or less. The error is
    therefore at most f / (1 - f) times the L1 length of the last step. `limit` is the maximum number of iterations;
    :func:`personalized_pagerank` describes the other arguments.
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
    """Compute the stationary mass of an undirected graph by Chebyshev's semi-iteration for y = f M y + (1 - f) r.

    f is the follow probability, M the transition matrix, and r the reset distribution. The method needs an undirected
    graph, because only then is M similar to a symmetric matrix with a spectrum in [-1, 1]. An isolated node
    passes no mass on, so the sum of y can be below 1. The result is y / sum(y); it equals the solution in which the
    mass of isolated nodes restarts at r. `limit` is the maximum number of iterations; :func:`personalized_pagerank`
    describes the other arguments.
    """
    if not graph.symmetric:
        raise InvalidInputError(
            'method="chebyshev" needs an undirected graph; this graph has one-way edges: use method="power"'
        )
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
        f"{method} did not reach an L1 error of {tolerance:g}: after {limit} iterations the bound is {bound:g}; "
        "raise tolerance or max_iterations"
    )


Method = Literal["power", "chebyshev", "push"]
RANKING_TOLERANCE = 3e-6
"""Threshold of a push, in mass per out-edge, at which the 20 best nodes equal the result of the exact walk."""
SCORE_TOLERANCE = 1e-7
"""Threshold of a push, in mass per out-edge, at which the masses are accurate enough for calibration."""
MOST_ITERATIONS = 10_000
"""Default upper limit of the number of iterations."""


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
    """Compute the stationary mass of a walk that either follows an out-edge or restarts at the seeds.

    Parameters
    ----------
    graph : WalkOperator or (n, n) sparse matrix
        Entry (u, v) of a matrix is the weight of the edge from u to v. The walk follows an out-edge with a probability
        proportional to its weight. Every call prepares a matrix again; for many calls, create a `WalkOperator`.
    reset : (n,) array of float, or a pair (nodes, weights)
        The reset distribution: weights that are not negative and have a positive sum. They are divided by this sum.
    follow_probability : float
        Probability of following an edge, in [0, 1); otherwise, the walk restarts.
    tolerance : float, optional
        For "power" and "chebyshev", a bound on the L1 error of the mass (default 1e-10, or 1e-4 in float32). For
        "push", the mass per out-edge below which a node is not pushed (default `RANKING_TOLERANCE`). The mass that a
        push does not place exactly is the `residual` of the result.
    method : {"power", "chebyshev", "push"}
        "power" is the reference. "chebyshev" needs an undirected graph. "push" reads O(1 / tolerance) edges instead of
        all edges. If a round would read more than a quarter of all edges, "push" multiplies with the whole matrix.
    workspace : PushWorkspace, optional
        The scratch memory of a push; by default, a workspace that the graph caches.
    kernel : {"auto", "numpy", "compiled"}
        For "push": "compiled" uses numba (``phasegraph[graph]``), and "auto" uses numba if it is installed. All kernels
        give the same values and counters.
    polish : int
        For "push": number of final rounds over the whole graph. Each round multiplies the residual by
        `follow_probability` or less. On small graphs, 2 rounds with a tolerance of 3e-7 are as accurate as
        `SCORE_TOLERANCE`.
    complete : bool
        For "push" on an undirected graph: if True, distribute the residual over the reached nodes, in proportion to
        their weighted degrees. For the `refine` nodes with the greatest mass, also compute the next step exactly. This
        makes the errors of scores at least five times smaller. If False, and on directed graphs, the masses are lower
        bounds.
    refine : int
        Number of nodes for which `complete` computes the next step; this reads all edges of these nodes.
    precision : {"float64", "float32"}
        The data type of "power" and "chebyshev"; a push always uses float64.
    max_iterations : int, optional
        Maximum number of iterations. The default is about twice the theoretical number, at most `MOST_ITERATIONS`.

    Returns
    -------
    PageRankResult
        Masses in [0, 1] with the sum 1. For a push, the sum is between 1 - `residual` and 1.

    Raises
    ------
    InvalidInputError, MissingDependencyError
        If an argument is out of range, for "chebyshev" on a directed graph, or for ``kernel="compiled"`` without numba.
    NotConvergedError
        If the tolerance is not reached.

    Notes
    -----
    A walk restarts at a node without out-edges, as in igraph's PRPACK and in NetworkX. Edges with weight zero do not
    exist, self loops count, and the weights of parallel edges are added. There is no parameter `damping`, because its
    meaning differs: in HippoRAG, it is the probability of following an edge; in other papers, of a restart.

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


def push_settings(
    follow_probability: float,
    tolerance: float | None,
    polish: int,
    max_iterations: int | None,
    kernel: Kernel,
    complete: bool = True,
    refine: int = 100,
) -> PushSettings:
    """Check the arguments of a push, and return them as settings; see :func:`personalized_pagerank`."""
    follow = check_range("follow_probability", follow_probability, 0, 1, ends="[)")
    threshold = RANKING_TOLERANCE if tolerance is None else check_range("tolerance", tolerance, ends="(]")
    rounds, first = check_count("polish", polish), check_count("refine", refine)
    limit = _limit(max_iterations, follow, threshold)
    return PushSettings(follow, threshold, rounds, limit, use_compiled(kernel), check_flag("complete", complete), first)


def _limit(given: int | None, follow: float, tolerance: float) -> int:
    """Return the maximum number of iterations: the given number, or a default from follow probability and tolerance."""
    if given is None:
        needed = 0.0 if follow == 0.0 else math.log(min(tolerance, 1.0) * (1.0 - follow) / 4.0) / math.log(follow)
        return min(int(2 * needed) + 20, MOST_ITERATIONS)
    return check_count("max_iterations", given, minimum=1)
