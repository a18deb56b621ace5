"""Measure Recall and LastHop of vectors and of the walk, on data sets.

    python tools/benchmarks/graph_quality.py FOLDER… [--strip-titles] [--no-embedder] [--no-triples] [--limit 50]

Both lists have the same length. The walk receives the first `--handed` hits of the vectors.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np

from phasegraph._support.ordering import top_order
from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.evaluation.measures import last_hop, recall
from phasegraph.graph import GraphSource, build_graph
from phasegraph.ranking import Ranking


def measures(ranked: list[tuple[str, ...]], data: Dataset) -> dict[str, float]:
    """Return Recall@5, Recall@10 and LastHop@10 of the ranked ids of every query, in percent."""
    row = {}
    for k in (5, 10):
        pairs = zip(ranked, data.judgements, strict=True)
        row[f"Recall@{k}"] = 100 * float(np.mean([recall(ids, judgement, k) for ids, judgement in pairs]))
    last = [last_hop(ids, judgement, 10) for ids, judgement in zip(ranked, data.judgements, strict=True)]
    known = [value for value in last if value is not None]
    row["LastHop@10"] = 100 * float(np.mean(known)) if known else float("nan")
    return row


def main() -> None:
    """Measure vectors and the walk on the data sets that the command line names, and print the measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--limit", type=int, default=50, help="hits of both lists")
    parser.add_argument("--handed", type=int, default=None, help="hits handed to the walk; default all")
    parser.add_argument("--strip-titles", action="store_true")
    parser.add_argument("--no-embedder", action="store_true", help="the walk sees the handed ranking only")
    parser.add_argument("--no-triples", action="store_true")
    parser.add_argument("--no-words", action="store_true", help="the words of the query do not count")
    parser.add_argument("--names-only", action="store_true", help="no ranking handed over")
    options = parser.parse_args()
    for folder in options.folders:
        data = load_dataset(folder)
        if options.strip_titles:
            data = replace(data, passages=tuple(replace(passage, title="") for passage in data.passages))
        report(data, options)


def report(data: Dataset, options: argparse.Namespace) -> None:
    """Build the graph of a data set, and print one line of measures for the vectors and one for the walk."""
    started = perf_counter()
    triples = None if options.no_triples else data.triples
    graph = build_graph(data.passages, triples=triples, embeddings=data.passage_vectors)
    building = perf_counter() - started
    vectors = {query.text: data.query_vectors[row] for row, query in enumerate(data.queries)}
    if options.no_words:
        graph = replace(graph, lexical=None)
    source = GraphSource(graph, embedder=None if options.no_embedder else vectors.__getitem__)
    ids = [passage.id for passage in data.passages]
    dense: list[tuple[str, ...]] = []
    walked: list[tuple[str, ...]] = []
    spent = 0.0
    for row, query in enumerate(data.queries):
        scores = (data.passage_vectors @ data.query_vectors[row]).astype(np.float64)
        best = top_order(scores, ids, options.limit)
        ranking = Ranking("vector", [ids[place] for place in best.tolist()], scores[best])
        dense.append(tuple(ranking.ids))
        handed = ranking
        if options.handed is not None:
            handed = Ranking("vector", ranking.ids[: options.handed], ranking.scores[: options.handed])
        started = perf_counter()
        answer = source.search(query.text, options.limit, {} if options.names_only else {"vector": handed})
        spent += perf_counter() - started
        walked.append(tuple(answer.ids))
    speed = f"{len(ids) / building:6.0f} passages/s, {1000 * spent / len(walked):6.1f} ms/query"
    for name, ranked in (("vector", dense), ("graph", walked)):
        row_text = "  ".join(f"{measure} {value:5.1f}" for measure, value in measures(ranked, data).items())
        print(f"{data.name:16} {name:7} {row_text}  {speed if name == 'graph' else ''}", flush=True)


if __name__ == "__main__":
    main()
