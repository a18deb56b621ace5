"""Drivers that remember every statement: what leaves the library, to the letter."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from typing import Any

from phasegraph.neo4j.remote_walk import LOOKUP, LOOKUP_ALLOWED, STAMP
from phasegraph.neo4j.writing import CREATED


class Record(list[Any]):
    """A row as the driver hands it out."""

    def values(self) -> list[Any]:
        return list(self)


class Unasked:
    """Stands where a driver would, for what has to be refused before anything is sent."""

    def session(self, **settings: Any) -> Any:
        raise AssertionError("nothing may be asked of the server")


class Recorder:
    """Stands where a `neo4j.Driver` would and answers nothing; `sent` holds (text, parameters) of every statement.

    Our constraints are missing when they are first asked for and serve from then on.
    """

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def session(self, **settings: Any) -> Recorder:
        return self

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: Any) -> None:
        return None

    def execute_read(self, work: Any) -> Any:
        return work(self)

    execute_write = execute_read

    def run(self, statement: str, parameters: dict[str, Any]) -> Recorder:
        self.sent.append((statement, parameters))
        return self

    def __iter__(self) -> Iterator[Record]:
        return map(Record, self.values())

    def values(self) -> list[list[Any]]:
        """One zero where a statement counts something, our schema once it was created, else no rows.

        Every corpus that was named exists.
        """
        if self.sent[-1][0].startswith("SHOW INDEXES"):
            made = any("CREATE CONSTRAINT" in statement for statement, _ in self.sent)
            return [[o.name, o.covers, list(o.properties), o.kind == "constraint", "ONLINE"] for o in CREATED * made]
        if self.sent[-1][0].endswith("RETURN c.name ORDER BY c.name") or "RETURN DISTINCT" in self.sent[-1][0]:
            return [[values["corpus"]] for _, values in self.sent if "corpus" in values]
        if self.sent[-1][0] == STAMP:
            return [["node", 1]]
        if self.sent[-1][0] in (LOOKUP, LOOKUP_ALLOWED):
            return [[0, "node", 1, None]]
        counts = re.search(r"RETURN (count\(.*\)|c\.revision)$", self.sent[-1][0])
        return [[0]] if counts else []


class Watcher:
    """A real driver whose statements are remembered as well; `sent` holds the text of each, `databases` where."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self.sent: set[str] = set()
        self.databases: set[str | None] = set()

    @contextlib.contextmanager
    def session(self, **settings: Any) -> Iterator[_WatchedSession]:
        self.databases.add(settings.get("database"))
        with self._driver.session(**settings) as session:
            yield _WatchedSession(session, self.sent)


class _WatchedSession:
    def __init__(self, session: Any, sent: set[str]) -> None:
        self._session, self._sent = session, sent

    def execute_read(self, work: Any) -> Any:
        return self._session.execute_read(self._watched(work))

    def execute_write(self, work: Any) -> Any:
        return self._session.execute_write(self._watched(work))

    def _watched(self, work: Any) -> Any:
        @functools.wraps(work)  # the time limit is an attribute of the function
        def watched(transaction: Any) -> Any:
            return work(_WatchedTransaction(transaction, self._sent))

        return watched


class _WatchedTransaction:
    def __init__(self, transaction: Any, sent: set[str]) -> None:
        self._transaction, self._sent = transaction, sent

    def run(self, statement: str, parameters: dict[str, Any]) -> Any:
        self._sent.add(statement)
        return self._transaction.run(statement, parameters)
