"""What the report of a source says of how its answer was read."""

import pytest
from llamaindex_stores import hits

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, HitFields, SourceSpec


def answer(query):
    return hits(**{f"p{row}": 9.0 - row for row in range(8)})


def notes_of(**settings):
    retriever = CalibratedFusionRetriever(vector=SourceSpec(retriever=answer, **settings), limit=5)
    return retriever.explain("q").reports[0].notes


@pytest.mark.filterwarnings("ignore:source .* returns hits without a usable score")
@pytest.mark.parametrize(
    ("settings", "note"),
    [
        ({"fields": HitFields(score="nope")}, "rank only: no score under 'nope'"),
        ({"fields": HitFields(score=lambda hit: None)}, "rank only: fields.score gave none"),
        ({"fields": HitFields(score=lambda hit: float("nan"))}, "none of its scores is a number"),
        ({"fields": HitFields(score=lambda hit: 1.0)}, "uninformative: its scores do not differ"),
    ],
)
def test_scores_that_are_not_there_are_told_from_scores_that_do_not_differ(settings, note):
    assert [one for one in notes_of(**settings) if "returned" not in one] == [note]


def test_an_answer_longer_than_the_limit_is_cut_and_said():
    assert "returned 8 hits where 5 were asked for; the best 5 were kept" in notes_of()
    assert not any("asked for" in note for note in notes_of(limit=8))
