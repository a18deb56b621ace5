"""Tuning: gains that are real are found and confirmed, gains that are not are refused."""

from dataclasses import replace

import numpy as np
import pytest

from phasegraph.calibration import BackgroundCalibrator
from phasegraph.errors import InsufficientDataError, InvalidInputError, PhasegraphWarning
from phasegraph.evaluation.calibrated_pipeline import calibrated_pipeline
from phasegraph.evaluation.configurations import Candidate, candidates
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.learned_weights import learn_weights
from phasegraph.evaluation.measures import Measure
from phasegraph.evaluation.splits import split_by_id
from phasegraph.evaluation.tuned_confidence import tune_confidence
from phasegraph.evaluation.tuning import tune
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.lexical import read_hits
from phasegraph.ranking import Background, Ranking

IDS = [f"p{i:02d}" for i in range(40)]


def world(queries, *, strength, seed=0):
    """Two sources over forty passages; `strength` of each says how far relevant ones stand out."""
    rng = np.random.default_rng(seed)
    rankings = {name: [] for name in strength}
    judged = []
    for query in range(queries):
        gold = int(rng.integers(len(IDS)))
        judged.append(Judgement(f"query-{query}", ((IDS[gold],),)))
        for name, far in strength.items():
            scores = rng.normal(size=len(IDS))
            scores[gold] += far
            best = np.argsort(-scores)[:15]
            rankings[name].append(Ranking(name, [IDS[i] for i in best], scores[best]))
    return rankings, judged, [f"what is {query}?" for query in range(queries)]


def plain(name, weights):
    pipeline = FusionPipeline(weights=weights)
    return Candidate(name, lambda rankings, judgements: pipeline)


SPACE = (
    Candidate("default", lambda rankings, judgements: FusionPipeline()),
    plain("graph alone", {"graph": 1.0, "vector": 0.0}),
    plain("vector alone", {"graph": 0.0, "vector": 1.0}),
)


def test_a_real_gain_is_found_confirmed_and_kept():
    found = tune(*world(300, strength={"vector": 2.0, "graph": 0.0}), space=SPACE)
    assert found.confirmed
    assert found.chosen_name == "vector alone"
    assert found.pipeline.weights == {"graph": 0.0, "vector": 1.0}
    assert found.difference > 0
    assert found.low <= found.difference <= found.high
    assert "confirmed: +" in found.verdict
    assert found.tried == 3


def test_luck_on_the_tuning_part_is_not_called_a_gain():
    """With nothing to find, choosing the best of many must be confirmed by chance only."""
    rng = np.random.default_rng(7)
    space = [SPACE[0]]
    for i in range(8):
        share = float(rng.uniform(0.2, 0.8))
        space.append(plain(f"lucky {i}", {"graph": share, "vector": 1 - share}))
    called = [
        tune(*world(90, strength={"vector": 0.0, "graph": 0.0}, seed=seed), space=space).confirmed for seed in range(6)
    ]
    assert sum(called) <= 1


def test_a_gain_that_does_not_hold_leaves_the_default():
    rankings, judged, texts = world(200, strength={"vector": 2.5, "graph": 0.0}, seed=3)
    confirm = set(split_by_id([j.query for j in judged], "confirm").tolist())
    for row in confirm:
        broken = Ranking("vector", IDS[:15], np.linspace(1.0, 0.0, 15) + 50.0)
        rankings["vector"][row] = broken
    found = tune(rankings, judged, texts, space=(SPACE[0], SPACE[2]))
    assert found.chosen_name == "vector alone"
    assert found.tuning_chosen > found.tuning_default + 0.05
    assert not found.confirmed
    assert found.pipeline == FusionPipeline()
    assert found.chosen.weights == {"graph": 0.0, "vector": 1.0}
    assert "not confirmed" in found.verdict
    assert "the default stays" in found.verdict


def test_the_confirmation_part_is_never_looked_at_while_choosing():
    rankings, judged, texts = world(200, strength={"vector": 3.0, "graph": 1.0}, seed=5)
    confirm = {judged[row].query for row in split_by_id([j.query for j in judged], "confirm").tolist()}
    seen = set()

    def spy(rankings, judgements):
        seen.update(judgement.query for judgement in judgements)
        return FusionPipeline()

    tune(rankings, judged, texts, space=(SPACE[0], Candidate("spy", spy, fitted=True)))
    assert seen
    assert not seen & confirm


