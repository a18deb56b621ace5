"""Compare the checksums of large files in a thread while the files are already in use.

After damage is found, every use of the files raises an error.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from phasegraph._support.background import Background
from phasegraph.errors import IntegrityError

_logger = logging.getLogger("phasegraph")
LATER = hasattr(os, "pread")
"""True if the system can read at an offset of a file without moving the position of other readers (``os.pread``)."""
_PIECE = 4 * 1024**2
"""Number of bytes of a file that are read at once."""

CheckBytes = Callable[[bytes], str]
"""The type of a function that checks the bytes of whole rows of an array; it returns a text about the fault, or ""."""


@dataclass(frozen=True, slots=True)
class LateFile:
    """A file whose checksum a :class:`LateCheck` compares.

    `descriptor` is the open file, `name` its name for messages, and `sha256` its checksum. `first` is the position of
    the first row in the file, in bytes, and `row` the number of bytes per row.
    """

    descriptor: int
    name: str
    sha256: object
    first: int
    row: int


class LateCheck:
    """A check of files by their checksums, in a thread of low priority that reads a few megabytes at a time.

    The files stay open until the check ends; a writer may replace them meanwhile. The check reads the files and does
    not map them into memory. If another program truncates a file, the check therefore reports damage, and the process
    does not crash. A forked child repeats a check that its parent had not finished.
    """

    def __init__(self) -> None:
        self._files: dict[str, LateFile] = {}
        self._checks: dict[str, CheckBytes] = {}
        self._done: Callable[[str], object] = str
        self._damage, self._finished, self._process = "", False, os.getpid()
        self._thread = Background("late-check")
        self._open: list[int] = []
        weakref.finalize(self, _close, self._open)

    def add(self, array: str, descriptor: int, name: str, sha256: object, first: int, row: int) -> None:
        """Add a file to the check; the caller may close its descriptor afterwards.

        `array` is the name of the array in the file. The other arguments are the fields of :class:`LateFile`.
        """
        kept = os.dup(descriptor)
        self._open.append(kept)
        self._files[array] = LateFile(kept, name, sha256, first, row)

    def begin(self, done: Callable[[str], object], checks: dict[str, CheckBytes]) -> None:
        """Start the check in a thread; at its end, call ``done(damage)``.

        `damage` is a text about the damaged file, or "" if all files are intact. `checks` maps names of arrays to
        functions that additionally check the rows of these arrays.
        """
        self._done, self._checks, self._process = done, checks, os.getpid()
        self._thread.start(self._run)

    def refuse_damaged(self, *, settled: bool = False) -> None:
        """Raise IntegrityError if the check found damage; with `settled`, first wait for the end of the check."""
        if not self._finished:
            if self._process != os.getpid():  # a forked child has no thread of its parent
                self._thread = Background("late-check")
                self.begin(self._done, self._checks)
            if settled:
                self._thread.wait()
        if self._damage:
            raise IntegrityError(self._damage)

    def _run(self) -> None:
        if sys.platform == "linux":  # only Linux has a priority for each thread
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        for array, file in self._files.items():
            self._damage = self._damage_of(file, self._checks.get(array))
            if self._damage:
                _logger.error("%s; searches that use this file raise IntegrityError from now on", self._damage)
                break
        try:
            self._done(self._damage)
        finally:
            self._finished = True
            _close(self._open)

    def _damage_of(self, file: LateFile, check: CheckBytes | None) -> str:
        digest, place, piece, fault = hashlib.sha256(), 0, file.first, ""
        try:
            while read := os.pread(file.descriptor, piece, place):
                digest.update(read)
                if check is not None and place and not fault:
                    fault = check(read[: len(read) // file.row * file.row])
                place += len(read)
                piece = max(_PIECE // max(file.row, 1), 1) * file.row
        except OSError as error:
            fault = f"the file cannot be read: {error}"
        else:
            if digest.hexdigest() != file.sha256:
                fault = "the checksum does not match; the file is damaged"
        return f"{file.name}: {fault}" if fault else ""


def _close(descriptors: list[int]) -> None:
    while descriptors:
        with suppress(OSError):
            os.close(descriptors.pop())
