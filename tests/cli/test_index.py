"""``phasegraph index``: what it builds, what it updates, and what it refuses before anything is written."""

import json
import os
import pty
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tiny import PASSAGES, write_dataset, write_jsonl

from phasegraph.apps.cli import main
from phasegraph.apps.server.view import View
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.model.storage import load_graph

TRIPLES = [
    {"id": "p00", "triples": [["Ada Lovelace", "daughter of", "Lord Byron"], ["Ada Lovelace", "worked"]]},
    {"id": "p03", "triples": [["Charles Babbage", "born in", "London"]]},
]


@pytest.fixture
def folder(tmp_path):
    return write_dataset(tmp_path / "tiny")


def _run(folder: Path, out: Path, *more: object) -> int:
    return main(["index", str(folder / "corpus.jsonl"), "--out", str(out), *map(str, more)])


def _same(out: Path, other: Path) -> None:
    """Equal to the bit, but for the order of the passages."""
    one, two = load_graph(out), load_graph(other)
    assert one.entities == two.entities
    order = [two.passage_rows[name] for name in one.passages]
    assert (one.mentions != two.mentions[order]).nnz == 0
    assert (one.homes != two.homes[order]).nnz == 0
    assert (one.facts != two.facts).nnz == 0
    if one.embeddings is not None:
        assert np.array_equal(one.embeddings, two.embeddings[order])


def test_sizes_are_printed_and_malformed_triples_counted(folder, tmp_path, capsys):
    write_jsonl(tmp_path / "t.jsonl", TRIPLES)
    assert _run(folder, tmp_path / "g", "--triples", tmp_path / "t.jsonl") == 0
    printed = capsys.readouterr().out
    graph = load_graph(tmp_path / "g")
    assert f"12 passages, {len(graph.entities)} entities, {graph.mentions.nnz} mentions, 2 facts in " in printed
    assert "skipped 1 malformed triple of" in printed


def test_the_openie_format_gives_the_same_index(folder, tmp_path):
    write_jsonl(tmp_path / "t.jsonl", TRIPLES)
    texts = {name: f"{title}\n{text}" for name, title, text in PASSAGES}
    docs = [{"idx": "-", "passage": texts[one["id"]], "extracted_triples": one["triples"]} for one in TRIPLES]
    (tmp_path / "openie.json").write_text(json.dumps({"docs": docs}), encoding="utf-8")
    assert _run(folder, tmp_path / "one", "--triples", tmp_path / "t.jsonl") == 0
    assert _run(folder, tmp_path / "two", "--triples", tmp_path / "openie.json") == 0
    _same(tmp_path / "one", tmp_path / "two")


def test_known_names_add_names_that_capitals_do_not_show(folder, tmp_path):
    (tmp_path / "names.txt").write_text("Poet Who\n\nMechanical Computer 7\nCounty of England\n", encoding="utf-8")
    assert _run(folder, tmp_path / "g", "--known-names", tmp_path / "names.txt") == 0
    assert GraphIndex.load(tmp_path / "g").known_names == {"poet who", "mechanical computer 7", "county of england"}


@pytest.mark.parametrize("with_vectors", [False, True])
def test_an_update_gives_what_building_anew_gives(folder, tmp_path, capsys, with_vectors):
    rows = [{"id": name, "title": title, "text": text} for name, title, text in PASSAGES]
    vectors = np.load(folder / "passages.f16.npy")
    before = [*rows[:8], {"id": "old", "title": "Old", "text": "Old met Lord Byron."}]
    before[2] = {**before[2], "text": "A town, they said, in western Greece."}
    write_jsonl(folder / "corpus.jsonl", before)
    np.save(tmp_path / "v.npy", np.concatenate([vectors[:8], vectors[:1]]))
    write_jsonl(tmp_path / "t.jsonl", TRIPLES[:1])
    more = ["--embeddings", tmp_path / "v.npy"] if with_vectors else []
    assert _run(folder, tmp_path / "g", "--triples", tmp_path / "t.jsonl", *more) == 0
    write_jsonl(folder / "corpus.jsonl", rows)
    np.save(tmp_path / "v.npy", vectors)
    write_jsonl(tmp_path / "t.jsonl", TRIPLES)
    capsys.readouterr()
    assert _run(folder, tmp_path / "g", "--triples", tmp_path / "t.jsonl", "--update", *more) == 0
    assert "4 passages new, 1 gone, 2 changed, 6 unchanged" in capsys.readouterr().out
    assert _run(folder, tmp_path / "anew", "--triples", tmp_path / "t.jsonl", *more) == 0
    _same(tmp_path / "g", tmp_path / "anew")


