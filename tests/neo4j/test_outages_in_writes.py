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
COUNT = "MATCH (p:`PhasegraphPassage` {corpus: $corpus}) RETURN count(p)"
SCHEMES = ("bolt", "neo4j")
NAMES = [f"name {number}" for number in range(40)]


def records(word, count):
    return [
        PassageRecord(
            f"p{number}", f"Page {number}", f"Page {number} {word}.",
            tuple((NAMES[(number * step) % 40], step) for step in (1, 3, 7) if number % 40),
            homes=((NAMES[number % 40], 2),) if number % 40 else (),
            facts=((NAMES[number % 40], word, NAMES[number % 7], 1),),
        )
        for number in range(count)
    ]  # fmt: skip


OLD, NEW = records("met", 150), records("saw", 200)


def held(connection, corpus):
    return {one.id: one for one in read_graph(connection, "phasegraph", corpus=corpus).passages}


@contextlib.contextmanager
def connected(server, scheme="bolt"):
    with Neo4jConnection.connect(server.address(scheme), timeout=60.0) as connection:
        yield connection


class Change:
    """A change of a corpus of its own; `begun(count)` is True when `count` passages mean that the change has begun."""

    def __init__(self, name, scheme, make, before, after, begun):
        self.corpus, self.scheme = f"{name} by {scheme}", scheme
        self.make, self.before, self.after, self.begun = make, before, after, begun
        self.found = []

    def run(self, server):
        """Make the change; keep the error that it raises, or None."""
        with connected(server, self.scheme) as connection:
            try:
                self.make(connection, self.corpus)
                self.found.append(None)
            except StoreError as error:
                self.found.append(error)

    def has_begun(self, connection):
        count = connection.read(COUNT, {"corpus": self.corpus})[0][0]
        return bool(self.found) or self.begun(count)


def interrupt(server, changes, outage):
    """Make all changes in threads, and have an outage as soon as each of them has begun."""
    writers = [threading.Thread(target=one.run, args=(server,)) for one in changes]
    with connected(server) as watcher:
        for one in writers:
            one.start()
        for one in changes:
            while not one.has_begun(watcher):
                pass
    outage(server)
    for one in writers:
        one.join()
    assert [len(one.found) for one in changes] == [1] * len(changes), "a change ends, or raises a StoreError"


def kill(server):
    server.kill()
    server.start()


def freeze(server):
    server.freeze()
    threading.Event().wait(3.0)
    server.thaw()


def put(connection, corpus):
    return write_graph(connection, OLD, corpus=corpus, batch=3)


def change(connection, corpus):
    return write_graph(connection, NEW, corpus=corpus, batch=3, replace=True)


def remove(connection, corpus):
    return remove_passages(connection, [f"p{number}" for number in range(50)], corpus=corpus, batch=1)


def link(connection, corpus):
    return write_synonyms(connection, {(NAMES[1], NAMES[2]): 0.9}, corpus=corpus)


def drop(connection, corpus):
    return drop_corpus(connection, corpus, missing_ok=True)


@pytest.mark.parametrize("outage", [kill, freeze])
def test_a_change_that_an_outage_interrupts_is_resumed_when_it_is_made_again(spare_server, outage):
    """Each passage is there as it was, as it is to be, or not at all; the same call completes the change."""
    with connected(spare_server) as connection:
        for corpus in list_corpora(connection):
            drop_corpus(connection, corpus)
        for name, given in (("old", OLD), ("new", NEW), ("less", NEW[50:])):
            write_graph(connection, given, corpus=name)
        old, new, less = (held(connection, name) for name in ("old", "new", "less"))
        changes = [
            Change(name, scheme, make, before, after, begun)
            for scheme in SCHEMES
            for name, make, before, after, begun in (
                ("put", put, {}, old, lambda count: count > 20),
                ("change", change, old, new, lambda count: count > len(OLD)),
                ("remove", remove, new, less, lambda count: count < len(NEW) - 5),
                ("link", link, less, less, bool),
                ("drop", drop, new, {}, lambda count: True),
            )
        ]
        for one in changes:
            if one.before:
                source = {id(old): OLD, id(new): NEW, id(less): NEW[50:]}[id(one.before)]
                write_graph(connection, source, corpus=one.corpus)
    interrupt(spare_server, changes, outage)
    for one in changes:
        before, after = one.before, one.after
        with connected(spare_server, one.scheme) as connection:
            there = held(connection, one.corpus) if one.corpus in list_corpora(connection) else {}
            assert all(value in (before.get(key), after.get(key)) for key, value in there.items()), one.corpus
            assert there.keys() >= before.keys() & after.keys(), one.corpus
            resumed = one.make(connection, one.corpus)
            if one.make is put:
                assert (resumed.unchanged, resumed.written) == (len(there), len(OLD) - len(there))
            assert held(connection, one.corpus) == after if after else one.corpus not in list_corpora(connection)
            assert connection.read(COUNT, {"corpus": one.corpus})[0][0] == len(after), one.corpus
            assert held(connection, "new") == new
