"""A LangChain retriever that walks an entity graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import (
    TYPE_CHECKING,
    Any,
    Self,
    TypeAlias,
    cast,
)

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from pydantic import Field, PrivateAttr

import phasegraph  # its rooms graph and neo4j are loaded when they are first named: they bring scipy.sparse
from langchain_phasegraph.base import CheckedRetriever, Count, Key, configured
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
    EvidenceBlock,
    GraphPassages,
    GraphSearch,
    HitLookup,
    Indexing,
    Payloads,
    Upstream,
    check_count,
    check_query,
    in_thread,
    is_text_id,
    known_arguments,
    named_by_text,
    plain_evidence,
    resolve_id,
)

if TYPE_CHECKING:
    import phasegraph.graph
    import phasegraph.neo4j


_SECONDS = 60.0
"""How long it is remembered which documents of a store a filter lets through."""
Documents: TypeAlias = Mapping[str, Document] | Callable[[Sequence[str]], Mapping[str, Document]]


class EntityGraphRetriever(KeptDocuments, GraphPassages, CheckedRetriever):
    """Rank passages by personalised PageRank over an entity graph, and report the path to each passage.

    Parameters
    ----------
    graph : EntityGraph or core source
        The graph, or any source of the core, such as a configured ``GraphSource``.
    documents : sequence or mapping of documents, store or callable, optional
        The documents of the passages: a list of documents, a mapping by id, a vector store (``get_by_ids``), a
        key-value store (``mget``), or ``documents(ids)``. If omitted, documents have no text, and a warning says so.
        Within a :class:`~langchain_phasegraph.PhaseGraphRetriever`, the other sources supply the documents: first their
        hits, then their stores.
    k : int, default 10
        Documents returned, >= 0; also a keyword of ``invoke``.
    embeddings : Embeddings, optional
        Embeds the query, so that passages nearer to it are entered more readily; for a graph with embeddings.
    embed_clauses : bool, default False
        Also compare the passages with each clause of a question that has two clauses or more; the model embeds each
        clause. A configured ``GraphSource`` has this option itself.
    score_key : str, optional
        Metadata key for the score: positive, higher is better, of no fixed range.
    evidence_key : str, optional
        Metadata key for the evidence: score, rank, and the path on which most of the mass came.
    filter : mapping of str to value, optional
        Metadata that a document must have to be walked through or returned, as for
        :class:`~langchain_phasegraph.PhaseGraphRetriever`; also a keyword of ``invoke``, and ``phasegraph_filter``
        under ``configurable``, which narrow it further.
        Which documents of a store it lets through is remembered for a minute: one that is changed or deleted meanwhile
        is never returned, one that is added comes after it.
    required_filter_key : str, optional
        As for :class:`~langchain_phasegraph.PhaseGraphRetriever`.
    max_query_length : int or None, default 20000
        Characters of the longest query, >= 1; a longer one is an InvalidInputError. None: of any length.

    Notes
    -----
    The graph is made ready at construction (edges weighed, the walk compiled): no search waits for it.
    Within a ``PhaseGraphRetriever`` it declares that it depends on ``vector`` (the names in ``graph.depends_on``): the
    dense ranking seeds the walk. Asked alone, what the query names and the passages with its words do.

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

    def model_post_init(self, context: Any, /) -> None:
        """Prepare the graph and check the argument `documents`."""
        from phasegraph.graph import EntityGraph, GraphSource, not_a_graph, prepare

        source = self.graph
        if isinstance(source, EntityGraph):
            embedder = None if self.embeddings is None else self.embeddings.embed_query
            source = GraphSource(source, embedder=embedder, embed_clauses=self.embed_clauses)
        if not isinstance(source, Source):
            raise InvalidTypeError(not_a_graph(source))
        self._search = GraphSearch(source, Lookup.of(self.documents), DOCUMENTS)
        self._find_missing_ids()
        check_filter(self.filter)
        prepare(source)

    @property
    def lookup(self) -> Lookup:
        """Return the function that finds documents by id."""
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
        *,
        embeddings: Embeddings | None = None,
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
        """Build the graph from documents; later calls can add and delete documents.

        Parameters
        ----------
        documents : iterable of Document
        embeddings : Embeddings, optional
            Embeds every passage (unless `vectors` are given) and each query.
        vectors : (P, d) array_like, optional
            The passages' embeddings.
        triples, extractor, known_names
            As for :func:`phasegraph.graph.build_graph`; for graph documents of LangChain see
            :func:`~langchain_phasegraph.extractions_of`. A graph from your own `extractor` cannot be changed later.
        tokenizer : {"english", "german", "plain", "snowball:LANGUAGE"} or callable, default "english"
            Splits passages and queries into words, as for :func:`phasegraph.graph.build_graph`.
        title_key : str, default "title"
            Metadata key of a passage's title.
        source_key : str, optional
            Metadata key that names a passage's document; unless given the first of ``source``, ``doc_id``,
            ``ref_doc_id`` and ``file_path`` that is there.
        progress : bool, default True
            Show bars for many documents, where standard error is a terminal and tqdm is installed.
        **fields
            The other fields of the retriever.
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
        embeddings : Embeddings, optional
            The model that embedded the passages.
        **fields
            The other fields of the retriever.

        Raises
        ------
        IntegrityError
            If the folder is damaged, foreign or newer.
        InvalidInputError
            If the folder was made for another framework or with another model. To check the model, `embeddings` embeds
            three documents again.
        """
        return cls._loaded(path, embeddings, fields)

    def _remodelled(self, model: Embeddings) -> None:
        self._take("embeddings", model)

    def _changed(self, corpus: phasegraph.graph.Corpus) -> None:
        self._take("graph", corpus.index.graph)
        self._find_missing_ids()

    @property
    def depends_on(self) -> tuple[str, ...]:
        """Names of the sources whose rankings seed the walk."""
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
        """Search, and return documents with the requested metadata; a fusion retriever gets documents and ranking."""
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
        ranking, held = self._search.search(query, wanted, seeds, None if every is None else DocumentFilter(every))
        documents = [held.get(one) for one in ranking.ids]
        found = ScoredDocuments(
            NamedDocument(page_content="", id=one) if document is None else document
            for one, document in zip(ranking.ids, documents, strict=True)
        )
        if upstream is None:
            return self._alone(found, ranking)
        found.ranking = replace(ranking, payloads=Payloads(ranking.ids, documents, ranking.payloads))
        return found

    def _alone(self, found: Sequence[Document], ranking: Ranking) -> list[Document]:
        """Return copies of the documents for a direct caller; passages without a document are left out."""
        rows = [row for row, one in enumerate(found) if not isinstance(one, NamedDocument)]
        self._search.warn_of_missing(len(found) - len(rows), len(found))
        if self.documents is None:
            rows = list(range(len(found)))
        return [self._copy(found[row], ranking, row) for row in rows]

    def _copy(self, document: Document, ranking: Ranking, row: int) -> Document:
        identifier, score = ranking.ids[row], float(ranking.scores[row])
        extra: dict[str, Any] = {}
        if self.evidence_key is not None:
            path = plain_evidence(ranking.payloads.get(identifier))
            block = {"score": score, "rank": row + 1, **(path if isinstance(path, dict) else {"evidence": path})}
            extra[self.evidence_key] = EvidenceBlock(block)
        if self.score_key is not None and self.score_key not in document.metadata:
            extra[self.score_key] = score
        return copy_of(document, document.id or identifier, extra)


