"""The published walks: golden masses, seeds by hand, and data sets that lack what they need."""

import json

import numpy as np
import pytest
from scipy import sparse

from phasegraph.errors import InsufficientDataError, InvalidInputError
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.published_walks import fact_seeds, hippo_adjacency
from phasegraph.evaluation.source_runs import ExperimentInput, search_sources
from phasegraph.evaluation.system_runs import run_systems
from phasegraph.evaluation.systems import OWN_SYSTEMS
from phasegraph.evaluation.triple_facts import Facts, load_facts, normalised
from phasegraph.pagerank import personalized_pagerank

# Entities A, B, C, D over passages p0 to p4; facts A-B, A-C, A-D, B-C.
MENTIONS = sparse.csr_array(
    [[1.0, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1], [0, 0, 0, 1]],
)
LINKS = sparse.csr_array([[0.0, 1, 1, 1], [1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]])
PAIRS = np.array([[0, 1], [0, 2], [0, 3], [1, 2]])
GOLDEN = Facts(("a", "b", "c", "d"), PAIRS, np.eye(4, dtype=np.float32), MENTIONS, LINKS)
RESET = np.r_[0.0, 0.45, 0.9, 0.0, 0.05 * np.array([0.625, 1.0, 0.8333333333, 0.0, 0.5])]


@pytest.mark.parametrize(
    ("parallel", "expected"),
    [
        (True, [0.04066712, 0.04692581, 0.05974501, 0.01139144, 0.01148210]),
        (False, [0.05205711, 0.05831580, 0.08497353, 0.01381649, 0.01164386]),
    ],
)
def test_hipporag2_gives_the_golden_masses_with_and_without_the_doubling(parallel, expected):
    graph = hippo_adjacency(GOLDEN, parallel=parallel)
    walked = personalized_pagerank(graph, RESET, follow_probability=0.5, tolerance=1e-12)
    assert walked.mass[4:] == pytest.approx(expected, abs=2e-8)


def test_seeds_are_the_mean_over_the_kept_facts_divided_by_passages():
    found = fact_seeds(GOLDEN, np.array([0.0, 0.0, 0.0, 0.9]), kept=1)
    assert found == pytest.approx([0.0, 1 / 2, 1.0, 0.0])
    two = fact_seeds(GOLDEN, np.array([0.5, 0.0, 0.0, 1.0]), kept=2)
    assert two == pytest.approx([0.5 / 4, (0.5 / 2 + 1 / 2) / 2, 1.0, 0.0])
    assert np.count_nonzero(fact_seeds(GOLDEN, np.array([0.5, 0.0, 0.0, 1.0]), kept=2, entities=1)) == 1


def test_names_are_normalised_as_hipporag_does():
    assert normalised(" Zürich's (old) town ") == "z rich s  old  town"


@pytest.fixture
def with_facts(folder):
    rows = [
        {"id": "p00", "triples": [["Ada Lovelace", "daughter of", "Lord Byron"], ["Ada Lovelace", "met", ""]]},
        {"id": "p01", "triples": [["Lord Byron", "died at", "Missolonghi"]]},
        {"id": "p02", "triples": [["Missolonghi", "is in", "Greece"]]},
    ]
    (folder / "triples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    width = np.load(folder / "queries.f16.npy").shape[1]
    vectors = np.random.default_rng(0).normal(size=(3, width)).astype(np.float16)
    np.save(folder / "facts.f16.npy", vectors)
    return folder


def test_facts_are_the_unique_normalised_triples_without_empty_parts(with_facts):
    facts = load_facts(load_dataset(with_facts))
    assert facts.entities == ("ada lovelace", "greece", "lord byron", "missolonghi")
    assert [tuple(facts.entities[end] for end in pair) for pair in facts.pairs] == [
        ("ada lovelace", "lord byron"),
        ("lord byron", "missolonghi"),
        ("missolonghi", "greece"),
    ]
    assert facts.frequency.tolist() == [1.0, 1.0, 2.0, 2.0]


def test_both_walks_rank_by_mass(with_facts):
    found = search_sources(ExperimentInput(load_dataset(with_facts), limit=5), ["hipporag2", "semflow"])
    for source in found.values():
        assert all(len(ranking) for ranking in source.rankings)
        assert all((np.diff(ranking.scores) <= 0).all() for ranking in source.rankings)


def test_packed_facts_give_the_same_ranking(with_facts):
    whole = load_facts(load_dataset(with_facts)).vectors
    scale = (np.abs(whole).max(axis=1) / 127).astype(np.float16)
    np.save(with_facts / "facts.i8.npy", np.round(whole / scale[:, None].astype(np.float32)).astype(np.int8))
    np.save(with_facts / "facts.scale.f16.npy", scale)
    (with_facts / "facts.f16.npy").unlink()
    assert load_facts(load_dataset(with_facts)).vectors == pytest.approx(whole, abs=0.03)


def test_misaligned_facts_are_refused(with_facts):
    np.save(with_facts / "facts.f16.npy", np.zeros((2, 5), dtype=np.float16))
    with pytest.raises(InvalidInputError, match=r"facts.f16.npy: the file must have one row per line of unique"):
        load_facts(load_dataset(with_facts))


def test_a_data_set_without_facts_leaves_the_walks_out_and_says_so(folder):
    inputs = ExperimentInput(load_dataset(folder))
    answers, left_out = run_systems(inputs, [OWN_SYSTEMS[name] for name in ("vector", "hipporag2", "semflow")], 5)
    assert [one.name for one in answers] == ["vector"]
    assert left_out[0] == "hipporag2: this walk needs triples; tiny has no triples.jsonl"
    with pytest.raises(InsufficientDataError):
        load_facts(load_dataset(folder))
