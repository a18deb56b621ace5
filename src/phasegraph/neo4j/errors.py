"""What went wrong at a server, as one of our errors: a class in its first word, and nothing that a value could be in.

The server's own words may quote values and names of a caller's, so they stay in the ``__cause__``; of the
words themselves only a name of plain letters (an index, a procedure) is taken over.
"""

from __future__ import annotations

import re

from phasegraph.errors import StoreError

_SECURITY = frozenset({"AuthError", "TokenExpired", "Forbidden", "AuthConfigurationError"})
_AWAY = frozenset({"ServiceUnavailable", "SessionExpired", "IncompleteCommit", "ConnectionAcquisitionTimeoutError"})
_ENDED = ("TransactionTimedOut", "LockClientStopped", "Transaction.Terminated")
_ABSENT = ("ProcedureNotFound", "IndexNotFound", "DatabaseNotFound", "ConstraintNotFound")
# What is missing stands behind the words "index:", else in backticks or quotes.
_OBJECTS = (re.compile(r"index: ?([A-Za-z_][\w.\-]{0,99})"), re.compile(r"[`'\"]([A-Za-z_][\w.\-]{0,99})"))
_NO_INDEX = re.compile(r"no such (?:\w+[ -])?(?:schema )?index", re.IGNORECASE)
_UNRESOLVED = "Cannot resolve address"
_DIMENSIONS = re.compile(r"\b(\d{1,6})\b\D+\b(\d{1,6})\b")


def from_driver(error: BaseException) -> bool:
    """Whether an error is the driver's or the network's; a failed handshake comes from a private module of it."""
    ours = isinstance(error, OSError) or type(error).__module__.partition(".")[0] == "neo4j"
    return ours or (isinstance(error, ValueError) and _UNRESOLVED in str(error))


def translated(error: BaseException, seconds: float, database: str | None = None) -> StoreError:
    """Name the class of what went wrong: auth, tls, timeout, unreachable, schema_missing, dimensions or refused."""
    code = str(getattr(error, "code", None) or "")
    name = type(error).__name__
    if name in _SECURITY or ".Security." in code:
        return StoreError(f"auth: Neo4j must accept the credentials and rights given; it refused ({name})")
    if any(type(each).__name__ in ("BoltSecurityError", "SSLError") for each in _chain(error)):
        return StoreError(f"tls: Neo4j must show a certificate that is trusted here; no secure connection ({name})")
    if any(each in code for each in _ENDED):
        return StoreError(f"timeout: Neo4j must answer within {seconds:g} s; it ended the transaction")
    if "routing information" in str(error):
        # The driver keeps to itself why a router could not be asked.
        return StoreError(
            f"unreachable: Neo4j must answer within {seconds:g} s; no router did, or none with a certificate that is "
            f"trusted here ({name}; without routing, as bolt:// or bolt+s://, the reason is told)"
        )
    if _UNRESOLVED in str(error):
        return StoreError(f"unreachable: the host of the address must be known; it could not be resolved ({name})")
    if name in _AWAY or isinstance(error, OSError):
        return StoreError(f"unreachable: Neo4j must answer within {seconds:g} s; it could not be reached ({name})")
    if code:
        if "DatabaseNotFound" in code and database is not None:
            return StoreError(f"schema_missing: Neo4j must have the database; {database[:60]!r} is not there ({code})")
        return _answered(code, str(getattr(error, "message", None) or ""))
    return StoreError(f"unreachable: Neo4j must answer within {seconds:g} s; the driver gave up ({name})")


def late(seconds: float) -> StoreError:
    """The error of a call that had no answer when its time was over."""
    return StoreError(f"timeout: Neo4j must answer within {seconds:g} s; there was no answer")


def closed() -> StoreError:
    """The error of a call on a connection that was closed, by whomever and however long ago."""
    return StoreError("closed: a Neo4jConnection must be open; it was closed")


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what it came from."""
    found: list[BaseException] = []
    here: BaseException | None = error
    while here is not None and len(found) < 10:
        found.append(here)
        here = here.__cause__
    return found


def _answered(code: str, words: str) -> StoreError:
    if any(each in code for each in _ABSENT) or _NO_INDEX.search(words):
        named = next(filter(None, (each.search(words) for each in _OBJECTS)), None)
        what = f"; {named.group(1)} is not there" if named else ""
        return StoreError(f"schema_missing: Neo4j must have what the statement names{what} ({code})")
    if "dimension" in words:
        sizes = _DIMENSIONS.search(words)
        what = f"; {sizes.group(1)} and {sizes.group(2)} do not agree" if sizes else ""
        return StoreError(f"dimensions: a vector must have as many numbers as its index{what} ({code})")
    return StoreError(f"refused: Neo4j must accept the statement; it answered {code}")
