"""What the figures say, in plain words; each stands under its tables."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

FINDINGS: Mapping[str, str] = MappingProxyType(
    {
        "index": (
            "Every page keeps two parts of the queries apart (by the MD5 of their ids). Nothing was chosen by "
            "looking at the second; what is fitted for one part is fitted on the other, without labels. The "
            "graph source here is ours and much stronger than the paper's, so that levels differ from the paper's; "
            "the comparisons are what is reproduced. `figures.json` holds every number in full, intervals "
            "included."
        ),
        "table-1": (
            "What this says. At the paper's setting for MuSiQue (vector weight .7) its rule and equal-weight "
            "RRF reach about the same, on both data sets. At its setting for 2Wiki (vector weight .4, graph "
            "list cut at 20) it reaches far more with this graph source, also on MuSiQue: weight and list length "
            "decide, not the calibration. Our default, with nothing fitted, stays within a point of the graph "
            "alone, the best of its sources here; what it does where the graph is not the best stands on the "
            "page on the default without labels."
        ),
        "against-rrf": (
            "What this says. At vector weight .7 the paper's rule cannot be told from RRF on MuSiQue, nor on "
            "the confirming part of 2Wiki; on its tuning part it wins six queries and loses none (p .031, one "
            "of four such tests, uncorrected), which the other part does not repeat. A win over vectors at a "
            "smaller p than RRF's is no win over RRF."
        ),
        "table-2-calibration": (
            "What this says. Under the Boltzmann rule all four calibrations are within a few points of each "
            "other, as the paper finds; under a weighted sum they are not, and percentiles of a reference "
            "sample have the lowest Recall@5, because nearly every hit of a list stands in the sample's upper "
            "tail and gets almost the same value. The last row, with bent scores, is identical to own-list "
            "percentiles under the same rule, query by query: they keep ranks only."
        ),
        "table-2-temperature": (
            "What this says. The automatic temperature and a fixed .5 give the same LastHop to a query or two, "
            "and Recall@5 within a point, because the automatic one is a function of the list's length that "
            "tends to 1/2. Of the lower ones .1 loses LastHop@10; .25 gives up a little of it on MuSiQue's "
            "tuning part for more Recall@5 on both, and changes nothing on 2Wiki. 1 and 2 lose Recall@5."
        ),
        "pool-caps": (
            "What this says. With vector lists of 200, a graph list of 10 to 30 is right for these weights and "
            "one of 100 is not: each list's weights add up to one, so the longer list counts less per passage. "
            "The second reading of the cap (only passages that vectors lack are counted) has the lower Recall@5 "
            "at every length."
        ),
        "pool-explosion": (
            "What this says. With its whole list the graph has no say: the paper's rule reaches what vectors "
            "reach, and wins or loses no query against them. The cap brings the graph back. Dividing each "
            "list's weights by their maximum does not, and neither does a weighted sum of percentiles: in a "
            "list of thousands the first hundred all have a percentile near one. Calibration against the "
            "source's own whole distribution needs no cap and does not notice."
        ),
        "rrf-or-convex": (
            "What this says. With one strong source and weaker ones the weights matter more than the rule. At the "
            "design record's weights (graph .35) RRF of two is worse than at equal ones on both data sets, so "
            "it does depend on its weights. At the same weights the convex combination has the higher Recall@5 "
            "nearly throughout. Of three sources RRF has the higher LastHop@10 on MuSiQue's confirming part, "
            "and on its tuning part with the heaviest graph only; on 2Wiki the convex combination is far ahead "
            "with the heaviest graph, and elsewhere they are about a point apart. A lexical source at equal weight "
            "gives RRF Recall@5 on both data sets; it costs LastHop@10 on MuSiQue and gains it on 2Wiki. "
            "Neither rule comes near a calibration that knows how far the walk's first passages stand out."
        ),
    }
)
