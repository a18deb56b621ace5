"""Compare personalized PageRank with igraph's: ratios of time, and counters; the first twenty nodes must be the same.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python tools/benchmarks/pagerank_speed.py [--nodes 100000 1000000]

All systems answer the queries by turns in one process. Times are processor seconds of the calling thread. igraph is
called as in HippoRAG (PRPACK, undirected, weighted), with arguments that are prepared before the measurement.
"""

from __future__ import annotations

import argparse
import gc
from functools import partial

import igraph
import numpy as np
from interleaved import timed
from scipy import sparse
from synthetic import adjacency, entity_passage_graph, entity_seeds

from phasegraph.pagerank import WalkOperator, personalized_pagerank
from phasegraph.pagerank.solve import RANKING_TOLERANCE, SCORE_TOLERANCE

PUSHES = {
    f"push {kernel} {tolerance:g}": {"method": "push", "kernel": kernel, "tolerance": tolerance}
    for tolerance in (RANKING_TOLERANCE, 1e-6, SCORE_TOLERANCE)
    for kernel in ("numpy", "compiled")
}
SYSTEMS = {
    **PUSHES,
    "chebyshev float32 1e-4": {"method": "chebyshev", "precision": "float32", "tolerance": 1e-4},
    "power 1e-10": {"method": "power"},
}


def peer(matrix):
    half = sparse.triu(matrix).tocoo()
    graph = igraph.Graph(n=matrix.shape[0], edges=np.c_[half.row, half.col], directed=False)
    graph.es["weight"] = half.data.tolist()
    return graph


def peer_call(graph, seeds, follow):
    reset = np.zeros(graph.vcount())
    reset[seeds[0]] = seeds[1]
    reset = reset.tolist()
    return lambda: graph.personalized_pagerank(
        damping=follow, reset=reset, weights="weight", directed=False, implementation="prpack"
    )


def first_twenty(mass):
    return set(np.lexsort((np.arange(len(mass)), -mass))[:20].tolist())


def compare(graph, theirs, queries, follow):
    """Print one line for each system; return the median seconds of each system, and igraph's masses for each query."""
    seconds = {name: [] for name in ("igraph", *SYSTEMS)}
    walks = {name: [] for name in SYSTEMS}
    same = dict.fromkeys(SYSTEMS, 0)
    masses = []
    for seeds in queries:
        spent, mass = timed(peer_call(theirs, seeds, follow))
        seconds["igraph"].append(spent)
        masses.append(np.array(mass))
        expected = first_twenty(masses[-1])
        for name, options in SYSTEMS.items():
            spent, walk = timed(partial(personalized_pagerank, graph, seeds, follow_probability=follow, **options))
            seconds[name].append(spent)
            walks[name].append(walk)
            same[name] += set(walk.top(20)[0].tolist()) == expected
    middle = {name: float(np.median(values)) for name, values in seconds.items()}
    print(f"  igraph {1e3 * middle['igraph']:.1f} ms")
    for name in SYSTEMS:
        edges = np.mean([walk.edges_scanned for walk in walks[name]])
        nodes = np.mean([walk.nodes_touched for walk in walks[name]])
        residual = np.mean([walk.residual for walk in walks[name]])
        print(
            f"  {name:24s} {1e3 * middle[name]:8.2f} ms  {middle['igraph'] / middle[name]:7.1f} x"
            f"  same 20: {same[name]}/{len(queries)}  edges {edges:10.0f}  nodes {nodes:9.0f}"
            f"  residual {residual:.1e}"
        )
    return middle, masses


def faithfulness(graph, queries, masses, follow):
    """Print how close the scores of a push are to igraph's exact scores (`masses`), for the first 200 nodes."""
    tiers = {
        "3e-6 not completed": {"tolerance": 3e-6, "complete": False},
        "3e-6": {"tolerance": 3e-6},
        "3e-6 polish 2": {"tolerance": 3e-6, "polish": 2},
        "1e-7": {"tolerance": 1e-7},
    }
    for name, options in tiers.items():
        overlaps, shifts, errors, spent = [], [], [], []
        for seeds, exact in zip(queries, masses, strict=True):
            call = partial(personalized_pagerank, graph, seeds, follow_probability=follow, method="push")
            took, walk = timed(partial(call, **options))
            best = np.lexsort((np.arange(len(exact)), -exact))[:200]
            overlaps.append(len(set(best.tolist()) & set(walk.top(200)[0].tolist())) / 200)
            reference, found = np.sort(exact[best]), np.sort(walk.mass[best])
            ranks = [
                np.searchsorted(values, values_at, side="right") / 200
                for values, values_at in ((reference, exact[best]), (found, walk.mass[best]))
            ]
            shifts.append(np.abs(ranks[0] - ranks[1]).max())
            errors.append(np.max(np.abs(walk.mass[best] / exact[best] - 1)))
            spent.append(took)
        print(
            f"  scores at {name:18s} {1e3 * np.median(spent):8.2f} ms  overlap@200 {np.mean(overlaps):.4f}"
            f"  percentile shift {np.mean(shifts):.4f}  relative error {np.mean(errors):.4f}"
        )


def batch(graph, theirs, used, rng, mentions, follow, single):
    """Print how long 256 queries take one after another, compared with 256 calls of igraph.

    Only the first four of these calls are measured; their median and `single` give the time of all.
    """
    resets = [entity_seeds(rng, used, mentions) for _ in range(256)]
    some = [timed(peer_call(theirs, seeds, follow))[0] for seeds in resets[:4]]
    expected = 256 * float(np.median([*some, single]))
    for kernel in ("numpy", "compiled"):
        walk = partial(personalized_pagerank, graph, follow_probability=follow, method="push", kernel=kernel)
        spent, _ = timed(partial(list, map(walk, resets)))
        print(
            f"  256 queries, {kernel:9s} {1e3 * spent / 256:6.2f} ms a query"
            f"  {expected / spent:7.1f} x 256 igraph calls"
        )


def measure(nodes, count, follows):
    links, mentions = entity_passage_graph(nodes)
    matrix = adjacency(links, mentions)
    graph, theirs = WalkOperator.from_adjacency(matrix), peer(matrix)
    rng = np.random.default_rng(1)
    used = np.flatnonzero(np.diff(mentions.tocsc().indptr))
    queries = [entity_seeds(rng, used, mentions) for _ in range(count)]
    for options in SYSTEMS.values():
        personalized_pagerank(graph, queries[0], follow_probability=0.5, **options)
    gc.disable()
    middles = {}
    for follow in follows:
        print(f"{nodes} nodes, {graph.edges} edges, follow probability {follow}, {count} queries of 20 entities")
        middles[follow], masses = compare(graph, theirs, queries, follow)
        faithfulness(graph, queries, masses, follow)
        batch(graph, theirs, used, rng, mentions, follow, middles[follow]["igraph"])
    gc.enable()
    return middles


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=12)
    parser.add_argument("--follow", type=float, nargs="+", default=[0.5, 0.7])
    options = parser.parse_args()
    runs = {nodes: measure(nodes, options.queries, options.follow) for nodes in options.nodes}
    small, large = runs[min(runs)], runs[max(runs)]
    for follow in options.follow if len(runs) > 1 else []:
        for name in PUSHES:
            growth = large[follow][name] / small[follow][name]
            print(f"growth from {min(runs)} to {max(runs)} nodes, follow {follow}, {name}: {growth:.2f}")


if __name__ == "__main__":
    main()
