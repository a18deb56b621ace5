"""One source within one call."""

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

Mode: TypeAlias = Literal["search", "drive", "task"]  # in a worker; a coroutine in a worker; a task of an event loop


def search_of(source: object) -> Search | None:
    """The source's own ``search``, or None where it has none."""
    return _own(source, "search", Source.search)


def asearch_of(source: object) -> Search | None:
    """The source's own ``asearch``, or None where it has none or only inherits the protocol's empty one."""
    return _own(source, "asearch", AsyncSource.asearch)


def _own(source: object, name: str, stub: object) -> Search | None:
    method = getattr(source, name, None)
    if not callable(method) or getattr(method, "__func__", None) is stub:
        return None
    found: Search = method
    return found


def cut_note(found: int, limit: int) -> str:
    """What the report says of an answer longer than was asked for."""
    return f"returned {found} hits where {limit} were asked for; the best {limit} were kept"


@dataclass(slots=True, eq=False)
class SourceTask:
    """One source within one call."""

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
        """The source's answer; call it on a worker."""
        return self._checked(self.function(query, self.settings.limit, self.upstream))

    async def asearch(self, query: str) -> Ranking:
        """The source's answer, awaited."""
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
        """Note, once, that the search has ended, in time or late."""
        if not self.ended:
            self.ended = True
            self.state.leave()

    def give_up(self) -> None:
        """Cancel the search where that is possible, and let it know."""
        self.over.append(True)
        if self.cancel is not None:
            self.cancel()

    def report(self) -> SourceReport:
        """What the source did, for the caller."""
        error_class = "" if self.error is None or self.status == "skipped" else type(self.error).__name__
        dropped, notes = 0 if self.ranking is None else self.ranking.dropped, getattr(self.source, "notes", None)
        if notes and isinstance(notes, list | tuple):
            self.notes = (*self.notes, *filter(None, notes))
        return SourceReport(
            self.name, self.status, self.reason, error_class, self.milliseconds, self.hits, dropped, "", self.missing,
            self.notes,
        )  # fmt: skip
