"""The engine: what calibrating fits, whose scores they are, and what a call does around deciding."""

import io
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from phasegraph import (
    CallableSource,
    DegradedError,
    FusionPipeline,
    InsufficientDataError,
    InvalidInputError,
    InvalidTypeError,
    PhasegraphWarning,
    Ranking,
)
from phasegraph.retrieval import FusionEngine, HitAccess, HitFields, Payloads, SourceSpec, with_progress
from phasegraph.retrieval.fingerprints import fingerprint_of
from phasegraph.retrieval.fitting import calibration_queries, fit_calibrators
from phasegraph.retrieval.identity import text_id
from phasegraph.selection import SelectionPolicy


def lists(source, queries=4, hits=10, **more):
    return [Ranking(source, [f"p{i}" for i in range(hits)], np.arange(hits) + q / 9.0, **more) for q in range(queries)]


def test_sources_with_scores_get_a_reference_calibrator_each_in_normal_scores():
    fitted = fit_calibrators([*lists("w"), *lists("v")], {"v": 1000, "w": None})
    assert list(fitted) == ["v", "w"]
    assert (fitted["v"].fraction, fitted["v"].size, fitted["v"].normal_scores) == (0.01, 1000, True)
    assert fitted["w"].size == 1_000_000


def test_the_size_a_ranking_states_is_used_and_a_share_never_exceeds_one():
    assert fit_calibrators(lists("v", size=500))["v"].fraction == 0.02
    assert fit_calibrators(lists("v"), {"v": 5})["v"].fraction == 1.0


def test_rank_only_sources_are_not_fitted():
    assert fit_calibrators([Ranking.from_hits("v", list("abcdef"), None)] * 10) == {}


def test_too_small_a_sample_is_an_error_that_names_the_source():
    with pytest.raises(InsufficientDataError, match=r"source 'v'.*20"):
        fit_calibrators(lists("v", queries=1))


def test_a_source_that_cannot_be_fitted_leaves_the_others_fitted_and_is_named():
    constant = [Ranking("flat", [f"p{i}" for i in range(10)], np.ones(10))] * 4
    with pytest.warns(PhasegraphWarning, match=r"'dead': it returned no hits; 'flat'.*two distinct"):
        fitted = fit_calibrators([*lists("v"), *constant], sources=["dead", "flat", "v"])
    assert list(fitted) == ["v"]
    with pytest.raises(DegradedError, match="'flat'"):
        fit_calibrators([*lists("v"), *constant], strict=True)


@pytest.mark.parametrize("queries", ["one text", None, [], ["a", " "], ["a", 3]])
def test_queries_must_be_several_texts(queries):
    with pytest.raises(InvalidInputError):
        calibration_queries(queries, None, False)
    with pytest.raises((InvalidInputError, InvalidTypeError)):
        calibration_queries(queries, None, False)


def test_without_a_terminal_there_is_no_bar(capsys):
    assert list(with_progress(["a", "b"], True)) == ["a", "b"]
    assert capsys.readouterr().err == ""


