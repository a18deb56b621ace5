"""The retriever as a whole: arguments, events, calibration, saving, engines, nesting."""

import asyncio
import copy
import inspect
import pickle
import threading
from typing import ClassVar

import llama_index.core.instrumentation as instrument
import numpy as np
import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever, RouterRetriever, VectorIndexRetriever
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import RetrieverTool
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters, VectorStoreQueryResult
from llamaindex_stores import Listed, Looked, hits, ids_of, listed, passages, simple
from tests.suites.manual_time import PATIENCE, on_clock, until

from llama_index.retrievers.phasegraph import (
    CalibratedFusionRetriever,
    EntityGraphRetriever,
    HitFields,
    PhaseGraphRetriever,
    SourceSpec,
    text_model,
)
from llama_index.retrievers.phasegraph.in_memory_store import StoreCache
from llama_index.retrievers.phasegraph.prepared_retriever import prepared
from llama_index.retrievers.phasegraph.retriever_traits import is_unheard
from phasegraph import AllSourcesFailed, InvalidInputError, InvalidTypeError, PhasegraphWarning
from phasegraph.graph import build_graph
from phasegraph.retrieval import Nearest, Recent, nearest

EIGHT = {f"p{i}": 1.0 - i / 10 for i in range(8)}
BACK = {f"p{i}": float(i) for i in range(7, -1, -1)}


def two(**options):
    return CalibratedFusionRetriever(vector=listed(**EIGHT), graph=listed(**BACK, other=-1.0), **options)


def shown(**sources):
    return CalibratedFusionRetriever(**sources, evidence_key="phasegraph")


class Seen(BaseEventHandler):
    found: list

    def handle(self, event, **kwargs):
        self.found.append((event.class_name(), event.tags.get("phasegraph_source")))


@pytest.fixture
def events():
    seen = Seen(found=[])
    dispatcher = instrument.get_dispatcher()
    dispatcher.add_event_handler(seen)
    yield seen.found
    dispatcher.event_handlers.remove(seen)


def retrievals(found):
    return sorted((kind, tag or "") for kind, tag in found if kind.startswith("Retrieval"))


def test_every_child_emits_its_start_and_end_once_under_its_name(events):
    two().retrieve("who?")
    expected = [(kind, tag) for kind in ("RetrievalEndEvent", "RetrievalStartEvent") for tag in ("", "graph", "vector")]
    assert retrievals(events) == expected


async def test_async_emits_the_same(events):
    await two().aretrieve("who?")
    assert len(retrievals(events)) == 6


class Spans(SimpleSpanHandler):
    """A span handler that records every span."""

    def new_span(self, id_, bound_args, instance=None, parent_span_id=None, tags=None, **kwargs):
        self.names.append(id_.partition("-")[0])
        return super().new_span(id_, bound_args, instance, parent_span_id, tags, **kwargs)

    names: ClassVar[list[str]] = []


def test_who_listens_hears_of_every_child_and_changes_no_answer():
    child = simple().as_retriever(similarity_top_k=5)
    ours = CalibratedFusionRetriever(retrievers={"vector": child, "other": listed(**BACK)})
    asked = prepared(child, 5, {}, StoreCache(Nearest(), Recent()))
    unheard = [(hit.node.node_id, hit.score) for hit in ours.retrieve("who?")]
    assert is_unheard(asked)
    heard, dispatcher = Seen(found=[]), instrument.get_dispatcher(BaseRetriever.__module__)
    spans, debug = Spans(), LlamaDebugHandler(print_trace_on_end=False)
    for add, remove in (
        (lambda: dispatcher.add_event_handler(heard), lambda: dispatcher.event_handlers.remove(heard)),
        (lambda: dispatcher.add_span_handler(spans), lambda: dispatcher.span_handlers.remove(spans)),
        (lambda: child.callback_manager.add_handler(debug), lambda: child.callback_manager.remove_handler(debug)),
    ):
        add()
        try:
            assert not is_unheard(asked)
            assert [(hit.node.node_id, hit.score) for hit in ours.retrieve("who?")] == unheard
        finally:
            remove()
    assert len(retrievals(heard.found)) == 6
    assert spans.names.count("VectorIndexRetriever.retrieve") == 1
    assert len(debug.get_event_pairs(CBEventType.RETRIEVE)) == 3  # all three use the manager of the settings
    assert is_unheard(asked)


