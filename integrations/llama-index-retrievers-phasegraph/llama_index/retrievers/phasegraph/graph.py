"""The entity graph as a retriever of the framework."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index.retrievers.phasegraph.exchange import take
from llama_index.retrievers.phasegraph.lookup import as_lookup
from llama_index.retrievers.phasegraph.reading import Found, Paths
from llama_index.retrievers.phasegraph.sources import RetrieverSource
from llama_index.retrievers.phasegraph.writing import own_node
from phasegraph import InvalidTypeError, PhasegraphWarning, Ranking
from phasegraph.adapters.specs import SourceSpec
from phasegraph.graph import EntityGraph, GraphSource, LinkSettings, WalkSettings
from phasegraph.pipeline.checks import check_count, check_query
from phasegraph.sources import Gathered, Gatherer, Given, SourceSettings
from phasegraph.sources.protocol import AnySource

_SEED_HITS = 50


class EntityGraphRetriever(BaseRetriever):
    """Passages by personalised PageRank over an entity graph.

    Parameters
    ----------
    graph : EntityGraph
        Made by :func:`phasegraph.graph.build_graph`, its passages' ids being node ids.
    nodes : mapping, sequence of nodes, docstore, index or callable
        Where the passages' nodes are; a callable gets a list of ids and returns a mapping or nodes in that order.
    similarity_top_k : int, default 10
    seeds : retriever, optional
        Dense retriever whose best passages seed the walk where the retriever is asked by itself. Among other
        sources, their ranking named in `needs` does; without either, the entities named in the query are the seeds.
    embed_model : BaseEmbedding, optional
        With ``graph.embeddings``: prefers passages nearer to the query along the way.
    needs : sequence of str, default ("vector",)
        Sources whose ranking is wanted first.
    linking : LinkSettings, optional
    walk : WalkSettings, optional
    callback_manager : CallbackManager, optional

    Notes
    -----
    Scores are masses in (0, 1]. Asked by itself, each node carries ``metadata["phasegraph"]`` with the path that led
    to it and the seeds, a key that neither a prompt nor an embedding reads. As a source of
    :class:`CalibratedFusionRetriever` it hands over its background and its paths as well.

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> from phasegraph.graph import build_graph
    >>> nodes = [TextNode(id_="1", text="Vertigo was directed by Alfred Hitchcock."), TextNode(id_="2", text="Rain.")]
    >>> graph = build_graph([{"id": node.node_id, "text": node.text} for node in nodes])
    >>> found = EntityGraphRetriever(graph, nodes).retrieve("Who is Alfred Hitchcock?")
    >>> found[0].node_id, found[0].metadata["phasegraph"]["path"]
    ('1', 'alfred hitchcock > [1]')
    """

    in_worker = True

    def __init__(
        self,
        graph: EntityGraph,
        nodes: Any,
        *,
        similarity_top_k: int = 10,
        seeds: Any = None,
        embed_model: BaseEmbedding | None = None,
        needs: Sequence[str] = ("vector",),
        linking: LinkSettings | None = None,
        walk: WalkSettings | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager)
        if embed_model is not None and not isinstance(embed_model, BaseEmbedding):
            raise InvalidTypeError(f"embed_model must be a BaseEmbedding or None; got {type(embed_model).__name__}")
        source = GraphSource(
            graph,
            needs=needs,
            embedder=None if embed_model is None else embed_model.get_query_embedding,
            linking=LinkSettings() if linking is None else linking,
            walk=WalkSettings() if walk is None else walk,
        )
        self.needs = tuple(source.needs)
        self._leg = _Leg(source, as_lookup(nodes))
        self._similarity_top_k = check_count("similarity_top_k", similarity_top_k)
        self._seeds = None if seeds is None else RetrieverSource("seeds", SourceSpec(retriever=seeds))
        self._own_leg = _Leg(replace(source, needs=() if seeds is None else ("seeds",)), self._leg.lookup)
        self._gatherer = Gatherer(self._settings(self._similarity_top_k), deadline=None)

    @property
    def similarity_top_k(self) -> int:
        """Nodes returned where it is asked by itself."""
        return self._similarity_top_k

    @similarity_top_k.setter
    def similarity_top_k(self, value: int) -> None:
        self._similarity_top_k = check_count("similarity_top_k", value)
        self._gatherer = Gatherer(self._settings(self._similarity_top_k), deadline=None)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        asked = take()
        query = check_query(query_bundle.query_str)
        if asked is None or (self._seeds is not None and not any(asked.given.values())):
            limit = self._similarity_top_k if asked is None else asked.limit
            gatherer = self._gatherer if asked is None else Gatherer(self._settings(limit), deadline=None)
            ranking = _ranking_of(gatherer.gather(self._legs(query_bundle), query))
        else:
            ranking = self._leg.search(query, asked.limit, asked.given)
        if asked is None:
            return _nodes_of(ranking, self._similarity_top_k)
        asked.ranking = ranking
        return _hits_of(ranking)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        query = check_query(query_bundle.query_str)
        found = await self._gatherer.agather(self._legs(query_bundle), query)
        return _nodes_of(_ranking_of(found), self._similarity_top_k)

    def _settings(self, limit: int | None) -> dict[str, SourceSettings]:
        wanted = None if limit is None else max(limit, 1)
        if self._seeds is None:
            return {"graph": SourceSettings(limit=wanted, on_error="raise", breaker=None)}
        return {
            "graph": SourceSettings(limit=wanted, needs=("seeds",), on_error="raise", breaker=None),
            "seeds": SourceSettings(limit=_SEED_HITS, on_error="raise", breaker=None),
        }

    def _legs(self, bundle: QueryBundle) -> dict[str, AnySource]:
        legs: dict[str, AnySource] = {"graph": self._own_leg}
        if self._seeds is not None:
            legs["seeds"] = self._seeds.bind(bundle, [])
        return legs


class _Leg:
    """The graph's ranking with the passages' nodes as payloads."""

    def __init__(self, source: GraphSource, lookup: Callable[[Sequence[str]], Mapping[str, Any]]) -> None:
        self.source = source
        self.lookup = lookup

    def search(self, query: str, limit: int | None, given: Given) -> Ranking:
        ranking = self.source.search(query, limit, given)
        if not len(ranking):
            return ranking
        nodes = self.lookup(ranking.ids)
        ids = [one for one in ranking.ids if one in nodes]
        if len(ids) < len(ranking):
            warnings.warn(
                f"nodes must hold the graph's passages; {len(ranking) - len(ids)} of {len(ranking)} are not there",
                PhasegraphWarning,
                stacklevel=2,
            )
        return replace(ranking, payloads=Found(ids, [nodes[one] for one in ids], Paths(ranking.payloads)))


def _ranking_of(found: Gathered) -> Ranking:
    own = [ranking for ranking in found.rankings if ranking.source == "graph"]
    return own[0] if own else Ranking.from_hits("graph", [], [])


def _hits_of(ranking: Ranking) -> list[NodeWithScore]:
    pairs = zip(ranking.ids, ranking.scores.tolist(), strict=True)
    payloads: Mapping[str, Any] = ranking.payloads
    return [NodeWithScore(node=payloads[one], score=score) for one, score in pairs if one in payloads]


def _nodes_of(ranking: Ranking, k: int) -> list[NodeWithScore]:
    """Copies of the best nodes, with the path that led to each."""
    payloads = ranking.payloads
    if not isinstance(payloads, Found):
        return []
    found: list[NodeWithScore] = []
    for hit in _hits_of(ranking)[:k]:
        block = {"score": hit.score, **payloads.evidence[hit.node.id_]}
        found.append(NodeWithScore(node=own_node(hit.node, hit.node.id_, block), score=hit.score))
    return found
