"""An answer in plain words: what ``print`` says of a result and of its evidence, and the sentence of each passage."""

from __future__ import annotations

import pickle
import re
from types import SimpleNamespace

import pytest

from phasegraph import FusionPipeline, Ranking
from phasegraph.fusion.context import Context
from phasegraph.graph.walk.paths import PathNode, WalkPath
from phasegraph.lexical import HitWords
from phasegraph.result import view_of
from phasegraph.retrieval.payloads import Payloads
from phasegraph.sentences import tell, why

TEXTS = {"a": ("Bubye River", "It flows through Zimbabwe."), "b": ("Victoria Falls", "A waterfall of Zimbabwe.")}
HITS = {name: SimpleNamespace(page_content=text, metadata={"title": title}) for name, (title, text) in TEXTS.items()}
STEPS = (("entity", "bubye river"), ("passage", "a"), ("entity", "zimbabwe"), ("passage", "b"))
PATH = WalkPath((), tuple(PathNode(*step) for step in STEPS))


def rankings() -> list[Ranking]:
    ids = ["a", "b", "x", "y", "z"]
    hits = [HITS.get(name) for name in ids]
    graph = Ranking("graph", ids, [0.1 + 0.2, 0.2, 0.1, 0.05, 0.01], payloads=Payloads(ids, hits, {"b": PATH}))
    return [graph, Ranking("vector", ["a", *"cdefghijklmno", "b"], [1 - i / 20 for i in range(15)])]


def test_a_printed_result_is_four_readable_lines() -> None:
    context = Context(words=HitWords(covers={"graph": 1.0, "vector": 1.0}, together=1.0))
    lines = str(FusionPipeline(weights={"graph": 3, "vector": 1}).decide(rankings(), context, k=4)).splitlines()
    assert lines[0] == "4 of 18 candidates, confidence 1.00; the first 3:"
    assert lines[1] == "1 Bubye River: graph 1st, vector 1st"
    assert lines[2] == "2 Victoria Falls: graph 2nd, vector 15th, by Bubye River → Zimbabwe"
    assert len(lines) == 4
    assert not re.search(r"\d\.\d{5}", "\n".join(lines))


def test_chunks_of_one_document_are_told_apart_by_their_ids() -> None:
    ids = ["m#1", "m#2", "n"]
    hits = [SimpleNamespace(page_content=f"{name} text", metadata={"title": "Manual"}) for name in ids[:2]]
    hits.append(SimpleNamespace(page_content="", metadata={"title": "Notes"}))
    ranking = Ranking("vector", ids, [0.9, 0.5, 0.1], payloads=dict(zip(ids, hits, strict=True)))
    result = FusionPipeline().decide([ranking], k=3)
    lines = ["1 Manual (m#1): vector 1st", "2 Manual (m#2): vector 2nd", "3 Notes: vector 3rd"]
    assert str(result).splitlines()[1:4] == lines
    assert str(result.evidence("m#2")).splitlines()[0] == lines[1]


def test_printing_reads_few_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result reads its printed labels; the evidence of all results reads a constant number of labels for each."""
    read = []
    monkeypatch.setattr("phasegraph.result.label_of", lambda name, *_: read.append(name) or name)
    ids = [f"p{row}" for row in range(50)]
    result = FusionPipeline().decide([Ranking("vector", ids, range(50, 0, -1))], k=50)
    str(result)
    assert set(read) == set(ids[:3])
    assert len(read) == 6
    read.clear()
    for name in ids:
        str(result.evidence(name))
    assert len(read) == 100


def test_printed_evidence_begins_with_the_same_line_and_has_short_numbers() -> None:
    result = FusionPipeline(weights={"graph": 3, "vector": 1}).decide(rankings(), k=4)
    lines = str(result.evidence("b")).splitlines()
    assert lines[0] == str(result).splitlines()[2]
    assert len(lines) == 4
    assert lines[2].startswith("graph: 2nd, score 0.2, calibrated ")
    assert not re.search(r"\d\.\d{5}", "\n".join(lines))
    again = pickle.loads(pickle.dumps(result.evidence("b")))  # noqa: S301
    assert again == result.evidence("b")
    assert str(again) == str(result.evidence("b"))


def test_an_empty_result_says_why_and_a_warning_is_printed() -> None:
    empty = FusionPipeline().decide([Ranking("vector", [], [])])
    assert str(empty) == "no results: every source searched and found nothing; confidence 0.00"
    lists = [Ranking(name, list(ids), [3.0, 2.0, 1.0]) for name, ids in (("a", "xyz"), ("b", "uvw"))]
    apart = FusionPipeline().decide(lists)
    assert apart.warnings
    assert str(apart).splitlines()[-1].startswith("warning: ")


def test_text_of_others_steers_no_terminal() -> None:
    evil = "a\x1b[2J\nb"
    result = FusionPipeline().decide([Ranking("v", [evil], [1.0])])
    for text in (str(result), str(result.evidence(evil))):
        assert "\x1b" not in text
        assert "a\\x1b[2J\\nb" in text


@pytest.mark.parametrize(
    ("ranks", "parts", "said"),
    [
        ({"bm25": 1.0}, {"bm25": 1.0}, "Words found this."),
        ({"graph": 3.0, "vector": 1.0}, {"graph": 0.2, "vector": 0.9}, "Vectors found this; the graph (by Bo) agrees."),
        ({"graph": 12.0}, {"graph": 2.0}, "No source has this in its first 10; the graph ranks it 12th."),
        ({"graph": 3.0, "vector": 16.0, "bm25": 12.0}, {"graph": 1.0},
         "The graph found this by Bo; vectors rank it 16th and words 12th."),
        ({"graph": 12.0, "vector": 9.0}, {"graph": 2.0}, "Vectors found this; the graph ranks it 12th."),
        ({"mine": 1.0, "yours": None}, {}, "Mine found this; yours did not return it."),
        ({"graph": None}, {}, "No source ranks this passage."),
    ],
)  # fmt: skip
def test_a_sentence_says_who_found_a_passage_and_who_agrees(ranks, parts, said) -> None:
    assert why(ranks, parts, ["Bo"]) == said


def test_every_row_of_a_view_is_told() -> None:
    result = FusionPipeline(weights={"graph": 3, "vector": 1}).decide(rankings(), k=4)
    rows = {row["id"]: row for row in tell(view_of(result))["rows"]}
    assert rows["b"]["walk"]["labels"] == ["Bubye River", "Bubye River", "Zimbabwe", "Victoria Falls"]
    assert rows["b"]["why"] == "The graph found this by Bubye River → Zimbabwe; vectors rank it 15th."
    assert rows["x"]["label"] == "x"
