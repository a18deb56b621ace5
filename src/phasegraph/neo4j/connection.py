"""The connection to a Neo4j server, which runs Cypher statements within a deadline and returns rows of values."""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import monotonic
from types import TracebackType
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

from phasegraph._support.shared import fork_safe_lock
from phasegraph._support.validation import check_range
from phasegraph.errors import InvalidInputError, InvalidTypeError, StoreError, needed
from phasegraph.neo4j.errors import from_driver, late, translated
from phasegraph.neo4j.transactions import BULK_FROM_SECONDS, Transactions

Row: TypeAlias = list[Any]
_Answer = TypeVar("_Answer")
SCHEMES = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")
BULK_SECONDS, WARM_SECONDS = 120.0, 20.0
MOST_ROWS = 500_000
_MOST_RECENT = 8


class RecentReads:
    """The last read statements with their parameters, which are run again after an outage of the server.

    After an outage, the server must plan each statement again, which would delay the first search.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._turn = fork_safe_lock()
        self._reads: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self._away = False

    def note(self, statement: str, values: Mapping[str, Any]) -> None:
        """Store a read statement and its parameters; at most the last eight different statements are stored."""
        with self._lock:
            self._reads[statement] = values
            self._reads.move_to_end(statement)
            if len(self._reads) > _MOST_RECENT:
                self._reads.popitem(last=False)

    def server_was_away(self) -> None:
        """Record that the server could not be reached."""
        self._away = True

    @contextlib.contextmanager
    def again(self) -> Iterator[list[tuple[str, Mapping[str, Any]]]]:
        """Give the statements to run again (:meth:`take`) within a ``with`` block; only one thread gets them at a time.

        Other threads get an empty list, so that a slow server does not get the same statements from several threads.
        """
        if not self._turn.acquire(blocking=False):
            yield []
            return
        try:
            yield self.take()
        finally:
            self._turn.release()

    def take(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the stored statements, oldest first, if this is the first call after an outage of the server.

        Every other call returns an empty list.
        """
        with self._lock:
            if not self._away:
                return []
            self._away = False
            return list(self._reads.items())


