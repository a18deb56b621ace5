"""Query to seeds: names, a ranking's first passages, and the published resets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasegraph import Ranking
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph import Extraction, LinkSettings, build_graph, graph_from_extractions
from phasegraph.graph.walk.facts import FactIndex, nearest_entities
from phasegraph.graph.walk.linking import link, query_entities
from phasegraph.graph.walk.relevance import relevance, similarities
from phasegraph.graph.walk.resets import RESETS, fact_reset, reset_by_name
from phasegraph.pagerank import WalkOperator
from phasegraph.pagerank.push import RelevanceTransitions

GRAPH = build_graph(
    [
        {"id": "film", "title": "Vertigo (film)", "text": "Vertigo is a film by Alfred Hitchcock with James Stewart."},
        {"id": "man", "title": "Alfred Hitchcock", "text": "Alfred Hitchcock was born in London."},
        {"id": "town", "title": "London", "text": "London is a town."},
    ],
    embeddings=np.eye(3),
)
# The golden graph of the published walks: passages 0 to 4, entities a to d.
GOLDEN = graph_from_extractions(
    list("01234"),
    [
        Extraction("0", ["a", "b"]),
        Extraction("1", ["a", "b"]),
        Extraction("2", ["a", "c"]),
        Extraction("3", ["a", "d"]),
        Extraction("4", ["d"]),
    ],
)


def names(rows):
    return [GRAPH.entities[row] for row in rows]


def ranking(*scores):
    return Ranking("vector", ["film", "man", "town"][: len(scores)], scores)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Who directed Vertigo?", ["vertigo"]),
        ("Is Vertigo (film) by Alfred Hitchcock?", ["vertigo film", "alfred hitchcock"]),
        ("what did alfred hitchcock make", ["alfred hitchcock"]),
        ("london", ["london"]),
        ("Vertigo, Vertigo and Vertigo", ["vertigo"]),
        ("what is a film", []),
        ("Somebody Else", []),
    ],
)
def test_names_in_the_query_are_entities(query, found):
    assert names(query_entities(GRAPH, query)) == found


def test_the_first_passages_share_one_mass_by_sharpened_similarity():
    seeds = link(GRAPH, "nothing", ranking(0.8, 0.4, 0.2), LinkSettings(seed_passages=2, sharpness=2))
    assert seeds.nodes.tolist() == [0, 1]
    assert seeds.masses.tolist() == pytest.approx([0.8, 0.2])


def test_rare_names_get_more_and_all_together_no_more_than_the_name_mass():
    seeds = link(GRAPH, "Alfred Hitchcock, London and Vertigo", None, LinkSettings(name_mass=2))
    assert seeds.masses.sum() == pytest.approx(2)
    by_name = dict(zip(names(seeds.nodes - 3), seeds.masses, strict=True))
    assert by_name["vertigo"] > by_name["london"]


def test_an_entity_without_a_home_counts_less():
    alone = link(GRAPH, "James Stewart", None, LinkSettings(name_mass=2, unanchored=0.25))
    assert alone.masses.tolist() == pytest.approx([0.5])


def test_no_seeds_have_a_reason():
    assert link(GRAPH, "what?").reason.endswith("no ranking was handed over")
    assert link(GRAPH, "what?", Ranking("vector", ["elsewhere"], [0.5])).reason.endswith("no passage of the graph")
    assert len(link(GRAPH, "what?")) == 0


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=8))
def test_scores_of_any_scale_become_similarities_in_the_same_order(scores):
    handed = Ranking("vector", [f"{n}" for n in range(len(scores))], scores)
    near = similarities(handed)
    assert ((near >= 0) & (near <= 1)).all()
    assert (np.diff(near) <= 0).all()


def test_a_ranking_of_distances_seeds_like_one_of_similarities():
    seeds = link(GRAPH, "nothing", ranking(-0.2, -0.9, -1.4))
    assert seeds.nodes.tolist() == [0, 1, 2]
    assert seeds.masses.sum() == pytest.approx(1)


def test_relevance_is_the_cosine_where_there_are_embeddings():
    node_weights = relevance(GRAPH, None, [3.0, 4.0, 0.0])
    assert node_weights.tolist() == pytest.approx([0.6, 0.8, 0.05] + [1.0] * len(GRAPH.entities), rel=1e-6)


def test_relevance_comes_from_the_ranking_where_there_are_none():
    assert relevance(GRAPH, ranking(0.8, 0.4))[:3].tolist() == pytest.approx([0.8, 0.4, 0.2])
    assert relevance(GRAPH, None) is None


@pytest.mark.parametrize("vector", [[1.0, 2.0], [1.0, np.nan, 0.0], [[1.0, 0.0, 0.0]]])
def test_a_query_embedding_that_does_not_fit_is_refused(vector):
    with pytest.raises(InvalidInputError, match="query's embedding must"):
        relevance(GRAPH, None, vector)


def test_a_pushed_row_and_a_whole_product_spread_alike():
    rng = np.random.default_rng(5)
    graph = WalkOperator.from_adjacency(GRAPH.adjacency)
    rows = RelevanceTransitions(graph, rng.uniform(0.1, 1, graph.size))
    amounts = rng.uniform(0, 1, graph.size)
    targets, values = rows.spread(np.arange(graph.size), amounts)
    spread = np.bincount(targets, weights=values, minlength=graph.size)
    np.testing.assert_allclose(spread, rows.sweep(amounts), rtol=1e-9)
    leading_on = amounts[graph.out_degrees > 0].sum()
    assert spread.sum() == pytest.approx(leading_on)


def test_equal_relevance_is_no_preference():
    graph = WalkOperator.from_adjacency(GRAPH.adjacency)
    amounts = np.arange(1.0, graph.size + 1)
    np.testing.assert_allclose(
        RelevanceTransitions(graph, np.full(graph.size, 0.3)).sweep(amounts), graph.step @ amounts
    )


def test_the_reset_of_semflowrag_is_the_golden_one():
    near = np.array([0.6, 0.96, 0.8, 0.0, 0.48])
    seeds = fact_reset(GOLDEN, np.array([[1, 2]]), np.array([0.9]), near, RESETS["semflowrag"])
    found = dict(zip(seeds.nodes.tolist(), seeds.masses.tolist(), strict=True))
    wanted = {6: 0.45, 7: 0.9, 0: 0.05, 1: 0.08, 2: 0.0666666667, 4: 0.04}
    assert found == pytest.approx(wanted)


def test_the_reset_of_hipporag_2_keeps_five_facts_and_five_entities():
    graph = graph_from_extractions(["0"], [Extraction("0", list("abcdefghijklmn"))])
    ends = np.arange(14).reshape(7, 2)
    seeds = fact_reset(graph, ends, np.linspace(0.1, 0.7, 7), np.array([0.5]), RESETS["hipporag2"])
    assert seeds.nodes.tolist() == [1 + 12, 1 + 13, 1 + 10, 1 + 11, 1 + 8, 0]
    assert seeds.masses[-1] == pytest.approx(0.05)


def test_an_entity_of_several_facts_gets_their_mean():
    seeds = fact_reset(GOLDEN, np.array([[1, 2], [1, 3]]), np.array([0.9, 0.3]), np.zeros(5) + 0.1, RESETS["hipporag2"])
    found = dict(zip(seeds.nodes.tolist(), seeds.masses.tolist(), strict=True))
    assert found[5 + 1] == pytest.approx((0.9 + 0.3) / 2 / 2)


def test_facts_are_matched_with_the_graph_and_found_by_embedding():
    facts = [("A", "is", "B"), ("nobody", "is", "B"), ("b", "is", "c")]
    index = FactIndex.of(GOLDEN, facts, np.array([[0.0, 2.0], [1.0, 1.0], [1.0, 0.0]]))
    assert index.ends.tolist() == [[0, 1], [1, 2]]
    seeds = reset_by_name("semflowrag", GOLDEN, index, [1.0, 0.0], np.array([1.0, 0, 0, 0, 0]))
    assert seeds.nodes.tolist() == [7, 6, 0]


def test_the_entities_of_the_nearest_facts_share_one_mass_and_the_specific_get_more():
    facts = FactIndex.of(GOLDEN, [("a", "", "b"), ("c", "", "d"), ("b", "", "c")], [[1, 0], [0.6, 0.8], [-1, 0]])
    seeds = nearest_entities(GOLDEN, facts, [2.0, 0.0], 2)
    found = dict(zip(seeds.nodes.tolist(), seeds.masses.tolist(), strict=True))
    wanted = np.array([1 / 4, 1 / 2, 0.6 / 1, 0.6 / 2])
    assert [found[5 + row] for row in range(4)] == pytest.approx((wanted / wanted.sum()).tolist())


def test_nearest_names_and_facts_are_found_in_one_index():
    names_of = FactIndex.of_names(GOLDEN, ["A", "d", "nobody"], [[0.0, 1.0, 0.0], [0.8, 0.6, 0.0], [1.0, 0.0, 0.0]])
    both = FactIndex.of(GOLDEN, [("b", "", "c")], [[0.9, 0.0, 0.1]]).plus(names_of)
    assert nearest_entities(GOLDEN, names_of, [1.0, 0.0, 0.0], 1).nodes.tolist() == [5 + 3]
    assert nearest_entities(GOLDEN, both, [1.0, 0.0, 0.0], 1).nodes.tolist() == [5 + 1, 5 + 2]
    assert nearest_entities(GOLDEN, both, [1.0, 0.0, 0.0], 2).nodes.tolist() == [5 + 1, 5 + 2, 5 + 3]
    seeds = reset_by_name("semflowrag", GOLDEN, both, [1.0, 0.0, 0.0], np.zeros(5) + 0.1)
    assert {5 + 1, 5 + 2, 5 + 3} <= set(seeds.nodes.tolist())
    with pytest.raises(InvalidInputError, match="embeddings must have the same length; got lengths 3 and 1"):
        both.plus(FactIndex.of_names(GOLDEN, ["a"], [[1.0]]))


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.integers(0, 14))
def test_ties_between_facts_go_to_the_first(cosines, top):
    angles = np.arccos(np.array(cosines) / 3)
    graph = graph_from_extractions(["0"], [Extraction("0", [f"e{n:02}" for n in range(len(cosines))])])
    index = FactIndex.of_names(graph, graph.entities, np.column_stack([np.cos(angles), np.sin(angles)]))
    near = index.embeddings @ np.array([1, 0], dtype=np.float32)
    order = sorted(range(len(near)), key=lambda row: (-near[row], row))[:top]
    assert nearest_entities(graph, index, [1.0, 0.0], top).nodes.tolist() == sorted(
        row + 1 for row in order if near[row] > 0
    )


def test_nothing_near_by_embedding_is_no_seed_and_says_so():
    far = nearest_entities(GOLDEN, FactIndex.of_names(GOLDEN, ["a"], [[-1.0, 0.0]]), [1.0, 0.0], 5)
    assert len(far) == 0
    assert far.reason == "no embedded fact or name is near the query"


def test_facts_of_another_graph_and_vectors_that_do_not_fit_are_refused():
    small = graph_from_extractions(["0"], [Extraction("0", ["x"])])
    with pytest.raises(InvalidInputError, match="no entity in row 3"):
        nearest_entities(small, FactIndex.of_names(GOLDEN, ["d"], [[1.0]]), [1.0], 5)
    with pytest.raises(InvalidInputError, match="query's embedding must have shape"):
        nearest_entities(GOLDEN, FactIndex.of_names(GOLDEN, ["d"], [[1.0]]), [1.0, 2.0], 5)
    with pytest.raises(InvalidInputError, match="row 1 contains NaN"):
        FactIndex.of_names(GOLDEN, ["a", "d"], [[1.0], [np.nan]])


def test_resets_refuse_what_does_not_fit():
    with pytest.raises(InvalidInputError, match="reset must be one of hipporag2, semflowrag, semflowrag-paper"):
        reset_by_name("raptor", GOLDEN, FactIndex.of(GOLDEN, [("a", "", "b")], [[1.0]]), [1.0], np.zeros(5))
    with pytest.raises(InvalidInputError, match="fact embeddings must have 1 rows"):
        FactIndex.of(GOLDEN, [("a", "", "b")], [[1.0], [2.0]])
    with pytest.raises(InvalidInputError, match="one score per fact"):
        fact_reset(GOLDEN, np.array([[0, 1]]), np.array([0.5, 0.2]), np.zeros(5), RESETS["hipporag2"])


@pytest.mark.parametrize(("field", "value"), [("sharpness", -1.0), ("name_mass", np.nan), ("unanchored", np.inf)])
def test_settings_out_of_range_are_refused_by_name(field, value):
    with pytest.raises(InvalidInputError, match=field):
        LinkSettings(**{field: value})


def test_the_number_of_seed_passages_is_whole():
    with pytest.raises(InvalidTypeError, match="seed_passages"):
        LinkSettings(seed_passages=2.5)
