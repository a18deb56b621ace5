"""Settings of each source, its circuit breaker, and what is known of it between calls."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from time import monotonic
from typing import Literal, TypeAlias

from phasegraph._validation import check_choice, check_count, check_flag, check_names, check_seconds
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.ranking import Status

OnError: TypeAlias = Literal["skip", "raise"]
_FAILED = ("error", "timeout")


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """When to stop asking a source that keeps failing, and when to try it again.

    Parameters
    ----------
    failures : int, default 10
        Consecutive errors or missed deadlines that open the breaker, >= 1.
    probe_interval : float, default 30.0
        Seconds until one search tries again, > 0.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is outside its range.

    Notes
    -----
    Failures that come one by one at a rate p open it about every ``p ** -failures`` searches: at 20 % and the
    default, one in ten million.

    Examples
    --------
    >>> BreakerSettings(failures=3).probe_interval
    30.0
    """

    failures: int = 10
    probe_interval: float = 30.0

    def __post_init__(self) -> None:
        check_count("BreakerSettings.failures", self.failures, minimum=1)
        check_seconds("BreakerSettings.probe_interval", self.probe_interval)


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """How one source is asked.

    Parameters
    ----------
    limit : int or None, default 50
        Hits asked of the source, >= 1; None leaves it to the source. Never depends on how many are returned
        in the end.
    timeout : float or None, default None
        Seconds from the start of its search, > 0; None = that of the call only.
    on_error : {"skip", "raise"}, default "skip"
        ``skip`` goes on without the source and reports it; ``raise`` raises its own error.
    depends_on : sequence of str, default ()
        Names of the sources whose rankings it reads, which are asked first.
    max_in_flight : int, default 256
        Searches of this source that may run at the same time, >= 1, those that outlived their call included;
        beyond it the source is skipped as busy.
    circuit_breaker : BreakerSettings or None
        None = always ask.
    in_thread : bool, default False
        Run it in a worker even where it has ``asearch``: for coroutines that block their event loop.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is outside its range.

    Examples
    --------
    >>> SourceSettings(limit=20, depends_on=["vector"]).depends_on
    ('vector',)
    >>> SourceSettings(limit=0)
    Traceback (most recent call last):
        ...
    phasegraph.errors.InvalidInputError: SourceSettings.limit must be >= 1; got 0
    """

    limit: int | None = 50
    timeout: float | None = None
    on_error: OnError = "skip"
    depends_on: tuple[str, ...] = ()
    max_in_flight: int = 256
    circuit_breaker: BreakerSettings | None = field(default_factory=BreakerSettings)
    in_thread: bool = False

    def __post_init__(self) -> None:
        if self.limit is not None:
            check_count("SourceSettings.limit", self.limit, minimum=1)
        check_seconds("SourceSettings.timeout", self.timeout)
        check_choice("SourceSettings.on_error", self.on_error, ("skip", "raise"))
        check_count("SourceSettings.max_in_flight", self.max_in_flight, minimum=1)
        if self.circuit_breaker is not None and not isinstance(self.circuit_breaker, BreakerSettings):
            kind = type(self.circuit_breaker).__name__
            raise InvalidTypeError(f"SourceSettings.circuit_breaker must be BreakerSettings or None; got {kind}")
        check_flag("SourceSettings.in_thread", self.in_thread)
        if not isinstance(self.depends_on, tuple | list):
            raise InvalidTypeError(f"SourceSettings.depends_on must be a sequence of names; got {self.depends_on!r}")
        names = check_names("SourceSettings.depends_on", self.depends_on)
        if len(set(names)) != len(names) or not all(name.strip() for name in names):
            raise InvalidInputError(f"SourceSettings.depends_on must hold each name once, none blank; got {names!r}")
        object.__setattr__(self, "depends_on", names)


def check_settings(settings: Mapping[str, SourceSettings]) -> dict[str, SourceSettings]:
    """A copy of `settings` in name order; an error that names the source where they do not fit together."""
    if not isinstance(settings, Mapping):
        raise InvalidTypeError(f"settings must be a mapping of names to SourceSettings; got {type(settings).__name__}")
    if not settings:
        raise InvalidInputError("settings must name at least one source; got none")
    for name, one in settings.items():
        if not isinstance(name, str) or not name.strip():
            raise InvalidTypeError(f"a source's name must be text that is not blank; got {name!r}")
        if not isinstance(one, SourceSettings):
            raise InvalidTypeError(f"settings[{name!r}] must be SourceSettings; got {type(one).__name__}")
        for need in one.depends_on:
            if need not in settings:
                raise InvalidInputError(
                    f"source {name!r} depends on {need!r}, which has no settings; known are {sorted(settings)}"
                )
    try:
        TopologicalSorter({name: one.depends_on for name, one in settings.items()}).prepare()
    except CycleError as error:
        raise InvalidInputError(f"depends_on runs in a circle: {' -> '.join(reversed(error.args[1]))}") from None
    return {name: settings[name] for name in sorted(settings)}


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


Condition: TypeAlias = Literal["answering", "failing", "unusable", "open"]


class SourceState:
    """What is known of one source between calls: searches in flight, its breaker, its condition. Thread-safe.

    `notices` holds the changes that no call has announced yet, as (condition, text).
    """

    __slots__ = ("_breaker", "_condition", "_in_flight", "_lock", "_name", "_settings", "notices")

    def __init__(self, name: str, settings: SourceSettings) -> None:
        self._name = name
        self._settings = settings
        self._lock = threading.Lock()
        self._in_flight = 0
        breaker = settings.circuit_breaker
        self._breaker = None if breaker is None else Breaker(breaker.failures, breaker.probe_interval)
        self._condition: Condition = "answering"
        self.notices: deque[tuple[Condition, str]] = deque(maxlen=16)

    def enter(self) -> tuple[str, bool]:
        """Begin a search: ("", whether it is a trial), or the reason why it may not begin."""
        breaker, now = self._breaker, monotonic()
        with self._lock:
            if breaker is not None and not breaker.allows(now):
                return "circuit breaker open", False
            if self._in_flight >= self._settings.max_in_flight:
                return "busy", False
            self._in_flight += 1
            return "", breaker is not None and breaker.begin(now)

    def leave(self) -> None:
        """Note that a search has ended, in time or late."""
        with self._lock:
            self._in_flight -= 1

    def record(self, status: Status, reason: str, *, probe: bool) -> None:
        """Note how an admitted search ended for its call."""
        healthy = status == "ok" and self._condition == "answering"
        if healthy and self._breaker is None:
            return
        with self._lock:
            if self._breaker is not None:
                self._breaker.record(succeeded=status not in _FAILED, now=monotonic(), probe=probe)
            if healthy:
                return
            before, self._condition = self._condition, self._condition_after(status)
            if self._condition != before:
                self.notices.append((self._condition, self._describe(self._condition, reason)))

    def _condition_after(self, status: Status) -> Condition:
        if self._breaker is not None and self._breaker.state != "closed":
            return "open"
        if status == "partial":
            return "unusable"
        if status in _FAILED:  # an error that is raised to the caller needs no notice
            starts = self._condition == "answering" and self._settings.on_error == "skip"
            return "failing" if starts else self._condition
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
        if condition == "failing":
            return f"{source} failed ({reason}) and is left out until it answers"
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
