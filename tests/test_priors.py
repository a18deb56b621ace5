from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime

import numpy as np
import pytest

from phasegraph import Context, ExactMatchBonus, FusionPipeline, InvalidInputError, Ranking, RecencyPrior, UnitPrior
from phasegraph.acceptance import AcceptancePolicy
from phasegraph.errors import InvalidTypeError
from phasegraph.fusion.priors import as_seconds, importance_multiplier, recency
from phasegraph.fusion.stored_priors import PRIORS, prior_from_dict
from phasegraph.fusion.superposition import SuperpositionPrior, superposition
from phasegraph.retrieval.provenance import provenance


def test_importance_one_at_rank_27_beats_importance_zero_at_rank_one() -> None:
    """The strength the design record's prior really has: 61 / .7 - 60 = 27.14."""
    ids = [f"p{i:02d}" for i in range(1, 31)]
    ranking = Ranking("bm25", ids, np.arange(30, 0, -1.0))
    pipeline = FusionPipeline.reciprocal_rank()
    with_prior = FusionPipeline(
        calibrator=pipeline.calibrator, rule="rrf", rule_options=pipeline.rule_options, priors=(UnitPrior(),), k=30
    )
    for rank, wins in ((27, True), (28, False)):
        attributes = {i: {"importance": 0.0} for i in ids} | {ids[rank - 1]: {"importance": 1.0}}
        order = with_prior.decide([ranking], Context(attributes=attributes)).ids
        assert (order[0] == ids[rank - 1]) is wins


def test_a_missing_importance_changes_nothing() -> None:
    ranking = Ranking("v", ["a", "b"], [2.0, 1.0])
    plain = FusionPipeline().decide([ranking])
    weighed = FusionPipeline(priors=(UnitPrior(),)).decide([ranking])
    assert weighed.scores.tobytes() == plain.scores.tobytes()


def test_recency_halves_with_each_half_life_and_a_future_date_counts_as_now() -> None:
    np.testing.assert_allclose(recency(np.array([-100.0, 0.0, 10.0, 20.0]), half_life=10.0), [1, 1, 0.5, 0.25])


def test_the_hourly_rate_of_the_quantum_document_has_a_half_life_of_2_77_hours() -> None:
    hours = np.log(2) / 0.25
    assert hours == pytest.approx(2.77, abs=0.005)
    assert recency(np.array([24.0]), half_life=hours)[0] == pytest.approx(0.00248, abs=5e-6)


RRF = FusionPipeline.reciprocal_rank()
PAGES = {
    "a": {"text": "A treaty of 1648."},
    "b": {"text": "The  deep\nSea, by Ada Vole."},
    "c": {"text": "Deep water, and the sea."},
    "d": {"text": "Vole and mouse."},
    "e": {"text": "Ships."},
}


def _found(source: str, *ids: str, pages: object = PAGES) -> Ranking:
    return Ranking(source, ids, np.arange(len(ids), 0, -1.0), payloads={one: pages[one] for one in ids})  # type: ignore[index]


def test_exact_hits_are_the_candidates_that_hold_quoted_or_rare_terms_letter_for_letter() -> None:
    query = 'Who wrote "the deep sea" about Vole?'
    found = ExactMatchBonus()(list(PAGES), Context(query=query, attributes=PAGES))
    assert found.tolist() == [0, 1, 0, 0, 0]  # two of five hold vole, so it is not rare
    assert ExactMatchBonus(rare_share=0.4)(list(PAGES), Context(query=query, attributes=PAGES)).tolist() == [
        0, 2, 0, 1, 0,
    ]  # fmt: skip
    assert ExactMatchBonus()(["a"], Context(query="the treaty of 1648?", attributes=PAGES)).tolist() == [2.0]
    for empty in ("", "Which?", "the of and"):
        assert ExactMatchBonus()(list(PAGES), Context(query=empty, attributes=PAGES)).tolist() == [0] * 5


@pytest.mark.parametrize("quote", ['"{}"', "“{}”", "„{}“", "«{}»", "'{}'"])
def test_every_kind_of_quotation_mark_marks_a_term(quote: str) -> None:
    query = f"Where is {quote.format('deep water')} found?"
    assert ExactMatchBonus()(list(PAGES), Context(query=query, attributes=PAGES)).tolist() == [0, 0, 1, 0, 0]


