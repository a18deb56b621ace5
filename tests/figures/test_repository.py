"""Faults planted in a copy of this repository: each is found, and named with its page and what to do."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import pages
from digests import as_json, digest_of_text
from making import Figures, main
from registry import BUNDLED, FIGURES, JSON, Figure

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("README.md", "docs", "examples", "src", "integrations", "tools", "tests/examples", "tests/matrix")


@pytest.fixture(scope="module")
def dated(tmp_path_factory):
    """The repository as it would be after ``make figures DATE=1``, without its history; no test changes it."""
    made = tmp_path_factory.mktemp("dated")
    ignored = shutil.ignore_patterns("__pycache__", ".venv", ".*_cache", "*.egg-info")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, made / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, made / name)
    (made / "data").symlink_to(ROOT / "data", target_is_directory=True)
    assert main(["--date"], Figures(made)) == 0
    assert Figures(made).problems(run=False) == []
    return made


@pytest.fixture
def copy(dated, tmp_path):
    """A copy of that repository for one test."""
    return shutil.copytree(dated, tmp_path / "copy", symlinks=True)


def plant(root, page, pattern, replacement):
    """Put a fault in place of the first match, and say what was there."""
    path = root / page
    text = path.read_text(encoding="utf-8")
    found = re.search(pattern, text)
    assert found is not None, (page, pattern)
    path.write_text(text[: found.start()] + found.expand(replacement) + text[found.end() :], encoding="utf-8")


def test_figures_that_were_edited_by_hand_are_found_wherever_they_stand(copy):
    plant(copy, "README.md", r"(as in `EnsembleRetriever` \| )\d\d\.\d", r"\g<1>12.3")
    plant(copy, "docs/research/results.md", r"(our walk alone \| )\d\d\.\d", r"\g<1>12.3")
    plant(copy, "docs/guide/thresholds.md", r"\d\d\.\d \(\d\d\.\d\)", "12.3 (45.6)")
    plant(copy, "docs/reproduction/table-1.md", r"(\| vector \| )\d\d\.\d", r"\g<1>12.3")
    plant(copy, "docs/reproduction/figures.json", r'("LastHop@5": )[\d.]+', r"\g<1>12.3")
    plant(copy, "docs/figures/rules.json", r'("Recall@5": )[\d.]+', r"\g<1>12.3")
    plant(copy, "examples/langchain_chroma_neo4j.ipynb", r"(EnsembleRetriever )\d\d", r"\g<1>12")
    key = json.dumps({"no-page": 1})[1:-1]
    plant(copy, "docs/reproduction/figures.json", r"\{", "{" + key + ",")
    found = Figures(copy).problems(run=False)
    by_hand = "was edited by hand"
    assert sorted(line.partition(";")[0].replace(f" {by_hand}", "") for line in found if by_hand in line) == [
        "README.md: readme",
        "docs/figures/rules.json: the result of rules",
        "docs/guide/thresholds.md: confidence",
        "docs/reproduction/figures.json: the result of studies",
        "docs/reproduction/table-1.md: studies",
        "docs/research/results.md: results-demo",
        "examples/langchain_chroma_neo4j.ipynb: notebooks",
    ]
    (other,) = [line for line in found if by_hand not in line]
    assert other.startswith("docs/reproduction/figures.json holds 'no-page', which no figure of tools/figures/")


def test_a_change_of_a_measure_is_found_on_every_page_that_it_reaches_although_all_were_dated(copy):
    measures = "src/phasegraph/evaluation/measures.py"
    plant(copy, measures, r"hits / len\(judgement\.hops\)", "hits / len(judgement.hops) ** 1")
    assert main(["--date"], Figures(copy)) == 0
    assert "dated" in Figures(copy).ledger["studies"]
    plant(copy, measures, r"\*\* 1", "** 2")
    found = Figures(copy).problems(run=False)
    assert all("its code changed since; make figures ONLY=" in line for line in found)
    named = {line.partition(" is of ")[0] for line in found}
    assert named >= {
        "README.md: readme",
        "docs/research/results.md: results-demo",
        "docs/reference/data-and-measures.md: protocol",
        "docs/reproduction/table-1.md: studies",
        "docs/reproduction/routing.md: routing",
        "examples/langchain_chroma_neo4j.ipynb: notebooks",
        "examples/llamaindex_postgres_property_graph.ipynb: notebooks",
    }
    assert not any("paper-statistics" in line or "example" in line.partition("README.md: ")[2] for line in found)


def test_a_wrong_figure_whose_every_trace_was_edited_is_found_by_running_its_command(copy):
    plant(copy, "docs/figures/example.json", r'("rank": )16\.0', r"\g<1>15.0")
    forged = Figures(copy, figures={"example": FIGURES["example"]})
    forged.ledger["example"]["result"] = digest_of_text(as_json(forged.result("example")))
    forged.write("example")
    assert "15th" in (copy / "README.md").read_text(encoding="utf-8")
    again = Figures(copy, figures={"example": FIGURES["example"]})
    said = "phasegraph explain data/musique-openie 2hop__205146_62031 --json FILE"
    assert f"README.md: example is not what `{said}` says now; make figures ONLY=example" in again.problems()


def test_a_peer_that_gives_pairs_of_id_and_score_stops_its_figure_and_no_page_is_changed(copy, monkeypatch, capfd):
    """The fault of the first notebooks: pairs were taken for ids, and shown as a row of zeros."""
    plant(copy, "src/phasegraph/evaluation/peers.py", r"tuple\(identifier for identifier, _ in hits\)", "tuple(hits)")
    monkeypatch.setenv("PYTHONPATH", str(copy / "src"))
    command = ("phasegraph", "evaluate", BUNDLED, "--systems", "vector,graph,ensemble", *JSON)
    peers = Figure({"": command}, ("src/phasegraph/evaluation/peers.py",), (BUNDLED,), {"readme": ("README.md", str)})
    before = (copy / "README.md").read_bytes()
    assert main(["--only", "peers"], Figures(copy, figures={"peers": peers})) == 1
    error = capfd.readouterr().err
    assert re.search(r"ensemble, question '\S+': an id must be text; got \('mqt-", error)
    assert "pass the ids alone, [identifier for identifier, score in hits]" in error
    assert "ended with 1; no page was changed" in error
    assert (copy / "README.md").read_bytes() == before


def test_a_dated_notebook_says_so_in_its_last_cell_until_it_runs_again(copy):
    path = copy / "examples/langchain_chroma_neo4j.ipynb"
    for dated, wanted in (("", 0), ("of now", 1)):
        line = pages.DATED.format(ran="2026-11-24", again="make figures ONLY=notebooks") if dated else ""
        made = pages.stamp(path, "notebooks", "make figures ONLY=notebooks", "c0de", "da7a", line)
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert [cell["id"] for cell in cells].count("dated") == wanted
        assert not made.edited
        assert pages.read_stamp(path).text == made.text


def test_making_quick_figures_again_changes_times_alone(copy):
    def bytes_of():
        files = {file for room in ("docs", ".") for file in copy.glob("*" if room == "." else "docs/**/*")}
        found = {str(file): file.read_bytes() for file in files if file.suffix in (".md", ".json")}
        ledger = json.loads(found.pop(str(copy / "docs/figures/ledger.json")))
        return found, {name: {**note, "ran": "", "seconds": 0} for name, note in ledger.items()}

    for _ in range(2):
        before = bytes_of()
        assert main(["--jobs", "2", "--only", "example", "paper-statistics"], Figures(copy)) == 0
    assert len(before[0]) > 50
    assert bytes_of() == before
