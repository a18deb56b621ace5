"""The engine of a fusing retriever: its resolved settings, and the methods that answer a query.

The integration binds its sources to a call, and passes them by name. The engine asks the sources, fuses their rankings,
and chooses the document or node of each result. The engine never calls the integration.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from phasegraph._support.clock import Deadline
from phasegraph._support.frozen import by_fields
from phasegraph._support.renamed import renamed_sources
from phasegraph._support.shared import one_call
from phasegraph._support.text import counted
from phasegraph._support.validation import LONGEST_QUERY
from phasegraph.acceptance import AcceptancePolicy, Threshold
from phasegraph.acceptance.confidence import LEAST_QUERIES, Confidence
from phasegraph.acceptance.judged import check_orientations, relevant_ids
from phasegraph.calibration.background import normal_quantile
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.fusion import FUSION_RULES
from phasegraph.fusion.fitting import fit_confidence, fit_min_agreement
from phasegraph.fusion.grouping import GroupBy
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.fusion.renamed_sources import renamed_policy, with_new_source_names
from phasegraph.ranking import RERANK, Ranking
from phasegraph.result import Inspection, Result
from phasegraph.retrieval.access import HitAccess
from phasegraph.retrieval.answer import Answer
from phasegraph.retrieval.call import Call
from phasegraph.retrieval.driver import Sources, arun, run
from phasegraph.retrieval.fingerprints import check_fingerprints, fingerprints
from phasegraph.retrieval.fitting import check_found, fit_calibrators
from phasegraph.retrieval.notices import FirstAnswers, Notices, warn_of_thresholds
from phasegraph.retrieval.source_config import check_names, check_weights, read_pipeline
from phasegraph.retrieval.source_spec import SourceSpec, check_fetch_k, declared_dependencies
from phasegraph.retrieval.stages.routing import KeywordRouter
from phasegraph.retrieval.stages.settings import StageAdapter, Stages
from phasegraph.selection import SelectionPolicy
from phasegraph.sources.gatherer import Gatherer
from phasegraph.sources.settings import CALL_TIMEOUT

FETCH_K = 50
"""Default number of hits to request from each source; for more results than that, their number is requested."""
Accept: TypeAlias = AcceptancePolicy | Confidence | Mapping[str, Threshold | float]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A retriever's constructor arguments that override a pipeline's values, even if the pipeline is loaded later."""

    k: int | None = None
    weights: Mapping[str, float] | None = None
    accept: AcceptancePolicy | None = None
    selection: SelectionPolicy | str | None = None
    strict: bool = False
    group_by: GroupBy | str | None = None

    __reduce__ = by_fields

    def on(self, pipeline: FusionPipeline) -> FusionPipeline:
        """Return a copy of the pipeline in which the given arguments replace its values; None replaces nothing."""
        given = {name: getattr(self, name) for name in ("k", "weights", "accept", "selection", "group_by")}
        changes = {name: value for name, value in given.items() if value is not None}
        if self.strict:
            changes["strict"] = True
        return replace(pipeline, **changes) if changes else pipeline


