"""The recomputation of published results, on made-up results whose answer is known."""

import json

import numpy as np
import pytest

from phasegraph.errors import InvalidInputError
from published import (
    ABLATIONS,
    ablation_page,
    ablations,
    balanced_accuracy,
    cross_validated,
    judged_sources,
    thresholds_page,
)


@pytest.fixture
def published(tmp_path):
    """Two sources that separate perfectly, each at a level of its own, and an ablation with one real loss."""
    rng = np.random.default_rng(0)
    labels = np.tile(np.r_[np.ones(5), np.zeros(25)], 50)
    scores = {
        name: (level + width * (labels - 0.5 + 0.4 * (rng.random(1500) - 0.5))).tolist()
        for name, level, width in (("bi", 0.7, 0.1), ("cross", 0.2, 0.8))
    }
    pairs = {name: list(zip(of, labels.tolist(), strict=True)) for name, of in scores.items()}
    (tmp_path / "sscc.json").write_text(json.dumps(pairs), encoding="utf-8")
    keys = [f"q{i}" for i in range(60)]
    full = {key: float(rng.random() > 0.3) for key in keys}
    hurt = {key: 0.0 if i % 3 == 0 else full[key] for i, key in enumerate(keys)}
    configs = {name: {"f1": full, "ndcg": full} for name in ("full", *ABLATIONS)}
    configs["wo_rerank"] = {"f1": hurt, "ndcg": hurt}
    state = {"qids": keys, "configs": configs}
    (tmp_path / "hetdocqa_test_perquery.json").write_text(json.dumps(state), encoding="utf-8")
    return tmp_path


def test_thresholds_per_source_separate_what_one_raw_threshold_cannot(published):
    found = cross_validated(judged_sources(published / "sscc.json"))
    assert found["per source, exact and midway"] == pytest.approx(1.0)
    assert found["one level on each source's own ECDF"] > 0.97
    assert found["one raw threshold for all"] < 0.95
    assert found["the code's defaults (bi .5, cross 0)"] < 0.95


def test_blocks_of_thirty_are_one_query(published):
    assert judged_sources(published / "sscc.json")["bi"].query_count == 50


def test_balanced_accuracy_by_hand(published):
    judged = judged_sources(published / "sscc.json")["bi"]
    assert balanced_accuracy(judged, -1.0) == 0.5
    assert balanced_accuracy(judged, 0.7) == 1.0


def test_only_the_real_loss_is_rejected(published):
    rows = {row.removed: row for row in ablations(published)}
    assert rows["rerank"].holm <= 0.05
    assert rows["rerank"].difference.mean < 0
    others = [row for name, row in rows.items() if name != "rerank"]
    assert all(row.holm == 1.0 and row.changed == 0 and row.difference.p == 1.0 for row in others)


def test_the_pages_hold_their_tables(published):
    assert "| rerank |" in ablation_page(published).text()
    assert "Holm rejects rerank; Benjamini-Hochberg agrees." in ablation_page(published).text()
    assert "| bi | 1500 | 250 | 1.000000 |" in thresholds_page(published).text()


def test_a_broken_file_is_named(tmp_path):
    (tmp_path / "sscc.json").write_text("[1, 2]", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"sscc.json: must hold one JSON object"):
        judged_sources(tmp_path / "sscc.json")
    (tmp_path / "sscc.json").write_text("{", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"sscc.json: must be a JSON file"):
        judged_sources(tmp_path / "sscc.json")
