"""How an answer looks: foreign text stays text, a source keeps its colour, nothing is made before it is asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np

from phasegraph import Background, FusionPipeline, Ranking
from phasegraph._support.markup import answer_html, escaped, visible
from phasegraph.acceptance import AcceptancePolicy
from phasegraph.result import view_of

VECTOR = Ranking("vector", ["a", "b", "c"], [0.9, 0.6, 0.2], payloads={"a": object()})
GRAPH = Ranking("graph", ["c", "d"], [0.5, 0.1], background=Background(-9.0, 1.0, "log", 1e-4))


class Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.seen |= {tag, *(name for name, _ in attrs)}


def test_unseen_characters_are_named_and_others_left() -> None:
    assert visible("a\u202eb\x00\u2028\ud800\ufeff\u00ad") == "a⟨U+202E⟩b⟨U+0000⟩⟨U+2028⟩⟨U+D800⟩⟨U+FEFF⟩⟨U+00AD⟩"
    assert visible("Zürich\n\tनमस्ते 👩\u200d🔬 日本") == "Zürich\n\tनमस्ते 👩\u200d🔬 日本"
    assert escaped("<a b=\"c\" d='e'>&") == "&lt;a b=&quot;c&quot; d=&#x27;e&#x27;&gt;&amp;"


def test_hostile_names_ids_reasons_and_warnings_are_text() -> None:
    evil = "</style></td><script>alert(1)</script><img src=x onerror=alert(1)>' onclick='x"
    result = FusionPipeline().decide([Ranking(evil, [evil, "b"], [2.0, 1.0], reason=evil), Ranking("v", ["z"], [1.0])])
    page = answer_html(view_of(result, evil) | {"warnings": [evil]})
    assert Tags(page).seen <= {
        "div", "class", "style", "h4", "table", "thead", "tbody", "tr", "th", "td", "span", "br", "title", "bdi", "b",
        "details", "summary",
    }  # fmt: skip
    assert "alert(1)" in page


def test_a_result_shows_lists_and_what_it_knows_of_the_others() -> None:
    middle = float(FusionPipeline().decide([VECTOR, GRAPH]).scores[2])
    result = FusionPipeline(accept=AcceptancePolicy(final=middle)).decide([VECTOR, GRAPH], k=2)
    view = json.loads(json.dumps(view_of(result), allow_nan=False))
    rows = {row["id"]: row for row in view["rows"]}
    assert list(rows)[: len(result)] == list(result.ids)
    assert rows["d"]["position"] is None
    assert rows["d"]["sources"]["graph"]["rank"] == 2
    assert rows["d"]["sources"]["graph"]["calibrated"] is None
    accepted = {name for name, row in rows.items() if row["verdict"] == "accepted"}
    assert accepted >= set(result.ids)
    page = result._repr_html_()
    for name in ("vector", "graph"):
        assert page.count(name) >= 2
    assert page.count("title='rejected'") == 1


def test_the_numbers_shown_are_those_of_the_evidence() -> None:
    result = FusionPipeline.paper().decide([VECTOR, GRAPH])
    for row in view_of(result)["rows"]:
        evidence = result.evidence(row["id"])
        assert row["fused"] == evidence.fused
        for one in evidence.sources:
            said = row["sources"][one.source]
            assert said["rank"] == one.rank
            assert said["raw"] == one.raw
            assert said["contribution"] == one.contribution


def test_a_list_that_was_not_fused_is_shown_too() -> None:
    result = FusionPipeline(weights={"vector": 1.0, "graph": 0.0}).decide([VECTOR, GRAPH])
    view = view_of(result, rankings=[VECTOR, GRAPH])
    weights = {one["name"]: one["weight"] for one in view["sources"]}
    assert weights == {"vector": 1.0, "graph": None}
    rows = {row["id"]: row for row in view["rows"]}
    assert rows["d"]["verdict"] == "not fused"
    assert rows["d"]["sources"]["graph"]["contribution"] is None
    assert "not fused" in answer_html(view)


def test_an_empty_answer_says_why() -> None:
    page = FusionPipeline().decide([Ranking("v", [], np.empty(0))])._repr_html_()
    assert "no results: every source searched and found nothing" in page


def test_nothing_of_it_is_loaded_before_a_page_is_wanted() -> None:
    names = ("phasegraph._support.markup", "starlette")
    code = f"import sys, phasegraph; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
