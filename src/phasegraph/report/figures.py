"""Data to figures. No figure is shown or kept by pyplot: each is the caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError, MissingDependencyError
from phasegraph.pipeline import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#3b6fb6", "#d1702f", "#4d9a5b", "#8c5fa8", "#b8455a", "#6f6f6f", "#2a9d9d", "#b59b2c")


def new_figure(width: float, height: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure with `columns` axes side by side, without pyplot's global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("pictures need matplotlib; pip install 'phasegraph[viz]'") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    return figure, list(axes)


def score_distributions(before: Mapping[str, FloatArray], after: Mapping[str, FloatArray]) -> Figure:
    """Where each source's scores lie, as given and on the common scale.

    Parameters
    ----------
    before : mapping of str to array of float
        Scores by source, over many queries, each in its own unit.
    after : mapping of str to array of float
        Calibrated values of the same sources.

    Returns
    -------
    matplotlib.figure.Figure
        Left, each source in a row of its own with its own scale; right, all of them on the one common scale.

    Raises
    ------
    InvalidInputError
        If a source is missing on one side or has no score.
    MissingDependencyError
        If matplotlib is not installed.
    """
    names = sorted(before)
    if not names or names != sorted(after) or any(len(before[n]) == 0 or len(after[n]) == 0 for n in names):
        raise InvalidInputError(f"before and after must hold scores of the same sources; got {names}, {sorted(after)}")
    figure, axes = new_figure(10.5, 3.6, 2)
    for row, name in enumerate(names):
        colour = COLOURS[row % len(COLOURS)]
        low, high = float(before[name].min()), float(before[name].max())
        counts, edges = np.histogram(before[name], bins=60)
        heights = counts / counts.max() * 0.8
        place = (edges[:-1] - low) / ((high - low) or 1.0)
        axes[0].bar(place, heights, width=1 / 60, bottom=row, align="edge", color=colour)
        axes[0].text(0.0, row - 0.13, f"{low:.3g}", ha="left", fontsize=8, color="#555555")
        axes[0].text(1.0, row - 0.13, f"{high:.3g}", ha="right", fontsize=8, color="#555555")
        axes[1].hist(after[name], bins=60, histtype="stepfilled", alpha=0.55, color=colour, label=name, density=True)
    axes[0].set_yticks([row + 0.3 for row in range(len(names))], names)
    axes[0].set_xticks([])
    axes[0].set_title("before: each source in its own unit", loc="left", fontsize=10)
    axes[1].set_title("after: standard deviations above the source's background", loc="left", fontsize=10)
    axes[1].set_yticks([])
    axes[1].legend(frameon=False)
    return figure


def contribution_bars(result: Result, labels: Mapping[str, str] | None = None) -> Figure:
    """What each source added to each result of one query.

    Parameters
    ----------
    result : Result
    labels : mapping of str to str, optional
        Text shown for an id; default the id.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InvalidInputError
        If the result is empty.
    MissingDependencyError
        If matplotlib is not installed.
    """
    if not len(result):
        raise InvalidInputError(f"contribution bars need at least one result; the reason given is {result.reason!r}")
    figure, (axes,) = new_figure(9.0, 0.9 + 0.32 * len(result))
    rows = np.arange(len(result))
    left_edge = np.zeros(len(result))
    for column, name in enumerate(result.candidates.sources):
        parts = result.contributions[:, column]
        returned = [identifier in result.candidates.rankings[column].positions for identifier in result.ids]
        bars = axes.barh(rows, parts, left=left_edge, color=COLOURS[column % len(COLOURS)], label=name)
        for bar, there in zip(bars, returned, strict=True):
            bar.set_alpha(1.0 if there else 0.3)
        left_edge = left_edge + parts
    shown = [(labels or {}).get(identifier, identifier) for identifier in result.ids]
    axes.set_yticks(rows, [text if len(text) <= 48 else text[:47] + "…" for text in shown], fontsize=8)
    axes.invert_yaxis()
    axes.set_title("contribution by source (pale: the source did not return it)", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    return figure


def wins_and_losses(wins: Mapping[str, int], losses: Mapping[str, int], baseline: str, measure: str) -> Figure:
    """Queries each system won and lost against the baseline.

    Parameters
    ----------
    wins, losses : mapping of str to int
        By system, in the order to be shown.
    baseline, measure : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    names = [name for name in wins if name != baseline]
    if not names:
        raise InvalidInputError(f"wins must name a system besides the baseline {baseline!r}; got {list(wins)}")
    figure, (axes,) = new_figure(9.0, 0.9 + 0.28 * len(names))
    rows = np.arange(len(names))
    won, lost = [wins[name] for name in names], [losses[name] for name in names]
    axes.barh(rows, won, color=COLOURS[2])
    axes.barh(rows, [-count for count in lost], color=COLOURS[4])
    for row, (up, down) in enumerate(zip(won, lost, strict=True)):
        axes.text(up, row, f" {up}", va="center", fontsize=8)
        if down:
            axes.text(-down, row, f"{down} ", va="center", ha="right", fontsize=8)
    axes.axvline(0, color="#333333", linewidth=0.8)
    axes.set_yticks(rows, names, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_title(f"{measure}: queries lost and won against {baseline}", loc="left", fontsize=10)
    return figure


def system_bars(
    means: Mapping[str, float], intervals: Mapping[str, tuple[float, float]], measure: str, baseline: str
) -> Figure:
    """A measure's mean by system with its interval.

    Parameters
    ----------
    means : mapping of str to float
        In [0, 1].
    intervals : mapping of str to (float, float)
    measure, baseline : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    names = list(means)
    if not names:
        raise InvalidInputError("means must name at least one system; got none")
    figure, (axes,) = new_figure(9.0, 0.9 + 0.28 * len(names))
    rows = np.arange(len(names))
    centre = np.array([100 * means[name] for name in names])
    low = np.array([100 * intervals[name][0] for name in names])
    high = np.array([100 * intervals[name][1] for name in names])
    colours = [COLOURS[5] if name == baseline else COLOURS[0] for name in names]
    axes.barh(rows, centre, color=colours, alpha=0.8)
    spread = np.vstack([np.maximum(centre - low, 0), np.maximum(high - centre, 0)])
    axes.errorbar(centre, rows, xerr=spread, fmt="none", ecolor="#222222", elinewidth=1, capsize=2)
    axes.set_yticks(rows, names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_title(f"{measure}, per cent, with 95 % intervals", loc="left", fontsize=10)
    return figure


def coverage_curve(scores: FloatArray, relevant: Sequence[bool] | FloatArray, label: str = "score") -> Figure:
    """Share of queries answered, and share of answers that are right, against a threshold on the best score.

    Parameters
    ----------
    scores : (n,) array of float
        Published score of each query's best result.
    relevant : (n,) array of bool
        Whether that result is right.
    label : str
        Name of the axis.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InvalidInputError
        If there is no query, or the lengths differ.
    """
    values, right = np.asarray(scores, dtype=np.float64), np.asarray(relevant, dtype=np.bool_)
    if not len(values) or values.shape != right.shape:
        raise InvalidInputError(f"scores and relevant must have one entry per query; got {values.shape}, {right.shape}")
    order = np.argsort(-values, kind="stable")
    kept = np.arange(1, len(values) + 1)
    figure, (axes,) = new_figure(6.5, 3.4)
    axes.step(values[order], 100 * kept / len(values), where="post", color=COLOURS[0], label="answered")
    axes.step(values[order], 100 * np.cumsum(right[order]) / kept, where="post", color=COLOURS[1], label="right")
    axes.set_xlabel(f"threshold on the {label} of the best result")
    axes.set_ylabel("per cent")
    axes.set_ylim(0, 102)
    axes.legend(frameon=False)
    axes.set_title("coverage against threshold", loc="left", fontsize=10)
    return figure
