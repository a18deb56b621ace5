"""A large index that changes: a log beside its arrays, walked with them, and merged to the bit of a new index."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import os
import pickle
import random
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from repeats import repeats
from tests.graph_bits import same_graph
from tests.suites.corpus import run_here

from phasegraph import InvalidInputError
from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.graph import (
    EntityGraph,
    Extraction,
    FactIndex,
    GraphIndex,
    GraphSource,
    LexicalSource,
    VectorSource,
    WalkSettings,
    load_graph,
)
from phasegraph.graph.corpus.corpus import Corpus
from phasegraph.graph.corpus.folder import Folder
from phasegraph.graph.index.combined_arrays import StackedRows, StackedTexts
from phasegraph.graph.index.logged_graph import LoggedGraph
from phasegraph.graph.walk.restricting import restrict_graph
from phasegraph.ranking import Ranking

NAMES = ["Ada", "Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Łukasz"]
PLACES = ["Paris", "Rome", "Oslo"]
QUESTIONS = [f"Whom did {name} {number * 4} meet in {PLACES[number % 3]}?" for number, name in enumerate(NAMES)]


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every index counts as large, no round of a walk as dense, and names stay packed in mapped files."""
    monkeypatch.setattr("phasegraph.graph.index.graph_index.LOGGED", 0)
    for module in ("walk.source", "flat"):
        monkeypatch.setattr(f"phasegraph.graph.{module}.COMPARED", -1)
    monkeypatch.setattr("phasegraph.pagerank.push.DENSE_SHARE", 1e9)
    monkeypatch.setattr("phasegraph.graph.model.storage.PACKED_BYTES", 0)
    monkeypatch.setattr("phasegraph._support.serialization.MAPPED_BYTES", 64)


class World:
    """A corpus that is drawn at random, and everything there is to rebuild it."""

    def __init__(self, seed: int, size: int) -> None:
        self.draw, self.made = random.Random(seed), 0
        self.passages: list[dict[str, Any]] = []
        self.triples: dict[str, list[tuple[str, str, str]]] = {}
        self.come(size)

    def come(self, count: int, back: str = "") -> tuple[list[dict[str, Any]], dict[str, list[tuple[str, str, str]]]]:
        """So many passages more, one of them with the id of one that left."""
        draw, fresh = self.draw, []
        for number in range(self.made, self.made + count):
            names = [draw.choice(NAMES) + (f" {draw.randrange(30)}" if draw.random() < 0.7 else "") for _ in range(3)]
            text = f"{names[0]} met {names[1]} and sang of {names[2]} in {draw.choice(PLACES)}."
            title = f"{draw.choice(NAMES)} {number % 40}" if draw.random() < 0.8 else ""
            fresh.append({"id": f"p{number}", "title": title, "text": text})
        self.made += count
        if back and fresh:
            fresh[0]["id"] = back
        triples = {
            one["id"]: [(one["title"] or "Ada", "met", "Bo"), ("Cy", "saw", one["title"] or "Di")]
            for one in fresh
            if draw.random() < 0.5
        }
        self.passages += fresh
        self.triples |= triples
        return fresh, triples

    def leave(self, count: int) -> list[str]:
        """So many passages less."""
        gone = self.draw.sample([one["id"] for one in self.passages], count)
        self.passages = [one for one in self.passages if one["id"] not in gone]
        self.triples = {name: each for name, each in self.triples.items() if name not in gone}
        return gone

    def index(self) -> GraphIndex:
        """An index of what there is."""
        return GraphIndex.build(
            self.passages, triples=self.triples, embeddings=vectors(self.passages), known_names=["Oslo"]
        )


def vectors(passages: list[dict[str, Any]]) -> Any:
    return np.array([np.random.default_rng(int(one["id"][1:])).normal(size=8) for one in passages]).reshape(-1, 8)


def changed(world: World, index: GraphIndex, steps: int) -> GraphIndex:
    for _ in range(steps):
        gone = world.leave(world.draw.randrange(5))
        fresh, triples = (
            world.come(world.draw.randrange(6), gone[0] if gone and world.draw.random() < 0.5 else "")
            if world.draw.random() < 0.8
            else ([], {})
        )
        if fresh:
            index = index.replace(gone, fresh, triples=triples, embeddings=vectors(fresh))
        elif gone:
            index = index.remove(gone)
    return index


