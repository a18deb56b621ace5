"""Which of the accepted passages go together, as one stored value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

import numpy as np

from phasegraph._typing import FloatArray, IntArray
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.selection.greedy import LogDet, Picked, SetFunction, VonNeumannPenalty, lazy_greedy
from phasegraph.selection.orders import constant, legacy_entropy, marginal_relevance, pick_each
from phasegraph.selection.similarity import kernel_rows, unit_rows, vendi_score

Method: TypeAlias = Literal["top", "log_det", "von_neumann", "mmr", "legacy_entropy"]
METHODS: tuple[Method, ...] = ("top", "log_det", "von_neumann", "mmr", "legacy_entropy")
_NEEDS_EMBEDDINGS = frozenset({"log_det", "von_neumann", "mmr"})


@dataclass(frozen=True, slots=True, eq=False)
class SelectionResult:
    """A chosen set.

    Parameters
    ----------
    rows : (k,) array of int
        In the order they were picked.
    gains : (k,) array of float
        What each added when it was picked (for ``mmr`` and ``legacy_entropy`` its score then).
    objective : float
        Sum of the gains; the value of the set function for ``log_det`` and ``von_neumann``.
    vendi : float or None
        Effective number of different passages in the set, 1 to k; None without embeddings.
    method : str
        How it was chosen.
    spent : float or None
        Sum of the costs; None without a budget.
    """

    rows: IntArray
    gains: FloatArray
    objective: float
    vendi: float | None
    method: str
    spent: float | None = None


@dataclass(frozen=True, slots=True)
class SelectionPolicy:
    """How the k passages of an answer are chosen together.

    Parameters
    ----------
    method : {"log_det", "top", "mmr", "von_neumann", "legacy_entropy"}, default "log_det"
        ``log_det`` maximises ``sum of relevance + mu / 2 * ln det(I + theta K)``, K the cosines of the set.
        ``top`` takes the most relevant. ``mmr`` trades relevance against the nearest already picked.
        ``von_neumann`` maximises ``sum of relevance - penalty * tr(K ln K)`` and stops where nothing gains.
        ``legacy_entropy`` is the quantum document's, to the letter.
    mu : float, default 0.1
        >= 0, in the unit of relevance; how much reading something new is worth. 0 is ``top``; large values ignore
        relevance. The default is for relevance in [0, 1] as :func:`scaled_relevance` gives it.
    theta : float, default 1.0
        >= 0; how sharply similarity counts as the same reading.
    penalty : float, default 0.1
        >= 0; for ``von_neumann`` and ``legacy_entropy``.
    balance : float, default 0.7
        In [0, 1]; for ``mmr``, 1 is ``top``.
    budget : float, optional
        Highest sum of costs (tokens, say), > 0; then :meth:`select` needs `costs`.

    Raises
    ------
    InvalidInputError
        If a value is outside its range.

    Notes
    -----
    The log-determinant is monotone and submodular, so the greedy set under a limit of k is worth at least
    (1 - 1/e) = 63 % of the best set of k [1]_. Under a budget (and no binding k) the best of greedy by gain
    per cost, greedy by gain and the best single passage is worth at least (1 - 1/e)/2 = 32 % of the best [2]_.
    The von Neumann penalty is submodular but not monotone: no constant guarantee. MMR is no set function.

    References
    ----------
    .. [1] Nemhauser, Wolsey, Fisher, 1978, doi:10.1007/BF01588971
    .. [2] Khuller, Moss, Naor, 1999, doi:10.1016/S0020-0190(99)00031-9
    .. [3] Carbonell and Goldstein, SIGIR 1998, doi:10.1145/290941.291025

    Examples
    --------
    >>> relevance = np.array([0.9, 0.88, 0.7])
    >>> embeddings = np.array([[1.0, 0.0], [1.0, 0.01], [0.0, 1.0]])
    >>> SelectionPolicy(mu=2.0).select(relevance, embeddings, 2).rows
    array([0, 2])
    """

    method: Method = "log_det"
    mu: float = 0.1
    theta: float = 1.0
    penalty: float = 0.1
    balance: float = 0.7
    budget: float | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InvalidInputError(f"SelectionPolicy.method must be one of {METHODS}; got {self.method!r}")
        for name in ("mu", "theta", "penalty", "balance"):
            _check_number(name, getattr(self, name))
        if self.balance > 1:
            raise InvalidInputError(f"SelectionPolicy.balance must be in [0, 1]; got {self.balance!r}")
        if self.budget is not None:
            _check_number("budget", self.budget)
            if self.budget <= 0:
                raise InvalidInputError(f"SelectionPolicy.budget must be > 0; got {self.budget!r}")

    @property
    def needs_embeddings(self) -> bool:
        """Whether :meth:`select` needs embeddings (or a kernel)."""
        return self.method in _NEEDS_EMBEDDINGS

    def select(
        self,
        relevance: FloatArray,
        embeddings: FloatArray | None,
        k: int,
        /,
        *,
        costs: FloatArray | None = None,
        kernel: FloatArray | None = None,
    ) -> SelectionResult:
        """Choose at most `k` rows.

        Parameters
        ----------
        relevance : (n,) array_like of float
            Finite, best as :func:`scaled_relevance` gives it; >= 0 except for ``top``, ``mmr`` and
            ``von_neumann``. Rows come best first: of equals the lowest row is picked.
        embeddings : (n, d) array_like of float or None
            Needed by ``log_det``, ``von_neumann`` and ``mmr`` unless `kernel` is given.
        k : int
            >= 0; more than n is n.
        costs : (n,) array_like of float, optional
            Positive; used with a budget only.
        kernel : (n, n) array_like of float, optional
            Similarities instead of embeddings: symmetric, positive semi-definite, 1 on the diagonal.

        Returns
        -------
        SelectionResult

        Raises
        ------
        InvalidInputError
            If something is not what is said above, or the method lacks embeddings.
        """
        values = self._relevance(relevance)
        limit = _check_count(k)
        spending = self._costs(costs, len(values))
        unit = self._unit(embeddings, kernel, len(values))
        picked = self._pick(values, unit, limit, spending)
        rows = np.array(picked.rows, dtype=np.intp)
        gains = np.array(picked.gains)
        rows.setflags(write=False)
        gains.setflags(write=False)
        return SelectionResult(
            rows,
            gains,
            picked.value,
            None if unit is None else vendi_score(unit[rows]),
            self.method,
            None if spending is None else float(spending[rows].sum()),
        )

    def _pick(self, values: FloatArray, unit: FloatArray | None, k: int, costs: FloatArray | None) -> Picked:
        if unit is not None and self.method in ("log_det", "von_neumann"):
            return self._best_greedy(values, unit, k, costs)
        score: Callable[[list[int]], FloatArray]
        if self.method == "legacy_entropy":
            score = legacy_entropy(values, self.penalty)
        elif self.method == "mmr" and unit is not None:
            score = marginal_relevance(values, unit, self.balance)
        else:
            score = constant(values)
        return pick_each(len(values), k, score, costs=costs, budget=self.budget)

    def _best_greedy(self, values: FloatArray, unit: FloatArray, k: int, costs: FloatArray | None) -> Picked:
        def function() -> SetFunction:
            if self.method == "log_det":
                return LogDet(values, unit, mu=self.mu, theta=self.theta)
            return VonNeumannPenalty(values, unit, penalty=self.penalty)

        plain = lazy_greedy(function(), k, costs=costs, budget=self.budget)
        if costs is None:
            return plain
        dense = lazy_greedy(function(), k, costs=costs, budget=self.budget, per_cost=True)
        return max((dense, plain), key=lambda found: found.value)

    def _relevance(self, relevance: FloatArray) -> FloatArray:
        try:
            values = np.array(relevance, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidTypeError(f"relevance must be a flat array of numbers; {error}") from error
        if values.ndim != 1:
            raise InvalidInputError(f"relevance must be flat; got shape {values.shape}")
        if not np.isfinite(values).all():
            raise InvalidInputError("relevance must be finite; got NaN or infinity")
        if self.method in ("log_det", "legacy_entropy") and len(values) and values.min() < 0:
            raise InvalidInputError(f"relevance must be >= 0 for {self.method}; got {values.min():g}")
        return values

    def _costs(self, costs: FloatArray | None, count: int) -> FloatArray | None:
        if self.budget is None:
            return None
        if costs is None:
            raise InvalidInputError("a budget needs costs, one per passage; got none")
        values = np.array(costs, dtype=np.float64)
        if values.shape != (count,) or not np.isfinite(values).all() or (values <= 0).any():
            raise InvalidInputError(f"costs must be {count} finite numbers > 0; got shape {values.shape}")
        return values

    def _unit(self, embeddings: FloatArray | None, kernel: FloatArray | None, count: int) -> FloatArray | None:
        if kernel is not None:
            if embeddings is not None:
                raise InvalidInputError("give embeddings or a kernel, not both")
            return kernel_rows(kernel, count=count)
        if embeddings is not None:
            return unit_rows(embeddings, count=count)
        if self.method in _NEEDS_EMBEDDINGS:
            raise InvalidInputError(
                f"selection by {self.method} needs the passages' embeddings (from the source, an embedder or a "
                f"callable); got none"
            )
        return None

    def to_dict(self) -> dict[str, object]:
        """Plain JSON types."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, object], /) -> SelectionPolicy:
        """The value that :meth:`to_dict` wrote."""
        if not isinstance(data, Mapping):
            raise InvalidTypeError(f"SelectionPolicy must be read from an object; got {data!r}")
        unknown = sorted(set(data) - {item.name for item in fields(cls)})
        if unknown:
            raise InvalidInputError(f"SelectionPolicy has no field {unknown[0]!r}")
        return cls(**data)  # type: ignore[arg-type]


