"""The entity graph as a source: link, walk, rank, and say how each passage was reached."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, Literal, Self, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from phasegraph._shared import lazy_property
from phasegraph._text import legible
from phasegraph._typing import FloatArray, Int32Array, IntArray
from phasegraph._validation import check_count, check_flag, check_names, check_query, check_range
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.entity_graph import Csr, EntityGraph, check_kind
from phasegraph.graph.linking import (
    FLOOR,
    NO_FACTS,
    NO_SPREAD,
    RESETS,
    FactFilter,
    FactIndex,
    KeepFacts,
    KeptFacts,
    LinkSettings,
    LocalIds,
    Seeding,
    WordSettings,
    blended,
    both_seeds,
    check_embedder,
    covering,
    entered,
    kept_facts,
    link,
    moments,
    name_words,
    named_seeds,
    nearest_entities,
    published,
    query_entities,
    relevance,
    relevance_by_words,
    reset_by_name,
    seeds_by_words,
)
from phasegraph.graph.listed import (
    COMPARED,
    MUCH,
    WORDS_LISTED,
    ListedGains,
    ListedRelevance,
    ListedSpaces,
    ListedTransitions,
    LocalTerms,
    within,
)
from phasegraph.lexical import LexicalIndex, ListedTerms, QueryTerms
from phasegraph.pagerank import PageRankResult, WalkOperator
from phasegraph.pagerank.push import (
    PushSettings,
    RelevanceTransitions,
    StaticTransitions,
    as_seeds,
    ranges,
    run_push,
)
from phasegraph.pagerank.solve import push_settings
from phasegraph.pagerank.workspace import Kernel, check_kernel
from phasegraph.ranking import Background, QueryWords, Ranking, by_fields, top_order
from phasegraph.retrieval.kept import Recent
from phasegraph.sources.protocol import Upstream


def passage_scores(
    walked: PageRankResult, node_weights: FloatArray | None, passages: int, *, floor: float, closeness: float
) -> tuple[Int32Array, FloatArray, Background | None]:
    """Rows and scores of the passages (nodes below `passages`) that a walk reached, and the background of all.

    With `node_weights`, positive similarities of the passages to the query, a score is
    ``(mass + floor) * node_weight ** closeness``, otherwise the mass. The background is that of the scores' logarithms
    over all passages; None where all are equal.

    >>> walk = PageRankResult(np.array([2, 0], np.int32), np.array([0.5, 0.3]), 4, 0.0, 1, 2, 2)
    >>> passage_scores(walk, np.array([0.25, 1.0, 1.0, 1.0]), 3, floor=0.1, closeness=0.5)[1].round(3).tolist()
    [0.6, 0.2]
    """
    held = (walked.nodes < passages) & (walked.values > 0)
    rows, masses = walked.nodes[held], walked.values[held]
    if node_weights is None or closeness == 0:
        return rows, masses, background(walked, passages, floor)
    tilt = closeness * np.log(node_weights[:passages])
    logs = tilt + np.log(floor)
    logs[rows] = tilt[rows] + np.log(masses + floor)
    spread = float(logs.std())
    found = Background(location=float(logs.mean()), scale=spread, transform="log") if spread > 0 else None
    return rows, np.exp(logs[rows]), found


def background(walked: PageRankResult, passages: int, floor: float) -> Background | None:
    """Mean and deviation of log(mass + floor) over all passages, in O(reached); None if all masses are equal."""
    held = walked.values[walked.nodes < passages]
    base = float(np.log(floor))
    above = np.log(held + floor) - base
    mean = float(above.sum()) / passages
    spread = float(np.sqrt(max(float((above**2).sum()) / passages - mean**2, 0.0)))
    if spread <= 0:
        return None
    return Background(location=base + mean, scale=spread, transform="log", floor=floor)


MAX_STEPS = 6


@dataclass(frozen=True, slots=True)
class PathNode:
    """One node of a path: ``kind`` is "passage" or "entity", ``name`` its id or normalised name."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class WalkPath:
    """Why a passage was found.

    `seeds` are where the walk restarted, with each one's share of the mass, greatest first. `path` leads from a seed to
    the passage: at every node by the edge that brought the most mass, weighed for the query as the walk weighed it,
    back to a seed that restarting brought more. It starts elsewhere only where no seed is within six edges.
    `words` are those of the query that the passage has: it may stand here for them or for its cosine, unreached by the
    walk, and is then its own path.
    """

    seeds: tuple[tuple[PathNode, float], ...]
    path: tuple[PathNode, ...]
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return legible(" > ".join(f"[{step.name}]" if step.kind == "passage" else step.name for step in self.path))


