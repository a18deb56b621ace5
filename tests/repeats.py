"""How often a test repeats what it draws at random: in full in CI, and part of it in ``make test``."""

from __future__ import annotations

import os
from typing import TypeVar

EXHAUSTIVE = os.environ.get("PHASEGRAPH_EXHAUSTIVE") == "1"
"""Whether every random test runs in full; .ci/run sets it. The part is the beginning of the whole: seeds stay."""

Kind = TypeVar("Kind")


def repeats(full: Kind, part: Kind) -> Kind:
    """Return the number (or the cases) of the whole test where all run, and of its part elsewhere."""
    return full if EXHAUSTIVE else part