def test_on_a_terminal_a_bar_goes_along_unless_it_is_turned_off(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    assert list(with_progress(["a", "b"], False)) == ["a", "b"]
    assert screen.getvalue() == ""
    assert list(with_progress(["a", "b"], True)) == ["a", "b"]
    assert "calibrate" in screen.getvalue()
    assert "2/2" in screen.getvalue()


def answers_of(pairs, shared=5):
    """Per query the rankings of two sources that share `shared` of ten hits, with scores that rise with the query."""
    found = []
    for row in range(pairs):
        ids = [f"p{i}" for i in range(10)]
        other = ids[:shared] + [f"q{i}" for i in range(10 - shared)]
        scores = np.arange(10.0, 0.0, -1.0) + row / pairs
        found.append((f"query {row}", [Ranking("graph", ids, scores), Ranking("vector", other, scores)]))
    return found


def engine_of(**specs):
    return FusionEngine.of({name: SourceSpec(**{"retriever": len, **fields}) for name, fields in sorted(specs.items())})


def test_calibrating_fits_how_far_the_sources_agree():
    engine = engine_of(graph={}, vector={})
    fitted = engine.fit(answers_of(20))
    assert sorted(fitted.pipeline.calibrators) == ["graph", "vector"]
    assert fitted.pipeline.min_agreement == {("graph", "vector"): 0.5, ("vector", "graph"): 0.5}
    assert fitted.base.min_agreement == fitted.pipeline.min_agreement
    assert engine.pipeline.calibrators == {}
    with pytest.warns(PhasegraphWarning, match="agree on nothing in most of the calibration queries"):
        engine.fit(answers_of(20, shared=0))


def test_calibrating_with_labels_refuses_a_source_read_the_wrong_way_round():
    engine, answers = engine_of(graph={}, vector={}), answers_of(20)
    engine.fit(answers, {query: {"p0"} for query, _ in answers})
    with pytest.raises(InvalidInputError, match=r"source 'graph' must score relevant.*higher_is_better=False"):
        engine.fit(answers, {query: {"p9"} for query, _ in answers})


def test_calibrating_with_gains_takes_passages_with_a_gain_of_zero_as_not_relevant():
    engine, answers = engine_of(graph={}, vector={}), answers_of(20)
    gains = {"p0": 2} | {f"p{i}": 0 for i in range(5, 10)}
    assert engine.fit(answers, {query: gains for query, _ in answers}).pipeline.calibrators


def test_calibration_labels_must_belong_to_the_queries():
    many = ["a", "b", *map(str, range(18))]
    assert list(calibration_queries(many, {"a": ["p"]}, False)) == many
    with pytest.raises(InvalidInputError, match="got 'c'"):
        calibration_queries(["a", "b"], {"c": ["p"]}, False)
    with pytest.raises(InvalidTypeError, match="relevant"):
        calibration_queries(["a", "b"], {"a": "p"}, False)


def test_too_few_different_questions_say_how_many_are_needed():
    with pytest.raises(InsufficientDataError, match=r"at least 20 different texts.*got 3, and nothing was fitted"):
        calibration_queries(["a", "b", "c"] * 10, None, False)
    assert list(calibration_queries(map(str, range(20)), None, False)) == list(map(str, range(20)))


def test_a_source_that_answered_too_few_queries_is_not_fitted():
    with pytest.warns(PhasegraphWarning, match="'rare': calibrating needs at least 20 queries with hits; got 4"):
        fitted = fit_calibrators([*lists("v", queries=20), *lists("rare")], least=20)
    assert list(fitted) == ["v"]


def model(name):
    return SimpleNamespace(model_name=name)


class Store:
    def __init__(self, embeddings):
        self.embeddings = embeddings


def test_a_fingerprint_names_store_and_model_however_the_store_is_wrapped():
    store = Store(model("minilm"))
    for wrapped in (
        SimpleNamespace(vectorstore=store),
        SimpleNamespace(bound=SimpleNamespace(vectorstore=store)),
        SimpleNamespace(retriever=SimpleNamespace(_vector_store=store)),
        store,
    ):
        assert fingerprint_of(wrapped) == "Store, SimpleNamespace minilm"
    assert fingerprint_of(SimpleNamespace(k1=1.5)) == ""
    loop = SimpleNamespace()
    loop.retriever = loop
    assert fingerprint_of(loop) == ""


class Broken:
    @property
    def vectorstore(self):
        raise RuntimeError("not connected")


def test_what_cannot_be_read_has_no_fingerprint():
    assert fingerprint_of(Broken()) == ""


def judged(engine):
    return engine.fit([(query, rankings[1:]) for query, rankings in answers_of(20)])


def test_calibrators_of_another_model_are_warned_about_noted_and_refused_when_strict():
    old, new = ({"retriever": SimpleNamespace(vectorstore=Store(model(name)))} for name in ("old", "new"))
    fitted = judged(engine_of(vector=old))
    assert fitted.pipeline.calibrators["vector"].fingerprint == "Store, SimpleNamespace old"
    pipeline = FusionPipeline.from_dict(fitted.base.to_dict())
    assert engine_of(vector=old).with_pipeline(pipeline).mismatched == {}
    with pytest.warns(
        PhasegraphWarning, match="calibrated on scores of Store, SimpleNamespace old, but now gives scores of Store"
    ):
        engine = engine_of(vector=new).with_pipeline(pipeline)
    found, _ = engine.retrieve("who?", {"vector": CallableSource("vector", lambda query, limit: [("a", 2.0)])}, k=1)
    assert "calibrate it again" in found.reports[0].notes[0]
    with pytest.raises(
        DegradedError, match="of Store, SimpleNamespace old, but now gives scores of Store, SimpleNamespace new"
    ):
        engine_of(vector=new).with_pipeline(replace(pipeline, strict=True))
    assert judged(engine).mismatched == {}


def test_a_given_fingerprint_is_taken_and_an_unknown_one_is_no_reason():
    fitted = judged(engine_of(vector={"fields": HitFields(fingerprint="bge-small, 2024-01")}))
    assert fitted.pipeline.calibrators["vector"].fingerprint == "bge-small, 2024-01"
    assert engine_of(vector={}).with_pipeline(fitted.base).mismatched == {}
    with pytest.warns(PhasegraphWarning, match="bge-small, 2024-01, but now gives scores of bge-small, 2025-06"):
        engine_of(vector={"fields": HitFields(fingerprint="bge-small, 2025-06")}).with_pipeline(fitted.base)
    with pytest.raises(InvalidTypeError, match="fingerprint must be text"):
        HitFields(fingerprint=" ")


def test_hits_without_an_id_are_joined_before_deciding_and_the_report_says_so():
    engine = engine_of(a={}, b={})
    named = Ranking("a", ["x", "y"], [2.0, 1.0], payloads=Payloads(["x", "y"], ["one", "two"]))
    ids = [text_id("two"), text_id("three")]
    nameless = Ranking("b", ids, [2.0, 1.0], payloads=Payloads(ids, ["two", "three"]))
    sources = {one.source: CallableSource(one.source, lambda query, limit, one=one: one) for one in (named, nameless)}
    result, hits = engine.retrieve("who?", sources)
    assert set(result.ids) == {"x", "y", text_id("three")}
    assert {hit.payload for hit in hits} == {"one", "two", "three"}
    assert result.reports[1].notes == ("1 of 2 hits without an id joined to hits of other sources with the same text",)


async def test_a_selection_embeds_what_it_chooses_among_once_and_decides_once():
    asked = []

    def embed(texts):
        asked.append(texts)
        return [[float(text.count(letter)) for letter in "abcdef"] for text in texts]

    specs = {"v": SourceSpec(retriever=len)}
    engine = FusionEngine.of(specs, k=2, selection=SelectionPolicy(mu=5.0), access=HitAccess(embed=embed))
    found = Ranking("v", ["p", "q", "r"], [3.0, 2.9, 2.0], payloads={"p": "aaa", "q": "aaa", "r": "fff"})
    source = {"v": CallableSource("v", lambda query, limit: found)}
    assert set(engine.retrieve("who?", source)[0].ids) == {"p", "r"}
    assert set((await engine.aretrieve("who?", source))[0].ids) == {"p", "r"}
    assert asked == [["aaa", "aaa", "fff"]] * 2


def _lists(*best, source="v", distance=False):
    """A source whose answers have these best scores, one a call."""
    given = iter(best)

    def search(query, limit):
        top = next(given)
        scores = [top, top + 0.1] if distance else [top, top - 0.1]
        return Ranking.from_hits(source, ["a", "b"], scores, higher_is_better=not distance)

    return {source: CallableSource(source, search)}


def _asked(engine, sources, times):
    for _ in range(times):
        engine.retrieve("who?", sources)


def test_a_threshold_that_rejects_all_of_the_first_three_answers_warns_once():
    engine = FusionEngine.of({"v": SourceSpec(retriever=len)}, accept={"v": 0.9})
    sources = _lists(0.4, 0.3, 0.2, 0.1, 0.1, 0.1, 0.1)
    _asked(engine, sources, 2)
    with pytest.warns(
        PhasegraphWarning, match="threshold of 'v' rejected all hits .* first 3 answers: .* at least 0.9"
    ):
        engine.retrieve("who?", sources)
    _asked(engine, sources, 4)


def test_a_threshold_that_accepted_something_among_the_first_answers_never_warns():
    engine = FusionEngine.of({"v": SourceSpec(retriever=len)}, accept={"v": 0.9})
    _asked(engine, _lists(0.4, 0.95, *[0.1] * 8), 10)


def test_a_distance_read_as_a_similarity_would_be_noticed():
    engine = FusionEngine.of({"v": SourceSpec(retriever=len)}, accept={"v": 0.5})
    _asked(engine, _lists(0.4, 0.7, 0.7, 0.7, distance=True), 4)
    far = FusionEngine.of({"v": SourceSpec(retriever=len)}, accept={"v": 0.05})
    sources = _lists(0.4, 0.7, 0.7, distance=True)
    _asked(far, sources, 2)
    with pytest.warns(PhasegraphWarning, match="it accepts scores of at most 0.05, and the best hit now has 0.7"):
        far.retrieve("who?", sources)