def test_fitted_configurations_are_scored_out_of_fold():
    rankings, judged, texts = world(150, strength={"vector": 2.0, "graph": 0.0})
    calls = []

    def cheat(rankings, judgements):
        calls.append({judgement.query for judgement in judgements})
        return FusionPipeline()

    found = tune(rankings, judged, texts, space=(SPACE[0], Candidate("fitted", cheat, fitted=True)))
    held_out = [set.union(*calls[:5]) - part for part in calls[:5]]
    assert sum(len(part) for part in held_out) == found.tuning_queries
    assert all(part for part in held_out)


def test_too_few_judged_queries_is_an_error_with_the_number_needed():
    with pytest.raises(InsufficientDataError, match="at least 30 judged queries in each part"):
        tune(*world(40, strength={"vector": 1.0, "graph": 1.0}))


def test_queries_left_out_of_the_measure_do_not_count():
    rankings, judged, texts = world(200, strength={"vector": 1.0, "graph": 1.0})
    unknown = [Judgement(j.query, j.hops, last_hop_known=False) for j in judged]
    with pytest.raises(InsufficientDataError, match="the tuning part has 0"):
        tune(rankings, unknown, texts, measure=Measure("LastHop", 5))


def test_misaligned_input_is_refused():
    rankings, judged, texts = world(80, strength={"vector": 1.0, "graph": 1.0})
    for change in (
        ({**rankings, "graph": rankings["graph"][:-1]}, judged, texts),
        (rankings, judged, texts[:-1]),
        (rankings, [judged[0], *judged[:-1]], texts),
        ({}, judged, texts),
    ):
        with pytest.raises(InvalidInputError):
            tune(*change)


def test_ids_that_no_judgement_knows_are_no_gain_of_zero():
    judged = [Judgement(f"q{row}", ((f"p{row}",),)) for row in range(80)]
    lists = {"vector": [Ranking("vector", [f"x{row}"], [1.0]) for row in range(80)]}
    with pytest.raises(
        InvalidInputError, match=r"none of the 80 ids of rankings is judged.*returned id is 'x0'.*line\)$"
    ):
        tune(lists, judged, [one.query for one in judged])


def test_the_whole_space_runs_and_is_deterministic():
    data = world(70, strength={"vector": 1.0, "graph": 2.0})
    space = candidates(["vector", "graph"], sizes={"vector": 1000, "graph": 1000})
    assert len({candidate.name for candidate in space}) == len(space) > 50
    some = [space[0], *space[1::7], *space[-3:]]
    assert tune(*data, space=some).to_dict() == tune(*data, space=some).to_dict()


def test_three_sources_have_a_space_too():
    names = {candidate.name for candidate in candidates(["vector", "graph", "bm25"])}
    assert "linear over background, bm25 0.25" in names
    assert "learned weights over background" in names


def test_the_tuned_pipeline_survives_its_file(tmp_path):
    rankings, judged, _ = world(70, strength={"vector": 1.0, "graph": 2.0})
    for candidate in candidates(["vector", "graph"])[-2:]:
        pipeline = candidate.fit(rankings, judged)
        pipeline.save(tmp_path / "tuned.json")
        again = FusionPipeline.load(tmp_path / "tuned.json")
        both = [one.decide([rankings["vector"][0], rankings["graph"][0]]) for one in (pipeline, again)]
        assert both[0].ids == both[1].ids
        assert np.array_equal(both[0].fused, both[1].fused)


def test_learned_weights_follow_the_better_source():
    rankings, judged, _ = world(120, strength={"vector": 4.0, "graph": 0.5})
    weights = learn_weights(FusionPipeline(), rankings, judged)
    assert weights["vector"] > 0.6
    assert sum(weights.values()) == pytest.approx(1.0)
    assert min(weights.values()) >= 0


def test_learned_fusion_never_falls_when_a_score_rises():
    rankings, judged, _ = world(80, strength={"vector": 2.0, "graph": 1.0})
    background = Background(0.0, 1.0)
    stated = {
        name: [replace(ranking, background=background, raw=None) for ranking in lists]
        for name, lists in rankings.items()
    }
    pipeline = replace(FusionPipeline(), weights=learn_weights(FusionPipeline(), stated, judged))
    vector, graph = stated["vector"][0], stated["graph"][0]
    before = pipeline.decide([vector, graph], k=100)
    target = vector.ids[5]
    scores = vector.scores.copy()
    scores[5] += 0.4
    raised = Ranking("vector", vector.ids, scores, background=background)
    after = pipeline.decide([raised, graph], k=100)
    value = dict(zip(before.ids, before.fused, strict=True))
    assert dict(zip(after.ids, after.fused, strict=True))[target] >= value[target]


