from __future__ import annotations

import json
import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import repeats

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.selection import (
    METHODS,
    SelectionPolicy,
    kernel_rows,
    redundancy,
    scaled_relevance,
    unit_rows,
    vendi_score,
    von_neumann_entropy,
)

EMBEDDINGS = np.array(
    [[1, 0, 0], [0.98, math.sqrt(1 - 0.98**2), 0], [0.6, 0.1, math.sqrt(0.63)], [0.2, 0.9, math.sqrt(0.15)]]
)
RELEVANCE = np.array([0.90, 0.88, 0.70, 0.55])


@pytest.mark.parametrize(
    ("mu", "rows", "objective"),
    [
        (0, [0, 1, 2], 2.48),
        (0.5, [0, 1, 2], 2.898572),
        (1, [0, 1, 2], 3.317145),
        (2, [0, 2, 1], 4.154290),
        (10, [0, 3, 2], 11.726338),
    ],
)
def test_log_det_golden(mu: float, rows: list[int], objective: float) -> None:
    found = SelectionPolicy(mu=mu).select(RELEVANCE, EMBEDDINGS, 3)
    assert found.rows.tolist() == rows
    assert found.objective == pytest.approx(objective, abs=5e-7)
    assert found.gains.sum() == pytest.approx(found.objective)


def test_vendi_golden() -> None:
    assert SelectionPolicy(mu=0).select(RELEVANCE, EMBEDDINGS, 3).vendi == pytest.approx(1.6358, abs=5e-5)
    assert SelectionPolicy(mu=10).select(RELEVANCE, EMBEDDINGS, 3).vendi == pytest.approx(2.3930, abs=5e-5)


def test_a_kernel_gives_what_its_embeddings_give() -> None:
    kernel = [
        [1, 0.98, 0.6, 0.2],
        [0.98, 1, 0.6079, 0.375098],
        [0.6, 0.6079, 1, 0.517409],
        [0.2, 0.375098, 0.517409, 1],
    ]
    found = SelectionPolicy(mu=10).select(RELEVANCE, None, 3, kernel=np.array(kernel))
    assert found.rows.tolist() == [0, 3, 2]
    assert found.objective == pytest.approx(11.726338, abs=1e-4)


@pytest.mark.parametrize(("balance", "rows"), [(1.0, [0, 1, 2]), (0.7, [0, 3, 1]), (0.5, [0, 3, 2])])
def test_mmr_golden(balance: float, rows: list[int]) -> None:
    assert SelectionPolicy("mmr", balance=balance).select(RELEVANCE, EMBEDDINGS, 3).rows.tolist() == rows


@pytest.mark.parametrize(("penalty", "rows"), [(0.1, [0, 1, 2]), (2.0, [0, 1, 2]), (2.1, [0, 3, 1])])
def test_legacy_entropy_golden(penalty: float, rows: list[int]) -> None:
    """A larger penalty takes the least relevant passage (3), where the document promises diversity."""
    policy = SelectionPolicy("legacy_entropy", penalty=penalty)
    assert policy.select(np.array([0.9, 0.85, 0.8, 0.1]), None, 3).rows.tolist() == rows


def test_legacy_entropy_turns_over_where_the_document_does_not_say() -> None:
    relevance = np.array([0.9, 0.85, 0.8, 0.1])
    for penalty, second in ((2.03994, 1), (2.03996, 3)):
        assert SelectionPolicy("legacy_entropy", penalty=penalty).select(relevance, None, 3).rows[1] == second


def test_legacy_entropy_does_not_look_at_content() -> None:
    policy = SelectionPolicy("legacy_entropy", penalty=5.0)
    duplicates = np.ones((4, 2))
    assert (
        policy.select(RELEVANCE, duplicates, 3).rows.tolist() == policy.select(RELEVANCE, EMBEDDINGS, 3).rows.tolist()
    )


