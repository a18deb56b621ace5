"""A LangChain retriever as a source of the core."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Collection, Mapping
from typing import Any, cast

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.configurable import DynamicRunnable

from langchain_phasegraph.calling import ainvoke, invoke
from langchain_phasegraph.documents import unpack
from langchain_phasegraph.filtering import check_filter, filter_of, joined, only_matching
from langchain_phasegraph.kinds import accepted, bound_filters, deepened, is_asynchronous, is_synchronous, leaves
from langchain_phasegraph.lexical import narrowed
from langchain_phasegraph.reading import Reader
from langchain_phasegraph.searching import as_runnable
from phasegraph import InvalidInputError, InvalidTypeError, Ranking
from phasegraph.adapters import Direction, known_direction
from phasegraph.adapters.resolving import by_id, note_missing
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
        store = getattr(leaves(self.runnable)[0], "vectorstore", None)
        self.reader = Reader(name, spec, Direction(spec.higher_is_better, known_direction(store), name))
        self.accepts = accepted(self.runnable)
        self._dynamic = isinstance(self.runnable, DynamicRunnable)
        self._may_deepen = self._dynamic or any("k" in _fields(leaf) for leaf in leaves(self.runnable))
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

    def arguments(
        self, limit: int | None, given: Given, config: RunnableConfig
    ) -> tuple[Runnable[str, Any], RunnableConfig, dict[str, Any]]:
        """What to invoke, with which configuration, and the keyword arguments it takes."""
        runnable, wanted = self.runnable, filter_of(config)
        if self._dynamic:
            prepared, config = runnable.prepare(config)  # type: ignore[attr-defined]
            runnable = as_runnable(prepared)
        keywords: dict[str, Any] = {}
        if wanted is not None and "filter" in self.accepts:
            keywords["filter"] = joined(wanted, *map(check_filter, bound_filters(runnable)))
        elif wanted is not None:
            part = narrowed(runnable, wanted)
            if part is None:
                raise InvalidInputError("a source must take a filter where one is given; it takes none")
            runnable = part
        for key in ("k", "limit"):
            if key in self.accepts and limit is not None:
                keywords[key] = limit
        if "given" in self.accepts:
            keywords["given"] = given
        if not self.accepts & {"k", "limit", "given"} and limit is not None and self._may_deepen:
            runnable = deepened(runnable, limit)
        return runnable, config, keywords


class _Bound:
    __slots__ = ("_config", "_notes", "_source")

    def __init__(self, source: RetrieverSource, config: RunnableConfig, notes: list[str]) -> None:
        self._source = source
        self._config = config
        self._notes = notes

    def search(self, query: str, limit: int | None, given: Given) -> Ranking:
        source = self._source
        runnable, config, keywords = source.arguments(limit, given, self._config)
        answer = _within(invoke(runnable, query, config, keywords), filter_of(self._config))
        ranking = source.reader.ranking(answer, limit, self._notes)
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
        runnable, config, keywords = source.arguments(limit, given, self._config)
        answer = _within(await ainvoke(runnable, query, config, keywords), filter_of(self._config))
        ranking = source.reader.ranking(answer, limit, self._notes)
        if source.spec.resolve is None or not len(ranking):
            return ranking
        found = await cast("Awaitable[object]", source.spec.resolve(ranking.ids))
        return _resolved(ranking, found, self._notes)


class _Both(_Bound):
    __slots__ = ()
    asearch = _AsyncBound.asearch


def _within(answer: object, wanted: Mapping[str, Any] | None) -> object:
    """The hits that a call's filter lets through; all of them where there is none."""
    return answer if wanted is None else only_matching(answer, wanted)


def _fields(runnable: object) -> Collection[str]:
    return getattr(type(runnable), "model_fields", ())


def _resolved(ranking: Ranking, found: object, notes: list[str]) -> Ranking:
    """The ranking with the passages that `resolve` gave; a hit without one keeps its own document."""
    given = by_id(ranking.ids, found, unpack)
    passages = {
        key: value if isinstance(value, Document) else Document(page_content=str(value), id=key)
        for key, value in given.items()
    }
    note_missing(ranking.ids, passages, notes)
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
