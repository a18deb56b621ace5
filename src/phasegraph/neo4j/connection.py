"""The connection to a Neo4j server: fixed statements in, plain rows out, within a deadline."""

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
    """The last statements of online reads with their values, and whether the server was away since."""

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._turn = fork_safe_lock()
        self._reads: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self._away = False

    def note(self, statement: str, values: Mapping[str, Any]) -> None:
        """Remember a read; of those with the same text the last, of all of them eight."""
        with self._lock:
            self._reads[statement] = values
            self._reads.move_to_end(statement)
            if len(self._reads) > _MOST_RECENT:
                self._reads.popitem(last=False)

    def server_was_away(self) -> None:
        """Note that it could not be reached."""
        self._away = True

    @contextlib.contextmanager
    def again(self) -> Iterator[list[tuple[str, Mapping[str, Any]]]]:
        """What `take` gives, for one at a time: a server that is slow for everybody must not get more to do."""
        if not self._turn.acquire(blocking=False):
            yield []
            return
        try:
            yield self.take()
        finally:
            self._turn.release()

    def take(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The reads to run once more, oldest first: none unless the server was away, and once for each time it was."""
        with self._lock:
            if not self._away:
                return []
            self._away = False
            return list(self._reads.items())


class Neo4jConnection:
    """A driver, a database and a deadline.

    Parameters
    ----------
    driver : neo4j.Driver
        The caller's own driver; see `connect` for an address. Thread-safe; a session is opened per call.
    database : str, optional
        Name of the database; None asks the server for its default.
    timeout : float, default 2.0
        Seconds that one online read may take, > 0.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If `driver` is none, or an asynchronous one, or another argument is out of range.

    Notes
    -----
    One made by `connect` pickles as its settings, address and `auth` included, and opens connections of its own where
    it is unpickled, closed when it is no longer used; one over a driver of the caller's cannot be pickled. A deep copy
    is the connection itself.

    Examples
    --------
    >>> Neo4jConnection.connect("bolt://me:secret@localhost")
    Traceback (most recent call last):
    ...
    phasegraph.errors.InvalidInputError: uri must not hold a user or password: use auth=
    """

    def __init__(self, driver: Any, *, database: str | None = None, timeout: float = 2.0) -> None:
        kind = type(driver).__name__
        if kind.startswith("Async"):
            raise InvalidTypeError(f"driver must be a synchronous neo4j.Driver; got {kind}")
        if not callable(getattr(driver, "session", None)):
            raise InvalidTypeError(f"driver must be a neo4j.Driver; got {kind} (an address: Neo4jConnection.connect)")
        self.timeout = check_range("timeout", timeout, ends="(]")
        self.database = _checked_database(database)
        self._transactions = Transactions(driver, database)
        self._recent = RecentReads()
        self._address: tuple[str, Any] | None = None

    @classmethod
    def connect(
        cls, uri: str, *, auth: Any = None, database: str | None = None, timeout: float = 2.0
    ) -> Neo4jConnection:
        """Return a connection with a driver of its own; nothing is sent before the first statement.

        Parameters
        ----------
        uri : str
            Address without user or password, as ``neo4j://host:7687`` or ``bolt+s://host``.
        auth : tuple of (str, str) or an auth manager of the driver, optional
            Handed to the driver, and kept only for pickling.
        database, timeout
            As for the class.

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
        """Neither address nor user: both may be secret."""
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
        """Close the driver if `connect` made it; a caller's own is left open."""
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
        """Run one reading statement in a managed transaction routed to a reader.

        Parameters
        ----------
        statement : str
            Text made by `render`, never a caller's.
        parameters : mapping, optional
            The values.
        timeout : float, optional
            Seconds; None takes the connection's. The call is back by then, even where the server is not.
        limit : int, optional
            Rows taken at most; the rest is left on the server. None takes all of them, but under the
            connection's own deadline more than 500,000 are an error: an online read has no use for them.
        warm : bool, default True
            Whether it may be run once more in the background when the server is back after an outage; False for
            what is a caller's own, or changes anything.

        Returns
        -------
        list of list
            One list of values per record, in the order of the RETURN clause.

        Raises
        ------
        StoreError
            If the server cannot be reached, refuses, or does not answer in time: the message begins with the class,
            auth, tls, timeout, unreachable, schema_missing, dimensions, oversize or refused. Also if the connection
            was closed.
        """
        seconds = self._seconds(timeout)
        if warm and seconds < BULK_FROM_SECONDS:
            self._recent.note(statement, parameters or {})
        most = MOST_ROWS if limit is None and timeout is None else None
        return self._managed("execute_read", _reading(statement, parameters, limit, most, seconds), seconds)

    def write(
        self, statement: str, parameters: Mapping[str, Any] | None = None, *, timeout: float = BULK_SECONDS
    ) -> list[Row]:
        """Run one writing statement; it must be idempotent, because a lost commit is sent again. See `read`."""
        return self.write_all([(statement, parameters or {})], timeout=timeout)

    def write_all(
        self, statements: Iterable[tuple[str, Mapping[str, Any]]], *, timeout: float = BULK_SECONDS
    ) -> list[Row]:
        """Run several writing statements in one transaction, all or nothing; return the rows of the last."""
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
            # A write that is given up may still be done: it is waited for to its end.
            return self._transactions.run(method, work, seconds)
        except (UnicodeEncodeError, OverflowError) as error:
            raise InvalidInputError("values must be text that UTF-8 can hold and numbers of 64 bits") from error
        except Exception as error:
            if from_driver(error):
                told = translated(error, seconds, self.database)
                # Where all connections are taken, by ourselves, the server has enough to do.
                if str(told).startswith("unreachable") and "from the pool" not in str(error):
                    self._recent.server_was_away()
                raise told from error
            raise

    def _warm_up(self) -> None:
        """Let a server that is back plan what it will be asked; where it fails, somebody else will be told."""
        with self._recent.again() as reads:
            for statement, values in reads:
                with contextlib.suppress(Exception):
                    work = _reading(statement, values, 1, None, WARM_SECONDS)
                    self._transactions.run("execute_read", work, WARM_SECONDS)


def _reopened(
    kind: type[Neo4jConnection], uri: str, auth: Any, database: str | None, timeout: float
) -> Neo4jConnection:
    """An unpickled connection, which closes itself when nobody uses it any more."""
    connection = kind.connect(uri, auth=auth, database=database, timeout=timeout)
    weakref.finalize(connection, connection._transactions.close)
    return connection


def check_connection(connection: Any) -> None:
    """Refuse what is no connection, an address or a driver for one."""
    if not callable(getattr(connection, "read", None)):
        raise InvalidTypeError(
            f"connection must be a Neo4jConnection; got {type(connection).__name__} (of an address: "
            "Neo4jConnection.connect(uri), of a driver: Neo4jConnection(driver))"
        )


def _check_uri(uri: str) -> None:
    if not isinstance(uri, str):
        raise InvalidTypeError(f"uri must be a str; got {type(uri).__name__}")
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise InvalidInputError("uri must be an address like neo4j://host:7687") from error
    if "@" in uri:
        raise InvalidInputError("uri must not hold a user or password: use auth=")
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise InvalidInputError(f"uri must start with one of {', '.join(SCHEMES)} and name a host")


def _checked_database(database: str | None) -> str | None:
    if database is not None and (not isinstance(database, str) or not database.strip()):
        raise InvalidInputError("database must be None or a name that is not blank")
    return database


def _reading(
    statement: str, parameters: Mapping[str, Any] | None, limit: int | None, most: int | None, seconds: float
) -> Callable[[Any], list[Row]]:
    """The transaction function of one reading statement: it takes `limit` rows, and fails after `most` or too late.

    Rows that nobody waits for any more are not unpacked: that would hold up the threads that others wait for.
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
                raise StoreError(f"oversize: the result has more than {most} rows, the most for an online read")
            taken.append(record.values())
        if limit is not None:
            result.consume()
        return taken

    return work
