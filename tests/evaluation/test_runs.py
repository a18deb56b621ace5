"""Runs and judgements on disk: read, written, and refused with file and line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.judgements import Judgement, check_judged
from phasegraph.evaluation.runs import Run, read_qrels, read_run, write_run
from phasegraph.ranking import Ranking


def put(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_a_trec_run_is_read_with_ties_in_the_order_of_the_ids(tmp_path):
    text = "q1 Q0 b 1 2.0 x\nq1 Q0 a 2 2.0 x\nq1 Q0 c 3 1.0 x\nq2 Q0 a 1 0.5 x\n"
    run = read_run(put(tmp_path / "some.run", text))
    assert run.name == "some"
    assert run.found() == {"q1": ("a", "b", "c"), "q2": ("a",)}


def test_a_jsonl_run_is_read(tmp_path):
    run = read_run(put(tmp_path / "r.jsonl", '{"query": "q", "ids": ["a", "b"], "scores": [2, 1.5]}\n'), "mine")
    assert run.rankings["q"].scores.tolist() == [2.0, 1.5]
    assert run.rankings["q"].source == "mine"


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_a_run_survives_being_written(tmp_path_factory, scores):
    path = tmp_path_factory.mktemp("runs") / "r.run"
    run = Run("r", {"q": Ranking("r", [f"d{i:02d}" for i in range(len(scores))], scores)})
    write_run(run, path)
    back = read_run(path)
    assert back.found() == run.found()
    assert back.rankings["q"].scores.tolist() == run.rankings["q"].scores.tolist()


def test_an_id_with_a_space_has_no_place_in_a_trec_run(tmp_path):
    with pytest.raises(InvalidInputError, match="white space"):
        write_run(Run("r", {"q": Ranking("r", ["a b"], [1.0])}), tmp_path / "r.run")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1 Q0 a 1 2.0 x\nq1 Q0 a 2 1.0 x\n", "bad.run:2: an id must occur once per query; 'a'"),
        ("q1 Q0 a 1 1.0 x\nq1 Q0 b 2 2.0 x\n", "bad.run:2: scores must not rise"),
        ("q1 Q0 a 1 nan x\n", "bad.run:1: a score must be a finite number; got 'nan'"),
        ("q1 Q0 a 1 inf x\n", "bad.run:1: a score must be a finite number"),
        ("q1 Q0 a 1 high x\n", "bad.run:1: a score must be a finite number"),
        ("q1 Q0 a 1 2.0\n", "bad.run:1: a run line must be"),
        ("\n", "bad.run: a run must have at least one line"),
    ],
)
def test_a_bad_run_is_refused_with_file_and_line(tmp_path, text, message):
    with pytest.raises(InvalidInputError, match=message):
        read_run(put(tmp_path / "bad.run", text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"query": "q", "ids": ["a", "a"], "scores": [2, 1]}', "bad.jsonl:1: 'ids' must not repeat"),
        ('{"query": "q", "ids": ["a"], "scores": [2, 1]}', "bad.jsonl:1: 'scores' must have one number"),
        ('{"query": "q", "ids": ["a"], "scores": [NaN]}', "bad.jsonl:1: a score must be a finite"),
        ('{"query": "q", "ids": ["a"], "scores": [true]}', "bad.jsonl:1: a score must be a finite"),
        ('{"query": "q", "ids": ["a", "b"], "scores": [1, 2]}', "bad.jsonl:1: scores must not rise"),
        ('{"ids": ["a"], "scores": [1]}', "bad.jsonl:1: 'query' must be text"),
        (
            '{"query": "q", "ids": ["a"], "scores": [1]}\n{"query": "q", "ids": ["b"], "scores": [1]}',
            "bad.jsonl:2: a query must have one line",
        ),
    ],
)
def test_a_bad_jsonl_run_is_refused_with_file_and_line(tmp_path, text, message):
    with pytest.raises(InvalidInputError, match=message):
        read_run(put(tmp_path / "bad.jsonl", text + "\n"))


def test_a_missing_run_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match=r"none.run: the file does not exist"):
        read_run(tmp_path / "none.run")


def test_qrels_of_beir_are_read_as_those_of_trec(tmp_path):
    beir = put(tmp_path / "test.tsv", "query-id\tcorpus-id\tscore\nq1\ta b\t2\nq1\tb\t-1\nq2\tc\t0\n")
    assert [(one.query, one.grades) for one in read_qrels(beir)] == [("q1", {"a b": 2, "b": -1}), ("q2", {"c": 0})]


def test_qrels_are_read_with_grades_and_without_a_last_hop(tmp_path):
    judged = read_qrels(put(tmp_path / "q.qrels", "q1 0 a 2\nq1 0 b 0\nq2 0 c 0\n"))
    assert judged[0].hops == (("a",),)
    assert judged[0].grades == {"a": 2.0, "b": 0.0}
    assert not judged[0].last_hop_known
    assert judged[1].hops == ()


def test_jsonl_judgements_keep_the_order_of_the_hops(tmp_path):
    rows = '{"query": "q1", "hops": ["a", "b"], "last_hop_known": true}\n{"query": "q2", "hops": ["b"]}\n'
    judged = read_qrels(put(tmp_path / "q.jsonl", rows), passages=["a", "b"])
    assert judged[0] == Judgement("q1", (("a",), ("b",)))
    assert not judged[1].last_hop_known


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("b.qrels", "q1 0 a 1\nq1 0 z 1\n", "b.qrels:2: the judged passage 'z' is not in the corpus"),
        ("b.qrels", "q1 0 a 1\nq1 0 a 0\n", "b.qrels:2: an id must be judged once"),
        ("b.qrels", "q1 0 a high\n", "b.qrels:1: a grade must be a whole number"),
        ("b.qrels", "q1 a 1\n", "b.qrels:1: a qrels line must be"),
        ("b.tsv", "query-id\tcorpus-id\tscore\nq1\ta\n", "b.tsv:2: a qrels line must be"),
        ("b.tsv", "query-id\tcorpus-id\tscore\n", "b.tsv: qrels must have at least one line"),
        ("b.qrels", "", "b.qrels: qrels must have at least one line"),
        ("b.jsonl", '{"query": "q", "hops": ["z"]}\n', "b.jsonl:1: the judged passage 'z' is not in the corpus"),
        ("b.jsonl", '{"query": "q", "hops": ["a"], "last_hop_known": 1}\n', "b.jsonl:1: 'last_hop_known'"),
        ("b.jsonl", '{"query": "q", "hops": ["a"]}\n' * 2, "b.jsonl:2: a query must have one line"),
        ("b.jsonl", "", "b.jsonl: judgements must have"),
    ],
)
def test_bad_judgements_are_refused_with_file_and_line(tmp_path, name, text, message):
    with pytest.raises(InvalidInputError, match=message):
        read_qrels(put(tmp_path / name, text), passages=["a", "b"])


def test_a_run_may_not_answer_what_nobody_judged():
    check_judged({"q1": ("a",)}, [Judgement("q1", (("a",),))], "r")
    with pytest.raises(InvalidInputError, match="answers query 'q2', which has no judgement"):
        check_judged({"q2": ("a",)}, [Judgement("q1", (("a",),))], "r")


def test_a_grade_beyond_every_float_is_refused(tmp_path):
    (tmp_path / "a.qrels").write_text(f"q1 0 p1 {'9' * 400}\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="a grade must be a whole number"):
        read_qrels(tmp_path / "a.qrels")
