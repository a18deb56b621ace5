"""One source within one call: how it is asked, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from types import MappingProxyType
from typing import Literal, TypeAlias

from phasegraph.candidates import Ranking, SourceReport, Status
from phasegraph.sources.answers import as_ranking, best_hits
from phasegraph.sources.protocol import Given, Search
from phasegraph.sources.settings import SourceSettings
from phasegraph.sources.state import SourceState

Way: TypeAlias = Literal["search", "drive", "task"]
_NOTHING: Given = MappingProxyType({})


def cut_note(found: int, limit: int) -> str:
    """What the report says of an answer longer than was asked for."""
    return f"returned {found} hits where {limit} were asked for; the best {limit} were kept"


class Slot:
    """One source within one call."""

    __slots__ = (
        "_left", "admitted", "begun", "cancel", "context", "due", "error", "function", "given", "hits", "launched",
        "milliseconds", "name", "needs", "notes", "probe", "ranking", "reason", "settings", "settled", "state",
        "status", "way", "without",
    )  # fmt: skip

    def __init__(
        self, name: str, settings: SourceSettings, state: SourceState, function: Search, way: Way, context: Context
    ) -> None:
        self.name = name
        self.settings = settings
        self.state = state
        self.function = function
        self.way: Way = way
        self.context = context
        self.needs = settings.needs
        self.given = _NOTHING
        self.without: tuple[str, ...] = ()
        self.admitted = self.launched = self.begun = self.settled = self.probe = self._left = False
        self.due = float("inf")
        self.cancel: Callable[[], None] | None = None
        self.status: Status = "skipped"
        self.reason = ""
        self.notes: tuple[str, ...] = ()
        self.ranking: Ranking | None = None
        self.error: BaseException | None = None
        self.milliseconds = 0.0
        self.hits = 0

    def leave(self) -> None:
        """Note, once, that its search has ended, in time or late."""
        if not self._left:
            self._left = True
            self.state.leave()

    def ranking_from(self, answer: object) -> Ranking:
        """What the source returned, as a ranking of at most as many hits as were asked for."""
        ranking = as_ranking(self.name, answer)
        limit = self.settings.limit
        if limit is None or len(ranking) <= limit:
            return ranking
        self.notes = (cut_note(len(ranking), limit),)
        return best_hits(ranking, limit)

    def report(self) -> SourceReport:
        """Its line of the answer."""
        ranking, error = self.ranking, self.error
        return SourceReport(
            self.name,
            self.status,
            self.reason,
            "" if error is None or self.status == "skipped" else type(error).__name__,
            self.milliseconds,
            self.hits,
            0 if ranking is None else ranking.dropped,
            without=self.without,
            notes=self.notes,
        )
