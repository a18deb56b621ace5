"""The walk as a source: what it finds, what it says about it, and what it does without help."""

from __future__ import annotations

import numpy as np
import pytest
from small_corpora import GRAPH, PASSAGES, QUERY, VECTORS

from phasegraph import Ranking
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph import Extraction, GraphSource, WalkSettings, build_graph, graph_from_extractions
from phasegraph.graph.walk.facts import FactIndex
from phasegraph.graph.walk.linking import link
from phasegraph.graph.walk.relevance import relevance
from phasegraph.sources import Source


def handed(*ids):
    return {"vector": Ranking("vector", list(ids), [0.9 - 0.1 * rank for rank in range(len(ids))])}


def exact(graph, query, given, vector=None, follow=0.85):
    """Scores of all passages by brute force: a linear system over all nodes."""
    seeds = link(graph, query, given.get("vector"))
    reset = np.zeros(graph.size)
    reset[seeds.nodes] = seeds.masses
    reset /= reset.sum()
    node_weights = relevance(graph, given.get("vector"), vector)
    steps = graph.adjacency.toarray().astype(float) * (1.0 if node_weights is None else node_weights)
    sums = steps.sum(axis=1)
    steps[sums == 0] = reset
    steps[sums > 0] /= sums[sums > 0, None]
    mass = np.linalg.solve(np.eye(graph.size) - follow * steps.T, (1 - follow) * reset)[: len(graph.passages)]
    return mass if node_weights is None else (mass + 2e-3) * np.sqrt(node_weights[: len(mass)])


def test_it_is_a_source():
    assert isinstance(GraphSource(GRAPH), Source)


def test_the_walk_finds_the_last_hop_that_the_ranking_misses():
    found = GraphSource(GRAPH).search(QUERY, 3, handed("film", "city"))
    assert set(found.ids) >= {"film", "man"}
    assert "man" not in handed("film", "city")["vector"].ids


@pytest.mark.parametrize("vector", [None, [0.7, 0.7, 0.1]])
@pytest.mark.parametrize("given_ranking", [{}, handed("film", "river"), handed("city")])
def test_scores_are_those_of_the_exact_walk(vector, given_ranking):
    embedder = None if vector is None else lambda query: vector
    source = GraphSource(GRAPH, embedder=embedder, walk=WalkSettings(tolerance=1e-12), words=None)
    found = source.search(QUERY, 5, given_ranking)
    mass = exact(GRAPH, QUERY, given_ranking, vector)
    for name, score in zip(found.ids, found.scores, strict=True):
        assert score == pytest.approx(mass[GRAPH.passage_rows[name]], abs=1e-9)


@pytest.mark.parametrize(("given_ranking", "floor"), [(handed("film"), 0.0), ({}, 2e-3)])
def test_the_background_is_that_of_all_passages(given_ranking, floor):
    found = GraphSource(GRAPH, walk=WalkSettings(tolerance=1e-13), words=None).search(QUERY, 1, given_ranking)
    logs = np.log(exact(GRAPH, QUERY, given_ranking) + floor)
    assert found.background.transform == "log"
    assert found.background.floor == floor
    assert found.background.location == pytest.approx(logs.mean(), abs=1e-6)
    assert found.background.scale == pytest.approx(logs.std(), abs=1e-6)
    assert found.size == 5


def test_a_passage_comes_with_the_path_that_reached_it():
    found = GraphSource(GRAPH, words=None).search(QUERY, 5, {})
    trail = found.payloads["town"]
    assert str(trail).endswith("leytonstone > [town]")
    assert trail.path[0].name == "vertigo"
    assert [step.name for step, _ in trail.seeds] == ["vertigo"]
    assert sum(share for _, share in trail.seeds) == pytest.approx(1)
    assert set(found.payloads) == set(found.ids)


def test_without_a_ranking_names_are_enough():
    assert GraphSource(GRAPH).search("Alfred Hitchcock", 1, {"vector": None}).ids == ("man",)


def test_nothing_to_start_from_is_an_empty_ranking_with_its_reason():
    found = GraphSource(GRAPH, words=None).search("which of them?", 10, {})
    assert len(found) == 0
    assert found.reason == "the query names no entity of the graph and no ranking was handed over"
    assert found.size == 5


