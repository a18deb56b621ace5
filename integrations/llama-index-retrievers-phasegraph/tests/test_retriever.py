"""The retriever as a whole: arguments, events, calibration, saving, engines, nesting."""

import asyncio
import copy
import inspect
import threading
import time

import llama_index.core.instrumentation as instrument
import pytest
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle, TextNode
from llamaindex_stores import Listed, hits, ids_of, listed, simple

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, SourceSpec, text_model
from phasegraph import FusionPipeline, IntegrityError, InvalidInputError, InvalidTypeError, PhasegraphWarning, Ranking

EIGHT = {f"p{i}": 1.0 - i / 10 for i in range(8)}
BACK = {f"p{i}": float(i) for i in range(7, -1, -1)}


def two(**options):
    return CalibratedFusionRetriever(vector=listed(**EIGHT), graph=listed(**BACK, other=-1.0), **options)


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


def test_callbacks_of_the_framework_see_the_returned_nodes():
    debug = LlamaDebugHandler(print_trace_on_end=False)
    found = two(callback_manager=CallbackManager([debug])).retrieve("who?")
    ((_, end),) = debug.get_event_pairs(CBEventType.RETRIEVE)
    assert end.payload["nodes"] == found


def test_a_query_engine_answers_and_its_prompt_holds_no_provenance():
    class Reads(MockLLM):
        def complete(self, prompt, formatted=False, **kwargs):
            prompts.append(prompt)
            return super().complete(prompt, formatted, **kwargs)

    prompts = []
    engine = RetrieverQueryEngine.from_args(two(similarity_top_k=3), llm=Reads(max_tokens=4))
    answer = engine.query("who?")
    assert len(answer.source_nodes) == 3
    assert all("phasegraph" in hit.metadata for hit in answer.source_nodes)
    assert prompts
    assert not any("phasegraph" in prompt or "contribution" in prompt for prompt in prompts)


def test_the_answer_is_that_of_the_core():
    expected = FusionPipeline().decide(
        [
            Ranking("vector", list(EIGHT), list(EIGHT.values())),
            Ranking("graph", [*BACK, "other"], [*BACK.values(), -1.0]),
        ]
    )
    found = two().retrieve("who?")
    assert ids_of(found) == list(expected.ids)
    assert [hit.score for hit in found] == pytest.approx(expected.scores.tolist(), abs=1e-12)


def test_what_is_asked_for_changes_how_many_come_and_nothing_else():
    everything = two(k=9).retrieve("who?")
    for k in (0, 1, 5, 100):
        found = two(similarity_top_k=k).retrieve("who?")
        assert [(hit.node_id, hit.score) for hit in found] == [(hit.node_id, hit.score) for hit in everything[:k]]
    assert len(two().explain("who?", k=4)) == 4
    retriever = two()
    retriever.similarity_top_k = 2
    assert len(retriever.retrieve("who?")) == 2


def test_weight_zero_is_not_asked():
    asked = []
    never = Listed(lambda: asked.append(1) or hits(a=1.0))
    retriever = CalibratedFusionRetriever(
        vector=SourceSpec(retriever=listed(**EIGHT), weight=1.0), graph=SourceSpec(retriever=never, weight=0.0)
    )
    assert ids_of(retriever.retrieve("who?"))[0] == "p0"
    assert asked == []


def test_node_ids_stay_although_another_id_joins_them():
    one = NodeWithScore(node=TextNode(id_="n1", text="t", metadata={"chunk": "c"}), score=1.0)
    other = NodeWithScore(node=TextNode(id_="n2", text="t", metadata={"chunk": "c"}), score=2.0)
    spec = {"id_fn": lambda hit: hit.metadata["chunk"]}
    retriever = CalibratedFusionRetriever(
        vector=SourceSpec(retriever=Listed([one]), weight=2.0, **spec),
        graph=SourceSpec(retriever=Listed([other]), **spec),
    )
    (found,) = retriever.retrieve("who?")
    assert (found.node_id, found.metadata["phasegraph"]["id"]) == ("n1", "c")


