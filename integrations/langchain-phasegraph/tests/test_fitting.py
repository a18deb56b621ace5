"""Fitting, saving and loading."""

import pytest
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_stores import ORDER, Fixed, Listed, listed, pairs, passages

from langchain_phasegraph import HitFields, PhaseGraphRetriever, SourceSpec
from phasegraph import DegradedError, InsufficientDataError, IntegrityError, InvalidInputError, PhasegraphWarning


def test_calibrate_fits_every_scored_source_and_saving_keeps_it(tmp_path, store):
    retriever = PhaseGraphRetriever(
        vector=SourceSpec(retriever=store.as_retriever(), fields=HitFields(size=9)),
        retrievers={"bm25": listed("p0", "p1")},
        k=4,
    )
    with pytest.raises(DegradedError, match="list alone"):
        PhaseGraphRetriever(vector=store, strict=True).invoke("p1")
    assert retriever.calibrate(["p1", "p3", "p5"], progress=True) is retriever
    assert retriever.explain("p1").reports[1].calibration == "fitted"
    assert retriever.fitted_pipeline.calibrators["vector"].fraction == 1.0
    retriever.save(tmp_path / "fitted.json")
    again = PhaseGraphRetriever(
        vector=store, retrievers={"bm25": listed("p0", "p1")}, pipeline=tmp_path / "fitted.json"
    )
    assert again.fitted_pipeline.k == 4
    assert again.invoke("p1") == retriever.invoke("p1")
    fresh = PhaseGraphRetriever(vector=store, retrievers={"bm25": listed("p0", "p1")})
    assert fresh.load(tmp_path / "fitted.json").invoke("p1", k=4) == retriever.invoke("p1")
    fitted = PhaseGraphRetriever(vector=store, strict=True, pipeline=again.fitted_pipeline)
    assert fitted.invoke("p1")


async def test_calibrating_async_fits_the_same(store):
    first, second = PhaseGraphRetriever(vector=store), PhaseGraphRetriever(vector=store)
    first.calibrate(["p1", "p3", "p5"])
    await second.acalibrate(["p1", "p3", "p5"])
    assert first.fitted_pipeline.to_dict() == second.fitted_pipeline.to_dict()


def test_too_few_queries_and_damaged_files_are_clear_errors(tmp_path, store):
    with pytest.raises(InsufficientDataError, match="vector"):
        PhaseGraphRetriever(vector=store, limit=3).calibrate(["p1"])
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(IntegrityError, match=r"bad\.json"):
        PhaseGraphRetriever(vector=store, pipeline=tmp_path / "bad.json")


QUERIES = [f"query {i}" for i in range(24)]


def distances(query):
    """Nearest last, as if distances were similarities; they move a little with the query."""
    return pairs(**{name: (i + len(query) / 100) / 10 for i, name in enumerate(ORDER)})


@pytest.mark.filterwarnings("ignore:source 'vector'")
async def test_distances_read_as_similarities_are_refused_where_labels_show_it():
    relevant = {query: ["p0", "p1"] for query in QUERIES[:12]}
    wrong = PhaseGraphRetriever(vector=SourceSpec(retriever=distances, fields=HitFields(higher_is_better=True)))
    said = r"source 'vector' must score relevant passages higher.*say higher_is_better=False"
    with pytest.raises(InvalidInputError, match=said):
        wrong.calibrate(QUERIES, relevant=relevant)
    with pytest.raises(InvalidInputError, match=said):
        await wrong.acalibrate(QUERIES, relevant=relevant)
    assert wrong.fitted_pipeline.calibrators == {}
    assert wrong.calibrate(QUERIES).fitted_pipeline.calibrators
    right = PhaseGraphRetriever(vector=SourceSpec(retriever=distances, fields=HitFields(higher_is_better=False)))
    assert right.calibrate(QUERIES, relevant=relevant).fitted_pipeline.calibrators
    with pytest.raises(InvalidInputError, match="relevant must name queries among those given"):
        right.calibrate(QUERIES, relevant={"another": ["p0"]})


def test_sources_that_agree_less_than_when_calibrated_are_warned_about(store):
    shown = ["p0", "p1", "p2", "p3"]
    other = Listed(answer=lambda: pairs(**{name: 1.0 - i / 10 for i, name in enumerate(shown)}))
    retriever = PhaseGraphRetriever(vector=store, retrievers={"lexical": other}, limit=4)
    retriever.calibrate(QUERIES)
    assert retriever.fitted_pipeline.min_agreement[("lexical", "vector")] == 1.0
    assert retriever.explain("who?").warnings == ()
    shown[1:] = ["p8", "p7", "p6"]
    assert "agree on less than in 95 %" in retriever.explain("who?").warnings[0]


def test_calibrators_of_another_model_are_warned_about_and_refused_when_strict(tmp_path, store):
    class Renamed(Fixed):
        model_name = "another"

    PhaseGraphRetriever(vector=store.as_retriever()).calibrate(["p1", "p3", "p5"]).save(tmp_path / "fitted.json")
    other = InMemoryVectorStore(Renamed())
    other.add_documents(passages())
    with pytest.warns(PhasegraphWarning, match="'vector': calibrated on scores of InMemoryVectorStore, Fixed, and is"):
        retriever = PhaseGraphRetriever(vector=other, pipeline=tmp_path / "fitted.json")
    assert "InMemoryVectorStore, Renamed another now" in retriever.explain("p1").reports[0].notes[0]
    with pytest.raises(DegradedError, match="calibrated on scores of InMemoryVectorStore, Fixed"):
        PhaseGraphRetriever(vector=other, pipeline=tmp_path / "fitted.json", strict=True)
    assert PhaseGraphRetriever(vector=store, pipeline=tmp_path / "fitted.json", strict=True).invoke("p1")
