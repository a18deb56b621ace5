"""The search of an entity-graph retriever: the walk, the framework's hits of its passages, and filters."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from weakref import ref

from phasegraph._support.recent import Recent
from phasegraph.errors import warn
from phasegraph.ranking import SUMMARY_PREFIX, Ranking
from phasegraph.retrieval.filters import without_gone
from phasegraph.retrieval.framework import Framework, HitFilter, HitLookup
from phasegraph.sources.protocol import FilterRefusedError, MalformedAnswerError, Source, Upstream, as_ranking

_SECONDS = 60.0
"""How long it is remembered which hits of a store a filter lets through."""


@dataclass
class GraphSearch:
    """Searches a graph source and returns the framework's hits; a filter may restrict the search.

    The hits of a store that match a filter are cached for a minute. Hits that are changed or deleted within the minute
    are never returned; added hits appear after the minute.
    """

    source: Source
    look_up: HitLookup
    framework: Framework
    _parts: Recent = field(init=False)

    def __post_init__(self) -> None:
        self._parts = Recent(None if self.look_up.kind == "mapping" else _SECONDS)

    def search(
        self, query: str, limit: int | None, upstream: Upstream, wanted: HitFilter | None
    ) -> tuple[Ranking, dict[str, Any]]:
        """Return the ranking and its hits by id; every hit currently matches the filter."""
        from phasegraph.graph import summaries_in

        if wanted is None:
            ranking = _ranked(self.source, query, limit, upstream)
            if SUMMARY_PREFIX not in " ".join(ranking.ids):
                return ranking, self.look_up(ranking.ids) if ranking.ids else {}
            own = summaries_in(ranking)
            ids = [one for one in ranking.ids if one not in own]
            return ranking, (self.look_up(ids) if ids else {}) | self._of_summaries(own, {})
        for _ in range(2):
            ranking = _ranked(self.within(wanted), query, limit, upstream)
            own = summaries_in(ranking)
            ids = list(dict.fromkeys(chain((one for one in ranking.ids if one not in own), _under(own))))
            held = self.look_up(ids) if ids else {}
            kept = _passing(held, wanted)
            if kept.issuperset(ids):
                return ranking, held | self._of_summaries(own, held)
            self._parts.forget(self._key(wanted))  # hits were changed or deleted since
        if self.look_up.corpus is not None:  # hits change while they are searched
            ranking = without_gone(ranking, own, kept)
            return ranking, held | self._of_summaries(summaries_in(ranking), held)
        hits, filters = self.framework.hits, self.framework.filters
        raise MalformedAnswerError(f"the graph returned {hits} that do not match the {filters}")

    def within(self, wanted: HitFilter) -> Source:
        """Return the source restricted to the hits that match a filter; the restricted source is cached."""
        if not self.look_up.is_set:
            words = self.framework
            raise FilterRefusedError(f"{words.filters}= needs the passages' metadata: pass {words.hits}=")
        part: Source = self._parts.get(self._key(wanted), lambda: self._narrowed(wanted))
        return part

    def _key(self, wanted: HitFilter) -> Hashable:
        size = len(self.look_up.held) if self.look_up.kind == "mapping" else -1
        return size, _version_of(self.source), wanted.key

    def _narrowed(self, wanted: HitFilter) -> Source:
        from phasegraph.graph import passage_ids

        source: Any = self.source
        part: Source
        if self.look_up.corpus is not None:
            part = self.look_up.held.within(source, wanted.key, wanted.rows, wanted.names)
        else:
            allowed = _passing(self.look_up(passage_ids(source)), wanted)
            part = source.within(allowed)
        return part

    def _of_summaries(self, summaries: Mapping[str, Any], held: Mapping[str, Any]) -> dict[str, Any]:
        """Convert summaries to hits; the metadata are the values that all known passages of a summary share."""
        found = {}
        for name, one in summaries.items():
            known = [held[passage].metadata for passage in one.passages] if held else [{}]
            shared = {key: value for key, value in known[0].items() if all(each.get(key) == value for each in known)}
            own = {"summary_level": one.level, "summary_of": list(one.passages)}
            found[name] = self.framework.of_text(name, one.text, {**shared, **own}, own)
        return found

    def warn_of_missing(self, missing: int, count: int) -> None:
        """Warn that passages of some hits are missing."""
        words = self.framework
        if missing and not self.look_up.is_set:
            warn(f"{words.hits}= was not given: the passages that the walk found have an id and no text", stacklevel=3)
        elif missing:
            warn(
                f"{words.hits}= has no {words.hit} for {missing} of {count} passages that the walk found: they are "
                "left out",
                stacklevel=3,
            )


def _ranked(source: Source, query: str, limit: int | None, upstream: Upstream) -> Ranking:
    found = source.search(query, limit, upstream)
    return found if isinstance(found, Ranking) else as_ranking("graph", found)


def _under(summaries: Mapping[str, Any]) -> Iterable[str]:
    """Return the passages under some summaries."""
    return chain.from_iterable(one.passages for one in summaries.values())


def _passing(held: Mapping[str, Any], wanted: HitFilter) -> set[str]:
    """Return the ids of the hits that match a filter."""
    ids: Sequence[str] = list(held)
    return {ids[row] for row in wanted.rows(list(held.values()))}


def _version_of(source: object) -> Hashable:
    """Return a key of the source's graph that changes with the graph and does not keep it alive."""
    graph = getattr(source, "graph", None)
    try:
        return None if graph is None else ref(graph)
    except TypeError:
        return id(graph)
