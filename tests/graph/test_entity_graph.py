"""The entity graph: counts, weights derived from them, and what is refused."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import repeats
from scipy import sparse

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph import EdgeWeights, EntityGraph, Extraction, build_graph, graph_from_extractions

FILMS = [
    {
        "id": "film",
        "title": "Vertigo (film)",
        "text": "Vertigo is a film by Alfred Hitchcock. Vertigo has James Stewart.",
    },
    {"id": "man", "title": "Alfred Hitchcock", "text": "Alfred Hitchcock was born in London."},
    {"id": "town", "title": "London", "text": "London is a town. Many came to London."},
]
NAMES = st.sampled_from(["ada", "bo", "cy", "dee", "eve"])


@st.composite
def records(draw):
    ids = [f"p{n}" for n in range(draw(st.integers(1, 5)))]
    triple = st.tuples(NAMES, st.just("knows"), NAMES)
    found = [
        Extraction(
            name,
            draw(st.lists(NAMES, max_size=4)),
            draw(st.lists(triple, max_size=3)),
            draw(st.lists(NAMES, max_size=1)),
            draw(st.sampled_from(["", "ada", "bo"])),
        )
        for name in ids
    ]
    return ids, found


def edges(graph):
    """Every edge with the names of its ends."""
    names = [("passage", name) for name in graph.passages] + [("entity", name) for name in graph.entities]
    matrix = graph.adjacency.tocoo()
    return {
        (names[row], names[column]): float(value)
        for row, column, value in zip(matrix.row, matrix.col, matrix.data, strict=True)
    }


def test_a_small_corpus_has_the_counts_one_reads_in_it():
    graph = build_graph(FILMS)
    assert graph.entities == ("alfred hitchcock", "james stewart", "london", "vertigo", "vertigo film")
    assert graph.mentions.toarray().tolist() == [[1, 1, 0, 2, 1], [1, 0, 1, 0, 0], [0, 0, 2, 0, 0]]
    assert graph.homes.toarray().tolist() == [[0, 0, 0, 2, 2], [2, 0, 0, 0, 0], [0, 0, 2, 0, 0]]
    assert graph.facts.nnz == 0
    assert graph.synonyms.nnz == 0


def test_weights_follow_from_the_counts():
    found = edges(build_graph(FILMS))
    rare = np.log1p(3 / 2) ** 2
    assert found[("passage", "film"), ("entity", "alfred hitchcock")] == pytest.approx(rare, rel=1e-6)
    assert found[("entity", "alfred hitchcock"), ("passage", "man")] == pytest.approx(31.0)
    assert found[("entity", "alfred hitchcock"), ("passage", "film")] == pytest.approx(1.0)
    assert found[("entity", "vertigo"), ("passage", "film")] == pytest.approx(30 + 2**0.5)
    assert (("passage", "film"), ("entity", "james stewart")) not in found
    assert found[("entity", "james stewart"), ("passage", "film")] == pytest.approx(1.0)


def test_an_entity_everyone_mentions_has_no_edges_unless_a_passage_is_about_it():
    common = [Extraction(f"p{n}", ["everyone", "anchor"], titles=["anchor"] if n == 0 else ()) for n in range(30)]
    graph = graph_from_extractions([f"p{n}" for n in range(30)], common)
    rows = {name: graph.adjacency[[30 + row]].nnz for row, name in enumerate(graph.entities)}
    assert rows == {"anchor": 30, "everyone": 0}


def test_facts_are_counted_both_ways_and_their_ends_are_mentioned():
    triples = {
        "film": [("Alfred Hitchcock", "directed", "Vertigo"), ("Vertigo", "by", "Alfred Hitchcock"), ("X", "is", "x")]
    }
    graph = build_graph(FILMS, triples=triples)
    row, column = graph.entity_rows["alfred hitchcock"], graph.entity_rows["vertigo"]
    assert graph.facts[row, column] == graph.facts[column, row] == 2
    assert graph.facts.diagonal().sum() == 0
    assert graph.mentions[0, graph.entity_rows["x"]] == 1


def test_synonyms_join_entities_by_their_similarity():
    found = [Extraction("1", ["ada", "bo"]), Extraction("2", ["cy"])]
    graph = graph_from_extractions(["1", "2"], found, synonyms={("bo", "cy"): 0.9, ("ada", "nobody"): 0.9})
    assert graph.synonyms.nnz == 2
    assert edges(graph)[("entity", "cy"), ("entity", "bo")] == pytest.approx(0.9)


@given(records(), st.randoms(use_true_random=False))
def test_the_order_of_records_changes_nothing(given_records, shuffled):
    ids, found = given_records
    mixed = list(found)
    shuffled.shuffle(mixed)
    one, other = graph_from_extractions(ids, found), graph_from_extractions(ids, mixed)
    assert one.entities == other.entities
    for name in ("mentions", "homes", "facts"):
        assert (getattr(one, name) != getattr(other, name)).nnz == 0
    assert one.adjacency.data.tobytes() == other.adjacency.data.tobytes()


@given(records())
def test_the_order_of_passages_changes_rows_only(given_records):
    ids, found = given_records
    assert edges(graph_from_extractions(ids, found)) == edges(graph_from_extractions(ids[::-1], found))


@given(records())
@settings(max_examples=repeats(50, 12))
def test_arrays_are_narrow_and_cannot_be_written_to(given_records):
    graph = graph_from_extractions(*given_records)
    assert graph.mentions.dtype == np.int32
    assert graph.adjacency.dtype == np.float32
    for matrix in (graph.mentions, graph.homes, graph.facts, graph.synonyms, graph.adjacency):
        assert matrix.indices.dtype == np.int32
        for part in (matrix.data, matrix.indices, matrix.indptr):
            assert not part.flags.writeable
    assert (graph.facts != graph.facts.T).nnz == 0


def test_embeddings_are_normalised_copies():
    given_rows = np.array([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]])
    graph = build_graph(FILMS, embeddings=given_rows)
    assert graph.embeddings.dtype == np.float32
    np.testing.assert_allclose(graph.embeddings, [[0.6, 0.8], [0, 1], [0, 0]], rtol=1e-6)
    assert given_rows[0, 0] == 3.0


def test_passages_may_be_objects():
    class Row:
        id, title, text = "1", None, "Ada Lovelace wrote."

    assert build_graph([Row()]).entities == ("ada lovelace",)


BAD_PASSAGES = [
    ([], "at least one"),
    ([{"id": "1", "text": "a"}, {"id": "1", "text": "b"}], r"'1' is the id of rows 0 and 1"),
    ([{"text": "a"}], "passage 0 must have an id"),
    ([{"id": 7, "text": "a"}], "passage 0 must have an id"),
    ([{"id": "1", "text": "a"}, {"id": "2"}], r"passage 1 \('2'\) must have text"),
    ([{"id": "1", "text": "  "}], r"passage 0 \('1'\) must have text"),
    ([{"id": "1", "text": "a", "title": 3}], r"title of passage 0 \('1'\)"),
    (["Ada met Bo."], r"passage 0 .* \(the passage is a str: give \{'id': ..., 'title': ..., 'text': ...\}\)"),
    (
        [{"id": "1", "text": "a"}, SimpleNamespace(id="2", page_content="b")],
        r"passage 1 .* \(the passage is a SimpleNamespace",
    ),
]


@pytest.mark.parametrize(("passages", "message"), BAD_PASSAGES)
def test_bad_passages_are_refused_by_row(passages, message):
    with pytest.raises(InvalidInputError, match=message):
        build_graph(passages)


@pytest.mark.parametrize(
    ("triples", "message"),
    [
        ({"nowhere": []}, "'nowhere', which is not in the corpus"),
        ({"film": [("a", "b")]}, "triples of passage 'film' must have three parts; got 2"),
        ({"film": [("a", "b", "c", "d")]}, "three parts; got 4"),
        ({"film": [("a", "b", None)]}, "passage 'film' must contain only strings"),
        ([Extraction("gone")], "'gone', which is not in the corpus"),
    ],
)
def test_bad_triples_are_refused_by_passage(triples, message):
    with pytest.raises(InvalidInputError, match=message):
        build_graph(FILMS, triples=triples)


@pytest.mark.parametrize(
    ("embeddings", "message"),
    [
        (np.ones((2, 4)), "must have 3 rows"),
        (np.ones(3), "must have 3 rows"),
        (np.ones((3, 0)), "must have 3 rows"),
        (np.array([[1.0], [np.nan], [1.0]]), "row 1 contains NaN"),
        (np.array([[1.0], [1.0], [np.inf]]), "row 2 contains NaN or infinity"),
        ([[1.0, 2.0], [1.0], [1.0]], "rows of equal length"),
        ([["a"], ["b"], ["c"]], "must be numbers"),
    ],
)
def test_bad_embeddings_are_refused_by_row(embeddings, message):
    with pytest.raises(InvalidInputError, match=message):
        build_graph(FILMS, embeddings=embeddings)


def test_matrices_must_fit_the_names():
    plain = sparse.csr_array((1, 2), dtype=np.int32)
    with pytest.raises(InvalidInputError, match="homes must have shape"):
        EntityGraph(("1",), ("a", "b"), plain, sparse.csr_array((2, 2), dtype=np.int8))
    with pytest.raises(InvalidTypeError, match="mentions must be a scipy sparse"):
        EntityGraph(("1",), ("a", "b"), np.ones((1, 2)), plain)


@pytest.mark.parametrize(("field", "value"), [("home", -1.0), ("fact", np.nan), ("rarity_power", np.inf)])
def test_edge_weights_must_be_finite_and_not_negative(field, value):
    with pytest.raises(InvalidInputError, match=field):
        EdgeWeights(**{field: value})


def test_edge_weights_must_be_numbers():
    with pytest.raises(InvalidTypeError, match="home"):
        EdgeWeights(home="much")


@pytest.mark.parametrize("value", [-3, 5, 0, np.nan, True, "x", None])
def test_a_similarity_out_of_range_is_refused_by_its_pair(value):
    with pytest.raises(InvalidInputError, match=r"similarity of \('ada', 'bo'\) must"):
        graph_from_extractions(["1"], [Extraction("1", ["ada", "bo"])], synonyms={("ada", "bo"): value})


@pytest.mark.parametrize("synonyms", [{"ada": 0.5}, {("ada",): 0.5}, [("ada", "bo")], {(1, 2): 0.5}])
def test_synonyms_that_are_no_pairs_are_refused(synonyms):
    with pytest.raises(InvalidTypeError, match="synonyms must"):
        graph_from_extractions(["1"], [Extraction("1", ["ada", "bo"])], synonyms=synonyms)


def test_records_of_a_passage_count_the_same_in_any_order():
    records = [
        Extraction("1", triples=[("ada", "met", "bo"), ("bo", "met", "cy")]),
        Extraction("1", ["ada", "ada", "bo"], titles=["ada"]),
        Extraction("1", ["bo"], lead="ada"),
        Extraction("1", lead="dee"),
    ]
    for order in itertools.permutations(records):
        graph = graph_from_extractions(["1"], order)
        assert dict(zip(graph.entities, graph.mentions.toarray()[0].tolist(), strict=True)) == {
            "ada": 2,
            "bo": 2,
            "cy": 1,
            "dee": 1,
        }
        assert graph.homes.toarray().tolist() == [[2, 0, 0, 1]]