def test_an_update_without_a_difference_writes_nothing(folder, tmp_path, capsys):
    assert _run(folder, tmp_path / "g", "--update") == 0
    before = (tmp_path / "g" / "manifest.json").stat()
    assert _run(folder, tmp_path / "g", "--update") == 0
    after = (tmp_path / "g" / "manifest.json").stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)
    assert "0 passages new, 0 gone, 0 changed, 12 unchanged" in capsys.readouterr().out


def test_an_update_of_everything_builds_anew(folder, tmp_path):
    assert _run(folder, tmp_path / "g") == 0
    write_jsonl(folder / "corpus.jsonl", [{"id": "n", "title": "Ada", "text": "Ada met Bo."}])
    assert _run(folder, tmp_path / "g", "--update") == 0
    assert load_graph(tmp_path / "g").passages == ("n",)


def test_an_update_keeps_the_triples_of_passages_that_stay(folder, tmp_path):
    write_jsonl(tmp_path / "t.jsonl", TRIPLES)
    assert _run(folder, tmp_path / "g", "--triples", tmp_path / "t.jsonl") == 0
    with (folder / "corpus.jsonl").open("a", encoding="utf-8") as handle:
        handle.write('{"id": "p12", "title": "Zürich", "text": "Zürich is in Switzerland."}\n')
    assert _run(folder, tmp_path / "g", "--update") == 0
    graph = load_graph(tmp_path / "g")
    assert (len(graph.passages), graph.facts.nnz) == (13, 4)


def _break(folder: Path, tmp: Path, what: str) -> list[object]:
    if what == "line":
        (folder / "corpus.jsonl").write_text('{"id": "a", "text": "Ada."}\n{"id": "b", "te', encoding="utf-8")
    if what == "twice":
        write_jsonl(folder / "corpus.jsonl", [{"id": "a", "text": "Ada."}, {"id": "a", "text": "Bo."}])
    if what == "no text":
        write_jsonl(folder / "corpus.jsonl", [{"id": "a", "text": "Ada."}, {"id": "b", "text": " "}])
    if what == "empty":
        (folder / "corpus.jsonl").write_text("", encoding="utf-8")
    if what == "triples":
        write_jsonl(tmp / "t.jsonl", [{"id": "p00"}, {"id": "zz"}])
        return ["--triples", tmp / "t.jsonl"]
    if what in ("rows", "nan", "no array"):
        vectors = np.load(folder / "passages.f16.npy")
        vectors[3] = np.nan
        np.save(tmp / "v.npy", vectors[:5] if what == "rows" else vectors)
        if what == "no array":
            (tmp / "v.npy").write_bytes(b"\x93NUMPY")
        return ["--embeddings", tmp / "v.npy"]
    if what == "known_names":
        (tmp / "names.txt").write_bytes(b"Ada\nB\xff\n")
        return ["--known-names", tmp / "names.txt"]
    return []


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("line", "corpus.jsonl:2:"),
        ("twice", "corpus.jsonl:2: ids must not repeat; 'a' is already on line 1"),
        ("no text", "corpus.jsonl:2: a passage must have a title or a text; 'b'"),
        ("empty", "corpus.jsonl: there is no readable file: skipped 1 file: the file contains no text"),
        ("triples", "t.jsonl:2: passage 'zz' is not in the corpus"),
        ("rows", "v.npy: the file must have one row per line of corpus.jsonl (12); got 5"),
        ("nan", "v.npy: embeddings must be finite; row 3"),
        ("no array", "v.npy: the file must be a complete .npy array"),
        ("known_names", "names.txt:2: the line must be UTF-8"),
    ],
)
@pytest.mark.parametrize("there", [False, True])
def test_bad_input_names_file_and_row_and_leaves_what_was_there(folder, tmp_path, capsys, what, message, there):
    out = tmp_path / "g"
    if there:
        assert _run(folder, out) == 0
    before = {file.name: file.read_bytes() for file in out.glob("*")}
    assert _run(folder, out, "--force", *_break(folder, tmp_path, what)) == 1
    assert message in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in out.glob("*")} == before


