"""One JSON file: format, kind, version, checksum, body."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from phasegraph.errors import IntegrityError, InvalidInputError

FORMAT = "phasegraph"
MAX_DOCUMENT_BYTES = 64 * 1024 * 1024


def encode_document(kind: str, version: int, body: Mapping[str, object]) -> bytes:
    """`body` as a checksummed JSON document.

    Parameters
    ----------
    kind : str
        What it is, such as ``pipeline``.
    version : int
        Version of the body's layout, >= 1.
    body : mapping
        JSON types only; no NaN or infinity.

    Returns
    -------
    bytes

    Raises
    ------
    InvalidInputError
        If `body` holds something that JSON cannot.

    Examples
    --------
    >>> decode_document(encode_document("note", 1, {"a": 1}), "note", 1)
    {'a': 1}
    """
    try:
        text = _canonical(body)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"a document holds finite numbers, text, lists and mappings; {error}") from error
    document = {"format": FORMAT, "kind": kind, "version": version, "sha256": _digest(text), "body": body}
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()


def decode_document(data: bytes, kind: str, newest: int) -> dict[str, object]:
    """Body of a document, after every check.

    Parameters
    ----------
    data : bytes
        What :func:`encode_document` gave.
    kind : str
        The kind that is wanted.
    newest : int
        Newest version this release understands.

    Returns
    -------
    dict

    Raises
    ------
    IntegrityError
        If it is too large, damaged, foreign, of another kind or newer. Nothing of it is used.
    """
    if len(data) > MAX_DOCUMENT_BYTES:
        raise IntegrityError(f"a document must be at most {MAX_DOCUMENT_BYTES} bytes; got {len(data)}")
    try:
        document = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise IntegrityError("a document must be JSON in UTF-8; it is damaged or foreign") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise IntegrityError(f"a document must say format {FORMAT!r}; this file is foreign")
    if document.get("kind") != kind:
        raise IntegrityError(f"a document of kind {kind!r} is wanted; got {str(document.get('kind'))[:80]!r}")
    version = document.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise IntegrityError(f"version must be an integer >= 1; got {str(version)[:80]!r}")
    if version > newest:
        raise IntegrityError(f"this release reads {kind} files up to version {newest}; got the newer {version}")
    body = document.get("body")
    if not isinstance(body, dict):
        raise IntegrityError("a document must hold a body; it is damaged")
    try:
        intact = document.get("sha256") == _digest(_canonical(body))
    except (ValueError, RecursionError) as error:
        raise IntegrityError("a document must hold finite numbers; it is damaged") from error
    if not intact:
        raise IntegrityError("the checksum of a document must match its body; it is damaged or was edited")
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
