"""Fitting a pipeline to a user's own data: calibrators from unlabelled queries, the rest from judged ones.

:func:`calibrated_pipeline` needs no labels. :func:`tune` searches rules, calibrations, weights, caps and temperatures
on one part of the judged queries and confirms on the other; a gain that the second part does not confirm is not
called one, and nothing is changed for it.
"""

from phasegraph.tuning.learned import learn_weights
from phasegraph.tuning.search import Tuning, tune
from phasegraph.tuning.space import Candidate, candidates
from phasegraph.tuning.unlabelled import calibrated_pipeline

__all__ = [
    "Candidate",
    "Tuning",
    "calibrated_pipeline",
    "candidates",
    "learn_weights",
    "tune",
]
