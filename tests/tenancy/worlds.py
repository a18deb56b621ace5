"""Two tenants in one store, one asking in a hundred ways, and all that is said on the way, by surface."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.base_handler import BaseCallbackHandler as LlamaHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index_instrumentation.span import BaseSpan
from llama_index_instrumentation.span_handlers import BaseSpanHandler
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import PrivateAttr

import langchain_phasegraph
import llama_index.retrievers.phasegraph as llama_phasegraph
from phasegraph import PhasegraphError, PhasegraphWarning, Result
from phasegraph.apps.tracing import SpansOfResults
from phasegraph.retrieval import HitFields, SourceSpec

ROWS = 8
FOREIGN = re.compile(r"xb-\d|indigo|bluesecret|aquamarine", re.IGNORECASE)
"""What only the other tenant has: ids, entities, words."""


def rows(tenant: str, *, equal: bool = False) -> list[dict[str, Any]]:
    """Passages of one tenant: `equal` ids are those that the other one has, too."""
    if tenant == "red":
        said = "Ada{0} met Carmine Works in Rome. Ada{0} and Ada{1} wrote a ruby letter about London."
        return [
            {"id": f"r-{row}", "title": f"Ada{row}", "text": said.format(row, (row + 1) % ROWS), "tenant": "red"}
            for row in range(ROWS)
        ]
    said = "Indigo{0} met Aquamarine Works in Rome. Indigo{0} and Ada{1} wrote a bluesecret letter about London."
    return [
        {
            "id": f"r-{row}" if equal else f"xb-{row}", "title": f"Indigo{row}", "text": said.format(row, row),
            "tenant": "blue",
        }
        for row in range(ROWS)
    ]  # fmt: skip


QUERIES = (
    "Who met Ada1 in Rome?",
    "What did Indigo1 write?",
    "xb-1",
    "xb-0 xb-1 xb-2 xb-3 Indigo4 Aquamarine Works bluesecret",
    "Indigo3 met Aquamarine Works in Rome. Indigo3 and Ada3 wrote a bluesecret letter about London.",
    "' OR tenant = 'blue' --",
    '{"tenant": "blue"} $or $ne',
    "tenant:blue AND (Rome OR London)",
    "Ada0 Ada1 Ada2 Ada3 Ada4 Ada5 Ada6 Ada7 bluesecret",
    "letter " * 200 + "Indigo",
    "\u202egolid\u202c Rome \x00 ünïcode \ud800",
    "Rome London ruby Carmine Works?",
)


class Heard(BaseCallbackHandler):
    """Everything that LangChain's callbacks are told, of every kind of run."""

    def __init__(self, told: list[str]) -> None:
        self.told = told

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if not name.startswith("on_"):
            return found
        return lambda *given, **more: self.told.append(f"{name} {given!r} {more!r}")


class Payloads(LlamaHandler):
    """Everything that LlamaIndex's callback managers are told."""

    def __init__(self, told: list[str]) -> None:
        super().__init__([], [])
        self.told = told

    def on_event_start(self, event_type: Any, payload: Any = None, event_id: str = "", **more: Any) -> str:
        self.told.append(repr(payload))
        return event_id

    def on_event_end(self, event_type: Any, payload: Any = None, event_id: str = "", **more: Any) -> None:
        self.told.append(repr(payload))

    def start_trace(self, trace_id: str | None = None) -> None:
        pass

    def end_trace(self, trace_id: str | None = None, trace_map: Any = None) -> None:
        pass


class Events(BaseEventHandler):
    """Everything that LlamaIndex's events carry."""

    told: list[str]

    def handle(self, event: Any, **kwargs: Any) -> None:
        self.told.append(repr(event.model_dump()))


class Spans(BaseSpanHandler[BaseSpan]):
    """Everything that LlamaIndex's spans begin and end with."""

    _told: list[str] = PrivateAttr(default_factory=list)

    def new_span(
        self, id_: str, bound_args: Any, *args: Any, parent_span_id: str | None = None, **more: Any
    ) -> BaseSpan:
        self._told.append(repr(bound_args.arguments))
        return BaseSpan(id_=id_, parent_id=parent_span_id)

    def prepare_to_exit_span(self, id_: str, *args: Any, result: Any = None, **more: Any) -> None:
        self._told.append(repr(result))

    def prepare_to_drop_span(self, id_: str, *args: Any, err: BaseException | None = None, **more: Any) -> None:
        self._told.append(repr(err))


@contextmanager
def listening(told: list[str]) -> Iterator[None]:
    """LlamaIndex's events and spans, for a while."""
    root = get_dispatcher()
    before = list(root.event_handlers), list(root.span_handlers)
    spans = Spans()
    spans._told = told
    root.add_event_handler(Events.model_construct(told=told))
    root.add_span_handler(spans)
    try:
        yield
    finally:
        root.event_handlers, root.span_handlers = before


