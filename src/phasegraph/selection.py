"""Choose passages that are relevant and not redundant.

A :class:`SelectionPolicy` is a stored value with the method ``select(relevance, embeddings, k)``. By default, it
maximizes relevance plus a log-determinant of the set's similarities, which has an approximation guarantee. The other
methods are baselines, a penalty variant, and the rule of the quantum document. The quantum document is a design
document that describes retrieval in terms of quantum mechanics; see ``docs/research/selection.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Literal, Protocol, TypeAlias, get_args

import numpy as np

from phasegraph._support.products import times_vector
from phasegraph._support.shared import go_on
from phasegraph._support.typing import FloatArray, IntArray
from phasegraph._support.validation import (
    check_choice,
    check_count,
    check_flag,
    check_flat,
    check_keys,
    check_number,
    check_range,
)
from phasegraph.errors import InvalidInputError

_TOLERANCE = 1e-6  # rounding error of a kernel that was computed in single precision


def unit_rows(embeddings: FloatArray, /, *, count: int | None = None) -> FloatArray:
    """Scale the rows of an array to length 1.

    Parameters
    ----------
    embeddings : (n, d) array_like of float
        Finite rows that are not all zero.
    count : int, optional
        The required number of rows; default any number.

    Returns
    -------
    (n, d) array of float
        The rows, each with length 1.
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
    for bad, fault in (
        (~np.isfinite(lengths), "be finite; row {} is not"),
        (lengths <= 0, "not be all zero; row {} is"),
    ):
        if bad.any():
            raise InvalidInputError(f"embeddings must {fault.format(int(np.argmax(bad)))}")
    return np.asarray(rows / lengths[:, None])


