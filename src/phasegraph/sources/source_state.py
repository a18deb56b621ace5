"""The state of one source between calls: its running searches, its circuit breaker, and whether it fails."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from phasegraph.reports import Status
from phasegraph.sources.breaker import Breaker, BreakerState
from phasegraph.sources.settings import SourceSettings

_FAILED = ("error", "timeout")
_LOGGED = ". The logger 'phasegraph' shows the error at the level DEBUG"


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """A snapshot of a source's state between calls.

    Parameters
    ----------
    in_flight : int
        Number of running searches, including searches that continue after the end of their call.
    circuit_breaker : {"closed", "open", "half_open"}
        ``closed``: the source is asked. ``open``: the source is skipped. ``half_open``: one search tries it again.
    """

    in_flight: int
    circuit_breaker: BreakerState


Condition: TypeAlias = Literal["answering", "failing", "unusable", "open", "busy"]


class SourceState:
    """The state of one source between calls: its running searches, and its circuit breaker. Thread-safe.

    `notices` contains the warnings that no call has given yet, as tuples of condition (such as "answering"), text, and
    the source's error or None.
    """

    __slots__ = (
        "_breaker", "_condition", "_handing_on", "_in_flight", "_lock", "_name", "_settings", "_waiting", "notices",
    )  # fmt: skip

    def __init__(self, name: str, settings: SourceSettings) -> None:
        self._name = name
        self._settings = settings
        self._lock = threading.Lock()
        self._in_flight = 0
        self._waiting: OrderedDict[int, Callable[[], None]] = OrderedDict()
        self._handing_on = False
        breaker = settings.circuit_breaker
        self._breaker = None if breaker is None else Breaker(breaker.failures, breaker.probe_interval)
        self._condition: Condition = "answering"
        self.notices: deque[tuple[Condition, str, BaseException | None]] = deque(maxlen=16)

    def enter(self, task: object, again: Callable[[], None], *, now: float, first: bool) -> tuple[str | None, bool]:
        """Begin a search at the time `now`, or refuse it, or make it wait.

        Return a reason for refusing the search, and True if the search is a trial of the breaker. The reason is "" if
        the search may begin. If the maximum number of searches are running, the reason is None, and the task waits.
        ``again()`` is called as soon as the task may begin. A task with `first` waits at the head of the queue, other
        tasks at its end.
        """
        breaker = self._breaker
        with self._lock:
            if breaker is not None and not breaker.allows(now):
                return "circuit breaker open", False
            if self._in_flight >= self._settings.max_in_flight or (self._waiting and not first):
                self._waiting[id(task)] = again
                if first:
                    self._waiting.move_to_end(id(task), last=False)
                return None, False
            self._in_flight += 1
            return "", breaker is not None and breaker.begin(now)

    def withdraw(self, task: object) -> None:
        """Remove a task from the queue of waiting tasks, if it is in the queue."""
        if self._waiting:
            with self._lock:
                self._waiting.pop(id(task), None)

    def leave(self) -> None:
        """Count a search as ended, and start waiting searches."""
        with self._lock:
            self._in_flight -= 1
            if self._handing_on or not self._waiting:
                return
            self._handing_on = True
        try:
            while True:
                with self._lock:
                    if not self._waiting or self._in_flight >= self._settings.max_in_flight:
                        self._handing_on = False
                        return
                    _, again = self._waiting.popitem(last=False)
                again()
        finally:
            self._handing_on = False

    def noticed(self, text: str) -> None:
        """Add a warning that the next call gives once."""
        self.notices.append(("busy", text, None))

    def was_busy(self) -> None:
        """Record that a search waited until its deadline because the source was busy."""
        with self._lock:
            if self._condition == "answering":
                self._condition = "busy"
                self.notices.append(("busy", self._describe("busy", ""), None))

    def record(self, status: Status, reason: str, error: BaseException | None, *, now: float, probe: bool) -> None:
        """Record the outcome of a search at the time `now`; add a notice if the source begins to fail or recovers.

        `probe` is True if the search was a trial of the circuit breaker.
        """
        healthy = status == "ok" and self._condition == "answering"
        if healthy and self._breaker is None:
            return
        with self._lock:
            if self._breaker is not None:
                self._breaker.record(succeeded=status not in _FAILED, now=now, probe=probe)
            if healthy:
                return
            before, self._condition = self._condition, self._condition_after(status)
            if self._condition != before:
                said = self._describe(self._condition, reason)
                logged = status == "error" and self._condition == "failing"
                self.notices.append((self._condition, said + (_LOGGED if logged else ""), error))

    def _condition_after(self, status: Status) -> Condition:
        if self._breaker is not None and self._breaker.state != "closed":
            return "open"
        if status == "partial":
            return "unusable"
        if status in _FAILED:  # with on_error="raise", the caller gets the error, so no notice is needed
            starts = self._condition in ("answering", "busy") and self._settings.on_error == "skip"
            return "failing" if starts else self._condition
        if self._condition == "busy" and self._waiting:
            return "busy"
        # An empty answer does not show that the source returns usable hits again.
        return "unusable" if status == "empty" and self._condition == "unusable" else "answering"

    def _describe(self, condition: Condition, reason: str) -> str:
        source, breaker = f"source {self._name!r}", self._settings.circuit_breaker
        if condition == "open" and breaker is not None:
            return (
                f"{source} failed {breaker.failures} times in a row (last: {reason}) and is skipped; one search in "
                f"{breaker.probe_interval:g} s tries it again. Check the service behind it"
            )
        if condition == "unusable":
            return (
                f"{source} returns hits without a usable score and id, so answers do not include them. Check how its "
                "hits are read (fields=HitFields(...))"
            )
        if condition == "busy":
            return (
                f"{source} was busy: {self._settings.max_in_flight} searches (max_in_flight) were running until the "
                "timeout of another search; its answer does not include this source. Raise timeout or max_in_flight"
            )
        if condition == "failing":
            return f"{source} failed ({reason}); answers do not include it"
        return f"{source} answers again"

    def succeeded_late(self) -> None:
        """Record in the circuit breaker that a trial succeeded after its deadline."""
        if self._breaker is not None:
            with self._lock:
                self._breaker.succeeded_late()

    def give_back(self, *, probe: bool) -> None:
        """Record that the call ended before its search, so the search has no outcome.

        If the search was a trial (`probe`), the circuit breaker allows another trial.
        """
        if probe and self._breaker is not None:
            with self._lock:
                self._breaker.release()

    @property
    def health(self) -> SourceHealth:
        """A snapshot of this state, for the caller of :meth:`Gatherer.health`."""
        with self._lock:
            return SourceHealth(self._in_flight, "closed" if self._breaker is None else self._breaker.state)
