from __future__ import annotations

import numpy as np
import pytest

from phasegraph import Background, FusionPipeline, Ranking
from phasegraph.fusion.weighting import adaptive_weights, effective_number, role_weights, support
from phasegraph.ranking import QueryWords

LOG = Background(-9.0, 0.8, "log", 1e-4)
IDS = [f"p{i:02d}" for i in range(40)]
SHARP, FLAT = 0.5 ** np.arange(40), np.linspace(1.0, 0.9, 40)


def _vector(ids: list[str], name: str = "vector") -> Ranking:
    return Ranking(name, ids, np.linspace(0.9, 0.3, len(ids)))


def _graph(masses: np.ndarray, ids: list[str] = IDS) -> Ranking:
    return Ranking("graph", ids, masses, background=LOG)


def test_support_is_rank_biased_overlap_by_hand() -> None:
    one, other = _vector(["a", "b", "c"]), _vector(["b", "a", "x"], "w")
    overlap = np.array([0.0, 1.0, 2 / 3])
    weights = 0.8 ** np.arange(3)
    expected = np.clip((overlap @ weights / weights.sum() - 0.2) / 0.2, 0, 1)
    assert support(one.ids, other.ids) == pytest.approx(expected)
    assert support(one.ids, other.ids) == support(other.ids, one.ids)


def test_support_looks_at_twenty_hits_whatever_the_length() -> None:
    shuffled = [*IDS[5:20], *IDS[:5], *IDS[20:]]
    short = support(IDS[:20], shuffled[:20])
    assert support(IDS, shuffled) == short


def test_the_effective_number_does_not_depend_on_the_unit() -> None:
    assert effective_number(_graph(SHARP)) == pytest.approx(effective_number(_graph(SHARP / 1000)))
    assert effective_number(_graph(FLAT)) == pytest.approx(20, abs=0.1)
    assert effective_number(_graph(SHARP)) == pytest.approx(4.0, abs=0.01)


@pytest.mark.parametrize(("masses", "vector"), [(SHARP, 0.1), (FLAT, 0.9)])
def test_a_sharp_walk_counts_nine_tenths_and_a_diffuse_one_one(masses: np.ndarray, vector: float) -> None:
    np.testing.assert_allclose(adaptive_weights([_graph(masses), _vector(IDS)]), [1 - vector, vector])


def test_a_walk_that_nobody_supports_hands_its_weight_over() -> None:
    elsewhere = [f"q{i}" for i in range(40)]
    np.testing.assert_allclose(adaptive_weights([_graph(SHARP, elsewhere), _vector(IDS)]), [0.0, 1.0])


def test_among_three_the_one_that_the_others_contradict_loses() -> None:
    wrong = [f"q{i}" for i in range(40)]
    walk_wrong = adaptive_weights([_vector(IDS, "bm25"), _graph(SHARP, wrong), _vector(IDS)])
    np.testing.assert_allclose(walk_wrong, [0.5, 0.0, 0.5])
    vector_wrong = adaptive_weights([_vector(IDS, "bm25"), _graph(SHARP), _vector(wrong)])
    assert vector_wrong[2] == 0.0
    assert vector_wrong.sum() == pytest.approx(1.0)


def test_without_a_stated_background_or_without_the_roles_all_count_the_same() -> None:
    unstated = Ranking("graph", IDS, SHARP)
    np.testing.assert_allclose(adaptive_weights([unstated, _vector(IDS)]), [0.5, 0.5])
    np.testing.assert_allclose(adaptive_weights([_graph(SHARP), _vector(IDS, "dense")]), [0.5, 0.5])
    rank_only = Ranking("graph", IDS, -np.arange(1.0, 41), rank_only=True, background=LOG)
    np.testing.assert_allclose(adaptive_weights([rank_only, _vector(IDS)]), [0.5, 0.5])


def test_a_wrong_walk_leaves_the_order_of_the_vectors() -> None:
    wrong = _graph(SHARP, [f"q{i}" for i in range(40)])
    assert FusionPipeline().decide([wrong, _vector(IDS)]).ids == tuple(IDS[:10])


def test_the_fixed_roles_are_still_there_by_name() -> None:
    result = FusionPipeline(weighting="roles").decide([_graph(SHARP), _vector(IDS)])
    np.testing.assert_allclose(result.weights, [0.75, 0.25])
    np.testing.assert_allclose(role_weights([_vector(IDS, "a"), _vector(IDS, "b")]), [1.0, 1.0])


def test_by_nature_a_raised_hit_may_fall_because_the_weights_move() -> None:
    """The counterexample to monotonicity that the docstring speaks of: p2, raised, costs the walk its support."""
    vector = Ranking("vector", ["p6", "p1", "p5", "p3", "p4"], [0.95, 0.84, 0.73, 0.52, 0.21])
    ids, masses = ["p4", "p1", "p2", "p7", "p3"], np.array([0.67, 0.14, 0.09, 0.07, 0.02])
    before = FusionPipeline().decide([Ranking("graph", ids, masses, background=LOG, size=500), vector])
    masses[2] = 0.97
    after = FusionPipeline().decide([Ranking("graph", ids, masses, background=LOG, size=500), vector])
    assert after.weights[0] < before.weights[0]
    assert after.ids.index("p2") > before.ids.index("p2")


def _walk_by_words(ids: list[str]) -> Ranking:
    return Ranking("graph", ids, np.arange(float(len(ids)), 0, -1), words=QueryWords({"ada": 1.0}))


OTHERS = [[f"{letter}{row}" for row in range(20)] for letter in "xyz"]


def test_a_walk_that_knows_the_words_has_most_weight_where_anyone_agrees_with_it() -> None:
    walk, vector, bm25 = _walk_by_words(IDS), _vector(OTHERS[0]), _vector(OTHERS[1], "bm25")
    np.testing.assert_allclose(adaptive_weights([walk, _vector(IDS)]), [0.95, 0.05])
    np.testing.assert_allclose(adaptive_weights([walk, vector], witness=IDS), [0.95, 0.05])
    np.testing.assert_allclose(adaptive_weights([walk, _vector(IDS), bm25]), [0.95, 0.025, 0.025])


def test_a_walk_that_went_astray_has_none() -> None:
    walk = _walk_by_words(OTHERS[0])
    np.testing.assert_allclose(adaptive_weights([walk, _vector(IDS)], witness=IDS), [0.0, 1.0])
    np.testing.assert_allclose(adaptive_weights([walk, _vector(IDS)]), [0.0, 1.0])
    found = adaptive_weights([_vector(IDS, "bm25"), walk, _vector(IDS)], witness=IDS)
    np.testing.assert_allclose(found, [0.5, 0.0, 0.5])


def test_nobody_agrees_and_nobody_is_trusted_more() -> None:
    lists = [_vector(OTHERS[0], "bm25"), _walk_by_words(OTHERS[1]), _vector(OTHERS[2])]
    np.testing.assert_allclose(adaptive_weights(lists), [0.5, 0.0, 0.5])


def test_the_walk_by_words_needs_no_source_named_vector_and_stands_alone() -> None:
    np.testing.assert_allclose(adaptive_weights([_vector(IDS, "bm25"), _walk_by_words(IDS)]), [0.05, 0.95])
    np.testing.assert_allclose(adaptive_weights([_walk_by_words(IDS)]), [1.0])
