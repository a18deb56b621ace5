"""Use a framework's retriever as a source: its texts from other sources, and the search of one call.

An integration derives a :class:`WrappedSource`, which lives as long as its retriever, and a :class:`SourceCall`, which
lives for one call. This module contains the search code for both integrations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, cast

from phasegraph.errors import InvalidTypeError
from phasegraph.ranking import Ranking
from phasegraph.retrieval.attempts import Attempts
from phasegraph.retrieval.deletions import Deletions, LookUps
from phasegraph.retrieval.filters import within_filter
from phasegraph.retrieval.reading import HitReader, completed, with_passages
from phasegraph.retrieval.source_spec import HitFields
from phasegraph.retrieval.stages.rewritten_query import RewrittenQuery
from phasegraph.sources.protocol import AnySource, Upstream
from phasegraph.sources.workers import in_thread


class WrappedSource:
    """A framework's retriever as a source that lives as long as its retriever.

    `names_only` says that its hits only name their passages, whose texts come from other sources. `has_texts` says that
    it has a store of texts of its own. `held_ids` are the ids of the passages that it holds in memory.
    """

    names_only = False
    has_texts = False
    held_ids: Sequence[str] = ()

    def __init__(self, name: str, fields: HitFields, reader: HitReader) -> None:
        self.name, self.resolve, self.reader = name, fields.resolve, reader
        self.has_own_ids = fields.id is None
        self.look_ups: LookUps = {}
        self.deletions = Deletions(name)

    def look_up(self) -> Callable[[Sequence[str]], Mapping[str, Any]] | None:
        """Return the function that finds passages by id in the store; None if the source shows only a part."""
        raise NotImplementedError

    def live(self) -> Callable[[Sequence[str]], Mapping[str, Any]] | None:
        """Return the store, to ask which passages still exist; None for copied data."""
        raise NotImplementedError

    def borrow(self, others: Mapping[str, Self]) -> None:
        """Use other sources for the texts of passages that this source only names, and to detect deleted passages.

        A passage is deleted if this source holds it in memory and the store no longer has it.
        """
        others = {name: one for name, one in others.items() if one is not self}
        live = {name: found for name, one in others.items() if self.held_ids and (found := one.live()) is not None}
        self.deletions = Deletions(self.name, self.held_ids, live)
        if self.names_only:
            self.look_ups = {name: found for name, one in others.items() if (found := one.look_up()) is not None}

    def settle(self, *, blocks: bool, awaits: bool) -> None:
        """Choose the kind of search: `blocks` and `awaits` say whether the retriever can be called and awaited."""
        resolve_awaits = inspect.iscoroutinefunction(self.resolve)
        blocks, awaits = blocks and not resolve_awaits, awaits and (self.resolve is None or resolve_awaits)
        if resolve_awaits and not awaits:
            raise InvalidTypeError(
                f"retrievers[{self.name!r}].resolve must be a plain function; its retriever is not async"
            )
        self._kind: type[_Bound] = _Either if blocks and awaits else _Blocking if blocks else _Awaiting

    def bound(self, call: SourceCall) -> AnySource:
        """Create the source of one call."""
        return cast("AnySource", self._kind(call))


class SourceCall:
    """One call of a wrapped source: how the framework searches and reads it.

    `is_filtered` says whether a filter holds for the call. `notes` receives repaired problems.
    """

    __slots__ = ("is_filtered", "notes", "source")

    def __init__(self, source: Any, *, is_filtered: bool, notes: list[str] | None = None) -> None:
        self.source, self.is_filtered = source, is_filtered
        self.notes: list[str] = [] if notes is None else notes

    def passes(self, hit: Any) -> bool:
        """Whether a passage matches the filter of the call."""
        raise NotImplementedError

    def for_query(self, query: RewrittenQuery) -> Self:
        """Return the same call for a rewritten query; both share their notes."""
        return self

    def ask(self, query: str, limit: int | None, upstream: Upstream) -> Any:
        """Search the retriever and return its answer."""
        raise NotImplementedError

    async def aask(self, query: str, limit: int | None, upstream: Upstream) -> Any:
        """Search the retriever asynchronously and return its answer."""
        raise NotImplementedError

    def read(self, answer: Any, limit: int | None) -> Ranking:
        """Convert the hits that match the filter to a ranking."""
        raise NotImplementedError

    def unpack(self, answer: Any) -> Iterable[Any]:
        """Convert the passages that ``resolve`` returned, in any accepted form."""
        raise NotImplementedError

    def passage(self, identifier: str, value: Any) -> Any:
        """Convert a passage that ``resolve`` returned to the framework's form."""
        raise NotImplementedError

    def with_own_texts(self, ranking: Ranking) -> Ranking:
        """Add texts from the source's own store to the ranking."""
        return ranking

    async def awith_own_texts(self, ranking: Ranking) -> Ranking:
        """Run :meth:`with_own_texts` asynchronously."""
        return ranking


class _Bound:
    """A source that is bound to one call."""

    __slots__ = ("call", "notes")

    def __init__(self, call: SourceCall) -> None:
        self.call, self.notes = call, call.notes

    def for_query(self, query: RewrittenQuery) -> Self:
        """The same source for a rewritten query."""
        return type(self)(self.call.for_query(query))

    def _resolved(self, ranking: Ranking, found: object) -> Ranking:
        """Add the passages that ``resolve`` returned, and drop those that do not match the call's filter."""
        call = self.call
        ranking = with_passages(ranking, found, call.unpack, call.passage, self.notes)
        return within_filter(ranking, call.passes, self.notes) if call.is_filtered else ranking

    def _borrowed(self, ranking: Ranking, upstream: Upstream) -> Ranking:
        """Add texts from other sources (not within a filter), and drop deleted passages."""
        source: WrappedSource = self.call.source
        deletions = source.deletions
        if source.names_only and not self.call.is_filtered:
            ranking = completed(
                ranking, upstream.values(), source.look_ups, self.notes, deletions, own=source.has_texts
            )
        return deletions.checked(ranking, upstream, self.notes) if deletions else ranking


class _Blocking(_Bound):
    __slots__ = ()

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        call = self.call
        for attempt in Attempts(limit, self.notes, within=call.is_filtered):
            with attempt as count:
                answer = call.ask(query, count, upstream)
        ranking, resolve = call.read(answer, limit), call.source.resolve
        if resolve is not None and len(ranking):
            return self._resolved(ranking, resolve(ranking.ids))
        return self._borrowed(call.with_own_texts(ranking), upstream)


class _Awaiting(_Bound):
    __slots__ = ()

    async def asearch(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        call = self.call
        for attempt in Attempts(limit, self.notes, within=call.is_filtered):
            with attempt as count:
                answer = await call.aask(query, count, upstream)
        ranking, resolve = call.read(answer, limit), call.source.resolve
        if resolve is not None and len(ranking):
            found = resolve(ranking.ids)
            return self._resolved(ranking, await found if inspect.isawaitable(found) else found)
        ranking = await call.awith_own_texts(ranking)
        if not call.source.names_only:
            return ranking
        return cast("Ranking", await in_thread(lambda found: self._borrowed(found, upstream), ranking))


class _Either(_Blocking, _Awaiting):
    __slots__ = ()
