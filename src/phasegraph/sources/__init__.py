"""Ask several sources at once, with deadlines, dependencies between sources, and circuit breakers.

A :class:`Gatherer` asks the sources of one call concurrently, and returns a :class:`Gathered`: the rankings and a
report for each source, always in name order. A source that fails, hangs or returns malformed data does not affect the
other sources.
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
