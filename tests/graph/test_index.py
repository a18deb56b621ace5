from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import repeats
from small_corpora import passage
from tests.graph_bits import same_graph

from phasegraph import IntegrityError, InvalidInputError
from phasegraph.graph import Extraction, build_graph
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.model.storage import load_graph, save_graph
from phasegraph.graph.model.words import word_texts


def _triples(passages: list[dict[str, str]]) -> dict[str, list[tuple[str, str, str]]]:
    return {one["id"]: [("Ada", "met", one["title"] or "Cy"), ("Paris", "on", "Seine")] for one in passages[::2]}


def _vectors(passages: list[dict[str, str]]) -> np.ndarray:
    return np.array([[int(one["id"][1:]) + 1.0, 1.0, len(one["text"])] for one in passages])


corpora = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3)), min_size=2, max_size=9)


@settings(max_examples=repeats(60, 15), deadline=None, derandomize=True, database=None)
@given(corpora, corpora, st.data())
def test_adding_and_removing_gives_what_a_rebuild_gives_to_the_bit(
    first: list[tuple[int, int]], more: list[tuple[int, int]], data: st.DataObject
) -> None:
    start = [passage(n, *parts) for n, parts in enumerate(first)]
    rest = [passage(n + len(first), *parts) for n, parts in enumerate(more)]
    index = GraphIndex.build(start, triples=_triples(start), embeddings=_vectors(start), known_names=["Twombly"])
    index = index.add(rest, triples=_triples(rest), embeddings=_vectors(rest))
    gone = data.draw(st.lists(st.sampled_from([one["id"] for one in start + rest]), unique=True, max_size=3))
    if len(gone) < len(start) + len(rest):
        index = index.remove(gone)
    kept = [one for one in start + rest if one["id"] not in gone] or start + rest
    triples = {
        name: each for name, each in {**_triples(start), **_triples(rest)}.items() if name not in gone or not kept
    }
    triples = {name: each for name, each in triples.items() if name in {one["id"] for one in kept}}
    whole = build_graph(kept, triples=triples, embeddings=_vectors(kept), known_names=["Twombly"])
    same_graph(index.graph, whole)


def test_a_new_title_is_found_in_passages_that_were_there_before() -> None:
    index = GraphIndex.build([{"id": "a", "title": "", "text": "They crossed the Order of the Seine."}])
    before = index.graph.entities
    after = index.add([{"id": "b", "title": "Seine", "text": "A river."}]).graph
    assert "seine" not in before
    assert after.mentions[0, after.entity_rows["seine"]] == 1


def test_only_what_a_change_touches_is_read_again() -> None:
    passages = [{"id": f"p{n}", "title": f"Name{n}", "text": f"Name{n} met Name{n + 1}."} for n in range(200)]
    index = GraphIndex.build(passages)
    later = index.add([{"id": "new", "title": "Name200", "text": "Name200 met nobody."}])
    read_again = [name for name, record in later.found.items() if record is not index.found.get(name)]
    assert read_again == ["p199", "new"]


def test_an_index_survives_saving_and_goes_on(tmp_path: Path) -> None:
    start = [passage(n, n % 8, n % 4) for n in range(6)]
    rest = [passage(n, n % 8, n % 4) for n in range(6, 9)]
    GraphIndex.build(start, triples=_triples(start), embeddings=_vectors(start)).save(tmp_path)
    again = GraphIndex.load(tmp_path).add(rest, triples=_triples(rest), embeddings=_vectors(rest))
    triples = {**_triples(start), **_triples(rest)}
    same_graph(again.graph, build_graph(start + rest, triples=triples, embeddings=_vectors(start + rest)))
    same_graph(load_graph(tmp_path), GraphIndex.load(tmp_path).graph)


def test_a_graph_without_its_passages_cannot_be_updated_and_says_so(tmp_path: Path) -> None:
    save_graph(build_graph([{"id": "a", "text": "Ada met Bo."}]), tmp_path)
    with pytest.raises(IntegrityError, match="graph alone"):
        GraphIndex.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda index: index.add([{"id": "p0", "text": "x"}]), "'p0'"),
        (lambda index: index.add([{"id": "n", "text": "x"}], triples={"p0": []}), "'p0'"),
        (lambda index: index.add([{"id": "n", "text": "x"}], embeddings=[[1.0]]), "leave out embeddings="),
        (lambda index: index.add([]), "at least one"),
        (lambda index: index.remove(["zz"]), "'zz'"),
    ],
)
def test_a_change_that_cannot_be_made_names_what_is_wrong_and_changes_nothing(change: object, message: str) -> None:
    index = GraphIndex.build([passage(0, 0, 0), passage(1, 1, 1)])
    before = index.graph.entities
    with pytest.raises(InvalidInputError, match=message):
        change(index)  # type: ignore[operator]
    assert index.graph.entities == before


def test_embeddings_of_another_width_are_refused() -> None:
    start = [passage(0, 0, 0)]
    index = GraphIndex.build(start, embeddings=_vectors(start))
    with pytest.raises(InvalidInputError, match="shape"):
        index.add([passage(1, 1, 1)], embeddings=[[1.0, 2.0]])


