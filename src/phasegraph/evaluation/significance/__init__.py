"""Whether a difference between two systems is more than chance, and how sure a figure is.

Paired tests on the same queries: the exact McNemar test for hits and misses, the paired bootstrap and the
sign-flip permutation test for anything else; Wilson and bootstrap intervals; Holm and Benjamini-Hochberg
corrections. Two-sided throughout.
"""

from phasegraph.evaluation.significance.corrections import benjamini_hochberg, holm
from phasegraph.evaluation.significance.intervals import bootstrap_intervals, wilson
from phasegraph.evaluation.significance.mcnemar import mcnemar_exact, wins_and_losses
from phasegraph.evaluation.significance.resampling import BootstrapResult, paired_bootstrap, sign_flip

__all__ = [
    "BootstrapResult",
    "benjamini_hochberg",
    "bootstrap_intervals",
    "holm",
    "mcnemar_exact",
    "paired_bootstrap",
    "sign_flip",
    "wilson",
    "wins_and_losses",
]
