"""Other libraries' own classes against our rules, on the same lists."""

import numpy as np
import pytest

from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.peers import PEERS
from phasegraph.evaluation.systems import OWN_SYSTEMS, TWO
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.ranking import Ranking


@pytest.fixture
def dataset(folder):
    return load_dataset(folder)


@pytest.fixture
def lists(dataset):
    rng = np.random.default_rng(4)
    ids = [passage.id for passage in dataset.passages]
    return {
        source: [Ranking(source, rng.permutation(ids)[:8].tolist(), np.sort(rng.random(8))[::-1]) for _ in range(4)]
        for source in ("vector", "graph", "bm25")
    }


@pytest.fixture
def batch(lists):
    return {source: lists[source] for source in TWO}


def agrees(found, batch, pipeline, k=6):
    """Whether every answer is in the order of our fused values, ties in any order, and nothing better is left."""
    for row, ids in enumerate(found):
        ours = pipeline.decide([of[row] for of in batch.values()], k=100)
        value = dict(zip(ours.ids, ours.fused.tolist(), strict=True))
        best = sorted(value.values(), reverse=True)[:k]
        assert [value[name] for name in ids] == pytest.approx(best, abs=1e-12)


def test_langchain_ensemble_is_equal_weight_rrf(dataset, batch):
    found = PEERS["ensemble"].answer(dataset, batch, 6)
    agrees(found, batch, FusionPipeline.reciprocal_rank())


def test_llamaindex_reciprocal_counts_ranks_from_zero(dataset, batch):
    found = PEERS["fusion-reciprocal"].answer(dataset, batch, 6)
    agrees(found, batch, FusionPipeline.reciprocal_rank(rank_constant=59.0))


def test_llamaindex_relative_score_is_min_max_added(dataset, batch):
    found = PEERS["fusion-relative"].answer(dataset, batch, 6)
    agrees(found, batch, FusionPipeline.named("comb_sum"))


@pytest.mark.parametrize(
    ("name", "peer", "pipeline"),
    [
        ("rrf-words", "ensemble", FusionPipeline.reciprocal_rank()),
        ("rrf", "ensemble", FusionPipeline.reciprocal_rank()),
        ("rrf-three", "ensemble-three", FusionPipeline.reciprocal_rank()),
        ("relative-words", "fusion-relative", FusionPipeline.named("comb_sum")),
        ("min-max-sum", "fusion-relative", FusionPipeline.named("comb_sum")),
        ("relative-three", "fusion-relative-three", FusionPipeline.named("comb_sum")),
    ],
)
def test_the_rows_of_the_frameworks_rules_are_their_own_classes_but_for_ties(dataset, lists, name, peer, pipeline):
    """The peer's class over the row's own legs, and the row: both hold the same fused values, best first."""
    system = OWN_SYSTEMS[name]
    legs = {source: lists[source] for source in system.sources}
    agrees(PEERS[peer].answer(dataset, legs, 6), legs, pipeline)
    agrees(system.answer(dataset, legs, 6), legs, pipeline)


@pytest.mark.parametrize("name", ["rrf-words", "relative-words"])
def test_rows_without_a_walk_read_vectors_and_bm25_alone(name):
    assert OWN_SYSTEMS[name].sources == ("vector", "bm25")


def test_llamaindex_distance_based_score_answers_every_query(dataset, batch):
    found = PEERS["fusion-distance"].answer(dataset, batch, 6)
    assert [len(ids) for ids in found] == [6, 6, 6, 6]


def test_a_peer_leaves_the_lists_as_they_were(dataset, batch):
    before = [ranking.scores.copy() for ranking in batch["vector"]]
    for name in ("ensemble", "fusion-relative"):
        PEERS[name].answer(dataset, batch, 6)
    after = [ranking.scores for ranking in batch["vector"]]
    assert all(np.array_equal(one, two) for one, two in zip(before, after, strict=True))


@pytest.mark.usefixtures("ranx_in_python")
@pytest.mark.parametrize(
    ("name", "pipeline"),
    [("ranx-rrf", FusionPipeline.reciprocal_rank()), ("ranx-min-max-sum", FusionPipeline.named("comb_sum"))],
)
def test_ranx_agrees_with_our_rule(dataset, batch, name, pipeline):
    agrees(PEERS[name].answer(dataset, batch, 6), batch, pipeline)
