"""Studies of SemFlowRAG: the value of each part of its walk, the effect of its constants, and where mass collects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from claims import Verdict, judge, plain, points
from page import Page, interval, p_value, share, table
from phasegraph._support.typing import FloatArray
from phasegraph.errors import InsufficientDataError
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.experiment import Answers, Table, compare
from phasegraph.evaluation.measures import Measure
from phasegraph.evaluation.published_walks import FlowWalk, ranking_of_masses
from phasegraph.evaluation.triple_facts import load_facts
from phasegraph.graph.experimental.semflow import SEMFLOW_PARAMETERS, FlowParameters, SemanticFlow
from phasegraph.pagerank import WalkOperator, personalized_pagerank

PAPER = SEMFLOW_PARAMETERS["paper"]
FULL, UNDIRECTED = "the paper's walk", "undirected"
ABLATIONS: Mapping[str, FlowParameters] = {
    FULL: PAPER,
    UNDIRECTED: replace(PAPER, directed=False),
    "without query similarity": replace(PAPER, query_weighted=False),
    "lambda 0": replace(PAPER, penalty=0.0),
    "without abstractness": replace(PAPER, abstractness=False),
    "local minima merged uphill": replace(PAPER, local_min="merge"),
    "local minima without a self loop": replace(PAPER, local_min="drop"),
    "half of the mass to passages": replace(PAPER, passage_share=0.5),
    "the released code's": SEMFLOW_PARAMETERS["released"],
}
PARTS = (UNDIRECTED, "without query similarity", "lambda 0", "without abstractness")
SWEEPS: Mapping[str, Sequence[float]] = {
    "passage_weight": (0.0, 0.01, 0.05, 0.08, 0.2, 1.0),
    "follow_probability": (0.15, 0.3, 0.5, 0.7, 0.85),
    "entity_seeds": (1, 5, 10, 20, 50),
    "facts": (1, 5, 12, 30, 100),
}
"""The reset distribution and what seeds it, field by field; everything else as in the paper."""
PRINTED = {"abstract": -73.6, "similar": 11.3}
"""The paper's headline: change of both figures of a :class:`Headline` by direction, per cent."""
FIRST, LATER = slice(0, 10), slice(59, 100)
"""The first ten entities by mass, and ranks 60 to 100."""
MEASURES = (Measure("Recall", 5), Measure("Recall", 10), Measure("LastHop", 10))
TEN = Measure("LastHop", 10)
TOP = 0.01


@dataclass(frozen=True, slots=True)
class Holes:
    """The distribution of a walk's probability mass over the entities, as means over the queries.

    Parameters
    ----------
    connected, abstract : float
        The share of the entities' mass on the 1 % best connected entities, and on the 1 % most abstract entities.
    level : float
        Mean abstractness of the entities in [0, 1], weighted by mass.
    spread : float
        The effective number of entities: exp of the entropy of their mass.
    """

    connected: float
    abstract: float
    level: float
    spread: float


@dataclass(frozen=True, slots=True)
class Headline:
    """Properties of the entities on which a walk has the most mass, for each of n queries.

    Parameters
    ----------
    abstract : (n,) array of float
        Mean abstractness, in [0, 1], of the first ten entities.
    similar : (n,) array of float
        Mean relevance to the query, in [0, 1], of the entities with ranks 60 to 100. The relevance of an entity is the
        similarity of its best passage, with the walk's weights.
    """

    abstract: FloatArray
    similar: FloatArray


def headline_of(masses: FloatArray, heights: FloatArray, relevance: FloatArray) -> Headline:
    """Return the headline of walks, from (n, E) masses, (E,) abstractness `heights` and (n, E) relevance of entities.

    Entities with equal masses are ranked by row. `similar` is NaN if there are fewer than 100 entities.
    """
    order = np.argsort(-masses, axis=1, kind="stable")
    later = np.take_along_axis(relevance, order[:, LATER], axis=1)
    similar = later.mean(axis=1) if masses.shape[1] >= LATER.stop else np.full(len(masses), np.nan)
    return Headline(heights[order[:, FIRST]].mean(axis=1), similar)


