"""Give each warning once, and not in every call."""

from __future__ import annotations

from collections.abc import Hashable

from phasegraph.errors import warn


class Once:
    """Warnings that are given once for each key, for example once for each source. The object is thread-safe.

    >>> import warnings
    >>> once = Once()
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     once.warn("source 'v' has no ids", key="v")
    ...     once.warn("source 'v' has still no ids", key="v")
    >>> [str(one.message) for one in seen]
    ["source 'v' has no ids"]
    """

    __slots__ = ("_warned",)

    def __init__(self) -> None:
        self._warned: dict[Hashable, object] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._warned

    def warn(self, text: str, *, key: Hashable = None, cause: BaseException | None = None) -> None:
        """Warn with a text, unless there was a warning with the same key; `cause` is the error that is reported."""
        mark = object()
        if self._warned.setdefault(key, mark) is mark:  # of several threads, only one stores its mark
            warn(text, cause=cause)
