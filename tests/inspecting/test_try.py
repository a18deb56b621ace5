"""``phasegraph try``: from files to an explained answer in a browser, and what it says on the way."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tiny import PASSAGES

from inspecting.conftest import CHROMIUM
from phasegraph.apps.cli import demo, main, try_out
from phasegraph.apps.inspector.inspector import Inspector
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.graph.index.graph_index import GraphIndex

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def opened(monkeypatch):
    """The inspectors that the command would have served, with the question that each was opened on."""
    found: list[tuple[Inspector, str | None]] = []
    monkeypatch.setattr(try_out, "show_page", lambda inspector, ask, port, open_it: found.append((inspector, ask)))
    return found


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, title, text in PASSAGES[:6]:
        (folder / f"{name}.md").write_text(f"# {title}\n\n{text}\n", encoding="utf-8")
    (folder / "more.jsonl").write_text(
        "".join(json.dumps({"title": title, "text": text}) + "\n" for _, title, text in PASSAGES[6:]), encoding="utf-8"
    )
    (tmp_path / "my_model.py").write_text("from inspecting.conftest import embed\n", encoding="utf-8")
    yield folder
    sys.modules.pop("my_model", None)


def test_a_folder_is_read_counted_and_opened_on_questions(files, opened, capsys) -> None:
    assert main(["try", str(files)]) == 0
    said = capsys.readouterr().out
    assert "read 7 files (1 JSONL, 6 Markdown), 12 passages" in said
    assert "built 12 passages, " in said
    assert "without --embedder, passages are found by words and the graph" in said
    ((inspector, ask),) = opened
    assert ask is None
    assert set(inspector.sources) == {"graph", "bm25"}
    offered = inspector.about()["questions"]
    assert offered
    assert not any(one["judged"] for one in offered)
    made = inspector.view(offered[0]["text"], {})
    assert made["made"]
    assert any(hop["found"] for hop in made["gold"])
    assert inspector.command == f"phasegraph try {files}"
    view = inspector.view("Where did Lord Byron, father of Ada Lovelace, die?", {})
    answered = {view["passages"][row["id"]]["title"] for row in view["rows"] if row["position"] and row["position"] < 4}
    assert answered >= {"Ada Lovelace", "Lord Byron"}


def test_a_model_of_the_user_adds_vectors_and_the_index_can_be_kept(files, opened, capsys) -> None:
    assert main(["try", str(files), "--embedder", "my_model:embed", "--ask", "Who is Ada?", "--out", "kept"]) == 0
    ((inspector, ask),) = opened
    assert ask == "Who is Ada?"
    assert set(inspector.sources) == {"vector", "graph", "bm25"}
    kept = GraphIndex.load("kept")
    assert np.linalg.norm(kept.graph.embeddings, axis=1) == pytest.approx(1.0, abs=1e-3)
    assert "saved the index: kept" in capsys.readouterr().out
    assert main(["index", str(files), "--out", "again", "--embedder", "my_model:embed"]) == 0
    assert list(GraphIndex.load("again").records) == list(kept.records)
    assert main(["search", "again", "Who is Ada Lovelace?", "--embedder", "my_model:embed"]) == 0
    assert "Ada Lovelace" in capsys.readouterr().out


def test_judged_questions_of_the_user_are_starred(files, opened, tmp_path) -> None:
    lines = [{"question": "Where did Byron die?", "quotes": ["died at Missolonghi"]}]
    (tmp_path / "asked.jsonl").write_text("".join(map(json.dumps, lines)), encoding="utf-8")
    assert main(["try", str(files), str(tmp_path / "asked.jsonl")]) == 0
    ((inspector, _),) = opened
    assert inspector.about()["questions"][0] == {"text": "Where did Byron die?", "judged": True}
    (hop,) = inspector.view("Where did Byron die?", {})["gold"]
    assert hop["found"]
    assert [inspector.collection.read(name)[0] for name in hop["passages"]] == ["Lord Byron"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["empty"], 1, "empty: the folder contains no files; phasegraph reads text"),
        (["nope"], 2, "'nope' does not exist"),
        (["notes", "--embedder", "word2vec"], 2, "--embedder must be minilm, fastembed or MODULE:OBJECT"),
        (["notes", "--out", "notes"], 1, "the folder contains other files: name a new or empty folder"),
    ],
)
def test_what_cannot_be_tried_is_told_before_any_work(files, opened, capsys, arguments, code, said) -> None:
    (files.parent / "empty").mkdir()
    assert main(["try", *arguments]) == code
    assert said in " ".join(capsys.readouterr().err.replace("│", "").split())
    assert opened == []


@pytest.fixture(scope="module")
def tried() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command itself, serving the documentation, and the address that it printed."""
    if CHROMIUM is None and not os.environ.get("PHASEGRAPH_REQUIRE_CHROMIUM"):
        pytest.skip("no chromium on the PATH")
    command = [str(Path(sys.executable).parent / "phasegraph"), "try", str(ROOT / "docs"), "--no-open"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if found := re.match(r"(http://127\.0\.0\.1:\d+/)  \(Ctrl-C stops it\)", line):
                break
        else:
            pytest.fail("the command printed no address")
        yield run, found[1]
        run.send_signal(signal.SIGINT)
        run.wait(30)


@pytest.mark.parametrize("width", [1280, 400])
def test_the_documentation_is_tried_up_to_an_explained_answer(watch, tried, width) -> None:
    from playwright.sync_api import expect

    watched = watch(width)
    page = watched.open(tried[1])
    expect(page.locator("#starters")).to_contain_text("Generated from the passages")
    first = page.locator("#starters button").first
    question = first.inner_text()
    assert not question.startswith("What is A ")
    first.click()
    expect(page.get_by_label("Question", exact=True)).to_have_value(question)
    expect(page.locator("#answers li:not(.ghost)")).to_have_count(10)  # a missed passage is listed below the answer
    expect(page.locator("#gold")).to_contain_text("made from")
    expect(page.locator("#start-card")).to_be_hidden()
    expect(page.locator("#answers .why").first).to_have_text(re.compile(r"^(The graph|Words|No source) .*\.$"))
    page.locator("#answers button.passage").first.click()
    expect(page.locator("#answers li.on table")).to_contain_text("contribution")
    if width == 400:
        page.get_by_role("tab", name="Walk").click()
    expect(page.locator("#paths")).to_contain_text("→")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_a_stopped_command_is_named_on_the_page_with_its_port(watch, tried) -> None:
    from playwright.sync_api import expect

    run, address = tried
    watched = watch()
    page = watched.open(address)
    expect(page.locator("#starters button").first).to_be_visible()
    run.send_signal(signal.SIGINT)
    run.wait(30)
    page.locator("#starters button").first.click()
    port = address.rstrip("/").rsplit(":", 1)[1]
    expect(page.locator("#command")).to_have_text(f"phasegraph try {ROOT / 'docs'} --no-open --port {port}")
    watched.wrong = [line for line in watched.wrong if "ERR_CONNECTION_REFUSED" not in line]  # the browser's own note


def test_the_address_holds_the_question_to_open(watch, served, inspector) -> None:
    from urllib.parse import quote

    from playwright.sync_api import expect

    home, question = served(inspector), "Who was the father of Ada Lovelace & who else?"
    page = watch().open(f"{home}#question={quote(question)}", home)
    expect(page.get_by_label("Question", exact=True)).to_have_value(question)
    expect(page.locator("#answers li").first).to_be_visible()


def test_the_demo_opens_on_an_answer_that_vectors_rank_far_below(monkeypatch, capsys, recwarn) -> None:
    shown: list[tuple[Inspector, str]] = []
    monkeypatch.setattr(demo, "show_page", lambda inspector, ask, port, open_it: shown.append((inspector, ask)))
    monkeypatch.setattr(demo, "_installed_model", lambda: None)
    assert main(["demo"]) == 0
    ((inspector, ask),) = shown
    assert ask == "What is the name of the waterfall in the country where the Bubye River is found?"
    assert inspector.about()["questions"][0] == {"text": ask, "judged": True}
    view = inspector.view(ask, {})
    row = next(row for row in view["rows"] if view["passages"][row["id"]]["title"] == "Victoria Falls")
    assert row["position"] == 2
    assert row["sources"]["vector"]["rank"] == 16
    names = [name for _, name in row["walk"]["path"]]
    assert names[0] == "bubye river"
    assert "zimbabwe" in names
    own = inspector.view("Which river is in Zimbabwe?", {})
    assert {one["name"] for one in own["sources"] if one["status"] == "ok"} == {"graph", "bm25"}
    assert not recwarn.list


def test_the_slice_of_the_demo_is_a_part_of_the_bundled_data_and_small() -> None:
    whole, part = load_dataset(ROOT / "data" / "musique-openie"), demo.demo_data()
    known = {
        passage.id: (passage, vector) for passage, vector in zip(whole.passages, whole.passage_vectors, strict=True)
    }
    for passage, vector in zip(part.passages, part.passage_vectors, strict=True):
        assert known[passage.id][0] == passage
        assert np.array_equal(known[passage.id][1], vector)
    folder = ROOT / "src" / "phasegraph" / "apps" / "inspector" / "demo"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 400_000
    assert "CC BY-SA" in (folder / "SOURCE.md").read_text(encoding="utf-8")
