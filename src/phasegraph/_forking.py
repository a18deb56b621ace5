"""Attributes worked out on first use, and locks, that never hold a forked child up."""

from __future__ import annotations

import os
import threading
import weakref
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

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
