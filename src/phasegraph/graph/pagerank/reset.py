"""The reset distribution: where a walk restarts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._typing import FloatArray, Int32Array
from phasegraph.errors import InvalidInputError, InvalidTypeError

Reset: TypeAlias = "ArrayLike | tuple[ArrayLike, ArrayLike]"


@dataclass(frozen=True, eq=False, slots=True)
class Seeds:
    """Distinct nodes, ascending, and positive weights that sum to 1."""

    nodes: Int32Array
    weights: FloatArray

    def dense(self, size: int) -> FloatArray:
        """The (n,) array."""
        out = np.zeros(size)
        out[self.nodes] = self.weights
        return out


def as_seeds(reset: Reset, size: int) -> Seeds:
    """Check a reset distribution and bring it to one form.

    Parameters
    ----------
    reset : (n,) array of float, or a pair (nodes, weights)
        Finite weights, not negative, with a positive sum; divided by it. A node given twice counts twice.
    size : int
        How many nodes the graph has.

    Returns
    -------
    Seeds

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If it is anything else.
    """
    if isinstance(reset, tuple):
        if len(reset) != 2:
            raise InvalidInputError(f"reset must be an array or (nodes, weights); got {len(reset)} parts")
        nodes, weights = _nodes(reset[0], size), _weights(reset[1])
        if len(nodes) != len(weights):
            raise InvalidInputError(
                f"reset must have one weight per node; got {len(nodes)} nodes and {len(weights)} weights"
            )
    else:
        weights = _weights(reset)
        if len(weights) != size:
            raise InvalidInputError(f"reset must have one weight per node ({size}); got {len(weights)}")
        nodes = np.flatnonzero(weights)
        weights = weights[nodes]
    distinct, place = np.unique(nodes, return_inverse=True)
    summed = np.bincount(place, weights=weights, minlength=len(distinct))
    total = float(summed.sum())
    if not 0 < total < np.inf:
        raise InvalidInputError(f"reset must have a positive finite sum; got {total}")
    shares: FloatArray = summed / total
    held = shares > 0
    return Seeds(distinct[held].astype(np.int32), shares[held])


def _nodes(given: Any, size: int) -> np.ndarray[Any, np.dtype[np.integer[Any]]]:
    nodes = np.asarray(given)
    if nodes.ndim != 1:
        raise InvalidInputError(f"reset nodes must be one-dimensional; got shape {nodes.shape}")
    if not len(nodes):
        raise InvalidInputError("reset must name at least one node; got none")
    if nodes.dtype.kind not in "iu":
        raise InvalidTypeError(f"reset nodes must be integers; got {nodes.dtype}")
    if nodes.min() < 0 or nodes.max() >= size:
        raise InvalidInputError(f"reset nodes must lie in [0, {size}); got {nodes.min()} to {nodes.max()}")
    return nodes


def _weights(given: Any) -> FloatArray:
    try:
        weights = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"reset weights must be numbers; got {given!r:.80}") from error
    if weights.ndim != 1:
        raise InvalidInputError(f"reset weights must be one-dimensional; got shape {weights.shape}")
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if len(bad):
        raise InvalidInputError(
            f"reset weights must be finite and not negative; got {weights[bad[0]]} at position {bad[0]}"
        )
    return weights
