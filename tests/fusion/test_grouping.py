"""Passages of one document count once in an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from phasegraph import Context, FusionPipeline, GroupBy, InvalidInputError, InvalidTypeError, ListCalibrator, Ranking
from phasegraph.fusion.priors import UnitPrior
from phasegraph.selection import SelectionPolicy

HITS = {name: {"metadata": {"source": name[0]}} for name in ("a1", "a2", "b1", "c1", "c2", "c3")}


def ranking(source: str = "vector", *ids: str, **hits: Any) -> Ranking:
    found = ids or ("b1", "a1", "a2", "c1", "c2", "c3")
    return Ranking(source, found, np.linspace(1.0, 0.5, len(found)), payloads={**HITS, **hits})


PLAIN = FusionPipeline.reciprocal_rank()
BEST, SUM = replace(PLAIN, group_by="source"), replace(PLAIN, group_by=GroupBy("source", "sum"))


def test_the_best_passage_stands_for_its_document_with_its_own_score() -> None:
    plain, grouped = PLAIN.decide([ranking()]), BEST.decide([ranking()])
    assert grouped.ids == ("b1", "a1", "c1")
    assert grouped.extras["groups"] == {"b1": ("b1",), "a1": ("a1", "a2"), "c1": ("c1", "c2", "c3")}
    rows = [plain.ids.index(one) for one in grouped.ids]
    assert grouped.scores.tolist() == plain.scores[rows].tolist()
    assert grouped.fused.tolist() == plain.fused[rows].tolist()


def test_k_counts_documents_and_changes_no_order() -> None:
    whole = SUM.decide([ranking()])
    for k in range(4):
        assert SUM.decide([ranking()], k=k).ids == whole.ids[:k]


def test_the_sum_of_a_document_is_the_sum_of_its_passages() -> None:
    plain, grouped = PLAIN.decide([ranking()]), SUM.decide([ranking()])
    assert grouped.ids == ("c1", "a1", "b1")
    value = dict(zip(plain.ids, plain.fused.tolist(), strict=True))
    sums = [sum(value[one] for one in HITS if one[0] == name[0]) for name in grouped.ids]
    assert grouped.fused == pytest.approx(sums)
    assert (grouped.contributions.sum(axis=1) + grouped.bonuses) == pytest.approx(grouped.fused)
    assert ((grouped.scores >= 0) & (grouped.scores <= 1)).all()
    assert sorted(grouped.scores, reverse=True) == grouped.scores.tolist()


def test_a_passage_that_is_worse_than_the_collection_takes_nothing_from_its_document() -> None:
    pipeline = FusionPipeline(calibrator=ListCalibrator("z_score"), group_by=GroupBy("source", "sum"))
    many = [f"x{row}" for row in range(30)]
    hits = {name: {"metadata": {"source": name}} for name in many}
    one = Ranking("vector", ["a1", *many, "a2"], np.linspace(3, -3, 32), payloads={**HITS, **hits})
    plain = replace(pipeline, group_by=None).decide([one], k=40)
    assert plain.fused.min() < 0
    assert pipeline.decide([one], k=40).fused[0] >= plain.fused[0]


def test_sums_hold_with_priors_and_a_reranker() -> None:
    priors = (UnitPrior("authority", strength=0.5),)
    context = Context(attributes={"c1": {"authority": 0.2}, "c2": {"authority": 0.1}})
    rerank = Ranking("rerank", ["a2", "b1", "c3"], [3.0, 2.0, 1.0])
    for more, given in (((), [ranking()]), ((), [ranking(), rerank]), (priors, [ranking(), rerank])):
        plain = replace(PLAIN, priors=more).decide(given, replace(context, blend=0.5), k=9)
        grouped = replace(SUM, priors=more).decide(given, replace(context, blend=0.5), k=9)
        value = dict(zip(plain.ids, (plain.fused * plain.priors).tolist(), strict=True))
        sums = {name: sum(value[one] for one in HITS if one[0] == name[0]) for name in grouped.ids}
        assert (grouped.fused * grouped.priors) == pytest.approx([sums[name] for name in grouped.ids])
        assert (grouped.contributions.sum(axis=1) + grouped.bonuses) == pytest.approx(grouped.fused)
        assert sorted(sums.values(), reverse=True) == list(sums.values())


def test_a_passage_that_names_no_document_counts_by_itself_and_a_wrong_key_is_said() -> None:
    loose = ranking("vector", "b1", "n1", "n2", n1={"metadata": {}}, n2={"metadata": {"source": None}})
    assert BEST.decide([loose]).ids == ("b1", "n1", "n2")
    assert not BEST.decide([loose]).warnings
    wrong = replace(PLAIN, group_by="sorce").decide([ranking()])  # codespell:ignore sorce
    assert len(wrong) == 6
    (said,) = wrong.warnings
    assert "none of 6 candidates has the metadata key 'sorce'" in said
    assert "did you mean 'source'?" in said


def test_a_selection_chooses_among_documents() -> None:
    pipeline = replace(BEST, selection=SelectionPolicy("mmr"))
    vectors = {name: np.eye(6)[row] for row, name in enumerate(HITS)}
    found = pipeline.decide([ranking()], Context(embeddings=vectors), k=2)
    assert len({name[0] for name in found.ids}) == 2


def test_a_pipeline_keeps_its_grouping(tmp_path: Any) -> None:
    SUM.save(tmp_path / "pipeline.json")
    assert FusionPipeline.load(tmp_path / "pipeline.json").group_by == GroupBy("source", "sum")
    without = {name: one for name, one in PLAIN.to_dict().items() if name != "group_by"}
    assert FusionPipeline.from_dict(without).group_by is None


@pytest.mark.parametrize(
    ("key", "score", "error"),
    [("", "best", InvalidTypeError), (3, "best", InvalidTypeError), ("a", "mean", InvalidInputError)],
)
def test_a_grouping_that_is_none_is_refused(key: Any, score: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="GroupBy"):
        GroupBy(key, score)
    with pytest.raises(InvalidTypeError, match="group_by"):
        FusionPipeline(group_by=3)  # type: ignore[arg-type]
