"""A walk within what the asker may see: nothing else is walked through, scored, returned or named."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from repeats import repeats

from phasegraph import InvalidInputError, InvalidTypeError, Ranking
from phasegraph._support.packed import PackedTexts
from phasegraph.graph import (
    Extraction,
    GraphSource,
    WalkSettings,
    build_graph,
    graph_from_extractions,
    load_graph,
    save_graph,
)
from phasegraph.graph.walk.facts import FactIndex
from phasegraph.graph.walk.restricting import restrict_graph
from phasegraph.lexical import LexicalIndex

NAMES = ["ada", "bo", "cy", "dee", "eve"]
TEXTS = st.lists(
    st.tuples(st.booleans(), st.lists(st.sampled_from(NAMES), min_size=1, max_size=4), st.booleans()),
    min_size=2,
    max_size=8,
)


def record(name, entities, stated, title=False):
    triples = [(entities[0], "met", entities[-1])] if stated and len(set(entities)) > 1 else []
    return Extraction(name, entities=entities, triples=triples, titles=entities[:1] if title else ())


def divided(texts):
    """All records, and the records of the allowed passages, of which there must be at least one."""
    rows = [record(f"p{i}", entities, stated) for i, (_, entities, stated) in enumerate(texts)]
    mine = [row for row, (allowed, _, _) in zip(rows, texts, strict=True) if allowed]
    assume(mine)
    return rows, mine


def graph_of(rows):
    return graph_from_extractions([one.passage_id for one in rows], rows)


@given(TEXTS)
@settings(max_examples=repeats(60, 15), deadline=None)
def test_without_facts_it_is_the_graph_that_never_held_the_others(texts):
    rows = [record(f"p{i}", entities, False, title) for i, (_, entities, title) in enumerate(texts)]
    mine = [row for row, (allowed, _, _) in zip(rows, texts, strict=True) if allowed]
    found = restrict_graph(graph_of(rows), {row.passage_id for row in mine})
    if not mine:
        assert found is None
        return
    alone = graph_of(mine)
    assert (found.passages, found.entities) == (alone.passages, alone.entities)
    for name in ("mentions", "homes", "facts", "adjacency"):
        assert (getattr(found, name) != getattr(alone, name)).nnz == 0
    for query in ("Ada?", "Bo and Cy?"):
        handed = Ranking("vector", ["p0", "p1"], np.array([0.9, 0.5]))
        inside = GraphSource(graph_of(rows)).within(set(found.passages)).search(query, 10, {"vector": handed})
        near = [(n, s) for n, s in zip(handed.ids, handed.scores, strict=True) if n in found.passage_rows]
        seeds = {"vector": Ranking("vector", [n for n, _ in near], np.array([s for _, s in near]))} if near else {}
        apart = GraphSource(alone).search(query, 10, seeds)
        assert inside.ids == apart.ids
        assert inside.scores.tobytes() == apart.scores.tobytes()
        assert inside.background == apart.background


@given(TEXTS)
@settings(max_examples=repeats(60, 15), deadline=None)
def test_no_fact_of_another_is_walked(texts):
    rows, mine = divided(texts)
    found, alone = restrict_graph(graph_of(rows), {row.passage_id for row in mine}), graph_of(mine)
    assert ((found.facts - alone.facts) > 0).nnz == 0


def test_a_fact_stays_where_nobody_else_names_both_its_ends():
    rows = [record("a", ["ada", "bo"], True), record("b", ["bo", "cy"], True), record("c", ["ada", "bo"], True)]
    assert restrict_graph(graph_of(rows), {"b"}).facts.sum() == 2
    assert restrict_graph(graph_of(rows), {"a", "c"}).facts.sum() == 4
    assert restrict_graph(graph_of(rows), {"a"}).facts.nnz == 0


def test_neither_path_nor_seeds_nor_scores_show_what_is_hidden():
    rows = [record("mine", ["ada", "bo"], True), record("theirs", ["bo", "secret"], True), record("far", ["cy"], False)]
    source = GraphSource(graph_of(rows)).within(lambda name: name != "theirs")
    handed = Ranking("vector", ["theirs", "mine"], np.array([0.99, 0.5]))
    found = source.search("Ada and Secret?", 10, {"vector": handed})
    assert found.ids == ("mine",)
    assert found.size == 2
    trail = found.payloads["mine"]
    named = {step.name for step, _ in trail.seeds} | {step.name for step in trail.path}
    assert not named & {"theirs", "secret"}


def test_nothing_allowed_is_an_empty_answer_and_all_allowed_the_graph_itself():
    graph = graph_of([record("a", ["ada"], False)])
    source = GraphSource(graph)
    empty = source.within(())
    assert (empty.search("Ada?", 5, {}).ids, empty.graph) == ((), None)
    assert empty.search("Ada?", 5, {}).reason == "no passage of the graph is allowed"
    assert source.within({"a"}).graph is graph
    assert (empty.name, empty.depends_on) == ("graph", ("vector",))


def test_the_same_passages_share_one_graph_and_many_kinds_of_asker_do_not_fill_the_memory():
    rows = [record(f"p{i}", ["ada", "bo"], False) for i in range(30)]
    graph = graph_of(rows)
    first = restrict_graph(graph, {"p0", "p1"})
    assert restrict_graph(graph, lambda name: name in {"p0", "p1"}) is first
    for i in range(30):
        restrict_graph(graph, {f"p{i}"})
    assert restrict_graph(graph, {"p0", "p1"}) is not first


def test_embeddings_go_with_their_passages():
    rows = [record("a", ["ada"], False), record("b", ["ada"], False)]
    graph = graph_from_extractions(["a", "b"], rows, embeddings=[[1.0, 0.0], [0.0, 1.0]])
    assert restrict_graph(graph, {"b"}).embeddings.tolist() == [[0.0, 1.0]]


def test_what_is_read_follows_what_is_allowed(tmp_path, monkeypatch):
    rows = [record(f"p{i}", ["ada", "bo", f"n{i}"], i % 40 == 0, title=i == 1) for i in range(400)]
    texts = [f"Ada met Bo and N{i}." for i in range(400)]
    save_graph(graph_from_extractions([row.passage_id for row in rows], rows, texts=texts), tmp_path / "graph")
    allowed, asked = {"p1", "p40", "p207", "nobody"}, "Who met Ada and N207?"
    monkeypatch.setattr("phasegraph.lexical.index._FEW", 400)
    expected = GraphSource(load_graph(tmp_path / "graph")).within(lambda name: name in allowed).search(asked, 9, {})
    monkeypatch.undo()

    def never(*given):
        raise AssertionError("a pass over all words")

    source, raw, read = GraphSource(load_graph(tmp_path / "graph")).prepare(), PackedTexts.raw, []
    monkeypatch.setattr(LexicalIndex, "replaced", never)
    monkeypatch.setattr(PackedTexts, "raw", lambda self, row: read.append(row) or raw(self, row))
    part = source.within(allowed)
    assert part.graph.passages == ("p1", "p40", "p207")
    assert len(read) < 100
    found = part.search(asked, 9, {})
    assert (found.ids, found.scores.tobytes()) == (expected.ids, expected.scores.tobytes())
    assert found.background == expected.background


def test_what_cannot_be_restricted_is_named():
    graph = graph_of([record("a", ["ada", "bo"], True)])
    with pytest.raises(InvalidTypeError, match="allowed must be a function of a passage id or a collection"):
        restrict_graph(graph, "a")
    with pytest.raises(InvalidTypeError, match="allowed must contain passage ids"):
        GraphSource(graph).within([3])


def facts_of(rows):
    """Every fact of the records, with a vector of its own that depends on nothing else."""
    rng = {name: np.random.default_rng(number).normal(size=4) for number, name in enumerate(NAMES)}
    return FactIndex.of_extractions(
        graph_of(rows), rows, lambda texts: [rng[text.split()[0]] + 2 * rng[text.split()[-1]] for text in texts]
    )


def found_by(index, graph):
    """What an index can find, by name."""
    names = [*graph.entities, None]
    return sorted(
        (tuple(names[row] for row in ends), vector.tobytes())
        for ends, vector in zip(index.ends, index.embeddings, strict=True)
    )


@given(TEXTS)
@settings(max_examples=repeats(60, 15), deadline=None)
def test_facts_whose_passages_are_known_are_those_of_the_index_that_never_held_the_others(texts):
    rows, mine = divided(texts)
    whole, alone = graph_of(rows), graph_of(mine)
    part = restrict_graph(whole, {row.passage_id for row in mine})
    assert found_by(facts_of(rows).within(whole, part), part) == found_by(facts_of(mine), alone)


@given(TEXTS)
@settings(max_examples=repeats(60, 15), deadline=None)
def test_facts_whose_passages_are_not_known_are_found_only_where_no_hidden_passage_names_both_ends(texts):
    rows, mine = divided(texts)
    whole, known = graph_of(rows), facts_of(rows)
    part = restrict_graph(whole, {row.passage_id for row in mine})
    left = FactIndex(known.ends, known.embeddings).within(whole, part)
    assert set(found_by(left, part)) <= set(found_by(facts_of(mine), graph_of(mine)))
    linked = {frozenset(pair) for pair in np.argwhere(part.facts.toarray() > 0).tolist()}
    assert {frozenset(pair) for pair in left.ends.tolist()} == linked


def test_names_are_those_of_the_entities_that_are_left_beside_facts_or_alone():
    rows = [record("a", ["ada", "bo"], True), record("b", ["cy", "bo"], True)]
    whole = graph_of(rows)
    part = restrict_graph(whole, {"b"})
    names = FactIndex.of_names(whole, whole.entities, np.eye(3))
    assert [part.entities[row] for row in names.within(whole, part).ends.ravel()] == ["bo", "cy"]
    facts = FactIndex.of(whole, [("ada", "met", "bo"), ("cy", "met", "bo")], np.eye(3)[:2], passages=["a", ["b"]])
    both = facts.plus(names)
    assert both.stated == (("a",), ("b",), (), (), ())
    left = both.within(whole, part)
    assert [tuple(part.entities[row] if row >= 0 else "" for row in pair) for pair in left.ends.tolist()] == [
        ("cy", "bo"), ("bo", ""), ("cy", ""),
    ]  # fmt: skip
    assert left.stated == (("b",), (), ())


@pytest.mark.parametrize("reset", [None, "hipporag2"])
def test_a_source_with_embedded_facts_is_restricted_with_them(reset):
    rows = [record("mine", ["ada", "bo"], True), record("theirs", ["bo", "eve"], True), record("far", ["cy"], False)]
    options = {"embedder": lambda query: facts_of(rows).embeddings[1], "reset": reset, "depends_on": ()}
    source = GraphSource(graph_of(rows), facts=facts_of(rows), **options)
    assert "theirs" in source.search("who?", 10, {}).ids
    allowed = {"mine", "far"}
    inside = source.within(allowed)
    mine = [row for row in rows if row.passage_id in allowed]
    apart = GraphSource(graph_of(mine), facts=facts_of(mine), **options).search("who?", 10, {})
    found = inside.search("who?", 10, {})
    assert (found.ids, found.scores.tobytes()) == (apart.ids, apart.scores.tobytes())
    assert found.ids[0] == "mine"
    assert source.within(allowed).inner.facts is inside.inner.facts
    assert source.within({"mine", "theirs", "far"}).inner.facts is source.facts
    nothing = source.within({"far"}).search("who?", 10, {})
    assert nothing.ids == ()


def test_the_passages_of_facts_must_fit_them():
    graph = graph_of([record("a", ["ada", "bo"], True)])
    with pytest.raises(InvalidInputError, match="passages must contain the ids for each of 1 facts; got 2"):
        FactIndex.of(graph, [("ada", "met", "bo")], [[1.0, 0.0]], passages=["a", "a"])
    with pytest.raises(InvalidTypeError, match="passages must contain ids of type str; got 3"):
        FactIndex.of(graph, [("ada", "met", "bo")], [[1.0, 0.0]], passages=[[3]])
    with pytest.raises(InvalidInputError, match="stated must contain the passages of each of 1 facts"):
        FactIndex(np.zeros((1, 2), dtype=np.int32), np.ones((1, 2), dtype=np.float32), (("a",), ("b",)))
    assert len(FactIndex.of_extractions(graph, [], lambda texts: texts).ends) == 0


def test_a_small_part_searched_by_lists_does_not_answer_from_earlier_questions(monkeypatch):
    """The words of the sample were kept by their places in an index that is made for each question anew."""
    monkeypatch.setattr("phasegraph.graph.walk.listed.WORDS_LISTED", 3)
    words = ["red", "green", "blue", "black", "white", "grey", "brown", "pink"]
    texts = [f"A {words[row % 8]} bird, a {words[row * 3 % 7]} fish, {words[row * 5 % 8]}." for row in range(400)]
    graph = build_graph([{"id": f"p{row}", "text": text} for row, text in enumerate(texts)])
    source = GraphSource(graph, walk=WalkSettings(compare="listed"))
    inner = source.within({f"p{row}" for row in range(0, 400, 17)})
    questions = [f"Which {one} fish?" for one in words]
    found = [inner.search(question, 20, {}) for question in questions]
    again = [source.within(set(inner.graph.passages)).search(question, 20, {}) for question in reversed(questions)]
    for one, other in zip(found, reversed(again), strict=True):
        assert (one.ids, one.scores.tobytes(), one.background) == (other.ids, other.scores.tobytes(), other.background)
