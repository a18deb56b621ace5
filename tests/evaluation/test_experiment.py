"""The table: what is averaged, compared, corrected, kept per query, and refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from processor_work import work_of
from scipy import stats

from phasegraph.errors import InvalidInputError, MissingDependencyError
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.experiment import Answers, compare
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.measures import DEFAULT_MEASURES, Measure
from phasegraph.evaluation.significance import holm, mcnemar_exact, sign_flip
from phasegraph.evaluation.source_runs import ExperimentInput, search_sources
from phasegraph.evaluation.system_runs import run_systems
from phasegraph.evaluation.systems import OWN_SYSTEMS, System, source_system

L5 = Measure("LastHop", 5)
JUDGED = [Judgement(f"q{i:03d}", ((f"a{i}",), (f"b{i}",))) for i in range(40)]


def hits(rows):
    """A system that finds the last hop of these queries and nothing else."""
    return {f"q{i:03d}": (f"b{i}",) if i in rows else ("x",) for i in range(40)}


def test_wins_losses_and_p_are_those_of_the_paired_hits():
    answers = [Answers("vector", hits(range(10))), Answers("graph", hits(range(2, 30)))]
    row = compare(answers, JUDGED)["graph"]
    assert (row.wins[L5], row.losses[L5]) == (20, 2)
    assert row.p[L5] == pytest.approx(stats.binomtest(2, 22).pvalue, abs=1e-12)
    assert row.means[L5] == pytest.approx(28 / 40)
    assert row.means[Measure("Recall", 5)] == pytest.approx(14 / 40)
    difference, low, high = row.differences[L5]
    assert difference == pytest.approx(18 / 40)
    assert low < difference < high


def test_the_baseline_has_nothing_against_itself():
    row = compare([Answers("vector", hits(range(10)))], JUDGED)["vector"]
    assert (row.wins[L5], row.losses[L5], row.p[L5], row.p_holm[L5]) == (0, 0, 1.0, 1.0)
    assert row.differences[L5] == (0.0, 0.0, 0.0)


def test_holm_corrects_over_all_systems_and_depths():
    answers = [Answers("vector", hits(range(10)))]
    answers += [Answers(f"s{i}", hits(range(0, 11 + 3 * i))) for i in range(3)]
    table = compare(answers, JUDGED)
    keys = [(row.name, m) for row in table.rows[1:] for m in DEFAULT_MEASURES if m.name != "Recall"]
    raw = [table[name].p[measure] for name, measure in keys]
    smallest = int(np.argmin(raw))
    name, measure = keys[smallest]
    assert table[name].p_holm[measure] == pytest.approx(min(1.0, len(raw) * raw[smallest]))
    assert all(table[name].p_holm[measure] >= table[name].p[measure] for name, measure in keys)


def test_a_query_that_a_system_did_not_answer_counts_as_nothing_found():
    answered = {f"q{i:03d}": (f"b{i}",) for i in range(20)}
    assert compare([Answers("vector", answered)], JUDGED)["vector"].means[L5] == 0.5


def test_last_hop_leaves_out_what_is_not_known_and_nothing_else_does():
    judged = [*JUDGED[:20], *(Judgement(j.query, j.hops, last_hop_known=False) for j in JUDGED[20:])]
    table = compare([Answers("vector", hits(range(10)))], judged)
    assert table["vector"].means[L5] == 0.5
    assert table["vector"].means[Measure("Recall", 5)] == pytest.approx(5 / 40)
    state = compare([Answers("vector", {})], [judged[-1]]).to_dict()
    assert state["systems"]["vector"]["LastHop@5"] is None
    json.dumps(state, allow_nan=False)


def test_the_json_has_the_promised_keys_and_percentages():
    state = compare([Answers("vector", hits(range(10)), 1.5), Answers("rrf", hits(range(20)), 2.5)], JUDGED).to_dict()
    promised = {"LastHop@5", "LastHop@10", "FullSup@5", "FullSup@10", "Recall@5", "Recall@10", "ms_per_query"}
    promised |= {f"{name}@{k}" for name in ("wins", "losses", "p") for k in (5, 10)}
    assert promised <= set(state["systems"]["rrf"])
    assert state["systems"]["rrf"]["LastHop@5"] == 50.0
    assert state["systems"]["rrf"]["wins@5"] == 10
    assert state["queries"] == 40


def test_every_query_is_kept_and_the_table_can_be_recomputed_from_it(tmp_path):
    table = compare([Answers("vector", hits(range(10))), Answers("rrf", hits(range(25)))], JUDGED)
    table.write_rows(tmp_path / "rows.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 80
    again = np.mean([row["LastHop@5"] for row in rows if row["system"] == "rrf"])
    assert again == pytest.approx(table["rrf"].means[L5], abs=1e-15)
    found = {row["query"]: tuple(row["ids"]) for row in rows if row["system"] == "rrf"}
    assert compare([Answers("vector", found)], JUDGED)["vector"].means == table["rrf"].means


def test_the_same_experiment_gives_the_same_table():
    answers = [Answers("vector", hits(range(10))), Answers("rrf", hits(range(25)))]
    assert compare(answers, JUDGED).to_dict() == compare(answers, JUDGED).to_dict()


@pytest.mark.parametrize(
    ("answers", "judged", "options", "message"),
    [
        ([], JUDGED, {}, "give at least one system"),
        ([Answers("vector", {}), Answers("vector", {})], JUDGED, {}, "a unique name"),
        ([Answers("rrf", {})], JUDGED, {}, "the baseline must be one of"),
        ([Answers("vector", {})], [], {}, "at least one judged query"),
        ([Answers("vector", {})], JUDGED, {"measures": ()}, "at least one judged query and one measure"),
        ([Answers("vector", {"q999": ("a",)})], JUDGED, {}, "answers query 'q999', which has no judgement"),
    ],
)
def test_a_senseless_experiment_is_refused(answers, judged, options, message):
    with pytest.raises(InvalidInputError, match=message):
        compare(answers, judged, **options)


def test_a_system_that_is_not_in_the_table_is_named():
    with pytest.raises(InvalidInputError, match="'other'"):
        compare([Answers("vector", {})], JUDGED)["other"]


def test_statistics_of_a_large_comparison_take_little_work():
    rng = np.random.default_rng(0)
    judged = [Judgement(f"q{i}", ((f"p{i}",),)) for i in range(500)]
    answers = [
        Answers(name, {f"q{i}": (f"p{i}",) if rng.random() < 0.5 else ("x",) for i in range(500)})
        for name in ["vector", *(f"s{j}" for j in range(9))]
    ]
    assert work_of(lambda: compare(answers, judged)) < 300


def test_legs_are_searched_once_and_lists_have_the_length_asked_for(folder):
    inputs = ExperimentInput(load_dataset(folder), limit=3)
    runs = search_sources(inputs, ["vector", "bm25"])
    assert all(len(ranking) == 3 for ranking in runs["vector"].rankings)
    assert all(len(ranking) <= 3 for ranking in runs["bm25"].rankings)
    assert search_sources(inputs, ["vector"], runs)["vector"] is runs["vector"]


def test_bm25_returns_only_what_shares_a_word(folder):
    found = search_sources(ExperimentInput(load_dataset(folder)), ["bm25"])["bm25"].rankings[2]
    assert "p08" in found.ids
    assert len(found) < 12
    assert (found.scores > 0).all()


def test_an_unknown_leg_is_named(folder):
    with pytest.raises(InvalidInputError, match="'nothing'"):
        search_sources(ExperimentInput(load_dataset(folder)), ["nothing"])


@pytest.mark.parametrize("limit", [0, -1, 2.5, True])
def test_the_limit_must_be_a_whole_number(folder, limit):
    with pytest.raises(InvalidInputError, match="limit"):
        ExperimentInput(load_dataset(folder), limit=limit)


def test_a_system_whose_package_is_missing_is_left_out_with_a_line(folder):
    def answer(dataset, batch, k):
        raise MissingDependencyError("this peer needs something; pip install something")

    inputs = ExperimentInput(load_dataset(folder))
    answers, left_out = run_systems(inputs, [source_system("vector"), System("peer", ("vector",), answer)], 5)
    assert [one.name for one in answers] == ["vector"]
    assert left_out == ("peer: this peer needs something; pip install something",)


def test_two_systems_of_one_name_are_refused(folder):
    with pytest.raises(InvalidInputError, match="a unique name"):
        run_systems(ExperimentInput(load_dataset(folder)), [source_system("vector")] * 2, 5)


def test_every_system_says_what_it_is():
    assert all(system.about and system.name == name for name, system in OWN_SYSTEMS.items())


@pytest.mark.parametrize("wrong", [0, True, 2.5])
def test_the_bootstrap_of_a_table_needs_resamples(wrong):
    with pytest.raises(InvalidInputError, match=r"resamples must be (an integer|>= 1)"):
        compare([Answers("vector", hits(range(10)))], JUDGED, resamples=wrong)


def test_every_measure_has_a_paired_p_and_its_test_is_named():
    rng = np.random.default_rng(0)
    found = {f"q{i:03d}": (f"a{i}",) * (rng.random() < 0.7) + (f"b{i}",) * (rng.random() < 0.7) for i in range(40)}
    measures = (*DEFAULT_MEASURES, Measure("nDCG", 10))
    table = compare([Answers("vector", hits(range(10))), Answers("rrf", found)], JUDGED, measures=measures)
    row = table["rrf"]
    column = list(table.measures).index(Measure("nDCG", 10))
    difference = table.values["rrf"][:, column] - table.values["vector"][:, column]
    assert row.p[Measure("nDCG", 10)] == sign_flip(difference)
    assert row.p[Measure("FullSup", 5)] == mcnemar_exact(row.wins[Measure("FullSup", 5)], 0)
    state = table.to_dict()
    assert set(state["systems"]["rrf"]["p"]) == set(state["tests"]) == {str(measure) for measure in measures}
    assert state["tests"]["Recall@5"] == "sign-flip permutation"
    assert state["tests"]["LastHop@5"] == state["tests"]["FullSup@5"] == "exact McNemar"
    assert state["systems"]["rrf"]["p_holm"]["Recall@5"] >= state["systems"]["rrf"]["p"]["Recall@5"]
    assert set(state["systems"]["vector"]["p"].values()) == {1.0}


def test_mcnemars_are_corrected_together_a_measure_alone_and_an_untested_one_not_at_all():
    """LastHop is not known, so that of McNemar's tests those of FullSup are left, at two depths for two systems."""
    judged = [Judgement(j.query, j.hops, last_hop_known=False) for j in JUDGED]
    measures = (*DEFAULT_MEASURES, Measure("nDCG", 10))
    full = {f"q{i:03d}": (f"a{i}", f"b{i}") for i in range(9)}
    answers = [Answers("vector", {}), Answers("rrf", full), Answers("few", dict(list(full.items())[:7]))]
    table = compare(answers, judged, measures=measures)
    others = [measure for measure in measures if measure.name in ("Recall", "nDCG")]
    for family in ([Measure("FullSup", 5), Measure("FullSup", 10)], *([measure] for measure in others)):
        keys = [(name, measure) for name in ("rrf", "few") for measure in family]
        expected = holm([table[name].p[measure] for name, measure in keys])
        assert [table[name].p_holm[measure] for name, measure in keys] == pytest.approx(expected)
    assert np.isnan([table["rrf"].p[L5], table["rrf"].p_holm[L5]]).all()