def test_legacy_entropy_of_relevances_that_are_all_zero_is_zero() -> None:
    assert SelectionPolicy("legacy_entropy").select(np.zeros(3), None, 2).gains.tolist() == [0.0, 0.0]


def test_the_documents_worked_example_selects_0_3_1() -> None:
    """Relevance .45, .425, .4, .05 and lambda 1.5, entropies by hand."""
    relevance = np.array([0.45, 0.425, 0.4, 0.05])
    found = SelectionPolicy("legacy_entropy", penalty=1.5).select(relevance, None, 3)
    assert found.rows.tolist() == [0, 3, 1]
    second = -0.9 * math.log(0.9) - 0.1 * math.log(0.1)
    shares = np.array([0.45, 0.05, 0.425]) / 0.925
    assert found.entropies == pytest.approx([0.0, second, -(shares * np.log(shares)).sum()])  # type: ignore[arg-type]
    assert found.gains == pytest.approx(relevance[[0, 3, 1]] - 1.5 * found.entropies)  # type: ignore[operator]


@pytest.mark.parametrize(("highest", "count"), [(0.0, 1), (0.5, 2), (1.94, 6), (1.95, 7), (2.0, 7), (None, 10)])
def test_max_entropy_stops_before_the_set_gets_above_it(highest: float | None, count: int) -> None:
    """Equal relevances: ln 7 = 1.946 < 2 < ln 8 = 2.079, so that the document's 2.0 stops at seven."""
    policy = SelectionPolicy("legacy_entropy", max_entropy=highest)
    if highest == 0.5:
        assert len(policy.select(np.array([0.9, 0.1, 0.1]), None, 3).rows) == count
    else:
        assert len(policy.select(np.full(10, 0.5), None, 10).rows) == count


def test_max_entropy_and_distinct_are_of_one_method_each() -> None:
    with pytest.raises(InvalidInputError, match="max_entropy applies only to the method 'legacy_entropy'"):
        SelectionPolicy("mmr", max_entropy=2.0)
    with pytest.raises(InvalidInputError, match="distinct applies only to the method 'log_det'"):
        SelectionPolicy("mmr", distinct=True)
    with pytest.raises(InvalidInputError, match="max_entropy"):
        SelectionPolicy("legacy_entropy", max_entropy=-1.0)


def test_exact_copies_come_after_everything_else_where_they_count_once() -> None:
    """Copies of the best, single precision included, and others down to relevance 0 at a cosine of .95."""
    rng = np.random.default_rng(1)
    best = rng.normal(size=8)
    near = best + 0.1 * rng.normal(size=(3, 8)) * np.linalg.norm(best)
    embeddings = np.vstack([best, best, best * 7, (best / 3).astype(np.float32), near])
    relevance = np.array([1.0, 1.0, 1.0, 1.0, 0.1, 0.01, 0.0])
    policy = SelectionPolicy(distinct=True)
    assert policy.select(relevance, embeddings, 4).rows.tolist()[0] == 0
    assert set(policy.select(relevance, embeddings, 4).rows.tolist()) == {0, 4, 5, 6}
    assert len(policy.select(relevance, embeddings, 7).rows) == 7
    assert policy.select(relevance, embeddings, 7).gains[4:].tolist() == [0.0, 0.0, 0.0]
    assert set(SelectionPolicy().select(relevance, embeddings, 4).rows.tolist()) == {0, 1, 2, 3}


def test_without_copies_counting_them_once_changes_nothing() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        relevance, embeddings = rng.random(30), rng.normal(size=(30, 6))
        plain = SelectionPolicy(mu=0.5).select(relevance, embeddings, 8)
        once = SelectionPolicy(mu=0.5, distinct=True).select(relevance, embeddings, 8)
        assert (plain.rows.tobytes(), plain.gains.tobytes()) == (once.rows.tobytes(), once.gains.tobytes())


