"""A learned correction of the fused value: boosted trees fitted to a corpus's own judged queries.

What holds for every corpus is in the default; what holds for one (its vectors are weak, its walk is right where BM25
agrees) has to be learned from its questions. The trees see the rankings only, never a text or an id, and are kept as
plain numbers: fitting needs LightGBM, using them needs numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any

import numpy as np

from phasegraph._typing import FloatArray, IntArray
from phasegraph._validation import check_flat, check_keys, check_names
from phasegraph.errors import InvalidInputError, MissingDependencyError
from phasegraph.ranking import Candidates, top_order

_NEAR, _HEAD, _TOP = 5, 10, 20
ROUNDS, START = 60, 5.0
"""Trees, and what the fused value's fall from the first to the tenth hit is worth to the first of them."""
_SETTINGS = {
    "objective": "lambdarank", "lambdarank_truncation_level": _HEAD, "learning_rate": 0.05, "num_leaves": 7,
    "min_data_in_leaf": 50, "lambda_l2": 1.0, "feature_fraction": 0.5, "bagging_fraction": 0.7, "bagging_freq": 1,
    "deterministic": True, "force_row_wise": True, "num_threads": 1, "seed": 0, "verbose": -1,
}  # fmt: skip


def ranking_features(candidates: Candidates, values: FloatArray, fused: FloatArray) -> FloatArray:
    """What a re-scorer sees of the n candidates of one query: (n, f) of their calibrated `values` and `fused` ones.

    Per candidate, for the fused value and every source: the value, the rank (one more than the list is long, and at
    least 11, where it lacks the candidate) and the gap to the top; how many sources have it in their first 5, first 10
    and at all; its best rank and the sum of its reciprocal ranks. Per query, the same in every row: for the fused
    value and every source the effective number of the first 20, the top value, and its fall to the 5th and the 10th;
    how many of their first 10 every two sources share; n.

    >>> from phasegraph.ranking import Ranking, pool
    >>> found = pool([Ranking("g", ["a", "b"], [3.0, 1.0]), Ranking("v", ["b"], [0.5])])
    >>> ranking_features(found, np.array([[3.0, 0.0], [1.0, 0.5]]), np.array([1.5, 0.75])).shape
    (2, 28)
    """
    count = len(candidates.ids)
    ranks = np.empty((count, 1 + len(candidates.sources)))
    ranks[top_order(fused, candidates.ids), 0] = np.arange(1, count + 1)
    for column, rows in enumerate(candidates.positions, start=1):
        ranks[:, column] = max(len(rows), _HEAD) + 1
        ranks[rows, column] = np.arange(1, len(rows) + 1)
    every = np.column_stack([fused, values])
    falling = -np.sort(-every, axis=0)[:_TOP]
    tops, own = falling[0], ranks[:, 1:]
    shares = np.exp(falling - tops)
    shares /= shares.sum(axis=0)
    numbers = np.exp(-(shares * np.log(np.maximum(shares, 1e-300))).sum(axis=0))
    falls = [tops - falling[min(place, count) - 1] for place in (_NEAR, _HEAD)]
    head = own <= _HEAD
    shared = [float((head[:, one] & head[:, other]).sum()) for one, other in combinations(range(own.shape[1]), 2)]
    query = np.concatenate([numbers, tops, *falls, shared, [count]])
    return np.column_stack(
        [
            every, ranks, tops - every, (own <= _NEAR).sum(axis=1), head.sum(axis=1), candidates.returned,
            own.min(axis=1), (1.0 / own).sum(axis=1), np.broadcast_to(query, (count, len(query))),
        ]
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Rescorer:
    """Regression trees whose sum is added to the fused value; made by :func:`fit_rescorer`.

    It was fitted on the `sources`, ascending, and has nothing to say where others answered. All trees stand in one row
    of z nodes, each node before its children; `roots` are those in which the trees begin. A node asks about the column
    `feature` of :func:`ranking_features`: up to `threshold` the way leads `left`, beyond it `right`; a leaf's children
    are itself, and `value` is what it adds, in units of the fused value.
    """

    sources: tuple[str, ...]
    roots: IntArray
    feature: IntArray
    threshold: FloatArray
    left: IntArray
    right: IntArray
    value: FloatArray

    def __post_init__(self) -> None:
        names = check_names("sources", self.sources)
        if not names or list(names) != sorted(set(names)):
            raise InvalidInputError(f"sources must be ascending names, each once; got {names}")
        object.__setattr__(self, "sources", names)
        for one in fields(self)[1:]:
            array = check_flat(one.name, getattr(self, one.name))
            if one.name not in ("threshold", "value"):
                if (array != np.floor(array)).any():
                    raise InvalidInputError(f"{one.name} must hold whole numbers; got {getattr(self, one.name)!r:.80}")
                array = array.astype(np.intp)
            array.setflags(write=False)
            object.__setattr__(self, one.name, array)
        count, width = len(self.feature), feature_count(len(self.sources))
        rows = (self.threshold, self.left, self.right, self.value)
        if not count or any(len(row) != count for row in rows) or not _within(self.roots, 0, count):
            raise InvalidInputError("the rows of a re-scorer must have one length, and its roots must be among them")
        own = np.arange(count)
        leaf = (self.left == own) & (self.right == own)
        onward = (self.left > own) & (self.right > own) & (np.maximum(self.left, self.right) < count)
        if not (leaf | onward).all() or not _within(self.feature, 0, width):
            raise InvalidInputError(f"a re-scorer's nodes must lead onward and ask about one of {width} features")

    def __call__(self, features: FloatArray, /) -> FloatArray:
        """(n,) array: what the trees add, from :func:`ranking_features`."""
        flat, begins = features.ravel(), features.shape[1] * np.arange(len(features))[:, None]
        nodes = np.repeat(self.roots[None], len(features), axis=0)
        while True:
            below = flat.take(self.feature.take(nodes) + begins) <= self.threshold.take(nodes)
            following = np.where(below, self.left.take(nodes), self.right.take(nodes))
            if np.array_equal(following, nodes):
                return np.asarray(self.value.take(nodes).sum(axis=1))
            nodes = following

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rescorer) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.sources, self.value.tobytes()))

    def to_dict(self) -> dict[str, object]:
        """JSON-ready state; :meth:`from_dict` gives an equal one back."""
        return {"sources": list(self.sources)} | {
            one.name: getattr(self, one.name).tolist() for one in fields(self)[1:]
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> Rescorer:
        """Rebuild from :meth:`to_dict`; InvalidInputError names what does not fit."""
        names = [one.name for one in fields(cls)]
        return cls(**check_keys("rescorer", state, names, required=names))


def feature_count(sources: int) -> int:
    """Columns of :func:`ranking_features` for so many sources."""
    return 7 * (sources + 1) + 6 + sources * (sources - 1) // 2


def _within(values: IntArray, low: int, high: int) -> bool:
    return bool(((values >= low) & (values < high)).all())


def require_lightgbm() -> Any:
    """LightGBM, or MissingDependencyError with the line that installs it."""
    try:
        import lightgbm
    except (ImportError, OSError) as error:  # OSError: the library it loads (libgomp) is missing
        raise MissingDependencyError("fitting a re-scorer needs LightGBM; pip install 'phasegraph[rescore]'") from error
    return lightgbm


def fit_rescorer(sources: Sequence[str], queries: Sequence[tuple[FloatArray, FloatArray, FloatArray]], /) -> Rescorer:
    """Fit trees that correct the fused value to judged queries.

    Per query the (n, f) :func:`ranking_features`, (n,) fused values, and (n,) relevance, 0 or 1; the `sources` ascend.
    The same for the same queries in the same order, with one release of LightGBM. LambdaMART [1]_, 60 trees of 7
    leaves, begun from the fused value instead of 0: with little to learn from, it stays near the order that it is to
    correct.

    References
    ----------
    .. [1] Burges, "From RankNet to LambdaRank to LambdaMART: an overview", Microsoft Research MSR-TR-2010-82
    """
    lightgbm = require_lightgbm()
    falls = [_fall(fused) for _, fused, _ in queries]
    unit = max(float(np.median(falls)), 1e-9) / START
    data = lightgbm.Dataset(
        np.vstack([features for features, _, _ in queries]),
        label=np.concatenate([relevant for _, _, relevant in queries]),
        group=[len(fused) for _, fused, _ in queries],
        init_score=np.concatenate([fused for _, fused, _ in queries]) / unit,
    )
    trees = lightgbm.train(dict(_SETTINGS), data, ROUNDS).dump_model()["tree_info"]
    roots: list[int] = []
    nodes: list[list[float]] = []
    for tree in trees:
        roots.append(len(nodes))
        _flatten(tree["tree_structure"], nodes, unit)
    feature, threshold, left, right, value = zip(*nodes, strict=True)
    return Rescorer(tuple(sources), roots, feature, threshold, left, right, value)  # type: ignore[arg-type]


def _fall(fused: FloatArray) -> float:
    falling = -np.sort(-fused)
    return float(falling[0] - falling[min(_HEAD, len(falling)) - 1])


def _flatten(node: Mapping[str, Any], nodes: list[list[float]], unit: float) -> None:
    """Append a node of LightGBM's dump and all below it."""
    place = len(nodes)
    if "leaf_value" in node:
        nodes.append([0, 0.0, place, place, unit * node["leaf_value"]])
        return
    nodes.append([node["split_feature"], node["threshold"], 0, 0, 0.0])
    for side, child in ((2, "left_child"), (3, "right_child")):
        nodes[place][side] = len(nodes)
        _flatten(node[child], nodes, unit)
