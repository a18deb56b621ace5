"""Vectors for a selection: the nodes' own, else awaited within the deadline; and the context."""

import asyncio
import time

import pytest
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever
from phasegraph import FusionPipeline, InvalidInputError, InvalidTypeError
from phasegraph.selection import SelectionPolicy

APART = SelectionPolicy(mu=5.0)
SCORES = {"a": 9.0, "aa": 8.9, "b": 5.0, "c": 1.0}


def letters(text):
    return [float(text.count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"]


class Plain(BaseEmbedding):
    def _get_text_embedding(self, text):
        time.sleep(0.05)
        return letters(text)

    def _get_query_embedding(self, query):
        return letters(query)

    async def _aget_query_embedding(self, query):
        return letters(query)


class Native(Plain):
    def _get_text_embedding(self, text):
        raise AssertionError("the event loop was to be left free")

    async def _aget_text_embedding(self, text):
        await asyncio.sleep(0.05)
        return letters(text)


def source(*with_vector):
    def search(query):
        return [
            NodeWithScore(
                node=TextNode(id_=name, text=name, embedding=letters(name) if name in with_vector else None),
                score=score,
            )
            for name, score in SCORES.items()
        ]

    return search


def apart(embed_model=None, *with_vector, **more):
    return CalibratedFusionRetriever(vector=source(*with_vector), k=2, selection=APART, embed_model=embed_model, **more)


@pytest.mark.parametrize("model", [Plain(), Native()])
async def test_the_event_loop_runs_on_while_candidates_are_embedded(model):
    ticks = []

    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0.005)

    ticking = asyncio.create_task(tick())
    found = await apart(model).aretrieve("q")
    ticking.cancel()
    assert [hit.node_id for hit in found] == list(apart(Plain()).explain("q").ids) == ["a", "b"]
    assert len(ticks) > 5


def test_vectors_that_all_nodes_carry_are_used_and_nothing_is_embedded():
    class Never(Plain):
        def _get_text_embedding(self, text):
            raise AssertionError("all nodes carry a vector")

    assert apart(None, *SCORES).explain("q").ids == ("a", "b")
    assert apart(Never(), *SCORES).explain("q").warnings == ()
    assert apart(Plain(), "a").explain("q").ids == ("a", "b")


async def test_without_a_vector_or_an_embedder_the_first_query_says_so():
    with pytest.raises(InvalidInputError, match="embeddings: embed_model=, or context="):
        apart().retrieve("q")
    with pytest.raises(InvalidInputError, match="embeddings: embed_model=, or context="):
        await apart().aretrieve("q")


async def test_an_embedder_that_is_late_costs_the_selection_and_not_the_answer():
    class Late(Plain):
        async def _aget_text_embedding(self, text):
            await asyncio.sleep(30)

    begun = time.perf_counter()
    result = await apart(Late(), timeout=0.3).aexplain("q")
    assert time.perf_counter() - begun < 2
    assert result.ids == ("a", "aa")
    assert "TimeoutError" in result.warnings[-1]


@pytest.mark.parametrize("made", ["text", None, FusionPipeline()])
def test_a_context_that_is_none_is_a_clear_error(made):
    with pytest.raises(InvalidTypeError, match="context must return a Context"):
        CalibratedFusionRetriever(vector=source(), context=lambda query: made).retrieve("q")


async def test_a_context_may_be_a_coroutine_in_asynchronous_calls():
    async def context(query):
        return Context(query=query)

    retriever = CalibratedFusionRetriever(vector=source(), context=context)
    assert len(await retriever.aretrieve("q")) == 4
    with pytest.raises(InvalidTypeError, match="only asynchronous calls await"):
        retriever.retrieve("q")


def test_another_number_of_nodes_is_what_save_writes(tmp_path):
    retriever = CalibratedFusionRetriever(vector=source())
    retriever.similarity_top_k = 2
    retriever.save(tmp_path / "two.json")
    assert FusionPipeline.load(tmp_path / "two.json").k == 2
