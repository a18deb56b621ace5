"""The retriever as a whole: arguments, events, calibration, saving, engines, nesting."""

import asyncio
import copy
import inspect
import threading
import time

import llama_index.core.instrumentation as instrument
import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters
from llamaindex_stores import Listed, Looked, hits, ids_of, listed, simple

from llama_index.retrievers.phasegraph import (
    CalibratedFusionRetriever,
    EntityGraphRetriever,
    HitFields,
    PhaseGraphRetriever,
    SourceSpec,
    text_model,
)
from phasegraph import FusionPipeline, IntegrityError, InvalidInputError, InvalidTypeError, PhasegraphWarning, Ranking
from phasegraph.graph import build_graph
from phasegraph.priors import UnitPrior

EIGHT = {f"p{i}": 1.0 - i / 10 for i in range(8)}
BACK = {f"p{i}": float(i) for i in range(7, -1, -1)}


def two(**options):
    return CalibratedFusionRetriever(vector=listed(**EIGHT), graph=listed(**BACK, other=-1.0), **options)


def shown(**sources):
    return CalibratedFusionRetriever(**sources, metadata_key="phasegraph")


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
    engine = RetrieverQueryEngine.from_args(two(similarity_top_k=3, metadata_key="phasegraph"), llm=Reads(max_tokens=4))
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
    for where in ("chunk", lambda hit: hit.metadata["chunk"]):
        spec = {"fields": HitFields(id=where)}
        retriever = shown(
            vector=SourceSpec(retriever=Listed([one]), weight=2.0, **spec),
            graph=SourceSpec(retriever=Listed([other]), **spec),
        )
        (found,) = retriever.retrieve("who?")
        assert (found.node_id, found.metadata["phasegraph"]["id"]) == ("n1", "c")


def test_scores_can_be_read_from_metadata_or_by_a_function():
    nodes = [NodeWithScore(node=TextNode(id_=n, text=n, metadata={"d": d}), score=1.0) for n, d in (("a", 3), ("b", 1))]
    for where in ("d", lambda hit: hit.metadata["d"]):
        spec = SourceSpec(retriever=Listed(nodes), fields=HitFields(score=where, higher_is_better=False))
        assert ids_of(CalibratedFusionRetriever(vector=spec).retrieve("who?")) == ["b", "a"]


@pytest.mark.filterwarnings("ignore:source 'graph'.*declared higher_is_better=True")
def test_functions_take_a_limit_and_the_rankings_they_need_and_may_be_coroutines():
    def dense(query, limit):
        return [(TextNode(id_=f"p{i}", text="t"), 1.0 - i / 100) for i in range(limit)]

    async def walk(query, k, upstream):
        return [(TextNode(id_=name, text="t"), float(row)) for row, name in enumerate(upstream["vector"].ids)][:k]

    graph = SourceSpec(retriever=walk, depends_on=["vector"], limit=4, fields=HitFields(higher_is_better=True))
    retriever = CalibratedFusionRetriever(vector=SourceSpec(retriever=dense, limit=6), graph=graph)
    reports = {report.source: report.hits for report in retriever.explain("who?").reports}
    assert reports == {"graph": 4, "vector": 6}
    assert asyncio.run(retriever.aexplain("who?")).ids == retriever.explain("who?").ids


