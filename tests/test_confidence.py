"""Does this corpus hold an answer: the formula, what it does without a part, how it is fitted, and abstaining by it."""

from __future__ import annotations

import math
import pickle
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasegraph import Confidence, ConfidenceEvidence, ConfidenceModel, Context, FusionPipeline, Ranking, SourceReport
from phasegraph._support.serialization import write_document
from phasegraph.acceptance import AcceptancePolicy
from phasegraph.acceptance.confidence import fit_bar, fit_probability
from phasegraph.errors import (
    DegradedError,
    InsufficientDataError,
    InvalidInputError,
    InvalidTypeError,
    PhasegraphWarning,
)
from phasegraph.fusion.fitting import fit_confidence
from phasegraph.lexical import HitWords, read_hits
from phasegraph.ranking import QueryWords

WALK = Ranking("graph", ["a", "b"], [2.0, 1.0], words=QueryWords({"ada": 3.0, "met": 1.0}, named=0.5))
VECTOR = Ranking("vector", ["a", "b"], [0.51, 0.2])
BM25 = Ranking("bm25", ["b"], [7.0])
DOTS = Ranking("vector", ["a"], [12.0])
COVERS = HitWords(covers={"graph": 0.9, "vector": 0.6, "bm25": 0.3}, together=1.4)
NEAR = 1 / (1 + math.exp(-1))  # .51 stands one width above the bar
TOGETHER = 1.4 / (1.4 + 0.6)


def judge(*rankings: Ranking, model: ConfidenceModel | None = None, words: HitWords | None = COVERS) -> Any:
    return (model or ConfidenceModel()).judge(rankings, words)


@pytest.mark.parametrize(
    ("rankings", "value", "without"),
    [
        ([WALK, VECTOR, BM25], NEAR * (0.6 + 2 * 0.9 + 0.3 * 0.5) / 3.3, ""),
        ([WALK], TOGETHER * (2 * 0.9 + 0.3 * 0.5) / 2.3, "without vectors (no source is named 'vector')"),
        ([VECTOR], NEAR * (0.6 + 0.3) / 1.3, "without a walk"),
        ([VECTOR, BM25], NEAR * (0.45 + 0.3) / 1.3, "without a walk"),
        (
            [BM25],
            TOGETHER * (0.3 + 0.3) / 1.3,
            "without a walk that knows the words, without vectors (no source is named 'vector')",
        ),
    ],
)
def test_a_confidence_is_nearness_times_the_words_that_were_found(
    rankings: list[Ranking], value: float, without: str
) -> None:
    found = judge(*rankings)
    assert found.value == pytest.approx(value)
    assert found.reason.startswith(without)
    assert not found.probability


@pytest.mark.parametrize(
    "vector",
    [
        Ranking("vector", ["a"], [12.0]),
        Ranking.from_hits("vector", ["a"], [0.4], higher_is_better=False),
        Ranking.from_hits("vector", ["a"], None),
    ],
)
def test_words_stand_in_for_scores_that_are_no_cosines_before_they_are_fitted(vector: Ranking) -> None:
    found = judge(WALK, vector)
    assert found.value == pytest.approx(TOGETHER * (0.6 + 2 * 0.9 + 0.3 * 0.5) / 3.3)
    assert "together: 0.70 (0 to 1; high if one hit contains many rare words of the question)" in str(found)
    assert "no cosines: calibrate first" in found.reason
    fitted = judge(WALK, vector, model=ConfidenceModel(bar=-0.4, width=1.0))
    assert (fitted.nearness is None) == vector.rank_only


def test_where_there_is_nothing_to_judge_by_there_is_none_and_it_says_why() -> None:
    assert judge(VECTOR, words=None).value is None
    assert "no words to search for" in judge(VECTOR, words=HitWords()).reason
    assert "none: no source knows the words, and the texts of the hits were not read" in str(judge(VECTOR, words=None))
    assert FusionPipeline().decide([VECTOR, WALK]).confidence is None
    broken = [SourceReport("vector", "error", "it broke")]
    assert FusionPipeline().decide([], reports=broken).confidence is None
    assert FusionPipeline().decide([Ranking("vector", (), [])]).confidence == 0.0


