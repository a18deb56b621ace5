"""The statistics of the PhaseGraph paper, computed again from the counts that it prints."""

from __future__ import annotations

import numpy as np
from scipy.stats import binomtest, chi2

from claims import Verdict, judge
from page import Page, number, p_value, table
from phasegraph.calibration.per_list import percentile_rank
from phasegraph.evaluation.significance import mcnemar_exact
from phasegraph.fusion.rules import boltzmann, boltzmann_temperature

PAIRS = (
    (8, 1, 0.039),
    (11, 2, 0.023),
    (15, 6, 0.078),
    (11, 5, 0.210),
    (1, 6, 0.125),
    (0, 3, 0.250),
    (26, 11, 0.020),
    (24, 7, 0.003),
    (15, 1, 0.001),
)
"""Wins, losses and p as printed."""
INTERVALS = ((26, 28.5, 51.5), (49, 62.6, 83.3), (52, 67.5, 87.2), (53, 69.2, 88.2), (6, 4.2, 18.4))
"""Successes in the hard slice and the ends of their interval as printed."""
ODDS = ((49, 4.43), (52, 5.71), (53, 6.27), (6, 0.15))
"""Successes and their odds ratio to the first of the slice as printed."""
THERMO, RRF = (8, 1), (15, 6)
FULL_CORPUS = (32, 39, 58.1, 58.6)
"""Wins, losses, and the share before and after, of one row of the full-corpus table."""
BASELINES = {"Table 1": 53.6, "Table 2": 53.8}
"""The share of the same baseline in both tables, per cent, as printed."""
SLICE = 66
LENGTHS = (2, 3, 5, 10, 20, 30, 50, 100, 200, 1000, 2000)
HALF_DIGIT = 0.0005 * (1 + 1e-9)
"""Half of the last digit that the paper prints of a p-value."""
HALF_OF_ODDS = 0.005 * (1 + 1e-9)
"""Half of the last digit that the paper prints of an odds ratio."""


def paper_page() -> Page:
    """Return the page `paper-statistics`: the paper's tests and intervals, recomputed, and checks of a calibration."""
    return Page(
        "paper-statistics",
        "The paper's statistics and its calibration, checked",
        (
            "This page recomputes the statistics that the paper prints. The wins and losses are those of the "
            "paper; p is the two-sided exact McNemar test.",
            table(
                ["wins", "losses", "p", "the paper says"],
                [[wins, losses, p_value(mcnemar_exact(wins, losses)), f"{said:.3f}"] for wins, losses, said in PAIRS],
            ),
            f"Wilson intervals of the paper's hard queries, n = {SLICE}:",
            table(
                ["successes", "95 % interval", "the paper says"],
                [[k, "{:.1f} to {:.1f}".format(*_interval(k)), f"{low} to {high}"] for k, low, high in INTERVALS],
            ),
            "Temperature of the Boltzmann rule, and the weight of the first passage, for lists without ties:",
            table(
                ["list of", "temperature", "weight of the first"],
                [[n, number(t, 6), number(w, 6)] for n, t, w in _weights()],
            ),
        ),
        (*_printed(), *_kept()),
    )


def _printed() -> list[Verdict]:
    """Return the verdicts on whether the paper's printed results follow from its printed counts."""
    wins, losses, before, after = FULL_CORPUS
    first = PAIRS[0][:2]
    one_sided = binomtest(first[0], sum(first), alternative="greater").pvalue
    corrected = float(chi2.sf((abs(first[0] - first[1]) - 1) ** 2 / sum(first), 1))
    base = INTERVALS[0][0] / (SLICE - INTERVALS[0][0])
    return [
        judge(
            "Every printed p is the rounded p of the two-sided exact McNemar test (difference)",
            {f"{w}/{n}": abs(mcnemar_exact(w, n) - said) for w, n, said in PAIRS},
            high=HALF_DIGIT,
        ),
        judge(
            f"The p printed for {first[0]}/{first[1]} comes neither from a one-sided test nor from the chi-square "
            "test with continuity correction (difference)",
            {name: abs(p - PAIRS[0][2]) for name, p in (("one-sided", one_sided), ("chi-square", corrected))},
            HALF_DIGIT,
        ),
        judge(
            "The paper's rule, which has a smaller p against vectors than RRF, also has more net wins (difference "
            "in net wins)",
            {"ahead of RRF": (THERMO[0] - THERMO[1]) - (RRF[0] - RRF[1])},
            0,
        ),
        judge(
            "The recomputed ends of the Wilson intervals equal the printed ends (largest difference, points)",
            {
                f"{k} of {SLICE}": float(np.abs(np.subtract(_interval(k), (low, high))).max())
                for k, low, high in INTERVALS
            },
            high=0.05,
        ),
        judge(
            "The printed odds ratios come from two-by-two tables that ignore the pairing of the queries (difference)",
            {f"{k} of {SLICE}": abs(k / (SLICE - k) / base - said) for k, said in ODDS},
            high=HALF_OF_ODDS,
        ),
        judge(
            f"The printed means {before} and {after} of the full corpus fit its {wins} wins and {losses} losses "
            "(change of the mean, in the direction of the net wins)",
            {"points": (after - before) * float(np.sign(wins - losses))},
            0,
        ),
        judge(
            "Tables 1 and 2 print the same baseline for 2Wiki (difference, points)",
            {"Table 2": BASELINES["Table 2"] - BASELINES["Table 1"]},
            -0.05,
            0.05,
        ),
    ]


def _kept() -> list[Verdict]:
    """Return the verdicts on what a calibration by percentile ranks within each list preserves of the scores."""
    scores = np.random.default_rng(0).random(50)
    plain_weights, bent = (boltzmann(percentile_rank(values)[:, None]) for values in (scores, np.exp(5 * scores)))
    flat, sharp = (
        np.sort(boltzmann(percentile_rank(s)[:, None]))[5] for s in (np.arange(10.0), np.geomspace(1, 1e6, 10))
    )
    weights = _weights()
    return [
        judge(
            "The rule uses the magnitude of scores: transforming fifty scores by exp(5s) changes the fused weights "
            "(largest change)",
            {"weights": float(np.abs(plain_weights - bent).max())},
            1e-12,
        ),
        judge(
            f"The fifth of ten passages has the weight {number(float(flat), 10)} if the scores fall slowly, and "
            "another weight if they fall sharply (difference)",
            {"weights": abs(float(flat - sharp))},
            1e-12,
        ),
        judge(
            "The temperature of a list without ties depends only on its length and tends to 1/2, so the rule is "
            "close to the square of the percentile (distance to 1/2)",
            {f"{n}": abs(t - 0.5) for n, t, _ in weights if n >= 1000},
            high=0.0025,
        ),
        judge(
            "The weight of the first passage falls like 3/n, so a cap on one list changes its weight relative to "
            "another list (weight times length)",
            {f"{n}": n * first for n, _, first in weights if n >= 50},
            2.97,
            3.03,
        ),
    ]


def _interval(successes: int) -> tuple[float, float]:
    """Return the ends of Wilson's 95 % interval of `successes` out of the paper's 66 hard queries, in percent."""
    found = binomtest(successes, SLICE).proportion_ci(method="wilson")
    return 100 * found.low, 100 * found.high


def _weights() -> list[tuple[int, float, float]]:
    """Return, for several list lengths: the length, the Boltzmann rule's temperature, and the first hit's weight."""
    rows = []
    for length in LENGTHS:
        levels = percentile_rank(np.arange(float(length)))
        rows.append((length, boltzmann_temperature(levels), float(boltzmann(levels[:, None]).max())))
    return rows
