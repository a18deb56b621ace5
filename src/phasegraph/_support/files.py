"""Files that are replaced in one step, and folders that one writer at a time writes to.

Both stand on locks of the operating system, which a process that dies gives back: there is nothing to be stale.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from phasegraph.errors import StoreError, warn

LOCK = ".lock"
PATIENCE = 60.0
"""Seconds for which one who saves waits for another."""
_GLANCE = 0.02
_HELD = {errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK}
_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
_BEYOND = 1 << 30
"""Where Windows locks a byte, so that what the file says can be read meanwhile."""


@contextmanager
def naming_full_disk(folder: Path) -> Iterator[None]:
    """Name the folder in the error of a full disk; the error of the system is its cause.

    numpy reports a short write without a code: "8192 requested and 0 written".
    """
    try:
        yield
    except OSError as error:
        code = errno.ENOSPC if error.errno is None and "requested and" in str(error) else error.errno
        if code not in _FULL or error.filename is not None:
            raise
        raise OSError(code, "No space left on the disk of the folder", str(folder)) from error


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` next to `path`, sync it, rename it into place, and sync the directory.

    What writers that died left there is removed; what a living one is writing is locked, and stays.
    """
    with naming_full_disk(path.parent):
        _replace(path, data)
    sync_folder(path.parent)
    _sweep(path)


def _replace(path: Path, data: bytes) -> None:
    descriptor, name = _begin(path)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
            os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
            if sys.platform != "win32":  # an open file cannot be renamed there
                os.replace(name, path)
        if sys.platform == "win32":
            os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def make_folder(path: Path) -> None:
    """Make a directory and its parents where they are missing; a power cut does not lose them."""
    made = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for one in made:
        sync_folder(one.parent)


def sync_folder(path: Path) -> None:
    """Write the names of a directory's files to disk, so that a power cut undoes no rename and no removal.

    Windows has no such call, and a file system that does not support the call is passed over.
    """
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _begin(path: Path) -> tuple[int, str]:
    """A new file next to `path`, locked."""
    while True:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
        if _lock(descriptor) is not False and os.path.exists(name):  # else someone sweeps it, or just has
            return descriptor, name
        os.close(descriptor)
        Path(name).unlink(missing_ok=True)


def _sweep(path: Path) -> None:
    """Remove what writers of `path` that died have left."""
    for stale in path.parent.glob(f".{glob.escape(path.name)}.????????.partial"):
        with suppress(OSError), stale.open("r+b") as handle:
            if _lock(handle.fileno()):
                stale.unlink()


def _umask() -> int:
    """The process's mask for new files; it can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


@contextmanager
def one_writer(folder: Path, *, patience: float | None = None) -> Iterator[None]:
    """Hold a folder, so that no other process and no other thread writes to it.

    Parameters
    ----------
    folder : Path
        Gets a file ``.lock``, which stays there.
    patience : float, optional
        Seconds to wait for whoever holds it; ``PATIENCE`` unless given.

    Raises
    ------
    StoreError
        If another writer holds it for longer; the message says which process, on which machine, since when.
    OSError
        If the folder cannot be written to.
    """
    end = time.monotonic() + (PATIENCE if patience is None else patience)
    with (folder / LOCK).open("a+b") as handle:
        while (got := _lock(handle.fileno())) is False:
            if time.monotonic() >= end:
                raise StoreError(
                    f"{folder.name}: {_holder(handle.fileno())} is writing to it; try again when that is done"
                )
            time.sleep(_GLANCE)
        if got is None:
            warn(
                f"{folder.name}: this file system has no locks; make sure that only one process writes to it",
                stacklevel=5,
            )
        with suppress(OSError):  # a full disk
            since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
            os.truncate(handle.fileno(), 0)
            os.write(handle.fileno(), f"process {os.getpid()} on {socket.gethostname()}, since {since}".encode())
        try:
            yield
        finally:
            with suppress(OSError):
                os.truncate(handle.fileno(), 0)
            _unlock(handle.fileno())  # closing alone would leave it to a child that was forked meanwhile


def _holder(descriptor: int) -> str:
    with suppress(OSError):
        os.lseek(descriptor, 0, os.SEEK_SET)
        said = os.read(descriptor, 200).decode("utf-8", "replace")
        if said and said.isprintable():
            return f"another writer ({said})"
    return "another writer"


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> bool | None:
        """Whether the file is ours now; None where the file system has no locks."""
        os.lseek(descriptor, _BEYOND, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            return False if error.errno in _HELD else None
        os.lseek(descriptor, 0, os.SEEK_SET)
        return True

    def _unlock(descriptor: int) -> None:
        with suppress(OSError):
            os.lseek(descriptor, _BEYOND, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> bool | None:
        """Whether the file is ours now; None where the file system has no locks."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return False if error.errno in _HELD else None
        return True

    def _unlock(descriptor: int) -> None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