def test_the_first_search_finds_the_vectors_of_an_in_memory_store_converted(monkeypatch):
    ours = CalibratedFusionRetriever(
        retrievers={"vector": simple().as_retriever(), "other": listed(**EIGHT)}, fetch_k=5
    )
    converted, unit = [], nearest._unit
    monkeypatch.setattr(nearest, "_unit", lambda vectors: (converted.append(len(vectors)), unit(vectors))[1])
    assert ours.retrieve("who?")
    assert set(converted) == {1}  # the question's


@pytest.mark.parametrize("awaited", [False, True])
async def test_a_child_that_says_itself_how_it_is_asked_is_asked_so(awaited):
    class Own(Listed):
        def retrieve(self, str_or_query_bundle):
            return [one for one in super().retrieve(str_or_query_bundle) if one.node_id != "p0"]

        async def aretrieve(self, str_or_query_bundle):
            return self.retrieve(str_or_query_bundle)

    ours = CalibratedFusionRetriever(retrievers={"own": Own(hits(**EIGHT))})
    found = await ours.aretrieve("who?") if awaited else ours.retrieve("who?")
    assert sorted(ids_of(found)) == sorted(set(EIGHT) - {"p0"})


def test_callbacks_of_the_framework_see_the_returned_nodes():
    debug = LlamaDebugHandler(print_trace_on_end=False)
    found = two(callback_manager=CallbackManager([debug])).retrieve("who?")
    ((_, end),) = debug.get_event_pairs(CBEventType.RETRIEVE)
    assert end.payload["nodes"] == found


def test_a_callback_manager_stays_behind_in_a_pickle():
    retriever = two(callback_manager=CallbackManager([LlamaDebugHandler(print_trace_on_end=False)]))
    found = retriever.retrieve("who?")
    other = pickle.loads(pickle.dumps(retriever))  # noqa: S301
    assert other.callback_manager.handlers == []
    assert copy.copy(retriever).callback_manager is retriever.callback_manager
    assert other.retrieve("who?") == found


def test_a_query_engine_answers_and_its_prompt_holds_no_provenance():
    class Reads(MockLLM):
        def complete(self, prompt, formatted=False, **kwargs):
            prompts.append(prompt)
            return super().complete(prompt, formatted, **kwargs)

    prompts = []
    engine = RetrieverQueryEngine.from_args(two(similarity_top_k=3, evidence_key="phasegraph"), llm=Reads(max_tokens=4))
    answer = engine.query("who?")
    assert len(answer.source_nodes) == 3
    assert all("phasegraph" in hit.metadata for hit in answer.source_nodes)
    assert prompts
    assert not any("phasegraph" in prompt or "contribution" in prompt for prompt in prompts)


def test_similarity_top_k_is_k():
    everything = two(k=9).retrieve("who?")
    for k in (0, 1, 5, 100):
        assert two(similarity_top_k=k).retrieve("who?") == everything[:k]
    retriever = two()
    retriever.similarity_top_k = 2
    assert len(retriever.retrieve("who?")) == 2


def test_node_ids_stay_although_another_id_joins_them():
    one = NodeWithScore(node=TextNode(id_="n1", text="t", metadata={"chunk": "c"}), score=1.0)
    other = NodeWithScore(node=TextNode(id_="n2", text="t", metadata={"chunk": "c"}), score=2.0)
    for where in ("chunk", lambda hit: hit.metadata["chunk"]):
        spec = {"fields": HitFields(id=where)}
        retriever = shown(
            vector=SourceSpec(retriever=Listed([one]), weight=2.0, **spec),
            graph=SourceSpec(retriever=Listed([other]), **spec),
        )
        (found,) = retriever.retrieve("who?")
        assert (found.node_id, found.metadata["phasegraph"]["id"]) == ("n1", "c")


