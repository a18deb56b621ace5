"""Compare one graph for several collections with a separate graph for each collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from claims import LAST, RECALL, Verdict, judge, points
from page import Page, interval, p_value, share, table
from phasegraph.candidates import cap_ranking
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.experiment import Answers, Table, compare
from phasegraph.evaluation.measures import Measure
from phasegraph.evaluation.query_files import groups_of
from phasegraph.evaluation.source_runs import ExperimentInput, graph_of, search_sources
from phasegraph.evaluation.splits import parts_by
from phasegraph.evaluation.systems import TWO
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.graph import GraphSource
from phasegraph.ranking import Ranking

TOGETHER = ("musique", "2wiki", "hotpotqa-small")
"""Data sets that share one graph; every one of them is a collection."""
FIELD = "collection_id"
"""What tells the collections of a single data set apart."""
MEASURES = (RECALL, Measure("Recall", 10), LAST)
LIMIT, DEPTH = 50, 10
SYSTEMS = ("vectors", "walk", "default")
ISOLATED, OWN, SHARED = "isolated", "shared graph, own passages", "shared"


@dataclass(frozen=True, slots=True)
class Contamination:
    """The effect of a shared graph on the questions of some collections.

    Parameters
    ----------
    tables : mapping of str to Table
        For each kind of system (vectors, walk, default), a table with a row for each way to share a graph. The baseline
        is the way with separate graphs.
    foreign : mapping of str to float
        For each system, the mean share of other collections' passages among a query's first ten, in [0, 1].
    """

    tables: Mapping[str, Table]
    foreign: Mapping[str, float]


def merged(parts: Sequence[Dataset]) -> Dataset:
    """Combine the passages and queries of `parts` to a single data set; all passage ids must be different."""
    return Dataset(
        "+".join(part.name for part in parts),
        tuple(passage for part in parts for passage in part.passages),
        tuple(query for part in parts for query in part.queries),
        np.vstack([part.passage_vectors for part in parts]),
        np.vstack([part.query_vectors for part in parts]),
    )


def answers_of(parts: Mapping[str, Dataset]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the ids of the first ten passages, by "system, way to share a graph" and then by query id.

    Each data set of `parts` is a collection. Its queries are asked in every way.
    """
    whole = merged(list(parts.values()))
    vectors = search_sources(ExperimentInput(whole, LIMIT), ["vector"])["vector"].rankings
    walk = GraphSource(graph_of(whole), embedder=whole.vectors_by_text().__getitem__)
    everyone, pipeline = frozenset(whole.contents), FusionPipeline()
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    row = 0
    for part in parts.values():
        alone = search_sources(ExperimentInput(part, LIMIT), TWO)
        foreign = everyone.difference(part.contents)
        for place, query in enumerate(part.queries):
            near = alone["vector"].rankings[place]
            reached = walk.search(query.text, len(everyone), {"vector": vectors[row]})
            for way, lists in {
                ISOLATED: (near, alone["graph"].rankings[place]),
                OWN: (near, _cut(reached.without(foreign))),
                SHARED: (vectors[row], _cut(reached)),
            }.items():
                fused = pipeline.decide(lists, whole.context(row, lists), k=DEPTH)
                for what, ids in zip(SYSTEMS, (lists[0].ids, lists[1].ids, fused.ids), strict=True):
                    found.setdefault(f"{what}, {way}", {})[query.id] = tuple(ids[:DEPTH])
            row += 1
    return found


def _cut(ranking: Ranking) -> Ranking:
    return cap_ranking(ranking, LIMIT, "list", frozenset())


def contamination(
    parts: Sequence[Dataset], found: Mapping[str, Mapping[str, tuple[str, ...]]], name: str
) -> Contamination:
    """Score the answers in `found` to the queries of all `parts` together, in tables with the name `name`.

    There is a table for each kind of system. The baseline is the way in which no graph is shared.
    """
    queries = [query for part in parts for query in part.queries]
    own = {query.id: part.contents for part in parts for query in part.queries}
    tables, foreign = dict[str, Table](), dict[str, float]()
    for what in SYSTEMS:
        ways = [way for way in (ISOLATED, OWN, SHARED) if (what, way) != ("vectors", OWN)]
        answers = [
            Answers(f"{what}, {way}", {one.id: found[f"{what}, {way}"][one.id] for one in queries}) for way in ways
        ]
        for one in answers:
            shares = [sum(hit not in own[query] for hit in ids) / max(len(ids), 1) for query, ids in one.found.items()]
            foreign[one.name] = float(np.mean(shares))
        tables[what] = compare(
            answers,
            [query.judgement for query in queries],
            baseline=f"{what}, {ISOLATED}",
            measures=MEASURES,
            dataset=name,
            limit=LIMIT,
            groups=groups_of(queries),
            corpus=[passage.id for part in parts for passage in part.passages],
        )
    return Contamination(tables, foreign)