def headlines(dataset: Dataset) -> dict[str, tuple[Headline, Headline]]:
    """Return, for each graph (with and without passages), the headlines of the directed and of the undirected walk.

    Reconstructed: the paper prints two changes and no formula. The released code contains an experiment that walks over
    the entities alone from the entities of the facts, and records abstractness and relevance of the first hundred
    entities.
    """
    walks = FlowWalk(dataset, PAPER), FlowWalk(dataset, ABLATIONS[UNDIRECTED])
    facts, heights = walks[0].facts, walks[0].heights
    size, rows = len(heights), range(len(dataset.queries))
    flow = SemanticFlow.from_links(facts.links, facts.mentions, heights, PAPER)
    alone = SemanticFlow.from_links(facts.links, sparse.csr_array(facts.mentions.shape), heights, PAPER)
    near = (dataset.query_vectors @ dataset.passage_vectors.T).astype(np.float64)
    relevance = np.array([flow.relevance(row) for row in near])
    undirected = WalkOperator.from_adjacency(sparse.csr_array(facts.links))
    whole: list[list[FloatArray]] = [[], []]
    entities: list[list[FloatArray]] = [[], []]
    for row in rows:
        for found, walk in zip(whole, walks, strict=True):
            found.append(walk.nodes(row)[:size])
        seeds = walks[0].seeds(row)
        reset = np.concatenate([seeds, np.zeros(len(dataset.passages))])
        entities[0].append(alone.walk(relevance[row], reset, method="power", tolerance=1e-8).mass[:size])
        walked = personalized_pagerank(undirected, seeds, follow_probability=PAPER.follow_probability, tolerance=1e-8)
        entities[1].append(walked.mass)
    return {
        name: tuple(headline_of(np.array(one), heights, relevance) for one in pair)  # type: ignore[misc]
        for name, pair in (("entities alone", entities), ("entities and passages", whole))
    }


def change_of(directed: FloatArray, undirected: FloatArray) -> tuple[float, float, float]:
    """Return the change of a mean from the undirected to the directed walk, in percent, and its 95 % interval.

    The interval is from a bootstrap with 10,000 resamples of the queries.
    """
    rows = np.random.default_rng(0).integers(0, len(directed), (10_000, len(directed)))
    found = 100 * (directed[rows].mean(axis=1) / undirected[rows].mean(axis=1) - 1)
    low, high = np.quantile(found, [0.025, 0.975])
    return 100 * float(directed.mean() / undirected.mean() - 1), float(low), float(high)


def _headline_table(found: Mapping[str, tuple[Headline, Headline]]) -> str:
    rows = []
    for graph, (directed, undirected) in found.items():
        for name, label in (("abstract", "abstractness, ranks 1 to 10"), ("similar", "similarity, ranks 60 to 100")):
            with_it, without = getattr(directed, name), getattr(undirected, name)
            change, low, high = change_of(with_it, without)
            means = [f"{without.mean():.3f}", f"{with_it.mean():.3f}"]
            rows.append([graph, label, *means, f"{change:+.1f} [{low:+.1f}, {high:+.1f}]", f"{PRINTED[name]:+.1f}"])
    columns = ["walk over", "figure", "undirected", "directed", "change in % [95 %]", "the paper's"]
    return table(columns, rows)


def _headline_verdicts(found: Mapping[str, tuple[Headline, Headline]]) -> list[Verdict]:
    """Return the verdicts on whether the paper's two headline figures (abstractness, similarity) occur here."""
    changes = {
        name: {graph: change_of(getattr(one, name), getattr(other, name)) for graph, (one, other) in found.items()}
        for name in PRINTED
    }
    return [
        judge(
            "The directed walk lowers the abstractness of the first ten entities (upper end of the interval, percent)",
            {graph: change[2] for graph, change in changes["abstract"].items()},
            high=-0.1,
            shown=points,
        ),
        judge(
            "The directed walk lowers this abstractness by at least half of the paper's figure (percent)",
            {graph: change[0] for graph, change in changes["abstract"].items()},
            high=PRINTED["abstract"] / 2,
            shown=points,
        ),
        judge(
            "The directed walk raises the similarity to the query at ranks 60 to 100 (lower end of the interval, "
            "percent)",
            {graph: change[1] for graph, change in changes["similar"].items()},
            0.1,
            shown=points,
        ),
        judge(
            "The directed walk raises this similarity by at least half of the paper's figure (percent)",
            {graph: change[0] for graph, change in changes["similar"].items()},
            PRINTED["similar"] / 2,
            shown=points,
        ),
    ]


