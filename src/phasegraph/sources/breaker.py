"""A breaker: stop asking a source that keeps failing, and try it again now and then."""

from __future__ import annotations

from typing import Literal, TypeAlias

BreakerState: TypeAlias = Literal["closed", "open", "probing"]


class Breaker:
    """Opens after `failures` consecutive failures; after `probe_interval` seconds one search may try again.

    Parameters
    ----------
    failures : int
        Consecutive failures that open it, >= 1.
    probe_interval : float
        Seconds between a failure and the next trial, > 0, on the monotonic clock that `now` is read from.

    Notes
    -----
    Not locked: whoever holds it guards it. A search that is neither a success nor a failure (the caller
    went away) is given back with :meth:`release`. A trial that missed its deadline and ended well all the same
    is followed by another at once: what has just come back is slow at first, and an interval would be lost.

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
        self._probing = False
        self._early = self._was_early = False
        self._began: float | None = None

    @property
    def state(self) -> BreakerState:
        """``closed``, ``open`` or ``probing`` (one trial is under way)."""
        if self._opened is None:
            return "closed"
        return "probing" if self._probing else "open"

    def allows(self, now: float) -> bool:
        """Whether a search may begin at `now` (seconds)."""
        if self._opened is None:
            return True
        return not self._probing and (self._early or now - self._opened >= self._probe_interval)

    def begin(self, now: float | None = None) -> bool:
        """Note that a search begins; True if it is the trial of an open breaker.

        From `now` on the interval to the next trial is counted; without it, from this one's end.
        """
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
            self._failed = 0
            self._opened = self._began = None
            self._early = False
            return
        self._failed += 1
        if self._failed >= self._failures:
            tried = self._opened is not None and self._began is not None
            self._opened = self._began if tried else now

    def succeeded_late(self) -> None:
        """Note that a trial which was given up has ended well; one more may begin, but not a third in a row."""
        if self._opened is not None and not self._probing:
            self._early = not self._was_early

    def release(self) -> None:
        """Give back a trial that came to no end; the next search may be one."""
        self._probing = False
