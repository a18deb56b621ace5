"""What the figures say, in plain words; each stands under its tables."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

FINDINGS: Mapping[str, str] = MappingProxyType(
    {
        "index": (
            "Every page keeps two parts of the queries apart (by the MD5 of their ids). Nothing was chosen by "
            "looking at the second; what is fitted for one part is fitted on the other, without labels. The "
            "graph leg here is ours and much stronger than the paper's, so that levels differ from the paper's; "
            "the comparisons are what is reproduced. `figures.json` holds every number in full, intervals "
            "included."
        ),
        "table-1": (
            "What this says. At the paper's setting for MuSiQue (vector weight .7) its rule and equal-weight "
            "RRF reach about the same, on both data sets. At its setting for 2Wiki (vector weight .4, graph "
            "list cut at 20) it reaches far more with this graph leg, also on MuSiQue: weight and list length "
            "decide, not the calibration."
        ),
        "against-rrf": (
            "What this says. At vector weight .7 the paper's rule cannot be told from RRF on either part of "
            "either data set. A win over vectors at a smaller p than RRF's is no win over RRF."
        ),
        "table-2-calibration": (
            "What this says. Under the Boltzmann rule all four calibrations are within a few points of each "
            "other, as the paper finds; under a weighted sum they are not, and a reference sample of the lists "
            "alone (raw percentiles) does worst, because nearly every hit of the longer tail gets almost the "
            "same value. The row with bent scores is identical to the one above it, query by query: own-list "
            "percentiles keep ranks only."
        ),
        "table-2-temperature": (
            "What this says. The automatic temperature and a fixed .5 give the same figures to a query or two, "
            "because the automatic one is a function of the list's length that tends to 1/2. Lower temperatures "
            "lose, as in the paper; so does 2."
        ),
        "pool-caps": (
            "What this says. With vector lists of 200, a graph list of 20 or 30 is right for these weights and "
            "one of 100 is not: each list's weights add up to one, so the longer list counts less per passage. "
            "The second reading of the cap (only passages that vectors lack are counted) does worse at every "
            "length."
        ),
        "pool-explosion": (
            "What this says. With its whole list the graph has no say: the paper's rule returns what vectors "
            "return, on every query but one or two. The cap cures it. Dividing each list's weights by their "
            "maximum does not, and neither does a weighted sum of percentiles: in a list of thousands the first "
            "hundred all have a percentile near one. Calibration against the source's own whole distribution "
            "needs no cap and does not notice."
        ),
        "rrf-or-convex": (
            "What this says. With one strong leg and one weaker one the weights matter more than the rule. At "
            "the design record's weights (graph .35) RRF is worse than at equal ones on both data sets, and a "
            "third, lexical leg at equal weight takes more than it gives on MuSiQue. At the same weights the "
            "convex combination has the higher Recall@5, RRF the higher LastHop@10, throughout: min-max of a "
            "walk's heavy-tailed masses sharpens the top and forgets the rest. Neither comes near a calibration "
            "that knows how far the walk's first passages stand out. That RRF does not depend on its weights, "
            "as the record has it, is not so here."
        ),
    }
)