@dataclass(frozen=True, slots=True)
class Lookup(HitLookup):
    """Finds documents by passage id, in memory or in a store."""

    @classmethod
    def of(cls, documents: Any) -> Lookup:
        """Create the lookup for the argument `documents`; InvalidTypeError if its type is not supported."""
        if documents is None:
            return cls("none", None)
        if isinstance(documents, Mapping):
            return cls("mapping", documents)
        for method in ("get_by_ids", "mget"):
            if hasattr(documents, method):
                return cls(method, documents)
        if callable(documents):
            return cls("callable", documents)
        if isinstance(documents, str | bytes) or not isinstance(documents, Iterable):
            raise InvalidTypeError(
                f"documents must be documents, a store or a function; got {type(documents).__name__}"
            )
        return cls("mapping", held_by_id(documents))

    def __call__(self, ids: Sequence[str]) -> dict[str, Document]:
        """Return the documents that exist for these ids; a plain text becomes a document."""
        if self.kind == "none":
            return {}
        if self.kind == "get_by_ids":
            held = self.held.get_by_ids(list(ids))  # Qdrant's carry theirs in the metadata
            return {resolve_id(one.id, one.metadata, one.page_content)[0]: one for one in held}
        found: Any = self.held
        if self.kind != "mapping":
            found = self.held.mget(list(ids)) if self.kind == "mget" else self.held(ids)
        return {
            one: value if isinstance(value, Document) else Document(page_content=str(value), id=one)
            for one, value in self._paired(ids, found).items()
        }
