"""A LangChain retriever that ranks passages by a walk over an entity graph."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from pydantic import Field, PrivateAttr

import phasegraph  # its subpackages graph and neo4j import scipy.sparse, so they are imported only at their first use
from langchain_phasegraph.base import CheckedRetriever, Count, Key, configured, store_awaits
from langchain_phasegraph.conversion import NamedDocument, ScoredDocuments, copy_of, text_of
from langchain_phasegraph.corpus import (
    DOCUMENTS,
    KeptDocuments,
    held_by_id,
)
from langchain_phasegraph.filters import (
    DocumentFilter,
    check_filter,
    check_required,
    filter_of,
    joined,
)
from phasegraph import InvalidTypeError, Ranking, Source
from phasegraph.retrieval import (
    LONGEST_QUERY,
    GraphPassages,
    GraphSearch,
    HitLookup,
    Indexing,
    Once,
    Upstream,
    await_on,
    caller_loop,
    check_count,
    check_query,
    in_thread,
    is_text_id,
    known_arguments,
    lacks_score,
    named_by_text,
    resolve_id,
    walk_block,
    with_hits,
)

if TYPE_CHECKING:
    import phasegraph.graph
    import phasegraph.neo4j


class EntityGraphRetriever(KeptDocuments, GraphPassages, CheckedRetriever):
    """A retriever that ranks passages by personalized PageRank over an entity graph, with the path to each passage.

    Parameters
    ----------
    graph : EntityGraph or core source
        The graph, or a source of the core, such as a ``GraphSource`` with your own settings.
    documents : sequence or mapping of documents, store or callable, optional
        The documents of the passages: a list of documents, a mapping by id, a vector store (``get_by_ids``), a
        key-value store (``mget``), or a function ``documents(ids)``. Without `documents`, the returned documents have
        no text, and a warning says so. Within a :class:`~langchain_phasegraph.PhaseGraphRetriever`, the other sources
        supply missing documents: first from their hits, then from their stores.
    k : int, default 10
        Number of documents to return, >= 0; also a keyword argument of ``invoke``.
    embeddings : Embeddings, optional
        The model that embeds the query. The walk then prefers passages that are similar to the query. The graph must
        have embeddings.
    embed_clauses : bool, default False
        If a question has two or more clauses, also embed each clause and compare it with the passages. If `graph` is a
        ``GraphSource``, set this option there.
    score_key : str, optional
        Metadata key for the score. Scores are positive, higher is better, and they have no fixed range.
    evidence_key : str, optional
        Metadata key for the evidence: the score, the rank, and the path that contributes most to the score.
    filter : mapping of str to value, optional
        Metadata that a document must have, as for :class:`~langchain_phasegraph.PhaseGraphRetriever`. The walk does not
        pass through other documents. A call can narrow the filter: by the keyword argument ``filter`` of ``invoke``, or
        by ``phasegraph_filter`` under ``configurable``. The matching documents of a store are cached for a minute.
        A document that is deleted or no longer matches is never returned; a new document appears within a minute.
    required_filter_key : str, optional
        As for :class:`~langchain_phasegraph.PhaseGraphRetriever`.
    max_query_length : int or None, default 20000
        Maximum length of a query in characters, >= 1. A longer query raises InvalidInputError. None: no limit.

    Notes
    -----
    The constructor computes the edge weights and compiles the walk; the first search is then as fast as later searches.
    Within a ``PhaseGraphRetriever``, the walk starts at the hits of the sources in ``depends_on``, usually ``vector``.
    In a direct call, it starts at the entities that the query names and at passages that contain the query's words.

    Examples
    --------
    >>> retriever = EntityGraphRetriever.from_documents(
    ...     [
    ...         Document("Vertigo is a film by Alfred Hitchcock.", id="film", metadata={"title": "Vertigo"}),
    ...         Document("Alfred Hitchcock was born in Leytonstone.", id="man", metadata={"title": "Alfred Hitchcock"}),
    ...         Document("Paris is a city.", id="other", metadata={"title": "Paris"}),
    ...     ]
    ... )
    >>> sorted(document.id for document in retriever.invoke("Where was the director of Vertigo born?"))
    ['film', 'man']
    """

    graph: Any
    documents: Any = None
    k: Count = 10
    embeddings: Embeddings | None = None
    embed_clauses: bool = Field(default=False, strict=True)
    score_key: str | None = None
    evidence_key: str | None = None
    filter: Mapping[str, Any] | None = None
    required_filter_key: Key | None = None
    max_query_length: Count | None = LONGEST_QUERY

    _search: GraphSearch = PrivateAttr()
    _corpus: Any = PrivateAttr(default=None)
    _embeds: Any = PrivateAttr(default=None)
    _without_id: frozenset[str] = PrivateAttr()
    _once: Once = PrivateAttr(default_factory=Once)

    def model_post_init(self, context: Any, /) -> None:
        """Prepare the graph and validate the argument `documents`."""
        from phasegraph.graph import EntityGraph, GraphSource, not_a_graph, prepare

        source = self.graph
        if isinstance(source, EntityGraph):
            embedder = DOCUMENTS.model_of(self.embeddings)
            source = GraphSource(source, embedder=embedder, embed_clauses=self.embed_clauses)
        if not isinstance(source, Source):
            raise InvalidTypeError(not_a_graph(source))
        self._search = GraphSearch(source, Lookup.of(self.documents), DOCUMENTS)
        self._find_missing_ids()
        check_filter(self.filter)
        prepare(source)

    @property
    def lookup(self) -> Lookup:
        """The lookup of documents by id."""
        return cast("Lookup", self._search.look_up)

    def _find_missing_ids(self) -> None:
        view = getattr(getattr(self._source, "graph", None), "view", None)
        self._without_id = frozenset(filter(is_text_id, getattr(view, "passage_rows", ())))

    def _follow(self, checked: Self, name: str) -> None:
        if self._corpus is not None and name not in ("graph", "embeddings"):
            self._search = GraphSearch(self._source, checked.lookup, DOCUMENTS)
            return
        self._search, self._without_id, self._corpus = checked._search, checked._without_id, None

    @classmethod
    @known_arguments
    def from_documents(
        cls,
        documents: Iterable[Document],
        embeddings: Embeddings | None = None,
        *,
        vectors: Any = None,
        triples: phasegraph.graph.Triples | None = None,
        extractor: Any = None,
        known_names: Iterable[str] = (),
        tokenizer: Any = "english",
        title_key: str = "title",
        source_key: str | None = None,
        progress: bool | None = True,
        **fields: Any,
    ) -> Self:
        """Build the graph from documents; you can add and delete documents later.

        Parameters
        ----------
        documents : iterable of Document
            The documents; each document is a passage of the graph. Documents without text are left out, with a warning.
        embeddings : Embeddings, optional
            The model that embeds each query, and every passage unless you pass `vectors`.
        vectors : (P, d) array_like, optional
            The passages' embeddings.
        triples, extractor, known_names
            As for :func:`phasegraph.graph.build_graph`. To use graph documents of LangChain, see
            :func:`~langchain_phasegraph.extractions_of`. A graph from your own `extractor` cannot be changed later.
        tokenizer : {"english", "german", "plain", "snowball:LANGUAGE"} or callable, default "english"
            The tokenizer that splits passages and queries into words, as for :func:`phasegraph.graph.build_graph`.
        title_key : str, default "title"
            Metadata key of a passage's title.
        source_key : str, optional
            Metadata key that names the file or page of a passage. By default, the first of the keys ``source``,
            ``doc_id``, ``ref_doc_id`` and ``file_path`` that a passage has.
        progress : bool, default True
            Show progress bars for many documents, if standard error is a terminal and tqdm is installed.
        **fields
            Other fields of the retriever.
        """
        how = Indexing(triples, known_names, tokenizer, title_key, source_key, progress)
        return cls._of_passages(documents, embeddings, how, vectors, extractor, fields)

    @classmethod
    @known_arguments
    def load(cls, path: str | os.PathLike[str], embeddings: Embeddings | None = None, **fields: Any) -> Self:
        """Open a folder that :meth:`save` or ``PhaseGraphRetriever.from_documents`` wrote.

        Parameters
        ----------
        path : path
            The folder.
        embeddings : Embeddings, optional
            The model that embedded the passages.
        **fields
            Other fields of the retriever.

        Raises
        ------
        IntegrityError
            If the folder is damaged, was not written by phasegraph, or was written by a newer version.
        InvalidInputError
            If the folder was written for another framework or with another model. To check the model, `embeddings`
            embeds three documents again.
        """
        return cls._loaded(path, embeddings, fields)

    def _remodelled(self, model: Embeddings) -> None:
        self._take("embeddings", model)

    def _changed(self, corpus: phasegraph.graph.Corpus) -> None:
        self._take("graph", corpus.index.graph)
        self._find_missing_ids()

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The names of the sources that supply the passages at which the walk starts."""
        return tuple(getattr(self._source, "depends_on", ()))

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        upstream: Upstream | None = None,
        filter: Any = None,  # noqa: A002
    ) -> list[Document]:
        return self._find(query, k, upstream, filter)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        upstream: Upstream | None = None,
        filter: Any = None,  # noqa: A002
    ) -> list[Document]:
        return list(await in_thread(lambda given: self._find(given, k, upstream, filter), query))

    def _find(self, query: str, k: int | None, upstream: Upstream | None, narrower: Any) -> list[Document]:
        """Search, and return copies of the documents.

        If `upstream` is given, the caller is a fusing retriever; it gets the original documents, and the ranking as an
        attribute of the list. `narrower` is an additional filter; None means no filter.
        """
        wanted = self.k if k is None else check_count("k", k)
        if upstream is None:
            check_query(query, self.max_query_length)
        if wanted == 0:
            return []
        seeds = named_by_text(upstream or {}, self._without_id, text_of) if self._without_id else upstream or {}
        config, every = configured(), None
        if config or self.filter is not None or narrower is not None:
            every = joined(check_filter(self.filter), check_filter(narrower), filter_of(config))
        if self.required_filter_key is not None:
            check_required(self.required_filter_key, every)
        matching = None if every is None else DocumentFilter(every)
        ranking, held = self._search.search(query, wanted, seeds, matching, warns=upstream is None)
        documents = [held.get(one) for one in ranking.ids]
        found = ScoredDocuments(
            NamedDocument(page_content="", id=one) if document is None else document
            for one, document in zip(ranking.ids, documents, strict=True)
        )
        if upstream is None:
            return self._alone(found, ranking)
        found.ranking = with_hits(ranking, documents)
        return found

    def _alone(self, found: Sequence[Document], ranking: Ranking) -> list[Document]:
        """Return copies of the documents for a caller that is not a fusing retriever.

        If the retriever has `documents`, passages without a document are left out.
        """
        rows = [row for row, one in enumerate(found) if not isinstance(one, NamedDocument)]
        self._search.warn_of_missing(len(found) - len(rows), len(found))
        if self.documents is None:
            rows = list(range(len(found)))
        return [self._copy(found[row], ranking, row) for row in rows]

    def _copy(self, document: Document, ranking: Ranking, row: int) -> Document:
        identifier, score = ranking.ids[row], float(ranking.scores[row])
        extra: dict[str, Any] = {}
        if self.evidence_key is not None:
            extra[self.evidence_key] = walk_block(ranking, row)
        if self.score_key is not None and lacks_score(self.score_key, document.metadata, self._once):
            extra[self.score_key] = score
        return copy_of(document, document.id or identifier, extra)


