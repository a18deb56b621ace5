"""Process one query from the sources to a result, for synchronous, asynchronous and staged calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from numpy.typing import ArrayLike

from phasegraph._support.clock import Deadline
from phasegraph._support.ordering import top_order
from phasegraph._support.text import counted
from phasegraph.errors import DegradedError, refusal
from phasegraph.fusion.context import Context
from phasegraph.fusion.decide import Shortlist, make_shortlist
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.fusion.settings import FusionSettings
from phasegraph.ranking import RERANK, Ranking
from phasegraph.reports import SourceReport, Status
from phasegraph.result import Result
from phasegraph.retrieval.access import HitAccess
from phasegraph.retrieval.answer import Answer, select_hits, with_text_warnings
from phasegraph.retrieval.correction import Correction
from phasegraph.retrieval.driver import Ask, Compute, Embed, Flow, RunStep, Sources
from phasegraph.retrieval.joining import join_hits
from phasegraph.retrieval.notes import with_notes
from phasegraph.retrieval.notices import FUSING_WAS_LATE, HITS_IF_LATE, Notices
from phasegraph.retrieval.routed_search import RoutedSearch
from phasegraph.retrieval.stages.models import Passage
from phasegraph.retrieval.stages.report import StageReport
from phasegraph.retrieval.stages.reranking import Rerank, read_ranking
from phasegraph.retrieval.stages.rewriting import combined
from phasegraph.retrieval.stages.rewritten_query import AskedQuery, bound_to, text_of
from phasegraph.retrieval.stages.routing import Routed
from phasegraph.retrieval.stages.settings import Stages
from phasegraph.selection import SelectionPolicy
from phasegraph.sources.gatherer import Gathered, Gatherer
from phasegraph.sources.protocol import best_hits
from phasegraph.sources.steps import StageStatus, Tried
from phasegraph.sources.workers import Late

_MANY_HITS = 10_000

_IDS_OF = attrgetter("ids")

_WORDS_OF = attrgetter("words")

_STATUS_OF: Mapping[StageStatus, Status] = {"ok": "ok", "failed": "error", "late": "timeout", "skipped": "skipped"}


@dataclass(slots=True)
class Draft:
    """The fused and accepted candidates of a query, with the rankings and the context from which they were computed."""

    rankings: Sequence[Ranking]
    context: Context
    reports: tuple[SourceReport, ...]
    shortlist: Shortlist


@dataclass(slots=True)
class Call:
    """The processing of one query, from the sources to a result.

    :meth:`flow` runs all steps, for synchronous and asynchronous calls alike. `read` is True if the query's words must
    be searched in the texts of the hits. :meth:`flow` may set `read`, replace the weights in `pipeline`, and sets the
    last four fields. `stage_reports` are the reports of the stages (rewriting, routing, reranking and correction).
    `routed` maps each source that the router chose to its weight; a weight of None means the pipeline's weight. If
    `routed` itself is None, all sources are asked. `may_be_late` is True if fusing may be slow, and therefore runs in a
    worker. `is_late` is True if fusing missed the deadline.
    """

    query: str
    sources: Sources
    k: int | None
    read: bool
    deadline: Deadline
    gatherer: Gatherer
    pipeline: FusionPipeline
    access: HitAccess
    stages: Stages
    notices: Notices
    mismatched: Mapping[str, str]
    stage_reports: list[StageReport] = field(default_factory=list)
    routed: Routed | None = None
    may_be_late: bool = False
    is_late: bool = False

    def flow(self) -> Flow[Answer]:
        """Run all steps: ask the sources, calibrate and fuse scores, apply thresholds, rerank, select and correct."""
        gathered = yield from self._ask()
        draft = yield from self._fuse(gathered)
        draft = yield from self._rerank(draft)
        result = self._timely((yield from self._select(draft)))
        result = yield from self._correct(draft, result)
        return self._finish(result)

    def _ask(self) -> Flow[Gathered]:
        """Ask the sources that the router chooses, or all sources if there is no router."""
        if self.stages.route is None:
            gathered: Gathered = yield Ask(self.gatherer, self.sources, self.query)
            return gathered
        search = RoutedSearch(
            self.stages.route, self.sources, self.query, self.gatherer, self.pipeline.weights, self.stage_reports
        )
        gathered, routed = yield from search.flow()
        self._use_weights(routed)
        return gathered

    def _use_weights(self, routed: Routed | None) -> None:
        """Store the sources that the router chose, and use their weights for fusing; None stands for all sources."""
        self.routed = routed
        given = {} if routed is None else {name: one for name, one in routed.items() if one is not None}
        if given:
            self.pipeline = replace(self.pipeline, weights=dict.fromkeys(self.gatherer.settings, 0.0) | given)

    def _fuse(self, gathered: Gathered) -> Flow[Draft]:
        """Fuse the candidates and apply thresholds; at the deadline, fuse only the best hits of each source."""
        self._decide_to_read(gathered)
        self.may_be_late = self._may_be_late(gathered)
        make = partial(self._draft, self.query, gathered)
        try:
            draft: Draft = (yield Compute(make, self.notices.guard)) if self.may_be_late else make()
        except Late:
            self.is_late = True
            draft = self._late_draft(gathered)
        if self.pipeline.weights is None:
            self.notices.lost_weight.see(draft.shortlist)
        self.notices.group_key.see(draft.shortlist)
        return draft

    def _decide_to_read(self, gathered: Gathered) -> None:
        """Set `read` to True if fusing or a threshold needs the query's words in the texts of the hits."""
        self.read = self.read or needs_words(self.pipeline, gathered.rankings)

    def _may_be_late(self, gathered: Gathered) -> bool:
        """Return True if fusing may be slow: it runs code of the user, reads texts, or fuses over 10,000 hits."""
        pipeline = self.pipeline
        if pipeline.priors or (pipeline.accept is not None and callable(pipeline.accept.on_empty)):
            return True
        return self.read or sum(map(len, map(_IDS_OF, gathered.rankings))) > _MANY_HITS

    def _draft(self, query: str, gathered: Gathered, earlier: Sequence[Ranking] = ()) -> Draft:
        """Join hits of the same passage; then calibrate and fuse them with `earlier` rankings, and apply thresholds.

        The texts of the hits are searched for the query's words only if `read` is True.
        """
        text, notices = self.access.text, self.notices
        rankings: Sequence[Ranking]
        rankings, notes = join_hits(gathered.rankings, text, notices.shared_ids)
        notices.id_overlap.see(rankings, text)
        reports = self._noted(gathered.reports, notes)
        if self.routed is not None:
            rankings = [one for one in rankings if one.source in self.routed]
        context = self.access.context(query, rankings if self.read else None)
        if self.pipeline.accept is not None:
            notices.answers.see(self.pipeline.accept, rankings)
        if earlier:
            rankings = _united(earlier, rankings)
        return Draft(rankings, context, reports, self._shortlist(self.pipeline, rankings, context, reports))

    def _shortlist(
        self, pipeline: FusionSettings, rankings: Sequence[Ranking], context: Context, reports: Sequence[SourceReport]
    ) -> Shortlist:
        k = None if self.k == pipeline.k else self.k  # copying the pipeline has a cost
        return make_shortlist(pipeline, rankings, context, reports=reports, k=k)

    def _late_draft(self, gathered: Gathered) -> Draft:
        """Fuse only the best hits of each source, without priors (such as recency) and without reading texts."""
        changes: dict[str, Any] = {"priors": ()}
        accept = self.pipeline.accept
        if accept is not None and callable(accept.on_empty):
            changes["accept"] = replace(accept, on_empty="abstain")
        rankings = [one if len(one) <= HITS_IF_LATE else best_hits(one, HITS_IF_LATE) for one in gathered.rankings]
        context, reports = Context(query=self.query), self._noted(gathered.reports)
        made = self._shortlist(replace(self.pipeline, **changes), rankings, context, reports)
        return Draft(rankings, context, made.reports, replace(made, degraded=True))

    def _noted(
        self, reports: tuple[SourceReport, ...], notes: Mapping[str, Sequence[str]] = MappingProxyType({})
    ) -> tuple[SourceReport, ...]:
        """Add `notes`, which are texts by source name, to the sources' reports.

        Also add a note for each calibrator that was fitted for another model.
        """
        if not self.mismatched and not notes:
            return reports
        return with_notes(reports, notes, self.mismatched)

    def _rerank(self, draft: Draft) -> Flow[Draft]:
        """Add the reranker's ranking to the fused candidates, if there is a reranker that can change the result."""
        stages, shortlist, pipeline = self.stages, draft.shortlist, self.pipeline
        rerank, ids = stages.rerank, shortlist.candidates.ids
        if rerank is None or not ids or (rerank.blend == 0 and not _judges_reranked(pipeline)):
            return draft
        best = [ids[row] for row in top_order(shortlist.final, ids, rerank.depth)]
        judged, report = yield from self._judge(rerank, rerank.texts(best, draft.rankings, self.access))
        make = partial(
            self._shortlist, shortlist.pipeline, draft.rankings if judged is None else [*draft.rankings, judged],
            replace(draft.context, blend=rerank.blend), (*draft.reports, report),
        )  # fmt: skip
        try:
            shortlist = (yield Compute(make, self.notices.guard)) if self.may_be_late else make()
        except Late:
            self.is_late = True
        return replace(draft, shortlist=shortlist)

    def _judge(self, rerank: Rerank, passages: Sequence[Passage]) -> Flow[tuple[Ranking | None, SourceReport]]:
        """Run the reranker on passages, and return its ranking (None if it failed) and its report."""
        step: Any = self.stages.reranker
        given = list(passages) if self.stages.reads_hits else [one.text for one in passages]
        tried: Tried = yield RunStep(step, (self.query, given), lambda answer: read_ranking(passages, answer))
        judged: Ranking | None = tried.value
        detail = {} if judged is None else {"judged": len(judged), "of": len(passages), "blend": rerank.blend}
        status, reason = _STATUS_OF[tried.status], tried.reason
        if judged is not None and not len(judged):
            status, reason = "empty", f"the reranker rejected all {len(passages)} passages: the fused order is used"
        self.stage_reports.append(StageReport("rerank", tried.status, reason, tried.milliseconds, detail=detail))
        error = "" if tried.error is None else type(tried.error).__name__
        return judged, SourceReport(
            RERANK, status, reason, error, tried.milliseconds, 0 if judged is None else len(judged),
            0 if judged is None else judged.dropped,
        )  # fmt: skip

    def _select(self, draft: Draft) -> Flow[Result]:
        """Select the passages to return from the candidates; use the fused order if the selection is late."""
        shortlist, guard = draft.shortlist, self.notices.guard
        if shortlist.pipeline.selection is None:
            return shortlist.decide()
        embeddings: Callable[[Sequence[str]], ArrayLike] | None = None
        try:
            if wanted := shortlist.to_embed:
                try:
                    embedded: ArrayLike = yield Embed(self.access, wanted, draft.rankings, guard)
                    embeddings = partial(_embedded, embedded)
                except (MemoryError, Late):
                    raise
                except Exception as error:  # noqa: BLE001 - the result reports that the selection failed
                    embeddings = partial(_raise, error)
            result: Result = yield Compute(partial(shortlist.decide, embeddings), guard)
        except Late:
            result = self._unselected(shortlist)
        return result

    def _unselected(self, shortlist: Shortlist) -> Result:
        """Return the result in the fused order, with a warning that the selection was late."""
        policy = shortlist.pipeline.selection
        said = f"selection by {policy.method if policy else ''} was not ready in time: the fused order is used"
        if self.pipeline.strict:
            raise DegradedError(refusal(said))
        plain = SelectionPolicy("top") if policy is None else SelectionPolicy("top", budget=policy.budget)
        result = replace(shortlist, pipeline=replace(shortlist.pipeline, selection=plain)).decide()
        return replace(result, warnings=(*result.warnings, said))

    def _timely(self, result: Result) -> Result:
        """Add a warning to the result if fusing missed the deadline.

        Also give a Python warning when fusing starts or stops missing the deadline.
        """
        self.notices.guard.see(self.is_late)
        if not self.is_late:
            return result
        if self.pipeline.strict:
            raise DegradedError(refusal(FUSING_WAS_LATE))
        return replace(result, warnings=(*result.warnings, FUSING_WAS_LATE))

    def _correct(self, draft: Draft, result: Result) -> Flow[Result]:
        """Search again with a rewritten query if the result is empty or has a poor grade; return the final result."""
        if self.stages.corrective is None:
            return result
        correction = Correction(
            self.stages, self.query, self.access, self.deadline, self.stage_reports,
            partial(self._ask_again, draft),
        )  # fmt: skip
        return (yield from correction.flow(result))

    def _ask_again(self, draft: Draft, rewritten: AskedQuery, merges: bool) -> Flow[Result]:
        """Search and fuse with a rewritten query.

        If `merges` is True, the hits of the original query, which are in `draft`, are fused with the new hits.
        """
        text, names = text_of(rewritten), [one.source for one in draft.reports if one.source in self.sources]
        asked = {name: bound_to(self.sources[name], rewritten) for name in names}
        gathered: Gathered = yield Ask(self.gatherer, asked, text)
        self._decide_to_read(gathered)
        make = partial(self._draft, text, gathered, draft.rankings if merges else ())
        second: Draft = (yield Compute(make, self.notices.guard)) if self._may_be_late(gathered) else make()
        return (yield from self._select(second))

    def _finish(self, result: Result) -> Answer:
        """Return the result and the payload of each passage; add warnings about failed stages and missing texts."""
        staged = self.stages.are_set
        if staged:
            result = self._with_stage_reports(result)
        if self.pipeline.group_by is not None:
            result = self._with_group_warning(result)
        hits = select_hits(result, self.access)
        result = with_text_warnings(result, hits)
        for step in self.stages.steps if staged else ():
            step.announce()
        return result, hits

    def _with_group_warning(self, result: Result) -> Result:
        """Add a warning if the answer has too few documents, because the sources returned too few of their hits."""
        pipeline, settings = self.pipeline, self.gatherer.settings
        wanted, found = pipeline.k if self.k is None else self.k, len(result.ids)
        if found >= wanted or pipeline.accept is not None or pipeline.selection is not None:
            return result
        limits = {
            one.source: settings[one.source].limit for one in result.candidates.rankings if one.source in settings
        }
        cut = [one for one in result.candidates.rankings if len(one) == limits.get(one.source)]
        if not cut:
            return result
        names = ", ".join(repr(one.source) for one in cut)
        said = (
            f"group_by: the answer has {counted(found, 'document')}, but k={wanted}. {names} returned only the best "
            f"{len(cut[0])} hits: if the corpus has more documents, raise fetch_k"
        )
        self.notices.few_groups.warn(said)
        return replace(result, warnings=(*result.warnings, said))

    def _with_stage_reports(self, result: Result) -> Result:
        reports = self.stage_reports
        for source in self.sources.values():
            reports[:0] = getattr(source, "reports", ())
        bad = [one for one in reports if one.status != "ok"]
        if self.pipeline.strict and bad:
            listed = "; ".join(f"{one.stage} {one.status} ({one.reason})" for one in bad)
            raise DegradedError(refusal(listed))
        said = tuple(map(_said_of, bad))
        return replace(result, extras={**result.extras, "stages": tuple(reports)}, warnings=(*result.warnings, *said))


