"""What the report of a source says of how its answer was read."""

import pytest
from langchain_stores import pairs

from langchain_phasegraph import HitFields, PhaseGraphRetriever, SourceSpec


def answer(query):
    return pairs(**{f"p{row}": 9.0 - row for row in range(8)})


def notes_of(**settings):
    limit = settings.pop("limit", 5)
    retriever = PhaseGraphRetriever(vector=SourceSpec(retriever=answer, fields=HitFields(**settings)), limit=limit)
    return retriever.explain("q").reports[0].notes


@pytest.mark.filterwarnings("ignore:source .* returns hits without a usable score")
@pytest.mark.parametrize(
    ("settings", "note"),
    [
        ({"score": "nope"}, "rank only: no score under 'nope'"),
        ({"score": lambda hit: None}, "rank only: fields.score gave none"),
        ({"score": lambda hit: float("nan")}, "none of its scores is a number"),
        ({"score": lambda hit: 1.0}, "uninformative: its scores do not differ"),
    ],
)
def test_scores_that_are_not_there_are_told_from_scores_that_do_not_differ(settings, note):
    assert [one for one in notes_of(**settings) if "returned" not in one] == [note]


def test_an_answer_longer_than_the_limit_is_cut_and_said():
    assert "returned 8 hits where 5 were asked for; the best 5 were kept" in notes_of()
    assert not any("asked for" in note for note in notes_of(limit=8))
