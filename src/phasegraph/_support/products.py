"""Products of a matrix with a vector on the caller's thread."""

from __future__ import annotations

from typing import Any

import numpy as np

_LARGEST = 9215
"""Numbers in the largest matrix that OpenBLAS multiplies with a vector without its helper threads."""
_TOGETHER = 4
"""Rows that its kernels multiply together: blocks of a multiple give the digits of the whole product."""


def times_vector(matrix: Any, vector: Any) -> Any:
    """Multiply a matrix with a vector, in blocks that OpenBLAS does not share among threads.

    A helper thread of OpenBLAS goes on spinning after its part of a product, at the cost of several milliseconds of
    processor for a product of one. Memory is read as quickly by one thread. The digits are those of the product that
    OpenBLAS computes on one thread, but for the last rows and for vectors of more than 2,303 numbers, where the last
    digit may differ.

    Parameters
    ----------
    matrix : (n, d) array of float
    vector : (d,) array of float
        Of the same type.

    Returns
    -------
    (n,) array of float

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
