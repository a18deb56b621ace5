"""Figures of an evaluation: score distributions, contributions of sources, wins and losses, coverage.

Each figure function returns a matplotlib figure, and raises ``MissingDependencyError`` without matplotlib.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from phasegraph._support.markup import COLOURS, source_colours
from phasegraph._support.text import legible
from phasegraph._support.typing import BoolArray, FloatArray
from phasegraph.errors import InvalidInputError, needed
from phasegraph.evaluation.experiment import Table
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.measures import Measure
from phasegraph.evaluation.report_page import Picture
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.ranking import Ranking
from phasegraph.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WON, _LOST, _BASELINE, _OTHER = COLOURS[2], COLOURS[4], COLOURS[5], "#a9bfdc"


def new_figure(width: float, height: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Create a figure of `width` by `height` inches with `columns` axes side by side, without pyplot's global state."""
    with needed("pictures need matplotlib; pip install 'phasegraph[viz]'"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    return figure, list(axes)


def score_distributions(
    before: Mapping[str, FloatArray],
    after: Mapping[str, FloatArray],
    gold: Mapping[str, BoolArray] | None = None,
) -> Figure:
    """Plot the score distribution of each source: raw scores on the left, calibrated values on one axis on the right.

    Parameters
    ----------
    before : mapping of str to array of float
        Scores by source over many queries, each source in its own unit.
    after : mapping of str to array of float
        Calibrated values of the same sources.
    gold : mapping of str to array of bool, optional
        For each source, a boolean mask over its scores: True where the passage is gold. The scores of gold passages are
        drawn in the source's color, and all other scores in gray. The gold and the gray histogram have the same height.
        The title of the figure is the sentence of :func:`separation`.

    Returns
    -------
    Figure
        A matplotlib figure with a row of two histograms per source.

    Raises
    ------
    InvalidInputError
        If a source is missing in `before` or `after`, a source has no score, or a mask in `gold` has another length.
    """
    names = sorted(before)
    if not names or names != sorted(after) or any(len(before[n]) == 0 or len(after[n]) == 0 for n in names):
        raise InvalidInputError(
            f"before and after must contain the same sources, each with at least one score; got the sources {names} "
            f"and {sorted(after)}"
        )
    if gold is not None and any(len(gold.get(name, ())) != len(before[name]) for name in names):
        raise InvalidInputError(
            f"gold must contain a mask for each of the sources {names}, with an entry per score; got masks for "
            f"{sorted(gold)} with {[len(gold[name]) for name in sorted(gold)]} entries"
        )
    figure, axes = new_figure(10.5, 0.8 + 1.1 * len(names), 2)
    colours = source_colours(names)
    common = np.linspace(min(float(after[n].min()) for n in names), max(float(after[n].max()) for n in names), 61)
    for row, name in enumerate(names):
        low, high = float(before[name].min()), float(before[name].max())
        place = (before[name] - low) / ((high - low) or 1.0)
        chosen = np.zeros(len(place), dtype=np.bool_) if gold is None else np.asarray(gold[name], dtype=np.bool_)
        for one, values, edges in ((axes[0], place, np.linspace(0.0, 1.0, 61)), (axes[1], after[name], common)):
            for part, colour, alpha in (
                (~chosen, "#9a9a9a" if gold else colours[name], 0.55),
                (chosen, colours[name], 0.8),
            ):
                counts, _ = np.histogram(values[part], bins=edges)
                if counts.any():
                    heights = counts / counts.max() * 0.75
                    one.stairs(row + heights, edges, baseline=row, fill=True, color=colour, alpha=alpha)
        axes[0].text(0.0, row - 0.04, f"{low:.3g}", ha="left", va="top", fontsize=8, color="#555555")
        axes[0].text(1.0, row - 0.04, f"{high:.3g}", ha="right", va="top", fontsize=8, color="#555555")
    for one in axes:
        one.set_yticks([row + 0.3 for row in range(len(names))], list(map(_drawn, names)))
        one.set_ylim(-0.22, len(names))
    axes[0].set_xticks([])
    told = "" if gold is None else " (color: gold passages; gray: others)"
    said = "" if gold is None else separation(after, gold)
    if said:
        figure.suptitle(fill(_drawn(said), 140), x=0.01, ha="left", fontsize=10)
    axes[0].set_title(f"before: each source in its own unit{told}", loc="left", fontsize=10)
    axes[1].set_title("after: one axis, deviations above the source's background", loc="left", fontsize=10)
    return figure


def separation(values: Mapping[str, FloatArray], gold: Mapping[str, BoolArray]) -> str:
    """Return a sentence with the median values of gold and other passages per source; empty if no source has both."""
    medians = {
        name: (float(np.median(one[gold[name]])), float(np.median(one[~gold[name]])))
        for name, one in sorted(values.items())
        if gold[name].any() and not gold[name].all()
    }
    if not medians:
        return ""
    listed = ", ".join(f"{name} {high:.1f} and {low:.1f}" for name, (high, low) in medians.items())
    furthest = max(medians, key=lambda name: medians[name][0] - medians[name][1])
    best = f"; {furthest} separates them most" if len(medians) > 1 else ""
    return f"Medians of gold passages and of other passages: {listed}{best}."


def contribution_bars(result: Result, labels: Mapping[str, str] | None = None) -> Figure:
    """Plot the contribution of each source to each result of one query.

    Parameters
    ----------
    result : Result
        The answer to the query.
    labels : mapping of str to str, optional
        Text shown for an id; default: the id.

    Returns
    -------
    Figure
        A matplotlib figure with a bar per result, divided by source.

    Raises
    ------
    InvalidInputError
        If the result is empty.
    """
    if not len(result):
        raise InvalidInputError(
            f"contribution bars need at least one hit; the result is empty for the reason {result.reason!r}"
        )
    figure, (axes,) = new_figure(9.0, 0.9 + 0.32 * len(result))
    rows = np.arange(len(result))
    left_edge = np.zeros(len(result))
    colours = source_colours(result.candidates.sources)
    for column, name in enumerate(result.candidates.sources):
        parts = result.contributions[:, column]
        returned = [identifier in result.candidates.rankings[column].positions for identifier in result.ids]
        bars = axes.barh(rows, parts, left=left_edge, color=colours[name], label=_drawn(name))
        for bar, there in zip(bars, returned, strict=True):
            bar.set_alpha(1.0 if there else 0.3)
        left_edge = left_edge + parts
    shown = [(labels or {}).get(identifier, identifier) for identifier in result.ids]
    axes.set_yticks(rows, [_drawn(text if len(text) <= 48 else text[:47] + "…") for text in shown], fontsize=8)
    axes.invert_yaxis()
    axes.set_title("contribution by source (pale: the source did not return it)", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    return figure


def wins_and_losses(wins: Mapping[str, int], losses: Mapping[str, int], baseline: str, measure: str) -> Figure:
    """Plot the number of queries that each system won and lost against the baseline, in the order of `wins`."""
    names = [name for name in wins if name != baseline]
    if not names:
        raise InvalidInputError(f"wins must contain a system besides the baseline {baseline!r}; got {list(wins)}")
    figure, (axes,) = new_figure(9.0, 0.9 + 0.28 * len(names))
    rows = np.arange(len(names))
    won, lost = [wins[name] for name in names], [losses[name] for name in names]
    axes.barh(rows, won, color=_WON)
    axes.barh(rows, [-count for count in lost], color=_LOST)
    for row, (up, down) in enumerate(zip(won, lost, strict=True)):
        axes.text(up, row, f" {up}", va="center", fontsize=8)
        if down:
            axes.text(-down, row, f"{down} ", va="center", ha="right", fontsize=8)
    axes.axvline(0, color="#333333", linewidth=0.8)
    axes.set_yticks(rows, list(map(_drawn, names)), fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_title(_drawn(f"{measure}: queries lost and won against {baseline}"), loc="left", fontsize=10)
    return figure


def system_bars(
    means: Mapping[str, float],
    intervals: Mapping[str, tuple[float, float]],
    measure: str,
    baseline: str,
    marked: Collection[str] = (),
) -> Figure:
    """Plot the mean of a measure by system with its interval.

    Parameters
    ----------
    means : mapping of str to float
        Mean of the measure by system, in [0, 1].
    intervals : mapping of str to (float, float)
        Low and high end of each system's interval, in [0, 1].
    measure, baseline : str
        Name of the measure, and name of the baseline, which gets its own color.
    marked : collection of str
        Systems to highlight.

    Returns
    -------
    Figure
        A matplotlib figure with a bar and an interval per system.
    """
    names = list(means)
    if not names:
        raise InvalidInputError("means must contain at least one system; got an empty mapping")
    figure, (axes,) = new_figure(9.0, 0.9 + 0.28 * len(names))
    rows = np.arange(len(names))
    centre = np.array([100 * means[name] for name in names])
    low = np.array([100 * intervals[name][0] for name in names])
    high = np.array([100 * intervals[name][1] for name in names])
    colours = [_BASELINE if name == baseline else COLOURS[0] if name in marked else _OTHER for name in names]
    axes.barh(rows, centre, color=colours)
    spread = np.vstack([np.maximum(centre - low, 0), np.maximum(high - centre, 0)])
    axes.errorbar(centre, rows, xerr=spread, fmt="none", ecolor="#222222", elinewidth=1, capsize=2)
    axes.set_yticks(rows, list(map(_drawn, names)), fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_title(_drawn(f"{measure}, per cent, with 95 % intervals"), loc="left", fontsize=10)
    return figure


def coverage_curve(scores: FloatArray, relevant: Sequence[bool] | FloatArray, label: str = "score") -> Figure:
    """Plot the share of answered queries and the share of correct answers against a threshold on the best score.

    Parameters
    ----------
    scores : (n,) array of float
        Score (``Result.scores``) of each query's best result.
    relevant : (n,) array of bool
        True for each query whose best result is correct.
    label : str
        Name of the score, for the label of the horizontal axis.

    Returns
    -------
    Figure
        A matplotlib figure with two curves.

    Raises
    ------
    InvalidInputError
        If there is no query, or the lengths differ.
    """
    values, right = np.asarray(scores, dtype=np.float64), np.asarray(relevant, dtype=np.bool_)
    if not len(values) or values.shape != right.shape:
        raise InvalidInputError(
            f"scores and relevant must have one entry per query; got shapes {values.shape} and {right.shape}"
        )
    order = np.argsort(-values, kind="stable")
    kept = np.arange(1, len(values) + 1)
    figure, (axes,) = new_figure(6.5, 3.4)
    axes.step(values[order], 100 * kept / len(values), where="post", color=COLOURS[0], label="answered")
    axes.step(values[order], 100 * np.cumsum(right[order]) / kept, where="post", color=COLOURS[1], label="correct")
    axes.set_xlabel(_drawn(f"threshold on the {label} of the best result"))
    axes.set_ylabel("per cent")
    axes.set_ylim(0, 102)
    axes.legend(frameon=False)
    axes.set_title("coverage against threshold", loc="left", fontsize=10)
    return figure


def _drawn(value: str) -> str:
    """Escape dollar signs in a text, because a dollar sign would start a formula in matplotlib."""
    return legible(value).replace("$", r"\$")


def gold_hits(rankings: Mapping[str, Sequence[Ranking]], judgements: Sequence[Judgement]) -> dict[str, BoolArray]:
    """Return, for each source, a boolean mask over its scores in :func:`calibrated_scores`: True for gold passages."""
    gold = [frozenset(judged.passages) for judged in judgements]
    listed = {
        name: [identifier in of for ranking, of in zip(found, gold, strict=True) for identifier in ranking.ids]
        for name, found in rankings.items()
    }
    return {name: np.array(hits, dtype=np.bool_) for name, hits in listed.items() if hits}


def measure_to_show(table: Table) -> Measure:
    """Return the measure for the pictures and the conclusion: LastHop@10 if it is tested, else the first measure."""
    return next((m for m in table.tests if str(m) == "LastHop@10"), [*table.tests, *table.measures][0])


def conclusion(table: Table, system: str = "default") -> str:
    """Return a sentence that compares a system with the baseline and with the best other system.

    Parameters
    ----------
    table : Table
        The figures of all systems.
    system : str, default "default"
        The name of the system.

    Returns
    -------
    str
        The sentence; "" if `system` is the baseline or not in the table, or if there is no other system.
    """
    measure = measure_to_show(table)
    rows = {row.name: row for row in table.rows}
    others = [row for name, row in rows.items() if name not in (system, f"{system}-three", table.baseline)]
    if system not in rows or system == table.baseline or not others:
        return ""
    row, best = rows[system], max(others, key=lambda one: one.means[measure])
    gain, low, high = (100 * value for value in row.differences[measure])
    clear = low > 0 or high < 0
    ahead = 100 * (row.means[measure] - best.means[measure])
    standing = "level with" if abs(ahead) < 0.05 else f"{abs(ahead):.1f} points {'above' if ahead > 0 else 'below'}"
    return (
        f"{system} reaches {100 * row.means[measure]:.1f} in {measure}: {abs(gain):.1f} points "
        f"{'more' if gain >= 0 else 'less'} than {table.baseline} (95 % interval {low:+.1f} to {high:+.1f}, "
        f"{'beyond' if clear else 'within'} what chance gives {len(table.queries)} questions), and {standing} the best "
        f"other row, {best.name}."
    )


def calibrated_scores(
    rankings: Mapping[str, Sequence[Ranking]], pipeline: FusionPipeline
) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Collect every score of every source over all queries, before and after the pipeline's calibration.

    Parameters
    ----------
    rankings : mapping of str to sequence of Ranking
        Rankings by source, one per query.
    pipeline : FusionPipeline
        The pipeline that calibrates the scores.

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
    """Create the five pictures of an evaluation; a picture without data is left out.

    Parameters
    ----------
    table : Table
        The outcome of the experiment.
    rankings : mapping of str to sequence of Ranking
        The rankings that `pipeline` fused, by source, one per query.
    results : sequence of Result
        The results of `pipeline`, one per query.
    judgements : sequence of Judgement
        The judgements, one per query.
    pipeline : FusionPipeline
        The pipeline whose calibration and contributions are shown.
    chosen : int
        Row of the query whose contributions are shown.
    labels : mapping of str to str, optional
        Text shown for an id, such as a passage's title.

    Returns
    -------
    list of Picture
        Means, wins and losses, score distributions, contributions, coverage.
    """
    hop = measure_to_show(table)
    means = {row.name: row.means[hop] for row in table.rows}
    figure = system_bars(
        means,
        {row.name: row.intervals[hop] for row in table.rows},
        str(hop),
        table.baseline,
        ("default", "default-three"),
    )
    caption = f"{len(table.queries)} queries of {table.dataset}, lists of {table.limit}; the baseline is gray."
    pictures = [Picture("systems", str(hop), caption, figure)]
    if len(table.rows) > 1:
        won, lost = {row.name: row.wins[hop] for row in table.rows}, {row.name: row.losses[hop] for row in table.rows}
        figure = wins_and_losses(won, lost, table.baseline, str(hop))
        pictures.append(
            Picture(
                "wins-and-losses",
                "Wins and losses",
                "Number of queries with a better and with a worse value than the baseline.",
                figure,
            )
        )
    before, after = calibrated_scores(rankings, pipeline)
    if before:
        caption = (
            "The scores of the same hits before and after calibration. Gold passages are in color, others in gray; "
            "every histogram has its own height."
        )
        figure = score_distributions(before, after, gold_hits(rankings, judgements))
        pictures.append(Picture("score-distributions", "Scores before and after calibration", caption, figure))
    if len(results) > chosen and len(results[chosen]):
        caption = f"Query {table.queries[chosen]}: the contributions of the sources add up to the fused value."
        figure = contribution_bars(results[chosen], labels)
        pictures.append(Picture("contributions", "One query explained", caption, figure))
    answered = [(result, judged) for result, judged in zip(results, judgements, strict=True) if len(result)]
    if answered:
        best = np.array([float(result.scores[0]) for result, _ in answered])
        right = np.array([result.ids[0] in judged.passages for result, judged in answered])
        caption = "An answer is correct if its best result is a gold passage. A score is not a probability."
        figure = coverage_curve(best, right)
        pictures.append(Picture("coverage", "Coverage against threshold", caption, figure))
    return pictures
