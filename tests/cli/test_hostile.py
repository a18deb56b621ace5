"""Hostile files, paths, options and texts: every command ends with a code and a sentence, and steers no terminal."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from codecs import BOM_UTF8
from pathlib import Path

import numpy as np
import pytest
from tiny import write_dataset, write_jsonl
from typer.main import get_command

from phasegraph import FusionPipeline
from phasegraph.apps.cli import main
from phasegraph.apps.cli.app import COMMANDS, app
from phasegraph.graph import GraphIndex

SECONDS = float(os.environ.get("PHASEGRAPH_CLI_SECONDS", "0.4"))
"""Processor time for which each command is fuzzed; a longer run is asked for by the environment."""
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
EVIL = "\x1b]0;owned\x07\x1b[31m\u202egnp\u2066\x9b2J\r\nfake: line"
OURS = str(Path(sys.modules["phasegraph"].__file__).parent)

CONTENTS = {
    "empty": b"",
    "blank": b" \n\n",
    "bom": BOM_UTF8,
    "utf16": "q0 Q0 p00 1 1.0 run\n".encode("utf-16"),
    "latin": b"q0 Q0 caf\xe9 1 1.0 run\n",  # codespell:ignore caf
    "nul": b"\x00" * 100,
    "binary": bytes(range(256)) * 4,
    "null": b"null\n",
    "list": b"[1, 2]\n",
    "number": b"1e999\n",
    "deep": b"[" * 50_000 + b"]" * 50_000 + b"\n",
    "digits": b'{"id": ' + b"9" * 5000 + b"}\n",
    "surrogate": b'{"id": "\\ud800", "title": "\\udfff", "text": "\\ud800 \\u202e"}\n',
    "evil": json.dumps({"id": EVIL, "title": EVIL, "text": f"Ada met {EVIL}", "question": EVIL}).encode() + b"\n",
    "long": b'{"id": "' + b"x" * 200_000 + b'", "text": "y"}\n',
    "nan": b"q0 Q0 p00 1 nan run\n",
    "columns": b"q0 p00\n",
    "npy": b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (9999999999999,), }\n",
    "pickle": b"\x80\x04\x95\x00\x00\x00\x00.",
}
VALUES = [
    "", " ", "0", "1", "-1", "2.5", "1e999", "nan", "-inf", "9" * 30, "x", "x" * 5000, "a=1", "a=nan,b=1", "=", ",,,",
    ":", "a:b:c", "json:loads", "nowhere:nothing", "tiny:QUERIES", "vector", "vector,graph", "default", "rrf",
    "Recall@5", "nDCG@0", "Recall@-1", "q0", "id", "title", "english", "hetdocqa", "train", "-", "--", "$(x)", "../..",
    "\ud800", EVIL, "'; DROP", "{}", "null", "\U0001f600" * 50,
]  # fmt: skip


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Files of every kind, in a folder in which commands may write what they like."""
    work = tmp_path / "a" / "b"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets=None: None)  # or a page served has no end
    monkeypatch.setattr("watchfiles.watch", lambda *given, **more: iter([set()]))  # nor a watch
    write_dataset(work / "data")
    GraphIndex.build([{"id": "p1", "title": "Ada", "text": "Ada met Bo."}]).save(work / "index")
    FusionPipeline().save(work / "pipeline.json")
    (work / "one.run").write_text("q0 Q0 p00 1 2.0 one\nq0 Q0 p01 2 1.0 one\n")
    (work / "two.run").write_text("q0 Q0 p01 1 2.0 two\n")
    for name, data in CONTENTS.items():
        (work / f"{name}.jsonl").write_bytes(data)
        (work / f"{name}.npy").write_bytes(data)
        (work / f"{name}.run").write_bytes(data)
    for name in ("empty", "deep", "evil", "nul", "surrogate"):
        broken = write_dataset(work / f"data-{name}")
        (broken / ("corpus.jsonl" if name != "nul" else "queries.jsonl")).write_bytes(CONTENTS[name])
        folder = work / f"index-{name}"
        folder.mkdir()
        (folder / "manifest.json").write_bytes(CONTENTS[name])
    np.save(work / "wide.npy", np.zeros((12, 3)))
    (work / "loop").symlink_to(work / "loop")
    return work


def arguments(command, rng, place):
    """What a user, or a program that hates us, might write after the command's name."""
    paths = sorted(str(one) for one in place.iterdir())
    paths += ["", ".", "/", "/dev/null", "/nowhere/x", "x" * 300, "new", "a\nb", EVIL, "\udcff", "\x00", "~"]

    def value():
        return rng.choice(paths if rng.random() < 0.6 else VALUES)

    shape = get_command(app).get_command(None, command)
    out = [value() for _ in range(rng.choice([0, 1, 1, 1, 2, 3]))]
    if rng.random() < 0.6 and out:
        out[0] = {"fuse": "one.run", "index": "data/corpus.jsonl", "search": "index"}.get(command, "data")
    for option in rng.sample(shape.params, min(len(shape.params), rng.choice([0, 1, 2, 3]))):
        if option.param_type_name == "option" and option.opts[0] != "--help":
            out += [option.opts[0]] if option.is_flag else [option.opts[0], value()]
    if rng.random() < 0.7:
        if command in ("index", "fuse", "tune") and "--out" not in out:
            out += ["--out", rng.choice(["made", "made.run"])]
        if command == "evaluate" and "--systems" not in out:
            out += ["--systems", "vector"]
    return [command, *out]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.filterwarnings("ignore")
