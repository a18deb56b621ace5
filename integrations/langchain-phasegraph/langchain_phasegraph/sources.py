"""A LangChain retriever as a source of the core."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, cast

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_phasegraph.documents import unpack
from langchain_phasegraph.reading import Reader
from langchain_phasegraph.searching import (
    FunctionRetriever,
    ScoredVectorStoreRetriever,
    as_runnable,
    is_asynchronous,
    is_synchronous,
    parameters_of,
)
from phasegraph import InvalidTypeError, Ranking
from phasegraph.adapters import Direction, known_direction
from phasegraph.adapters.specs import SourceSpec
from phasegraph.sources import Given, SourceSettings
from phasegraph.sources.protocol import AnySource


class RetrieverSource:
    """One source between calls: what to ask, how to ask it, how to read it.

    Parameters
    ----------
    name : str
    spec : SourceSpec
    settings : SourceSettings
        The same as the spec's, with defaults filled in.
    """

    def __init__(self, name: str, spec: SourceSpec, settings: SourceSettings) -> None:
        self.name = name
        self.spec = spec
        self.settings = settings
        self.runnable = as_runnable(spec.retriever)
        store = getattr(_innermost(self.runnable), "vectorstore", None)
        direction = Direction(spec.higher_is_better, None if store is None else known_direction(store))
        self.reader = Reader(name, spec, direction)
        self.accepts = _accepted(self.runnable)
        resolves_async = inspect.iscoroutinefunction(spec.resolve)
        self.synchronous = is_synchronous(self.runnable) and not resolves_async
        self.asynchronous = is_asynchronous(self.runnable) and (spec.resolve is None or resolves_async)
        if resolves_async and not self.asynchronous:
            raise InvalidTypeError(f"retrievers[{name!r}].resolve must be a plain function; its retriever is not async")

    def bind(self, config: RunnableConfig, notes: list[str]) -> AnySource:
        """The source of one call: its child run belongs to `config`, what it notes goes to `notes`."""
        if not self.synchronous:
            return _AsyncBound(self, config, notes)
        return _Both(self, config, notes) if self.asynchronous else _Bound(self, config, notes)

    def arguments(self, limit: int | None, given: Given) -> tuple[Runnable[str, Any], dict[str, Any]]:
        """What to invoke, and the keyword arguments it takes."""
        runnable = self.runnable
        keywords: dict[str, Any] = {}
        for key in ("k", "limit"):
            if key in self.accepts and limit is not None:
                keywords[key] = limit
        if "given" in self.accepts:
            keywords["given"] = given
        if not keywords and limit is not None:
            runnable = _deepened(runnable, limit)
        return runnable, keywords


class _Bound:
    __slots__ = ("_config", "_notes", "_source")

    def __init__(self, source: RetrieverSource, config: RunnableConfig, notes: list[str]) -> None:
        self._source = source
        self._config = config
        self._notes = notes

    def search(self, query: str, limit: int | None, given: Given) -> Ranking:
        source = self._source
        runnable, keywords = source.arguments(limit, given)
        ranking = source.reader.ranking(runnable.invoke(query, self._config, **keywords), limit, self._notes)
        if source.spec.resolve is None or not len(ranking):
            return ranking
        return _resolved(ranking, source.spec.resolve(ranking.ids), self._notes)


class _AsyncBound:
    __slots__ = ("_config", "_notes", "_source")

    def __init__(self, source: RetrieverSource, config: RunnableConfig, notes: list[str]) -> None:
        self._source = source
        self._config = config
        self._notes = notes

    async def asearch(self, query: str, limit: int | None, given: Given) -> Ranking:
        source = self._source
        runnable, keywords = source.arguments(limit, given)
        answer = await runnable.ainvoke(query, self._config, **keywords)
        ranking = source.reader.ranking(answer, limit, self._notes)
        if source.spec.resolve is None or not len(ranking):
            return ranking
        found = await cast("Awaitable[object]", source.spec.resolve(ranking.ids))
        return _resolved(ranking, found, self._notes)


class _Both(_Bound):
    __slots__ = ()
    asearch = _AsyncBound.asearch


def _resolved(ranking: Ranking, found: object, notes: list[str]) -> Ranking:
    """The ranking with the passages that `resolve` gave; a hit without one keeps its own document."""
    passages = _by_id(ranking.ids, found)
    missing = [identifier for identifier in ranking.ids if identifier not in passages]
    if missing:
        notes.append(f"resolve gave no passage for {len(missing)} of {len(ranking)} ids")
    return Ranking(
        ranking.source,
        ranking.ids,
        ranking.scores,
        ranking.raw,
        ranking.rank_only,
        ranking.background,
        ranking.size,
        {**ranking.payloads, **passages},
        ranking.dropped,
        ranking.reason,
    )


def _by_id(ids: Sequence[str], found: object) -> dict[str, Document]:
    if isinstance(found, Mapping):
        pairs = [(str(key), value) for key, value in found.items()]
    else:
        documents = unpack(found) if not isinstance(found, list) else found
        if len(documents) != len(ids):
            raise InvalidTypeError(
                f"malformed: resolve must give one passage per id, or a mapping; got {len(documents)} for {len(ids)}"
            )
        pairs = list(zip(ids, documents, strict=True))
    return {
        key: value if isinstance(value, Document) else Document(page_content=str(value), id=key)
        for key, value in pairs
        if value is not None
    }


def _innermost(runnable: Runnable[str, Any]) -> object:
    while hasattr(runnable, "bound"):
        runnable = runnable.bound
    return runnable


def _accepted(runnable: Runnable[str, Any]) -> frozenset[str]:
    """Keyword arguments among k, limit and given that its ``invoke`` hands on."""
    inner = _innermost(runnable)
    if isinstance(inner, FunctionRetriever):
        return inner.accepts
    if isinstance(inner, ScoredVectorStoreRetriever):
        return frozenset({"k"})
    if isinstance(inner, BaseRetriever) and inner._expects_other_args:
        names = parameters_of(inner._get_relevant_documents)
        return (names | {"k"} if "kwargs" in names and hasattr(inner, "vectorstore") else names) & {"k", "given"}
    return frozenset()


def _deepened(runnable: Runnable[str, Any], limit: int) -> Runnable[str, Any]:
    """The retriever itself, or a copy with a larger ``k`` where its own is a field and smaller than `limit`."""
    if isinstance(runnable, BaseRetriever):
        own = getattr(runnable, "k", None)
        if isinstance(own, int) and own < limit and "k" in type(runnable).model_fields:
            return runnable.model_copy(update={"k": limit})
    return runnable
