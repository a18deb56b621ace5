"""The learned re-scorer: trees as plain numbers, a bonus that adds up, and a confirmation that can say no."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from phasegraph import FusionPipeline, IntegrityError, InvalidInputError, MissingDependencyError, Ranking
from phasegraph.cli import main
from phasegraph.errors import InsufficientDataError
from phasegraph.evaluation.datasets import Judgement
from phasegraph.evaluation.measures import Measure
from phasegraph.ranking import pool
from phasegraph.rescoring import START, Rescorer, feature_count, fit_rescorer, ranking_features
from phasegraph.tuning import Candidate, learn_rescorer, tune

NAMES = ("graph", "vector")
DEFAULT = Candidate("default", lambda rankings, judgements: FusionPipeline())
TREE = {"sources": ["graph", "vector"], "roots": [0], "feature": [4, 0, 0], "threshold": [2.5, 0.0, 0.0]} | {
    "left": [1, 1, 2], "right": [2, 1, 2], "value": [0.0, 100.0, -1.0],
}  # fmt: skip


def world(count: int, *, seed: int = 0, learnable: bool = True):
    """What both sources found is wrong and the second of `graph`, which `vector` lacks, is right; or any of it is."""
    rng = np.random.default_rng(seed)
    rankings: dict[str, list[Ranking]] = {name: [] for name in NAMES}
    judged = []
    for query in range(count):
        common = [f"c{query}-{place}" for place in range(8)]
        for name in NAMES:
            own = [f"{name[0]}{query}-{place}" for place in range(2)]
            scores = np.sort(rng.uniform(0.2, 1.0, 10))[::-1]
            rankings[name].append(Ranking(name, [*own, *common], scores))
        gold = f"g{query}-1" if learnable else common[int(rng.integers(8))]
        judged.append(Judgement(f"q{query}", ((gold,),)))
    return rankings, judged


@pytest.fixture(scope="module")
def learned() -> FusionPipeline:
    rankings, judged = world(120)
    return replace(FusionPipeline(), rescorer=learn_rescorer(FusionPipeline(), rankings, judged))


def query_of(rankings, row=0):
    return [rankings[name][row] for name in NAMES]


def test_a_tree_adds_its_leaf_to_the_fused_value():
    """Column 4 is the rank in `graph` (after three values and the fused rank): up to 2.5 it adds 100."""
    rankings, _ = world(1)
    plain = FusionPipeline().decide(query_of(rankings), k=12)
    found = FusionPipeline(rescorer=Rescorer.from_dict(TREE)).decide(query_of(rankings), k=12)
    assert found.ids[:2] == ("g0-0", "g0-1")
    assert found.bonuses.tolist() == [100.0] * 2 + [-1.0] * 10
    before = dict(zip(plain.ids, plain.fused, strict=True))
    assert all(found.fused[at] == before[name] + found.bonuses[at] for at, name in enumerate(found.ids))


def test_the_trees_kept_are_those_of_lightgbm(monkeypatch):
    import lightgbm

    kept, train = [], lightgbm.train
    monkeypatch.setattr(lightgbm, "train", lambda *given: kept.append(train(*given)) or kept[-1])
    rng = np.random.default_rng(1)
    queries = []
    for _ in range(80):
        features = rng.normal(size=(15, feature_count(2)))
        queries.append((features, features[:, 0], (features[:, 1] + features[:, 7] > 1.5).astype(float)))
    unit = np.median([np.sort(fused)[-1] - np.sort(fused)[-10] for _, fused, _ in queries]) / START
    found = fit_rescorer(NAMES, queries)
    every = np.vstack([features for features, _, _ in queries])
    assert len(found.roots) == len(kept[0].dump_model()["tree_info"]) > 10
    np.testing.assert_allclose(found(every), unit * kept[0].predict(every), rtol=1e-12, atol=1e-12)
    assert found == fit_rescorer(NAMES, queries)


def test_the_features_by_hand():
    found = pool([Ranking("g", ["a", "b"], [3.0, 1.0]), Ranking("v", ["b"], [0.5])])
    features = ranking_features(found, np.array([[3.0, 0.0], [1.0, 0.5]]), np.array([1.5, 0.75]))
    assert features.shape == (2, feature_count(2))
    values, ranks, gaps = [[1.5, 3, 0], [0.75, 1, 0.5]], [[1, 1, 11], [2, 2, 1]], [[0, 0, 0.5], [0.75, 2, 0]]
    assert np.array_equal(features[:, :9], np.hstack([values, ranks, gaps]))
    assert features[:, 9:14].tolist() == [[1, 1, 1, 1, 1 + 1 / 11], [2, 2, 2, 1, 1.5]]
    half = np.exp(0.75) / (1 + np.exp(0.75))
    assert features[0, 14] == pytest.approx(np.exp(-half * np.log(half) - (1 - half) * np.log(1 - half)))
    assert features[0, 17:].tolist() == [1.5, 3, 0.5, 0.75, 2, 0.5, 0.75, 2, 0.5, 1, 2]
    assert np.array_equal(features[0, 14:], features[1, 14:])


def test_contributions_and_bonus_add_up_and_the_order_of_sources_is_nothing(learned):
    rankings, _ = world(3, seed=9)
    for row in range(3):
        found = learned.decide(query_of(rankings, row), k=12)
        np.testing.assert_allclose(found.contributions.sum(axis=1) + found.bonuses, found.fused, atol=1e-9)
        turned = learned.decide(query_of(rankings, row)[::-1], k=12)
        assert turned.ids == found.ids
        assert np.array_equal(turned.fused, found.fused)


def test_what_was_learned_is_used(learned):
    rankings, judged = world(60, seed=5)
    right = [learned.decide(query_of(rankings, row), k=1).ids[0] in judged[row].passages for row in range(60)]
    assert np.mean(right) > 0.9


def test_other_sources_than_it_was_fitted_on_leave_it_out_and_say_so(learned):
    rankings, _ = world(2)
    third = Ranking("bm25", ["x", "c0-0"], [2.0, 1.0])
    for given in ([rankings["vector"][0]], [*query_of(rankings), third]):
        found, plain = learned.decide(given, k=12), FusionPipeline().decide(given, k=12)
        assert found.ids == plain.ids
        assert np.array_equal(found.fused, plain.fused)
        assert any("fitted on graph, vector" in line for line in found.warnings)
    assert not any("re-scorer" in line for line in learned.decide(query_of(rankings)).warnings)
    assert learned.decide([]).warnings == ()


def test_the_file_keeps_it_to_the_bit_and_needs_no_lightgbm(learned, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    learned.save(tmp_path / "p.json")
    again = FusionPipeline.load(tmp_path / "p.json")
    assert again == learned
    assert hash(again) == hash(learned)
    assert learned != replace(learned, rescorer=None)
    rankings, _ = world(1, seed=2)
    assert np.array_equal(again.decide(query_of(rankings)).fused, learned.decide(query_of(rankings)).fused)


def test_a_damaged_file_is_refused(learned, tmp_path):
    file = tmp_path / "p.json"
    learned.save(file)
    document = json.loads(file.read_text())
    document["body"]["rescorer"]["value"][3] += 1.0
    file.write_text(json.dumps(document))
    with pytest.raises(IntegrityError, match="checksum"):
        FusionPipeline.load(file)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"left": [0, 1, 2]}, "must lead onward"),
        ({"right": [3, 1, 2]}, "must lead onward"),
        ({"right": [2, 0, 2]}, "must lead onward"),
        ({"feature": [feature_count(2), 0, 0]}, "one of 28 features"),
        ({"feature": [-1, 0, 0]}, "one of 28 features"),
        ({"feature": [0.5, 0, 0]}, "whole numbers"),
        ({"value": [0.0, 1.0]}, "one length"),
        ({"roots": [3]}, "one length"),
        ({"threshold": [float("nan"), 0.0, 0.0]}, "finite"),
        ({"roots": "none"}, "roots must be"),
        ({"sources": ["vector", "graph"]}, "ascending"),
        ({"more": 1}, "no field 'more'"),
    ],
)
def test_trees_that_cannot_be_are_refused(change, said):
    with pytest.raises(InvalidInputError, match=said):
        Rescorer.from_dict(TREE | change)


def test_a_pipeline_takes_nothing_else_for_a_rescorer():
    with pytest.raises(InvalidInputError, match="rescorer must be Rescorer or None"):
        FusionPipeline(rescorer=TREE)  # type: ignore[arg-type]


def test_tune_finds_what_only_the_rescorer_can_and_confirms_it():
    rankings, judged = world(240)
    texts = ["?"] * 240
    found = tune(rankings, judged, texts, measure=Measure("Recall", 1), space=[DEFAULT], rescore=True)
    assert found.chosen_name == "default, re-scored"
    assert found.confirmed
    assert found.tried == 2
    assert found.pipeline.rescorer is not None
    assert found.confirmation_chosen > 0.9


def test_tune_says_no_where_there_is_nothing_to_learn():
    for seed in range(3):
        rankings, judged = world(120, seed=seed, learnable=False)
        found = tune(rankings, judged, ["?"] * 120, measure=Measure("Recall", 3), space=[DEFAULT], rescore=True)
        assert found.confirmed or found.pipeline == FusionPipeline()
        assert not found.confirmed


def test_too_few_relevant_candidates_are_no_rescorer():
    rankings, judged = world(19)
    with pytest.raises(InsufficientDataError, match="at least 20 relevant candidates"):
        learn_rescorer(FusionPipeline(), rankings, judged)


def test_without_lightgbm_it_says_what_to_install_before_anything_runs(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    rankings, judged = world(120)
    with pytest.raises(MissingDependencyError, match=r"phasegraph\[rescore\]"):
        tune(rankings, judged, ["?"] * 120, space=[DEFAULT], rescore=True)
    assert main(["tune", str(tmp_path), "--out", str(tmp_path / "t.json"), "--rescore"]) == 1
    assert "phasegraph[rescore]" in capsys.readouterr().err
