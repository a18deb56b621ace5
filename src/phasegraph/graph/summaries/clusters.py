"""Cluster embeddings by Gaussian mixtures, as in RAPTOR; later embeddings can be assigned to stored clusters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasegraph._support.typing import BoolArray, FloatArray, IntArray
from phasegraph._support.validation import check_choice, check_count, check_range
from phasegraph.errors import InvalidInputError, MissingDependencyError

Reducer: TypeAlias = Literal["auto", "pca", "umap"]
_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_RISES = 2
"""Number of consecutive increases of the Bayesian information criterion (BIC) that end the search in `_COUNTS`."""
_SOFTENING = 0.05
"""Amount added to every variance, as a share of the points' mean variance; a cluster of one point has no variance."""
_PARTS = ("centre", "axes", "means", "variances", "weights", "cells")


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Settings for clustering the nodes of a summary tree.

    Parameters
    ----------
    threshold : float, default 0.1
        Minimum responsibility of a cluster for a node (the probability that the node belongs to it), in (0, 1]. A node
        may belong to several clusters, and always belongs to the cluster with the greatest responsibility.
    largest : int, default 30
        Maximum number of members of a cluster, at least 2; larger clusters are divided by a further mixture.
    fewest : int, default 4
        Minimum number of nodes that are clustered, at least 2. Fewer passages form a single cluster; fewer summaries
        are the top of the tree.
    most : int, default 50
        Maximum number of clusters in a mixture, at least 2.
    dimensions : int, default 10
        Number of dimensions to which embeddings are reduced, at least 1.
    reducer : {"auto", "pca", "umap"}, default "auto"
        The method that reduces dimensions. ``umap`` uses UMAP (``umap-learn``), as in RAPTOR, and ``pca`` principal
        components. ``auto`` uses UMAP if it is installed. Choose ``pca`` or ``umap`` if the clusters must not depend on
        installed packages.
    seed : int, default 0
        The seed of random numbers, at least 0.
    """

    threshold: float = 0.1
    largest: int = 30
    fewest: int = 4
    most: int = 50
    dimensions: int = 10
    reducer: Reducer = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        check_range("ClusterSettings.threshold", self.threshold, 0, 1, ends="(]")
        for name in ("largest", "fewest", "most"):
            check_count(f"ClusterSettings.{name}", getattr(self, name), minimum=2)
        check_count("ClusterSettings.dimensions", self.dimensions, minimum=1)
        check_choice("ClusterSettings.reducer", self.reducer, ("auto", "pca", "umap"))
        check_count("ClusterSettings.seed", self.seed)


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """A Gaussian mixture of c components, with diagonal covariances on r principal components of the embeddings.

    `centre`, of shape (d,), and `axes`, of shape (r, d), define the projection. `means` and `variances`, of shape (c,
    r), and `weights`, of shape (c,), describe the components. `cells`, of shape (c,), contains the number of each
    component's cluster. If another mixture, with number m, divides the component further, the value is -1 - m.
    """

    centre: FloatArray
    axes: FloatArray
    means: FloatArray
    variances: FloatArray
    weights: FloatArray
    cells: IntArray

    def responsibilities(self, vectors: FloatArray) -> FloatArray:
        """Return the responsibilities: the probability that each of n vectors belongs to each of c components.

        The result is an array of shape (n, c), whose rows sum to 1.
        """
        points = (vectors - self.centre) @ self.axes.T
        logs = np.log(self.weights) - 0.5 * np.log(self.variances).sum(axis=1)
        logs = logs - 0.5 * (((points[:, None, :] - self.means) ** 2) / self.variances).sum(axis=2)
        shares: FloatArray = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return shares


@dataclass(frozen=True, slots=True, eq=False)
class Clustering:
    """A clustering of embeddings by Gaussian mixtures, which are fitted only once; :func:`fit_clusters` creates it.

    The first mixture covers all embeddings; further mixtures divide its large clusters. An embedding belongs to its
    most likely cluster, and to every cluster to which it belongs with a probability of at least `threshold`. Its
    clusters depend only on the embedding itself, so later embeddings do not change them. `count` is the number of
    clusters, and `fitted` the number of embeddings to which the mixtures were fitted.
    """

    mixtures: tuple[Mixture, ...]
    count: int
    fitted: int
    threshold: float

    def assign(self, vectors: Any) -> list[tuple[int, ...]]:
        """Return the ascending cluster numbers of each of n vectors; every vector has at least one cluster."""
        given = np.asarray(vectors, dtype=np.float64)
        found: list[set[int]] = [set() for _ in given]
        waiting = [(0, _Part.whole(len(given)))]
        while waiting and len(given):
            place, part = waiting.pop()
            mixture = self.mixtures[place]
            for cell, own in zip(mixture.cells.tolist(), part.divided(mixture, given, self.threshold), strict=True):
                if cell < 0:
                    waiting.append((-1 - cell, own))
                else:
                    for row in own.rows.tolist():
                        found[row].add(cell)
        return [tuple(sorted(each)) for each in found]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A part of the embeddings: their rows, and their degrees of membership in this part, in [0, 1].

    `likeliest` is True for an embedding that has reached this part by its most likely component in every mixture.
    """

    rows: IntArray
    shares: FloatArray
    likeliest: BoolArray

    @classmethod
    def whole(cls, size: int) -> _Part:
        return cls(np.arange(size), np.ones(size), np.ones(size, dtype=np.bool_))

    def divided(self, mixture: Mixture, vectors: FloatArray, threshold: float) -> list[_Part]:
        """Divide the part by a mixture, and return the part of each component.

        A degree of membership is multiplied by the probability that the embedding belongs to the component. A
        component's part contains the embeddings whose product is at least `threshold`, and the embeddings for which
        this component is the most likely.
        """
        if not len(self.rows):
            return [self] * len(mixture.weights)
        shares = mixture.responsibilities(vectors[self.rows]) * self.shares[:, None]
        first = np.zeros(shares.shape, dtype=np.bool_)
        first[np.arange(len(shares)), shares.argmax(axis=1)] = self.likeliest
        return [
            _Part(self.rows[own], share[own], likeliest[own])
            for share, likeliest in zip(shares.T, first.T, strict=True)
            for own in [np.flatnonzero((share >= threshold) | likeliest)]
        ]


