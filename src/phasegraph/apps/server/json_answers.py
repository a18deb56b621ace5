"""Requests and answers as JSON: what every way to ask a server has in common."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from phasegraph._support.clock import NO_DEADLINE
from phasegraph.errors import IntegrityError, InvalidInputError, InvalidTypeError, StoreError
from phasegraph.sources.workers import awithin

FIELDS = MappingProxyType(
    {"search": frozenset({"query", "k"}), "explain": frozenset({"query", "k"}), "passages": frozenset({"ids"})}
)
"""The allowed fields of a request, by method."""
_NEEDED = MappingProxyType({"search": "query", "explain": "query", "passages": "ids"})

_log = logging.getLogger("phasegraph")
Answer = TypeVar("Answer")


class Answers(Protocol):
    """The interface of an object that answers the requests of one caller."""

    @property
    def has_vectors(self) -> bool:
        """Whether the search compares vectors, and not only names and words."""
        ...

    def answer(self, method: str, body: bytes) -> str:
        """Answer a request as :func:`answer_json` does; an event loop calls this in a worker thread (:func:`aside`)."""
        ...


def answer_json(view: Any, method: str, body: bytes) -> str:
    """Call a method of a view, a key of :data:`FIELDS`, with the fields of a JSON object; return the answer as JSON.

    Raise InvalidInputError if `body` is not a JSON object, or if its fields are not valid parameters of the method. Any
    other error is logged; then StoreError is raised, whose text only names the class of the error.
    """
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"the body of the request must be JSON; {error}") from error
    if not isinstance(asked, dict):
        raise InvalidTypeError(f"the body of the request must be a JSON object; got {type(asked).__name__}")
    if _NEEDED[method] not in asked:
        raise InvalidInputError(f"the field {_NEEDED[method]!r} is missing: add it to the request")
    if refused := unknown_fields(asked, FIELDS[method]):
        raise InvalidInputError(refused)
    try:
        return json.dumps(getattr(view, method)(**asked), allow_nan=False)  # ASCII escapes encode lone surrogates
    except BaseException as error:  # a model may call sys.exit
        if isinstance(error, InvalidInputError) and not isinstance(error, IntegrityError):
            raise
        name = type(error).__name__  # the text may contain another tenant's data, or a path
        _log.warning("a request failed: %s", name)
        _log.debug("", exc_info=True)
        raise StoreError(f"the search failed ({name})") from error


def unknown_fields(asked: Iterable[str], known: Collection[str]) -> str:
    """Return the error message for a request with unknown fields; "" if all fields are known.

    >>> unknown_fields(["query", "filter"], {"query", "k"})
    "'filter': unknown; a request has k, query. The server decides which passages are visible"
    """
    other = sorted(set(asked) - set(known))
    if not other:
        return ""
    return (
        f"{', '.join(map(repr, other))[:80]}: unknown; a request has {', '.join(sorted(known))}. The server "
        "decides which passages are visible"
    )


async def aside(function: Callable[[], Answer]) -> Answer:
    """Return the result of a function, run in a worker thread while the event loop answers other requests."""
    return await awithin(function, NO_DEADLINE)
