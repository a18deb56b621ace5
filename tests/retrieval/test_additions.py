"""Passages that only the store has are counted in every answer, and a warning says so once."""

import pytest

from phasegraph import PhasegraphWarning, Ranking
from phasegraph.retrieval.additions import Additions
from phasegraph.retrieval.identity import text_id


def upstream(*ids):
    return {"vector": Ranking("vector", ids, range(len(ids), 0, -1))}


def test_passages_that_only_the_store_has_are_noted_and_warned_about_once():
    additions = Additions(["vector", "other"])
    with pytest.warns(PhasegraphWarning, match=r"^1 of 3 hits of 'vector' are not in the graph: .* sync\)"):
        additions.see({"a", "b"}, upstream("a", "new", "b"), notes := [])
    additions.see({"a", "b"}, upstream("new", "newer", "b"), notes)
    assert notes == ["1 of 3 hits of 'vector' are not in the graph", "2 of 3 hits of 'vector' are not in the graph"]


@pytest.mark.parametrize("ids", [(), ("a", "b"), ("c", "d"), ("a", text_id("of a text"))])
def test_a_store_of_the_same_or_of_other_passages_says_nothing(ids):
    Additions(["vector"]).see({"a", "b"}, upstream(*ids), notes := [])
    assert notes == []