def test_the_exact_match_bonus_is_one_more_source_that_ranks_the_hit_first() -> None:
    """The design record's w / (k + 1), whichever sources answered: its size against theirs is the weights' alone."""
    pipeline = FusionPipeline.reciprocal_rank({"bm25": 1.0, "vector": 1.0, "graph": 0.35})
    pipeline = replace(pipeline, priors=(ExactMatchBonus(0.5),))
    context = Context(query="Who was Ada?")
    lists = [_found("bm25", "a", "b"), _found("vector", "a", "c", "b"), _found("graph", "d", "b")]
    for answered in (lists, lists[:1], lists[1:], lists[::2]):
        result = pipeline.decide(answered, context, k=9)
        said = {one.source: one for one in result.evidence("b").sources}
        for other in answered:
            weight = pipeline.weights[other.source]  # type: ignore[index]
            ratio = said["exact_match"].contribution / said[other.source].contribution
            assert ratio == pytest.approx((0.5 / 61) / (weight / (60 + said[other.source].rank)), abs=1e-12)
        assert said["exact_match"].rank == 1.0
        assert result.weights.sum() == pytest.approx(1.0)


def test_an_exact_match_source_is_reported_and_replays_but_votes_in_nothing_else() -> None:
    pipeline = replace(RRF, priors=(ExactMatchBonus(),), strict=True, accept=AcceptancePolicy({"v": 2.5, "w": 9.0}))
    lists = [_found("v", "a", "b", "c"), _found("w", "c", "d")]
    result = pipeline.decide(lists, Context(query="Vole"), k=9)
    assert [(one.source, one.hits) for one in result.reports] == [("exact_match", 2), ("v", 3), ("w", 2)]
    assert result.ids == ("a",)
    assert set(result.agreement) == {("v", "w"), ("w", "v")}
    again = pipeline.decide(result.candidates.rankings, Context(query="Vole"), reports=result.reports, k=9)
    assert (again.ids, again.fused.tobytes()) == (result.ids, result.fused.tobytes())
    none = pipeline.decide(lists, Context(query="zebra"), k=9)
    assert none.reports[0].reason == "no candidate contains a quoted or rare term of the query"
    assert none.fused.tobytes() == replace(pipeline, priors=()).decide(lists, k=9).fused.tobytes()


def test_an_exact_match_of_weight_zero_is_none() -> None:
    lists = [_found("v", "a", "b", "c")]
    off = replace(RRF, priors=(ExactMatchBonus(weight=0.0),)).decide(lists, Context(query="Vole"))
    assert (off.ids, len(off.reports)) == (("a", "b", "c"), 1)


def test_an_attribute_decides_whether_a_match_is_exact() -> None:
    pages = {"a": {**PAGES["a"], "exact": True}, "b": {**PAGES["b"], "exact": False}}
    assert ExactMatchBonus()(["a", "b"], Context(query="vole", attributes=pages)).tolist() == [1.0, 0.0]


def test_exact_match_may_read_a_field_of_the_hits() -> None:
    pages = {"a": {"title": "Deep Sea"}, "b": {"title": "Ships"}}
    pipeline = replace(RRF, priors=(ExactMatchBonus(key="title"),))
    assert pipeline.decide([_found("v", "b", "a", pages=pages)], Context(query='"deep sea"')).ids == ("a", "b")


class Page:
    """A passage as other libraries hold it."""

    def __init__(self, text: str, **metadata: object) -> None:
        self.page_content, self.metadata = text, metadata

    @property
    def text(self) -> str:
        raise AttributeError("not every attribute can be read")


@pytest.mark.parametrize("made", [Page, lambda text, **fields: {"content": text, "metadata": fields}])
def test_priors_read_the_hits_themselves(made: Callable[..., object]) -> None:
    pages = {"a": made("One.", fame=0.0, day="2001-01-01"), "b": made("Two.", fame="1.0", day="2001-01-11")}
    now = datetime(2001, 1, 11, tzinfo=UTC).timestamp()
    ranking = _found("v", "a", "b", pages=pages)
    for prior, expected in (
        (UnitPrior("fame", strength=0.5), [0.5, 1.0]),
        (RecencyPrior(864000.0, strength=1.0, key="day"), [0.5, 1.0]),
    ):
        result = replace(RRF, priors=(prior,)).decide([ranking], Context(now=now))
        assert dict(zip(result.ids, result.priors.tolist(), strict=True)) == pytest.approx(
            dict(zip("ab", expected, strict=True))
        )
        assert result.warnings == ()
    assert replace(RRF, priors=(ExactMatchBonus(),)).decide([ranking], Context(query="two")).ids == ("b", "a")


