"""Draw the pictures of the README and of docs/understand/how-it-works.md: two diagrams, and three pictures of data.

Run: python tools/docs/pictures.py [answer] [call] [walk] [data]    (docs/pictures/*.svg; all: a minute)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap

import numpy as np
from drawing import WIDTH, Drawing

from phasegraph import FusionPipeline, Result
from phasegraph._support.typing import BoolArray, FloatArray
from phasegraph.apps.cli import main as main_of_cli
from phasegraph.evaluation.report import calibrated_scores, gold_hits
from phasegraph.sentences import ordinal

ROOT = Path(__file__).resolve().parents[2]
TO = ROOT / "docs" / "pictures"
sys.path.insert(0, str(ROOT / "examples"))

import demo  # noqa: E402

SOURCES = ("vector", "graph", "bm25")
BINS = 60


def call() -> Drawing:
    """Draw the steps of a call of a retriever, from the question to the answer."""
    drawing = Drawing(
        "The sources answer, their scores are calibrated, weighed and added; passages are accepted and chosen", 545
    )
    middle, columns = WIDTH / 2, (90, 260, 430)
    drawing.text(middle, 28, "question", bold=True)
    for x, name in zip(columns, SOURCES, strict=True):
        drawing.line(middle, 44, x, 76, head=True)
        drawing.label(x, 98, 140, name, name)
        drawing.line(x, 118, x, 160, name)
        drawing.box(x - 70, 160, 140, 38, fill="card", stroke=name)
        drawing.text(x, 179, "calibrated")
        drawing.line(x, 198, middle, 244, head=True)
    drawing.box(middle - 165, 128, 330, 22, fill="paper")
    drawing.text(middle, 139, "all at the same time, each with a time limit", size=14, colour="muted")
    steps = (
        ("weigh and add", "weights: how far the sources agree"),
        ("accept or reject", "thresholds and confidence"),
        ("choose a set", "diversity: off by default"),
    )
    for row, (name, said) in enumerate(steps):
        y = 266 + 84 * row
        drawing.label(middle, y, 180, name, "muted")
        drawing.text(middle, y + 32, said, size=14, colour="muted")
        drawing.line(middle, y + 42, middle, y + 62, head=True)
    drawing.text(middle, 520, "answer, with its reasons", bold=True)
    return drawing


def walk() -> Drawing:
    """Draw passages, the names between them, and the way of a walk from a question."""
    drawing = Drawing(
        "A walk from a name in the question to a passage, to the name in it, and to the passage about that name", 500
    )

    def passage(x: float, y: float, title: str, lines: tuple[str, ...], stroke: str, wide: float) -> None:
        drawing.box(x - 118, y - 38, 236, 76, fill="card", stroke=stroke, wide=wide)
        drawing.text(x, y - 20, title, bold=True)
        for row, line in enumerate(lines):
            drawing.text(x, y + 3 + 19 * row, line, size=14)

    middle, left, right = WIDTH / 2, 130, 390
    drawing.text(middle, 28, "Where was the director of Vertigo born?", bold=True)
    drawing.line(middle, 44, middle, 70, "graph", 2, head=True)
    drawing.label(middle, 92, 120, "Vertigo", "graph")
    drawing.line(middle, 112, middle, 148, "graph", 2, head=True)
    passage(middle, 188, "Vertigo", ("A film by", "Alfred Hitchcock."), "graph", 3)
    drawing.line(middle, 227, middle, 260, "graph", 2, head=True)
    drawing.label(middle, 282, 180, "Alfred Hitchcock", "graph")
    drawing.line(middle - 40, 302, left, 340, "graph", 2, head=True)
    drawing.line(middle + 40, 302, right, 340, "line", 1.5, head=True)
    passage(left, 380, "Alfred Hitchcock", ("A director,", "born in Leytonstone."), "graph", 5)
    passage(right, 380, "Psycho", ("A film of 1960 by", "Alfred Hitchcock."), "line", 1)
    drawing.text(left, 436, "the answer: its words and its", size=14, colour="muted")
    drawing.text(left, 455, "vector fit the question", size=14, colour="muted")
    drawing.text(right, 436, "reached too,", size=14, colour="muted")
    drawing.text(right, 455, "with less weight", size=14, colour="muted")
    return drawing


def calibration(
    before: Mapping[str, FloatArray], after: Mapping[str, FloatArray], gold: Mapping[str, BoolArray]
) -> Drawing:
    """Draw histograms of each source's scores in its own unit, and of the calibrated values on one axis."""
    drawing = Drawing(
        "Scores of three sources before and after calibration; colour: gold passages, grey: other passages", 640
    )
    left, right, high = 80, WIDTH - 20, 56
    names = [name for name in SOURCES if name in before]
    lowest, highest = 0.0, float(np.ceil(max(float(after[name].max()) for name in names)))
    drawing.text(20, 26, "Before: each source in its own unit", anchor="start", bold=True)
    drawing.text(20, 322, "After: one scale for all sources", anchor="start", bold=True)
    for row, name in enumerate(names):
        spans = ((before[name], 118 + 78 * row, None), (after[name], 420 + 90 * row, (lowest, highest)))
        for values, ground, span in spans:
            low, top = span or (float(values.min()), float(values.max()))
            edges = np.linspace(low, top, BINS + 1)
            step = (right - left) / BINS
            drawing.text(20, ground - 24, name, anchor="start", colour=name, bold=True)
            if span is not None:
                medians = [float(np.median(values[part])) for part in (gold[name], ~gold[name])]
                said = "medians: gold {:.1f}, others {:.1f}".format(*medians)
                drawing.text(right, ground - high - 12, said, size=12, colour="muted", anchor="end")
            for part, fill, opacity in ((~gold[name], "other", 1.0), (gold[name], name, 0.75)):
                counts, _ = np.histogram(values[part], bins=edges)
                for column, count in enumerate(counts.tolist()):
                    if count:
                        tall = high * count / counts.max()
                        drawing.bar(left + step * column, ground - tall, step, tall, fill, opacity)
            drawing.line(left, ground, right, ground)
            if span is None:
                drawing.text(left, ground + 11, f"{low:.3g}", size=12, colour="muted", anchor="start")
                drawing.text(right, ground + 11, f"{top:.3g}", size=12, colour="muted", anchor="end")
    for tick in range(0, int(highest) + 1, 2):
        x = left + (right - left) * tick / highest
        drawing.text(x, 614, str(tick), size=12, colour="muted")
    drawing.text((left + right) / 2, 636, "deviations above the source's background", size=14, colour="muted")
    drawing.bar(left, 656, 14, 14, "graph", 0.75)
    drawing.text(left + 20, 663, "gold passages (in the source's colour)", size=14, anchor="start")
    drawing.bar(left + 290, 656, 14, 14, "other")
    drawing.text(left + 310, 663, "others", size=14, anchor="start")
    return drawing


