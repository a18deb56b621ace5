"""Embeddings on disk: whole, or as small whole numbers with a scale per row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from phasegraph._typing import Float32Array
from phasegraph.evaluation.reading import wrong

UNIT = 2e-3
"""A row whose length differs from 1 by at most this is unit length as half precision can hold it."""


def read_vectors(path: str | Path, rows: int, lines_in: str) -> Float32Array:
    """Read embeddings, one row per line of a JSONL file.

    Parameters
    ----------
    path : path
        An ``.npy`` file holding a (rows, d) array of floats.
    rows : int
        How many lines there are.
    lines_in : str
        The name of the file with the lines, for the message.

    Returns
    -------
    (rows, d) array of float32
        Read-only, L2-normalised: a row of unit length up to half precision's rounding stays to the bit.

    Raises
    ------
    InvalidInputError
        If the file is missing, is no such array, has another number of rows, or a row is not finite in float32 or
        holds nothing but zeros.
    """
    file = Path(path)
    array = _array(file, "f", "a (rows, d) array of floats", (2,))
    _check_rows(file, len(array), rows, lines_in)
    with np.errstate(over="ignore"):
        vectors = np.array(array, dtype=np.float32)
    lengths = _lengths(file, vectors)
    off = np.flatnonzero(np.abs(lengths - 1.0) > UNIT)
    vectors[off] = vectors[off] / lengths[off, None]
    vectors.setflags(write=False)
    return vectors


def read_packed(numbers: str | Path, scales: str | Path, rows: int, lines_in: str) -> Float32Array:
    """Read embeddings kept as whole numbers with one scale per row.

    Parameters
    ----------
    numbers, scales : path
        ``.npy`` files holding a (rows, d) array of integers and a (rows,) or (rows, 1) array of floats; row i is
        the product of both.
    rows : int
    lines_in : str
        As for :func:`read_vectors`.

    Returns
    -------
    (rows, d) array of float32
        Read-only; unit length as far as the whole numbers can hold it.

    Raises
    ------
    InvalidInputError
        As for :func:`read_vectors`, naming the file.
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
            raise wrong(beside, None, f"scales must be finite; row {bad[0]} (line {bad[0] + 1}) is not")
        vectors: Float32Array = np.array(array, dtype=np.float32) * scale
    _lengths(file, vectors)
    vectors.setflags(write=False)
    return vectors


def _array(file: Path, kind: str, what: str, dimensions: tuple[int, ...]) -> Any:
    if not file.is_file():
        raise wrong(file, None, "the file must exist; there is none")
    try:
        array = npy_format.open_memmap(file, mode="r")
    except (ValueError, OSError, EOFError) as error:
        raise wrong(file, None, f"must be a complete .npy array of numbers; {error}") from error
    if array.ndim not in dimensions or array.dtype.kind != kind or 0 in array.shape[1:]:
        raise wrong(file, None, f"must hold {what}; got {array.shape} {array.dtype}")
    return array


def _check_rows(file: Path, got: int, rows: int, lines_in: str) -> None:
    if got != rows:
        raise wrong(file, None, f"must have one row per line of {lines_in} ({rows}); got {got}")


def _lengths(file: Path, vectors: Float32Array) -> Any:
    """L2 norm of every row, in double precision."""
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise wrong(file, None, f"embeddings must be finite; row {bad[0]} (line {bad[0] + 1}) is not in float32")
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    empty = np.flatnonzero(lengths == 0)
    if len(empty):
        raise wrong(file, None, f"an embedding must not be all zeros; row {empty[0]} (line {empty[0] + 1}) is")
    return lengths
