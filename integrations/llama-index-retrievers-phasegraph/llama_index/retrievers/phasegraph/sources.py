"""A LlamaIndex retriever as a source of the core."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, cast

from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters

from llama_index.retrievers.phasegraph.exchange import Asking, Exchange, own_copy
from llama_index.retrievers.phasegraph.filtering import filtered, joined, only_matching
from llama_index.retrievers.phasegraph.knowledge import TripleNode, is_knowledge, keeps_text, store_of, with_own_chunks
from llama_index.retrievers.phasegraph.lexical import bm25_within, is_bm25
from llama_index.retrievers.phasegraph.reading import Knowledge, Reader
from llama_index.retrievers.phasegraph.resolving import resolved
from llama_index.retrievers.phasegraph.searching import (
    as_retriever,
    decides_membership,
    is_asynchronous,
    prepared,
    store_of_vectors,
)
from llama_index.retrievers.phasegraph.selecting import faiss_within, is_faiss
from phasegraph import InvalidTypeError, Ranking
from phasegraph.adapters import Direction, known_direction
from phasegraph.adapters.specs import SourceSpec
from phasegraph.graph.preparing import prepare
from phasegraph.sources import Given
from phasegraph.sources.answers import MalformedAnswerError
from phasegraph.sources.protocol import AnySource, asearch_of, search_of


class RetrieverSource:
    """One source between calls: what to ask, how to ask it, how to read it.

    Parameters
    ----------
    name : str
    spec : SourceSpec
    """

    def __init__(self, name: str, spec: SourceSpec) -> None:
        self.name = name
        self.spec = spec
        self.filters: MetadataFilters | None = None
        given = spec.retriever
        self.core = not hasattr(given, "retrieve") and (search_of(given) or asearch_of(given)) is not None
        self.retriever: Any = given if self.core else as_retriever(given)
        direction = Direction(spec.higher_is_better, _known(self.retriever), name)
        self.reader = Reader(name, spec, direction, self._knowledge())
        resolves_async = inspect.iscoroutinefunction(spec.resolve)
        self.synchronous = not resolves_async and not getattr(self.retriever, "asynchronous", False)
        self.asynchronous = is_asynchronous(self.retriever) and (spec.resolve is None or resolves_async)
        if self.core:
            prepare(given)
            self.synchronous = search_of(given) is not None and not resolves_async
            self.asynchronous = asearch_of(given) is not None and (spec.resolve is None or resolves_async)
        if resolves_async and not self.asynchronous:
            raise InvalidTypeError(f"retrievers[{name!r}].resolve must be a plain function; its retriever is not async")

    def within(self, filters: MetadataFilters) -> RetrieverSource:
        """The same source for hits that match; what it learnt is shared."""
        made = copy.copy(self)
        kind = bm25_within if is_bm25(self.retriever) else faiss_within if is_faiss(self.retriever) else filtered
        made.retriever = kind(self.retriever, filters)
        made.filters = joined(self.filters, filters)
        return made

    def bind(self, bundle: QueryBundle, notes: list[str]) -> AnySource:
        """The source of one call, which gets a copy of `bundle`; what it notes goes to `notes`."""
        if not self.synchronous:
            return _AsyncBound(self, bundle, notes)
        return _Both(self, bundle, notes) if self.asynchronous else _Bound(self, bundle, notes)

    def read(self, hits: object, asked: Exchange, notes: list[str]) -> Ranking:
        """The answer as a ranking: the retriever's own, nodes joined, where it handed one over."""
        if not isinstance(hits, list):
            raise MalformedAnswerError(f"malformed: a retriever must return a list of nodes; got {type(hits).__name__}")
        if asked.ranking is None:
            hits = only_matching(hits, self.filters)
            if decides_membership(self.retriever) and self.spec.score_fn is None and self.spec.score_key is None:
                notes.append("rank only: the scores of its mode are not similarities")
                hits = [NodeWithScore.model_construct(node=hit.node, score=None) for hit in hits]
            return self.reader.ranking(hits, asked.limit, notes)
        return replace(asked.ranking, source=self.name)

    def _knowledge(self) -> Knowledge | None:
        if not is_knowledge(self.retriever):
            return None
        return Knowledge(keeps_text(self.retriever), _is_exact(with_own_chunks(self.retriever, None)))


class _Bound:
    __slots__ = ("_bundle", "_notes", "_source")

    def __init__(self, source: RetrieverSource, bundle: QueryBundle, notes: list[str]) -> None:
        self._source = source
        self._bundle = bundle
        self._notes = notes

    def search(self, query: str, limit: int | None, given: Given) -> Ranking:
        source = self._source
        ranking: Ranking
        if source.core:
            ranking = source.retriever.search(query, limit, given)
        else:
            with Asking(source.name, limit, given) as asked:
                hits = prepared(source.retriever, limit).retrieve(own_copy(self._bundle, query))
            ranking = source.read(hits, asked, self._notes)
        if not len(ranking):
            return ranking
        if source.spec.resolve is not None:
            return resolved(ranking, source.spec.resolve(ranking.ids), self._notes)
        wanted, store = _texts_wanted(source, ranking)
        return resolved(ranking, {n.node_id: n for n in store.get_llama_nodes(wanted)}, []) if wanted else ranking


class _AsyncBound(_Bound):
    __slots__ = ()
    search = None  # type: ignore[assignment]

    async def asearch(self, query: str, limit: int | None, given: Given) -> Ranking:
        source = self._source
        ranking: Ranking
        if source.core:
            ranking = await source.retriever.asearch(query, limit, given)
        else:
            with Asking(source.name, limit, given) as asked:
                hits = await prepared(source.retriever, limit).aretrieve(own_copy(self._bundle, query))
            ranking = source.read(hits, asked, self._notes)
        if not len(ranking):
            return ranking
        if source.spec.resolve is not None:
            found = await cast("Awaitable[object]", source.spec.resolve(ranking.ids))
            return resolved(ranking, found, self._notes)
        wanted, store = _texts_wanted(source, ranking)
        if not wanted:
            return ranking
        return resolved(ranking, {n.node_id: n for n in await store.aget_llama_nodes(wanted)}, [])


class _Both(_Bound):
    __slots__ = ()
    asearch = _AsyncBound.asearch


def _known(retriever: Any) -> bool | None:
    if is_knowledge(retriever) or type(retriever).__name__ in ("BM25Retriever", "CalibratedFusionRetriever"):
        return True
    store = store_of_vectors(retriever)
    return None if store is None else known_direction(store)


def _is_exact(retriever: Any) -> bool:
    if hasattr(retriever, "sub_retrievers"):
        return all(map(_is_exact, retriever.sub_retrievers))
    return "_get_nodes_with_score" in vars(retriever)


def _texts_wanted(source: RetrieverSource, ranking: Ranking) -> tuple[list[str], Any]:
    """Ids of passages of which only a triple is at hand, and the store that may have their text."""
    if source.reader.knowledge is None:
        return [], None
    store = store_of(source.retriever)
    if store is None:
        return [], None
    return [one for one in ranking.ids if isinstance(ranking.payloads.get(one), TripleNode)], store
