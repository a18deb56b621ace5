"""Measure the store on the whole bundled corpus: ``python tests/neo4j/measure.py [questions]``.

Prints how long writing, reading and loading take (``measure_reading.py`` alone does that too), and how the walks in
Neo4j compare with the one in memory: passages in common among the first 20, and milliseconds per question. The
server is ``NEO4J_URI``, or one started for the purpose.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from corpus import questions, records
from measure_reading import CORPUS, connected, measure

from phasegraph.graph import GraphSource, WalkSettings
from phasegraph.neo4j import Neo4jGraphSource, drop_corpus, write_graph
from phasegraph.neo4j.gds import drop_projections, has_gds


def compare(label: str, online: Neo4jGraphSource, beside: dict[str, GraphSource], asked: list) -> None:
    """The walk in Neo4j on every question, and the walks in memory beside it."""
    found, spent = [], []
    for question, ranking in asked:
        began = time.perf_counter()
        found.append(online.search(question, 20, {"vector": ranking}))
        spent.append(time.perf_counter() - began)
    print(f"{label}: {np.median(spent) * 1000:.0f} ms median, {np.max(spent) * 1000:.0f} ms most")
    for name, local in beside.items():
        wanted = [local.search(question, 20, {"vector": ranking}) for question, ranking in asked]
        pairs = list(zip(found, wanted, strict=True))
        same = sum({*one.ids} == {*other.ids} for one, other in pairs)
        common = [len({*one.ids} & {*other.ids}) / max(len(other.ids), 1) for one, other in pairs]
        print(
            f"  the same first 20 as {name}: {same} of {len(asked)}, in order {sum(a.ids == b.ids for a, b in pairs)}; "
            f"{np.mean(common):.2%} in common, least {min(common):.0%}"
        )


def main() -> None:
    """Write, read, walk."""
    asked = questions(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
    with connected() as connection:
        graph = measure(connection, records()).graph()
        write_graph(connection, records(), corpus=CORPUS)
        compare("fetched", Neo4jGraphSource(connection, CORPUS), {"in memory": GraphSource(graph)}, asked)
        if has_gds(connection):
            static = WalkSettings(relevance=False)
            online = Neo4jGraphSource(connection, CORPUS, method="gds", walk=static)
            online.verify()
            local = {
                f"in memory to {tolerance:g}": GraphSource(graph, walk=replace(static, tolerance=tolerance), words=None)
                for tolerance in (1e-9, static.tolerance)
            }
            compare("GDS, no relevance", online, local, asked)
            drop_projections(connection)
        drop_corpus(connection, CORPUS)


if __name__ == "__main__":
    main()
