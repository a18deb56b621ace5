"""One piece of work at a time on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Background:
    """A daemon thread that exists while there is work; a copy, and a forked child, have none.

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
        """Begin the work, unless other work is under way; whether it began."""
        if self._thread is not None and self._thread.is_alive():
            return False
        self._thread = threading.Thread(target=work, name=f"phasegraph-{self._name}", daemon=True)
        self._thread.start()
        return True

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end of the work, at most for so many seconds."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
