"""A source that ranks the passages of an entity graph by a walk, and explains the path to each passage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from phasegraph._support.ordering import best_rows
from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_count, check_flag, check_names, check_query
from phasegraph.errors import InvalidInputError
from phasegraph.graph.model.entity_graph import EntityGraph, check_kind
from phasegraph.graph.walk.all_passages import AllPassages
from phasegraph.graph.walk.batch import Steps, in_step
from phasegraph.graph.walk.clauses import FEWEST_BY_VECTORS, FEWEST_BY_WORDS, clause_relevance, clauses
from phasegraph.graph.walk.compared import Comparison, NodeWeights, PassageFeatures
from phasegraph.graph.walk.covering import seeds_by_words
from phasegraph.graph.walk.fact_filter import FactFilter, KeepFacts, KeptFacts, kept_facts
from phasegraph.graph.walk.facts import FactIndex, nearest_entities
from phasegraph.graph.walk.linking import Seeding, both_seeds, link, name_words, named_seeds, query_entities
from phasegraph.graph.walk.listed import COMPARED, WORDS_LISTED, ListedPassages
from phasegraph.graph.walk.listed_spaces import ListedSpaces
from phasegraph.graph.walk.listed_walk import ListedTransitions
from phasegraph.graph.walk.order import order_passages
from phasegraph.graph.walk.paths import WalkPaths
from phasegraph.graph.walk.question import Question
from phasegraph.graph.walk.relevance import FLOOR, relevance
from phasegraph.graph.walk.resets import NO_FACTS, RESETS, reset_by_name
from phasegraph.graph.walk.restricted_source import RestrictedGraphSource
from phasegraph.graph.walk.restricting import Allowed, restrict_graph, restricted_facts
from phasegraph.graph.walk.scoring import NO_SPREAD, fiftieth, final_scores, moments, passage_scores
from phasegraph.graph.walk.settings import LinkSettings, WalkSettings, WordSettings
from phasegraph.graph.walk.trust import FIRST, LINKED, linked_share
from phasegraph.graph.walk.walker import (
    Embedder,
    GraphWalker,
    best_passages,
    check_embedder,
    check_source_name,
    walk_from,
)
from phasegraph.pagerank import PageRankResult
from phasegraph.pagerank.push import PushSettings, as_seeds, run_push
from phasegraph.pagerank.solve import push_settings
from phasegraph.ranking import Background, QueryWords, Ranking
from phasegraph.sources.protocol import Upstream


@dataclass(frozen=True, eq=False)
class GraphSource(GraphWalker):
    """A source that ranks passages by personalized PageRank, starting from the query's seeds.

    Parameters
    ----------
    graph : EntityGraph
        The graph of passages and entities to walk.
    name : str, default "graph"
        Name of the source in rankings and reports.
    depends_on : sequence of str, default ("vector",)
        Names of sources whose dense rankings can supply seeds; the first available ranking is used. Without a ranking,
        the seeds are the entities that the query names, and passages with query words.
    embedder : callable, optional
        ``embedder(query) -> (d,) vector``. With `graph.embeddings`, the walk prefers passages near the query. Without
        an embedder, it prefers passages with a high score in the dense ranking that supplies the seeds.
    linking : LinkSettings
        Settings for the choice of seeds and for the seeds' masses.
    walk : WalkSettings
        Settings for the walk and for the scores of passages.
    words : WordSettings, optional
        Settings for the query's words, if the graph has a BM25 index. The query's words have no effect with None, with
        a `reset`, or with ``WalkSettings(relevance=False)``.
    facts : FactIndex, optional
        Embedded facts of the graph, embedded names, or both (``FactIndex.of``, ``of_names``, ``plus``). With an
        embedder, the entities of the facts and names nearest to the query are additional seeds.
    reset : {"hipporag2", "semflowrag", "semflowrag-paper"}, optional
        A published reset distribution instead of phasegraph's; needs `facts` and `embedder`. For the walk of HippoRAG
        2, also pass ``walk=WalkSettings(follow_probability=0.5, relevance=False)``. For the directed walk of
        SemFlowRAG, use :class:`~phasegraph.graph.experimental.semflow.SemFlowSource`. If there are no facts, passages
        are ranked by similarity, as published; `Ranking.reason` then says so.
    fact_filter : FactFilter or callable, optional
        A function ``keep(query, facts) -> facts`` that chooses which of the nearest `facts` seed the walk, for example
        with a language model; see :class:`FactFilter`. If the filter returns no fact, passages are ranked by
        similarity, as published.
    embed_clauses : bool, default False
        If True, each clause of a question is also embedded and compared with passages; this costs one embedding per
        clause. BM25 scores for the clauses of a long question count in any case.

    Notes
    -----
    The mass of a node is its personalized PageRank. If the query's words have an effect, the relevance of a passage is
    its cosine plus .2 times its BM25 score divided by the best BM25 score. The steps of a search are:

    1. The seeds are the entities that the query names, and relevant passages that together contain many query words.
    2. The walk starts at the seeds. The weight of an edge is multiplied by the relevance of its target passage. The
       weight is greater if the passage contains query words that are not part of a name in the query.
    3. The log score of a passage is ``log((mass + floor) * relevance ** closeness)``.
    4. The less the walk's mass followed links between passages, the more cosine and BM25 score count beside the walk
       (:mod:`~phasegraph.graph.walk.scoring`).
    5. Good neighbors in the same document, and query words in the text around a chunk, raise the log score
       (:mod:`~phasegraph.graph.walk.documents`).
    6. The log score rises if the passage contains query words that no better passage contains, or answers a clause that
       no better passage answers.

    The score in the ranking is the exponential of the log score. This method is our own
    (``docs/research/lexical-walk.md``, ``docs/research/ordinary-documents.md``).

    If the query's words have no effect, a score is ``(mass + floor) * similarity ** closeness``. If no similarity is
    known, or with ``WalkSettings(relevance=False)``, the score is the mass.

    The ranking contains the passages that the walk reached, passages with a query word, and passages with a known
    cosine. The background is the mean and the standard deviation of step 3's logarithms over all passages. The payload
    of a passage is its :class:`WalkPath`.

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
                raise InvalidInputError(
                    f"reset={self.reset!r} needs facts= and embedder=: give both, or leave out reset="
                )
        object.__setattr__(self, "fact_filter", FactFilter.of(self.fact_filter))
        if self.fact_filter is not None and (self.facts is None or self.embedder is None):
            raise InvalidInputError("fact_filter= needs facts= and embedder=: give both, or leave out fact_filter=")
        object.__setattr__(self, "depends_on", check_names("depends_on", self.depends_on))

    def prepare(self) -> Self:
        """Prepare the first search: compute the edge weights, read the names, and compile the walk.

        Without this call, the first search is slower, by some seconds if numba compiles the walk. The results are the
        same.
        """
        graph = self._walked
        if not graph.count:
            return self
        graph.check_files()
        query_entities(graph, graph.passages[0])
        if self.words is not None and graph.lexical is not None:
            graph.lexical.look_up_listed(graph.passages[0], WORDS_LISTED)
        if graph is not self.graph:  # compile the walk over the edges of a change log
            weights = np.ones(len(graph.passages))
            transitions = ListedTransitions(graph.operator, weights, weights.take, 1.0)
            seeds = as_seeds(([0], [1.0]), graph.operator.size)
            run_push(transitions, graph.operator.pool, seeds, self._push_settings, None)
            return self
        if self.reset is None:
            first = Ranking(self.name, graph.passages[:1], np.ones(1))
            self._seeding(Question(graph.passages[0], first, None, None))
        if self.words is not None and graph.lexical is not None and len(graph.passages) <= COMPARED:
            graph.lexical.look_up(graph.passages[0])
        seed = Seeding(np.zeros(1, dtype=np.intp), np.ones(1))
        if not self._has_words:
            self._walk(seed, None)
        if self.walk.relevance:  # compile the walk with node weights, too; not every query uses node weights
            self._walk(seed, np.ones(graph.size))
        return self

    @lazy_property
    def _has_words(self) -> bool:
        """True if the query's words affect the walk."""
        known = self.words is not None and self._walked.lexical is not None
        return known and self.reset is None and self.walk.relevance

    @lazy_property
    def _walked(self) -> EntityGraph:
        """The graph that a search walks if it scores only some passages (``WalkSettings(compare="listed")``).

        Without embedded facts, it is a view that reads the base graph and a change log without merging them. With
        embedded facts, it is the graph into which a change log is merged.
        """
        return self.graph.view if self.facts is None else self.graph

    def passage_ids(self) -> Sequence[str]:
        """Return the ids of all passages; :meth:`within` accepts these ids."""
        return self.graph.passages

    def within(self, allowed: Allowed) -> RestrictedGraphSource:
        """Restrict the source to passages that a caller may see.

        Parameters
        ----------
        allowed : callable or collection of str
            A function ``allowed(passage_id)``, or the ids of the allowed passages.

        Returns
        -------
        RestrictedGraphSource
        """
        graph = restrict_graph(self.graph, allowed)
        inner = None
        if graph is not None:
            inner = replace(self, graph=graph, facts=restricted_facts(self.facts, self.graph, graph))
        return RestrictedGraphSource(self, inner)

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Rank passages for `query`; parameters and result as in :meth:`phasegraph.sources.Source.search`."""
        return in_step([self._steps(query, upstream, limit)])[0]

    def search_batch(self, queries: Sequence[str], limit: int | None, upstreams: Sequence[Upstream]) -> list[Ranking]:
        """Rank passages for each of several queries; the rankings equal the results of :meth:`search`.

        A batch is faster, because a step runs for all queries before the next step begins. The memory is proportional
        to the number of queries.

        Parameters
        ----------
        queries : sequence of str
            The queries.
        limit : int or None
            Maximum number of passages in a ranking; None for all passages.
        upstreams : sequence of mapping
            The rankings of other sources by their name, for each query.

        Returns
        -------
        list of Ranking
            A ranking for each query.

        Raises
        ------
        InvalidInputError
            If a query or `limit` is invalid, or if there are more or fewer `upstreams` than queries.

        Examples
        --------
        >>> from phasegraph.graph import build_graph
        >>> source = GraphSource(build_graph([{"id": "man", "title": "Ada", "text": "Ada met Bo."}]))
        >>> [found.ids for found in source.search_batch(["Who met Bo?", "Who is Cy?"], 10, [{}, {}])]
        [('man',), ()]
        """
        asked = check_names("queries", queries)
        if len(asked) != len(upstreams):
            raise InvalidInputError(
                f"upstreams must have a mapping for each of {len(asked)} queries; got {len(upstreams)} mappings"
            )
        return in_step([self._steps(*each, limit) for each in zip(asked, upstreams, strict=True)])

    def _steps(self, query: str, upstream: Upstream, limit: int | None) -> Steps:
        """Search as :meth:`search` does, and pause before and after the walk."""
        query = check_query(query)
        if limit is not None:
            limit = check_count("limit", limit, minimum=1)
        if self.graph.mapped:
            self.graph.check_files()
        ranking = next((found for name in self.depends_on if (found := upstream.get(name)) is not None), None)
        question = Question(query, ranking, None if self.embedder is None else self.embedder(query), limit)
        if self.reset is not None and self.facts is not None and not len(self.facts.ends):
            return self._by_similarity(question, NO_FACTS)
        kept = self._kept_facts(question)
        if kept is not None and kept.none:
            return self._by_similarity(question, kept.note)
        found = yield from self._walked_ranking(replace(question, kept=kept))
        if kept is None or not kept.note:
            return found
        return replace(found, reason="; ".join(filter(None, (kept.note, found.reason))))

    def _kept_facts(self, question: Question) -> KeptFacts | None:
        """Return the facts nearest to the query that the fact filter accepts; None without facts, vector or filter."""
        if self.facts is None or question.vector is None or not isinstance(self.fact_filter, FactFilter):
            return None
        top = self.linking.top_facts if self.reset is None else RESETS[self.reset].top_facts
        near = self.facts.near(question.vector)
        return kept_facts(self.fact_filter, question.query, self.graph, self.facts, near, top)

    def _walked_ranking(self, question: Question) -> Steps:
        """Rank passages by a walk from the query's seeds and the entities of the facts that the fact filter kept."""
        if self._has_words and self.words is not None:
            return (yield from self._compared_ranking(question, self.words))
        seeding = self._seeding(question)
        size = len(self.graph.passages)
        if not len(seeding):
            return Ranking(self.name, (), np.empty(0), size=size, reason=seeding.reason)
        node_weights = relevance(self.graph, question.ranking, question.vector) if self.walk.relevance else None
        walked = self._walk(seeding, node_weights)
        settings = self.walk
        rows, scores, behind = passage_scores(
            walked, node_weights, size, floor=settings.floor, closeness=settings.closeness
        )
        ids, best = best_passages(self.graph, rows, scores, question.limit)
        paths = WalkPaths(self.graph, walked, seeding, node_weights, ids, settings.follow_probability)
        reason = "" if ids else "the walk from the query's seeds reaches no passage"
        return Ranking(self.name, ids, best, background=behind, size=size, payloads=paths, reason=reason)

    def _compared_ranking(self, question: Question, words: WordSettings) -> Steps:
        """Rank passages by a walk that uses the query's words; score all passages or only listed passages."""
        compared = self._comparison(question, words)
        graph = compared.graph
        named = named_seeds(graph, question.query, self.linking)
        seeding = self._compared_seeding(question, words, compared, named)
        share = float(named.masses[graph.anchored[named.nodes - len(graph.passages)]].sum())
        stated = QueryWords(compared.terms.all_idf, min(share, 1.0), compared.tokenizer)
        if not len(seeding):
            return Ranking(self.name, (), np.empty(0), size=graph.count, reason=seeding.reason, words=stated)
        names = name_words(graph, named, compared.tokenizer)
        yield
        walked, weights = compared.walk(seeding, names, stated.named, self._push_settings)
        yield
        features, masses = compared.reached(walked, weights)
        logs = np.log(masses + self.walk.floor) + self.walk.closeness * np.log(np.maximum(features.near, FLOOR))
        low = fiftieth(logs)
        logs -= low
        trust = self._trust(walked, features, weights, seeding, logs, masses)
        heard = np.flatnonzero(features.known | (masses > 0))
        parts = self._parts(compared, features)
        rows, values = order_passages(features, logs, heard, parts, trust, question, words)
        ids = tuple(graph.ids_at(rows))
        mean, spread = moments(logs, features.standing)
        return Ranking(
            self.name,
            ids,
            final_scores(values + low),
            background=Background(mean + low, spread, "log") if spread > NO_SPREAD else None,
            size=graph.count,
            payloads=WalkPaths(graph, walked, seeding, weights, ids, self.walk.follow_probability, compared.terms),
            reason="" if ids else "the walk from the query's seeds reaches no passage",
            words=stated,
        )

    def _compared_seeding(
        self, question: Question, words: WordSettings, compared: Comparison, named: Seeding
    ) -> Seeding:
        """Return the seeds: entities that the query names, and passages that together contain many query words.

        `named` are the seeds among the entities. The entities of the nearest facts are also seeds.
        """
        foremost, link_by = compared.foremost(), self.linking
        near = np.where(foremost.known, foremost.near, 0.0)
        places, masses = seeds_by_words(
            near, foremost.terms, foremost.ids, link_by.seed_passages, link_by.sharpness, words
        )
        handed = (
            "no ranking was handed over" if question.ranking is None else "the ranking contains no passage of the graph"
        )
        lost = f"the query names no entity of the graph, has no word of a passage, and {handed}"
        seeding = both_seeds(Seeding(foremost.rows_at(places).astype(np.intp), masses), named, lost)
        return self._with_facts(seeding, question)

    def _comparison(self, question: Question, words: WordSettings) -> Comparison:
        """Return the comparison of the query with all passages, or only with listed passages (:meth:`_listed`)."""
        asked = self._clauses(question.query)
        if not self._listed(question):
            return AllPassages(self.graph, question, asked, words)
        return ListedPassages(self._walked, question, asked, words, self._spaces)

    def _clauses(self, query: str) -> tuple[str, ...]:
        """Return the clauses of a question; an empty tuple if the question has too few clauses."""
        found = clauses(query)
        return found if len(found) >= (FEWEST_BY_VECTORS if self.embed_clauses else FEWEST_BY_WORDS) else ()

    def _parts(self, compared: Comparison, features: PassageFeatures) -> FloatArray | None:
        """Compute the relevance of n passages to each of c clauses, an array of shape (c, n); None without clauses."""
        asked = compared.clauses
        if not asked:
            return None
        embed = self.embedder if self.embed_clauses and compared.graph.embeddings is not None else None
        vectors = [] if embed is None else [compared.cosines_to(embed(clause), features) for clause in asked]
        return clause_relevance([compared.words_for(clause, features) for clause in asked], vectors)

    def _trust(
        self,
        walked: PageRankResult,
        features: PassageFeatures,
        weights: NodeWeights,
        seeding: Seeding,
        logs: FloatArray,
        masses: FloatArray,
    ) -> float:
        """Compute the trust in the walk, in [0, 1]: the weight of the walk's scores beside cosines and BM25 scores."""
        places = best_rows(logs, FIRST)
        best = features.rows_at(places)
        order = best.argsort()
        best, own = best[order], masses[places[order]]
        share = linked_share(walked, features.graph, weights, seeding, best, own, self.walk.follow_probability)
        return min(share / LINKED, 1.0)

    def _listed(self, question: Question) -> bool:
        """Return True if the query is compared only with listed passages; see ``WalkSettings.compare``."""
        if self.walk.compare != "auto":
            return self.walk.compare == "listed"
        graph = self._walked
        seeded = question.ranking is not None or question.vector is None or graph.embeddings is None
        return graph.count > COMPARED and question.limit is not None and seeded

    @lazy_property
    def _spaces(self) -> ListedSpaces:
        return ListedSpaces(self._walked)

    def _by_similarity(self, question: Question, reason: str) -> Ranking:
        """Rank passages by similarity, as the published methods do without facts; `reason` is the ranking's reason."""
        similarity = self._similarity(question)
        held = np.flatnonzero(similarity > 0)
        ids, best = best_passages(self.graph, held, similarity[held], question.limit)
        return Ranking(self.name, ids, best, size=len(self.graph.passages), reason=reason)

    def _similarity(self, question: Question) -> FloatArray:
        """Compute the similarity of each passage to the query, an array of shape (P,); 0 if it is unknown."""
        found = relevance(self.graph, question.ranking, question.vector, floor=0.0)
        count = len(self.graph.passages)
        return np.zeros(count) if found is None else found[:count]

    def _seeding(self, question: Question) -> Seeding:
        if self.reset is not None and self.facts is not None:
            rows = None if question.kept is None else question.kept.rows
            near = self._similarity(question)
            return reset_by_name(self.reset, self.graph, self.facts, question.vector, near, rows)
        return self._with_facts(link(self.graph, question.query, question.ranking, self.linking), question)

    def _with_facts(self, seeding: Seeding, question: Question) -> Seeding:
        if self.facts is None or question.vector is None:
            return seeding
        rows = None if question.kept is None else question.kept.rows
        nearest = nearest_entities(self.graph, self.facts, question.vector, self.linking.top_facts, rows)
        return seeding.plus(nearest, self.linking.fact_mass)

    def _walk(self, seeding: Seeding, weights: FloatArray | None) -> PageRankResult:
        return walk_from(self.graph.operator, seeding, weights, self._push_settings)

    @lazy_property
    def _push_settings(self) -> PushSettings:
        return push_settings(self.walk.follow_probability, self.walk.tolerance, 0, None, self.walk.kernel)
