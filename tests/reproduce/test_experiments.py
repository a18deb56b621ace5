"""The experiments that are no study: each on made-up data whose outcome is known, and the command with a chat model."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny import PASSAGES, many_queries, write_dataset, write_jsonl

import sweep
from answers import F1, GOLD, STAND_IN, answered, page_of
from contamination import answers_of, contamination, contamination_page, merged
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.answering import extract_answer, extract_support
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.fusion import FUSION_RULES
from phasegraph.fusion.rules import boltzmann
from phasegraph.ranking import Ranking
from running import EXPERIMENTS, reproduce
from studies import halves, hard_slice

PROGRAM = Path(__file__).parents[2] / "tools" / "reproduce"
TURNED = [(i, q, [PASSAGES[-1 - row % len(PASSAGES)][0]], True) for row, (i, q, _, _) in enumerate(many_queries())]
"""Questions whose last hop is another passage than the one they name: hard for the vectors."""


@pytest.fixture(scope="module")
def turned(tmp_path_factory):
    folder = write_dataset(tmp_path_factory.mktemp("data") / "2wiki", TURNED)
    lines = [json.loads(line) for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    titles = {name: title for name, title, _ in PASSAGES}
    write_jsonl(folder / "queries.jsonl", [{**line, "answer": titles[line["hops"][0]]} for line in lines])
    return folder


@pytest.fixture(scope="module")
def dataset(turned):
    return load_dataset(turned)


def test_there_are_667_configurations_of_different_rules_and_weights():
    tried = sweep.configurations()
    assert len(tried) == len({json.dumps(one.to_dict(), sort_keys=True) for one in tried.values()}) == 667
    assert {one.rule for one in tried.values()} >= {name for name, rule in FUSION_RULES.items() if rule.experimental}
    assert {one.weights["vector"] for one in tried.values()} == set(sweep.WEIGHTS)
    assert tried["tsallis 1.5, vector 0.3"].rule_options == {"q": {"graph": 1.5}}


def test_the_best_is_chosen_on_one_half_of_the_hard_slice_and_tested_on_the_other(dataset):
    named = sweep.configurations()
    tried = {name: named[name] for name in named if name.startswith(("boltzmann,", "linear over min-max"))}
    found = sweep.sweep(dataset, tried)
    hard, both = set(hard_slice(dataset)["hard"].tolist()), halves(dataset)
    assert found.tuned == len(hard & set(both["tune"].tolist())) > 0
    ids = {dataset.queries[row].id for row in hard & set(both["confirm"].tolist())}
    assert set(found.hard.queries) == ids
    assert set(found.whole.queries) == {dataset.queries[row].id for row in both["confirm"].tolist()}
    assert found.wins[found.chosen[sweep.BEST]] == max(found.wins.values())
    for rule, name in found.chosen.items():
        assert rule == sweep.BEST or name.startswith(rule)
        assert found.hard[rule].name == rule
    page = sweep.page_of({"2wiki": replace(found, chosen=dict.fromkeys(sweep.RULES, next(iter(tried))) | found.chosen)})
    assert f"highest {max(found.wins.values())}, reached by " in page.text()
    assert len(page.verdicts) == 6


def test_a_second_collection_puts_its_passages_into_the_answers_and_a_filter_takes_them_out(tmp_path):
    """The same questions over two copies of the passages: each collection's own half of the answers is foreign."""
    one = load_dataset(write_dataset(tmp_path / "musique", many_queries()))
    passages = tuple(replace(passage, id=f"x{passage.id}") for passage in one.passages)
    queries = []
    for query in one.queries:
        hops = tuple(tuple(f"x{name}" for name in hop) for hop in query.judgement.hops)
        queries.append(
            replace(query, id=f"x{query.id}", judgement=replace(query.judgement, query=f"x{query.id}", hops=hops))
        )
    other = replace(one, name="2wiki", passages=passages, queries=tuple(queries))
    parts = {part.name: part for part in (one, other)}
    found = answers_of(parts)
    assert len(merged(list(parts.values())).passages) == 2 * len(one.passages)
    scored = contamination([one], found, "musique")
    for what, table in scored.tables.items():
        assert scored.foreign[f"{what}, isolated"] == 0
        assert scored.foreign[f"{what}, shared"] == pytest.approx(0.5, abs=0.1)
        assert table.baseline == f"{what}, isolated"
    assert scored.foreign["walk, shared graph, own passages"] == 0
    page = contamination_page({}, list(parts.values()), lambda line: None)
    assert set(page.figures) == {"musique", "2wiki"}
    assert "| walk, shared graph, own passages |" in page.text()
    assert contamination_page({}, [one], lambda line: None) is None


