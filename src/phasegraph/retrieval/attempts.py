"""Ask a store for fewer hits if it refuses the requested number of hits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from phasegraph.errors import PhasegraphError, text_of
from phasegraph.sources.protocol import is_fatal

_NUMBER = re.compile(r"(?<![\d.,])[\d.,]*\d")
_STATEMENT = "\n[SQL: "
_LONGEST_TEXT = 1000


class Attempts:
    """The attempts of one search: with the requested number of hits, then with fewer if the store refuses the number.

    Some stores raise an error if they have fewer hits than requested. An error counts as a refusal if its message
    contains the requested number, the limit. The second attempt then requests the largest smaller number in the
    message. The last attempt requests None, which means the store's default. Connection errors and errors of this
    library are not refusals. If every attempt fails, the first error is raised. Every search starts with the limit,
    because passages may have been added to the store.

    Parameters
    ----------
    limit : int or None
        Number of hits to request; None means the store's default, and a single attempt.
    notes : list of str
        The list to which a note is added if fewer hits were requested.
    within : bool, default False
        True if the search has a filter. The note then omits the store's number of passages, because it may count
        passages that the caller must not see.

    Examples
    --------
    >>> def search(wanted):
    ...     if wanted > 9:
    ...         raise ValueError(f"k={wanted} is more than the 9 passages here")
    ...     return wanted
    >>> for attempt in Attempts(50, notes := []):
    ...     with attempt as wanted:
    ...         found = search(wanted)
    >>> found
    9
    >>> print(notes[0])
    the source refused to return 50 hits (ValueError), so it was asked again for 9 hits: set fetch_k=9 to ask only once
    """

    __slots__ = ("_first", "_left", "_limit", "_notes", "_wanted", "_within")

    def __init__(self, limit: int | None, notes: list[str], *, within: bool = False) -> None:
        self._limit, self._wanted, self._notes, self._within = limit, limit, notes, within
        self._left: list[int | None] = [limit]
        self._first: BaseException | None = None

    def __iter__(self) -> Iterator[Self]:
        while self._left:
            self._wanted = self._left.pop(0)
            yield self

    def __enter__(self) -> int | None:
        return self._wanted

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            self._left = []
            if self._first is not None:
                self._notes.append(self._said())
            return False
        if self._first is None:
            self._first, self._left = error, _fewer(error, self._limit)
            return bool(self._left)
        if is_fatal(error):
            return False
        if not self._left:
            raise self._first
        return True

    def _said(self) -> str:
        refused = (
            f"the source refused to return {self._limit} hits ({type(self._first).__name__}), so it was asked "
            "again for "
        )
        if self._wanted is None:
            return f"{refused}its own default number of hits"
        return (
            f"{refused}fewer hits"
            if self._within
            else (f"{refused}{self._wanted} hits: set fetch_k={self._wanted} to ask only once")
        )


def _fewer(error: BaseException, limit: int | None) -> list[int | None]:
    """Return the numbers of hits for the next attempts; [] if the error is not a refusal of `limit`.

    The last number is None, which means the store's default.
    """
    if limit is None or is_fatal(error) or isinstance(error, PhasegraphError | OSError):
        return []
    said = text_of(error)[:_LONGEST_TEXT].partition(_STATEMENT)[0]  # SQLAlchemy appends the query and its parameters
    counts = {int(one) for one in _NUMBER.findall(said) if one.isdecimal()}
    smaller = [one for one in counts if 0 < one < limit]
    return [] if limit not in counts else [max(smaller), None] if smaller else [None]
