"""The walk that GDS runs is ours, whichever way it takes the seeds; its graphs are named, listed and dropped alone."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from corpus import questions, records

from phasegraph.errors import StoreError
from phasegraph.graph import GraphSource, WalkSettings
from phasegraph.neo4j import (
    GraphRecords,
    Neo4jConnection,
    Neo4jGraphSource,
    PassageRecord,
    drop_corpus,
    drop_projections,
    list_projections,
    write_graph,
)
from phasegraph.neo4j.gds import DIGITS, Projection, has_gds, project, seed_sets, walk_projection
from phasegraph.pagerank import personalized_pagerank

SLICE = 150
SMALL = [
    PassageRecord("a", text="x", mentions=(("ada", 1), ("bo", 1))),
    PassageRecord("b", text="y", mentions=(("bo", 1),)),
]


@pytest.fixture(scope="module")
def stored(driver):
    """A slice of the corpus on a server with GDS, written once, and its graph in memory."""
    from real_servers import clear

    connection = Neo4jConnection(driver, timeout=60.0)
    if not has_gds(connection):
        pytest.skip("the server has no Graph Data Science library")
    clear(driver)
    made = records(SLICE)
    write_graph(connection, made, corpus="gds")
    yield connection, GraphRecords(made).graph()
    drop_projections(connection)
    clear(driver)


@pytest.fixture
def gds(connection):
    """A database without anything, on a server with GDS."""
    if not has_gds(connection):
        pytest.skip("the server has no Graph Data Science library")
    yield connection
    drop_projections(connection)


def walked_here(graph, passages, entities):
    """The same walk in memory, exactly."""
    reset = np.zeros(graph.adjacency.shape[0])
    for name, mass in passages.items():
        reset[graph.passage_rows[name]] = mass
    for name, mass in entities.items():
        reset[len(graph.passages) + graph.entity_rows[name]] = mass
    found = personalized_pagerank(graph.adjacency, reset, follow_probability=0.85)
    masses = dict(zip(found.nodes.tolist(), found.values.tolist(), strict=True))
    return {name: masses.get(row, 0.0) for name, row in graph.passage_rows.items()}


@pytest.mark.parametrize("count", [6, 2 * DIGITS], ids=["a set per mass", "a set per digit"])
@pytest.mark.parametrize("weighted", [False, True], ids=["in sets", "with masses"])
def test_masses_are_those_of_the_walk_in_memory(stored, count, weighted):
    connection, graph = stored
    projection = project(connection, "gds")
    if weighted and not projection.weighted:
        pytest.skip("this GDS takes no masses of seeds")
    passages = {name: 0.3 + 1 / (3 + place) for place, name in enumerate(graph.passages[:count])}
    entities = {name: 2.0 / (3 + place) for place, name in enumerate(graph.entities[5 : 5 + count])}
    either = Projection(projection.name, projection.corpus, projection.passage_count, weighted)
    found = walk_projection(connection, either, passages, entities, follow_probability=0.85, tolerance=1e-14)
    wanted = walked_here(graph, passages, entities)
    assert {name for name, mass in wanted.items() if mass > 1e-9} <= set(found)
    np.testing.assert_allclose([found[name] for name in found], [wanted[name] for name in found], atol=2e-6)


def test_the_first_passages_are_those_of_an_exact_walk_in_memory(stored):
    connection, graph = stored
    exact = WalkSettings(relevance=False, tolerance=1e-9)
    there = Neo4jGraphSource(connection, "gds", method="gds", walk=exact)
    here = GraphSource(graph, walk=exact, words=None)
    for question, ranking in questions(6, SLICE):
        online, local = there.search(question, 20, {"vector": ranking}), here.search(question, 20, {"vector": ranking})
        assert online.ids == local.ids


def test_seeds_that_are_gone_are_left_out_and_not_taken_for_all_nodes(gds):
    write_graph(gds, SMALL, corpus="c")
    projection = project(gds, "c")
    alone = walk_projection(gds, projection, {"a": 1.0}, {}, follow_probability=0.5)
    beside = walk_projection(gds, projection, {"a": 1.0, "gone": 0.5}, {"no one": 2.0}, follow_probability=0.5)
    assert beside == pytest.approx(alone)
    assert walk_projection(gds, projection, {"gone": 1.0}, {}, follow_probability=0.5) == {}


def test_a_walk_on_a_graph_that_was_dropped_is_refused_by_name(gds):
    write_graph(gds, SMALL, corpus="c")
    projection = project(gds, "c")
    drop_projections(gds, "c")
    with pytest.raises(StoreError):
        walk_projection(gds, projection, {"a": 1.0}, {}, follow_probability=0.5)


def test_a_graph_of_a_similar_name_is_neither_listed_nor_dropped(gds, driver):
    write_graph(gds, SMALL, corpus="c")
    mine = project(gds, "c").name
    similar = ("phasegraph-foo", mine + "-copy", mine.rpartition("-")[0])
    try:
        for name in similar:
            driver.execute_query("CALL gds.graph.project($name, '*', '*') YIELD graphName RETURN graphName", name=name)
        assert list_projections(gds) == list_projections(gds, "c") == (mine,)
        write_graph(gds, [PassageRecord("z", text="new")], corpus="c")
        mine = project(gds, "c").name
        assert list_projections(gds) == (mine,)
        drop_corpus(gds, "c")
        drop_projections(gds)
        left = driver.execute_query("CALL gds.graph.list() YIELD graphName RETURN graphName").records
        assert sorted(row[0] for row in left) == sorted(similar)
    finally:
        for name in similar:
            driver.execute_query("CALL gds.graph.drop($name, false) YIELD graphName RETURN graphName", name=name)


def test_dropping_a_corpus_drops_its_projections_and_no_other_corpus_s(gds):
    for corpus in ("one", "two"):
        write_graph(gds, SMALL, corpus=corpus)
        project(gds, corpus)
    drop_corpus(gds, "one")
    assert list_projections(gds, "one") == ()
    assert len(list_projections(gds, "two")) == 1


def test_a_corpus_is_dropped_where_there_is_no_gds(spare_server):
    with Neo4jConnection.connect(spare_server.uri, timeout=30.0) as connection:
        assert not has_gds(connection)
        write_graph(connection, SMALL, corpus="c")
        drop_corpus(connection, "c")
        assert connection.read("MATCH (n) RETURN count(n)") == [[0]]


def test_a_search_walks_at_most_once_per_different_mass():
    same = seed_sets({"a": 0.5, "b": 0.25}, {"x": 0.25})
    assert same == [
        {"share": 0.5, "passages": ["a"], "entities": []},
        {"share": 0.25, "passages": ["b"], "entities": ["x"]},
    ]
    assert seed_sets({}, {}) == []


def test_many_masses_are_made_of_few_sets():
    random = np.random.default_rng(0)
    masses = {str(place): mass for place, mass in enumerate(random.uniform(1e-5, 0.7, 200).tolist())}
    sets = seed_sets(masses, {"x": 0.3})
    assert len(sets) <= DIGITS + 1
    for name, mass in {**masses, "x": 0.3}.items():
        parts = [each["share"] for each in sets if name in each["passages"] + each["entities"]]
        assert math.fsum(parts) == pytest.approx(mass, abs=2.0**-DIGITS)