def test_an_index_node_is_entered_as_in_every_retriever():
    deeper = TextNode(id_="deep", text="deep")
    node = IndexNode(text="pointer", index_id="x", obj=deeper)
    found = CalibratedFusionRetriever(vector=Listed([NodeWithScore(node=node, score=0.5)])).retrieve("who?")
    assert ids_of(found) == ["deep"]


async def tick(ticks):
    """Count the iterations of the event loop."""
    while True:
        ticks.append(1)
        await asyncio.sleep(0)


def runs_on(ticks):
    """Wait until the event loop has run further iterations."""
    before = len(ticks)
    until(lambda: len(ticks) > before + 5)


async def test_blocking_children_run_at_once_and_do_not_hold_the_event_loop():
    ticks, both = [], threading.Barrier(2, timeout=PATIENCE)

    def slow():
        both.wait()
        runs_on(ticks)
        return hits(a=1.0)

    ticking = asyncio.create_task(tick(ticks))
    retriever = CalibratedFusionRetriever(retrievers={"a": Listed(slow), "b": Listed(slow)}, timeout=None)
    result = await retriever.aexplain("who?")
    ticking.cancel()
    assert [report.status for report in result.reports] == ["ok", "ok"]


async def test_a_native_child_runs_on_the_callers_loop():
    threads = []

    class Native(Listed):
        async def _aretrieve(self, query_bundle):
            threads.append(threading.current_thread())
            return self.answer

    await CalibratedFusionRetriever(vector=Native(hits(a=1.0))).aretrieve("who?")
    assert threads == [threading.main_thread()]


def test_a_query_engine_has_the_scores_of_its_index(tmp_path):
    """Therefore, calibrators that were fitted on the index also fit the query engine, even with strict=True."""
    file = tmp_path / "fitted.json"
    questions = [f"question {n}" for n in range(24)]
    CalibratedFusionRetriever(vector=simple()).calibrate(questions, progress=False).save(file)
    assert CalibratedFusionRetriever(vector=simple().as_query_engine(llm=MockLLM()), pipeline=file, strict=True)


def test_nothing_of_the_children_is_changed():
    shared = hits(**EIGHT)
    before = copy.deepcopy(shared)
    bundle = QueryBundle("who?", custom_embedding_strs=["x"])
    CalibratedFusionRetriever(retrievers={"a": Listed(shared), "b": Listed(shared)}).retrieve(bundle)
    assert shared == before
    assert bundle == QueryBundle("who?", custom_embedding_strs=["x"])


BAD = [*(("similarity_top_k", value) for value in (-1, True, 1.5, "3")), ("evidence_key", " "), ("filters", [{"a": 1}])]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_wrong_argument_is_an_error_that_names_it_when_the_retriever_is_built(name, value):
    with pytest.raises(InvalidInputError, match=name):
        two(**{name: value})


def test_a_blank_bundle_is_an_error():
    with pytest.raises(InvalidInputError, match="query must not be empty"):
        two().retrieve(QueryBundle(""))


def test_what_it_does_not_know_is_an_error_and_both_counts_too():
    for name, meant in (("similarity_topk", "similarity_top_k"), ("filter", "filters")):
        with pytest.raises(InvalidTypeError, match=f"unexpected argument '{name}'; did you mean '{meant}'"):
            two(**{name: 3})
    with pytest.raises(InvalidInputError, match="are the same: give one of them"):
        two(k=3, similarity_top_k=3)


def test_the_signature_names_every_argument():
    named = inspect.signature(CalibratedFusionRetriever).parameters
    both = "vector graph retrievers k weights accept selection fetch_k timeout strict pipeline on_result evidence_key"
    both += " route rerank corrective"
    own = "max_query_length similarity_top_k filters required_filter_key callback_manager object_map objects verbose"
    own += " group_by parents unknown"
    assert sorted(named) == sorted([*both.split(), *own.split()])
    assert PhaseGraphRetriever is CalibratedFusionRetriever


