"""The search of one source within one call: its state, its outcome and its report."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import Literal, TypeAlias

from phasegraph._support.clock import FOREVER
from phasegraph.ranking import Ranking
from phasegraph.reports import SourceReport, Status
from phasegraph.sources.protocol import (
    AsyncSource,
    MalformedAnswerError,
    Search,
    Source,
    Upstream,
    as_ranking,
    best_hits,
)
from phasegraph.sources.settings import SourceSettings
from phasegraph.sources.source_state import SourceState

Mode: TypeAlias = Literal["search", "drive", "task"]  # a function in a worker; a coroutine in a worker; an asyncio task


def search_of(source: object) -> Search | None:
    """Return the source's ``search`` method; None if it has no such method."""
    return _own(source, "search", Source.search)


def asearch_of(source: object) -> Search | None:
    """Return the source's ``asearch`` method; None if it has no such method, or only the protocol's empty method."""
    return _own(source, "asearch", AsyncSource.asearch)


def _own(source: object, name: str, stub: object) -> Search | None:
    method = getattr(source, name, None)
    if not callable(method) or getattr(method, "__func__", None) is stub:
        return None
    found: Search = method
    return found


def cut_note(found: int, limit: int) -> str:
    """Return a note for the source's report: the source returned `found` hits, and only `limit` hits are used."""
    return f"returned {found} hits instead of {limit}; the best {limit} were used"


@dataclass(slots=True, eq=False)
class SourceTask:
    """The search of one source within one call: its settings, state and outcome.

    `over` is a list that serves as a flag: the call adds an item when it gives up the search, and the search reads the
    same list in its own thread. `due` is the time of the source's own deadline on the clock of the call.
    """

    name: str
    source: object
    settings: SourceSettings
    state: SourceState
    function: Search
    mode: Mode
    context: Context
    upstream: Upstream
    over: list[bool]
    missing: tuple[str, ...] = ()
    launched: bool = False
    queued: bool = False
    waited: bool = False
    admitted: bool = False
    begun: bool = False
    settled: bool = False
    probe: bool = False
    ended: bool = False
    due: float = FOREVER
    cancel: Callable[[], None] | None = None
    status: Status = "skipped"
    reason: str = ""
    notes: tuple[str, ...] = ()
    ranking: Ranking | None = None
    error: BaseException | None = None
    milliseconds: float = 0.0
    hits: int = 0

    def search(self, query: str) -> Ranking:
        """Search the source, and return its ranking; this blocks the thread, so it runs on a worker."""
        return self._checked(self.function(query, self.settings.limit, self.upstream))

    async def asearch(self, query: str) -> Ranking:
        """Await the source's search, and return its ranking."""
        pending = self.function(query, self.settings.limit, self.upstream)
        if not inspect.isawaitable(pending):
            raise MalformedAnswerError(f"asearch must return an awaitable; got {type(pending).__name__}")
        return self._checked(await pending)

    def _checked(self, answer: object) -> Ranking:
        known = type(answer) is Ranking and answer.source == self.name
        ranking: Ranking = answer if known else as_ranking(self.name, answer)  # type: ignore[assignment]
        limit = self.settings.limit
        if limit is None or len(ranking) <= limit:
            return ranking
        self.notes = (cut_note(len(ranking), limit),)
        return best_hits(ranking, limit)

    def end(self) -> None:
        """Record in the source's state that the search has ended, in time or late; a second call does nothing."""
        if not self.ended:
            self.ended = True
            self.state.leave()

    def give_up(self) -> None:
        """Set the flag `over`, which a search in a thread reads, and cancel the search if it is an asyncio task."""
        self.over.append(True)
        if self.cancel is not None:
            self.cancel()

    def report(self) -> SourceReport:
        """Return the report of the source for the caller."""
        error_class = "" if self.error is None or self.status == "skipped" else type(self.error).__name__
        dropped, notes = 0 if self.ranking is None else self.ranking.dropped, getattr(self.source, "notes", None)
        if notes and isinstance(notes, list | tuple):
            self.notes = tuple(dict.fromkeys((*self.notes, *filter(None, notes))))
        return SourceReport(
            self.name, self.status, self.reason, error_class, self.milliseconds, self.hits, dropped, "", self.missing,
            self.notes,
        )  # fmt: skip