@pytest.mark.parametrize("tolerance", [1e-4, 3e-6])
def test_the_compiled_search_is_that_of_numpy_to_the_bit(tolerance):
    rng = np.random.default_rng(4)
    names = [f"name{n}" for n in range(400)]
    records = [Extraction(f"p{n}", rng.choice(names, 4).tolist(), titles=[names[n % 400]]) for n in range(800)]
    vectors = rng.normal(size=(800, 8)) + 1
    graph = graph_from_extractions([f"p{n}" for n in range(800)], records, embeddings=vectors)
    sources = [
        GraphSource(graph, embedder=lambda query: vectors[3], walk=WalkSettings(tolerance=tolerance, kernel=kernel))
        for kernel in ("numpy", "compiled", "auto")
    ]
    first = Ranking("vector", ["p3", "p700", "p41"], [0.9, 0.8, 0.3])
    for query in ("Name7 and Name12", "Name399?"):
        plain, *fast = (source.search(query, 100, {"vector": first}) for source in sources)
        assert len(plain) == 100
        for found in fast:
            assert found.ids == plain.ids
            assert found.scores.tobytes() == plain.scores.tobytes()
            assert found.background == plain.background


def test_preparing_changes_no_answer():
    source = GraphSource(build_graph(PASSAGES, embeddings=VECTORS))
    assert "operator" not in vars(source.graph)
    assert source.prepare() is source
    assert "operator" in vars(source.graph)
    found, wanted = (one.search(QUERY, 5, handed("film")) for one in (source, GraphSource(GRAPH)))
    assert (found.ids, found.scores.tobytes()) == (wanted.ids, wanted.scores.tobytes())


def test_passages_of_a_ranking_that_are_not_in_the_graph_are_passed_over():
    one = GraphSource(GRAPH).search("which?", 5, handed("film"))
    other = GraphSource(GRAPH).search("which?", 5, {"vector": Ranking("vector", ["gone", "film"], [0.95, 0.9])})
    assert one.ids == other.ids


def test_the_order_of_passages_does_not_matter():
    there = GraphSource(GRAPH).search(QUERY, 5, handed("film"))
    back = GraphSource(build_graph(PASSAGES[::-1])).search(QUERY, 5, handed("film"))
    assert there.ids == back.ids
    np.testing.assert_allclose(there.scores, back.scores, rtol=1e-9)


def test_a_passage_without_names_sends_its_mass_back_to_the_seeds():
    graph = graph_from_extractions(["lone", "other"], [Extraction("other", ["ada"])])
    found = GraphSource(graph).search("which?", 5, {"vector": Ranking("vector", ["lone"], [0.9])})
    assert found.ids == ("lone",)
    assert found.scores.tolist() == pytest.approx([(1 + 2e-3) * 0.9**0.5])


def test_nearer_passages_are_preferred_along_the_way():
    graph = build_graph(
        [{"id": "a", "title": "Ada", "text": "One."}, {"id": "b", "title": "Ada", "text": "Two."}], embeddings=np.eye(2)
    )
    found = GraphSource(graph, embedder=lambda query: [0.2, 0.9]).search("Ada", 2, {})
    assert found.ids == ("b", "a")
    plain = GraphSource(graph, embedder=lambda query: [0.2, 0.9], walk=WalkSettings(relevance=False))
    assert len(set(plain.search("Ada", 2, {}).scores.tolist())) == 1


def test_ties_are_broken_by_id_and_the_limit_is_kept():
    graph = graph_from_extractions(list("cab"), [Extraction(name, ["ada"]) for name in "cab"])
    assert GraphSource(graph).search("Ada", 2, {}).ids == ("a", "b")


@pytest.mark.parametrize("query", ["", "  ", None])
def test_a_blank_query_is_refused(query):
    with pytest.raises(InvalidInputError, match="query must"):
        GraphSource(GRAPH).search(query, 5, {})


@pytest.mark.parametrize("limit", [0, -1, True])
def test_a_limit_below_one_is_refused(limit):
    with pytest.raises(InvalidInputError, match="limit must be"):
        GraphSource(GRAPH).search("Ada", limit, {})


