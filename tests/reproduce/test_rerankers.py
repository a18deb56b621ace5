"""The readers that stand in for a cross-encoder, on lists with a bridge that is known."""

import numpy as np
import pytest
from tiny import write_dataset

from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.source_runs import ExperimentInput, search_sources
from phasegraph.evaluation.systems import OWN_SYSTEMS, TWO
from phasegraph.fusion.pipeline import FusionPipeline
from rerankers import READERS, by_ising, by_words, reranked


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return load_dataset(write_dataset(tmp_path_factory.mktemp("data") / "small"))


@pytest.fixture(scope="module")
def batch(dataset):
    return {name: run.rankings for name, run in search_sources(ExperimentInput(dataset, 12), TWO).items()}


@pytest.mark.parametrize("reader", [*(make("passage") for make in READERS.values()), by_ising()])
def test_without_a_share_a_reader_changes_nothing(dataset, batch, reader):
    plain = OWN_SYSTEMS["default"].answer(dataset, batch, 10)
    assert reranked("none", FusionPipeline(), reader, 0.0).answer(dataset, batch, 10) == plain
    assert reranked("all", FusionPipeline(), reader, 1.0).answer(dataset, batch, 10) != plain


def test_a_reader_of_words_alone_orders_by_the_share_of_the_question_that_the_passage_has(dataset, batch):
    scores = by_words("passage")(dataset)
    one, other = scores(0, ["p00", "p07"], [])
    assert one > other == 0.0  # "Where did the father of Ada Lovelace die?": Ada's own page, and Athens


def test_the_path_has_the_words_of_the_passage_before_it(dataset, batch):
    """The walk comes to Lord Byron over Ada Lovelace, whose name the question has."""
    rankings = [batch[name][0] for name in TWO]
    alone, after = (by_words(of)(dataset)(0, ["p01"], rankings)[0] for of in ("passage", "path"))
    assert after > alone


@pytest.mark.parametrize("name", READERS)
def test_scores_are_finite_for_every_candidate(dataset, batch, name):
    rankings = [batch[source][1] for source in TWO]
    scores = READERS[name]("path")(dataset)(1, rankings[0].ids, rankings)
    assert len(scores) == len(rankings[0].ids)
    assert np.isfinite(scores).all()