def _united(earlier: Sequence[Ranking], later: Sequence[Ranking]) -> list[Ranking]:
    """Merge the rankings of two queries, `earlier` and `later`, into one ranking for each source, in name order."""
    lists: dict[str, list[Ranking]] = {}
    for ranking in (*earlier, *later):
        lists.setdefault(ranking.source, []).append(ranking)
    return [combined(name, lists[name], "union") for name in sorted(lists)]


def _embedded(embeddings: ArrayLike, _: Sequence[str]) -> ArrayLike:
    return embeddings


def _raise(error: Exception, _: Sequence[str]) -> ArrayLike:
    raise error


def _said_of(report: StageReport) -> str:
    where = f" of {report.source!r}" if report.source else ""
    return f"{report.stage}{where} {report.status}: {report.reason}"


def _judges_reranked(pipeline: FusionPipeline) -> bool:
    return pipeline.accept is not None and RERANK in pipeline.accept.thresholds


def needs_words(pipeline: FusionPipeline, rankings: Iterable[Ranking]) -> bool:
    """Return True if the pipeline must know which words of the query occur in the hits; finding them is slow."""
    if pipeline.accept is not None and pipeline.accept.confidence is not None:
        return True
    return next(filter(None, map(_WORDS_OF, rankings)), None) is not None
