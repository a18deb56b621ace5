"""What calibrating a retriever fits: calibrators, agreement, whose scores they are, and which way round these stand."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from phasegraph import DegradedError, FusionPipeline, InvalidInputError, InvalidTypeError, PhasegraphWarning, Ranking
from phasegraph.retrieval import calibration_queries
from phasegraph.retrieval.engine import Plan, with_fitted
from phasegraph.retrieval.source_config import SourceSpec, fingerprint_of
from phasegraph.sources import CallableSource


def answers_of(pairs, shared=5):
    """Per query the rankings of two sources that share `shared` of ten hits, with scores that rise with the query."""
    found = []
    for row in range(pairs):
        ids = [f"p{i}" for i in range(10)]
        other = ids[:shared] + [f"q{i}" for i in range(10 - shared)]
        scores = np.arange(10.0, 0.0, -1.0) + row / pairs
        found.append((f"query {row}", [Ranking("graph", ids, scores), Ranking("vector", other, scores)]))
    return found


def plan_of(**specs):
    return Plan.of({name: SourceSpec(**{"retriever": len, **fields}) for name, fields in sorted(specs.items())})


def test_calibrating_fits_how_far_the_sources_agree():
    plan = plan_of(graph={}, vector={})
    fitted = plan.fit(answers_of(20))
    assert sorted(fitted.calibrators) == ["graph", "vector"]
    assert fitted.min_agreement == {("graph", "vector"): 0.5, ("vector", "graph"): 0.5}
    assert plan.with_fitted(fitted).pipeline.min_agreement == fitted.min_agreement
    assert with_fitted(None, fitted).min_agreement == fitted.min_agreement
    with pytest.warns(PhasegraphWarning, match="'graph' and 'vector' agree on nothing in most of the queries"):
        plan.fit(answers_of(20, shared=0))


def test_calibrating_with_labels_refuses_a_source_read_the_wrong_way_round():
    plan, answers = plan_of(graph={}, vector={}), answers_of(20)
    plan.fit(answers, {query: {"p0"} for query, _ in answers})
    with pytest.raises(InvalidInputError, match=r"source 'graph' must score relevant.*higher_is_better=False"):
        plan.fit(answers, {query: {"p9"} for query, _ in answers})


def test_calibration_labels_must_belong_to_the_queries():
    assert list(calibration_queries(["a", "b"], {"a": ["p"]}, False)) == ["a", "b"]
    with pytest.raises(InvalidInputError, match="'c' is not"):
        calibration_queries(["a", "b"], {"c": ["p"]}, False)
    with pytest.raises(InvalidTypeError, match="relevant"):
        calibration_queries(["a", "b"], {"a": "p"}, False)


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


def test_calibrators_of_another_model_are_warned_about_noted_and_refused_when_strict():
    old, new = ({"retriever": SimpleNamespace(vectorstore=Store(model(name)))} for name in ("old", "new"))
    fitted = plan_of(vector=old).fit([(query, rankings[1:]) for query, rankings in answers_of(20)])
    assert fitted.calibrators["vector"].fingerprint == "Store, SimpleNamespace old"
    pipeline = FusionPipeline.from_dict(fitted.on(FusionPipeline()).to_dict())
    assert plan_of(vector=old).with_pipeline(pipeline).foreign == {}
    with pytest.warns(PhasegraphWarning, match="calibrated on scores of Store, SimpleNamespace old, and is Store"):
        plan = plan_of(vector=new).with_pipeline(pipeline)
    found = plan.ask("who?", 1, lambda name, notes: CallableSource(name, lambda query, limit: [("a", 2.0)]))
    assert "calibrate it again" in found.reports[0].notes[0]
    with pytest.raises(DegradedError, match="of Store, SimpleNamespace old, and is Store, SimpleNamespace new"):
        plan_of(vector=new).with_pipeline(replace(pipeline, strict=True))
    again = plan.fit([(query, rankings[1:]) for query, rankings in answers_of(20)])
    assert plan.with_fitted(again).foreign == {}


def test_a_stated_fingerprint_is_taken_and_an_unknown_one_is_no_reason():
    stated = plan_of(vector={"fingerprint": "bge-small, 2024-01"})
    fitted = stated.fit([(query, rankings[1:]) for query, rankings in answers_of(20)])
    assert fitted.calibrators["vector"].fingerprint == "bge-small, 2024-01"
    assert plan_of(vector={}).with_fitted(fitted).foreign == {}
    with pytest.warns(PhasegraphWarning, match="bge-small, 2024-01, and is bge-small, 2025-06"):
        plan_of(vector={"fingerprint": "bge-small, 2025-06"}).with_fitted(fitted)
    with pytest.raises(InvalidTypeError, match="fingerprint must be text"):
        SourceSpec(retriever=len, fields=HitFields(fingerprint=" "))