def contributions(result: Result, titles: Mapping[str, str]) -> Drawing:
    """Draw the contribution of each source to the score of each passage of an answer."""
    rows = len(result)
    drawing = Drawing("The contribution of each source to each of ten passages", 96 + 34 * rows)
    left, right = 190, WIDTH - 20
    most = float(np.clip(result.contributions, 0, None).sum(axis=1).max())
    drawing.text(20, 26, "Contribution of each source", anchor="start", bold=True)
    start = 20
    for name in result.candidates.sources:
        drawing.bar(start, 48, 14, 14, name)
        drawing.text(start + 20, 55, name, size=14, anchor="start")
        start += 40 + 9 * len(name)
    for row, name in enumerate(result.ids):
        y, x = 84 + 34 * row, float(left)
        title = titles[name]
        drawing.text(left - 10, y, title if len(title) <= 22 else f"{title[:21]}…", size=14, anchor="end")
        for column, source in enumerate(result.candidates.sources):
            there = name in result.candidates.rankings[column].positions
            long = max(float(result.contributions[row, column]), 0.0) * (right - left) / most
            drawing.bar(x, y - 11, long, 22, source, 1.0 if there else 0.3)
            x += long
    return drawing


QUERY = "2hop__205146_62031"
"""The question of the README."""


