"""The program of ``make demo`` over a slice of the data: both frameworks give the core's ids, in the promised table."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from phasegraph import DegradedError, FusionPipeline, Ranking, SourceReport
from phasegraph.apps.cli.output import console
from phasegraph.evaluation.report import conclusion

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from demo import BUNDLED, SYSTEMS, Demonstration, check_sources, main, run_demo, show

PROMISED = {f"{name}@{k}" for name in ("LastHop", "FullSup", "Recall", "wins", "losses", "p") for k in (5, 10)}


def _lines(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (BUNDLED / name).read_text(encoding="utf-8").splitlines()]


def _write(folder: Path, name: str, rows: list[dict[str, object]]) -> None:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five questions, the passages that answer them, and others up to twenty."""
    made = tmp_path_factory.mktemp("slice")
    corpus, queries = _lines("corpus.jsonl"), _lines("queries.jsonl")[:5]
    gold = {hop for query in queries for hop in query["hops"]}  # type: ignore[attr-defined]
    kept = [row for row, one in enumerate(corpus) if one["id"] in gold]
    kept = sorted([*kept, *[row for row in range(len(corpus)) if row not in kept][: 20 - len(kept)]])
    ids = {corpus[row]["id"] for row in kept}
    _write(made, "corpus.jsonl", [corpus[row] for row in kept])
    _write(made, "queries.jsonl", queries)
    _write(made, "triples.jsonl", [one for one in _lines("triples.jsonl") if one["id"] in ids])
    np.save(made / "passages.f16.npy", np.load(BUNDLED / "passages.f16.npy")[kept])
    np.save(made / "queries.f16.npy", np.load(BUNDLED / "queries.f16.npy")[:5])
    return made


@pytest.fixture(scope="module")
def done(folder: Path) -> Demonstration:
    return run_demo(folder)


def test_both_frameworks_give_the_ids_that_the_core_decides(done: Demonstration) -> None:
    ids = {passage.id for passage in done.dataset.passages}
    assert (len(ids), len(done.results)) == (20, 5)
    for row, result in enumerate(done.results):
        lists = [done.rankings[name][row] for name in ("graph", "vector")]
        assert all(len(one) for one in lists)
        assert result.ids == FusionPipeline().decide(lists).ids
        assert set(result.ids) <= ids


def test_the_table_names_every_system_and_measure(done: Demonstration) -> None:
    state = done.table.to_dict()
    assert state["queries"] == 5
    systems = state["systems"]
    assert isinstance(systems, dict)
    assert list(systems) == list(SYSTEMS)
    for row in systems.values():
        assert PROMISED | {"ms_per_query"} <= set(row)
        assert all(0 <= row[name] <= 100 for name in PROMISED if name[0].isupper())


def test_the_command_writes_the_table_and_no_picture_on_request(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--data", str(folder), "--json", "-", "--picture", "none"]) == 0
    shown = capsys.readouterr()
    state = json.loads(shown.out)
    assert {"dataset", "queries", "systems"} <= set(state)
    assert set(state["systems"]) == set(SYSTEMS)
    assert list(tmp_path.iterdir()) == []


def test_a_question_is_only_shown_where_vectors_alone_do_not_answer_it(
    done: Demonstration, capsys: pytest.CaptureFixture[str]
) -> None:
    show(replace(done, chosen=None), console())
    assert "do not answer" not in capsys.readouterr().out
    show(replace(done, chosen=0), console())
    assert "vectors alone do not answer" in capsys.readouterr().out


def test_the_table_is_explained_and_concluded(done: Demonstration, capsys: pytest.CaptureFixture[str]) -> None:
    show(replace(done, chosen=None), console())
    shown = capsys.readouterr().out
    assert "\\n" not in shown  # the console writes a line's signs out
    assert conclusion(done.table) in " ".join(shown.split())
    for name in ("LastHop", "FullSup", "Recall", "W/L", "ms"):
        assert f"{name}: " in shown


def test_a_source_that_fails_on_every_question_is_named() -> None:
    rankings = [Ranking.from_hits("vector", ["a", "b"], [2.0, 1.0])]
    failed = SourceReport("graph", "error", "no such index")
    degraded = FusionPipeline().decide(rankings, reports=[failed, SourceReport("vector", "ok", hits=2)])
    healthy = SimpleNamespace(reports=(SourceReport("graph", "ok", hits=1), SourceReport("vector", "ok", hits=2)))
    check_sources("langchain", [degraded, healthy])  # type: ignore[list-item]
    with pytest.raises(
        DegradedError, match=r"source 'graph' of langchain failed on all 2 questions: error \(no such index\)"
    ):
        check_sources("langchain", [degraded, degraded])
