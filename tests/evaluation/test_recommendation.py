"""The best simple way and the recommendation: what decides, and where it turns."""

import json

import numpy as np
import pytest

from phasegraph.apps.cli import main
from phasegraph.evaluation.experiment import Answers, compare
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.measures import Measure
from phasegraph.evaluation.recommendation import (
    LEAST_QUESTIONS,
    WEIGHED,
    WITHOUT_WALK,
    Gain,
    best_simple,
    gain_of,
    recommend,
    recommend_beside,
    recommendation_of,
)
from phasegraph.evaluation.significance import paired_bootstrap

RECALL = Measure("Recall", 5)
QUESTIONS = 40
JUDGED = [Judgement(f"q{row}", (("right",),), pages=("p",), sources={"right": "p"}) for row in range(QUESTIONS)]


def table(**right):
    """Systems that answer so many of the first questions right."""
    answers = [
        Answers(name.replace("_", "-"), {f"q{row}": ("right",) for row in range(count)})
        for name, count in right.items()
    ]
    return compare(answers, JUDGED, measures=[RECALL, Measure("Pages", 5)], resamples=10)


def of_all(**right):
    level = dict.fromkeys((name.replace("-", "_") for name in WEIGHED), 20)
    return table(**{**level, **right})


def test_a_gain_has_the_interval_of_the_paired_bootstrap():
    found = gain_of(table(vector=20, default=26), "default", "vector", RECALL)
    differences = [0.0] * 20 + [1.0] * 6 + [0.0] * 14
    exact = paired_bootstrap(differences)
    assert found.mean == pytest.approx(6 / 40)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=0.026)
    assert found.text == f"+15.0 [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def test_the_best_simple_way_is_chosen_by_measure_and_of_simple_ways_alone():
    found = best_simple(of_all(relative_words=24, ensemble=25, graph=39, default=40, convex=38))
    assert found == {RECALL: "ensemble"}  # pages shown are a count: more are no better


def test_of_equal_ways_the_plainest_is_the_best():
    assert best_simple(of_all(default=30))[RECALL] == "vector"


def test_the_best_of_some_simple_ways_is_not_claimed():
    assert best_simple(table(vector=20, bm25=30, default=20)) == {}
    assert recommendation_of(table(vector=20, bm25=30, default=20)) is None


@pytest.mark.parametrize(
    ("right", "choice", "said"),
    [
        ({}, "vectors", "plain vectors are enough: "),
        ({"vector": 35}, "vectors", "the walk does not clearly help here (the default gains -37.5 ["),
        ({"relative_words": 35}, "words", "fuse vectors and BM25: relative-words gains +37.5 ["),
        ({"rrf_words": 35, "bm25": 30}, "words", "fuse vectors and BM25: rrf-words gains +37.5 ["),
        ({"rrf_words": 35, "bm25": 36}, "bm25", "BM25 alone is enough: it gains +40.0 ["),
        ({"rrf_words": 35, "bm25": 34}, "bm25", "the fusion rrf-words does not clearly beat BM25 (+2.5 [+0.0, "),
        ({"bm25": 35, "rrf_words": 28}, "bm25", "vectors; the fusion rrf-words does not clearly beat BM25 (-17.5 ["),
        ({"bm25": 35}, "bm25", "does not clearly beat BM25 (-37.5 ["),
        ({"default": 35}, "default", "use the default: it gains +37.5 ["),
        ({"default": 35, "bm25": 30}, "default", "points of Recall@5 over bm25, the best simple way without the walk"),
        ({"default": 30, "relative_three": 31}, "default", "use the default: it gains +25.0 ["),
        ({"default": 30, "relative_three": 39}, "fusion", "use relative-three, a fixed fusion with the walk: it gains"),
        ({"rrf": 39}, "fusion", "the default gains +0.0 [+0.0, +0.0]"),
    ],
)
def test_what_is_recommended_follows_the_figures(right, choice, said):
    found = recommendation_of(of_all(**right))
    assert found.choice == choice
    assert said in found.sentence


def test_bm25_is_recommended_only_where_it_clearly_beats_vectors():
    right = {name: range(24) for name in WEIGHED} | {"bm25": range(17, 40), "relative-words": range(30)}
    answers = [Answers(name, {f"q{row}": ("right",) for row in rows}) for name, rows in right.items()]
    found = compare(answers, JUDGED, measures=[RECALL], resamples=10)
    assert gain_of(found, "relative-words", "bm25", RECALL).low <= 0  # the fusion clearly beats vectors, but not BM25
    chosen = recommendation_of(found)
    assert chosen.choice == "words"
    assert chosen.sentence.startswith("fuse vectors and BM25: relative-words gains +15.0 [")


