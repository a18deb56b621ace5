"""What ``phasegraph evaluate`` and ``tune`` do with collections, splits, spans, answers, and a benchmark's protocol."""

import json
import sys

import numpy as np
import pytest
from tiny import PASSAGES, many_queries, write_dataset, write_jsonl

from phasegraph.apps.cli import main

PARTS = ("calibration", "dev", "test")


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def change(folder, edit):
    rows = lines_of(folder / "queries.jsonl")
    for place, row in enumerate(rows):
        edit(place, row)
    write_jsonl(folder / "queries.jsonl", rows)
    return folder


@pytest.fixture
def collections(tmp_path):
    """Twelve collections of three questions, four in each split, hops in no order, an answer to each."""

    def edit(place, row):
        del row["last_hop_known"]
        row |= {"hop_order_known": False, "collection_id": f"c{place // 3:02d}", "split": PARTS[place // 12]}
        row |= {"answer": PASSAGES[place // 3][1], "modalities": ["pdf", "code"] if place % 2 else ["pdf"]}

    return change(write_dataset(tmp_path / "collections", many_queries()), edit)


def table_of(capsys, *command):
    assert main(["evaluate", *map(str, command), "--json", "-"]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


def test_without_a_hop_order_last_hop_and_mcnemar_are_left_out_and_said_to_be(collections, capsys):
    state, printed = table_of(capsys, collections, "--systems", "vector,rrf", "--measures", "nDCG@10")
    row = state["systems"]["rrf"]
    keys = [f"{name}@{k}" for name in ("LastHop", "wins", "losses", "p", "p_holm") for k in (5, 10)]
    assert [row[key] for key in keys] == [None] * 10
    assert "LastHop" not in " ".join(state["tests"])
    assert "exact McNemar" not in state["tests"].values()
    assert "LastHop and its test are left out: the order of the hops is unknown" in printed
    assert "W/L" not in printed.split("in brackets")[0]
    assert set(row["p"]) >= {"FullSup@5", "Recall@10", "nDCG@10"}


def test_collections_are_counted_and_taken_whole(collections, capsys):
    state, printed = table_of(capsys, collections, "--systems", "vector,rrf")
    assert state["groups"] == 12
    assert set(state["tests"].values()) == {"sign-flip permutation of whole groups"}
    assert "resample each of the 12 collections as a whole" in printed


def test_means_are_given_by_any_field(collections, capsys):
    state, printed = table_of(capsys, collections, "--systems", "vector,rrf", "--by", "collection_id")
    assert state["by"]["queries"] == {f"c{place:02d}": 3 for place in range(12)}
    means = [of["rrf"]["Recall@5"] for of in state["by"]["means"].values()]
    assert np.mean(means) == pytest.approx(state["by"]["macro"]["rrf"]["Recall@5"])
    assert np.mean(means) == pytest.approx(state["systems"]["rrf"]["Recall@5"])
    assert "Recall@10 by collection_id" in printed
    state, printed = table_of(capsys, collections, "--systems", "vector", "--by", "modalities")
    assert state["by"]["queries"] == {"pdf": 18, "pdf + code": 18}
    assert main(["evaluate", str(collections), "--systems", "vector", "--by", "colour"]) == 1
    assert (
        "no query of collections has the field 'colour'; the queries have the fields: answer, collection_id"
        in capsys.readouterr().err
    )


def predict(path, right, **more):
    rows = [{"query": name, "answer": gold if name in right else "no idea", **more} for name, gold in ANSWERS.items()]
    write_jsonl(path, rows)
    return path


ANSWERS = {f"n{row:02d}-{turn}": title for row, (_, title, _) in enumerate(PASSAGES) for turn in range(3)}


def test_answers_of_several_systems_are_measured_with_their_test(collections, tmp_path, capsys):
    vector = predict(tmp_path / "vector.jsonl", [name for name in ANSWERS if name < "n06"])
    rag = predict(tmp_path / "more.jsonl", ANSWERS, system="rag")
    state, printed = table_of(capsys, collections, "--systems", "vector", "--predictions", vector, "--predictions", rag)
    answers = state["answers"]
    assert answers["baseline"] == "vector"
    assert (answers["systems"]["vector"]["EM"], answers["systems"]["rag"]["EM"]) == (50.0, 100.0)
    assert answers["systems"]["rag"]["p"]["F1"] == 2 / 2**6
    assert "answers: 36 queries, against vector" in printed
    assert "EM" not in state["systems"]["vector"]


def test_a_query_without_an_answer_counts_nothing_and_is_counted(collections, tmp_path, capsys):
    (tmp_path / "some.json").write_text(json.dumps({"n00-0": "Ada Lovelace", "n00-1": ["Ada"]}), encoding="utf-8")
    state, printed = table_of(capsys, collections, "--systems", "vector", "--predictions", tmp_path / "some.json")
    assert state["answers"]["systems"]["some"]["EM"] == pytest.approx(100 / 36)
    assert state["answers"]["systems"]["some"]["F1"] == pytest.approx(100 * (1 + 2 / 3) / 36)
    assert "some: 34 queries without an answer score 0" in printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there must be at least one predicted answer"),
        ('{"query": "n00-0", "answer": 7}', "p.jsonl:1: 'answer' must be text or a list of texts; got 7"),
        ('{"query": "n00-0"}', "p.jsonl:1: 'answer' must be text"),
        ('{"answer": "x"}', "p.jsonl:1: 'id' must be text"),
        (
            '{"id": "n00-0", "prediction": "x"}\n{"id": "n00-0", "answer": "y"}',
            "p.jsonl:2: a system must answer",
        ),
        ('{"query": "n99", "answer": "x"}', "query 'n99', answered by 'p', is not in the data set"),
    ],
)
def test_a_bad_prediction_is_named(collections, tmp_path, capsys, text, message):
    (tmp_path / "p.jsonl").write_text(text, encoding="utf-8")
    assert main(["evaluate", str(collections), "--systems", "vector", "--predictions", str(tmp_path / "p.jsonl")]) == 1
    assert message in capsys.readouterr().err


def test_the_same_system_in_two_files_is_refused(collections, tmp_path, capsys):
    one, other = (predict(tmp_path / name, ANSWERS, system="rag") for name in ("a.jsonl", "b.jsonl"))
    command = ["evaluate", str(collections), "--systems", "vector", "--predictions", str(one)]
    assert main([*command, "--predictions", str(other)]) == 1
    assert "b.jsonl: the answers of system 'rag' are also in another file" in capsys.readouterr().err


def test_the_protocol_tests_one_part_and_takes_its_signs_from_the_other(collections, capsys):
    state, printed = table_of(capsys, collections, "--systems", "vector,graph,rrf", "--protocol", "hetdocqa")
    assert state["queries"] == 12
    found = state["protocol"]
    assert (found["tested"], found["signs_from"], found["measure"]) == ("test", "dev", "nDCG@10")
    assert found["queries"] == [12, 12]
    assert set(found["systems"]) == {"graph", "rrf"}
    assert {"nDCG@10", "Success@10", "RR@10", "R@10"} <= set(state["systems"]["rrf"])
    assert "hetdocqa: nDCG@10 on test (12 queries) against vector, signs from dev (12)" in printed


def test_the_protocol_runs_without_ir_measures_and_says_what_it_left_out(collections, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    state, _ = table_of(capsys, collections, "--systems", "vector,rrf", "--protocol", "hetdocqa")
    assert set(state["protocol"]["systems"]) == {"rrf"}
    assert [line.split(":")[0] for line in state["left_out"]] == ["Success@10", "RR@10", "R@10"]
    assert "pip install 'phasegraph[eval]'" in state["left_out"][0]


def test_the_tested_part_is_the_last_there_is(collections, capsys):
    change(collections, lambda place, row: row.update(split=PARTS[place // 18]))
    found = table_of(capsys, collections, "--systems", "vector,graph", "--protocol", "hetdocqa")[0]["protocol"]
    assert (found["tested"], found["signs_from"], found["queries"]) == ("dev", "calibration", [18, 18])


def test_the_second_part_may_be_in_a_folder_of_its_own(collections, tmp_path, capsys):
    both = table_of(capsys, collections, "--systems", "vector,graph", "--protocol", "hetdocqa")[0]["protocol"]
    queries = many_queries()
    lines = lines_of(collections / "queries.jsonl")
    for name, rows in (("dev", slice(12, 24)), ("test", slice(24, 36))):
        write_dataset(tmp_path / name, queries[rows])
        write_jsonl(tmp_path / name / "queries.jsonl", lines[rows])
    command = (tmp_path / "test", "--systems", "vector,graph", "--protocol", "hetdocqa")
    found = table_of(capsys, *command, "--dev-set", tmp_path / "dev")[0]["protocol"]
    assert found["systems"] == both["systems"]
    assert main(["evaluate", *map(str, command)]) == 1
    assert "their splits are: test (the second split may be in another folder: --dev-set)" in capsys.readouterr().err


def test_answers_are_judged_by_the_protocol_too(collections, tmp_path, capsys):
    """One system is right on both parts, one on the tested part alone, one on a single query more."""
    files = [
        predict(tmp_path / "base.jsonl", []),
        predict(tmp_path / "both.jsonl", ANSWERS),
        predict(tmp_path / "turned.jsonl", [name for name in ANSWERS if name >= "n08"]),
        predict(tmp_path / "hardly.jsonl", ["n11-0", "n05-0"]),
    ]
    command = [collections, "--systems", "vector", "--protocol", "hetdocqa"]
    state, _ = table_of(capsys, *command, *(part for file in files for part in ("--predictions", file)))
    found = state["protocol_answers"]
    assert (found["measure"], found["baseline"]) == ("F1", "base")
    assert {name: one["reliable"] for name, one in found["systems"].items()} == {
        "both": True,
        "turned": False,
        "hardly": False,
    }
    assert found["systems"]["turned"]["p_holm"] <= 0.05
    assert found["systems"]["turned"]["other_difference"] == 0.0
    assert found["systems"]["hardly"]["other_difference"] > 0
    assert found["systems"]["both"]["changed"] == 12
    assert found["systems"]["both"]["p_groups"] == 2 / 2**4


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda place, row: row.pop("split"), "must have the splits 'test' and 'dev', or 'dev' and 'calibration'"),
        (lambda place, row: row.update(collection_id="c"), "a collection must be in one part only; 'c' is in 'test'"),
    ],
)
def test_a_folder_that_the_protocol_cannot_be_run_on_is_refused(collections, edit, message, capsys):
    change(collections, edit)
    assert main(["evaluate", str(collections), "--systems", "vector", "--protocol", "hetdocqa"]) == 1
    assert message in capsys.readouterr().err


def with_collections(folder, of_passage):
    rows = [{**row, "collection_id": of_passage(place)} for place, row in enumerate(lines_of(folder / "corpus.jsonl"))]
    write_jsonl(folder / "corpus.jsonl", rows)


def test_a_query_may_be_answered_from_its_own_collection_alone(collections, tmp_path, capsys):
    """Two collections: the even passages and the odd ones; the last query is judged by a passage of the other."""
    change(collections, lambda place, row: row.update(collection_id="even" if place // 3 % 2 == 0 else "odd"))
    with_collections(collections, lambda place: "odd" if place % 2 else "even")
    change(collections, lambda place, row: row.update(hops=["p00"]) if place == 35 else None)
    rows = tmp_path / "rows.jsonl"
    command = (collections, "--systems", "vector,graph,bm25", "--within", "collection_id", "--rows", rows)
    state, printed = table_of(capsys, *command)
    assert state["within"] == "collection_id"
    assert state["left_out"] == ["passages of another collection_id: 1 queries are judged by them"]
    assert "only from the passages with its own collection_id" in printed
    found = {(row["system"], row["query"]): row["ids"] for row in lines_of(rows)}
    assert len(found) == 3 * 36
    for (_, query), ids in found.items():
        assert {int(name[1:]) % 2 for name in ids} <= {int(query[1:3]) % 2}
    alone = table_of(capsys, collections, "--systems", "vector")[0]["systems"]["vector"]
    assert state["systems"]["vector"]["Recall@5"] >= alone["Recall@5"] - 100 / 36


def test_what_is_in_no_collection_is_named(collections, capsys):
    command = ["evaluate", str(collections), "--systems", "vector", "--within", "collection_id"]
    assert main(command) == 1
    assert "collections: passage 'p00' has no field 'collection_id'" in capsys.readouterr().err
    with_collections(collections, lambda place: "c00")
    assert main(command) == 1
    assert "no passage has the collection_id 'c01' of query 'n01-0'" in capsys.readouterr().err
    change(collections, lambda place, row: row.pop("collection_id") if place == 4 else None)
    assert main(command) == 1
    assert "queries.jsonl:5: query 'n01-1' has no field 'collection_id'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more",
    [
        ["--within", "collection_id", "--report", "page"],
        ["--protocol", "other"],
        ["--dev-set", "{folder}"],
        ["--measures", "F1"],
        ["--measures", "EM@1"],
        ["--span-overlap", "1.5"],
    ],
)
def test_bad_usage_ends_with_two(collections, more, capsys):
    command = ["evaluate", str(collections), "--systems", "vector"]
    assert main([*command, *(part.replace("{folder}", str(collections)) for part in more)]) == 2
    assert capsys.readouterr().err


def test_the_share_of_a_span_is_an_option_of_folders_with_spans(collections, capsys):
    command = ["evaluate", str(collections), "--systems", "vector", "--span-overlap", "0.3"]
    assert main(command) == 1
    assert "--span-overlap has no effect: no query of collections is judged by spans" in capsys.readouterr().err
    rows = [{**row, "doc_id": "d", "char_start": 10 * i, "char_end": 10 * i + 10} for i, row in enumerate(corpus())]
    write_jsonl(collections / "corpus.jsonl", rows)
    gold = [{"document_id": "d", "char_start": 6, "char_end": 16, "grade": 2}]
    change(collections, lambda place, row: (row.pop("hops"), row.update(gold_spans=gold)))
    recalls = []
    for share in ("0.3", "0.5", "0.7"):
        code = main(["evaluate", str(collections), "--systems", "vector", "--span-overlap", share, "--json", "-"])
        captured = capsys.readouterr()
        recalls.append(json.loads(captured.out)["systems"]["vector"]["Recall@10"] if code == 0 else captured.err)
    assert recalls[0] > recalls[1] > 0
    assert "no passage covers any gold span of any query" in recalls[2]


def test_a_protocol_reads_spans_by_three_tenths_unless_told_otherwise(collections, capsys):
    rows = [{**row, "doc_id": "d", "char_start": 10 * i, "char_end": 10 * i + 10} for i, row in enumerate(corpus())]
    write_jsonl(collections / "corpus.jsonl", rows)
    gold = [{"document_id": "d", "char_start": 6, "char_end": 16, "grade": 2}]
    change(collections, lambda place, row: (row.pop("hops"), row.update(gold_spans=gold)))
    command = ["evaluate", str(collections), "--systems", "vector", "--protocol", "hetdocqa", "--json", "-"]
    found = []
    for more in ([], ["--span-overlap", "0.3"], ["--span-overlap", "0.5"]):
        assert main([*command, *more]) == 0
        found.append(json.loads(capsys.readouterr().out)["systems"]["vector"]["nDCG@10"])
    assert found[0] == found[1] != found[2]


def corpus():
    return [{"id": name, "title": title, "text": text} for name, title, text in PASSAGES]


def test_tune_keeps_to_the_splits_and_says_how_the_parts_were_told_apart(collections, tmp_path, capsys):
    big = [
        (f"{name}-{copy}", question, hops, known) for copy in range(2) for name, question, hops, known in many_queries()
    ]

    def edit(place, row):
        row |= {"collection_id": f"c{place // 4}", "split": "dev" if place >= 36 else "calibration"}

    folder = change(write_dataset(tmp_path / "big", big), edit)
    command = ["tune", str(folder), "--out", str(tmp_path / "t.json"), "--sources", "vector", "--json", "-"]
    assert main(command) == 0
    captured = capsys.readouterr()
    state = json.loads(captured.out)
    assert state["parted_by"] == "split 'dev'"
    assert (state["tuning_queries"], state["confirmation_queries"]) == (36, 36)
    assert (state["tuning_groups"], state["confirmation_groups"], state["shared_groups"]) == (9, 9, 0)
    assert "parted by split 'dev': 9 and 9 collections, 0 in both" in captured.err
    assert main([*command, "--confirm-split", "calibration"]) == 0
    assert json.loads(capsys.readouterr().out)["parted_by"] == "split 'calibration'"
    change(folder, lambda place, row: row.pop("split"))
    assert main(command) == 0
    state = json.loads(capsys.readouterr().out)
    assert (state["parted_by"], state["shared_groups"]) == ("MD5 of the collection_id", 0)
    assert state["tuning_queries"] + state["confirmation_queries"] == 72
    assert state["tuning_queries"] == 4 * state["tuning_groups"]
    said = "not clearly nearer to the question's own passages"
    assert said not in capsys.readouterr().err + captured.err
    np.save(folder / "passages.f16.npy", np.roll(np.load(folder / "passages.f16.npy"), 5, axis=0))
    assert main(command) == 0
    assert said in " ".join(capsys.readouterr().err.split())


def test_the_page_of_a_folder_without_a_hop_order_shows_another_measure(collections, tmp_path, capsys):
    command = ["evaluate", str(collections), "--systems", "vector,rrf", "--report", str(tmp_path / "page")]
    assert main(command) == 0
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert "LastHop@10" not in page
    assert "LastHop and its test are left out" in page
    assert "FullSup@5" in page
