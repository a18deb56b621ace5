"""Measure the store on the whole bundled corpus: ``python tests/neo4j/measure.py [questions]``.

Prints how long writing, reading and loading take, and how the walks in Neo4j compare with the one in memory:
passages in common among the first 20, and milliseconds per question. The server is ``NEO4J_URI``, or one
started for the purpose.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "neo4j_server"))

import numpy as np
from corpus import questions, records
from neo4j_process import running

from phasegraph.graph import GraphSource, WalkSettings
from phasegraph.graph.neo4j import GraphRecords, Neo4jConnection, drop_corpus, read_graph, write_graph
from phasegraph.graph.neo4j.gds import drop_projections, has_gds
from phasegraph.graph.neo4j.neighbourhood import FetchSettings
from phasegraph.graph.source.online import Neo4jGraphSource

CORPUS = "measured"


@contextlib.contextmanager
def connected() -> Iterator[Neo4jConnection]:
    """The caller's server, or our own."""
    own = os.environ.get("NEO4J_URI")
    if own:
        auth = (os.environ.get("NEO4J_USER", "neo4j"), os.environ.get("NEO4J_PASSWORD", ""))
        with Neo4jConnection.connect(own, auth=auth if auth[1] else None, deadline=60.0) as connection:
            yield connection
        return
    with running() as server, Neo4jConnection.connect(server.uri, deadline=60.0) as connection:
        print(f"server up after {server.seconds_to_start:.1f} s, {server.resident_megabytes():.0f} MB resident")
        yield connection
        print(f"server at the end: {server.resident_megabytes():.0f} MB resident")


def compare(label: str, online: Neo4jGraphSource, local: GraphSource, asked: list) -> None:
    """Both on every question."""
    common, same, spent = [], 0, []
    for question, ranking in asked:
        began = time.perf_counter()
        found = online.search(question, 20, {"vector": ranking})
        spent.append(time.perf_counter() - began)
        wanted = local.search(question, 20, {"vector": ranking})
        common.append(len({*found.ids} & {*wanted.ids}) / max(len(wanted.ids), 1))
        same += {*found.ids} == {*wanted.ids}
    print(
        f"{label}: the same first 20 in {same} of {len(asked)}, {np.mean(common):.2%} in common (least "
        f"{min(common):.0%}); {np.median(spent) * 1000:.0f} ms median, {np.max(spent) * 1000:.0f} ms most"
    )


def main() -> None:
    """Write, read, walk."""
    asked = questions(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
    made = records()
    with connected() as connection:
        drop_corpus(connection, CORPUS)
        began = time.perf_counter()
        write_graph(connection, made, corpus=CORPUS)
        facts = sum(len(record.facts) for record in made)
        print(f"write {len(made)} passages, {facts} facts: {time.perf_counter() - began:.2f} s")
        for attempt in range(3):
            began = time.perf_counter()
            back = read_graph(connection, "phasegraph", corpus=CORPUS)
            read = time.perf_counter()
            graph = back.graph()
            print(f"read {attempt}: {read - began:.2f} s, build the graph {time.perf_counter() - read:.2f} s")
        print(f"equal to what was written: {back.passages == GraphRecords(made).passages}")
        usual, static = WalkSettings(), WalkSettings(relevance=False)
        for fetch in (FetchSettings(), FetchSettings(4000, 1000, 0.002)):
            online = Neo4jGraphSource(connection, CORPUS, walk=usual, fetch=fetch)
            compare(f"fetched, {fetch.nodes} nodes at most", online, GraphSource(graph, walk=usual), asked)
        if has_gds(connection):
            online = Neo4jGraphSource(connection, CORPUS, method="gds", walk=static)
            online.verify()
            compare("GDS, no relevance", online, GraphSource(graph, walk=static), asked[: max(len(asked) // 10, 1)])
            drop_projections(connection)
        drop_corpus(connection, CORPUS)


if __name__ == "__main__":
    main()
