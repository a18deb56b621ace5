"""Names and titles of others in pictures, on pages, in warnings and logs."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from phasegraph import FusionPipeline, PhasegraphWarning, Ranking
from phasegraph.errors import warn
from phasegraph.evaluation.report import contribution_bars, coverage_curve, score_distributions
from phasegraph.evaluation.report_page import Picture, write_report
from phasegraph.graph.walk.paths import PathNode, WalkPath

HOSTILE = [
    "$", "$$", "$5 and $6", r"$\frac{1}{0}$", r"\$5", "$\\undefined{", "\ud800", "a\x1b[31mb\x07", "\u202egnp",
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a\nb", "&amp;", "\ufeff", "_hidden", "\x00", "^_{}",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_drawn_and_written_as_it_is(tmp_path: Path, name: str) -> None:
    ids = [f"p{row}" for row in range(8)]
    vector, graph = Ranking(name, ids, np.arange(8.0, 0, -1)), Ranking("graph", ids[::-1], np.arange(8.0, 0, -1))
    result = FusionPipeline().decide([vector, graph])
    figures = [
        score_distributions(*[{name: np.arange(8.0), "graph": np.arange(8.0)}] * 2),
        contribution_bars(result, {identifier: f"{name}{identifier}" for identifier in ids}),
        coverage_curve(np.arange(8.0), [True, False] * 4, label=name),
    ]
    pictures = [Picture(f"one-{row}", name, name, figure) for row, figure in enumerate(figures)]
    page = write_report(
        tmp_path, title=name, lead=name, columns=("system", name), rows=((name, "1"),), pictures=pictures, notes=[name]
    )
    text = page.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert not set(text) & {"\x1b", "\x07", "\u202e", "\x00", "\ud800"}


@pytest.mark.parametrize("name", ["a\x1b]0;owned\x07", "\u202egnp", "a\nfake: line", "\ud800", "\x9b2J"])
def test_warnings_logs_and_paths_are_one_line_that_steers_nothing(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "phasegraph"), pytest.warns(PhasegraphWarning) as told:
        warn(f"source {name}: failed", cause=ValueError("x"))
    path = WalkPath(((PathNode("passage", name), 1.0),), (PathNode("passage", name), PathNode("entity", name)))
    for text in (caplog.messages[0], str(told[0].message), str(path)):
        assert text.isprintable()