def answers_as(one: EntityGraph, other: EntityGraph) -> None:
    """Assert that searches by lists find the same, but for the order in which sums are rounded."""
    for number, question in enumerate(QUESTIONS):
        vector = np.random.default_rng(number).normal(size=8)
        both: list[list[Ranking]] = []
        dense = VectorSource(other, embedder=lambda _: vector).search(question, 20, {})  # noqa: B023
        for graph in (one, other):
            near = VectorSource(graph, embedder=lambda _: vector).search(question, 20, {})  # noqa: B023
            words = LexicalSource(graph).search(question, 20, {})
            alone = GraphSource(graph).search(question, 20, {"vector": dense})
            source = GraphSource(graph, embedder=lambda _: vector)  # noqa: B023
            both.append([near, words, alone, source.search(question, 20, {"vector": dense})])
        assert both[0][0].ids == both[1][0].ids  # a product of matrices rounds by their sizes
        assert np.allclose(both[0][0].scores, both[1][0].scores, rtol=1e-5)
        for found, wanted in zip(both[0][1:], both[1][1:], strict=True):
            assert found.size == wanted.size
            assert found.words == wanted.words
            assert np.allclose(found.scores, wanted.scores, rtol=1e-9, atol=0)
            clear = np.abs(np.diff(wanted.scores)) > 1e-9 * wanted.scores[1:]  # ties may change places
            if clear.all():
                assert found.ids == wanted.ids
            if found.background is not None and wanted.background is not None:
                assert found.background.location == pytest.approx(wanted.background.location, rel=1e-9)
                assert found.background.scale == pytest.approx(wanted.background.scale, rel=1e-9)
        path = both[0][3].payloads[both[0][3].ids[0]]
        assert path.path[-1].name == both[0][3].ids[0]
        assert path.words == both[1][3].payloads[both[0][3].ids[0]].words


def edges_of(graph: EntityGraph) -> dict[str, dict[str, float]]:
    """The weights of the edges from each existing passage and entity, by names."""
    names = [*graph.passages, *graph.entities]
    first = len(graph.passages)
    rows = [*graph.passage_rows.values(), *(first + graph.entity_rows[one] for one in graph.entities
            if one in graph.entity_rows)]  # fmt: skip
    walk: Any = graph.operator
    found = {}
    for node in rows:
        at = np.array([node])
        edges = walk.indptr.take(at)[0] + np.arange(int(walk.out_degrees.take(at)[0]))
        targets = [names[target] for target in walk.indices.take(edges).tolist()]
        assert len(set(targets)) == len(targets), names[node]
        found[names[node]] = dict(zip(targets, walk.weights.take(edges).tolist(), strict=True))
        weight = walk.inverse_out[at][0] if len(edges) else 0.0
        assert weight == pytest.approx(1 / sum(found[names[node]].values()) if len(edges) else 0.0, rel=1e-5)
    return found


@pytest.mark.parametrize(
    ("seed", "stored"), repeats(list(itertools.product(range(3), (True, False))), [(0, False), (1, True)])
)
def test_a_log_finds_what_a_new_index_finds_and_merges_to_its_bits(tmp_path: Path, seed: int, stored: bool) -> None:
    world = World(seed, (20, 60, 120)[seed % 3])
    index = world.index()
    if stored:
        index.save(tmp_path)
        index = GraphIndex.load(tmp_path)
    for _ in range(3):
        index = changed(world, index, 2)
        assert index.log is not None
        whole = world.index()
        assert list(index.records) == list(whole.records)
        answers_as(index.graph, whole.graph)
        found, wanted = edges_of(index.graph.view), edges_of(whole.graph)
        assert found.keys() == wanted.keys()
        for name, edges in wanted.items():
            assert found[name] == pytest.approx(edges, rel=1e-6), name
        titles = [dict(zip(one.passages, one.titles_at(np.arange(len(one.passages))).tolist(), strict=True))
                  for one in (index.graph.view, whole.graph)]  # fmt: skip
        for name in whole.graph.passages:
            rows = [[one.entities[row] if 0 <= row < len(one.entities) else "" for row in each[name]]
                    for one, each in zip((index.graph.view, whole.graph), titles, strict=True)]  # fmt: skip
            assert set(rows[0]) == set(rows[1])
        assert "whole" not in vars(index.graph)  # nothing was merged for it
        same_graph(index.graph, whole.graph)
    merged = index.compact()
    assert merged.log is None
    assert merged.graph is index.compact().graph
    for name in merged.records:
        assert dataclasses.asdict(merged.records[name]) == dataclasses.asdict(index.records[name])
    same_graph(changed(world, merged, 1).compact().graph, world.index().graph)


