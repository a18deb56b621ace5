"""What makes two passages the same reading: cosine of their embeddings, and diagnostics of a set of them."""

from __future__ import annotations

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError

_TOLERANCE = 1e-6  # what a kernel computed in single precision needs


def unit_rows(embeddings: FloatArray, /, *, count: int | None = None) -> FloatArray:
    """Rows scaled to length 1.

    Parameters
    ----------
    embeddings : (n, d) array_like of float
        Finite, no row all zero.
    count : int, optional
        The n that is expected.

    Returns
    -------
    (n, d) array of float64

    Raises
    ------
    InvalidInputError
        If the shape is wrong, a value is not finite or a row has length 0.

    Examples
    --------
    >>> unit_rows([[3.0, 4.0]])
    array([[0.6, 0.8]])
    """
    try:
        rows = np.asarray(embeddings)
    except ValueError as error:
        raise InvalidInputError(f"embeddings must have rows of equal length; {error}") from error
    if rows.dtype.kind not in "fiu":
        raise InvalidInputError(f"embeddings must be numbers; got {rows.dtype}")
    if rows.ndim != 2 or (count is not None and len(rows) != count) or (len(rows) and not rows.shape[1]):
        wanted = "n" if count is None else str(count)
        raise InvalidInputError(f"embeddings must have shape ({wanted}, d), d >= 1; got {rows.shape}")
    rows = rows.astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    if not np.isfinite(lengths).all():
        bad = int(np.flatnonzero(~np.isfinite(lengths))[0])
        raise InvalidInputError(f"embeddings must be finite; row {bad} is not")
    if not (lengths > 0).all():
        bad = int(np.flatnonzero(lengths <= 0)[0])
        raise InvalidInputError(f"embeddings must not be all zero; row {bad} is")
    return np.asarray(rows / lengths[:, None])


def kernel_rows(kernel: FloatArray, /, *, count: int | None = None) -> FloatArray:
    """Rows of length 1 whose inner products are the given similarities.

    Parameters
    ----------
    kernel : (n, n) array_like of float
        Symmetric, positive semi-definite, 1 on the diagonal.
    count : int, optional
        The n that is expected.

    Returns
    -------
    (n, n) array of float64

    Raises
    ------
    InvalidInputError
        If the kernel is not what is said above.
    """
    table = np.array(kernel, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or (count is not None and len(table) != count):
        wanted = "n" if count is None else str(count)
        raise InvalidInputError(f"kernel must have shape ({wanted}, {wanted}); got {table.shape}")
    if not np.isfinite(table).all():
        raise InvalidInputError("kernel must be finite; got NaN or infinity")
    if not np.allclose(table, table.T, atol=_TOLERANCE, rtol=0):
        raise InvalidInputError("kernel must be symmetric; it is not")
    if not np.allclose(np.diag(table), 1.0, atol=_TOLERANCE, rtol=0):
        raise InvalidInputError("kernel must have 1 on its diagonal; it has not")
    values, vectors = np.linalg.eigh((table + table.T) / 2)
    if len(values) and values[0] < -_TOLERANCE * len(values):
        raise InvalidInputError(f"kernel must be positive semi-definite; its smallest eigenvalue is {values[0]:.3g}")
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def von_neumann_entropy(rows: FloatArray, /) -> float:
    """Entropy of the set's similarities divided by its size, in nats, in [0, ln n].

    Parameters
    ----------
    rows : (n, d) array of float
        Of length 1.

    Returns
    -------
    float
        0 for one passage or for duplicates only. A diagnostic: as a function of the set it is neither monotone
        nor submodular, so no greedy choice on it has a guarantee.

    Examples
    --------
    >>> round(von_neumann_entropy(np.eye(2)), 6)
    0.693147
    """
    if not len(rows):
        return 0.0
    values = _eigenvalues(rows) / len(rows)
    return float(max(0.0, -_x_log_x(values).sum()))


def vendi_score(rows: FloatArray, /) -> float:
    """Effective number of different passages: exp of the entropy.

    Parameters
    ----------
    rows : (n, d) array of float
        Of length 1.

    Returns
    -------
    float
        1 to n; 0 for none.

    References
    ----------
    .. [1] Friedman and Dieng, The Vendi score, arXiv:2210.02410.

    Examples
    --------
    >>> vendi_score(np.eye(3)).__round__(6)
    3.0
    """
    return float(np.exp(von_neumann_entropy(rows))) if len(rows) else 0.0


def redundancy(rows: FloatArray, /) -> float:
    """``tr(K ln K)`` of the set's similarities, in nats.

    Parameters
    ----------
    rows : (n, d) array of float
        Of length 1.

    Returns
    -------
    float
        0 if all are orthogonal, 2 ln 2 for a pair of duplicates, n ln n at most.
    """
    return float(_x_log_x(_eigenvalues(rows)).sum()) if len(rows) else 0.0


def _eigenvalues(rows: FloatArray) -> FloatArray:
    gram = rows @ rows.T
    np.fill_diagonal(gram, 1.0)
    return np.asarray(np.maximum(np.linalg.eigvalsh(gram), 0.0))


def _x_log_x(values: FloatArray) -> FloatArray:
    return np.where(values > 0, values * np.log(np.where(values > 0, values, 1.0)), 0.0)
