"""``phasegraph evaluate --retriever``: the user's own retrievers, found by name, on their own judged questions."""

import json
import sys

import pytest
from tiny import write_dataset, write_jsonl

from phasegraph.apps.cli import main

MODULE = """
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

IDS = ["p00", "p01", "p03", "p04", "p08", "p02", "p06", "p05", "p07", "p09"]
chain = RunnableLambda(lambda question: [Document("", id=name) for name in IDS])


class Nodes(BaseRetriever):
    def _retrieve(self, bundle):
        return [NodeWithScore(node=TextNode(id_=name, text=name), score=0.5) for name in IDS]


class Rag:
    nodes = Nodes()


def made():
    return chain


def function(question):
    return IDS


def failing(question):
    if question.startswith("Which"):
        raise ConnectionError("no route to host")
    return IDS


def boom(question):
    raise RuntimeError("boom")


def unreadable(question):
    return 3


def other_ids(question):
    return ["chunk-1"]


def other_ids_of_files(question):
    return [Document("", id="chunk-1", metadata={"source": "a.md"})]


def other_passages(question):
    return ["p07", "p09"]


number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "my_rag.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_rag", raising=False)
    yield write_dataset(tmp_path / "tiny")
    sys.modules.pop("my_rag", None)


def test_a_retriever_of_either_framework_is_measured_on_a_file(folder, tmp_path, capsys):
    write_jsonl(tmp_path / "judged.jsonl", [{"id": "q", "text": "Who?", "relevant": {"p01": 2, "p08": 1}}])
    names = ["my_rag:chain", "my_rag:Rag.nodes", "my_rag:made", "my_rag:function"]
    options = [part for name in names for part in ("--retriever", name)]
    assert main(["evaluate", "judged.jsonl", *options, "--measures", "Recall@1", "--json", "-"]) == 0
    captured = capsys.readouterr()
    state = json.loads(captured.out)
    assert list(state["systems"]) == names
    for row in state["systems"].values():
        assert (row["Recall@1"], row["Recall@5"], row["MRR@10"]) == (0.0, 100.0, 50.0)
        assert row["intervals"]["Recall@5"] == [100.0, 100.0]
        assert row["ms_per_query"] >= 0
    assert state["errors"] == {name: {} for name in names}
    assert state["unknown_ids"] == dict.fromkeys(names)
    assert "LastHop@5" not in state["systems"]["my_rag:made"]
    said = " ".join(captured.err.split())
    assert "judged: 1 question, 95 % intervals in brackets; in parentheses: p of the paired test against my_rag" in said
    assert "100.0 (1.000)" in said
    assert "100, 100" not in said


def test_a_folder_gives_the_last_hop_and_what_is_no_passage(folder, tmp_path, capsys):
    command = ["evaluate", str(folder), "--retriever", "my_rag:function", "--rows", "rows.jsonl"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "LastHop@10" in printed
    assert "unknown ids" in printed
    assert "0.0 %" in printed
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["query"] for row in rows] == ["q0", "q1", "q2", "q3"]
    assert rows[0]["ids"][:2] == ["p00", "p01"]


def test_a_corpus_beside_the_file_tells_ids_that_are_none(folder, tmp_path, capsys):
    write_jsonl(tmp_path / "judged.jsonl", [{"question": "Who?", "relevant": ["p01"]}])
    command = ["evaluate", "judged.jsonl", "--retriever", "my_rag:other_ids", "--json", "-"]
    assert main([*command, "--corpus", str(folder / "corpus.jsonl")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "none of the 1 ids of 'my_rag:other_ids' is in the corpus or judged for any question" in captured.err
    assert "--id-key" in captured.err


def test_ids_of_another_kind_are_an_error_although_the_hits_name_their_files(folder, tmp_path, capsys):
    write_jsonl(tmp_path / "judged.jsonl", [{"question": "Who?", "relevant": ["p01"]}])
    assert main(["evaluate", "judged.jsonl", "--retriever", "my_rag:other_ids_of_files"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("none of the 1 ids of 'my_rag:other_ids_of_files' is judged for any question") == 1
    assert "--id-key" in captured.err


def test_passages_none_of_which_is_judged_are_said_once(folder, capsys):
    assert main(["evaluate", str(folder), "--retriever", "my_rag:other_passages"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("none of the 2 returned ids is judged for any question") == 1
    assert "--id-key" in captured.out
    assert captured.err == ""


def test_errors_are_counted_and_the_first_is_shown(folder, capsys):
    assert main(["evaluate", str(folder), "--retriever", "my_rag:failing", "--json", "-"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["errors"] == {"my_rag:failing": {"q1": "ConnectionError", "q3": "ConnectionError"}}
    assert "2 of 4 questions failed and count 0 (ConnectionError 2)" in captured.err
    assert "the first, on question 'q1': ConnectionError: no route to host" in captured.err
    assert "no route" not in captured.out


def test_where_every_question_fails_the_command_fails(folder, tmp_path, capsys):
    write_jsonl(tmp_path / "judged.jsonl", [{"question": "Which?", "relevant": ["p01"]}])
    for fails in ("failing", "boom", "unreadable"):
        assert main(["evaluate", "judged.jsonl", "--retriever", f"my_rag:{fails}"]) == 1
    first, text, _, boom, second = capsys.readouterr().err.splitlines()
    assert first.endswith("all sources failed. my_rag:failing: ConnectionError")
    assert text == "my_rag:failing: ConnectionError: no route to host"
    assert boom == "my_rag:boom: RuntimeError: boom"
    assert "must return a list of documents or nodes" in second


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--retriever", "my_rag"], 2, "must have the form MODULE:OBJECT"),
        (["--retriever", "my_rag.py:chain"], 2, "must have the form MODULE:OBJECT"),
        (["--retriever", "my_rog:chain"], 2, "the module 'my_rog' is neither in the current folder nor installed"),
        (["--retriever", "my_rag:nothing"], 2, "the module 'my_rag' has no object 'nothing'"),
        (["--retriever", "my_rag:number"], 1, "retriever must be a LangChain retriever or runnable"),
        (["--retriever", "my_rag:chain", "--fetch-k", "5"], 2, "--fetch-k must be left out with --retriever"),
        (["--retriever", "my_rag:chain", "--graph", "."], 2, "--graph must be left out with --retriever"),
        (["--retriever", "my_rag:chain", "--measures", "F1"], 2, "F1 measures predicted answers"),
        (["--retriever", "my_rag:chain", "--json", "no/where.json"], 1, "--json: the folder of no/where.json must"),
        (["--id-key", "page"], 2, "--corpus and --id-key need a --retriever"),
    ],
)
def test_what_does_not_fit_is_said(folder, capsys, arguments, code, said):
    assert main(["evaluate", str(folder), *arguments]) == code
    assert said in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_a_file_alone_is_not_enough_for_the_systems(folder, capsys):
    assert main(["evaluate", str(folder / "queries.jsonl")]) == 2
    assert "must be a folder unless --retriever is given" in " ".join(capsys.readouterr().err.split())


def test_an_error_inside_the_module_is_not_taken_for_a_missing_module(folder, tmp_path, capsys):
    (tmp_path / "broken_rag.py").write_text("import a_package_that_is_not_there", encoding="utf-8")
    assert main(["evaluate", str(folder), "--retriever", "broken_rag:chain"]) == 1
    said = capsys.readouterr().err
    assert "ModuleNotFoundError: No module named 'a_package_that_is_not_there'" in said
    assert "broken_rag.py, line 1" in said
