"""A walk that asks for its own seeds where no other source hands them over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from llama_index.retrievers.phasegraph.sources import RetrieverSource
from phasegraph import Ranking
from phasegraph.sources import Gathered, Gatherer, Given, SourceSettings
from phasegraph.sources.protocol import AnySource

_SEED_HITS = 50


@dataclass(frozen=True, slots=True)
class Seeded:
    """Asks the seeds, where there are any, and then the walk; an error of either is raised as it is.

    Parameters
    ----------
    walk : callable
        ``walk(query, limit, given)``: a core source's search.
    seeds : RetrieverSource or None
    """

    walk: Callable[[str, int | None, Given], Ranking]
    seeds: RetrieverSource | None

    def ask(self, bundle: QueryBundle, limit: int | None) -> Ranking:
        """The walk's ranking."""
        return _ranking_of(self._gatherer(limit).gather(self._legs(bundle), bundle.query_str))

    async def aask(self, bundle: QueryBundle, limit: int | None) -> Ranking:
        """As :meth:`ask`, on the caller's event loop."""
        return _ranking_of(await self._gatherer(limit).agather(self._legs(bundle), bundle.query_str))

    def _gatherer(self, limit: int | None) -> Gatherer:
        needs = () if self.seeds is None else ("seeds",)
        settings = {"graph": SourceSettings(limit=limit, needs=needs, on_error="raise", breaker=None)}
        if self.seeds is not None:
            settings["seeds"] = SourceSettings(limit=_SEED_HITS, on_error="raise", breaker=None)
        return Gatherer(settings, deadline=None)

    def _legs(self, bundle: QueryBundle) -> dict[str, AnySource]:
        legs: dict[str, AnySource] = {"graph": _Named(self.walk)}
        if self.seeds is not None:
            legs["seeds"] = self.seeds.bind(bundle, [])
        return legs


@dataclass(frozen=True, slots=True)
class _Named:
    """The walk as the source "graph", whatever its own source is called."""

    walk: Callable[[str, int | None, Given], Ranking]

    def search(self, query: str, limit: int | None, given: Given) -> Ranking:
        return replace(self.walk(query, limit, given), source="graph")


def hits_of(ranking: Ranking) -> list[NodeWithScore]:
    """Nodes with their masses; without text where there is no node."""
    payloads: Mapping[str, Any] = ranking.payloads
    given = bool(payloads)
    pairs = zip(ranking.ids, ranking.scores.tolist(), strict=True)
    return [
        NodeWithScore(node=payloads.get(one) or TextNode(id_=one, text=""), score=score)
        for one, score in pairs
        if one in payloads or not given
    ]


def _ranking_of(found: Gathered) -> Ranking:
    own = [ranking for ranking in found.rankings if ranking.source == "graph"]
    return own[0] if own else Ranking.from_hits("graph", [], [])
