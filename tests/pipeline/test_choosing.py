from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from phasegraph import Background, Context, FusionPipeline, InvalidInputError, Ranking, SourceReport
from phasegraph.acceptance import AcceptancePolicy, Threshold
from phasegraph.calibration import ListCalibrator
from phasegraph.errors import DegradedError, InvalidTypeError
from phasegraph.fusion.superposition import SuperpositionPrior
from phasegraph.retrieval.provenance import provenance
from phasegraph.selection import SelectionPolicy

IDS = [f"p{i}" for i in range(12)]
VECTOR = Ranking("vector", IDS, np.linspace(0.9, 0.35, 12))
GRAPH = Ranking("graph", IDS[::-1], 0.5 ** np.arange(12), background=Background(-9.0, 0.8, "log", 1e-4), size=500)


def test_what_is_below_its_source_s_threshold_is_not_returned() -> None:
    policy = AcceptancePolicy({"vector": 0.8, "graph": 0.4})
    result = FusionPipeline(accept=policy).decide([VECTOR, GRAPH])
    assert set(result.ids) == {"p0", "p1", "p2", "p11", "p10"}
    assert result.accepted.all()
    assert result.extras["acceptance"].reason == "accepted"  # type: ignore[attr-defined]


DISTANCES = Ranking.from_hits("near", IDS, np.linspace(0.1, 1.2, 12), higher_is_better=False)


def test_a_threshold_on_distances_is_the_highest_that_is_accepted_and_the_report_says_so() -> None:
    result = FusionPipeline(accept=AcceptancePolicy({"near": 0.5}), k=12).decide([DISTANCES])
    assert result.ids == ("p0", "p1", "p2", "p3", "p4")
    assert result.reports[0].notes == ("the threshold is a distance: hits are accepted up to 0.5",)
    again = FusionPipeline(accept=AcceptancePolicy({"near": 0.5})).decide([DISTANCES], reports=result.reports)
    assert again.reports == result.reports
    none = FusionPipeline(accept=AcceptancePolicy({"near": 0.05})).decide([DISTANCES])
    assert none.reason == "all_rejected"
    everything = FusionPipeline(accept=AcceptancePolicy({"near": Threshold(-np.inf)}), k=12).decide([DISTANCES])
    assert len(everything) == 12


def test_a_band_on_distances_accepts_up_to_its_lower_bound() -> None:
    policy = AcceptancePolicy({"near": Threshold(0.55, lower=0.35)})
    verdicts = FusionPipeline(accept=policy).decide([DISTANCES]).extras["acceptance"].verdicts  # type: ignore[attr-defined]
    assert verdicts.tolist() == [1] * 3 + [0] * 2 + [-1] * 7


def test_a_threshold_that_was_fitted_to_negated_distances_is_left_as_it_is() -> None:
    policy = AcceptancePolicy({"near": Threshold(-0.35, method="youden")})
    result = FusionPipeline(accept=policy).decide([DISTANCES])
    assert (result.ids, result.reports[0].notes) == (("p0", "p1", "p2"), ())


def test_rejected_everything_is_a_reason_of_its_own() -> None:
    result = FusionPipeline(accept=AcceptancePolicy({"vector": 2.0, "graph": 2.0})).decide([VECTOR, GRAPH])
    assert (result.ids, result.reason, result.degraded) == ((), "all_rejected", False)
    best = FusionPipeline(accept=AcceptancePolicy({"vector": 2.0, "graph": 2.0}, on_empty="best"))
    assert best.decide([VECTOR, GRAPH]).ids == FusionPipeline().decide([VECTOR, GRAPH]).ids[:1]


def test_a_threshold_of_minus_infinity_is_none_and_a_higher_one_only_removes() -> None:
    plain = FusionPipeline(k=12).decide([VECTOR, GRAPH]).ids
    before = plain
    for level in (-1e300, 0.3, 0.5, 0.7, 1.0):
        policy = AcceptancePolicy({"vector": level, "graph": level})
        after = FusionPipeline(accept=policy, k=12).decide([VECTOR, GRAPH]).ids
        assert [i for i in before if i in after] == list(after)
        before = after
    assert FusionPipeline(accept=AcceptancePolicy({"vector": -1e300}), k=12).decide([VECTOR, GRAPH]).ids == plain


def test_accepting_changes_neither_scores_nor_order_of_what_stays() -> None:
    plain = FusionPipeline(k=12).decide([VECTOR, GRAPH])
    some = FusionPipeline(k=12, accept=AcceptancePolicy(final=float(np.median(plain.scores)))).decide([VECTOR, GRAPH])
    value = dict(zip(plain.ids, plain.scores.tolist(), strict=True))
    assert 0 < len(some) < len(plain)
    assert [value[i] for i in some.ids] == some.scores.tolist()