@pytest.mark.parametrize("seed", range(3))
def test_the_kernels_walk_over_a_log_to_the_same_bits(seed: int) -> None:
    pytest.importorskip("numba")
    world = World(seed, (20, 40, 120)[seed])
    graph = changed(world, world.index(), 3).graph
    for number, question in enumerate(QUESTIONS):
        vector = np.random.default_rng(number).normal(size=8)
        dense = VectorSource(graph, embedder=lambda _: vector).search(question, 20, {})  # noqa: B023
        plain, compiled = (
            GraphSource(graph, embedder=lambda _: vector, walk=WalkSettings(kernel=kernel))  # noqa: B023
            .prepare()
            .search(question, 20, {"vector": dense})
            for kernel in ("numpy", "compiled")
        )
        assert (plain.ids, plain.background) == (compiled.ids, compiled.background)
        assert plain.scores.tobytes() == compiled.scores.tobytes()


def test_an_entity_that_gets_too_common_or_a_title_loses_its_edges_or_gets_them() -> None:
    """What changes for passages that the change itself leaves alone."""
    passages = [{"id": f"p{n}", "text": f"Ada met Bo{n}."} for n in range(11)]
    index = GraphIndex.build(passages)
    for change in (
        lambda now: now.remove(["p3", "p4"]),  # ada is in nine passages, no longer too common
        lambda now: now.add([{"id": "q1", "text": "Ada sang with Bo5."}, {"id": "q2", "text": "Ada. Ada."}]),
        lambda now: now.add([{"id": "t", "title": "Ada", "text": "Ada was a poet."}]),  # a passage is about her
        lambda now: now.remove(["t", "q1"]),
    ):
        index = change(index)
        whole = GraphIndex.build(
            [{"id": one.id, "title": one.title, "text": one.text} for one in index.records.values()]
        )
        for question in ("Who met Ada?", "Bo5 and Ada", "Bo5"):
            found, wanted = (GraphSource(one).search(question, 9, {}) for one in (index.graph, whole.graph))
            assert dict(zip(found.ids, found.scores, strict=True)) == pytest.approx(
                dict(zip(wanted.ids, wanted.scores, strict=True)), rel=1e-9
            )


def test_the_passage_about_an_entity_leaves_the_base_and_the_entity_is_too_common_again() -> None:
    """The passage has other names before and after its title's, which is the first entity of all, or the last."""
    for name in ("Ada", "Zoe"):
        texts = {f"p{n}": f"{name} met Bo{n}." for n in range(11)}
        passages = [{"id": key, "text": text} for key, text in texts.items()]
        home = {"id": "home", "title": name, "text": f"Bo1 knew {name}, Cy and Yak."}
        index = GraphIndex.build([*passages[:4], home, *passages[4:]]).remove(["home"])
        whole = GraphIndex.build(passages)
        assert edges_of(index.graph.view) == edges_of(whole.graph)
        again = index.add([home])
        assert edges_of(again.graph.view)[name.lower()].keys() == {*texts, "home"}


def test_whether_a_title_gives_a_name_is_read_from_base_and_log() -> None:
    passages = [
        {"id": "a", "title": "Bo", "text": "Bo sang of Ada."},
        {"id": "b", "title": "", "text": "Then they saw Ada. They saw Bo."},
        {"id": "c", "title": "Ada", "text": "Ada sang of Cy."},
        {"id": "d", "title": "Ada", "text": "She met Bo."},
    ]
    log = GraphIndex.build(passages).add([{"id": "e", "title": "Eve", "text": "Eve met Cy."}]).log
    assert log is not None
    for name, homes in (("ada", {"c", "d"}), ("bo", {"a"}), ("eve", {"e"}), ("cy", set()), ("nobody", set())):
        assert log.give(name) == bool(homes), name
        assert not log.give(name, without=homes)
        assert all(log.give(name, without=homes - {one}) for one in homes)
    for least in (1, 2):
        columns = np.arange(len(log.base.entities))
        rows, place = log.homes_of(columns, least)
        kinds = log.base.homes.toarray()
        wanted = {(row, column) for row, column in zip(*np.nonzero(kinds >= least), strict=True)}
        assert sorted(zip(rows.tolist(), columns[place].tolist(), strict=True)) == sorted(wanted)


