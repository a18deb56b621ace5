"""What is concluded follows from the figures: alter them and the sentence is another."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tiny import many_queries, write_dataset

import paper
from claims import Claim, judge, plain, points
from page import Page
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.source_runs import ExperimentInput, SourceRun, search_sources
from phasegraph.ranking import Ranking
from published import ABLATIONS, ablation_page, thresholds_page
from running import ALL_STUDIES, CLAIMS, reproduce, run_study, study_page


def starts(verdicts):
    return [one.text.split("**")[1].rstrip(".") for one in verdicts]


def test_a_claim_holds_up_to_its_bounds_and_no_further():
    assert judge("It is so", {"a": 1.0, "b": -1.0}, -1, 1, points).holds
    assert not judge("It is so", {"a": 1.01}, -1, 1, points).holds
    assert not judge("It is so", {"a": -1.01}, -1, 1, points).holds
    assert judge("It is so", {"a": 0.0}, 0, 0).text == "**Holds.** It is so (a 0; must be 0)."


def test_a_claim_that_fails_somewhere_says_where_and_by_how_much():
    mixed = judge("It is so", {"a": 2.0, "b": -3.04, "c": float("nan")}, 0, shown=points)
    assert mixed.holds is False
    assert mixed.text == "**Refused on b.** It is so (a +2.0, b -3.0; must be at least +0.0)."
    assert judge("It is so", {"b": 3.0}, high=2).text == "**Refused.** It is so (b 3; must be at most 2)."


def test_without_figures_nothing_is_concluded():
    nothing = judge("It is so", {"a": float("nan")}, 0)
    assert (nothing.holds, nothing.text) == (None, "**Not decided.** It is so (no figures).")


def test_a_claim_about_one_data_set_leaves_the_others_out(whole):
    claim = Claim("It is so", lambda table: 1.0, 0, only="2wiki", shown=plain)
    assert claim.verdict({"musique": whole, "2wiki": whole}).text.count("2wiki") == 2
    assert "musique" not in claim.verdict({"musique": whole, "2wiki": whole}).text
    assert claim.verdict({"musique": whole}).holds is None


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return load_dataset(write_dataset(tmp_path_factory.mktemp("data") / "2wiki", many_queries()))


def _runs(dataset, best, noise=400):
    """Two sources: the gold passage comes first in one, and last of fifty in the other."""
    vector, graph = [], []
    for query in dataset.queries:
        gold = query.judgement.hops[0][0]
        wrong = "p01" if gold == "p00" else "p00"
        lists = {
            "graph": ([gold, *(f"x{i:03d}" for i in range(noise))], np.geomspace(1.0, 1e-6, noise + 1)),
            "vector": ([wrong, *(f"v{i:02d}" for i in range(48)), gold], np.linspace(1.0, 0.1, 50)),
        }
        if best == "vector":
            lists = {"graph": lists["vector"], "vector": lists["graph"]}
        vector.append(Ranking("vector", *lists["vector"]))
        graph.append(Ranking("graph", *lists["graph"]))
    return {"vector": SourceRun("vector", tuple(vector), 0.0), "graph": SourceRun("graph", tuple(graph), 0.0)}


def _study(name):
    return next(study for study in ALL_STUDIES if study.name == name)


@pytest.fixture(scope="module")
def whole(dataset):
    return run_study(_study("pool-explosion"), dataset, _runs(dataset, "graph"))


def test_the_conclusions_of_a_study_turn_with_its_lists(dataset, whole):
    drowned = study_page(_study("pool-explosion"), {"2wiki": whole})
    turned = study_page(
        _study("pool-explosion"),
        {"2wiki": run_study(_study("pool-explosion"), dataset, _runs(dataset, "vector"))},
    )
    assert starts(drowned.verdicts)[:3] == ["Holds", "Holds", "Holds"]
    assert starts(turned.verdicts)[2] == "Refused"
    assert drowned.verdicts[1].text in drowned.text()
    assert starts(drowned.verdicts) != starts(turned.verdicts)


@pytest.fixture(scope="module")
def first_table(dataset):
    """The first table of a study, by the study's name; each study runs once."""

    @cache
    def run(name):
        runs = search_sources(ExperimentInput(dataset, 12), _study(name).sources)
        return next(iter(run_study(_study(name), dataset, runs).values()))

    return run


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_every_claim_of_a_study_holds_for_some_figures_and_is_refused_for_others(name, first_table):
    table = first_table(name)
    for claim in CLAIMS[name]:
        parts = [dict.fromkeys(("tune", "exact", "hard", "rest"), one) for one in altered(table)]
        seen = {claim.verdict({"musique": both, "2wiki": both}).holds for both in parts}
        assert seen == {True, False}, claim.says


