"""Run a function in a separate process of low priority."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

_PROGRAM = """\
import os, sys
from importlib import import_module
if hasattr(os, "nice"):
    os.nice(10)
getattr(import_module(sys.argv[1]), sys.argv[2])(*sys.argv[3:])
"""
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_BELOW_NORMAL = 0x4000
"""The process priority of Windows that corresponds to a nice value of 10."""


def run_apart(module: str, function: str, arguments: Sequence[str], seconds: float) -> str:
    """Call a function of an installed module in a new process of low priority, and wait until the process ends.

    The new process shares no thread, lock or array with this process, and frees its memory when it ends.

    Parameters
    ----------
    module, function : str
        The names of the module and of the function.
    arguments : sequence of str
        The arguments of the function, as strings.
    seconds : float
        Time in seconds after which the process is killed.

    Returns
    -------
    str
        The reason for the failure; "" if the function succeeded.

    Raises
    ------
    OSError
        If the process cannot be started.

    Examples
    --------
    >>> run_apart("os", "stat", ["."], 60.0)
    ''
    >>> run_apart("os", "stat", ["missing"], 60.0)
    "FileNotFoundError: [Errno 2] No such file or directory: 'missing'"
    """
    path = os.pathsep.join(one for one in sys.path if one)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _PROGRAM, module, function, *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False, timeout=seconds,
            env={**os.environ, **_ONE_THREAD, "PYTHONPATH": path},
            creationflags=_BELOW_NORMAL if sys.platform == "win32" else 0,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"it took longer than {seconds:g} seconds"
    if done.returncode < 0:
        return f"its process was ended by signal {-done.returncode}"
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return (
        "" if not done.returncode else (said[-1] if said else f"its process ended with the exit code {done.returncode}")
    )
