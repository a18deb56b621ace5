"""Fusion of existing lists."""

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableParallel
from langchain_stores import ids_of, listed

from langchain_phasegraph import HitFields, fuse_lists
from phasegraph import FusionPipeline, PhasegraphWarning


def test_fields_and_a_pipeline_of_ranks_are_used_together():
    lists = {"x": [Document("", id="a", metadata={"d": 2.0}), Document("", id="b", metadata={"d": 1.0})], "y": []}
    fields = {"x": HitFields(score="d", higher_is_better=False)}
    assert ids_of(fuse_lists(fields=fields, pipeline=FusionPipeline.reciprocal_rank()).invoke(lists)) == ["b", "a"]


async def test_it_stands_at_the_end_of_a_chain():
    chain = RunnableParallel(vector=listed("a", "b"), bm25=listed("b", "c")) | fuse_lists(k=2)
    assert ids_of(chain.invoke("q")) == ids_of(await chain.ainvoke("q"))
    assert ids_of(chain.invoke("q"))[0] == "b"


def test_an_id_of_two_texts_is_told_once_for_each_list_and_not_in_every_call():
    fusion = fuse_lists()
    lists = {name: [Document(f"text of {name}", metadata={"doc_id": "d"})] for name in ("x", "y")}
    with pytest.warns(PhasegraphWarning, match="name different texts in other sources") as told:
        assert len(fusion.invoke(lists)) == len(fusion.invoke(lists)) == 2
    assert [str(one.message)[:10] for one in told] == ["source 'x'", "source 'y'"]
