"""A walk in Neo4j is the walk in memory: the same edges, the same masses, the same passages."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from corpus import questions, records

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph import EdgeWeights, GraphSource, WalkSettings
from phasegraph.graph.neo4j import GraphRecords, Neo4jConnection, PassageRecord, write_graph, write_synonyms
from phasegraph.graph.neo4j.gds import drop_projections, has_gds, list_projections, project
from phasegraph.graph.neo4j.kept_edges import KeptEdges
from phasegraph.graph.neo4j.neighbourhood import FetchSettings, walk_neighbourhood
from phasegraph.graph.source.online import Neo4jGraphSource

SLICE = 200
EVERYTHING = FetchSettings(nodes=100_000, per_round=100_000, unknown=0.0)


@pytest.fixture(scope="module")
def stored(driver):
    """A slice of the corpus, written once: nothing in this module changes it."""
    from conftest import clear

    clear(driver)
    connection = Neo4jConnection(driver, deadline=60.0)
    made = records(SLICE)
    pair = (made[0].mentions[0][0], made[1].mentions[0][0])
    write_graph(connection, made, corpus="walk")
    write_graph(connection, [PassageRecord("other", text="x", mentions=made[0].mentions)], corpus="beside")
    write_synonyms(connection, {pair: 0.8}, corpus="walk")
    synonyms = ((min(pair), max(pair), 0.8),)
    yield connection, GraphRecords(made, synonyms=synonyms).graph()
    if has_gds(connection):
        drop_projections(connection)
    clear(driver)


def test_the_edges_the_server_works_out_are_those_of_the_graph(stored):
    connection, graph = stored
    everything = {name: 1.0 for name in graph.passages}, {name: 1.0 for name in graph.entities}
    settings = EVERYTHING
    walk = walk_neighbourhood(connection, "walk", (SLICE, 0), *everything, follow_probability=0.5, settings=settings)
    assert walk.complete
    assert walk.unknown == 0.0
    places = [graph.passage_rows[name] for name in walk.graph.passages]
    places += [graph.entity_rows[name] + SLICE for name in walk.graph.entities]
    order = np.argsort(places)
    mine = walk.graph.adjacency[order][:, order]
    np.testing.assert_allclose(mine.toarray(), graph.adjacency.toarray(), rtol=1e-6)


def test_other_weights_reach_the_server_too(stored):
    connection, graph = stored
    weights = EdgeWeights(
        home=3.0, lead=2.0, rarity_power=1.0, count_power=1.0, common_share=0.0, fact=0.5, synonym=0.0
    )
    seeds = {graph.passages[0]: 1.0}
    walk = walk_neighbourhood(
        connection, "walk", (SLICE, 0), seeds, {}, follow_probability=0.5, weights=weights, settings=EVERYTHING
    )
    other = dataclasses.replace(graph, weights=weights)
    rows = [other.passage_rows[name] for name in walk.graph.passages]
    rows += [other.entity_rows[name] + SLICE for name in walk.graph.entities]
    wanted = other.adjacency[rows][:, rows]
    np.testing.assert_allclose(walk.graph.adjacency.toarray(), wanted.toarray(), rtol=1e-6)


@pytest.mark.parametrize("relevance", [True, False])
def test_a_fetched_walk_ranks_the_passages_of_the_walk_in_memory(stored, relevance):
    connection, graph = stored
    # Without closeness: with it, passages of next to no mass are ranked by similarity, and which of them the
    # walk came near at all depends on its last rounding.
    walk = WalkSettings(relevance=relevance, closeness=0.0)
    near = Neo4jGraphSource(connection, "walk", walk=walk, fetch=EVERYTHING)
    here = GraphSource(graph, walk=walk)
    for question, ranking in questions(4, SLICE):
        online, local = near.search(question, 20, {"vector": ranking}), here.search(question, 20, {"vector": ranking})
        assert set(online.ids) == set(local.ids)
        np.testing.assert_allclose(online.scores, local.scores, atol=2e-3)
        assert online.size == local.size
        assert online.background.location == pytest.approx(local.background.location, abs=0.02)
        assert online.background.scale == pytest.approx(local.background.scale, rel=0.02)
        assert online.reason == ""


def test_the_default_source_agrees_with_the_one_in_memory(stored):
    connection, graph = stored
    near, here = Neo4jGraphSource(connection, "walk"), GraphSource(graph)
    for question, ranking in questions(4, SLICE):
        online, local = near.search(question, 20, {"vector": ranking}), here.search(question, 20, {"vector": ranking})
        assert len({*online.ids} & {*local.ids}) >= 17
        assert online.ids[:5] == local.ids[:5]
        assert online.background.location == pytest.approx(local.background.location, abs=0.02)


def test_a_small_budget_is_kept_and_says_what_it_does_not_know(stored):
    connection, _ = stored
    question, ranking = questions(1, SLICE)[0]
    poor = Neo4jGraphSource(connection, "walk", fetch=FetchSettings(nodes=12, per_round=12))
    found = poor.search(question, 20, {"vector": ranking})
    assert len(found.ids) > 0
    assert "of the walk's mass stands at nodes that were not fetched" in found.reason


def test_a_trail_leads_from_a_seed_to_the_passage(stored):
    connection, _ = stored
    question, ranking = questions(1, SLICE)[0]
    found = Neo4jGraphSource(connection, "walk").search(question, 5, {"vector": ranking})
    trail = found.payloads[found.ids[0]]
    assert trail.path[-1].name == found.ids[0]
    assert sum(share for _, share in trail.seeds) == pytest.approx(1.0)


def test_a_walk_never_enters_another_corpus(stored):
    connection, graph = stored
    names = dict.fromkeys(graph.entities, 1.0)
    walk = walk_neighbourhood(
        connection, "beside", (1, 0), {"other": 1.0}, names, follow_probability=0.8, settings=EVERYTHING
    )
    assert walk.graph.passages == ("other",)


def test_the_server_walks_as_we_do(stored):
    connection, graph = stored
    if not has_gds(connection):
        pytest.skip("the server has no Graph Data Science library")
    walk = WalkSettings(relevance=False, tolerance=1e-9)
    there = Neo4jGraphSource(connection, "walk", method="gds", walk=walk)
    assert there.verify() == SLICE
    here = GraphSource(graph, walk=walk)
    for question, ranking in questions(3, SLICE):
        online, local = there.search(question, 20, {"vector": ranking}), here.search(question, 20, {"vector": ranking})
        assert online.ids == local.ids
        np.testing.assert_allclose(online.scores, local.scores, atol=1e-4)
        assert online.background.location == pytest.approx(local.background.location, abs=5e-3)


def test_a_projection_follows_the_revision_and_is_dropped_by_us_alone(stored, driver):
    connection, _ = stored
    if not has_gds(connection):
        pytest.skip("the server has no Graph Data Science library")
    driver.execute_query("CALL gds.graph.project('not-ours', '*', '*') YIELD graphName RETURN graphName")
    write_graph(connection, [PassageRecord("other", text="x", mentions=(("a", 1),))], corpus="beside")
    first = project(connection, "beside")
    assert project(connection, "beside") == first
    write_graph(connection, [PassageRecord("other", text="y", mentions=(("b", 1),))], corpus="beside")
    second = project(connection, "beside")
    assert list_projections(connection, "beside") == (second.name,) != (first.name,)
    drop_projections(connection)
    assert list_projections(connection) == ()
    left = driver.execute_query("CALL gds.graph.list() YIELD graphName RETURN graphName").records
    assert [row[0] for row in left] == ["not-ours"]
    driver.execute_query("CALL gds.graph.drop('not-ours') YIELD graphName RETURN graphName")


def test_edges_are_kept_until_the_corpus_changes(connection):
    records = [
        PassageRecord("a", text="x", mentions=(("ada", 1), ("bo", 1))),
        PassageRecord("b", text="y", mentions=(("bo", 1),)),
    ]
    write_graph(connection, records, corpus="kept")
    source = Neo4jGraphSource(connection, "kept")
    first = source.search("ada", 10, {})
    held = len(source._kept)
    assert held > 0
    assert source.search("ada", 10, {}).ids == first.ids == ("a", "b")
    assert len(source._kept) == held
    write_graph(connection, [PassageRecord("c", text="z", mentions=(("ada", 1),))], corpus="kept")
    assert source.search("ada", 10, {}).ids == ("a", "c", "b")


def test_kept_edges_are_bounded():
    few = KeptEdges(10)
    for number in range(50):
        node = (True, str(number))
        found = few.edges_of([node], 1, lambda nodes: {each: [(False, ["x", "y"], [1.0, 2.0])] for each in nodes})
        assert list(found) == [node]
    assert 0 < len(few) <= 10
    assert few.edges_of([(True, "49")], 1, lambda nodes: pytest.fail("it was kept"))
    assert few.edges_of([(True, "49")], 2, lambda nodes: {}) == {(True, "49"): ()}, "another stamp, nothing kept"


def test_a_query_without_seeds_says_so_and_asks_for_nothing_more(stored):
    connection, _ = stored
    found = Neo4jGraphSource(connection, "walk").search("why?", 10, {})
    assert found.ids == ()
    assert "names no entity" in found.reason


def test_an_empty_corpus_cannot_be_walked(stored):
    connection, _ = stored
    with pytest.raises(InvalidInputError, match="'nowhere' holds none"):
        Neo4jGraphSource(connection, "nowhere").verify()


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("corpus", " ", InvalidTypeError),
        ("name", None, InvalidTypeError),
        ("needs", "vector", InvalidTypeError),
        ("method", "magic", InvalidInputError),
    ],
)
def test_a_source_names_the_field_that_is_wrong(field, value, error):
    with pytest.raises(error, match=field):
        Neo4jGraphSource(Neo4jConnection(None), **{"corpus": "c", field: value})


@pytest.mark.parametrize(
    ("field", "value"), [("nodes", 0), ("per_round", True), ("unknown", 1.5), ("unknown", float("nan"))]
)
def test_a_budget_names_the_field_that_is_wrong(field, value):
    with pytest.raises(InvalidInputError, match=field):
        FetchSettings(**{field: value})
