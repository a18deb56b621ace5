"""Conversion of errors of Neo4j's driver and server to `StoreError`, whose message starts with the kind of error.

The server's message may quote names and values of the caller, so it is available only in ``__cause__``. Our message
repeats at most the plain name of a missing index, procedure or similar object.
"""

from __future__ import annotations

import re

from phasegraph.errors import StoreError

_SECURITY = frozenset({"AuthError", "TokenExpired", "Forbidden", "AuthConfigurationError"})
_AWAY = frozenset({"ServiceUnavailable", "SessionExpired", "IncompleteCommit"})
_ENDED = ("TransactionTimedOut", "LockClientStopped", "Transaction.Terminated")
_ABSENT = ("ProcedureNotFound", "IndexNotFound", "DatabaseNotFound", "ConstraintNotFound")
# The name of the missing object follows the word "index:", or is in backticks or quotes.
_OBJECTS = (re.compile(r"index: ?([A-Za-z_][\w.\-]{0,99})"), re.compile(r"[`'\"]([A-Za-z_][\w.\-]{0,99})"))
_NO_INDEX = re.compile(r"no such (?:\w+[ -])?(?:schema )?index", re.IGNORECASE)
_UNRESOLVED = "Cannot resolve address"
_FULL_POOL = "failed to obtain a connection from the pool"
_DIMENSIONS = re.compile(r"\b(\d{1,6})\b\D+\b(\d{1,6})\b")
_SLOW = "raise timeout=, or lower the load of the server"
_CHECK_SERVER = "check the address and the network, and that the server runs"


def from_driver(error: BaseException) -> bool:
    """Return True if an error comes from Neo4j's driver or from the network.

    Errors of a failed handshake, for which the driver has a private class, are included.
    """
    ours = isinstance(error, OSError) or type(error).__module__.partition(".")[0] == "neo4j"
    return ours or (isinstance(error, ValueError) and _UNRESOLVED in str(error))


def translated(error: BaseException, seconds: float, database: str | None = None) -> StoreError:
    """Convert an error of the driver, the server or the network to a `StoreError`.

    The message starts with ``auth``, ``tls``, ``timeout``, ``unreachable``, ``schema_missing``, ``dimensions`` or
    ``refused``. `seconds` is the time limit of the call, and `database` the name of the database, for messages.
    """
    code = str(getattr(error, "code", None) or "")
    name = type(error).__name__
    if name in _SECURITY or ".Security." in code:
        return StoreError(
            f"auth: Neo4j rejected the credentials, or the user lacks a permission ({name}): check auth= and the roles "
            "of the user"
        )
    kinds = _kinds_of_causes(error)
    if "SSLCertVerificationError" not in kinds and ("SSLError" in kinds or "BoltSecurityError" in kinds):
        return StoreError(
            f"tls: no encrypted connection was set up with the server ({name}): use bolt:// or neo4j:// if the server "
            "does not encrypt, or check its TLS settings"
        )
    if "SSLCertVerificationError" in kinds:
        return StoreError(
            f"tls: this machine does not trust the server's certificate ({name}): install the certificate's authority "
            "on this machine, or use bolt+ssc:// if the server signs its own certificate"
        )
    if any(each in code for each in _ENDED):
        return StoreError(f"timeout: Neo4j ended the transaction after {seconds:g} s: {_SLOW}")
    if "routing information" in str(error):  # the driver does not report why no router answered
        return StoreError(
            f"unreachable: no router with a trusted certificate answered within {seconds:g} s ({name}): connect with a "
            "bolt:// or bolt+s:// address to see the reason"
        )
    if _UNRESOLVED in str(error):
        return StoreError(f"unreachable: the host of the address could not be resolved ({name}): check the address")
    if _FULL_POOL in str(error):
        return StoreError(
            f"unreachable: no connection of the driver's pool became free within {seconds:g} s ({name}): run fewer "
            "calls at once, or raise the driver's max_connection_pool_size"
        )
    if name in _AWAY or isinstance(error, OSError):
        return StoreError(f"unreachable: Neo4j could not be reached within {seconds:g} s ({name}): {_CHECK_SERVER}")
    if not code:
        return StoreError(f"unreachable: the driver gave up after at most {seconds:g} s ({name}): {_CHECK_SERVER}")
    if "DatabaseNotFound" in code and database is not None:
        return StoreError(
            f"schema_missing: the database {database[:60]!r} does not exist ({code}): create it, or check database="
        )
    return _answered(code, str(getattr(error, "message", None) or ""))


def late(seconds: float) -> StoreError:
    """Create the error for a call that got no answer before its deadline."""
    return StoreError(f"timeout: Neo4j did not answer within {seconds:g} s: {_SLOW}")


def _kinds_of_causes(error: BaseException) -> set[str]:
    """Return the names of the classes of an error and of its causes, with their base classes."""
    here: BaseException | None = error
    kinds: set[str] = set()
    for _ in range(10):
        if here is None:
            break
        kinds.update(kind.__name__ for kind in type(here).__mro__)
        here = here.__cause__
    return kinds


def _answered(code: str, words: str) -> StoreError:
    if any(each in code for each in _ABSENT) or _NO_INDEX.search(words):
        named = next(filter(None, (each.search(words) for each in _OBJECTS)), None)
        what = named.group(1) if named else "an object of the statement"
        return StoreError(f"schema_missing: {what} does not exist ({code}): create it, or correct its name")
    if "dimension" in words:
        sizes = _DIMENSIONS.search(words)
        what = f": {sizes.group(1)} and {sizes.group(2)}" if sizes else ""
        return StoreError(
            f"dimensions: the vector and its index have different lengths{what} ({code}): use the model that embedded "
            "the vectors of the index"
        )
    return StoreError(f"refused: Neo4j answered with the error {code}: see the server's message in __cause__")
