"""What may be shown: thresholds per source and for the final set, how they are fitted, what they promise.

Judged hits (:class:`JudgedScores`) become a :class:`Threshold` by a recipe of the literature, an exact optimum,
a certificate or conformal control; an :class:`AcceptancePolicy` turns thresholds into a verdict per candidate
(accept, ambiguous, reject) and says which promises hold for the answer at hand.
"""

from phasegraph.acceptance.certified import (
    betting,
    certify_sources,
    certify_threshold,
    conformal_threshold,
    hoeffding_bentkus,
    queries_needed,
    three_way,
)
from phasegraph.acceptance.drift import DriftReport, check_drift, revoke_on_drift
from phasegraph.acceptance.fitting import (
    area_under_curve,
    fit_global_threshold,
    fit_grid,
    fit_threshold,
    sscc_threshold,
)
from phasegraph.acceptance.judged import JudgedScores, check_orientation, check_orientations, judge, query_losses
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
    "area_under_curve",
    "betting",
    "certify_sources",
    "certify_threshold",
    "check_drift",
    "check_orientation",
    "check_orientations",
    "conformal_threshold",
    "fit_global_threshold",
    "fit_grid",
    "fit_threshold",
    "hoeffding_bentkus",
    "judge",
    "queries_needed",
    "query_losses",
    "revoke_on_drift",
    "sscc_threshold",
    "three_way",
]
