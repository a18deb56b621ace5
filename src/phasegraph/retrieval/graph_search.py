"""Search an entity graph for the entity-graph retriever: rank passages, look up their hits, and apply filters."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any
from weakref import ref

from phasegraph._support.recent import Recent
from phasegraph._support.shared import go_on, one_call
from phasegraph._support.validation import check_query
from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.errors import PhasegraphError, warn
from phasegraph.ranking import SUMMARY_PREFIX, Ranking
from phasegraph.retrieval.deletions import without_gone
from phasegraph.retrieval.filter_types import warn_of_types
from phasegraph.retrieval.framework import Framework, HitFilter, HitLookup
from phasegraph.sources.protocol import FilterRefusedError, MalformedAnswerError, Source, Upstream, as_ranking, is_fatal

_SECONDS = 60.0
"""Time in seconds for which the ids of the hits that match a filter are cached."""


@dataclass
class GraphSearch:
    """A search of a graph source that returns the framework's hits; a filter may restrict the search.

    If the hits come from a store, the ids that match a filter are cached for a minute. A hit that is deleted, or
    changed so that it no longer matches, is not returned even within the minute. A new hit may be missing for up to a
    minute.
    """

    source: Source
    look_up: HitLookup
    framework: Framework
    _parts: Recent = field(init=False)
    _is_without_model: bool = field(init=False, default=False)
    _said: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._parts = Recent(None if self.look_up.kind == "mapping" else _SECONDS)

    def search(
        self, query: str, limit: int | None, upstream: Upstream, wanted: HitFilter | None, *, warns: bool = False
    ) -> tuple[Ranking, dict[str, Any]]:
        """Return the ranking and its hits by id; every hit matches the filter `wanted` at the time of the search.

        If the model cannot embed the query, the walk uses only names and words, and the reason of the ranking says so.
        With `warns`, also a warning says so; it is not repeated until the model answers again.
        """
        with one_call():  # the walk uses the vector that `_ranked` has computed
            return self._search(query, limit, upstream, wanted, warns)

    def _search(
        self, query: str, limit: int | None, upstream: Upstream, wanted: HitFilter | None, warns: bool
    ) -> tuple[Ranking, dict[str, Any]]:
        from phasegraph.graph import summaries_in

        if wanted is None:
            ranking = self._ranked(self.source, query, limit, upstream, warns)
            if SUMMARY_PREFIX not in " ".join(ranking.ids):
                return ranking, self.look_up(ranking.ids) if ranking.ids else {}
            own = summaries_in(ranking)
            ids = [one for one in ranking.ids if one not in own]
            return ranking, (self.look_up(ids) if ids else {}) | self._of_summaries(own, {})
        for _ in range(2):
            ranking = self._ranked(self.within(wanted), query, limit, upstream, warns)
            own = summaries_in(ranking)
            ids = list(dict.fromkeys(chain((one for one in ranking.ids if one not in own), _under(own))))
            held = self.look_up(ids) if ids else {}
            kept = _passing(held, wanted)
            if kept.issuperset(ids):
                return ranking, held | self._of_summaries(own, held)
            self._parts.forget(self._key(wanted))  # hits were changed or deleted after the matching ids were cached
        if self.look_up.corpus is not None:  # another thread changes the passages during the search
            ranking = without_gone(ranking, own, kept)
            return ranking, held | self._of_summaries(summaries_in(ranking), held)
        hits, filters = self.framework.hits, self.framework.filters
        raise MalformedAnswerError(
            f"the graph returned {hits} that do not match the {filters}, twice in a row: repeat the query when the "
            "store is not being changed"
        )

    def _ranked(self, source: Source, query: str, limit: int | None, upstream: Upstream, warns: bool) -> Ranking:
        """Search the source, or the same walk without the model if the model cannot embed the query."""
        walk, error = _walk_of(source), None
        if walk is not None:
            try:
                walk.embedder(check_query(query))
            except Exception as raised:
                go_on()  # an error that only says that the call has ended is raised again
                if is_fatal(raised) or isinstance(raised, PhasegraphError):
                    raise
                error = raised
        if error is None:
            self._is_without_model = False
            return _ranking_of(source, query, limit, upstream)
        said = f"the embedding of the question failed ({type(error).__name__}), so the walk used only names and words"
        if warns and not self._is_without_model:
            self._is_without_model = True
            warn(said, cause=error)
        ranking = _ranking_of(_without_model(source, walk), query, limit, upstream)
        return replace(ranking, reason="; ".join(filter(None, (said, ranking.reason))))

    def within(self, wanted: HitFilter) -> Source:
        """Return the source restricted to the hits that match a filter; the restricted source is cached."""
        if not self.look_up.is_set:
            words = self.framework
            raise FilterRefusedError(f"{words.filters}= needs the metadata of the passages: give {words.hits}=")
        part: Source = self._parts.get(self._key(wanted), lambda: self._narrowed(wanted))
        return part

    def _key(self, wanted: HitFilter) -> Hashable:
        size = len(self.look_up.held) if self.look_up.kind == "mapping" else -1
        return size, _version_of(self.source), wanted.key

    def _narrowed(self, wanted: HitFilter) -> Source:
        from phasegraph.graph import passage_ids
        from phasegraph.graph.corpus.corpus import say_missing

        source: Any = self.source
        part: Source
        if self.look_up.corpus is not None:
            corpus = self.look_up.corpus

            def rows(records: Sequence[Any]) -> Iterable[int]:
                warn_of_types(corpus, wanted, records)
                return wanted.rows(records)

            part = self.look_up.held.within(source, wanted.key, rows, wanted.names)
        else:
            held = self.look_up(passage_ids(source))
            say_missing(wanted.names, list(held.values()), self._said)
            part = source.within(_passing(held, wanted))
        return part

    def _of_summaries(self, summaries: Mapping[str, Any], held: Mapping[str, Any]) -> dict[str, Any]:
        """Convert summaries of passages to hits; a hit has the metadata that all passages of its summary share.

        `held` maps the ids of passages to their hits; if it is empty, a hit has only the metadata of its summary.
        """
        found = {}
        for name, one in summaries.items():
            known = [held[passage].metadata for passage in one.passages] if held else [{}]
            shared = {key: value for key, value in known[0].items() if all(each.get(key) == value for each in known)}
            own = {"summary_level": one.level, "summary_of": list(one.passages)}
            found[name] = self.framework.of_text(name, one.text, {**shared, **own}, own)
        return found

    def warn_of_missing(self, missing: int, count: int) -> None:
        """Warn if the walk found passages without a document or node.

        `missing` is the number of these passages, and `count` the number of all passages that the walk found.
        """
        words = self.framework
        if missing and not self.look_up.is_set:
            warn(f"{words.hits}= was not given: the passages that the walk found have only an id, no text")
        elif missing:
            warn(
                f"{words.hits}= has no {words.hit} for {missing} of {count} passages that the walk found: they are "
                "left out"
            )


def _walk_of(source: Any) -> Any:
    """Return the core's walk that a source runs; None if no model of a framework embeds the query for the walk."""
    from phasegraph.graph import GraphSource
    from phasegraph.graph.corpus.corpus import LiveSource

    if isinstance(source, LiveSource) and source.name == "graph":
        source.corpus.look()
        source = source.corpus.in_state(source.corpus.seen, "graph")
    walk = getattr(source, "inner", source)
    return walk if type(walk) is GraphSource and isinstance(walk.embedder, EmbeddingModel) else None


def _without_model(source: Any, walk: Any) -> Any:
    """Return a source like `source` that walks without a model; `walk` is the walk that `source` runs."""
    plain = replace(walk, embedder=None, embed_clauses=False)
    return replace(source, inner=plain) if hasattr(source, "inner") else plain


def _ranking_of(source: Source, query: str, limit: int | None, upstream: Upstream) -> Ranking:
    found = source.search(query, limit, upstream)
    return found if isinstance(found, Ranking) else as_ranking("graph", found)


def _under(summaries: Mapping[str, Any]) -> Iterable[str]:
    """Return the ids of the passages that the summaries cover."""
    return chain.from_iterable(one.passages for one in summaries.values())


def _passing(held: Mapping[str, Any], wanted: HitFilter) -> set[str]:
    """Return the ids of the hits that match a filter; `held` maps ids to hits."""
    ids: Sequence[str] = list(held)
    return {ids[row] for row in wanted.rows(list(held.values()))}


def _version_of(source: object) -> Hashable:
    """Return a cache key for the source's graph: a weak reference, so that the cache does not keep the graph alive."""
    graph = getattr(source, "graph", None)
    try:
        return None if graph is None else ref(graph)
    except TypeError:
        return id(graph)
