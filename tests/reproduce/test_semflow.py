"""SemFlowRAG's studies, on walks whose mass is known and on a small data set with facts."""

import json
from pathlib import Path

import numpy as np
import pytest
from tiny import many_queries, write_dataset

import semflow
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.published_walks import FlowWalk
from phasegraph.graph.experimental.semflow import SEMFLOW_PARAMETERS
from running import reproduce
from semflow import (
    ABLATIONS,
    FULL,
    PAPER,
    SWEEPS,
    UNDIRECTED,
    can_walk,
    change_of,
    headline_of,
    headlines,
    holes_of,
    semflow_page,
)

FACTS = [
    ("p00", [["Ada Lovelace", "daughter of", "Lord Byron"]]),
    ("p01", [["Lord Byron", "died at", "Missolonghi"]]),
    ("p02", [["Missolonghi", "is in", "Greece"]]),
    ("p04", [["London", "stands on", "River Thames"]]),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = write_dataset(tmp_path_factory.mktemp("data") / "with-facts", many_queries())
    rows = [json.dumps({"id": name, "triples": triples}) + "\n" for name, triples in FACTS]
    (folder / "triples.jsonl").write_text("".join(rows), encoding="utf-8")
    width = np.load(folder / "queries.f16.npy").shape[1]
    np.save(folder / "facts.f16.npy", np.random.default_rng(0).normal(size=(len(FACTS), width)).astype(np.float16))
    return folder


def test_holes_by_hand():
    masses = np.array([[0.5, 0.25, 0.25, 0.0], [2.0, 0.0, 0.0, 2.0]])
    found = holes_of(masses, np.array([9.0, 3.0, 2.0, 1.0]), np.array([0.0, 0.2, 0.4, 1.0]))
    assert found.connected == pytest.approx(0.5)
    assert found.abstract == pytest.approx(0.25)
    assert found.level == pytest.approx((0.15 + 0.5) / 2)
    assert found.spread == pytest.approx((np.exp(1.5 * np.log(2)) + 2) / 2)


def test_a_hundredth_of_many_entities_is_more_than_one():
    masses = np.ones((1, 300))
    assert holes_of(masses, np.arange(300.0), np.arange(300.0)).connected == pytest.approx(3 / 300)


def test_the_headline_by_hand():
    """120 entities whose mass falls with their place: the first ten are at .2, ranks 60 to 100 are relevant."""
    masses = np.arange(120.0, 0.0, -1.0)[None].repeat(2, axis=0)
    heights = np.r_[np.full(10, 0.2), np.ones(110)]
    relevance = np.zeros((2, 120))
    relevance[0, 59:100] = 1.0
    relevance[1, 59] = 41.0
    found = headline_of(masses, heights, relevance)
    assert found.abstract == pytest.approx([0.2, 0.2])
    assert found.similar == pytest.approx([1.0, 1.0])
    assert change_of(np.array([0.5, 1.0]), np.array([1.0, 2.0])) == pytest.approx((-50.0, -50.0, -50.0))


def test_the_headline_of_the_bundled_questions_goes_the_papers_way_on_the_entities_alone():
    """Golden, five questions: direction lowers abstractness of the first ten and raises later similarity."""
    bundled = Path(__file__).parents[2] / "data" / "musique-openie"
    directed, undirected = headlines(load_dataset(bundled).subset(range(5)))["entities alone"]
    assert (directed.abstract.mean(), undirected.abstract.mean()) == pytest.approx((0.0614, 0.1377), abs=1e-3)
    assert (directed.similar.mean(), undirected.similar.mean()) == pytest.approx((0.7298, 0.6894), abs=1e-3)


def test_every_ablation_changes_the_walk_in_one_thing_only():
    for name, parameters in ABLATIONS.items():
        fields = [f for f in PAPER.__slots__ if getattr(parameters, f) != getattr(PAPER, f)]
        assert len(fields) == (0 if name == FULL else 3 if parameters == SEMFLOW_PARAMETERS["released"] else 1), name
    assert all(getattr(PAPER, field) in values for field, values in SWEEPS.items())


def test_the_page_turns_with_what_the_walks_find(folder, monkeypatch):
    dataset = load_dataset(folder)
    assert can_walk(dataset)
    golden = {query.text: query.judgement.hops[-1][0] for query in dataset.queries}
    ids = [passage.id for passage in dataset.passages]
    monkeypatch.setattr(semflow, "SWEEPS", {"facts": (1, 12)})

    def starts(right):
        """The page where that walk finds everything, spread out, and every other nothing, on the best connected."""

        def nodes(walk, row):
            mass = np.zeros(len(walk.heights) + len(ids))
            if walk.parameters == right:
                mass[: len(walk.heights)] = 1.0
                mass[len(walk.heights) + ids.index(golden[dataset.queries[row].text])] = 1.0
            else:
                mass[np.argmax(semflow._degrees(walk))] = 1.0
            return mass

        monkeypatch.setattr(FlowWalk, "nodes", nodes)
        page, found = semflow_page(dataset)
        assert found.baseline == FULL
        assert "| `facts` 12 (the paper's) |" in page.text()
        return [one.text.split("**")[1].rstrip(".") for one in page.verdicts]

    directed, undirected = starts(PAPER), starts(ABLATIONS[UNDIRECTED])
    assert directed[:5] == ["Holds"] * 5
    assert undirected[0] == "Refused"
    assert undirected[1] == "Holds"
    assert directed[5] == "Holds"
    assert undirected[5] == "Refused"
    assert (directed[-1], starts(None)[-1], starts(ABLATIONS["lambda 0"])[2]) == ("Holds", "Holds", "Refused")


def test_a_folder_of_one_data_set_with_facts_is_enough_for_its_pages(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(semflow, "SWEEPS", {"facts": (1, 12)})
    said = []
    reproduce(folder.parent, tmp_path / "out", say=said.append)
    assert "with-facts: SemFlowRAG's walk" in said
    figures = json.loads((tmp_path / "out" / "figures.json").read_text(encoding="utf-8"))
    assert set(figures["semflow"]["with-facts"]["all"]["systems"]) >= set(ABLATIONS)
    assert {path.stem for path in (tmp_path / "out").glob("*.md")} == {
        "README",
        "datasheet",
        "paper-statistics",
        "robust-default",
        "semflow",
    }
    assert "(semflow.md)" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
