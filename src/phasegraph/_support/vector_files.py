"""Read embeddings from ``.npy`` files; each error names the file, and the row if a row is invalid."""

from __future__ import annotations

from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from phasegraph._support.typing import Float32Array
from phasegraph._support.validation import file_error

UNIT = 2e-3
"""Maximum deviation from length 1 at which a vector still counts as a unit vector rounded to half precision."""


def read_vectors(path: str | Path, rows: int, lines_in: str, *, span: tuple[int, int] | None = None) -> Float32Array:
    """Read embeddings from an ``.npy`` file that has one row per line of the file `lines_in`.

    The result is a read-only (rows, d) float32 array of L2-normalized rows. With `span`, the result contains only the
    rows from ``span[0]`` to ``span[1] - 1``. A row that has unit length up to half-precision rounding is returned
    unchanged. Raise InvalidInputError if the file is no such array, the number of rows differs, or a row is all zeros
    or not finite in float32.
    """
    file = Path(path)
    array = _array(file, "f", "a (rows, d) array of floats", (2,))
    _check_rows(file, len(array), rows, lines_in)
    first, last = (0, rows) if span is None else span
    with np.errstate(over="ignore"):
        vectors = np.array(array[first:last], dtype=np.float32)
    return unit_rows(file, vectors, first)


def unit_rows(file: Path, vectors: Float32Array, first: int = 0) -> Float32Array:
    """Normalize the rows of an array in place as :func:`read_vectors` does, and make the array read-only.

    `file` and `first`, the row of the first vector in the file, are for the messages of errors.
    """
    lengths = _lengths(file, vectors, first)
    off = np.flatnonzero(np.abs(lengths - 1.0) > UNIT)
    vectors[off] = vectors[off] / lengths[off, None]
    vectors.setflags(write=False)
    return vectors


def read_packed(numbers: str | Path, scales: str | Path, rows: int, lines_in: str) -> Float32Array:
    """Read embeddings stored as (rows, d) integers in the file `numbers`, with a scale per row in the file `scales`.

    A row of the result is the integer row times its scale. Its length is 1 up to the precision of the integers. Both
    files must have a row per line of the file `lines_in`, which has `rows` lines. The errors are those of
    :func:`read_vectors`.
    """
    file, beside = Path(numbers), Path(scales)
    array = _array(file, "i", "a (rows, d) array of whole numbers", (2,))
    factors = _array(beside, "f", "a (rows,) or (rows, 1) array of floats", (1, 2))
    _check_rows(file, len(array), rows, lines_in)
    _check_rows(beside, factors.size, rows, lines_in)
    with np.errstate(over="ignore"):
        scale = np.array(factors, dtype=np.float32).reshape(-1, 1)
        bad = np.flatnonzero(~np.isfinite(scale))
        if len(bad):
            raise file_error(beside, None, f"scales must be finite; row {bad[0]} (line {bad[0] + 1}) is not finite")
        vectors: Float32Array = np.array(array, dtype=np.float32) * scale
    _lengths(file, vectors)
    vectors.setflags(write=False)
    return vectors


def _array(file: Path, kind: str, what: str, dimensions: tuple[int, ...]) -> Any:
    if not file.is_file():
        raise file_error(file, None, "the file does not exist")
    try:
        array = npy_format.open_memmap(file, mode="r")
    except (ValueError, OSError, EOFError, SyntaxError, TokenError) as error:
        raise file_error(file, None, f"the file must be a complete .npy array of numbers; {error}") from error
    if array.ndim not in dimensions or array.dtype.kind != kind or 0 in array.shape[1:]:
        raise file_error(
            file, None, f"the file must contain {what}; got an array of shape {array.shape} and type {array.dtype}"
        )
    return array


def _check_rows(file: Path, got: int, rows: int, lines_in: str) -> None:
    if got != rows:
        raise file_error(file, None, f"the file must have one row per line of {lines_in} ({rows}); got {got}")


def _lengths(file: Path, vectors: Float32Array, first: int = 0) -> Any:
    """Return the L2 norm of each row in double precision; raise an error for a row of zeros, NaN or infinity.

    `first` is the row of the first vector in the file, for the message.
    """
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise file_error(
            file,
            None,
            f"embeddings must be finite; row {first + bad[0]} (line {first + bad[0] + 1}) is not finite in float32",
        )
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    empty = np.flatnonzero(lengths == 0)
    if len(empty):
        raise file_error(
            file,
            None,
            f"an embedding must not be all zeros; row {first + empty[0]} (line {first + empty[0] + 1}) is all zeros",
        )
    return lengths
