from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import repeats

from phasegraph import InvalidInputError, Ranking
from phasegraph._support.ordering import tied_ranks, top_order
from phasegraph.candidates import pool
from phasegraph.errors import InvalidTypeError


def test_a_ranking_is_in_canonical_order_with_ties_by_id() -> None:
    ranking = Ranking("v", ["c", "b", "a"], [0.5, 0.9, 0.5], raw=np.array([1.0, 2.0, 3.0]))
    assert ranking.ids == ("b", "a", "c")
    assert ranking.raw is not None
    assert ranking.raw.tolist() == [2.0, 3.0, 1.0]


def test_a_duplicate_id_keeps_its_best_hit() -> None:
    ranking = Ranking("v", ["a", "b", "a"], [0.1, 0.5, 0.9])
    assert ranking.ids == ("a", "b")
    assert ranking.scores.tolist() == [0.9, 0.5]


def test_arrays_are_read_only_and_the_caller_s_are_left_alone() -> None:
    scores = np.array([0.1, 0.9])
    ranking = Ranking("v", ["a", "b"], scores)
    scores[0] = 5.0
    assert ranking.scores.tolist() == [0.9, 0.1]
    with pytest.raises(ValueError, match="read-only"):
        ranking.scores[0] = 1.0


def test_numbers_of_any_kind_are_read_and_everything_else_is_dropped_and_counted() -> None:
    values = [1, 0.5, np.float32(0.25), np.int64(2), Decimal("0.125"), np.array(0.75), True, "3", None, b"1", [1], {}]
    ids = [str(i) for i in range(len(values))]
    ranking = Ranking.from_hits("v", ids, values)
    assert ranking.ids == ("3", "0", "5", "1", "2", "4")
    assert ranking.dropped == 6


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 10**400])
def test_numbers_that_are_not_finite_are_dropped(bad: object) -> None:
    ranking = Ranking.from_hits("v", ["a", "b", "c"], [0.3, bad, 0.2])
    assert (ranking.ids, ranking.dropped) == (("a", "c"), 1)


def test_distances_become_rankings_by_negation_and_raw_keeps_them() -> None:
    ranking = Ranking.from_hits("v", ["far", "near"], [1.9, 0.1], higher_is_better=False)
    assert ranking.ids == ("near", "far")
    assert ranking.scores.tolist() == [-0.1, -1.9]
    assert ranking.raw is not None
    assert ranking.raw.tolist() == [0.1, 1.9]


@pytest.mark.parametrize("scores", [None, [None, None, None]])
def test_no_scores_at_all_make_a_rank_only_ranking_in_the_order_given(scores: object) -> None:
    ranking = Ranking.from_hits("v", ["z", "a", "m"], scores)  # type: ignore[arg-type]
    assert ranking.rank_only
    assert ranking.ids == ("z", "a", "m")
    assert ranking.dropped == 0


def test_some_missing_scores_drop_their_hits() -> None:
    ranking = Ranking.from_hits("v", ["a", "b"], [None, 0.5])
    assert (ranking.ids, ranking.dropped, ranking.rank_only) == (("b",), 1, False)


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: Ranking(" ", ["a"], [1.0]), "source"),
        (lambda: Ranking("v", ["a"], [1.0, 2.0]), "scores"),
        (lambda: Ranking("v", ["a"], [np.nan]), "scores"),
        (lambda: Ranking("v", [""], [1.0]), "ids"),
        (lambda: Ranking("v", ["a"], [1.0], raw=np.ones(2)), "raw"),
        (lambda: Ranking("v", ["a"], [1.0], size=-1), "size"),
        (lambda: Ranking("v", ["a"], [1.0], size=True), "size"),
        (lambda: Ranking.from_hits("v", ["a"], [1.0, 2.0]), "scores"),
    ],
)
def test_a_wrong_ranking_names_the_field(build: object, field: str) -> None:
    with pytest.raises(InvalidInputError, match=field):
        build()  # type: ignore[operator]


def test_ids_that_are_not_text_are_a_type_error() -> None:
    with pytest.raises(InvalidTypeError, match="strings"):
        Ranking("v", ["a", 3], [1.0, 0.5])  # type: ignore[list-item]


def test_pool_is_the_union_in_name_order_with_nan_for_not_returned() -> None:
    found = pool([Ranking("v", ["a", "b"], [0.9, 0.5]), Ranking("g", ["b"], [3.0]), Ranking("e", [], [])])
    assert found.sources == ("g", "v")
    assert found.ids == ("a", "b")
    np.testing.assert_array_equal(found.scores, [[np.nan, 0.9], [3.0, 0.5]])
    assert found.returned.tolist() == [1, 2]


def test_two_rankings_of_one_source_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="different names"):
        pool([Ranking("v", ["a"], [1.0]), Ranking("v", ["b"], [1.0])])


@settings(max_examples=repeats(100, 25), deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(0, 5), max_size=20), st.integers(0, 25))
def test_top_order_is_a_full_sort_cut_short(values: list[int], k: int) -> None:
    ids = [f"{(7 * i) % 23:02d}" for i in range(len(values))]
    array = np.array(values, dtype=float)
    expected = sorted(range(len(values)), key=lambda row: (-array[row], ids[row]))[:k]
    assert top_order(array, ids, k).tolist() == expected


def test_tied_ranks_agree_with_scipy() -> None:
    from scipy.stats import rankdata

    values = np.random.default_rng(3).integers(0, 6, 40).astype(float)
    np.testing.assert_array_equal(tied_ranks(values), rankdata(-values))


@pytest.mark.parametrize("scores", [[0.3, 0.2, 0.1], None])
def test_hits_without_a_usable_id_are_dropped_and_counted(scores: object) -> None:
    ranking = Ranking.from_hits("v", ["a", None, ""], scores)  # type: ignore[list-item, arg-type]
    assert (ranking.ids, ranking.dropped) == (("a",), 2)


def test_a_repeated_id_in_a_rank_only_list_leaves_no_gap() -> None:
    assert Ranking.from_hits("v", ["x", "x", "y"], None).scores.tolist() == [-1.0, -2.0]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"ids": "ab"}, "ids"),
        ({"dropped": -3}, "dropped"),
        ({"scores": ["x", "y"]}, "scores"),
        ({"raw": [1j, 2]}, "raw"),
    ],
)
def test_wrong_fields_raise_our_own_errors(fields: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInputError, match=field):
        Ranking(**{"source": "v", "ids": ["a", "b"], "scores": [2.0, 1.0], **fields})  # type: ignore[arg-type]


def test_payloads_and_positions_cannot_be_changed_from_outside() -> None:
    payloads = {"a": 1}
    ranking = Ranking("v", ["a"], [1.0], payloads=payloads)
    payloads["a"] = 2
    assert ranking.payloads["a"] == 1
    with pytest.raises(TypeError):
        ranking.positions["b"] = 1  # type: ignore[index]