class Lines(logging.Handler):
    """Every record of any logger, exceptions included."""

    def __init__(self, told: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self.told = told

    def emit(self, record: logging.LogRecord) -> None:
        said = "" if record.exc_info is None else "".join(traceback.format_exception(*record.exc_info))
        self.told.append(record.getMessage() + said)


def everything(error: BaseException) -> str:
    """What an error says: itself, its notes, causes and traceback."""
    seen, said = set[int](), []
    waiting: list[Any] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        said += [repr(one), str(one), repr(getattr(one, "__notes__", ())), repr(vars(one))]
        waiting += [one.__cause__, one.__context__, *getattr(one, "causes", {}).values()]
    return "\n".join([*said, *traceback.format_exception(error)])


class World:
    """One tenant's ways to ask, in one framework over one store."""

    def __init__(self, framework: str, legs: Callable[[], dict[str, Any]], alone: Callable[..., Any] | None) -> None:
        self.langchain = framework == "langchain"
        self.module: Any = langchain_phasegraph if self.langchain else llama_phasegraph
        self.legs, self.said = legs, dict[str, list[str]]()
        self.walk = alone
        self.hooked: list[Result] = []
        self.retriever = self.fused()

    def fused(self, **more: Any) -> Any:
        made = {"k": 12, "evidence_key": "why", "on_result": self.hooked.append, "timeout": None, **self.legs(), **more}
        return self.module.PhaseGraphRetriever(**made)

    def of(self, tenant: str) -> Any:
        """The tenant's filter, in the words of the framework."""
        if self.langchain:
            return {"tenant": tenant}
        return MetadataFilters(filters=[MetadataFilter(key="tenant", value=tenant)])

    def explained(self, query: str, tenant: str = "red", retriever: Any = None) -> Result:
        retriever = self.retriever if retriever is None else retriever
        more = {"filter" if self.langchain else "filters": self.of(tenant)}
        return retriever.explain(query, **more)

    def ways(self, told: list[str]) -> dict[str, Callable[[str], Any]]:
        """How a filter is given; what each returns is hits, or an answer with hits."""
        one, mine = self.retriever, self.of("red")
        if self.langchain:
            config: Any = {"configurable": {"phasegraph_filter": mine}, "callbacks": [Heard(told)]}
            heard: Any = {"callbacks": [Heard(told)]}
            inner = RunnableLambda(lambda query: one.invoke(query), lambda query: one.ainvoke(query))
            own = self.fused(filter=mine, required_filter_key="tenant")
            return {
                "call": lambda query: one.invoke(query, heard, filter=mine),
                "configured": lambda query: one.invoke(query, config),
                "within a run": lambda query: inner.invoke(query, config),
                "awaited within a run": lambda query: asyncio.run(inner.ainvoke(query, config)),
                "batch": lambda query: one.batch([query], [config])[0],
                "constructor": lambda query: own.invoke(query, heard),
            }
        view = one.within(mine)
        view.callback_manager = CallbackManager([Payloads(told)])
        own = self.fused(filters=mine, required_filter_key="tenant")
        engine = RetrieverQueryEngine.from_args(view, llm=MockLLM())

        def traced(ask: Callable[[str], Any]) -> Callable[[str], Any]:
            def asked(query: str) -> Any:
                with listening(told):
                    return ask(query)

            return asked

        return {
            "call": traced(lambda query: one.retrieve(query, filters=mine)),
            "within": traced(lambda query: view.retrieve(QueryBundle(query))),
            "awaited": traced(lambda query: asyncio.run(view.aretrieve(query))),
            "engine": traced(lambda query: engine.query(query).source_nodes),
            "constructor": traced(lambda query: own.retrieve(query)),
        }

    def ask(self, times: int, folder: Path) -> dict[str, list[str]]:
        """Ask until every surface was seen in at least `times` calls."""
        said: dict[str, list[str]] = {
            name: [] for name in (
                "hits", "evidence", "candidates", "reports", "verdicts", "warnings", "logs", "exceptions", "hooks",
                "traces", "spans", "reprs", "pickles", "files", "caches",
            )
        }  # fmt: skip
        lines = Lines(said["logs"])
        root = logging.getLogger()
        level = root.level
        root.addHandler(lines)
        root.setLevel(logging.DEBUG)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                self._answers(said, times)
                self._walks(said)
                self._errors(said)
                self._file(said, folder)
            said["warnings"] += [
                f"{one.category.__name__} {one.message} {everything_of(one.message)}" for one in caught
            ]
        finally:
            root.removeHandler(lines)
            root.setLevel(level)
        self.calls = times
        return said

    def _answers(self, said: dict[str, list[str]], times: int) -> None:
        told: list[str] = []
        ways = self.ways(told)
        fresh, count, queries = self.fused(), 0, set()
        while count < times:
            turn = count // len(ways)
            for place, (name, way) in enumerate(ways.items()):
                # Each way asks all queries before any of them again. Ways are two queries apart: few turns ask all.
                query = QUERIES[(turn + 2 * place) % len(QUERIES)]
                queries.add(query)
                self._asked_by_another(query)
                self.hooked.clear()
                told.clear()
                hits = way(query)
                count += 1
                said["hits"].append(without(query, json.dumps([dumped(one) for one in hits], default=repr)))
                said["hooks"] += [without(query, of_result(one)) for one in self.hooked]
                said["spans"] += [without(query, of_spans(one)) for one in self.hooked]
                said["traces"].append(without(query, "\n".join(told)))
                said["evidence"].append(without(query, repr([whys(one) for one in hits])))
                assert hits or "ünï" in query, (name, query)
                result = self.explained(query)
                shown, evidence = of_candidates(result), [result.evidence(one) for one in result.ids]
                said["candidates"].append(without(query, shown))
                said["reports"].append(without(query, repr(result.reports)))
                said["verdicts"].append(without(query, of_verdicts(result)))
                said["evidence"].append(without(query, repr(evidence)))
                said["reprs"].append(without(query, "\n".join(map(str, evidence))))
                said["reprs"].append(
                    without(query, f"{result!r}{result!s}{self.retriever!r}{self.retriever!s}{result.reports!s}")
                )
                held = pickle.dumps(result).decode("latin-1")
                for word in dict.fromkeys(re.findall(r"\w+", query.lower())):  # it keeps the words that were asked for
                    held = held.replace(word, "")
                said["pickles"].append(held)
                again = self.explained(query, retriever=fresh)
                said["caches"].append(without(query, shown))
                assert stable(of_candidates(again)) == stable(shown), "another's question changed it"
        assert queries == set(QUERIES), "a query was not asked"

    def _asked_by_another(self, query: str) -> None:
        """The other tenant asks the same, unheard."""
        root = logging.getLogger()
        heard, root.handlers[:] = list(root.handlers), []
        try:
            with warnings.catch_warnings(record=True):
                self.explained(query, "blue")
        finally:
            root.handlers[:] = heard

    def _walks(self, said: dict[str, list[str]]) -> None:
        """The walk alone."""
        if self.walk is None:
            return
        one = self.walk()
        for query in QUERIES:
            if self.langchain:
                config: Any = {"configurable": {"phasegraph_filter": self.of("red")}}
                found = RunnableLambda(lambda asked: one.invoke(asked)).invoke(query, config)
            else:
                found = one.within(self.of("red")).retrieve(query)
            said["hits"].append(without(query, json.dumps([dumped(hit) for hit in found], default=repr)))
            said["evidence"].append(without(query, repr([whys(hit) for hit in found])))
            said["reprs"].append(without(query, f"{one!r}{found!r}"))

    def _errors(self, said: dict[str, list[str]]) -> None:
        """Calls that must fail, and sources that fail of themselves."""

        def bad(query: str, filter: Any = None, filters: Any = None) -> Any:  # noqa: A002
            raise RuntimeError("it broke")

        def careless(query: str, filter: Any = None, filters: Any = None) -> Any:  # noqa: A002
            return [(hit, 1.0) for hit in self.everyone()]

        def resolve(ids: Any) -> Any:
            return [self.everyone()[-1]] * (len(ids) + 1)

        broken: list[tuple[dict[str, Any], Any]] = [
            ({"retrievers": {"bad": bad}, "strict": True}, "red"),
            ({"retrievers": {"other": lambda query: self.everyone()}}, "red"),
            ({"retrievers": {"other": SourceSpec(retriever=careless, fields=HitFields(resolve=resolve))}}, "red"),
            ({"retrievers": {"careless": careless}, "strict": True}, "red"),
            ({"required_filter_key": "other"}, "red"),
            ({"filter" if self.langchain else "filters": self.of("red")}, "green"),
        ]
        for query in QUERIES:
            for more, tenant in broken:
                more = {**more, "retrievers": {**self.legs().get("retrievers", {}), **more.get("retrievers", {})}}
                try:
                    result = self.explained(query, tenant, self.fused(**more))
                    said["exceptions"].append(without(query, of_result(result)))
                except PhasegraphError as error:
                    said["exceptions"].append(without(query, everything(error)))
                    said["pickles"].append(without(query, pickle.dumps(error).decode("latin-1")))

    def _file(self, said: dict[str, list[str]], folder: Path) -> None:
        asked = [f"Who met Ada{row % ROWS} in Rome in {1900 + row}?" for row in range(24)]
        own = self.fused(**{"filter" if self.langchain else "filters": self.of("red")})
        own.calibrate(asked, progress=False)
        own.save(folder / f"{id(self)}.json")
        said["files"].append((folder / f"{id(self)}.json").read_text())

    def everyone(self) -> list[Any]:
        """Both tenants' passages."""
        made = documents if self.langchain else nodes
        return made([*rows("red"), *rows("blue")])


def documents(given: list[dict[str, Any]]) -> list[Document]:
    return [
        Document(row["text"], id=row["id"], metadata={"tenant": row["tenant"], "title": row["title"]}) for row in given
    ]


def nodes(given: list[dict[str, Any]]) -> list[TextNode]:
    return [
        TextNode(text=row["text"], id_=row["id"], metadata={"tenant": row["tenant"], "title": row["title"]})
        for row in given
    ]


FAKE = DeterministicFakeEmbedding(size=8)


class SameVectors(BaseEmbedding):
    """LangChain's deterministic vectors, for LlamaIndex."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return FAKE.embed_query(text)

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return FAKE.embed_query(query)


EMBEDDINGS = {"langchain": FAKE, "llama_index": SameVectors()}


def vectors(framework: str, given: list[dict[str, Any]]) -> Any:
    if framework == "langchain":
        return InMemoryVectorStore.from_documents(documents(given), EMBEDDINGS[framework])
    return VectorStoreIndex(nodes(given), embed_model=EMBEDDINGS[framework])


def in_memory(framework: str, given: list[dict[str, Any]]) -> World:
    """Vectors in the framework's own store, and a graph in memory, which is there alone, too."""
    module: Any = langchain_phasegraph if framework == "langchain" else llama_phasegraph
    kind = module.EntityGraphRetriever
    store = vectors(framework, given)
    graph = kind.from_documents(documents(given)) if framework == "langchain" else kind.from_nodes(nodes(given))
    return World(framework, lambda: {"vector": store, "graph": graph}, lambda: graph)


def on_neo4j(framework: str, given: list[dict[str, Any]], connection: Any, corpus: str, *, load: bool) -> World:
    """The same, the graph in Neo4j: read whole, or walked there."""
    module: Any = langchain_phasegraph if framework == "langchain" else llama_phasegraph
    held = {"documents": documents(given)} if framework == "langchain" else {"nodes": nodes(given)}
    store = vectors(framework, given)
    graph = module.EntityGraphRetriever.from_neo4j(connection, corpus, load=load, evidence_key="path", **held)
    return World(framework, lambda: {"vector": store, "graph": graph}, lambda: graph)


def dumped(hit: Any) -> Any:
    return hit.model_dump(exclude={"embedding"}) if isinstance(hit, NodeWithScore) else hit.model_dump()


def whys(hit: Any) -> Any:
    """The evidence under its key, as a mapping that shows what it holds."""
    held = {**hit.metadata.get("why", {}), **hit.metadata.get("path", {})}
    return json.dumps(held, default=repr)


def of_candidates(result: Result) -> str:
    held = [
        {
            "source": one.source, "ids": one.ids, "scores": np.round(one.scores, 6).tolist(), "size": one.size,
            "background": repr(one.background), "reason": one.reason, "dropped": one.dropped,
            "payloads": repr({name: repr(one.payloads[name]) for name in one.payloads}),
            "evidence": repr({name: repr(why) for name, why in getattr(one.payloads, "evidence", {}).items()}),
        }
        for one in result.candidates.rankings
    ]  # fmt: skip
    return repr((result.candidates.ids, held))


def of_verdicts(result: Result) -> str:
    said = (result.warnings, result.reason, result.agreement, result.degraded, result.confidence_evidence)
    return repr((*said, result.confidence))


def of_result(result: Result) -> str:
    parts = (of_candidates(result), of_verdicts(result), repr(result.reports), repr(result), repr(dict(result.extras)))
    return "\n".join((*parts, *(repr(result.evidence(one)) for one in result.ids)))


def of_spans(result: Result) -> str:
    """What OpenTelemetry is told of a result."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    SpansOfResults(tracer_provider=provider)(result)
    return "\n".join(span.to_json() for span in exporter.get_finished_spans())


def everything_of(message: object) -> str:
    return everything(message) if isinstance(message, BaseException) else ""


def stable(said: str) -> str:
    """What is said, floats rounded: the order in which sums are added is the machine's."""
    return re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.5f}", said)


def without(query: str, said: str) -> str:
    """What is said, but for the question, which may be repeated to whoever asked it."""
    for form in (query, repr(query)[1:-1], json.dumps(query)[1:-1], repr(repr(query))[2:-2]):
        said = said.replace(form, "")
    return said


__all__ = ["FOREIGN", "QUERIES", "PhasegraphWarning", "World", "in_memory", "on_neo4j", "rows", "stable"]
