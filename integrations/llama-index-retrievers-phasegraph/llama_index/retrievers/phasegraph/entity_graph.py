"""The entity graph as a retriever of the framework."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores.types import MetadataFilters

from llama_index.retrievers.phasegraph.conversion import Found, Paths, as_lookup, own_node
from llama_index.retrievers.phasegraph.filters import allowed_ids, check_filters
from llama_index.retrievers.phasegraph.retriever_sources import RetrieverSource, check_flag, take
from phasegraph import InvalidInputError, InvalidTypeError, PhasegraphWarning, Ranking
from phasegraph._validation import check_count, check_query
from phasegraph.graph import EntityGraph, Extraction, GraphSource
from phasegraph.graph.building import graph_of_documents
from phasegraph.graph.source import not_a_graph, passage_ids, prepare
from phasegraph.neo4j import GraphSchema, Neo4jConnection
from phasegraph.neo4j.source import StoredGraph, stored_graph
from phasegraph.retrieval.source_config import SourceSpec
from phasegraph.sources import Gathered, Gatherer, Source, SourceSettings, Upstream
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

    walk: Callable[[str, int | None, Upstream], Ranking]
    seeds: RetrieverSource | None

    def ask(self, bundle: QueryBundle, limit: int | None) -> Ranking:
        """The walk's ranking."""
        return _ranking_of(self._gatherer(limit).gather(self._legs(bundle), bundle.query_str))

    async def aask(self, bundle: QueryBundle, limit: int | None) -> Ranking:
        """As :meth:`ask`, on the caller's event loop."""
        return _ranking_of(await self._gatherer(limit).agather(self._legs(bundle), bundle.query_str))

    def _gatherer(self, limit: int | None) -> Gatherer:
        depends_on = () if self.seeds is None else ("seeds",)
        settings = {"graph": SourceSettings(limit=limit, depends_on=depends_on, on_error="raise", circuit_breaker=None)}
        if self.seeds is not None:
            settings["seeds"] = SourceSettings(limit=_SEED_HITS, on_error="raise", circuit_breaker=None)
        return Gatherer(settings, timeout=None)

    def _legs(self, bundle: QueryBundle) -> dict[str, AnySource]:
        legs: dict[str, AnySource] = {"graph": _Named(self.walk)}
        if self.seeds is not None:
            legs["seeds"] = self.seeds.bind(bundle, [])
        return legs


@dataclass(frozen=True, slots=True)
class _Named:
    """The walk as the source "graph", whatever its own source is called."""

    walk: Callable[[str, int | None, Upstream], Ranking]

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        return replace(self.walk(query, limit, upstream), source="graph")


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


class FromNeo4j:
    """What makes an ``EntityGraphRetriever`` of a graph in Neo4j."""

    @classmethod
    def from_neo4j(
        cls,
        connection: Neo4jConnection,
        corpus: str | None = None,
        *,
        schema: str | GraphSchema | None = None,
        load: bool = True,
        embed_model: BaseEmbedding | None = None,
        **fields: Any,
    ) -> Self:
        """Take the graph and its passages' texts from Neo4j.

        Parameters
        ----------
        connection : Neo4jConnection
            Asked at once whether it answers; see ``Neo4jConnection.connect``.
        corpus : str, optional
            A corpus written by ``write_graph``; None for a graph that another library wrote.
        schema : str or GraphSchema, optional
            Who wrote the graph: ``"llama_index"``, ``"langchain"``, ``"neo4j_graphrag"``; None is our own where a
            corpus is named, else detected.
        load : bool, default True
            Read the graph now and walk it in memory; or walk it in Neo4j, for graphs that are not to be held here
            (only those of ``write_graph``). What changes in Neo4j later is seen with False only.
        embed_model : BaseEmbedding, optional
            Embeds every passage and each query; with `load` only.
        **fields
            The other arguments of the retriever. Neo4j holds texts and titles: filters on other metadata need
            ``nodes=`` (or a docstore), which then take the place of its texts, also in a fusion.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If there is no such corpus, no schema that fits, no passage, or an argument is out of range.
        StoreError
            If the server cannot be reached, refuses, or does not answer in time.
        """
        stored = stored_graph(
            connection, corpus, schema=schema, load=load,
            embed=None if embed_model is None else embed_model.get_text_embedding_batch,
            embed_query=None if embed_model is None else embed_model.get_query_embedding,
        )  # fmt: skip
        given = {"nodes": _Nodes(stored), "embed_model": embed_model, **fields}
        return cast(Any, cls)(stored.source, **given)  # type: ignore[no-any-return]


