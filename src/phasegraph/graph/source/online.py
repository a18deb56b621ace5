"""A corpus in Neo4j as a source, for graphs that are not loaded beside the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import numpy as np

from phasegraph.candidates import Ranking, top_order
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.checks import check_names
from phasegraph.graph.entity_graph import EdgeWeights, normalise_name, split_words
from phasegraph.graph.extraction.gazetteer import MAX_WORDS
from phasegraph.graph.linking import LinkSettings, Seeding, link, relevance
from phasegraph.graph.neo4j.connection import Neo4jConnection
from phasegraph.graph.neo4j.edges import LOOKUP, corpus_state
from phasegraph.graph.neo4j.gds import has_gds, project, walk_projection
from phasegraph.graph.neo4j.kept_edges import KeptEdges
from phasegraph.graph.neo4j.neighbourhood import FetchSettings, LocalWalk, walk_neighbourhood
from phasegraph.graph.neo4j.partial import PartialGraph
from phasegraph.graph.pagerank import PageRankResult
from phasegraph.graph.source.evidence import Trails
from phasegraph.graph.source.graph_source import WalkSettings
from phasegraph.graph.source.scoring import background, passage_scores
from phasegraph.pipeline.checks import check_count, check_query
from phasegraph.sources.protocol import Given

Method = Literal["neighbourhood", "gds"]


@dataclass(frozen=True, eq=False)
class Neo4jGraphSource:
    """A source that walks a corpus in Neo4j without loading it.

    Parameters
    ----------
    connection : Neo4jConnection
        Its deadline is what one search may take; the server ends its statements then.
    corpus : str
        A corpus written by `write_graph`.
    name : str, default "graph"
    needs : sequence of str, default ("vector",)
        Dense rankings to take seeds from, the first of them that there is.
    method : {"neighbourhood", "gds"}, default "neighbourhood"
        Fetch the edges that the walk needs, or have the server walk all of the corpus (needs GDS; edges do
        not follow the query there, as with ``WalkSettings(relevance=False)``).
    linking : LinkSettings
    walk : WalkSettings
    weights : EdgeWeights
    fetch : FetchSettings

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is out of range.

    Notes
    -----
    Scores, background and evidence are those of `GraphSource` over the same corpus; a fetched walk knows all
    but a small share of the mass, and `Ranking.reason` says so where that share is larger than
    `FetchSettings.unknown`.
    """

    connection: Neo4jConnection
    corpus: str
    name: str = "graph"
    needs: Sequence[str] = ("vector",)
    method: Method = "neighbourhood"
    linking: LinkSettings = field(default_factory=LinkSettings)
    walk: WalkSettings = field(default_factory=WalkSettings)
    weights: EdgeWeights = field(default_factory=EdgeWeights)
    fetch: FetchSettings = field(default_factory=FetchSettings)
    _kept: KeptEdges = field(default_factory=KeptEdges, init=False, repr=False)

    def __post_init__(self) -> None:
        for label in ("corpus", "name"):
            value = getattr(self, label)
            if not isinstance(value, str) or not value.strip():
                raise InvalidTypeError(f"{label} must be a name that is not blank; got {value!r:.40}")
        if self.method not in ("neighbourhood", "gds"):
            raise InvalidInputError(f"method must be 'neighbourhood' or 'gds'; got {self.method!r:.40}")
        object.__setattr__(self, "needs", check_names("needs", self.needs))

    def verify(self) -> int:
        """Look whether the corpus can be walked; return how many passages it has.

        Raises
        ------
        InvalidInputError
            If it has none, or GDS is asked for and not installed.
        StoreError
            If the server does not answer within the deadline.
        """
        count, _ = corpus_state(self.connection, self.corpus)
        if not count:
            raise InvalidInputError(f"the corpus must hold passages; {self.corpus!r:.60} holds none")
        if self.method == "gds":
            if not has_gds(self.connection):
                raise InvalidInputError("method 'gds' needs the Graph Data Science library; the server has none")
            project(self.connection, self.corpus, self.weights)
        return count

    def search(self, query: str, limit: int | None, given: Given) -> Ranking:
        """Rank passages for `query`; parameters and result as in :meth:`phasegraph.sources.Source.search`."""
        query = check_query(query)
        limit = None if limit is None else check_count("limit", limit, minimum=1)
        handed = next((ranking for need in self.needs if (ranking := given.get(need)) is not None), None)
        state = corpus_state(self.connection, self.corpus)
        count = state[0]
        view = self._look_up(query, handed, count)
        seeding = link(view.as_graph(), query, handed, self.linking)
        if not len(seeding):
            return Ranking(self.name, (), np.empty(0), size=count, reason=seeding.reason)
        passages, entities = _named_seeds(view, seeding)
        if self.method == "gds":
            return self._pushed_down(passages, entities, limit)
        relevant = handed if self.walk.relevance else None
        walk = walk_neighbourhood(
            self.connection,
            self.corpus,
            state,
            passages,
            entities,
            follow_probability=self.walk.follow_probability,
            weights=self.weights,
            ranking=relevant,
            tolerance=self.walk.tolerance,
            settings=self.fetch,
            kept=self._kept,
        )
        return self._ranked(walk, relevant, count, limit)

    def _look_up(self, query: str, handed: Ranking | None, count: int) -> PartialGraph:
        """What linking asks of a graph: which of the query's word sequences are entities, which ids are passages."""
        texts = split_words(query).texts
        names = {
            " ".join(texts[start:end])
            for start in range(len(texts))
            for end in range(start + 1, min(start + MAX_WORDS, len(texts)) + 1)
        }
        values = {
            "corpus": self.corpus,
            "passages": [] if handed is None else list(handed.ids),
            "entities": sorted({*names, normalise_name(query)}),
        }
        rows = self.connection.read(LOOKUP, values)
        passages = sorted(row[0] for row in rows if row[1] is None)
        entities = sorted(row for row in rows if row[1] is not None)
        return PartialGraph(
            range(count),
            tuple(row[0] for row in entities),
            MappingProxyType({name: row for row, name in enumerate(passages)}),
            MappingProxyType({row[0]: place for place, row in enumerate(entities)}),
            np.array([row[1] for row in entities], dtype=np.intp),
            np.array([row[2] for row in entities], dtype=bool),
        )

    def _pushed_down(self, passages: Mapping[str, float], entities: Mapping[str, float], limit: int | None) -> Ranking:
        projection = project(self.connection, self.corpus, self.weights)
        found = walk_projection(
            self.connection, projection, passages, entities, follow_probability=self.walk.follow_probability
        )
        ids, masses = list(found), np.array(list(found.values()))
        walked = PageRankResult(np.arange(len(ids), dtype=np.int32), masses, projection.passage_count, 0.0, 0, 0, 0)
        best = top_order(masses, ids, limit)
        return Ranking(
            self.name,
            [ids[row] for row in best.tolist()],
            masses[best],
            background=background(walked, projection.passage_count, self.walk.floor),
            size=projection.passage_count,
        )

    def _ranked(self, walk: LocalWalk, relevant: Ranking | None, count: int, limit: int | None) -> Ranking:
        graph = walk.graph
        held = walk.walked.nodes < len(graph.passages)
        reached = PageRankResult(
            walk.walked.nodes[held], walk.walked.values[held], count, walk.walked.residual, 0, 0, 0
        )
        gains = None if relevant is None else relevance(_all_passages(graph, relevant, count).as_graph(), relevant)
        floor, closeness = self.walk.floor, self.walk.closeness
        rows, scores, behind = passage_scores(reached, gains, count, floor=floor, closeness=closeness)
        names = [graph.passages[row] for row in rows.tolist()]
        best = top_order(scores, names, limit)
        ids = tuple(names[place] for place in best.tolist())
        part = f"{walk.unknown:.1%} of the walk's mass stands at nodes that were not fetched"
        return Ranking(
            self.name,
            ids,
            scores[best],
            background=behind,
            size=count,
            payloads=Trails(graph.as_graph(), walk.walked, walk.seeding, walk.gains, ids),
            reason="" if walk.complete else part,
        )


def _all_passages(graph: PartialGraph, ranking: Ranking, count: int) -> PartialGraph:
    """As many passages as the corpus has: those that were fetched, those of the ranking, and others without a name."""
    rows = dict(graph.passage_rows)
    for name in ranking.ids:
        if name not in rows and len(rows) < count:
            rows[name] = len(rows)
    return PartialGraph(range(count), (), MappingProxyType(rows), MappingProxyType({}))


def _named_seeds(view: PartialGraph, seeding: Seeding) -> tuple[dict[str, float], dict[str, float]]:
    """Seeds by id and by name, in the order of the seeding."""
    ids = {row: name for name, row in view.passage_rows.items()}
    passages: dict[str, float] = {}
    entities: dict[str, float] = {}
    first = len(view.passages)
    for node, mass in zip(seeding.nodes.tolist(), seeding.masses.tolist(), strict=True):
        if node < first:
            passages[ids[node]] = mass
        else:
            entities[view.entities[node - first]] = mass
    return passages, entities
