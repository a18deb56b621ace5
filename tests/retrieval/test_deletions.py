"""Passages that were deleted are dropped, counted and said once; what cannot be asked says nothing."""

from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import replace
from threading import Event

import pytest

from phasegraph import PhasegraphWarning, Ranking
from phasegraph._support.clock import CLOCK, DEADLINE, Deadline
from phasegraph.reports import found_in
from phasegraph.retrieval import Payloads
from phasegraph.retrieval.access import HitAccess
from phasegraph.retrieval.deletions import Deletions, TimelyLookup
from phasegraph.retrieval.identity import text_id
from phasegraph.retrieval.reading import completed
from phasegraph.retrieval.stages.rewriting import combined

HELD = {f"p{row}": f"text {row}" for row in range(200)}
FOUND = Ranking(
    "graph", ["p0", "p1", "p2"], [3.0, 2.0, 1.0], payloads=Payloads(["p0", "p1", "p2"], ["text 0", "text 1", "text 2"])
)


def store(held, asked=None):
    def look_up(ids):
        if asked is not None:
            asked.append(list(ids))
        return {one: held[one] for one in ids if one in held}

    return look_up


def test_what_the_store_lacks_is_dropped_counted_noted_and_warned_about_once():
    held = {name: text for name, text in HELD.items() if name != "p1"}
    deletions = Deletions("graph", HELD, {"vector": store(held)})
    with pytest.warns(PhasegraphWarning, match="source 'graph': 1 of 3 hits dropped: their passages are not in"):
        found = deletions.checked(FOUND, {}, notes := [])
    assert (found.ids, found.dropped, found.reason) == (("p0", "p2"), 1, "")
    assert notes == ["1 of 3 hits dropped: their passages are not in the store"]
    assert deletions.checked(FOUND, {}, []).ids == ("p0", "p2")


def test_where_all_are_gone_the_ranking_says_why_it_is_empty():
    deletions = Deletions(
        "graph", HELD, {"vector": store({name: text for name, text in HELD.items() if name not in FOUND.ids})}
    )
    with pytest.warns(PhasegraphWarning):
        found = deletions.checked(FOUND, {}, [])
    assert (len(found), found.dropped) == (0, 3)
    assert found_in(found) == ("empty", found.reason)  # and not "partial": its hits were usable
    assert found.reason == "3 of 3 hits dropped: their passages are not in the store"
    for combine in ("union", "rrf"):  # the rankings of two versions of the query
        both = combined("graph", [found, found], combine)
        assert (both.dropped, found_in(both)[0]) == (6, "empty")
    assert found_in(replace(found, dropped=found.dropped + 1))[0] == "partial"  # another hit was unusable


def test_hits_of_which_the_store_has_none_may_have_other_ids_and_are_not_called_deleted():
    """Without a list of the source's passages, only a hit that the store has shows that both use the same ids."""
    hits, stored = Ranking("graph", ["44a8", "9c1b"], [2.0, 1.0]), {"44a8": "A"}
    with pytest.warns(PhasegraphWarning) as said:
        found = completed(hits, [], {"vector": store({})}, [], Deletions("graph"))
    assert (found.ids, found.reason) == ((), "2 of 2 hits dropped: the store has no passages with their ids")
    assert found_in(found)[0] == "partial"
    assert "no passages with their ids, for example '44a8'. If the store uses other ids" in str(said[0].message)
    with pytest.warns(PhasegraphWarning, match="1 of 2 hits dropped: their passages are not in the store"):
        assert completed(hits, [], {"vector": store(stored)}, [], Deletions("graph")).ids == ("44a8",)


def test_what_the_stores_own_source_found_is_not_asked_for_and_the_corpus_is_sampled_once():
    asked = []
    deletions = Deletions("graph", HELD, {"vector": store(HELD, asked)})
    upstream = {"vector": Ranking("vector", ["p0"], [1.0])}
    for _ in range(2):
        assert deletions.checked(FOUND, upstream, []) is FOUND
    assert [len(asked[0]), *asked[1:]] == [50, ["p1", "p2"], ["p1", "p2"]]
    assert {"p0", "p196"} <= set(asked[0])


def test_a_store_of_another_corpus_deletes_nothing():
    other = store({name: text for row, (name, text) in enumerate(HELD.items()) if row % 3 == 1})
    assert Deletions("graph", HELD, {"vector": other}).checked(FOUND, {}, []) is FOUND
    assert Deletions("graph", (), {"vector": store({})}).checked(FOUND, {}, []) is FOUND


def test_one_store_that_holds_a_passage_is_enough():
    one, two = ({name: text for name, text in HELD.items() if name != gone} for gone in ("p1", "p2"))
    deletions = Deletions("graph", HELD, {"one": store(one), "two": store(two)})
    assert deletions.checked(FOUND, {}, []) is FOUND


def test_a_store_that_cannot_be_asked_keeps_the_answer_and_is_noted():
    deletions = Deletions("graph", HELD, {"vector": lambda ids: 1 / 0})
    assert deletions.checked(FOUND, {}, notes := []) is FOUND
    assert notes == ["source 'vector' failed to look up passages (ZeroDivisionError): deleted passages may remain"]


