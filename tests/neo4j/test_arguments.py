"""What a connection, a source and the doors of the store say of arguments that are none."""

import asyncio
import re
import ssl

import neo4j
import pytest

from phasegraph.errors import InvalidInputError, InvalidTypeError, StoreError
from phasegraph.graph import build_graph
from phasegraph.graph.model.entity_graph import Extraction
from phasegraph.neo4j import (
    GraphRecords,
    GraphSchema,
    Neo4jConnection,
    Neo4jGraphSource,
    open_graph,
    read_graph,
    records_from_extractions,
    write_graph,
)
from phasegraph.neo4j.errors import translated


def test_an_address_is_no_driver():
    with pytest.raises(InvalidTypeError, match=r"driver must be a neo4j.Driver; got str: .*connect"):
        Neo4jConnection("bolt://localhost")


def test_an_asynchronous_driver_is_refused_before_anything_is_asked():
    driver = neo4j.AsyncGraphDatabase.driver("bolt://127.0.0.1:9")
    with pytest.raises(InvalidTypeError, match=r"synchronous neo4j\.Driver; got AsyncBoltDriver"):
        Neo4jConnection(driver)
    asyncio.run(driver.close())


@pytest.mark.parametrize("door", [lambda given: Neo4jGraphSource(given, "c"), read_graph, open_graph])
def test_a_driver_or_an_address_in_place_of_a_connection_is_named(door):
    with neo4j.GraphDatabase.driver("bolt://127.0.0.1:9") as driver:
        for given in (driver, "bolt://127.0.0.1:9"):
            with pytest.raises(
                InvalidTypeError, match=rf"got {type(given).__name__} \(.*for a driver, Neo4jConnection\(driver\)"
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


@pytest.mark.parametrize("field", ["id_keys", "name_keys", "title_keys"])
def test_a_single_text_is_no_list_of_keys(field):
    with pytest.raises(InvalidTypeError, match=f"{field} must be a list, not a string; got 'nr'"):
        GraphSchema("ours", "Absatz", "Ding", "NENNT", **{field: "nr"})
    assert getattr(GraphSchema("ours", "Absatz", "Ding", "NENNT", **{field: ["nr"]}), field) == ("nr",)


def test_several_labels_are_refused_where_the_schema_is_made():
    with pytest.raises(InvalidTypeError, match="entity_label must be a str; got tuple"):
        GraphSchema("ours", "Absatz", ("Firma", "Person"), "NENNT")


@pytest.mark.parametrize("port", ["abc", "99999"])
def test_a_port_that_is_none_is_refused_at_once(port):
    with pytest.raises(InvalidInputError, match="its host or port is malformed"):
        Neo4jConnection.connect(f"bolt://localhost:{port}")


def test_records_as_read_in_place_of_their_passages_are_named():
    with (
        Neo4jConnection.connect("bolt://127.0.0.1:9") as connection,
        pytest.raises(InvalidTypeError, match="got GraphRecords: give its passages"),
    ):
        write_graph(connection, GraphRecords(()), corpus="c")


def test_what_is_no_extraction_is_named():
    for given in (["p"], [(Extraction("p", ["ada"]),)]):
        with pytest.raises(InvalidTypeError, match="extractions must contain only Extraction objects; got"):
            records_from_extractions([{"id": "p", "text": "Ada"}], given)


@pytest.mark.parametrize(
    ("cause", "told"),
    [(ssl.SSLEOFError("eof"), "use bolt://"), (ssl.SSLCertVerificationError("who"), "does not trust")],
)
def test_a_server_without_encryption_is_told_from_one_with_an_unknown_certificate(cause, told):
    error = neo4j.exceptions.ServiceUnavailable("no connection")
    error.__cause__ = cause
    assert re.match(f"tls: .*{told}", str(translated(error, 2.0)))
