"""What tracers see of a call: spans of OpenTelemetry with the real instrumentors, and LangSmith's runs."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import RunnableLambda
from llama_index.core import MockEmbedding
from llama_index.core.schema import TextNode
from openinference.instrumentation.langchain import LangChainInstrumentor
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from packaging.requirements import Requirement
from tests.suites.manual_time import auntil, until

from langchain_phasegraph import PhaseGraphRetriever
from llama_index.retrievers.phasegraph import CalibratedFusionRetriever
from phasegraph import FusionPipeline, InvalidInputError, Ranking
from phasegraph.apps.tracing import SpansOfResults

SECRET = "Who met the spy?"
LEGS = {"phasegraph.graph", "phasegraph.bm25", "phasegraph.vector"}


@pytest.fixture(scope="module")
def exported():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    for one in (LangChainInstrumentor(), LlamaIndexInstrumentor()):
        one.instrument(tracer_provider=provider)
    yield exporter, provider
    for one in (LangChainInstrumentor(), LlamaIndexInstrumentor()):
        one.uninstrument()


@pytest.fixture
def spans(exported):
    exporter, provider = exported
    exporter.clear()
    return exporter, SpansOfResults(tracer_provider=provider)


def langchain(hook, **more):
    documents = [Document(f"The spy met p{row}.", id=f"p{row}", metadata={"title": f"T{row}"}) for row in range(5)]
    return PhaseGraphRetriever.from_documents(
        documents, DeterministicFakeEmbedding(size=8), k=2, on_result=hook, progress=False, **more
    )


def llamaindex(hook, **more):
    nodes = [TextNode(text=f"The spy met p{row}.", id_=f"p{row}", metadata={"title": f"T{row}"}) for row in range(5)]
    return CalibratedFusionRetriever.from_nodes(
        nodes, MockEmbedding(embed_dim=8), similarity_top_k=2, on_result=hook, progress=False, **more
    )


def named(exporter):
    return {one.name: one for one in exporter.get_finished_spans()}


def ids(span):
    found = {key: value for key, value in span.attributes.items() if key.endswith(".document.id")}
    return [found[f"retrieval.documents.{row}.document.id"] for row in range(len(found))]


def check(seen, returned, scores):
    call = seen["phasegraph"]
    assert {name for name in seen if name.startswith("phasegraph.")} == LEGS
    assert ids(call) == returned
    told = [call.attributes[f"retrieval.documents.{row}.document.score"] for row in range(len(returned))]
    assert told == pytest.approx(scores)
    assert call.attributes["openinference.span.kind"] == "RETRIEVER"
    for name in LEGS:
        leg = seen[name]
        assert leg.parent.span_id == call.context.span_id
        assert leg.attributes["phasegraph.status"] in ("ok", "empty")
        assert len(ids(leg)) == leg.attributes["phasegraph.hits"] > 0
        assert call.start_time <= leg.start_time <= leg.end_time
    weights = [seen[name].attributes["phasegraph.weight"] for name in LEGS]
    assert sum(weights) == pytest.approx(1.0)
    for span in (call, *(seen[name] for name in LEGS)):
        assert "spy" not in json.dumps(dict(span.attributes))
    return call


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_langchain_spans_hang_on_openinferences(spans, asynchronous):
    exporter, hook = spans
    asked = langchain(hook, score_key="score")
    found = await asked.ainvoke(SECRET) if asynchronous else asked.invoke(SECRET)
    seen = named(exporter)
    call = check(seen, [one.id for one in found], [one.metadata["score"] for one in found])
    root = seen["PhaseGraphRetriever"]
    assert call.parent.span_id == root.context.span_id
    assert root.attributes["openinference.span.kind"] == "RETRIEVER"
    for name in ("graph", "bm25", "vector"):  # the sources' own, as OpenInference sees them
        assert seen[name].parent.span_id == root.context.span_id
        assert seen[name].attributes["retrieval.documents.0.document.content"].startswith("The spy met")


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_llamaindex_spans_hang_on_openinferences(spans, asynchronous):
    for required in map(Requirement, LlamaIndexInstrumentor().instrumentation_dependencies()):
        if version(required.name) not in required.specifier:
            pytest.skip(f"this OpenInference instruments only {required}")  # and says nothing of an older one
    exporter, hook = spans
    asked = llamaindex(hook)
    found = await asked.aretrieve(SECRET) if asynchronous else asked.retrieve(SECRET)
    last = "CalibratedFusionRetriever.aretrieve" if asynchronous else "CalibratedFusionRetriever.retrieve"
    await auntil(lambda: last in named(exporter))  # a coroutine's span ends when the loop comes round
    seen = named(exporter)
    call = check(seen, [one.node_id for one in found], [one.score for one in found])
    outer = seen[last]
    ours = {one.context.span_id for name, one in seen.items() if name.startswith("CalibratedFusionRetriever.")}
    assert call.parent.span_id in ours  # that of _retrieve, a child of the other, where there is one
    assert ids(outer) == ids(call)
    legs = [one for one in exporter.get_finished_spans() if one.name.startswith("EntityGraphRetriever.")]
    whole = [one for one in legs if not one.name.partition(".")[2].startswith("_")]
    assert len(whole) == 3
    assert all("retrieval.documents.0.document.score" in one.attributes for one in whole)


@pytest.mark.filterwarnings("ignore::phasegraph.PhasegraphWarning")
def test_a_source_that_fails_is_a_span_that_failed(spans):
    exporter, hook = spans

    def broken(query):
        raise ConnectionRefusedError(f"no route for {query}")

    langchain(hook, retrievers={"broken": broken}).invoke(SECRET)
    seen = named(exporter)
    failed = seen["phasegraph.broken"]
    assert not failed.status.is_ok
    assert failed.status.description == "ConnectionRefusedError"
    assert failed.attributes["phasegraph.status"] == "error"
    assert seen["phasegraph"].attributes["phasegraph.degraded"] is True


def test_what_a_hook_of_the_user_asks_for_is_a_child_of_the_run(spans):
    exporter, _ = spans
    inner = RunnableLambda(lambda result: len(result.ids), name="grading")
    langchain(lambda result: inner.invoke(result)).invoke(SECRET)
    seen = named(exporter)
    assert seen["grading"].parent.span_id == seen["PhaseGraphRetriever"].context.span_id


def test_what_a_hook_asks_of_another_retriever_keeps_the_filter_of_the_call():
    def team(row):
        return "red" if row % 2 else "blue"

    rows = [Document(f"The spy met p{row}.", id=f"p{row}", metadata={"team": team(row)}) for row in range(6)]
    embeddings, seen = DeterministicFakeEmbedding(size=8), []
    other = PhaseGraphRetriever.from_documents(rows, embeddings, progress=False)
    asked = PhaseGraphRetriever.from_documents(
        rows, embeddings, progress=False, on_result=lambda _: seen.extend(other.invoke("Who else?"))
    )
    asked.invoke(SECRET, {"configurable": {"phasegraph_filter": {"team": "red"}}})
    assert {one.id for one in seen} == {"p1", "p3", "p5"}


def test_without_an_instrumentor_the_current_span_is_the_parent(spans, exported):
    exporter, hook = spans
    with exported[1].get_tracer("mine").start_as_current_span("mine"):
        hook(
            FusionPipeline().decide([Ranking("vector", [f"p{row}" for row in range(30)], list(range(30, 0, -1)))], k=25)
        )
    seen = named(exporter)
    assert seen["phasegraph"].parent.span_id == seen["mine"].context.span_id
    assert len(ids(seen["phasegraph"])) == 20
    with pytest.raises(InvalidInputError, match="most"):
        SpansOfResults(most=0)


def test_it_goes_where_the_retriever_goes():
    hook = SpansOfResults(most=3)
    assert pickle.loads(pickle.dumps(hook)) == copy.deepcopy(hook) == hook  # noqa: S301


class LangSmith(BaseHTTPRequestHandler):
    """LangSmith's address on loopback: it keeps what the client posts."""

    def do_POST(self):
        self.kept(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    do_PATCH = do_POST

    def kept(self, body):
        self.server.bodies.append((self.command, self.path, body))
        self.send_response(202)
        self.end_headers()
        self.wfile.write(b"{}")

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture
def langsmith():
    server = HTTPServer(("127.0.0.1", 0), LangSmith)
    server.bodies = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_langsmith_gets_runs_of_its_retriever_shape(langsmith):
    from langchain_core.tracers import LangChainTracer
    from langsmith import Client

    client = Client(api_url=f"http://127.0.0.1:{langsmith.server_port}", api_key="none", auto_batch_tracing=False)
    tracer = LangChainTracer(client=client)
    found = langchain(None).invoke(SECRET, {"callbacks": [tracer]})
    tracer.wait_for_futures()
    until(lambda: sum(one[0] == "PATCH" for one in langsmith.bodies) >= 4)
    runs = {}
    for _, path, body in langsmith.bodies:
        runs.setdefault(body.get("id") or path.rpartition("/")[2], {}).update({k: v for k, v in body.items() if v})
    by_name = {one["name"]: one for one in runs.values()}
    root = by_name["PhaseGraphRetriever"]
    assert set(by_name) == {"PhaseGraphRetriever", "graph", "bm25", "vector"}
    for one in by_name.values():
        assert one["run_type"] == "retriever"
        assert one["inputs"] == {"query": SECRET}
        assert {"page_content", "metadata", "type"} <= set(one["outputs"]["documents"][0])
        assert one["outputs"]["documents"][0]["type"] == "Document"
        assert "ls_retriever_name" in one["extra"]["metadata"]
    assert {by_name[name]["parent_run_id"] for name in ("graph", "bm25", "vector")} == {root["id"]}
    assert [one["id"] for one in root["outputs"]["documents"]] == [one.id for one in found]
    assert root["extra"]["metadata"]["ls_retriever_name"] == "phasegraph"
