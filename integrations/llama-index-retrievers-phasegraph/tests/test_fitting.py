"""What calibrating sees besides the scores: their direction, how far sources agree, whose scores they are."""

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.llms import MockLLM
from llamaindex_stores import ORDER, Listed, Looked, hits, passages, simple

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, HitFields, SourceSpec
from phasegraph import DegradedError, InvalidInputError, PhasegraphWarning

QUERIES = [f"query {i}" for i in range(24)]


def distances():
    """Nearest last, as if distances were similarities."""
    return hits(**{name: i / 10 for i, name in enumerate(ORDER)})


@pytest.mark.filterwarnings("ignore:source 'vector'")
async def test_distances_read_as_similarities_are_refused_where_labels_show_it():
    relevant = {query: ["p0", "p1"] for query in QUERIES[:12]}
    wrong = CalibratedFusionRetriever(
        vector=SourceSpec(retriever=Listed(distances), fields=HitFields(higher_is_better=True))
    )
    said = r"source 'vector' must score relevant passages higher.*say higher_is_better=False"
    with pytest.raises(InvalidInputError, match=said):
        wrong.calibrate(QUERIES, relevant=relevant)
    with pytest.raises(InvalidInputError, match=said):
        await wrong.acalibrate(QUERIES, relevant=relevant)
    assert wrong.fitted_pipeline.calibrators == {}
    assert wrong.calibrate(QUERIES).fitted_pipeline.calibrators
    right = CalibratedFusionRetriever(
        vector=SourceSpec(retriever=Listed(distances), fields=HitFields(higher_is_better=False))
    )
    assert right.calibrate(QUERIES, relevant=relevant).fitted_pipeline.calibrators


def test_sources_that_agree_less_than_when_calibrated_are_warned_about():
    shown = ["p0", "p1", "p2", "p3"]
    other = Listed(lambda: hits(**{name: 1.0 - i / 10 for i, name in enumerate(shown)}))
    retriever = CalibratedFusionRetriever(vector=simple(), retrievers={"lexical": other}, limit=4)
    retriever.calibrate(QUERIES)
    assert retriever.fitted_pipeline.min_agreement[("lexical", "vector")] == 1.0
    assert retriever.explain("who?").warnings == ()
    shown[1:] = ["p8", "p7", "p6"]
    assert "agree on less than in 95 %" in retriever.explain("who?").warnings[0]


def test_calibrators_of_another_model_are_warned_about_and_refused_when_strict(tmp_path):
    file = tmp_path / "fitted.json"
    CalibratedFusionRetriever(vector=simple()).calibrate(["p1", "p3", "p5"]).save(file)
    other = VectorStoreIndex(passages(), embed_model=Looked(model_name="another"))
    said = "'vector': calibrated on scores of SimpleVectorStore, Looked unknown, and is SimpleVectorStore, Looked a"
    with pytest.warns(PhasegraphWarning, match=said):
        retriever = CalibratedFusionRetriever(vector=other.as_retriever(), pipeline=file)
    assert "Looked another now" in retriever.explain("p1").reports[0].notes[0]
    with pytest.raises(DegradedError, match="calibrated on scores of SimpleVectorStore"):
        CalibratedFusionRetriever(vector=other, pipeline=file, strict=True)
    assert CalibratedFusionRetriever(vector=simple().as_query_engine(llm=MockLLM()), pipeline=file, strict=True)