def test_counting_copies_once_stays_within_the_guaranteed_share_of_the_best_set() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        embeddings = rng.normal(size=(3, 4))[rng.integers(0, 3, 6)]
        relevance, mu = rng.random(6), float(rng.random() + 0.1)
        found = SelectionPolicy(mu=mu, distinct=True).select(relevance, embeddings, 3)

        def once(rows: tuple[int, ...], relevance=relevance, embeddings=embeddings, mu=mu) -> float:  # type: ignore[no-untyped-def]
            best: dict[bytes, int] = {}
            for row in sorted(rows, key=lambda row: -relevance[row]):
                best.setdefault(embeddings[row].tobytes(), row)
            return _value(relevance, unit_rows(embeddings), tuple(best.values()), mu, 1.0)

        assert found.objective == pytest.approx(once(tuple(found.rows.tolist())))
        assert found.objective >= SHARE * max(once(rows) for rows in combinations(range(6), 3)) - 1e-9


def test_the_penalty_variant_stops_where_nothing_gains() -> None:
    """A duplicate costs penalty * 2 ln 2 = 1.386 times the penalty."""
    twice = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = SelectionPolicy("von_neumann", penalty=1.0).select(np.array([0.9, 0.9, 0.1]), twice, 3)
    assert found.rows.tolist() == [0, 2]
    assert found.objective == pytest.approx(1.0)
    kept = SelectionPolicy("von_neumann", penalty=0.6).select(np.array([0.9, 0.9, 0.1]), twice, 3)
    assert kept.objective == pytest.approx(1.9 - 0.6 * 2 * math.log(2))


def test_a_duplicate_gains_at_most_what_the_docstring_says() -> None:
    found = SelectionPolicy(mu=2.0, theta=3.0).select(np.zeros(2), np.ones((2, 5)), 2)
    assert found.gains[1] == pytest.approx(math.log(1 + 3 / (1 + 3)))
    assert found.vendi == pytest.approx(1.0)


def test_a_budget_prefers_many_cheap_passages_to_one_dear_one_and_the_reverse_where_it_pays() -> None:
    relevance = np.array([1.0, 0.6, 0.6])
    embeddings = np.eye(3)
    policy = SelectionPolicy(mu=0.0, budget=10)
    assert sorted(policy.select(relevance, embeddings, 3, costs=np.array([10, 5, 5])).rows.tolist()) == [1, 2]
    assert policy.select(relevance, embeddings, 3, costs=np.array([10, 1, 10])).rows.tolist() == [0]


def test_plain_order_and_mmr_keep_to_a_budget_too() -> None:
    costs = np.array([6.0, 6.0, 3.0, 1.0])
    for method in ("top", "mmr", "legacy_entropy", "von_neumann"):
        policy = SelectionPolicy(method, budget=10, penalty=0.0, balance=1.0)  # type: ignore[arg-type]
        found = policy.select(RELEVANCE, EMBEDDINGS, 4, costs=costs)
        assert found.spent is not None
        assert found.spent <= 10
        assert 0 in found.rows
    assert SelectionPolicy(budget=0.5).select(RELEVANCE, EMBEDDINGS, 4, costs=costs).rows.tolist() == []


@pytest.mark.parametrize("method", METHODS)
def test_the_set_is_small_enough_distinct_and_starts_the_same_for_every_k(method: str) -> None:
    policy = SelectionPolicy(method, mu=1.0)  # type: ignore[arg-type]
    longest = policy.select(RELEVANCE, EMBEDDINGS, 99).rows.tolist()
    assert len(set(longest)) == len(longest) <= 4
    for k in range(5):
        assert policy.select(RELEVANCE, EMBEDDINGS, k).rows.tolist() == longest[:k]


@pytest.mark.parametrize("method", METHODS)
def test_nothing_to_choose_from_gives_nothing(method: str) -> None:
    found = SelectionPolicy(method).select(np.empty(0), np.empty((0, 3)), 5)  # type: ignore[arg-type]
    assert found.rows.tolist() == []
    assert (found.objective, found.vendi) == (0.0, 0.0)


