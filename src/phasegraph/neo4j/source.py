"""A source that walks the graph of a corpus in Neo4j, and a function that opens any graph in Neo4j as a source."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from phasegraph._support.ordering import top_order
from phasegraph._support.shared import fork_safe_lock
from phasegraph._support.validation import check_choice, check_count, check_flag, check_names, check_query
from phasegraph.errors import InvalidInputError, InvalidTypeError, StoreError
from phasegraph.graph.model.entity_graph import EdgeWeights
from phasegraph.graph.walk.linking import Seeding, link
from phasegraph.graph.walk.paths import WalkPaths
from phasegraph.graph.walk.relevance import relevance
from phasegraph.graph.walk.restricting import Allowed, allowed_ids, restrict_ranking
from phasegraph.graph.walk.scoring import background, passage_scores
from phasegraph.graph.walk.settings import LinkSettings, WalkSettings
from phasegraph.graph.walk.source import GraphSource
from phasegraph.neo4j.connection import BULK_SECONDS, Neo4jConnection, check_connection
from phasegraph.neo4j.edge_cache import KeptEdges, PartialGraph
from phasegraph.neo4j.gds import corpus_state, has_gds, project, walk_corpus
from phasegraph.neo4j.reading import read_graph
from phasegraph.neo4j.remote_walk import (
    COUNT_ALLOWED,
    PASSAGE_IDS,
    STAMP,
    FetchSettings,
    LocalWalk,
    NeighbourhoodWalk,
    Stamp,
    look_up,
    stamp_of,
)
from phasegraph.neo4j.schema import PHASEGRAPH, GraphSchema, detect_schema, schema_named
from phasegraph.neo4j.writing import existing_corpus
from phasegraph.pagerank import PageRankResult
from phasegraph.ranking import Ranking
from phasegraph.sources.protocol import Source, Upstream

MOST_VIEWS = 16
EDGES_OF_A_VIEW = 100_000


@dataclass(frozen=True, eq=False)
class View:
    """The passages of a corpus that a caller may see, with a cache of the edges of their graph."""

    allowed: tuple[str, ...] | None  # sorted ids of the allowed passages; None: all passages
    count: int  # number of allowed passages in the corpus
    kept: KeptEdges = field(default_factory=KeptEdges)  # edges with weights from the allowed passages alone


class CorpusMemory:
    """A thread-safe cache of the passage ids of a corpus, and of the most recently used views; a copy is empty.

    A view is a set of allowed passages with its cached edges (:class:`View`). The cache is emptied when the corpus
    changes.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._stamp: Stamp | None = None
        self._ids: tuple[str, ...] | None = None
        self._views: OrderedDict[frozenset[str] | None, View] = OrderedDict()

    def __reduce__(self) -> tuple[Any, ...]:
        return CorpusMemory, ()

    def view(self, connection: Neo4jConnection, corpus: str, stamp: Stamp, allowed: frozenset[str] | None) -> View:
        """Return the view of the `allowed` passages; it is cached until the corpus changes.

        `stamp` identifies the current state of the corpus. If `allowed` is None, all passages are allowed.
        """
        with self._lock:
            self._settle(stamp)
            found = self._views.get(allowed)
            if found is not None:
                self._views.move_to_end(allowed)
                return found
        ids = None if allowed is None else tuple(sorted(allowed))
        if ids is None:
            made = View(None, corpus_state(connection, corpus)[0])
        else:
            rows = connection.read(COUNT_ALLOWED, {"corpus": corpus, "allowed": ids}) if ids else [[0]]
            made = View(ids, int(rows[0][0]) if rows else 0, KeptEdges(EDGES_OF_A_VIEW))
        with self._lock:
            self._settle(stamp)
            made = self._views.setdefault(allowed, made)
            while len(self._views) > MOST_VIEWS:
                self._views.popitem(last=False)
        return made

    def ids(self, connection: Neo4jConnection, corpus: str) -> tuple[str, ...]:
        """Return the sorted ids of all passages of a corpus; they are cached until the corpus changes."""
        rows = connection.read(STAMP, {"corpus": corpus})
        if not rows:
            raise _gone(corpus)
        stamp = stamp_of(*rows[0])
        with self._lock:
            self._settle(stamp)
            found = self._ids
        if found is None:
            rows = connection.read(PASSAGE_IDS, {"corpus": corpus}, timeout=BULK_SECONDS)
            found = tuple(sorted(str(row[0]) for row in rows))
            with self._lock:
                if stamp == self._stamp:
                    self._ids = found
        return found

    def _settle(self, stamp: Stamp) -> None:
        if stamp != self._stamp:
            self._stamp, self._ids = stamp, None
            self._views.clear()


def _gone(corpus: str) -> StoreError:
    return StoreError(f"the corpus {corpus!r:.60} does not exist: it was dropped, or write_graph has not written it")


