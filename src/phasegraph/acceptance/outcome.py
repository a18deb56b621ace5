"""What a decision on acceptance looks like, and which promises hold for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasegraph._typing import BoolArray
from phasegraph.acceptance.thresholds import Threshold

Verdicts: TypeAlias = NDArray[np.int8]
ACCEPT, AMBIGUOUS, REJECT = 1, 0, -1


@dataclass(frozen=True, slots=True)
class Certificate:
    """Whether one threshold's promise holds for one answer.

    Parameters
    ----------
    name : str
        A source, ``common`` or ``final``.
    promise : str
        The sentence.
    valid : bool
        Whether it holds for this answer.
    reason : str
        Why not; empty where it does.
    """

    name: str
    promise: str
    valid: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class AcceptanceOutcome:
    """Verdicts for one answer.

    Parameters
    ----------
    verdicts : (n,) array of int8
        1 accept, 0 ambiguous, -1 reject; one per candidate.
    reason : str
        ``accepted``, ``no_thresholds``, ``no_candidates``, ``all_below_threshold``, ``kept_best`` (`min_keep`
        or ``on_empty="best"`` overruled the thresholds) or ``callback``.
    certificates : tuple of Certificate
        One per threshold that promises something and was used.
    """

    verdicts: Verdicts
    reason: str
    certificates: tuple[Certificate, ...] = ()

    @property
    def accepted(self) -> BoolArray:
        """(n,) array of bool."""
        return np.asarray(self.verdicts == ACCEPT)

    @property
    def abstained(self) -> bool:
        """Whether there were candidates and none was accepted."""
        return self.reason == "all_below_threshold"


def check_certificate(
    name: str,
    threshold: Threshold,
    answered: Sequence[str],
    /,
    *,
    overruled: bool,
    narrowed: bool,
    exact: bool,
) -> Certificate:
    """Whether `threshold`'s promise holds for an answer of the sources `answered`.

    Parameters
    ----------
    name : str
        Of the certificate.
    threshold : Threshold
        With a promise.
    answered : sequence of str
        Sources that answered.
    overruled : bool
        Whether something below the threshold was kept all the same.
    narrowed : bool
        Whether another threshold removed something that this one accepts.
    exact : bool
        Whether the sources must be the same, not only include those it was fitted with.

    Returns
    -------
    Certificate
    """
    absent = sorted(set(threshold.sources) - set(answered))
    extra = sorted(set(answered) - set(threshold.sources)) if exact and threshold.sources else []
    reason = ""
    if threshold.revoked:
        reason = f"revoked: {threshold.revoked}"
    elif absent:
        reason = f"fitted with {', '.join(absent)}, which did not answer"
    elif extra:
        reason = f"fitted without {', '.join(extra)}, which answered"
    elif overruled:
        reason = "something below the threshold was kept"
    elif narrowed:
        reason = "another threshold removed part of what it accepts"
    return Certificate(name, threshold.promise, not reason, reason)