def test_a_promise_is_void_when_a_source_it_was_fitted_with_did_not_answer() -> None:
    threshold = Threshold(0.1, promise="the sentence", method="certified", sources=("graph", "vector"))
    pipeline = FusionPipeline(accept=AcceptancePolicy(final=threshold))
    assert pipeline.decide([VECTOR, GRAPH]).warnings == ()
    failed = [SourceReport("graph", "error", "it broke"), SourceReport("vector", "ok", hits=12)]
    assert "did not answer" in pipeline.decide([VECTOR], reports=failed).warnings[-1]


def _near_duplicates() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    base = rng.normal(size=(6, 8))
    return {name: base[row // 2] + 0.001 * (row % 2) for row, name in enumerate(IDS)}


def test_selection_prefers_what_is_not_said_twice() -> None:
    context = Context(embeddings=_near_duplicates())
    plain = FusionPipeline(k=4).decide([VECTOR], context).ids
    chosen = FusionPipeline(k=4, selection=SelectionPolicy(mu=5.0)).decide([VECTOR], context)
    assert plain == ("p0", "p1", "p2", "p3")
    assert len({IDS.index(name) // 2 for name in chosen.ids}) == 4
    assert chosen.extras["selection"].vendi > 3.0  # type: ignore[attr-defined]


def test_embeddings_may_be_a_callable_asked_once_for_the_whole_pool() -> None:
    known, asked = _near_duplicates(), []

    def embed(ids: list[str]) -> np.ndarray:
        asked.append(list(ids))
        return np.array([known[name] for name in ids])

    FusionPipeline(k=3, selection=SelectionPolicy()).decide([VECTOR], Context(embeddings=embed))
    assert asked == [IDS]


@pytest.mark.parametrize(
    ("policy", "context", "field"),
    [
        (SelectionPolicy(), Context(), "Context.embeddings"),
        (SelectionPolicy("top", budget=10.0), Context(), "Context.costs"),
    ],
)
def test_a_selection_without_what_it_needs_says_so(policy: SelectionPolicy, context: Context, field: str) -> None:
    with pytest.raises(InvalidInputError, match=field):
        FusionPipeline(selection=policy).decide([VECTOR], context)


def _broken(ids: list[str]) -> np.ndarray:
    raise ConnectionError("a key that nobody should read")


@pytest.mark.parametrize(
    ("embeddings", "why"),
    [
        (_broken, "ConnectionError"),
        (lambda ids: np.ones((2, 3)), "embeddings must have shape"),
        (lambda ids: [[1.0]] * (len(ids) - 1) + [[1.0, 2.0]], "ValueError|embeddings"),
        (lambda ids: np.full((len(ids), 3), np.nan), "embeddings must be finite"),
        ({"p0": np.ones(3)}, "lacks 11 of 12"),
    ],
)
def test_embeddings_that_fail_cost_the_selection_and_not_the_answer(embeddings: object, why: str) -> None:
    plain = FusionPipeline(k=4).decide([VECTOR])
    pipeline = FusionPipeline(k=4, selection=SelectionPolicy("mmr"), calibrator=ListCalibrator("min_max"))
    context = Context(embeddings=embeddings)  # type: ignore[arg-type]
    result = pipeline.decide([VECTOR], context)
    assert result.ids == plain.ids
    assert re.search(f"selection by mmr failed.*({why})", result.warnings[-1])
    assert "key" not in result.warnings[-1]
    with pytest.raises(DegradedError, match="selection by mmr failed"):
        replace(pipeline, strict=True).decide([VECTOR], context)


def test_a_budget_is_kept_when_embeddings_fail() -> None:
    context = Context(costs={name: 10.0 for name in IDS}, embeddings=_broken)
    assert FusionPipeline(selection=SelectionPolicy(budget=35.0)).decide([VECTOR], context).ids == ("p0", "p1", "p2")


@pytest.mark.parametrize("revoked", ["", "the collection was rebuilt"])
def test_strict_accepts_no_promise_that_does_not_hold(revoked: str) -> None:
    sources = ("graph", "vector") if not revoked else ()
    threshold = Threshold(0.1, promise="the sentence", sources=sources, revoked=revoked)
    pipeline = FusionPipeline(
        accept=AcceptancePolicy(final=threshold), calibrator=ListCalibrator("min_max"), strict=True
    )
    with pytest.raises(DegradedError, match="guarantee of the threshold 'final' is not valid"):
        pipeline.decide([VECTOR])
    assert replace(pipeline, strict=False).decide([VECTOR]).warnings


def test_a_budget_is_kept() -> None:
    context = Context(costs={name: 10.0 for name in IDS})
    result = FusionPipeline(selection=SelectionPolicy("top", budget=35.0)).decide([VECTOR], context)
    assert result.ids == ("p0", "p1", "p2")


def test_both_stages_survive_the_state_and_wrong_ones_are_refused() -> None:
    pipeline = FusionPipeline(accept=AcceptancePolicy({"vector": 0.3}), selection=SelectionPolicy(mu=0.2))
    assert FusionPipeline.from_dict(pipeline.to_dict()).to_dict() == pipeline.to_dict()
    with pytest.raises(InvalidTypeError, match="accept"):
        FusionPipeline(accept={"vector": 0.3})  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="selection"):
        FusionPipeline(selection=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="method"):
        FusionPipeline(selection="best")  # type: ignore[arg-type]


def test_a_selection_is_named_or_given_and_both_hold_copies_back() -> None:
    vectors = {name: [1.0, 0.0] for name in ("a", "b", "c")} | {"d": [0.6, 0.8], "e": [0.0, 1.0]}
    ranking = Ranking("v", list("abcde"), [0.9, 0.89, 0.88, 0.5, 0.4])
    found = [
        FusionPipeline(k=3, selection=selection).decide([ranking], Context(embeddings=vectors)).ids  # type: ignore[arg-type]
        for selection in ("log_det", SelectionPolicy("log_det"), SelectionPolicy(), SelectionPolicy(distinct=True))
    ]
    assert found == [("a", "d", "e")] * 4
    assert FusionPipeline(selection="mmr").selection == SelectionPolicy("mmr")  # type: ignore[arg-type]


def test_a_selection_that_fails_leaves_the_fused_order_whatever_its_options() -> None:
    ranking = Ranking("v", list("abc"), [3.0, 2.0, 1.0])
    for policy in (SelectionPolicy(distinct=True), SelectionPolicy("mmr")):
        result = FusionPipeline(k=2, selection=policy).decide([ranking], Context(embeddings=lambda ids: 1 / 0))
        assert result.ids == ("a", "b")
        assert "failed" in result.warnings[-1]


def test_the_explanation_of_a_selected_set_still_adds_up() -> None:
    context = Context(embeddings=_near_duplicates())
    pipeline = FusionPipeline(k=5, accept=AcceptancePolicy(final=0.6), selection=SelectionPolicy(mu=1.0))
    result = pipeline.decide([VECTOR, GRAPH], context)
    np.testing.assert_allclose(result.contributions.sum(axis=1), result.fused, atol=1e-9)
    assert all(result.evidence(name).position == place for place, name in enumerate(result.ids, start=1))


WORKED = ("p0", "p1", "p2", "p3"), [0.45, 0.425, 0.4, 0.05]
LEGACY = SelectionPolicy("legacy_entropy", penalty=1.5)


@pytest.mark.parametrize(
    ("pipeline", "kind"),
    [
        (FusionPipeline(k=3, selection=LEGACY), "score"),
        (FusionPipeline(k=3, selection=LEGACY, calibrator=ListCalibrator("raw")), "score"),
        (
            FusionPipeline(
                k=3,
                selection=LEGACY,
                rule="comb_sum",
                calibrator=ListCalibrator("raw"),
                weights={"vector": 1.0, "graph": 1.0},
            ),
            "fused",
        ),
        (
            FusionPipeline(
                k=3, selection=LEGACY, priors=(SuperpositionPrior((1.0, 0.0, 0.0), strength=0.5),), rule="comb_sum",
                calibrator=ListCalibrator("raw"),
            ),
            "superposition",
        ),
    ],
)  # fmt: skip
def test_the_document_s_rule_is_given_the_document_s_own_relevance(pipeline: FusionPipeline, kind: str) -> None:
    """Its worked example selects 0, 3, 1; relevances divided by the largest would select 0, 1, 2."""
    lists = [Ranking("vector", *WORKED)]
    if kind in ("fused", "superposition"):
        lists.append(Ranking("graph", WORKED[0], [0.0] * 4))
    result = pipeline.decide(lists, Context(now=0.0))
    assert result.ids == ("p0", "p3", "p1")
    assert result.extras["selection"].relevance == kind  # type: ignore[attr-defined]
    entropies = result.extras["selection"].entropies  # type: ignore[attr-defined]
    assert [result.evidence(name).set_entropy for name in result.ids] == entropies.tolist()
    assert [block["set_entropy"] for block in provenance(result)] == entropies.tolist()


def test_scores_outside_0_to_1_are_scaled_for_the_document_s_rule_and_it_is_said() -> None:
    found = FusionPipeline(k=3, selection=LEGACY).decide([VECTOR, GRAPH]).extras["selection"]
    assert found.relevance == "fused, scaled"  # type: ignore[attr-defined]
