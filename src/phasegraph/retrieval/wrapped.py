"""Use a framework's retriever as a source: search it, and take missing texts from other sources.

An integration derives a class from each of the two base classes. There is a :class:`WrappedSource` for each retriever,
and a :class:`SourceCall` for each call. This module contains the search code for both integrations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, cast

from phasegraph.errors import InvalidTypeError
from phasegraph.ranking import Ranking
from phasegraph.retrieval.access import HitAccess
from phasegraph.retrieval.additions import Additions
from phasegraph.retrieval.attempts import Attempts
from phasegraph.retrieval.deletions import Deletions, LookUps, timely
from phasegraph.retrieval.filters import within_filter
from phasegraph.retrieval.reading import HitReader, completed, with_passages
from phasegraph.retrieval.source_spec import HitFields
from phasegraph.retrieval.stages.rewritten_query import RewrittenQuery
from phasegraph.sources.protocol import AnySource, Upstream
from phasegraph.sources.workers import in_thread


class WrappedSource:
    """Base class of sources that wrap a framework's retriever; a fused retriever has one object for each source.

    `names_only` is True if hits contain only ids; other sources then give their texts. `has_texts` is True if the
    source has its own store of texts. `held_ids` are the ids of the source's passages in memory. `access` reads the
    framework's documents or nodes. `is_narrowed` is True if search arguments other than a filter, such as a namespace,
    can limit the search to a part of the store.
    """

    access = HitAccess()
    is_narrowed = False
    names_only = False
    has_texts = False
    held_ids: Sequence[str] = ()

    def __init__(self, name: str, fields: HitFields, reader: HitReader) -> None:
        self.name, self.resolve, self.reader = name, fields.resolve, reader
        self.has_own_ids = fields.id is None
        self.look_ups: LookUps = {}
        self.deletions, self.additions = Deletions(name), Additions()

    @property
    def corpus(self) -> Any:
        """The corpus that the source searches; None if the source has no corpus of its own."""
        raise NotImplementedError

    def look_up(self) -> Callable[[Sequence[str]], Mapping[str, Any]] | None:
        """Return the function that finds passages by id in the source's store.

        Return None if the store cannot look up ids, or if the source searches only a part of its store.
        """
        raise NotImplementedError

    def live(self) -> Callable[[Sequence[str]], Mapping[str, Any]] | None:
        """Return the function that looks up passages in the store itself, and so finds only passages that still exist.

        Return None if the source has only copies of the passages.
        """
        raise NotImplementedError

    def borrow(self, others: Mapping[str, Self]) -> None:
        """Connect this source to the stores of other sources, to find missing texts and to detect deleted passages.

        A passage counts as deleted if this source has it in memory, and no store contains it any more.
        """
        others = {name: one for name, one in others.items() if one is not self}
        stores = {name: one.live() for name, one in others.items()} if self.held_ids else {}
        live = {name: timely(found) for name, found in stores.items() if found is not None}
        narrowed = [name for name in live if others[name].is_narrowed]
        self.deletions = Deletions(self.name, self.held_ids, live, self.access, narrowed)
        if self.names_only:
            texts = {name: one.look_up() for name, one in others.items()}
            self.look_ups = {name: timely(found) for name, found in texts.items() if found is not None}

    def settle(self, *, blocks: bool, awaits: bool) -> None:
        """Decide whether calls search the source synchronously, asynchronously, or both.

        `blocks` is True if the retriever has a synchronous search, and `awaits` if it has an asynchronous search.
        """
        resolve_awaits = inspect.iscoroutinefunction(self.resolve)
        blocks, awaits = blocks and not resolve_awaits, awaits and (self.resolve is None or resolve_awaits)
        if resolve_awaits and not awaits:
            raise InvalidTypeError(
                f"retrievers[{self.name!r}].resolve must be a plain function, because the retriever is not async; got "
                "a coroutine function"
            )
        self._kind: type[_Bound] = _Either if blocks and awaits else _Blocking if blocks else _Awaiting

    def bound(self, call: SourceCall) -> AnySource:
        """Create the source that the engine searches in one call; it uses the settings in `call`."""
        return cast("AnySource", self._kind(call))


class SourceCall:
    """Base class of an object that searches a wrapped retriever for one call, and reads the answer.

    `is_filtered` is True if the call has a filter. `notes` is a list of remarks for the source's report, one for each
    repaired problem in the answer.
    """

    __slots__ = ("is_filtered", "notes", "source")

    def __init__(self, source: Any, *, is_filtered: bool, notes: list[str] | None = None) -> None:
        self.source, self.is_filtered = source, is_filtered
        self.notes: list[str] = [] if notes is None else notes

    def passes(self, hit: Any) -> bool:
        """Return True if a passage matches the filter of the call."""
        raise NotImplementedError

    def for_query(self, query: RewrittenQuery) -> Self:
        """Return an object that searches for a rewritten query; both objects add their notes to one list `notes`."""
        return self

    def ask(self, query: str, limit: int | None, upstream: Upstream) -> Any:
        """Search the retriever and return its answer."""
        raise NotImplementedError

    async def aask(self, query: str, limit: int | None, upstream: Upstream) -> Any:
        """Search the retriever asynchronously and return its answer."""
        raise NotImplementedError

    def read(self, answer: Any, limit: int | None) -> Ranking:
        """Convert the hits of an answer to a ranking; drop hits that do not match the filter."""
        raise NotImplementedError

    def unpack(self, answer: Any) -> Iterable[Any]:
        """Convert the answer of ``resolve``, in any accepted form, to an iterable of passages."""
        raise NotImplementedError

    def passage(self, identifier: str, value: Any) -> Any:
        """Convert a passage that ``resolve`` returned to the framework's form."""
        raise NotImplementedError

    def with_own_texts(self, ranking: Ranking) -> Ranking:
        """Add texts from the source's own store to the ranking; this base class returns the ranking unchanged."""
        return ranking

    async def awith_own_texts(self, ranking: Ranking) -> Ranking:
        """Add texts as :meth:`with_own_texts` does, without blocking the event loop."""
        return ranking


class _Bound:
    """A source with the settings of a single call of the retriever, such as the call's filter."""

    __slots__ = ("call", "notes")

    def __init__(self, call: SourceCall) -> None:
        self.call, self.notes = call, call.notes

    def for_query(self, query: RewrittenQuery) -> Self:
        """Return the same source for a rewritten query."""
        return type(self)(self.call.for_query(query))

    def _resolved(self, ranking: Ranking, found: object) -> Ranking:
        """Add the passages that ``resolve`` returned (`found`), and drop passages that do not match the filter."""
        call = self.call
        ranking = with_passages(ranking, found, call.unpack, call.passage, self.notes)
        return within_filter(ranking, call.passes, self.notes) if call.is_filtered else ranking

    def _borrowed(self, ranking: Ranking, upstream: Upstream) -> Ranking:
        """Add texts from other sources if the call has no filter, drop deleted passages, and renew changed passages.

        Also note passages that only the store of the corpus has.
        """
        source: WrappedSource = self.call.source
        deletions = source.deletions
        if (corpus := source.corpus) is not None:
            source.additions.see(corpus, upstream, self.notes)
        if source.names_only and not self.call.is_filtered:
            ranking = completed(
                ranking, upstream.values(), source.look_ups, self.notes, deletions, own=source.has_texts
            )
        passes = self.call.passes if self.call.is_filtered else None
        return deletions.checked(ranking, upstream, self.notes, passes) if deletions else ranking


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
