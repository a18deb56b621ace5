"""Which pictures tell the story of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.candidates import Ranking
from phasegraph.evaluation.experiment import Table
from phasegraph.evaluation.judgements import Judgement
from phasegraph.pipeline import FusionPipeline, Result
from phasegraph.report.figures import (
    contribution_bars,
    coverage_curve,
    score_distributions,
    system_bars,
    wins_and_losses,
)
from phasegraph.report.page import Picture


def calibrated_scores(
    rankings: Mapping[str, Sequence[Ranking]], pipeline: FusionPipeline
) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Every score of every source over all queries, before and after the pipeline's calibration.

    Parameters
    ----------
    rankings : mapping of str to sequence of Ranking
        By source, one per query.
    pipeline : FusionPipeline

    Returns
    -------
    (dict, dict)
        Scores and calibrated values by source; sources without a hit are left out.
    """
    before: dict[str, FloatArray] = {}
    after: dict[str, FloatArray] = {}
    for name, found in rankings.items():
        some = [ranking for ranking in found if len(ranking)]
        if some:
            before[name] = np.concatenate([ranking.scores for ranking in some])
            after[name] = np.concatenate([pipeline.calibrator_of(ranking)(ranking).values for ranking in some])
    return before, after


def evaluation_pictures(
    table: Table,
    rankings: Mapping[str, Sequence[Ranking]],
    results: Sequence[Result],
    judgements: Sequence[Judgement],
    *,
    pipeline: FusionPipeline,
    chosen: int = 0,
    labels: Mapping[str, str] | None = None,
) -> list[Picture]:
    """The five pictures of an evaluation.

    Parameters
    ----------
    table : Table
    rankings : mapping of str to sequence of Ranking
        The lists that `pipeline` fused, one per query.
    results : sequence of Result
        Its answers, one per query.
    judgements : sequence of Judgement
        What counts as found, one per query.
    pipeline : FusionPipeline
    chosen : int
        Row of the query whose contributions are shown.
    labels : mapping of str to str, optional
        Text shown for an id, such as a passage's title.

    Returns
    -------
    list of Picture
        Means, wins and losses, score distributions, contributions, coverage; those without data are left out.
    """
    names = [row.name for row in table.rows]
    hop = next((m for m in table.measures if str(m) == "LastHop@10"), table.measures[0])
    rows = {row.name: row for row in table.rows}
    pictures = [
        Picture(
            "systems",
            str(hop),
            f"{len(table.queries)} queries of {table.dataset}, lists of {table.limit}; the baseline is grey.",
            system_bars(
                {n: rows[n].means[hop] for n in names},
                {n: rows[n].intervals[hop] for n in names},
                str(hop),
                table.baseline,
            ),
        )
    ]
    if len(names) > 1 and hop in rows[names[0]].wins:
        won = {n: rows[n].wins[hop] for n in names}
        lost = {n: rows[n].losses[hop] for n in names}
        figure = wins_and_losses(won, lost, table.baseline, str(hop))
        pictures.append(Picture("wins-and-losses", "Wins and losses", "Query by query, not on average.", figure))
    pictures += _distributions(rankings, pipeline)
    if len(results) > chosen and len(results[chosen]):
        caption = f"Query {table.queries[chosen]}: the parts add up to the fused value."
        figure = contribution_bars(results[chosen], labels)
        pictures.append(Picture("contributions", "One query explained", caption, figure))
    return pictures + _coverage(results, judgements)


def _distributions(rankings: Mapping[str, Sequence[Ranking]], pipeline: FusionPipeline) -> list[Picture]:
    before, after = calibrated_scores(rankings, pipeline)
    if not before:
        return []
    caption = "The same hits twice: what the sources return, and what is fused."
    figure = score_distributions(before, after)
    return [Picture("score-distributions", "Scores before and after calibration", caption, figure)]


def _coverage(results: Sequence[Result], judgements: Sequence[Judgement]) -> list[Picture]:
    best, right = [], []
    for result, judgement in zip(results, judgements, strict=True):
        if len(result):
            best.append(float(result.scores[0]))
            right.append(any(result.ids[0] in hop for hop in judgement.hops))
    if not best:
        return []
    caption = "Right: the best result is one of the gold passages. A score is not a probability."
    figure = coverage_curve(np.array(best), np.array(right), "published score")
    return [Picture("coverage", "Coverage against threshold", caption, figure)]