def test_few_questions_decide_nothing():
    few = [Judgement(f"q{row}", (("right",),)) for row in range(LEAST_QUESTIONS - 1)]
    answers = [Answers(name, {"q0": ("right",)}) for name in WEIGHED]
    found = recommendation_of(compare(answers, few, measures=[RECALL], resamples=10))
    assert (found.choice, found.sentence) == (
        "undecided",
        "too few questions (39): ask 40 or more for a recommendation",
    )


def gain(low, system="default", over="vector", mean=0.05):
    return Gain(system, over, mean, low, 0.1)


NONE = gain(-0.01)


@pytest.mark.parametrize("low", [0.0, np.nextafter(0, 1)])
def test_a_gain_is_clear_where_its_whole_interval_is_above_zero(low):
    clear = low > 0
    assert recommend(gain(low), NONE, NONE, NONE, NONE, NONE).choice == ("words" if clear else "vectors")
    assert recommend(NONE, gain(low), NONE, NONE, NONE, NONE).choice == ("bm25" if clear else "vectors")
    assert recommend(NONE, NONE, NONE, gain(low), NONE, NONE).choice == ("default" if clear else "vectors")
    assert recommend(NONE, NONE, NONE, NONE, gain(low), NONE).choice == ("fusion" if clear else "vectors")
    sure = gain(0.02)
    assert recommend(sure, sure, gain(low), NONE, NONE, NONE).choice == ("words" if clear else "bm25")
    assert recommend(NONE, NONE, NONE, sure, sure, gain(low)).choice == ("fusion" if clear else "default")


def test_the_walk_comes_before_what_is_plainer_where_it_clearly_beats_the_best_of_that():
    sure = gain(0.02)
    assert recommend(sure, sure, NONE, sure, NONE, NONE).choice == "default"
    assert recommend(sure, sure, NONE, NONE, NONE, NONE).choice == "bm25"


def test_the_command_ends_with_the_recommendation_and_writes_what_decided(folder, tmp_path, capsys):
    target = tmp_path / "table.json"
    assert main(["evaluate", str(folder), "--systems", ",".join(WEIGHED), "--json", str(target)]) == 0
    printed = capsys.readouterr().out
    state = json.loads(target.read_text(encoding="utf-8"))
    sentence = state["recommendation"]["sentence"]
    assert " ".join(printed.split()).endswith(f"recommendation: {sentence}")
    assert set(state["best_simple"]["of"]) == {*WEIGHED} - {"default"}
    found = state["best_simple"]["measures"]["Recall@5"]
    systems = state["systems"]
    assert found["mean"] == max(systems[name]["Recall@5"] for name in state["best_simple"]["of"])
    assert found["default"]["difference"] == pytest.approx(systems["default"]["Recall@5"] - found["mean"])
    assert "│ best-simple" in printed


def test_the_command_says_what_a_recommendation_lacks(folder, capsys):
    assert main(["evaluate", str(folder), "--systems", "default,vector,bm25,rrf-words"]) == 0
    printed = capsys.readouterr().out
    assert "no recommendation: it needs the rows relative-words, rrf," in printed
    assert "best-simple" not in printed
    assert main(["evaluate", str(folder), "--systems", ",".join(WITHOUT_WALK), "--json", "-"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert state["best_simple"]["measures"]["Recall@5"]["default"] is None
    assert "recommendation" not in state


@pytest.mark.parametrize(
    ("lows", "questions", "choice"),
    [
        ((0.02, -0.01, 0.02), 40, "default"),
        ((0.02, 0.02, -0.01), 40, "plain"),
        ((0.02, -0.01, -0.01), 40, "plain"),
        ((-0.01, 0.02, -0.01), 40, "plain"),
        ((-0.01, -0.01, 0.02), 40, "own"),
        ((-0.01, -0.01, -0.01), 40, "own"),
        ((0.02, -0.01, 0.02), 39, "undecided"),
    ],
)
def test_a_user_is_told_to_stay_unless_the_gain_is_clear(lows, questions, choice):
    gain, plain, ahead = (
        Gain(system, over, 0.05, low, 0.1)
        for (system, over), low in zip([("ours", "mine"), ("bm25", "mine"), ("ours", "bm25")], lows, strict=True)
    )
    found = recommend_beside(gain, plain, ahead, questions)
    assert found.choice == choice
    assert ("you don't need ours" in found.sentence) == (choice in ("plain", "own"))
    assert "+5.0 [" in found.sentence


def test_a_retriever_that_finds_more_is_told_so():
    behind = Gain("ours", "mine", -0.05, -0.1, -0.02)
    found = recommend_beside(behind, NONE, NONE, 40)
    assert (found.choice, found.sentence) == (
        "own",
        "you don't need ours: mine finds more. ours gains -5.0 [-10.0, -2.0] points of Recall@5 over mine",
    )