def can_walk(dataset: Dataset) -> bool:
    """Return True if a data set has the embedded facts that SemFlowRAG's walk needs."""
    try:
        load_facts(dataset)
    except InsufficientDataError:
        return False
    return True


def answers_of(dataset: Dataset, variants: Mapping[str, FlowParameters]) -> tuple[list[Answers], dict[str, Holes]]:
    """Return the first ten passages of each query for every variant of the walk, and where each variant's mass is."""
    answers, holes = [], {}
    for name, parameters in variants.items():
        walk, found, masses = FlowWalk(dataset, parameters), {}, []
        size = len(walk.heights)
        for row, query in enumerate(dataset.queries):
            mass = walk.nodes(row)
            masses.append(mass[:size])
            found[query.id] = tuple(ranking_of_masses("semflow", dataset, mass[size:], 10).ids)
        answers.append(Answers(name, found))
        holes[name] = holes_of(np.array(masses), _degrees(walk), walk.heights)
    return answers, holes


def _degrees(walk: FlowWalk) -> FloatArray:
    """Return an (E,) array: for each entity, the number of its links plus the number of passages that mention it."""
    links = np.diff(walk.facts.links.tocsr().indptr)
    return np.asarray(links + np.diff(walk.facts.mentions.tocsc().indptr), dtype=np.float64)


def holes_of(masses: FloatArray, degrees: FloatArray, heights: FloatArray) -> Holes:
    """Return where walks put their mass, from (queries, E) `masses`, (E,) `degrees` and (E,) abstractness `heights`.

    Of equal entities, the first rows belong to the highest 1 %.
    """
    shares = masses / masses.sum(axis=1, keepdims=True)
    count = max(1, round(TOP * len(heights)))
    connected, abstract = (np.argsort(-by, kind="stable")[:count] for by in (degrees, heights))
    logs = np.log(np.where(shares > 0, shares, 1.0))
    return Holes(
        float(shares[:, connected].sum(axis=1).mean()),
        float(shares[:, abstract].sum(axis=1).mean()),
        float((shares @ heights).mean()),
        float(np.exp(-(shares * logs).sum(axis=1)).mean()),
    )


def semflow_page(dataset: Dataset) -> tuple[Page, Table]:
    """Return the page `semflow` on one data set with facts, and the table with all variants of the walk.

    The page shows the walk without some of its parts, with other constants, and the entities that collect its mass.
    """
    variants = dict(ABLATIONS)
    for field, values in SWEEPS.items():
        for value in values:
            for directed in (True, False):
                one = _changed(field, value, directed=directed)
                if one not in variants.values():
                    variants[f"{field} {value:g}, {'directed' if directed else 'undirected'}"] = one
    answers, holes = answers_of(dataset, variants)
    heads = headlines(dataset)
    found = compare(
        answers, dataset.judgements, baseline=FULL, measures=MEASURES, dataset=dataset.name, corpus=dataset.contents
    )
    return (
        Page(
            "semflow",
            "SemFlowRAG's walk, its parts and its black holes",
            (
                f"The table shows the ablations of SemFlowRAG on {dataset.name} ({len(dataset.queries)} queries). "
                "Nothing is fitted, and no language model filters the facts. W/L and the exact McNemar p compare "
                "LastHop@10 with the paper's walk. The difference is that of Recall@5, with its paired 95 % "
                "bootstrap interval.",
                _ablation_table(found),
                "The next table shows where the walk's probability mass on entities lies. The first two columns "
                "are the shares of two groups: the 1 % of entities with the most links and passages, and the most "
                "abstract 1 %. Then follow the mean abstractness, and the effective number of entities (exp of the "
                "entropy).",
                table(
                    ["walk", "best connected 1 %", "most abstract 1 %", "mean abstractness", "effective entities"],
                    [
                        [n, share(one.connected), share(one.abstract), f"{one.level:.3f}", f"{one.spread:.0f}"]
                        for n, one in holes.items()
                        if n in ABLATIONS
                    ],
                ),
                "The paper's main claim is that direction changes the mean abstractness of the ten entities with "
                f"the most mass by {PRINTED['abstract']:+.1f} %, and the similarity to the query at ranks 60 to 100 "
                f"by {PRINTED['similar']:+.1f} %. The paper gives no formula; these figures are reconstructed from "
                "the side experiment of its released code, which walks over the entities alone.",
                _headline_table(heads),
                "The next table changes one parameter at a time; a cell shows the directed / the undirected walk:",
                _sweep_table(found, {parameters: name for name, parameters in variants.items()}),
            ),
            (
                *_direction(found),
                *_parts(found),
                *_holes(holes),
                *_headline_verdicts(heads),
                *_numbers(found, variants),
            ),
        ),
        found,
    )


