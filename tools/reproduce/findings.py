"""The claims of each study; the figures decide whether a claim holds."""

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
                "With vector weight .7, the Recall@5 of the paper's rule differs by at most one point from that of "
                "equal-weight RRF",
                gap("paper", "rrf"),
                -1,
                1,
            ),
            Claim(
                "With the paper's setting for 2Wiki (vector weight .4, graph list cut at 20), its rule has a "
                "Recall@5 at least five points above its other setting",
                gap("paper-2wiki", "paper"),
                5,
            ),
            Claim(
                "With the paper's setting for hard queries (vector weight .3, no cap), its rule beats vectors "
                "(corrected p of LastHop@10)",
                p_of("paper, vector .3, no cap", corrected=True),
                high=0.05,
                shown=plain,
            ),
            Claim("The graph alone has a higher Recall@5 than vectors alone", gap("graph", "vector"), 0.1),
            Claim(
                "The default, without any fitting, is at most one point of Recall@5 below the better of its two "
                "sources",
                lowest(gap("default", "graph"), gap("default", "vector")),
                -1,
            ),
        ),
        "against-rrf": (
            Claim(
                "With vector weight .7, the paper's rule does not differ significantly from RRF (exact p of "
                "LastHop@10)",
                p_of("paper"),
                0.05,
                shown=plain,
            ),
            Claim(
                "With Holm's correction over the table, it does not differ significantly from RRF either "
                "(corrected p of LastHop@10)",
                p_of("paper", corrected=True),
                0.05,
                shown=plain,
            ),
            Claim(
                "With the paper's setting for 2Wiki, its rule differs significantly from RRF (corrected p of "
                "LastHop@10)",
                p_of("paper-2wiki", corrected=True),
                high=0.05,
                shown=plain,
            ),
        ),
        "table-2-calibration": (
            Claim(
                "With the Boltzmann rule, the four calibrations differ by at most four points of Recall@5, as the "
                "paper reports",
                spread(*BOLTZMANN),
                high=4,
            ),
            Claim(
                "With a weighted sum, the calibrations differ more than with the Boltzmann rule",
                lambda table: spread(*LINEAR)(table) - spread(*BOLTZMANN)(table),
                0.1,
            ),
            Claim(
                "With a weighted sum, percentiles of a reference sample have the lowest Recall@5 of all four "
                "calibrations",
                highest(*(gap(LINEAR[-1], other) for other in LINEAR[:-1])),
                high=-0.1,
            ),
            Claim(
                "Percentiles within the returned list use only ranks, so transforming the scores by exp(5s) "
                "changes no answer (number of changed queries)",
                differing(f"{BOLTZMANN[0]}, scores bent by exp(5s)", BOLTZMANN[0]),
                0,
                0,
                shown=plain,
            ),
        ),
        "table-2-temperature": (
            Claim(
                "The automatic temperature and a fixed temperature of .5 differ by at most one point of LastHop@10",
                gap(AUTO, "fixed 0.5", LAST),
                -1,
                1,
            ),
            Claim(
                "The automatic temperature and a fixed temperature of .5 differ by at most one point of Recall@5",
                gap(AUTO, "fixed 0.5"),
                -1,
                1,
            ),
            Claim("A temperature of .1 loses at least one point of LastHop@10", gap("fixed 0.1", AUTO, LAST), high=-1),
            Claim("A temperature of .25 loses no Recall@5", gap("fixed 0.25", AUTO), 0),
            Claim("A temperature of .25 loses no LastHop@10", gap("fixed 0.25", AUTO, LAST), 0),
            Claim(
                "Temperatures of 1 and 2 lose at least one point of Recall@5",
                highest(gap("fixed 1", AUTO), gap("fixed 2", AUTO)),
                high=-1,
            ),
        ),
        "pool-caps": (
            Claim(
                "With 200 hits of the vectors, 10 to 30 hits of the graph give at least five points of Recall@5 "
                "more than 100 hits of the graph",
                lowest(*(gap(f"list cut at {cap}", "list cut at 100") for cap in (10, 20, 30))),
                5,
            ),
            Claim(
                "A cap that counts only passages missing from the vectors' list has a lower Recall@5 than a cap "
                "that cuts the list, at every length",
                highest(*(gap(f"at most {n} that vectors lack", f"list cut at {n}") for n in (10, 20, 30, 50, 100))),
                high=-0.1,
            ),
        ),
        "pool-explosion": (
            Claim(
                "With all hits of the graph, the paper's rule ignores the graph: it wins and loses no query "
                "against vectors",
                changed(WHOLE),
                0,
                0,
                shown=plain,
            ),
            Claim(
                "With the paper's setting for hard queries (vector weight .3, no cap), all hits of the graph gain "
                "at most half a point of Recall@5 over vectors",
                gap("paper's rule, vector .3, no cap", "vector"),
                high=0.5,
            ),
            Claim(
                "With the graph list cut at 30, the graph gains at least one point of Recall@5",
                gap("paper's rule, graph list cut at 30", WHOLE),
                1,
            ),
            Claim(
                "Dividing each list's weights by their maximum, without a cap, gains at most half a point of Recall@5",
                gap("paper's rule divided by its maximum", WHOLE),
                high=0.5,
            ),
            Claim(
                "A weighted sum of percentiles, without a cap, gains at most half a point of Recall@5",
                gap("linear over percentiles", WHOLE),
                high=0.5,
            ),
            Claim(
                "The default needs no cap: it is at most one point of Recall@5 below the graph alone",
                gap("default", "graph"),
                -1,
            ),
        ),
        "rrf-or-convex": (
            Claim(
                "RRF of two sources depends on its weights: the design record's weights (graph .35) lose at least "
                "one point of Recall@5",
                gap("weighted-rrf", "rrf"),
                high=-1,
            ),
            Claim(
                "With the same weights of three sources, a convex combination always has a higher Recall@5 than RRF",
                lowest(
                    *(gap(f"convex of three, graph {n}", f"weighted rrf of three, graph {n}") for n in GRAPH_SHARES)
                ),
                0,
            ),
            Claim(
                "With the highest graph weight (.6), RRF of three sources has a higher LastHop@10 than a convex "
                "combination on MuSiQue",
                gap(f"weighted rrf {HEAVY}", f"convex {HEAVY}", LAST),
                0.1,
                only="musique",
            ),
            Claim(
                "With the highest graph weight (.6), a convex combination of three sources has a higher LastHop@10 "
                "than RRF on 2Wiki",
                gap(f"convex {HEAVY}", f"weighted rrf {HEAVY}", LAST),
                0.1,
                only="2wiki",
            ),
            Claim("Adding BM25 with equal weight raises the Recall@5 of RRF", gap("rrf-three", "rrf"), 0.1),
            Claim(
                "Adding BM25 lowers the LastHop@10 of RRF on MuSiQue",
                gap("rrf-three", "rrf", LAST),
                high=-0.1,
                only="musique",
            ),
            Claim(
                "Adding BM25 raises the LastHop@10 of RRF on 2Wiki", gap("rrf-three", "rrf", LAST), 0.1, only="2wiki"
            ),
            Claim(
                "The default, which calibrates with the score distribution of the walk, has a Recall@5 at least "
                "five points above both rules with any weights",
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
                "With equal weights, constants from 10 to 100 change Recall@5 by at most one point",
                spread(*(f"rrf, constant {n}" for n in CONSTANTS[1:])),
                high=1,
            ),
            Claim(
                "With the design record's weights, constants from 10 to 100 change Recall@5 by at most one point",
                spread(*(f"design record, constant {n}" for n in CONSTANTS[1:])),
                high=1,
            ),
            Claim(
                "With the design record's weights, a constant of 60 is at most one point of Recall@5 below the "
                "best constant",
                highest(*(gap(f"design record, constant {n}", "design record, constant 60") for n in CONSTANTS)),
                high=1,
            ),
        ),
        "exact-match": (
            Claim(
                "On queries with an exact match, the bonus (weight 1) raises Recall@5",
                gap("with exact matches, weight 1", "design record"),
                0.1,
                part="exact",
            ),
            Claim(
                "On these queries, the bonus raises LastHop@10 significantly (p)",
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
                    f"On queries with an exact match, the design record's pipeline has a lower {measure} than "
                    f"{other}, as the record reports",
                    gap("design record", system, measure),
                    high=-0.1,
                    part="exact",
                )
                for system, other in (("bm25", "BM25 alone"), ("convex-three", "a convex combination"))
                for measure in (NDCG, MRR)
            ),
            *(
                Claim(
                    f"The loss against {other} in {measure} has the reported size of {said:.3f}: this size lies "
                    "within our 95 % interval (points outside the interval)",
                    beyond(system, measure, said),
                    high=0,
                    part="exact",
                    shown=points,
                )
                for system, other in (("bm25", "BM25 alone"), ("convex-three", "a convex combination"))
                for measure, said in REPORTED_DIPS
            ),
            Claim(
                "On queries with an exact match, the bonus (weight 1) raises nDCG@10",
                gap("with exact matches, weight 1", "design record", NDCG),
                0.1,
                part="exact",
            ),
            Claim(
                "On queries without an exact match, the bonus changes no answer (number of changed queries)",
                differing("with exact matches, weight 1", "design record"),
                0,
                0,
                part="rest",
                shown=plain,
            ),
        ),
    }
)
