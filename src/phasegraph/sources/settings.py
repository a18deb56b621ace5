"""The settings of each source and of its circuit breaker."""

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

CALL_TIMEOUT = 10.0
"""The default time limit of a whole call, in seconds."""


@dataclass(frozen=True, slots=True)
class BreakerSettings(KnownFields):
    """The settings of a circuit breaker: when to skip a failing source, and when to try it again.

    Parameters
    ----------
    failures : int, default 10
        Number of consecutive errors or missed deadlines that open the breaker, >= 1. A source with an open breaker is
        skipped.
    probe_interval : float, default 30.0
        Seconds after which one search tries the source again, > 0.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field has an invalid value or type.

    Notes
    -----
    If independent searches fail with probability p, the breaker opens about once in ``p ** -failures`` searches. With
    p = .2 and the default, this is once in ten million searches.

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
    """The settings for asking one source.

    Parameters
    ----------
    limit : int or None, default 50
        Number of hits to request from the source, >= 1; None leaves the number to the source. The limit does not depend
        on the number of results of the call.
    timeout : float or None, default None
        Maximum duration of the source's search in seconds, > 0. None: only the timeout of the call applies.
    on_error : {"skip", "raise"}, default "skip"
        ``skip``: if the source fails, answer without it, and report the failure. ``raise``: raise the source's error.
    depends_on : sequence of str, default ()
        Names of the sources that are asked before this source; this source reads their rankings.
    max_in_flight : int, default 256
        Maximum number of concurrent searches of this source, >= 1. Searches that continue after the end of their call
        are counted, too. At the maximum, a new search waits; at its timeout, the source is skipped.
    circuit_breaker : BreakerSettings or None
        The settings of the circuit breaker. With None, a failing source is never skipped.
    in_thread : bool, default False
        Run the source in a worker thread even if it has ``asearch``. Use this for coroutines that block their event
        loop.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field has an invalid value or type.

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
            raise InvalidInputError(f"depends_on must not contain blank or repeated names; got {names!r}")
        object.__setattr__(self, "depends_on", names)


def check_settings(settings: Mapping[str, SourceSettings]) -> dict[str, SourceSettings]:
    """Check the settings of all sources, and return a copy in name order; an error names the source.

    A dependency on an unknown source, or a cycle of dependencies, is an error.
    """
    if not isinstance(settings, Mapping):
        raise InvalidTypeError(f"settings must be a mapping of names to SourceSettings; got {type(settings).__name__}")
    if not settings:
        raise InvalidInputError("settings is empty: give SourceSettings for at least one source")
    for name, one in settings.items():
        if not isinstance(name, str) or not name.strip():
            raise InvalidTypeError(f"a source's name must be text that is not blank; got {name!r}")
        if not isinstance(one, SourceSettings):
            raise InvalidTypeError(f"settings[{name!r}] must be SourceSettings; got {type(one).__name__}")
        for need in one.depends_on:
            if need not in settings:
                raise InvalidInputError(
                    f"source {name!r} depends on {need!r}, which has no settings; settings are given for "
                    f"{sorted(settings)}"
                )
    try:
        TopologicalSorter({name: one.depends_on for name, one in settings.items()}).prepare()
    except CycleError as error:
        raise InvalidInputError(
            f"depends_on must not contain a cycle; got {' -> '.join(reversed(error.args[1]))}"
        ) from None
    return {name: settings[name] for name in sorted(settings)}
