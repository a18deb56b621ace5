"""Bulk reading. Many short values cross the wire as one text: the driver spends as much on a name as on a passage.

A line puts a mark behind each of its values; a mark that stands in a value is escaped, so that every text comes
back as it was. What is joined into one text stays short, because the server copies it at every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

from phasegraph.graph.neo4j.connection import Neo4jConnection, Row

MARK, ESCAPE = "\x1f", "\x1b"
_MARKED, _ESCAPED = ESCAPE + "m", ESCAPE + "e"
FORMAT: Mapping[str, str] = MappingProxyType({"mark": MARK, "escape": ESCAPE, "marked": _MARKED, "escaped": _ESCAPED})
"""Parameters of every statement with a `line` in it."""

NODES_TOGETHER, LINES_TOGETHER = 200, 100


def line(*expressions: str, numbers: Iterable[str] = ()) -> str:
    """Return Cypher for texts and then whole numbers as one text; what is missing or a list is empty."""
    values = [
        f"replace(replace(coalesce(toStringOrNull({each}), ''), $escape, $escaped), $mark, $marked)"
        for each in expressions
    ]
    values += [f"coalesce(toString(toIntegerOrNull({each})), '')" for each in numbers]
    return " + ".join(f"{each} + $mark" for each in values)


def joined(lines: str) -> str:
    """Return Cypher for a list of lines as one text."""
    return f"reduce(whole = '', line IN {lines} | whole + line)"


def each_node(variable: str, values: str) -> str:
    """Return the end of a statement: for each of many nodes the list of `values`, a few hundred to a record."""
    return f"""\
WITH collect({variable}) AS held UNWIND range(0, size(held) - 1, {NODES_TOGETHER}) AS start
RETURN [{variable} IN held[start..start + {NODES_TOGETHER}] | [{values}]]"""


def each_line(*expressions: str, numbers: Iterable[str] = ()) -> str:
    """Return the end of a statement: a line for each of its rows, a hundred to a record."""
    return f"""\
WITH collect({line(*expressions, numbers=numbers)}) AS held UNWIND range(0, size(held) - 1, {LINES_TOGETHER}) AS start
RETURN {joined(f"held[start..start + {LINES_TOGETHER}]")}"""


def read_together(
    connection: Neo4jConnection, statements: Iterable[str], values: Mapping[str, Any], deadline: float
) -> list[list[Row]]:
    """Return the rows of several statements that the server works on at the same time."""
    asked = list(statements)
    with ThreadPoolExecutor(len(asked), "phasegraph-neo4j") as pool:
        answers = [pool.submit(connection.read, each, {**values, **FORMAT}, deadline=deadline) for each in asked]
        return [answer.result() for answer in answers]


def values_of(text: str) -> list[str]:
    """Return the values of all lines of a text, in order."""
    values = text.split(MARK)
    values.pop()
    if ESCAPE in text:
        return [value.replace(_MARKED, MARK).replace(_ESCAPED, ESCAPE) for value in values]
    return values


def columns_of(texts: Iterable[str], width: int) -> tuple[list[str], ...]:
    """Return the columns of texts with `width` values per line."""
    values = [value for text in texts for value in values_of(text)]
    return tuple(values[place::width] for place in range(width))