def kernel_rows(kernel: FloatArray, /, *, count: int | None = None) -> FloatArray:
    """Return rows of length 1 whose inner products equal a kernel matrix.

    Parameters
    ----------
    kernel : (n, n) array_like of float
        Similarities: a symmetric, positive semi-definite matrix with 1 on its diagonal.
    count : int, optional
        The required number of rows; default any number.

    Returns
    -------
    (n, n) array of float
        The rows.
    """
    table = np.array(kernel, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or (count is not None and len(table) != count):
        wanted = "n" if count is None else str(count)
        raise InvalidInputError(f"kernel must have shape ({wanted}, {wanted}); got {table.shape}")
    if not np.isfinite(table).all():
        raise InvalidInputError(
            f"kernel must be finite; got NaN or infinity in row {int(np.argmin(np.isfinite(table).all(axis=1)))}"
        )
    if not np.allclose(table, table.T, atol=_TOLERANCE, rtol=0):
        raise InvalidInputError(
            f"kernel must be symmetric; it differs from its transpose by {np.ptp(table - table.T) / 2:.3g}"
        )
    if not np.allclose(np.diag(table), 1.0, atol=_TOLERANCE, rtol=0):
        raise InvalidInputError(
            f"kernel must have 1 on its diagonal; got values from {np.diag(table).min():g} to {np.diag(table).max():g}"
        )
    values, vectors = np.linalg.eigh((table + table.T) / 2)
    if len(values) and values[0] < -_TOLERANCE * len(values):
        raise InvalidInputError(f"kernel must be positive semi-definite; its smallest eigenvalue is {values[0]:.3g}")
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def von_neumann_entropy(rows: FloatArray, /) -> float:
    """Compute the von Neumann entropy of n rows of length 1.

    Parameters
    ----------
    rows : (n, d) array of float
        Rows of length 1.

    Returns
    -------
    float
        Entropy of the eigenvalues of the (n, n) cosine matrix divided by n, in [0, ln n] nats.
    """
    if not len(rows):
        return 0.0
    values = _eigenvalues(rows) / len(rows)
    return float(max(0.0, -_x_log_x(values).sum()))


def vendi_score(rows: FloatArray, /) -> float:
    """Compute the effective number of different rows (Vendi score; Friedman and Dieng, arXiv:2210.02410).

    Parameters
    ----------
    rows : (n, d) array of float
        Rows of length 1.

    Returns
    -------
    float
        The exponential of :func:`von_neumann_entropy`, in [1, n]; 0 without rows.
    """
    return float(np.exp(von_neumann_entropy(rows))) if len(rows) else 0.0


def redundancy(rows: FloatArray, /) -> float:
    """Compute ``tr(K ln K)``, where K is the cosine matrix of rows of length 1.

    Parameters
    ----------
    rows : (n, d) array of float
        Rows of length 1.

    Returns
    -------
    float
        The redundancy in nats: 0 if all rows are orthogonal, 2 ln 2 for two equal rows.
    """
    return float(_x_log_x(_eigenvalues(rows)).sum()) if len(rows) else 0.0


def _eigenvalues(rows: FloatArray) -> FloatArray:
    gram = rows @ rows.T
    np.fill_diagonal(gram, 1.0)
    return np.asarray(np.maximum(np.linalg.eigvalsh(gram), 0.0))


def _x_log_x(values: FloatArray) -> FloatArray:
    return np.where(values > 0, values * np.log(np.where(values > 0, values, 1.0)), 0.0)


_BLOCK = 48
_TIE = 1e-12
_COPY = 1 - 1e-8  # lowest cosine of exact copies: single-precision rounding by 1e-4 changes a cosine by its square


class _SetFunction(Protocol):
    """A submodular function of a set of rows, defined by its marginal gains."""

    def first_gains(self) -> FloatArray:
        """Return the gain of each row if it is picked first, an array of shape (n,)."""

    def gains(self, rows: IntArray, /) -> FloatArray:
        """Return, for each row in `rows`, the gain if this row is added to the picked rows; shape (len(rows),)."""

    def pick(self, row: int, /) -> None:
        """Add `row` to the picked rows."""


#: The rows in the order of picking, and the gain of each row.
_Picked: TypeAlias = tuple[list[int], list[float]]


def _greedy(
    count: int,
    k: int,
    choose: Callable[[IntArray, list[int]], tuple[int, float] | None],
    costs: FloatArray | None,
    budget: float | None,
) -> _Picked:
    """Pick at most `k` of `count` rows with ``choose(remaining rows, picked rows)``, which returns a row and its gain.

    Stop earlier if no remaining row fits the budget, or if ``choose`` returns None. Return the rows and their gains.
    """
    left = np.inf if budget is None else budget
    rows: list[int] = []
    gains: list[float] = []
    open_ = np.ones(count, dtype=bool)
    while len(rows) < min(k, count):
        go_on()
        if costs is not None:
            open_ &= costs <= left
        queue = np.flatnonzero(open_)
        found = choose(queue, rows) if len(queue) else None
        if found is None:
            break
        row, gain = found
        rows.append(row)
        gains.append(gain)
        open_[row] = False
        left -= 0.0 if costs is None else float(costs[row])
    return rows, gains


def _lazy_greedy(
    function: _SetFunction, k: int, costs: FloatArray | None, budget: float | None, *, per_cost: bool = False
) -> _Picked:
    """Pick up to `k` rows within the budget, each time the row with the highest gain; stop if every gain is negative.

    With `per_cost`, compare gains divided by costs. Among gains within a relative 1e-12, pick the lowest row number.
    """
    bounds = function.first_gains()
    scale = costs if per_cost and costs is not None else np.ones(len(bounds))

    def choose(queue: IntArray, rows: list[int]) -> tuple[int, float] | None:
        row = _front(function, bounds, scale, queue, fresh=not rows)
        if bounds[row] < 0:
            return None
        function.pick(row)
        return row, float(bounds[row])

    return _greedy(len(bounds), k, choose, costs, budget)


def _front(function: _SetFunction, bounds: FloatArray, scale: FloatArray, queue: IntArray, *, fresh: bool) -> int:
    """Return the row in `queue` with the highest gain divided by its entry in `scale`.

    `bounds` contains an upper bound of each gain. Only the bounds that can affect the choice are replaced, in place, by
    the current gains. If `fresh` is True, all bounds are already the current gains.
    """
    ranked = queue[np.argsort(-bounds[queue] / scale[queue], kind="stable")]
    done, block = 0, _BLOCK
    while True:
        part = ranked[done : done + block]
        if not fresh:
            bounds[part] = function.gains(part)
        done += len(part)
        block *= 4
        seen = ranked[:done]
        values = bounds[seen] / scale[seen]
        best = float(values.max())
        margin = _TIE * max(1.0, abs(best))
        rest = bounds[ranked[done]] / scale[ranked[done]] if done < len(ranked) else -np.inf
        if best - margin > rest:
            return int(seen[values >= best - margin].min())


class _LogDet:
    """Relevance plus ``mu / 2 * ln det(I + theta K)``, where K is the cosine matrix of the picked rows.

    The gains are computed from an incremental Cholesky factor.
    """

    def __init__(self, relevance: FloatArray, unit: FloatArray, *, mu: float, theta: float, distinct: bool) -> None:
        self._relevance = relevance
        self._distinct = distinct
        self._unit = unit
        self._mu = mu
        self._theta = theta
        self._picked: list[int] = []
        self._pivots: list[float] = []
        self._factor = np.zeros((0, len(relevance)))
        self._similar: dict[int, FloatArray] = {}
        self._variance = np.full(len(relevance), 1.0 + theta)
        self._stage = np.zeros(len(relevance), dtype=np.intp)
        self._copies = np.zeros(len(relevance), dtype=np.bool_)  # exact copies of a picked row

    def first_gains(self) -> FloatArray:
        return np.asarray(self._relevance + self._mu / 2 * np.log1p(self._theta))

    def gains(self, rows: IntArray, /) -> FloatArray:
        if self._mu > 0:
            for step in range(int(self._stage[rows].min()), len(self._picked)):
                self._advance(rows[self._stage[rows] == step], step)
        spread = np.log(np.maximum(self._variance[rows], 1.0))
        return np.where(self._copies[rows], 0.0, self._relevance[rows] + self._mu / 2 * spread)

    def pick(self, row: int, /) -> None:
        self.gains(np.array([row]))
        self._pivots.append(float(np.sqrt(self._variance[row])))
        self._picked.append(row)
        if len(self._factor) < len(self._picked):
            more = np.zeros((max(8, len(self._factor)), self._factor.shape[1]))
            self._factor = np.concatenate([self._factor, more])

    def _advance(self, rows: IntArray, step: int) -> None:
        """Compute column `step` of the Cholesky factor for `rows`, for which all earlier columns are known."""
        pivot = self._picked[step]
        if 4 * len(rows) > len(self._unit):  # one product with all rows is cheaper than a copy of many rows
            self._similar.setdefault(step, times_vector(self._unit, self._unit[pivot]))
        whole = self._similar.get(step)
        similar = times_vector(self._unit[rows], self._unit[pivot]) if whole is None else whole[rows]
        if self._distinct:
            self._copies[rows] |= similar >= _COPY
        explained = self._factor[:step, pivot] @ self._factor[:step, rows]
        column = self._theta * similar - explained
        column /= self._pivots[step]
        self._factor[step, rows] = column
        self._variance[rows] -= column**2
        self._stage[rows] = step + 1


class _VonNeumannPenalty:
    """Relevance minus ``penalty * tr(K ln K)``, where K is the cosine matrix of the picked rows.

    This function of the picked rows is submodular, but not monotone.
    """

    def __init__(self, relevance: FloatArray, unit: FloatArray, *, penalty: float) -> None:
        self._relevance = relevance
        self._unit = unit
        self._penalty = penalty
        self._picked: list[int] = []
        self._redundancy = 0.0

    def first_gains(self) -> FloatArray:
        return self._relevance.copy()

    def gains(self, rows: IntArray, /) -> FloatArray:
        size = len(self._picked)
        chosen = self._unit[self._picked]
        grams = np.empty((len(rows), size + 1, size + 1))
        grams[:, :size, :size] = chosen @ chosen.T
        cross = self._unit[rows] @ chosen.T
        grams[:, size, :size] = cross
        grams[:, :size, size] = cross
        grams[:, np.arange(size + 1), np.arange(size + 1)] = 1.0
        values = np.maximum(np.linalg.eigvalsh(grams), 0.0)
        added = _x_log_x(values).sum(axis=1) - self._redundancy
        return np.asarray(self._relevance[rows] - self._penalty * added)

    def pick(self, row: int, /) -> None:
        self._picked.append(row)
        self._redundancy = redundancy(self._unit[self._picked])


_Score: TypeAlias = Callable[[list[int]], FloatArray]


def _marginal_relevance(relevance: FloatArray, unit: FloatArray, balance: float) -> _Score:
    """Return a function that scores each row by maximal marginal relevance.

    The score is ``balance * relevance - (1 - balance) * highest cosine to a picked row``. `unit` are the embeddings of
    the rows, with length 1.
    """
    nearest = np.full(len(relevance), -np.inf)

    def score(rows: list[int]) -> FloatArray:
        if not rows:
            return balance * relevance
        np.maximum(nearest, times_vector(unit, unit[rows[-1]]), out=nearest)
        return balance * relevance - (1 - balance) * nearest

    return score


def set_entropy(relevance: FloatArray, rows: list[int], /) -> FloatArray:
    """Compute, for each passage, the entropy of the set of the chosen passages and this passage.

    Parameters
    ----------
    relevance : (n,) array of float
        The relevance of each passage, >= 0.
    rows : list of int
        The passages that are in the set already.

    Returns
    -------
    (n,) array of float
        For each passage, the entropy in nats of the relevances of the set and this passage, scaled to the sum 1.
    """
    table = np.empty((len(relevance), len(rows) + 1))
    table[:, :-1] = relevance[rows]
    table[:, -1] = relevance
    total = table.sum(axis=1, keepdims=True)
    shares = np.divide(table, total, out=np.zeros_like(table), where=total > 0)
    return np.asarray(-_x_log_x(shares).sum(axis=1))


def _legacy_entropy(relevance: FloatArray, penalty: float) -> _Score:
    """Return a function that scores each row by ``relevance - penalty * entropy``; see :func:`set_entropy`.

    This is the rule of the quantum document (see :mod:`phasegraph.selection`). The document promises diversity, but the
    penalty ignores the content of the passages. A passage of low relevance adds little entropy, so a large penalty
    prefers the least relevant passage (see the golden numbers in the tests). Use the log-determinant instead.
    """
    return lambda rows: relevance - penalty * set_entropy(relevance, rows)


Method: TypeAlias = Literal["top", "log_det", "von_neumann", "mmr", "legacy_entropy"]
METHODS: tuple[Method, ...] = get_args(Method)
_NEEDS_EMBEDDINGS = frozenset({"log_det", "von_neumann", "mmr"})


@dataclass(frozen=True, slots=True, eq=False)
class SelectionResult:
    """The chosen set of passages.

    Parameters
    ----------
    rows : (k,) array of int
        The chosen rows in the order of picking.
    gains : (k,) array of float
        The gain of each row when it was picked; for ``top``, ``mmr`` and ``legacy_entropy``, the score of the row.
    objective : float
        Sum of the gains. For ``log_det`` and ``von_neumann``, it is the value of the set function.
    vendi : float or None
        Effective number of different passages in the set, 1 to k; None without embeddings.
    method : str
        The method of the selection.
    spent : float or None
        Sum of the costs of the chosen passages; None without a budget.
    entropies : (k,) array of float or None
        For ``legacy_entropy``, the entropy of the set in nats after each pick; None for other methods.
    relevance : str
        The origin of the relevances. ``given``: the caller gave them. ``fused, scaled``: a pipeline scaled the fused
        values with :func:`scaled_relevance`. For ``legacy_entropy``, a pipeline prefers, in this order:
        ``superposition`` (the probabilities of :class:`~phasegraph.fusion.superposition.Superposition`), ``score`` (the
        scores of the only source), and ``fused`` (fused values, if all are in [0, 1]).
    """

    rows: IntArray
    gains: FloatArray
    objective: float
    vendi: float | None
    method: str
    spent: float | None = None
    entropies: FloatArray | None = None
    relevance: str = "given"


@dataclass(frozen=True, slots=True)
class SelectionPolicy:
    """The method and parameters that choose the k passages of an answer.

    Parameters
    ----------
    method : {"log_det", "top", "mmr", "von_neumann", "legacy_entropy"}, default "log_det"
        ``log_det`` maximizes ``sum of relevance + mu / 2 * ln det(I + theta K)``; K is the cosine matrix of the set.
        ``top`` takes the most relevant passages. ``mmr`` trades relevance against the highest similarity to a passage
        that is already picked [3]_. ``von_neumann`` maximizes ``sum of relevance - penalty * tr(K ln K)`` and stops
        when no passage increases this value. ``legacy_entropy`` is exactly the rule of the quantum document, a design
        document that describes retrieval in terms of quantum mechanics.
    mu : float, default 0.1
        Weight of novelty against relevance in ``log_det``, >= 0, in the unit of relevance. With 0, ``log_det`` equals
        ``top``; with large values, relevance has no effect. The default suits relevance in [0, 1]; see
        :func:`scaled_relevance`.
    theta : float, default 1.0
        Weight of the similarities in ``log_det``, >= 0. A larger value discounts similar passages more.
    penalty : float, default 0.1
        Weight of the penalty in ``von_neumann`` and ``legacy_entropy``, >= 0.
    balance : float, default 0.7
        Weight of relevance in ``mmr``, in [0, 1]; with 1, ``mmr`` equals ``top``.
    budget : float, optional
        Highest sum of costs of the chosen passages, for example in tokens, > 0. :meth:`select` then needs `costs`.
    distinct : bool, optional
        For ``log_det``: whether exact copies (cosine 1) count once. If True, a copy of a chosen passage comes after all
        other passages. The function stays monotone and submodular. With `mu` 0, the value has no effect. Default: True
        in a pipeline, False in a direct call of :meth:`select`.
    max_entropy : float, optional
        Highest entropy of the set for ``legacy_entropy``, in nats, >= 0. The selection stops before the passage that
        would exceed it. The quantum document states 2.0 without a use for it; about eight passages of nearly equal
        relevance have this entropy.

    Notes
    -----
    The log-determinant is monotone and submodular. With at most k passages, the greedy set is therefore worth at least
    (1 - 1/e) = 63 % of the best set of k [1]_. Suppose that only a budget limits the set. The best of three choices is
    then worth at least (1 - 1/e)/2 = 32 % of the best set [2]_: greedy by gain per cost, greedy by gain, and the best
    single passage. The von Neumann penalty is submodular but not monotone, so no such guarantee exists. MMR does not
    maximize a set function.

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
    max_entropy: float | None = None
    distinct: bool | None = None

    def __post_init__(self) -> None:
        check_choice("SelectionPolicy.method", self.method, METHODS)
        for name in ("mu", "theta", "penalty"):
            check_number(f"SelectionPolicy.{name}", getattr(self, name))
        check_range("SelectionPolicy.balance", self.balance, 0, 1)
        if self.budget is not None:
            check_range("SelectionPolicy.budget", self.budget, ends="(]")
        if self.distinct is not None:
            check_flag("SelectionPolicy.distinct", self.distinct)
        if self.distinct and self.method != "log_det":
            raise InvalidInputError(
                f"SelectionPolicy.distinct applies only to the method 'log_det'; got {self.method!r}"
            )
        if self.max_entropy is not None:
            check_number("SelectionPolicy.max_entropy", self.max_entropy)
            if self.method != "legacy_entropy":
                raise InvalidInputError(
                    f"SelectionPolicy.max_entropy applies only to the method 'legacy_entropy'; got {self.method!r}"
                )

    @property
    def needs_embeddings(self) -> bool:
        """True if :meth:`select` needs embeddings or a kernel."""
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
            The relevance of each row; finite, preferably scaled by :func:`scaled_relevance`. ``log_det`` and
            ``legacy_entropy`` need values >= 0. Give the rows best first: of equal rows, the lowest row number is
            picked.
        embeddings : (n, d) array_like of float or None
            Needed by ``log_det``, ``von_neumann`` and ``mmr`` unless `kernel` is given.
        k : int
            Maximum number of rows, >= 0; may exceed n.
        costs : (n,) array_like of float, optional
            The cost of each row, > 0; used only with a budget.
        kernel : (n, n) array_like of float, optional
            Similarities instead of embeddings: symmetric, positive semi-definite, 1 on the diagonal.

        Returns
        -------
        SelectionResult
            The chosen rows with their gains and statistics.

        Raises
        ------
        InvalidInputError
            If an argument breaks a requirement above, or the method needs embeddings and none are given.
        """
        limit = check_count("k", k)
        values = check_flat("relevance", relevance)
        if self.method in ("log_det", "legacy_entropy") and len(values) and values.min() < 0:
            raise InvalidInputError(f"relevance must be >= 0 for {self.method}; got {values.min():g}")
        spending = self._costs(costs, len(values))
        unit = self._unit(embeddings, kernel, len(values))
        picked, gained = self._pick(values, unit, limit, spending)
        rows, gains = np.array(picked, dtype=np.intp), np.array(gained)
        rows.setflags(write=False)
        gains.setflags(write=False)
        return SelectionResult(
            rows,
            gains,
            float(sum(gained)),
            None if unit is None else vendi_score(unit[rows]),
            self.method,
            None if spending is None else float(spending[rows].sum()),
            self._entropies(values, picked),
        )

    def _entropies(self, values: FloatArray, picked: list[int]) -> FloatArray | None:
        if self.method != "legacy_entropy":
            return None
        found = []
        for place, row in enumerate(picked):
            go_on()
            found.append(set_entropy(values, picked[:place])[row])
        return np.array(found)

    def _pick(self, values: FloatArray, unit: FloatArray | None, k: int, costs: FloatArray | None) -> _Picked:
        score: _Score | None = None  # None: the order of relevance
        if self.method == "legacy_entropy":
            score = _legacy_entropy(values, self.penalty)
        elif self.method == "mmr" and unit is not None:
            score = _marginal_relevance(values, unit, self.balance)
        elif self.method in ("log_det", "von_neumann") and unit is not None:
            plain = _lazy_greedy(self._set_function(values, unit), k, costs, self.budget)
            if costs is None:
                return plain
            dense = _lazy_greedy(self._set_function(values, unit), k, costs, self.budget, per_cost=True)
            return max((dense, plain), key=lambda found: sum(found[1]))

        def choose(queue: IntArray, rows: list[int]) -> tuple[int, float] | None:
            current = (values if score is None else score(rows))[queue]
            best = float(current.max())
            place = int(np.argmax(current >= best - _TIE * max(1.0, abs(best))))
            if self.max_entropy is not None and set_entropy(values, rows)[queue[place]] > self.max_entropy + _TIE:
                return None
            return int(queue[place]), float(current[place])

        return _greedy(len(values), k, choose, costs, self.budget)

    def _set_function(self, values: FloatArray, unit: FloatArray) -> _SetFunction:
        if self.method == "log_det":
            return _LogDet(values, unit, mu=self.mu, theta=self.theta, distinct=bool(self.distinct))
        return _VonNeumannPenalty(values, unit, penalty=self.penalty)

    def _costs(self, costs: FloatArray | None, count: int) -> FloatArray | None:
        if self.budget is None:
            return None
        if costs is None:
            raise InvalidInputError("a budget needs `costs`, one number per passage; got no costs")
        values = np.array(costs, dtype=np.float64)
        if values.shape != (count,) or not np.isfinite(values).all() or (values <= 0).any():
            raise InvalidInputError(
                f"costs must be {count} finite numbers > 0; got shape {values.shape}: {values.tolist()!r:.80}"
            )
        return values

    def _unit(self, embeddings: FloatArray | None, kernel: FloatArray | None, count: int) -> FloatArray | None:
        if kernel is not None:
            if embeddings is not None:
                raise InvalidInputError("give embeddings or a kernel, not both")
            return kernel_rows(kernel, count=count)
        if embeddings is not None:
            return unit_rows(embeddings, count=count)
        if self.needs_embeddings:
            raise InvalidInputError(
                f"selection by {self.method} needs the passages' embeddings (from the source, an embedder or a "
                f"callable); got no embeddings"
            )
        return None

    def to_dict(self) -> dict[str, object]:
        """Return the policy in plain JSON types."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, object], /) -> SelectionPolicy:
        """Create the policy from the output of :meth:`to_dict`."""
        return cls(**check_keys("SelectionPolicy", data, [item.name for item in fields(cls)]))


def scaled_relevance(fused: FloatArray, /) -> FloatArray:
    """Scale fused values to relevance in [0, 1].

    With this scale, the options `mu` and `penalty` of a selection have the same effect for every fusion rule.

    Parameters
    ----------
    fused : (n,) array_like of float
        The values of a fusion rule, finite.

    Returns
    -------
    (n,) array of float
        The values divided by the largest value. If a value is negative, the smallest value is subtracted first. All 1
        if all values are equal.

    Notes
    -----
    ``Result.scores`` are in [0, 1] too, but the best of these scores are nearly equal. If a selection used them as
    relevance, the same `mu` or `penalty` would remove many more relevant passages.

    Examples
    --------
    >>> scaled_relevance([4.0, 2.0, 1.0]), scaled_relevance([1.0, 0.0, -1.0])
    (array([1.  , 0.5 , 0.25]), array([1. , 0.5, 0. ]))
    """
    values = check_flat("fused", fused)
    if not len(values) or values.max() == values.min():
        return np.ones(len(values))
    low = min(float(values.min()), 0.0)
    return np.asarray((values - low) / (float(values.max()) - low))
