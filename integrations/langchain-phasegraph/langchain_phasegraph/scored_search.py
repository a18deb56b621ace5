"""Search a LangChain vector store with scores, and drop hits that do not match the filter of the call."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore, VectorStoreRetriever
from pydantic import PrivateAttr

from langchain_phasegraph.conversion import ScoredDocuments, unpack
from langchain_phasegraph.filters import joined, only_matching
from langchain_phasegraph.restricted_search import faiss_within, selects_rows
from langchain_phasegraph.search_by_vector import asearch_by_vector, hybrid_settings, search_by_vector
from langchain_phasegraph.store_filters import check_depth, own_filter, store_settings
from phasegraph import InvalidInputError
from phasegraph.retrieval import Attempts, FilterRefusedError

MEMBERSHIP_ONLY = ("fetch_k", "lambda_mult", "score_threshold")
"""Search arguments that choose among the hits of a store."""

BOUND_FILTER = "phasegraph_bound_filter"
"""Argument for a filter that is bound to a retriever; under the name ``filter``, a call's filter would replace it."""

_FETCHED, _DEFAULT_K = 20, 4


@dataclass(frozen=True, slots=True)
class _StoreSearch:
    """One search of a store.

    `arguments` are the arguments of the search, and `call` the arguments of the retriever's call. `store` may be a part
    of the retriever's store that contains only the matching documents.
    """

    store: VectorStore
    arguments: Mapping[str, Any]
    call: Mapping[str, Any]

    def attempts(self) -> Attempts:
        """Return several attempts of the search if a filter has increased ``k``, otherwise a single attempt."""
        depth = self.arguments.get("k")
        return Attempts(None if depth == self.call.get("k") else depth, [])

    def for_attempt(self, count: int | None) -> Mapping[str, Any]:
        """Return the arguments of one attempt, which requests `count` hits (None: no change)."""
        return self.arguments if count is None else {**self.arguments, "k": count}

    def for_scores(self) -> dict[str, Any]:
        """Return the arguments of a second search, which returns the scores of the documents that the first chose.

        The second search has a larger `k`, and no argument that chooses among the hits.
        """
        kept = {key: value for key, value in self.arguments.items() if key not in MEMBERSHIP_ONLY}
        depth = 0 if "score_threshold" in self.arguments else self.arguments.get("fetch_k", _FETCHED)
        return {**kept, "k": max(depth, self.arguments.get("k", _DEFAULT_K))}

    def matching(self, found: object) -> ScoredDocuments:
        """Return the documents in `found` that match the filter of the call.

        If the search requested more hits than the call, and too few documents match, raise FilterRefusedError.
        """
        documents, wanted = unpack(found), self.call.get("filter")
        if wanted is None:
            return documents
        kept, limit = only_matching(documents, wanted), self.call.get("k", _DEFAULT_K)
        if self.arguments.get("k", limit) > limit:
            check_depth(documents, kept, self.arguments["k"], limit)
            kept.dropped = 0  # the search requested more hits, because some hits would not match
        return kept


def with_scores(documents: list[Document], pairs: list[tuple[Document, Any]]) -> ScoredDocuments:
    """Attach the pairs (document, score) of a second search to the documents that the first search chose."""
    scored = ScoredDocuments(documents)
    scored.searched = pairs
    return scored


