"""One real server for the whole run, and a clean database for every test.

The server is the caller's own where ``NEO4J_URI`` is set (with ``NEO4J_USER`` and ``NEO4J_PASSWORD``), else
one started from Maven Central's jars. Where neither is to be had these tests skip and say why; with
``PHASEGRAPH_REQUIRE_NEO4J=1`` that is a failure.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "neo4j_server"))

neo4j = pytest.importorskip("neo4j", reason="the Neo4j driver is not installed")

from neo4j_jars import ServerUnavailable  # noqa: E402
from neo4j_process import Neo4jProcess, running  # noqa: E402

from phasegraph.graph.neo4j import Neo4jConnection  # noqa: E402


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for a server is marked, so that ``-m "not neo4j"`` leaves it out; the first one waits for Maven."""
    for item in items:
        if {"address", "spare_server"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.neo4j)
            item.add_marker(pytest.mark.timeout(600))


@dataclass(frozen=True)
class Address:
    """Where the server is and how to get in."""

    uri: str
    user: str
    password: str

    @property
    def auth(self) -> tuple[str, str] | None:
        return (self.user, self.password) if self.password else None


def unavailable(reason: str) -> None:
    """Skip, or fail where the tests are required."""
    if os.environ.get("PHASEGRAPH_REQUIRE_NEO4J") == "1":
        pytest.fail(f"these tests are required here: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def address() -> Iterator[Address]:
    """A server with authentication on and a password nobody knows beforehand."""
    own = os.environ.get("NEO4J_URI")
    if own:
        given = Address(own, os.environ.get("NEO4J_USER", "neo4j"), os.environ.get("NEO4J_PASSWORD", ""))
        with neo4j.GraphDatabase.driver(given.uri, auth=given.auth) as driver:
            nodes = driver.execute_query("MATCH (n) RETURN count(n)").records[0][0]
        if nodes:
            unavailable(
                f"NEO4J_URI must name an empty database, which the tests fill and clear; it holds {nodes} nodes"
            )
        yield given
        return
    try:
        started = running(password=secrets.token_urlsafe(12))
        server = started.__enter__()
    except ServerUnavailable as error:
        unavailable(str(error))
        return
    try:
        yield Address(server.uri, "neo4j", server.password)
    finally:
        started.__exit__(None, None, None)


@pytest.fixture(scope="session")
def driver(address: Address) -> Iterator[neo4j.Driver]:
    """A driver of the caller's own, as a user would bring."""
    opened = neo4j.GraphDatabase.driver(address.uri, auth=address.auth, notifications_min_severity="OFF")
    with opened:
        yield opened


@pytest.fixture
def connection(driver: neo4j.Driver) -> Iterator[Neo4jConnection]:
    """Our connection to a database without nodes, constraints or indexes."""
    clear(driver)
    yield Neo4jConnection(driver, deadline=20.0)
    clear(driver)


@pytest.fixture
def spare_server() -> Iterator[Neo4jProcess]:
    """A server without authentication or plugins that the test may stop and kill."""
    try:
        started = running(plugins=False)
        server = started.__enter__()
    except ServerUnavailable as error:
        unavailable(str(error))
        return
    try:
        yield server
    finally:
        started.__exit__(None, None, None)


def clear(driver: neo4j.Driver) -> None:
    """Empty the database, our own indexes apart; the session made sure at its start that nothing in it is anybody's."""
    run = driver.execute_query
    run("MATCH (n) DETACH DELETE n")
    for row in run("SHOW CONSTRAINTS YIELD name").records:
        if not row["name"].startswith("phasegraph_"):
            run(f"DROP CONSTRAINT `{row['name']}` IF EXISTS")
    for row in run("SHOW INDEXES YIELD name, type WHERE type <> 'LOOKUP'").records:
        if not row["name"].startswith("phasegraph_"):
            run(f"DROP INDEX `{row['name']}` IF EXISTS")
