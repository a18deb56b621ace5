"""The reproduction on a small data set: every study, both parts, the same twice."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny import many_queries, write_dataset

from paper import paper_page
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.source_runs import ExperimentInput, SourceRun, search_sources
from phasegraph.evaluation.systems import TWO
from phasegraph.ranking import Ranking
from running import ALL_STUDIES, reproduce, run_study
from studies import STUDIES, configuration, hard_slice

PROGRAM = Path(__file__).parents[2] / "tools" / "reproduce"


def run_program(folder, out):
    command = [sys.executable, str(PROGRAM), str(folder), "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path):
    return write_dataset(tmp_path / "many", many_queries())


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """The pages of a data set of that name, and what was said on the way."""
    base, said = tmp_path_factory.mktemp("reproduced"), []
    reproduce(write_dataset(base / "many", many_queries()), base / "out", say=said.append)
    return base / "out", said


def test_every_study_gets_its_page_and_its_figures(reproduced):
    out, said = reproduced
    pages = {path.stem for path in out.glob("*.md")}
    assert pages == {study.name for study in ALL_STUDIES} | {
        "README",
        "robust-default",
        "paper-statistics",
        "datasheet",
    }
    figures = json.loads((out / "figures.json").read_text(encoding="utf-8"))
    assert set(figures) == {study.name for study in ALL_STUDIES}
    assert set(figures["table-1"]["many"]) == {"tune", "confirm"}
    text = (out / "table-1.md").read_text(encoding="utf-8")
    assert "| paper |" in text
    assert any("left out" in line for line in said)


def test_one_page_alone_leaves_the_others_and_their_figures_as_they_are(reproduced, folder, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(reproduced[0], out)
    (out / "table-1.md").write_text("# Of another day\n", encoding="utf-8")
    figures = out / "figures.json"
    known = json.loads(figures.read_text(encoding="utf-8"))
    left_over = {**known, "pool-caps": {"many": {"gone": 1}}, "no-page": 1}
    figures.write_text(json.dumps(left_over), encoding="utf-8")
    written = reproduce(folder, out, only=["pool-caps"])
    assert {path.name for path in written} == {"pool-caps.md", "figures.json", "README.md"}
    assert "[Of another day](table-1.md)" in (out / "README.md").read_text(encoding="utf-8")
    for name in ("pool-caps.md", "figures.json", "ising.md"):
        assert (out / name).read_bytes() == (reproduced[0] / name).read_bytes()
    with pytest.raises(InvalidInputError, match=r"pages among .*pool-caps.*; got no-such"):
        reproduce(folder, out, only=["no-such"])


@pytest.mark.slow
def test_the_pages_are_the_same_twice(reproduced, folder, tmp_path):
    """Made here, and by the program in a process of its own, of another copy."""
    done = run_program(folder, tmp_path / "two")
    assert (done.returncode, done.stderr) == (0, "")
    assert "files written to" in done.stdout
    assert {path.name for path in reproduced[0].iterdir()} == {path.name for path in (tmp_path / "two").iterdir()}
    for path in reproduced[0].iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_a_folder_without_data_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="must hold data sets"):
        reproduce(tmp_path, tmp_path / "out")
    done = run_program(tmp_path, tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.startswith("tools/reproduce: ")


@pytest.mark.parametrize("broken", ["other/corpus.jsonl", "published/sscc.json"])
def test_whatever_is_broken_is_said_before_anything_is_searched(tmp_path, broken):
    write_dataset(tmp_path / "musique", many_queries())
    path = tmp_path / broken
    path.parent.mkdir()
    path.write_text("no JSON", encoding="utf-8")
    said = []
    with pytest.raises(InvalidInputError, match=path.name):
        reproduce(tmp_path, tmp_path / "out", say=said.append)
    assert not any("searching" in line for line in said)
    assert not (tmp_path / "out").exists()


def test_the_whole_graph_list_drowns_under_the_papers_rule_and_the_cap_cures_it(tmp_path):
    """Two sources in opposite order: the longer the graph's list, the less its top counts under the paper's rule."""
    dataset = load_dataset(write_dataset(tmp_path / "2wiki-made-up", many_queries()))
    ids = [f"v{i:02d}" for i in range(48)]
    long = [f"x{i:03d}" for i in range(400)]
    vector, graph = [], []
    for query in dataset.queries:
        gold = query.judgement.hops[0][0]
        wrong = "p01" if gold == "p00" else "p00"
        vector.append(Ranking("vector", [wrong, *ids, gold], np.linspace(1.0, 0.1, 50)))
        graph.append(Ranking("graph", [gold, *long], np.geomspace(1.0, 1e-6, 401)))
    runs = {"vector": SourceRun("vector", tuple(vector), 0.0), "graph": SourceRun("graph", tuple(graph), 0.0)}
    study = next(study for study in STUDIES if study.name == "pool-explosion")
    table = run_study(study, dataset, runs)["confirm"]
    means = {row.name: next(iter(row.means.values())) for row in table.rows}
    assert means["graph"] == 1.0
    assert means["paper's rule, whole graph list"] == 0.0
    assert means["paper's rule, graph list cut at 30"] == 1.0


def test_configurations_are_the_papers():
    assert configuration("musique-openie") == (0.7, 30)
    assert configuration("2wiki-small") == (0.4, 20)
    assert configuration("other") == (0.7, 30)


def test_the_papers_statistics_are_recomputed_from_its_counts():
    text = paper_page().text()
    assert "| 11 | 2 | 0.0225 | 0.023 |" in text
    wilson = {26: "28.5 to 51.5", 49: "62.6 to 83.3", 52: "67.5 to 86.9", 53: "69.2 to 88.1", 6: "4.2 to 18.4"}
    assert all(f"| {successes} | {interval} |" in text for successes, interval in wilson.items())
    assert "| 52 | 67.5 to 86.9 | 67.5 to 87.2 |" in text
    assert "changes the fused weights (largest change) (weights 0; must be at least 1e-12)" in text
    assert "0.0819940192" in text
    assert "(ahead of RRF -2; must be at least 0)" in text
    temperatures = (0.173286, 0.250679, 0.325969, 0.396070, 0.439474, 0.456293, 0.471232, 0.483886, 0.491076, 0.497810)
    for length, temperature in zip((2, 3, 5, 10, 20, 30, 50, 100, 200, 1000), temperatures, strict=True):
        assert f"| {length} | {temperature:.6f} |" in text
    assert "| 50 | 0.471232 | 0.060538 |" in text
    assert "| 2000 | 0.498816 | 0.001501 |" in text


def test_bending_the_scores_changes_nothing_that_keeps_ranks_only(folder):
    dataset = load_dataset(folder)
    study = next(study for study in STUDIES if study.name == "table-2-calibration")
    table = run_study(study, dataset, search_sources(ExperimentInput(dataset, 12), TWO))["tune"]
    plain, bent = (table.found[f"own-list percentile, boltzmann{end}"] for end in ("", ", scores bent by exp(5s)"))
    assert plain == bent


def test_the_hard_slice_is_what_the_vectors_lack_in_their_first_ten(tmp_path):
    dataset = load_dataset(write_dataset(tmp_path / "many", many_queries()))
    found = search_sources(ExperimentInput(dataset, 10), ["vector"])["vector"].rankings
    lacking = [row for row, query in enumerate(dataset.queries) if query.judgement.hops[-1][0] not in found[row].ids]
    parts = hard_slice(dataset)
    assert parts["hard"].tolist() == lacking
    assert sorted([*parts["hard"], *parts["rest"]]) == list(range(len(dataset.queries)))