@pytest.mark.parametrize("method", METHODS)
def test_equals_go_to_the_earlier_row(method: str) -> None:
    found = SelectionPolicy(method, balance=1.0).select(np.full(60, 0.5), np.eye(60), 60)  # type: ignore[arg-type]
    assert found.rows.tolist()[:3] == [0, 1, 2]


@settings(max_examples=repeats(60, 15), deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(METHODS), st.integers(0, 12))
def test_no_weight_on_the_set_is_plain_order(seed: int, method: str, k: int) -> None:
    rng = np.random.default_rng(seed)
    relevance = np.sort(np.round(rng.random(10), 1))[::-1].copy()
    policy = SelectionPolicy(method, mu=0.0, penalty=0.0, balance=1.0)  # type: ignore[arg-type]
    assert policy.select(relevance, rng.normal(size=(10, 3)), k).rows.tolist() == list(range(min(k, 10)))


def test_scaled_relevance_keeps_order_and_lies_in_zero_to_one() -> None:
    assert scaled_relevance(np.array([4.0, 2.0, 0.0])).tolist() == [1.0, 0.5, 0.0]
    assert scaled_relevance(np.array([-1.0, -3.0, -2.0])).tolist() == [1.0, 0.0, 0.5]
    assert scaled_relevance(np.full(3, -2.0)).tolist() == [1.0, 1.0, 1.0]
    assert scaled_relevance(np.empty(0)).shape == (0,)
    with pytest.raises(InvalidInputError, match="finite"):
        scaled_relevance(np.array([1.0, np.nan]))


def test_what_was_given_is_not_changed() -> None:
    relevance, embeddings = RELEVANCE.copy(), EMBEDDINGS.copy()
    for method in METHODS:
        SelectionPolicy(method).select(relevance, embeddings, 3)
    np.testing.assert_array_equal(relevance, RELEVANCE)
    np.testing.assert_array_equal(embeddings, EMBEDDINGS)


@pytest.mark.parametrize("method", ["log_det", "von_neumann", "mmr"])
def test_a_method_that_needs_embeddings_says_so(method: str) -> None:
    with pytest.raises(InvalidInputError, match="needs the passages' embeddings"):
        SelectionPolicy(method).select(RELEVANCE, None, 3)  # type: ignore[arg-type]
    assert SelectionPolicy("top").select(RELEVANCE, None, 3).vendi is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mu", -0.1), ("theta", -1), ("mu", math.nan), ("theta", math.inf), ("penalty", -1), ("balance", 1.1),
        ("budget", 0), ("budget", -5), ("method", "dpp"), ("mu", "1"), ("mu", True),
    ],
)  # fmt: skip
def test_fields_outside_their_range_are_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=field):
        SelectionPolicy(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("embeddings", "message"),
    [
        (np.ones((3, 2)), r"shape \(4, d\)"),
        (np.ones(4), r"shape \(4, d\)"),
        (np.ones((4, 0)), r"shape \(4, d\)"),
        (np.array([[1.0], [np.nan], [1.0], [1.0]]), "row 1 is not"),
        (np.array([[1.0], [np.inf], [1.0], [1.0]]), "row 1 is not"),
        (np.array([[1.0], [1.0], [0.0], [1.0]]), "row 2 is"),
        (np.array([["a"], ["b"], ["c"], ["d"]]), "numbers"),
    ],
)
def test_bad_embeddings_are_refused(embeddings: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        SelectionPolicy().select(RELEVANCE, embeddings, 2)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]], "positive semi-definite"),
        ([[1, 0.5, 0], [0.4, 1, 0], [0, 0, 1]], "symmetric"),
        ([[1, 0.5, 0], [0.5, 2, 0], [0, 0, 1]], "diagonal"),
        ([[1, math.nan, 0], [math.nan, 1, 0], [0, 0, 1]], "finite"),
        ([[1, 0], [0, 1]], "shape"),
    ],
)
def test_bad_kernels_are_refused(kernel: list, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        SelectionPolicy().select(RELEVANCE[:3], None, 2, kernel=np.array(kernel))


def test_other_bad_input_is_refused() -> None:
    policy = SelectionPolicy()
    with pytest.raises(InvalidInputError, match="not both"):
        policy.select(RELEVANCE, EMBEDDINGS, 2, kernel=np.eye(4))
    with pytest.raises(InvalidInputError, match="flat"):
        policy.select(EMBEDDINGS, EMBEDDINGS, 2)
    with pytest.raises(InvalidInputError, match="finite"):
        policy.select(np.array([0.1, np.nan, 0.1, 0.1]), EMBEDDINGS, 2)
    with pytest.raises(InvalidInputError, match=">= 0 for log_det"):
        policy.select(-RELEVANCE, EMBEDDINGS, 2)
    for k in (-1, 1.5, True, "3"):
        with pytest.raises(InvalidInputError, match="k must be"):
            policy.select(RELEVANCE, EMBEDDINGS, k)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="needs `costs`"):
        SelectionPolicy(budget=3).select(RELEVANCE, EMBEDDINGS, 2)
    for costs in ([1, 1, 1], [1, 1, 1, 0], [1, 1, 1, np.nan], [1, 1, 1, -1]):
        with pytest.raises(InvalidInputError, match="costs must be"):
            SelectionPolicy(budget=3).select(RELEVANCE, EMBEDDINGS, 2, costs=np.array(costs, dtype=float))


