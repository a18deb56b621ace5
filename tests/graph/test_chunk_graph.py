"""The graph of chunks: what makes an edge, what does not, and a walk whose evidence names the edges."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import repeats

from phasegraph import IntegrityError, InvalidInputError, InvalidTypeError, Ranking
from phasegraph._support.serialization import bundle_kind, write_bundle
from phasegraph.graph import build_graph
from phasegraph.graph.chunk_graph import (
    ChunkGraph,
    ChunkGraphSource,
    ChunkSettings,
    build_chunk_graph,
    identifiers,
    looks_like_code,
    markers,
    references,
    semantic,
    sequential,
)
from phasegraph.graph.model.storage import load_graph, packed, save_graph
from phasegraph.graph.walk.restricting import passage_ids
from phasegraph.sources import CallableSource, Gatherer, SourceSettings
from phasegraph.testing.contracts import SourceContract

CODE = [
    {"id": "a0", "title": "a.py", "text": "def read_file(path):\n    return open_file(path)"},
    {"id": "a1", "title": "a.py", "text": "def open_file(path):\n    return handle[path]"},
    {"id": "a2", "title": "a.py", "text": "class Other:\n    size = 3"},
    {"id": "b0", "title": "b.py", "text": "x = read_file(name); y = [x]; z = {y}"},
    {"id": "t0", "title": "", "text": "As Table 2 shows, reading is slow."},
    {"id": "t1", "title": "", "text": "Table 2. Seconds per file."},
]
VECTORS = np.array([[1, 0, 0], [0.6, 0.8, 0], [0, 1, 0], [0.9, 0, 0.4], [0, 0, 1], [0.1, 0, 1]])


def _pairs(link) -> set[tuple[int, int]]:
    rows = link.tocoo()
    return {(one, other) for one, other in zip(rows.row.tolist(), rows.col.tolist(), strict=True) if one < other}


def test_each_kind_of_edge_joins_what_it_should_and_nothing_else() -> None:
    together = build_chunk_graph(CODE, documents=["a.py"] * 3 + ["b.py"] + ["notes"] * 2, embeddings=VECTORS)
    assert {kind: _pairs(link) for kind, link in together.links.items()} == {
        "sequential": {(0, 1), (1, 2), (4, 5)},
        "semantic": {(0, 3), (1, 2), (4, 5)},
        "reference": {(4, 5)},
        "identifier": {(0, 1)},
    }
    assert together.kinds("t0", "t1") == ("sequential", "reference", "semantic")
    assert together.kinds("a0", "t0") == ()
    for link in together.links.values():
        assert (link != link.T).nnz == 0
        assert not link.diagonal().any()


def test_titles_are_documents_and_an_untitled_passage_stands_alone() -> None:
    graph = build_chunk_graph(CODE)
    assert graph.counts() == {"sequential": 2, "identifier": 1}


def test_references_join_documents_only_when_asked() -> None:
    assert "reference" not in build_chunk_graph(CODE).links
    across = build_chunk_graph(CODE, settings=ChunkSettings(across=True))
    assert _pairs(across.links["reference"]) == {(4, 5)}


def test_positions_decide_the_order_within_a_document() -> None:
    assert set(sequential(["d", "d", "e", "d"], [5.0, 1.0, 0.0, 3.0])) == {(1, 3), (3, 0)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See Sec. 2.1 and Figs. 3, Eq. (4).", ["section 2.1", "figure 3", "equation 4"]),
        ("chapter 7 [2, 3] and [12]", ["chapter 7", "[2]", "[3]", "[12]"]),
        ("a table of 3, array[i], [1999a] and portable 4", []),
    ],
)
def test_markers_have_one_spelling(text: str, expected: list[str]) -> None:
    assert list(markers(text)) == expected


def test_a_marker_or_identifier_held_by_too_many_joins_none() -> None:
    assert not list(references(["Table 1"] * 101, ["d"] * 101))
    assert len(list(references(["Table 1"] * 100, ["d"] * 100))) == 100 * 99 // 2
    assert not list(identifiers(["some_name"] * 13, ["d"] * 13, [True] * 13, 2, 12))
    assert len(list(identifiers(["some_name"] * 12, ["d"] * 12, [True] * 12, 2, 12))) == 66
    assert not list(identifiers(["abc return self"] * 3, ["d"] * 3, [True] * 3, 2, 12))


@settings(max_examples=repeats(25, 10), deadline=None, derandomize=True, database=None)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 1000))
def test_semantic_edges_are_those_of_a_full_comparison(count: int, nearest: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    wanted = set()
    for row in range(count):
        others = sorted((-cosines[row, other], other) for other in range(count) if other != row)
        wanted |= {tuple(sorted((row, other))) for value, other in others[:nearest] if -value >= 0.3}
    assert _pairs(semantic(vectors, 0.3, nearest)) == wanted


def test_code_is_told_from_prose() -> None:
    assert all(looks_like_code(one["text"]) for one in CODE[:4])
    assert not looks_like_code("Ada (a mathematician) met Bo; they sang in Paris (France) for years and years.")


def test_the_walk_reaches_what_the_vectors_did_not_and_says_how() -> None:
    source = ChunkGraphSource(build_chunk_graph(CODE, embeddings=VECTORS))
    ranking = source.search("how is a file read?", 10, {"vector": Ranking("vector", ["a0"], [0.9])})
    assert ranking.ids[0] == "a0"
    assert set(ranking.ids) == {"a0", "a1", "a2", "b0"}
    assert ranking.background is not None
    trail = ranking.payloads["a2"]
    assert [(node.kind, node.name) for node in trail.path] == [("passage", name) for name in ("a0", "a1", "a2")]
    assert trail.kinds == (("sequential", "identifier"), ("sequential", "semantic"))
    assert str(trail) == "[a0] —sequential+identifier> [a1] —sequential+semantic> [a2]"
    assert [(node.name, share) for node, share in trail.seeds] == [("a0", 1.0)]


def test_without_a_ranking_nothing_is_found_and_the_reason_is_given() -> None:
    ranking = ChunkGraphSource(build_chunk_graph(CODE)).search("read_file?", 10, {"vector": None})
    assert ranking.ids == ()
    said = "no ranking was handed over: the walk starts from the hits of 'vector'; without them, it needs "
    assert ranking.reason == f"{said}an embedder"
    blind = ChunkGraphSource(build_chunk_graph(CODE), embedder=lambda query: [1.0, 0.0, 0.0]).search("q?", 10, {})
    assert blind.reason == f"{said}graph.embeddings in addition to its embedder"
    other = {"vector": Ranking("vector", ["elsewhere"], [0.9])}
    found = ChunkGraphSource(build_chunk_graph(CODE)).search("q?", 10, other)
    assert found.reason == "the ranking that was handed over contains no chunk of the graph"


def test_a_corpus_without_a_single_edge_still_ranks_its_seeds() -> None:
    graph = build_chunk_graph([{"id": "1", "text": "x"}, {"id": "2", "text": "y"}])
    assert graph.counts() == {}
    found = ChunkGraphSource(graph).search("q", 5, {"vector": Ranking("vector", ["2", "1"], [0.9, 0.5])})
    assert found.ids == ("2", "1")


class TestChunkGraphSource(SourceContract):
    """The contract of every source."""

    name = "graph"
    depends_on = ("vector",)

    def upstream(self):
        return {"vector": Ranking("vector", ["a1", "t0"], [0.8, 0.4])}

    def make_source(self):
        return ChunkGraphSource(build_chunk_graph(CODE, embeddings=VECTORS), embedder=lambda query: [0.6, 0.8, 0.1])

    def test_answers_through_a_gatherer(self) -> None:
        """With the source it needs beside it: alone it has nothing to start from."""
        vector = CallableSource("vector", lambda query, limit: [("a1", 0.8), ("t0", 0.4)])
        gatherer = Gatherer({"vector": SourceSettings(), "graph": SourceSettings(depends_on=("vector",))})
        found = gatherer.gather({"graph": self.make_source(), "vector": vector}, "which file?")
        assert {ranking.source for ranking in found.rankings} == {"graph", "vector"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"documents": ["a"]}, "documents must have one item per passage"),
        ({"documents": [1] * 6}, "documents must contain only"),
        ({"positions": [0.0] * 5 + [float("nan")]}, "positions must be finite"),
        ({"positions": ["1"] * 6}, "positions must contain only"),
        ({"code": [True] * 7}, "code must have one item"),
        ({"embeddings": VECTORS[:5]}, "embeddings must have 6 rows"),
        ({"embeddings": VECTORS * np.nan}, "row 0 contains NaN"),
    ],
)
def test_bad_input_names_the_field(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        build_chunk_graph(CODE, **change)


@pytest.mark.parametrize(
    "change",
    [{"threshold": 0.0}, {"threshold": 1.1}, {"nearest": 0}, {"most": 2.5}, {"semantic": -1.0}, {"across": 1}],
)
def test_settings_out_of_range_name_the_field(change: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(change))):
        ChunkSettings(**change)


def test_it_cannot_be_saved_as_an_entity_graph_by_mistake(tmp_path) -> None:
    with pytest.raises(InvalidInputError, match="must be an EntityGraph"):
        save_graph(build_chunk_graph(CODE), tmp_path)


def test_a_saved_graph_comes_back_equal_to_the_bit(tmp_path) -> None:
    for graph in (build_chunk_graph(CODE, embeddings=VECTORS), build_chunk_graph(CODE[:1])):
        graph.save(tmp_path)
        for mmap in (True, False):
            back = ChunkGraph.load(tmp_path, mmap=mmap)
            assert back.passages == graph.passages
            assert list(back.links) == list(graph.links)
            for kind, link in graph.links.items():
                for part in ("data", "indices", "indptr"):
                    assert getattr(back.links[kind], part).tobytes() == getattr(link, part).tobytes()
            assert (back.embeddings is None) == (graph.embeddings is None)
            if graph.embeddings is not None:
                assert back.embeddings.tobytes() == graph.embeddings.tobytes()
            seeds = {"vector": Ranking("vector", ["a0"], [0.9])}
            one, two = (ChunkGraphSource(made).search("q", 9, seeds) for made in (graph, back))
            assert (one.ids, one.scores.tobytes()) == (two.ids, two.scores.tobytes())


def test_neither_kind_of_graph_is_read_as_the_other(tmp_path) -> None:
    build_chunk_graph(CODE).save(tmp_path / "chunks")
    save_graph(build_graph(CODE), tmp_path / "entities")
    assert (bundle_kind(tmp_path / "chunks"), bundle_kind(tmp_path / "entities")) == ("chunk-graph", "entity-graph")
    with pytest.raises(IntegrityError, match="must be of kind 'entity-graph'; got 'chunk-graph'"):
        load_graph(tmp_path / "chunks")
    with pytest.raises(IntegrityError, match="must be of kind 'chunk-graph'; got 'entity-graph'"):
        ChunkGraph.load(tmp_path / "entities")
    assert bundle_kind(tmp_path) == ""
    (tmp_path / "manifest.json").write_text("[]", encoding="utf-8")
    assert bundle_kind(tmp_path) == ""


def test_a_damaged_graph_is_refused(tmp_path) -> None:
    build_chunk_graph(CODE, embeddings=VECTORS).save(tmp_path)
    for file in sorted(tmp_path.glob("*.npy")):
        held = file.read_bytes()
        file.write_bytes(held[:-1] + bytes([held[-1] ^ 1]))
        with pytest.raises(IntegrityError):
            ChunkGraph.load(tmp_path)
        file.write_bytes(held)
    write_bundle(tmp_path, "chunk-graph", 1, {"passages": 2, "kinds": []}, packed("passages", ["a"]))
    with pytest.raises(IntegrityError, match=r"do not fit together: .* contain 1 passages, but the manifest states 2"):
        ChunkGraph.load(tmp_path)
    write_bundle(tmp_path, "chunk-graph", 1, {"passages": 1, "kinds": ["semantic"]}, packed("passages", ["a"]))
    with pytest.raises(IntegrityError, match="do not fit"):
        ChunkGraph.load(tmp_path)


def test_with_an_embedder_the_nearest_chunks_stand_in_for_a_ranking_that_is_not_there() -> None:
    asked = []

    def embed(query):
        asked.append(query)
        return VECTORS[2]

    source = ChunkGraphSource(build_chunk_graph(CODE, embeddings=VECTORS), embedder=embed)
    found = source.search("q", 10, {})
    assert asked == ["q"], "the query is embedded once"
    near = np.asarray(VECTORS, dtype=np.float64) @ np.asarray(VECTORS[2], dtype=np.float64)
    assert found.payloads[found.ids[0]].seeds[0][0].name == CODE[int(near.argmax())]["id"]
    assert source.search("q", 10, {"vector": None}).ids == found.ids
    assert source.search("q", 10, {"vector": Ranking("vector", (), ())}).ids == ()
    plain = ChunkGraphSource(build_chunk_graph(CODE), embedder=embed)
    assert plain.search("q", 10, {}).ids == (), "there are no embeddings to compare"


def test_within_the_allowed_chunks_the_others_are_neither_walked_nor_named() -> None:
    graph = build_chunk_graph(CODE, embeddings=VECTORS)
    source = ChunkGraphSource(graph)
    seeds = {"vector": Ranking("vector", ["a0", "b0"], [0.9, 0.8])}
    allowed = {"a0", "a1", "t0"}
    assert set(source.search("q", 10, seeds).ids) == {"a0", "a1", "a2", "b0"}
    assert set(source.within({"a0", "a2"}).search("q", 10, seeds).ids) == {"a0"}, "what joined them is not allowed"
    for test in (allowed, lambda name: name in allowed):
        found = source.within(test).search("q", 10, seeds)
        assert set(found.ids) == {"a0", "a1"}
        steps = {node.name for path in found.payloads.values() for node in path.path}
        steps |= {node.name for path in found.payloads.values() for node, _ in path.seeds}
        assert steps <= allowed
    assert graph.within(allowed) is graph.within(sorted(allowed))
    assert graph.within(graph.passages) is graph
    assert graph.within(()) is None
    nothing = source.within(()).search("q", 10, seeds)
    assert (nothing.ids, nothing.reason) == ((), "no chunk of the graph is allowed")
    assert passage_ids(source) == graph.passages
    with pytest.raises(InvalidTypeError, match="allowed must be"):
        graph.within("a0")


def test_only_so_many_parts_are_kept() -> None:
    graph = build_chunk_graph([{"id": str(row), "text": "x"} for row in range(20)])
    first = graph.within({"0"})
    for row in range(1, 17):
        graph.within({str(row)})
    assert graph.within({"0"}) is not first
