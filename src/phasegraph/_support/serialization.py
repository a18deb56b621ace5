"""Save and load documents and bundles in JSON and npy files with versions, checksums and size limits; never pickle.

A *document* is a JSON file, such as a pipeline. A *bundle* is a directory, such as a graph: a JSON manifest, and npy
files whose names contain their checksums. The manifest is replaced in one step after all files are on disk. If a
process is killed while it saves, the old content stays intact.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from io import BufferedReader, BufferedWriter
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasegraph._support.files import (
    file_digest,
    make_folder,
    naming_full_disk,
    one_writer,
    replace_file,
    sync_folder,
)
from phasegraph._support.late_checks import LATER, CheckBytes, LateCheck
from phasegraph.errors import IntegrityError, InvalidInputError

FORMAT = "phasegraph"
MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
_DEEPEST = 100
MISFITS = (KeyError, TypeError, ValueError, IndexError, OverflowError, RecursionError)
"""The errors that reading code may raise if the parts of a file contradict each other, as in a forged file."""


def encode_document(kind: str, version: int, body: Mapping[str, object]) -> bytes:
    """Encode a body as a document: JSON with the document's kind, its format version and a checksum.

    Parameters
    ----------
    kind : str
        The kind of the document, such as the name of the saved class.
    version : int
        The version of the document's format, >= 1.
    body : mapping of str to object
        The content: JSON types and finite numbers only.

    Returns
    -------
    bytes
        The JSON text in UTF-8.
    """
    try:
        text = _canonical(body)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"only finite numbers, text, lists and mappings can be saved; {error}") from error
    document = {"format": FORMAT, "kind": kind, "version": version, "sha256": _digest(text), "body": body}
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()


def decode_document(data: bytes, kind: str, newest: int) -> dict[str, object]:
    """Return the body of a JSON document that :func:`encode_document` encoded.

    Parameters
    ----------
    data : bytes
        The encoded document.
    kind : str
        The kind that the document must have, such as "pipeline".
    newest : int
        The highest format version that this release can read.

    Returns
    -------
    dict
        The body.

    Raises
    ------
    IntegrityError
        If the document is damaged, has another kind, or has a format version above `newest`.
    """
    if len(data) > MAX_DOCUMENT_BYTES:
        raise IntegrityError(
            f"the file must have at most {MAX_DOCUMENT_BYTES} bytes; got {len(data)}: check the path, or restore the "
            "file from a backup"
        )
    try:
        document = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise IntegrityError(
            "the file is not JSON in UTF-8: it is damaged, or phasegraph did not write it. Check the path, or restore "
            "the file from a backup"
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise IntegrityError("phasegraph did not write this file: check the path")
    if document.get("kind") != kind:
        raise IntegrityError(
            f"the file must be of kind {kind!r}; got {str(document.get('kind'))[:80]!r}: check the path"
        )
    version = document.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise IntegrityError(
            f"version must be an integer >= 1; got {str(version)[:80]!r}, so the file is damaged: restore it from a "
            "backup"
        )
    if version > newest:
        raise IntegrityError(
            f"this release reads {kind} files up to version {newest}, and this file is newer: version {version}. "
            "Run pip install -U phasegraph to get a release that reads it"
        )
    body = document.get("body")
    if not isinstance(body, dict):
        raise IntegrityError("the field 'body' is missing, so the file is damaged: restore it from a backup")
    if deeper(body, _DEEPEST):
        raise IntegrityError(
            f"values must be nested at most {_DEEPEST} levels deep: the file is damaged, or phasegraph did not write "
            "it. Check the path, or restore the file from a backup"
        )
    try:
        intact = document.get("sha256") == _digest(_canonical(body))
    except (ValueError, RecursionError) as error:
        raise IntegrityError("a number is not finite, so the file is damaged: restore it from a backup") from error
    if not intact:
        raise IntegrityError(
            "the checksum does not match: the file is damaged or was edited. Restore it from a backup, or save it again"
        )
    return body


def write_document(path: str | os.PathLike[str], kind: str, version: int, body: Mapping[str, object]) -> None:
    """Write a body with its kind and format version to a JSON file in one step: readers see the old or the new file."""
    replace_file(Path(path), encode_document(kind, version, body))


def read_document(path: str | os.PathLike[str], kind: str, newest: int) -> dict[str, object]:
    """Read the body, the saved content, from a JSON file that :func:`write_document` wrote.

    Parameters
    ----------
    path : path
        The file.
    kind : str
        The kind that the file must state, such as "pipeline".
    newest : int
        The newest format version that this release reads.

    Returns
    -------
    dict
        The body, without the kind and the format version.

    Raises
    ------
    IntegrityError
        If the file is damaged or too large, has another kind, or has a format version above `newest`. The message names
        the file.
    """
    file = Path(path)
    try:
        with file.open("rb") as handle:
            data = handle.read(MAX_DOCUMENT_BYTES + 1)
        return decode_document(data, kind, newest)
    except IntegrityError as error:
        raise IntegrityError(f"{file.name}: {error}") from error


def deeper(value: object, most: int) -> bool:
    """Return True if lists and mappings are nested more than `most` levels deep; this uses no recursion."""
    level = [value]
    for _ in range(most):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _canonical(body: Mapping[str, object]) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


MANIFEST = "manifest.json"
MAX_ARRAY_BYTES = 64 * 1024**3
MAPPED_BYTES = 1024**2
"""Maximum size in bytes of an array that is read into memory; the files of larger arrays are memory-mapped.