@dataclass(frozen=True, eq=False)
class WalkPaths(Mapping[str, WalkPath]):
    """Paths by passage id, each worked out when it is asked for; a copy holds them all and not the graph."""

    graph: EntityGraph = field(repr=False)
    walked: PageRankResult = field(repr=False)
    seeding: Seeding = field(repr=False)
    node_weights: FloatArray | ListedGains | None = field(repr=False)
    ids: tuple[str, ...]
    follow_probability: float
    terms: QueryTerms | ListedTerms | None = field(default=None, repr=False)

    def __getitem__(self, passage_id: str) -> WalkPath:
        if passage_id not in self:
            raise KeyError(passage_id)
        self.graph.check_files()
        row = self.graph.passage_rows[passage_id]
        words: tuple[str, ...] = ()
        if self.terms is not None:
            words = tuple(compress(self.terms.words, self.terms.held_by(np.array([row]))[0].tolist()))
        return WalkPath(self._seeds(), self._path(row), words)

    def __contains__(self, passage_id: object) -> bool:
        return passage_id in self._known

    @lazy_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def _seeds(self) -> tuple[tuple[PathNode, float], ...]:
        nodes, masses = self.seeding.nodes, self.seeding.masses
        shares = masses / float(masses.sum())
        order = np.lexsort((nodes, -shares))
        return tuple((self._node(int(nodes[place])), float(shares[place])) for place in order)

    def _path(self, goal: int) -> tuple[PathNode, ...]:
        """Backwards from the goal, each time along the edge that brought most, to a seed that none brought more."""
        masses = self.seeding.masses * ((1 - self.follow_probability) / float(self.seeding.masses.sum()))
        restarted = dict(zip(self.seeding.nodes.tolist(), masses.tolist(), strict=True))
        mass, path, walk = self.walked.mass, [goal], self.graph.operator
        while len(path) <= MAX_STEPS:
            here = path[-1]
            owners, targets, edges = self._out_edges
            leading = np.flatnonzero(targets == here)
            sources = owners[leading]
            shares = walk.weights.take(edges[leading]).astype(np.float64) * walk.inverse_out.take(sources)
            flows = self.follow_probability * mass[sources] * shares * self._steered(sources, here)
            flows[np.isin(sources, path)] = 0.0
            if not len(flows) or flows.max() <= restarted.get(here, 0.0):
                break
            path.append(int(sources[int(flows.argmax())]))
        starts = [place for place, node in enumerate(path) if node in restarted]
        path = path[: starts[-1] + 1] if starts else path
        return tuple(self._node(node) for node in reversed(path))

    @lazy_property
    def _out_edges(self) -> tuple[Int32Array, Int32Array, IntArray]:
        """Source, target and place of the edges that can have brought mass: the walk's own, not the whole graph's."""
        walk, nodes = self.graph.operator, np.sort(self.walked.nodes)
        counts = walk.out_degrees.take(nodes).astype(np.int64)
        edges = ranges(walk.indptr.take(nodes), counts)
        return np.repeat(nodes, counts), walk.indices.take(edges), edges

    def _steered(self, sources: Int32Array, target: int) -> FloatArray | float:
        """What the query's relevance does to the share of its mass that a source sends to one target.

        An edge weighs ``weight * node_weights[target]``, and a source's edges share its mass: towards one target, those
        lose whose other targets are more relevant.
        """
        if self.node_weights is None:
            return 1.0
        walk = self.graph.operator
        counts = walk.out_degrees.take(sources).astype(np.int64)
        edges = ranges(walk.indptr.take(sources), counts)
        values = walk.weights.take(edges) * self.node_weights.take(walk.indices.take(edges))
        sums = np.bincount(np.repeat(np.arange(len(sources)), counts), weights=values, minlength=len(sources))
        own = float(self.node_weights[target])
        return np.divide(own, sums * walk.inverse_out[sources], out=np.zeros(len(sources)), where=sums > 0)

    def _node(self, node: int) -> PathNode:
        count = len(self.graph.passages)
        if node < count:
            return PathNode("passage", self.graph.passages[node])
        return PathNode("entity", self.graph.entities[node - count])


Embedder = Callable[[str], Any]


