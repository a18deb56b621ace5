"""Errors of the driver and the server as `StoreError`, with the class of the error as the first word.

The server's own text may quote a caller's names and values, so it stays in ``__cause__``. Of it only a name of plain
letters (of an index, a procedure) is repeated.
"""

from __future__ import annotations

import re

from phasegraph.errors import StoreError

_SECURITY = frozenset({"AuthError", "TokenExpired", "Forbidden", "AuthConfigurationError"})
_AWAY = frozenset({"ServiceUnavailable", "SessionExpired", "IncompleteCommit", "ConnectionAcquisitionTimeoutError"})
_ENDED = ("TransactionTimedOut", "LockClientStopped", "Transaction.Terminated")
_ABSENT = ("ProcedureNotFound", "IndexNotFound", "DatabaseNotFound", "ConstraintNotFound")
# The name of what is missing follows the words "index:", or stands in backticks or quotes.
_OBJECTS = (re.compile(r"index: ?([A-Za-z_][\w.\-]{0,99})"), re.compile(r"[`'\"]([A-Za-z_][\w.\-]{0,99})"))
_NO_INDEX = re.compile(r"no such (?:\w+[ -])?(?:schema )?index", re.IGNORECASE)
_UNRESOLVED = "Cannot resolve address"
_DIMENSIONS = re.compile(r"\b(\d{1,6})\b\D+\b(\d{1,6})\b")


def from_driver(error: BaseException) -> bool:
    """Whether an error is the driver's or the network's; a failed handshake comes from a private module of it."""
    ours = isinstance(error, OSError) or type(error).__module__.partition(".")[0] == "neo4j"
    return ours or (isinstance(error, ValueError) and _UNRESOLVED in str(error))


def translated(error: BaseException, seconds: float, database: str | None = None) -> StoreError:
    """The error as one of ours: auth, tls, timeout, unreachable, schema_missing, dimensions or refused."""
    code = str(getattr(error, "code", None) or "")
    name = type(error).__name__
    if name in _SECURITY or ".Security." in code:
        return StoreError(f"auth: Neo4j refused the credentials, or they lack a right ({name})")
    if _has_tls_cause(error):
        return StoreError(f"tls: the server did not show a certificate that is trusted here ({name})")
    if any(each in code for each in _ENDED):
        return StoreError(f"timeout: Neo4j ended the transaction after {seconds:g} s")
    if "routing information" in str(error):  # the driver does not say why a router could not be asked
        return StoreError(
            f"unreachable: no router answered within {seconds:g} s, or none with a certificate that is trusted here "
            f"({name}; a bolt:// or bolt+s:// address shows which)"
        )
    if _UNRESOLVED in str(error):
        return StoreError(f"unreachable: the host of the address could not be resolved ({name})")
    if name in _AWAY or isinstance(error, OSError):
        return StoreError(f"unreachable: Neo4j could not be reached within {seconds:g} s ({name})")
    if not code:
        return StoreError(f"unreachable: the driver gave up after at most {seconds:g} s ({name})")
    if "DatabaseNotFound" in code and database is not None:
        return StoreError(f"schema_missing: the database {database[:60]!r} does not exist ({code})")
    return _answered(code, str(getattr(error, "message", None) or ""))


def late(seconds: float) -> StoreError:
    """The error of a call without an answer at its deadline."""
    return StoreError(f"timeout: Neo4j did not answer within {seconds:g} s")


def _has_tls_cause(error: BaseException) -> bool:
    here: BaseException | None = error
    for _ in range(10):
        if here is None:
            return False
        if type(here).__name__ in ("BoltSecurityError", "SSLError"):
            return True
        here = here.__cause__
    return False


def _answered(code: str, words: str) -> StoreError:
    if any(each in code for each in _ABSENT) or _NO_INDEX.search(words):
        named = next(filter(None, (each.search(words) for each in _OBJECTS)), None)
        what = named.group(1) if named else "something that the statement names"
        return StoreError(f"schema_missing: {what} does not exist ({code})")
    if "dimension" in words:
        sizes = _DIMENSIONS.search(words)
        what = f": {sizes.group(1)} and {sizes.group(2)}" if sizes else ""
        return StoreError(f"dimensions: the vector and its index differ in length{what} ({code})")
    return StoreError(f"refused: Neo4j answered {code}")
