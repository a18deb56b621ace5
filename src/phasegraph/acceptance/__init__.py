"""Acceptance thresholds: their fit to judged hits, their guarantees, and the verdicts for the candidates of an answer.

Functions here fit a :class:`Threshold` to judged hits (:class:`JudgedScores`). The methods are recipes of the
literature, exact optima, certificates, and conformal prediction. An :class:`AcceptancePolicy` turns thresholds into a
verdict per candidate (accept, ambiguous or reject). It also reports whether the guarantee of each threshold is valid
for the answer.
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
