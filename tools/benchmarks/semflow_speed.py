"""Compare two implementations of SemFlowRAG's walk, whose edge weights depend on the query.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python tools/benchmarks/semflow_speed.py [--nodes 100000 1000000]

One is a push that computes weights only where they are needed; the other computes all weights and runs 20 iterations.
Both answer the queries by turns in one process. Times are processor seconds of the calling thread. Both must find the
same first twenty nodes.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from interleaved import timed
from scipy import sparse
from synthetic import entity_passage_graph, entity_seeds

from phasegraph.graph.experimental.semflow import SemanticFlow, abstractness, truncated_min_max


class Reweighting:
    """A walk that computes all weights by `reduceat`, then runs 20 steps of scipy in float32, on prepared arrays."""

    def __init__(self, flow):
        arrays = flow.arrays
        self.flow, self.arrays = flow, arrays
        self.entities = len(flow.members.indptr) - 1
        starts = np.column_stack([arrays.indptr[:-1], arrays.indptr[:-1] + arrays.downs]).ravel()
        ends = np.column_stack([arrays.indptr[:-1] + arrays.downs, arrays.indptr[:-1] + arrays.semantics]).ravel()
        self.groups = np.flatnonzero(ends > starts)
        self.links = np.concatenate([np.arange(a, b) for a, b in zip(starts[::2], ends[1::2], strict=True)])
        self.targets = arrays.indices[self.links]
        self.penalties = arrays.penalties[self.links]
        self.sizes = (ends - starts)[self.groups]
        self.firsts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        chances = np.column_stack([arrays.chances.down, arrays.chances.up]).ravel().astype(np.float32)
        self.chances = chances[self.groups]
        counts = np.diff(arrays.indptr)
        weights = np.repeat(arrays.chances.other, counts).astype(np.float32)
        self.matrix = sparse.csr_array((weights, arrays.indices, arrays.indptr.astype(np.int32)))

    def walk(self, relevance, seeds, follow, steps=20):
        weights = np.maximum(np.float32(1e-6), relevance.astype(np.float32)[self.targets] - self.penalties)
        sums = np.add.reduceat(weights, self.firsts)
        weights *= np.repeat(self.chances / sums, self.sizes)
        self.matrix.data[self.links] = weights
        pull = self.matrix.T
        stay = self.arrays.chances.stay.astype(np.float32)
        restart = np.zeros(self.flow.size, dtype=np.float32)
        restart[seeds[0]] = seeds[1] / seeds[1].sum()
        mass = restart
        for _ in range(steps):
            moved = np.float32(follow) * (pull @ mass + stay * mass)
            mass = moved + (1 - moved.sum()) * restart
        return mass


def twenty(mass):
    return set(np.lexsort((np.arange(len(mass)), -mass))[:20].tolist())


def measure(nodes, count, follow):
    links, mentions = entity_passage_graph(nodes)
    rng = np.random.default_rng(2)
    vectors = rng.standard_normal((mentions.shape[0], 64), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    flow = SemanticFlow.from_links(links, mentions, truncated_min_max(abstractness(mentions, vectors)))
    baseline = Reweighting(flow)
    used = np.flatnonzero(np.diff(mentions.tocsc().indptr))
    calls = {
        f"lazy push {kernel} {tolerance:g}": {"kernel": kernel, "tolerance": tolerance}
        for tolerance in (3e-6, 1e-6)
        for kernel in ("numpy", "compiled")
    }
    seconds = {name: [] for name in ("relevance", "reweighting", *calls)}
    same, edges = dict.fromkeys(("reweighting", *calls), 0), dict.fromkeys(calls, 0)
    for query in range(count + 1):
        seeds = entity_seeds(rng, used, mentions)
        scores = vectors @ vectors[query]
        took, relevance = timed(partial(flow.relevance, scores))
        seconds["relevance"].append(took)
        exact = twenty(flow.walk(relevance, seeds, follow_probability=follow, method="power").mass)
        took, mass = timed(partial(baseline.walk, relevance, seeds, follow))
        seconds["reweighting"].append(took)
        same["reweighting"] += twenty(mass) == exact
        for name, options in calls.items():
            took, walk = timed(partial(flow.walk, relevance, seeds, follow_probability=follow, **options))
            seconds[name].append(took)
            same[name] += set(walk.top(20)[0].tolist()) == exact
            edges[name] += walk.edges_scanned
    middle = {name: float(np.median(values[1:])) for name, values in seconds.items()}
    print(f"{nodes} nodes, {len(flow.arrays.indices)} edges, follow probability {follow}, {count + 1} queries")
    print(f"  relevance of the entities, which everyone needs: {1e3 * middle['relevance']:.2f} ms")
    for name in ("reweighting", *calls):
        ratio = middle["reweighting"] / middle[name]
        print(
            f"  {name:24s} {1e3 * middle[name]:8.2f} ms  {ratio:6.1f} x  same 20: {same[name]}/{count + 1}"
            f"  edges {edges.get(name, 0) / (count + 1):.0f}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=10)
    parser.add_argument("--follow", type=float, nargs="+", default=[0.5, 0.7])
    options = parser.parse_args()
    for nodes in options.nodes:
        for follow in options.follow:
            measure(nodes, options.queries, follow)


if __name__ == "__main__":
    main()