@pytest.mark.parametrize(
    "arguments", [["--out"], [], ["--out", "g", "--triples", "none.jsonl"], ["--out", "g", "--no"]]
)
def test_bad_usage_ends_with_two(folder, monkeypatch, tmp_path, arguments):
    monkeypatch.chdir(tmp_path)
    assert main(["index", str(folder / "corpus.jsonl"), *arguments]) == 2
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize("chunks", [[], ["--chunks"]])
def test_an_index_is_not_replaced_unless_that_is_said(folder, tmp_path, capsys, chunks):
    out = tmp_path / "g"
    assert _run(folder, out) == 0
    before = {file.name: file.read_bytes() for file in out.glob("*")}
    write_jsonl(folder / "corpus.jsonl", [{"id": "n", "title": "Ada", "text": "Ada met Bo."}])
    assert _run(folder, out, *chunks) == 1
    assert "the folder already contains an index; --update changes it, --force replaces it" in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in out.glob("*")} == before
    assert _run(folder, out, "--force", *chunks) == 0
    assert "1 passage, " in capsys.readouterr().out


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_on_a_terminal_it_asks_before_an_index_is_replaced(folder, tmp_path, monkeypatch, capsys, answer, code):
    assert _run(folder, tmp_path / "g") == 0
    write_jsonl(folder / "corpus.jsonl", [{"id": "n", "title": "Ada", "text": "Ada met Bo."}])
    with typed(f"{answer}\n") as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        assert _run(folder, tmp_path / "g") == code
    assert "Replace it?" in capsys.readouterr().err
    assert load_graph(tmp_path / "g").passages == (("n",) if code == 0 else tuple(name for name, *_ in PASSAGES))


@contextmanager
def typed(text):
    """Standard input of a real terminal into which somebody typed this."""
    keyboard, screen = pty.openpty()
    os.write(keyboard, text.encode())
    with os.fdopen(screen, encoding="utf-8") as terminal:
        yield terminal
    os.close(keyboard)


def test_the_files_of_an_index_below_its_files_are_left_out(tmp_path, capsys):
    (tmp_path / "a.md").write_text("Ada met Bo.")
    for _ in range(2):
        assert main(["index", str(tmp_path), "--out", str(tmp_path / "deep" / "index"), "--force"]) == 0
        assert "skipped" not in capsys.readouterr().out


def test_a_folder_of_other_files_is_not_written_into(folder, tmp_path, capsys):
    assert _run(folder, folder) == 1
    assert "contains other files: name a new or empty folder" in capsys.readouterr().err
    assert not list(folder.glob("manifest*"))


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        ([], ["--embeddings"], "which has none: leave it out"),
        (["--embeddings"], [], "which has embeddings: give it"),
        ([], ["--known-names"], "--known-names must contain the same names as the index"),
    ],
)
def test_an_update_that_does_not_fit_is_refused(folder, tmp_path, capsys, first, then, message):
    (tmp_path / "names.txt").write_text("Ada\n", encoding="utf-8")
    files = {"--embeddings": folder / "passages.f16.npy", "--known-names": tmp_path / "names.txt"}
    assert _run(folder, tmp_path / "g", *[part for one in first for part in (one, files[one])]) == 0
    assert _run(folder, tmp_path / "g", "--update", *[part for one in then for part in (one, files[one])]) == 1
    assert message in capsys.readouterr().err