class ScoredVectorStoreRetriever(VectorStoreRetriever):
    """A vector-store retriever that also returns scores and drops hits that do not match the call's filter.

    The search type ``similarity`` is run as ``similarity_search_with_score``. For ``mmr`` and
    ``similarity_score_threshold``, the retriever's own search chooses the documents, and a second search supplies their
    scores; ``mmr`` keeps its own ``k``. Scores never come from relevance functions.
    """

    _inner: VectorStoreRetriever = PrivateAttr()

    @classmethod
    def around(cls, inner: VectorStoreRetriever) -> ScoredVectorStoreRetriever:
        """Create a retriever that searches like `inner` and reads the settings of `inner` at every call."""
        if isinstance(inner.vectorstore, InMemoryVectorStore) and isinstance(
            inner.search_kwargs.get("filter"), Mapping
        ):
            raise InvalidInputError(
                "InMemoryVectorStore accepts only a function as the filter in search_kwargs; got a mapping: give "
                "filter= to the retriever of phasegraph instead"
            )
        made = cls(vectorstore=inner.vectorstore, name=inner.get_name(), tags=inner.tags, metadata=inner.metadata)
        made._inner = inner
        return made

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        search, inner = self._search(query, kwargs), self._inner
        if inner.search_type != "similarity":
            chosen = inner._get_relevant_documents(query, run_manager=run_manager, **search.arguments)
            pairs = search.store.similarity_search_with_score(query, **search.for_scores())
            return search.matching(with_scores(chosen, pairs))
        found: object
        try:
            for attempt in search.attempts():
                with attempt as count:
                    found = unpack(search_by_vector(search.store, query, search.for_attempt(count)))
        except NotImplementedError:
            found = inner._get_relevant_documents(query, run_manager=run_manager, **search.arguments)
        return search.matching(found)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        search, inner = self._search(query, kwargs), self._inner
        if inner.search_type != "similarity":
            chosen = await inner._aget_relevant_documents(query, run_manager=run_manager, **search.arguments)
            pairs = await search.store.asimilarity_search_with_score(query, **search.for_scores())
            return search.matching(with_scores(chosen, pairs))
        found: object
        try:
            for attempt in search.attempts():
                with attempt as count:
                    found = unpack(await asearch_by_vector(search.store, query, search.for_attempt(count)))
        except NotImplementedError:
            found = await inner._aget_relevant_documents(query, run_manager=run_manager, **search.arguments)
        return search.matching(found)

    def _search(self, query: str, call: Mapping[str, Any]) -> _StoreSearch:
        """Return the search for a call with the arguments `call`, which may contain a filter."""
        store, own = self._inner.vectorstore, dict(self._inner.search_kwargs)
        given = dict(call)
        wanted, bound = given.pop("filter", None), given.pop(BOUND_FILTER, None)
        if bound is not None:
            own["filter"] = bound
        arguments = own if self._inner.search_type == "mmr" else {**own, **given}
        arguments |= hybrid_settings(store, query, arguments)
        if wanted is None and own.get("filter") is None:
            return _StoreSearch(store, arguments, call)
        part = self._matching_part(wanted, own)
        if part is not None:
            unfiltered = {name: value for name, value in arguments.items() if name != "filter"}
            return _StoreSearch(part, unfiltered, call)
        if wanted is not None:
            arguments = {**arguments, **self._filter_arguments(wanted, own.get("filter"))}
        return _StoreSearch(store, arguments, call)

    def _matching_part(self, wanted: Any, own: Mapping[str, Any]) -> VectorStore | None:
        """Return the part of the store that matches the call's filter `wanted` and the filter in the arguments `own`.

        Return None if the store cannot be divided, or only the store can read a filter in its own form.
        """
        store = self._inner.vectorstore
        if self._inner.search_type == "similarity" and selects_rows(store):
            with suppress(InvalidInputError):
                every = joined(wanted, own_filter(store, own))
                return store if every is None else faiss_within(store, every)
        return None

    def _filter_arguments(self, wanted: Any, own: Any) -> dict[str, Any]:
        """Return the search arguments with which the store applies the call's filter `wanted` and its `own` filter.

        Raise FilterRefusedError if the retriever's search type cannot apply them.
        """
        found = store_settings(self._inner.vectorstore, wanted, own)
        if "k" in found and self._inner.search_type != "similarity":
            raise FilterRefusedError(
                f"this store cannot apply filter= with search_type={self._inner.search_type!r}; use 'similarity'"
            )
        return found