def test_json_round_trip() -> None:
    policy = SelectionPolicy("mmr", mu=0.0, theta=0.0, penalty=0.25, balance=0.0, budget=800)
    assert SelectionPolicy.from_dict(json.loads(json.dumps(policy.to_dict()))) == policy
    with pytest.raises(InvalidInputError, match="no field 'nu'"):
        SelectionPolicy.from_dict({"nu": 1})
    with pytest.raises(InvalidTypeError, match="object"):
        SelectionPolicy.from_dict("top")  # type: ignore[arg-type]


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


SHARE = 1 - 1 / np.e


def _value(relevance: np.ndarray, unit: np.ndarray, rows: tuple[int, ...], mu: float, theta: float) -> float:
    gram = np.eye(len(rows)) + theta * unit[list(rows)] @ unit[list(rows)].T
    return float(relevance[list(rows)].sum() + mu / 2 * np.linalg.slogdet(gram)[1])


def _case(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float, float, int]:
    count = int(rng.integers(1, 8))
    embeddings = rng.normal(size=(count, int(rng.integers(1, 5))))
    if count > 2 and rng.random() < 0.3:
        embeddings[1] = embeddings[0]
    relevance = np.sort(rng.random(count) ** 2)[::-1].copy()
    return relevance, embeddings, float(rng.choice([0, 0.2, 1, 20])), float(rng.choice([0, 0.5, 3])), count


def test_a_thousand_small_cases_reach_the_guaranteed_share_of_the_best_set() -> None:
    rng = np.random.default_rng(0)
    worst = 1.0
    for _ in range(1000):
        relevance, embeddings, mu, theta, count = _case(rng)
        k = int(rng.integers(1, min(count, 4) + 1))
        found = SelectionPolicy(mu=mu, theta=theta).select(relevance, embeddings, k)
        unit = unit_rows(embeddings)
        best = max(_value(relevance, unit, rows, mu, theta) for rows in combinations(range(count), k))
        own = _value(relevance, unit, tuple(found.rows.tolist()), mu, theta)
        assert found.objective == pytest.approx(own, abs=1e-9)
        assert own >= SHARE * best - 1e-9
        worst = min(worst, own / best)
    assert worst > 0.9  # far better in practice than the guarantee