def answer() -> Drawing:
    """Draw the first passages of an answer, with the ranks and contributions of the sources, and the walk's path."""
    with TemporaryDirectory() as scratch:
        file = Path(scratch) / "answer.json"
        if main_of_cli(["explain", str(demo.BUNDLED), QUERY, "--json", str(file)]):
            sys.exit(f"phasegraph explain {QUERY} failed")
        found = json.loads(file.read_text(encoding="utf-8"))
    corpus = (demo.BUNDLED / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    titles = {one["id"]: one["title"] for one in map(json.loads, corpus)}
    first, second = wrap(found["question"], 52)
    drawing = Drawing(f"The answer to: {found['question']}", 352)
    drawing.text(20, 30, first, anchor="start", bold=True)
    drawing.text(20, 52, second, anchor="start", bold=True)
    left, long = 52, WIDTH - 72
    passages = found["passages"][:3]
    most = max(sum(max(one["contribution"], 0.0) for one in each["sources"]) for each in passages)
    y = 96.0
    for each in passages:
        ranks = {one["source"]: one["rank"] for one in each["sources"]}
        said = ", ".join(
            f"{name} {'–' if ranks[name] is None else ordinal(ranks[name])}" for name in ("vector", "graph")
        )
        drawing.text(20, y, str(each["position"]), anchor="start", bold=True)
        drawing.text(left, y, titles[each["id"]], anchor="start", bold=True)
        drawing.text(WIDTH - 20, y, said, size=14, colour="muted", anchor="end")
        x = float(left)
        for one in each["sources"]:
            part = max(one["contribution"], 0.0) * long / most
            drawing.bar(x, y + 15, part, 10, one["source"])
            x += part
        steps = [
            titles.get(step.strip("[]"), step.title()) for step in each["paths"][0].partition(": ")[2].split(" > ")
        ]
        path = list(dict.fromkeys(steps))
        if len(" → ".join(path)) > 56:  # characters of a line
            path = [*path[:2], "…", path[-1]]
        if len(path) > 1:
            drawing.text(left, y + 43, " → ".join(path), size=14, colour="graph", anchor="start")
        y += 76
    for x, name in ((left, "graph"), (left + 90, "vector")):
        drawing.bar(x, 322, 12, 12, name)
        drawing.text(x + 18, 328, name, size=14, anchor="start")
    drawing.text(WIDTH - 20, 328, "bars: what each source adds", size=14, colour="muted", anchor="end")
    return drawing


def of_data() -> dict[str, Drawing]:
    """Return, by name, the pictures of the data of `phasegraph demo`."""
    done = demo.run_demo(demo.BUNDLED)
    gold = gold_hits(done.rankings, done.dataset.judgements)
    titles = {passage.id: passage.title for passage in done.dataset.passages}
    shown = done.chosen if done.chosen is not None else 0
    before, after = calibrated_scores(done.rankings, FusionPipeline())
    return {
        "calibration": calibration(before, after, gold),
        "contributions": contributions(done.results[shown], titles),
    }


def main() -> None:
    """Draw all pictures, or those that the command line names."""
    named = sys.argv[1:] or ["answer", "call", "walk", "data"]
    drawn = {name: make() for name, make in {"answer": answer, "call": call, "walk": walk}.items() if name in named}
    if "data" in named:
        drawn |= of_data()
    TO.mkdir(exist_ok=True)
    for name, drawing in drawn.items():
        (TO / f"{name}.svg").write_text(drawing.svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
