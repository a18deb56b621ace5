"""Fusion of existing lists."""

from langchain_core.documents import Document
from langchain_core.runnables import RunnableParallel
from langchain_stores import ids_of, listed

from langchain_phasegraph import HitFields, fuse_lists
from phasegraph import FusionPipeline


def test_fields_and_a_pipeline_of_ranks_are_used_together():
    lists = {"x": [Document("", id="a", metadata={"d": 2.0}), Document("", id="b", metadata={"d": 1.0})], "y": []}
    fields = {"x": HitFields(score="d", higher_is_better=False)}
    assert ids_of(fuse_lists(fields=fields, pipeline=FusionPipeline.reciprocal_rank()).invoke(lists)) == ["b", "a"]


async def test_it_stands_at_the_end_of_a_chain():
    chain = RunnableParallel(vector=listed("a", "b"), bm25=listed("b", "c")) | fuse_lists(k=2)
    assert ids_of(chain.invoke("q")) == ids_of(await chain.ainvoke("q"))
    assert ids_of(chain.invoke("q"))[0] == "b"
