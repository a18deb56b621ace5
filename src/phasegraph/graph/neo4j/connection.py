"""The one door to a Neo4j server: fixed statements in, plain rows out, in time, with errors that name no secret.

Left to its defaults the driver retries a refused port for 34 seconds and waits a minute for a connection.
Here every session carries the deadline of the call: the server ends the transaction at the deadline, the
driver may retry for a quarter of it and wait half of it for a connection. The server looks at its clock only
every two seconds, and the driver overshoots its own budgets, so a source keeps an outer deadline as well
(`phasegraph.sources`).
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

from phasegraph.errors import InvalidInputError, InvalidTypeError, MissingDependencyError, StoreError

Row: TypeAlias = list[Any]
_Answer = TypeVar("_Answer")

SCHEMES = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")
BULK_SECONDS = 120.0
FETCH_SIZE = 10_000


def driver_module() -> Any:
    """Return the ``neo4j`` driver package, or say how to install it."""
    try:
        return importlib.import_module("neo4j")
    except ImportError as error:
        raise MissingDependencyError(
            "the Neo4j driver must be installed; run: pip install phasegraph[neo4j]"
        ) from error


class Neo4jConnection:
    """A driver, a database and a deadline.

    Parameters
    ----------
    driver : neo4j.Driver
        The caller's own driver, or one made by `connect`. Thread-safe; a session is opened per call.
    database : str, optional
        Name of the database; None asks the server for its default.
    deadline : float, default 2.0
        Seconds that one online read may take, > 0.

    Examples
    --------
    >>> Neo4jConnection.connect("bolt://me:secret@localhost")
    Traceback (most recent call last):
    ...
    phasegraph.errors.InvalidInputError: uri must not hold a user or password (give auth=); one with them was given
    """

    def __init__(self, driver: Any, *, database: str | None = None, deadline: float = 2.0) -> None:
        self._driver = driver
        self.database = _checked_database(database)
        self.deadline = _checked_seconds(deadline, "deadline")
        self._owned = False

    @classmethod
    def connect(
        cls, uri: str, *, auth: Any = None, database: str | None = None, deadline: float = 2.0
    ) -> Neo4jConnection:
        """Return a connection with a driver of its own; nothing is sent before the first statement.

        Parameters
        ----------
        uri : str
            Address without user or password, as ``neo4j://host:7687`` or ``bolt+s://host``.
        auth : tuple of (str, str) or an auth manager of the driver, optional
            Handed to the driver and kept nowhere else.
        database : str, optional
            Name of the database.
        deadline : float, default 2.0
            Seconds that one online read may take.

        Returns
        -------
        Neo4jConnection
            To be closed by `close` or as a context manager.

        Raises
        ------
        InvalidInputError
            If the address has an unknown scheme or holds a password.
        MissingDependencyError
            If the driver is not installed.
        """
        _check_uri(uri)
        seconds = _checked_seconds(deadline, "deadline")
        checked = _checked_database(database)
        driver = driver_module().GraphDatabase.driver(
            uri,
            auth=auth,
            connection_timeout=seconds / 2,
            connection_acquisition_timeout=seconds / 2,
            max_transaction_retry_time=seconds / 4,
            max_connection_lifetime=200,
            liveness_check_timeout=30,
        )
        connection = cls(driver, database=checked, deadline=seconds)
        connection._owned = True
        return connection

    def __repr__(self) -> str:
        """Neither address nor user: both may be secret."""
        return f"Neo4jConnection(database={self.database!r}, deadline={self.deadline!r})"

    def __enter__(self) -> Neo4jConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the driver if `connect` made it; a caller's own is left open."""
        if self._owned:
            self._driver.close()

    def read(
        self,
        statement: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        deadline: float | None = None,
        limit: int | None = None,
    ) -> list[Row]:
        """Run one reading statement in a managed transaction routed to a reader.

        Parameters
        ----------
        statement : str
            Text made by `render`, never a caller's.
        parameters : mapping, optional
            The values.
        deadline : float, optional
            Seconds; None takes the connection's.
        limit : int, optional
            Rows taken at most; the rest is left on the server.

        Returns
        -------
        list of list
            One list of values per record, in the order of the RETURN clause.

        Raises
        ------
        StoreError
            If the server cannot be reached, refuses, or does not answer in time.
        """
        return self._managed("execute_read", _single(statement, parameters, limit), deadline)

    def write(
        self, statement: str, parameters: Mapping[str, Any] | None = None, *, deadline: float = BULK_SECONDS
    ) -> list[Row]:
        """Run one writing statement; it must be idempotent, because a lost commit is sent again. See `read`."""
        return self._managed("execute_write", _single(statement, parameters), deadline)

    def write_all(
        self, statements: Iterable[tuple[str, Mapping[str, Any]]], *, deadline: float = BULK_SECONDS
    ) -> list[Row]:
        """Run several writing statements in one transaction, all or nothing; return the rows of the last."""
        fixed = tuple(statements)

        def work(transaction: Any) -> list[Row]:
            rows: list[Row] = []
            for statement, parameters in fixed:
                rows = transaction.run(statement, dict(parameters)).values()
            return rows

        return self._managed("execute_write", work, deadline)

    def explain(
        self, statement: str, parameters: Mapping[str, Any] | None = None, *, deadline: float | None = None
    ) -> tuple[str, Mapping[str, Any] | None]:
        """Return what the server's planner says a statement does ('r', 'rw', 'w' or 's') and its plan; nothing runs."""

        def work(transaction: Any) -> tuple[str, Mapping[str, Any] | None]:
            summary = transaction.run("EXPLAIN " + statement, dict(parameters or {})).consume()
            return str(summary.query_type), summary.plan

        return self._managed("execute_read", work, deadline)

    def _managed(self, method: str, work: Callable[[Any], _Answer], deadline: float | None) -> _Answer:
        seconds = self.deadline if deadline is None else _checked_seconds(deadline, "deadline")
        neo4j = driver_module()
        # Retries and waiting are bounded per session, so that a caller's own driver keeps to the deadline
        # too.
        limits: dict[str, Any] = {
            "max_transaction_retry_time": min(seconds / 4, 30.0),
            "initial_retry_delay": min(seconds / 16, 1.0),
            "connection_acquisition_timeout": min(seconds / 2, 60.0),
            # Counting a preset that the database lacks is not worth a warning in the caller's log.
            "notifications_min_severity": "OFF",
        }
        access = neo4j.READ_ACCESS if method == "execute_read" else neo4j.WRITE_ACCESS
        try:
            with self._driver.session(
                database=self.database, default_access_mode=access, fetch_size=FETCH_SIZE, **limits
            ) as session:
                answer: _Answer = getattr(session, method)(neo4j.unit_of_work(timeout=seconds)(work))
                return answer
        except (UnicodeEncodeError, OverflowError) as error:
            raise InvalidInputError(
                "values must be text that UTF-8 can hold and numbers of 64 bits; one that is not was given"
            ) from error
        except Exception as error:
            # The driver lets errors of its private modules through, a failed handshake for one.
            if isinstance(error, OSError) or type(error).__module__.partition(".")[0] == "neo4j":
                raise _translated(error, seconds) from error
            raise


