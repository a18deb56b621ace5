"""Which kernel runs a push: numpy, or the functions that numba compiles."""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Literal

from phasegraph.errors import InvalidInputError, MissingDependencyError

Kernel = Literal["auto", "numpy", "compiled"]


def check_kernel(kernel: str) -> None:
    """Refuse an unknown kernel, or "compiled" where numba is missing, without loading numba."""
    if kernel not in ("auto", "numpy", "compiled"):
        raise InvalidInputError(f'kernel must be "auto", "numpy" or "compiled"; got {kernel!r}')
    if kernel == "compiled" and (sys.modules.get("numba", ...) is None or find_spec("numba") is None):
        raise MissingDependencyError('kernel="compiled" needs numba: pip install "phasegraph[graph]"')


def use_compiled(kernel: str) -> bool:
    """Whether to use the compiled kernels: "auto" does where numba is installed."""
    check_kernel(kernel)
    return kernel != "numpy" and _load_kernels() is not None


def compiled_kernels() -> ModuleType:
    """The compiled functions; only after :func:`use_compiled` has said yes."""
    found = _load_kernels()
    if found is None:
        raise MissingDependencyError('the compiled kernel needs numba: pip install "phasegraph[graph]"')
    return found


@cache
def _load_kernels() -> ModuleType | None:
    try:
        from phasegraph.graph.pagerank import _numba_kernels as compiled
    except ImportError:
        return None
    return compiled
