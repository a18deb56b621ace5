"""Helpers for threads and forked processes: cached properties, locks, values of a call, and canceled searches."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cached_property, lru_cache, partial, wraps
from types import BuiltinMethodType, MethodType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

T_co = TypeVar("T_co", covariant=True)


class lazy_property(cached_property[T_co]):  # noqa: N801 - used as the decorator it is
    """A ``functools.cached_property`` without the lock that all objects of a class share in Python 3.11.

    If several threads read the property at the same time, each thread computes it, and all get the first stored value.

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

    if not TYPE_CHECKING:  # type checkers use the types of the base class

        def __get__(self, instance: object, owner: type | None = None) -> object:
            if instance is None or self.attrname is None:
                return super().__get__(instance, owner)
            return instance.__dict__.setdefault(self.attrname, self.func(instance))


class _Held(Protocol):
    def acquire(self) -> object: ...

    def release(self) -> object: ...


LOADING = threading.RLock()
"""A lock for imports during a search. A fork waits for this lock, because a child must not get a half-imported module.
"""
_waited_for: list[_Held] = [LOADING]
_locks: weakref.WeakSet[threading.Lock] = weakref.WeakSet()


def wait_before_forks(lock: _Held) -> None:
    """Make every fork of the process wait until the reentrant lock `lock` is free."""
    _waited_for.append(lock)


def fork_safe_lock() -> threading.Lock:
    """Return a lock that is free in a forked child process, even if a thread of the parent process has acquired it."""
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
"""A sequence that is empty until the running search is given up; the search reads it, and stops."""

_CALL: ContextVar[dict[object, object] | None] = ContextVar("phasegraph_call", default=None)
T = TypeVar("T")


class one_call:  # noqa: N801 - used as the function it is; a generator would cost more
    """Mark the ``with`` block as one retrieval call, in which :func:`of_call` returns the same value per owner.

    All sources of the call thus use the same version of a corpus, even if another thread changes the corpus.
    """

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        inner = _CALL.get() is not None
        self._token = None if inner else _CALL.set({})

    def __exit__(self, *error: object) -> None:
        if self._token is not None:
            _CALL.reset(self._token)


def of_call(owner: object, current: T) -> T:
    """Return the value that this function first returned for `owner` in the running retrieval call (:func:`one_call`).

    For the first time in a call, and outside of a call, return `current`.

    >>> with one_call():
    ...     print(of_call("corpus", 1), of_call("corpus", 2))
    1 1
    >>> of_call("corpus", 2)
    2
    """
    call = _CALL.get()
    return current if call is None else cast("T", call.setdefault(owner, current))


def go_on() -> None:
    """Raise TimeoutError if the caller no longer waits for the running search; long computations call this often."""
    if OVER.get():
        raise TimeoutError("this search was canceled, because its call has ended")


Made = TypeVar("Made", bound=Callable[..., Any])
LONGEST_KEPT = 4096
_MOST_KEPT = 256


def portable(function: Made) -> Made:
    """Return a picklable equivalent of a method that a framework has wrapped; return other functions unchanged."""
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    plain = owner is None or type(function) in (MethodType, BuiltinMethodType)  # a wrapper has another type
    if plain or not callable(getattr(owner, name, None)):
        return function
    return cast("Made", partial(_call, owner, name))


def _call(owner: object, name: str, *given: object) -> object:
    return getattr(owner, name)(*given)


def kept_while_short(make: Made) -> Made:
    """Cache the last 256 results of a function whose first argument is the length of its result.

    Results with a length above 4,096 are not cached. The cache of a function therefore uses at most 8 MB for arrays of
    eight-byte numbers.

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
