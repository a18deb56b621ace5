"""Give each warning once, and not in every call."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from phasegraph.errors import warn

_ON_TRIAL = ContextVar("phasegraph_on_trial", default=False)


@contextmanager
def on_trial() -> Iterator[None]:
    """Give no warnings about settings in the ``with`` block, which makes a retriever only to check its settings."""
    token = _ON_TRIAL.set(True)
    try:
        yield
    finally:
        _ON_TRIAL.reset(token)


def warn_of_settings(text: str) -> None:
    """Warn about the settings of a retriever, unless the retriever is made only to check them."""
    if not _ON_TRIAL.get():
        warn(text)


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
