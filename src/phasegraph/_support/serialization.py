"""The one container for what is saved: versioned, checksummed, size-capped; JSON and npy, never pickle.

A *document* is one JSON file (a pipeline). A *bundle* is a directory (a graph): one JSON manifest that names npy
files by their content. The manifest is replaced in one step after everything it names is on disk, so that a process
killed in the middle of saving leaves the old content whole.
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
"""What goes wrong where the parts of a file are sound each and don't fit together: someone made them so."""


def encode_document(kind: str, version: int, body: Mapping[str, object]) -> bytes:
    """`body`, of JSON types and finite numbers only, as a checksummed JSON document; `version` is >= 1."""
    try:
        text = _canonical(body)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"a document holds finite numbers, text, lists and mappings; {error}") from error
    document = {"format": FORMAT, "kind": kind, "version": version, "sha256": _digest(text), "body": body}
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()


def decode_document(data: bytes, kind: str, newest: int) -> dict[str, object]:
    """Body of a document of that kind, of version `newest` at most; IntegrityError where anything is wrong."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise IntegrityError(f"the file must have at most {MAX_DOCUMENT_BYTES} bytes; got {len(data)}")
    try:
        document = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise IntegrityError("this is not JSON in UTF-8: the file is damaged or foreign") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise IntegrityError("this file is foreign: phasegraph did not write it")
    if document.get("kind") != kind:
        raise IntegrityError(f"the file must be of kind {kind!r}; got {str(document.get('kind'))[:80]!r}")
    version = document.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise IntegrityError(f"version must be an integer >= 1; got {str(version)[:80]!r}")
    if version > newest:
        raise IntegrityError(
            f"this release reads {kind} files up to version {newest}, and this one is newer: {version}. "
            "pip install -U phasegraph brings a release that reads it"
        )
    body = document.get("body")
    if not isinstance(body, dict):
        raise IntegrityError("the body is missing: the file is damaged")
    if deeper(body, _DEEPEST):
        raise IntegrityError(f"values must lie at most {_DEEPEST} levels deep: the file is damaged or foreign")
    try:
        intact = document.get("sha256") == _digest(_canonical(body))
    except (ValueError, RecursionError) as error:
        raise IntegrityError("a number is not finite: the file is damaged") from error
    if not intact:
        raise IntegrityError("the checksum does not match: the file is damaged or was edited")
    return body


def write_document(path: str | os.PathLike[str], kind: str, version: int, body: Mapping[str, object]) -> None:
    """Write a document, in one step: a reader sees the old file or the new one."""
    replace_file(Path(path), encode_document(kind, version, body))


def read_document(path: str | os.PathLike[str], kind: str, newest: int) -> dict[str, object]:
    """Read a document; IntegrityError names the file that is damaged, foreign, too large or newer."""
    file = Path(path)
    try:
        with file.open("rb") as handle:
            data = handle.read(MAX_DOCUMENT_BYTES + 1)
        return decode_document(data, kind, newest)
    except IntegrityError as error:
        raise IntegrityError(f"{file.name}: {error}") from error


def deeper(value: object, most: int) -> bool:
    """Whether lists and mappings lie deeper in each other than that; without recursion."""
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
"""Arrays larger than this are mapped; others are read, which takes no longer and cannot be cut off later."""
LATE_BYTES = 64 * 1024**2
"""Mapped files of more bytes than this together are used before their checksums are compared."""
_MOST_ARRAYS, _MOST_READS = 200, 1000
_SETTLED = 2.0
"""Seconds since its last change after which a file's times say whether it is changed again."""
_MOST_NOTES = 1000
_TICK, _MOST_TICKS, _COARSE = 0.002, 50, 1_000_000
"""Seconds between looks at a file system's clock, and how many; nanoseconds of which a coarse one's are multiples."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_FILE = re.compile(r"[a-z][a-z0-9_]{0,63}\.[0-9a-f]{16}\.npy")
_BEGUN = re.compile(r"\.[a-z][a-z0-9_]{0,63}\.\d+\.partial")
_TYPE = re.compile(r"[<>|](?:b1|[iu][1248]|f[248])")
_HEADER = re.compile(
    rb"\{'descr': '([<>|][biuf][1248])', 'fortran_order': False, 'shape': \(((?:\d{1,18}, ?)*\d{0,18})\), \} *\n"
)


@dataclass(frozen=True, slots=True)
class StreamedArray:
    """An array that is written part by part, and never whole in memory.

    Parameters
    ----------
    dtype : numpy.dtype
    shape : tuple of int
    parts : callable
        ``parts()`` gives what it is made of, in order: arrays of this type that follow each other along the first axis.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    parts: Callable[[], Iterable[NDArray[Any]]]

    def write(self, handle: BufferedWriter) -> None:
        """Write it as an npy file: the bytes are those of the whole array."""
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(handle, header)
        rows = 0
        for part in self.parts():
            if part.dtype != self.dtype or part.shape[1:] != self.shape[1:]:
                raise InvalidInputError(
                    f"parts must be {self.dtype} of rows of shape {self.shape[1:]}; got {part.dtype}, {part.shape}"
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
    """Save a body and its arrays in a directory, atomically.

    Parameters
    ----------
    directory : path
        Made if missing. An older bundle in it stays whole until the new one is complete.
    kind, version, body
        As for :func:`~phasegraph._support.serialization.encode_document`.
    arrays : mapping of str to array
        Names of lower-case letters, digits and underscores; integers, floats of 2 to 8 bytes, or bool. What is too
        large for memory comes as a :class:`StreamedArray`.
    readers : sequence of str
        Readers that need not check these files, as :meth:`Bundle.passed` notes it: the checksums are those of what
        was just written, and what was written fits together. Until a file changes, they open it without reading it.
    committing : context manager, optional
        Entered while the new bundle takes the place of the old one. An error on entering leaves the old bundle.

    Raises
    ------
    StoreError
        If another process or thread is writing to the directory and does not end within a minute; it is named.
    """
    target = Path(directory)
    for name, array in arrays.items():
        if not _NAME.fullmatch(name):
            raise InvalidInputError(f"array names must match [a-z][a-z0-9_]*; got {name!r}")
        if not _TYPE.fullmatch(array.dtype.str):
            raise InvalidInputError(f"array {name!r} must have a plain type; got {array.dtype}")
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
            for begun in target.glob("*.npy"):  # a disk may be full of them; the manifest may name them already
                if begun.name not in before and _FILE.fullmatch(begun.name) and begun.name.encode() not in named:
                    begun.unlink(missing_ok=True)
            raise
        kept = {str(entry["file"]) for entry in entries.values()}
        for stale in target.iterdir():  # of arrays alone: somebody may be writing a document here
            if stale.name not in kept and (_FILE.fullmatch(stale.name) or _BEGUN.fullmatch(stale.name)):
                stale.unlink(missing_ok=True)
        if readers:
            _note_written(target, entries, written, readers)


def _note_written(
    target: Path, entries: Mapping[str, Mapping[str, object]], written: Mapping[str, list[int]], readers: Sequence[str]
) -> None:
    """Note what was just written as checked, where the clock of its files tells a later change from the writing.

    Nothing is noted where one is no longer the file that was `written`: saving a large index takes minutes.
    Looks at the files only when that clock has gone on since the last of them was written, which takes some
    milliseconds: whatever changes one from then on gets another time.
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
    """What was read of a bundle.

    Parameters
    ----------
    body : dict
    arrays : dict of array
    sound : bool
        These very files, unchanged since, have been checked before, with checksums and by the reader.
    directory : path
    state : mapping, optional
        What tells this state of the files from others; None where it is not to be remembered.
    late : LateCheck, optional
        The check of the files whose checksums have yet to be compared; it waits for :meth:`passed`.
    """

    body: dict[str, object]
    arrays: dict[str, NDArray[np.generic]]
    sound: bool
    directory: Path
    state: Mapping[str, object] | None
    late: LateCheck | None = None

    @property
    def plain(self) -> dict[str, NDArray[np.generic]]:
        """The arrays, mapped ones as plain ones, which are quicker to slice."""
        return {name: array.view(np.ndarray) for name, array in self.arrays.items()}

    def passed(self, *readers: str, checks: Mapping[str, CheckBytes] | None = None) -> None:
        """Remember that these readers need not check it, where the files are at rest.

        Where checksums have yet to be compared, begin with that, and remember what was found. `checks` are for the
        rows of arrays that the readers have not looked at.
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
    """Body and arrays of a bundle; IntegrityError names the file that is missing, damaged, foreign or newer.

    Beside a writer it is the old bundle or the new one.

    Parameters
    ----------
    directory : path
    kind, newest
        As for :func:`~phasegraph._support.serialization.decode_document`.
    mmap : bool, default True
        Map large arrays read-only in place of copying them into memory.
    verify : bool, default True
        Check every array's checksum; False checks names, sizes, shapes and types only.

    Returns
    -------
    (dict, dict of array)

    Notes
    -----
    A mapped file that another program cuts off (phasegraph itself never writes into one) would end the process at
    the next look at what is gone: :func:`check_mapped` refuses it before. Arrays of up to a mebibyte, and with
    ``mmap=False`` all, are in memory and out of that danger.
    """
    found = open_bundle(directory, kind, newest, mmap=mmap, verify="again" if verify else False)
    return found.body, found.arrays


def check_exists(folder: Path) -> None:
    """Refuse a folder that is not there: IntegrityError."""
    if not folder.exists():
        raise IntegrityError(f"the folder {folder.name!r} does not exist")


def open_bundle(
    directory: str | os.PathLike[str],
    kind: str,
    newest: int,
    *,
    mmap: bool = True,
    verify: Verify = True,
    reader: str = "",
) -> Bundle:
    """As :func:`read_bundle`, without reading what is known to be sound.

    Parameters
    ----------
    directory, kind, newest, mmap
        As for :func:`read_bundle`.
    verify : bool or "again", default True
        Whether to compare checksums.
    reader : str
        Who checks what was read, and says so by :meth:`Bundle.passed`.

    Returns
    -------
    Bundle

    Notes
    -----
    With ``verify=True`` checksums are compared once for each state of the files: after :meth:`Bundle.passed` by the
    `reader`, they are not read again until the manifest, or inode, size or a time of one of the files, has changed.
    Those of large files are compared on a thread after :meth:`Bundle.passed`; damage is noted, too, and refused here.
    "again" compares them at once, whatever is known. On Windows, where files have no time of change, nothing is known.
    The notes of this are the user's, in ``$XDG_CACHE_HOME/phasegraph/checked`` or ``~/.cache/phasegraph/checked``, one
    for each of the last 1,000 directories. They lie outside of the directory, so that whoever hands it over cannot say
    that it was checked.
    """
    target = Path(directory)
    manifest = target / MANIFEST
    if not manifest.is_file():
        check_exists(target)
        raise IntegrityError(f"a saved {kind} is a directory with a {MANIFEST}; {target.name!r} has none")
    for _ in range(_MOST_READS):
        seen, which = _capped(manifest)
        try:
            return _read_bundle(target, seen, kind, newest, mmap, verify, reader)
        except (IntegrityError, OSError):
            if _capped(manifest)[1] == which:
                raise  # else a writer has replaced it meanwhile, perhaps by the same, and removed what it named
    raise IntegrityError(
        f"{target.name}: it was replaced at every attempt to read it; try again when its writers are done"
    )


def _capped(file: Path) -> tuple[bytes, tuple[int, int]]:
    """What is in a file, and which file it was: one that replaces it has another number or time."""
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
        raise IntegrityError(f"{MANIFEST}: arrays and content must be mappings; it is damaged")
    with ExitStack() as opened:  # all at once: from then on a writer may remove them
        handles = {name: opened.enter_context(_opened(target, entry)) for name, entry in entries.items()}
        state, settled = _state(manifest, handles)
        known = _remembered(state) if verify != "again" and settled else {}
        if verify and known.get("damage"):
            raise IntegrityError(f"{known['damage']:.500} (found before; restore the file)")
        sound = reader in known.get("readers", ())
        check = bool(verify) and not sound
        large = sum(os.fstat(one.fileno()).st_size for one in handles.values()) > LATE_BYTES
        late = LateCheck() if check and verify != "again" and mmap and large and LATER else None
        arrays = {name: _read_array(handles[name], name, entries[name], mmap, check, late) for name in entries}
    return Bundle(content, arrays, sound, target, state if settled and check else None, late)


def _state(manifest: bytes, handles: Mapping[str, BufferedReader]) -> tuple[dict[str, Any], bool]:
    """What changes when a file does, and whether it would: not where one has changed just now."""
    files = {name: os.fstat(handle.fileno()) for name, handle in handles.items()}
    latest = max((max(one.st_ctime, one.st_mtime) for one in files.values()), default=0.0)
    state: dict[str, Any] = {
        "manifest": hashlib.sha256(manifest).hexdigest(),
        "files": {name: _times(one) for name, one in files.items()},
    }
    return state, os.name != "nt" and latest + _SETTLED < time.time()


def _times(about: os.stat_result) -> list[int]:
    """What tells one state of a file from another."""
    return [about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns]


def _remembered(state: Mapping[str, object]) -> dict[str, Any]:
    """Which `readers` need not check the files in this state, and the `damage` that was found in them."""
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
    """Note that these readers need not check the files in this state, or that these are damaged."""
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
    """The directory of the user's notes; None where there is no place for it, or where other users may write to it.

    It lies outside of every saved directory: whoever hands over a directory cannot say that its files were checked.
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
    """What kind of bundle a directory says it is; empty where it does not, which reading it will name."""
    try:
        kind = json.loads(_capped(Path(directory) / MANIFEST)[0]).get("kind")
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
    return kind if isinstance(kind, str) else ""


def mapped_in(arrays: Iterable[Any]) -> tuple[Any, ...]:
    """The mapped arrays behind some, for :func:`check_mapped`.

    Parameters
    ----------
    arrays : iterable of array or None

    Returns
    -------
    tuple of memmap
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
    """An array in a file, and the check of the file that may not have ended yet."""

    late: LateCheck | None = None

    def __array_finalize__(self, other: object) -> None:
        super().__array_finalize__(other)
        self.late = getattr(other, "late", None)


def check_mapped(mapped: Iterable[Any], *, settled: bool = False) -> None:
    """Refuse arrays of :func:`mapped_in` whose file was cut off or found damaged since: IntegrityError.

    A file takes half a microsecond. With `settled`, wait for checks that have not ended: what is copied from a file
    gets a checksum of its own.

    Looking at what is gone would end the process (SIGBUS). A file that is cut off in the very moment of a look cannot
    be helped; one that is deleted or replaced stays whole for those who have mapped it.

    Parameters
    ----------
    mapped : iterable of memmap
    settled : bool, default False
    """
    for one in mapped:
        if one._mmap.size() < len(one._mmap):
            name = Path(str(one.filename)).name
            raise IntegrityError(f"{name}: the file was cut off while it was in use; load it again")
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
        raise IntegrityError(f"{MANIFEST}: an array's file name must be plain; it is damaged")
    file = target / str(entry["file"])
    if not file.is_file():
        raise IntegrityError(f"{file.name}: the file is missing")
    return file.open("rb")


def _read_array(
    handle: BufferedReader, array_name: str, entry: Mapping[str, object], mmap: bool, verify: bool,
    late: LateCheck | None,
) -> NDArray[np.generic]:  # fmt: skip
    """The array of an open file: its header is matched, never evaluated, and nothing is allocated on its word.

    The checksum of a file that is mapped is left to a `late` check.
    """
    name, size = entry["file"], os.fstat(handle.fileno()).st_size
    if size != entry.get("bytes") or size > MAX_ARRAY_BYTES:
        raise IntegrityError(f"{name}: {entry.get('bytes')!r:.40} bytes are expected; it has {size} (truncated?)")
    mapped = mmap and size > MAPPED_BYTES
    if verify and not (late is not None and mapped):
        _compare_checksum(handle, entry)
    handle.seek(0)
    start = handle.read(10)
    header = handle.read(int.from_bytes(start[8:10], "little"))
    found = _HEADER.fullmatch(header)
    if start[:8] != b"\x93NUMPY\x01\x00" or found is None or not _TYPE.fullmatch(found[1].decode()):
        raise IntegrityError(f"{name}: a plain npy array is expected; the file is damaged")
    shape = tuple(map(int, found[2].replace(b",", b" ").split()))
    dtype, first = np.dtype(found[1].decode()), handle.tell()
    if list(shape) != entry.get("shape") or dtype.str != entry.get("dtype"):
        raise IntegrityError(f"{name}: shape and type must be those of {MANIFEST}; got {shape} and {dtype.str}")
    if max(shape, default=1) > MAX_ARRAY_BYTES or first + dtype.itemsize * math.prod(shape) != size:
        raise IntegrityError(f"{name}: {size} bytes are no array of shape {shape}; the file is damaged")
    if late is not None and mapped and dtype.isnative:
        late.add(array_name, handle.fileno(), str(name), entry.get("sha256"), first, (size - first) // shape[0])
    elif late is not None and mapped:  # an array in the order of other machines is copied into memory
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
        raise IntegrityError(f"{name}: {size} bytes cannot be read: {error}") from error
    if not dtype.isnative:
        array = array.astype(dtype.newbyteorder("="))
    array.setflags(write=False)
    return array


def _compare_checksum(handle: BufferedReader, entry: Mapping[str, object]) -> None:
    handle.seek(0)
    if hashlib.file_digest(handle, "sha256").hexdigest() != entry.get("sha256"):
        raise IntegrityError(f"{entry['file']}: the checksum does not match; the file is damaged")
