"""Multiply a matrix with a vector on the calling thread alone."""

from __future__ import annotations

from typing import Any

import numpy as np

_LARGEST = 9215
"""Maximum number of elements of a matrix that OpenBLAS multiplies with a vector without its helper threads."""
_TOGETHER = 4
"""Number of rows that OpenBLAS multiplies together.

If the rows per block are a multiple of this number, a product computed in blocks has exactly the digits of the whole
product.
"""


def times_vector(matrix: Any, vector: Any) -> Any:
    """Multiply a matrix with a vector, in blocks that OpenBLAS does not distribute to threads.

    A helper thread of OpenBLAS keeps a processor busy for several milliseconds after a product of one millisecond. A
    single thread reads memory as quickly.

    The result can differ in its last digits from a product that OpenBLAS computes on a single thread. For vectors of up
    to 2,303 numbers, only the last n % 4 numbers of the result can differ; all others are identical to the bit. For
    longer vectors, every number can differ.

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
    block = max(_LARGEST // columns // _TOGETHER * _TOGETHER, 1)
    whole = rows // block * block
    out = np.empty(rows, dtype=matrix.dtype)
    np.matmul(matrix[:whole].reshape(-1, block, columns), vector, out=out[:whole].reshape(-1, block))
    np.matmul(matrix[whole:], vector, out=out[whole:])
    return out
