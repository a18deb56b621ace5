"""Effects by heterogeneity, and the datasheet: made-up collections, and the published ones to the digit."""

import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tiny import PASSAGES, many_queries, write_dataset

from datasheet import PRINTED_DOCUMENTS, PRINTED_QUESTIONS, datasheet_page, documents_of, sheet_row
from heterogeneity import METHODS, collection_of, effects_of, heterogeneity_page, kinds_of, slope_of
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.significance import paired_bootstrap

SHARED = Path(os.environ.get("PHASEGRAPH_SHARED", Path(__file__).resolve().parents[3] / "shared"))
DATA = SHARED / "data"
needs_data = pytest.mark.skipif(not (DATA / "hetdocqa").is_dir(), reason="the published results are not at hand")


@pytest.fixture
def mixed(tmp_path):
    """Two collections: plain prose, and prose with code; the methods help in the second alone."""
    folder = write_dataset(tmp_path / "mixed", many_queries())
    rows = [
        {
            "id": name, "title": title, "text": text, "doc_id": f"d{place}",
            "collection_id": "plain" if place < 6 else "both", "modality": "code" if place == 11 else "prose",
        }
        for place, (name, title, text) in enumerate(PASSAGES)
    ]  # fmt: skip
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    queries = [f"{name}-factual-{row}" for name in ("plain", "both") for row in range(30)]
    without = {query: 0.5 if query.startswith("plain") else 0.25 for query in queries}
    configs = {"full": dict.fromkeys(queries, 0.5)} | {name: without for _, name in METHODS.values()}
    state = {"qids": queries, "configs": {name: {"f1": values} for name, values in configs.items()}}
    (tmp_path / "hetdocqa_test_perquery.json").write_text(json.dumps(state), encoding="utf-8")
    return tmp_path, load_dataset(folder)


def test_an_effect_that_grows_with_the_modalities_is_seen(mixed):
    folder, dataset = mixed
    assert kinds_of(dataset) == {"plain": 1, "both": 2}
    page = heterogeneity_page(folder, dataset)
    assert "| method | 1 (30 queries) | 2 (30 queries) | per additional modality |" in page.text()
    assert (
        "| SSCC | +0.0000 [+0.0000, +0.0000] | +0.2500 [+0.2500, +0.2500] | +0.2500 [+0.2500, +0.2500] |" in page.text()
    )
    assert page.verdicts[-1].holds
    assert "per additional modality" not in heterogeneity_page(folder, None).text()


def test_a_collection_that_the_data_set_lacks_is_named(mixed):
    folder, _ = mixed
    with pytest.raises(InvalidInputError, match="must hold every published collection; both-factual-0 has none"):
        heterogeneity_page(folder, load_dataset(write_plain(folder / "plain")))


def write_plain(folder):
    write_dataset(folder, many_queries())
    rows = [
        {"id": name, "title": title, "text": text, "collection_id": "plain", "modality": "prose"}
        for name, title, text in PASSAGES
    ]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def test_a_slope_by_hand():
    kinds = np.array([1, 1, 2, 2, 3, 3])
    slope, low, high = slope_of(kinds, 0.1 * kinds + 5)
    assert (slope, low, high) == pytest.approx((0.1, 0.1, 0.1))


def test_a_data_set_in_figures(mixed):
    _, dataset = mixed
    assert documents_of(dataset)["d11"] == "code"
    name, questions, _, gold, several, _, passages, documents, triples, _, answered = sheet_row(dataset)
    assert (name, questions, gold, several, passages, documents, triples, answered) == (
        "mixed", 36, "1.00", "0.0", 12, 12, "–", "0.0",
    )  # fmt: skip
    assert datasheet_page([dataset]).verdicts == ()


@needs_data
def test_the_effects_of_the_figure_on_hetdocqa_to_the_digit():
    """Golden, spec 3.3 with the sign of the gain: mean, interval and p."""
    queries, effects = effects_of(DATA / "published")
    assert len(queries) == 363
    golden = {
        "SSCC": (0.0247, 0.0083, 0.0420), "HyDE": (0.0669, 0.0431, 0.0919), "RAPTOR": (0.0256, 0.0092, 0.0433),
        "SSCC against no correction": (0.0021, -0.0027, 0.0089), "reranker": (0.2944, 0.2570, 0.3324),
    }  # fmt: skip
    for name, wanted in golden.items():
        found = paired_bootstrap(effects[name])
        assert (found.mean, found.low, found.high) == pytest.approx(wanted, abs=1.01e-4)
    kinds = kinds_of(load_dataset(DATA / "hetdocqa"))
    assert Counter(kinds[collection_of(query)] for query in queries) == {1: 40, 2: 254, 3: 69}


@needs_data
def test_the_datasheet_of_hetdocqa_to_the_digit():
    """Golden: 391 of the 399 printed questions, 248 of the 258 printed documents."""
    dataset = load_dataset(DATA / "hetdocqa")
    assert sum(map(sum, PRINTED_QUESTIONS.values())) == 399
    assert sum(PRINTED_DOCUMENTS.values()) == 258
    assert sheet_row(dataset)[:2] == ["hetdocqa", 391]
    assert Counter(documents_of(dataset).values()) == {"prose": 108, "pdf": 92, "markdown": 22, "code": 22, "table": 4}
    first, second = datasheet_page([dataset]).verdicts
    assert "calibration 4, dev 4" in first.text
    assert "prose 10, pdf 0" in second.text