def test_stacked_arrays_are_read_by_one_row_as_by_many() -> None:
    first, more = np.arange(6.0).reshape(3, 2), np.arange(6.0, 10.0).reshape(2, 2)
    stacked, texts = StackedRows(first, more), StackedTexts(("a", "b"), ("c",))
    whole = np.concatenate([first, more])
    assert (len(stacked), stacked.shape, stacked.dtype) == (5, (5, 2), np.float64)
    for row in range(5):
        assert stacked[row].tolist() == whole[row].tolist()
    assert stacked[np.array([4, 0, 3, 2])].tolist() == whole[[4, 0, 3, 2]].tolist()
    assert stacked.times(np.array([1.0, 2.0])).tolist() == (whole @ [1.0, 2.0]).tolist()
    assert [texts[row] for row in range(3)] == list(texts) == list(texts[:]) == ["a", "b", "c"]
    assert (texts[1:3], len(texts)) == (("b", "c"), 3)


def test_facts_come_and_go_with_the_passages_that_state_them() -> None:
    passages = [{"id": name, "text": f"{name.upper()} sang."} for name in ("ada", "bo", "cy")]
    triples = {"ada": [("Ada", "met", "Dee")], "bo": [("Dee", "met", "Ada")]}
    index = GraphIndex.build(passages, triples=triples).remove(["ada"])
    index = index.add([{"id": "e", "text": "Eve sang."}], triples={"e": [("Eve", "met", "Dee"), ("Ada", "x", "Eve")]})
    view, whole = index.graph.view, index.compact().graph
    for one in whole.entities:
        row, own = whole.entity_rows[one], view.entity_rows[one]
        walk: Any = view.operator
        node = np.array([own + len(view.passages)])
        count = int(walk.out_degrees.take(node)[0])
        edges = walk.indptr.take(node)[0] + np.arange(count)
        names = [(*view.passages, *view.entities)[target] for target in walk.indices.take(edges)]
        found = dict(zip(names, walk.weights.take(edges).tolist(), strict=True))
        there = slice(*whole.operator.indptr[row + 4 - 1 : row + 4 - 1 + 2])
        wanted = [(*whole.passages, *whole.entities)[target] for target in whole.operator.indices[there]]
        assert found == dict(zip(wanted, whole.operator.weights[there].tolist(), strict=True))


def test_what_the_log_does_not_serve_is_asked_of_the_merged_graph() -> None:
    world = World(1, 30)
    index = changed(world, world.index(), 3)
    whole, vector = world.index().graph, np.ones(8)
    found, wanted = (GraphSource(one, embedder=lambda _: vector) for one in (index.graph, whole))
    for question in QUESTIONS[:5]:
        assert found.search(question, None, {}).ids == wanted.search(question, None, {}).ids
        assert found.search(question, 9, {}).scores.tolist() == wanted.search(question, 9, {}).scores.tolist()
    allowed = set(whole.passages[::2])
    part = restrict_graph(index.graph, allowed)
    assert part is not None
    assert set(part.passages) == allowed
    facts = FactIndex.of_names(index.graph, whole.entities[:5], np.eye(5, 8))
    by_facts = [GraphSource(one, embedder=lambda _: vector, facts=facts) for one in (index.graph, whole)]
    ranking = {"vector": Ranking("vector", whole.passages[:5], np.linspace(0.9, 0.5, 5))}
    one, other = (source.search(QUESTIONS[0], 9, ranking) for source in by_facts)
    assert one.ids == other.ids


def test_copies_hold_the_merged_graph() -> None:
    world = World(2, 30)
    index = changed(world, world.index(), 2)
    for made in (pickle.loads(pickle.dumps(index)), copy.deepcopy(index)):  # noqa: S301
        assert made.log is None
        same_graph(made.graph, index.graph)
    without = dataclasses.replace(index.graph, lexical=None)
    assert isinstance(without, EntityGraph)
    assert (without.lexical, without.view.lexical, without.passages) == (None, None, index.graph.passages)
    same_graph(dataclasses.replace(without, lexical=index.graph.lexical), index.graph)
    assert type(copy.copy(index.graph)) is EntityGraph
    assert isinstance(index.graph, LoggedGraph)
    assert f"{len(world.passages)} passages" in repr(index.graph)


