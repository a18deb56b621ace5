"""A real server that is killed or frozen while a corpus is written to it, changed and dropped."""

import contextlib
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from phasegraph.errors import StoreError
from phasegraph.neo4j import (
    Neo4jConnection,
    PassageRecord,
    drop_corpus,
    list_corpora,
    read_graph,
    remove_passages,
    write_graph,
    write_synonyms,
)

pytestmark = [pytest.mark.neo4j, pytest.mark.timeout(600)]
COUNT = "MATCH (p:`PhasegraphPassage` {corpus: 'c'}) RETURN count(p)"
NAMES = [f"name {number}" for number in range(40)]


def records(word, count=300):
    return [
        PassageRecord(
            f"p{number}", f"Page {number}", f"Page {number} {word}.",
            tuple((NAMES[(number * step) % 40], step) for step in (1, 3, 7) if number % 40),
            homes=((NAMES[number % 40], 2),) if number % 40 else (),
            facts=((NAMES[number % 40], word, NAMES[number % 7], 1),),
        )
        for number in range(count)
    ]  # fmt: skip


def held(connection, corpus="c"):
    return {one.id: one for one in read_graph(connection, "phasegraph", corpus=corpus).passages}


@contextlib.contextmanager
def connected(server, scheme="bolt"):
    with Neo4jConnection.connect(server.address(scheme), timeout=60.0) as connection:
        yield connection


def interrupted(server, scheme, change, outage, begun):
    """Make a change in a thread, and have an outage as soon as it has begun; what the change raised, or None."""
    found = []

    def run():
        with connected(server, scheme) as connection:
            try:
                change(connection)
                found.append(None)
            except StoreError as error:
                found.append(error)

    writer = threading.Thread(target=run)
    with connected(server) as watcher:
        writer.start()
        while writer.is_alive() and not begun(watcher.read(COUNT)[0][0]):
            pass
    outage(server)
    writer.join()
    assert len(found) == 1, "a change ends, or raises a StoreError"
    return found[0]


def kill(server):
    server.kill()
    server.start()


def freeze(server):
    server.freeze()
    threading.Event().wait(3.0)
    server.thaw()


@pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
@pytest.mark.parametrize("outage", [kill, freeze])
def test_a_change_that_an_outage_interrupts_is_resumed_when_it_is_made_again(spare_server, scheme, outage):
    """Each passage is there as it was, as it is to be, or not at all; the same call completes the change."""
    old, new = records("met"), records("saw", 400)
    by_id = {"old": {one.id: one for one in old}, "new": {one.id: one for one in new}}
    with connected(spare_server) as connection:
        for corpus in list_corpora(connection):
            drop_corpus(connection, corpus)
        write_graph(connection, old, corpus="old")
        write_graph(connection, new, corpus="new")
        write_graph(connection, new[50:], corpus="less")
        whole = {name: held(connection, name) for name in ("old", "new", "less")}
    states = {}

    def put(connection):
        return write_graph(connection, old, corpus="c", batch=3)

    def change(connection):
        return write_graph(connection, new, corpus="c", batch=3, replace=True)

    def remove(connection):
        return remove_passages(connection, [f"p{number}" for number in range(50)], corpus="c", batch=1)

    for name, step, begun, before, after in (
        ("put", put, lambda count: count > 20, {}, whole["old"]),
        ("change", change, lambda count: count > 300, whole["old"], whole["new"]),
        ("remove", remove, lambda count: count < 395, whole["new"], whole["less"]),
    ):
        states[name] = interrupted(spare_server, scheme, step, outage, begun)
        with connected(spare_server, scheme) as connection:
            there = held(connection)
            assert all(one in (before.get(key), after.get(key)) for key, one in there.items()), name
            assert there.keys() >= before.keys() & after.keys(), name
            step(connection)
            assert held(connection) == after, name
    assert by_id["new"].keys() >= by_id["old"].keys()
    pairs = {(NAMES[1], NAMES[2]): 0.9}
    failed = interrupted(spare_server, scheme, lambda one: write_synonyms(one, pairs, corpus="c"), outage, bool)
    with connected(spare_server, scheme) as connection:
        if failed:
            write_synonyms(connection, pairs, corpus="c")
        assert held(connection) == whole["less"]
    interrupted(spare_server, scheme, lambda one: drop_corpus(one, "c"), outage, lambda count: True)
    with connected(spare_server, scheme) as connection:
        drop_corpus(connection, "c")
        assert list_corpora(connection) == ("less", "new", "old")
        assert connection.read(COUNT)[0][0] == 0
        assert held(connection, "new") == whole["new"]
