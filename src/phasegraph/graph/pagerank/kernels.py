"""The choice between numpy and machine code."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Literal

from phasegraph.errors import InvalidInputError, MissingDependencyError

Kernel = Literal["auto", "numpy", "compiled"]


def use_compiled(kernel: str) -> bool:
    """Whether to use machine code: "auto" does where numba is installed.

    Raises
    ------
    InvalidInputError
        If `kernel` is not a known name.
    MissingDependencyError
        If "compiled" is asked for without numba.
    """
    if kernel not in ("auto", "numpy", "compiled"):
        raise InvalidInputError(f'kernel must be "auto", "numpy" or "compiled"; got {kernel!r}')
    if kernel == "numpy":
        return False
    available = _machine() is not None
    if kernel == "compiled" and not available:
        raise MissingDependencyError('kernel="compiled" needs numba: pip install "phasegraph[graph]"')
    return available


def machine() -> ModuleType:
    """The compiled functions; only after :func:`use_compiled` has said yes."""
    found = _machine()
    if found is None:
        raise MissingDependencyError('the compiled kernel needs numba: pip install "phasegraph[graph]"')
    return found


@cache
def _machine() -> ModuleType | None:
    try:
        from phasegraph.graph.pagerank import _numba_kernels as compiled
    except ImportError:
        return None
    return compiled
