"""What a caller may see, and the answers in JSON's types."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.serving.conftest import PLACES, corpus, embed

from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.apps.server.view import View
from phasegraph.apps.server.web import read_tenants
from phasegraph.graph import GraphIndex
from phasegraph.retrieval.plain_filters import check_filter, lets_through

QUESTION = "Who met the keeper in Oslo?"


def ask(view, query=QUESTION, k=5):
    return view.search(query, k)


@pytest.mark.parametrize("model", [None, embed])
def test_the_best_passages_come_with_their_texts_and_all_of_it_is_json(index, model):
    told = ask(View(index, model), k=3)
    assert json.loads(json.dumps(told)) == told
    assert len(told["passages"]) == 3
    assert {one["id"] for one in told["passages"]} >= {"red-1", "blue-1"}
    assert told["passages"][0]["text"] == next(str(o["text"]) for o in corpus() if o["id"] == told["passages"][0]["id"])
    scores = [one["score"] for one in told["passages"]]
    assert scores == sorted(scores, reverse=True)
    assert 0 <= told["confidence"] <= 1
    assert (told["reason"], told["degraded"]) == ("", False)


def test_the_explanation_adds_up_and_names_the_path(index):
    told = View(index, embed).explain(QUESTION, 3)
    assert json.loads(json.dumps(told)) == told
    for passage in told["passages"]:
        parts = sum(one["contribution"] for one in passage["sources"])
        assert parts + passage["bonus"] == pytest.approx(passage["fused"], abs=1e-9)
    assert any("graph: " in path for passage in told["passages"] for path in passage["paths"])
    assert {one["source"] for one in told["sources"]} == {"graph", "bm25", "vector"}


def test_an_answer_within_a_filter_is_that_of_an_index_without_the_others(index):
    rows = [row for row in corpus() if row["metadata"]["team"] == "red"]
    alone = GraphIndex.build(rows, embeddings=np.stack([embed(f"{one['title']} {one['text']}") for one in rows]))
    for query in (QUESTION, "Red Keeper", "bluesecret3", "Blue Keeper of Rome"):
        inside, apart = ask(View(index, embed, only={"team": "red"}), query), ask(View(alone, embed), query)
        assert inside == apart
        assert "blue" not in json.dumps(inside["passages"])


def test_an_answer_has_only_the_metadata_that_the_operator_chose(index):
    view = View(index, metadata=["level", "page"])
    assert [one["metadata"] for one in view.passages(["red-1", "red-2"])["passages"]] == [{"level": 1}, {"level": 2}]
    for told in (view.search(QUESTION, 2), view.explain(QUESTION, 2)):
        assert all(set(one["metadata"]) == {"level"} for one in told["passages"])
    assert all("metadata" not in one for one in ask(View(index))["passages"])


def test_passages_by_id_do_not_tell_what_is_not_there_from_what_may_not_be_seen(index):
    view = View(index, only={"team": "red"})
    told = view.passages(["red-3", "blue-3", "nobody"])
    assert [one["id"] for one in told["passages"]] == ["red-3"]
    assert told["missing"] == ["blue-3", "nobody"]
    assert len(view) == len(PLACES)


@pytest.mark.parametrize(
    ("only", "metadata", "expected"),
    [
        ({"level": 1}, {"level": 1}, True),
        ({"level": 1}, {"level": 1.0}, True),
        ({"level": 1}, {"level": True}, False),
        ({"level": True}, {"level": 1}, False),
        ({"level": [0, 2]}, {"level": 2}, True),
        ({"level": "1"}, {"level": 1}, False),
        ({"team": "red", "level": 1}, {"team": "red"}, False),
    ],
)
def test_what_a_filter_lets_through(only, metadata, expected):
    assert lets_through(check_filter("f", only), metadata) is expected


@pytest.mark.parametrize("only", [{}, [], {"a": []}, {"a": None}, {"a": {"$eq": 1}}, {1: 2}, {"a": float("nan")}])
def test_a_filter_that_says_nothing_is_refused(only):
    with pytest.raises(InvalidInputError, match="filter"):
        check_filter("the filter", only)


@pytest.mark.parametrize(
    ("query", "k", "named"),
    [
        ("", 5, "query"),
        (" ", 5, "query"),
        ("x" * 4_001, 5, "at most 4,000 characters; got 4,001.*--max-query-length"),
        ("x", 0, "k"),
        ("x", 101, "k"),
        (3, 5, "query"),
    ],
)
def test_a_bad_request_names_the_field(index, query, k, named):
    with pytest.raises((InvalidInputError, InvalidTypeError), match=named):
        ask(View(index), query, k)
    with pytest.raises(InvalidInputError, match="ids"):
        View(index).passages([])


def test_the_server_sets_the_longest_query(index):
    with pytest.raises(InvalidInputError, match="at most 9 characters; got 10"):
        ask(View(index, max_query_length=9), "Oslo, Rome")
    assert ask(View(index, max_query_length=30_000), "Oslo " * 5_000)["passages"]


def test_a_model_that_hangs_costs_its_own_source_and_the_time_that_was_set(index, clock, hang):
    """The vectors hang until half of the time is over, and the walk without them until the rest is over."""
    view = View(index, hang.function(0.25, embed("Oslo"), beside=1), timeout=0.5)
    view._gatherer.clock = clock
    with pytest.warns(match="failed"):
        told = ask(view)
    assert clock.now() == 0.5
    assert told["degraded"]
    assert any(one["id"] == "blue-1" for one in told["passages"])  # by words


def test_a_model_for_an_index_without_vectors_is_refused():
    with pytest.raises(InvalidInputError, match="embeddings"):
        View(GraphIndex.build([{"id": "a", "text": "Ada."}]), embed)


def test_a_tenant_sees_all_passages_only_if_the_file_says_so(tmp_path):
    path = tmp_path / "tenants.json"
    path.write_text('{"staff": {"token": "aaaaaaaaaaaaaaaaaaaa", "filter": "all"}}')
    assert read_tenants(path) == {"staff": ("aaaaaaaaaaaaaaaaaaaa", None)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "must have the form"),
        ("{", "JSON"),
        ("[" * 100_000, "JSON"),
        ('{"a": {"token": "short", "filter": {"team": "red"}}}', "16 visible"),
        (
            '{"a": {"token": "aaaaaaaaaaaaaaaaaaaa", "filter": {}}}',
            r"tenants.json: the filter of 'a' \(to.* write 'all'\) must map at least one",
        ),
        ('{"a": {"token": "aaaaaaaaaaaaaaaaaaaa", "filter": null}}', "at least one"),
        ('{"a": {"token": "aaaaaaaaaaaaaaaaaaaa"}}', "a token and a filter"),
        (
            '{"a": {"token": "aaaaaaaaaaaaaaaaaaaa", "filter": {"t": 1}}, '
            '"b": {"token": "aaaaaaaaaaaaaaaaaaaa", "filter": {"t": 2}}}',
            "its own token",
        ),
    ],
)
def test_a_bad_file_of_tenants_is_refused_without_repeating_a_token(tmp_path, text, said):
    path = tmp_path / "tenants.json"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=said) as caught:
        read_tenants(path)
    assert "aaaaaaaa" not in str(caught.value)
    assert "short" not in str(caught.value)
