"""A process beside the tests, in which a method of a suite runs and may be killed."""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
import warnings
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest


class OtherProcess:
    """A server process that runs methods of suites in child processes.

    It is forked from the process of the tests when everything is imported and no test has run yet: an interpreter of
    its own would import the frameworks again, which takes seconds. No store is open in it, because a store's client
    does not survive a fork.
    """

    def __init__(self) -> None:
        self._ours, theirs = multiprocessing.Pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # since Python 3.12, where a process has threads
            if not os.fork():
                self._ours.close()
                _serve(theirs)
        theirs.close()

    def run(self, suite: type, method: str, *arguments: Any) -> tuple[int, Any]:
        """Call a method of a new instance of a suite; return the exit code, and what the method returned."""
        self._ours.send((suite.__module__, suite.__qualname__))
        self._ours.send((method, arguments))
        code, found = self._ours.recv()
        return code, found


def _serve(connection: Connection) -> None:
    """Run what is asked for until the process of the tests ends."""
    loaded: set[type] = set()
    while True:
        try:
            module, name = connection.recv()
        except EOFError:
            os._exit(0)
        asked, suite = connection.recv_bytes(), getattr(sys.modules[module], name)()
        if type(suite) not in loaded and hasattr(suite, "load"):
            suite.load()  # what the suite imports at first use: once, and not in every child
            loaded.add(type(suite))
        result, child_end = multiprocessing.Pipe(duplex=False)
        child = os.fork()
        if not child:
            _run(child_end, suite, asked)
        child_end.close()
        try:
            found = result.recv()
        except EOFError:  # it was killed
            found = None
        connection.send((os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), found))


def _run(result: Connection, suite: Any, asked: bytes) -> None:
    """Call the method, and end the process."""
    code = 1
    try:
        method, arguments = ForkingPickler.loads(asked)
        result.send(getattr(suite, method)(*arguments))
        code = 0
    except BaseException:  # noqa: BLE001 - the tests' process hears of it
        result.send(traceback.format_exc())
    finally:
        os._exit(code)


_started: list[OtherProcess] = []


def start(session: pytest.Session) -> None:
    """Start the process if a test of this run asks for it; called when all tests are collected."""
    asking = any("other_process" in getattr(item, "fixturenames", ()) for item in session.items)
    if asking and not _started and hasattr(os, "fork"):
        _started.append(OtherProcess())


def started() -> OtherProcess:
    """Return the process."""
    if not _started:
        pytest.skip("no fork here")
    return _started[0]