def test_a_printed_evidence_names_each_part_that_is_known_and_says_what_a_high_value_means() -> None:
    parts = {"top": 0.5, "nearness": 0.25, "together": 0.7, "covers": {"graph": 0.9}, "named": 0.5}
    for named in (parts, *({name: parts[name]} for name in parts), {}):
        head, *lines = str(ConfidenceEvidence(0.625, **named)).splitlines()
        assert head == "0.62 (0 to 1; high if it is likely that the corpus contains an answer)"
        assert [line.partition(":")[0] for line in lines] == list(named)
        assert all(re.fullmatch(r"\w+: [^(]+ \(.{20,}\)", line) for line in lines), lines
    assert ConfidenceEvidence(0.625, reason="why").summary.endswith("an answer), why")


def test_a_result_carries_it_and_its_evidence() -> None:
    result = FusionPipeline().decide([WALK, VECTOR], Context(words=COVERS))
    assert result.confidence == judge(WALK, VECTOR).value == result.confidence_evidence.value
    assert result.confidence_evidence.covers == {"graph": 0.9, "vector": 0.6}
    assert "\nnearness: 0.73 (top on a scale" in str(result.confidence_evidence)
    again = FusionPipeline().decide(result.candidates.rankings, Context(words=COVERS))
    assert again.confidence_evidence == result.confidence_evidence
    assert pickle.loads(pickle.dumps(result)).confidence == result.confidence  # noqa: S301


TEXTS = {
    "hello": "Hello is a song. Adele, who sings, wrote the song Hello.",
    "love": "Hello, Love, Goodbye is a film about love. Nobody wrote a song for the film.",
    "other": "The river runs through the town and on to the sea.",
}


@pytest.mark.parametrize("walks", [True, False])
def test_without_vectors_words_alone_never_make_a_confidence_of_1(walks: bool) -> None:
    question, idf = "Who wrote Hello Love?", {"wrote": 4.0, "hello": 7.4, "love": 3.9}
    words = QueryWords(idf, named=1.0) if walks else None
    walk = Ranking("graph", ["hello", "love"], [2.0, 1.0], words=words)
    lists = [walk, Ranking("bm25", ["love", "hello"], [9.0, 8.0])]
    found = judge(*lists, words=read_hits(question, lists, TEXTS.__getitem__))
    assert all(share == 1.0 for share in found.covers.values()), "the first hits have all words between them"
    assert 0.3 < found.value < 0.8
    elsewhere = [replace(one, ids=("other",), scores=np.ones(1), raw=None) for one in lists]
    assert judge(*elsewhere, words=read_hits(question, elsewhere, TEXTS.__getitem__)).value < 0.2


def test_words_that_one_hit_has_at_once_count_more_than_the_same_words_in_several() -> None:
    lists = [Ranking("bm25", ["a", "b"], [9.0, 8.0], words=QueryWords({"ada": 3.0, "rome": 3.0}))]

    def value(first: str, second: str) -> float:
        words = read_hits("ada rome", lists, {"a": first, "b": second}.__getitem__)
        return float(judge(*lists, words=words).value)

    assert value("Ada met Bo.", "Cy left Rome.") < value("Ada left Rome.", "Cy met Bo.")


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.integers(0, 3), st.floats(0, 0.3))
def test_it_stays_in_bounds_and_rises_with_every_part(
    top: float, by_vector: float, by_walk: float, named: float, which: int, more: float
) -> None:
    def value(top: float, by_vector: float, by_walk: float, named: float) -> float:
        walk = replace(WALK, words=QueryWords({"ada": 1.0}, named=named))
        found = judge(
            walk, Ranking("vector", ["a"], [top]), words=HitWords((), {"graph": by_walk, "vector": by_vector})
        )
        assert 0 <= found.value <= 1
        return float(found.value)

    parts = [top, by_vector, by_walk, named]
    raised = [min(1.0, part + more) if place == which else part for place, part in enumerate(parts)]
    assert value(*raised) >= value(*parts)


def test_the_bar_and_the_width_follow_the_best_scores_of_unlabelled_questions() -> None:
    tops = np.linspace(0.7, 0.9, 101).tolist()
    fitted = fit_bar(ConfidenceModel(slope=2.0, intercept=0.0), tops)
    assert (fitted.bar, fitted.width, fitted.slope) == (pytest.approx(0.71), pytest.approx(0.0225), None)
    scaled = fit_bar(ConfidenceModel(), [100 * top for top in tops])
    assert (scaled.bar, scaled.width) == (pytest.approx(71), pytest.approx(2.25))  # the unit does not matter
    assert fit_bar(ConfidenceModel(), tops[:19]) == fit_bar(ConfidenceModel(), [0.5] * 50) == ConfidenceModel()


