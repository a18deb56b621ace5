"""The bundled slice of a manual: an ordinary collection that a clone can measure on."""

from pathlib import Path

import numpy as np
import pytest

from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.experiment import compare
from phasegraph.evaluation.measures import DEFAULT_MEASURES, PAGE_MEASURES, Measure
from phasegraph.evaluation.source_runs import ExperimentInput
from phasegraph.evaluation.system_runs import run_systems
from phasegraph.evaluation.systems import OWN_SYSTEMS

MANUAL = Path(__file__).parents[2] / "data" / "postgresql"


@pytest.fixture(scope="module")
def manual():
    return load_dataset(MANUAL)


def test_it_is_small_and_carries_its_licence():
    assert sum(file.stat().st_size for file in MANUAL.iterdir()) <= 3_000_000
    notice = (MANUAL / "SOURCE.md").read_text(encoding="utf-8")
    for words in ("PostgreSQL Global Development Group", "IN NO EVENT SHALL", "SPECIFICALLY DISCLAIMS ANY WARRANTIES"):
        assert words in notice


def test_its_chunks_are_those_of_an_ordinary_collection(manual):
    assert max(len(passage.text) for passage in manual.passages) <= 800
    titles = {passage.extra["source"]: passage.title for passage in manual.passages}
    assert all(titles[passage.extra["source"]] == passage.title for passage in manual.passages)
    text = {passage.id: passage.content.lower() for passage in manual.passages}
    for query in manual.queries:
        assert {manual.judgements[0].sources[one] for one in query.judgement.passages} == set(query.judgement.pages)
        assert not any(query.text.lower() in text[one] for one in query.judgement.passages)


def test_vectors_reach_what_numpy_alone_says(manual):
    answers, _ = run_systems(ExperimentInput(manual), [OWN_SYSTEMS["vector"]], 10)
    table = compare(answers, manual.judgements, measures=[*DEFAULT_MEASURES, *PAGE_MEASURES], resamples=10)
    scores = manual.query_vectors.astype(np.float64) @ manual.passage_vectors.astype(np.float64).T
    best = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    pages = [[manual.passages[place].extra["source"] for place in row] for row in best.tolist()]
    judged = [query.judgement for query in manual.queries]
    found = [np.isin([one for hop in each.hops for one in hop], [manual.passages[p].id for p in row]).mean()
             for each, row in zip(judged, best.tolist(), strict=True)]  # fmt: skip
    means = table["vector"].means
    assert means[Measure("Recall", 10)] == pytest.approx(np.mean(found))
    assert means[Measure("Pages", 10)] == pytest.approx(np.mean([len(set(row)) for row in pages]))
    right = [each.pages[0] in row for each, row in zip(judged, pages, strict=True)]
    assert means[Measure("PageRecall", 10)] == pytest.approx(np.mean(right))


def test_fusing_vectors_with_bm25_pays_on_a_manual(manual):
    systems = [OWN_SYSTEMS[name] for name in ("vector", "bm25", "rrf-words", "relative-words")]
    answers, left_out = run_systems(ExperimentInput(manual), systems, 5)
    table = compare(answers, manual.judgements, measures=[Measure("Recall", 5)], resamples=1000)
    assert left_out == ()
    low = table["relative-words"].differences[Measure("Recall", 5)][1]
    assert low > 0.03
