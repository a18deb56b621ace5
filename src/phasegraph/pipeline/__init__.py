"""From rankings to a result: one pure function, described by one value."""

from phasegraph.pipeline.checks import check_count, check_number, check_query, check_weights_mapping
from phasegraph.pipeline.pipeline import FusionPipeline
from phasegraph.pipeline.result import Evidence, Result, SourceEvidence
from phasegraph.priors import Context

__all__ = [
    "Context",
    "Evidence",
    "FusionPipeline",
    "Result",
    "SourceEvidence",
    "check_count",
    "check_number",
    "check_query",
    "check_weights_mapping",
]