Compare: TypeAlias = Literal["auto", "all", "listed"]


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
        Compiled by numba (``phasegraph[graph]``) where installed, or numpy: the answers are the same to
        the bit. numba compiles at the first walk, see :meth:`GraphSource.prepare`.
    compare : {"auto", "all", "listed"}, default "auto"
        Which passages a query is compared with, where its words count: ``all``, or those ``listed`` by the dense
        ranking and by BM25, those that much of the walk's mass reaches, and a sample that stands for the others in
        means, so that a search costs the same in a collection of any size. ``auto`` compares all of up to 50,000
        passages; above, those listed, unless no dense ranking is handed over or no limit is given.
    """

    follow_probability: float = 0.85
    tolerance: float = 3e-6
    floor: float = 2e-3
    relevance: bool = True
    closeness: float = 0.5
    kernel: Kernel = "auto"
    compare: Compare = "auto"

    def __post_init__(self) -> None:
        if self.compare not in ("auto", "all", "listed"):
            raise InvalidInputError(f'WalkSettings.compare must be "auto", "all" or "listed"; got {self.compare!r:.80}')
        push_settings(self.follow_probability, self.tolerance, 0, None, "numpy")
        check_kernel(self.kernel)
        check_range("WalkSettings.floor", self.floor, ends="(]")
        check_flag("WalkSettings.relevance", self.relevance)
        check_range("WalkSettings.closeness", self.closeness)


class GraphWalker:
    """Base of the sources that walk a graph in memory, which :func:`prepare` prepares."""

    __reduce__ = by_fields

    def prepare(self) -> Self:
        """Do now what the first search would wait for; returns the source."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class GraphSource(GraphWalker):
    """A source that ranks passages by personalised PageRank from the query's seeds.

    Parameters
    ----------
    graph : EntityGraph
    name : str, default "graph"
    depends_on : sequence of str, default ("vector",)
        Dense rankings to take seeds from, the first of them that there is; without any, the entities named in
        the query, and passages that have its words, are the only seeds.
    embedder : callable, optional
        ``embedder(query) -> (d,) vector``. With `graph.embeddings`, passages nearer to the query are preferred
        along the way; without, the upstream ranking's similarities serve instead.
    linking : LinkSettings
    walk : WalkSettings
    words : WordSettings, optional
        How the words of the query count, where the graph has those of its passages; None: they do not, nor under
        a `reset` or ``WalkSettings(relevance=False)``.
    facts : FactIndex, optional
        Embedded facts of the graph, names or both (``FactIndex.of``, ``of_names``, ``plus``); with an embedder, the
        entities of those nearest to the query are seeds, too.
    reset : {"hipporag2", "semflowrag", "semflowrag-paper"}, optional
        A published reset distribution in place of ours; needs `facts` and `embedder`. HippoRAG 2's walk does not
        prefer passages near the query (``WalkSettings(follow_probability=0.5, relevance=False)``); SemFlowRAG's
        directed walk is :class:`~phasegraph.graph.experimental.semflow.SemFlowSource`. With no fact in the index the
        passages are ranked by similarity, as published, and the ranking's reason says so.
    fact_filter : FactFilter or callable, optional
        Which of the nearest `facts` seed the walk, asked of a model, say: ``keep(query, facts) -> facts``; see
        :class:`FactFilter`. Where it keeps none, passages are ranked by similarity, as published.

    Notes
    -----
    With words, a passage's relevance is its cosine plus .2 of its share of the best BM25 score. Seeds are relevant
    passages that have different words of the query, edges are weighed by the relevance of the passage they lead to and
    by what it has of the query's words besides its names, and a score is the logarithm of
    ``(mass + floor) * relevance ** closeness``, mixed with plain relevance as far as the walk points nowhere, plus what
    the passage adds to the query's words that the ones before it have; its exponential is published. Ours, no
    published method (``docs/research/lexical-walk.md``).

    Without, a score is ``(mass + floor) * similarity ** closeness``, or the mass alone where no similarity is known
    (see `relevance`). Ranked are the passages that the walk reached, that have a word of the query, or whose cosine is
    known. The background is the mean and the standard deviation of the scores' logarithm over all passages. A
    passage's payload is its :class:`WalkPath`.

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
    depends_on: Sequence[str] = ("vector",)
    embedder: Embedder | None = None
    linking: LinkSettings = field(default_factory=LinkSettings)
    walk: WalkSettings = field(default_factory=WalkSettings)
    facts: FactIndex | None = None
    reset: str | None = None
    words: WordSettings | None = field(default_factory=WordSettings)
    fact_filter: FactFilter | KeepFacts | None = None

    def __post_init__(self) -> None:
        check_kind("graph", self.graph, EntityGraph)
        check_kind("linking", self.linking, LinkSettings)
        check_kind("walk", self.walk, WalkSettings)
        check_source_name(self.name)
        if self.facts is not None:
            check_kind("facts", self.facts, FactIndex)
        if self.words is not None:
            check_kind("words", self.words, WordSettings)
        if self.embedder is not None:
            check_embedder(self)
        if self.reset is not None:
            if self.reset not in RESETS:
                raise InvalidInputError(f"reset must be None or one of {', '.join(RESETS)}; got {self.reset!r}")
            if self.facts is None or self.embedder is None:
                raise InvalidInputError(f"reset={self.reset!r} needs facts= and embedder=")
        object.__setattr__(self, "fact_filter", FactFilter.of(self.fact_filter))
        if self.fact_filter is not None and (self.facts is None or self.embedder is None):
            raise InvalidInputError("fact_filter= needs facts= and embedder=")
        object.__setattr__(self, "depends_on", check_names("depends_on", self.depends_on))

    def prepare(self) -> Self:
        """Do now what the first search would wait for: weigh the edges, read the names, load the compiled walk.

        Without it the first search takes longer, by the graph's size and with numba by some seconds; answers are the
        same.
        """
        graph = self._walked
        graph.check_files()
        query_entities(graph, graph.passages[0])
        if self.words is not None and graph.lexical is not None:
            graph.lexical.look_up_listed(graph.passages[0], WORDS_LISTED)
        if graph is not self.graph:
            return self
        if self.reset is None:
            self._seeding(graph.passages[0], Ranking(self.name, graph.passages[:1], np.ones(1)), None)
        if self.words is not None and graph.lexical is not None and len(graph.passages) <= COMPARED:
            graph.lexical.look_up(graph.passages[0])
        first = Seeding(np.zeros(1, dtype=np.intp), np.ones(1))
        if not self._has_words:
            self._walk(first, None)
        if (
            self.walk.relevance
        ):  # without words, where a query has neither vector nor ranking, the walk is the other one
            self._walk(first, np.ones(graph.size))
        return self

    @lazy_property
    def _has_words(self) -> bool:
        """Whether the query's words count."""
        known = self.words is not None and self._walked.lexical is not None
        return known and self.reset is None and self.walk.relevance

    @lazy_property
    def _walked(self) -> EntityGraph:
        """The graph that a search by lists walks; embedded facts name rows of the merged one."""
        return self.graph.view if self.facts is None else self.graph

    def within(self, allowed: Allowed) -> RestrictedGraphSource:
        """The same source for one who may see only the `allowed` passages; see :class:`RestrictedGraphSource`."""
        return RestrictedGraphSource(self, allowed)

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Rank passages for `query`; parameters and result as in :meth:`phasegraph.sources.Source.search`."""
        query = check_query(query)
        if limit is not None:
            limit = check_count("limit", limit, minimum=1)
        if self.graph.mapped:
            self.graph.check_files()
        ranking = next((found for name in self.depends_on if (found := upstream.get(name)) is not None), None)
        vector = None if self.embedder is None else self.embedder(query)
        if self.reset is not None and self.facts is not None and not len(self.facts.ends):
            return self._by_similarity(ranking, vector, limit, NO_FACTS)
        kept = self._kept_facts(query, vector)
        if kept is not None and kept.none:
            return self._by_similarity(ranking, vector, limit, kept.note)
        found = self._walked_ranking(query, ranking, vector, limit, kept)
        if kept is None or not kept.note:
            return found
        return replace(found, reason="; ".join(filter(None, (kept.note, found.reason))))

    def _kept_facts(self, query: str, vector: Any) -> KeptFacts | None:
        """The facts that a filter keeps of those nearest; None where there is none."""
        if self.facts is None or vector is None or not isinstance(self.fact_filter, FactFilter):
            return None
        top = self.linking.top_facts if self.reset is None else RESETS[self.reset].top_facts
        return kept_facts(self.fact_filter, query, self.graph, self.facts, self.facts.near(vector), top)

    def _walked_ranking(
        self, query: str, ranking: Ranking | None, vector: Any, limit: int | None, kept: KeptFacts | None
    ) -> Ranking:
        """The walk from the query's seeds, and from those of the facts that were kept."""
        if self._has_words and self.words is not None:
            listed = self._listed(ranking, vector, limit)
            by = self._by_lists if listed else self._by_words
            lexical: Any = (self._walked if listed else self.graph).lexical
            return by(query, ranking, vector, limit, lexical, self.words, kept)
        seeding = self._seeding(query, ranking, vector, kept)
        size = len(self.graph.passages)
        if not len(seeding):
            return Ranking(self.name, (), np.empty(0), size=size, reason=seeding.reason)
        node_weights = relevance(self.graph, ranking, vector) if self.walk.relevance else None
        walked = self._walk(seeding, node_weights)
        settings = self.walk
        rows, scores, behind = passage_scores(
            walked, node_weights, size, floor=settings.floor, closeness=settings.closeness
        )
        ids, best = best_passages(self.graph, rows, scores, limit)
        paths = WalkPaths(self.graph, walked, seeding, node_weights, ids, settings.follow_probability)
        reason = "" if ids else "the walk from the query's seeds reaches no passage"
        return Ranking(self.name, ids, best, background=behind, size=size, payloads=paths, reason=reason)

    def _by_words(
        self,
        query: str,
        ranking: Ranking | None,
        vector: Any,
        limit: int | None,
        lexical: LexicalIndex,
        settings: WordSettings,
        kept: KeptFacts | None,
    ) -> Ranking:
        """The walk with what the query's words say."""
        graph, size, link_by = self.graph, len(self.graph.passages), self.linking
        terms, named = lexical.look_up(query), named_seeds(graph, query, link_by)
        listed = [row for one in (ranking.ids if ranking else ()) if (row := graph.passage_rows.get(one)) is not None]
        known = relevance(graph, ranking if listed else None, vector, floor=-1.0)
        cosines = np.zeros(size) if known is None else known[:size]
        near = relevance_by_words(cosines, terms, settings)
        heard = np.ones(size, dtype=np.bool_)  # of which passages anything is known
        if vector is None or graph.embeddings is None:
            heard = terms.scores > 0
            heard[listed] = True
        seeds = seeds_by_words(
            np.where(heard, near, 0.0), terms, graph.passages, link_by.seed_passages, link_by.sharpness, settings
        )
        handed = "no ranking was handed over" if ranking is None else "the ranking holds no passage of the graph"
        lost = f"the query names no entity of the graph, has no word of a passage, and {handed}"
        seeding = self._with_facts(both_seeds(Seeding(*seeds), named, lost), vector, kept)
        share = float(named.masses[graph.anchored[named.nodes - size]].sum())
        stated = QueryWords(terms.all_idf, min(share, 1.0), lexical.tokenizer)
        if not len(seeding):
            return Ranking(self.name, (), np.empty(0), size=size, reason=seeding.reason, words=stated)
        node_weights, gains = np.ones(graph.size), np.maximum(near, FLOOR)
        others = terms.scores_without(name_words(graph, named, lexical.tokenizer))
        node_weights[:size] = entered(gains, others, float(others.max()), stated.named, settings)
        walked = self._walk(seeding, node_weights)
        mass = walked.mass[:size]
        logs = np.log(mass + self.walk.floor) + self.walk.closeness * np.log(gains)
        scores = blended(logs, cosines, terms, stated.named, settings)
        order, values = covering(scores, np.flatnonzero(heard | (mass > 0)), graph.passages, terms, limit, settings)
        ids = tuple(graph.passages[row] for row in order.tolist())
        spread = float(scores.std())
        behind = Background(float(scores.mean()), spread, "log") if spread > NO_SPREAD else None
        paths = WalkPaths(graph, walked, seeding, node_weights, ids, self.walk.follow_probability, terms)
        reason = "" if ids else "the walk from the query's seeds reaches no passage"
        return Ranking(
            self.name, ids, published(values), background=behind, size=size, payloads=paths, reason=reason, words=stated
        )

    def _listed(self, ranking: Ranking | None, vector: Any, limit: int | None) -> bool:
        """Whether only listed passages are compared with the query."""
        if self.walk.compare != "auto":
            return self.walk.compare == "listed"
        graph = self._walked
        seeded = ranking is not None or vector is None or graph.embeddings is None
        return graph.count > COMPARED and limit is not None and seeded

    @lazy_property
    def _spaces(self) -> ListedSpaces:
        return ListedSpaces(self._walked)

    def _by_lists(
        self,
        query: str,
        ranking: Ranking | None,
        vector: Any,
        limit: int | None,
        lexical: LexicalIndex,
        settings: WordSettings,
        kept: KeptFacts | None,
    ) -> Ranking:
        """As :meth:`_by_words`, of the passages that are listed, reached and sampled in place of all."""
        graph, link_by = self._walked, self.linking
        size, count = len(graph.passages), graph.count
        terms, named = lexical.look_up_listed(query, WORDS_LISTED), named_seeds(graph, query, link_by)
        near = ListedRelevance(graph, ranking, vector, terms, settings)
        foremost = near.of(np.union1d(near.listed, terms.found))
        places, masses = seeds_by_words(
            foremost.near, LocalTerms(terms, foremost), LocalIds(graph.passages, foremost.rows),
            link_by.seed_passages, link_by.sharpness, settings,
        )  # fmt: skip
        handed = "no ranking was handed over" if ranking is None else "the ranking holds no passage of the graph"
        lost = f"the query names no entity of the graph, has no word of a passage, and {handed}"
        seeds = Seeding(foremost.rows[places].astype(np.intp), masses)
        seeding = self._with_facts(both_seeds(seeds, named, lost), vector, kept)
        share = float(named.masses[graph.anchored[named.nodes - size]].sum())
        stated = QueryWords(terms.all_idf, min(share, 1.0), lexical.tokenizer)
        if not len(seeding):
            return Ranking(self.name, (), np.empty(0), size=count, reason=seeding.reason, words=stated)
        sampled = near.of_sample(self._spaces)
        rest = float(np.maximum(sampled.near, FLOOR).mean())
        entering = near.heed(name_words(graph, named, lexical.tokenizer), stated.named, foremost)
        walked, gains = self._walk_by_lists(seeding, near, foremost.rows, entering, rest)
        much = walked.nodes[walked.values > MUCH]
        met = np.union1d(gains.rows, much[much < size])
        own = foremost.and_of(near.of(met[~within(met, foremost.rows)]))
        own = own.at(np.argsort(own.rows))
        looked = own.and_of(sampled.at(~within(sampled.rows, own.rows)))
        rows = looked.rows
        standing = np.ones(len(rows))
        standing[len(own.rows) :] = (count - len(own.rows)) / max(len(rows) - len(own.rows), 1)
        masses = self._spaces.masses(walked, rows)
        logs = np.log(masses + self.walk.floor) + self.walk.closeness * np.log(np.maximum(looked.near, FLOOR))
        local = LocalTerms(terms, looked)
        scores = blended(logs, looked.cosines, local, stated.named, settings, standing)
        heard = np.ones(len(rows), dtype=np.bool_)
        if near.unit is None:
            heard = (masses > 0) | (looked.words > 0) | within(rows, near.listed)
        found, values = covering(scores, np.flatnonzero(heard), LocalIds(graph.passages, rows), local, limit, settings)
        ids = tuple(graph.passages[row] for row in rows[found].tolist())
        mean, spread = moments(scores, standing)
        behind = Background(mean, spread, "log") if spread > NO_SPREAD else None
        paths = WalkPaths(graph, walked, seeding, gains, ids, self.walk.follow_probability, terms)
        reason = "" if ids else "the walk from the query's seeds reaches no passage"
        return Ranking(
            self.name, ids, published(values), background=behind, size=count, payloads=paths, reason=reason,
            words=stated,
        )  # fmt: skip

    def _walk_by_lists(
        self, seeding: Seeding, near: ListedRelevance, rows: IntArray, gains: FloatArray, rest: float
    ) -> tuple[PageRankResult, ListedGains]:
        operator, spaces = self._walked.operator, self._spaces
        weights = spaces.borrow()
        transitions = ListedTransitions(operator, weights, near.gains, rest)
        transitions.know(rows, gains)
        seeds = as_seeds((seeding.nodes, seeding.masses), operator.size)
        settings = self._push_settings
        if settings.compiled and not isinstance(operator, WalkOperator):
            settings = replace(settings, compiled=False)
        walked = run_push(transitions, operator.pool, seeds, settings, None)
        known = transitions.end()
        spaces.give_back(weights)
        return walked, known

    def _by_similarity(self, ranking: Ranking | None, vector: Any, limit: int | None, reason: str) -> Ranking:
        """What the published recipes do without facts."""
        similarity = self._similarity(ranking, vector)
        held = np.flatnonzero(similarity > 0)
        ids, best = best_passages(self.graph, held, similarity[held], limit)
        return Ranking(self.name, ids, best, size=len(self.graph.passages), reason=reason)

    def _similarity(self, ranking: Ranking | None, vector: Any) -> FloatArray:
        """(P,) similarities of the passages to the query; 0 where nothing is known."""
        found, count = relevance(self.graph, ranking, vector, floor=0.0), len(self.graph.passages)
        return np.zeros(count) if found is None else found[:count]

    def _seeding(self, query: str, ranking: Ranking | None, vector: Any, kept: KeptFacts | None = None) -> Seeding:
        graph, rows = self.graph, None if kept is None else kept.rows
        if self.reset is not None and self.facts is not None:
            return reset_by_name(self.reset, graph, self.facts, vector, self._similarity(ranking, vector), rows)
        return self._with_facts(link(graph, query, ranking, self.linking), vector, kept)

    def _with_facts(self, seeding: Seeding, vector: Any, kept: KeptFacts | None) -> Seeding:
        if self.facts is None or vector is None:
            return seeding
        rows = None if kept is None else kept.rows
        nearest = nearest_entities(self.graph, self.facts, vector, self.linking.top_facts, rows)
        return seeding.plus(nearest, self.linking.fact_mass)

    def _walk(self, seeding: Seeding, node_weights: FloatArray | None) -> PageRankResult:
        operator = self.graph.operator
        seeds = as_seeds((seeding.nodes, seeding.masses), operator.size)
        transitions = (
            StaticTransitions(operator) if node_weights is None else RelevanceTransitions(operator, node_weights)
        )
        return run_push(transitions, operator.pool, seeds, self._push_settings, None)

    @lazy_property
    def _push_settings(self) -> PushSettings:
        return push_settings(self.walk.follow_probability, self.walk.tolerance, 0, None, self.walk.kernel)