def only(value):
    return MetadataFilters(filters=[MetadataFilter(key="colour", value=value)])


def coloured():
    nodes = [TextNode(id_=f"p{i}", text=f"text of p{i}", metadata={"colour": ("red", "blue")[i % 2]}) for i in range(6)]
    return VectorStoreIndex(nodes, embed_model=Looked()), nodes


def test_within_filters_it_is_the_retriever_that_has_them():
    index, nodes = coloured()
    sources = {"vector": index, "graph": EntityGraphRetriever.from_nodes(nodes)}
    own = CalibratedFusionRetriever(**sources, filters=only("red"))
    assert CalibratedFusionRetriever(**sources).within(only("red")).retrieve("what?") == own.retrieve("what?")
    assert own.retrieve("what?", filters=only("blue")) == []


def test_a_source_that_cannot_keep_filters_is_named_when_they_are_given():
    with pytest.raises(InvalidInputError, match="source 'graph' does not support filters="):
        two(filters=only("red"))
    with pytest.raises(InvalidInputError, match="source 'graph' does not support filters="):
        two().retrieve("who?", filters=only("red"))
    with pytest.raises(InvalidInputError, match="source 'vector' does not support filters="):
        CalibratedFusionRetriever(vector=lambda query: []).explain("who?", filters=only("red"))
    graph = EntityGraphRetriever(build_graph([{"id": "a", "text": "Ada met Bo."}]))
    with pytest.raises(InvalidInputError, match="filters= needs the metadata of the passages: give nodes="):
        CalibratedFusionRetriever(graph=graph, filters=only("red"))


def test_a_model_of_the_framework_becomes_a_function_of_a_prompt():
    for model in (text_model(MockLLM()), pickle.loads(pickle.dumps(text_model(MockLLM())))):  # noqa: S301
        assert model("some words") == "some words"
    with pytest.raises(InvalidTypeError, match="llm must be"):
        text_model("gpt")


async def test_searches_of_the_in_memory_store_take_turns_and_the_event_loop_runs_on(monkeypatch):
    """The store's search holds the interpreter lock, so fifty parallel searches would delay each other and the loop."""
    running, most, ticks, searched = 0, 0, [], 0
    plain, embedding = SimpleVectorStore.query, threading.Barrier(50, timeout=PATIENCE)

    def query(self, *args, **kwargs):
        nonlocal running, most, searched
        running += 1
        searched += 1
        most = max(most, running)
        if searched == 1:
            runs_on(ticks)
        found = plain(self, *args, **kwargs)
        running -= 1
        return found

    class Service(Looked):
        def _get_query_embedding(self, query):
            embedding.wait()  # what is no search of the store is done at once
            return super()._get_query_embedding(query)

    monkeypatch.setattr(SimpleVectorStore, "query", query)
    index = VectorStoreIndex(passages(), embed_model=Service())
    retriever = CalibratedFusionRetriever(vector=index, timeout=None)
    ticking = asyncio.create_task(tick(ticks))
    found = await asyncio.gather(*(retriever.aexplain(f"question {row}") for row in range(50)))
    ticking.cancel()
    assert [result.degraded for result in found] == [False] * 50
    assert (most, searched) == (1, 50)
    assert isinstance(index.vector_store, SimpleVectorStore)


async def test_a_search_of_the_in_memory_store_that_nobody_waits_for_any_more_is_not_begun(monkeypatch, clock, hang):
    begun = []

    def query(self, *args, **kwargs):
        begun.append(1)
        until(lambda: clock.waiting == 9)
        hang.function(0.5, beside=8)()
        return VectorStoreQueryResult(nodes=[], similarities=[], ids=[])

    monkeypatch.setattr(SimpleVectorStore, "query", query)
    retriever = on_clock(CalibratedFusionRetriever(vector=simple(), timeout=0.5), clock)
    with pytest.warns(PhasegraphWarning, match="failed"):
        found = await asyncio.gather(*(retriever.aretrieve("who?") for _ in range(9)), return_exceptions=True)
    assert {type(one) for one in found} == {AllSourcesFailed}
    hang.released.set()
    until(lambda: not hang.jobs)
    assert len(begun) == 1


