"""Regret and harm, on lists where both are known beforehand."""

from dataclasses import replace

import numpy as np
import pytest
from tiny import many_queries, write_dataset

from phasegraph.evaluation.corpus_files import Passage
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.source_runs import SourceRun
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.ranking import Ranking
from robust import SHIFTS, _turned, robust_page, standings

VECTOR_ONLY = FusionPipeline(weights={"vector": 1.0, "graph": 0.0})
GRAPH_ONLY = FusionPipeline(weights={"vector": 0.0, "graph": 1.0})


NOISE = [f"x{row:02d}" for row in range(30)]


@pytest.fixture
def dataset(tmp_path):
    """A data set with thirty passages that answer nothing."""
    small = load_dataset(write_dataset(tmp_path / "many", many_queries()))
    passages = (*small.passages, *(Passage(name, "", name) for name in NOISE))
    vectors = np.vstack([small.passage_vectors, np.repeat(small.passage_vectors[:1], len(NOISE), axis=0)])
    return replace(small, passages=passages, passage_vectors=vectors)


@pytest.fixture
def runs(dataset):
    """Vectors find nothing; the graph finds the gold passage of its own query first."""
    vector = [Ranking("vector", NOISE, np.linspace(1.0, 0.5, 30)) for _ in dataset.queries]
    graph = [
        Ranking("graph", [q.judgement.hops[0][0], *NOISE[::-1]], np.geomspace(1, 0.1, 31)) for q in dataset.queries
    ]
    return {"vector": SourceRun("vector", tuple(vector), 0.0), "graph": SourceRun("graph", tuple(graph), 0.0)}


def test_regret_is_to_the_best_of_the_three(dataset, runs):
    blind = standings(dataset, runs, VECTOR_ONLY, limits=(20,))[0]
    assert blind.regret == (1.0, 1.0, 1.0)
    seeing = standings(dataset, runs, GRAPH_ONLY, limits=(20,))[0]
    assert seeing.regret == (0.0, 0.0, 0.0)


def test_a_pipeline_that_ignores_the_graph_is_not_harmed_by_a_wrong_one(dataset, runs):
    turned = {"vector": runs["graph"], "graph": runs["vector"]}
    turned = {
        name: SourceRun(name, tuple(Ranking(name, r.ids, r.scores) for r in source.rankings), 0.0)
        for name, source in turned.items()
    }
    safe, reckless = (standings(dataset, turned, one, limits=(20,))[0] for one in (VECTOR_ONLY, GRAPH_ONLY))
    assert safe.harm == 0.0
    assert reckless.harm == 1.0


def test_the_page_names_the_worst(dataset, runs):
    text = robust_page(standings(dataset, runs, VECTOR_ONLY, limits=(10, 20))).text()
    assert (
        "0 of 6 cells of regret are within 0.5 points, 2 of 2 cells of harm of a wrong graph are within 5 points"
        in text
    )
    assert text.count("+100.00 FAIL") == 6
    assert text.count("+0.00 pass") == 2
    assert "Largest regret: +100.0 points, on many" in text
    assert "Largest harm of a wrong graph: +0.0 points" in text


@pytest.mark.parametrize("count", [2, 17, 36])
@pytest.mark.parametrize("shift", SHIFTS)
def test_a_wrong_graph_is_that_of_another_query_and_every_one_is_used(shift, count):
    turned = _turned(list(range(count)), shift)
    assert sorted(turned) == list(range(count))
    assert all(row != other for row, other in enumerate(turned))
