"""Measures against hand arithmetic, ir-measures and the tie traps of the tools around it."""

import sys
from dataclasses import replace

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasegraph.errors import InvalidInputError, MissingDependencyError
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.measures import (
    DEFAULT_MEASURES,
    MEASURES,
    Measure,
    plain_answer,
    score_run,
    surrogate_scores,
)
from phasegraph.ranking import Ranking

TWO_HOPS = Judgement("q", (("a",), ("b",)))


def test_last_hop_looks_at_the_last_hop_only():
    assert Measure("LastHop", 2)(["a", "x"], TWO_HOPS) == 0.0
    assert Measure("LastHop", 2)(["x", "b"], TWO_HOPS) == 1.0
    assert Measure("LastHop", 1)(["x", "b"], TWO_HOPS) == 0.0


def test_last_hop_leaves_out_a_query_whose_last_hop_is_not_known():
    unknown = Judgement("q2", (("a",), ("b",)), last_hop_known=False)
    assert Measure("LastHop", 5)(["b"], unknown) is None
    values = score_run({"q": ["b"], "q2": ["b"]}, [TWO_HOPS, unknown], Measure("LastHop", 5))
    assert np.array_equal(values, [1.0, np.nan], equal_nan=True)


def test_full_support_needs_every_hop():
    assert Measure("FullSup", 3)(["b", "x", "a"], TWO_HOPS) == 1.0
    assert Measure("FullSup", 2)(["b", "x", "a"], TWO_HOPS) == 0.0


def test_any_alternative_of_a_hop_will_do_and_counts_once():
    judgement = Judgement("q", (("a", "a2"), ("b",)))
    assert Measure("Recall", 5)(["a2", "a"], judgement) == 0.5
    assert Measure("FullSup", 5)(["a2", "b"], judgement) == 1.0
    assert Measure("nDCG", 5)(["a2", "b"], judgement) == 1.0
    assert Measure("nDCG", 5)(["a2", "a", "b"], judgement) < 1.0


@pytest.mark.parametrize("name", [*MEASURES, "Success", "MRR"])
def test_a_query_without_results_scores_zero_and_stays_in_the_mean(name):
    paged = {"pages": ("a",), "sources": {"a": "a"}}
    judged = [replace(TWO_HOPS, **paged), Judgement("q3", (("c",),), **paged)]
    values = score_run({"q": ["a", "b"]}, judged, Measure(name, 5))
    assert values[0] > 0
    assert values[1] == 0.0


@pytest.mark.parametrize("name", [*MEASURES, "Success", "MRR"])
def test_a_query_with_nothing_to_find_scores_zero(name):
    assert Measure(name, 5)(["a"], Judgement("q", (), last_hop_known=False)) in (0.0, None)


def test_graded_gain_is_linear():
    judgement = Judgement("q", (("a",), ("b",)), grades={"a": 3.0, "b": 1.0, "c": 0.0})
    assert Measure("nDCG", 10)(["b", "a", "d"], judgement) == pytest.approx(0.796708, abs=5e-7)


@given(st.permutations("abcdefgh"), st.sets(st.sampled_from("abcdefghij"), min_size=1), st.integers(1, 9))
def test_measures_agree_with_ir_measures_on_surrogate_scores(order, gold, k):
    judgement = Judgement("q", tuple((passage,) for passage in sorted(gold)))
    run = [
        ir_measures.ScoredDoc("q", passage, score)
        for passage, score in zip(order, surrogate_scores(len(order)), strict=True)
    ]
    qrels = [ir_measures.Qrel("q", passage, 1) for passage in sorted(gold)]
    peers = {"Recall": "R", "nDCG": "nDCG", "Success": "Success", "MRR": "RR"}
    wanted = [ir_measures.parse_measure(f"{peer}@{k}") for peer in peers.values()]
    theirs = ir_measures.calc_aggregate(wanted, qrels, run)
    for name, measure in zip(peers, wanted, strict=True):
        assert Measure(name, k)(order, judgement) == pytest.approx(theirs[measure], abs=1e-12)


@given(st.permutations("abcdef"), st.lists(st.integers(-1, 4), min_size=6, max_size=6), st.integers(1, 7))
def test_graded_ndcg_agrees_with_ir_measures(order, grades, k):
    of_id = dict(zip("abcdef", grades, strict=True))
    judgement = Judgement("q", (("a",),), grades={p: float(g) for p, g in of_id.items()})
    run = [ir_measures.ScoredDoc("q", p, s) for p, s in zip(order, surrogate_scores(6).tolist(), strict=True)]
    qrels = [ir_measures.Qrel("q", p, g) for p, g in of_id.items()]
    theirs = ir_measures.calc_aggregate([ir_measures.parse_measure(f"nDCG@{k}")], qrels, run)
    assert Measure("nDCG", k)(order, judgement) == pytest.approx(next(iter(theirs.values())), abs=1e-12)


