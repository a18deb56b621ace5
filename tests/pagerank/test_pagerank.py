"""Golden numbers, laws and reference agreement of personalised PageRank."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import repeats
from scipy import sparse

from phasegraph.pagerank import WalkOperator, personalized_pagerank
from phasegraph.pagerank.workspace import PushWorkspace

EXACT = {"power": {}, "exact push": {"tolerance": 1e-13}, "polished push": {"tolerance": 1e-5, "polish": 60}}


def solve(graph, reset, name, follow=0.5, **more):
    method = "push" if "push" in name else name
    return personalized_pagerank(
        graph, reset, follow_probability=follow, method=method, **{**EXACT.get(name, {}), **more}
    )


def edges(n, *triples):
    rows, cols, weights = zip(*triples, strict=True)
    return sparse.csr_array((np.array(weights, dtype=float), (rows, cols)), shape=(n, n))


@st.composite
def graphs(draw, undirected=False):
    n = draw(st.integers(1, 12))
    count = draw(st.integers(0, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    matrix = sparse.coo_array(
        (rng.choice([0.0, 0.5, 1.0, 3.0], count), (rng.integers(0, n, count), rng.integers(0, n, count))),
        shape=(n, n),
    ).tocsr()
    reset = rng.choice([0.0, 0.0, 0.2, 1.0], n)
    reset[rng.integers(n)] += 0.5
    return (matrix + matrix.T).tocsr() if undirected else matrix, reset


@pytest.mark.parametrize("name", EXACT)
def test_dangling_mass_returns_to_the_reset_distribution(name):
    graph = edges(4, (0, 1, 1), (0, 2, 3), (1, 2, 1), (2, 0, 2))
    walk = solve(graph, [1, 0, 0, 1], name)
    np.testing.assert_allclose(walk.mass, [0.4266666667, 0.0533333333, 0.1866666667, 0.3333333333], atol=1e-9)


@pytest.mark.parametrize("name", EXACT)
def test_a_self_loop_is_an_edge(name):
    graph = edges(3, (0, 0, 0.9), (0, 1, 0.1), (1, 2, 1), (2, 0, 1))
    np.testing.assert_allclose(solve(graph, [1, 0, 0], name).mass, [0.93023256, 0.04651163, 0.02325581], atol=1e-7)


@pytest.mark.parametrize("name", [*EXACT, "chebyshev"])
def test_parallel_edges_add_up(name):
    graph = sparse.csr_array((np.ones(6), np.array([1, 1, 0, 0, 2, 1]), np.array([0, 2, 5, 6])), shape=(3, 3))
    np.testing.assert_allclose(solve(graph, [1, 0, 0], name).mass, [0.6111111, 0.3333333, 0.0555556], atol=1e-7)


@settings(max_examples=repeats(60, 15), deadline=None)
@given(graphs(), st.sampled_from([0.0, 0.3, 0.5, 0.7, 0.95]))
def test_every_solver_agrees_with_a_dense_solution_and_mass_sums_to_one(case, follow):
    matrix, reset = case
    weights = matrix.toarray()
    out = weights.sum(axis=1, keepdims=True)
    restart = reset / reset.sum()
    step = np.where(out > 0, weights / np.where(out > 0, out, 1.0), restart)
    exact = np.linalg.solve(np.eye(len(reset)) - follow * step.T, (1 - follow) * restart)
    for name in EXACT:
        if "polished" in name and follow > 0.9:
            continue
        walk = solve(matrix, reset, name, follow)
        np.testing.assert_allclose(walk.mass, exact, atol=1e-9)
        assert walk.mass.sum() + (walk.residual if "push" in name else 0.0) == pytest.approx(1.0, abs=1e-12)
        assert (walk.mass >= 0).all()
        assert walk.converged


@settings(max_examples=repeats(40, 10), deadline=None)
@given(graphs(undirected=True), st.sampled_from([0.3, 0.5, 0.7, 0.95]))
def test_chebyshev_agrees_with_power_on_undirected_graphs(case, follow):
    matrix, reset = case
    reference = solve(matrix, reset, "power", follow).mass
    np.testing.assert_allclose(solve(matrix, reset, "chebyshev", follow).mass, reference, atol=1e-9)
    rough = solve(matrix, reset, "chebyshev", follow, precision="float32")
    assert np.abs(rough.mass - reference).sum() <= max(rough.residual, 1e-5)


@settings(max_examples=repeats(40, 10), deadline=None)
@given(graphs(), st.sampled_from([1e-2, 1e-3, 1e-6]), st.integers(0, 2))
def test_a_push_is_a_lower_bound_and_knows_its_error(case, tolerance, polish):
    matrix, reset = case
    exact = solve(matrix, reset, "power", tolerance=1e-13).mass
    walk = solve(matrix, reset, "push", tolerance=tolerance, polish=polish, complete=False)
    assert (walk.mass <= exact + 1e-12).all()
    assert np.abs(walk.mass - exact).sum() == pytest.approx(walk.residual, abs=1e-11)


@settings(max_examples=repeats(40, 10), deadline=None)
@given(graphs(undirected=True), st.sampled_from([1e-2, 1e-3, 1e-6]))
def test_a_completed_push_errs_by_at_most_twice_its_residual_and_keeps_the_same_nodes(case, tolerance):
    matrix, reset = case
    exact = solve(matrix, reset, "power", tolerance=1e-13).mass
    plain = solve(matrix, reset, "push", tolerance=tolerance, complete=False)
    walk = solve(matrix, reset, "push", tolerance=tolerance)
    assert np.array_equal(walk.nodes, plain.nodes)
    assert walk.residual == plain.residual
    assert np.abs(walk.mass - exact).sum() <= 2 * walk.residual + 1e-11
    assert 1 - walk.residual - 1e-12 <= walk.mass.sum() <= 1 + 1e-12


@settings(max_examples=repeats(30, 10), deadline=None)
@given(graphs(undirected=True), st.floats(0.05, 0.95))
def test_mass_is_linear_in_the_reset_distribution_where_nothing_dangles(case, share):
    matrix, one = case
    matrix = (matrix + sparse.eye_array(len(one))).tocsr()
    two = np.roll(one, 1)
    masses = [solve(matrix, reset / reset.sum(), "power").mass for reset in (one, two)]
    mixed = solve(matrix, share * one / one.sum() + (1 - share) * two / two.sum(), "power").mass
    np.testing.assert_allclose(mixed, share * masses[0] + (1 - share) * masses[1], atol=1e-9)


@settings(max_examples=repeats(30, 10), deadline=None)
@given(graphs(), st.randoms(use_true_random=False))
def test_renaming_the_nodes_renames_the_masses(case, random):
    matrix, reset = case
    order = list(range(len(reset)))
    random.shuffle(order)
    renamed = matrix[order][:, order]
    for name in ("power", "push"):
        np.testing.assert_allclose(
            solve(renamed, reset[order], name).mass, solve(matrix, reset, name).mass[order], atol=1e-9
        )


def scale_free(n):
    rng = np.random.default_rng(0)
    popular = np.cumsum(np.arange(1, n + 1) ** -0.6)
    count = int(n * 9.5 / 2)
    targets = rng.permutation(n)[np.searchsorted(popular, rng.random(count) * popular[-1])]
    sources = rng.integers(0, n, count)
    kept = sources != targets
    weights = rng.integers(1, 4, count).astype(np.float32)
    half = sparse.coo_array((weights[kept], (sources[kept], targets[kept])), shape=(n, n)).tocsr()
    return (half + half.T).tocsr()


@pytest.fixture(scope="module")
def big():
    return WalkOperator.from_adjacency(scale_free(20_000))


@pytest.fixture(scope="module")
def seeds():
    rng = np.random.default_rng(7)
    return rng.choice(20_000, 20, replace=False), rng.random(20)


@pytest.mark.parametrize(("tolerance", "follow"), [(1e-5, 0.5), (1e-6, 0.5), (1e-5, 0.7), (1e-7, 0.7)])
def test_the_compiled_kernel_gives_the_same_values_and_counters(big, seeds, tolerance, follow):
    plain, fast = (
        solve(big, seeds, "push", follow, tolerance=tolerance, kernel=kernel) for kernel in ("numpy", "compiled")
    )
    assert np.array_equal(plain.nodes, fast.nodes)
    assert np.array_equal(plain.values, fast.values)
    for count in ("edges_scanned", "nodes_touched", "iterations", "residual"):
        assert getattr(plain, count) == getattr(fast, count)


def test_a_push_finds_the_first_twenty_of_the_exact_walk(big, seeds):
    exact = solve(big, seeds, "power").top(20)[0]
    assert set(solve(big, seeds, "push").top(20)[0].tolist()) == set(exact.tolist())


def test_the_work_of_a_push_is_bounded_by_its_tolerance_and_not_by_the_graph(seeds):
    scanned = []
    for size in (20_000, 80_000):
        walk = solve(WalkOperator.from_adjacency(scale_free(size)), seeds, "push", tolerance=1e-5)
        scanned.append(walk.edges_scanned)
        assert walk.edges_scanned <= 1 / (0.5 * 1e-5)
        assert walk.nodes_touched < size / 2
    assert scanned[1] <= 1.3 * scanned[0]


@pytest.mark.parametrize("follow", [0.5, 0.7])
def test_completing_takes_the_error_of_the_first_scores_down_by_a_factor_of_five(big, seeds, follow):
    exact = solve(big, seeds, "power", follow)
    first = exact.top(200)[0]
    errors = [
        np.abs(solve(big, seeds, "push", follow, complete=complete).mass[first] / exact.mass[first] - 1).max()
        for complete in (False, True)
    ]
    assert errors[1] < errors[0] / 5


def test_refined_nodes_get_the_next_step_and_the_others_stay(big, seeds):
    exact = solve(big, seeds, "power")
    rough, fine = (solve(big, seeds, "push", tolerance=1e-5, refine=count) for count in (0, 50))
    first = rough.top(50)[0]
    assert set(np.flatnonzero(rough.mass != fine.mass).tolist()) <= set(first.tolist())
    errors = [np.abs(walk.mass[first] - exact.mass[first]).sum() for walk in (rough, fine)]
    assert errors[1] < 0.7 * errors[0]
    assert fine.edges_scanned - rough.edges_scanned == big.out_degrees[first].sum()


def test_counters_are_exact_on_a_path():
    elsewhere = [(node, 10, 1.0) for node in range(4, 40)]
    path = edges(40, (0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), *elsewhere)
    walk = solve(path, ([0], [1.0]), "push", tolerance=0.2, refine=0)
    assert (walk.iterations, walk.edges_scanned, walk.nodes_touched) == (3, 3, 4)
    assert walk.mass[:4].tolist() == [0.5, 0.25, 0.125, 0.0625]
    assert walk.residual == 0.0625


def test_a_workspace_is_left_clean_and_can_be_used_again(big, seeds):
    space = PushWorkspace(big.size)
    for options in ({}, {"polish": 1}, {"tolerance": 1e-8}):
        again = [solve(big, seeds, "push", workspace=space, **options) for _ in range(2)]
        assert np.array_equal(again[0].values, again[1].values)
        for array in (*space.plain, space.records):
            assert not array.any()


@pytest.mark.parametrize("kernel", ["numpy", "auto"])
def test_walks_in_several_threads_do_not_disturb_one_another(big, kernel):
    options = {"follow_probability": 0.7, "method": "push", "tolerance": 1e-5, "kernel": kernel}
    resets = [([node], [1.0]) for node in range(24)]
    expected = [personalized_pagerank(big, reset, **options) for reset in resets]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda reset: personalized_pagerank(big, reset, **options), resets))
    for walk, other in zip(found, expected, strict=True):
        assert np.array_equal(walk.nodes, other.nodes)
        assert np.array_equal(walk.values, other.values)


def test_two_rounds_of_polish_quarter_the_residual(big, seeds):
    rough = solve(big, seeds, "push", tolerance=1e-5)
    fine = solve(big, seeds, "push", tolerance=1e-5, polish=2)
    assert fine.residual <= 0.2500001 * rough.residual


@pytest.mark.parametrize("follow", [0.5, 0.7])
def test_power_agrees_with_igraph(follow):
    import igraph

    matrix = scale_free(2000)
    half = sparse.triu(matrix).tocoo()
    graph = igraph.Graph(2000, list(zip(half.row.tolist(), half.col.tolist(), strict=True)))
    reset = np.random.default_rng(1).random(2000)
    theirs = graph.personalized_pagerank(
        damping=follow, reset=reset.tolist(), weights=half.data.tolist(), directed=False, implementation="prpack"
    )
    assert np.abs(solve(matrix, reset, "power", follow).mass - theirs).sum() < 1e-9


def test_the_first_nodes_are_by_mass_and_then_by_number(big, seeds):
    walk = solve(big, seeds, "power")
    assert walk.top(20)[0].tolist() == sorted(range(big.size), key=lambda n: (-walk.mass[n], n))[:20]


def test_the_order_and_the_form_of_the_reset_do_not_matter(big, seeds):
    nodes, weights = seeds
    dense = np.zeros(big.size)
    dense[nodes] = weights
    mass = solve(big, seeds, "push").mass
    assert np.array_equal(solve(big, (nodes[::-1], weights[::-1]), "push").mass, mass)
    assert np.array_equal(solve(big, dense, "push").mass, mass)
    twice = (np.r_[nodes, nodes], np.r_[weights, weights])
    np.testing.assert_allclose(solve(big, twice, "push").mass, mass, rtol=1e-12)


def test_float32_weights_with_int32_indices_are_used_without_a_copy_and_unchanged():
    matrix = scale_free(500)
    matrix.indices = matrix.indices.astype(np.int32)
    before = matrix.data.copy()
    graph = WalkOperator.from_adjacency(matrix)
    assert np.shares_memory(graph.weights, matrix.data)
    assert np.shares_memory(graph.indices, matrix.indices)
    solve(graph, ([0], [1.0]), "push")
    assert np.array_equal(matrix.data, before)
    assert matrix.data.flags.writeable
