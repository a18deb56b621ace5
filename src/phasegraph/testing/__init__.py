"""Tests to inherit and faults to inject, for sources of your own."""

from phasegraph.testing.contracts import SourceContract
from phasegraph.testing.faults import FAILING, FATAL, FAULTS, HARMLESS, FaultPlan, FaultySource, InjectedError
from phasegraph.testing.manual_clock import ManualClock

__all__ = [
    "FAILING",
    "FATAL",
    "FAULTS",
    "HARMLESS",
    "FaultPlan",
    "FaultySource",
    "InjectedError",
    "ManualClock",
    "SourceContract",
]
