"""The entity graph as a source: link, walk, rank, and say how each passage was reached."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import FloatArray, IntArray
from phasegraph._support.validation import check_count, check_flag, check_names, check_query
from phasegraph.errors import InvalidInputError
from phasegraph.graph.model.entity_graph import EntityGraph, check_kind
from phasegraph.graph.walk.clauses import FEWEST_BY_VECTORS, FEWEST_BY_WORDS, clause_relevance, clauses
from phasegraph.graph.walk.covering import LocalIds, covering, seeds_by_words
from phasegraph.graph.walk.documents import neighbour_support, spread_over_documents
from phasegraph.graph.walk.fact_filter import FactFilter, KeepFacts, KeptFacts, kept_facts
from phasegraph.graph.walk.facts import FactIndex, nearest_entities
from phasegraph.graph.walk.linking import Seeding, both_seeds, link, name_words, named_seeds, query_entities
from phasegraph.graph.walk.listed import (
    COMPARED,
    MUCH,
    WORDS_LISTED,
    ListedGains,
    ListedRelevance,
    ListedSpaces,
    ListedTransitions,
    LocalTerms,
    in_any_order,
    within,
)
from phasegraph.graph.walk.paths import WalkPaths
from phasegraph.graph.walk.relevance import FLOOR, entered, relevance, relevance_by_words
from phasegraph.graph.walk.resets import NO_FACTS, RESETS, reset_by_name
from phasegraph.graph.walk.restricting import Allowed, restrict_graph, restrict_ranking, restricted_facts
from phasegraph.graph.walk.scoring import (
    DEPTH,
    NO_SPREAD,
    balanced,
    fiftieth,
    moments,
    part_worths,
    passage_scores,
    published,
)
from phasegraph.graph.walk.settings import LinkSettings, WalkSettings, WordSettings
from phasegraph.graph.walk.trust import FIRST, LINKED, linked_share
from phasegraph.graph.walk.walker import Embedder, GraphWalker, best_passages, check_embedder, check_source_name
from phasegraph.lexical import LexicalIndex
from phasegraph.pagerank import PageRankResult, WalkOperator
from phasegraph.pagerank.push import PushSettings, RelevanceTransitions, StaticTransitions, as_seeds, run_push
from phasegraph.pagerank.solve import push_settings
from phasegraph.ranking import Background, QueryWords, Ranking
from phasegraph.sources.protocol import Upstream


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
    embed_clauses : bool, default False
        Whether a question of several clauses is compared with passages clause by clause, too: one more embedding for
        each clause. The words of the clauses of a long question count in any case.

    Notes
    -----
    With words, a passage's relevance is its cosine plus .2 of its share of the best BM25 score. Seeds are relevant
    passages that have different words of the query, edges are weighed by the relevance of the passage they lead to and
    by what it has of the query's words besides its names, and a score is the logarithm of
    ``(mass + floor) * relevance ** closeness``, balanced with cosines and BM25 as far as the walk followed no links
    (:mod:`~phasegraph.graph.walk.scoring`), with the support of its neighbours in a document
    (:mod:`~phasegraph.graph.walk.documents`), plus what the passage adds to the query's words and clauses that the
    passages before it answer; its exponential is published. The method is ours
    (``docs/research/lexical-walk.md``, ``docs/research/ordinary-documents.md``).

    Without, a score is ``(mass + floor) * similarity ** closeness``, or the mass alone where no similarity is known
    (see `relevance`). Ranked are the passages that the walk reached, that have a word of the query, or whose cosine is
    known. The background is the mean and the standard deviation of the walk's logarithm over all passages. A
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
    embed_clauses: bool = False

    def __post_init__(self) -> None:
        check_kind("graph", self.graph, EntityGraph)
        check_flag("GraphSource.embed_clauses", self.embed_clauses)
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
        low = fiftieth(logs)
        logs -= low
        trust = self._trust(walked, graph, node_weights, seeding, logs)
        parts = self._parts(
            self._clauses(query),
            lambda clause: lexical.look_up(clause).scores,
            lambda embedded: np.asarray(relevance(graph, None, embedded, floor=-1.0))[:size],
        )
        scores = balanced(logs, cosines, terms.scores, trust, parts)
        scores += (1 - trust) * neighbour_support(scores, graph)
        worths = None if parts is None else part_worths(parts, logs, trust)
        heard |= mass > 0
        wanted = None if limit is None else max(limit, DEPTH)
        order, values = covering(scores, np.flatnonzero(heard), graph.passages, terms, wanted, settings, worths)
        order, values = spread_over_documents(order, values, graph, 1 - trust)
        ids, values = tuple(graph.passages[row] for row in order[:limit].tolist()), values[:limit]
        mean, spread = moments(logs)
        behind = Background(mean + low, spread, "log") if spread > NO_SPREAD else None
        paths = WalkPaths(graph, walked, seeding, node_weights, ids, self.walk.follow_probability, terms)
        reason = "" if ids else "the walk from the query's seeds reaches no passage"
        return Ranking(
            self.name,
            ids,
            published(values + low),
            background=behind,
            size=size,
            payloads=paths,
            reason=reason,
            words=stated,
        )

    def _clauses(self, query: str) -> tuple[str, ...]:
        """The clauses of a question, if there are enough of them to read the question by clauses."""
        found = clauses(query)
        return found if len(found) >= (FEWEST_BY_VECTORS if self.embed_clauses else FEWEST_BY_WORDS) else ()

    def _parts(
        self,
        asked: Collection[str],
        words_of: Callable[[str], FloatArray],
        cosines_of: Callable[[Any], FloatArray],
    ) -> FloatArray | None:
        """(c, n) relevance of passages to each clause; None without clauses."""
        if not asked:
            return None
        embed = self.embedder if self.embed_clauses and self.graph.embeddings is not None else None
        vectors = [] if embed is None else [cosines_of(embed(clause)) for clause in asked]
        return clause_relevance([words_of(clause) for clause in asked], vectors)

    def _trust(
        self,
        walked: PageRankResult,
        graph: EntityGraph,
        node_weights: Any,
        seeding: Seeding,
        logs: FloatArray,
        rows: IntArray | None = None,
    ) -> float:
        """How far the walk alone decides, in [0, 1]; `rows` are the passages of `logs` where they are not all."""
        best = np.argsort(-logs, kind="stable")[:FIRST]
        best = best if rows is None else rows[best]
        share = linked_share(walked, graph, node_weights, seeding, best, self.walk.follow_probability)
        return min(share / LINKED, 1.0)

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
        asked = {clause: lexical.look_up_listed(clause, DEPTH) for clause in self._clauses(query)}
        foremost = near.of(
            np.unique(np.concatenate([near.listed, terms.found, *(one.found for one in asked.values())]))
        )
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
        low = fiftieth(logs)
        logs -= low
        local = LocalTerms(terms, looked)
        trust = self._trust(walked, graph, gains, seeding, logs, rows)
        parts = self._parts(
            asked,
            lambda clause: in_any_order(asked[clause].scores_of, rows),
            lambda embedded: near.cosines_to(embedded, rows),
        )
        scores = balanced(logs, looked.cosines, looked.words, trust, parts)
        scores += (1 - trust) * neighbour_support(scores, graph, rows)
        worths = None if parts is None else part_worths(parts, logs, trust)
        heard = np.ones(len(rows), dtype=np.bool_)
        if near.unit is None:
            heard = (masses > 0) | (looked.words > 0) | within(rows, near.listed)
        wanted = None if limit is None else max(limit, DEPTH)
        found, values = covering(
            scores, np.flatnonzero(heard), LocalIds(graph.passages, rows), local, wanted, settings, worths
        )
        order, values = spread_over_documents(rows[found], values, graph, 1 - trust)
        ids, values = tuple(graph.passages[row] for row in order[:limit].tolist()), values[:limit]
        mean, spread = moments(logs, standing)
        behind = Background(mean + low, spread, "log") if spread > NO_SPREAD else None
        paths = WalkPaths(graph, walked, seeding, gains, ids, self.walk.follow_probability, terms)
        reason = "" if ids else "the walk from the query's seeds reaches no passage"
        return Ranking(
            self.name, ids, published(values + low), background=behind, size=count, payloads=paths, reason=reason,
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
            inner = replace(
                self.source, graph=graph, facts=restricted_facts(self.source.facts, self.source.graph, graph)
            )
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