def test_scores_can_be_read_from_metadata_or_by_a_function():
    nodes = [NodeWithScore(node=TextNode(id_=n, text=n, metadata={"d": d}), score=1.0) for n, d in (("a", 3), ("b", 1))]
    for reader in ({"score_key": "d"}, {"score_fn": lambda hit: hit.metadata["d"]}):
        spec = SourceSpec(retriever=Listed(nodes), higher_is_better=False, **reader)
        assert ids_of(CalibratedFusionRetriever(vector=spec).retrieve("who?")) == ["b", "a"]


@pytest.mark.filterwarnings("ignore:source 'graph'.*declared higher_is_better=True")
def test_functions_take_a_limit_and_the_rankings_they_need_and_may_be_coroutines():
    def dense(query, limit):
        return [(TextNode(id_=f"p{i}", text="t"), 1.0 - i / 100) for i in range(limit)]

    async def walk(query, k, upstream):
        return [(TextNode(id_=name, text="t"), float(row)) for row, name in enumerate(upstream["vector"].ids)][:k]

    graph = SourceSpec(retriever=walk, depends_on=["vector"], limit=4, higher_is_better=True)
    retriever = CalibratedFusionRetriever(vector=SourceSpec(retriever=dense, limit=6), graph=graph)
    reports = {report.source: report.hits for report in retriever.explain("who?").reports}
    assert reports == {"graph": 4, "vector": 6}
    assert asyncio.run(retriever.aexplain("who?")).ids == retriever.explain("who?").ids


def test_retrievers_nest_and_keep_what_the_inner_one_said():
    inner = CalibratedFusionRetriever(vector=listed(**EIGHT), k=3)
    found = CalibratedFusionRetriever(retrievers={"inner": inner, "other": listed(**BACK)}, k=8).retrieve("who?")
    (best,) = [hit for hit in found if hit.node_id == "p0"]
    assert best.metadata["phasegraph"]["sources"]["inner"]["evidence"]["sources"]["vector"]["rank"] == 1.0
    assert inner.similarity_top_k == 3


def test_an_index_node_is_entered_as_in_every_retriever():
    deeper = TextNode(id_="deep", text="deep")
    node = IndexNode(text="pointer", index_id="x", obj=deeper)
    found = CalibratedFusionRetriever(vector=Listed([NodeWithScore(node=node, score=0.5)])).retrieve("who?")
    assert ids_of(found) == ["deep"]


def test_sync_inside_a_running_loop_works():
    async def inside():
        return two().retrieve("who?")

    assert ids_of(asyncio.run(inside())) == ids_of(two().retrieve("who?"))


async def test_a_blocking_child_does_not_hold_the_event_loop():
    def slow():
        time.sleep(0.15)
        return hits(a=1.0)

    ticks = []

    async def tick():
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    start = time.monotonic()
    await CalibratedFusionRetriever(retrievers={"a": Listed(slow), "b": Listed(slow)}).aretrieve("who?")
    elapsed = time.monotonic() - start
    ticking.cancel()
    assert elapsed < 0.29
    assert len(ticks) > 4


async def test_a_native_child_runs_on_the_callers_loop():
    threads = []

    class Native(Listed):
        async def _aretrieve(self, query_bundle):
            threads.append(threading.current_thread())
            return self.answer

    await CalibratedFusionRetriever(vector=Native(hits(a=1.0))).aretrieve("who?")
    assert threads == [threading.main_thread()]


def test_calibration_saving_and_loading_keep_every_score(tmp_path):
    index = simple()
    retriever = CalibratedFusionRetriever(vector=SourceSpec(retriever=index, size=9), graph=listed(**BACK), k=4)
    assert retriever.calibrate([f"query {i}" for i in range(5)], progress=False) is retriever
    assert {report.calibration for report in retriever.explain("p3").reports} == {"fitted"}
    retriever.save(tmp_path / "fitted.json")
    fresh = CalibratedFusionRetriever(vector=index, graph=listed(**BACK), pipeline=tmp_path / "fitted.json")
    loaded = CalibratedFusionRetriever(vector=index, graph=listed(**BACK)).load(tmp_path / "fitted.json")
    expected = [(hit.node_id, hit.score) for hit in retriever.retrieve("p3")]
    for other in (fresh, loaded):
        assert [(hit.node_id, hit.score) for hit in other.retrieve("p3")] == expected
    (tmp_path / "fitted.json").write_text("{}", encoding="utf-8")
    with pytest.raises(IntegrityError):
        fresh.load(tmp_path / "fitted.json")


