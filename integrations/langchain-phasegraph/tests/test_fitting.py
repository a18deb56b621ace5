"""Fitting, saving and loading."""

import pytest
from langchain_stores import listed

from langchain_phasegraph import PhaseGraphRetriever, SourceSpec
from phasegraph import DegradedError, InsufficientDataError, IntegrityError


def test_calibrate_fits_every_scored_source_and_saving_keeps_it(tmp_path, store):
    retriever = PhaseGraphRetriever(
        vector=SourceSpec(retriever=store.as_retriever(), size=9), retrievers={"bm25": listed("p0", "p1")}, k=4
    )
    with pytest.raises(DegradedError, match="list alone"):
        PhaseGraphRetriever(vector=store, strict=True).invoke("p1")
    assert retriever.calibrate(["p1", "p3", "p5"], progress=True) is retriever
    assert retriever.explain("p1").reports[1].calibration == "fitted"
    assert retriever.fusion.calibrators["vector"].fraction == 1.0
    retriever.save(tmp_path / "fitted.json")
    again = PhaseGraphRetriever(
        vector=store, retrievers={"bm25": listed("p0", "p1")}, pipeline=tmp_path / "fitted.json"
    )
    assert again.k == 4
    assert again.invoke("p1") == retriever.invoke("p1")
    fresh = PhaseGraphRetriever(vector=store, retrievers={"bm25": listed("p0", "p1")})
    assert fresh.load(tmp_path / "fitted.json").invoke("p1", k=4) == retriever.invoke("p1")
    fitted = PhaseGraphRetriever(vector=store, strict=True, pipeline=again.fusion)
    assert fitted.invoke("p1")


async def test_calibrating_async_fits_the_same(store):
    first, second = PhaseGraphRetriever(vector=store), PhaseGraphRetriever(vector=store)
    first.calibrate(["p1", "p3", "p5"])
    await second.acalibrate(["p1", "p3", "p5"])
    assert first.fusion.to_dict() == second.fusion.to_dict()


def test_too_few_queries_and_damaged_files_are_clear_errors(tmp_path, store):
    with pytest.raises(InsufficientDataError, match="vector"):
        PhaseGraphRetriever(vector=store, limit=3).calibrate(["p1"])
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(IntegrityError, match=r"bad\.json"):
        PhaseGraphRetriever(vector=store, pipeline=tmp_path / "bad.json")
