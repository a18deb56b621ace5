"""Compare `SemFlowSource` with the system `semflow` of `evaluate`; no model filters the facts.

    OMP_NUM_THREADS=1 python tools/benchmarks/semflow_quality.py data/musique-openie

The folder needs triples and their embeddings. The system `semflow` walks over a graph of the triples alone, as in the
paper. `SemFlowSource` walks over an `EntityGraph`, which contains the triples alone, or also the names that rules find.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from graph_quality import measures

from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.evaluation.published_walks import FlowWalk, ranking_of_masses
from phasegraph.evaluation.triple_facts import load_facts
from phasegraph.graph import Extraction, SemFlowSource, build_graph, graph_from_extractions
from phasegraph.graph.walk.facts import FactIndex
from phasegraph.ranking import Ranking


def report(data: Dataset, label: str, search: Callable[[int], Ranking]) -> None:
    """Search all queries of a data set, and print one line with `label` and the measures."""
    row = measures([tuple(search(number).ids) for number in range(len(data.queries))], data)
    print(f"{label:28}", "  ".join(f"{name} {value:5.1f}" for name, value in row.items()), flush=True)


def main() -> None:
    """Measure both implementations of SemFlowRAG's walk on a data set, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    data = load_dataset(parser.parse_args().folder)
    facts, walk = load_facts(data), FlowWalk(data)
    report(data, "semflow of evaluate", lambda row: ranking_of_masses("semflow", data, walk.masses(row), 50))
    named = [(facts.entities[one], "", facts.entities[other]) for one, other in facts.pairs.tolist()]
    stated = [Extraction(name, triples=each) for name, each in (data.triples or {}).items()]
    ids, vectors = [passage.id for passage in data.passages], data.passage_vectors
    graphs = {
        "triples": graph_from_extractions(ids, stated, embeddings=vectors),
        "rules and triples": build_graph(data.passages, triples=data.triples, embeddings=vectors),
    }
    embedded = {query.text: vector for query, vector in zip(data.queries, data.query_vectors, strict=True)}
    for label, graph in graphs.items():
        index = FactIndex.of(graph, named, facts.vectors)
        for parameters in ("paper", "released"):
            source = SemFlowSource(graph, index, embedded.__getitem__, parameters)
            report(
                data,
                f"{label}, {parameters}",
                lambda row, source=source: source.search(data.queries[row].text, 50, {}),
            )


if __name__ == "__main__":
    main()