def test_a_command_never_shows_a_traceback_and_steers_no_terminal(command, place, capsys):
    rng, end, count = random.Random(command), time.process_time() + SECONDS, 0
    while time.process_time() < end and count < 3000:
        given, count = arguments(command, rng, place), count + 1
        code = main(given)
        said = capsys.readouterr()
        assert code in (0, 1, 2), given
        for text in (said.out, said.err):
            assert "Traceback (most recent call last)" not in text, given
            assert not STEERING.search(text), (given, STEERING.search(text), text)
        assert not re.search(rf"\({re.escape(OURS)}.*, line \d+\)", said.err), (given, said.err)
    assert count > 3


@pytest.mark.parametrize(
    ("given", "encoding"),
    [
        (["evaluate", "data-deep", "--systems", "vector"], "utf-8"),
        (["search", "index", "Who met \x1b[31mBo\udcff?"], "ascii"),
        (["search", "index-nul", "q"], "utf-8"),
        (["fuse", "one.run", "utf16.run", "--out", "x.run"], "utf-8"),
        (["index", "surrogate.jsonl", "--out", "new", "--entities-to", "names.txt"], "ascii"),
        (["explain", "data", "\x1b]0;owned\x07"], "utf-8"),
        (["tune", "data-empty", "--out", "\udcff/x"], "utf-8"),
        (["--\x1b[31m"], "utf-8"),
    ],
)
def test_a_real_process_ends_with_a_code_and_a_sentence(place, given, encoding):
    command = [sys.executable, "-c", "import sys; from phasegraph.apps.cli import main; sys.exit(main())", *given]
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, check=False, env=environment, timeout=120)
    assert done.returncode in (0, 1, 2)
    text = (done.stdout + done.stderr).decode(encoding)
    assert "Traceback" not in text
    assert not STEERING.search(text)


# What a corpus of others holds, in everything that is shown.


def _evil_dataset(folder):
    write_dataset(folder)
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    rows[0] |= {"title": f"Ada Lovelace{EVIL}", "text": rows[0]["text"] + EVIL}
    write_jsonl(folder / "corpus.jsonl", rows)
    asked = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    asked[0]["question"] += EVIL
    write_jsonl(folder / "queries.jsonl", asked)
    return folder


@pytest.mark.filterwarnings("ignore")
def test_titles_texts_and_questions_steer_no_terminal_and_make_no_lines(tmp_path, capsys):
    folder = _evil_dataset(tmp_path / "data")
    assert main(["explain", str(folder), "q0"]) == 0
    explained = capsys.readouterr().out
    assert "\\x1b]0;owned\\x07" in explained
    assert main(["index", str(folder / "corpus.jsonl"), "--out", str(tmp_path / "made")]) == 0
    assert main(["search", str(tmp_path / "made"), f"Ada Lovelace {EVIL}"]) == 0
    found = capsys.readouterr().out
    for text in (explained, found):
        assert not STEERING.search(text)
        assert not re.search(r"^\s*fake: line", text, re.M)


@pytest.mark.filterwarnings("ignore")
def test_json_says_the_same_and_steers_nothing(tmp_path, capsys):
    folder = _evil_dataset(tmp_path / "data")
    assert main(["explain", str(folder), "q0", "--json", "-"]) == 0
    text = capsys.readouterr().out
    assert not STEERING.search(text)
    assert json.loads(text)["question"].endswith(EVIL)


# Byte-order marks.


@pytest.mark.filterwarnings("ignore")
def test_a_byte_order_mark_is_no_part_of_what_is_read(tmp_path, capsys):
    plain, marked = tmp_path / "plain", tmp_path / "marked"
    for folder, mark in ((plain, b""), (marked, BOM_UTF8)):
        folder.mkdir()
        (folder / "one.run").write_bytes(mark + b"q0 Q0 p00 1 2.0 one\nq0 Q0 p01 2 1.0 one\n")
        (folder / "two.jsonl").write_bytes(mark + b'{"query": "q0", "ids": ["p01"], "scores": [1.0]}\n')
        assert main(["fuse", str(folder / "one.run"), str(folder / "two.jsonl"), "--out", str(folder / "out")]) == 0
        data = write_dataset(folder / "data")
        for name in ("corpus.jsonl", "queries.jsonl"):
            (data / name).write_bytes(mark + (data / name).read_bytes())
        triples = b'{"id": "p00", "triples": [["Ada Lovelace", "met", "Charles Babbage"]]}\n'
        (folder / "triples.jsonl").write_bytes(mark + triples)
        (folder / "names.txt").write_bytes(mark + b"Lord Byron\n")
        options = ["--triples", str(folder / "triples.jsonl"), "--known-names", str(folder / "names.txt")]
        assert main(["index", str(data / "corpus.jsonl"), "--out", str(folder / "index"), *options]) == 0
        assert main(["evaluate", str(data), "--systems", "vector", "--json", str(folder / "table.json")]) == 0
    assert (plain / "out").read_bytes() == (marked / "out").read_bytes()
    tables = [json.loads((one / "table.json").read_text())["systems"]["vector"]["Recall@5"] for one in (plain, marked)]
    assert tables[0] == tables[1]
    one, other = (GraphIndex.load(folder / "index").graph for folder in (plain, marked))
    assert (one.passages, one.entities, one.facts.nnz) == (other.passages, other.entities, other.facts.nnz)


def test_files_that_were_joined_may_have_several(tmp_path):
    from phasegraph.evaluation.runs import read_run

    line = BOM_UTF8 + b"q%d Q0 p00 1 2.0 one\n"
    (tmp_path / "one.run").write_bytes(line % 0 + line % 1)
    assert list(read_run(tmp_path / "one.run").rankings) == ["q0", "q1"]
