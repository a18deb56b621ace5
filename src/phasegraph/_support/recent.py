"""A small cache of the most recently computed values."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from time import monotonic
from typing import Any


class Recent:
    """A thread-safe cache that maps keys to values; it contains the `most` values that were computed last.

    A value is valid for `seconds` seconds; None means that a value is always valid. A copy of the cache is empty.

    >>> recent = Recent()
    >>> recent.get("a", lambda: 1), recent.get("a", lambda: 2)
    (1, 1)
    """

    __slots__ = ("_held", "most", "seconds")

    def __init__(self, seconds: float | None = None, most: int = 8) -> None:
        self.seconds, self.most = seconds, most
        self._held: dict[Hashable, tuple[float, Any]] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return Recent, (self.seconds, self.most)

    def __deepcopy__(self, memo: object) -> Recent:
        return Recent(self.seconds, self.most)

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the value of `key`; call ``make()`` if no valid value is cached."""
        held, now = self._held.get(key), monotonic()
        if held is not None and (self.seconds is None or now - held[0] < self.seconds):
            return held[1]
        value = make()
        self._held.pop(key, None)
        for oldest in list(self._held)[: 1 - self.most or None]:  # a copy, because other threads may change the cache
            self._held.pop(oldest, None)
        self._held[key] = now, value
        return value

    def forget(self, key: Hashable) -> None:
        """Remove the value of `key`; the next :meth:`get` computes it again."""
        self._held.pop(key, None)
