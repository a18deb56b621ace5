"""The command ``phasegraph explain``: show why the answer to a query contains its passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

from rich.console import Console

from phasegraph._support.text import counted
from phasegraph.apps.cli.output import check_outputs, kept_graph, open_dataset, progress, show_table, write_json
from phasegraph.apps.server.view import as_passage, paths_of
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import Dataset, EmbeddedDataset
from phasegraph.evaluation.query_files import Query
from phasegraph.evaluation.source_runs import ExperimentInput, search_sources
from phasegraph.evaluation.systems import THREE, TWO
from phasegraph.fusion.fields import FieldReading
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.fusion.renamed_sources import with_new_source_names
from phasegraph.result import WHY_EMPTY, Evidence, Result

LEGEND = (
    "calibrated: a source's score on the common scale, assumed if the source did not return the passage (rank –); "
    "contribution: the source's part of the fused value; score: the fused value on a scale from 0 to 1; "
    "hits with equal scores share their mean rank"
)
"""The meaning of the columns, printed above the passages."""


def run(
    folder: Path, query_id: str, pipeline: Path | None, graph: Path | None, fetch_k: int, k: int, json_to: str | None
) -> None:
    """Run ``phasegraph explain``; the parameters are the options of the command."""
    check_outputs(json=json_to)
    dataset = open_dataset(folder)
    row = next((place for place, query in enumerate(dataset.queries) if query.id == query_id), None)
    if row is None:
        raise InvalidInputError(
            f"{folder / 'queries.jsonl'}: QUERY_ID must be an id of this file; got {query_id!r}. "
            'To explain the answer to a question of your own, use phasegraph search FOLDER "QUESTION" on an index'
        )
    chosen = FusionPipeline() if pipeline is None else with_new_source_names(FusionPipeline.load(pipeline), THREE)
    names = TWO if chosen.weights is None else tuple(chosen.weights)
    inputs = ExperimentInput(dataset.subset([row]), fetch_k, graph=kept_graph(graph), progress=progress)
    runs = search_sources(inputs, names)
    query = dataset.queries[row]
    rankings = [runs[name].rankings[0] for name in names]
    context = EmbeddedDataset.of(dataset).context(row, rankings)  # with embeddings, for a selection
    result = chosen.decide(rankings, context, k=k)
    show_result(result, query, dataset, write_json(_as_dict(result, query, dataset), json_to))


def show_result(result: Result, query: Query, dataset: Dataset, to: Console, *, top: int | None = None) -> None:
    """Print an answer to `query`: the sources, their agreement, and the evidence of the first `top` passages.

    If `top` is None, the evidence of all passages is printed.
    """
    titles = {passage.id: passage.title for passage in dataset.passages}
    gold = query.judgement.passages
    to.print(query.text, style="bold")
    for report in result.reports:
        why = f" ({report.reason})" if report.reason else ""
        hits = counted(report.hits, "hit")
        to.print(f"  {report.source}: {report.status}{why}, {hits}, calibration {report.calibration or '–'}")
    for (first, second), share in result.agreement.items():
        to.print(f"  {share:.0%} of the top 10 of {first} are in the top 50 of {second}")
    for number, line in enumerate(str(result.confidence_evidence).splitlines()):
        to.print(f"    {line}" if number else f"  confidence {line}")
    for one in _readings(result):
        said = f"  prior {one.prior}: {one.found} candidates have the field {one.key!r}, {one.missing} do not"
        to.print(said + (f", {one.unusable} have an unusable value" if one.unusable else ""))
    for line in result.warnings:
        to.print(f"  warning: {line}")
    if not result.ids:
        to.print(f"  no passages: {WHY_EMPTY.get(result.reason, result.reason)}")
    else:
        to.print(f"  {LEGEND}")
    columns = ["source", "rank", "score", "calibrated", "weight", "contribution"]
    for name in result.ids[:top]:
        evidence = result.evidence(name)
        mark = " (judged relevant)" if name in gold else ""
        title = f"{evidence.position}. {name} {titles[name]!r}{mark}: score {evidence.score:.4f}"
        show_table(to, f"{title} (fused value {evidence.fused:.3f})", columns, _rows(evidence))
        if evidence.bonus or evidence.prior != 1.0:
            to.print(f"  bonus {evidence.bonus:+.3f}, priors multiply by {evidence.prior:.3f}")
        for path in paths_of(evidence):
            to.print(f"  {path}")


def _readings(result: Result) -> Sequence[FieldReading]:
    return cast("Sequence[FieldReading]", result.extras.get("priors", ()))


def _rows(evidence: Evidence) -> list[list[str]]:
    return [
        [
            one.source,
            "–" if one.rank is None else f"{one.rank:g}",
            "–" if one.score is None else f"{one.score:.4g}",
            f"{one.calibrated:.3f}",
            f"{one.weight:.3f}",
            f"{one.contribution:+.3f}",
        ]
        for one in evidence.sources
    ]


def _as_dict(result: Result, query: Query, dataset: Dataset) -> dict[str, object]:
    titles = {passage.id: passage.title for passage in dataset.passages}
    gold = query.judgement.passages
    return {
        "query": query.id,
        "question": query.text,
        "agreement": {f"{first} in {second}": share for (first, second), share in result.agreement.items()},
        "warnings": list(result.warnings),
        "reports": [
            {name: getattr(one, name) for name in ("source", "status", "reason", "hits", "calibration")}
            for one in result.reports
        ],
        "reason": result.reason,
        "confidence": result.confidence,
        "confidence_evidence": asdict(result.confidence_evidence),
        "priors": [asdict(one) for one in _readings(result)],
        "passages": [
            {**as_passage(result.evidence(name)), "title": titles[name], "judged": name in gold} for name in result.ids
        ],
    }
