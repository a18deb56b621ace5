"""What a server that has just come back should have planned before it is asked in a hurry.

A server plans a statement when it first sees it, and after a restart that takes seconds: longer than a deadline,
at which it drops what it has planned so far. So after an outage the statements of the last reads are run once
more, by the worker of a read that was given up, with time enough.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

WARM_SECONDS = 20.0
_MOST = 8


class Recent:
    """The last statements of online reads with their values, and whether the server was away since."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._reads: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self._away = False

    def note(self, statement: str, values: Mapping[str, Any]) -> None:
        """Remember a read; of those with the same text the last, of all of them eight."""
        with self._lock:
            self._reads[statement] = values
            self._reads.move_to_end(statement)
            if len(self._reads) > _MOST:
                self._reads.popitem(last=False)

    def server_was_away(self) -> None:
        """Note that it could not be reached."""
        self._away = True

    @contextlib.contextmanager
    def again(self) -> Iterator[list[tuple[str, Mapping[str, Any]]]]:
        """What `take` gives, for one at a time: a server that is slow for everybody must not get more to do."""
        if not self._turn.acquire(blocking=False):
            yield []
            return
        try:
            yield self.take()
        finally:
            self._turn.release()

    def take(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The reads to run once more, oldest first: none unless the server was away, and once for each time it was."""
        with self._lock:
            if not self._away:
                return []
            self._away = False
            return list(self._reads.items())
