"""What is told every result, and never costs the answer."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

from phasegraph.errors import InvalidTypeError, PhasegraphWarning
from phasegraph.pipeline import Result


class Listener:
    """An ``on_result`` of a retriever; what it raises becomes a warning.

    Parameters
    ----------
    on_result : callable or None
        Called with every result; a coroutine function is awaited in asynchronous calls, and cannot be in others.

    Raises
    ------
    InvalidTypeError
        If it is something else.

    Examples
    --------
    >>> seen = []
    >>> Listener(seen.append).tell("a result")
    >>> seen
    ['a result']
    """

    __slots__ = ("_function", "_warned")

    def __init__(self, on_result: Callable[[Result], Any] | None) -> None:
        if on_result is not None and not callable(on_result):
            raise InvalidTypeError(f"on_result must be a function or None; got {on_result!r}")
        self._function = on_result
        self._warned = False

    def tell(self, result: Result) -> None:
        """Call it; what it would have to await is closed, with a warning the first time."""
        if self._function is None:
            return
        try:
            told = self._function(result)
        except Exception as error:  # noqa: BLE001 - a listener never costs the answer
            _warn(error)
            return
        if inspect.isawaitable(told):
            if inspect.iscoroutine(told):
                told.close()
            if not self._warned:
                self._warned = True
                warnings.warn(
                    "on_result is a coroutine function, which a synchronous call cannot await: it was not run; give a "
                    "plain function, or ask asynchronously",
                    PhasegraphWarning,
                    stacklevel=3,
                )

    async def atell(self, result: Result) -> None:
        """Call it, and await what it gives back."""
        if self._function is None:
            return
        try:
            told = self._function(result)
            if inspect.isawaitable(told):
                await told
        except Exception as error:  # noqa: BLE001 - a listener never costs the answer
            _warn(error)


def _warn(error: Exception) -> None:
    warnings.warn(f"on_result raised {type(error).__name__}", PhasegraphWarning, stacklevel=4)