def test_a_field_that_one_source_lacks_is_read_from_another_and_an_attribute_wins_over_both() -> None:
    lists = [
        Ranking("v", ["a"], [1.0], payloads={"a": {"importance": None}}),
        Ranking("w", ["a"], [1.0], payloads={"a": {"importance": 0.25}}),
    ]
    pipeline = replace(RRF, priors=(UnitPrior(strength=1.0),))
    assert pipeline.decide(lists).priors.tolist() == [0.25]
    assert pipeline.decide(lists, Context(attributes={"a": {"importance": 0.5}})).priors.tolist() == [0.5]


def test_missing_values_are_neutral_and_counted_and_unusable_ones_warned_about() -> None:
    pages = {"a": {"importance": 0.5}, "b": {}, "c": {"importance": float("nan")}, "d": {"importance": "high"}}
    pages["e"] = {"importance": 7}
    result = replace(RRF, priors=(UnitPrior(strength=1.0),)).decide([_found("v", *"abcde", pages=pages)])
    assert dict(zip(result.ids, result.priors.tolist(), strict=True)) == {"a": 0.5, "b": 1, "c": 1, "d": 1, "e": 1}
    (reading,) = result.extras["priors"]  # type: ignore[misc]
    assert (reading.found, reading.missing, reading.unusable) == (1, 2, 2)
    assert "could not use the field 'importance' of 2 of 5 candidates" in result.warnings[0]
    assert "'d' has 'high'" in result.warnings[0]


def test_a_field_that_no_candidate_has_is_said_once_and_not_an_error() -> None:
    result = replace(RRF, priors=(UnitPrior("fame"),), strict=True).decide([_found("v", "a", "b")])
    assert result.warnings == ("prior 'unit' found no field 'fame' in any of the 2 candidates",)


class Native:
    def to_native(self) -> datetime:
        return datetime(2020, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        "2020-06-01", "20200601", "2020-06", "2020-06-01T02:00:00+02:00", "2020-06-01T00:00:00Z",
        "Mon, 01 Jun 2020 00:00:00 GMT", date(2020, 6, 1), datetime(2020, 6, 1), datetime(2020, 6, 1, tzinfo=UTC),
        np.datetime64("2020-06-01"), 1590969600, 1590969600.0, 1590969600000, "1590969600", Native(),
        20200601, 20200601.0, np.int64(20200601), 1590969600000000, 1590969600000000000, "1590969600000",
    ],
)  # fmt: skip
def test_a_time_is_read_in_any_usual_form(value: object) -> None:
    assert as_seconds(value, now=1.8e9) == 1590969600.0


def test_a_year_is_a_year_unless_now_is_as_early() -> None:
    january = datetime(2020, 1, 1, tzinfo=UTC).timestamp()
    assert as_seconds(2020, now=1.8e9) == as_seconds("2020", now=1.8e9) == january
    assert as_seconds(2020, now=7200.0) == 2020.0
    assert as_seconds(np.int64(2020), now=1.8e9) == january
    assert as_seconds(20200101, now=1.8e9) == january
    assert as_seconds(20200101, now=9e7) == 20200101.0
    assert as_seconds(20201301, now=1.8e9) == 20201301.0  # no day


@pytest.mark.parametrize("value", ["yesterday", True, None, [1], float("inf"), "", "2020-13-01"])
def test_what_is_no_time_is_refused(value: object) -> None:
    with pytest.raises(InvalidInputError, match="a time must be"):
        as_seconds(value, now=1.8e9)


