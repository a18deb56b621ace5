"""What each study is asked, claim by claim; the figures say whether a claim holds."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from claims import LAST, Claim, beyond, changed, differing, gap, highest, lowest, p_of, plain, points, spread
from studies import CONSTANTS, MRR, NDCG, REPORTED_DIPS

CALIBRATED = ("own-list percentile", "min-max", "raw/max", "reference ECDF")
LINEAR, BOLTZMANN = ([f"{name}, {rule}" for name in CALIBRATED] for rule in ("linear", "boltzmann"))
AUTO = "automatic (half the mean energy)"
WHOLE = "paper's rule, whole graph list"
GRAPH_SHARES = ("0.2", "0.33", "0.6")
HEAVY = "of three, graph 0.6"

FINDINGS: Mapping[str, tuple[Claim, ...]] = MappingProxyType(
    {
        "table-1": (
            Claim(
                "At vector weight .7 the paper's rule and equal-weight RRF reach the same Recall@5 to a point",
                gap("paper", "rrf"),
                -1,
                1,
            ),
            Claim(
                "At its setting for 2Wiki (vector weight .4, graph list cut at 20) the paper's rule reaches far more: "
                "weight and list length decide",
                gap("paper-2wiki", "paper"),
                5,
            ),
            Claim(
                "At its hard slice's setting (vector .3, no cap) it is ahead of vectors (corrected p of LastHop@10)",
                p_of("paper, vector .3, no cap", corrected=True),
                high=0.05,
                shown=plain,
            ),
            Claim("The graph alone has a higher Recall@5 than vectors alone", gap("graph", "vector"), 0.1),
            Claim(
                "The default, with nothing fitted, stays within a point of Recall@5 of the better of its sources",
                lowest(gap("default", "graph"), gap("default", "vector")),
                -1,
            ),
        ),
        "against-rrf": (
            Claim(
                "At vector weight .7 the paper's rule cannot be told from RRF (exact p of LastHop@10)",
                p_of("paper"),
                0.05,
                shown=plain,
            ),
            Claim(
                "Nor can it with Holm's correction over the table",
                p_of("paper", corrected=True),
                0.05,
                shown=plain,
            ),
            Claim(
                "At its setting for 2Wiki it is better than RRF (corrected p of LastHop@10)",
                p_of("paper-2wiki", corrected=True),
                high=0.05,
                shown=plain,
            ),
        ),
        "table-2-calibration": (
            Claim(
                "Under the Boltzmann rule the four calibrations are within four points of Recall@5, as the paper finds",
                spread(*BOLTZMANN),
                high=4,
            ),
            Claim(
                "Under a weighted sum they are further apart than under the Boltzmann rule",
                lambda table: spread(*LINEAR)(table) - spread(*BOLTZMANN)(table),
                0.1,
            ),
            Claim(
                "Percentiles of a reference sample have the lowest Recall@5 of all under a weighted sum",
                highest(*(gap(LINEAR[-1], other) for other in LINEAR[:-1])),
                high=-0.1,
            ),
            Claim(
                "Bending the scores by exp(5s) changes no answer of own-list percentiles: they keep ranks only "
                "(queries answered otherwise)",
                differing(f"{BOLTZMANN[0]}, scores bent by exp(5s)", BOLTZMANN[0]),
                0,
                0,
                shown=plain,
            ),
        ),
        "table-2-temperature": (
            Claim(
                "The automatic temperature and a fixed .5 give the same LastHop@10 to a point",
                gap(AUTO, "fixed 0.5", LAST),
                -1,
                1,
            ),
            Claim("They give the same Recall@5 to a point", gap(AUTO, "fixed 0.5"), -1, 1),
            Claim("A temperature of .1 loses a point of LastHop@10 or more", gap("fixed 0.1", AUTO, LAST), high=-1),
            Claim("One of .25 gives up no Recall@5", gap("fixed 0.25", AUTO), 0),
            Claim("One of .25 gives up no LastHop@10", gap("fixed 0.25", AUTO, LAST), 0),
            Claim(
                "1 and 2 lose a point of Recall@5 or more",
                highest(gap("fixed 1", AUTO), gap("fixed 2", AUTO)),
                high=-1,
            ),
        ),
        "pool-caps": (
            Claim(
                "With vector lists of 200 a graph list of 10 to 30 has five points of Recall@5 more than one of 100",
                lowest(*(gap(f"list cut at {cap}", "list cut at 100") for cap in (10, 20, 30))),
                5,
            ),
            Claim(
                "The second reading of the cap (only passages that vectors lack are counted) has the lower Recall@5 at "
                "every length",
                highest(*(gap(f"at most {n} that vectors lack", f"list cut at {n}") for n in (10, 20, 30, 50, 100))),
                high=-0.1,
            ),
        ),
        "pool-explosion": (
            Claim(
                "With its whole list the graph has no say: the paper's rule wins and loses no query against vectors",
                changed(WHOLE),
                0,
                0,
                shown=plain,
            ),
            Claim(
                "At its hard slice's setting (vector .3, no cap) the whole list has no say either",
                gap("paper's rule, vector .3, no cap", "vector"),
                high=0.5,
            ),
            Claim("The cap brings the graph back", gap("paper's rule, graph list cut at 30", WHOLE), 1),
            Claim(
                "Dividing each list's weights by their maximum does not",
                gap("paper's rule divided by its maximum", WHOLE),
                high=0.5,
            ),
            Claim("A weighted sum of percentiles does not", gap("linear over percentiles", WHOLE), high=0.5),
            Claim(
                "The default needs no cap: it stays within a point of the graph alone",
                gap("default", "graph"),
                -1,
            ),
        ),
        "rrf-or-convex": (
            Claim(
                "RRF of two depends on its weights: the design record's (graph .35) lose a point of Recall@5 or more",
                gap("weighted-rrf", "rrf"),
                high=-1,
            ),
            Claim(
                "At the same weights the convex combination of three has the higher Recall@5 throughout",
                lowest(
                    *(gap(f"convex of three, graph {n}", f"weighted rrf of three, graph {n}") for n in GRAPH_SHARES)
                ),
                0,
            ),
            Claim(
                "With the heaviest graph RRF of three has the higher LastHop@10 on MuSiQue",
                gap(f"weighted rrf {HEAVY}", f"convex {HEAVY}", LAST),
                0.1,
                only="musique",
            ),
            Claim(
                "With the heaviest graph the convex combination of three has the higher LastHop@10 on 2Wiki",
                gap(f"convex {HEAVY}", f"weighted rrf {HEAVY}", LAST),
                0.1,
                only="2wiki",
            ),
            Claim("A lexical source at equal weight gives RRF Recall@5", gap("rrf-three", "rrf"), 0.1),
            Claim("It costs RRF LastHop@10 on MuSiQue", gap("rrf-three", "rrf", LAST), high=-0.1, only="musique"),
            Claim("It gains RRF LastHop@10 on 2Wiki", gap("rrf-three", "rrf", LAST), 0.1, only="2wiki"),
            Claim(
                "Neither rule comes within five points of Recall@5 of a calibration that knows how far the walk's "
                "first passages stand out",
                lowest(
                    *(gap("default", f"convex, vector {share}") for share in ("0.8", "0.7", "0.5", "0.3")),
                    *(gap("default", f"convex of three, graph {n}") for n in GRAPH_SHARES),
                    *(gap("default", f"weighted rrf of three, graph {n}") for n in GRAPH_SHARES),
                    gap("default", "rrf"),
                ),
                5,
            ),
        ),
        "rank-constant": (
            Claim(
                "Between 10 and 100 the constant is uncritical at equal weights: Recall@5 moves by a point at most",
                spread(*(f"rrf, constant {n}" for n in CONSTANTS[1:])),
                high=1,
            ),
            Claim(
                "Between 10 and 100 it is uncritical at the design record's weights",
                spread(*(f"design record, constant {n}" for n in CONSTANTS[1:])),
                high=1,
            ),
            Claim(
                "60 is within a point of Recall@5 of the best constant at the design record's weights",
                highest(*(gap(f"design record, constant {n}", "design record, constant 60") for n in CONSTANTS)),
                high=1,
            ),
        ),
        "exact-match": (
            Claim(
                "Where something matches exactly the bonus (weight 1) gains Recall@5",
                gap("with exact matches, weight 1", "design record"),
                0.1,
                part="exact",
            ),
            Claim(
                "There it gains LastHop@10 by more than chance (p)",
                lambda table: (
                    p_of("with exact matches, weight 1")(table)
                    if gap("with exact matches, weight 1", "design record", LAST)(table) > 0
                    else 1.0
                ),
                high=0.05,
                part="exact",
                shown=plain,
            ),
            *(
                Claim(
                    f"On exact matches the design record dips below {other} in {measure}, as it reports",
                    gap("design record", system, measure),
                    high=-0.1,
                    part="exact",
                )
                for system, other in (("bm25", "BM25 alone"), ("convex-three", "a convex combination"))
                for measure in (NDCG, MRR)
            ),
            *(
                Claim(
                    f"The dip below {other} has the size that it reports, {said:.3f} in {measure}: this lies within "
                    "the 95 % interval (points outside)",
                    beyond(system, measure, said),
                    high=0,
                    part="exact",
                    shown=points,
                )
                for system, other in (("bm25", "BM25 alone"), ("convex-three", "a convex combination"))
                for measure, said in REPORTED_DIPS
            ),
            Claim(
                "The bonus (weight 1) gains nDCG@10 there",
                gap("with exact matches, weight 1", "design record", NDCG),
                0.1,
                part="exact",
            ),
            Claim(
                "Where nothing does it changes no answer (queries)",
                differing("with exact matches, weight 1", "design record"),
                0,
                0,
                part="rest",
                shown=plain,
            ),
        ),
    }
)
