"""Values that are worked out once per length of a list, kept while they are small."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

Made = TypeVar("Made", bound=Callable[..., Any])
LONGEST_KEPT = 4096
_MOST_KEPT = 256


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
