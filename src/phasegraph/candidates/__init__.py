"""What sources return, and the union of it: rankings, reports, candidates, ranks and the one tie rule.

A :class:`Ranking` is one source's answer to one query, always in one canonical order (score descending, id
ascending), so that everything after it is a pure function of its content. :func:`pool` joins rankings by id
into :class:`Candidates`, where a score that a source did not return is NaN and never zero.
"""

from phasegraph.candidates.background import Background
from phasegraph.candidates.pooling import Candidates, pool, tied_ranks, top_order
from phasegraph.candidates.ranking import Ranking
from phasegraph.candidates.reports import SourceReport, Status, degradations, found_in

__all__ = [
    "Background",
    "Candidates",
    "Ranking",
    "SourceReport",
    "Status",
    "degradations",
    "found_in",
    "pool",
    "tied_ranks",
    "top_order",
]
