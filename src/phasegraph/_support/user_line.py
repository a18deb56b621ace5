"""Issue a warning that names the line of the user's code, at any depth of calls within phasegraph."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any

_PACKAGES = (
    "phasegraph", "langchain_phasegraph", "llama_index.retrievers.phasegraph",
    "langchain_core", "langchain", "langchain_classic", "langgraph", "llama_index.core", "llama_index_instrumentation",
    "workflows.runtime", "workflows.context.context", "wrapt", "pydantic", "typer", "click", "anyio", "nest_asyncio",
    "asyncio", "concurrent.futures", "multiprocessing", "threading", "contextlib", "dataclasses", "functools",
)  # fmt: skip
"""phasegraph, and the packages that may call it for the user.

Of llama-index-workflows, these are the modules that run steps: a user's own package may be called ``workflows``, too.
"""
_INSIDE = tuple(f"{package}." for package in _PACKAGES)


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
    module = frame.f_globals.get("__name__") or "<string>"  # without a module, nothing would be issued
    warnings.warn_explicit(warning, type(warning), frame.f_code.co_filename, frame.f_lineno, module, registry=registry)


def _user_frame(caller: FrameType) -> FrameType:
    """Return the innermost frame outside these packages; in a thread without such a frame, the frame below `caller`."""
    nearest = frame = caller.f_back or caller
    while _is_in_a_package(frame.f_globals.get("__name__")):
        if frame.f_back is None:
            return nearest
        frame = frame.f_back
    return frame


def _is_in_a_package(module: object) -> bool:
    return isinstance(module, str) and (module in _PACKAGES or module.startswith(_INSIDE))
