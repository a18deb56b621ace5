"""Measure fetched walks on the whole bundled corpus: ``python tests/neo4j/measure_walk.py [questions]``.

Against the walk in memory: passages in common, milliseconds, statements and nodes fetched per question, with
nothing kept between questions (cold), kept from question to question, and all asked before (warm). The server is
``NEO4J_URI``, or one started for the purpose.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from corpus import questions, records
from measure import connected

from phasegraph.graph import GraphSource
from phasegraph.neo4j import GraphRecords, Neo4jGraphSource, drop_corpus, write_graph

CORPUS = "walked"


class Counting:
    """A connection that counts what is asked."""

    def __init__(self, connection: Any) -> None:
        self.connection, self.timeout, self.statements, self.nodes = connection, connection.timeout, 0, 0

    def read(self, statement: str, parameters: dict[str, Any], **named: Any) -> Any:
        """Pass on."""
        self.statements += 1
        if "most_common" in parameters:
            self.nodes += len(parameters["passages"]) + len(parameters["entities"])
        return self.connection.read(statement, parameters, **named)


def go(label: str, wire: Counting, make: Callable[[], Neo4jGraphSource], asked: list[Any], wanted: list[Any]) -> None:
    """Ask all, and print how it went."""
    same, ordered, spent, statements, nodes = 0, 0, [], [], []
    for (question, ranking), right in zip(asked, wanted, strict=True):
        source, wire.statements, wire.nodes = make(), 0, 0
        began = time.perf_counter()
        found = source.search(question, 20, {"vector": ranking})
        spent.append(1000 * (time.perf_counter() - began))
        statements.append(wire.statements)
        nodes.append(wire.nodes)
        same += {*found.ids} == {*right}
        ordered += found.ids == right
    print(f"{label}: the same first 20 in {same} of {len(asked)}, in order in {ordered}")
    for what, values in (("ms", spent), ("statements", statements), ("nodes fetched", nodes)):
        print(f"  {what}: {np.median(values):.0f} median, {np.max(values):.0f} most")


def main() -> None:
    """Write, walk, drop."""
    asked = questions(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
    made = records()
    local = GraphSource(GraphRecords(made).graph(), words=None).prepare()
    began = time.perf_counter()
    wanted = [local.search(question, 20, {"vector": ranking}).ids for question, ranking in asked]
    print(f"in memory: {1000 * (time.perf_counter() - began) / len(asked):.1f} ms a question")
    with connected() as connection:
        drop_corpus(connection, CORPUS, missing_ok=True)
        write_graph(connection, made, corpus=CORPUS)
        wire: Any = Counting(connection)
        Neo4jGraphSource(wire, CORPUS).search(asked[0][0], 20, {"vector": asked[0][1]})
        go("cold", wire, lambda: Neo4jGraphSource(wire, CORPUS), asked, wanted)
        one = Neo4jGraphSource(wire, CORPUS)
        go("kept from question to question", wire, lambda: one, asked, wanted)
        go("all asked before", wire, lambda: one, asked, wanted)
        drop_corpus(connection, CORPUS)


if __name__ == "__main__":
    main()