def best_passages(
    graph: EntityGraph, rows: Int32Array | IntArray, scores: FloatArray, limit: int | None
) -> tuple[tuple[str, ...], FloatArray]:
    """Ids and scores of the best of the scored passages, ties by id."""
    if limit is not None and limit < len(scores):
        high = scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit]
        rows, scores = rows[high], scores[high]
    ids = [graph.passages[row] for row in rows.tolist()]
    best = top_order(scores, ids, limit)
    return tuple(ids[place] for place in best.tolist()), scores[best]


def check_source_name(name: object) -> None:
    """Refuse a source's name that is no text or blank."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidTypeError(f"name must be text that is not blank; got {name!r}")


def prepare(source: object, /) -> None:
    """Weigh the edges and load the compiled walk of a source in memory; nothing for any other source.

    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph([{"id": "a", "text": "Ada met Bo."}])
    >>> prepare(GraphSource(graph))
    >>> "operator" in vars(graph)
    True
    """
    if isinstance(source, GraphWalker):
        source.prepare()


def not_a_graph(given: object, /) -> str:
    """The message for a caller who gave something else than a graph or a source.

    >>> not_a_graph("corpus.jsonl")
    'graph must be an EntityGraph or a source (for Neo4j: EntityGraphRetriever.from_neo4j); got str'
    """
    kind = type(given).__name__
    if kind in ("GraphIndex", "GraphRecords"):
        return f"graph must be an EntityGraph or a source; got a {kind}: give its graph{'()' * (kind != 'GraphIndex')}"
    if kind == "ChunkGraph":
        return "graph must be an EntityGraph or a source; got a ChunkGraph: make a ChunkGraphSource of it"
    return f"graph must be an EntityGraph or a source (for Neo4j: EntityGraphRetriever.from_neo4j); got {kind}"


Allowed: TypeAlias = Callable[[str], object] | Collection[str]
MOST_PARTS, _FEW = 16, 8
_kept: WeakKeyDictionary[EntityGraph, Recent] = WeakKeyDictionary()
_kept_facts: WeakKeyDictionary[EntityGraph, WeakKeyDictionary[FactIndex, FactIndex]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class RestrictedGraphSource(GraphWalker):
    """A graph source that knows nothing but the allowed passages; made by :meth:`GraphSource.within`.

    Parameters
    ----------
    source : GraphSource
    allowed : callable or collection of str
        ``allowed(passage_id)`` says whether a passage may be seen; or the ids of those that may.

    Notes
    -----
    The walk runs on :func:`restrict_graph`, and rankings that seed it and embedded facts are restricted, too
    (:meth:`FactIndex.within`): what is not allowed is neither walked through nor scored, counted, returned or named.
    With nothing allowed the answer is empty. A copy is given the ids of the allowed passages.

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph([{"id": name, "text": "Ada met Bo."} for name in ("mine", "theirs")])
    >>> RestrictedGraphSource(GraphSource(graph), {"mine"}).search("Who met Bo?", 10, {}).ids
    ('mine',)
    """

    source: GraphSource
    allowed: Allowed
    _inner: GraphSource | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_kind("source", self.source, GraphSource)
        graph = restrict_graph(self.source.graph, self.allowed)
        inner = None
        if graph is not None:
            inner = replace(self.source, graph=graph, facts=_restricted_facts(self.source, graph))
        object.__setattr__(self, "_inner", inner)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source, frozenset(() if self.graph is None else self.graph.passages))

    @property
    def name(self) -> str:
        """Its name."""
        return self.source.name

    @property
    def depends_on(self) -> tuple[str, ...]:
        """Dense rankings that seed it."""
        return tuple(self.source.depends_on)

    @property
    def graph(self) -> EntityGraph | None:
        """The graph it walks; None where nothing is allowed."""
        return None if self._inner is None else self._inner.graph

    def prepare(self) -> Self:
        """As :meth:`GraphSource.prepare`."""
        if self._inner is not None:
            self._inner.prepare()
        return self

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Rank allowed passages; as :meth:`GraphSource.search`."""
        if self._inner is None:
            return Ranking(self.name, (), np.empty(0), reason="no passage of the graph is allowed")
        rows = self._inner.graph.passage_rows
        return self._inner.search(query, limit, {key: restrict_ranking(one, rows) for key, one in upstream.items()})