def contamination_page(
    datasets: Mapping[str, Dataset], judged: Sequence[Dataset], say: Callable[[str], object]
) -> Page | None:
    """Return the page `shared-graph`, about data sets and collections that share a graph; None if there are none.

    The data sets in ``TOGETHER`` share one graph. The collections within each data set of `judged` share another graph.
    """
    found: dict[str, Contamination] = {}
    parts = {one.name: one for one in judged if one.name in TOGETHER}
    if len(parts) > 1:
        say(f"one graph: {', '.join(parts)}")
        answers = answers_of(parts)
        found |= {name: contamination([part], answers, name) for name, part in parts.items()}
    for one in judged:
        if one.groups is not None and all(FIELD in passage.extra for passage in one.passages):
            say(f"{one.name}: one graph for all collections")
            collections = parts_by(one, FIELD)
            found[one.name] = contamination(list(collections.values()), answers_of(collections), one.name)
    if not found:
        say(f"left out: a shared graph (fewer than two of {', '.join(TOGETHER)}, and no collections)")
        return None
    figures = {
        name: {what: of.to_dict() for what, of in one.tables.items()} | {"foreign": dict(one.foreign)}
        for name, one in found.items()
    }
    return replace(page_of(found), figures=figures)


def page_of(found: Mapping[str, Contamination]) -> Page:
    """Return the page `shared-graph`: a table for each data set in `found`, and the conclusions from the tables."""
    parts = [
        "The paper says that one graph for several collections contaminates the answers. We do not know how the "
        "paper measured this, so the experiment is reconstructed. Every collection is asked its own questions in "
        f"three ways. *{ISOLATED}*: the collection has its own graph and its own passages. *{OWN}*: the walk runs "
        f"on the graph of all collections, but returns only passages of this collection. *{SHARED}*: the walk may "
        f"return passages of all collections. {', '.join(TOGETHER)} share one graph. The collections within "
        "hetdocqa share a second graph. Differences, W/L and p compare Recall@5 with *isolated*; the intervals are "
        "paired 95 % bootstrap intervals that resample whole collections. *Foreign* is the share of other "
        f"collections' passages among the first ten. Each source returns {LIMIT} hits, and nothing is fitted."
    ]
    for name, one in found.items():
        rows = []
        for of in one.tables.values():
            for row in of.rows:
                cells = [row.name, *(share(row.means[measure]) for measure in MEASURES)]
                test = [interval(row.differences[RECALL]), f"{row.wins[RECALL]}/{row.losses[RECALL]}"]
                rows.append([*cells, *test, p_value(row.p[RECALL]), share(one.foreign[row.name])])
        count = len(next(iter(one.tables.values())).queries)
        parts.append(f"**{name}** ({count} queries)")
        parts.append(table(["system", *map(str, MEASURES), "difference", "W/L", "p", "foreign"], rows))
    return Page("shared-graph", "One shared graph against isolated graphs", tuple(parts), tuple(_verdicts(found)))


def _verdicts(found: Mapping[str, Contamination]) -> list[Verdict]:
    def lost(what: str, way: str) -> dict[str, float]:
        return {name: 100 * one.tables[what][f"{what}, {way}"].differences[RECALL][0] for name, one in found.items()}

    def foreign(what: str) -> dict[str, float]:
        return {name: 100 * one.foreign[f"{what}, {SHARED}"] for name, one in found.items()}

    vectors, default = lost("vectors", SHARED), lost("default", SHARED)
    brought = foreign("vectors")
    return [
        judge(
            "A shared graph lowers the walk's Recall@5 even if it may return only passages of its own collection",
            lost("walk", OWN),
            high=-0.1,
            shown=points,
        ),
        judge(
            "This loss is significant (p)",
            {name: one.tables["walk"][f"walk, {OWN}"].p[RECALL] for name, one in found.items()},
            high=0.05,
        ),
        judge(
            "If passages of all collections may be returned, the walk loses Recall@5",
            lost("walk", SHARED),
            high=-0.1,
            shown=points,
        ),
        judge(
            "If passages of all collections may be returned, the default loses at least one point of Recall@5",
            default,
            high=-1,
            shown=points,
        ),
        judge(
            "If passages of all collections may be returned, the default loses no more Recall@5 than the vectors "
            "(difference of the losses)",
            {name: default[name] - vectors[name] for name in default},
            0,
            shown=points,
        ),
        judge(
            "The walk returns more foreign passages among the first ten than the vectors (points)",
            {name: value - brought[name] for name, value in foreign("walk").items()},
            0.1,
            shown=points,
        ),
    ]
