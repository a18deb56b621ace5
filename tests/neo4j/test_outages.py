"""A real server that is frozen, killed and brought back, and one that must prove who it is."""

import contextlib
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import neo4j
from outages import Client, fill, walk

from phasegraph.errors import StoreError
from phasegraph.neo4j import Neo4jConnection, read_graph

pytestmark = [
    pytest.mark.neo4j,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:source .* times in a row"),
]
SCHEMES = ("bolt", "neo4j")


@pytest.fixture(scope="module")
def server(spare_server):
    fill(spare_server)
    return spare_server


def passages(connection):
    return [record.id for record in read_graph(connection, "phasegraph", corpus="c").passages]


@pytest.mark.parametrize("scheme", ["bolt+ssc", "neo4j+ssc"])
def test_a_certificate_that_nobody_vouches_for_is_taken_where_the_scheme_says_so(server, scheme):
    with Neo4jConnection.connect(server.address(scheme), timeout=20.0) as connection:
        assert passages(connection) == ["v", "w"]


@pytest.mark.parametrize(
    ("scheme", "kind"), [("bolt+s", "^tls: .*does not trust"), ("neo4j+s", "^unreachable: .*certificate")]
)
def test_where_a_trusted_certificate_is_asked_for_another_is_refused_in_time_and_by_name(server, scheme, kind):
    """With routing the driver keeps to itself why no router could be asked, so the message names both reasons."""
    auth = ("neo4j", "s3cret-pw")
    with Neo4jConnection.connect(server.address(scheme), auth=auth, timeout=2.0) as connection:
        began = time.monotonic()
        with pytest.raises(StoreError, match=kind) as caught:
            connection.read("RETURN 1")
        assert time.monotonic() - began < 2.5
    assert "s3cret-pw" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["bolt+s", "neo4j+s"])
def test_a_certificate_of_a_trusted_authority_is_taken(server, scheme, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))
    with Neo4jConnection.connect(server.address(scheme), timeout=20.0) as connection:
        assert passages(connection) == ["v", "w"]


def test_a_callers_own_driver_with_its_own_authority_is_taken(server):
    trusted = neo4j.TrustCustomCAs(str(server.authority))
    with neo4j.GraphDatabase.driver(server.uri, encrypted=True, trusted_certificates=trusted) as own:
        connection = Neo4jConnection(own, database="neo4j", timeout=20.0)
        assert passages(connection) == ["v", "w"]
        connection.close()
        assert own.execute_query("RETURN 1").records[0][0] == 1, "a caller's own driver is left open"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_database_that_is_not_there_is_named_as_missing(server, scheme):
    with (
        Neo4jConnection.connect(server.address(scheme), database="elsewhere", timeout=20.0) as connection,
        pytest.raises(StoreError, match=r"^schema_missing: .*DatabaseNotFound") as caught,
    ):
        connection.read("RETURN 1")
    assert "elsewhere" in str(caught.value)


def test_a_frozen_server_costs_its_own_answers_and_is_asked_again_within_two_intervals(server):
    probe = 1.0
    with Neo4jConnection.connect(server.uri, timeout=2.0) as connection:
        client = Client(connection, probe_interval=probe)
        client.wait(60.0)
        server.freeze()
        frozen = time.monotonic()
        try:
            while time.monotonic() - frozen < 3.0:
                assert not client.ask()
                time.sleep(0.01)
        finally:
            server.thaw()
        assert client.wait(10.0) <= 2 * probe
        after = [client.ask() for _ in range(20)]
    assert sum(after) >= 18, client.reasons[-20:]
    assert (client.lost, client.silent) == (0, 0)


def test_a_server_killed_in_the_middle_of_a_thousand_queries(server):
    """It is back when it has answered a walk to somebody who can wait: planning the first one may take it seconds."""
    probe = 2.0
    with contextlib.ExitStack() as stack:
        opened = [Neo4jConnection.connect(server.address(scheme), timeout=2.0) for scheme in SCHEMES]
        clients = [Client(stack.enter_context(connection), probe_interval=probe) for connection in opened]
        for client in clients:
            client.wait(60.0)
            client.asked = client.answered = 0
        for number in range(350):
            if number == 150:
                server.kill()
            for client in clients:
                client.ask()
        assert all(client.answered >= 147 for client in clients), "before it was killed it answered"
        server.start()
        walk(server)
        returned = time.monotonic()
        for client in clients:
            client.wait(returned + 4 * probe - time.monotonic())
        recovery = time.monotonic() - returned
        for client in clients:
            assert sum(client.ask() for _ in range(150)) >= 147
            assert (client.lost, client.silent) == (0, 0)
        assert sum(client.asked for client in clients) >= 1000
    assert recovery <= 2 * probe
