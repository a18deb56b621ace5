"""Replace files atomically, and lock folders so that only one process or thread at a time writes to them.

The operating system releases the locks of a process that ends, so no stale lock remains.
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
BUILDING = ".building-"
"""Prefix of the names of temporary folders in which the content of a new folder is built."""
PATIENCE = 60.0
"""Default maximum time in seconds that a writer waits for another writer."""
_GLANCE = 0.02
_HELD = {errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK}
_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
_BEYOND = 1 << 30
"""Offset of the byte that is locked on Windows; it is behind the content, because a locked byte cannot be read."""


@contextmanager
def naming_full_disk(folder: Path) -> Iterator[None]:
    """If the ``with`` block raises the error of a full disk, raise an error that names the folder instead.

    This also covers numpy's error for a full disk, which has no error code: "8192 requested and 0 written".
    """
    try:
        yield
    except OSError as error:
        code = errno.ENOSPC if error.errno is None and "requested and" in str(error) else error.errno
        if code not in _FULL or error.filename is not None:
            raise
        raise OSError(code, "No space left on the disk of the folder", str(folder)) from error


def replace_file(path: Path, data: bytes) -> None:
    """Replace the content of a file in one step: write a temporary file, sync it, and rename it to `path`.

    Temporary files of processes that have ended are deleted. Temporary files of running processes are locked, and are
    not deleted.
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
            if sys.platform != "win32":  # Windows cannot rename an open file
                os.replace(name, path)
        if sys.platform == "win32":
            os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def make_folder(path: Path) -> None:
    """Create a directory and its missing parents, and sync them to disk, so that they survive a power failure."""
    made = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for one in made:
        sync_folder(one.parent)


@contextmanager
def building_place(path: Path) -> Iterator[Path]:
    """Create a temporary folder on the file system of `path`, and delete the temporary folder on exit.

    The folder `path` need not exist. The temporary folder is beside `path`, or inside `path` if `path` is a mount point
    or nothing can be created beside it.
    """
    whole = path.absolute()
    beside = next(one for one in whole.parents if one.is_dir())
    inside = whole.is_dir() and (whole.stat().st_dev != beside.stat().st_dev or not os.access(beside, os.W_OK))
    prefix = f"{BUILDING}{whole.name}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=whole if inside else beside) as place:
        yield Path(place)


def sync_folder(path: Path) -> None:
    """Sync the entries of a directory to disk, so that a power failure undoes no rename and no deletion in it.

    On Windows, and on file systems that cannot sync a directory, the function does nothing.
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
    """Return the SHA-256 digest of a file's content, in hexadecimal digits."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _begin(path: Path) -> tuple[int, str]:
    """Create and lock a temporary file in the folder of `path`; return its descriptor and its name."""
    while True:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
        if _lock(descriptor) is not False and os.path.exists(name):  # otherwise, another process is deleting it
            return descriptor, name
        os.close(descriptor)
        Path(name).unlink(missing_ok=True)


def _sweep(path: Path) -> None:
    """Delete the temporary files of processes that ended while they wrote `path`."""
    for stale in path.parent.glob(f".{glob.escape(path.name)}.????????.partial"):
        with suppress(OSError), stale.open("r+b") as handle:
            if _lock(handle.fileno()):
                stale.unlink()


def _umask() -> int:
    """Return the process's permission mask for new files.

    The system returns the mask only when a new mask is set. Therefore, set another mask, then restore the old mask.
    """
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


@contextmanager
def one_writer(folder: Path, *, patience: float | None = None, name: str = LOCK) -> Iterator[None]:
    """Lock a folder during the ``with`` block against writes by other processes and threads.

    Parameters
    ----------
    folder : Path
        The folder. A lock file is created in it, and stays there.
    patience : float, optional
        Maximum time in seconds to wait for another writer. Default: ``PATIENCE``.
    name : str, default ".lock"
        The name of the lock file. Writers with different lock files do not exclude each other.

    Raises
    ------
    StoreError
        If another writer holds the lock for longer than `patience`. The message names the writer's process, machine and
        start time.
    OSError
        If the folder cannot be written to.
    """
    end = time.monotonic() + (PATIENCE if patience is None else patience)
    with (folder / name).open("a+b") as handle:
        while (got := _lock(handle.fileno())) is False:
            if time.monotonic() >= end:
                raise StoreError(
                    f"{folder.name}: {_holder(handle.fileno())} is writing to it; try again when this writer is done"
                )
            time.sleep(_GLANCE)
        if got is None:
            warn(f"{folder.name}: this file system has no locks; make sure that only one process writes to it")
        with suppress(OSError):  # a full disk
            since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
            os.truncate(handle.fileno(), 0)
            os.write(handle.fileno(), f"process {os.getpid()} on {socket.gethostname()}, since {since}".encode())
        try:
            yield
        finally:
            with suppress(OSError):
                os.truncate(handle.fileno(), 0)
            _unlock(handle.fileno())  # closing the file is not enough, because a forked child may share the lock


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
        """Try to lock an open file.

        Return True on success, False if another writer holds the lock, and None if the file system has no locks.
        """
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
        """Try to lock an open file.

        Return True on success, False if another writer holds the lock, and None if the file system has no locks.
        """
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return False if error.errno in _HELD else None
        return True

    def _unlock(descriptor: int) -> None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
