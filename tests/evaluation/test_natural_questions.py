"""Questions that a person could ask: whole sentences, of things that their passages hold, a few of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasegraph.evaluation.corpus_files import Passage
from phasegraph.evaluation.natural_questions import natural_questions
from phasegraph.graph import build_graph
from phasegraph.reading import read_files

ROOT = Path(__file__).resolve().parents[2]
MANUAL = """Which files it reads
The reader opens Markdown. If a file is larger than the limit, it is skipped. If it is empty, nothing happens.
To keep the index of your files, add the option. `index.remove` deletes passages of a document.
If you want to read a scan, use OCR first. If you are in doubt, ask."""
FILMS = [
    Passage("film", "Vertigo (film)", "Vertigo is a film directed by Alfred Hitchcock in 1958."),
    Passage(
        "man", "Alfred Hitchcock", "Alfred Hitchcock was an English director. Alfred Hitchcock was born in Leytonstone."
    ),
    Passage("hall", "Inlow Hall", "Inlow Hall was built in 1929. Inlow Hall is in La Grande."),
]


def made_of(*passages: Passage, count: int = 20) -> dict[str, tuple[str, tuple[str, ...]]]:
    found = natural_questions(passages, build_graph(passages), count)
    return {query.text: (query.extra["kind"], tuple(hop[0] for hop in query.judgement.hops)) for query in found}


@pytest.mark.parametrize(
    ("title", "text", "questions"),
    [
        (
            "Reading",
            MANUAL,
            {
                "What happens if a file is larger than the limit?": "if",
                "How do I keep the index of my files?": "how",
                "What does index.remove delete?": "command",
                "How do I read a scan?": "how",
            },
        ),
        ("Building a graph", "Why is a graph built?\nIt is needed.", {
            "How do I build a graph?": "how", "Why is a graph built?": "asked",
        }),
        ("What's New, Mr. Magoo?", "A series for the screen.", {}),
        ("A sweep of 667 configurations", "It took a day. This shows nothing. If this fails, that is why.", {}),
        ("Ada Lovelace", "Ada Lovelace (born 10 December 1815) was an English mathematician.", {
            "When was Ada Lovelace born?": "fact",
        }),
        ("", "<b>If the page is long, it is cut</b>. If a [link](x) is dead, it goes. If x | y is so, z follows.", {}),
    ],
)  # fmt: skip
def test_a_sentence_becomes_a_question_that_needs_no_other_sentence(title, text, questions) -> None:
    found = made_of(Passage("p", title, text))
    assert {question: kind for question, (kind, _) in found.items()} == questions
    assert all(passages == ("p",) for _, passages in found.values())


def test_a_maker_who_has_a_passage_makes_a_question_in_two_steps() -> None:
    found = made_of(*FILMS)
    assert found["Where was the director of Vertigo born?"] == ("two-step", ("film", "man"))
    assert found["Who directed Vertigo?"] == ("fact", ("film",))
    assert found["Who was Alfred Hitchcock?"] == ("fact", ("man",))
    assert found["When was Inlow Hall built?"] == ("fact", ("hall",))
    assert found["Where is Inlow Hall?"] == ("fact", ("hall",))


def test_two_names_that_a_third_joins_make_a_question() -> None:
    texts = {
        "Bubye River": "The Bubye River flows through Great Zimbabwe.",
        "Victoria Falls": "The Victoria Falls lie near Great Zimbabwe.",
    }
    found = made_of(*(Passage(title, title, text) for title, text in texts.items()), count=4)
    ((question, (kind, passages)),) = found.items()
    assert kind == "related"
    assert all(title in question for title in texts)
    assert set(passages) == set(texts)


def test_the_questions_of_the_documentation_are_short_whole_and_of_several_kinds_and_pages() -> None:
    passages = read_files(ROOT / "docs").passages
    found = natural_questions(passages, build_graph(passages))
    assert len(found) == 8
    assert len({query.extra["kind"] for query in found}) >= 4
    sources = {passage.id: passage.extra["source"] for passage in passages}
    assert len({sources[query.judgement.hops[0][0]] for query in found}) == 8
    for query in found:
        assert query.text.endswith("?")
        assert 3 <= len(query.text.split()) <= 14
        assert not query.text.startswith("What is A ")
    again = natural_questions(passages, build_graph(passages))
    assert [query.text for query in again] == [query.text for query in found]


def test_a_corpus_without_such_sentences_makes_no_question() -> None:
    assert made_of(Passage("a", "", "nothing here is named"), Passage("b", "", "nor is it there")) == {}


def test_a_heading_that_chunks_repeat_is_answered_by_each_of_them() -> None:
    heading = "Does the corpus hold an answer?"
    chunks = [Passage(f"p{row}", "Thresholds", f"{heading}\nPart {row} of the section.") for row in range(3)]
    (query,) = natural_questions(chunks, build_graph(chunks))
    assert query.text == heading
    assert sorted(query.judgement.hops[0]) == ["p0", "p1", "p2"]
    assert len(query.judgement.hops) == 1
