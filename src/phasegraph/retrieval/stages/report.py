"""The report of a stage (rewriting, routing, reranking or correction) for one query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from phasegraph.sources.steps import StageStatus


@dataclass(frozen=True, slots=True)
class StageReport:
    """The report of a stage for one query; ``Result.extras["stages"]`` lists the reports in order of execution.

    Parameters
    ----------
    stage : {"rewrite", "route", "rerank", "correct"}
        The stage.
    status : {"ok", "failed", "late", "skipped", "unused"}
        ``late``: the stage missed the deadline. ``skipped``: the stage was not run. ``unused``: the rewritten query
        differs only in texts to embed, and no source embedded them. With every status except ``ok``, the stage had no
        effect on the answer.
    reason : str
        The reason for the status, in one line. It never contains query text or secrets.
    milliseconds : float
        The duration of the stage.
    source : str
        For ``rewrite``, the source whose query was rewritten.
    detail : mapping of str to object
        The outcome of the stage: ``texts`` that were searched, ``weights`` of a route, ``judged`` and ``blend`` of
        reranking, or ``grade`` and ``action`` of a correction. It may contain text of the user and of the model.
    """

    stage: str
    status: StageStatus = "ok"
    reason: str = ""
    milliseconds: float = 0.0
    source: str = ""
    detail: Mapping[str, object] = field(default_factory=dict, repr=False)
