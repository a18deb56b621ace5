"""What may be shown: thresholds per source and for the final set, how they are fitted, what they promise.

Judged hits (:class:`JudgedScores`) become a :class:`Threshold` by a recipe of the literature, an exact optimum,
a certificate or conformal control; an :class:`AcceptancePolicy` turns thresholds into a verdict per candidate
(accept, ambiguous, reject) and says which promises hold for the answer at hand.
"""

from phasegraph.acceptance.certified import (
    certify_sources,
    certify_threshold,
    conformal_threshold,
    queries_needed,
    three_way,
)
from phasegraph.acceptance.drift import DriftReport, check_drift, revoke_on_drift
from phasegraph.acceptance.fitting import (
    fit_global_threshold,
    fit_grid,
    fit_threshold,
    sscc_threshold,
)
from phasegraph.acceptance.judged import JudgedScores, judge
from phasegraph.acceptance.policy import AcceptanceOutcome, AcceptancePolicy, Certificate
from phasegraph.acceptance.thresholds import DriftReference, Threshold

__all__ = [
    "AcceptanceOutcome",
    "AcceptancePolicy",
    "Certificate",
    "DriftReference",
    "DriftReport",
    "JudgedScores",
    "Threshold",
    "certify_sources",
    "certify_threshold",
    "check_drift",
    "conformal_threshold",
    "fit_global_threshold",
    "fit_grid",
    "fit_threshold",
    "judge",
    "queries_needed",
    "revoke_on_drift",
    "sscc_threshold",
    "three_way",
]