def test_records_handed_over_in_any_order_are_updated_as_they_are_built() -> None:
    passages = [{"id": "a", "text": "Ada sang."}, {"id": "b", "text": "Bo met Cy."}]
    records = [Extraction("b", triples=[("Ada", "met", "Dee")]), Extraction("b", ["Dee", "Dee"])]
    vectors = np.eye(2)
    whole = build_graph(passages, triples=records, embeddings=vectors)
    for order in (records, records[::-1]):
        index = GraphIndex.build(passages[:1], embeddings=vectors[:1])
        same_graph(index.add(passages[1:], triples=order, embeddings=vectors[1:]).graph, whole)
    assert whole.mentions[1, whole.entity_rows["dee"]] == 2


def test_an_update_splits_no_text_again_that_no_changed_name_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    split: list[str] = []

    def counted(text: str) -> list[str]:
        split.append(text)
        return word_texts(text)

    monkeypatch.setattr("phasegraph.graph.index.graph_index.word_texts", counted)
    passages = [{"id": f"p{n}", "title": f"Name{n}", "text": f"Name{n} met Name{n + 1}."} for n in range(50)]
    index = GraphIndex.build(passages)
    assert len(index.name_words.lengths) == 50
    split.clear()
    later = index.add([{"id": "new", "title": "Name50", "text": "Name50 sang."}])
    assert set(split) == {"Name49 met Name50.", "Name50 sang."}
    split.clear()
    later.remove(["p7"])
    assert set(split) == {"Name6 met Name7."}


def test_a_title_that_the_text_begins_with_is_counted_once() -> None:
    index = GraphIndex.build([
        {"id": "a", "title": "Ada", "text": "Ada\nShe met Bo."}, {"id": "b", "title": "Bo", "text": "He sang."},
        {"id": "c", "title": "", "text": "Bo alone."},
    ])  # fmt: skip
    assert [one.content for one in index.records.values()] == ["Ada\nShe met Bo.", "Bo\nHe sang.", "Bo alone."]
    assert index.graph.lexical is not None
    assert index.graph.lexical.lengths.tolist() == [4, 3, 2]


def test_metadata_that_json_does_not_reproduce_is_refused_when_an_index_is_saved(tmp_path: Path) -> None:
    kept = {"page": 3, "none": None, "yes": True, "tags": ["a", {"b": [1.5]}], "text": "ü"}
    GraphIndex.build([{"id": "a", "text": "Ada sang.", "metadata": kept}]).save(tmp_path / "kept")
    assert GraphIndex.load(tmp_path / "kept").records["a"].metadata == kept
    for key, value in (("pair", (1, 2)), ("set", {1}), ("deep", [{"x": (1,)}]), ("named", {1: "one"})):
        index = GraphIndex.build([{"id": "a", "text": "Ada sang.", "metadata": {**kept, key: value}}])
        with pytest.raises(InvalidInputError, match=f"{key!r} of passage 'a' must be plain"):
            index.save(tmp_path / key)


def test_words_of_names_of_other_passages_are_refused(tmp_path: Path) -> None:
    index = GraphIndex.build([{"id": name, "text": f"{name} sang."} for name in ("Ada", "Bo")])
    other = GraphIndex.build([{"id": "Ada", "text": "Ada sang."}])
    assert index.name_words is not None
    replace(index, words=other.name_words).save(tmp_path)
    with pytest.raises(IntegrityError, match="the index of words must have 2 passages; it has 1"):
        GraphIndex.load(tmp_path)


def test_an_index_is_shown_without_its_contents() -> None:
    assert repr(GraphIndex.build([{"id": "a", "text": "Ada sang."}])) == "GraphIndex()"


def test_many_records_are_read_and_written_again_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces of any size, from the file and from memory, with few that are kept."""
    monkeypatch.setattr("phasegraph.graph.index.records.MOST_READ", 3)
    passages = [{"id": f"p{n}", "title": f"Name{n}", "text": f"Name{n} met Bo."} for n in range(12)]
    for number, size in enumerate((1, 150, 1 << 20)):
        monkeypatch.setattr("phasegraph.graph.index.records._RUN", size)
        folder = tmp_path / str(number)
        GraphIndex.build(passages).save(folder)
        index = GraphIndex.load(folder)
        assert [one.title for one in index.records.values()] == [one["title"] for one in passages]
        assert len(index.records._read) <= 3
        changed = index.replace(["p3", "p7"], [{"id": "p3", "title": "Name3", "text": "Name3 slept."}])
        changed.save(folder)
        rest = [one for one in passages if one["id"] not in ("p3", "p7")]
        again = GraphIndex.load(folder)
        assert [one.id for one in again.records.values()] == [*(one["id"] for one in rest), "p3"]
        assert again.records.content("p3") == ("Name3 slept.", {})
        with pytest.raises(KeyError, match="p7"):
            again.records["p7"]
