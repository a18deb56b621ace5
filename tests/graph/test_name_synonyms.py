"""Synonym edges from embedded names: in a build, after updates, and through a saved index."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import repeats
from small_corpora import passage

from phasegraph import IntegrityError, InvalidInputError, InvalidTypeError
from phasegraph._support.serialization import read_bundle, write_bundle
from phasegraph.graph import EntityGraph, Extraction, GraphSource, NameSynonyms, build_graph, graph_from_extractions
from phasegraph.graph.index.graph_index import GraphIndex


def vector(name: str) -> np.ndarray:
    """A name's embedding: by its first letter, and a little by the rest, so that some pairs are near."""
    base, rest = (
        np.random.default_rng(int(hashlib.md5(part.encode()).hexdigest()[:8], 16)) for part in (name[0], name)
    )
    return base.normal(size=24) + 0.5 * rest.normal(size=24)


def embed(names: Sequence[str]) -> np.ndarray:
    return np.array([vector(name) for name in names])


def _bits(graph: EntityGraph) -> list[object]:
    matrices = (graph.mentions, graph.homes, graph.facts, graph.synonyms, graph.adjacency)
    parts = [(m.dtype, m.data.tobytes(), m.indices.tobytes(), m.indptr.tobytes()) for m in matrices]
    return [graph.passages, graph.entities, *parts]


def _by_hand(graph: EntityGraph, threshold: float) -> np.ndarray:
    rows = embed(graph.entities)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, 0.0)
    return np.where(cosines >= threshold, cosines, 0.0)


def test_a_built_graph_joins_all_names_that_are_near_and_no_others() -> None:
    graph = build_graph([passage(n, n, n % 4) for n in range(8)], synonyms=NameSynonyms.of(embed, threshold=0.6))
    assert 0 < graph.synonyms.nnz < len(graph.entities) ** 2
    np.testing.assert_allclose(graph.synonyms.toarray(), _by_hand(graph, 0.6), atol=1e-6)


def test_a_synonym_is_the_way_to_a_passage_that_no_shared_name_leads_to() -> None:
    records = [Extraction("a", ["us"], titles=["us"]), Extraction("b", ["united states"], titles=["united states"])]
    near = NameSynonyms.of({"US": [1.0, 0.1], "United States": [1.0, 0.0]})
    for synonyms, wanted in ((None, ("a",)), (near, ("a", "b"))):
        graph = graph_from_extractions(["a", "b"], records, synonyms=synonyms)
        assert GraphSource(graph).search("US", 5, {}).ids == wanted


corpora = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3)), min_size=1, max_size=8)


@pytest.mark.parametrize("kind", ["callable", "mapping"])
@settings(max_examples=repeats(40, 10), deadline=None, derandomize=True, database=None)
@given(first=corpora, more=corpora, data=st.data())
def test_updates_give_to_the_bit_the_synonyms_of_a_rebuild(
    kind: str, first: list[tuple[int, int]], more: list[tuple[int, int]], data: st.DataObject
) -> None:
    start = [passage(n, *parts) for n, parts in enumerate(first)]
    rest = [passage(n + len(first), *parts) for n, parts in enumerate(more)]
    ids = [one["id"] for one in start + rest]
    gone = data.draw(st.lists(st.sampled_from(ids), unique=True, max_size=len(ids) - 1))
    known = {name: vector(name) for name in build_graph(start + rest).entities[::2]}
    early = {name: each for number, (name, each) in enumerate(known.items()) if number % 3}
    if kind == "callable":
        index = GraphIndex.build(start, synonyms=NameSynonyms.of(embed, threshold=0.6)).add(rest)
    else:
        index = GraphIndex.build(start, synonyms=NameSynonyms.of(early, threshold=0.6))
        index = index.add(rest, name_embeddings=known)
    for chosen in (gone[:1], gone[1:]):
        index = index.remove(chosen)
    kept = [one for one in start + rest if one["id"] not in gone]
    whole = build_graph(kept, synonyms=NameSynonyms.of(embed if kind == "callable" else known, threshold=0.6))
    assert _bits(index.graph) == _bits(whole)


def test_only_new_names_are_embedded() -> None:
    asked: list[str] = []

    def noted(names: Sequence[str]) -> np.ndarray:
        asked.extend(names)
        return embed(names)

    index = GraphIndex.build([passage(0, 0, 0)], synonyms=NameSynonyms.of(noted))
    before = list(asked)
    after = index.add([passage(1, 2, 2), {"id": "n", "text": "Cy Twombly painted."}])
    assert sorted(before) == list(index.graph.entities)
    assert set(asked[len(before) :]) == set(after.graph.entities) - set(index.graph.entities)
    assert after.remove(["p1", "n"]).synonyms.names == index.graph.entities  # type: ignore[union-attr]