def fit_clusters(vectors: Any, settings: ClusterSettings) -> Clustering:
    """Cluster embeddings, an array of shape (n, d), by Gaussian mixtures.

    The first mixture covers all embeddings, and a further mixture divides each cluster that is too large. The number of
    clusters in a mixture minimizes the Bayesian information criterion (BIC). The search first tries growing numbers,
    then numbers between the best number and its neighbors.

    Notes
    -----
    RAPTOR (Sarthi et al. 2024, arXiv:2401.18059) fits mixtures with full covariances to ten dimensions of UMAP: first
    to all embeddings, then once within each cluster. There are three differences. Here, covariances are diagonal,
    because a full covariance has 55 numbers, too many for few passages. Clusters are divided until no cluster has more
    than ``largest`` members. The stored mixture uses principal components, even if UMAP found the clusters; it can
    therefore classify later vectors.

    Raises
    ------
    MissingDependencyError
        If scikit-learn is not installed.

    Examples
    --------
    >>> points = [[1.0, 0.0], [0.99, 0.01], [0.98, 0.02], [0.0, 1.0], [0.01, 0.99], [0.02, 0.98]]
    >>> fit_clusters(points, ClusterSettings(reducer="pca")).assign(points)
    [(0,), (0,), (0,), (1,), (1,), (1,)]
    """
    try:
        import sklearn.mixture  # noqa: F401
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise MissingDependencyError(
            "summary trees need scikit-learn to cluster passages; pip install 'phasegraph[summaries]'"
        ) from error
    given = np.asarray(vectors, dtype=np.float64)
    mixtures: list[Mixture] = []
    count = 0

    def divide(part: _Part, least: int) -> None:
        nonlocal count
        mixture = _fitted(given[part.rows], least, settings)
        mixtures.append(mixture)
        for component, own in enumerate(part.divided(mixture, given, settings.threshold)):
            if settings.largest < len(own.rows) < len(part.rows):
                mixture.cells[component] = -1 - len(mixtures)
                divide(own, 2)
            else:
                mixture.cells[component] = count
                count += 1
        mixture.cells.setflags(write=False)

    with threadpool_limits(1):  # for many small products, threads are slower, and make rounding errors vary
        divide(_Part.whole(len(given)), 2 if len(given) > settings.largest else 1)
    return Clustering(tuple(mixtures), count, len(given), settings.threshold)


