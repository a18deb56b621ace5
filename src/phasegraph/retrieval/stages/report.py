"""The report of a stage for a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from phasegraph.sources.steps import StageStatus


@dataclass(frozen=True, slots=True)
class StageReport:
    """The report of a stage for a query; ``Result.extras["stages"]`` lists the reports in execution order.

    Parameters
    ----------
    stage : {"rewrite", "route", "rerank", "correct"}
    status : {"ok", "failed", "late", "skipped", "unused"}
        ``late``: no answer in time; ``skipped``: not asked; ``unused``: the rewritten query differs only in texts to
        embed, and no source embedded them. In all but ``ok`` the answer is as without the stage.
    reason : str
        One line; never holds query text or secrets.
    milliseconds : float
    source : str
        Of rewriting, the source whose query it is.
    detail : mapping of str to object
        What came of it: ``texts`` asked in place of the query or beside it, ``weights`` of a route, ``judged`` and
        ``blend`` of a reranking, ``grade`` and ``action`` of a correction. Holds text of the user's and the model's.
    """

    stage: str
    status: StageStatus = "ok"
    reason: str = ""
    milliseconds: float = 0.0
    source: str = ""
    detail: Mapping[str, object] = field(default_factory=dict, repr=False)