ALIKE = {
    "table-1": "HRRRH",
    "against-rrf": "HHR",
    "table-2-calibration": "HRRH",
    "table-2-temperature": "HHRHHR",
    "pool-caps": "RR",
    "pool-explosion": "HHRHHH",
    "rrf-or-convex": "RHRRRRRR",
    "rank-constant": "HHH",
    "exact-match": "RRRRRRHHHHRH",
    "reranker-last-hop": "RRRRH",
    "ising": "RRHRR",
}
"""Where no system differs from another: agreement holds (H), and every gain and every loss is refused (R)."""


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_where_nothing_differs_agreement_holds_and_gains_and_losses_are_refused(name, first_table):
    run = first_table(name)
    table = _with(run, [0.5] * len(run.rows), certain=False)
    parts = dict.fromkeys(("tune", "exact", "hard", "rest"), table)
    found = [claim.verdict({"musique": parts, "2wiki": parts}).text[2] for claim in CLAIMS[name]]
    assert "".join(found) == ALIKE[name]


def altered(table):
    """The table with all systems alike, and with some of them (one, the last few, every other) moved up or down."""
    places = range(len(table.rows))
    groups = [set(), *({i} for i in places), *({j for j in places if j >= i} for i in places), set(places[1::2])]
    for moved in groups:
        for step in (-0.2, 0.2):
            for certain in (False, True):
                yield _with(table, [0.5 + step * (place in moved) for place in places], certain)


def _with(table, means, certain):
    """The table with these means, every difference certain (p .001, three wins, other ids) or none.

    Differences are to .5; where none is certain, their intervals hold every dip that was reported.
    """
    wide = 0.0 if certain else 0.03
    rows = [
        replace(
            row,
            means=dict.fromkeys(row.means, mean),
            differences=dict.fromkeys(row.differences, (mean - 0.5, mean - 0.5 - wide, mean - 0.5 + wide)),
            p=dict.fromkeys(row.p, 0.001 if certain else 1.0),
            p_holm=dict.fromkeys(row.p_holm, 0.001 if certain else 1.0),
            wins=dict.fromkeys(row.wins, 3 * certain),
            losses=dict.fromkeys(row.losses, 0),
        )
        for row, mean in zip(table.rows, means, strict=True)
    ]
    found = {
        name: {query: (f"{certain * place}",) for query in ids} for place, (name, ids) in enumerate(table.found.items())
    }
    return replace(table, rows=tuple(rows), found=found)


def _published(folder, *, default_rejects=False, hurt="CRAG", raw_works=False):
    """Made-up results: two sources at one level or at two, one removed part that matters."""
    rng = np.random.default_rng(0)
    labels = np.tile(np.r_[np.ones(5), np.zeros(25)], 50)
    levels = {"bi": 0.7, "cross": 0.7 if raw_works else 0.2}
    if default_rejects:
        levels = {name: level - 0.25 for name, level in levels.items()}
    noise = 0.4 * (rng.random(1500) - 0.5)
    pairs = {
        n: list(zip((level + 0.1 * (labels - 0.5 + noise)).tolist(), labels.tolist(), strict=True))
        for n, level in levels.items()
    }
    (folder / "sscc.json").write_text(json.dumps(pairs), encoding="utf-8")
    keys = [f"q{i}" for i in range(60)]
    full = {key: float(rng.random() > 0.3) for key in keys}
    less = {key: 0.0 if i % 3 == 0 else full[key] for i, key in enumerate(keys)}
    configs = {name: {"f1": full, "ndcg": full} for name in ("full", *ABLATIONS)}
    for config, removed in ABLATIONS.items():
        if removed == hurt:
            configs[config] = {"f1": less, "ndcg": less}
    state = {"qids": keys, "configs": configs}
    (folder / "hetdocqa_test_perquery.json").write_text(json.dumps(state), encoding="utf-8")
    return folder