@dataclass(frozen=True, slots=True)
class FusionEngine:
    """The resolved settings of one fusing retriever, and the methods that answer a query.

    `base` is the pipeline as given, loaded or fitted. `pipeline` is `base` with the constructor's arguments; calls use
    `pipeline`. A call asks the sources in `asked`: sources with a weight above 0, and their dependencies. `mismatched`
    has a note for each source with a calibrator that was fitted to the scores of another model. `deepens` are the
    sources without a `fetch_k` of the user: they return at least as many hits as the answer. `access` reads the
    framework's hits. `stages` rewrite, route, rerank and correct.

    >>> from phasegraph.sources import CallableSource
    >>> engine = FusionEngine.of({"v": SourceSpec(retriever=None)})
    >>> source = CallableSource("v", lambda query, limit: [("a", 2.0)])
    >>> engine.retrieve("who?", {"v": source}, k=1)[0].ids
    ('a',)
    """

    specs: Mapping[str, SourceSpec]
    gatherer: Gatherer
    base: FusionPipeline
    pipeline: FusionPipeline
    chosen: Chosen
    access: HitAccess
    asked: tuple[str, ...]
    deepens: frozenset[str] = frozenset()
    mismatched: Mapping[str, str] = field(default_factory=dict)
    notices: Notices = field(default_factory=Notices, repr=False, compare=False)
    stages: Stages = field(default_factory=Stages)

    __reduce__ = by_fields

    @classmethod
    def of(
        cls,
        specs: Mapping[str, SourceSpec],
        *,
        k: int | None = None,
        weights: object = None,
        accept: Accept | None = None,
        selection: SelectionPolicy | str | None = None,
        group_by: GroupBy | str | None = None,
        pipeline: FusionPipeline | str | os.PathLike[str] | None = None,
        fetch_k: int | str | None = "default",
        timeout: float | None = CALL_TIMEOUT,
        strict: bool = False,
        max_query_length: int | None = LONGEST_QUERY,
        access: HitAccess | None = None,
        route: Any = None,
        rerank: Any = None,
        corrective: Any = None,
        adapter: StageAdapter | None = None,
    ) -> FusionEngine:
        """Create the engine from a retriever's arguments; an error names the invalid argument."""
        given = {"weights": weights, "accept": accept, "selection": selection, "group_by": group_by}
        twice = [name for name, value in given.items() if pipeline is not None and value is not None]
        if twice:
            raise InvalidInputError(
                f"{twice[0]}= and pipeline= cannot both be given: leave one out, or put it into the pipeline: "
                f"dataclasses.replace(pipeline, {twice[0]}=...)"
            )
        defaults = fetch_k == "default"
        deepens = frozenset(name for name, spec in specs.items() if defaults and spec.fetch_k == "default")
        fetch_k = check_fetch_k(FETCH_K if defaults else fetch_k)
        settings = {
            name: spec.settings(fetch_k, declared_dependencies(name, spec, specs)) for name, spec in specs.items()
        }
        checked = check_weights(weights, specs)
        if checked is not None and pipeline is not None:
            raise InvalidInputError("SourceSpec.weight and pipeline= cannot both give the weights: leave one out")
        adapts = StageAdapter() if adapter is None else adapter
        found = {name: spec.rewriting(name, fetch_k, max_query_length, adapts.rewriter) for name, spec in specs.items()}
        rewritings = {name: rewriting for name, rewriting in found.items() if rewriting is not None}
        if isinstance(route, KeywordRouter):
            route.check(specs)
        stages = Stages.of(route, rerank, corrective, rewritings, adapts)
        known = specs if rerank is None else (*specs, RERANK)
        chosen = Chosen(k, checked, _policy(accept, known), selection, strict, group_by)
        gatherer = Gatherer(settings, timeout=timeout, strict=strict, max_query_length=max_query_length)
        base = FusionPipeline() if pipeline is None else read_pipeline(pipeline)
        normal_quantile(np.array([0.5]))  # import scipy now, not in the first answer
        reads = HitAccess() if access is None else access
        bare = cls(specs, gatherer, base, base, chosen, reads, (), deepens, stages=stages)
        made = bare.with_pipeline(base)
        if isinstance(accept, Mapping):
            warn_of_thresholds(accept, made.asked)
        return made.warned_of_k(k if pipeline is None else made.pipeline.k)

    def with_pipeline(self, pipeline: FusionPipeline) -> FusionEngine:
        """Return a copy of the engine with another pipeline, whose values the retriever's arguments still override."""
        pipeline = with_new_source_names(pipeline, self.specs)
        decides = self.chosen.on(pipeline)
        check_names(decides, self.specs, reranks=self.stages.rerank is not None)
        self.access.check(decides)
        asked = _asked(self.gatherer, decides)
        return replace(
            self, base=pipeline, pipeline=decides, asked=asked, mismatched=check_fingerprints(decides, self.specs),
            notices=replace(self.notices, answers=FirstAnswers()),
        )  # fmt: skip

    def with_k(self, k: int | None) -> FusionEngine:
        """Return a copy of the engine with `k` as its number of results."""
        chosen = replace(self.chosen, k=k)
        return replace(self, chosen=chosen, pipeline=chosen.on(self.base)).warned_of_k(k)

    def warned_of_k(self, k: int | None) -> FusionEngine:
        """Return the engine, and warn once for each `k` if the user's `fetch_k` cannot give `k` results.

        None means a number of results that the user did not choose.
        """
        limits = [None if name in self.deepens else self.gatherer.settings[name].limit for name in self.asked]
        most = sum(limit or 0 for limit in limits)
        if k is not None and None not in limits and most < k:
            self.notices.fetch_k.warn(
                f"k={k}, but an answer has at most {counted(most, 'result')}, because fetch_k limits the hits of each "
                "source: raise fetch_k",
                key=k,
            )
        return self

    def retrieve(self, query: str, sources: Sources, *, k: int | None = None, read: bool = False) -> Answer:
        """Ask sources and fuse their rankings; return the result, and a :class:`SelectedHit` for each passage in it.

        `sources` maps names to the source objects of this call. `k` is the number of results; None means the pipeline's
        number. With `read`, the query's words are searched in the texts of all hits; `Result.confidence` needs this.
        """
        call = self._call(query, sources, k, read)
        with one_call():
            return run(call.flow(), call.deadline)

    async def aretrieve(self, query: str, sources: Sources, *, k: int | None = None, read: bool = False) -> Answer:
        """Return the same answer as :meth:`retrieve`, without blocking the caller's event loop."""
        call = self._call(query, sources, k, read)
        with one_call():
            return await arun(call.flow(), call.deadline)

    def _call(self, query: str, sources: Sources, k: int | None, read: bool) -> Call:
        deadline = Deadline.after(self.gatherer.clock, self.gatherer.timeout)
        wanted, gatherer, stages = self.pipeline.k if k is None else k, self.gatherer, self.stages
        if wanted > FETCH_K and self.deepens:
            gatherer, stages = gatherer.at_least(wanted, self.deepens), stages.at_least(wanted, self.deepens)
        return Call(
            query, stages.rewriting(sources, deadline), k, read, deadline, gatherer, self.pipeline,
            self.access, stages, self.notices, self.mismatched,
        )  # fmt: skip

    def inspect(self, query: str, result: Result) -> Inspection:
        """Rank all candidates of a result of :meth:`retrieve`, accepted and rejected; no source is asked again."""
        rankings = result.candidates.rankings
        context = self.access.context(query, rankings)
        if self.stages.rerank is not None:
            context = replace(context, blend=self.stages.rerank.blend)
        plain = replace(self.pipeline, accept=None, selection=None, group_by=None, strict=False)
        return Inspection(
            query, result, plain.decide(rankings, context, reports=result.reports, k=len(result.candidates))
        )

    @property
    def staged(self) -> bool:
        """True if the retriever has any stage: rewriting, routing, reranking or correction."""
        return self.stages.are_set

    def fit(
        self,
        answers: Sequence[tuple[str, Sequence[Ranking]]],
        relevant: Mapping[str, Collection[str]] | None = None,
    ) -> FusionEngine:
        """Return a copy of the engine with fitted calibrators, minimum agreement between sources, and confidence.

        `answers` pairs each query with its rankings. `relevant` maps queries to the ids of their relevant passages, or
        to gains by id. The engine uses `relevant` to check the direction of each source's scores, and to turn the
        confidence into a probability.
        """
        if relevant is not None:
            relevant = relevant_ids(relevant)
            check_found(answers, relevant)
            check_orientations(answers, relevant)
        calibrators = fit_calibrators(
            [ranking for _, rankings in answers for ranking in rankings],
            {name: spec.fields.size for name, spec in self.specs.items()},
            sources=self.asked,
            least=LEAST_QUERIES,
            strict=self.pipeline.strict,
            normal_scores=FUSION_RULES[self.pipeline.rule].calibrator not in ("min_max", "percentile"),
            fingerprints=fingerprints(self.specs),
        )
        floors = fit_min_agreement([rankings for _, rankings in answers], self.pipeline)
        fitted = {**self.base.calibrators, **calibrators}
        confidence = fit_confidence(answers, self.pipeline, self.access.words, relevant)
        return self.with_pipeline(replace(self.base, calibrators=fitted, min_agreement=floors, confidence=confidence))