def test_passages_whose_id_is_made_from_their_text_are_left_alone():
    nameless = Ranking("graph", [text_id("one")], [1.0])
    assert Deletions("graph", [text_id("one")], {"vector": store({})}).checked(nameless, {}, []) is nameless


def test_a_passage_that_is_only_named_and_that_no_store_has_is_dropped():
    named = Ranking("graph", ["p0", "gone"], [2.0, 1.0], payloads=Payloads((), ()))
    with pytest.warns(PhasegraphWarning, match="1 of 2 hits dropped"):
        found = completed(named, [], {"vector": store(HELD)}, [], Deletions("graph"))
    assert (found.ids, found.dropped, dict(found.payloads)) == (("p0",), 1, {"p0": "text 0"})
    assert completed(named, [], {"vector": lambda ids: 1 / 0}, [], Deletions("graph")).ids == ("p0", "gone")
    assert completed(named, [], {}, [], Deletions("graph")).ids == ("p0", "gone")


def test_a_store_that_looks_up_no_text_changes_no_hit_and_what_it_finds_decides_on_the_filter():
    stored = {**HELD, "p0": "", "p2": "another text"}
    deletions = Deletions("graph", HELD, {"vector": store(stored)})
    with pytest.warns(PhasegraphWarning, match="source 'graph': 1 of 3 hits changed in the store"):
        found = deletions.checked(FOUND, {}, [])
    assert dict(found.payloads) == {"p0": "text 0", "p1": "text 1", "p2": "another text"}
    assert deletions.checked(FOUND, {}, notes := [], lambda hit: hit != "another text").ids == ("p0", "p1")
    assert notes == ["1 of 3 hits changed in the store"]
    none = deletions.checked(FOUND, {}, [], lambda hit: False)
    assert (none.ids, none.reason) == (("p1",), "")


def test_no_hit_that_still_matches_the_filter_leaves_a_reason():
    deletions = Deletions("graph", HELD, {"vector": store(dict.fromkeys(HELD, "moved"))})
    with pytest.warns(PhasegraphWarning, match="3 of 3 hits changed"):
        found = deletions.checked(FOUND, {}, [], lambda hit: hit != "moved")
    assert (found.ids, found.reason) == ((), "3 of 3 hits changed in the store")
    assert found_in(found)[0] == "empty"


@pytest.mark.parametrize(
    ("was", "now", "changed"),
    [(True, "true", False), (0.1, 0.10000000149011612, False), (5, "5", False), (5, 6, True), ("a", "b", True)],
)
def test_a_value_that_a_store_converts_is_no_change(was, now, changed):
    access = HitAccess(metadata=lambda hit: {"key": hit[1]}, text=lambda hit: hit[0])
    hits = Ranking("graph", ["p0"], [1.0], payloads=Payloads(["p0"], [("a text", was)]))
    stored = {name: ("a text", now) for name in HELD}
    deletions = Deletions("graph", HELD, {"vector": store(stored)}, access=access)
    with pytest.warns(PhasegraphWarning, match="changed") if changed else nullcontext():
        deletions.checked(hits, {}, notes := [])
    assert len(notes) == changed


def test_a_store_that_hangs_does_not_take_the_hits_of_a_source_in_memory():
    released, asked = Event(), []

    def hangs(ids):
        asked.append(ids)
        released.wait(10)
        return {}

    deletions = Deletions("graph", HELD, {"vector": TimelyLookup(hangs)})
    context = copy_context()
    context.run(DEADLINE.set, Deadline.after(CLOCK, 0.2))
    for _ in range(2):  # the second call does not start another look-up while the first is running
        assert context.run(deletions.checked, FOUND, {}, notes := []).ids == FOUND.ids
        assert notes == ["source 'vector' failed to look up passages (TimeoutError): deleted passages may remain"]
    assert len(asked) == 1
    released.set()


def test_a_store_that_answers_but_cannot_look_up_is_warned_about_once():
    deletions = Deletions("graph", HELD, {"vector": lambda ids: 1 / 0})
    found = replace(FOUND, source="vector", ids=["p7", "p8", "p9"], payloads={})
    assert deletions.checked(FOUND, {}, []).ids == FOUND.ids  # the store did not answer, as its own source reports
    with pytest.warns(PhasegraphWarning, match=r"cannot look up passages by id \(ZeroDivisionError\)"):
        deletions.checked(FOUND, {"vector": found}, [])
    deletions.checked(FOUND, {"vector": found}, [])  # a second warning would be an error here


def test_a_late_answer_is_not_called_a_store_that_refuses_ids():
    def late(ids):
        raise TimeoutError

    deletions = Deletions("graph", HELD, {"vector": late})
    found = replace(FOUND, source="vector", ids=["p7", "p8", "p9"], payloads={})
    deletions.checked(FOUND, {"vector": found}, notes := [])  # a warning would be an error here
    assert notes == ["source 'vector' failed to look up passages (TimeoutError): deleted passages may remain"]
