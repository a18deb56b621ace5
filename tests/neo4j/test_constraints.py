"""What we create in a database is listed and dropped by us, and what only looks like it is left alone."""

import contextlib
import threading

import pytest

from phasegraph.errors import InvalidInputError, StoreError
from phasegraph.neo4j import (
    Neo4jConnection,
    PassageRecord,
    drop_corpus,
    drop_schema,
    list_schema,
    read_graph,
    write_graph,
)
from phasegraph.neo4j.writing import CREATED, SchemaObject, ensure_schema

NAMES = tuple(each.name for each in CREATED)
SMALL = [PassageRecord("a", text="x", mentions=(("ada", 1),))]


@pytest.fixture
def bare(connection):
    """A database without anything of ours, constraints too."""
    drop_schema(connection)
    return connection


@contextlib.contextmanager
def made(driver, create, drop):
    """Something of another's, taken away again."""
    driver.execute_query(create)
    driver.execute_query("CALL db.awaitIndexes(60)")
    try:
        yield
    finally:
        driver.execute_query(drop)


def names(driver):
    return {row[0] for row in driver.execute_query("SHOW INDEXES YIELD name, type WHERE type <> 'LOOKUP'").records}


def test_what_was_created_is_listed_with_kind_and_state_and_dropped_whole(bare, driver):
    assert list_schema(bare) == ()
    ensure_schema(bare)
    assert tuple(each.name for each in list_schema(bare)) == NAMES
    assert {each.state for each in list_schema(bare)} == {"ONLINE"}
    assert list_schema(bare)[0] == SchemaObject(
        "phasegraph_passage", "constraint", "PhasegraphPassage", ("corpus", "id"), "ONLINE"
    )
    assert [each.kind for each in list_schema(bare)] == ["constraint"] * 4 + ["index"]
    assert drop_schema(bare) == NAMES
    assert list_schema(bare) == ()
    assert names(driver) == set()
    assert drop_schema(bare) == ()


def test_a_schema_is_not_dropped_under_a_corpus(bare):
    write_graph(bare, SMALL, corpus="manuals")
    with pytest.raises(InvalidInputError, match=r"while the database contains corpora \('manuals'\): drop the corpora"):
        drop_schema(bare)
    assert len(list_schema(bare)) == len(NAMES)
    assert drop_schema(bare, corpora_may_remain=True) == NAMES
    assert len(read_graph(bare, corpus="manuals").passages) == 1
    write_graph(bare, SMALL, corpus="manuals")
    assert len(list_schema(bare)) == len(NAMES)
    drop_corpus(bare, "manuals")
    assert drop_schema(bare) == NAMES


def test_an_index_of_a_similar_name_is_neither_listed_nor_dropped(bare, driver):
    ensure_schema(bare)
    index = "CREATE INDEX phasegraph_mine FOR (p:PhasegraphPassage) ON (p.title)"
    constraint = "CREATE CONSTRAINT phasegraph_passages FOR (p:Passage) REQUIRE p.id IS UNIQUE"
    with (
        made(driver, index, "DROP INDEX phasegraph_mine"),
        made(driver, constraint, "DROP CONSTRAINT phasegraph_passages"),
    ):
        assert tuple(each.name for each in list_schema(bare)) == NAMES
        drop_schema(bare)
        assert names(driver) == {"phasegraph_mine", "phasegraph_passages"}


def test_another_s_constraint_over_the_same_serves_and_stays(bare, driver):
    create = "CREATE CONSTRAINT mine FOR (p:PhasegraphPassage) REQUIRE (p.corpus, p.id) IS UNIQUE"
    with made(driver, create, "DROP CONSTRAINT mine"):
        write_graph(bare, SMALL, corpus="c")
        assert tuple(each.name for each in list_schema(bare)) == NAMES[1:]
        drop_schema(bare, corpora_may_remain=True)
        assert names(driver) == {"mine"}


def test_another_s_index_where_a_constraint_belongs_is_named(bare, driver):
    create = "CREATE INDEX mine FOR (p:PhasegraphPassage) ON (p.corpus, p.id)"
    with (
        made(driver, create, "DROP INDEX mine"),
        pytest.raises(StoreError, match=r"^conflict: .* phasegraph_passage .*'mine'.* drop that index\. Write again"),
    ):
        write_graph(bare, SMALL, corpus="c")


@pytest.mark.parametrize(
    ("create", "drop", "kind"),
    [
        (
            "CREATE CONSTRAINT phasegraph_entity FOR (p:Other) REQUIRE p.id IS UNIQUE",
            "DROP CONSTRAINT phasegraph_entity",
            "constraint",
        ),
        ("CREATE INDEX phasegraph_entity FOR (p:Other) ON (p.id)", "DROP INDEX phasegraph_entity", "index"),
    ],
)
def test_a_name_of_ours_that_another_has_taken_is_said_and_never_dropped(bare, driver, create, drop, kind):
    with made(driver, create, drop):
        with pytest.raises(StoreError, match=f"conflict: .* phasegraph_entity .* another {kind} has that name"):
            ensure_schema(bare)
        assert "phasegraph_entity" not in {each.name for each in list_schema(bare)}
        drop_schema(bare)
        assert names(driver) == {"phasegraph_entity"}


def test_several_writers_may_create_it_at_once(bare, driver):
    failures = []

    def create():
        try:
            ensure_schema(Neo4jConnection(driver, timeout=60.0))
        except StoreError as error:
            failures.append(error)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    assert len(list_schema(bare)) == len(NAMES)
