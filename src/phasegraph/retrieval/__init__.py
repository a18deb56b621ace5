"""What every framework's adapter needs, framework-free: ids, directions, plain provenance, fitting.

The integration packages convert between a framework's objects and rankings; whatever they would otherwise compute
twice stands here.
"""

from phasegraph.retrieval.directions import Direction, infer_direction, known_direction, scores_of
from phasegraph.retrieval.engine import calibration_queries, check_queries, fit_calibrators, with_progress
from phasegraph.retrieval.ids import ID_KEYS, Identities, resolve_id, text_id
from phasegraph.retrieval.provenance import contradicts, limited, plain, provenance, with_notes, with_text_warnings

__all__ = [
    "ID_KEYS",
    "Direction",
    "Identities",
    "calibration_queries",
    "check_queries",
    "contradicts",
    "fit_calibrators",
    "infer_direction",
    "known_direction",
    "limited",
    "plain",
    "provenance",
    "resolve_id",
    "scores_of",
    "text_id",
    "with_notes",
    "with_progress",
    "with_text_warnings",
]
