"""Pydantic's errors as the library's own, so that one ``except`` serves."""

from __future__ import annotations

from pydantic import ValidationError

from phasegraph import InvalidInputError, InvalidTypeError, PhasegraphError


def own_error(error: ValidationError) -> PhasegraphError:
    """The first thing that is wrong, named; an error of the core comes back as it was raised."""
    for found in error.errors():
        cause = found.get("ctx", {}).get("error")
        if isinstance(cause, PhasegraphError):
            return cause
    listed = []
    for found in error.errors():
        field = ".".join(str(part) for part in found["loc"]) or error.title
        if found["type"] == "extra_forbidden":
            return InvalidTypeError(f"{error.title} must be given arguments that it knows; got {field!r}")
        listed.append(f"{field}: {found['msg']}; got {found['input']!r}"[:300])
    return InvalidInputError("; ".join(listed))
