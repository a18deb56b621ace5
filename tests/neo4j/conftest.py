"""A clean database for every test, on the one server of the run, and a server of its own for tests that stop it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from real_servers import Address, clear, skip_or_fail

from phasegraph.neo4j import Neo4jConnection

if TYPE_CHECKING:
    import neo4j
    from outages import SpareServer

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def driver(address: Address) -> Iterator[neo4j.Driver]:
    """A driver of the caller's own, as a user would bring."""
    import neo4j

    opened = neo4j.GraphDatabase.driver(address.uri, auth=address.auth, notifications_min_severity="OFF")
    with opened:
        yield opened


@pytest.fixture
def connection(driver: neo4j.Driver) -> Iterator[Neo4jConnection]:
    """Our connection to a database without nodes, constraints or indexes."""
    clear(driver)
    # A walk that has taken two thirds of this time fetches no more edges, and its order is then another.
    yield Neo4jConnection(driver, timeout=120.0)
    clear(driver)


@pytest.fixture(scope="session")
def one_spare_server() -> Iterator[SpareServer]:
    from neo4j_jars import ServerUnavailable
    from outages import spare_server

    started = spare_server()
    try:
        server = started.__enter__()
    except ServerUnavailable as error:
        skip_or_fail(error, "NEO4J")
    try:
        yield server
        assert server.stop(), "it stops when it is asked to"
    finally:
        started.__exit__(None, None, None)


@pytest.fixture(scope="module")
def spare_server(one_spare_server: SpareServer) -> SpareServer:
    """The second server of the run, emptied: without authentication or plugins, to be killed and frozen."""
    import neo4j

    with neo4j.GraphDatabase.driver(one_spare_server.uri, notifications_min_severity="OFF") as opened:
        clear(opened)
    return one_spare_server