def test_learning_needs_relevant_candidates():
    rankings, judged, _ = world(10, strength={"vector": 1.0, "graph": 1.0})
    with pytest.raises(InsufficientDataError, match="at least 20 relevant"):
        learn_weights(FusionPipeline(), rankings, judged)


def test_unlabelled_calibration_fits_what_states_no_background():
    rankings, _, _ = world(30, strength={"vector": 1.0, "graph": 1.0})
    stated = [replace(ranking, background=Background(0.0, 1.0), raw=None) for ranking in rankings["graph"]]
    pipeline = calibrated_pipeline({"vector": rankings["vector"], "graph": stated}, sizes={"vector": 40})
    assert set(pipeline.calibrators) == {"vector"}
    assert isinstance(pipeline.calibrator, BackgroundCalibrator)
    result = pipeline.decide([rankings["vector"][0], stated[0]])
    assert {report.source: report.calibration for report in result.reports} == {"vector": "fitted", "graph": "exact"}


def test_unlabelled_calibration_needs_enough_queries():
    rankings, _, _ = world(19, strength={"vector": 1.0})
    with pytest.raises(InsufficientDataError, match="at least 20 queries"):
        calibrated_pipeline(rankings)
    with pytest.raises(InvalidInputError, match="at least one source"):
        calibrated_pipeline({})


def test_both_retrievers_load_the_tuned_file_and_answer_as_the_core_does(tmp_path):
    from langchain_core.documents import Document
    from llama_index.core.schema import TextNode

    from langchain_phasegraph import PhaseGraphRetriever
    from llama_index.retrievers.phasegraph import CalibratedFusionRetriever

    rankings, judged, _ = world(70, strength={"vector": 1.0, "graph": 2.0})
    tuned = candidates(["vector", "graph"])[-1].fit(rankings, judged)
    tuned.save(tmp_path / "tuned.json")
    lists = {name: rankings[name][0] for name in ("vector", "graph")}
    expected = list(tuned.decide(list(lists.values())).ids)

    def source(name, make):
        hits = zip(lists[name].ids, lists[name].scores.tolist(), strict=True)
        found = [(make(identifier), score) for identifier, score in hits]
        return lambda query: found

    chain = {name: source(name, lambda i: Document(page_content=f"text {i}", id=i)) for name in lists}
    found = PhaseGraphRetriever(**chain, pipeline=tmp_path / "tuned.json").invoke("What?")
    assert [document.id for document in found] == expected
    index = {name: source(name, lambda i: TextNode(id_=i, text=f"text {i}")) for name in lists}
    nodes = CalibratedFusionRetriever(**index, pipeline=tmp_path / "tuned.json").retrieve("What?")
    assert [node.node_id for node in nodes] == expected


def test_the_first_of_the_space_is_what_all_are_compared_with_and_what_stays():
    first = plain("ours", {"graph": 1.0, "vector": 0.0})
    found = tune(*world(200, strength={"vector": 0.0, "graph": 2.5}), space=(first, SPACE[2]))
    assert found.pipeline.weights == {"graph": 1.0, "vector": 0.0}
    assert found.confirmation_default == found.confirmation_chosen
    assert "none of 2 configurations beat the default" in found.verdict


def test_configurations_that_could_not_be_fitted_are_not_counted_as_tried():
    def never(rankings, judgements):
        raise InsufficientDataError("too few")

    found = tune(*world(90, strength={"vector": 1.0}), space=(*SPACE[::2], Candidate("never", never, fitted=True)))
    assert (found.tried, found.unfitted) == (2, 1)
    assert found.to_dict()["unfitted"] == 1


@pytest.mark.parametrize("space", [(), (Candidate("fitted", lambda r, j: FusionPipeline(), fitted=True),)])
def test_a_space_begins_with_a_default_that_needs_no_fitting(space):
    with pytest.raises(InvalidInputError, match="space must start with a default"):
        tune(*world(90, strength={"vector": 1.0}), space=space)


def test_a_source_read_the_wrong_way_round_is_refused_by_name():
    rankings, judged, texts = world(120, strength={"vector": 2.0, "graph": 2.0})
    rankings["graph"] = [Ranking("graph", one.ids, -one.scores) for one in rankings["graph"]]
    said = r"source 'graph' must score relevant.*higher_is_better=False"
    with pytest.raises(InvalidInputError, match=said):
        learn_weights(FusionPipeline(), rankings, judged)
    with pytest.raises(InvalidInputError, match=said):
        tune(rankings, judged, texts, space=SPACE)