def _fitted(vectors: FloatArray, least: int, settings: ClusterSettings) -> Mixture:
    """Fit mixtures to vectors, and return the mixture with the lowest Bayesian information criterion (BIC).

    `least` is the minimum number of components. In the result, the components are in the order of their first members.
    """
    centre, axes = _principal(vectors, settings.dimensions)
    points = (vectors - centre) @ axes.T
    reduced = _by_umap(vectors, settings)
    fitted_on = points if reduced is None else reduced
    softening = max(_SOFTENING * float(fitted_on.var(axis=0).mean()), 1e-9)
    best = _least_bic(fitted_on, least, softening, settings)
    shares = np.ones((len(points), 1)) if best is None else best.predict_proba(fitted_on)
    shares = shares[:, shares.sum(axis=0) > 1e-6]
    shares = shares[:, np.argsort(shares.argmax(axis=0), kind="stable")]
    totals = shares.sum(axis=0)
    means = (shares.T @ points) / totals[:, None]
    variances = (shares.T @ points**2) / totals[:, None] - means**2
    floor = max(_SOFTENING * float(points.var(axis=0).mean()), 1e-9)
    return Mixture(
        centre, axes, means, np.maximum(variances, 0.0) + floor, totals / len(points),
        np.zeros(len(totals), dtype=np.int64),
    )  # fmt: skip


