"""Off-topic and unanswerable questions, asked of a corpus."""

from dataclasses import replace

import numpy as np
import pytest
from tiny import many_queries, write_dataset

from phasegraph import Ranking
from phasegraph.errors import InsufficientDataError, InvalidInputError
from phasegraph.evaluation.abstention import abstain_auc, ask_off_topic, ask_unanswerable, calibration_errors, without
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.peers import PEERS
from phasegraph.evaluation.source_runs import ExperimentInput
from phasegraph.evaluation.systems import OWN_SYSTEMS, System, source_system

OWN = [OWN_SYSTEMS[name] for name in ("vector", "graph", "bm25", "default", "default-three", "rrf", "semflow")]


@pytest.fixture
def asked(tmp_path):
    return load_dataset(write_dataset(tmp_path / "many", many_queries()))


def elsewhere(dataset):
    """Two questions of another topic: what they are near to is nothing."""
    texts = ("Which restaurant serves ramen?", "How do transistors amplify?")
    queries = tuple(replace(query, id=f"x{i}", text=texts[i]) for i, query in enumerate(dataset.queries[:2]))
    away = np.zeros((2, dataset.query_vectors.shape[1]), dtype=np.float32)
    return replace(dataset, name="other", queries=queries, query_vectors=away)


def test_the_area_is_the_chance_to_be_above():
    assert abstain_auc([3.0, 2.0], [1.0, 0.0]) == 1.0
    assert abstain_auc([0.0], [1.0, 1.0]) == 0.0
    assert abstain_auc([1.0, 2.0], [1.0, 2.0]) == 0.5


def test_a_perfect_probability_has_no_error_and_a_sure_wrong_one_all():
    assert calibration_errors(np.array([0.0, 1.0] * 10), [False, True] * 10) == (0.0, 0.0)
    assert calibration_errors(np.array([1.0, 0.0] * 10), [False, True] * 10) == (1.0, 1.0)
    assert calibration_errors(np.full(4, 0.75), [True, True, True, False], bins=1) == (0.0, 0.1875)


def test_off_topic_questions_have_less_confidence(asked):
    found = ask_off_topic(ExperimentInput(asked), OWN, elsewhere(asked))
    assert found.auc["default"] == found.auc["default-three"] == found.auc["vector"] == 1.0
    assert found.auc["bm25"] > 0.9
    assert found.of("default") == {"abstain_auc": 100.0}
    assert found.of("semflow") == {"abstain_auc": None}
    assert found.left_out[0].startswith("abstain_auc of semflow: ")


def test_questions_of_the_set_itself_or_of_another_model_are_refused(asked):
    inputs = ExperimentInput(asked)
    with pytest.raises(InvalidInputError, match="must not occur in many; 36 questions of many do"):
        ask_off_topic(inputs, OWN, asked)
    narrow = replace(elsewhere(asked), query_vectors=np.ones((2, 3), dtype=np.float32))
    with pytest.raises(InvalidInputError, match="embeddings of the same model as the corpus; other has 3 dimensions"):
        ask_off_topic(inputs, OWN, narrow)


def test_questions_that_lost_their_passages_have_less_confidence(asked):
    found = ask_unanswerable(ExperimentInput(asked), OWN[:2] + OWN[3:4])
    assert found.auc["default"] >= 0.6
    assert set(found.of("default")) == {"abstain_auc", "abstain_auc_intact"}
    assert found.intact["default"] >= found.auc["default"]  # three ask for each passage: some lost theirs, too


def test_a_corpus_without_some_passages_keeps_the_rest_as_it_was(asked):
    less = without(asked, frozenset({"p03"}))
    assert [one.id for one in less.passages] == [one.id for one in asked.passages if one.id != "p03"]
    assert len(less.passage_vectors) == len(less.passages)
    assert less.queries == asked.queries


def test_a_set_too_small_to_halve_is_said(asked):
    with pytest.raises(InsufficientDataError, match="too few questions"):
        ask_unanswerable(ExperimentInput(asked.subset([0])), OWN[:1])


def test_a_system_without_a_score_is_left_out(asked):
    mute = System("mute", ("vector",), source_system("vector").answer)
    found = ask_off_topic(ExperimentInput(asked), [OWN[0], mute], elsewhere(asked))
    assert found.left_out == ("abstain_auc of mute: the system gives its answers no score",)


def test_peers_give_the_score_of_their_best_hit(asked):
    batch = {name: [Ranking(name, ["p00", "p01"], [2.0, 1.0])] for name in ("vector", "graph")}
    one = asked.subset([0])
    assert PEERS["ensemble"].confidence(one, batch) == [pytest.approx(2 * 0.5 / 61)]
    assert PEERS["fusion-reciprocal"].confidence(one, batch) == [pytest.approx(2 / 60)]
