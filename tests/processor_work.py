"""The processor time of a call by a measure that a slower or a busier machine does not change."""

from __future__ import annotations

import time
from collections.abc import Callable


def _loop() -> float:
    began = time.thread_time()
    total = 0
    for number in range(500_000):
        total += number
    return time.thread_time() - began


def work_of(function: Callable[[], object]) -> float:
    """Return the processor time of this thread in a call, in loops over half a million numbers beside it.

    Such a loop takes some hundredths of a second. The loops run before and after the call; the slower loop counts.
    """
    before = _loop()
    began = time.thread_time()
    function()
    took = time.thread_time() - began
    return took / max(before, _loop())
