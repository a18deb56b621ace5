"""The pictures: where scores lie before and after calibration, who contributed, what was won and lost.

Every picture is a function from data to a matplotlib figure; :func:`write_report` puts them on one page that needs no
network and no script, with the same pictures beside it as PNG.
"""

from phasegraph.report.figures import (
    contribution_bars,
    coverage_curve,
    score_distributions,
    system_bars,
    wins_and_losses,
)
from phasegraph.report.page import Picture, write_report
from phasegraph.report.story import evaluation_pictures

__all__ = [
    "Picture",
    "contribution_bars",
    "coverage_curve",
    "evaluation_pictures",
    "score_distributions",
    "system_bars",
    "wins_and_losses",
    "write_report",
]
