"""A progress bar on a terminal."""

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
    """`queries` (`total` of them), with a bar while they come, if `show` and standard error is a terminal with tqdm."""
    if not show or not sys.stderr.isatty():
        return queries
    try:
        from tqdm import tqdm
    except ImportError:
        return queries
    return cast("Iterable[Item]", tqdm(queries, desc=label, unit=unit, total=total))
