"""Settings of each source, its circuit breaker, and what is known of it between calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Literal, TypeAlias

from phasegraph._support.validation import (
    KnownFields,
    check_choice,
    check_count,
    check_flag,
    check_names,
    check_seconds,
)
from phasegraph.errors import InvalidInputError, InvalidTypeError

OnError: TypeAlias = Literal["skip", "raise"]


@dataclass(frozen=True, slots=True)
class BreakerSettings(KnownFields):
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
        a further one waits its turn, within its timeout, before it is skipped as busy.
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
    phasegraph.errors.InvalidInputError: limit must be >= 1; got 0
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
            check_count("limit", self.limit, minimum=1)
        check_seconds("timeout", self.timeout)
        check_choice("on_error", self.on_error, ("skip", "raise"))
        check_count("max_in_flight", self.max_in_flight, minimum=1)
        if self.circuit_breaker is not None and not isinstance(self.circuit_breaker, BreakerSettings):
            kind = type(self.circuit_breaker).__name__
            raise InvalidTypeError(f"circuit_breaker must be BreakerSettings or None; got {kind}")
        check_flag("in_thread", self.in_thread)
        if not isinstance(self.depends_on, tuple | list):
            raise InvalidTypeError(f"depends_on must be a sequence of names; got {self.depends_on!r}")
        names = check_names("depends_on", self.depends_on)
        if len(set(names)) != len(names) or not all(name.strip() for name in names):
            raise InvalidInputError(f"depends_on must hold each name once, none blank; got {names!r}")
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
