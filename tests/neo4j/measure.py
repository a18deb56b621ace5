"""Measure the store on the whole bundled corpus: ``python tests/neo4j/measure.py [questions]``.

Prints how long writing, reading and loading take (``measure_reading.py`` alone does that too), and how the walks in
Neo4j compare with the one in memory: passages in common among the first 20, and milliseconds per question. The
server is ``NEO4J_URI``, or one started for the purpose.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from corpus import questions, records
from measure_reading import CORPUS, connected, measure

from phasegraph.graph import GraphSource, WalkSettings
from phasegraph.graph.neo4j import drop_corpus, write_graph
from phasegraph.graph.neo4j.gds import drop_projections, has_gds
from phasegraph.graph.neo4j.neighbourhood import FetchSettings
from phasegraph.graph.source.online import Neo4jGraphSource


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
    with connected() as connection:
        graph = measure(connection, records()).graph()
        write_graph(connection, records(), corpus=CORPUS)
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
