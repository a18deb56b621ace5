"""Relevance by characters: relative to the gold span, whatever the cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.measures import Span, covers, judgement_from_spans


def test_half_is_of_the_span_and_not_of_the_passage():
    gold = Span("d", 100, 120)
    assert covers(Span("d", 0, 110), gold)
    assert not covers(Span("d", 0, 109), gold)
    assert covers(Span("d", 100, 110), gold)
    assert not covers(Span("other", 0, 200), gold)


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
        ({"start": True}, "the start of a span must be a whole number"),
        ({"end": 9.0}, "the end of a span must be a whole number"),
        ({"end": float("nan")}, "the end of a span must be a whole number"),
        ({"grade": True}, "the grade of a span must be a number"),
        ({"grade": "1"}, "the grade of a span must be a number"),
        ({"grade": float("nan")}, "positive and finite"),
        ({"grade": float("inf")}, "positive and finite"),
    ],
)
def test_a_span_is_made_of_whole_numbers_and_a_positive_grade(given, message):
    with pytest.raises(InvalidInputError, match=message):
        Span(**{"document": "d", "start": 0, "end": 9, "grade": 1.0, **given})
