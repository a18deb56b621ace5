"""Passages that only the store has are counted in every answer, and a warning says so once."""

import pytest

from phasegraph import PhasegraphWarning, Ranking
from phasegraph._support.shared import one_call
from phasegraph.graph import Corpus, GraphIndex
from phasegraph.retrieval.additions import Additions
from phasegraph.retrieval.identity import text_id


@pytest.fixture
def corpus():
    return Corpus(GraphIndex.build([{"id": name, "text": f"Text of {name}."} for name in "ab"]))


def upstream(*ids):
    return {"vector": Ranking("vector", ids, range(len(ids), 0, -1))}


def test_passages_that_only_the_store_has_are_noted_and_warned_about_once(corpus):
    additions = Additions("vector")
    with pytest.warns(PhasegraphWarning, match=r"^1 of 3 hits of 'vector' are not in the graph: .* sync\)"):
        additions.see(corpus, upstream("a", "new", "b"), notes := [])
    additions.see(corpus, upstream("new", "newer", "b"), notes)
    assert notes == ["1 of 3 hits of 'vector' are not in the graph", "2 of 3 hits of 'vector' are not in the graph"]


def test_an_id_that_the_store_has_is_looked_up_once(corpus, monkeypatch):
    asked = []

    def look_up(ids):
        asked.append(list(ids))
        return {one: one for one in ids if one.startswith("new")}

    additions, notes = Additions("vector", look_up), []
    with pytest.warns(PhasegraphWarning, match=r"^1 of 2 hits"):
        additions.see(corpus, upstream("a", "new"), notes)
    for _ in range(2):
        additions.see(corpus, upstream("a", "new"), notes)
    additions.see(corpus, upstream("new", "newer", "elsewhere"), notes)
    additions.see(corpus, upstream("new", "newer", "a"), notes)
    assert asked == [["new"], ["newer", "elsewhere"]]
    assert [note[:6] for note in notes] == ["1 of 2"] * 3 + ["2 of 3"] * 2
    monkeypatch.setattr("phasegraph.retrieval.additions._REMEMBERED", 2)
    for _ in range(2):
        additions.see(corpus, upstream("new", "newest"), notes)
    assert asked[2:] == [["newest"], ["new", "newest"]]  # the remembered ids are bounded
    assert [note[:6] for note in notes[5:]] == ["2 of 2"] * 2


@pytest.mark.parametrize("ids", [(), ("a", "b"), ("a", text_id("of a text"))])
def test_a_store_of_the_same_passages_says_nothing(corpus, ids):
    Additions("vector").see(corpus, upstream(*ids), notes := [])
    assert notes == []


def test_hits_that_the_store_does_not_contain_come_from_elsewhere_and_are_not_counted(corpus):
    found = upstream("a", "new", "of another index")
    with pytest.warns(PhasegraphWarning, match=r"^1 of 3 hits of 'vector' are not in the graph"):
        Additions("vector", lambda ids: {one: one for one in ids if one == "new"}).see(corpus, found, [])
    Additions("vector", lambda ids: {}).see(corpus, found, notes := [])
    assert notes == []
    Additions("vector", lambda ids: {}[ids[0]]).see(corpus, found, notes)
    assert notes == ["source 'vector' failed to look up passages (KeyError)"]


def test_a_running_change_of_the_retriever_itself_says_nothing(corpus):
    searched = []

    class Store:
        def write(self, records, vectors):
            Additions("vector").see(corpus, upstream("a", "new"), searched)

        def remove(self, ids):
            pass

    corpus = Corpus(corpus.index, store=Store())
    with one_call():
        assert set(corpus.seen.index.records) == {"a", "b"}
        corpus.replace(["b"], [{"id": "new", "title": "", "text": "A new text.", "metadata": {}}])
        Additions("vector").see(corpus, upstream("a", "b", "new"), searched)
    assert searched == []
