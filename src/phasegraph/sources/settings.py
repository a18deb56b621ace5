"""How each source is asked: limit, deadline, what to do when it fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Literal, TypeAlias

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.pipeline.checks import check_count, check_number

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
    deadline : float or None, default None
        Seconds from the start of its search, > 0; None = that of the call only.
    on_error : {"skip", "raise"}, default "skip"
        ``skip`` goes on without the source and reports it; ``raise`` raises its own error.
    needs : sequence of str, default ()
        Names of the sources whose rankings it wants first.
    max_in_flight : int, default 256
        Searches of this source that may run at the same time, >= 1, those that outlived their call included;
        beyond it the source is skipped as busy.
    breaker : BreakerSettings or None
        None = always ask.
    in_thread : bool, default False
        Run it in a worker even where it has ``asearch``: for coroutines that block their event loop.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field breaks what is said above.

    Examples
    --------
    >>> SourceSettings(limit=20, needs=["vector"]).needs
    ('vector',)
    >>> SourceSettings(limit=0)
    Traceback (most recent call last):
        ...
    phasegraph.errors.InvalidInputError: SourceSettings.limit must be >= 1; got 0
    """

    limit: int | None = 50
    deadline: float | None = None
    on_error: OnError = "skip"
    needs: tuple[str, ...] = ()
    max_in_flight: int = 256
    breaker: BreakerSettings | None = field(default_factory=BreakerSettings)
    in_thread: bool = False

    def __post_init__(self) -> None:
        if self.limit is not None:
            check_count("SourceSettings.limit", self.limit, minimum=1)
        check_seconds("SourceSettings.deadline", self.deadline)
        if self.on_error not in ("skip", "raise"):
            raise InvalidInputError(f"SourceSettings.on_error must be 'skip' or 'raise'; got {self.on_error!r}")
        check_count("SourceSettings.max_in_flight", self.max_in_flight, minimum=1)
        if self.breaker is not None and not isinstance(self.breaker, BreakerSettings):
            raise InvalidTypeError(
                f"SourceSettings.breaker must be BreakerSettings or None; got {type(self.breaker).__name__}"
            )
        if not isinstance(self.in_thread, bool):
            raise InvalidTypeError(f"SourceSettings.in_thread must be True or False; got {self.in_thread!r}")
        object.__setattr__(self, "needs", _names("SourceSettings.needs", self.needs))


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
        for need in one.needs:
            if need not in settings:
                raise InvalidInputError(
                    f"settings[{name!r}].needs must name sources; got {need!r}, known are {sorted(settings)}"
                )
    try:
        TopologicalSorter({name: one.needs for name, one in settings.items()}).prepare()
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise InvalidInputError(f"needs must not go round in a circle; got {circle}") from None
    return {name: settings[name] for name in sorted(settings)}


def check_seconds(field: str, value: object) -> None:
    """Raise unless `value` is None or a finite number of seconds above 0."""
    if value is None:
        return
    if check_number(field, value) == 0:
        raise InvalidInputError(f"{field} must be > 0; got {value!r}")


def _names(field: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, tuple | list):
        raise InvalidTypeError(f"{field} must be a sequence of names; got {value!r}")
    for name in value:
        if not isinstance(name, str) or not name.strip():
            raise InvalidTypeError(f"{field} must hold names that are not blank; got {name!r}")
    if len(set(value)) != len(value):
        raise InvalidInputError(f"{field} must not name a source twice; got {tuple(value)!r}")
    return tuple(value)