def restrict_graph(graph: EntityGraph, allowed: Allowed) -> EntityGraph | None:
    """The graph of the passages that are `allowed` (see :class:`RestrictedGraphSource`); None where none is left.

    Passages that are not allowed are gone, entities that only they mention too, and every frequency and weight is
    counted anew. The same value for the same passages, while it is in use.

    A graph does not record which passage states a fact. The edge between two entities is kept where every passage
    that mentions both is allowed, so that no fact of another's is walked; one that an allowed passage states, too, may
    be lost. :meth:`phasegraph.graph.index.GraphIndex.remove` keeps the records and loses none.

    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph([{"id": "a", "text": "Ada met Bo."}, {"id": "b", "text": "Cy met Bo."}])
    >>> restrict_graph(graph, {"a"}).entities
    ('ada', 'bo')
    """
    graph.check_files()
    rows = allowed_rows(graph, allowed)
    if not len(rows):
        return None
    if len(rows) == len(graph.passages):
        return graph
    part: EntityGraph = _kept.setdefault(graph, Recent(most=MOST_PARTS)).get(rows.tobytes(), lambda: _part(graph, rows))
    return part


def allowed_rows(graph: Any, allowed: Allowed) -> IntArray:
    """Rows of the passages that are allowed, ascending: of few ids, those are looked up, and no other passage is."""
    if callable(allowed):
        return np.flatnonzero([bool(allowed(name)) for name in graph.passages])
    names = allowed_ids(allowed)
    if len(names) * _FEW > len(graph.passages):
        return np.flatnonzero([name in names for name in graph.passages])
    rows = graph.passage_rows
    return np.array(sorted(row for name in names if (row := rows.get(name)) is not None), dtype=np.intp)