def test_retrievers_nest_and_keep_what_the_inner_one_said():
    inner = CalibratedFusionRetriever(vector=listed(**EIGHT), k=3, metadata_key="inner")
    outer = CalibratedFusionRetriever(
        retrievers={"inner": inner, "other": listed(**BACK)}, k=8, metadata_key="phasegraph"
    )
    assert "higher is better: known for this store" in outer.explain("who?").reports[0].notes
    found = outer.retrieve("who?")
    (best,) = [hit for hit in found if hit.node_id == "p0"]
    assert best.metadata["phasegraph"]["sources"]["inner"]["evidence"]["sources"]["vector"]["rank"] == 1.0
    assert "inner" not in best.metadata
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
    retriever = CalibratedFusionRetriever(
        vector=SourceSpec(retriever=index, fields=HitFields(size=9)), graph=listed(**BACK), k=4
    )
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
    assert one.fitted_pipeline.to_dict() == other.fitted_pipeline.to_dict()


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
    "metadata_key": [7, " "],
    "filters": [{"a": 1}],
    "on_result": [7],
    "accept": [7, {"x": 0.5}],
    "selection": [7],
    "retrievers": [{"vector": listed()}, {"": listed()}, {"x": None}, "x"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_a_wrong_argument_is_an_error_that_names_it_when_the_retriever_is_built(name, value):
    with pytest.raises((InvalidInputError, InvalidTypeError)) as caught:
        two(**{name: value})
    wanted = "given twice" if name == "retrievers" and "vector" in value else name
    assert wanted in str(caught.value)


def test_unknown_arguments_no_sources_and_both_counts_are_errors():
    with pytest.raises(TypeError, match="similarity_topk"):
        two(similarity_topk=3)
    with pytest.raises(InvalidInputError, match="no sources: give vector="):
        CalibratedFusionRetriever()
    with pytest.raises(InvalidInputError, match="are the same: give one of them"):
        two(k=3, similarity_top_k=3)
    with pytest.raises(InvalidTypeError, match="a source must be a LlamaIndex retriever"):
        CalibratedFusionRetriever(vector=42)


@pytest.mark.parametrize(
    ("name", "meant"), [("top_k", "k"), ("similarity_topk", "similarity_top_k"), ("provenance", "metadata_key"),
                        ("filter", "filters"), ("retriever_weights", "weights"), ("deadline", "timeout")]
)  # fmt: skip
def test_an_unknown_argument_is_an_error_that_says_what_was_probably_meant(name, meant):
    with pytest.raises(InvalidTypeError, match=f"unexpected argument '{name}'; did you mean '{meant}'"):
        two(**{name: 1})
    with pytest.raises(InvalidTypeError, match=r"unexpected argument 'id_fn'.*HitFields\(id=...\)"):
        SourceSpec(retriever=listed(), id_fn=len)


def test_the_signature_names_every_argument():
    named = inspect.signature(CalibratedFusionRetriever).parameters
    both = "vector graph retrievers k weights accept selection limit timeout strict pipeline on_result metadata_key"
    own = "similarity_top_k filters callback_manager object_map objects verbose unknown"
    assert sorted(named) == sorted([*both.split(), *own.split()])
    assert PhaseGraphRetriever is CalibratedFusionRetriever


def test_one_setting_given_in_two_places_is_an_error_that_names_both():
    for given in ({"weights": {"vector": 1, "graph": 1}}, {"accept": {"vector": 0.5}}, {"selection": "mmr"}):
        with pytest.raises(InvalidInputError, match=f"{next(iter(given))}= and pipeline="):
            two(pipeline=FusionPipeline(), **given)


def test_lists_of_retrievers_and_weights_are_taken_as_the_framework_s_own_fusion_takes_them():
    listed_up = CalibratedFusionRetriever(retrievers=[listed(**EIGHT), listed(**BACK)], weights=[0.9, 0.1])
    named = CalibratedFusionRetriever(
        retrievers={"source_1": listed(**EIGHT), "source_2": listed(**BACK)},
        weights={"source_1": 0.9, "source_2": 0.1},
    )
    assert listed_up.retrieve("who?") == named.retrieve("who?")
    assert len(
        CalibratedFusionRetriever(retrievers=[listed(**EIGHT), listed(**BACK)], weights=[0.5, 0.5]).retrieve("a")
    )


def test_texts_without_ids_join_the_nodes_of_a_real_index_that_hold_them():
    def texts(query):
        return [("text of p2", 3.0), ("text  of p1", 2.0), ("elsewhere", 1.0)]

    retriever = CalibratedFusionRetriever(retrievers={"index": simple(), "texts": texts})
    with pytest.warns(PhasegraphWarning, match="source 'texts' returns hits without an id"):
        result = retriever.explain("what?", k=20)
    assert len(result.ids) == 10
    assert {one.source for one in result.evidence("p2").sources if one.raw is not None} == {"index", "texts"}
    notes = {report.source: report.notes for report in result.reports}
    assert "2 of 3 hits without an id joined to other sources' by their text" in notes["texts"]
    found = retriever.retrieve("what?")
    assert len({hit.text for hit in found}) == len(found) == 10


def only(value):
    return MetadataFilters(filters=[MetadataFilter(key="colour", value=value)])


def coloured():
    nodes = [TextNode(id_=f"p{i}", text=f"text of p{i}", metadata={"colour": ("red", "blue")[i % 2]}) for i in range(6)]
    return VectorStoreIndex(nodes, embed_model=Looked()), nodes


async def test_filters_of_the_constructor_and_of_a_call_reach_every_source():
    index, nodes = coloured()
    sources = {"vector": index, "graph": EntityGraphRetriever.from_nodes(nodes)}
    own = CalibratedFusionRetriever(**sources, filters=only("red"))
    free = CalibratedFusionRetriever(**sources)
    expected = own.retrieve("what?")
    assert {hit.metadata["colour"] for hit in expected} == {"red"}
    assert len(expected) == 3
    assert free.retrieve("what?", filters=only("red")) == expected
    assert await free.aretrieve("what?", filters=only("red")) == expected
    assert free.explain("what?", filters=only("red")).ids == own.explain("what?").ids
    assert (await free.aexplain("what?", filters=only("red"))).ids == own.explain("what?").ids
    assert free.within(only("red")).retrieve("what?") == expected
    assert own.retrieve("what?", filters=only("blue")) == []
    assert {hit.metadata["colour"] for hit in free.retrieve("what?")} == {"red", "blue"}


def test_a_source_that_cannot_keep_filters_is_named_when_they_are_given():
    with pytest.raises(InvalidInputError, match="source 'graph' does not support filters="):
        two(filters=only("red"))
    with pytest.raises(InvalidInputError, match="source 'graph' does not support filters="):
        two().retrieve("who?", filters=only("red"))
    with pytest.raises(InvalidInputError, match="source 'vector' does not support filters="):
        CalibratedFusionRetriever(vector=lambda query: []).explain("who?", filters=only("red"))
    graph = EntityGraphRetriever(build_graph([{"id": "a", "text": "Ada met Bo."}]))
    with pytest.raises(InvalidInputError, match="filters= needs the passages' metadata: pass nodes="):
        CalibratedFusionRetriever(graph=graph, filters=only("red"))


def test_priors_read_the_nodes_metadata():
    old = [NodeWithScore(node=TextNode(id_=f"p{i}", text="t", metadata={"importance": i / 7}), score=1.0 - i / 100)
           for i in range(8)]  # fmt: skip
    pipeline = FusionPipeline(priors=(UnitPrior("importance", strength=1.0),))
    assert ids_of(CalibratedFusionRetriever(vector=Listed(old), pipeline=pipeline).retrieve("who?"))[0] != "p0"
    assert ids_of(CalibratedFusionRetriever(vector=Listed(old)).retrieve("who?"))[0] == "p0"


def test_a_model_of_the_framework_becomes_a_function_of_a_prompt():
    assert text_model(MockLLM())("some words") == "some words"
    with pytest.raises(InvalidTypeError, match="llm must be"):
        text_model("gpt")
