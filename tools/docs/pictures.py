"""Draw the pictures of docs/guide/concepts.md from the bundled data, and the diagram of a call.

Run: python tools/docs/pictures.py    (docs/pictures/*.svg; a minute)
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from phasegraph import FusionPipeline
from phasegraph._support.markup import source_colours
from phasegraph.evaluation.report import (
    calibrated_scores,
    contribution_bars,
    gold_hits,
    new_figure,
    score_distributions,
)

ROOT = Path(__file__).resolve().parents[2]
TO = ROOT / "docs" / "pictures"
sys.path.insert(0, str(ROOT / "examples"))

import demo  # noqa: E402


def call() -> Any:
    """What happens in a call, from the sources to the answer."""
    figure, (axes,) = new_figure(10.5, 3.2)
    axes.set_axis_off()
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 34)
    colours = source_colours(["vector", "graph", "bm25"])

    def box(x: float, y: float, width: float, text: str, colour: str = "#5b6575") -> None:
        axes.text(
            x + width / 2, y, text, ha="center", va="center", fontsize=9, color="white", linespacing=1.4,
            bbox={"boxstyle": "round,pad=0.5", "facecolor": colour, "edgecolor": "none"},
        )  # fmt: skip

    def arrow(x: float, y: float, to_x: float, to_y: float) -> None:
        axes.annotate("", (to_x, to_y), (x, y), arrowprops={"arrowstyle": "->", "color": "#888888", "lw": 1.2})

    for name, y in (("vector", 28), ("graph", 17), ("bm25", 6)):
        box(9, y, 8, name, colours[name])
        arrow(17, y, 23, y)
        box(25, y, 12, "calibrated", colours[name])
        arrow(38, y, 45, 17)
    arrow(6.5, 17, 9, 17)
    arrow(6.5, 18, 9, 27)
    arrow(6.5, 16, 9, 7)
    axes.text(3, 17, "query", ha="center", va="center", fontsize=10)
    for x, text in ((46, "weighed\nand added"), (63, "accepted\nor not"), (80, "a set\nchosen")):
        box(x, 17, 10, text)
    arrow(57, 17, 62.5, 17)
    arrow(73.5, 17, 79.5, 17)
    arrow(90.5, 17, 94, 17)
    axes.text(97, 17, "answer", ha="center", va="center", fontsize=10)
    for x, text in (
        (13, "concurrently, each with\na timeout and a breaker"),
        (31, "deviations above\nits background"),
        (51, "by how far\nthey agree"),
        (68, "thresholds,\nconfidence"),
        (85, "diversity, budget\n(off by default)"),
    ):
        axes.text(x, -1.5 if x < 40 else 9, text, ha="center", va="center", fontsize=8, color="#555555")
    return figure


def walk() -> Any:
    """Passages, the names between them, and where a walk from the question goes."""
    figure, (axes,) = new_figure(10.5, 3.4)
    axes.set_axis_off()
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 40)
    orange, grey = source_colours(["graph"])["graph"], "#9aa3ad"

    def passage(x: float, y: float, title: str, text: str, mass: float) -> None:
        axes.text(
            x, y, f"{title}\n{text}", ha="center", va="center", fontsize=8.5, linespacing=1.5,
            bbox={"boxstyle": "round,pad=0.6", "facecolor": "white", "edgecolor": orange, "lw": 0.6 + 4 * mass},
        )  # fmt: skip

    def name(x: float, y: float, text: str, colour: str = grey) -> None:
        axes.text(
            x, y, text, ha="center", va="center", fontsize=8.5, color="white",
            bbox={"boxstyle": "round4,pad=0.4", "facecolor": colour, "edgecolor": "none"},
        )  # fmt: skip

    for points in (
        ((10, 20), (27, 31)),
        ((27, 31), (45, 20)),
        ((45, 20), (63, 31)),
        ((63, 31), (81, 20)),
        ((45, 20), (63, 8)),
    ):
        axes.plot(*zip(*points, strict=True), color=orange if points[1][1] != 8 else grey, lw=1.6, zorder=0)
    axes.text(10, 37, "Where was the director of Vertigo born?", fontsize=9.5, ha="left")
    axes.annotate("", (10, 24), (14, 35.5), arrowprops={"arrowstyle": "->", "color": orange, "lw": 1.4})
    name(10, 20, "Vertigo", orange)
    passage(27, 31, "Vertigo", "A film by Alfred Hitchcock.", 0.7)
    name(45, 20, "Alfred Hitchcock", orange)
    passage(63, 31, "Alfred Hitchcock", "A director, born in Leytonstone.", 1.0)
    name(81, 20, "Leytonstone")
    passage(63, 8, "Psycho", "A film of 1960 by Alfred Hitchcock.", 0.15)
    axes.text(
        81, 12, "the question's words and vector\nprefer the passage above", fontsize=8, color="#555555", ha="center"
    )
    return figure


def main() -> None:
    """Draw all."""
    TO.mkdir(exist_ok=True)
    done = demo.run_demo(demo.BUNDLED)
    gold = gold_hits(done.rankings, done.dataset.judgements)
    drawn = {"call": call(), "walk": walk()}
    drawn["calibration"] = score_distributions(*calibrated_scores(done.rankings, FusionPipeline()), gold)
    titles = {passage.id: passage.title for passage in done.dataset.passages}
    shown = done.chosen if done.chosen is not None else 0
    print("contributions of:", done.dataset.queries[shown].text)
    drawn["contributions"] = contribution_bars(done.results[shown], titles)
    for name, figure in drawn.items():
        figure.savefig(TO / f"{name}.svg", metadata={"Date": None, "Creator": None})
    values = {name: np.concatenate([r.scores for r in found]) for name, found in done.rankings.items()}
    print({name: (f"{v.min():.3g}", f"{v.max():.3g}") for name, v in values.items()})


if __name__ == "__main__":
    main()