def _restricted_facts(source: GraphSource, part: EntityGraph) -> FactIndex | None:
    """The source's embedded facts for one who sees a part of the graph; worked out once while the part is in use."""
    facts = source.facts
    if facts is None or part is source.graph:
        return facts
    kept = _kept_facts.setdefault(part, WeakKeyDictionary())
    if facts not in kept:
        kept[facts] = facts.within(source.graph, part)
    return kept[facts]


def _part(graph: EntityGraph, rows: IntArray) -> EntityGraph:
    """The graph of these rows."""
    mentions = graph.mentions[rows]
    columns = np.unique(mentions.indices)
    vectors = graph.embeddings
    return EntityGraph(
        tuple(graph.passages[row] for row in rows.tolist()),
        tuple(graph.entities[column] for column in columns.tolist()),
        _among(mentions, columns),
        _among(graph.homes[rows], columns),
        _own_facts(graph, rows, columns),
        _among(graph.synonyms[columns], columns),
        graph.weights,
        None if vectors is None else vectors[rows],
        None if graph.lexical is None else graph.lexical.part(rows),
    )


def _among(matrix: Csr, columns: Any) -> Csr:
    """These columns, which ascend, of a matrix; read are its own entries, and not what it may have columns for."""
    there, place = within(matrix.indices, columns), np.searchsorted(columns, matrix.indices).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(there)])[matrix.indptr]
    return sparse.csr_array((matrix.data[there], place[there], starts), shape=(matrix.shape[0], len(columns)))


