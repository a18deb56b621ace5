"""Relevance by characters: relative to the gold span, whatever the cut."""

import json
from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import PASSAGES, write_jsonl

from phasegraph.apps.cli import main
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.judgements import Span, judgement_from_spans
from phasegraph.evaluation.measures import Measure


def test_half_is_of_the_span_and_not_of_the_passage():
    gold = Span("d", 100, 120)
    assert Span("d", 0, 110).holds(gold)
    assert not Span("d", 0, 109).holds(gold)
    assert Span("d", 100, 110).holds(gold)
    assert not Span("other", 0, 200).holds(gold)


def test_grade_is_the_largest_of_the_spans_a_passage_covers():
    cut = {"p1": Span("d", 0, 100), "p2": Span("d", 100, 200)}
    judged = judgement_from_spans("q", [Span("d", 0, 10, 1.0), Span("d", 20, 30, 3.0)], cut)
    assert judged is not None
    assert judged.grades == {"p1": 3.0}
    assert judged.hops == (("p1",), ("p1",))


def test_a_query_that_no_passage_answers_is_not_judged():
    assert judgement_from_spans("q", [Span("d", 0, 100)], {"p": Span("d", 60, 100)}) is None


@given(st.integers(0, 50), st.integers(1, 50), st.integers(5, 60))
def test_passages_cut_with_half_overlap_always_cover_a_short_span(start, length, size):
    length = min(length, size // 2)
    gold = Span("d", start, start + max(length, 1))
    step = max(size // 2, 1)
    cut = {f"p{at:03d}": Span("d", at, at + size) for at in range(0, 120, step)}
    assert judgement_from_spans("q", [gold], cut) is not None


@pytest.mark.parametrize(("start", "end", "grade"), [(5, 5, 1.0), (-1, 4, 1.0), (0, 4, 0.0)])
def test_a_span_must_be_one(start, end, grade):
    with pytest.raises(InvalidInputError):
        Span("d", start, end, grade)


def test_the_share_must_be_one():
    with pytest.raises(InvalidInputError, match="share"):
        judgement_from_spans("q", [], {}, share=0.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"start": True}, "the start of a span must be an integer"),
        ({"end": 9.0}, "the end of a span must be an integer"),
        ({"end": float("nan")}, "the end of a span must be an integer"),
        ({"grade": True}, "the grade of a span must be a number"),
        ({"grade": "1"}, "the grade of a span must be a number"),
        ({"grade": float("nan")}, "the grade of a span must be finite"),
        ({"grade": float("inf")}, "the grade of a span must be finite"),
    ],
)
def test_a_span_is_made_of_whole_numbers_and_a_positive_grade(given, message):
    with pytest.raises(InvalidInputError, match=message):
        Span(**{"document": "d", "start": 0, "end": 9, "grade": 1.0, **given})


@pytest.fixture
def cut(folder):
    """The passages stand one after the other, ten characters each; two queries have spans, one in no passage."""
    corpus = [
        {"id": name, "title": title, "text": text, "doc_id": "d", "char_start": 10 * row, "char_end": 10 * row + 10}
        for row, (name, title, text) in enumerate(PASSAGES)
    ]
    write_jsonl(folder / "corpus.jsonl", corpus)
    rows = [json.loads(line) for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    gold = [
        {"doc_id": "d", "char_start": 14, "char_end": 24},
        {"doc_id": "d", "char_start": 30, "char_end": 34, "grade": 3},
    ]
    rows[0] = {"id": "q0", "question": "What?", "spans": gold}
    rows[1] = {"id": "q1", "question": "Where?", "spans": [{"doc_id": "other", "char_start": 0, "char_end": 5}]}
    write_jsonl(folder / "queries.jsonl", rows)
    return folder


def test_a_folder_may_judge_by_spans_and_says_which_queries_no_passage_answers(cut):
    dataset = load_dataset(cut)
    assert dataset.judgements[0].hops == (("p01",), ("p03",))
    assert dataset.judgements[0].grades == {"p01": 1.0, "p03": 3.0}
    assert Measure("nDCG", 5)(["p03", "p01"], dataset.judgements[0]) == 1.0
    assert Measure("LastHop", 5)(["p03"], dataset.judgements[0]) is None
    assert dataset.unjudged == ("q1",)
    assert [query.id for query in dataset.queries] == ["q0", "q2", "q3"]
    assert np.array_equal(dataset.query_vectors[1:], load_dataset(cut, share=0.1).query_vectors[1:])
    assert load_dataset(cut, share=0.4).judgements[0].hops == (("p01", "p02"), ("p03",))


def test_three_tenths_of_a_span_may_do_and_the_largest_grade_of_a_passage_is_its_gain(cut):
    """p01 holds .6 of the first span and all of the last; p02 holds .4 of the first; p03 the second."""
    rows = [json.loads(line) for line in (cut / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    rows[0]["spans"].append({"doc_id": "d", "char_start": 10, "char_end": 12, "grade": 2})
    write_jsonl(cut / "queries.jsonl", rows)
    half, three = (load_dataset(cut, share=share).judgements[0] for share in (0.5, 0.3))
    assert half.grades == {"p01": 2.0, "p03": 3.0}
    assert three.grades == {"p01": 2.0, "p02": 1.0, "p03": 3.0}
    best = 3 + 2 / log2(3) + 1 / log2(4)
    assert Measure("nDCG", 10)(["p02", "p03", "p01"], three) == pytest.approx((1 + 3 / log2(3) + 2 / log2(4)) / best)


def test_spans_may_have_the_names_of_hetdocqa_and_count_before_hops(cut):
    rows = [json.loads(line) for line in (cut / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    gold = [{"document_id": one.pop("doc_id"), **one} for one in rows[0].pop("spans")]
    write_jsonl(cut / "queries.jsonl", [{**rows[0], "gold_spans": gold, "hops": ["p07"]}, *rows[1:]])
    assert load_dataset(cut).judgements[0].hops == (("p01",), ("p03",))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spans": []}, "queries.jsonl:1: 'spans' must be a list of at least one span"),
        ({"spans": [{"doc_id": "d"}]}, "queries.jsonl:1: each item of 'spans' must have .* 'char_start'"),
        ({"spans": [7]}, "queries.jsonl:1: each item of 'spans' must have"),
        ({"spans": [{"doc_id": "d", "char_start": 4, "char_end": 4}]}, "the end of a span must be >= 5"),
    ],
)
def test_a_bad_span_is_named_with_its_file_and_line(cut, change, message):
    rows = [json.loads(line) for line in (cut / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    write_jsonl(cut / "queries.jsonl", [{**rows[0], **change}, *rows[1:]])
    with pytest.raises(InvalidInputError, match=message):
        load_dataset(cut)


def test_spans_need_passages_that_say_where_they_stand(cut):
    write_jsonl(cut / "corpus.jsonl", [{"id": name, "title": title, "text": text} for name, title, text in PASSAGES])
    with pytest.raises(InvalidInputError, match=r"corpus.jsonl: passage 'p00' must have doc_id"):
        load_dataset(cut)


def test_the_table_says_how_many_queries_no_passage_answers(cut, capsys):
    assert main(["evaluate", str(cut), "--systems", "vector", "--measures", "nDCG@10"]) == 0
    printed = capsys.readouterr().out
    assert "tiny: 3 queries" in printed
    assert "left out: 1 query whose spans no passage covers: q1" in printed