def test_superposition_takes_cosine_time_and_authority_from_the_hits() -> None:
    """The document's golden number through the pipeline: cosine .8, an hour old, authority .5."""
    pages = {"a": {"timestamp": 0, "authority": 0.5, "frequency": 1.5}, "b": {}}
    ranking = Ranking("vector", ["a", "b"], [0.8, -0.2], payloads=pages)
    pipeline = replace(RRF, priors=(SuperpositionPrior(strength=1.0),))
    result = pipeline.decide([ranking], Context(now=3600.0))
    value = dict(zip(result.ids, result.priors.tolist(), strict=True))
    assert value["a"] == pytest.approx(0.7497001958, abs=5e-11)
    assert value["b"] == pytest.approx(0.4)  # a negative cosine counts as 0, the rest as neutral
    why = {name: result.evidence(name) for name in "ab"}
    assert (why["a"].energy, why["b"].energy) == (pytest.approx(1.5221199217, abs=5e-11), 0.0)
    assert why["a"].entropy == pytest.approx(-value["a"] * np.log(value["a"]))
    assert why["a"].set_entropy is None
    block = next(one for one in provenance(result) if one["id"] == "a")
    assert (block["energy"], block["entropy"]) == (why["a"].energy, why["a"].entropy)
    other = replace(RRF, priors=(SuperpositionPrior(h=2.0, k=0.0),)).decide([ranking], Context(now=3600.0))
    assert sorted(other.evidence(name).energy for name in "ab") == [0.0, 3.0]  # type: ignore[type-var]


def test_a_distance_or_a_rank_is_no_cosine() -> None:
    for ranking in (
        Ranking.from_hits("vector", ["a", "b"], [0.1, 0.3], higher_is_better=False),
        Ranking.from_hits("vector", ["a", "b"], None),
    ):
        result = replace(RRF, priors=(SuperpositionPrior(),)).decide([ranking], Context(now=0.0))
        assert result.priors.tolist() == [1.0, 1.0]
        assert "found no field 'cosine' in any of the 2" in result.warnings[0]


def test_a_low_prior_lowers_a_candidate_whose_fused_value_is_negative() -> None:
    ranking = Ranking("v", ["a", "b"], [-5.0, -5.1])
    pipeline = FusionPipeline(calibrator=FusionPipeline.reciprocal_rank().calibrator, priors=(UnitPrior(strength=1.0),))
    context = Context(attributes={"a": {"importance": 0.1}, "b": {"importance": 1.0}})
    assert pipeline.decide([ranking], context).ids == ("b", "a")


@pytest.mark.parametrize(
    "prior",
    [
        UnitPrior("authority", 0.4, 0.2),
        RecencyPrior(60.0, 0.5),
        ExactMatchBonus(0.3, "title"),
        SuperpositionPrior(k=0.2),
    ],
)
def test_every_prior_survives_its_state(prior: object) -> None:
    assert prior_from_dict(prior.to_dict()) == prior  # type: ignore[attr-defined]


def test_every_registered_prior_has_a_case_above() -> None:
    assert sorted(PRIORS) == ["exact_match", "recency", "superposition", "unit"]


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: UnitPrior(strength=1.5), "strength"),
        (lambda: UnitPrior(neutral=float("nan")), "neutral"),
        (lambda: RecencyPrior(half_life=0.0), "half_life"),
        (lambda: ExactMatchBonus(weight=-1.0), "weight"),
        (lambda: ExactMatchBonus(rare_share=1.5), "rare_share"),
        (lambda: ExactMatchBonus(key=""), "key"),
        (lambda: UnitPrior(key=3), "key"),  # type: ignore[arg-type]
        (lambda: FusionPipeline(priors=(ExactMatchBonus(), ExactMatchBonus())), "at most one ExactMatchBonus"),
        (lambda: FusionPipeline(priors=(ExactMatchBonus(),), weights={"exact_match": 1.0}), "'exact_match'"),
        (lambda: importance_multiplier(np.array([1.2])), "importance"),
        (lambda: recency(np.array([np.nan]), half_life=1.0), "age"),
        (lambda: prior_from_dict({"name": "fame"}), "prior name"),
        (lambda: prior_from_dict({"name": "unit", "colour": 1}), "options"),
        (lambda: prior_from_dict({"name": "unit", "strength": "much"}), "strength must be a number; got 'much'"),
        (lambda: RecencyPrior(60.0)(["a"], Context()), "Context.now"),
        (lambda: SuperpositionPrior()(["a"], Context()), "Context.now"),
        (lambda: SuperpositionPrior(weights=(1.0, 1.0, 1.0)), "weights"),
        (lambda: SuperpositionPrior(weights=(0.6, 0.25, 0.1)), "sum to 1"),
        (lambda: SuperpositionPrior(weights=(0.6, 0.4)), "three numbers"),  # type: ignore[arg-type]
        (lambda: SuperpositionPrior(h=float("nan")), "h must be"),
    ],
)
def test_a_wrong_prior_names_the_field(build: object, field: str) -> None:
    with pytest.raises(InvalidInputError, match=field):
        build()  # type: ignore[operator]


