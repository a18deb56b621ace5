"""``phasegraph try --compare``: a user's own retriever against plain ways and phasegraph, up to the verdict."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from tiny import PASSAGES, QUERIES, write_jsonl

from phasegraph.apps.cli import main, try_out

MODULE = """
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from inspecting.conftest import embed
from my_files import TEXTS


class Counts(Embeddings):
    def embed_query(self, text):
        return embed(text).tolist()

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


store = InMemoryVectorStore(Counts())
store.add_documents([Document(text, metadata={"file": name}) for name, text in TEXTS])
retriever = store.as_retriever(search_kwargs={"k": 5})


def elsewhere(question):
    return [Document("A text about the tides of another planet and its seven moons.", id="x")]


def nothing(question):
    return []


def failing(question):
    raise ConnectionError("no route to host")
"""
RNG = np.random.default_rng(0)
VOCABULARY = [f"{one}{two}" for one in ("bar", "cel", "dim", "fos", "gur", "hal") for two in ("an", "eth", "ion", "or")]


def filler(row: int) -> str:
    return " ".join(RNG.choice(VOCABULARY, 30).tolist()) + f" town{row}."


@pytest.fixture
def files(tmp_path, monkeypatch, request):
    """A folder of notes, 50 by default; the retriever's own chunks are cut differently, without titles."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder = tmp_path / "notes"
    folder.mkdir()
    texts = []
    for row in range(getattr(request, "param", 50)):
        place = f"Lake {VOCABULARY[row % 20].capitalize()}"
        text = f"The road passes {place} near {place}. Then {filler(row)}"
        (folder / f"n{row:02d}.md").write_text(f"# Report {row}\n\n{text}\n", encoding="utf-8")
        texts.append((f"n{row:02d}", text[: len(text) * 2 // 3]))
    (tmp_path / "my_files.py").write_text(f"TEXTS = {texts!r}\n", encoding="utf-8")
    (tmp_path / "my_own_rag.py").write_text(MODULE, encoding="utf-8")
    for name in ("my_own_rag", "my_files"):
        sys.modules.pop(name, None)
    yield folder
    for name in ("my_own_rag", "my_files"):
        sys.modules.pop(name, None)


def test_made_questions_give_a_verdict_on_a_retriever_with_chunks_of_its_own(files, capsys, monkeypatch) -> None:
    monkeypatch.setattr(try_out, "show_page", lambda *_: pytest.fail("no page opens"))
    assert main(["try", str(files), "--compare", "my_own_rag:retriever"]) == 0
    said = capsys.readouterr().out
    assert "not asked by users" in said
    assert "40 known-item: 6 words of a passage, which is the answer; these questions favor BM25" in said
    assert "these questions favor the graph" in said
    assert "without --embedder, vectors and ensemble are left out, and phasegraph uses no vectors" in said
    assert "questions won / lost in Recall@5" in said
    row = next(line for line in said.splitlines() if line.startswith("│ my_own_rag:retriever"))
    assert float(row.split("│")[2].split()[0]) > 5, "the chunks of the retriever are matched to the passages"
    for number in (1, 2, 3):
        flip = said[said.index(f"\n{number}. ") :].splitlines()[1:5]
        assert flip[0].startswith((f"{number}. won: ", f"{number}. lost: "))
        assert "my_own_rag:retriever: " in flip[2]
        assert "phasegraph: " in flip[2]
        assert flip[3].startswith("   why: ")
        assert "graph rank" in flip[3]
    assert "verdict on questions made from the files: " in said
    assert "points of Recall@5" in said[said.index("verdict") :]


def test_questions_of_the_user_are_compared_with_vectors_too(files, tmp_path, capsys) -> None:
    lines = [{"question": f"What is in town{row}?", "pages": [f"n{row:02d}.md"]} for row in range(20)]
    lines += [{"question": f"town{row}", "quotes": f"town{row}."} for row in range(20, 40)]
    write_jsonl(tmp_path / "asked.jsonl", lines)
    command = ["try", str(files), "asked.jsonl", "--compare", "my_own_rag:retriever", "--embedder", "my_own_rag:embed"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "asking 40 questions of asked.jsonl" in said
    for way in ("vectors", "bm25", "ensemble", "phasegraph"):
        assert f"│ {way} " in said
    assert "known-item" not in said
    assert "\nverdict: " in said
    assert "write 40 questions" not in said


def test_a_retriever_that_finds_everything_is_told_to_stay(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    write_jsonl(tmp_path / "corpus.jsonl", [{"id": one, "title": title, "text": text} for one, title, text in PASSAGES])
    asked = [
        {"id": f"{one}{turn}", "question": text, "relevant": gold}
        for turn in range(10)
        for one, text, gold, _ in QUERIES
    ]
    write_jsonl(tmp_path / "asked.jsonl", asked)
    gold = json.dumps({text: gold for _, text, gold, _ in QUERIES})
    (tmp_path / "perfect_rag.py").write_text(f"GOLD = {gold}\n\ndef retriever(question):\n    return GOLD[question]\n")
    assert main(["try", "corpus.jsonl", "asked.jsonl", "--compare", "perfect_rag:retriever"]) == 0
    said = capsys.readouterr().out
    assert "perfect_rag:retriever returns at most 2 hits, so only the first 2 passages of each method count" in said
    assert "verdict: you don't need phasegraph: perfect_rag:retriever finds more" in said
    assert "1. lost: " in said
    sys.modules.pop("perfect_rag", None)


@pytest.mark.parametrize("files", [12], indirect=True)
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["asked.jsonl"], 1, "asked.jsonl:1: a question needs one of"),
        (["--compare", "my_own_rag:retriever", "--ask", "Who?"], 2, "--ask must be left out with --compare"),
        (["--compare", "my_own_rag:nope"], 2, "the module 'my_own_rag' has no object 'nope'"),
        (["--compare", "my_own_rag:elsewhere"], 1, "no hit has an id or a text of these files"),
        (["--compare", "my_own_rag:nothing"], 1, "my_own_rag:nothing returned no hits for any of the"),
        (["--compare", "my_own_rag:failing"], 1, "all sources failed. my_own_rag:failing: ConnectionError"),
        (["asked.jsonl", "--compare", "my_own_rag:retriever"], 1, "asked.jsonl:1: a question needs one of"),
        (["quoted.jsonl", "--compare", "my_own_rag:retriever"], 1, "no passage contains the quote 'seven moons'"),
        (["paged.jsonl", "--compare", "my_own_rag:retriever"], 1, "no file with the name 'n99.md' was read"),
    ],
)
def test_what_cannot_be_compared_is_told(files, tmp_path, capsys, arguments, code, said) -> None:
    write_jsonl(tmp_path / "asked.jsonl", [{"question": "Who?"}])
    write_jsonl(tmp_path / "quoted.jsonl", [{"question": "Who?", "quotes": ["seven moons"]}])
    write_jsonl(tmp_path / "paged.jsonl", [{"question": "Who?", "pages": ["n99.md"]}])
    assert main(["try", str(files), *arguments]) == code
    assert said in " ".join(capsys.readouterr().err.replace("│", "").split())
