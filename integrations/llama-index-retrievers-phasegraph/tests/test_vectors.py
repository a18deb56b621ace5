"""Vectors for a selection: the nodes' own, else those of the first source's model, awaited within the timeout."""

import asyncio
import time

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_stores import Listed

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever
from phasegraph import FusionPipeline
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
    return Listed(
        [
            NodeWithScore(
                node=TextNode(id_=name, text=name, embedding=letters(name) if name in with_vector else None),
                score=score,
            )
            for name, score in SCORES.items()
        ]
    )


def apart(embed_model=None, *with_vector, **more):
    vector = source(*with_vector)
    vector._embed_model = embed_model
    return CalibratedFusionRetriever(vector=vector, k=2, selection=APART, **more)


def test_the_model_of_an_index_embeds_its_candidates():
    index = VectorStoreIndex([TextNode(id_=name, text=name) for name in ("ab", "abb", "bc")], embed_model=Plain())
    for given in (index, index.as_retriever()):
        assert CalibratedFusionRetriever(vector=given, k=2).explain("ab").ids == ("ab", "abb")
        result = CalibratedFusionRetriever(vector=given, k=2, selection=APART).explain("ab")
        assert result.warnings == ()
        assert result.ids == ("ab", "bc")


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


async def test_without_a_vector_or_an_embedder_the_answer_is_the_fused_one_and_says_so():
    for result in (apart().explain("q"), await apart().aexplain("q")):
        assert result.ids == ("a", "aa")
        assert "no source has an embedding model, and not all hits one" in result.warnings[-1]


async def test_an_embedder_that_is_late_costs_the_selection_and_not_the_answer():
    class Late(Plain):
        async def _aget_text_embedding(self, text):
            await asyncio.sleep(30)

    begun = time.perf_counter()
    result = await apart(Late(), timeout=0.3).aexplain("q")
    assert time.perf_counter() - begun < 2
    assert result.ids == ("a", "aa")
    assert "TimeoutError" in result.warnings[-1]


def test_another_number_of_nodes_is_what_save_writes(tmp_path):
    retriever = CalibratedFusionRetriever(vector=source())
    retriever.similarity_top_k = 2
    retriever.save(tmp_path / "two.json")
    assert FusionPipeline.load(tmp_path / "two.json").k == 2
