"""What is remembered of a source between calls: its breaker, and how many of its searches are running."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from time import monotonic

from phasegraph.sources.breaker import Breaker, BreakerState
from phasegraph.sources.settings import SourceSettings


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """How a source stands between calls.

    Parameters
    ----------
    in_flight : int
        Searches running now, those that outlived their call included.
    breaker : {"closed", "open", "probing"}
        ``open``: it is not asked; ``probing``: one search is trying again.
    """

    in_flight: int
    breaker: BreakerState


class SourceState:
    """Admission of searches to one source; safe for any number of threads."""

    __slots__ = ("_breaker", "_in_flight", "_lock", "_most")

    def __init__(self, settings: SourceSettings) -> None:
        self._lock = threading.Lock()
        self._most = settings.max_in_flight
        self._in_flight = 0
        breaker = settings.breaker
        self._breaker = None if breaker is None else Breaker(breaker.failures, breaker.probe_interval)

    def enter(self) -> tuple[str, bool]:
        """Begin a search: ("", whether it is a trial), or the reason why it may not begin."""
        with self._lock:
            breaker = self._breaker
            if breaker is not None and breaker.state != "closed" and not breaker.allows(monotonic()):
                return "breaker open", False
            if self._in_flight >= self._most:
                return "busy", False
            self._in_flight += 1
            return "", breaker is not None and breaker.begin(monotonic())

    def leave(self) -> None:
        """Note that a search has ended, in time or late."""
        with self._lock:
            self._in_flight -= 1

    def record(self, *, succeeded: bool, probe: bool) -> None:
        """Tell the breaker how an admitted search ended for its call."""
        if self._breaker is not None:
            with self._lock:
                self._breaker.record(succeeded=succeeded, now=monotonic(), probe=probe)

    def succeeded_late(self) -> None:
        """Tell the breaker that a trial which was given up has ended well."""
        if self._breaker is not None:
            with self._lock:
                self._breaker.succeeded_late()

    def give_back(self, *, probe: bool) -> None:
        """Tell the breaker that the call ended without an answer of this source, for no fault of its own."""
        if probe and self._breaker is not None:
            with self._lock:
                self._breaker.release()

    @property
    def health(self) -> SourceHealth:
        """A snapshot."""
        with self._lock:
            return SourceHealth(self._in_flight, "closed" if self._breaker is None else self._breaker.state)