def pieces(values: list[float], reason: str = "") -> list[ConfidenceEvidence]:
    return [ConfidenceEvidence(value, 0.6, 0.5, reason=reason) for value in values]


def test_a_probability_is_as_often_right_as_it_says() -> None:
    rng = np.random.default_rng(0)
    values = rng.uniform(0.02, 0.98, 4000)
    happened = rng.random(4000) < values**2
    fitted = fit_probability(ConfidenceModel(), pieces(values[happened].tolist()), pieces(values[~happened].tolist()))
    assert np.abs(fitted.probabilities([0.2, 0.5, 0.8]) - np.array([0.04, 0.25, 0.64])).max() < 0.05


def test_a_probability_is_given_only_where_nothing_is_missing_that_it_was_fitted_with() -> None:
    model = ConfidenceModel(slope=2.0, intercept=-1.0)
    whole = judge(WALK, VECTOR, model=model)
    plain = judge(WALK, VECTOR).value
    assert whole.probability
    assert whole.value == pytest.approx(1 / (1 + math.exp(1 - 2 * math.log(plain / (1 - plain)))))
    assert "(the probability that the corpus contains an answer)" in str(whole)
    assert judge(VECTOR, model=model) == judge(VECTOR)
    alone = replace(model, without="no_walk")
    assert judge(VECTOR, model=alone).probability


def test_too_few_or_useless_labels_are_said() -> None:
    with pytest.raises(
        InsufficientDataError, match=r"at least 20 questions with an answer and 20 questions without.*got 19 and 30"
    ):
        fit_probability(ConfidenceModel(), pieces([0.5] * 19), pieces([0.1] * 30))
    with pytest.raises(InsufficientDataError, match="is not higher"):
        fit_probability(ConfidenceModel(), pieces([0.1] * 30), pieces([0.9] * 30))


def test_judged_questions_stand_for_one_with_and_one_without_their_passages() -> None:
    texts = {"a": "ada met bo", "b": "cy sang"}
    lists = [(f"Did Ada meet Bo {i}?", [Ranking("vector", ["a", "b"], [0.6 + i / 100, 0.3]), WALK]) for i in range(24)]

    def words(question: str, rankings: Any) -> HitWords:
        return read_hits(question, rankings, texts.__getitem__)

    relevant = {question: {"a"} for question, _ in lists}
    fitted = fit_confidence(lists, FusionPipeline(), words, relevant)
    assert fitted.slope is not None
    assert fitted.bar == pytest.approx(0.6115)
    question, rankings = lists[20]
    judged = FusionPipeline(confidence=fitted)
    assert judged.decide(rankings, Context(words=words(question, rankings))).confidence > 0.8  # type: ignore[operator]
    bare = [one.without({"a"}) for one in rankings]
    assert judged.decide(bare, Context(words=words(question, bare))).confidence < 0.2  # type: ignore[operator]
    few = dict(list(relevant.items())[:19])
    assert fit_confidence(lists, FusionPipeline(), words, few).slope is None
    with pytest.warns(PhasegraphWarning, match="is not calibrated as a probability"):
        fit_confidence(lists, FusionPipeline(), words, {question: ["b"] for question in relevant})


@pytest.mark.parametrize("policy", [Confidence(min=0.7), AcceptancePolicy(min_keep=1, confidence=Confidence(min=0.7))])
def test_a_result_that_is_too_doubtful_is_empty_for_a_reason_of_its_own(policy: Any) -> None:
    pipeline = FusionPipeline(accept=policy)
    doubtful = pipeline.decide([WALK, VECTOR], Context(words=COVERS))
    assert (doubtful.ids, doubtful.reason, doubtful.degraded) == ((), "abstained", False)
    assert doubtful.extras["acceptance"].reason == "low_confidence"  # type: ignore[attr-defined]
    assert doubtful.confidence == pytest.approx(0.565, abs=1e-3)
    sure = pipeline.decide([WALK, Ranking("vector", ["a", "b"], [0.7, 0.2])], Context(words=COVERS))
    assert (len(sure), sure.reason) == (2, "")
    assert FusionPipeline(accept=AcceptancePolicy({"vector": 2.0, "graph": 9.0})).decide([VECTOR]).reason == (
        "all_rejected"
    )