def _own_facts(graph: EntityGraph, rows: IntArray, columns: Any) -> Csr:
    """Facts among these entities whose two ends no passage but these mentions together."""
    facts = _among(graph.facts[columns], columns)
    pairs = facts.tocoo()
    if not pairs.nnz:
        return facts
    ends = np.unique(pairs.row)  # facts are symmetric
    hidden = _mentioning(graph, rows, columns[ends])
    shared = np.asarray(
        hidden[np.searchsorted(ends, pairs.row)].multiply(hidden[np.searchsorted(ends, pairs.col)]).sum(axis=1)
    ).ravel()
    own = shared == 0
    return sparse.csr_array((pairs.data[own], (pairs.row[own], pairs.col[own])), shape=facts.shape, dtype=facts.dtype)


def _mentioning(graph: EntityGraph, rows: IntArray, entities: Any) -> Csr:
    """(n, P) 1 where a passage that is not among `rows` mentions one of n entities.

    Read from the walk's edges, which lead from an entity to all such passages, but for those that are in too many.
    """
    walk, count = graph.operator, len(graph.passages)
    nodes = entities.astype(np.int64) + count
    degrees = walk.out_degrees.take(nodes).astype(np.int64)
    targets = walk.indices.take(ranges(walk.indptr.take(nodes), degrees)).astype(np.int64)
    owners = np.repeat(np.arange(len(nodes)), degrees)
    inside = targets < count
    targets, owners = targets[inside], owners[inside]
    found = np.bincount(owners, minlength=len(nodes))
    lacking = np.flatnonzero(found < graph.frequency[entities])
    if len(lacking):
        common = _among(graph.mentions, entities[lacking]).tocoo()
        targets, owners = np.concatenate([targets, common.row]), np.concatenate([owners, lacking[common.col]])
    seen = within(targets, rows)
    ones = np.ones(len(targets) - int(seen.sum()), dtype=np.int32)
    hidden = sparse.csr_array((ones, (owners[~seen], targets[~seen])), shape=(len(nodes), count))
    return (hidden > 0).astype(np.int32)


