"""A small cache of the values that were made last."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from time import monotonic
from typing import Any


class Recent:
    """The `most` last values that were made, by key, each for so many seconds; None is for good.

    A copy starts empty. Safe for any number of threads.

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
        """The value of `key`, made where there is none that still serves."""
        held, now = self._held.get(key), monotonic()
        if held is not None and (self.seconds is None or now - held[0] < self.seconds):
            return held[1]
        value = make()
        self._held.pop(key, None)
        for oldest in list(self._held)[: 1 - self.most or None]:  # a list at once: other threads change it meanwhile
            self._held.pop(oldest, None)
        self._held[key] = now, value
        return value

    def forget(self, key: Hashable) -> None:
        """Make the value of `key` anew the next time."""
        self._held.pop(key, None)
