"""Multiply a matrix with a vector on the calling thread alone."""

from __future__ import annotations

from typing import Any

import numpy as np

_LARGEST = 9215
"""Maximum number of elements of a matrix that OpenBLAS multiplies with a vector without its helper threads."""
_TOGETHER = 4
"""Number of rows that OpenBLAS multiplies together; the digits of a product do not depend on which rows these are."""


def times_vector(matrix: Any, vector: Any) -> Any:
    """Multiply a matrix with a vector, in blocks that OpenBLAS does not distribute to threads.

    A helper thread of OpenBLAS keeps a processor busy for several milliseconds after a product of one millisecond. A
    single thread reads memory as quickly. A block contains a row from each quarter of the matrix. The processor then
    reads four long runs of memory, which it can load in advance; blocks of adjacent rows take longer.

    The result can differ in its last digits from a product that OpenBLAS computes on a single thread. For vectors of up
    to 2,303 numbers, only the last n % 4 numbers of the result can differ; all others are identical to the bit. For
    longer vectors, and for matrices of more than 32 GiB in float32, every number can differ.

    Parameters
    ----------
    matrix : (n, d) array of float
        The matrix.
    vector : (d,) array of float
        The vector, of the same dtype.

    Returns
    -------
    (n,) array of float
        The product.

    Examples
    --------
    >>> times_vector(np.eye(3), np.array([1.0, 2.0, 3.0])).tolist()
    [1.0, 2.0, 3.0]
    """
    rows, columns = matrix.shape
    if matrix.size <= _LARGEST:
        return np.asarray(matrix) @ vector
    block = _TOGETHER if columns * _TOGETHER <= _LARGEST else 1
    whole = rows // block * block
    out = np.empty(rows, dtype=matrix.dtype)
    blocks = matrix[:whole].reshape(block, -1, columns).swapaxes(0, 1)
    np.matmul(blocks, vector, out=out[:whole].reshape(block, -1).T)
    np.matmul(matrix[whole:], vector, out=out[whole:])
    return out
