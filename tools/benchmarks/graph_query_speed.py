"""Compare the time of a search by the default graph source with igraph's personalized PageRank over the same edges.

    OMP_NUM_THREADS=1 python tools/benchmarks/graph_query_speed.py FOLDER… [--queries 200]

igraph receives a prepared reset vector and returns masses. A search of the graph source finds the names in the query,
weights the edges by the similarity of the passages, and walks. Then it computes scores, and ranks. The two walks
differ, so their lists are not compared. The answers of the graph source's two kernels must be equal. Times are medians
over the queries, in milliseconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import igraph
import numpy as np

from phasegraph._support.ordering import top_order
from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.graph import EntityGraph, GraphSource, WalkSettings, build_graph
from phasegraph.graph.walk.linking import link
from phasegraph.ranking import Ranking


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Call a function; return the milliseconds that it took, and its return value."""
    started = perf_counter()
    value = function()
    return 1000 * (perf_counter() - started), value


def handed(data: Dataset, row: int, limit: int = 50) -> Ranking:
    """Return the first `limit` hits of the ranking by vectors that the graph source gets for query number `row`."""
    scores = (data.passage_vectors @ data.query_vectors[row]).astype(np.float64)
    ids = [passage.id for passage in data.passages]
    best = top_order(scores, ids, limit)
    return Ranking("vector", [ids[place] for place in best.tolist()], scores[best])


def peer(graph: EntityGraph) -> Callable[[np.ndarray], list[float]]:
    """Return a function from a reset vector to the masses of igraph's walk over the graph's edges.

    The walk has the follow probability of the default.
    """
    edges = graph.adjacency.tocoo()
    walked = igraph.Graph(
        n=graph.size, edges=np.column_stack(edges.coords).tolist(), directed=True, edge_attrs={"weight": edges.data}
    )
    follow = WalkSettings().follow_probability
    return lambda reset: walked.personalized_pagerank(
        damping=follow, reset=reset.tolist(), weights="weight", directed=True, implementation="prpack"
    )


def report(data: Dataset, count: int) -> None:
    """Measure searches of a data set, and print a line of milliseconds for igraph and each kernel."""
    graph = build_graph(data.passages, triples=data.triples, embeddings=data.passage_vectors)
    vectors = {query.text: data.query_vectors[row] for row, query in enumerate(data.queries)}
    source = GraphSource(graph, embedder=vectors.__getitem__)
    plain = replace(source, walk=replace(source.walk, kernel="numpy"))
    walk = peer(graph)
    seconds: dict[str, list[float]] = {"igraph": [], "search, numpy": [], "search": []}
    for row, query in enumerate(data.queries[: count + 1]):
        ranking = handed(data, row)
        seeds = link(graph, query.text, ranking)
        reset = np.zeros(graph.size)
        reset[seeds.nodes] = seeds.masses
        answers = []
        for name, one in (("search, numpy", plain), ("search", source)):
            took, answer = timed(partial(one.search, query.text, 50, {"vector": ranking}))
            seconds[name].append(took)
            answers.append((answer.ids, answer.scores.tobytes(), answer.background))
        if answers[0] != answers[1]:
            raise SystemExit(f"{data.name}: the kernels differ for query {query.id}")
        seconds["igraph"].append(timed(partial(walk, reset))[0])
    print(f"{data.name}: {graph.size} nodes, {graph.adjacency.nnz} edges, {len(seconds['search']) - 1} queries")
    middle = {name: float(np.median(values[1:])) for name, values in seconds.items()}
    for name, value in middle.items():
        print(f"  {name:14} {value:8.2f} ms   igraph / this {middle['igraph'] / value:6.1f}", flush=True)


def main() -> None:
    """Measure searches of the data sets that the command line names, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--queries", type=int, default=200)
    options = parser.parse_args()
    for folder in options.folders:
        report(load_dataset(folder), options.queries)


if __name__ == "__main__":
    main()
