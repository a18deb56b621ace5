"""Measure how long a graph takes to come out of Neo4j: ``python tests/neo4j/measure_reading.py``.

Each schema is written at full size, read three times and held against the bar: reading and building within three
times what loading our own saved graph (or a saved index) takes, and one second. Processor seconds are this
process's own. For our schema a refresh of ten changed passages is measured too. The server is ``NEO4J_URI``, or
one started for it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "neo4j_server"))

from corpus import lines, records
from foreign_graphs import LIBRARIES, erase, write_as
from neo4j_process import running

from phasegraph.graph import GraphIndex, load_graph, save_graph
from phasegraph.neo4j import (
    GraphRecords,
    Neo4jConnection,
    PassageRecord,
    drop_corpus,
    read_changes,
    read_graph,
    write_graph,
)

CORPUS = "measured"
Answer = TypeVar("Answer")


@contextlib.contextmanager
def connected() -> Iterator[Neo4jConnection]:
    """The caller's server, or our own."""
    own = os.environ.get("NEO4J_URI")
    if own:
        auth = (os.environ.get("NEO4J_USER", "neo4j"), os.environ.get("NEO4J_PASSWORD", ""))
        with Neo4jConnection.connect(own, auth=auth if auth[1] else None, timeout=60.0) as connection:
            yield connection
        return
    with running() as server, Neo4jConnection.connect(server.uri, timeout=60.0) as connection:
        print(f"server up after {server.seconds_to_start:.1f} s, {server.resident_megabytes():.0f} MB resident")
        yield connection
        print(f"server at the end: {server.resident_megabytes():.0f} MB resident")


def timed(work: Callable[[], Answer]) -> tuple[Answer, float, float]:
    """What comes of it, seconds, and processor seconds of this process."""
    began, worked = time.perf_counter(), time.process_time()
    answer = work()
    return answer, time.perf_counter() - began, time.process_time() - worked


def bars_of(made: GraphRecords) -> tuple[float, float]:
    """Three times the loading of what we save ourselves, and a second: of the graph alone, and of a whole index."""
    with tempfile.TemporaryDirectory() as folder:
        save_graph(made.graph(), folder)
        graph = sorted(timed(lambda: load_graph(folder))[1] for _ in range(5))[2]
    triples: dict[str, list[tuple[str, ...]]] = {}
    for row in lines("triples.jsonl"):
        triples.setdefault(row["id"], []).extend(tuple(each) for each in row["triples"] if len(each) == 3)
    with tempfile.TemporaryDirectory() as folder:
        GraphIndex.build(lines("corpus.jsonl"), triples=triples).save(folder)
        index = sorted(timed(lambda: GraphIndex.load(folder))[1] for _ in range(5))[2]
    print(f"loading our own: graph {graph:.3f} s, index with its passages {index:.3f} s")
    return 3 * graph + 1, 3 * index + 1


def measure_reading(
    connection: Neo4jConnection, schema: str, corpus: str | None, bars: tuple[float, float]
) -> GraphRecords:
    """Three readings; the first meets a server that has not seen the statements."""
    for attempt in ("first", "second", "third"):
        back, read, worked = timed(lambda: read_graph(connection, schema, corpus=corpus))
        _, built, more = timed(back.graph)
        verdicts = [f"{'within' if read + built <= bar else 'MISSES'} {bar:.2f} s" for bar in bars]
        print(
            f"{schema}, {attempt}: read {read:.2f} s + graph {built:.2f} s = {read + built:.2f} s, {verdicts[0]} "
            f"(graph) and {verdicts[1]} (index); processor {worked + more:.2f} s here"
        )
    print(f"{schema}: {len(back.passages)} passages, {sum(len(each.facts) for each in back.passages)} facts in them")
    return back


def measure_refresh(connection: Neo4jConnection, before: GraphRecords) -> None:
    """Ten passages get a sentence and lose a fact."""
    graph = before.graph()
    for attempt in ("first", "second"):
        changed = [
            PassageRecord(each.id, each.title, f"{each.text} {attempt}.", each.mentions, each.facts[1:], each.homes)
            for each in before.passages[::189]
        ]
        write_graph(connection, changed, corpus=CORPUS)
        changes, read, _ = timed(lambda: read_changes(connection, corpus=CORPUS, since=int(before.revision or 0)))
        after, merged, _ = timed(lambda found=changes: before.with_changes(found))  # type: ignore[misc]
        updated, built, _ = timed(lambda found=changes: before.update(graph, found))  # type: ignore[misc]
        print(
            f"refresh of {len(changes.changed)}, {attempt}: read {read * 1000:.0f} ms, merge {merged * 1000:.0f} ms, "
            f"update the graph {built * 1000:.0f} ms"
        )
    whole = read_graph(connection, "phasegraph", corpus=CORPUS)
    print(f"equal to a full reading: {after == whole}, {(updated.adjacency != whole.graph().adjacency).nnz == 0}")


def measure(connection: Neo4jConnection, made: tuple[PassageRecord, ...]) -> GraphRecords:
    """Everything about writing and reading; our own corpus stays."""
    print(f"{os.getloadavg()[0]:.1f} processes at work on {os.cpu_count()} processors")
    bars = bars_of(GraphRecords(made))
    drop_corpus(connection, CORPUS, missing_ok=True)
    _, spent, _ = timed(lambda: write_graph(connection, made, corpus=CORPUS))
    print(f"write {len(made)} passages, {sum(len(record.facts) for record in made)} facts: {spent:.2f} s")
    back = measure_reading(connection, "phasegraph", CORPUS, bars)
    print(f"equal to what was written: {back.passages == GraphRecords(made).passages}")
    measure_refresh(connection, back)
    for library in LIBRARIES:
        write_as(connection, library, made)
        measure_reading(connection, library, None, bars)
        erase(connection, library)
    return back


def main() -> None:
    """Alone."""
    with connected() as connection:
        measure(connection, records())
        drop_corpus(connection, CORPUS)


if __name__ == "__main__":
    main()