def scaled_relevance(fused: FloatArray, /) -> FloatArray:
    """Fused values as relevance in [0, 1], so that a selection's weights mean the same for every rule.

    Parameters
    ----------
    fused : (n,) array_like of float
        Finite.

    Returns
    -------
    (n,) array of float
        Divided by the largest; where one is negative, moved from the smallest to 0 first. All 1 where all are equal.

    Notes
    -----
    Published scores are in [0, 1] too, but squeezed together at the top, where a weight on diversity that is
    harmless here costs many relevant passages.

    Examples
    --------
    >>> scaled_relevance([4.0, 2.0, 1.0]), scaled_relevance([1.0, 0.0, -1.0])
    (array([1.  , 0.5 , 0.25]), array([1. , 0.5, 0. ]))
    """
    values = np.array(fused, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise InvalidInputError("fused must be a flat array of finite numbers")
    if not len(values) or values.max() == values.min():
        return np.ones(len(values))
    low = min(float(values.min()), 0.0)
    return np.asarray((values - low) / (float(values.max()) - low))


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidTypeError(f"SelectionPolicy.{name} must be a number; got {value!r}")
    if not np.isfinite(value) or value < 0:
        raise InvalidInputError(f"SelectionPolicy.{name} must be finite and >= 0; got {value!r}")


def _check_count(k: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer):
        raise InvalidTypeError(f"k must be an integer; got {k!r}")
    if k < 0:
        raise InvalidInputError(f"k must be >= 0; got {k!r}")
    return int(k)
