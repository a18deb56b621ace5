"""How often a test repeats what it draws at random: a part of it, or in full where the coverage is measured."""

from __future__ import annotations

import os
from typing import TypeVar

EXHAUSTIVE = os.environ.get("PHASEGRAPH_EXHAUSTIVE") == "1"
"""Whether every random test runs in full, as where GitHub measures coverage. The part begins the whole: seeds stay."""

Kind = TypeVar("Kind")


def repeats(full: Kind, part: Kind) -> Kind:
    """Return the number (or the cases) of the whole test where all run, and of its part elsewhere."""
    return full if EXHAUSTIVE else part
