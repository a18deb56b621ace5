"""What the rows share: the real servers of the run, and what several rows read."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from real_servers import Missing, RealServers, need, skip_or_fail

__all__ = ["Servers", "marked", "need", "opened_or_skipped"]


class Servers:
    """The servers, and what rows made on them, which is removed at the end."""

    def __init__(self, real: RealServers) -> None:
        self._real = real
        self._stack = contextlib.ExitStack()
        self._shared: dict[str, Any] = {}

    def shared(self, name: str, make: Callable[[], tuple[Any, Callable[[], object]]]) -> Any:
        """What several rows read: made once, closed at the end."""
        if name not in self._shared:
            self._shared[name], close = make()
            self._stack.callback(close)
        return self._shared[name]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def postgres(self) -> str:
        """Address of the PostgreSQL, without the driver in front."""
        return self._real.postgres

    @property
    def neo4j(self) -> tuple[str, str, str]:
        """Address, user and password of the Neo4j."""
        found = self._real.neo4j
        return found.uri, found.user, found.password


def opened_or_skipped(row: Any, data: Any, servers: Servers) -> Any:
    """A row's store; where something is missing the test is skipped, or fails where the matrix is required."""
    try:
        return row.open(data, servers)
    except Missing as missing:
        skip_or_fail(missing, "NEO4J" if row.neo4j else "MATRIX")


def marked(rows: Any) -> list[Any]:
    """Rows as parameters of tests; those that need Neo4j wait for it, and can be left out by its mark."""
    slow = [pytest.mark.timeout(300)]
    first = [pytest.mark.neo4j, pytest.mark.timeout(600)]
    return [pytest.param(row, id=row.name, marks=first if row.neo4j else slow) for row in rows]
