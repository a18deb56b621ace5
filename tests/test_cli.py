"""The command line: tables for people, JSON for machines, and exit codes that tell failure from misuse."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from tiny import QUERIES, many_queries, write_dataset

from phasegraph.acceptance import AcceptancePolicy
from phasegraph.acceptance.confidence import ConfidenceModel
from phasegraph.apps.cli import main
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.recommendation import WEIGHED
from phasegraph.evaluation.runs import read_run
from phasegraph.evaluation.source_runs import ExperimentInput, search_sources
from phasegraph.evaluation.splits import split_by_id
from phasegraph.evaluation.systems import NAMED_SYSTEMS, OWN_SYSTEMS
from phasegraph.fusion import FUSION_RULES
from phasegraph.fusion.pipeline import PIPELINE_NAMES, FusionPipeline
from phasegraph.fusion.priors import UnitPrior
from phasegraph.selection import SelectionPolicy

BUNDLED = Path(__file__).parents[1] / "data" / "musique-openie"
QUICK = "vector,graph,rrf,paper,default"


@pytest.fixture
def folder(tmp_path):
    return write_dataset(tmp_path / "tiny")


@pytest.fixture
def many(tmp_path):
    return write_dataset(tmp_path / "many", many_queries())


def test_evaluate_prints_the_table_and_writes_the_json(folder, tmp_path, capsys):
    target = tmp_path / "table.json"
    assert main(["evaluate", str(folder), "--systems", QUICK, "--json", str(target)]) == 0
    printed = capsys.readouterr().out
    assert "lists of 50" in printed
    assert all(name in printed for name in QUICK.split(","))
    state = json.loads(target.read_text(encoding="utf-8"))
    assert (state["dataset"], state["queries"], state["limit"]) == ("tiny", 4, 50)
    assert list(state["systems"]) == QUICK.split(",")
    promised = {"LastHop@5", "LastHop@10", "FullSup@5", "FullSup@10", "Recall@5", "Recall@10", "ms_per_query"}
    promised |= {f"{name}@{k}" for name in ("wins", "losses", "p") for k in (5, 10)}
    for row in state["systems"].values():
        assert promised <= set(row)
        assert all(0 <= row[name] <= 100 for name in promised if "Hop" in name or "Rec" in name or "Sup" in name)
    vector = state["systems"]["vector"]
    assert [vector[f"{name}@{k}"] for k in (5, 10) for name in ("wins", "losses", "p")] == [0, 0, 1.0] * 2


def test_a_terminal_of_80_characters_shows_whole_columns_and_recall_first(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["evaluate", str(folder), "--systems", "vector,bm25,default"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (head,) = (line for line in lines if "system" in line and "Recall@5 (p)" in line)
    assert head.index("Recall@5") < head.index("LastHop@5")
    assert any(line.startswith("not shown in 80 characters: ") for line in lines)


def test_evaluate_embeds_the_texts_of_a_folder_without_embeddings(folder, tmp_path, capsys, monkeypatch):
    kept = {name: np.load(folder / f"{name}.f16.npy").astype(float).tolist() for name in ("passages", "queries")}
    lines = [(folder / f"{name}.jsonl").read_text("utf-8").splitlines() for name in ("corpus", "queries")]
    passages, queries = (list(map(json.loads, of)) for of in lines)
    texts = [f"{one['title']}\n{one['text']}" for one in passages] + [one["question"] for one in queries]
    vectors = dict(zip(texts, kept["passages"] + kept["queries"], strict=True))
    (tmp_path / "own_model.py").write_text(f"vectors = {vectors!r}\ndef embed(text):\n    return vectors[text]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    command = ["evaluate", str(folder), "--systems", "vector,bm25", "--json", "-"]
    assert main(command) == 0
    before = json.loads(capsys.readouterr().out)["systems"]["vector"]["Recall@5"]
    for name in kept:
        (folder / f"{name}.f16.npy").unlink()
    others = [["explain", str(folder), "q0"], ["tune", str(folder), "--out", str(tmp_path / "pipeline.json")]]
    for without_model in (command, *others):
        assert main(without_model) == 1
        said = " ".join(capsys.readouterr().err.split())
        assert "phasegraph evaluate --embedder MODULE:OBJECT computes them for its own run" in said
        assert "other commands need the file" in said
    assert main([*command, "--embedder", "own_model:embed"]) == 0
    assert json.loads(capsys.readouterr().out)["systems"]["vector"]["Recall@5"] == before


@pytest.mark.parametrize(("body", "got"), [("None", "NoneType"), ("'abc'", "str"), ("[1.0] * len(text)", "list")])
def test_evaluate_names_an_embedder_that_gives_no_vectors(folder, body, got, tmp_path, capsys, monkeypatch):
    refuses_embedder(folder, f"poor_model_{got}", body, tmp_path, monkeypatch)
    said = " ".join(capsys.readouterr().err.split())
    assert f"--embedder must give vectors of numbers, all of the same length; got {got} for 'p0" in said


def refuses_embedder(folder, module, body, tmp_path, monkeypatch):
    """Assert that `evaluate` fails with an embedder that returns `body`, written to a new module."""
    (tmp_path / f"{module}.py").write_text(f"def embed(text):\n    return {body}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for file in folder.glob("*.npy"):
        file.unlink()
    assert main(["evaluate", str(folder), "--systems", "vector", "--embedder", f"{module}:embed"]) == 1


@pytest.mark.parametrize("bad", [[1.0, "x"], [[1.0], [1.0, 2.0]]])
def test_evaluate_names_the_passage_whose_vector_is_not_of_numbers(folder, bad, tmp_path, capsys, monkeypatch):
    body = f"{bad} if 'Athens' in text else [1.0, 2.0]"
    refuses_embedder(folder, f"poor_rows_{len(str(bad))}", body, tmp_path, monkeypatch)
    assert "all of the same length; got list for 'p06'" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(("lacking", "held"), [("passages", "queries"), ("queries", "passages")])
def test_evaluate_does_not_mix_the_embeddings_of_two_models(folder, lacking, held, tmp_path, capsys, monkeypatch):
    width = np.load(folder / "passages.f16.npy").shape[1]
    (tmp_path / "other_model.py").write_text(f"def embed(text):\n    return [1.0] * {width}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    whole = shutil.copytree(folder, tmp_path / "whole")
    (folder / f"{lacking}.f16.npy").unlink()
    for given in ([str(folder)], [str(whole), "--off-topic", str(folder)]):
        assert main(["evaluate", *given, "--systems", "vector,bm25", "--embedder", "other_model:embed"]) == 1
        said = " ".join(capsys.readouterr().err.split())
        assert f"{folder / held}.f16.npy exists, but {folder / lacking}.f16.npy does not" in said


def test_standard_output_is_pure_json_when_it_is_asked_for(folder, capsys):
    assert main(["evaluate", str(folder), "--systems", "vector,rrf", "--json", "-"]) == 0
    captured = capsys.readouterr()
    assert set(json.loads(captured.out)["systems"]) == {"vector", "rrf"}
    assert "LastHop@5" in captured.err


def test_evaluate_says_how_well_systems_tell_what_the_corpus_answers(folder, many, tmp_path, capsys):
    rows = [json.loads(line) for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    vectors = np.load(folder / "queries.f16.npy")
    other = write_dataset(tmp_path / "other")
    strange = [{**row, "question": f"ramen {row['id']} transistor?"} for row in rows]
    (other / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in strange), encoding="utf-8")
    np.save(other / "queries.f16.npy", np.roll(np.abs(vectors) ** 0.0, 1))
    plain = ["evaluate", str(many), "--systems", "vector,graph,default,default-three", "--json", "-"]
    assert main([*plain, "--off-topic", str(other)]) == 0
    captured = capsys.readouterr()
    state = json.loads(captured.out)
    assert "abstain_auc" in captured.err
    assert state["abstain"] == "4 questions of other"
    shares = {name: row["abstain_auc"] for name, row in state["systems"].items()}
    assert all(0 <= share <= 100 for share in shares.values())
    assert min(shares[name] for name in ("default", "default-three")) > 95
    assert main([*plain, "--unanswerable"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert state["systems"]["default"]["abstain_auc"] > 60
    assert state["systems"]["default"]["Recall@5"] == pytest.approx(100)  # of the whole corpus, as ever
    assert main([*plain, "--unanswerable", "--off-topic", str(other)]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_the_usual_systems_are_named_as_promised(folder, capsys):
    assert main(["evaluate", str(folder), "--json", "-"]) == 0
    names = set(json.loads(capsys.readouterr().out)["systems"])
    assert {"vector", "graph", "rrf", "paper", "default", "bm25", "convex", "ensemble"} <= names
    assert {"fusion-reciprocal", "fusion-relative", "fusion-distance", "default-three"} <= names


def test_evaluate_twice_gives_the_same_figures(folder, capsys):
    tables = []
    for _ in range(2):
        assert main(["evaluate", str(folder), "--systems", QUICK, "--json", "-"]) == 0
        state = json.loads(capsys.readouterr().out)
        for row in state["systems"].values():
            del row["ms_per_query"]
        tables.append(state)
    assert tables[0] == tables[1]


def test_a_calibrated_row_is_added_when_asked_for(folder, many, capsys):
    command = ["evaluate", str(folder), "--systems", "vector,default", "--calibrate-on", str(many), "--json", "-"]
    assert main(command) == 0
    assert list(json.loads(capsys.readouterr().out)["systems"]) == ["vector", "default", "calibrated"]


def test_calibrating_on_the_set_itself_never_fits_on_the_query_scored(many, capsys):
    """36 queries fall into halves of 20 and 16: fitted crosswise, the smaller half is too small, and says so."""
    command = ["evaluate", str(many), "--systems", "vector", "--calibrate-on", str(many), "--json", "-"]
    sizes = [len(split_by_id([name for name, *_ in many_queries()], part)) for part in ("tune", "confirm")]
    assert min(sizes) < 20
    assert main(command) == 0
    captured = capsys.readouterr()
    state = json.loads(captured.out)
    assert list(state["systems"]) == ["vector"]
    assert state["left_out"][0].startswith("calibrated: half of the queries of many: ")
    assert f"needs at least 20 queries with hits; got {min(sizes)}" in captured.err


def test_calibrating_on_too_few_other_queries_leaves_one_row_out(folder, tmp_path, capsys):
    few = write_dataset(tmp_path / "few", many_queries()[:19])
    command = ["evaluate", str(folder), "--systems", "vector,rrf", "--calibrate-on", str(few), "--json", "-"]
    assert main(command) == 0
    state = json.loads(capsys.readouterr().out)
    assert list(state["systems"]) == ["vector", "rrf"]
    assert state["left_out"][0].startswith("calibrated: the queries of few: calibrating source")


def test_a_baseline_that_is_not_among_the_systems_is_added(folder, capsys):
    assert main(["evaluate", str(folder), "--systems", "graph,rrf", "--json", "-"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert (state["baseline"], list(state["systems"])) == ("vector", ["vector", "graph", "rrf"])


def test_the_calibrated_system_may_be_named_where_it_is_fitted(folder, many, capsys):
    command = ["evaluate", str(folder), "--systems", "vector,calibrated,rrf", "--json", "-"]
    assert main([*command, "--calibrate-on", str(many)]) == 0
    assert list(json.loads(capsys.readouterr().out)["systems"]) == ["vector", "calibrated", "rrf"]


def test_queries_in_both_sets_are_refused_with_file_and_line(folder, tmp_path, capsys):
    other = write_dataset(tmp_path / "other", [("fresh", "What is new?", ["p00"], True), QUERIES[1]])
    assert main(["evaluate", str(folder), "--systems", "vector", "--calibrate-on", str(other)]) == 1
    assert f"{other / 'queries.jsonl'}:2: a query must be in one" in capsys.readouterr().err


def test_further_measures_and_rows_per_query(folder, tmp_path, capsys):
    rows = tmp_path / "rows.jsonl"
    command = ["evaluate", str(folder), "--systems", "vector,rrf", "--measures", "nDCG@10,MRR@10", "--rows", str(rows)]
    assert main([*command, "--json", "-"]) == 0
    assert "nDCG@10" in json.loads(capsys.readouterr().out)["systems"]["rrf"]
    lines = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 8
    assert {"system", "query", "ids", "LastHop@5", "MRR@10"} <= set(lines[0])


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate"],
        ["evaluate", "nowhere"],
        ["nonsense"],
        ["evaluate", "{folder}", "--systems", "vector,other"],
        ["evaluate", "{folder}", "--systems", ","],
        ["evaluate", "{folder}", "--fetch-k", "0"],
        ["evaluate", "{folder}", "--baseline", "other"],
        ["evaluate", "{folder}", "--systems", "vector,calibrated"],
        ["evaluate", "{folder}", "--baseline", "tuned"],
        ["evaluate", "{folder}", "--measures", "LastHop"],
        ["tune", "{folder}"],
        ["tune", "{folder}", "--out", "x.json", "--sources", "vector,nothing"],
        ["tune", "{folder}", "--out", "x.json", "--measure", "Best"],
        ["fuse", "{folder}/queries.jsonl", "--out", "x.run", "--rule", "best"],
        ["fuse", "{folder}/queries.jsonl", "--out", "x.run", "--weights", "vector"],
        ["fuse", "{folder}/queries.jsonl", "--out", "x.run", "--pipeline", "{folder}/queries.jsonl", "--rule", "rrf"],
    ],
)
def test_bad_usage_ends_with_two(folder, arguments, capsys):
    assert main([part.replace("{folder}", str(folder)) for part in arguments]) == 2
    assert capsys.readouterr().err


def test_a_tokenizer_that_is_none_is_named_before_the_work(folder, capsys):
    assert main(["evaluate", str(folder), "--tokenizer", "klingon"]) == 1
    assert "tokenizer must be a function or one of english" in capsys.readouterr().err


def test_a_command_that_cannot_be_imported_does_not_break_the_others(tmp_path):
    run = tmp_path / "vector.run"
    run.write_text("q1 Q0 a 1 2.0 x\n", encoding="utf-8")
    code = (
        "import sys; sys.modules['phasegraph.apps.cli.commands.tune'] = None; from phasegraph.apps.cli import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "fuse", str(run), "--out", str(tmp_path / "fused.run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "fused.run").is_file()


@pytest.mark.parametrize("lacking", [[], ["typer", "rich"]])
def test_the_version_is_said_without_the_packages_of_the_command_line_too(lacking):
    code = (
        "import sys, importlib.util as util; find = util.find_spec; "
        f"util.find_spec = lambda name: None if name in {lacking} else find(name); "
        "from phasegraph.apps.cli import main; sys.exit(main(['--version']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"phasegraph {version('phasegraph')}\n"), done.stderr


def test_no_argument_shows_the_commands(capsys):
    assert main([]) in (0, 2)
    captured = capsys.readouterr()
    assert "evaluate" in captured.out + captured.err


def test_a_broken_folder_ends_with_one_and_names_the_file(folder, capsys):
    np.save(folder / "passages.f16.npy", np.load(folder / "passages.f16.npy")[:-2])
    assert main(["evaluate", str(folder)]) == 1
    captured = capsys.readouterr()
    assert "passages.f16.npy" in captured.err
    assert "got 10" in captured.err
    assert "Traceback" not in captured.err


def test_an_output_that_cannot_be_written_ends_with_one(folder, tmp_path, capsys):
    target = tmp_path / "no" / "such" / "folder.json"
    assert main(["evaluate", str(folder), "--systems", "vector", "--json", str(target)]) == 1
    assert "folder.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "command"),
    [
        ("--json", ["evaluate", "{folder}", "--json", "{lost}"]),
        ("--rows", ["evaluate", "{folder}", "--rows", "{lost}"]),
        ("--json", ["tune", "{folder}", "--out", "t.json", "--json", "{lost}"]),
        ("--out", ["tune", "{folder}", "--out", "{lost}"]),
        ("--out", ["fuse", "{folder}/corpus.jsonl", "--out", "{lost}"]),
        ("--json", ["explain", "{folder}", "q0", "--json", "{lost}"]),
    ],
)
def test_a_folder_that_is_not_there_is_named_with_its_option_before_the_work(tmp_path, option, command, capsys):
    """The data set is empty: whatever looked at it first would complain of that."""
    (tmp_path / "corpus.jsonl").write_text("", encoding="utf-8")
    lost = str(tmp_path / "lost" / "file")
    assert main([part.replace("{folder}", str(tmp_path)).replace("{lost}", lost) for part in command]) == 1
    assert f"{option}: the folder of {lost} must exist" in capsys.readouterr().err


def test_index_saves_a_graph_that_evaluate_uses(folder, tmp_path, capsys):
    out = tmp_path / "graph"
    command = ["index", str(folder / "corpus.jsonl"), "--out", str(out)]
    assert main([*command, "--embeddings", str(folder / "passages.f16.npy")]) == 0
    assert "12 passages" in capsys.readouterr().out
    tables = []
    for more in ([], ["--graph", str(out)]):
        assert main(["evaluate", str(folder), "--systems", "vector,graph", "--json", "-", *more]) == 0
        tables.append(json.loads(capsys.readouterr().out)["systems"]["graph"]["Recall@5"])
    assert tables[0] == tables[1]


def test_index_reads_triples_and_names_a_bad_line(folder, tmp_path, capsys):
    triples = tmp_path / "triples.jsonl"
    triples.write_text('{"id": "p00", "triples": [["Ada Lovelace", "knew", "Mary Shelley"]]}\n', encoding="utf-8")
    command = ["index", str(folder / "corpus.jsonl"), "--out", str(tmp_path / "g"), "--triples", str(triples)]
    assert main(command) == 0
    triples.write_text('{"id": "p99", "triples": []}\n', encoding="utf-8")
    assert main([*command, "--force"]) == 1
    assert "triples.jsonl:1: passage 'p99' is not in the corpus" in capsys.readouterr().err


def test_a_graph_of_another_corpus_is_refused(folder, many, tmp_path, capsys):
    lines = (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "part.jsonl").write_text("".join(lines[:5]), encoding="utf-8")
    assert main(["index", str(tmp_path / "part.jsonl"), "--out", str(tmp_path / "g")]) == 0
    assert main(["evaluate", str(folder), "--systems", "vector,graph", "--graph", str(tmp_path / "g")]) == 1
    assert "it contains other passages" in capsys.readouterr().err


def test_explain_says_why(folder, capsys):
    assert main(["explain", str(folder), "q0", "--k", "3"]) == 0
    printed = capsys.readouterr().out
    assert "Where did the father of Ada Lovelace die?" in printed
    words = " ".join(printed.split())
    assert words.count("contribution: the source's part of the fused value; score: the fused value on a scale") == 1
    assert "(fused value " in words
    assert "judged relevant" in printed
    assert "confidence 0." in printed


def test_explanations_add_up(folder, capsys):
    assert main(["explain", str(folder), "q0", "--json", "-"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert len(state["passages"]) == 5
    for passage in state["passages"]:
        total = sum(source["contribution"] for source in passage["sources"])
        assert total == pytest.approx(passage["fused"], abs=1e-9)
    assert any(passage["paths"] for passage in state["passages"])
    assert [(one["source"], one["status"]) for one in state["reports"]] == [("graph", "ok"), ("vector", "ok")]
    assert state["reason"] == ""
    assert 0 < state["confidence"] == state["confidence_evidence"]["value"] < 1


def test_the_design_records_pipeline_can_be_saved_evaluated_and_explained(folder, tmp_path, capsys):
    FusionPipeline.adr().save(tmp_path / "adr.json")
    command = ["--pipeline", str(tmp_path / "adr.json"), "--json", "-"]
    assert main(["evaluate", str(folder), "--systems", "adr", *command]) == 0
    table = json.loads(capsys.readouterr().out)["systems"]
    fields = ("Recall@5", "LastHop@5", "Recall@10")
    assert [table["tuned"][one] for one in fields] == [table["adr"][one] for one in fields]
    assert main(["explain", str(folder), "q0", *command]) == 0
    captured = capsys.readouterr()
    state = json.loads(captured.out)
    assert {one["source"] for one in state["passages"][0]["sources"]} == {"exact_match", "graph", "bm25", "vector"}
    assert {one["prior"] for one in state["priors"]} == {"exact_match", "unit"}
    assert all(one["prior"] == 1.0 and one["bonus"] == 0.0 for one in state["passages"])
    assert "prior unit: 0 candidates have the field 'importance'" in captured.err


def test_explain_shows_what_priors_multiply_by_and_takes_a_saved_graph(folder, tmp_path, capsys):
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = [{**row, "importance": 0.0} for row in rows]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    FusionPipeline(priors=(UnitPrior("importance"),)).save(tmp_path / "p.json")
    assert main(["index", str(folder / "corpus.jsonl"), "--out", str(tmp_path / "g")]) == 0
    command = ["explain", str(folder), "q0", "--pipeline", str(tmp_path / "p.json")]
    capsys.readouterr()
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "bonus +0.000, priors multiply by 0.700" in printed
    assert main([*command, "--graph", str(tmp_path / "g")]) == 0
    again = capsys.readouterr().out
    assert "priors multiply by 0.700" in again
    assert next(line for line in again.splitlines() if line.strip().startswith("1. ")) in printed


def test_an_empty_explanation_says_why(folder, tmp_path, capsys):
    strict = FusionPipeline(weights={"vector": 1.0}, accept=AcceptancePolicy(thresholds={"vector": 2.0}))
    strict.save(tmp_path / "strict.json")
    command = ["explain", str(folder), "q0", "--pipeline", str(tmp_path / "strict.json")]
    assert main([*command, "--json", "-"]) == 0
    captured = capsys.readouterr()
    state = json.loads(captured.out)
    assert (state["passages"], state["reason"]) == ([], "all_rejected")
    assert "no passages: acceptance rejected every candidate" in captured.err


def test_explain_names_a_query_that_is_not_there(folder, capsys):
    assert main(["explain", str(folder), "q99"]) == 1
    assert "'q99'" in capsys.readouterr().err


def test_a_pipeline_that_selects_passages_gets_their_embeddings(folder, tmp_path, capsys):
    pipeline = FusionPipeline(selection=SelectionPolicy("mmr", balance=0.2), k=3)
    pipeline.save(tmp_path / "p.json")
    rows = tmp_path / "rows.jsonl"
    command = ["evaluate", str(folder), "--systems", "vector", "--pipeline", str(tmp_path / "p.json")]
    assert main([*command, "--rows", str(rows), "--json", "-"]) == 0
    data = load_dataset(folder)
    runs = search_sources(ExperimentInput(data, 50), ["vector", "graph"])
    vectors = dict(zip([one.id for one in data.passages], data.passage_vectors, strict=True))
    context = replace(data.context(0, rankings := [runs[name].rankings[0] for name in runs]), embeddings=vectors)
    found = next(one for one in map(json.loads, rows.read_text().splitlines()) if one["system"] == "tuned")
    assert tuple(found["ids"]) == pipeline.decide(rankings, context, k=10).ids
    assert main(["explain", str(folder), "q0", "--pipeline", str(tmp_path / "p.json")]) == 0
    assert "warning" not in capsys.readouterr().out


def test_fuse_takes_runs_and_gives_a_run(tmp_path, capsys):
    (tmp_path / "vector.run").write_text("q1 Q0 a 1 2.0 x\nq1 Q0 b 2 1.0 x\nq2 Q0 a 1 1.0 x\n", encoding="utf-8")
    (tmp_path / "graph.run").write_text("q1 Q0 b 1 9.0 x\nq1 Q0 c 2 8.0 x\n", encoding="utf-8")
    out = tmp_path / "fused.run"
    runs = [str(tmp_path / "vector.run"), str(tmp_path / "graph.run")]
    assert main(["fuse", *runs, "--out", str(out), "--rule", "rrf"]) == 0
    assert read_run(out).found() == {"q1": ("b", "a", "c"), "q2": ("a",)}
    assert "1 query not in every run (missing: vector 0, graph 1)" in capsys.readouterr().out
    FusionPipeline.reciprocal_rank().save(tmp_path / "p.json")
    again = tmp_path / "again.run"
    assert main(["fuse", *runs, "--out", str(again), "--pipeline", str(tmp_path / "p.json")]) == 0
    assert again.read_text(encoding="utf-8") == out.read_text(encoding="utf-8")


def test_fuse_knows_every_rule_by_name_and_takes_weights(tmp_path, capsys):
    (tmp_path / "vector.run").write_text("q1 Q0 a 1 2.0 x\nq1 Q0 b 2 1.0 x\n", encoding="utf-8")
    (tmp_path / "graph.run").write_text("q1 Q0 b 1 9.0 x\nq1 Q0 c 2 8.0 x\n", encoding="utf-8")
    runs = [str(tmp_path / "vector.run"), str(tmp_path / "graph.run")]
    found = {}
    for name in PIPELINE_NAMES:
        out = tmp_path / f"{name}.fused"
        assert main(["fuse", *runs, "--out", str(out), "--rule", name, "--weights", "vector=1,graph=1"]) == 0
        ranking = read_run(out).rankings["q1"]
        found[name] = dict(zip(ranking.ids, ranking.scores.tolist(), strict=True))
    assert all(set(one) == {"a", "b", "c"} for one in found.values())
    assert found["rrf"]["b"] == 1 / 62 + 1 / 61
    assert "exact_match, unit: left out, because runs contain neither texts nor fields" in capsys.readouterr().out
    (tmp_path / "exact_match.run").write_text("q1 Q0 a 1 2.0 x\n", encoding="utf-8")
    mine = [*runs, str(tmp_path / "exact_match.run"), "--out", str(tmp_path / "x.fused"), "--rule", "adr"]
    assert main(["fuse", *mine]) == 1
    assert "a source must not be named 'exact_match', which ExactMatchBonus uses" in capsys.readouterr().err
    assert main(["fuse", *runs, "--out", str(tmp_path / "x.fused"), "--rule", "convex"]) == 2
    said = "--rule convex has weights for bm25 and vector, and not for graph: set --weights vector=1,graph=1, with your"
    assert said in " ".join(capsys.readouterr().err.replace("│", " ").split())
    out = tmp_path / "weighed.run"
    assert main(["fuse", *runs, "--out", str(out), "--rule", "rrf", "--weights", "vector=1, graph=0.1"]) == 0
    assert read_run(out).found() == {"q1": ("b", "a", "c")}
    assert read_run(out).rankings["q1"].scores[1] == pytest.approx(1 / 61 / 1.1)


def test_evaluate_knows_every_rule_and_preset_by_name(folder, capsys):
    assert main(["evaluate", str(folder), "--systems", ",".join(["vector", *NAMED_SYSTEMS]), "--json", "-"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert {*state["systems"], *(line.partition(":")[0] for line in state["left_out"])} == {"vector", *NAMED_SYSTEMS}
    assert {*FUSION_RULES, "adr", "convex"} <= {*NAMED_SYSTEMS, *OWN_SYSTEMS}


def test_fuse_refuses_a_bad_run_with_file_and_line(tmp_path, capsys):
    bad = tmp_path / "bad.run"
    bad.write_text("q1 Q0 a 1 nan x\n", encoding="utf-8")
    assert main(["fuse", str(bad), "--out", str(tmp_path / "f.run")]) == 1
    assert "bad.run:1: a score must be a finite number" in capsys.readouterr().err


def test_tune_refuses_too_few_labels(folder, tmp_path, capsys):
    assert main(["tune", str(folder), "--out", str(tmp_path / "t.json")]) == 1
    assert "at least 30 judged queries in each part" in capsys.readouterr().err
    assert not (tmp_path / "t.json").exists()


def test_tuning_on_the_bundled_data_gives_a_file_that_evaluate_reads(tmp_path, capsys):
    tuned, report = tmp_path / "tuned.json", tmp_path / "report.json"
    command = ["tune", str(BUNDLED), "--out", str(tuned), "--json", str(report), "--sources", "vector,bm25"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "looked at once" in printed
    state = json.loads(report.read_text(encoding="utf-8"))
    assert state["tried"] > 50
    assert state["tuning_queries"] + state["confirmation_queries"] == 100
    assert state["confirmed"] == (state["p"] <= 0.05 and state["difference"] > 0)
    kept = FusionPipeline.load(tuned)
    assert state["confirmed"] or replace(kept, confidence=ConfidenceModel()) == FusionPipeline()
    assert kept.confidence.slope > 0
    assert state["confidence"]["auc"] > 0.7
    assert state["confidence"]["ece"] < 0.2
    assert f"ECE {state['confidence']['ece']:.3f}, Brier {state['confidence']['brier']:.3f}" in printed
    assert main(["evaluate", str(BUNDLED), "--systems", "vector", "--pipeline", str(tuned), "--json", "-"]) == 0
    assert set(json.loads(capsys.readouterr().out)["systems"]) == {"vector", "tuned"}
    assert main([*command, "--keep-unconfirmed"]) == 0
    said = capsys.readouterr().out
    stays, kept_all_the_same = "the default stays", f"--keep-unconfirmed writes the chosen pipeline to {tuned}"
    assert (stays in printed, kept_all_the_same in " ".join(said.split()), stays in said) == (True, True, False)
    assert json.loads(report.read_text(encoding="utf-8"))["verdict"] in " ".join(said.split())


def test_the_report_is_a_page_with_pictures(folder, tmp_path, capsys):
    out = tmp_path / "report"
    assert main(["evaluate", str(folder), "--systems", f"graph,{','.join(WEIGHED)}", "--report", str(out)]) == 0
    assert "index.html" in capsys.readouterr().out
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "<header><h1>" in page
    assert "<p>Recommendation: too few questions (4): ask 40 or more for a recommendation. default reaches" in page
    assert "<svg" in page
    assert "<script" not in page
    assert "<dd>milliseconds per question to search the sources, one after another, and to fuse the hits</dd>" in page
    assert "<dt>@k</dt>" in page
    assert len(list(out.glob("*.png"))) >= 3


def test_a_measure_deeper_than_the_lists_is_said(folder, capsys):
    command = ["evaluate", str(folder), "--systems", "vector,rrf", "--measures", "Recall@12", "--json", "-"]
    assert main([*command, "--fetch-k", "11"]) == 0
    captured = capsys.readouterr()
    said = "lists of 11 hits are too short for Recall@12: a fusion can return more hits than one source; --fetch-k 12"
    assert said in " ".join(captured.err.split())
    assert any(note.startswith("lists of 11 hits are too short") for note in json.loads(captured.out)["notes"])
    assert main([*command, "--fetch-k", "12"]) == 0
    assert "too short" not in capsys.readouterr().err
    assert main([*command, "--measures", "Recall@100", "--fetch-k", "50"]) == 0
    assert "too short" not in capsys.readouterr().err


def test_embeddings_in_another_order_than_their_lines_are_said(many, capsys):
    command = ["evaluate", str(many), "--systems", "vector", "--json", "-"]
    assert main(command) == 0
    said = "not clearly nearer to the question's own passages than to the other passages"
    assert said not in capsys.readouterr().err
    vectors = np.load(many / "passages.f16.npy")
    np.save(many / "passages.f16.npy", np.roll(vectors, 5, axis=0))
    assert main(command) == 0
    captured = capsys.readouterr()
    assert said in " ".join(captured.err.split())
    assert any("check that row i of passages.f16.npy" in note for note in json.loads(captured.out)["notes"])


def test_an_embedder_whose_questions_are_not_near_their_passages_is_named(many, tmp_path, capsys, monkeypatch):
    (tmp_path / "length_model.py").write_text(
        "def embed(text):\n    return [len(text) % 7 - 3.0, len(text) % 5 + 1.0]\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    command = ["evaluate", str(many), "--systems", "vector", "--json", "-", "--embedder", "length_model:embed"]
    assert main(command) == 0
    assert "not clearly nearer" not in capsys.readouterr().err, "the files of the folder are used"
    for file in many.glob("*.npy"):
        file.unlink()
    assert main(command) == 0
    (note,) = json.loads(capsys.readouterr().out)["notes"]
    assert "check that --embedder length_model:embed " in note
    assert "npy" not in note


@pytest.mark.parametrize("limit", ["1", "2", "500"])
def test_any_list_length_gives_a_table(folder, limit, capsys):
    assert (
        main(["evaluate", str(folder), "--fetch-k", limit, "--systems", QUICK + ",fusion-distance", "--json", "-"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["limit"] == int(limit)