@pytest.mark.parametrize("kind", ["fusion", "router", "engine"])
async def test_a_retriever_over_a_blocking_one_does_not_hold_the_event_loop(monkeypatch, kind):
    threads, plain = [], SimpleVectorStore.query

    def query(self, *args, **kwargs):
        threads.append(threading.current_thread())
        return plain(self, *args, **kwargs)

    class First(BaseSelector):
        def _select(self, choices, query):
            return SelectorResult(selections=[SingleSelection(index=0, reason="the first")])

        async def _aselect(self, choices, query):
            return self._select(choices, query)

        def _get_prompts(self):
            return {}

        def _update_prompts(self, prompts_dict):
            pass

    monkeypatch.setattr(SimpleVectorStore, "query", query)
    blocking = simple().as_retriever(similarity_top_k=9)
    asked = {
        "fusion": lambda: QueryFusionRetriever([blocking], llm=MockLLM(), num_queries=1, similarity_top_k=9),
        "router": lambda: RouterRetriever(First(), [RetrieverTool.from_defaults(blocking)], llm=MockLLM()),
        "engine": lambda: RetrieverQueryEngine.from_args(blocking, llm=MockLLM()),
    }[kind]()
    assert await CalibratedFusionRetriever(vector=asked).aretrieve("who?")
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.parametrize("narrow", [False, True])
def test_the_in_memory_store_answers_as_by_itself_and_looks_at_few_nodes(monkeypatch, narrow):
    rng = np.random.default_rng(7)
    vectors = rng.normal(size=(400, 6)).round(1) + 0.01
    vectors[20:30] = vectors[3]

    class Drawn(Looked):
        def _get_query_embedding(self, query):
            return np.random.default_rng(int(query)).normal(size=6).tolist()

    looked_at, plain = [], SimpleVectorStore.query

    def query(self, query, **kwargs):
        looked_at.append(len(self.data.embedding_dict) if query.node_ids is None else len(query.node_ids))
        return plain(self, query, **kwargs)

    nodes = [TextNode(id_=f"p{row}", text=f"text {row}", embedding=one.tolist()) for row, one in enumerate(vectors)]
    index = VectorStoreIndex(nodes, embed_model=Drawn())
    more = {"node_ids": [f"p{row}" for row in range(0, 400, 3)]} if narrow else {}
    own, asked = (VectorIndexRetriever(index, similarity_top_k=count, **more) for count in (20, 5))
    ours = CalibratedFusionRetriever(vector=asked, fetch_k=20, k=20)
    for turn in range(9):
        if turn == 3:
            index.insert_nodes([TextNode(id_="new", text="new", embedding=[1.0] * 6)])
        if turn == 6:
            index.delete_nodes(["p5", "p9"], delete_from_docstore=True)
        expected = {hit.node_id: hit.score for hit in own.retrieve(str(turn))}
        monkeypatch.setattr(SimpleVectorStore, "query", query)
        found = ours.explain(str(turn)).candidates.rankings[0]
        monkeypatch.setattr(SimpleVectorStore, "query", plain)
        assert dict(zip(found.ids, found.scores.tolist(), strict=True)) == expected
    assert max(looked_at) < 40


def test_its_repr_names_the_stores_and_indexes_behind_its_sources():
    said = repr(CalibratedFusionRetriever(vector=simple()))
    assert said == "CalibratedFusionRetriever(similarity_top_k=10, vector=VectorIndexRetriever of SimpleVectorStore)"
    made = CalibratedFusionRetriever.from_nodes(passages(), Looked(), progress=False)
    for name, kind in {"vector": "VectorSource", "graph": "GraphSource", "bm25": "LexicalSource"}.items():
        assert f"{name}=EntityGraphRetriever of {kind}" in repr(made)