async def test_calibration_is_the_same_async():
    one, other = two(), two()
    queries = [f"query {i}" for i in range(4)]
    one.calibrate(queries, progress=False)
    await other.acalibrate(queries, progress=False)
    assert one.fusion.to_dict() == other.fusion.to_dict()


async def test_a_listener_hears_every_result_and_never_costs_the_answer():
    heard = []
    retriever = two(on_result=heard.append)
    retriever.retrieve("who?")
    await retriever.aretrieve("who?")
    assert [len(result) for result in heard] == [9, 9]
    with pytest.warns(PhasegraphWarning, match="on_result raised ZeroDivisionError"):
        assert two(on_result=lambda result: 1 / 0).retrieve("who?")


def test_nothing_of_the_children_is_changed():
    shared = hits(**EIGHT)
    before = copy.deepcopy(shared)
    bundle = QueryBundle("who?", custom_embedding_strs=["x"])
    CalibratedFusionRetriever(retrievers={"a": Listed(shared), "b": Listed(shared)}).retrieve(bundle)
    assert shared == before
    assert bundle == QueryBundle("who?", custom_embedding_strs=["x"])


@pytest.mark.parametrize("query", [None, 7, b"who?", ["who?"]])
def test_a_query_that_is_no_text_is_an_error(query):
    with pytest.raises(InvalidTypeError, match="query must be text"):
        two().retrieve(query)
    with pytest.raises(InvalidTypeError, match="query must be text"):
        asyncio.run(two().aretrieve(query))


@pytest.mark.parametrize("query", ["", "  \n", QueryBundle("")])
def test_a_blank_query_is_an_error(query):
    with pytest.raises(InvalidInputError, match="query must not be empty"):
        two().retrieve(query)


BAD = {
    "similarity_top_k": [-1, True, 1.5, "3"],
    "k": [-1, True, 2.0],
    "limit": [0, True, "many"],
    "timeout": [0, -1.0, float("nan"), "soon"],
    "weights": [{"vector": float("nan"), "graph": 1}, {"vector": -1, "graph": 1}, {"vector": 0, "graph": 0},
                {"vector": 1}, {"vector": 1, "graph": 1, "x": 1}, [1, 2]],
    "strict": ["yes"],
    "provenance": ["yes"],
    "on_result": [7],
    "context": ["now"],
    "retrievers": [{"vector": listed()}, {"": listed()}, {"x": None}, [listed()]],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_a_wrong_argument_is_an_error_that_names_it_when_the_retriever_is_built(name, value):
    with pytest.raises((InvalidInputError, InvalidTypeError)) as caught:
        two(**{name: value})
    wanted = "source names" if name == "retrievers" and "vector" in value else name
    assert wanted in str(caught.value)


def test_unknown_arguments_no_sources_and_both_counts_are_errors():
    with pytest.raises(TypeError, match="similarity_topk"):
        two(similarity_topk=3)
    with pytest.raises(InvalidInputError, match="at least one source"):
        CalibratedFusionRetriever()
    with pytest.raises(InvalidInputError, match="must not both be given"):
        two(k=3, similarity_top_k=3)
    with pytest.raises(InvalidTypeError, match="a source must be a LlamaIndex retriever"):
        CalibratedFusionRetriever(vector=42)


def test_the_signature_names_every_argument():
    kinds = {one.kind for one in inspect.signature(CalibratedFusionRetriever).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds


def test_a_model_of_the_framework_becomes_a_function_of_a_prompt():
    assert text_model(MockLLM())("some words") == "some words"
    with pytest.raises(InvalidTypeError, match="llm must be"):
        text_model("gpt")