def test_a_change_that_cannot_be_made_names_what_is_wrong() -> None:
    world = World(3, 10)
    index = changed(world, world.index(), 2)
    ids = [one["id"] for one in world.passages]
    left = next(f"p{number}" for number in range(world.made) if f"p{number}" not in ids)
    with pytest.raises(InvalidInputError, match=left):
        index.remove([left])
    with pytest.raises(InvalidInputError, match="already in the index"):
        index.add([{"id": ids[0], "text": "x"}], embeddings=[[0.0] * 8])
    with pytest.raises(InvalidInputError, match="this index has embeddings"):
        index.add([{"id": "new", "text": "x"}])
    with pytest.raises(InvalidInputError, match="shape"):
        index.add([{"id": "new", "text": "x"}], embeddings=[[1.0]])
    assert index.remove(ids).graph.passages == ()


def test_extractions_that_name_titles_are_kept_apart_from_titles() -> None:
    passages = [{"id": f"p{n}", "title": f"Name{n}", "text": f"Name{n} met Zoe Zed."} for n in range(5)]
    index = GraphIndex.build(passages, triples=[Extraction("p1", titles=["zoe zed"])]).remove(["p0"])
    more = {"id": "new", "title": "", "text": "They saw zoe Zed in Name2."}
    whole = GraphIndex.build([*passages[1:], more], triples=[Extraction("p1", titles=["zoe zed"])])
    found = index.add([more])
    assert found.records["new"].found == whole.records["new"].found
    assert found.compact().graph.entities == whole.graph.entities


def test_a_folder_opens_with_its_log_and_merges_it_in_the_background_when_it_gets_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phasegraph.graph.corpus.merging.run_apart", run_here)
    monkeypatch.setattr("phasegraph.graph.corpus.merging.FEWEST_CHANGED", 12)
    monkeypatch.setattr("phasegraph.graph.corpus.merging.MOST_CHANGED", 0.0)
    world = World(4, 40)
    folder = Folder.create(tmp_path / "kept", world.index(), {})
    index, _ = folder.load()
    corpus = Corpus(index, lambda _: np.ones(8), folder=folder)
    lengths = []
    for _ in range(6):
        gone = world.leave(2)
        fresh, _ = world.come(2)
        world.triples = {}
        corpus.replace(gone, [{**one, "metadata": {}} for one in fresh], vectors(fresh))
        corpus.settle()
        lengths.append(len(list((tmp_path / "kept" / "changes").glob("0*"))))
        again, behind = Folder(tmp_path / "kept").load()
        assert list(again.records) == list(corpus.index.records)
        assert not behind
        assert (again.log is None) == (lengths[-1] == 0)
        for name in again.records:
            assert again.records[name].found == corpus.index.records[name].found
        same_graph(again.graph, corpus.index.graph)
    assert lengths == [1, 2, 3, 0, 1, 2]
    assert corpus.index.log is not None
    assert len(load_graph(tmp_path / "kept" / "graph").passages) == 40