def _least_bic(points: FloatArray, least: int, softening: float, settings: ClusterSettings) -> Any:
    """Return scikit-learn's fitted mixture with the lowest Bayesian information criterion (BIC).

    Returns None if there are too few distinct points.

    `least` is the minimum number of components, and `softening` is a number that is added to all variances.
    """
    from sklearn.mixture import GaussianMixture

    tried: dict[int, tuple[float, Any]] = {}

    def bic(count: int) -> float:
        if count not in tried:
            found = GaussianMixture(count, covariance_type="diag", reg_covar=softening, random_state=settings.seed)
            found.fit(points)
            tried[count] = float(found.bic(points)), found
        return tried[count][0]

    highest = min(settings.most, len(np.unique(points, axis=0)) - 1)
    rises, lowest = 0, np.inf
    for count in [one for one in _COUNTS if least <= one < highest] + [highest] * (highest >= least):
        rises, lowest = (0, bic(count)) if bic(count) < lowest else (rises + 1, lowest)
        if rises == _RISES:
            break
    while tried:  # try numbers between the best number and its neighbors
        counts = sorted(tried)
        place = min(range(len(counts)), key=lambda at: (tried[counts[at]][0], at))
        gaps = [(low + high) // 2 for low, high in pairwise(counts[max(place - 1, 0) : place + 2]) if high - low > 1]
        if not gaps:
            return tried[counts[place]][1]
        for one in gaps:
            bic(one)
    return None


def _principal(vectors: FloatArray, dimensions: int) -> tuple[FloatArray, FloatArray]:
    """Return the mean of the vectors, and at most `dimensions` of their principal axes.

    The sign of an axis is chosen so that its coordinate with the greatest absolute value is positive.
    """
    centre = vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(vectors - centre, full_matrices=False)
    axes = axes[: max(1, min(dimensions, len(vectors) - 1))]
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
    return centre, axes * np.where(signs == 0, 1.0, signs)[:, None]


def _by_umap(vectors: FloatArray, settings: ClusterSettings) -> FloatArray | None:
    """Reduce the dimensions of embeddings with UMAP, as RAPTOR does.

    Return None if the reducer is ``pca``, if there are too few embeddings, or if ``auto`` does not find UMAP.
    """
    if settings.reducer == "pca" or len(vectors) < settings.dimensions + 3:  # UMAP's spectral start needs more vectors
        return None
    try:
        import umap
    except ImportError as error:
        if settings.reducer == "umap":
            raise MissingDependencyError('reducer="umap" needs umap-learn; pip install "phasegraph[umap]"') from error
        return None
    near = max(2, int(np.ceil(np.sqrt(len(vectors) - 1))))
    made = umap.UMAP(
        n_neighbors=near, n_components=settings.dimensions, metric="cosine", random_state=settings.seed, n_jobs=1
    )
    return np.asarray(made.fit_transform(vectors), dtype=np.float64)


def packed_clusterings(found: Sequence[Clustering]) -> dict[str, NDArray[Any]]:
    """Convert clusterings to named arrays, in which the parameters of all mixtures are concatenated."""
    mixtures = [mixture for one in found for mixture in one.mixtures]
    arrays: dict[str, NDArray[Any]] = {
        f"clusters_{part}": np.concatenate([getattr(one, part).ravel() for one in mixtures] or [np.empty(0)])
        for part in _PARTS
    }
    arrays["clusters_cells"] = arrays["clusters_cells"].astype(np.int64)
    shapes = [[len(one.centre), len(one.axes), len(one.weights)] for one in mixtures]
    arrays["clusters_shapes"] = np.array(shapes, dtype=np.int64).reshape(-1, 3)
    heads = [[len(one.mixtures), one.count, one.fitted] for one in found]
    arrays["clusters_heads"] = np.array(heads, dtype=np.int64).reshape(-1, 3)
    return arrays


def unpacked_clusterings(arrays: Mapping[str, NDArray[Any]], threshold: float) -> list[Clustering]:
    """Create clusterings from arrays of :func:`packed_clusterings`; raise InvalidInputError for invalid arrays."""
    starts = dict.fromkeys(_PARTS, 0)
    mixtures: list[Mixture] = []
    for d, r, c in arrays["clusters_shapes"].tolist():
        parts: dict[str, Any] = {}
        shapes = {"centre": (d,), "axes": (r, d), "means": (c, r), "variances": (c, r), "weights": (c,), "cells": (c,)}
        for part, shape in shapes.items():
            size, held = math.prod(shape), arrays[f"clusters_{part}"]
            run = held[starts[part] : starts[part] + size]
            if held.ndim != 1 or min(shape) < 1 or len(run) != size:
                raise InvalidInputError(f"the arrays of the clusters end inside the {part} of mixture {len(mixtures)}")
            parts[part], starts[part] = run.reshape(shape), starts[part] + size
        if any(one.dtype.kind != ("i" if part == "cells" else "f") for part, one in parts.items()):
            raise InvalidInputError(
                f"the arrays of mixture {len(mixtures)} must be floats, and its cells integers; got "
                + ", ".join(f"{part}: {one.dtype}" for part, one in parts.items())
            )
        if (
            not all(np.isfinite(one).all() for one in parts.values())
            or min(parts["variances"].min(), parts["weights"].min()) <= 0
        ):
            raise InvalidInputError(
                f"the numbers of stored mixture {len(mixtures)} must be finite, and its variances and weights above 0; "
                f"got variances from {parts['variances'].min():g}, and weights from {parts['weights'].min():g}"
            )
        mixtures.append(Mixture(**parts))
    out: list[Clustering] = []
    for held, count, fitted in arrays["clusters_heads"].tolist():
        own, mixtures = tuple(mixtures[:held]), mixtures[held:]
        if len(own) != held or not held or any((one.cells >= count).any() for one in own):
            raise InvalidInputError(
                f"a clustering of {count} clusters must have all its mixtures (at least 1) and cluster numbers below "
                f"{count}"
            )
        within = [(place, -1 - cell) for place, one in enumerate(own) for cell in one.cells.tolist() if cell < 0]
        if any(inner <= outer for outer, inner in within) or sorted(one for _, one in within) != list(range(1, held)):
            raise InvalidInputError("each mixture except the first must divide one component of an earlier mixture")
        out.append(Clustering(own, count, fitted, threshold))
    if mixtures:
        raise InvalidInputError(f"{len(mixtures)} mixtures belong to no clustering")
    return out
