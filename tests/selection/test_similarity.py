from __future__ import annotations

import math

import numpy as np
import pytest

from phasegraph.selection import kernel_rows, redundancy, unit_rows, vendi_score, von_neumann_entropy

PAIR = np.array([[1, 0, 0], [0.98, math.sqrt(1 - 0.98**2), 0]])
FAR = np.array([[1, 0, 0], [0.2, 0.9, math.sqrt(0.15)]])


def test_entropy_and_redundancy_golden() -> None:
    assert von_neumann_entropy(PAIR) == pytest.approx(0.056001534, abs=5e-10)
    assert von_neumann_entropy(FAR) == pytest.approx(0.673011667, abs=5e-10)
    assert redundancy(PAIR) == pytest.approx(1.274291292, abs=5e-10)


def test_duplicates_and_strangers_are_the_two_ends() -> None:
    assert vendi_score(np.eye(5)) == pytest.approx(5.0)
    assert vendi_score(np.ones((5, 1))) == pytest.approx(1.0)
    assert redundancy(np.eye(5)) == pytest.approx(0.0)
    assert redundancy(np.ones((2, 1))) == pytest.approx(2 * math.log(2))
    assert vendi_score(np.empty((0, 3))) == 0.0
    assert redundancy(np.empty((0, 3))) == von_neumann_entropy(np.empty((0, 3))) == 0.0


def test_the_normalised_entropy_is_not_monotone_which_is_why_it_is_only_a_diagnostic() -> None:
    one_more = np.vstack([np.eye(3), np.eye(3)[:1], np.eye(3)[:1]])
    assert von_neumann_entropy(one_more) < von_neumann_entropy(np.eye(3))


def test_rows_of_a_kernel_reproduce_it() -> None:
    unit = unit_rows(np.random.default_rng(0).normal(size=(6, 3)))
    np.testing.assert_allclose(kernel_rows(unit @ unit.T) @ kernel_rows(unit @ unit.T).T, unit @ unit.T, atol=1e-12)


def test_half_precision_embeddings_are_taken_as_they_are() -> None:
    assert unit_rows(np.array([[3, 4]], dtype=np.float16)).tolist() == [[0.6, 0.8]]
