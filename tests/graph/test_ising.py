from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from phasegraph.errors import InvalidInputError, NotConvergedError
from phasegraph.graph.experimental.ising import entity_links, ising_rerank, mean_field

Z = np.array([0.8, 0.2, -0.4, -0.9])


def _links() -> np.ndarray:
    table = np.zeros((4, 4))
    for left, right in ((0, 1), (0, 2), (2, 3)):
        table[left, right] = table[right, left] = 1.0
    return table


@pytest.mark.parametrize(
    ("coupling", "golden"),
    [
        (0.0, np.tanh(Z)),
        (0.5, [0.67572294, 0.49136747, -0.40656408, -0.80167484]),
        (0.9, [0.72495331, 0.69235139, -0.43011318, -0.85836562]),
    ],
)
def test_mean_field_golden(coupling: float, golden: np.ndarray) -> None:
    np.testing.assert_allclose(mean_field(Z, _links(), coupling=coupling), golden, atol=5e-9)


def test_the_result_is_a_fixed_point_and_does_not_depend_on_the_scale_of_links() -> None:
    state = mean_field(Z, _links(), coupling=0.8, temperature=1.3)
    spread = _links() / _links().sum(axis=1, keepdims=True)
    np.testing.assert_allclose(state, np.tanh((Z + 0.8 * spread @ state) / 1.3), atol=1e-12)
    np.testing.assert_allclose(mean_field(Z, 7 * _links(), coupling=0.8, temperature=1.3), state, atol=1e-12)


def test_without_contraction_it_is_refused_unless_forced() -> None:
    for coupling, temperature in ((1.0, 1.0), (2.0, 1.5)):
        with pytest.raises(InvalidInputError, match="below 1"):
            mean_field(Z, _links(), coupling=coupling, temperature=temperature)
    assert np.abs(mean_field(Z, _links(), coupling=1.5, force=True)).max() < 1


def test_a_forced_iteration_that_never_settles_is_an_error() -> None:
    """Two candidates without relevance: the state decays like one over the square root of the step."""
    with pytest.raises(NotConvergedError, match="settle"):
        mean_field([0.5, -0.5], np.array([[0, 1], [1, 0]]), field=1e-6, coupling=1.0, force=True, tolerance=1e-300)


def test_an_isolated_candidate_keeps_its_own_relevance_and_a_self_link_does_not_count() -> None:
    table = _links()
    table[1, :] = table[:, 1] = 0.0
    np.fill_diagonal(table, 5.0)
    assert mean_field(Z, table)[1] == pytest.approx(np.tanh(0.2))


def test_blend_zero_is_the_given_order_and_the_result_lies_in_zero_to_one() -> None:
    scores = np.array([0.9, 0.7, 0.4, 0.0])
    np.testing.assert_allclose(ising_rerank(scores, _links(), blend=0.0), scores / 0.9)
    for blend in (0.15, 1.0):
        found = ising_rerank(scores, _links(), blend=blend)
        assert ((found >= 0) & (found <= 1)).all()
    assert ising_rerank(np.full(3, 0.4), np.ones((3, 3))).tolist() == pytest.approx([0.85 + 0.075] * 3)
    assert ising_rerank(np.empty(0), np.empty((0, 0))).shape == (0,)


def test_a_linked_neighbour_of_a_good_candidate_rises() -> None:
    scores = np.array([1.0, 0.5, 0.5, 0.1])
    table = np.zeros((4, 4))
    table[0, 2] = table[2, 0] = 1.0
    found = ising_rerank(scores, table)
    assert found[2] > found[1]


def test_entity_links_golden() -> None:
    mentions = sparse.csr_array(np.array([[1, 1, 0], [0, 3, 0], [1, 1, 1]]))
    assert entity_links(mentions, rarity=False).tolist() == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    first, second = np.log1p(3 / 2), np.log1p(3 / 3)
    np.testing.assert_allclose(entity_links(mentions)[0], [0, second, first + second])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"field": -1.0}, "field"),
        ({"coupling": -0.1}, "coupling"),
        ({"temperature": 0.0}, "temperature"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"coupling": np.nan}, "coupling"),
    ],
)
def test_numbers_outside_their_range_are_refused(change: dict, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        mean_field(Z, _links(), **change)


def test_bad_arrays_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="relevance"):
        mean_field([1.5, 0.0], np.zeros((2, 2)))
    with pytest.raises(InvalidInputError, match="shape"):
        mean_field(Z, np.zeros((3, 3)))
    with pytest.raises(InvalidInputError, match="finite and >= 0"):
        mean_field(Z, -_links())
    with pytest.raises(InvalidInputError, match="blend"):
        ising_rerank(np.ones(4), _links(), blend=1.1)
    with pytest.raises(InvalidInputError, match="scores"):
        ising_rerank(-np.ones(4), _links())
