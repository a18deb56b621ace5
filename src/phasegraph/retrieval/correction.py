"""Correct an answer (CRAG): if it is empty or has a poor grade, search again with a rewritten query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from phasegraph._support.clock import Deadline
from phasegraph.errors import AllSourcesFailed, InvalidInputError
from phasegraph.result import Result
from phasegraph.retrieval.access import HitAccess
from phasegraph.retrieval.driver import HALF, Flow, RunStep
from phasegraph.retrieval.stages.corrective import read_grade
from phasegraph.retrieval.stages.report import StageReport
from phasegraph.retrieval.stages.rewriting import read_queries
from phasegraph.retrieval.stages.rewritten_query import AskedQuery, is_unused, text_of
from phasegraph.retrieval.stages.settings import Stages
from phasegraph.sources.steps import StageStatus, Tried
from phasegraph.sources.workers import Late

_EMBEDS_NOTHING = "no source embeds a text"

_LEAST_SECONDS = 0.01
"""Minimum remaining time of a call in seconds for a second search. With less time, every source would be late."""


class _Outcome(NamedTuple):
    """The outcome of a correction: the second answer (None if the first answer is returned), a status and a reason."""

    status: StageStatus = "ok"
    reason: str = ""
    second: Result | None = None


@dataclass(slots=True)
class Correction:
    """The correction of the answer to one query.

    ``search(rewritten query, merges)`` searches again; if `merges` is True, it fuses the hits of both queries.
    The report of the correction is appended to `stage_reports`; `detail` is a part of the report.
    """

    stages: Stages
    query: str
    access: HitAccess
    deadline: Deadline
    stage_reports: list[StageReport]
    search: Callable[[AskedQuery, bool], Flow[Result]]
    detail: dict[str, object] = field(default_factory=lambda: {"action": "kept"})

    def flow(self, first: Result) -> Flow[Result]:
        """Return the first answer, or the answer to a rewritten query; report which, and why."""
        now = self.deadline.clock.now
        begun = now()
        status, reason, second = yield from self._corrected(first)
        milliseconds = (now() - begun) * 1000.0
        self.stage_reports.append(StageReport("correct", status, reason, milliseconds, detail=self.detail))
        return first if second is None else second

    def _corrected(self, first: Result) -> Flow[_Outcome]:
        """Grade the first answer, and search again if the grade is poor; search again without a grade if it is empty.

        Without a grader, an answer with hits is returned unchanged.
        """
        if not len(first):
            return (yield from self._search_again("replaced"))
        corrective, grader = self.stages.corrective, self.stages.grader
        if corrective is None or grader is None:
            return _Outcome()
        texts = corrective.graded(self.access.texts(first.ids, first.candidates.rankings))
        grade: Tried = yield RunStep(grader, (self.query, texts), read_grade, HALF)
        if grade.error is not None:
            return _Outcome(grade.status, grade.reason)
        self.detail["grade"] = grade.value
        action = corrective.action(grade.value)
        return _Outcome() if action == "kept" else (yield from self._search_again(action))

    def _search_again(self, action: str) -> Flow[_Outcome]:
        """Rewrite the query and search with it; `action` says if the new hits are ``merged`` with the first hits."""
        rewriter: Any = self.stages.rewriter
        rewriting: Tried = yield RunStep(rewriter, (self.query,), read_queries, HALF)
        if rewriting.error is not None:
            return _Outcome(rewriting.status, rewriting.reason)
        rewritten: AskedQuery = rewriting.value[0]
        self.detail["texts"] = (text_of(rewritten),)
        left = self.deadline.left()
        if left is not None and left < _LEAST_SECONDS:
            return _Outcome("late", "no time was left for a second search")
        try:
            second = yield from self.search(rewritten, action == "merged")
        except (AllSourcesFailed, InvalidInputError) as error:
            return _Outcome("failed", type(error).__name__)
        except Late:
            return _Outcome("late", "the answer to the rewritten query was not ready in time")
        if is_unused(rewritten, self.query):
            rewriter.note_unused(_EMBEDS_NOTHING)
            return _Outcome("unused", _EMBEDS_NOTHING)
        if not len(second):
            return _Outcome("ok", "the answer to the rewritten query is empty")
        self.detail["action"] = action
        return _Outcome(second=second)