@pytest.mark.parametrize(("relevant", "ndcg", "rr", "rr_at_10"), [("a", 0, 0.5, 1.0), ("b", 1, 1.0, 0.5)])
def test_other_tools_break_ties_two_ways_and_ours_is_stated(relevant, ndcg, rr, rr_at_10):
    """trec_eval orders ties by id descending, RR@10 ascending; ours is ascending, and surrogates end the matter."""
    tied = [ir_measures.ScoredDoc("q", passage, 1.0) for passage in "ab"]
    qrels = [ir_measures.Qrel("q", relevant, 1)]
    trap = [ir_measures.parse_measure(name) for name in ("nDCG@1", "RR", "RR@10")]
    theirs = ir_measures.calc_aggregate(trap, qrels, tied)
    assert [theirs[measure] for measure in trap] == [ndcg, rr, rr_at_10]

    ours = Ranking("s", ["b", "a"], [1.0, 1.0]).ids
    assert ours == ("a", "b")
    untied = [ir_measures.ScoredDoc("q", p, s) for p, s in zip(ours, surrogate_scores(2), strict=True)]
    agreed = ir_measures.calc_aggregate(trap, qrels, untied)
    judgement = Judgement("q", ((relevant,),))
    assert agreed[trap[0]] == Measure("nDCG", 1)(ours, judgement) == float(relevant == "a")
    assert agreed[trap[1]] == agreed[trap[2]] == Measure("MRR", 10)(ours, judgement)


@given(st.permutations("abcdefgh"), st.sets(st.sampled_from("abcdefgh"), min_size=1))
def test_deeper_never_finds_less(order, gold):
    judgement = Judgement("q", tuple((passage,) for passage in sorted(gold)))
    for name in ("LastHop", "FullSup", "Recall", "Success", "MRR"):
        values = [Measure(name, k)(order, judgement) for k in range(1, 9)]
        assert values == sorted(values)


def test_a_measure_reads_and_prints_its_name():
    assert str(Measure.parse("LastHop@10")) == "LastHop@10"
    assert [str(measure) for measure in DEFAULT_MEASURES][:2] == ["LastHop@5", "LastHop@10"]
    for text in ("LastHop", "LastHop@0", "Nothing@5", "Recall@-1", "Recall@5 "):
        with pytest.raises(InvalidInputError):
            Measure.parse(text)


def test_any_measure_of_ir_measures_goes_by_its_name():
    judged = [TWO_HOPS, Judgement("q2", (("c",),)), Judgement("q3", ())]
    found = {"q": ["x", "a", "b"], "q2": ["x"], "q3": ["x"]}
    assert score_run(found, judged, Measure.parse("P@2")).tolist() == [0.5, 0.0, 0.0]
    assert score_run(found, judged, Measure.parse("AP@3")) == pytest.approx([(1 / 2 + 2 / 3) / 2, 0.0, 0.0])
    assert score_run({}, judged, Measure.parse("MRR@5")).tolist() == [0.0, 0.0, 0.0]


def test_without_ir_measures_its_measures_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MissingDependencyError, match=r"AP is no built-in measure .*pip install 'phasegraph\[eval\]'"):
        Measure("AP", 5)
    assert Measure("Recall", 1)(["a"], TWO_HOPS) == 0.5


def test_grades_reach_the_measures_of_ir_measures_and_fractions_count_as_relevant():
    for grades, gain in (({"a": 3.0, "b": 0.0}, 3), ({"a": 0.5, "b": 0.0}, 1)):
        judgement = Judgement("q", (("a",),), grades=grades)
        qrels = [ir_measures.Qrel("q", "a", gain), ir_measures.Qrel("q", "b", 0)]
        run = [ir_measures.ScoredDoc("q", "b", 2.0), ir_measures.ScoredDoc("q", "a", 1.0)]
        for name in ("AP@2", "P@2", "Success@2"):
            theirs = ir_measures.calc_aggregate([ir_measures.parse_measure(name)], qrels, run)
            assert Measure.parse(name)(["b", "a"], judgement) == pytest.approx(next(iter(theirs.values())), abs=1e-6)


@pytest.mark.parametrize(
    ("given", "right", "em", "f1"),
    [
        ("The cat sat!", ["a cat sat"], 1.0, 1.0),
        ("cat", ["the cat sat"], 0.0, 2 / 3),
        ("no no yes", ["no yes yes"], 0.0, 2 / 3),
        ("blue", ["red", "dark blue"], 0.0, 2 / 3),
        ("Blue.", ["red", "blue"], 1.0, 1.0),
        ("green", ["red"], 0.0, 0.0),
        ("the", ["an"], 1.0, 1.0),
        ("the", ["red"], 0.0, 0.0),
        ("", ["red"], 0.0, 0.0),
    ],
)
def test_answers_are_compared_without_case_punctuation_and_articles(given, right, em, f1):
    judgement = Judgement("q", (), answers=tuple(right))
    assert Measure.parse("EM")([given], judgement) == em
    assert Measure.parse("F1")([given], judgement) == pytest.approx(f1)


def test_the_best_of_the_first_answers_counts_and_none_counts_nothing():
    judgement = Judgement("q", (), answers=("red",))
    assert [Measure("EM", k)(["blue", "red"], judgement) for k in (1, 2)] == [0.0, 1.0]
    assert Measure("F1", 1)([], Judgement("q", (), answers=("the",))) == 0.0
    assert Measure("F1", 1)(["red"], Judgement("q", ())) is None
    assert [str(Measure(name, k)) for name in ("EM", "F1") for k in (1, 3)] == ["EM", "EM@3", "F1", "F1@3"]


@given(st.text(), st.text())
def test_an_answer_is_as_like_another_as_that_is_like_it(one, other):
    forth, back = (Measure("F1", 1)([a], Judgement("q", (), answers=(b,))) for a, b in ((one, other), (other, one)))
    assert forth == back
    assert 0.0 <= forth <= 1.0
    assert (Measure("EM", 1)([one], Judgement("q", (), answers=(other,))) == 1.0) == (
        plain_answer(one) == plain_answer(other)
    )
