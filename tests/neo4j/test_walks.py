"""A walk in Neo4j is the walk in memory: the same edges, the same masses, the same passages."""

import dataclasses
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from corpus import questions, records
from recording import Unasked

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph import EdgeWeights, GraphSource, WalkSettings
from phasegraph.neo4j import (
    GraphRecords,
    Neo4jConnection,
    Neo4jGraphSource,
    PassageRecord,
    drop_corpus,
    write_graph,
    write_synonyms,
)
from phasegraph.neo4j.gds import drop_projections, has_gds, list_projections, project
from phasegraph.neo4j.remote_walk import FetchSettings, NeighbourhoodWalk

SLICE = 200


class Counting(list):
    """A connection whose statements are listed."""

    def __init__(self, connection):
        self.connection, self.timeout = connection, connection.timeout

    def read(self, *given, **named):
        self.append(given[0])
        return self.connection.read(*given, **named)


EVERYTHING = FetchSettings(nodes=100_000, per_round=100_000)
OTHER_WEIGHTS = EdgeWeights(
    home=3.0, lead=2.0, rarity_power=1.0, count_power=1.0, common_share=0.0, fact=0.5, synonym=0.3
)


@pytest.fixture(scope="module")
def stored(driver):
    """A slice of the corpus, written once: nothing in this module changes it."""
    from real_servers import clear

    clear(driver)
    connection = Neo4jConnection(driver, timeout=60.0)
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


def whole_walk(connection, graph, weights):
    """A walk from everywhere, which fetches all."""
    everything = {name: 1.0 for name in graph.passages}, {name: 1.0 for name in graph.entities}
    return NeighbourhoodWalk(
        connection, "walk", (SLICE, 0), *everything, follow_probability=0.5, weights=weights, limits=EVERYTHING
    ).run()


@pytest.mark.parametrize("weights", [EdgeWeights(), OTHER_WEIGHTS, EdgeWeights(synonym=0.0, fact=0.0)])
def test_every_edge_that_is_fetched_weighs_what_it_weighs_in_memory(stored, weights):
    connection, graph = stored
    walk = whole_walk(connection, graph, weights)
    assert walk.complete
    assert walk.unknown == 0.0
    places = graph_places(graph, walk.graph.passages, walk.graph.entities)
    order = np.argsort(places)
    mine = walk.graph.adjacency[order][:, order]
    np.testing.assert_array_equal(mine.toarray(), dataclasses.replace(graph, weights=weights).adjacency.toarray())


def graph_places(graph, passages, entities):
    return [graph.passage_rows[one] for one in passages] + [graph.entity_rows[one] + SLICE for one in entities]


@pytest.mark.parametrize("weights", [EdgeWeights(), OTHER_WEIGHTS])
def test_every_edge_of_a_projection_weighs_what_it_weighs_in_memory(stored, driver, weights):
    connection, graph = stored
    if not has_gds(connection):
        pytest.skip("the server has no Graph Data Science library")
    made = project(connection, "walk", weights)
    streamed = driver.execute_query(
        "CALL gds.graph.relationshipProperty.stream($graph, 'weight') YIELD sourceNodeId, targetNodeId, propertyValue "
        "WITH gds.util.asNode(sourceNodeId) AS s, gds.util.asNode(targetNodeId) AS t, propertyValue AS w "
        "RETURN s:PhasegraphPassage, coalesce(s.id, s.name), t:PhasegraphPassage, coalesce(t.id, t.name), w",
        graph=made.name,
    ).records
    found = np.zeros((graph.size, graph.size))
    for is_passage, start, to_passage, end, weight in streamed:
        row = graph.passage_rows[start] if is_passage else graph.entity_rows[start] + SLICE
        column = graph.passage_rows[end] if to_passage else graph.entity_rows[end] + SLICE
        found[row, column] += weight
    wanted = dataclasses.replace(graph, weights=weights).adjacency.toarray()
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("relevance", [True, False])
@pytest.mark.parametrize("kernel", ["numpy", "auto"])
def test_a_fetched_walk_is_the_walk_in_memory(stored, relevance, kernel):
    connection, graph = stored
    walk = WalkSettings(relevance=relevance, kernel=kernel, tolerance=1e-4)  # no round of it is dense in memory
    near, here = Neo4jGraphSource(connection, "walk", walk=walk), GraphSource(graph, walk=walk, words=None)
    for question, ranking in questions(6, SLICE):
        online, local = near.search(question, 20, {"vector": ranking}), here.search(question, 20, {"vector": ranking})
        assert online.ids == local.ids
        np.testing.assert_allclose(online.scores, local.scores, rtol=1e-12)
        assert online.size == local.size
        assert online.background.location == pytest.approx(local.background.location, rel=1e-12)
        assert online.background.scale == pytest.approx(local.background.scale, rel=1e-12)
        assert online.reason == ""


def test_the_default_source_ranks_the_passages_of_the_one_in_memory(stored):
    connection, graph = stored
    near, here = Neo4jGraphSource(connection, "walk"), GraphSource(graph, words=None)
    for question, ranking in questions(6, SLICE):
        online, local = near.search(question, 20, {"vector": ranking}), here.search(question, 20, {"vector": ranking})
        assert {*online.ids} == {*local.ids}
        # In so small a graph rounds of the walk in memory are dense: it pushes on what lies below its tolerance, too.
        np.testing.assert_allclose(np.sort(online.scores), np.sort(local.scores), rtol=1e-2)


