"""Issue a warning that names the line of the user's code, at any depth of calls within phasegraph."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any

_OURS = ("phasegraph", "langchain_phasegraph", "llama_index.retrievers.phasegraph")
_BETWEEN = (
    "langchain_core", "llama_index.core", "llama_index_instrumentation", "wrapt", "pydantic", "typer", "click",
    "asyncio", "concurrent.futures", "threading", "contextlib", "dataclasses", "functools",
)  # fmt: skip
"""The packages whose stack frames may be between the user's code and phasegraph."""


def warn_at_user_line(warning: Warning, *, again: bool) -> None:
    """Issue a warning at the line of the user's code that called phasegraph.

    In a worker thread, which runs no such line, the warning names the line that called the caller of this function. If
    `again` is False, the interpreter shows equal warnings of a line once, by default; otherwise, it shows all of them.

    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("default")
    ...     for _ in range(2):
    ...         warn_at_user_line(UserWarning("source v failed"), again=True)
    >>> [str(one.message) for one in seen]
    ['source v failed', 'source v failed']
    """
    frame = _user_frame(sys._getframe(1))
    registry: dict[Any, Any] = {} if again else frame.f_globals.setdefault("__warningregistry__", {})
    module = frame.f_globals.get("__name__")
    warnings.warn_explicit(warning, type(warning), frame.f_code.co_filename, frame.f_lineno, module, registry=registry)


def _user_frame(caller: FrameType) -> FrameType:
    """Return the innermost frame outside phasegraph and the packages in between; without it, the one below `caller`."""
    nearest = found = caller.f_back or caller
    while _is_between(found.f_globals.get("__name__")):
        if found.f_back is None:
            return nearest
        found = found.f_back
    return found


def _is_between(module: object) -> bool:
    return isinstance(module, str) and any(module == one or module.startswith(f"{one}.") for one in (*_OURS, *_BETWEEN))
