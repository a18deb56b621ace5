"""What a connection is made of, looked at before anything is sent."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from phasegraph.errors import InvalidInputError, InvalidTypeError

SCHEMES = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")


def check_uri(uri: str) -> None:
    """Refuse what is no address, and one that holds a password."""
    if not isinstance(uri, str):
        raise InvalidTypeError(f"uri must be a str; {type(uri).__name__} was given")
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise InvalidInputError("uri must be an address like neo4j://host:7687; what was given is none") from error
    if "@" in uri:
        raise InvalidInputError("uri must not hold a user or password (give auth=); one with them was given")
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise InvalidInputError(f"uri must start with one of {', '.join(SCHEMES)} and name a host; it does not")


def checked_driver(driver: Any) -> Any:
    """Return the driver, or say what else was given in its place."""
    kind = type(driver)
    if kind.__name__.startswith("Async"):
        raise InvalidTypeError(
            f"driver must be a neo4j.Driver; {kind.__name__} was given, whose calls have to be awaited"
        )
    if not callable(getattr(driver, "session", None)):
        raise InvalidTypeError(
            f"driver must be a neo4j.Driver; {kind.__name__} was given (for an address: Neo4jConnection.connect)"
        )
    return driver


def checked_database(database: str | None) -> str | None:
    """Return the name of a database, or None."""
    if database is not None and (not isinstance(database, str) or not database.strip()):
        raise InvalidInputError("database must be a name or None; a blank or another type was given")
    return database


def checked_seconds(value: float, field: str) -> float:
    """Return a number of seconds above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTypeError(f"{field} must be a number of seconds; {type(value).__name__} was given")
    if not 0.0 < value < float("inf"):
        raise InvalidInputError(f"{field} must be a finite number of seconds above 0; {value!r} was given")
    return float(value)


def check_connection(connection: Any) -> None:
    """Refuse what is no connection, an address or a driver for one."""
    if not callable(getattr(connection, "read", None)):
        raise InvalidTypeError(
            f"connection must be a Neo4jConnection; {type(connection).__name__} was given (of an address: "
            "Neo4jConnection.connect(uri), of a driver: Neo4jConnection(driver))"
        )
