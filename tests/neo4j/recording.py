"""A driver that answers nothing and remembers every statement: what leaves the library, to the letter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any


class Record(list[Any]):
    """A row as the driver hands it out."""

    def values(self) -> list[Any]:
        return list(self)


class Recorder:
    """Stands where a `neo4j.Driver` would; `sent` holds (text, parameters) of every statement."""

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
        """One zero where a statement counts something, else no rows."""
        counts = re.search(r"RETURN (count\(.*\)|c\.revision)$", self.sent[-1][0])
        return [[0]] if counts else []