def test_a_reader_that_knows_turns_the_conclusions(dataset):
    hard = dataset.subset(hard_slice(dataset)["hard"])
    titles = [title for _, title, _ in PASSAGES]

    def knowing(question, passages):
        """The title of the only passage, which is that of the last hop."""
        return passages[0].splitlines()[0] if len(passages) == 1 else ""

    found, marks = answered(hard, knowing, lambda question, answer, passages: float(answer in titles))
    assert found[GOLD].means[F1] == marks[GOLD] == 1.0
    assert found["vector"].means[F1] == marks["default"] == 0.0
    page = page_of({"2wiki": (found, marks)}, "one that knows")
    assert [one.holds for one in page.verdicts][-1] is True
    plain, marks = answered(hard, extract_answer, extract_support)
    assert set(marks) == {row.name for row in plain.rows}
    page = page_of({"2wiki": (plain, marks)}, STAND_IN)
    assert STAND_IN in page.text()
    assert f"| {100 * marks[GOLD]:.1f} |" in page.text()


def run_program(folder, out, *options, **environment):
    command = [sys.executable, str(PROGRAM), str(folder), "--out", str(out), "--only", "hard-slice-answers", *options]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=out.parent, env={**os.environ, **environment}
    )


@pytest.mark.slow
def test_a_model_is_handed_in_by_name_and_its_answers_are_replayed_without_it(turned, tmp_path):
    code = 'def chat(prompt):\n    return "75" if prompt.startswith("Do the") else prompt[-20:]\n'
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    model = ["--model", "mine:chat", "--answers", str(tmp_path / "kept.jsonl")]
    asked = run_program(turned, tmp_path / "one", *model)
    assert (asked.returncode, asked.stderr) == (0, "")
    (tmp_path / "mine.py").unlink()
    replayed = run_program(turned, tmp_path / "two", *model, "--offline")
    assert (replayed.returncode, replayed.stderr) == (0, "")
    pages = [(tmp_path / name / "hard-slice-answers.md").read_bytes() for name in ("one", "two")]
    assert pages[0] == pages[1]
    assert b"read by mine:chat, a chat model" in pages[0]
    assert b"| 75.0 |" in pages[0]
    gone = run_program(turned, tmp_path / "two", *model)
    assert gone.returncode == 1
    assert "MODULE:FUNCTION" in gone.stderr
    (tmp_path / "kept.jsonl").write_text("", encoding="utf-8")
    empty = run_program(turned, tmp_path / "two", *model, "--offline")
    assert empty.returncode == 1
    assert "contains no answer of 'mine:chat'" in empty.stderr


def test_an_experiment_without_its_data_is_said_to_be_left_out(tmp_path):
    said = []
    reproduce(write_dataset(tmp_path / "many"), tmp_path / "out", only=list(EXPERIMENTS), say=said.append)
    assert sum("left out" in line for line in said) >= len(EXPERIMENTS)
    with pytest.raises(InvalidInputError, match="got no-such"):
        reproduce(tmp_path / "many", tmp_path / "out", only=["no-such"])


def test_the_sweeps_boltzmann_is_the_papers():
    """One configuration through a pipeline, against the rule on percentiles worked out by hand."""
    lists = [Ranking("vector", list("abc"), [0.9, 0.8, 0.1]), Ranking("graph", list("bd"), [0.5, 0.2])]
    found = sweep.configurations()["boltzmann, vector 0.3"].decide(lists)
    percentiles = np.array([[1, np.nan], [2 / 3, 1], [1 / 3, np.nan], [np.nan, 0.5]])
    wanted = dict(zip("abcd", boltzmann(percentiles, weights=np.array([0.3, 0.7])), strict=True))
    assert dict(zip(found.ids, found.fused, strict=True)) == pytest.approx(wanted)
