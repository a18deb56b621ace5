"""Read zip and tar archives in memory, without writing files or following links, up to a limit of unpacked bytes."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from phasegraph.errors import InvalidInputError

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
MOST_BYTES = 1 << 30
"""Maximum unpacked size of an archive, in bytes."""
MOST_FILES = 100_000
"""Maximum number of files in an archive."""
LARGEST = 64 << 20
"""Maximum size of one file, in bytes."""
TOO_LARGE = f"the file is larger than {LARGEST >> 20} MB"
NOT_A_FILE = "the entry is a link or a device"
Member: TypeAlias = "tuple[str, bytes | str]"
"""A file of an archive: its path, and either its content as bytes or, as a string, the reason that it was not read."""


def is_archive(name: str) -> bool:
    """Return True if a file name has the suffix of an archive."""
    return name.lower().endswith(SUFFIXES)


def members_of(path: Path) -> Iterator[Member]:
    """Yield the path and the content of each file in an archive, or the reason that the file is not read.

    Raises
    ------
    InvalidInputError
        If the archive is damaged, or contains more files or bytes than the limits.
    """
    try:
        yield from _zipped(path) if path.name.lower().endswith(".zip") else _tarred(path)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InvalidInputError(f"{path.name}: the archive cannot be read: {error}") from error


def _zipped(path: Path) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        budget = _Budget(path)
        for info in archive.infolist():
            if info.is_dir():
                continue
            why = budget.refusal(info.filename, info.file_size)
            if why is None and info.flag_bits & 1:
                why = "the file is encrypted: unpack the archive first"
            if why is not None:
                yield info.filename, why
                continue
            with archive.open(info) as file:
                data = file.read(info.file_size + 1)
            yield info.filename, data


def _tarred(path: Path) -> Iterator[Member]:
    with tarfile.open(path, mode="r|*") as archive:  # read as a stream, so that tarfile stores no index of all files
        budget = _Budget(path)
        for info in archive:
            if info.isdir():
                continue
            why = budget.refusal(info.name, info.size)
            if why is None and not info.isreg():
                why = NOT_A_FILE
            file = None if why is not None else archive.extractfile(info)
            yield info.name, why if file is None and why is not None else b"" if file is None else file.read()


class _Budget:
    """A counter of the files and unpacked bytes of an archive, which raises an error above the limits."""

    def __init__(self, path: Path) -> None:
        self._path, self._files, self._bytes = path, 0, 0

    def refusal(self, name: str, size: int) -> str | None:
        """Count a file of `size` bytes, and return the reason that it must not be read; None if it can be read.

        Raises InvalidInputError if the archive contains too many files or bytes.
        """
        self._files, self._bytes = self._files + 1, self._bytes + size
        if self._files > MOST_FILES or self._bytes > MOST_BYTES:
            raise InvalidInputError(
                f"{self._path.name}: the archive contains more than {MOST_FILES:,} files or {MOST_BYTES >> 20:,} MB; "
                "unpack the part that you want, and give its folder"
            )
        parts = PurePosixPath(name.replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts or ":" in (parts.parts or ("",))[0]:
            return "its path leads out of the archive"
        return TOO_LARGE if size > LARGEST else None
