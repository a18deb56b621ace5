"""Sources, and how to ask several of them at once: deadlines, failures, needs, breakers.

A :class:`Gatherer` asks the sources of one call concurrently and answers with :class:`Gathered`: their
rankings and one report each, in name order, whatever order they came in. One that fails, hangs or returns nonsense
costs the others nothing.
"""

from phasegraph.sources.gatherer import Gathered, Gatherer
from phasegraph.sources.protocol import AsyncCallableSource, AsyncSource, CallableSource, Source, Upstream
from phasegraph.sources.settings import BreakerSettings, SourceSettings
from phasegraph.sources.source_state import SourceHealth

__all__ = [
    "AsyncCallableSource",
    "AsyncSource",
    "BreakerSettings",
    "CallableSource",
    "Gathered",
    "Gatherer",
    "Source",
    "SourceHealth",
    "SourceSettings",
    "Upstream",
]