class Neo4jConnection:
    """A connection to a database of a Neo4j server, with a deadline for reads.

    Parameters
    ----------
    driver : neo4j.Driver
        A driver that you created; to connect to an address, use `connect` instead. Each call opens a session of the
        driver. The connection is thread-safe.
    database : str, optional
        Name of the database; default the server's default database.
    timeout : float, default 2.0
        Maximum duration of a read in seconds, greater than 0.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If `driver` is not a synchronous driver, or another argument is out of range.

    Notes
    -----
    A pickle of a connection from `connect` contains its settings, including the address and `auth`. After unpickling,
    the object opens its own connections, and closes them when the object is no longer used. A connection with a driver
    that you created cannot be pickled. A deep copy returns the same object.

    Examples
    --------
    >>> Neo4jConnection.connect("bolt://me:secret@localhost")
    Traceback (most recent call last):
    ...
    phasegraph.errors.InvalidInputError: uri must not contain a user or password: use auth=
    """

    def __init__(self, driver: Any, *, database: str | None = None, timeout: float = 2.0) -> None:
        kind = type(driver).__name__
        if kind.startswith("Async"):
            raise InvalidTypeError(
                f"driver must be a synchronous neo4j.Driver; got {kind}: create it with neo4j.GraphDatabase.driver"
            )
        if not callable(getattr(driver, "session", None)):
            raise InvalidTypeError(
                f"driver must be a neo4j.Driver; got {kind}: for an address, use Neo4jConnection.connect(uri)"
            )
        self.timeout = check_range("timeout", timeout, ends="(]")
        self.database = _checked_database(database)
        self._transactions = Transactions(driver, database)
        self._recent = RecentReads()
        self._address: tuple[str, Any] | None = None

    @classmethod
    def connect(
        cls, uri: str, *, auth: Any = None, database: str | None = None, timeout: float = 2.0
    ) -> Neo4jConnection:
        """Create a connection to an address; the server is contacted at the first statement.

        Parameters
        ----------
        uri : str
            Address without user and password, such as ``neo4j://host:7687`` or ``bolt+s://host``.
        auth : tuple of (str, str) or an auth manager of the driver, optional
            User and password, for the driver; the connection stores them only for pickling.
        database, timeout
            As for the class.

        Returns
        -------
        Neo4jConnection
            The connection; close it with `close` or use it as a context manager.

        Raises
        ------
        InvalidInputError
            If the address has an unknown scheme or contains a password.
        MissingDependencyError
            If the driver is not installed.
        """
        _check_uri(uri)
        seconds = check_range("timeout", timeout, ends="(]")
        _checked_database(database)
        with needed("the Neo4j driver is missing: pip install phasegraph[neo4j]"):
            import neo4j
        driver = neo4j.GraphDatabase.driver(
            uri,
            auth=auth,
            connection_timeout=seconds / 2,
            connection_acquisition_timeout=seconds / 2,
            max_transaction_retry_time=seconds / 4,
            max_connection_lifetime=200,
            liveness_check_timeout=30,
        )
        connection = cls(driver, database=database, timeout=seconds)
        connection._address = uri, auth
        return connection

    def __repr__(self) -> str:
        """Return a description without address and user, because both may be secret."""
        return f"Neo4jConnection(database={self.database!r}, timeout={self.timeout!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._address is None:
            raise InvalidTypeError("a Neo4jConnection over a driver of your own cannot be pickled: use connect(uri)")
        return _reopened, (type(self), *self._address, self.database, self.timeout)

    def __deepcopy__(self, memo: dict[int, Any]) -> Neo4jConnection:
        return self

    def __enter__(self) -> Neo4jConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the driver if `connect` created it; a driver of the caller stays open."""
        if self._address is not None:
            self._transactions.close()

    def read(
        self,
        statement: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        limit: int | None = None,
        warm: bool = True,
    ) -> list[Row]:
        """Run a read statement in a managed transaction on a server for reads.

        Parameters
        ----------
        statement : str
            A Cypher statement of this library, for example from `render`; never text of a caller.
        parameters : mapping, optional
            The parameters of the statement.
        timeout : float, optional
            Maximum duration in seconds; default the connection's `timeout`. The call ends after this time, even if the
            server does not answer.
        limit : int, optional
            Maximum number of rows; further rows are not fetched. Default: all rows. Without `limit` and `timeout`, more
            than 500,000 rows are an error.
        warm : bool, default True
            If True, the statement may be run again in the background when the server is back after an outage. Set False
            for a statement that changes data.

        Returns
        -------
        list of list
            A list of values per record, in the order of the RETURN clause.

        Raises
        ------
        StoreError
            If the server cannot be reached, refuses the statement, or does not answer in time, or if the connection was
            closed. The message starts with the kind of the error: auth, tls, timeout, unreachable, schema_missing,
            dimensions, oversize or refused.
        """
        seconds = self._seconds(timeout)
        if warm and seconds < BULK_FROM_SECONDS:
            self._recent.note(statement, parameters or {})
        most = MOST_ROWS if limit is None and timeout is None else None
        return self._managed("execute_read", _reading(statement, parameters, limit, most, seconds), seconds)

    def write(
        self, statement: str, parameters: Mapping[str, Any] | None = None, *, timeout: float = BULK_SECONDS
    ) -> list[Row]:
        """Run a write statement, and return the rows of its result; see `read` for the parameters and errors.

        The statement must be idempotent, because it is sent again if the answer to a commit is lost.
        """
        return self.write_all([(statement, parameters or {})], timeout=timeout)

    def write_all(
        self, statements: Iterable[tuple[str, Mapping[str, Any]]], *, timeout: float = BULK_SECONDS
    ) -> list[Row]:
        """Run several write statements in a single transaction; return the rows of the last statement."""
        fixed = tuple(statements)

        def work(transaction: Any) -> list[Row]:
            rows: list[Row] = []
            for statement, parameters in fixed:
                rows = transaction.run(statement, dict(parameters)).values()
            return rows

        return self._managed("execute_write", work, self._seconds(timeout))

    def _seconds(self, timeout: float | None) -> float:
        return self.timeout if timeout is None else check_range("timeout", timeout, ends="(]")

    def _managed(self, method: str, work: Callable[[Any], _Answer], seconds: float) -> _Answer:
        try:
            if method == "execute_read":
                return self._transactions.run_in_time(method, work, seconds, self._warm_up)
            # A write continues on the server after the caller gives up, so wait for its end.
            return self._transactions.run(method, work, seconds)
        except (UnicodeEncodeError, OverflowError) as error:
            raise InvalidInputError(
                "values of a statement must be text that UTF-8 can encode, or 64-bit integers; a value is neither "
                f"({type(error).__name__}): remove lone surrogates, and use smaller integers"
            ) from error
        except Exception as error:
            if from_driver(error):
                told = translated(error, seconds, self.database)
                # If this process uses all connections of the pool, the server is reachable, but busy.
                if str(told).startswith("unreachable") and "from the pool" not in str(error):
                    self._recent.server_was_away()
                raise told from error
            raise

    def _warm_up(self) -> None:
        """Run the last read statements again after an outage, so that the server plans them; ignore errors."""
        with self._recent.again() as reads:
            for statement, values in reads:
                with contextlib.suppress(Exception):
                    work = _reading(statement, values, 1, None, WARM_SECONDS)
                    self._transactions.run("execute_read", work, WARM_SECONDS)


def _reopened(
    kind: type[Neo4jConnection], uri: str, auth: Any, database: str | None, timeout: float
) -> Neo4jConnection:
    """Create a connection when a pickle is loaded; the connection is closed when it is no longer referenced."""
    connection = kind.connect(uri, auth=auth, database=database, timeout=timeout)
    weakref.finalize(connection, connection._transactions.close)
    return connection


def check_connection(connection: Any) -> None:
    """Raise InvalidTypeError unless `connection` is a Neo4jConnection rather than an address or a driver."""
    if not callable(getattr(connection, "read", None)):
        raise InvalidTypeError(
            f"connection must be a Neo4jConnection; got {type(connection).__name__} (for an address, use "
            "Neo4jConnection.connect(uri); for a driver, Neo4jConnection(driver))"
        )


def _check_uri(uri: str) -> None:
    if not isinstance(uri, str):
        raise InvalidTypeError(f"uri must be a str; got {type(uri).__name__}")
    try:
        parts = urlsplit(uri)
        parts.port  # noqa: B018 - raises ValueError if the port is no number or too large
    except ValueError as error:
        raise InvalidInputError(
            "uri must be an address like neo4j://host:7687; its host or port is malformed"
        ) from error
    if "@" in uri:
        raise InvalidInputError("uri must not contain a user or password: use auth=")
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise InvalidInputError(
            f"uri must start with one of {', '.join(SCHEMES)} and name a host, like neo4j://host:7687; it has no "
            f"{'host' if parts.scheme in SCHEMES else 'known scheme'}"
        )


def _checked_database(database: str | None) -> str | None:
    if database is not None and (not isinstance(database, str) or not database.strip()):
        raise InvalidInputError(f"database must be None or a name that is not blank; got {database!r:.40}")
    return database


def _reading(
    statement: str, parameters: Mapping[str, Any] | None, limit: int | None, most: int | None, seconds: float
) -> Callable[[Any], list[Row]]:
    """Return the function ``work(transaction)`` that runs a read statement and returns its rows.

    The function fetches at most `limit` rows. It raises StoreError if there are more than `most` rows, or if `seconds`
    have passed since its creation. After this time, no rows are unpacked, because this work would delay other threads.
    """
    values = dict(parameters or {})
    due = monotonic() + seconds

    def work(transaction: Any) -> list[Row]:
        result = transaction.run(statement, values)
        taken: list[Row] = []
        for record in result if limit is None else itertools.islice(result, limit):
            if monotonic() > due:
                raise late(seconds)
            if len(taken) == most:
                raise StoreError(
                    f"oversize: the result has more than {most} rows, the maximum for a read: limit the rows in the "
                    "statement, or read the data in parts"
                )
            taken.append(record.values())
        if limit is not None:
            result.consume()
        return taken

    return work
