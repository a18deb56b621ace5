"""A clean database for every test, on the one server of the run, and a server of its own for tests that stop it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

neo4j = pytest.importorskip("neo4j", reason="the Neo4j driver is not installed")

from neo4j_jars import ServerUnavailable  # noqa: E402
from neo4j_process import Neo4jProcess, running  # noqa: E402
from real_servers import Address, skip_or_fail  # noqa: E402

from phasegraph.graph.neo4j import Neo4jConnection  # noqa: E402


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
        skip_or_fail(error, "NEO4J")
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
