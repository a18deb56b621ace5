"""Export results as OpenTelemetry spans: a span per retriever call and per source, with ids and scores."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import time_ns
from typing import Any

from phasegraph._support.validation import check_count
from phasegraph.errors import needed
from phasegraph.reports import SourceReport
from phasegraph.result import Result

__all__ = ["SpansOfResults"]

_KIND = {"openinference.span.kind": "RETRIEVER"}
_FAILED = ("error", "timeout", "skipped")


@dataclass(frozen=True)
class SpansOfResults:
    """A callback for the option ``on_result`` of a retriever; it exports each result as OpenTelemetry spans.

    Parameters
    ----------
    most : int, default 20
        Maximum number of passages per span, >= 1.
    tracer_provider : TracerProvider, optional
        The OpenTelemetry provider that creates the spans. Default: the tracer provider of the process.

    Raises
    ------
    MissingDependencyError
        If the OpenTelemetry API is not installed.

    Notes
    -----
    The span ``phasegraph`` has a child span ``phasegraph.NAME`` for every searched source. Spans have OpenInference's
    attributes for retrievers (``retrieval.documents.0.document.id``, ``….score``). A source's span also has its status,
    reason, calibration, weight, hits and dropped hits. The span of the call has the confidence and the degradation.
    Source spans have the raw scores of the source, and the span of the call has ``Result.scores``. Spans contain
    neither the question nor passage texts. The parent is the current span, or the span that OpenInference's
    instrumentor made for the LangChain run. The span of a source starts with the call, and lasts as long as the time in
    the source's report.

    Examples
    --------
    >>> from opentelemetry.sdk.trace import TracerProvider
    >>> from phasegraph import FusionPipeline, Ranking
    >>> spans = SpansOfResults(tracer_provider=TracerProvider())
    >>> spans(FusionPipeline().decide([Ranking("vector", ["a"], [0.9])]))
    """

    most: int = 20
    tracer_provider: Any = None

    def __post_init__(self) -> None:
        check_count("most", self.most, minimum=1)
        _api()

    def __call__(self, result: Result) -> None:
        """Export one result as a span of the call with a child span per searched source."""
        trace = _api()
        tracer = trace.get_tracer("phasegraph", tracer_provider=self.tracer_provider)
        end = time_ns()
        begun = end - round(1e6 * max((one.milliseconds for one in result.reports), default=0.0))
        attributes = {
            "phasegraph.degraded": result.degraded,
            "phasegraph.reason": result.reason,
            **({} if result.confidence is None else {"phasegraph.acceptance.confidence": result.confidence}),
            **_documents(result.ids, result.scores.tolist(), self.most),
        }
        call = tracer.start_span("phasegraph", _parent(trace), attributes=_KIND | attributes, start_time=begun)
        inside = trace.set_span_in_context(call)
        weights = dict(zip(result.candidates.sources, result.weights.tolist(), strict=True))
        rankings = {one.source: one for one in result.candidates.rankings}
        for report in result.reports:
            ranking = rankings.get(report.source)
            told = {} if ranking is None else _documents(ranking.ids, ranking.scores.tolist(), self.most)
            told |= _of_report(report, weights.get(report.source))
            span = tracer.start_span(f"phasegraph.{report.source}", inside, attributes=_KIND | told, start_time=begun)
            if report.status in _FAILED:
                span.set_status(trace.StatusCode.ERROR, report.reason)
            span.end(begun + round(1e6 * report.milliseconds))
        call.end(end)


def _documents(ids: Sequence[str], scores: Sequence[float], most: int) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for row, (identifier, score) in enumerate(zip(ids[:most], scores[:most], strict=True)):
        told[f"retrieval.documents.{row}.document.id"] = identifier
        told[f"retrieval.documents.{row}.document.score"] = score
    return told


def _of_report(report: SourceReport, weight: float | None) -> Mapping[str, Any]:
    told = {name: getattr(report, name) for name in ("status", "reason", "calibration", "hits", "dropped")}
    if weight is not None:
        told["weight"] = weight
    return {f"phasegraph.{name}": value for name, value in told.items()}


def _api() -> Any:
    with needed("spans need OpenTelemetry; pip install 'phasegraph[otel]'"):
        from opentelemetry import trace
    return trace


def _parent(trace: Any) -> Any:
    """Return the context of the span that OpenInference's instrumentor made for the LangChain run.

    Return None if there is a current span, or if the instrumentor made no span.
    """
    langchain = sys.modules.get("openinference.instrumentation.langchain")
    if langchain is None or trace.get_current_span().get_span_context().is_valid:
        return None
    span = langchain.get_current_span()
    return None if span is None else trace.set_span_in_context(span)