def test_the_conclusions_on_thresholds_turn_with_the_scores(tmp_path):
    above = starts(thresholds_page(_published(tmp_path)).verdicts)
    below = starts(thresholds_page(_published(tmp_path, default_rejects=True)).verdicts)
    alike = starts(thresholds_page(_published(tmp_path, raw_works=True)).verdicts)
    assert above[:3] == ["Holds", "Holds", "Holds"]
    assert below[0].startswith("Refused")
    assert below[1].startswith("Refused")
    assert (above[4], alike[4]) == ("Refused", "Holds")


def test_the_conclusions_on_the_ablation_turn_with_the_removed_part_that_matters(tmp_path):
    crag, sscc, dphf = (
        starts(ablation_page(_published(tmp_path, hurt=name)).verdicts) for name in ("CRAG", "SSCC", "DPHF")
    )
    assert crag == ["Holds", "Holds", "Refused", "Refused"]
    assert sscc == ["Refused", "Refused", "Holds", "Refused"]
    assert dphf == ["Refused", "Refused", "Refused", "Holds"]


@pytest.mark.parametrize(
    ("name", "value", "place", "before", "after"),
    [
        ("PAIRS", ((8, 1, 0.039), (11, 2, 0.022)), 0, "Refused on 11/2", "Holds"),
        ("PAIRS", ((8, 1, 0.0195), (11, 2, 0.022)), 1, "Holds", "Refused on one-sided"),
        ("PAIRS", ((8, 1, 0.0455), (11, 2, 0.022)), 1, "Holds", "Refused on chi-square"),
        ("RRF", (9, 8), 2, "Refused", "Holds"),
        ("INTERVALS", ((26, 28.5, 51.5), (6, 4.2, 18.4)), 3, "Refused on 52 of 66, 53 of 66", "Holds"),
        ("ODDS", ((49, 4.43), (6, 0.16)), 4, "Holds", "Refused on 6 of 66"),
        ("FULL_CORPUS", (39, 32, 58.1, 58.6), 5, "Refused", "Holds"),
        ("FULL_CORPUS", (32, 39, 58.6, 58.1), 5, "Refused", "Holds"),
        ("BASELINES", {"Table 1": 53.8, "Table 2": 53.8}, 6, "Refused", "Holds"),
        ("LENGTHS", (2, 100), 9, "Holds", "Not decided"),
    ],
)
def test_the_conclusions_on_the_paper_turn_with_what_it_prints(monkeypatch, name, value, place, before, after):
    assert starts(paper.paper_page().verdicts)[place] == before
    monkeypatch.setattr(paper, name, value)
    assert starts(paper.paper_page().verdicts)[place] == after


def test_what_the_paper_prints_is_quoted_to_its_own_digits():
    """The published text, not our recomputation: two decimals of an odds ratio, one of a share, no count of hits."""
    assert paper.ODDS == ((49, 4.43), (52, 5.71), (53, 6.27), (6, 0.15))
    assert paper.BASELINES == {"Table 1": 53.6, "Table 2": 53.8}
    assert (8, 0) not in {pair[:2] for pair in paper.PAIRS}


def test_a_calibration_that_keeps_magnitude_would_be_seen(monkeypatch):
    monkeypatch.setattr(paper, "percentile_rank", lambda scores: (scores - scores.min()) / np.ptp(scores))
    assert starts(paper.paper_page().verdicts)[7:10] == ["Holds", "Holds", "Refused on 1000"]


@pytest.mark.slow
def test_the_index_counts_what_holds_and_names_the_pages_where_something_does_not(tmp_path):
    folder = write_dataset(tmp_path / "musique-made-up", many_queries())
    reproduce(folder, tmp_path / "out")
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    pages = [path.read_text(encoding="utf-8") for path in (tmp_path / "out").glob("*.md") if path.stem != "README"]
    count = {start: sum(page.count(f"- **{start}") for page in pages) for start in ("Holds", "Refused", "Not decided")}
    assert all(count.values())
    assert f"{count['Holds']} of {sum(count.values())} claims hold, {count['Not decided']} cannot be decided" in text
    refused = (tmp_path / "out" / "paper-statistics.md").read_text(encoding="utf-8").count("- **Refused")
    assert f"(paper-statistics.md): {refused}" in text


def test_a_page_without_conclusions_ends_with_its_tables():
    assert Page("a", "A", ("text",)).text() == "# A\n\ntext\n"
