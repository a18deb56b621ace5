"""A circuit breaker: after too many failures in a row, ask only now and then."""

from __future__ import annotations

from typing import Literal, TypeAlias

BreakerState: TypeAlias = Literal["closed", "open", "half_open"]


class Breaker:
    """A circuit breaker: open after `failures` consecutive failures, half open for one trial after `probe_interval`.

    Times are seconds on the monotonic clock. It has no lock; its owner guards it.

    Notes
    -----
    A trial that misses its deadline but ends well all the same is followed by another at once: a source that has just
    come back is slow at first, and would lose an interval.

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
        """``closed``, ``open`` or ``half_open`` (a trial is under way)."""
        if self._opened is None:
            return "closed"
        return "half_open" if self._probing else "open"

    def allows(self, now: float) -> bool:
        """Whether a search may begin at `now`."""
        if self._opened is None:
            return True
        return not self._probing and (self._early or now - self._opened >= self._probe_interval)

    def begin(self, now: float) -> bool:
        """Note that a search begins; True if it is a trial, and then the next interval counts from `now`."""
        if self._opened is None:
            return False
        self._probing = True
        self._was_early, self._early = self._early, False
        self._began = now
        return True

    def record(self, *, succeeded: bool, now: float, probe: bool = True) -> None:
        """Count a search that ended; one that began before the breaker opened cannot close or renew it."""
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
        """Note that a trial which was given up has ended well: one more may begin, but not a third in a row."""
        if self._opened is not None and not self._probing:
            self._early = not self._was_early

    def release(self) -> None:
        """Give back a trial without an outcome (the caller went away); the next search may be one."""
        self._probing = False