def _single(
    statement: str, parameters: Mapping[str, Any] | None, limit: int | None = None
) -> Callable[[Any], list[Row]]:
    values = dict(parameters or {})

    def work(transaction: Any) -> list[Row]:
        result = transaction.run(statement, values)
        if limit is None:
            rows: list[Row] = result.values()
            return rows
        taken = [list(record.values()) for record in itertools.islice(result, limit)]
        result.consume()
        return taken

    return work


def _translated(error: BaseException, seconds: float) -> StoreError:
    """Name the class of what went wrong; the server's own words may quote values, so they stay in the cause."""
    code = str(getattr(error, "code", None) or "")
    name = type(error).__name__
    if name in {"AuthError", "TokenExpired", "Forbidden", "AuthConfigurationError"} or ".Security." in code:
        return StoreError(f"auth: Neo4j must accept the credentials and rights given; it refused ({name})")
    if "TransactionTimedOut" in code or "LockClientStopped" in code:
        return StoreError(f"timeout: Neo4j must answer within {seconds:g} s; it ended the transaction")
    if name in {"ServiceUnavailable", "SessionExpired", "IncompleteCommit", "ConnectionAcquisitionTimeoutError"}:
        return StoreError(f"unreachable: Neo4j must answer within {seconds:g} s; it could not be reached ({name})")
    if isinstance(error, OSError):
        return StoreError(f"unreachable: Neo4j must answer within {seconds:g} s; it could not be reached ({name})")
    if code:
        return StoreError(f"refused: Neo4j must accept the statement; it answered {code}")
    return StoreError(f"unreachable: Neo4j must answer within {seconds:g} s; the driver gave up ({name})")


def _check_uri(uri: str) -> None:
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


def _checked_database(database: str | None) -> str | None:
    if database is not None and (not isinstance(database, str) or not database.strip()):
        raise InvalidInputError("database must be a name or None; a blank or another type was given")
    return database


def _checked_seconds(value: float, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTypeError(f"{field} must be a number of seconds; {type(value).__name__} was given")
    if not 0.0 < value < float("inf"):
        raise InvalidInputError(f"{field} must be a finite number of seconds above 0; {value!r} was given")
    return float(value)