def test_a_result_without_a_confidence_is_given_with_a_warning_unless_told_otherwise() -> None:
    result = FusionPipeline(accept=Confidence(min=0.7)).decide([WALK, VECTOR])
    assert len(result) == 2
    said = "acceptance by confidence has no confidence, and it rejected nothing: no source knows the words"
    assert said in result.warnings[-1]
    held = FusionPipeline(accept=Confidence(min=0.7, unknown="abstain")).decide([WALK, VECTOR])
    assert (held.ids, held.reason) == ((), "abstained")
    assert "every candidate was rejected" in held.warnings[-1]
    with pytest.raises(DegradedError, match="acceptance by confidence has no confidence"):
        replace(FusionPipeline.reciprocal_rank(), accept=Confidence(min=0.7), strict=True).decide([WALK, VECTOR])


def test_it_is_stored_with_the_pipeline(tmp_path: Any) -> None:
    model = ConfidenceModel(0.6, 0.05, 1.5, -0.25, "no_walk")
    pipeline = FusionPipeline(confidence=model, accept=Confidence(min=0.3, unknown="abstain"))
    pipeline.save(tmp_path / "p.json")
    again = FusionPipeline.load(tmp_path / "p.json")
    assert again == pipeline
    assert (again.confidence, again.accept) == (model, AcceptancePolicy(confidence=Confidence(0.3, "abstain")))
    old = pipeline.to_dict()
    del old["confidence"]
    assert FusionPipeline.from_dict(old).confidence == ConfidenceModel()


@pytest.mark.parametrize(
    ("stored", "rankings"),
    [
        ("", [WALK, VECTOR]),
        ("without a walk that knows the words", [VECTOR]),
        ("without vectors (no source is named 'vector')", [WALK]),
        ("without the scores of 'vector', which are no cosines: calibrate first", [WALK, DOTS]),
        (
            "without a walk that knows the words, without the scores of 'vector', which are no cosines: calibrate "
            "first",
            [DOTS],
        ),
    ],
)
def test_an_old_file_that_stores_a_text_gives_the_same_probabilities(
    tmp_path: Any, stored: str, rankings: list[Ranking]
) -> None:
    pipeline = FusionPipeline(confidence=ConfidenceModel(slope=1.5, intercept=-0.25))
    state = pipeline.to_dict()
    state["confidence"] = {**state["confidence"], "without": stored}  # type: ignore[dict-item]
    write_document(tmp_path / "old.json", "pipeline", 1, state)
    model = FusionPipeline.load(tmp_path / "old.json").confidence
    found = judge(*rankings, model=model)
    assert (found.probability, found.without, found.reason) == (True, model.without, stored)
    assert not [one for one in ([WALK, VECTOR], [VECTOR], [WALK], [WALK, DOTS], [DOTS]) if one != rankings
                and judge(*one, model=model).probability]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Confidence(min=1.5), InvalidInputError, r"Confidence\.min"),
        (lambda: Confidence(min=0.5, unknown="no"), InvalidInputError, r"Confidence\.unknown"),  # type: ignore[arg-type]
        (lambda: ConfidenceModel(width=0.0), InvalidInputError, r"ConfidenceModel\.width"),
        (lambda: ConfidenceModel(slope=1.0), InvalidInputError, "give both"),
        (lambda: ConfidenceModel().probabilities([0.5]), InvalidInputError, "judged queries first"),
        (lambda: FusionPipeline(confidence=0.5), InvalidTypeError, "confidence must be a ConfidenceModel"),  # type: ignore[arg-type]
        (lambda: AcceptancePolicy(confidence=0.5), InvalidTypeError, "confidence must be a Confidence"),  # type: ignore[arg-type]
        (lambda: ConfidenceModel.from_dict({"bars": 1}), InvalidInputError, "no field 'bars'"),
    ],
)
def test_wrong_values_are_named(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_an_unknown_code_of_missing_data_is_refused() -> None:
    with pytest.raises(
        InvalidInputError, match=r"without must be empty or one or more of no_walk, no_vector, .*nowalk"
    ):
        ConfidenceModel(without="nowalk")


def test_a_fit_of_probabilities_ignores_questions_without_a_hit() -> None:
    good, poor = ([ConfidenceEvidence(low + i / 50, 0.6, 0.9) for i in range(25)] for low in (0.4, 0.1))
    fitted = fit_probability(ConfidenceModel(), good, poor)
    assert fit_probability(ConfidenceModel(), good, [*poor, *[ConfidenceModel().judge([], None)] * 80]) == fitted