def _policy(given: object, sources: Collection[str]) -> AcceptancePolicy | None:
    if given is None:
        return None
    if isinstance(given, Confidence):
        return AcceptancePolicy(confidence=given)
    if not isinstance(given, AcceptancePolicy | Mapping):
        raise InvalidTypeError(
            f"accept must be a mapping of source to threshold, an AcceptancePolicy or a Confidence; got {given!r}"
        )
    policy = given if isinstance(given, AcceptancePolicy) else AcceptancePolicy(given)
    policy = renamed_policy(policy, renamed_sources(policy.thresholds, sources))
    unknown = sorted(set(policy.thresholds) - set(sources))
    if unknown:
        raise InvalidInputError(f"accept must name sources among {list(sources)}; got {unknown}")
    return policy


def _asked(gatherer: Gatherer, pipeline: FusionPipeline) -> tuple[str, ...]:
    weights = pipeline.weights
    wanted = [name for name in gatherer.settings if weights is None or weights[name] > 0]
    if not wanted:
        raise InvalidInputError(
            f"weights must not all be 0 for the given sources, which are {', '.join(map(repr, gatherer.settings))}"
        )
    for name in wanted:
        wanted.extend(one for one in gatherer.settings[name].depends_on if one not in wanted)
    return tuple(sorted(wanted))