def test_what_it_is_made_of_is_checked():
    with pytest.raises(InvalidTypeError, match="graph must be an EntityGraph"):
        GraphSource("graph")
    with pytest.raises(InvalidTypeError, match="name must be"):
        GraphSource(GRAPH, name=" ")
    with pytest.raises(InvalidTypeError, match="depends_on must be a list"):
        GraphSource(GRAPH, depends_on="vector")
    with pytest.raises(InvalidInputError, match="floor"):
        WalkSettings(floor=0.0)
    with pytest.raises(InvalidInputError, match="closeness"):
        WalkSettings(closeness=-1.0)
    with pytest.raises(InvalidInputError, match="kernel must be"):
        WalkSettings(kernel="fortran")
    with pytest.raises(InvalidInputError, match="follow_probability"):
        WalkSettings(follow_probability=1.0)


FACTS = FactIndex.of(GRAPH, [("Paris", "lies on the", "Seine"), ("Leytonstone", "is in", "London")], np.eye(3)[:2])


def test_entities_of_the_nearest_facts_are_seeds():
    source = GraphSource(GRAPH, embedder=lambda query: [1.0, 0.0, 0.0], facts=FACTS, words=None)
    found = source.search("which?", 5, {})
    assert set(found.ids) >= {"city", "river"}
    assert {step.name for step, _ in found.payloads["city"].seeds} == {"paris", "seine"}


def test_embeddings_that_point_nowhere_are_no_seeds():
    source = GraphSource(GRAPH, embedder=lambda query: [-1.0, -1.0, 0.0], facts=FACTS, words=None)
    found = source.search("which?", 5, {})
    assert (len(found), found.size) == (0, 5)
    assert found.reason == "the query names no entity of the graph and no ranking was handed over"


def test_a_published_reset_takes_the_place_of_ours():
    source = GraphSource(
        GRAPH,
        embedder=lambda query: [1.0, 0.0, 0.0],
        facts=FACTS,
        reset="hipporag2",
        walk=WalkSettings(follow_probability=0.5, relevance=False),
    )
    seeds = {step.name: share for step, share in source.search(QUERY, 5, {}).payloads["film"].seeds}
    assert {"paris", "seine", "film", "man"} <= set(seeds)
    assert "vertigo" not in seeds


def test_a_published_reset_needs_facts_and_an_embedder():
    with pytest.raises(InvalidInputError, match="needs facts= and embedder="):
        GraphSource(GRAPH, reset="hipporag2")
    with pytest.raises(InvalidInputError, match="reset must be None or one of hipporag2"):
        GraphSource(GRAPH, reset="raptor")


@pytest.mark.parametrize("steered", [True, False])
def test_every_step_of_a_path_is_the_edge_that_brought_most_mass(steered):
    rng = np.random.default_rng(5)
    ids = [f"p{number:02}" for number in range(30)]
    records = [Extraction(name, [f"e{one:02}" for one in rng.integers(0, 18, 4)]) for name in ids]
    graph = graph_from_extractions(ids, records, embeddings=rng.random((30, 3)) ** 6)
    walk = WalkSettings(tolerance=1e-12, relevance=steered)
    source = GraphSource(graph, embedder=lambda query: [1.0, 0.0, 0.0], walk=walk)
    ranking = source.search("what?", None, handed("p00", "p01"))
    trails = ranking.payloads
    steps = graph.adjacency.toarray().astype(float)
    if steered:
        steps = steps * relevance(graph, None, [1.0, 0.0, 0.0])
    flow = trails.walked.mass[:, None] * steps / np.maximum(steps.sum(axis=1, keepdims=True), 1e-300)
    rows = {**graph.passage_rows, **{name: row + len(ids) for name, row in graph.entity_rows.items()}}
    longest = 0
    for name in ranking.ids:
        path = [rows[step.name] for step in trails[name].path]
        longest = max(longest, len(path))
        for place in range(1, len(path)):
            into = flow[:, path[place]].copy()
            into[path[place:]] = 0.0
            assert into.argmax() == path[place - 1]
    assert longest > 2