@pytest.mark.parametrize("fetch", [FetchSettings(), FetchSettings(nodes=100, per_round=30), FetchSettings(nodes=12)])
def test_an_answer_does_not_depend_on_what_was_asked_before(stored, fetch):
    connection, _ = stored
    asked = questions(5, SLICE)
    used = Neo4jGraphSource(connection, "walk", fetch=fetch)
    rich = Neo4jGraphSource(connection, "walk")
    for question, ranking in asked:
        rich.search(question, 20, {"vector": ranking})
    for question, ranking in asked + asked[::-1]:
        fresh = Neo4jGraphSource(connection, "walk", fetch=fetch).search(question, 20, {"vector": ranking})
        much_kept = dataclasses.replace(rich, fetch=fetch)
        object.__setattr__(much_kept, "_memory", rich._memory)
        for source in (used, much_kept):
            found = source.search(question, 20, {"vector": ranking})
            assert found.ids == fresh.ids
            np.testing.assert_allclose(found.scores, fresh.scores, rtol=1e-12)
            assert found.reason == fresh.reason


def test_a_small_budget_is_kept_and_says_what_it_does_not_know(stored):
    connection, _ = stored
    question, ranking = questions(1, SLICE)[0]
    poor = Neo4jGraphSource(connection, "walk", fetch=FetchSettings(nodes=12, per_round=12))
    found = poor.search(question, 20, {"vector": ranking})
    assert len(found.ids) > 0
    assert "of the walk's probability mass is at nodes that were not fetched" in found.reason
    walk = NeighbourhoodWalk(
        connection,
        "walk",
        (SLICE, 0),
        {ranking.ids[0]: 1.0},
        {},
        follow_probability=0.8,
        limits=FetchSettings(nodes=12, per_round=5),
    ).run()
    assert walk.fetched <= 12
    assert 0 < walk.unknown < 1


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
    walk = NeighbourhoodWalk(
        connection, "beside", (1, 0), {"other": 1.0}, names, follow_probability=0.8, limits=EVERYTHING
    ).run()
    assert walk.graph.passages == ("other",)


def test_the_server_walks_as_we_do(stored):
    connection, graph = stored
    if not has_gds(connection):
        pytest.skip("the server has no Graph Data Science library")
    walk = WalkSettings(relevance=False, tolerance=1e-9)
    there = Neo4jGraphSource(connection, "walk", method="gds", walk=walk)
    assert there.verify() == SLICE
    here = GraphSource(graph, walk=walk, words=None)
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


def test_threads_that_share_a_source_get_the_answers_of_one(stored):
    connection, _ = stored
    asked = questions(12, SLICE)
    alone = Neo4jGraphSource(connection, "walk")
    wanted = [alone.search(question, 20, {"vector": ranking}).ids for question, ranking in asked]
    shared = Neo4jGraphSource(connection, "walk")
    with ThreadPoolExecutor(6) as workers:
        found = list(workers.map(lambda one: shared.search(one[0], 20, {"vector": one[1]}).ids, asked))
    assert found == wanted
    assert all(found)


def test_a_query_without_seeds_says_so_and_asks_for_nothing_more(stored):
    connection, _ = stored
    found = Neo4jGraphSource(connection, "walk").search("why?", 10, {})
    assert found.ids == ()
    assert "names no entity" in found.reason


def test_an_empty_corpus_cannot_be_walked(stored):
    connection, _ = stored
    with pytest.raises(InvalidInputError, match="'nowhere' has no passages"):
        Neo4jGraphSource(connection, "nowhere").verify()


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("corpus", " ", InvalidTypeError),
        ("name", None, InvalidTypeError),
        ("depends_on", "vector", InvalidTypeError),
        ("method", "magic", InvalidInputError),
    ],
)
def test_a_source_names_the_field_that_is_wrong(field, value, error):
    with pytest.raises(error, match=field):
        Neo4jGraphSource(Neo4jConnection(Unasked()), **{"corpus": "c", field: value})


@pytest.mark.parametrize(
    ("field", "value"), [("nodes", 0), ("per_round", True), ("unknown", 1.5), ("unknown", float("nan"))]
)
def test_a_budget_names_the_field_that_is_wrong(field, value):
    with pytest.raises(InvalidInputError, match=field):
        FetchSettings(**{field: value})


def test_edges_are_kept_until_the_corpus_changes(connection):
    """The last test of this module, because its fixture empties the database, which `stored` filled."""
    records = [
        PassageRecord("a", text="x", mentions=(("ada", 1), ("bo", 1))),
        PassageRecord("b", text="y", mentions=(("bo", 1),)),
    ]
    write_graph(connection, records, corpus="kept")
    source, statements = Neo4jGraphSource(connection, "kept"), Counting(connection)
    object.__setattr__(source, "connection", statements)
    first = source.search("ada", 10, {})
    assert len(statements) > 1
    statements.clear()
    assert source.search("ada", 10, {}).ids == first.ids == ("a", "b")
    assert len(statements) == 1, "the look-up, which brings the stamp"
    write_graph(connection, [PassageRecord("c", text="z", mentions=(("ada", 1),))], corpus="kept")
    assert source.search("ada", 10, {}).ids == ("a", "c", "b")
    drop_corpus(connection, "kept")
    write_graph(connection, [PassageRecord("d", text="z", mentions=(("ada", 1),))], corpus="kept")
    write_graph(connection, [PassageRecord("e", text="z", mentions=(("bo", 1),))], corpus="kept")
    assert source.search("ada", 10, {}).ids == ("d",), "as many changes as before, and another corpus"
