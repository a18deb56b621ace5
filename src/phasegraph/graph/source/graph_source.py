"""The entity graph as a source: link, walk, rank, and say how each passage was reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from phasegraph._typing import FloatArray, Int32Array
from phasegraph.candidates import Ranking, top_order
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.checks import check_names, check_range
from phasegraph.graph.entity_graph import EntityGraph
from phasegraph.graph.linking import (
    RESETS,
    FactIndex,
    LinkSettings,
    RelevanceRows,
    Seeding,
    link,
    nearest_entities,
    query_entities,
    relevance,
    reset_by_name,
)
from phasegraph.graph.linking.resets import NO_FACTS
from phasegraph.graph.pagerank import PageRankResult
from phasegraph.graph.pagerank.kernels import Kernel
from phasegraph.graph.pagerank.reset import as_seeds
from phasegraph.graph.pagerank.rows import StaticRows
from phasegraph.graph.pagerank.solve import push_settings, run_push
from phasegraph.graph.source.evidence import Trails
from phasegraph.graph.source.scoring import background, passage_scores
from phasegraph.pipeline.checks import check_count, check_flag, check_query
from phasegraph.sources.protocol import Given

__all__ = ["GraphSource", "WalkSettings", "background"]

if TYPE_CHECKING:
    from phasegraph.graph.source.restricted import Allowed, RestrictedGraphSource

Embedder = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class WalkSettings:
    """How the graph is walked.

    Parameters
    ----------
    follow_probability : float, default 0.85
        Probability of following an edge, in [0, 1); otherwise the walk restarts at a seed.
    tolerance : float, default 3e-6
        Mass per out-edge below which the walk goes no further.
    floor : float, default 2e-3
        Added to a mass before its logarithm; > 0.
    relevance : bool, default True
        Whether passages nearer to the query are entered more readily, and scored higher.
    closeness : float, default 0.5
        Power of a passage's similarity in its score; >= 0.
    kernel : {"auto", "numpy", "compiled"}, default "auto"
        Machine code through numba (``phasegraph[graph]``) where installed, or numpy: the answers are the same to
        the bit. numba compiles at the first walk, see :meth:`GraphSource.prepare`.
    """

    follow_probability: float = 0.85
    tolerance: float = 3e-6
    floor: float = 2e-3
    relevance: bool = True
    closeness: float = 0.5
    kernel: Kernel = "auto"

    def __post_init__(self) -> None:
        push_settings(self.follow_probability, self.tolerance, 0, None, self.kernel)
        check_range("WalkSettings.floor", self.floor, ends="(]")
        check_flag("WalkSettings.relevance", self.relevance)
        check_range("WalkSettings.closeness", self.closeness)


@dataclass(frozen=True, eq=False)
class GraphSource:
    """A source that ranks passages by personalised PageRank from the query's seeds.

    Parameters
    ----------
    graph : EntityGraph
    name : str, default "graph"
    needs : sequence of str, default ("vector",)
        Dense rankings to take seeds from, the first of them that there is; without any, the entities named in
        the query are the only seeds.
    embedder : callable, optional
        ``embedder(query) -> (d,) vector``. With `graph.embeddings`, passages nearer to the query are preferred
        along the way; without, the handed ranking's similarities serve instead.
    linking : LinkSettings
    walk : WalkSettings
    facts : FactIndex, optional
        Embedded facts of the graph, names or both (``FactIndex.of``, ``of_names``, ``plus``); with an embedder, the
        entities of those nearest to the query are seeds, too.
    reset : {"hipporag2", "semflowrag", "semflowrag-paper"}, optional
        A published reset distribution in place of ours; needs `facts` and `embedder`. HippoRAG 2's walk does not
        prefer passages near the query (``WalkSettings(follow_probability=0.5, relevance=False)``); SemFlowRAG's
        directed walk is :class:`~phasegraph.graph.source.SemFlowSource`. With no fact in the index the passages
        are ranked by similarity, as published, and the ranking's reason says so.

    Notes
    -----
    A score is ``(mass + floor) * similarity ** closeness``, or the mass alone where no similarity is known (see
    `relevance`); only passages the walk reached are ranked. The background is the mean and the standard deviation
    of the scores' logarithm over all passages. A passage's payload is its :class:`Trail`.

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph(
    ...     [
    ...         {"id": "film", "title": "Vertigo", "text": "Vertigo is a film by Alfred Hitchcock."},
    ...         {"id": "man", "title": "Alfred Hitchcock", "text": "Alfred Hitchcock was born in Leytonstone."},
    ...         {"id": "other", "title": "Paris", "text": "Paris is a city."},
    ...     ]
    ... )
    >>> GraphSource(graph).search("Where was the director of Vertigo born?", 10, {}).ids
    ('man', 'film')
    """

    graph: EntityGraph
    name: str = "graph"
    needs: Sequence[str] = ("vector",)
    embedder: Embedder | None = None
    linking: LinkSettings = field(default_factory=LinkSettings)
    walk: WalkSettings = field(default_factory=WalkSettings)
    facts: FactIndex | None = None
    reset: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.graph, EntityGraph):
            raise InvalidTypeError(f"graph must be an EntityGraph; got {type(self.graph).__name__}")
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidTypeError(f"name must be a name that is not blank; got {self.name!r}")
        for label, kind in (("linking", LinkSettings), ("walk", WalkSettings)):
            if not isinstance(getattr(self, label), kind):
                raise InvalidTypeError(f"{label} must be a {kind.__name__}; got {getattr(self, label)!r:.80}")
        if self.facts is not None and not isinstance(self.facts, FactIndex):
            raise InvalidTypeError(f"facts must be a FactIndex or None; got {self.facts!r:.80}")
        if self.embedder is not None and not callable(self.embedder):
            raise InvalidTypeError(f"embedder must be callable or None; got {self.embedder!r:.80}")
        if self.reset is not None:
            if self.reset not in RESETS:
                raise InvalidInputError(f"reset must be None or one of {', '.join(RESETS)}; got {self.reset!r}")
            if self.facts is None or self.embedder is None:
                raise InvalidInputError(f"reset {self.reset!r} must come with facts and an embedder; one is missing")
        object.__setattr__(self, "needs", check_names("needs", self.needs))

    def prepare(self) -> GraphSource:
        """Do now what the first search would wait for: weigh the edges, read the names, load the compiled walk.

        Returns
        -------
        GraphSource
            This one.

        Notes
        -----
        Without it the first search takes longer: by the graph's size, and with numba by some seconds, which a
        deadline may not have. The answers are the same.
        """
        graph = self.graph
        query_entities(graph, graph.passages[0])
        first = Seeding(np.zeros(1, dtype=np.intp), np.ones(1))
        self._walk(first, None)
        if self.walk.relevance:  # where a query has neither a vector nor a ranking the walk is the other one
            self._walk(first, np.ones(graph.size))
        return self

    def within(self, allowed: Allowed) -> RestrictedGraphSource:
        """The same source for one who may see only the `allowed` passages; see :class:`RestrictedGraphSource`."""
        from phasegraph.graph.source.restricted import RestrictedGraphSource

        return RestrictedGraphSource(self, allowed)

    def search(self, query: str, limit: int | None, given: Given) -> Ranking:
        """Rank passages for `query`; parameters and result as in :meth:`phasegraph.sources.Source.search`."""
        query = check_query(query)
        limit = None if limit is None else check_count("limit", limit, minimum=1)
        handed = self._handed(given)
        vector = None if self.embedder is None else self.embedder(query)
        if self.reset is not None and self.facts is not None and not len(self.facts.ends):
            return self._by_similarity(handed, vector, limit)
        seeding = self._seeding(query, handed, vector)
        size = len(self.graph.passages)
        if not len(seeding):
            return Ranking(self.name, (), np.empty(0), size=size, reason=seeding.reason)
        gains = relevance(self.graph, handed, vector) if self.walk.relevance else None
        walked = self._walk(seeding, gains)
        settings = self.walk
        rows, scores, behind = passage_scores(walked, gains, size, floor=settings.floor, closeness=settings.closeness)
        ids, best = self._best(rows, scores, limit)
        return Ranking(
            self.name,
            ids,
            best,
            background=behind,
            size=size,
            payloads=Trails(self.graph, walked, seeding, gains, ids),
            reason="" if ids else "the walk from the query's seeds reaches no passage",
        )

    def _by_similarity(self, handed: Ranking | None, vector: Any, limit: int | None) -> Ranking:
        """What the published recipes do without facts."""
        near = relevance(self.graph, handed, vector, floor=0.0)
        scores = np.empty(0) if near is None else near[: len(self.graph.passages)]
        held = np.flatnonzero(scores > 0).astype(np.int32)
        ids, best = self._best(held, scores[held], limit)
        return Ranking(self.name, ids, best, size=len(self.graph.passages), reason=NO_FACTS)

    def _handed(self, given: Given) -> Ranking | None:
        return next((ranking for name in self.needs if (ranking := given.get(name)) is not None), None)

    def _seeding(self, query: str, handed: Ranking | None, vector: Any) -> Seeding:
        graph = self.graph
        if self.reset is not None and self.facts is not None:
            gains = relevance(graph, handed, vector, floor=0.0)
            near = np.zeros(len(graph.passages)) if gains is None else gains[: len(graph.passages)]
            return reset_by_name(self.reset, graph, self.facts, vector, near)
        seeding = link(graph, query, handed, self.linking)
        if self.facts is None or vector is None:
            return seeding
        nearest = nearest_entities(graph, self.facts, vector, self.linking.top_facts)
        return seeding.plus(nearest, self.linking.fact_mass)

    def _walk(self, seeding: Seeding, gains: FloatArray | None) -> PageRankResult:
        operator = self.graph.operator
        seeds = as_seeds((seeding.nodes, seeding.masses), operator.size)
        rows = StaticRows(operator) if gains is None else RelevanceRows(operator, gains)
        settings = push_settings(self.walk.follow_probability, self.walk.tolerance, 0, None, self.walk.kernel)
        return run_push(rows, operator.pool, seeds, settings, None)

    def _best(self, rows: Int32Array, scores: FloatArray, limit: int | None) -> tuple[tuple[str, ...], FloatArray]:
        """The best of the scored passages, ties by id."""
        if limit is not None and limit < len(scores):
            near = scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit]
            rows, scores = rows[near], scores[near]
        ids = [self.graph.passages[row] for row in rows.tolist()]
        best = top_order(scores, ids, limit)
        return tuple(ids[place] for place in best.tolist()), scores[best]