def test_calibrating_keeps_how_far_the_sources_agree():
    rankings, _, _ = world(40, strength={"vector": 2.0, "graph": 2.0})
    floor = calibrated_pipeline(rankings).min_agreement
    assert sorted(floor) == [("graph", "vector"), ("vector", "graph")]
    assert all(0 <= share < 1 for share in floor.values())


def test_no_collection_stands_in_both_parts_or_in_two_folds():
    rankings, judged, texts = world(300, strength={"vector": 2.0, "graph": 0.0})
    groups = [f"c{row // 5}" for row in range(300)]
    of = {judgement.query: group for judgement, group in zip(judged, groups, strict=True)}
    seen = []

    def spy(rankings, judgements):
        seen.append({of[judgement.query] for judgement in judgements})
        return FusionPipeline()

    space = (SPACE[0], Candidate("spy", spy, fitted=True))
    found = tune(rankings, judged, texts, groups=groups, space=space)
    assert (found.tuning_groups + found.confirmation_groups, found.shared_groups) == (60, 0)
    assert found.tuning_queries == 5 * found.tuning_groups
    tuning = set.union(*seen)
    assert tuning == {of[judged[row].query] for row in split_by_id(groups, "tune").tolist()}
    held_out = [tuning - fold for fold in seen[:5]]
    assert sorted(group for fold in held_out for group in fold) == sorted(tuning)


def test_the_gain_is_tested_over_collections():
    """One collection's worth of luck, ten queries each, is no more than one draw."""
    rankings, judged, texts = world(300, strength={"vector": 1.5, "graph": 0.0})
    alone = tune(rankings, judged, texts, space=SPACE)
    grouped = tune(rankings, judged, texts, groups=[f"c{row // 30}" for row in range(300)], space=SPACE)
    assert grouped.confirmation_groups <= 10
    assert grouped.p >= 2 / 2**grouped.confirmation_groups
    assert alone.p < 2 / 2**10


def test_the_rows_given_are_those_that_confirm():
    rankings, judged, texts = world(200, strength={"vector": 2.0, "graph": 0.0})
    held = list(range(0, 200, 4))
    found = tune(rankings, judged, texts, confirmation=held, space=SPACE)
    assert (found.tuning_queries, found.confirmation_queries, found.shared_groups) == (150, 50, 0)
    with pytest.raises(InvalidInputError, match="rows of the 200 judged queries; got 200"):
        tune(rankings, judged, texts, confirmation=[*held, 200], space=SPACE)


def test_a_collection_in_both_parts_is_warned_about_and_counted():
    rankings, judged, texts = world(200, strength={"vector": 2.0, "graph": 0.0})
    groups = [f"c{row // 2}" for row in range(200)]
    with pytest.warns(PhasegraphWarning, match=r"50 groups are in both parts \(c0, c10, c12, …\)"):
        found = tune(rankings, judged, texts, groups=groups, confirmation=range(0, 200, 4), space=SPACE)
    assert found.shared_groups == 50
    with pytest.raises(InvalidInputError, match=r"groups must have one entry per judged query \(200\); got 199"):
        tune(rankings, judged, texts, groups=groups[1:], space=SPACE)


def test_confidence_is_fitted_on_one_part_and_scored_on_the_other():
    texts = [f"Where is town{row}?" for row in range(120)]
    corpus = {f"p{row}": f"town{row} is in the north" for row in range(120)}
    near = np.random.default_rng(0).normal(0.6, 0.05, 120)
    lists = [Ranking("vector", [f"p{row}", f"p{(row + 1) % 120}"], [near[row], 0.3]) for row in range(120)]
    judged = [Judgement(f"q{row}", ((f"p{row}",),)) for row in range(120)]

    def words(text, rankings):
        return read_hits(text, rankings, corpus.__getitem__)

    found = tune_confidence(FusionPipeline(), {"vector": lists}, judged, texts, words)
    assert found.queries == len(split_by_id([one.query for one in judged], "confirm"))
    assert found.auc == 1.0
    assert found.ece < 0.05
    assert found.brier < 0.02
    assert found.model.without == "no_walk"
    few = tune_confidence(FusionPipeline(), {"vector": lists[:20]}, judged[:20], texts[:20], words)
    assert (few.ece, few.brier, few.model.slope) == (None, None, None)
    mute = tune_confidence(
        FusionPipeline(), {"vector": lists}, judged, texts, lambda text, found: read_hits("", [], str)
    )
    assert mute is None