def _changed(field: str, value: float, *, directed: bool = True) -> FlowParameters:
    """Return the paper's constants with the constant `field` changed, for a directed or an undirected walk."""
    number: dict[str, Any] = {field: value}
    return replace(PAPER, directed=directed, **number)


def _ablation_table(found: Table) -> str:
    rows = []
    for name in ABLATIONS:
        row = found[name]
        cells = [name, *(share(row.means[measure]) for measure in MEASURES)]
        rows.append(
            [
                *cells,
                interval(row.differences[MEASURES[0]]),
                f"{row.wins[TEN]}/{row.losses[TEN]}",
                p_value(row.p[TEN]),
            ]
        )
    return table(["walk", *map(str, MEASURES), "Recall@5 difference", "W/L@10", "p@10"], rows)


def _sweep_table(found: Table, names: Mapping[FlowParameters, str]) -> str:
    rows = []
    for field, values in SWEEPS.items():
        for value in values:
            pair = [found[names[_changed(field, value, directed=directed)]] for directed in (True, False)]
            paper = " (the paper's)" if value == getattr(PAPER, field) else ""
            cells = [" / ".join(share(row.means[measure]) for row in pair) for measure in MEASURES]
            rows.append([f"`{field}` {value:g}{paper}", *cells])
    return table(["number", *map(str, MEASURES)], rows)


def _direction(found: Table) -> list[Verdict]:
    """Return the verdicts on the paper's main claim, that a directed walk finds more than an undirected walk."""
    gains = {str(m): 100 * (found[FULL].means[m] - found[UNDIRECTED].means[m]) for m in MEASURES}
    return [
        judge("The directed walk beats the undirected walk with the same seeds", gains, 0.1, shown=points),
        judge(
            "The difference between both walks is significant (exact p of LastHop@10)",
            {UNDIRECTED: found[UNDIRECTED].p[TEN]},
            high=0.05,
        ),
    ]


def _parts(found: Table) -> list[Verdict]:
    """Return the verdicts on whether the walk loses Recall and LastHop without each of its parts."""
    lost = {name: {m: 100 * (found[FULL].means[m] - found[name].means[m]) for m in MEASURES} for name in PARTS}
    return [
        judge(f"Each part of the walk raises {m}", {n: lost[n][m] for n in PARTS}, 0.1, shown=points) for m in MEASURES
    ]


def _holes(holes: Mapping[str, Holes]) -> list[Verdict]:
    """Return the verdicts on whether a walk along directed edges puts less mass on "black holes".

    A black hole is the paper's name for a well connected or abstract entity. `holes` maps each variant of the walk to
    the distribution of its mass.
    """
    with_it, without = holes[FULL], holes[UNDIRECTED]
    return [
        judge(
            "The directed walk puts less mass on the best connected entities (points of the entities' mass)",
            {"taken": 100 * (without.connected - with_it.connected)},
            0.1,
            shown=points,
        ),
        judge(
            "The directed walk puts less mass on the most abstract entities (points of the entities' mass)",
            {"taken": 100 * (without.abstract - with_it.abstract)},
            0.1,
            shown=points,
        ),
        judge(
            "The directed walk has a lower mean abstractness",
            {"lower by": without.level - with_it.level},
            0.001,
            shown=plain,
        ),
        judge(
            "The directed walk puts its mass on at least 5 % fewer entities (effective entities, percent)",
            {"fewer by": 100 * (1 - with_it.spread / without.spread)},
            5,
            shown=points,
        ),
    ]


def _numbers(found: Table, variants: Mapping[str, FlowParameters]) -> list[Verdict]:
    """Return the verdicts on whether the paper's constants are nearly as good as the best values that were tried."""
    measure, out = MEASURES[0], {}
    for field, values in SWEEPS.items():
        swept = [_changed(field, value) for value in values]
        best = max(found[name].means[measure] for name, one in variants.items() if one in swept)
        out[field] = 100 * (best - found[FULL].means[measure])
    return [
        judge(
            "The paper's value of a parameter is at most one point of Recall@5 below the best value in the table",
            out,
            high=1,
            shown=points,
        )
    ]
