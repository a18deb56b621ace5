"""Which hit is which: ids, texts in their place, and passages that meet by text."""

import pickle
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasegraph import PhasegraphWarning, Ranking
from phasegraph.retrieval import Payloads, resolve_id
from phasegraph.retrieval.identity import Identities, text_id
from phasegraph.retrieval.joining import join_by_text


def details(*rows):
    return lambda row: rows[row]


@pytest.mark.parametrize(
    ("own", "metadata", "expected"),
    [
        ("a", {"id": "b"}, ("a", "own")),
        ("", {"id": "b"}, ("b", "id")),
        (None, {"id": "c", "_id": "b"}, ("b", "_id")),
        (None, {"pk": 7}, ("7", "pk")),
        (None, {"id": None, "doc_id": "d"}, ("d", "doc_id")),
        (None, {"id": True, "source_id": "s"}, ("s", "source_id")),
    ],
)
def test_the_own_id_comes_before_the_known_metadata_keys(own, metadata, expected):
    assert resolve_id(own, metadata, "text") == expected


def test_a_text_without_any_id_gets_one_that_ignores_white_space_and_unicode_form():
    assert text_id("cafe\u0301  x\n") == text_id("caf\u00e9 x")  # codespell:ignore caf
    assert text_id("one") != text_id("two")
    assert resolve_id(None, {}, "one") == (text_id("one"), "text")


@given(st.text())
def test_every_text_has_an_id_lone_surrogates_included(text):
    assert text_id(text + "\ud800").startswith("text-")


def test_a_source_that_gives_no_ids_warns_once():
    identities = Identities("bm25")
    with pytest.warns(PhasegraphWarning, match="'bm25'"):
        ids = identities.read([None, "b"], details(({}, "one"), ({}, "two")), notes := [])
    assert ids == [text_id("one"), "b"]
    assert notes == ["ids of 1 of 2 hits from their text"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        identities.read([None], details(({}, "three")), [])


def test_hits_that_carry_their_ids_are_not_looked_into():
    assert Identities("v").read(["a", "b"], lambda row: pytest.fail("looked"), []) == ["a", "b"]


def ranking(source, hits):
    ids = [text_id(text) if one is None else one for one, text in hits]
    payloads = Payloads(ids, [text for _, text in hits])
    return Ranking(source, ids, range(len(hits), 0, -1), payloads=payloads)


def test_hits_without_an_id_take_that_of_another_source_with_the_same_text():
    named = ranking("a", [("x", "one  text"), ("y", "two"), ("w", "one text")])
    nameless = ranking("b", [(None, "two"), (None, "one text"), (None, "three")])
    for order in ([named, nameless], [nameless, named]):
        joined, notes = join_by_text(order, str)
        by_name = {one.source: one for one in joined}
        assert by_name["a"] is named
        assert by_name["b"].ids == ("y", "w", text_id("three"))
        assert by_name["b"].payloads["w"] == "one text"
        assert notes == {"b": ["2 of 3 hits without an id joined to hits of other sources with the same text"]}


def test_ids_are_left_alone_where_every_source_has_some_or_none_has_any():
    named = [ranking("a", [("x", "same")]), ranking("b", [("y", "same")])]
    assert join_by_text(named, str) == (tuple(named), {})
    nameless = [ranking(name, [(None, "same")]) for name in "ab"]
    assert [one.ids for one in join_by_text(nameless, str)[0]] == [(text_id("same"),)] * 2


def test_payloads_survive_pickle():
    held = pickle.loads(pickle.dumps(Payloads(["a"], [1], {"a": "path"})))  # noqa: S301
    assert (dict(held), held.evidence) == ({"a": 1}, {"a": "path"})
