"""Vectors for a selection: awaited, within the deadline, refused early where there can be none."""

import asyncio
import time

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_stores import ids_of, pairs

from langchain_phasegraph import PhaseGraphRetriever
from phasegraph import FusionPipeline, InvalidInputError
from phasegraph.selection import SelectionPolicy

APART = SelectionPolicy(mu=5.0)


def letters(texts):
    return [[float(text.count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]


class Plain(Embeddings):
    def embed_documents(self, texts):
        time.sleep(0.2)
        return letters(texts)

    def embed_query(self, text):
        return letters([text])[0]


class Native(Plain):
    def embed_documents(self, texts):
        raise AssertionError("the event loop was to be left free")

    async def aembed_documents(self, texts):
        await asyncio.sleep(0.2)
        return letters(texts)


def apart(embeddings, **more):
    found = pairs(a=9.0, aa=8.9, b=5.0, c=1.0)
    sources = {"vector": lambda q: found, "store": InMemoryVectorStore(embeddings) if embeddings else lambda q: []}
    return PhaseGraphRetriever(retrievers=sources, weights={"vector": 1, "store": 0}, k=2, selection=APART, **more)


@pytest.mark.parametrize("embeddings", [Plain(), Native()])
async def test_the_event_loop_runs_on_while_candidates_are_embedded(embeddings):
    ticks = []

    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    found = await apart(embeddings).ainvoke("q")
    ticking.cancel()
    assert ids_of(found) == ids_of(apart(Plain()).invoke("q"))
    assert len(ticks) > 5


async def test_an_embedder_that_is_late_costs_the_selection_and_not_the_answer():
    class Late(Plain):
        async def aembed_documents(self, texts):
            await asyncio.sleep(30)

    begun = time.perf_counter()
    result = await apart(Late(), timeout=0.3).aexplain("q")
    assert time.perf_counter() - begun < 2
    assert result.ids == ("a", "aa")
    assert "TimeoutError" in result.warnings[-1]


def test_a_selection_without_embeddings_is_refused_when_the_retriever_is_built(tmp_path):
    with pytest.raises(
        InvalidInputError, match="selection by log_det needs embeddings of the candidates, and no source has"
    ):
        apart(None)
    FusionPipeline(selection=APART).save(tmp_path / "apart.json")
    with pytest.raises(InvalidInputError, match="no source has an embedding model"):
        PhaseGraphRetriever(vector=lambda q: [], pipeline=tmp_path / "apart.json")