def test_last_hop_and_its_test_are_null_where_no_last_hop_is_known():
    judged = [Judgement(j.query, j.hops, last_hop_known=False) for j in JUDGED]
    state = compare([Answers("vector", {}), Answers("rrf", hits(range(9)))], judged).to_dict()
    row = state["systems"]["rrf"]
    assert [row[f"{name}@5"] for name in ("LastHop", "wins", "losses", "p", "p_holm")] == [None] * 5
    assert "LastHop@5" not in state["tests"]
    assert (state["scored"]["LastHop@5"], state["scored"]["Recall@5"]) == (0, 40)


def test_groups_make_the_interval_of_a_difference_wider_and_its_p_larger():
    """Eight groups of five queries: of each group all are won or none."""
    groups = [f"g{i // 5}" for i in range(40)]
    answers = [Answers("vector", {}), Answers("rrf", hits([i for i in range(40) if i // 5 in (0, 1, 2, 3)]))]
    alone, grouped = compare(answers, JUDGED), compare(answers, JUDGED, groups=groups)
    recall = Measure("Recall", 5)
    assert alone["rrf"].p[recall] < 1e-3
    assert grouped["rrf"].p[recall] == 0.125
    assert grouped["rrf"].p[Measure("FullSup", 5)] == 1.0
    assert grouped["rrf"].p[L5] == alone["rrf"].p[L5]
    widths = [row["rrf"].differences[recall][2] - row["rrf"].differences[recall][1] for row in (alone, grouped)]
    assert widths[1] > 1.5 * widths[0]
    assert grouped.to_dict()["groups"] == 8
    assert grouped.to_dict()["tests"]["Recall@5"] == "sign-flip permutation of whole groups"
    assert alone.to_dict()["groups"] is None


def test_means_by_label_add_up_to_the_mean():
    table = compare([Answers("vector", hits(range(10)))], JUDGED)
    found = table.means_by(["left"] * 10 + ["right"] * 30)
    assert found["left"]["vector"]["LastHop@5"] == 100.0
    assert found["right"] == {"vector": dict.fromkeys(map(str, DEFAULT_MEASURES), 0.0)}
    with pytest.raises(InvalidInputError, match=r"labels must have one entry per query \(40\)"):
        table.means_by(["left"])


def test_answers_are_measured_by_the_same_table():
    judged = [Judgement(f"q{i}", (), answers=("Greece",) if i else ()) for i in range(5)]
    said = {"q0": ("x",), "q1": ("in Greece",), "q2": ("the Greece.",), "q3": ("Rome",)}
    measures = (Measure("EM", 1), Measure("F1", 1))
    table = compare([Answers("rag", said)], judged, baseline="rag", measures=measures)
    assert table["rag"].means == pytest.approx({measures[0]: 1 / 4, measures[1]: (2 / 3 + 1) / 4})
    assert table.to_dict()["scored"] == {"EM": 4, "F1": 4}


def test_bm25_and_the_walk_split_words_as_they_are_told(folder):
    dataset = load_dataset(folder)
    asked = replace(dataset.queries[2], text="is the of")
    dataset = replace(dataset, queries=(asked,), query_vectors=dataset.query_vectors[[2]])
    found = {
        name: search_sources(ExperimentInput(dataset, tokenizer=name), ["bm25", "graph"])
        for name in ("english", "plain")
    }
    assert len(found["english"]["bm25"].rankings[0]) == 0  # a stop word alone is in the passages
    assert len(found["plain"]["bm25"].rankings[0]) > 0
    walked = [of["graph"].rankings[0] for of in found.values()]
    assert walked[0].scores.tolist() != walked[1].scores.tolist()
