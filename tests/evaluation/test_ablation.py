"""The ablation: published numbers to the digit, and a pipeline with each stage on and off."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from phasegraph import InsufficientDataError, InvalidInputError, PhasegraphWarning
from phasegraph.apps.cli.app import app
from phasegraph.evaluation.ablation import STAGES, ablate, compare_ablations, published_ablation
from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.evaluation.significance import holm, paired_bootstrap
from phasegraph.evaluation.source_runs import ExperimentInput, graph_of
from phasegraph.graph import filter_facts_with
from phasegraph.retrieval import ModelAnswers, hyde

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = ROOT / "data" / "musique-openie"
SHARED = Path(os.environ.get("PHASEGRAPH_SHARED", ROOT.parent / "shared"))
PUBLISHED = SHARED / "data" / "published" / "hetdocqa_test_perquery.json"


# Spec 3.3: nDCG, F1, difference in F1 with its interval, p, p of Holm over the eight.
GOLDEN: dict[str, tuple[Any, ...]] = {
    "rerank": (0.0318, 0.2536, -0.2944, (-0.3324, -0.2570), 0.0001, 0.0008),
    "hyde": (0.5419, 0.4812, -0.0669, (-0.0919, -0.0431), 0.0001, 0.0008),
    "raptor": (0.6504, 0.5225, -0.0256, (-0.0433, -0.0092), 0.0035, 0.0210),
    "sscc": (0.6017, 0.5234, -0.0247, (-0.0420, -0.0083), 0.0047, 0.0235),
    "cross_doc": (0.6441, 0.5449, -0.0032, None, 0.2129, 0.8516),
    "graph": (0.6407, 0.5420, -0.0061, None, 0.2144, 0.8516),
    "crag": (0.6442, 0.5460, -0.0021, (-0.0089, 0.0027), 0.4783, 0.9566),
    "dphf": (0.6442, 0.5481, 0.0, None, 1.0, 1.0),
}


def test_holm_over_the_eight_published_p_rejects_what_the_paper_says() -> None:
    corrected = holm([row[4] for row in GOLDEN.values()])
    assert corrected.tolist() == pytest.approx([row[5] for row in GOLDEN.values()], abs=1e-9)
    assert [name for name, p in zip(GOLDEN, corrected, strict=True) if p <= 0.05] == [
        "rerank",
        "hyde",
        "raptor",
        "sscc",
    ]


@pytest.mark.skipif(not PUBLISHED.is_file(), reason="the published results are not at hand")
def test_the_published_table_to_the_digit() -> None:
    found = published_ablation(PUBLISHED, ["all"])
    assert found.queries == 363
    assert (round(found["full"].means["nDCG@10"], 4), round(found["full"].means["F1"], 4)) == (0.6442, 0.5481)
    assert [row.name for row in found.rows] == ["full", *(f"- {name}" for name in GOLDEN)]
    for name, (ndcg, f1, change, interval, p, corrected) in GOLDEN.items():
        row = found[f"- {name}"]
        assert (round(row.means["nDCG@10"], 4), round(row.means["F1"], 4)) == (ndcg, f1)
        mean, low, high = row.differences["F1"]
        assert round(mean, 4) == pytest.approx(change)
        assert interval is None or (round(low, 4), round(high, 4)) == pytest.approx(interval)
        assert (round(row.p["F1"], 4), round(row.p_holm["F1"], 4)) == pytest.approx((p, corrected))


@pytest.mark.skipif(not PUBLISHED.is_file(), reason="the published results are not at hand")
def test_a_stage_stands_for_its_published_rows() -> None:
    found = published_ablation(PUBLISHED, ["rewrite", "summaries", "crag"])
    assert [row.name for row in found.rows] == [
        "full", "- hyde", "- dphf", "- modality_hyde", "- raptor", "- cross_doc", "- crag",
    ]  # fmt: skip
    with pytest.raises(InvalidInputError, match="no row for an ablation of 'route'"):
        published_ablation(PUBLISHED, ["route"])


def table(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    full = {f"q{row}": float(value) for row, value in enumerate(draw.random(30))}
    less = {query: value / 2 for query, value in full.items()}
    state = {
        "qids": list(full),
        "configs": {
            "full": {"ndcg": full, "f1": full},
            "wo_rerank": {"ndcg": less, "f1": less},
            "wo_graph": {"ndcg": full, "f1": full},
        },
    }
    file = tmp_path / "table.json"
    file.write_text(json.dumps(state))
    return file


def test_a_table_of_values_by_query_is_compared_row_by_row(tmp_path: Path) -> None:
    file = table(tmp_path)
    found = published_ablation(file, ["rerank", "graph"])
    values = np.array(list(json.loads(file.read_text())["configs"]["full"]["f1"].values()))
    wanted = paired_bootstrap(-values / 2)
    row = found["- rerank"]
    assert row.differences["F1"] == (wanted.mean, wanted.low, wanted.high)
    assert row.p["F1"] == wanted.p
    assert row.p_holm["F1"] == min(1.0, 2 * wanted.p)
    assert found["- graph"].p["F1"] == 1.0
    shuffled = json.loads(file.read_text())
    shuffled["configs"]["full"]["f1"] = dict(reversed(shuffled["configs"]["full"]["f1"].items()))
    file.write_text(json.dumps(shuffled))
    assert published_ablation(file, ["rerank", "graph"]) == found


def test_the_command_reads_a_published_table(tmp_path: Path) -> None:
    file, out = table(tmp_path), tmp_path / "out.json"
    result = CliRunner().invoke(app, ["evaluate", str(file), "--ablate", "rerank,graph", "--json", str(out)])
    assert result.exit_code == 0, result.output
    assert "- rerank" in result.output
    state = json.loads(out.read_text())
    assert set(state["rows"]) == {"full", "- rerank", "- graph"}
    assert state["rows"]["- graph"]["p_holm"] == {"nDCG@10": 1.0, "F1": 1.0}
    beside = CliRunner().invoke(app, ["evaluate", str(file), "--ablate", "rerank", "--baseline", "graph"])
    assert beside.exit_code == 2
    unknown = CliRunner().invoke(app, ["evaluate", str(file), "--ablate", "nothing"])
    assert unknown.exit_code in (1, 2)


@pytest.fixture(scope="module")
def small() -> Dataset:
    return load_dataset(BUNDLED).subset(range(6))


@pytest.mark.timeout(300)
def test_every_stage_runs_on_the_bundled_slice_and_twice_the_same(small: Dataset) -> None:
    names = ["rewrite", "rerank", "route", "correct", "facts", "graph"]
    found = ablate(ExperimentInput(small), names, resamples=200)
    assert [row.name for row in found.rows] == ["full", *(f"- {name}" for name in names)]
    assert found.queries == 6
    assert all(0 <= value <= 1 for row in found.rows for value in row.means.values())
    assert found["- rerank"].means != found["full"].means
    assert ablate(ExperimentInput(small), names, resamples=200) == found
    assert any("stand-ins replace the models" in note for note in found.notes)


def models(answers: ModelAnswers, asked: list[str]) -> dict[str, Any]:
    """A model for every stage, its answers kept; offline there is none."""

    def rewrite(prompt: str) -> str:
        asked.append("rewrite")
        return f"A text that answers: {prompt[-40:]}"

    def rerank(query: str, texts: list[str]) -> list[float]:
        asked.append("rerank")
        return [float(len(text) % 7) for text in texts]

    def grade(query: str, texts: list[str]) -> str:
        asked.append("grade")
        return f"{10 * len(query) % 97 + 1} of 100"

    def facts(prompt: str) -> str:
        asked.append("facts")
        return '{"fact": []}' if len(prompt) % 2 else '{"facts": [1, 2]}'

    def embed(text: str) -> Any:
        asked.append("embed")
        return np.random.default_rng(len(text)).normal(size=384).astype(np.float32)

    def kept(name: str, model: Any) -> Any:
        return answers.around(None if answers.offline else model, name)

    return {
        "rewrite": hyde(kept("writer", rewrite)), "rerank": kept("reranker", rerank), "grade": kept("grader", grade),
        "facts": filter_facts_with(kept("filter", facts)), "embed": kept("embedder", embed),
    }  # fmt: skip


@pytest.mark.timeout(300)
def test_a_whole_experiment_is_replayed_from_the_answers_of_its_models(small: Dataset, tmp_path: Path) -> None:
    file, names, asked = tmp_path / "answers.jsonl", ["rewrite", "rerank", "correct", "facts"], list[str]()
    inputs = ExperimentInput(small.subset(range(4)), graph=graph_of(small))
    answers = ModelAnswers(file)
    found = ablate(inputs, names, models=models(answers, asked), resamples=200)
    assert set(asked) == {"rewrite", "rerank", "grade", "facts", "embed"}
    assert found.notes == tuple(f"{name}: by the model that was passed" for name in names)
    assert found["full"].means != ablate(inputs, names, resamples=200)["full"].means
    asked.clear()
    replay = ModelAnswers(file, offline=True)
    assert ablate(inputs, names, models=models(replay, asked), resamples=200) == found
    assert (asked, replay.asked, replay.missing) == ([], 0, 0)
    file.write_text("\n".join(line for line in file.read_text().splitlines() if '"reranker"' not in line))
    lacking = models(ModelAnswers(file, offline=True), asked)
    with (
        pytest.warns(PhasegraphWarning, match="rerank failed"),
        pytest.raises(InsufficientDataError, match=r"rerank failed \(answers.jsonl contains no answer"),
    ):
        ablate(inputs, ["rerank"], models=lacking)
    with pytest.raises(InvalidInputError, match="models must be among rewrite"):
        ablate(inputs, ["rerank"], models={"ranker": len})


def test_what_is_no_stage_is_named(small: Dataset) -> None:
    with pytest.raises(InvalidInputError, match="stages must be 'all', or among rewrite"):
        ablate(ExperimentInput(small), ["rewriting"])
    with pytest.raises(InvalidInputError, match="got none"):
        ablate(ExperimentInput(small), [])
    with pytest.raises(InvalidInputError, match="needs the configuration 'full'"):
        compare_ablations("x", {"full": {"F1": {"a": 1.0}}})
    assert set(STAGES) >= {"rewrite", "rerank", "route", "correct", "summaries", "facts"}


def test_facts_are_left_out_where_there_are_none(small: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(dataset: Dataset) -> Any:
        raise InsufficientDataError("none here")

    monkeypatch.setattr("phasegraph.evaluation.ablation.load_facts", lacking)
    with pytest.raises(InsufficientDataError, match="facts: none here"):
        ablate(ExperimentInput(small), ["facts"])


def test_a_foreign_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "foreign.json"
    file.write_text("[1, 2]")
    with pytest.raises(InvalidInputError, match=r"foreign\.json is not a table"):
        published_ablation(file, ["rerank"])
