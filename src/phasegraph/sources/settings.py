"""How each source is asked: limit, deadline, what to do when it fails, and what is remembered of it between calls."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from time import monotonic
from typing import Literal, TypeAlias

from phasegraph._validation import check_count, check_seconds
from phasegraph.errors import InvalidInputError, InvalidTypeError

OnError: TypeAlias = Literal["skip", "raise"]


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """When to stop asking a source that keeps failing.

    Parameters
    ----------
    failures : int, default 10
        Consecutive errors or missed deadlines that open the breaker, >= 1.
    probe_interval : float, default 30.0
        Seconds until one search tries again, > 0.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field breaks what is said above.

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
        Names of the sources whose rankings it wants first.
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
        If a field breaks what is said above.

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
        if self.on_error not in ("skip", "raise"):
            raise InvalidInputError(f"SourceSettings.on_error must be 'skip' or 'raise'; got {self.on_error!r}")
        check_count("SourceSettings.max_in_flight", self.max_in_flight, minimum=1)
        if self.circuit_breaker is not None and not isinstance(self.circuit_breaker, BreakerSettings):
            raise InvalidTypeError(
                "SourceSettings.circuit_breaker must be BreakerSettings or None; "
                f"got {type(self.circuit_breaker).__name__}"
            )
        if not isinstance(self.in_thread, bool):
            raise InvalidTypeError(f"SourceSettings.in_thread must be True or False; got {self.in_thread!r}")
        object.__setattr__(self, "depends_on", _names("SourceSettings.depends_on", self.depends_on))


def check_settings(settings: Mapping[str, SourceSettings]) -> dict[str, SourceSettings]:
    """A copy of `settings` in name order, or an error that names the field.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there is no source, a name is blank, a need is unknown, or needs go round in a circle.
    """
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
                    f"settings[{name!r}].depends_on must name sources; got {need!r}, known are {sorted(settings)}"
                )
    try:
        TopologicalSorter({name: one.depends_on for name, one in settings.items()}).prepare()
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise InvalidInputError(f"depends_on must not go round in a circle; got {circle}") from None
    return {name: settings[name] for name in sorted(settings)}


def _names(field: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, tuple | list):
        raise InvalidTypeError(f"{field} must be a sequence of names; got {value!r}")
    for name in value:
        if not isinstance(name, str) or not name.strip():
            raise InvalidTypeError(f"{field} must hold names that are not blank; got {name!r}")
    if len(set(value)) != len(value):
        raise InvalidInputError(f"{field} must not name a source twice; got {tuple(value)!r}")
    return tuple(value)


BreakerState: TypeAlias = Literal["closed", "open", "half_open"]


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
        """``closed``, ``open`` or ``half_open`` (one trial is under way)."""
        if self._opened is None:
            return "closed"
        return "half_open" if self._probing else "open"

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


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """How a source stands between calls.

    Parameters
    ----------
    in_flight : int
        Searches running now, those that outlived their call included.
    circuit_breaker : {"closed", "open", "half_open"}
        ``open``: it is not asked; ``half_open``: one search is trying again.
    """

    in_flight: int
    circuit_breaker: BreakerState


class SourceState:
    """Admission of searches to one source; safe for any number of threads."""

    __slots__ = ("_breaker", "_in_flight", "_lock", "_most")

    def __init__(self, settings: SourceSettings) -> None:
        self._lock = threading.Lock()
        self._most = settings.max_in_flight
        self._in_flight = 0
        circuit_breaker = settings.circuit_breaker
        self._breaker = (
            None if circuit_breaker is None else Breaker(circuit_breaker.failures, circuit_breaker.probe_interval)
        )

    def enter(self) -> tuple[str, bool]:
        """Begin a search: ("", whether it is a trial), or the reason why it may not begin."""
        with self._lock:
            circuit_breaker = self._breaker
            if (
                circuit_breaker is not None
                and circuit_breaker.state != "closed"
                and not circuit_breaker.allows(monotonic())
            ):
                return "breaker open", False
            if self._in_flight >= self._most:
                return "busy", False
            self._in_flight += 1
            return "", circuit_breaker is not None and circuit_breaker.begin(monotonic())

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
