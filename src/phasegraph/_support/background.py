"""Run functions in a background thread, one function at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Background:
    """A runner of functions, one at a time, in a daemon thread that exists only while a function runs.

    `name` is the name of the thread. Copies of the object and forked child processes do not get the thread.

    >>> work, done = Background("example"), []
    >>> work.start(lambda: done.append(1))
    True
    >>> work.wait()
    >>> done
    [1]
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return Background, (self._name,)

    def start(self, work: Callable[[], object]) -> bool:
        """Run a function in a daemon thread, and return True; return False if another function is still running."""
        if self._thread is not None and self._thread.is_alive():
            return False
        self._thread = threading.Thread(target=work, name=f"phasegraph-{self._name}", daemon=True)
        self._thread.start()
        return True

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the running function ends, but at most `timeout` seconds; None means no time limit."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
