"""What is known of one source between calls: searches in flight, its breaker, its condition."""

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


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """The state of a source between calls.

    Parameters
    ----------
    in_flight : int
        Searches running now, those that outlived their call included.
    circuit_breaker : {"closed", "open", "half_open"}
        ``open``: it is not asked; ``half_open``: one search is trying again.
    """

    in_flight: int
    circuit_breaker: BreakerState


Condition: TypeAlias = Literal["answering", "failing", "unusable", "open", "busy"]


class SourceState:
    """What is known of one source between calls: searches in flight, its breaker, its condition. Thread-safe.

    `notices` holds the changes that no call has announced yet, as (condition, text, what the source raised).
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
        """Begin a search at the time `now`: ("", whether it is a trial), or the reason why it may not begin.

        None in place of a reason: as many run as may. The task waits for its turn behind those that wait already, at
        the head where it is `first`, and then `again` is called.
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
        """Take a task out of the queue, if it is there."""
        if self._waiting:
            with self._lock:
                self._waiting.pop(id(task), None)

    def leave(self) -> None:
        """Note that a search has ended, in time or late, and let those begin that wait."""
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
        """Have the next call say it, once."""
        self.notices.append(("busy", text, None))

    def was_busy(self) -> None:
        """Note that a search could not begin before its time was over."""
        with self._lock:
            if self._condition == "answering":
                self._condition = "busy"
                self.notices.append(("busy", self._describe("busy", ""), None))

    def record(self, status: Status, reason: str, error: BaseException | None, *, now: float, probe: bool) -> None:
        """Note how an admitted search ended for its call, at the time `now`."""
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
                self.notices.append((self._condition, self._describe(self._condition, reason), error))

    def _condition_after(self, status: Status) -> Condition:
        if self._breaker is not None and self._breaker.state != "closed":
            return "open"
        if status == "partial":
            return "unusable"
        if status in _FAILED:  # an error that is raised to the caller needs no notice
            starts = self._condition in ("answering", "busy") and self._settings.on_error == "skip"
            return "failing" if starts else self._condition
        if self._condition == "busy" and self._waiting:
            return "busy"
        # An answer without hits says nothing of their scores.
        return "unusable" if status == "empty" and self._condition == "unusable" else "answering"

    def _describe(self, condition: Condition, reason: str) -> str:
        source, breaker = f"source {self._name!r}", self._settings.circuit_breaker
        if condition == "open" and breaker is not None:
            return (
                f"{source} failed {breaker.failures} times in a row (last: {reason}) and is left out; one search in "
                f"{breaker.probe_interval:g} s tries it again. Check the service behind it"
            )
        if condition == "unusable":
            return f"{source} returns hits without a usable score and id, and is left out. Check how its hits are read"
        if condition == "busy":
            return (
                f"{source} was busy: others of its {self._settings.max_in_flight} searches at once went on for as long "
                "as one had time; answers go without it. Raise its timeout or max_in_flight"
            )
        if condition == "failing":
            return f"{source} failed ({reason}); answers go without it"
        return f"{source} answers again"

    def succeeded_late(self) -> None:
        """Note that a trial which was given up has ended well."""
        if self._breaker is not None:
            with self._lock:
                self._breaker.succeeded_late()

    def give_back(self, *, probe: bool) -> None:
        """Note that the call ended without an answer of this source, for no fault of its own."""
        if probe and self._breaker is not None:
            with self._lock:
                self._breaker.release()

    @property
    def health(self) -> SourceHealth:
        """A snapshot."""
        with self._lock:
            return SourceHealth(self._in_flight, "closed" if self._breaker is None else self._breaker.state)