def test_a_thousand_small_cases_with_a_budget_reach_half_of_that() -> None:
    rng = np.random.default_rng(1)
    for _ in range(1000):
        relevance, embeddings, mu, theta, count = _case(rng)
        costs = rng.integers(1, 10, size=count).astype(float)
        budget = float(rng.integers(1, 20))
        found = SelectionPolicy(mu=mu, theta=theta, budget=budget).select(relevance, embeddings, count, costs=costs)
        unit = unit_rows(embeddings)
        fitting = [
            rows
            for size in range(1, count + 1)
            for rows in combinations(range(count), size)
            if costs[list(rows)].sum() <= budget
        ]
        assert found.spent is not None
        assert found.spent <= budget
        if fitting:
            best = max(_value(relevance, unit, rows, mu, theta) for rows in fitting)
            assert found.objective >= SHARE / 2 * best - 1e-9


def test_lazy_and_exhaustive_greedy_pick_the_same_rows() -> None:
    rng = np.random.default_rng(2)
    for count in (3, 60, 400):
        relevance = np.sort(rng.random(count))[::-1].copy()
        embeddings = rng.normal(size=(count, 6))
        unit = unit_rows(embeddings)
        rows: list[int] = []
        for _ in range(min(count, 8)):
            gains = [
                -np.inf if row in rows else _value(relevance, unit, (*rows, row), 0.7, 2.0) for row in range(count)
            ]
            rows.append(int(np.argmax(gains)))
        found = SelectionPolicy(mu=0.7, theta=2.0).select(relevance, embeddings, min(count, 8))
        assert found.rows.tolist() == rows


@pytest.mark.parametrize("policy", [SelectionPolicy(mu=5.0), SelectionPolicy("von_neumann", penalty=1.0)])
def test_the_best_is_found_behind_many_whose_bounds_are_out_of_date(policy: SelectionPolicy) -> None:
    """Three hundred copies of one passage come first; after one of them the strangers are worth more."""
    embeddings = np.vstack([np.tile(np.eye(41)[0], (300, 1)), np.eye(41)[1:]])
    relevance = np.r_[np.full(300, 1.0), np.linspace(0.9, 0.8, 40)]
    assert policy.select(relevance, embeddings, 4).rows.tolist() == [0, 300, 301, 302]


def test_lazy_and_exhaustive_penalised_greedy_pick_the_same_rows() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        relevance = np.sort(rng.random(80))[::-1].copy()
        embeddings = rng.normal(size=(80, 4)) + 1.0
        unit = unit_rows(embeddings)
        rows: list[int] = []
        while len(rows) < 6:
            values = [
                -np.inf if row in rows else relevance[[*rows, row]].sum() - 0.3 * redundancy(unit[[*rows, row]])
                for row in range(80)
            ]
            base = relevance[rows].sum() - 0.3 * redundancy(unit[rows])
            if max(values) - base < 0:
                break
            rows.append(int(np.argmax(values)))
        found = SelectionPolicy("von_neumann", penalty=0.3).select(relevance, embeddings, 6)
        assert found.rows.tolist() == rows


def test_the_log_determinant_is_monotone_and_submodular_and_so_is_minus_the_redundancy() -> None:
    rng = np.random.default_rng(4)
    for _ in range(300):
        unit = unit_rows(rng.normal(size=(6, 3)) + rng.normal())
        order = rng.permutation(6).tolist()
        small, large, extra = order[:1], order[:4], order[5]
        zero = np.zeros(6)

        def log_det(rows: list[int], unit: np.ndarray = unit, zero: np.ndarray = zero) -> float:
            return _value(zero, unit, tuple(rows), 1.0, 2.0)

        assert log_det([*large, extra]) >= log_det(large) - 1e-9
        assert log_det([*small, extra]) - log_det(small) >= log_det([*large, extra]) - log_det(large) - 1e-9
        assert (
            redundancy(unit[[*small, extra]]) - redundancy(unit[small])
            <= redundancy(unit[[*large, extra]]) - redundancy(unit[large]) + 1e-9
        )
