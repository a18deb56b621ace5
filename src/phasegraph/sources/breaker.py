"""A circuit breaker: after several consecutive failures, a source is skipped, except for occasional trials."""

from __future__ import annotations

from typing import Literal, TypeAlias

BreakerState: TypeAlias = Literal["closed", "open", "half_open"]


class Breaker:
    """A circuit breaker: open after `failures` consecutive failures, half open for one trial after `probe_interval`.

    Times are seconds on the monotonic clock. The object is not thread-safe; its owner holds a lock around each call.

    Notes
    -----
    If a trial misses its deadline but succeeds later, the next trial may begin at once. A source that has just
    recovered is often slow at first, and should not be skipped for another interval.

    Examples
    --------
    >>> breaker = Breaker(failures=2, probe_interval=30.0)
    >>> for now in (0.0, 1.0):
    ...     breaker.record(succeeded=False, now=now)
    >>> breaker.allows(2.0), breaker.allows(31.0)
    (False, True)
    """

    __slots__ = ("_began", "_early", "_failed", "_failures", "_opened", "_probe_interval", "_probing", "_was_early")

    def __init__(self, failures: int, probe_interval: float) -> None:
        self._failures = failures
        self._probe_interval = probe_interval
        self._failed = 0
        self._opened: float | None = None
        self._began = 0.0
        self._probing = self._early = self._was_early = False

    @property
    def state(self) -> BreakerState:
        """The state: ``closed``, ``open``, or ``half_open`` while a trial is running."""
        if self._opened is None:
            return "closed"
        return "half_open" if self._probing else "open"

    def allows(self, now: float) -> bool:
        """Return True if a search of the source may begin at the time `now`."""
        if self._opened is None:
            return True
        return not self._probing and (self._early or now - self._opened >= self._probe_interval)

    def begin(self, now: float) -> bool:
        """Record that a search begins at the time `now`; return True if the search is a trial of a failing source.

        The interval until the next trial starts when this trial begins.
        """
        if self._opened is None:
            return False
        self._probing = True
        self._was_early, self._early = self._early, False
        self._began = now
        return True

    def record(self, *, succeeded: bool, now: float, probe: bool = True) -> None:
        """Record the outcome of a search; `probe` is True if the search was a trial.

        While the breaker is open, only the outcome of a trial has an effect.
        """
        if self._opened is not None and not probe:
            return
        self._probing = False
        if succeeded:
            self._failed, self._opened, self._early = 0, None, False
            return
        self._failed += 1
        if self._failed >= self._failures:
            self._opened = now if self._opened is None else self._began

    def succeeded_late(self) -> None:
        """Record that a trial succeeded after its deadline, and allow one further trial at once.

        If the further trial is also too late, or fails, the next trial waits for the whole interval.
        """
        if self._opened is not None and not self._probing:
            self._early = not self._was_early

    def release(self) -> None:
        """Record that a trial ended without an outcome, because its caller left; the next search may be a trial."""
        self._probing = False
