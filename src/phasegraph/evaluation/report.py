"""The pictures: where scores lie before and after calibration, who contributed, what was won and lost.

Every picture is a function from data to a matplotlib figure (without matplotlib, ``MissingDependencyError``);
:func:`write_report` puts them on one page that needs no network and no script, with the same pictures as PNG beside it.
"""

from __future__ import annotations

import html
import io
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from phasegraph._support.files import replace_file
from phasegraph._support.markup import COLOURS, source_colours
from phasegraph._support.text import legible
from phasegraph._support.typing import BoolArray, FloatArray
from phasegraph.errors import InvalidInputError, needed
from phasegraph.evaluation.datasets import Judgement
from phasegraph.evaluation.experiment import Table
from phasegraph.evaluation.measures import Measure
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.ranking import Ranking
from phasegraph.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WON, _LOST, _BASELINE, _OTHER = COLOURS[2], COLOURS[4], COLOURS[5], "#a9bfdc"


def new_figure(width: float, height: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure with `columns` axes side by side, without pyplot's global state."""
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
    """Where each source's scores lie: left in a unit of its own, right all of them on one axis.

    Parameters
    ----------
    before : mapping of str to array of float
        Scores by source, over many queries, each in its own unit.
    after : mapping of str to array of float
        Calibrated values of the same sources.
    gold : mapping of str to array of bool, optional
        Which of them are gold passages: these are drawn on their own, in the source's colour, the others grey, under a
        sentence that the figures choose (:func:`separation`). Both histograms of a row have the same height.

    Returns
    -------
    Figure

    Raises
    ------
    InvalidInputError
        If a source is missing on one side, has no score, or `gold` has another length.
    """
    names = sorted(before)
    if not names or names != sorted(after) or any(len(before[n]) == 0 or len(after[n]) == 0 for n in names):
        raise InvalidInputError(f"before and after must hold scores of the same sources; got {names}, {sorted(after)}")
    if gold is not None and any(len(gold.get(name, ())) != len(before[name]) for name in names):
        raise InvalidInputError(f"gold must say of every score whether it is a gold passage's; got {sorted(gold)}")
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
    told = "" if gold is None else " (colour: gold passages; grey: others)"
    said = "" if gold is None else separation(after, gold)
    if said:
        figure.suptitle(fill(_drawn(said), 140), x=0.01, ha="left", fontsize=10)
    axes[0].set_title(f"before: each source in its own unit{told}", loc="left", fontsize=10)
    axes[1].set_title("after: one axis, deviations above the source's background", loc="left", fontsize=10)
    return figure


def separation(values: Mapping[str, FloatArray], gold: Mapping[str, BoolArray]) -> str:
    """What calibrated values say of gold passages and others, in a sentence; empty where no source has both."""
    medians = {
        name: (float(np.median(one[gold[name]])), float(np.median(one[~gold[name]])))
        for name, one in sorted(values.items())
        if gold[name].any() and not gold[name].all()
    }
    if not medians:
        return ""
    listed = ", ".join(f"{name} {high:.1f} and {low:.1f}" for name, (high, low) in medians.items())
    furthest = max(medians, key=lambda name: medians[name][0] - medians[name][1])
    best = f"; {furthest} sets them furthest apart" if len(medians) > 1 else ""
    return f"Medians of gold passages and of others: {listed}{best}."


def contribution_bars(result: Result, labels: Mapping[str, str] | None = None) -> Figure:
    """What each source added to each result of one query.

    Parameters
    ----------
    result : Result
    labels : mapping of str to str, optional
        Text shown for an id; default the id.

    Returns
    -------
    Figure

    Raises
    ------
    InvalidInputError
        If the result is empty.
    """
    if not len(result):
        raise InvalidInputError(f"contribution bars need at least one result; the reason given is {result.reason!r}")
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
    """Queries that each system, in the order given, won and lost against the baseline."""
    names = [name for name in wins if name != baseline]
    if not names:
        raise InvalidInputError(f"wins must name a system besides the baseline {baseline!r}; got {list(wins)}")
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
    """A measure's mean by system with its interval.

    Parameters
    ----------
    means : mapping of str to float
        In [0, 1].
    intervals : mapping of str to (float, float)
    measure, baseline : str
    marked : collection of str
        Systems to set off.

    Returns
    -------
    Figure
    """
    names = list(means)
    if not names:
        raise InvalidInputError("means must name at least one system; got none")
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
    Figure

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
    axes.set_xlabel(_drawn(f"threshold on the {label} of the best result"))
    axes.set_ylabel("per cent")
    axes.set_ylim(0, 102)
    axes.legend(frameon=False)
    axes.set_title("coverage against threshold", loc="left", fontsize=10)
    return figure


_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:76rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;font-size:.8rem;display:block;overflow-x:auto}
th,td{padding:.25rem .45rem;text-align:right;border-bottom:1px solid #e3e3e3;white-space:nowrap}
th:first-child,td:first-child{text-align:left}thead th{border-bottom:2px solid #999}
tr.marked td{background:#eef4fb;font-weight:600}
figure{margin:.5rem 0}figure svg{max-width:100%;height:auto}figcaption,.note{color:#555;font-size:.86rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;font-size:.86rem}dt{font-weight:600}dd{margin:0}
"""


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure with its place on the page; `name` is the PNG's without its ending: lower case, digits, hyphens."""

    name: str
    title: str
    caption: str
    figure: Figure


def write_report(
    directory: str | os.PathLike[str],
    *,
    title: str,
    lead: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    marked: Sequence[str] = (),
    pictures: Sequence[Picture] = (),
    notes: Sequence[str] = (),
    terms: Mapping[str, str] | None = None,
) -> Path:
    """Write ``index.html`` and one PNG per picture.

    Parameters
    ----------
    directory : path
        Made if missing.
    title, lead : str
        Heading and the sentence below it.
    columns : sequence of str
    rows : sequence of sequence of str
        As many cells as columns; the first is the row's name.
    marked : sequence of str
        Names of rows to set off.
    pictures : sequence of Picture
    notes : sequence of str
        Lines under the table.
    terms : mapping of str to str, optional
        What the names of the table mean; shown at the end.

    Returns
    -------
    Path
        The page. All text is escaped; it loads nothing.

    Raises
    ------
    InvalidInputError
        If a row has another number of cells, or a picture's name is not plain.
    """
    wrong = next((row for row in rows if len(row) != len(columns)), None)
    if wrong is not None:
        raise InvalidInputError(f"every row must have {len(columns)} cells; got {list(wrong)}")
    bad = next((picture.name for picture in pictures if not _NAME.fullmatch(picture.name)), None)
    if bad is not None:
        raise InvalidInputError(f"a picture's name must be lower-case letters, digits and hyphens; got {bad!r}")
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    for picture in pictures:
        buffer = io.BytesIO()
        picture.figure.savefig(buffer, format="png", dpi=140)
        replace_file(target / f"{picture.name}.png", buffer.getvalue())
    body = [f"<h1>{_text(title)}</h1>", f"<p>{_text(lead)}</p>", _table(columns, rows, frozenset(marked))]
    body += [f'<p class="note">{_text(note)}</p>' for note in notes]
    body += [_section(picture) for picture in pictures]
    if terms:
        listed = "".join(f"<dt>{_text(name)}</dt><dd>{_text(meaning)}</dd>" for name, meaning in terms.items())
        body.append(f"<h2>What the names mean</h2><dl>{listed}</dl>")
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n<body>{''.join(body)}</body></html>\n"
    )
    replace_file(target / "index.html", page.encode())
    return target / "index.html"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], marked: frozenset[str]) -> str:
    head = "".join(f"<th>{_text(column)}</th>" for column in columns)
    lines = []
    for row in rows:
        cells = "".join(f"<td>{_text(cell)}</td>" for cell in row)
        lines.append(f'<tr class="marked">{cells}</tr>' if row[0] in marked else f"<tr>{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _section(picture: Picture) -> str:
    buffer = io.StringIO()
    picture.figure.savefig(buffer, format="svg", metadata={"Date": None})
    drawing = buffer.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    # ids are unique within one drawing only: prefix them, so that clip paths of several do not mix
    drawing = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{picture.name}-", drawing)
    return f"<h2>{_text(picture.title)}</h2><figure>{drawing}<figcaption>{_text(picture.caption)}</figcaption></figure>"


def _drawn(value: str) -> str:
    """Text for a picture, in which a dollar is a dollar and begins no formula."""
    return legible(value).replace("$", r"\$")


def _text(value: str) -> str:
    return html.escape(legible(value))


def gold_hits(rankings: Mapping[str, Sequence[Ranking]], judgements: Sequence[Judgement]) -> dict[str, BoolArray]:
    """Of every score that :func:`calibrated_scores` lists: whether it is that of a gold passage."""
    gold = [frozenset(judged.passages) for judged in judgements]
    listed = {
        name: [identifier in of for ranking, of in zip(found, gold, strict=True) for identifier in ranking.ids]
        for name, found in rankings.items()
    }
    return {name: np.array(hits, dtype=np.bool_) for name, hits in listed.items() if hits}


def measure_to_show(table: Table) -> Measure:
    """What pictures and the conclusion are about: LastHop@10 where it is tested, else the first measure."""
    return next((m for m in table.tests if str(m) == "LastHop@10"), [*table.tests, *table.measures][0])


def conclusion(table: Table, system: str = "default") -> str:
    """One system against the baseline and the best other row, in a sentence; empty where there is none of them."""
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
    """The five pictures of an evaluation; those without data are left out.

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
    caption = f"{len(table.queries)} queries of {table.dataset}, lists of {table.limit}; the baseline is grey."
    pictures = [Picture("systems", str(hop), caption, figure)]
    if len(table.rows) > 1:
        won, lost = {row.name: row.wins[hop] for row in table.rows}, {row.name: row.losses[hop] for row in table.rows}
        figure = wins_and_losses(won, lost, table.baseline, str(hop))
        pictures.append(Picture("wins-and-losses", "Wins and losses", "Query by query, not on average.", figure))
    before, after = calibrated_scores(rankings, pipeline)
    if before:
        caption = (
            "The same hits twice: what the sources return, and what is fused. Gold passages in colour, others grey; "
            "every histogram has a height of its own."
        )
        figure = score_distributions(before, after, gold_hits(rankings, judgements))
        pictures.append(Picture("score-distributions", "Scores before and after calibration", caption, figure))
    if len(results) > chosen and len(results[chosen]):
        caption = f"Query {table.queries[chosen]}: the parts add up to the fused value."
        figure = contribution_bars(results[chosen], labels)
        pictures.append(Picture("contributions", "One query explained", caption, figure))
    answered = [(result, judged) for result, judged in zip(results, judgements, strict=True) if len(result)]
    if answered:
        best = np.array([float(result.scores[0]) for result, _ in answered])
        right = np.array([result.ids[0] in judged.passages for result, judged in answered])
        caption = "Right: the best result is one of the gold passages. A score is not a probability."
        figure = coverage_curve(best, right, "published score")
        pictures.append(Picture("coverage", "Coverage against threshold", caption, figure))
    return pictures
