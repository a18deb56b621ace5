"""One tenant's view of a store that two share, and everything that is told on the way."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.schema import NodeWithScore
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index_instrumentation.span import BaseSpan
from llama_index_instrumentation.span_handlers import BaseSpanHandler
from matrix_slice import Slice
from pydantic import PrivateAttr

from phasegraph import Result

MINE, THEIRS = "red", "blue"


def only(tenant: str) -> MetadataFilters:
    """The filter in LlamaIndex's words."""
    return MetadataFilters(filters=[MetadataFilter(key="tenant", value=tenant)])


class Tenant:
    """A retriever of ours for one tenant, and what its traces are told."""

    def __init__(self, framework: str, retriever: Any, name: str) -> None:
        self.told: list[str] = []
        self._langchain = framework == "LangChain"
        self._more = {"filter": {"tenant": name}} if self._langchain else {}
        self._retriever = retriever if self._langchain else retriever.within(only(name))

    def ask(self, question: str) -> list[Any]:
        """Hits, under every kind of tracing that the framework has."""
        if self._langchain:
            return self._retriever.invoke(question, {"callbacks": [Heard(self.told)]}, **self._more)
        with listening(self.told):
            return self._retriever.retrieve(question)

    async def aask(self, question: str) -> list[Any]:
        """As `ask`, awaited."""
        if self._langchain:
            return await self._retriever.ainvoke(question, {"callbacks": [Heard(self.told)]}, **self._more)
        with listening(self.told):
            return await self._retriever.aretrieve(question)

    def explain(self, question: str) -> Result:
        """The whole answer."""
        return self._retriever.explain(question, **self._more)


class Heard(BaseCallbackHandler):
    """Everything that LangChain's callbacks are told of runs."""

    def __init__(self, told: list[str]) -> None:
        self.told = told

    def on_retriever_end(self, documents: Any, **more: Any) -> None:
        self.told.append(repr(documents))

    def on_retriever_error(self, error: BaseException, **more: Any) -> None:
        self.told.append(repr(error))

    def on_chain_end(self, outputs: Any, **more: Any) -> None:
        self.told.append(repr(outputs))


class Events(BaseEventHandler):
    """Everything that LlamaIndex's events carry."""

    told: list[str]

    def handle(self, event: Any, **kwargs: Any) -> None:
        self.told.append(repr(event.model_dump(exclude={"embedding"})))


class Spans(BaseSpanHandler[BaseSpan]):
    """Everything that LlamaIndex's spans end with."""

    _told: list[str] = PrivateAttr(default_factory=list)

    @classmethod
    def into(cls, told: list[str]) -> Spans:
        made = cls()
        made._told = told
        return made

    def new_span(self, id_: str, *args: Any, parent_span_id: str | None = None, **kwargs: Any) -> BaseSpan:
        return BaseSpan(id_=id_, parent_id=parent_span_id)

    def prepare_to_exit_span(self, id_: str, *args: Any, result: Any = None, **kwargs: Any) -> None:
        hits = result if isinstance(result, list) else []
        self._told.append(repr([hit.model_dump() if isinstance(hit, NodeWithScore) else hit for hit in hits]))

    def prepare_to_drop_span(self, id_: str, *args: Any, err: BaseException | None = None, **kwargs: Any) -> None:
        self._told.append(repr(err))


@contextmanager
def listening(told: list[str]) -> Iterator[None]:
    """Events and spans of the framework, for a while."""
    root = get_dispatcher()
    before = list(root.event_handlers), list(root.span_handlers)
    root.add_event_handler(Events.model_construct(told=told))
    root.add_span_handler(Spans.into(told))
    try:
        yield
    finally:
        root.event_handlers, root.span_handlers = before


def everything(hits: list[Any], result: Result, told: list[str]) -> str:
    """All that an answer says: hits, their provenance, candidates, payloads, reports, warnings, traces."""
    shown = [hit.model_dump(exclude={"embedding"}) for hit in hits]
    rankings = [
        {**dict(one.payloads), "ids": one.ids, "reason": one.reason, "size": one.size}
        for one in result.candidates.rankings
    ]
    said = [result.warnings, result.reports, result.reason, result.agreement, rankings, result.candidates.ids]
    evidence = [result.evidence(name) for name in result.ids]
    return "\n".join([json.dumps(shown, default=repr), repr(said), repr(evidence), *told])


def words(text: str) -> set[str]:
    """Its longer words."""
    return set(re.findall(r"[^\W\d_]{5,}", text.lower()))


def words_of(data: Slice) -> set[str]:
    """The words of its passages and titles."""
    return words(" ".join(f"{row['title']} {row['text']}" for row in data.rows))