def test_an_attribute_that_is_no_number_names_the_candidate() -> None:
    with pytest.raises(InvalidTypeError, match="'a'"):
        UnitPrior()(["a"], Context(attributes={"a": {"importance": "high"}}))


def test_relevance_and_energy_golden() -> None:
    found = superposition([0.8], [3600.0], [0.5], frequency=1.5)
    assert found.relevance[0] == pytest.approx(0.7497001958, abs=5e-11)
    assert found.energy[0] == pytest.approx(1.5221199217, abs=5e-11)


def test_the_collapse_probability_is_the_weighted_mean_whatever_the_energy() -> None:
    for hbar, frequency in ((1.0, 0.0), (0.1, 7.0), (3.0, -2.0)):
        found = superposition([0.8, 0.1], [0.0, 86400.0], [0.5, 1.0], frequency=frequency, hbar=hbar)
        np.testing.assert_allclose(found.probability, found.relevance)


def test_recency_at_the_documents_rate_is_gone_after_a_day_and_the_future_counts_as_now() -> None:
    only = (0.0, 1.0, 0.0)
    found = superposition([0.0] * 3, [86400.0, -86400.0, 0.0], [0.0] * 3, weights=only)
    np.testing.assert_allclose(found.relevance, [np.exp(-6.0), 1.0, 1.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cosine": [-0.1]}, "cosine"),
        ({"authority": [1.1]}, "authority"),
        ({"age_seconds": [np.nan]}, "age_seconds"),
        ({"age_seconds": [1.0, 2.0]}, "one value per passage"),
        ({"weights": (0.9, 0.9, 0.1)}, "weights"),
        ({"weights": (-0.1, 0.9, 0.1)}, "weights"),
        ({"hbar": 0.0}, "hbar"),
        ({"decay_per_hour": -1.0}, "decay_per_hour"),
    ],
)
def test_values_outside_their_range_are_refused(change: dict, message: str) -> None:
    values = {"cosine": [0.5], "age_seconds": [1.0], "authority": [0.5], **change}
    options = {name: value for name, value in values.items() if name in ("weights", "hbar", "decay_per_hour")}
    with pytest.raises(InvalidInputError, match=message):
        superposition(values["cosine"], values["age_seconds"], values["authority"], **options)


@pytest.mark.parametrize("rule", ["z-score-sum", "comb_sum", "comb_mnz", "rrf", "borda"])
@pytest.mark.parametrize("held", [1, 2])
def test_an_exact_match_raises_its_passage_under_the_textbooks_rules(rule: str, held: int) -> None:
    texts = {name: f"passage {row}" for row, name in enumerate("abcdefghij")}
    for name in "ij"[-held:]:
        texts[name] += " about Xanadu"
    context = Context(query='Where is "Xanadu"?', attributes={name: {"text": text} for name, text in texts.items()})
    pipeline = FusionPipeline.named(rule)
    ranking = Ranking("v", list(texts), [1.0 - row**2 / 100 for row in range(10)])
    plain, with_bonus = (replace(pipeline, priors=priors, k=10) for priors in ((), (ExactMatchBonus(),)))
    before, after = plain.decide([ranking], context), with_bonus.decide([ranking], context)
    assert after.ids.index("j") < before.ids.index("j")
    again = with_bonus.decide(after.candidates.rankings, context)
    assert again.fused.tolist() == after.fused.tolist()


@pytest.mark.parametrize(
    ("query", "text", "held"),
    [
        ("東京タワーの高さは？", "東京タワーは高さ333メートルの電波塔である。", True),
        ("東京タワーの高さは？", "大阪城は豊臣秀吉が築いた。", False),
        ('"東京タワー"はどこ', "港区にある東京タワーは赤い。", True),
        ("北京大学在哪里？", "清华大学和北京大学都在海淀区。", True),
        ("北京大学在哪里？", "上海是一座城市。", False),
        ("GPT-4 の価格", "GPT-4 は高い。", True),
    ],
)
def test_chinese_and_japanese_are_matched_by_characters(query: str, text: str, held: bool) -> None:
    others = {name: {"text": "何も知らない。"} for name in "bcdefghijk"}
    counts = ExactMatchBonus()(["a", *others], Context(query=query, attributes={"a": {"text": text}, **others}))
    assert (counts[0] > 0) == held
    assert not counts[1:].any()