def test_an_index_with_names_is_saved_and_goes_on(tmp_path: Path) -> None:
    start, rest = [passage(n, n, n % 3) for n in range(5)], [passage(n, n, 3) for n in range(5, 8)]
    GraphIndex.build(start, synonyms=NameSynonyms.of(embed, threshold=0.6)).save(tmp_path)
    loaded = GraphIndex.load(tmp_path)
    with pytest.raises(InvalidInputError, match="the name of entity 'cy twombly' has no embedding"):
        loaded.add(rest)
    again = loaded.add(rest[:1], name_embeddings=embed).add(rest[1:])
    assert _bits(again.graph) == _bits(build_graph(start + rest, synonyms=NameSynonyms.of(embed, threshold=0.6)))


def test_an_index_without_names_is_saved_without_them(tmp_path: Path) -> None:
    GraphIndex.build([passage(0, 0, 0)]).save(tmp_path)
    assert GraphIndex.load(tmp_path).synonyms is None
    assert not list(tmp_path.glob("*names*"))


def test_saved_names_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    GraphIndex.build([passage(0, 0, 0)], synonyms=NameSynonyms.of(embed)).save(tmp_path)
    body, arrays = read_bundle(tmp_path, "entity-graph", 1, mmap=False)
    write_bundle(tmp_path, "entity-graph", 1, body, {**arrays, "names_vectors": arrays["names_vectors"][1:]})
    with pytest.raises(IntegrityError, match="name embeddings must have"):
        GraphIndex.load(tmp_path)


def test_a_name_may_be_written_in_any_way_and_the_first_spelling_counts() -> None:
    names = NameSynonyms.of({"  Ada-Lovelace ": [2.0, 0.0], "ada lovelace": [0.0, 1.0], "": [1.0, 1.0]})
    assert names.names == ("ada lovelace",)
    assert names.vectors is not None
    assert names.vectors.tolist() == [[1.0, 0.0]]


def test_entities_without_vectors_have_no_synonyms() -> None:
    names = NameSynonyms.of({"a": [1.0, 0.0], "b": [1.0, 0.0], "z": [0.0, 0.0]})
    assert names(["a", "b", "c", "z"]).toarray().tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0] * 4, [0] * 4]
    assert NameSynonyms.of({})(["a", "b"]).nnz == 0


@pytest.mark.parametrize(
    ("embeddings", "threshold", "error", "message"),
    [
        ({"a": [1.0, np.nan]}, 0.8, InvalidInputError, "row 0 contains NaN"),
        ({"a": [1.0], "b": [1.0, 2.0]}, 0.8, InvalidTypeError, "rows of equal length"),
        ({"a": ["x"]}, 0.8, InvalidTypeError, "rows of equal length"),
        ({3: [1.0]}, 0.8, InvalidTypeError, "names must be strings; got 3"),
        (np.eye(2), 0.8, InvalidTypeError, "mapping of names to vectors or a callable; got ndarray"),
        ({}, 0.0, InvalidInputError, "threshold must lie"),
        ({}, True, InvalidTypeError, "threshold must be a number"),
    ],
)
def test_bad_names_are_refused(embeddings: object, threshold: float, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        NameSynonyms.of(embeddings, threshold=threshold)  # type: ignore[arg-type]


def test_an_embedder_must_give_one_finite_row_for_every_name() -> None:
    passages = [passage(0, 0, 0)]
    with pytest.raises(InvalidInputError, match="name embeddings must have"):
        build_graph(passages, synonyms=NameSynonyms.of(lambda names: np.ones((1, 3))))
    with pytest.raises(InvalidInputError, match="row 0 contains NaN"):
        build_graph(passages, synonyms=NameSynonyms.of(lambda names: np.full((len(names), 3), np.nan)))


def test_updates_refuse_names_that_do_not_fit_and_change_nothing() -> None:
    index = GraphIndex.build([passage(0, 0, 0)], synonyms=NameSynonyms.of({"Ada": [1.0, 0.0]}))
    before = _bits(index.graph)
    with pytest.raises(InvalidInputError, match="name 'ada' already has a different embedding"):
        index.add([passage(1, 2, 2)], name_embeddings={"Ada": [0.0, 1.0]})
    with pytest.raises(InvalidInputError, match="2 columns"):
        index.add([passage(1, 2, 2)], name_embeddings={"Seine": [0.0, 1.0, 0.0]})
    with pytest.raises(InvalidInputError, match="needs an index with synonyms; this index has no synonyms"):
        GraphIndex.build([passage(0, 0, 0)]).add([passage(1, 2, 2)], name_embeddings={"Seine": [1.0]})
    assert _bits(index.graph) == before
