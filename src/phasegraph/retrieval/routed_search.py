"""Ask a router which sources to ask, and ask these sources; some routers first read the ranking of one source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from phasegraph.errors import AllSourcesFailed, InvalidInputError
from phasegraph.ranking import Ranking
from phasegraph.reports import SourceReport
from phasegraph.retrieval.driver import HALF, Ask, EarlyGather, Flow, Given, RunStep, Sources
from phasegraph.retrieval.stages.report import StageReport
from phasegraph.retrieval.stages.routing import Routed, Routing, read_route
from phasegraph.sources.gatherer import Gathered, Gatherer
from phasegraph.sources.protocol import CallableSource
from phasegraph.sources.steps import Tried
from phasegraph.sources.workers import Late

_SOURCE_OF = attrgetter("source")


@dataclass(frozen=True, slots=True)
class RoutedSearch:
    """The search of one query in the sources that a router chooses.

    `weights` are the pipeline's weights. The report of the router is appended to `stage_reports`.
    """

    routing: Routing
    sources: Sources
    query: str
    gatherer: Gatherer
    weights: Mapping[str, float] | None
    stage_reports: list[StageReport]

    def flow(self) -> Flow[tuple[Gathered, Routed | None]]:
        """Run the router, and ask the sources that it chooses.

        Returns the answers, and the weight of each chosen source. The weights are None if the router failed or could
        not run; all sources are then asked.
        """
        if self.routing.reads_ranking:
            return (yield from self._ask_after_first_source())
        routed = yield from self._choose()
        gathered: Gathered = yield Ask(self.gatherer, self._chosen(routed), self.query)
        return _with_early_reports(gathered, ()), routed

    def _ask_after_first_source(self) -> Flow[tuple[Gathered, Routed | None]]:
        """Ask the first source, let the router read its ranking, and ask the other sources that the router chooses."""
        first = "vector" if "vector" in self.sources else min(self.sources)
        needed = {name: self.sources[name] for name in self._with_needed([first])}
        early, answered, sources = EarlyGather(self.gatherer, needed, self.query), None, self.sources
        try:
            answered = yield early
        except AllSourcesFailed:
            pass
        except Late:
            sources = {**sources, **early.under_way}
        ranking = None if answered is None else next((one for one in answered.rankings if one.source == first), None)
        if answered is None or ranking is None:
            reason = f"source {first!r} returned no ranking, which the router needs"
            self.stage_reports.append(StageReport("route", "skipped", reason))
            try:
                return (yield Ask(self.gatherer, sources, self.query)), None
            finally:
                early.give_up()
        routed = yield from self._choose(ranking)
        chosen = dict(self._chosen(routed))
        for answer in answered.rankings:
            if answer.source in chosen:  # do not search this source again
                chosen[answer.source] = CallableSource(answer.source, Given(answer))
        gathered = yield Ask(self.gatherer, chosen, self.query)
        return _with_early_reports(gathered, answered.reports), routed

    def _choose(self, ranking: Ranking | None = None) -> Flow[Routed | None]:
        """Run the router and report it; return the weight of each source that it chose, or None if it failed."""
        arguments = [self.query] if ranking is None else [self.query, ranking]
        tried: Tried = yield RunStep(self.routing.step, arguments, self._read, HALF)
        routed: Routed | None = tried.value
        detail = {} if routed is None else {"weights": dict(routed)}
        self.stage_reports.append(StageReport("route", tried.status, tried.reason, tried.milliseconds, detail=detail))
        return routed

    def _read(self, answer: object) -> Routed:
        """Read the answer of the router; raise InvalidInputError if all sources that it chose have the weight 0."""
        found, weights = read_route(self.sources, answer), self.weights
        if weights is not None and all(one is None for one in found.values()) and not any(map(weights.get, found)):
            raise InvalidInputError(
                "a router must name a source whose weight is not 0; it named only sources with weight 0"
            )
        return found

    def _chosen(self, routed: Routed | None) -> Sources:
        """Return the chosen sources and the sources that they depend on; all sources if `routed` is None."""
        return self.sources if routed is None else {name: self.sources[name] for name in self._with_needed(routed)}

    def _with_needed(self, names: Iterable[str]) -> list[str]:
        """Return `names`, and the names of the sources that these sources depend on, directly or indirectly."""
        found = list(names)
        for name in found:
            found.extend(other for other in self.gatherer.settings[name].depends_on if other not in found)
        return found


def _with_early_reports(gathered: Gathered, early: Sequence[SourceReport]) -> Gathered:
    """Replace the reports of sources that were searched early, and had hits, by their `early` reports."""
    reports = {one.source: one for one in gathered.reports}
    reports |= {one.source: one for one in early if one.hits}
    return replace(gathered, reports=tuple(sorted(reports.values(), key=_SOURCE_OF)))