def test_a_corpus_in_memory_merges_its_log_when_it_gets_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every change would take longer than the one before."""
    monkeypatch.setattr("phasegraph.graph.corpus.merging.FEWEST_CHANGED", 12)
    world = World(4, 40)
    corpus = Corpus(world.index(), lambda _: np.ones(8))
    merged = []
    for _ in range(5):
        gone = world.leave(2)
        fresh, _ = world.come(2)
        corpus.replace(gone, [{**one, "metadata": {}} for one in fresh], vectors(fresh))
        corpus.settle()
        merged.append(corpus.index.log is None)
        assert corpus.graph.graph is corpus.index.graph
        assert list(corpus.index.records) == [one["id"] for one in world.passages]
    assert True in merged
    assert False in merged


@pytest.mark.parametrize("kept", [False, True])
def test_changes_that_are_made_while_the_log_is_merged_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    monkeypatch.setattr("phasegraph.graph.corpus.merging.FEWEST_CHANGED", 0)
    monkeypatch.setattr("phasegraph.graph.corpus.merging.MOST_CHANGED", 0.0)
    begun, go_on, compact = threading.Event(), threading.Event(), GraphIndex.compact

    def waited() -> None:
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            assert go_on.wait(60)

    def merged(module: str, function: str, arguments: list[str], seconds: float) -> str:
        waited()
        return run_here(module, function, arguments, seconds)

    def compacted(index: GraphIndex) -> GraphIndex:
        waited()
        return compact(index)

    monkeypatch.setattr("phasegraph.graph.corpus.merging.run_apart", merged)
    world = World(4, 40)
    world.triples = {}
    folder = Folder.create(tmp_path / "kept", world.index(), {}) if kept else None
    corpus = Corpus(folder.load()[0] if folder else world.index(), lambda _: np.ones(8), folder=folder)

    def change() -> None:
        gone = world.leave(2)
        fresh, _ = world.come(2)
        world.triples = {}
        corpus.replace(gone, [{**one, "metadata": {}} for one in fresh], vectors(fresh))

    with monkeypatch.context() as patch:
        patch.setattr(GraphIndex, "compact", compacted)
        change()
        assert begun.wait(60)
        before = corpus.state
        found = before.graph.search(QUESTIONS[0], 5, {}).ids
        for _ in range(2):
            change()  # neither waits for the merge nor is lost
        go_on.set()
        corpus.settle()
    assert corpus.state.version == before.version + 2
    assert list(corpus.index.records) == [one["id"] for one in world.passages]
    same_graph(corpus.index.graph, world.index().graph)
    assert before.graph.search(QUESTIONS[0], 5, {}).ids == found
    if kept:
        again = Folder(tmp_path / "kept").load()[0]
        same_graph(again.graph, world.index().graph)
        assert again.log is None or len(again.log.came) <= 4


def test_vectors_of_another_model_that_come_while_the_log_is_merged_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasegraph.graph.corpus.merging.FEWEST_CHANGED", 0)
    monkeypatch.setattr("phasegraph.graph.corpus.merging.MOST_CHANGED", 0.0)
    begun, go_on, compact = threading.Event(), threading.Event(), GraphIndex.compact

    def compacted(index: GraphIndex) -> GraphIndex:
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            assert go_on.wait(60)
        return compact(index)

    world = World(4, 40)
    corpus = Corpus(world.index(), lambda _: np.ones(8))
    with monkeypatch.context() as patch:
        patch.setattr(GraphIndex, "compact", compacted)
        gone = world.leave(2)
        fresh, _ = world.come(2)
        corpus.replace(gone, [{**one, "metadata": {}} for one in fresh], vectors(fresh))
        assert begun.wait(60)
        model = EmbeddingModel(SimpleNamespace(model_name="other"), lambda _: np.ones(4), lambda rows: rows)
        corpus.reembed(model, np.eye(4)[np.arange(40) % 4])
        go_on.set()
        corpus.settle()
    assert corpus.graph.search(QUESTIONS[0], 5, {}).ids
    assert corpus.index.graph.embeddings is not None
    assert corpus.index.graph.embeddings.shape == (40, 4)


def test_a_file_that_is_cut_off_is_said_and_not_looked_into(tmp_path: Path) -> None:
    from phasegraph import IntegrityError

    world = World(5, 60)
    world.index().save(tmp_path)
    index = changed(world, GraphIndex.load(tmp_path), 1)
    source = GraphSource(index.graph)
    assert source.search(QUESTIONS[0], 5, {}).ids
    largest = max(tmp_path.glob("mentions_indices.*.npy"), key=lambda file: file.stat().st_size)
    os.truncate(largest, 64)
    with pytest.raises(IntegrityError, match="was truncated"):
        source.search(QUESTIONS[0], 5, {})
    with pytest.raises(IntegrityError, match="was truncated"):
        index.remove([world.passages[0]["id"]])


@pytest.mark.parametrize("part", ["walk_indices", "entities_text", "passages_order", "name_word_rows", "lexical_rows"])
def test_no_file_of_a_large_index_is_looked_into_when_it_is_cut_off(tmp_path: Path, part: str) -> None:
    """Whatever searches and changes read, and merging, which would take over what is gone as zeros."""
    from phasegraph import IntegrityError

    world = World(5, 60)
    world.index().save(tmp_path)
    index = changed(world, GraphIndex.load(tmp_path), 3)
    assert index.log is not None
    os.truncate(next(tmp_path.glob(f"{part}.*.npy")), 64)
    for look in (
        index.compact,
        lambda: index.save(tmp_path / "again"),
        lambda: index.remove([world.passages[0]["id"]]),
        lambda: GraphSource(index.graph).search(QUESTIONS[0], 5, {}),
    ):
        with pytest.raises(IntegrityError, match="was truncated"):
            look()