Reading a small array is as quick as mapping it, and a later truncation of the file does no harm.
"""
LATE_BYTES = 64 * 1024**2
"""Maximum total size in bytes up to which the checksums of files are compared before the files are used.

If the mapped files are larger in total, their checksums are compared in a thread while the files are in use.
"""
_MOST_ARRAYS, _MOST_READS = 200, 1000
_SETTLED = 2.0
"""Seconds after a file's last change from which a further change certainly gives the file another time stamp."""
_MOST_NOTES = 1000
_TICK, _MOST_TICKS, _COARSE = 0.002, 50, 1_000_000
"""Settings for reading the clock of a file system.

Seconds between readings, maximum number of readings, and the resolution of a coarse clock in nanoseconds.
"""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_FILE = re.compile(r"[a-z][a-z0-9_]{0,63}\.[0-9a-f]{16}\.npy")
_BEGUN = re.compile(r"\.[a-z][a-z0-9_]{0,63}\.\d+\.partial")
_TYPE = re.compile(r"[<>|](?:b1|[iu][1248]|f[248])")
_HEADER = re.compile(
    rb"\{'descr': '([<>|][biuf][1248])', 'fortran_order': False, 'shape': \(((?:\d{1,18}, ?)*\d{0,18})\), \} *\n"
)


