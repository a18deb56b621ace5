"""Use a LlamaIndex retriever as a source of the core."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Self, cast

from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.retrievers import AutoMergingRetriever, QueryFusionRetriever, TransformRetriever
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import MetadataFilters
from llama_index_instrumentation.dispatcher import active_instrument_tags, instrument_tags

from llama_index.retrievers.phasegraph.conversion import as_node, ranking_of, reader_of, unpack
from llama_index.retrievers.phasegraph.filters import joined
from llama_index.retrievers.phasegraph.function_retriever import FunctionRetriever, as_retriever
from llama_index.retrievers.phasegraph.in_memory_store import StoreCache
from llama_index.retrievers.phasegraph.lookup import Lookup
from llama_index.retrievers.phasegraph.matching_nodes import matching_rows, only_matching
from llama_index.retrievers.phasegraph.method_replacements import deleted_nodes
from llama_index.retrievers.phasegraph.node_limits import part_of
from llama_index.retrievers.phasegraph.nodes import TripleNode, text_of
from llama_index.retrievers.phasegraph.own_retriever import Exchange, OwnRetriever
from llama_index.retrievers.phasegraph.postgres_store import warn_of_hybrid
from llama_index.retrievers.phasegraph.prepared_retriever import prepared
from llama_index.retrievers.phasegraph.property_graph import (
    is_knowledge,
    kept_chunks,
    knowledge_ranking,
    names_own_chunks,
    stores_of,
)
from llama_index.retrievers.phasegraph.query_bundles import own_bundle
from llama_index.retrievers.phasegraph.restricted_search import (
    REFUSALS,
    bm25_ids,
    is_bm25,
    narrowed,
    raising_again,
    refusal,
)
from llama_index.retrievers.phasegraph.retriever_traits import (
    decides_membership,
    is_asynchronous,
    is_unheard,
    is_unordered,
    known_score_direction,
)
from phasegraph import InvalidInputError, Ranking
from phasegraph.retrieval import (
    AnySource,
    HitAccess,
    MalformedAnswerError,
    Nearest,
    Payloads,
    Recent,
    RewrittenQuery,
    SourceCall,
    SourceSpec,
    Upstream,
    WrappedSource,
    adapted,
    as_ranking,
    asearch_of,
    note_dropped,
    search_of,
    with_passages,
)

TAG = "phasegraph_source"


def _no_text(_: object) -> str:
    return ""


def _no_metadata(_: object) -> Mapping[str, Any]:
    return {}


_UNREAD = HitAccess(_no_text, _no_metadata)
"""Used for a property graph. Its texts contain triples, so hits and stored passages are not compared."""


class RetrieverSource(WrappedSource):
    """A LlamaIndex retriever as a source of the core, which serves all calls of the fused retriever."""

    access = HitAccess(text_of, attrgetter("metadata"))  # without the id of the document, which takes long to find

    def __init__(self, name: str, spec: SourceSpec) -> None:
        given = adapted(spec.retriever)
        self.core = not hasattr(given, "retrieve") and (search_of(given) or asearch_of(given)) is not None
        self.whole: Any = given if self.core else as_retriever(given)
        self.shown: Any = given if isinstance(self.whole, FunctionRetriever) else self.whole
        self.retriever: Any = self.whole
        warn_of_hybrid(name, self.whole)
        self.filters: MetadataFilters | None = None
        super().__init__(name, spec.fields, reader_of(name, spec.fields, known_score_direction(self.retriever)))
        self.seen = StoreCache(Nearest(), Recent())
        store = getattr(self.whole, "_vector_store", None)
        if isinstance(store, SimpleVectorStore):
            self.seen.nearest.hold(store.data.embedding_dict.values())
        walks = getattr(self.whole, "walks", False) is True
        look_up: Lookup | None = cast("Any", self.whole).look_up if walks else None
        named = self.core or isinstance(self.whole, FunctionRetriever) or walks
        self.names_only = named and self.resolve is None
        self.has_texts = look_up is not None
        if self.has_own_ids and is_bm25(self.whole):
            self.held_ids = self.reader.identities.learn((one, {}, "") for one in bm25_ids(self.whole))
        elif self.has_own_ids and walks:
            self.held_ids = list(cast("Any", self.whole).kept_ids())
        self.knowledge = is_knowledge(self.retriever)
        if self.has_own_ids and self.knowledge:
            self.held_ids, self.access = kept_chunks(self.retriever), _UNREAD
        self.unordered = is_unordered(self.retriever)
        self.own_chunks = not self.knowledge or names_own_chunks(self.retriever)
        blocks, awaits = not getattr(self.retriever, "asynchronous", False), is_asynchronous(self.retriever)
        if self.core:
            from phasegraph.graph import prepare

            prepare(given)
            blocks, awaits = search_of(given) is not None, asearch_of(given) is not None
        self.is_narrowed = isinstance(self.whole, VectorIndexRetriever) and bool(self.whole._kwargs)
        self.settle(blocks=blocks, awaits=awaits)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.core:
            from phasegraph.graph import prepare

            prepare(self.whole)

    def within(self, filters: MetadataFilters) -> RetrieverSource:
        """Return a source that finds only matching hits; it shares score direction and warnings with this source."""
        if self.core or (isinstance(self.whole, FunctionRetriever) and "filters" not in self.whole.accepts):
            kind = type(self.whole if self.core else self.whole.function).__name__
            raise InvalidInputError(
                f"source {self.name!r} does not support filters= ({kind}): remove this source, or use a retriever that "
                "can filter"
            )
        made = copy.copy(self)
        made.filters = joined(self.filters, filters)
        made.retriever = narrowed(self.name, self.whole, cast(MetadataFilters, made.filters))
        return made

    def own_filters(self) -> MetadataFilters | None:
        """Return the filters that the source always applies; None if it has no filters."""
        try:
            return filters_within(self.whole)
        except InvalidInputError as error:
            raise InvalidInputError(f"source {self.name!r} has its own filters: {error}") from error

    def look_up(self) -> Lookup | None:
        """Return a lookup of nodes by id in the source's store.

        Return None if the source has no store, or if the source searches only a part of its store.
        """
        whole = self.whole
        if not self.has_own_ids:
            return None
        if getattr(whole, "walks", False) is True:
            return cast("Lookup | None", whole.look_up)
        if self.knowledge:
            stores = stores_of(whole)
            return Lookup.of(stores[0]) if len(stores) == 1 else None
        if not isinstance(whole, VectorIndexRetriever):
            return None
        return None if part_of(whole) or whole._filters is not None or whole._kwargs else self.live()

    @property
    def corpus(self) -> Any:
        """The corpus that the source searches; None if the source has no corpus of its own."""
        return getattr(self.whole, "corpus", None) if getattr(self.whole, "walks", False) is True else None

    def live(self) -> Lookup | None:
        """Return a lookup that finds passages that still exist in the store; None if the source copied its data."""
        if not self.has_own_ids:
            return None
        if self.has_texts:
            return None if self.held_ids else self.whole.look_up
        if not isinstance(self.whole, VectorIndexRetriever):
            return None
        return Lookup.of(self.whole._index)

    def bind(self, bundle: QueryBundle) -> AnySource:
        """Create the source object of one call; each search gets a copy of the query bundle `bundle`."""
        return self.bound(_Call(self, bundle))


class _Call(SourceCall):
    """The search of a source for a single call of the fused retriever."""

    __slots__ = ("bundle",)

    def __init__(self, source: RetrieverSource, bundle: QueryBundle, notes: list[str] | None = None) -> None:
        super().__init__(source, is_filtered=source.filters is not None, notes=notes)
        self.bundle = bundle

    def passes(self, hit: BaseNode) -> bool:
        """Return True if a node matches the filters."""
        return bool(matching_rows([hit], self.source.filters))

    def for_query(self, query: RewrittenQuery) -> Self:
        """Return a call with a rewritten query; both calls add their notes to the same list."""
        return type(self)(self.source, query.native, self.notes)

    def ask(self, query: str, limit: int | None, upstream: Upstream) -> object:
        """Run the search; return the retriever's copy for this search (None for a core source), and the answer.

        If the store may have refused the filters, search once more without them: an error of the same class then shows
        that the filters are not the cause. The hits of this search are not used.
        """
        source = self.source
        if source.core:
            return None, source.retriever.search(query, limit, upstream)
        with instrument_tags(self._tags()):
            asked, bundle = prepared(source.retriever, limit, upstream, source.seen), own_bundle(self.bundle, query)
            try:
                if is_unheard(asked):
                    return asked, asked._handle_recursive_retrieval(bundle, asked._retrieve(bundle))
                return asked, asked.retrieve(bundle)
            except REFUSALS as error:
                refused = refusal(source.name, source.retriever, source.filters, error)
                if refused is None:
                    raise
                whole = prepared(source.whole, limit, upstream, source.seen)
                with raising_again(error):  # no event of the framework contains the hits of this search
                    whole._vector_store.query(whole._build_vector_store_query(bundle), **whole._kwargs)
                raise refused from error

    async def aask(self, query: str, limit: int | None, upstream: Upstream) -> object:
        """Run :meth:`ask` asynchronously."""
        source = self.source
        if source.core:
            return None, await source.retriever.asearch(query, limit, upstream)
        with instrument_tags(self._tags()):
            asked, bundle = prepared(source.retriever, limit, upstream, source.seen), own_bundle(self.bundle, query)
            try:
                if is_unheard(asked):
                    return asked, await asked._ahandle_recursive_retrieval(bundle, await asked._aretrieve(bundle))
                return asked, await asked.aretrieve(bundle)
            except REFUSALS as error:
                refused = refusal(source.name, source.retriever, source.filters, error)
                if refused is None:
                    raise
                whole = prepared(source.whole, limit, upstream, source.seen)
                with raising_again(error):
                    if bundle.embedding is None:
                        bundle.embedding = await whole._embed_model.aget_agg_embedding_from_queries(
                            bundle.embedding_strs
                        )
                    await whole._vector_store.aquery(whole._build_vector_store_query(bundle), **whole._kwargs)
                raise refused from error

    def _tags(self) -> dict[str, Any]:
        """Return the tags for the events and spans of this call; they contain the source's name."""
        return {**active_instrument_tags.get(), TAG: self.source.name}

    def read(self, answer: Any, limit: int | None) -> Ranking:
        """Return the ranking of the hits in `answer` that match the call's filter.

        If a phasegraph retriever passed its ranking in an :class:`Exchange`, the result is this ranking.
        """
        (asked, hits), source, notes = answer, self.source, self.notes
        if source.core:
            found = hits if isinstance(hits, Ranking) else as_ranking(source.name, hits)
            # The payloads of a core source are evidence, usually paths, and not nodes.
            return replace(found, source=source.name, payloads=Payloads((), (), found.payloads))
        exchange = asked.exchange if isinstance(asked, OwnRetriever) else None
        if exchange is not None and exchange.ranking is not None:
            return self._checked(replace(exchange.ranking, source=source.name))
        deleted = deleted_nodes(asked)
        unpacked = unpack(hits)
        kept = unpacked if source.filters is None else only_matching(unpacked, source.filters)
        before = 0 if exchange is None else exchange.dropped
        note_dropped(before + len(unpacked) - len(kept), before + len(unpacked), notes)
        ranking = self._ranking(asked, exchange, kept, limit)
        return ranking if deleted is None else source.deletions.counted(ranking, deleted, notes)

    def _ranking(self, asked: Any, exchange: Exchange | None, found: list[NodeWithScore], limit: int | None) -> Ranking:
        source, notes = self.source, self.notes
        if source.knowledge:
            if not source.own_chunks:
                notes.append(
                    "its triples name the passages of their subjects, not the passages that contain the triples"
                )
            return knowledge_ranking(source.reader, asked, found, limit, notes)
        if decides_membership(source.retriever) and source.reader.fields.score is None:
            notes.append("rank only: in its search mode, the scores are not similarities")
            return ranking_of(source.reader, found, limit, notes, ranks=True)
        if source.unordered and source.reader.fields.score is None and all(hit.score is None for hit in found):
            return ranking_of(source.reader, found, limit, notes, ordered=False)
        if exchange is None or not exchange.evidence:
            return ranking_of(source.reader, found, limit, notes)
        why = exchange.evidence

        def evidence(ids: Sequence[str]) -> dict[str, object]:
            pairs = zip(ids, [hit.node.node_id for hit in found], strict=True)
            return {identifier: why[one] for identifier, one in pairs if one in why}

        return ranking_of(source.reader, found, limit, notes, evidence=evidence)

    def _checked(self, ranking: Ranking) -> Ranking:
        """Return the ranking unchanged; raise MalformedAnswerError if a passage in it does not match the filters."""
        filters = self.source.filters
        if filters is not None:
            nodes: list[Any] = list(ranking.payloads.values())
            if len(matching_rows(nodes, filters)) < len(nodes):
                raise MalformedAnswerError(
                    f"source {self.source.name!r} returned nodes that do not match the "
                    "filters, so its hits are not used: check how this source applies "
                    "filters"
                )
        return ranking

    def unpack(self, answer: object) -> list[NodeWithScore]:
        """Convert the return value of ``resolve`` to hits."""
        return unpack(answer)

    def passage(self, identifier: str, value: Any) -> BaseNode:
        """Convert a passage from ``resolve`` to a node."""
        return as_node(identifier, value)

    def with_own_texts(self, ranking: Ranking) -> Ranking:
        """Fetch the nodes of passages that are known only by their triples, from the property graph stores."""
        for store in self._stores:
            wanted = _without_text(ranking)
            ranking = self._with_nodes(ranking, store.get_llama_nodes(wanted)) if wanted else ranking
        return ranking

    async def awith_own_texts(self, ranking: Ranking) -> Ranking:
        """Run :meth:`with_own_texts` asynchronously."""
        for store in self._stores:
            wanted = _without_text(ranking)
            ranking = self._with_nodes(ranking, await store.aget_llama_nodes(wanted)) if wanted else ranking
        return ranking

    @property
    def _stores(self) -> list[Any]:
        return stores_of(self.source.retriever) if self.source.knowledge else []

    def _with_nodes(self, ranking: Ranking, nodes: list[BaseNode]) -> Ranking:
        return with_passages(ranking, {node.node_id: node for node in nodes}, unpack, as_node, [])


def _without_text(ranking: Ranking) -> list[str]:
    """Return the ids of passages that are known only by their triples."""
    return [one for one in ranking.ids if isinstance(ranking.payloads.get(one), TripleNode)]


def filters_within(retriever: Any) -> MetadataFilters | None:
    """Return the filters that a retriever always applies, also if the retrievers in it have them; None without filters.

    Raise InvalidInputError if it merges the lists of retrievers with different filters.
    """
    if isinstance(retriever, OwnRetriever):
        return retriever.whole_filters()
    if isinstance(retriever, QueryFusionRetriever):
        found = [filters_within(one) for one in retriever._retrievers]
        if any(one != found[0] for one in found):
            raise InvalidInputError(
                "the retrievers of QueryFusionRetriever do not have the same filters: give them as sources of their "
                "own (retrievers={NAME: RETRIEVER, ...}), or give filters= to the fused retriever instead"
            )
        return found[0] if found else None
    if isinstance(retriever, AutoMergingRetriever | TransformRetriever):
        inner: Any = retriever
        return filters_within(inner._retriever if isinstance(inner, TransformRetriever) else inner._vector_retriever)
    held = getattr(retriever, "_filters", None)
    return held if isinstance(held, MetadataFilters) and held.filters else None