@dataclass(frozen=True, slots=True)
class Lookup(HitLookup):
    """A lookup of documents by passage id, in memory or in a store."""

    @classmethod
    def of(cls, documents: Any) -> Lookup:
        """Create the lookup for the argument `documents`; raise InvalidTypeError if its type is not supported."""
        if documents is None:
            return cls("none", None)
        if isinstance(documents, Mapping):
            return cls("mapping", documents)
        if getattr(type(documents), "get_by_ids", None) is VectorStore.get_by_ids:  # the base class looks up nothing
            raise InvalidTypeError(
                f"documents must be a store that looks up documents by id; a {type(documents).__name__} cannot: give "
                "the documents, or a function of ids"
            )
        for method in ("get_by_ids", "mget"):
            if hasattr(documents, method):
                return cls(method, documents)
        if callable(documents):
            return cls("callable", documents)
        if isinstance(documents, str | bytes) or not isinstance(documents, Iterable):
            raise InvalidTypeError(
                f"documents must be a list of documents, a store or a function; got {type(documents).__name__}"
            )
        return cls("mapping", held_by_id(documents))

    @property
    def waits(self) -> bool:
        """True if the lookup may wait, for example for a server; False if all documents are in memory."""
        of_faiss = type(getattr(self.held, "docstore", None)).__name__ == "InMemoryDocstore"
        in_memory = self.kind in ("none", "mapping") or of_faiss or isinstance(self.held, InMemoryVectorStore)
        return not in_memory

    def __call__(self, ids: Sequence[str]) -> dict[str, Document]:
        """Return the existing documents by id; a plain text is converted to a document."""
        if self.kind == "none":
            return {}
        if self.kind == "get_by_ids":
            held = self._by_ids(list(ids))  # Qdrant's documents have the id in the metadata
            return {resolve_id(one.id, one.metadata, one.page_content)[0]: one for one in held}
        found: Any = self.held
        if self.kind != "mapping":
            found = self.held.mget(list(ids)) if self.kind == "mget" else self.held(ids)
        return {
            one: value if isinstance(value, Document) else Document(page_content=str(value), id=one)
            for one, value in self._paired(ids, found)
        }

    def _by_ids(self, ids: list[str]) -> list[Document]:
        """Return the store's documents with the ids; an asynchronous call awaits the store's own asynchronous method.

        A store whose connections belong to an event loop has no other way to look up documents.
        """
        store, loop = self.held, caller_loop()
        if loop is None or isinstance(store, InMemoryVectorStore) or not store_awaits(store, "aget_by_ids"):
            return list(store.get_by_ids(ids))
        return list(await_on(loop, store.aget_by_ids(ids)))