@dataclass(frozen=True, slots=True)
class StreamedArray:
    """An array that is written to a file in parts, because the whole array may not fit into memory.

    Parameters
    ----------
    dtype : numpy.dtype
        The type of the elements.
    shape : tuple of int
        The shape of the whole array.
    parts : callable
        ``parts()`` returns the parts in order: arrays of this dtype that are joined along the first axis.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    parts: Callable[[], Iterable[NDArray[Any]]]

    def write(self, handle: BufferedWriter) -> None:
        """Write the array as an npy file, with the same bytes as if the whole array were written at once."""
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(handle, header)
        rows = 0
        for part in self.parts():
            if part.dtype != self.dtype or part.shape[1:] != self.shape[1:]:
                raise InvalidInputError(
                    f"parts must contain {self.dtype} values in rows of shape {self.shape[1:]}; got {part.dtype} "
                    f"values in rows of shape {part.shape[1:]}"
                )
            handle.write(np.ascontiguousarray(part).data)
            rows += len(part)
        if rows != self.shape[0]:
            raise InvalidInputError(f"the parts must have {self.shape[0]} rows; got {rows}")


def write_bundle(
    directory: str | os.PathLike[str],
    kind: str,
    version: int,
    body: Mapping[str, object],
    arrays: Mapping[str, NDArray[np.generic] | StreamedArray],
    *,
    readers: Sequence[str] = (),
    committing: AbstractContextManager[object] | None = None,
) -> None:
    """Save a bundle: write a body (JSON types) and arrays to a directory, in one step.

    Parameters
    ----------
    directory : path
        The directory; it is created if it does not exist. An older bundle in it stays intact until the new bundle is
        complete.
    kind, version, body
        See :func:`~phasegraph._support.serialization.encode_document`.
    arrays : mapping of str to array
        The arrays by name. A name consists of lower-case letters, digits and underscores. The elements are integers,
        floats of 2 to 8 bytes, or bool. Give an array that does not fit into memory as a :class:`StreamedArray`.
    readers : sequence of str
        Names of the code that reads these files. This code need not check them until a file changes, because this
        process has just written consistent files; see :meth:`Bundle.passed`.
    committing : context manager, optional
        A context that is entered while the new bundle replaces the old bundle. If entering the context raises an error,
        the old bundle stays.

    Raises
    ------
    StoreError
        If another process or thread is writing to the directory for more than a minute. The message names the other
        process.
    """
    target = Path(directory)
    for name, array in arrays.items():
        if not _NAME.fullmatch(name):
            raise InvalidInputError(f"array names must match [a-z][a-z0-9_]*; got {name!r}")
        if not _TYPE.fullmatch(array.dtype.str):
            raise InvalidInputError(f"array {name!r} must contain numbers; got {array.dtype}")
    make_folder(target)
    with one_writer(target):
        before = {one.name for one in target.glob("*.npy")}
        try:
            entries, written = {}, {}
            for name, array in sorted(arrays.items()):
                with naming_full_disk(target):
                    entries[name] = _write_array(target, name, array)
                written[name] = _times((target / str(entries[name]["file"])).stat())
            sync_folder(target)
            with committing or nullcontext():
                write_document(target / MANIFEST, kind, version, {"arrays": entries, "content": dict(body)})
        except Exception:
            named = (target / MANIFEST).read_bytes() if (target / MANIFEST).is_file() else b""
            for begun in target.glob("*.npy"):  # free the disk, but keep files that the manifest already names
                if begun.name not in before and _FILE.fullmatch(begun.name) and begun.name.encode() not in named:
                    begun.unlink(missing_ok=True)
            raise
        kept = {str(entry["file"]) for entry in entries.values()}
        for stale in target.iterdir():  # delete only array files, because a document may be written here
            if stale.name not in kept and (_FILE.fullmatch(stale.name) or _BEGUN.fullmatch(stale.name)):
                stale.unlink(missing_ok=True)
        if readers:
            _note_written(target, entries, written, readers)


def _note_written(
    target: Path, entries: Mapping[str, Mapping[str, object]], written: Mapping[str, list[int]], readers: Sequence[str]
) -> None:
    """Record that the code named by `readers` need not check the files that were just written to the folder `target`.

    `entries` are the files' entries in the manifest, and `written` the inode, size and times of each file. The function
    waits some milliseconds until the clock of the file system has advanced, so that any later change gives a file a new
    time. Nothing is recorded if this clock is too coarse, or if another process has already changed a file.
    """
    with ExitStack() as opened, suppress(OSError, IntegrityError):
        handles = {name: opened.enter_context(_opened(target, entry)) for name, entry in entries.items()}
        last = max((times[-1] for times in written.values()), default=0)
        if os.name == "nt" or not last % _COARSE:
            return
        with TemporaryFile(dir=target) as clock:
            for _ in range(_MOST_TICKS):
                os.utime(clock.fileno())
                if os.fstat(clock.fileno()).st_ctime_ns > last:
                    break
                time.sleep(_TICK)
            else:
                return  # the clock was set back
        state, _ = _state((target / MANIFEST).read_bytes(), handles)
        if state["files"] == written:
            _note(state, readers)


Verify: TypeAlias = bool | Literal["again"]


@dataclass(frozen=True, slots=True)
class Bundle:
    """The content of a bundle: a directory with a JSON manifest and arrays in ``.npy`` files.

    Parameters
    ----------
    body : dict
        The values that were stored in the manifest.
    arrays : dict of array
        The arrays of the bundle, by name.
    sound : bool
        True if checksums and content passed an earlier check, and the files did not change since then.
    directory : path
        The directory of the bundle.
    state : mapping, optional
        The size, modification time and checksum of each file. The result of a check is recorded for this state. None if
        the result must not be recorded.
    late : LateCheck, optional
        A check that compares the checksums that were not compared when the bundle was read; :meth:`passed` starts it.
    """

    body: dict[str, object]
    arrays: dict[str, NDArray[np.generic]]
    sound: bool
    directory: Path
    state: Mapping[str, object] | None
    late: LateCheck | None = None

    @property
    def plain(self) -> dict[str, NDArray[np.generic]]:
        """The arrays by name, as ``numpy.ndarray``, which is quicker to slice than ``numpy.memmap``."""
        return {name: array.view(np.ndarray) for name, array in self.arrays.items()}

    def passed(self, *readers: str, checks: Mapping[str, CheckBytes] | None = None) -> None:
        """Record that the code named by `readers` need not check the files again while they are unchanged.

        If checksums were not compared yet, start the comparison in a thread, which records its result. The thread also
        checks the rows of some arrays: `checks` maps the name of each such array to the function that checks rows.
        """
        state = self.state

        def note(damage: str) -> None:
            if state is not None and (readers or damage):
                with suppress(OSError):
                    _note(state, readers, damage)

        if self.late is None:
            note("")
        else:
            self.late.begin(note, dict(checks or {}))


def read_bundle(
    directory: str | os.PathLike[str], kind: str, newest: int, *, mmap: bool = True, verify: bool = True
) -> tuple[dict[str, object], dict[str, NDArray[np.generic]]]:
    """Read a bundle, a directory with a JSON manifest and arrays; return its body (JSON types) and its arrays.

    If another process is writing the bundle, the result is either the old bundle or the new bundle. Raises
    IntegrityError, which names the file, if a file is missing or damaged, was not written by phasegraph, or was written
    by a newer version.

    Parameters
    ----------
    directory : path
        The directory of the bundle.
    kind, newest
        See :func:`~phasegraph._support.serialization.decode_document`.
    mmap : bool, default True
        Map large arrays read-only instead of copying them into memory.
    verify : bool, default True
        Compare the checksums of all arrays. False checks only names, sizes, shapes and types.

    Returns
    -------
    (dict, dict of array)
        The body, and the arrays by name.

    Notes
    -----
    If another program truncates a mapped file, reading the missing part crashes the process. :func:`check_mapped`
    detects a truncation beforehand. phasegraph itself never writes into a mapped file. Arrays of up to 1 MiB are read
    into memory; with ``mmap=False``, all arrays are read into memory.
    """
    found = open_bundle(directory, kind, newest, mmap=mmap, verify="again" if verify else False)
    return found.body, found.arrays


def check_exists(folder: Path) -> None:
    """Raise IntegrityError if `folder` does not exist."""
    if not folder.exists():
        raise IntegrityError(f"the folder {str(folder)!r} does not exist: check the path")


def open_bundle(
    directory: str | os.PathLike[str],
    kind: str,
    newest: int,
    *,
    mmap: bool = True,
    verify: Verify = True,
    reader: str = "",
) -> Bundle:
    """Read a bundle as :func:`read_bundle` does, but do not repeat checks of unchanged files.

    Parameters
    ----------
    directory, kind, newest, mmap
        See :func:`read_bundle`.
    verify : bool or "again", default True
        True compares checksums unless the files are known to be intact. "again" always compares them. False does not
        compare them.
    reader : str
        The name of the code that checks the content of the bundle, and then calls :meth:`Bundle.passed`.

    Returns
    -------
    Bundle
        The content of the bundle.

    Notes
    -----
    With ``verify=True``, checksums are compared once for each state of the files. After the `reader` has called
    :meth:`Bundle.passed`, they are compared again only if the manifest changes, or a file's inode, size or time. The
    checksums of large files are compared in a thread after :meth:`Bundle.passed`. Damage is recorded, and the next call
    raises IntegrityError. On Windows, files have no time of change, so checks are always repeated.

    The records are in ``$XDG_CACHE_HOME/phasegraph/checked`` or ``~/.cache/phasegraph/checked``, for the last 1,000
    directories. They are outside of the directory, because the author of a directory must not be able to claim that it
    was checked.
    """
    target = Path(directory)
    manifest = target / MANIFEST
    if not manifest.is_file():
        check_exists(target)
        raise IntegrityError(
            f"a saved {kind} is a directory with a {MANIFEST}; {str(target)!r} has none: check the path"
        )
    for _ in range(_MOST_READS):
        seen, which = _capped(manifest)
        try:
            return _read_bundle(target, seen, kind, newest, mmap, verify, reader)
        except (IntegrityError, OSError):
            if _capped(manifest)[1] == which:
                raise  # otherwise, a writer has replaced the manifest and deleted the files that it named: read again
    raise IntegrityError(
        f"{target.name}: it was replaced at every attempt to read it; try again when no process is writing to it"
    )


def _capped(file: Path) -> tuple[bytes, tuple[int, int]]:
    """Return the content of a file, and the pair (inode, modification time), which identifies its state.

    At most ``MAX_DOCUMENT_BYTES + 1`` bytes are read, so the caller can detect a file that is too large.
    """
    with file.open("rb") as handle:
        about = os.fstat(handle.fileno())
        return handle.read(MAX_DOCUMENT_BYTES + 1), (about.st_ino, about.st_mtime_ns)


def _read_bundle(
    target: Path, manifest: bytes, kind: str, newest: int, mmap: bool, verify: Verify, reader: str
) -> Bundle:
    try:
        document = decode_document(manifest, kind, newest)
    except IntegrityError as error:
        raise IntegrityError(f"{MANIFEST}: {error}") from error
    entries, content = document.get("arrays"), document.get("content")
    if not isinstance(entries, dict) or not isinstance(content, dict) or len(entries) > _MOST_ARRAYS:
        raise IntegrityError(
            f"{MANIFEST}: 'arrays' and 'content' must be mappings, with at most {_MOST_ARRAYS} arrays; they are not, "
            "so the file is damaged: restore it from a backup"
        )
    with ExitStack() as opened:  # open all files first, because a writer may then delete them without harm
        handles = {name: opened.enter_context(_opened(target, entry)) for name, entry in entries.items()}
        state, settled = _state(manifest, handles)
        known = _remembered(state) if verify != "again" and settled else {}
        if verify and known.get("damage"):
            raise IntegrityError(f"{known['damage']:.500} (found by an earlier check; restore the file)")
        sound = reader in known.get("readers", ())
        check = bool(verify) and not sound
        large = sum(os.fstat(one.fileno()).st_size for one in handles.values()) > LATE_BYTES
        late = LateCheck() if check and verify != "again" and mmap and large and LATER else None
        arrays = {name: _read_array(handles[name], name, entries[name], mmap, check, late) for name in entries}
    return Bundle(content, arrays, sound, target, state if settled and check else None, late)


def _state(manifest: bytes, handles: Mapping[str, BufferedReader]) -> tuple[dict[str, Any], bool]:
    """Return a mapping that identifies the state of the files, and True if the mapping will detect every change.

    The second value is False on Windows, and if a file was changed less than two seconds ago. A further change could
    then give a file the same time.
    """
    files = {name: os.fstat(handle.fileno()) for name, handle in handles.items()}
    latest = max((max(one.st_ctime, one.st_mtime) for one in files.values()), default=0.0)
    state: dict[str, Any] = {
        "manifest": hashlib.sha256(manifest).hexdigest(),
        "files": {name: _times(one) for name, one in files.items()},
    }
    return state, os.name != "nt" and latest + _SETTLED < time.time()


def _times(about: os.stat_result) -> list[int]:
    """Return the inode, the size and the times of a file, which identify its state."""
    return [about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns]


def _remembered(state: Mapping[str, object]) -> dict[str, Any]:
    """Return what was recorded about this state of the files; empty if nothing was recorded.

    The key ``readers`` has the names of the code that has checked these files. The key ``damage`` has a description of
    damage that was found, or "".
    """
    notes = _notes()
    if notes is None:
        return {}
    try:
        found = json.loads(_capped(_note_file(notes, state))[0])
        known = {"readers": list(map(str, found.pop("readers"))), "damage": str(found.pop("damage", ""))}
        return known if found == state else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _note(state: Mapping[str, object], readers: Sequence[str], damage: str = "") -> None:
    """Record that the code named by `readers` has checked this state of the files.

    If `damage` is given, record the damage instead.
    """
    notes = _notes()
    if notes is None:
        return
    found = {**state, "damage": damage} if damage else {**state, "readers": list(readers)}
    replace_file(_note_file(notes, state), json.dumps({"readers": [], **found}).encode())
    for stale in sorted(notes.glob("*.json"), key=lambda one: one.stat().st_mtime_ns)[:-_MOST_NOTES]:
        stale.unlink(missing_ok=True)


def _note_file(notes: Path, state: Mapping[str, object]) -> Path:
    return notes / f"{state['manifest']}.json"


def _notes() -> Path | None:
    """Return the user's folder for records about saved files that were checked; None if the folder is unusable.

    The folder is unusable if it cannot be created, or if other users may write to it. The records are outside of all
    saved folders, because the author of a saved folder must not be able to claim that its files were checked.
    """
    home = os.environ.get("XDG_CACHE_HOME", "")
    try:
        notes = (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "phasegraph" / "checked"
        notes.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = notes.stat()
    except (OSError, RuntimeError):  # RuntimeError: the user has no home
        return None
    return notes if about.st_uid == os.getuid() and not about.st_mode & 0o022 else None


def bundle_kind(directory: str | os.PathLike[str]) -> str:
    """Return the kind that the manifest in a folder states; "" if there is no readable manifest or no kind."""
    try:
        kind = json.loads(_capped(Path(directory) / MANIFEST)[0]).get("kind")
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
    return kind if isinstance(kind, str) else ""


def mapped_in(arrays: Iterable[Any]) -> tuple[Any, ...]:
    """Return the memory-mapped arrays behind the given arrays, for :func:`check_mapped`.

    Parameters
    ----------
    arrays : iterable of array or None
        The arrays, which may be views of mapped arrays.

    Returns
    -------
    tuple of memmap
        The mapped arrays; arrays in memory are left out.
    """
    found = []
    for array in arrays:
        held = array
        while isinstance(held, np.ndarray) and not isinstance(held, np.memmap):
            held = held.base
        if isinstance(held, np.memmap) and held._mmap is not None:  # type: ignore[attr-defined]
            found.append(held)
    return tuple(found)


class MappedArray(np.memmap):
    """A memory-mapped array; `late` is the check of its file that may still run in a thread, or None."""

    late: LateCheck | None = None

    def __array_finalize__(self, other: object) -> None:
        super().__array_finalize__(other)
        self.late = getattr(other, "late", None)


def check_mapped(mapped: Iterable[Any], *, settled: bool = False) -> None:
    """Raise IntegrityError if the file of a memory-mapped array was truncated, or if a check found damage in the file.

    Reading the missing part of a truncated file would crash the process (SIGBUS). A truncation between this check and
    the reading cannot be detected. A file that is deleted or replaced stays readable for a process that has mapped it.
    The check takes half a microsecond per file.

    Parameters
    ----------
    mapped : iterable of memmap
        The arrays from :func:`mapped_in`.
    settled : bool, default False
        If True, wait for running checks of checksums. This is needed before data is copied to a file with a new
        checksum.
    """
    for one in mapped:
        if one._mmap.size() < len(one._mmap):
            name = Path(str(one.filename)).name
            raise IntegrityError(f"{name}: the file was truncated while it was in use; restore it and load it again")
        late = getattr(one, "late", None)
        if late is not None:
            late.refuse_damaged(settled=settled)


def _write_array(target: Path, name: str, array: NDArray[np.generic] | StreamedArray) -> dict[str, object]:
    temporary = target / f".{name}.{os.getpid()}.partial"
    try:
        with temporary.open("wb") as handle:
            if isinstance(array, StreamedArray):
                array.write(handle)
            else:
                np.lib.format.write_array(handle, np.ascontiguousarray(array), allow_pickle=False)
            handle.flush()
            os.fsync(handle.fileno())
        digest = file_digest(temporary)
        file = f"{name}.{digest[:16]}.npy"
        os.replace(temporary, target / file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    size = (target / file).stat().st_size
    return {"file": file, "sha256": digest, "bytes": size, "shape": list(array.shape), "dtype": array.dtype.str}


def _opened(target: Path, entry: object) -> BufferedReader:
    if not isinstance(entry, dict) or not _FILE.fullmatch(str(entry.get("file"))):
        raise IntegrityError(
            f"{MANIFEST}: the file name of an array is invalid in {entry!r:.80}, so the file is damaged: restore it "
            "from a backup"
        )
    file = target / str(entry["file"])
    if not file.is_file():
        raise IntegrityError(f"{file.name}: the file is missing; restore the folder from a backup")
    return file.open("rb")


def _read_array(
    handle: BufferedReader, array_name: str, entry: Mapping[str, object], mmap: bool, verify: bool,
    late: LateCheck | None,
) -> NDArray[np.generic]:  # fmt: skip
    """Read or map the array in an open file.

    The header is matched with a regular expression, never evaluated. Memory is allocated only if the size of the file
    agrees with the header. If `late` is given, the file is added to this check, which compares its checksum later.
    """
    name, size = entry["file"], os.fstat(handle.fileno()).st_size
    if size != entry.get("bytes") or size > MAX_ARRAY_BYTES:
        raise IntegrityError(
            f"{name}: {entry.get('bytes')!r:.40} bytes are expected, but it has {size}, so the file is damaged: "
            "restore it from a backup"
        )
    mapped = mmap and size > MAPPED_BYTES
    if verify and not (late is not None and mapped):
        _compare_checksum(handle, entry)
    handle.seek(0)
    start = handle.read(10)
    header = handle.read(int.from_bytes(start[8:10], "little"))
    found = _HEADER.fullmatch(header)
    if start[:8] != b"\x93NUMPY\x01\x00" or found is None or not _TYPE.fullmatch(found[1].decode()):
        raise IntegrityError(
            f"{name}: the file is damaged, because it is not a numeric npy array: restore it from a backup"
        )
    shape = tuple(map(int, found[2].replace(b",", b" ").split()))
    dtype, first = np.dtype(found[1].decode()), handle.tell()
    if list(shape) != entry.get("shape") or dtype.str != entry.get("dtype"):
        raise IntegrityError(
            f"{name}: shape and type differ from {MANIFEST}; got {shape} and {dtype.str}, so a file is damaged: "
            "restore the folder from a backup"
        )
    if max(shape, default=1) > MAX_ARRAY_BYTES or first + dtype.itemsize * math.prod(shape) != size:
        raise IntegrityError(
            f"{name}: {size} bytes are no array of shape {shape}, so the file is damaged: restore it from a backup"
        )
    if late is not None and mapped and dtype.isnative:
        late.add(array_name, handle.fileno(), str(name), entry.get("sha256"), first, (size - first) // shape[0])
    elif late is not None and mapped:  # an array of another byte order is copied into memory
        _compare_checksum(handle, entry)
        handle.seek(first)
    try:
        if mapped:
            mapping = MappedArray(handle, dtype, "r", first, shape)
            mapping.late = late
            array: NDArray[np.generic] = mapping
        else:
            array = np.frombuffer(handle.read(), dtype).reshape(shape)
    except (ValueError, OverflowError, MemoryError) as error:
        raise IntegrityError(
            f"{name}: the array of {size} bytes cannot be read: {error}. Free memory; if enough memory is free, the "
            "file is damaged: restore it from a backup"
        ) from error
    if not dtype.isnative:
        array = array.astype(dtype.newbyteorder("="))
    array.setflags(write=False)
    return array


def _compare_checksum(handle: BufferedReader, entry: Mapping[str, object]) -> None:
    handle.seek(0)
    if hashlib.file_digest(handle, "sha256").hexdigest() != entry.get("sha256"):
        raise IntegrityError(
            f"{entry['file']}: the checksum does not match; the file is damaged: restore it from a backup"
        )