Method = Literal["neighbourhood", "gds"]
_NOTHING = "no passage of the graph is allowed"


@dataclass(frozen=True, eq=False)
class Neo4jGraphSource:
    """A source that ranks passages by walking the graph of a corpus in Neo4j, without loading the whole graph.

    Parameters
    ----------
    connection : Neo4jConnection
        The connection to the database. Its timeout limits each statement of a search.
    corpus : str
        Name of a corpus that `write_graph` wrote.
    name : str, default "graph"
        Name of the source in rankings and reports.
    depends_on : sequence of str, default ("vector",)
        Names of sources whose hits are seeds of the walk; the first source with a ranking is used.
    method : {"neighbourhood", "gds"}, default "neighbourhood"
        ``neighbourhood`` fetches the edges that the walk needs, and walks in this process. ``gds`` walks the whole
        corpus in the server and needs its Graph Data Science library (GDS); edge weights then do not depend on the
        query, as with ``WalkSettings(relevance=False)``.
    linking : LinkSettings
        Settings for the choice of seeds.
    walk : WalkSettings
        Settings for the walk and for the scores of passages.
    weights : EdgeWeights
        Parameters that convert counts to edge weights.
    fetch : FetchSettings
        The limits for fetching edges.
    allowed : callable or collection of str, optional
        The passages that may be seen, as for :meth:`within`; default all passages.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is out of range.

    Notes
    -----
    Scores, background and paths equal those of ``GraphSource(words=None)`` over the same corpus. If a walk needs more
    nodes than `FetchSettings.nodes` or more time than the timeout, it stops early. `Ranking.reason` then states the
    share of the mass at nodes that were not fetched. Edges are cached until the corpus changes; the cache does not
    affect answers. The source can be pickled if its connection, and `allowed` if it is a function, can be pickled. The
    cache is not pickled.
    """

    connection: Neo4jConnection
    corpus: str
    name: str = "graph"
    depends_on: Sequence[str] = ("vector",)
    method: Method = "neighbourhood"
    linking: LinkSettings = field(default_factory=LinkSettings)
    walk: WalkSettings = field(default_factory=WalkSettings)
    weights: EdgeWeights = field(default_factory=EdgeWeights)
    fetch: FetchSettings = field(default_factory=FetchSettings)
    allowed: Allowed | None = field(default=None, repr=False)
    _memory: CorpusMemory = field(default_factory=CorpusMemory, init=False, repr=False)

    def __post_init__(self) -> None:
        check_connection(self.connection)
        for label in ("corpus", "name"):
            value = getattr(self, label)
            if not isinstance(value, str) or not value.strip():
                raise InvalidTypeError(f"{label} must be a name that is not blank; got {value!r:.40}")
        check_choice("method", self.method, ("neighbourhood", "gds"))
        object.__setattr__(self, "depends_on", check_names("depends_on", self.depends_on))
        if self.allowed is not None:
            if self.method == "gds":
                raise InvalidInputError(
                    "method='gds' cannot restrict a walk to some passages (allowed=, within): use "
                    "method='neighbourhood'"
                )
            object.__setattr__(self, "allowed", self.allowed if callable(self.allowed) else allowed_ids(self.allowed))

    def within(self, allowed: Allowed) -> Neo4jGraphSource:
        """Return a copy of the source for a caller who may see only some passages.

        Parameters
        ----------
        allowed : callable or collection of str
            The ids of the allowed passages, which become a parameter of every statement; or a function
            ``allowed(passage_id)`` that returns whether a passage is allowed. The function is called for every id of
            the corpus; the ids are cached until the corpus changes. If this source is restricted already, a passage
            must satisfy both restrictions.

        Returns
        -------
        Neo4jGraphSource
            A source that does not fetch, walk through, score, count, return or name any other passage. A walk follows a
            fact only if an allowed passage states it. The new source shares the cache of this source.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If `allowed` is neither a function nor a collection of ids, or the method is "gds".
        """
        checked = allowed if callable(allowed) else allowed_ids(allowed)
        made = replace(self, allowed=checked if self.allowed is None else _both(self.allowed, checked))
        object.__setattr__(made, "_memory", self._memory)
        return made

    def passage_ids(self) -> tuple[str, ...]:
        """Return the sorted ids of the allowed passages; the ids are cached until the corpus changes."""
        ids = self._memory.ids(self.connection, self.corpus)
        seen = self._seen()
        return ids if seen is None else tuple(one for one in ids if one in seen)

    def verify(self) -> int:
        """Return the number of allowed passages; raise an error if the corpus has no passages or cannot be walked."""
        count, _ = corpus_state(self.connection, self.corpus)
        if not count:
            raise InvalidInputError(f"the corpus {self.corpus!r:.60} has no passages: write passages with write_graph")
        if self.method == "gds":
            if not has_gds(self.connection):
                raise InvalidInputError(
                    "method='gds' needs the Graph Data Science library, which the server lacks: install it, or use "
                    "method='neighbourhood'"
                )
            project(self.connection, self.corpus, self.weights)
        seen = self._seen()
        if seen is None:
            return count
        _, stamp = look_up(self.connection, self.corpus, "", (), seen)
        return self._memory.view(self.connection, self.corpus, stamp, seen).count

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Rank passages for `query`; parameters and result as in :meth:`phasegraph.sources.Source.search`."""
        query = check_query(query)
        limit = None if limit is None else check_count("limit", limit, minimum=1)
        handed = next((ranking for need in self.depends_on if (ranking := upstream.get(need)) is not None), None)
        seen = self._seen()
        if seen is not None and not seen:
            return Ranking(self.name, (), np.empty(0), reason=_NOTHING)
        ids = () if handed is None else handed.ids
        named, stamp = look_up(self.connection, self.corpus, query, ids, seen)
        if not stamp[0]:
            raise _gone(self.corpus)
        view = self._memory.view(self.connection, self.corpus, stamp, seen)
        if seen is not None:
            if not view.count:
                return Ranking(self.name, (), np.empty(0), reason=_NOTHING)
            handed = restrict_ranking(handed, named.passage_rows)
        # A passage may have been removed since the look-up, but every passage that was found needs a row.
        named = replace(named, passages=range(max(view.count, len(named.passage_rows))))
        seeding = link(named.as_graph(), query, handed, self.linking)
        if not len(seeding):
            return Ranking(self.name, (), np.empty(0), size=view.count, reason=seeding.reason)
        passages, entities = _named_seeds(named, seeding)
        if self.method == "gds":
            return self._pushed_down(passages, entities, limit)
        relevant = handed if self.walk.relevance else None
        walk = NeighbourhoodWalk(
            self.connection,
            self.corpus,
            (view.count, stamp),
            passages,
            entities,
            self.walk.follow_probability,
            self.weights,
            relevant,
            self.walk.tolerance,
            self.fetch,
            view.kept,
            view.allowed,
            self.walk.kernel,
        ).run()
        return self._ranked(walk, relevant, named.passage_rows, view.count, limit)

    def _seen(self) -> frozenset[str] | None:
        """Return the ids of the allowed passages; None if all passages are allowed."""
        if self.allowed is None or not callable(self.allowed):
            return None if self.allowed is None else frozenset(self.allowed)
        return frozenset(filter(self.allowed, self._memory.ids(self.connection, self.corpus)))

    def _pushed_down(self, passages: Mapping[str, float], entities: Mapping[str, float], limit: int | None) -> Ranking:
        projection, found = walk_corpus(
            self.connection,
            self.corpus,
            self.weights,
            passages,
            entities,
            follow_probability=self.walk.follow_probability,
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

    def _ranked(
        self, walk: LocalWalk, relevant: Ranking | None, listed: Collection[str], count: int, limit: int | None
    ) -> Ranking:
        graph = walk.graph
        count = max(count, len(graph.passages))  # passages may have been added meanwhile
        held = walk.walked.nodes < len(graph.passages)
        reached = PageRankResult(
            walk.walked.nodes[held], walk.walked.values[held], count, walk.walked.residual, 0, 0, 0
        )
        node_weights = None if relevant is None else relevance(_all_passages(graph, listed, count).as_graph(), relevant)
        floor, closeness = self.walk.floor, self.walk.closeness
        rows, scores, behind = passage_scores(reached, node_weights, count, floor=floor, closeness=closeness)
        names = [graph.passages[row] for row in rows.tolist()]
        best = top_order(scores, names, limit)
        ids = tuple(names[place] for place in best.tolist())
        part = (
            f"{walk.unknown:.1%} of the walk's probability mass is at nodes that were not fetched, so the "
            "ranking is approximate"
        )
        return Ranking(
            self.name,
            ids,
            scores[best],
            background=behind,
            size=count,
            payloads=WalkPaths(
                graph.as_graph(), walk.walked, walk.seeding, walk.node_weights, ids, self.walk.follow_probability
            ),
            reason="" if walk.complete else part,
        )


def _both(one: Allowed, other: Allowed) -> Allowed:
    if isinstance(one, frozenset) and isinstance(other, frozenset):
        return one & other
    return partial(_allowed_by_both, one, other)


def _allowed_by_both(one: Allowed, other: Allowed, passage_id: str) -> bool:
    return all(each(passage_id) if callable(each) else passage_id in each for each in (one, other))


def _all_passages(graph: PartialGraph, listed: Collection[str], count: int) -> PartialGraph:
    """Return a graph that has `count` passages and no edges, for computing the relevance of passages.

    The first passages are the passages of `graph`, followed by the passages with ids in `listed`. Other passages have a
    row, but no id.
    """
    rows = dict(graph.passage_rows)
    for name in listed:
        if name not in rows and len(rows) < count:
            rows[name] = len(rows)
    return PartialGraph(range(count), (), rows, {})


def _named_seeds(view: PartialGraph, seeding: Seeding) -> tuple[dict[str, float], dict[str, float]]:
    """Return the masses of the seeds in `seeding`: of passages by id, and of entities by name."""
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


Texts = Callable[[Sequence[str]], Mapping[str, tuple[str, str]]]
_TEXTS = """\
UNWIND $ids AS id MATCH (p:`PhasegraphPassage` {corpus: $corpus, id: id}) RETURN p.id, p.title, p.text"""


@dataclass(frozen=True, eq=False)
class OpenedGraph:
    """The result of :func:`open_graph`: a source, and a function that returns the texts of passages.

    Parameters
    ----------
    source : Source
        The source, which walks the graph in memory or in Neo4j.
    texts : callable
        ``texts(ids)`` returns a mapping of ids to (title, text); ids without a passage are left out.
    """

    source: Source
    texts: Texts = field(repr=False)


def open_graph(
    connection: Neo4jConnection,
    corpus: str | None = None,
    *,
    schema: str | GraphSchema | None = None,
    load: bool = True,
    embed: Callable[[list[str]], Sequence[Any]] | None = None,
    embed_query: Callable[[str], Any] | None = None,
) -> OpenedGraph:
    """Open a graph in Neo4j as a source; raise an error if it does not exist.

    Parameters
    ----------
    connection : Neo4jConnection
        The connection to the database. The server must answer a first statement within its timeout.
    corpus : str, optional
        Name of a corpus that `write_graph` wrote; None for the only corpus, or for a graph of another library.
    schema : str or GraphSchema, optional
        The schema, as for `read_graph`. Default: phasegraph's own schema if `corpus` is given, otherwise the schema
        that is detected.
    load : bool, default True
        If True, read the whole graph now and walk it in memory. If False, walk it in Neo4j, which needs phasegraph's
        own schema, and fetch only the texts of returned passages.
    embed, embed_query : callable, optional
        Functions ``embed(texts)`` and ``embed_query(query)`` that return vectors. With them, the walk prefers passages
        that are similar to the query. They need ``load=True``.

    Returns
    -------
    OpenedGraph
        The source and the texts.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the corpus does not exist or has no passages, if no schema matches, or if an argument is out of range.
    StoreError
        If the server cannot be reached, refuses, or does not answer in time.
    """
    check_connection(connection)
    if not check_flag("load", load) and embed is not None:
        raise InvalidInputError(
            "embed= must be None if load=False, because Neo4j then walks the graph without embeddings: leave out "
            "embed=, or set load=True"
        )
    connection.read("RETURN 1")  # fails soon if the server is down; a full read retries longer
    if schema is None and corpus is None:
        try:
            chosen = detect_schema(connection)
        except InvalidInputError as error:
            raise InvalidInputError(f"pass corpus= or schema=: {error}") from error
    else:
        chosen = PHASEGRAPH if schema is None else schema_named(schema)
    if chosen == PHASEGRAPH:
        corpus = existing_corpus(connection, corpus)
    elif not load:
        raise InvalidInputError(
            f"load=False needs a corpus written by write_graph; the schema is {chosen.name!r}: set load=True"
        )
    if not load:
        source = Neo4jGraphSource(connection, str(corpus))
        source.verify()
        return OpenedGraph(source, partial(_fetched_texts, connection, str(corpus)))
    records = read_graph(connection, chosen, corpus=corpus)
    held = {one.id: (one.title, one.text) for one in records.passages}
    if not held:
        of = "" if corpus is None else f", and {corpus!r:.60} in {chosen.corpus_key!r}"
        raise InvalidInputError(
            f"the graph has no passages under the schema {chosen.name!r}: no node {chosen.passage_label!r} has a text "
            f"in {chosen.text_key!r}{of}. Choose another schema=, or load passages first"
        )
    vectors = None if embed is None else embed([text for _, text in held.values()])
    loaded = GraphSource(records.graph(embeddings=vectors), embedder=embed_query)
    return OpenedGraph(loaded, partial(_held_texts, held))


def _held_texts(held: Mapping[str, tuple[str, str]], ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    return {one: held[one] for one in ids if one in held}


def _fetched_texts(connection: Neo4jConnection, corpus: str, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    rows = connection.read(_TEXTS, {"corpus": corpus, "ids": list(ids)})
    return {str(name): (title or "", text or "") for name, title, text in rows}
