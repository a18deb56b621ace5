"""Rows that may be among the nearest hold all that are, whatever ties and rounding do."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from phasegraph.retrieval import Nearest


@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_are_always_among_them_and_few_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(300, 24)).round(int(rng.integers(0, 4))) + 0.001
    vectors[50:60] = vectors[7]
    query, count = rng.normal(size=24), int(rng.integers(1, 40))
    cosines = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    allowed = None if seed % 2 else rng.random(300) < 0.5
    among = np.arange(300) if allowed is None else np.flatnonzero(allowed)
    found = Nearest().rows(vectors.tolist(), query, count, allowed)
    assert found is not None
    lowest = np.sort(cosines[among])[-count]
    assert set(among[cosines[among] >= lowest]) <= set(found.tolist()) <= set(among.tolist())
    assert (cosines[found] > lowest - 1e-4).all()


def test_a_change_of_the_vectors_is_seen() -> None:
    nearest, vectors = Nearest(), [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    assert nearest.rows(vectors, [1.0, 0.0], 1).tolist() == [0]  # type: ignore[union-attr]
    vectors[1] = [2.0, 0.1]
    vectors[0] = [-1.0, 0.0]
    assert nearest.rows(vectors, [1.0, 0.0], 1).tolist() == [1]  # type: ignore[union-attr]
    vectors.append([3.0, 0.0])
    assert copy.deepcopy(nearest).rows(vectors, [1.0, 0.0], 1).tolist() == [3]  # type: ignore[union-attr]
    assert nearest.rows(vectors, [1.0, 0.0], 9).tolist() == [0, 1, 2, 3]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("vectors", "query"),
    [
        ([[1.0, 0.0], [1.0]], [1.0, 0.0]), ([[0.0, 0.0], [1.0, 0.0]], [1.0, 0.0]), ([], [1.0]),
        ([[1.0, float("nan")]], [1.0, 0.0]), ([[1.0, 0.0]], [0.0, 0.0]), ([[1.0, 0.0]], [1.0, 0.0, 0.0]),
        (["a"], [1.0]),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_not(vectors: list[list[float]], query: list[float]) -> None:
    assert Nearest().rows(vectors, query, 1) is None
