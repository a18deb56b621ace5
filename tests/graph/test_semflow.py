"""The golden graph of the directed walk, its options, and the agreement of its solvers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import repeats
from scipy import sparse

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.experimental.semflow import (
    SEMFLOW_PARAMETERS,
    FlowParameters,
    SemanticFlow,
    abstractness,
    truncated_min_max,
)
from phasegraph.pagerank import WalkOperator, personalized_pagerank
from phasegraph.pagerank.push import RelevanceTransitions, as_seeds, run_push
from phasegraph.pagerank.solve import push_settings

PASSAGES = np.array([[1, 0, 0], [0.8, 0.6, 0], [0, 1, 0], [0, 0, 1], [0, 0.6, 0.8]])
SCORES = PASSAGES @ [0.6, 0.8, 0.0]
MENTIONS = sparse.csr_array(
    np.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1], [0, 0, 0, 1]], dtype=np.float32)
)
FACTS = [(0, 1), (0, 2), (0, 3), (1, 2)]
LINKS = sparse.csr_array(
    (np.ones(8), ([u for u, _ in FACTS] + [v for _, v in FACTS], [v for _, v in FACTS] + [u for u, _ in FACTS])),
    shape=(4, 4),
)
HEIGHTS = truncated_min_max(abstractness(MENTIONS, PASSAGES))
PRIOR = np.array([0.625, 1, 0.833333333333, 0, 0.5])
A, B, C, D = range(4)


def reset(passage_weight):
    return np.concatenate([[0, 0.45, 0.9, 0], passage_weight * PRIOR])


def flow(**changes):
    return SemanticFlow.from_links(LINKS, MENTIONS, HEIGHTS, FlowParameters(**changes))


def test_scores_abstractness_and_relevance_of_the_golden_graph():
    np.testing.assert_allclose(SCORES, [0.6, 0.96, 0.8, 0, 0.48], atol=1e-12)
    np.testing.assert_allclose(HEIGHTS, [1, 0.173913, 0, 0.173913], atol=1e-6)
    np.testing.assert_allclose(flow().relevance(SCORES), [1, 1, 0.659864, 0], atol=1e-6)


def test_golden_weights_of_the_directed_edges():
    steps = flow().transition([1, 1, 0.6598639, 0]).toarray()
    np.testing.assert_allclose(steps.sum(axis=1), 1.0)
    np.testing.assert_allclose(steps[:4, 4:].sum(axis=1), [0.8, 2 / 3, 0.5, 2 / 3])
    weights = steps[:4, :4] * np.array([5, 3, 2, 3])[:, None]
    expected = np.zeros((4, 4))
    expected[A, [B, C, D]] = [0.999989, 6e-6, 6e-6]
    expected[B, [A, C]] = [0.1, 0.9]
    expected[C, [B, C]] = [0.1, 0.9]
    expected[D, [A, D]] = [0.1, 0.9]
    np.testing.assert_allclose(weights, expected, atol=2e-6)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("power", {"tolerance": 1e-12}),
        ("push", {"tolerance": 1e-13, "kernel": "numpy"}),
        ("push", {"tolerance": 1e-13, "kernel": "auto"}),
        ("push", {"tolerance": 1e-5, "polish": 60}),
    ],
)
def test_golden_masses_of_the_directed_walk(method, options):
    graph = flow()
    walk = graph.walk(graph.relevance(SCORES), reset(0.08), method=method, **options)
    np.testing.assert_allclose(walk.mass[4:], [0.05435782, 0.06381160, 0.13996542, 0.00886104, 0.01445674], atol=2e-8)
    np.testing.assert_allclose(walk.mass[:4], [0.07009337, 0.18955309, 0.44779071, 0.01111020], atol=2e-8)
    assert (walk.top(5, first=4)[0] - 4).tolist() == [2, 1, 0, 4, 3]


@pytest.mark.parametrize(
    ("copies", "expected"),
    [
        (2.0, [0.04066712, 0.04692581, 0.05974501, 0.01139144, 0.01148210]),
        (1.0, [0.05205711, 0.05831580, 0.08497353, 0.01381649, 0.01164386]),
    ],
    ids=["facts inserted in both directions", "facts inserted once"],
)
@pytest.mark.parametrize("method", ["power", "chebyshev"])
def test_golden_masses_of_the_undirected_walks(copies, expected, method):
    graph = sparse.block_array([[copies * LINKS, MENTIONS.T], [MENTIONS, None]], format="csr")
    walk = personalized_pagerank(graph, reset(0.05), follow_probability=0.5, method=method)
    np.testing.assert_allclose(walk.mass[4:], expected, atol=6e-9)


def test_the_share_that_goes_to_passages_can_be_fixed():
    relevance = flow().relevance(SCORES)
    steps = flow(passage_share=0.25).transition(relevance).toarray()
    np.testing.assert_allclose(steps[:4, 4:].sum(axis=1), 0.25)
    np.testing.assert_allclose(steps[:4, :4].sum(axis=1), 0.75)
    assert steps[B, A] == pytest.approx(0.075)
    assert steps[B, C] == pytest.approx(0.675)
    assert flow(passage_share=1.0).transition(relevance).toarray()[:4, :4].sum() == 0


def test_a_local_minimum_loops_or_merges_or_drops():
    relevance = flow().relevance(SCORES)
    rows = {name: flow(local_min=name).transition(relevance).toarray()[D] for name in ("self_loop", "merge", "drop")}
    assert rows["self_loop"][[A, D]] == pytest.approx([0.1 / 3, 0.9 / 3])
    assert rows["merge"][[A, D]] == pytest.approx([1 / 3, 0])
    assert rows["drop"][[A, D]] == pytest.approx([0.1 / 2.1, 0])


def test_an_isolated_entity_keeps_its_mass_and_an_isolated_passage_sends_it_back():
    links = sparse.csr_array((2, 2))
    mentions = sparse.csr_array([[0.0, 1.0], [0.0, 0.0]])
    graph = SemanticFlow.from_links(links, mentions, [0.0, 0.0])
    walk = graph.walk([0.5, 0.5], [1.0, 0, 0, 0], tolerance=1e-12)
    assert walk.mass == pytest.approx([1.0, 0, 0, 0], abs=1e-9)
    walk = graph.walk([0.5, 0.5], [0, 1.0, 0, 1.0], tolerance=1e-12, follow_probability=0.5)
    assert walk.mass == pytest.approx([0, 4 / 9, 2 / 9, 1 / 3], abs=1e-9)


def random_flow(seed, entities=60, passages=25, density=0.06, **changes):
    rng = np.random.default_rng(seed)
    half = sparse.random_array((entities, entities), density=density, random_state=rng)
    mentions = sparse.random_array((passages, entities), density=density, random_state=rng)
    graph = SemanticFlow.from_links(half + half.T, mentions, rng.random(entities), FlowParameters(**changes))
    return graph, graph.relevance(rng.random(passages)), rng.random(entities + passages)


@settings(max_examples=repeats(40, 10), deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([None, 0.0, 0.4, 1.0]),
    st.sampled_from(["self_loop", "merge", "drop"]),
    st.sampled_from([0.3, 0.5, 0.7]),
)
def test_the_lazy_push_agrees_with_reweighting_everything(seed, share, local_min, follow):
    graph, relevance, start = random_flow(seed, passage_share=share, local_min=local_min)
    options = {"follow_probability": follow}
    exact = graph.walk(relevance, start, method="power", tolerance=1e-12, **options).mass
    lazy = graph.walk(relevance, start, tolerance=1e-12, **options)
    np.testing.assert_allclose(lazy.mass, exact, atol=1e-8)
    assert exact.sum() == pytest.approx(1.0)
    rough = graph.walk(relevance, start, tolerance=1e-3, **options)
    assert (rough.mass <= exact + 1e-9).all()
    assert np.abs(rough.mass - exact).sum() == pytest.approx(rough.residual, abs=1e-7)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("local_min", ["self_loop", "drop"])
def test_the_compiled_kernel_gives_the_same_values_and_counters(tolerance, local_min):
    graph, relevance, _ = random_flow(3, entities=3000, passages=900, density=0.003, local_min=local_min)
    plain, fast = (
        graph.walk(relevance, ([5, 7, 3005], [1.0, 2.0, 0.5]), tolerance=tolerance, kernel=kernel)
        for kernel in ("numpy", "compiled")
    )
    assert np.array_equal(plain.nodes, fast.nodes)
    assert np.array_equal(plain.values, fast.values)
    assert (plain.edges_scanned, plain.nodes_touched) == (fast.edges_scanned, fast.nodes_touched)


def test_a_push_reads_only_the_edges_near_its_seeds():
    graph, relevance, _ = random_flow(3, entities=3000, passages=900, density=0.003)
    walk = graph.walk(relevance, ([5], [1.0]), tolerance=0.05)
    assert walk.iterations == 1
    assert walk.edges_scanned == graph.arrays.edge_counts[5]
    assert walk.nodes_touched == walk.edges_scanned + 1 - (graph.arrays.chances.stay[5] > 0)


def test_the_published_parameters_are_there_by_name():
    paper, released = SEMFLOW_PARAMETERS["paper"], SEMFLOW_PARAMETERS["released"]
    assert (paper.directed, paper.facts, paper.entity_seeds) == (True, 12, 20)
    assert (released.directed, released.facts, released.entity_seeds) == (False, 5, 5)
    assert paper.passage_weight == released.passage_weight == 0.08


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"penalty": -1.0}, "penalty"),
        ({"down_share": 1.0}, "down_share"),
        ({"floor": 0.0}, "floor"),
        ({"passage_share": 1.5}, "passage_share"),
        ({"local_min": "fall"}, "local_min"),
        ({"follow_probability": 1.0}, "follow_probability"),
        ({"facts": 0}, "facts"),
        ({"entity_seeds": 0}, "entity_seeds"),
        ({"passage_weight": -0.1}, "passage_weight"),
    ],
)
def test_a_parameter_out_of_range_is_refused(changes, words):
    with pytest.raises(InvalidInputError, match=words):
        FlowParameters(**changes)


@pytest.mark.parametrize(
    ("links", "mentions", "heights", "error", "words"),
    [
        (np.eye(4), MENTIONS, HEIGHTS, InvalidTypeError, "links"),
        (LINKS, MENTIONS.toarray(), HEIGHTS, InvalidTypeError, "mentions"),
        (LINKS, None, HEIGHTS, InvalidTypeError, "mentions"),
        (LINKS, MENTIONS, HEIGHTS[:3], InvalidInputError, "one column per entity"),
        (LINKS[:3], MENTIONS, HEIGHTS, InvalidInputError, "links must be square"),
        (LINKS, MENTIONS, [1, np.nan, 0, 0], InvalidInputError, "abstractness must be finite"),
    ],
)
def test_a_bad_graph_is_refused(links, mentions, heights, error, words):
    with pytest.raises(error, match=words):
        SemanticFlow.from_links(links, mentions, heights)


def test_a_bad_query_is_refused():
    graph = flow()
    with pytest.raises(InvalidInputError, match="one value per entity"):
        graph.walk([1.0], reset(0.1))
    with pytest.raises(InvalidInputError, match="finite"):
        graph.walk([1.0, np.inf, 0, 0], reset(0.1))
    with pytest.raises(InvalidInputError, match="one value per passage"):
        graph.relevance([1.0])
    with pytest.raises(InvalidInputError, match="method"):
        graph.walk([1.0, 1, 1, 1], reset(0.1), method="chebyshev")


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6])
def test_the_compiled_rounds_over_relevance_weights_are_those_of_numpy(tolerance):
    rng = np.random.default_rng(3)
    half = sparse.random_array((5000, 5000), density=0.001, random_state=rng, dtype=np.float32)
    graph = WalkOperator.from_adjacency(half + half.T)
    node_weights = rng.uniform(0.2, 3.0, graph.size)
    seeds = as_seeds(([1, 2, 3], [1.0, 2.0, 0.5]), graph.size)
    plain, fast = (
        run_push(
            RelevanceTransitions(graph, node_weights),
            graph.pool,
            seeds,
            push_settings(0.75, tolerance, 0, None, kernel),
            None,
        )
        for kernel in ("numpy", "compiled")
    )
    assert plain.edges_scanned == fast.edges_scanned
    assert np.array_equal(plain.nodes, fast.nodes)
    assert np.array_equal(plain.values, fast.values)


def test_without_the_query_every_link_weighs_by_its_penalty_alone():
    graph = flow(query_weighted=False)
    steps = graph.transition([1, 1, 0.6598639, 0]).toarray()
    np.testing.assert_array_equal(steps, graph.transition(np.zeros(4)).toarray())
    weight = 1 - np.abs(HEIGHTS[[B, C, D]] - HEIGHTS[A])
    expected = np.maximum(weight, 1e-6) / np.maximum(weight, 1e-6).sum()
    np.testing.assert_allclose(steps[A, [B, C, D]] * 5, expected, atol=1e-6)


def test_without_abstractness_no_link_goes_uphill_or_costs_a_penalty():
    relevance = np.array([1, 1, 0.6598639, 0.1])
    steps = flow(abstractness=False).transition(relevance).toarray()
    np.testing.assert_allclose(steps[A, [B, C, D]] * 5, relevance[[B, C, D]] / relevance[[B, C, D]].sum(), atol=1e-6)
    np.testing.assert_allclose(steps[C, [A, B]] * 2, [0.5, 0.5])
    np.testing.assert_allclose(np.diag(steps), 0)
    np.testing.assert_array_equal(steps, flow(abstractness=False, penalty=0.0).transition(relevance).toarray())


def test_without_lambda_direction_stays():
    steps = flow(penalty=0.0).transition([1, 1, 0.6598639, 0]).toarray()
    np.testing.assert_allclose(steps[B, [A, C]] * 3, [0.1, 0.9], atol=1e-6)
    np.testing.assert_allclose(steps[A, [B, C]] * 5, np.array([1, 0.6598639]) / 1.6598649, atol=1e-6)


@pytest.mark.parametrize("method", ["push", "power"])
@pytest.mark.parametrize("ablation", [{"query_weighted": False}, {"abstractness": False}, {"penalty": 0.0}])
def test_ablated_walks_agree_between_solvers(ablation, method):
    graph = flow(**ablation)
    exact = graph.walk(graph.relevance(SCORES), reset(0.08), method="power", tolerance=1e-13)
    found = graph.walk(graph.relevance(SCORES), reset(0.08), method=method, tolerance=1e-13)
    np.testing.assert_allclose(found.mass, exact.mass, atol=1e-9)
    assert not np.allclose(found.mass, flow().walk(flow().relevance(SCORES), reset(0.08)).mass, atol=1e-4)


def test_a_flow_without_direction_is_refused():
    with pytest.raises(InvalidInputError, match="must have directed=True"):
        flow(directed=False)


@pytest.mark.parametrize("name", ["directed", "query_weighted", "abstractness"])
def test_a_flag_must_be_a_flag(name):
    with pytest.raises(InvalidTypeError, match=name):
        FlowParameters(**{name: 1})