class _Nodes:
    """The nodes of some ids, their titles as metadata."""

    def __init__(self, stored: StoredGraph) -> None:
        self._texts = stored.texts

    def __call__(self, ids: Sequence[str]) -> dict[str, BaseNode]:
        return {
            name: TextNode(id_=name, text=text, metadata={"title": title} if title else {})
            for name, (title, text) in self._texts(ids).items()
        }


class EntityGraphRetriever(FromNeo4j, BaseRetriever):
    """Passages by personalised PageRank over an entity graph, with the path to each of them.

    Parameters
    ----------
    graph : EntityGraph or core source
        The graph, its passages' ids being node ids; or any source of the core, such as a ``GraphSource`` with
        settings of its own.
    nodes : mapping, sequence of nodes, docstore, index or callable, optional
        Where the passages' nodes are; a callable gets a list of ids and returns a mapping or nodes in that order.
        Without, nodes have no text: enough within a :class:`CalibratedFusionRetriever` whose other sources hold the
        same passages.
    similarity_top_k : int, default 10
        Nodes returned, >= 0.
    embed_model : BaseEmbedding, optional
        Embeds the query, so that passages nearer to it are entered more readily; for a graph with embeddings.
    seeds : retriever, optional
        Dense retriever whose best passages seed the walk where there is no other source that does.
    provenance : bool, default True
        Add ``metadata["phasegraph"]``: score, and the path on which most of the mass came. The key is among the
        node's excluded metadata keys: neither a prompt nor an embedding reads it.
    callback_manager : CallbackManager, optional

    Notes
    -----
    The graph is made ready at construction (edges weighed, the walk compiled): no search waits for it.
    Scores are masses in (0, 1]. Within a ``CalibratedFusionRetriever`` it declares that it needs ``vector`` (the names
    in ``graph.depends_on``): the dense ranking seeds the walk. Asked alone and without `seeds`, only the entities
    that the query names do.

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> nodes = [
    ...     TextNode(id_="film", text="Vertigo is a film by Alfred Hitchcock.", metadata={"title": "Vertigo"}),
    ...     TextNode(id_="man", text="He was born in Leytonstone.", metadata={"title": "Alfred Hitchcock"}),
    ...     TextNode(id_="other", text="Paris is a city.", metadata={"title": "Paris"}),
    ... ]
    >>> found = EntityGraphRetriever.from_nodes(nodes).retrieve("Where was the director of Vertigo born?")
    >>> sorted(hit.node_id for hit in found)
    ['film', 'man']
    """

    in_worker = True

    def __init__(
        self,
        graph: EntityGraph | Source,
        nodes: Any = None,
        *,
        similarity_top_k: int = 10,
        embed_model: BaseEmbedding | None = None,
        seeds: Any = None,
        provenance: bool = True,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager)
        if embed_model is not None and not isinstance(embed_model, BaseEmbedding):
            raise InvalidTypeError(f"embed_model must be a BaseEmbedding or None; got {type(embed_model).__name__}")
        source = graph
        if isinstance(graph, EntityGraph):
            source = GraphSource(graph, embedder=None if embed_model is None else embed_model.get_query_embedding)
        if not isinstance(source, Source):
            raise InvalidTypeError(not_a_graph(graph))
        self.depends_on: tuple[str, ...] = tuple(getattr(source, "depends_on", ()))
        self._lookup = None if nodes is None else as_lookup(nodes)
        self._source = source
        self._similarity_top_k = check_count("similarity_top_k", similarity_top_k)
        self._seeds = None if seeds is None else RetrieverSource("seeds", SourceSpec(retriever=seeds))
        self._provenance = check_flag("provenance", provenance)
        prepare(source)

    @classmethod
    def from_nodes(
        cls,
        nodes: Iterable[BaseNode],
        *,
        embed_model: BaseEmbedding | None = None,
        vectors: Any = None,
        extractions: Iterable[Extraction] | Mapping[str, Sequence[tuple[str, str, str]]] | None = None,
        extractor: Any = None,
        gazetteer: Iterable[str] = (),
        title_key: str = "title",
        **fields: Any,
    ) -> Self:
        """Build the graph from nodes.

        Parameters
        ----------
        nodes : iterable of BaseNode
        embed_model : BaseEmbedding, optional
            Embeds every passage (unless `vectors` are given) and each query.
        vectors : (P, d) array_like, optional
            The passages' embeddings.
        extractions, extractor, gazetteer
            ``triples``, ``extractor`` and ``gazetteer`` of :func:`phasegraph.graph.build_graph`; for a property graph
            of the framework see :func:`read_property_graph`.
        title_key : str, default "title"
            Metadata key of a passage's title.
        **fields
            The other arguments of the retriever.
        """
        held = {node.node_id: node for node in nodes}
        graph = graph_of_documents(
            ((name, node.metadata, node.get_content()) for name, node in held.items()),
            title_key=title_key, embed=getattr(embed_model, "get_text_embedding_batch", None),
            vectors=vectors, triples=extractions, extractor=extractor, gazetteer=gazetteer,
        )  # fmt: skip
        return cls(graph, held, embed_model=embed_model, **fields)

    @property
    def similarity_top_k(self) -> int:
        """Nodes returned where it is asked by itself."""
        return self._similarity_top_k

    @similarity_top_k.setter
    def similarity_top_k(self, value: int) -> None:
        self._similarity_top_k = check_count("similarity_top_k", value)

    def within(self, filters: MetadataFilters) -> Self:
        """The same retriever for nodes that match: others are neither walked through nor named."""
        if self._lookup is None:
            raise InvalidInputError(
                "filters must come with the nodes of the graph: EntityGraphRetriever(graph, nodes); none were given"
            )
        held = self._lookup(passage_ids(self._source))
        made, narrowed = copy.copy(self), cast(Any, self._source)
        made._source = narrowed.within(allowed_ids(held.values(), check_filters(filters)))
        made._seeds = None if self._seeds is None else self._seeds.within(filters)
        return made

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        query = check_query(query_bundle.query_str)
        asked = take()
        if asked is None:
            return self._copies(self._seeded.ask(query_bundle, max(self._similarity_top_k, 1)))
        if self._seeds is None or any(asked.upstream.values()):
            asked.ranking = self.search(query, asked.limit, asked.upstream)
        else:
            asked.ranking = self._seeded.ask(query_bundle, asked.limit)
        return hits_of(asked.ranking)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        check_query(query_bundle.query_str)
        return self._copies(await self._seeded.aask(query_bundle, max(self._similarity_top_k, 1)))

    @property
    def _seeded(self) -> Seeded:
        return Seeded(self.search, self._seeds)

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """The core's ranking with the passages' nodes as payloads; see :meth:`phasegraph.sources.Source.search`."""
        seeds = upstream.get("seeds")
        ranking = self._source.search(
            query, limit, dict.fromkeys(self.depends_on, seeds) if seeds is not None else upstream
        )
        nodes: Mapping[str, Any] = {} if self._lookup is None else self._lookup(ranking.ids)
        ids = [one for one in ranking.ids if one in nodes]
        if self._lookup is not None and len(ids) < len(ranking):
            warnings.warn(
                f"nodes must hold the graph's passages; {len(ranking) - len(ids)} of {len(ranking)} are not there",
                PhasegraphWarning,
                stacklevel=2,
            )
        return replace(ranking, payloads=Found(ids, [nodes[one] for one in ids], Paths(ranking.payloads)))

    def _copies(self, ranking: Ranking) -> list[NodeWithScore]:
        """Copies of the best nodes, with the path that led to each."""
        payloads = ranking.payloads
        evidence = payloads.evidence if isinstance(payloads, Found) else {}
        found: list[NodeWithScore] = []
        for hit in hits_of(ranking)[: self._similarity_top_k]:
            block = {"score": hit.score, **evidence.get(hit.node.id_, {})} if self._provenance else None
            found.append(NodeWithScore(node=own_node(hit.node, hit.node.id_, block), score=hit.score))
        return found
