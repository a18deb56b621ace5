"""A LlamaIndex retriever that ranks passages by a walk over an entity graph."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

from llama_index.core.async_utils import asyncio_run
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores.types import MetadataFilters

import phasegraph  # its subpackages graph and neo4j import scipy.sparse, so they are imported only at their first use
from llama_index.retrievers.phasegraph.conversion import check_key
from llama_index.retrievers.phasegraph.corpus import (
    NODES,
    KeptNodes,
)
from llama_index.retrievers.phasegraph.embedding import embedding_instead
from llama_index.retrievers.phasegraph.filters import check_filters, check_required, check_required_key, joined
from llama_index.retrievers.phasegraph.lookup import Lookup
from llama_index.retrievers.phasegraph.matching_nodes import NodeFilter
from llama_index.retrievers.phasegraph.nodes import copy_of
from llama_index.retrievers.phasegraph.own_retriever import OwnRetriever
from llama_index.retrievers.phasegraph.retriever_sources import RetrieverSource
from phasegraph import InvalidTypeError, Ranking, Source
from phasegraph.retrieval import (
    LONGEST_QUERY,
    GraphPassages,
    GraphSearch,
    Indexing,
    SourceSpec,
    accepts_old_names,
    check_count,
    check_query,
    in_thread,
    known_arguments,
    parameters_of,
    unexpected_argument,
    walk_block,
    with_hits,
)

if TYPE_CHECKING:
    import phasegraph.graph
    import phasegraph.neo4j


_SEED_HITS = 50


class EntityGraphRetriever(KeptNodes, GraphPassages, OwnRetriever):
    """A retriever that ranks passages by personalized PageRank over an entity graph, with the path to each passage.

    Parameters
    ----------
    graph : EntityGraph or core source
        The graph, or a source of the core, such as a ``GraphSource`` with your own settings. The passage ids of the
        graph must be node ids.
    nodes : mapping, sequence of nodes, docstore, index or callable, optional
        The nodes of the passages. A callable receives a list of ids and returns a mapping, or nodes in the same order.
        Without `nodes`, the returned nodes have no text, and a warning says so. Within a
        :class:`CalibratedFusionRetriever`, the other sources supply missing nodes: first from their hits, then from
        their stores.
    similarity_top_k : int, default 10
        Number of nodes to return, >= 0.
    embed_model : BaseEmbedding, optional
        The model that embeds the query. The walk then prefers passages that are similar to the query. The graph must
        have embeddings.
    embed_clauses : bool, default False
        If a question has two or more clauses, also embed each clause and compare it with the passages. If `graph` is a
        ``GraphSource``, set this option there.
    seeds : retriever, optional
        A dense retriever; the walk starts at its best passages, unless another source supplies the starting passages.
    required_filter_key : str, optional
        As for :class:`CalibratedFusionRetriever`.
    evidence_key : str, optional
        Metadata key for the evidence: the score, the rank, and the path that contributes most to the score. Prompts and
        embeddings leave out the evidence, because the key is among the node's excluded metadata keys.
    max_query_length : int or None, default 20000
        Maximum length of a query in characters, >= 1. A longer query raises InvalidInputError. None: no limit.
    callback_manager : CallbackManager, optional
        The handlers of events, as for every retriever of LlamaIndex.

    Notes
    -----
    The constructor computes the edge weights and compiles the walk; the first search is then as fast as later searches.
    Scores are positive, higher is better, and they have no fixed range. Within a ``CalibratedFusionRetriever``, the
    walk starts at the hits of the sources in ``depends_on``, usually ``vector``. In a direct call without `seeds`, it
    starts at the entities that the query names and at passages that contain the query's words.

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

    walks = True

    @accepts_old_names
    def __init__(
        self,
        graph: phasegraph.graph.EntityGraph | Source,
        nodes: Any = None,
        *,
        similarity_top_k: int = 10,
        embed_model: BaseEmbedding | None = None,
        embed_clauses: bool = False,
        seeds: Any = None,
        evidence_key: str | None = None,
        required_filter_key: str | None = None,
        max_query_length: int | None = LONGEST_QUERY,
        callback_manager: CallbackManager | None = None,
        **unknown: Any,
    ) -> None:
        from phasegraph.graph import EntityGraph, GraphSource, not_a_graph, prepare

        for name in unknown:
            raise unexpected_argument(name, parameters_of(EntityGraphRetriever) - {"unknown"})
        super().__init__(callback_manager)
        embedder, self._embed_model = NODES.model_of(embed_model), embed_model
        source = graph
        if isinstance(graph, EntityGraph):
            source = GraphSource(graph, embedder=embedder, embed_clauses=embed_clauses)
        if not isinstance(source, Source):
            raise InvalidTypeError(not_a_graph(graph))
        self.depends_on: tuple[str, ...] = tuple(getattr(source, "depends_on", ()))
        self._search = GraphSearch(source, Lookup.of_argument(nodes), NODES)
        self._filter: NodeFilter | None = None
        self._similarity_top_k = check_count("similarity_top_k", similarity_top_k)
        self._seeds = None if seeds is None else RetrieverSource("seeds", SourceSpec(retriever=seeds))
        self._evidence_key = check_key("evidence_key", evidence_key)
        self._required_filter_key = check_required_key(required_filter_key)
        if max_query_length is not None:
            check_count("max_query_length", max_query_length)
        self._max_query_length = max_query_length
        prepare(source)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        from phasegraph.graph import prepare

        super().__setstate__(state)
        prepare(self._source)

    @classmethod
    @known_arguments
    def from_nodes(
        cls,
        nodes: Iterable[BaseNode],
        embed_model: BaseEmbedding | None = None,
        *,
        vectors: Any = None,
        triples: phasegraph.graph.Triples | None = None,
        extractor: Any = None,
        known_names: Iterable[str] = (),
        tokenizer: Any = "english",
        title_key: str = "title",
        source_key: str | None = None,
        progress: bool = True,
        **fields: Any,
    ) -> Self:
        """Build the graph from nodes; you can add and delete nodes later.

        Parameters
        ----------
        nodes : iterable of BaseNode
            The nodes; each node is a passage of the graph. Nodes without text are left out, with a warning.
        embed_model : BaseEmbedding, optional
            The model that embeds each query, and every passage unless you pass `vectors`.
        vectors : (P, d) array_like, optional
            The passages' embeddings.
        triples, extractor, known_names
            As for :func:`phasegraph.graph.build_graph`. To use a property graph of LlamaIndex, see
            :func:`read_property_graph`. A graph from your own `extractor` cannot be changed later.
        tokenizer : {"english", "german", "plain", "snowball:LANGUAGE"} or callable, default "english"
            The tokenizer that splits passages and queries into words, as for :func:`phasegraph.graph.build_graph`.
        title_key : str, default "title"
            Metadata key of a passage's title.
        source_key : str, optional
            Metadata key that names the document of a node. By default, the first of the keys ``source``,
            ``doc_id``, ``ref_doc_id`` (set by LlamaIndex) and ``file_path`` that a node has. A random id counts last.
        progress : bool, default True
            Show progress bars for many nodes, if standard error is a terminal.
        **fields
            Other arguments of the retriever.
        """
        how = Indexing(triples, known_names, tokenizer, title_key, source_key, progress)
        return cls._of_passages(nodes, embed_model, how, vectors, extractor, fields)

    @classmethod
    @known_arguments
    def load(cls, path: str | os.PathLike[str], embed_model: BaseEmbedding | None = None, **fields: Any) -> Self:
        """Open a folder that :meth:`save` or ``CalibratedFusionRetriever.from_nodes`` wrote.

        Parameters
        ----------
        path : path
            The folder.
        embed_model : BaseEmbedding, optional
            The model that embedded the passages.
        **fields
            Other arguments of the retriever.

        Raises
        ------
        IntegrityError
            If the folder is damaged, was not written by phasegraph, or was written by a newer version.
        InvalidInputError
            If the folder was written for another framework or with another model. To check the model, `embed_model`
            embeds three nodes again.
        """
        return cls._loaded(path, embed_model, fields)

    def _remodelled(self, model: BaseEmbedding) -> None:
        self._embed_model = model

    @property
    def similarity_top_k(self) -> int:
        """The number of nodes to return if the retriever is called directly."""
        return self._similarity_top_k

    @similarity_top_k.setter
    def similarity_top_k(self, value: int) -> None:
        self._similarity_top_k = check_count("similarity_top_k", value)

    k = similarity_top_k

    def _shown_arguments(self) -> Mapping[str, object]:
        graph = getattr(self._source, "graph", self._source)
        return {"graph": graph, "similarity_top_k": self._similarity_top_k}

    @property
    def look_up(self) -> Lookup | None:
        """The lookup of nodes by id for other sources; None if no nodes were given, or the retriever has filters."""
        found = cast("Lookup", self._search.look_up)
        return found if found.is_set and self._filter is None else None

    def whole_filters(self) -> MetadataFilters | None:
        """Return the filters that every node must match; None if the retriever has no filters."""
        return None if self._filter is None else self._filter.filters

    def within(self, filters: MetadataFilters) -> Self:
        """Return a retriever that finds only matching nodes; its walk passes through no other nodes."""
        checked = check_filters(filters)
        made = copy.copy(self)
        made._filter = NodeFilter(cast("MetadataFilters", joined(self.whole_filters(), checked)))
        made._search.within(made._filter)
        made._seeds = None if self._seeds is None else self._seeds.within(checked)
        return made

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        query, seeds = self._checked(query_bundle), None
        if self._seeds is not None and self._is_unseeded:
            bound: Any = self._seeds.bind(query_bundle)
            if hasattr(bound, "search"):
                seeds = bound.search(query, _SEED_HITS, {})
            else:
                seeds = asyncio_run(bound.asearch(query, _SEED_HITS, {}))
        return self._walked(query_bundle, seeds)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        query, seeds = self._checked(query_bundle), None
        if self._seeds is not None and self._is_unseeded:
            bound: Any = self._seeds.bind(query_bundle)
            if hasattr(bound, "asearch"):
                seeds = await bound.asearch(query, _SEED_HITS, {})
            else:
                seeds = await in_thread(partial(bound.search, limit=_SEED_HITS, upstream={}), query)
        found: list[NodeWithScore] = await in_thread(partial(self._walked, seeds=seeds), query_bundle)
        return found

    def _checked(self, query_bundle: QueryBundle) -> str:
        """Return the query's text; check the required filter, and the length unless phasegraph is the caller."""
        query = query_bundle.query_str
        if self.exchange is None:
            check_query(query, self._max_query_length)
        if self._required_filter_key is not None:
            check_required(self._required_filter_key, self.whole_filters())
        return query

    @property
    def _is_unseeded(self) -> bool:
        return self.exchange is None or not any(self.exchange.upstream.values())

    def _walked(self, bundle: QueryBundle, seeds: Ranking | None) -> list[NodeWithScore]:
        """Search, and return copies of the nodes; the walk starts at the passages in `seeds`.

        If `seeds` is None, the walk starts at the hits of the other sources, if any. If the caller is a fusing
        retriever, return the original nodes, and put the ranking into the :class:`Exchange`.
        """
        asked = self.exchange
        limit = self._similarity_top_k if asked is None else asked.limit
        if limit == 0:
            return []
        upstream = {} if asked is None else asked.upstream
        if seeds is not None:
            upstream = dict.fromkeys(self.depends_on, seeds)
        with embedding_instead(bundle):
            ranking, held = self._search.search(bundle.query_str, limit, upstream, self._filter, warns=asked is None)
        missing = sum(one not in held for one in ranking.ids)
        if asked is None:  # a fusion retriever may get the texts from other sources, and warns otherwise
            self._search.warn_of_missing(missing, len(ranking))
        if asked is not None:
            asked.ranking = with_hits(ranking, [held.get(one) for one in ranking.ids])
        found = []
        for row, (identifier, score) in enumerate(zip(ranking.ids, ranking.scores.tolist(), strict=True)):
            node = held.get(identifier)
            if node is None and not self._search.look_up.is_set:
                node = TextNode(id_=identifier, text="")
            if node is not None and asked is None:
                block = None if self._evidence_key is None else walk_block(ranking, row)
                node = copy_of(node, node.id_, self._evidence_key, block)
            if node is not None:
                found.append(NodeWithScore(node=node, score=score))
        return found