def test_an_update_of_a_damaged_index_names_the_file(folder, tmp_path, capsys):
    assert _run(folder, tmp_path / "g") == 0
    name = next(file for file in (tmp_path / "g").glob("records_text*.npy"))
    os.truncate(name, 100)
    assert _run(folder, tmp_path / "g", "--update") == 1
    assert name.name in capsys.readouterr().err


def _names_of(tmp_path: Path, names: list[str], vectors: np.ndarray) -> list[object]:
    (tmp_path / "names.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    np.save(tmp_path / "names.npy", vectors)
    return ["--names", tmp_path / "names.txt", "--name-embeddings", tmp_path / "names.npy"]


def test_entities_are_written_embedded_elsewhere_and_come_back_as_synonyms(folder, tmp_path, capsys):
    assert _run(folder, tmp_path / "g", "--entities-to", tmp_path / "names.txt") == 0
    names = (tmp_path / "names.txt").read_text(encoding="utf-8").splitlines()
    assert tuple(names) == load_graph(tmp_path / "g").entities
    assert "synonyms" not in capsys.readouterr().out
    vectors = np.eye(len(names))
    vectors[1] = vectors[0] * 0.9 + vectors[1] * np.sqrt(1 - 0.81)
    given = _names_of(tmp_path, [*names, "nobody of this corpus"], np.vstack([vectors, vectors[:1]]))
    assert _run(folder, tmp_path / "g", *given, "--force") == 0
    assert ", 1 synonym in " in capsys.readouterr().out
    graph = load_graph(tmp_path / "g")
    assert graph.synonyms[0, 1] == pytest.approx(0.9)
    assert graph.synonyms.nnz == 2
    assert _run(folder, tmp_path / "g", *given, "--force", "--synonym-threshold", "0.95") == 0
    assert load_graph(tmp_path / "g").synonyms.nnz == 0


def test_an_update_takes_the_embeddings_of_new_names(folder, tmp_path, capsys):
    rows = [{"id": name, "title": title, "text": text} for name, title, text in PASSAGES]
    write_jsonl(folder / "corpus.jsonl", [*rows[:9], {"id": "old", "title": "Old", "text": "Old met Lord Byron."}])
    assert _run(folder, tmp_path / "g", "--entities-to", tmp_path / "names.txt") == 0
    first = (tmp_path / "names.txt").read_text(encoding="utf-8").splitlines()
    rng = np.random.default_rng(0)
    known = {name: rng.normal(size=3) for name in first}
    more = ["--synonym-threshold", "0.7"]
    given = _names_of(tmp_path, first[:5], np.array([known[name] for name in first[:5]]))
    assert _run(folder, tmp_path / "g", *given, *more, "--force") == 0
    given = _names_of(tmp_path, first, np.array([known[name] for name in first]))
    assert _run(folder, tmp_path / "g", *given, "--update") == 0
    whole = load_graph(tmp_path / "g").synonyms
    assert _run(folder, tmp_path / "anew", *given, *more) == 0
    assert (whole != load_graph(tmp_path / "anew").synonyms).nnz == 0
    assert whole.nnz > 0
    write_jsonl(folder / "corpus.jsonl", rows)
    assert _run(folder, tmp_path / "new", "--entities-to", tmp_path / "names.txt") == 0
    for name in (tmp_path / "names.txt").read_text(encoding="utf-8").splitlines():
        known.setdefault(name, rng.normal(size=3))
    given = _names_of(tmp_path, [*known], np.array([*known.values()]))
    assert _run(folder, tmp_path / "g", *given, *more, "--update") == 0
    assert _run(folder, tmp_path / "anew", *given, *more, "--force") == 0
    _same(tmp_path / "g", tmp_path / "anew")
    assert (load_graph(tmp_path / "g").synonyms != load_graph(tmp_path / "anew").synonyms).nnz == 0


def test_synonyms_that_do_not_fit_are_named(folder, tmp_path, capsys):
    given = _names_of(tmp_path, ["ada lovelace", "lord byron"], np.eye(2))
    for options, said in (
        (given[:2], "--names and --name-embeddings must be given together"),
        (["--synonym-threshold", "0.9"], "--names and --name-embeddings must be given together"),
        ([*given, "--synonym-threshold", "1.5"], "--synonym-threshold must lie in (0, 1]"),
    ):
        assert _run(folder, tmp_path / "g", *options) != 0
        assert said in capsys.readouterr().err
    assert not (tmp_path / "g").exists()
    np.save(tmp_path / "names.npy", np.eye(3))
    assert _run(folder, tmp_path / "g", *given) != 0
    assert "must have one row per line of names.txt (2); got 3" in capsys.readouterr().err
    np.save(tmp_path / "names.npy", np.eye(2))
    assert _run(folder, tmp_path / "plain") == 0
    assert _run(folder, tmp_path / "plain", *given, "--update") != 0
    assert "cannot be added to an index without synonyms" in capsys.readouterr().err
    assert _run(folder, tmp_path / "g", *given) == 0
    assert _run(folder, tmp_path / "g", *given, "--synonym-threshold", "0.9", "--update") != 0
    assert "must be the threshold of the index, 0.8; got 0.9" in capsys.readouterr().err
    assert _run(folder, tmp_path / "g", "--entities-to", tmp_path / "nowhere" / "names.txt") != 0
    assert "--entities-to: the folder of" in capsys.readouterr().err


def test_the_tokenizer_is_kept_with_the_index_and_checked(tmp_path, capsys):
    out = tmp_path / "index"
    line = '{"id": "a", "title": "Die Elbe", "text": "Die Elbe ist ein Fluss."}\n'  # codespell:ignore ist
    (tmp_path / "corpus.jsonl").write_text(line, encoding="utf-8")
    assert _run(tmp_path, out, "--tokenizer", "german") == 0
    assert load_graph(out).lexical.vocabulary == ("elbe", "fluss")
    assert _run(tmp_path, out, "--update") == 0
    assert load_graph(out).lexical.tokenizer == "german"
    capsys.readouterr()
    for arguments, said in (
        (("--update", "--tokenizer", "plain"), "--tokenizer must be the tokenizer of the index, german; got plain"),
        (("--force", "--tokenizer", "klingon"), "tokenizer must be a function or one of english, german, plain"),
    ):
        assert _run(tmp_path, out, *arguments) != 0
        assert said in " ".join(capsys.readouterr().err.split())


def test_metadata_of_the_lines_is_kept_and_updated(tmp_path, capsys):
    rows = [
        {"id": f"p{row}", "text": f"Ada {row} met Bo.", "metadata": {"team": "red" if row else "blue"}}
        for row in range(3)
    ]
    write_jsonl(tmp_path / "corpus.jsonl", rows)
    assert _run(tmp_path, tmp_path / "g") == 0
    held = {name: one.metadata for name, one in GraphIndex.load(tmp_path / "g").records.items()}
    assert held == {one["id"]: one["metadata"] for one in rows}
    view = View(GraphIndex.load(tmp_path / "g"), only={"team": "red"})
    assert len(view) == 2

    assert _run(tmp_path, tmp_path / "g", "--update") == 0
    assert "3 unchanged" in capsys.readouterr().out
    rows[1]["metadata"] = {"team": "blue"}
    del rows[2]["metadata"]
    write_jsonl(tmp_path / "corpus.jsonl", rows)
    assert _run(tmp_path, tmp_path / "g", "--update") == 0
    assert "2 changed, 1 unchanged" in capsys.readouterr().out
    held = {name: one.metadata for name, one in GraphIndex.load(tmp_path / "g").records.items()}
    assert held == {"p0": {"team": "blue"}, "p1": {"team": "blue"}, "p2": {}}


def test_metadata_that_is_no_mapping_is_refused(tmp_path, capsys):
    write_jsonl(tmp_path / "corpus.jsonl", [{"id": "p", "text": "Ada met Bo.", "metadata": ["red"]}])
    assert _run(tmp_path, tmp_path / "g") == 1
    assert "metadata of passage 'p' must be a mapping" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "g").exists()
