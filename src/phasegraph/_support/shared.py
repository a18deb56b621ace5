"""What threads and forked processes share: values worked out once, locks, and whether anybody still waits."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cached_property, lru_cache, partial, wraps
from time import monotonic
from types import BuiltinMethodType, MethodType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

T_co = TypeVar("T_co", covariant=True)


class lazy_property(cached_property[T_co]):  # noqa: N801 - used as the decorator it is
    """``functools.cached_property`` without the lock of Python 3.11, one for all objects of a class.

    Threads that ask at once work it out at once, and all get the first one's value.

    Examples
    --------
    >>> class Circle:
    ...     @lazy_property
    ...     def area(self):
    ...         return 3.14
    >>> circle = Circle()
    >>> circle.area, circle.__dict__
    (3.14, {'area': 3.14})
    """

    if not TYPE_CHECKING:  # the types are those of the base

        def __get__(self, instance: object, owner: type | None = None) -> object:
            if instance is None or self.attrname is None:
                return super().__get__(instance, owner)
            return instance.__dict__.setdefault(self.attrname, self.func(instance))


class _Held(Protocol):
    def acquire(self) -> object: ...

    def release(self) -> object: ...


LOADING = threading.RLock()
"""Held where a search loads a module: a fork waits for it, since a child would find the module half loaded for ever."""
_waited_for: list[_Held] = [LOADING]
_locks: weakref.WeakSet[threading.Lock] = weakref.WeakSet()


def wait_before_forks(lock: _Held) -> None:
    """Have every fork wait until `lock`, one that its holder may take again, is free."""
    _waited_for.append(lock)


def fork_safe_lock() -> threading.Lock:
    """A lock that is open in a forked child, whoever held it in the parent."""
    made = threading.Lock()
    _locks.add(made)
    return made


def _before() -> None:
    for lock in _waited_for:
        lock.acquire()


def _after() -> None:
    for lock in reversed(_waited_for):
        lock.release()


def _after_in_child() -> None:
    _after()
    for lock in list(_locks):
        lock._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)


OVER: ContextVar[Sequence[bool]] = ContextVar("phasegraph_over", default=())
"""Of the work at hand: not empty once nobody waits for it any more."""

DUE: ContextVar[float] = ContextVar("phasegraph_due", default=float("inf"))
"""When the work at hand is late, on the monotonic clock."""


def seconds_left() -> float:
    """Until the work at hand is late, >= 0; infinite where it has no deadline."""
    return max(DUE.get() - monotonic(), 0.0)


def go_on() -> None:
    """TimeoutError where nobody waits any more; for loops that compute for long."""
    if OVER.get():
        raise TimeoutError("nobody waits for this any more")


Made = TypeVar("Made", bound=Callable[..., Any])
LONGEST_KEPT = 4096
_MOST_KEPT = 256


def portable(function: Made) -> Made:
    """A method that a framework has wrapped, which cannot be pickled, as one that can; any other function itself."""
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    plain = owner is None or type(function) in (MethodType, BuiltinMethodType)  # a wrapper says that it is one
    if plain or not callable(getattr(owner, name, None)):
        return function
    return cast("Made", partial(_call, owner, name))


def _call(owner: object, name: str, *given: object) -> object:
    return getattr(owner, name)(*given)


def kept_while_short(make: Made) -> Made:
    """Keep the last 256 values of a function whose first argument is a length, for lengths of at most 4,096.

    That is at most 8 MB of numbers of eight bytes a function; what is longer is made anew.

    Examples
    --------
    >>> squares = kept_while_short(lambda count: [row * row for row in range(count)])
    >>> squares(3) is squares(3), squares(5000) is squares(5000)
    (True, False)
    """
    kept = lru_cache(maxsize=_MOST_KEPT)(make)

    @wraps(make)
    def given(count: int, *more: Any) -> Any:
        return (kept if count <= LONGEST_KEPT else make)(count, *more)

    return cast("Made", given)
