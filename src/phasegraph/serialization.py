"""The one container for what is saved: versioned, checksummed, size-capped; JSON and npy, never pickle.

A *document* is one JSON file (a pipeline). A *bundle* is a directory (a graph): one JSON manifest that names npy
files by their content. The manifest is replaced in one step after everything it names is on disk, so that a process
killed in the middle of saving leaves the old content whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phasegraph.errors import IntegrityError, InvalidInputError

FORMAT = "phasegraph"
MAX_DOCUMENT_BYTES = 64 * 1024 * 1024


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
            f"this release reads {kind} files up to version {newest}, and this one is newer: {version}"
        )
    body = document.get("body")
    if not isinstance(body, dict):
        raise IntegrityError("the body is missing: the file is damaged")
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


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` next to `path`, sync it, and rename it into place."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The process's mask for new files; it can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _canonical(body: Mapping[str, object]) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


MANIFEST = "manifest.json"
MAX_ARRAY_BYTES = 64 * 1024**3
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_FILE = re.compile(r"[a-z][a-z0-9_]{0,63}\.[0-9a-f]{16}\.npy")


def write_bundle(
    directory: str | os.PathLike[str],
    kind: str,
    version: int,
    body: Mapping[str, object],
    arrays: Mapping[str, NDArray[np.generic]],
) -> None:
    """Save a body and its arrays in a directory, atomically.

    Parameters
    ----------
    directory : path
        Made if missing. An older bundle in it stays whole until the new one is complete. One writer at a time.
    kind, version, body
        As for :func:`~phasegraph.serialization.encode_document`.
    arrays : mapping of str to array
        Names of lower-case letters, digits and underscores; plain numeric, boolean or byte types.
    """
    target = Path(directory)
    for name, array in arrays.items():
        if not _NAME.fullmatch(name):
            raise InvalidInputError(f"array names must match [a-z][a-z0-9_]*; got {name!r}")
        if array.dtype.hasobject:
            raise InvalidInputError(f"array {name!r} must have a plain type; got {array.dtype}")
    target.mkdir(parents=True, exist_ok=True)
    before = {one.name for one in target.glob("*.npy")}
    try:
        entries = {name: _write_array(target, name, array) for name, array in sorted(arrays.items())}
        write_document(target / MANIFEST, kind, version, {"arrays": entries, "content": dict(body)})
    except Exception:  # an interrupt may come when the manifest names them already
        for begun in target.glob("*.npy"):  # a disk may be full of them
            if begun.name not in before and _FILE.fullmatch(begun.name):
                begun.unlink(missing_ok=True)
        raise
    kept = {str(entry["file"]) for entry in entries.values()}
    for stale in [*target.glob("*.npy"), *target.glob(".*.partial")]:
        if stale.name not in kept and (stale.suffix == ".partial" or _FILE.fullmatch(stale.name)):
            stale.unlink(missing_ok=True)


def read_bundle(
    directory: str | os.PathLike[str], kind: str, newest: int, *, mmap: bool = True, verify: bool = True
) -> tuple[dict[str, object], dict[str, NDArray[np.generic]]]:
    """Body and arrays of a bundle; IntegrityError names the file that is missing, damaged, foreign or newer.

    Parameters
    ----------
    directory : path
    kind, newest
        As for :func:`~phasegraph.serialization.decode_document`.
    mmap : bool, default True
        Map the arrays read-only in place of copying them into memory.
    verify : bool, default True
        Check every array's checksum; False checks names, sizes, shapes and types only.

    Returns
    -------
    (dict, dict of array)
    """
    target = Path(directory)
    if not (target / MANIFEST).is_file():
        raise IntegrityError(f"a saved {kind} is a directory with a {MANIFEST}; {target.name!r} has none")
    document = read_document(target / MANIFEST, kind, newest)
    entries, content = document.get("arrays"), document.get("content")
    if not isinstance(entries, dict) or not isinstance(content, dict):
        raise IntegrityError(f"{MANIFEST}: arrays and content must be mappings; it is damaged")
    return content, {str(name): _read_array(target, entry, mmap, verify) for name, entry in entries.items()}


def bundle_kind(directory: str | os.PathLike[str]) -> str:
    """What kind of bundle a directory says it is; empty where it does not, which reading it will name."""
    try:
        kind = json.loads((Path(directory) / MANIFEST).read_bytes()).get("kind")
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
    return kind if isinstance(kind, str) else ""


def _write_array(target: Path, name: str, array: NDArray[np.generic]) -> dict[str, object]:
    plain = np.ascontiguousarray(array)
    temporary = target / f".{name}.{os.getpid()}.partial"
    try:
        with temporary.open("wb") as handle:
            np.lib.format.write_array(handle, plain, allow_pickle=False)
            handle.flush()
            os.fsync(handle.fileno())
        digest = _file_digest(temporary)
        file = f"{name}.{digest[:16]}.npy"
        os.replace(temporary, target / file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    size = (target / file).stat().st_size
    return {"file": file, "sha256": digest, "bytes": size, "shape": list(plain.shape), "dtype": plain.dtype.str}


def _read_array(target: Path, entry: object, mmap: bool, verify: bool) -> NDArray[np.generic]:
    if not isinstance(entry, dict) or not _FILE.fullmatch(str(entry.get("file"))):
        raise IntegrityError(f"{MANIFEST}: an array's file name must be plain; it is damaged")
    file = target / str(entry["file"])
    if not file.is_file():
        raise IntegrityError(f"{file.name}: the file is missing")
    size = file.stat().st_size
    if size != entry.get("bytes") or size > MAX_ARRAY_BYTES:
        raise IntegrityError(f"{file.name}: {entry.get('bytes')!r} bytes are expected; it has {size} (truncated?)")
    if verify and _file_digest(file) != entry.get("sha256"):
        raise IntegrityError(f"{file.name}: the checksum does not match; the file is damaged")
    try:
        array: NDArray[np.generic] = np.load(file, mmap_mode="r" if mmap and size > 4096 else None, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise IntegrityError(f"{file.name}: a plain npy array is expected; the file is damaged") from error
    if list(array.shape) != entry.get("shape") or array.dtype.str != entry.get("dtype"):
        raise IntegrityError(f"{file.name}: shape and type must be those of {MANIFEST}; got {array.shape}")
    array.setflags(write=False)
    return array


def _file_digest(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
