"""The paper's own statistics, recomputed from the counts it prints."""

from __future__ import annotations

import numpy as np
from scipy.stats import binomtest

from page import Page, number, p_value, table
from phasegraph.calibration import percentile_rank
from phasegraph.evaluation.significance import mcnemar_exact
from phasegraph.fusion import boltzmann, boltzmann_temperature

PAIRS = (
    (8, 1, ".039"),
    (11, 2, ".023"),
    (15, 6, ".078"),
    (11, 5, ".210"),
    (1, 6, ".125"),
    (0, 3, ".250"),
    (26, 11, ".020"),
    (24, 7, ".003"),
    (15, 1, ".001"),
    (8, 0, ".008"),
)
SHARES = ((26, ""), (49, ""), (52, "upper end 87.2"), (53, "upper end 88.2"), (6, ""))
SLICE = 66
LENGTHS = (2, 3, 5, 10, 20, 30, 50, 100, 200, 1000, 2000)


def paper_page() -> Page:
    """Tests, intervals, and what percentile ranks of a source's own list keep."""
    return Page(
        "paper-statistics",
        "The paper's statistics and its calibration, checked",
        (
            "Wins and losses as printed; p is the two-sided exact McNemar test.",
            table(
                ["wins", "losses", "p", "the paper says"],
                _pairs(),
            ),
            "All agree but 11/2, which rounds to .022. A one-sided test would give .0195 for 8/1, a chi-square with "
            "continuity correction .0455: neither was used. RRF's row (15/6) has the larger mean gain and p .078, the "
            "paper's rule (8/1) p .039; no test of one against the other is reported, so that one beats the other is "
            "unsupported.",
            f"Wilson intervals of the hard slice, n = {SLICE}:",
            table(["successes", "95 % interval", "the paper differs"], [[k, _interval(k), note] for k, note in SHARES]),
            "The percentages imply sample sizes: MuSiQue's test part 514 (386 at the base, +9, +7), not the 491 of the "
            "text; 2Wiki 491. One row of the full-corpus table cannot be: 32 wins and 39 losses, yet 58.1 to 58.6. Its "
            "odds ratios are unadjusted and leave out the pairing. Whether the headline is LastHop@5 or @10 differs "
            "between abstract, text and appendix.",
            _ranks_only(),
            table(["list of", "temperature", "weight of the first"], _weights()),
            "For an untied list the temperature depends on the list's length alone and tends to 1/2, so the rule is "
            "close to the square of the percentile, normalised. The weight of the first passage falls like 3/n: two "
            "lists of different length are fused with other weights than the ones written down, and a cap on one list "
            "changes its weight.",
        ),
    )


def _pairs() -> list[list[object]]:
    return [[wins, losses, p_value(mcnemar_exact(wins, losses)), printed] for wins, losses, printed in PAIRS]


def _interval(successes: int) -> str:
    found = binomtest(successes, SLICE).proportion_ci(method="wilson")
    return f"{100 * found.low:.1f} to {100 * found.high:.1f}"


def _ranks_only() -> str:
    scores = np.random.default_rng(0).random(50)
    plain, bent = (boltzmann(percentile_rank(values)[:, None]) for values in (scores, np.exp(5 * scores)))
    fifth = float(np.sort(boltzmann(percentile_rank(np.arange(10.0))[:, None]))[5])
    return (
        "Percentile ranks of a source's own list are a function of ranks, ties and length, and of nothing else: "
        f"passing fifty scores through exp(5s) changes the fused weights by {float(np.abs(plain - bent).max()):g}. "
        "That they keep magnitude, or that the temperature follows the spread of the scores, is not so: the fifth of "
        f"ten gets {number(fifth, 10)} whether the list is flat or falls off sharply. It is rank fusion with another "
        "curve."
    )


def _weights() -> list[list[str]]:
    rows = []
    for length in LENGTHS:
        levels = percentile_rank(np.arange(float(length)))
        first = float(boltzmann(levels[:, None]).max())
        rows.append([str(length), number(boltzmann_temperature(levels), 6), number(first, 6)])
    return rows
