"""Text is read in time linear in its length, whatever it is made of."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processor_work import work_of

from phasegraph._support.text import composed
from phasegraph.fusion.exact_match import ExactMatchBonus
from phasegraph.graph.experimental import llm_extraction
from phasegraph.graph.model.rules import title_names
from phasegraph.graph.model.words import normalise_name, split_words
from phasegraph.lexical import split
from phasegraph.retrieval.identity import text_id

MARKS = "e" + 120_000 * "\u0301\u0316"
READERS = {
    "composed": composed,
    "text_id": text_id,
    "words": split_words,
    "names": normalise_name,
    "tokens": split,
    "title of blanks": lambda text: title_names("a" + 64_000 * " " + "b"),
    "title of brackets": lambda text: title_names(32_000 * "( " + 32_000 * ") "),
    "quotations": lambda text: ExactMatchBonus()._terms(20_000 * "“a " + 20_000 * "«", ["text"]),
    "thoughts": lambda text: list(llm_extraction.values_in(60_000 * "<think>")),
    "nested answer": lambda text: list(llm_extraction.values_in(31 * "[" + 60_000 * "1," + "x")),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_quarter_of_a_megabyte_is_read_in_linear_time(reader):
    """At most a few dozen loops; where the time grew with the square of the length, it was from 500 to thousands."""
    assert work_of(lambda: READERS[reader](MARKS)) < 300


def test_long_runs_of_marks_are_parted():
    found = composed("x" + 5_000 * "\u0316")
    assert found.replace("\u034f", "") == "x" + 5_000 * "\u0316"
    assert max(map(len, found.split("\u034f"))) <= 31


@given(st.text(alphabet=st.characters(categories=["L", "M", "N", "Z"]), max_size=80), st.integers(0, 3))
def test_a_text_without_long_runs_is_composed_as_unicode_says(text, times):
    whole = (text + "a") * (times * 20 + 1)
    assert composed(whole) == unicodedata.normalize("NFC", whole)


def test_what_is_no_value_is_read_twice_at_most(monkeypatch):
    read = []
    following = llm_extraction._Reader._next

    def counted(reader):
        read.append(1)
        return following(reader)

    monkeypatch.setattr(llm_extraction._Reader, "_next", counted)
    steps = []
    for count in (1_000, 2_000, 4_000):
        read.clear()
        list(llm_extraction.values_in(31 * "[" + count * "1," + "x"))
        steps.append(len(read))
    assert steps[1] < 2.2 * steps[0]
    assert steps[2] < 2.2 * steps[1]
    assert steps[2] < 5 * 8_000
