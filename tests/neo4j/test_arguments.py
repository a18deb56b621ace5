"""What a connection, a source and the doors of the store say of arguments that are none."""

import asyncio

import neo4j
import pytest

from phasegraph.errors import InvalidTypeError, StoreError
from phasegraph.graph import build_graph
from phasegraph.neo4j import Neo4jConnection, Neo4jGraphSource, read_graph, write_graph


def test_an_address_is_no_driver():
    with pytest.raises(InvalidTypeError, match=r"driver must be a neo4j.Driver; got str: .*connect"):
        Neo4jConnection("bolt://localhost")


def test_an_asynchronous_driver_is_refused_before_anything_is_asked():
    driver = neo4j.AsyncGraphDatabase.driver("bolt://127.0.0.1:9")
    with pytest.raises(InvalidTypeError, match=r"synchronous neo4j\.Driver; got AsyncBoltDriver"):
        Neo4jConnection(driver)
    asyncio.run(driver.close())


@pytest.mark.parametrize("door", [lambda given: Neo4jGraphSource(given, "c"), read_graph])
def test_a_driver_or_an_address_in_place_of_a_connection_is_named(door):
    with neo4j.GraphDatabase.driver("bolt://127.0.0.1:9") as driver:
        for given in (driver, "bolt://127.0.0.1:9"):
            with pytest.raises(
                InvalidTypeError, match=f"connection must be a Neo4jConnection; got {type(given).__name__}"
            ):
                door(given)


def test_a_graph_in_place_of_records_is_named():
    graph = build_graph([{"id": "a", "text": "Ada met Bo."}])
    with (
        Neo4jConnection.connect("bolt://127.0.0.1:9") as connection,
        pytest.raises(InvalidTypeError, match=r"passages must be a list of PassageRecord objects; got EntityGraph"),
    ):
        write_graph(connection, graph, corpus="c")


@pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
def test_a_host_that_is_unknown_is_unreachable_and_not_repeated(scheme):
    with (
        Neo4jConnection.connect(f"{scheme}://nowhere.invalid", timeout=1.0) as connection,
        pytest.raises(StoreError, match=r"^unreachable: ") as caught,
    ):
        connection.read("RETURN 1")
    assert "nowhere" not in str(caught.value)


def test_loading_from_a_wrong_address_gives_up_long_before_the_time_for_loading(monkeypatch):

    monkeypatch.setattr("phasegraph.neo4j.transactions.LONGEST_TRYING", 0.5)
    tried = []
    with Neo4jConnection.connect("bolt://127.0.0.1:9") as connection:
        session = connection._transactions.driver.session
        monkeypatch.setattr(
            connection._transactions.driver, "session", lambda **each: tried.append(1) or session(**each)
        )
        with pytest.raises(StoreError, match=r"^unreachable: "):
            read_graph(connection, "phasegraph", corpus="c")
    assert len(tried) <= 2
