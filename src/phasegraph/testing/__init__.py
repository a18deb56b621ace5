"""Support for tests of your own sources: tests to inherit, faults to inject, and a manual clock."""

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