def allowed_ids(allowed: Any) -> frozenset[str]:
    """The ids of a collection of them."""
    if isinstance(allowed, str) or not isinstance(allowed, Collection):
        raise InvalidTypeError(f"allowed must be a function of a passage id or a collection of ids; got {allowed!r}")
    other = next((type(one).__name__ for one in allowed if not isinstance(one, str)), None)
    if other is not None:
        raise InvalidTypeError(f"allowed must hold ids of passages, which are str; it holds a value of type {other}")
    return frozenset(allowed)


def restrict_ranking(ranking: Ranking | None, rows: Mapping[str, int]) -> Ranking | None:
    """The ranking of those passages alone; None where none is left."""
    if ranking is None or all(name in rows for name in ranking.ids):
        return ranking
    places = [place for place, name in enumerate(ranking.ids) if name in rows]
    if not places:
        return None
    ids = [ranking.ids[place] for place in places]
    return Ranking(ranking.source, ids, ranking.scores[places], rank_only=ranking.rank_only)


def passage_ids(source: object, /) -> Sequence[str]:
    """Ids of the passages that ``within`` of a `GraphSource`, or of a source with ``passage_ids()``, may be given.

    >>> from phasegraph.graph import build_graph
    >>> passage_ids(GraphSource(build_graph([{"id": "a", "text": "Ada met Bo."}])))
    ('a',)
    """
    if isinstance(source, GraphSource):
        return source.graph.passages
    listed = getattr(source, "passage_ids", None)
    if not callable(listed) or not callable(getattr(source, "within", None)):
        raise InvalidInputError(f"a {type(source).__name__} cannot be filtered; give each tenant a corpus of its own")
    ids: Sequence[str] = listed()
    return ids
