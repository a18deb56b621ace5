"""A retriever survives a copy, a pickle and a trip to another process."""

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import llama_index.core
import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters
from llamaindex_stores import ORDER, Looked

from llama_index.retrievers.phasegraph import (
    CalibratedFusionRetriever,
    EntityGraphRetriever,
    PhaseGraphPostprocessor,
    text_model,
)

QUERIES = ["Page p1", "Where is Page p3?", "what of p5"]
RED = MetadataFilters(filters=[MetadataFilter(key="colour", value="red")])


def nodes():
    return [
        TextNode(id_=name, text=f"Page {name} is next to Page p{(row + 1) % 9}. text of {name}",
                 metadata={"title": f"Page {name}", "colour": ("red", "blue")[row % 2]})
        for row, name in enumerate(ORDER)
    ]  # fmt: skip


def made(**options):
    index = VectorStoreIndex(nodes(), embed_model=Looked())
    graph = EntityGraphRetriever.from_nodes(nodes(), embed_model=Looked(), seeds=index, metadata_key="graph")
    return CalibratedFusionRetriever(
        vector=index.as_retriever(), graph=graph, metadata_key="phasegraph", selection="mmr", **options
    )


def answers(retriever):
    return [[(hit.node_id, hit.score, hit.text) for hit in retriever.retrieve(query)] for query in QUERIES]


def pickled(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301


@pytest.mark.parametrize("way", [copy.deepcopy, pickled])
@pytest.mark.parametrize("options", [{}, {"filters": RED, "accept": {"vector": 0.2}, "k": 3}])
def test_a_copy_answers_the_same(way, options):
    retriever = made(**options)
    assert answers(way(retriever)) == answers(retriever)
    retriever.calibrate(QUERIES * 8, progress=False)
    other = way(retriever)
    assert other.fitted_pipeline.to_dict() == retriever.fitted_pipeline.to_dict()
    assert answers(other) == answers(retriever)
    assert answers(other.within(RED)) == answers(retriever.within(RED))


@pytest.mark.parametrize("way", [copy.deepcopy, pickled])
def test_a_graph_retriever_alone_answers_the_same(way):
    retriever = made()._by_name["graph"].retriever
    found = answers(way(retriever))
    assert found == answers(retriever)
    assert any(found)


def test_it_is_used_in_another_process(monkeypatch):
    """The index holds the framework's text splitter, whose tokenizer a new process loads anew: here without network."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(Path(llama_index.core.__file__).parent / "_static" / "tiktoken_cache"))
    retriever = made().calibrate(QUERIES * 8, progress=False)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as workers:
        assert workers.submit(answers, retriever).result(timeout=120) == answers(retriever)


def test_a_callback_manager_stays_behind():
    handler = LlamaDebugHandler(print_trace_on_end=False)
    retriever = made(callback_manager=CallbackManager([handler]))
    retriever.retrieve("Page p1")
    other = pickled(retriever)
    assert other.callback_manager.handlers == []
    assert copy.copy(retriever).callback_manager is retriever.callback_manager
    assert answers(other) == answers(retriever)


@pytest.mark.parametrize("way", [copy.deepcopy, pickled])
def test_filters_over_faiss_come_along(way):
    import faiss
    from llama_index.vector_stores.faiss import FaissVectorStore

    storage = StorageContext.from_defaults(vector_store=FaissVectorStore(faiss.IndexFlatIP(2)))
    index = VectorStoreIndex(nodes(), embed_model=Looked(), storage_context=storage)
    retriever = CalibratedFusionRetriever(vector=index, filters=RED)
    assert {hit.metadata["colour"] for hit in retriever.retrieve("Page p1")} == {"red"}
    assert answers(way(retriever)) == answers(retriever)


def test_results_nodes_and_the_postprocessor_too():
    from llama_index.core.llms import MockLLM

    retriever = made()
    found = retriever.retrieve("Page p1")
    assert pickled(found) == found
    assert dict(pickled(found)[0].metadata["phasegraph"]) == dict(found[0].metadata["phasegraph"])
    assert pickled(retriever.explain("Page p1")).ids == retriever.explain("Page p1").ids
    processor = PhaseGraphPostprocessor(top_n=2, weights={"a": 1.0})
    assert pickled(processor).fuse({"a": found}) == processor.fuse({"a": found})
    assert pickled(text_model(MockLLM()))("two words") == "two words"
