"""Show a progress bar on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypeVar, cast

Item = TypeVar("Item")


def with_progress(
    queries: Iterable[Item],
    /,
    show: bool | None,
    *,
    label: str = "calibrate",
    unit: str = "query",
    total: int | None = None,
) -> Iterable[Item]:
    """Return an iterable of the same items that shows a progress bar while it is iterated.

    The bar appears only if `show` is True, standard error is a terminal, and tqdm is installed. `label` is the text
    before the bar, `unit` the name of an item, and `total` the number of items, if it is known.
    """
    if not show or not sys.stderr.isatty():
        return queries
    try:
        from tqdm import tqdm
    except ImportError:
        return queries
    return cast("Iterable[Item]", tqdm(queries, desc=label, unit=unit, total=total))
