"""The entity graph as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import run_in_executor
from pydantic import PrivateAttr, model_validator

from langchain_phasegraph.base import CheckedRetriever, Count
from langchain_phasegraph.documents import ScoredDocuments
from langchain_phasegraph.filtering import check_filter, joined, matches
from langchain_phasegraph.passages import Fetch, Passages, fetcher
from langchain_phasegraph.stored import FromNeo4j
from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.adapters import resolve_id
from phasegraph.graph import EntityGraph, Extraction, GraphSource
from phasegraph.graph.documents import graph_of_documents
from phasegraph.graph.preparing import not_a_graph, prepare
from phasegraph.graph.source import passage_ids
from phasegraph.pipeline.checks import check_count
from phasegraph.sources import Given, Source


class EntityGraphRetriever(FromNeo4j, CheckedRetriever):
    """Passages by personalised PageRank over an entity graph, with the path to each of them.

    Parameters
    ----------
    graph : EntityGraph or core source
        The graph; or any source of the core, such as a ``GraphSource`` with settings of its own.
    documents : sequence or mapping of documents, store or callable, optional
        Where the passages' documents come from: a list of them, a mapping by id, a vector store
        (``get_by_ids``), a key-value store (``mget``), or ``documents(ids)``. Without, documents have no text: enough
        within a :class:`~langchain_phasegraph.PhaseGraphRetriever` whose other sources hold the same passages.
    k : int, default 10
        Documents returned, >= 0; also a keyword of ``invoke``.
    embeddings : Embeddings, optional
        Embeds the query, so that passages nearer to it are entered more readily; for a graph with embeddings.
    score_key : str or None, default "score"
        Metadata key for the score, the mass in (0, 1].
    provenance : bool, default True
        Add ``metadata["phasegraph"]``: score, rank, and the path on which most of the mass came.
    filter : mapping of str to value, optional
        Metadata that a document must have, by equality, to be walked through or returned; also a keyword of
        ``invoke``, which narrows it further.

    Notes
    -----
    The graph is made ready at construction (edges weighed, the walk compiled): no search waits for it.
    Within a ``PhaseGraphRetriever`` it declares that it needs ``vector`` (the names in ``graph.needs``): the dense
    ranking seeds the walk. Asked alone, only the entities that the query names do.

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
    score_key: str | None = "score"
    provenance: bool = True
    filter: Mapping[str, Any] | None = None

    _source: Source = PrivateAttr()
    _fetch: Fetch = PrivateAttr()
    _prepared: Any = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _prepare(self) -> Self:
        if isinstance(self.graph, EntityGraph):
            embedder = None if self.embeddings is None else self.embeddings.embed_query
            self._source = GraphSource(self.graph, embedder=embedder)
        elif isinstance(self.graph, Source):
            self._source = self.graph
        else:
            raise InvalidTypeError(not_a_graph(self.graph))
        self._fetch = fetcher(self.documents)
        if self._prepared is not self.graph:
            prepare(self._source)
            self._prepared = self.graph
        return self

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        *,
        embeddings: Embeddings | None = None,
        vectors: Any = None,
        extractions: Iterable[Extraction] | Mapping[str, Sequence[tuple[str, str, str]]] | None = None,
        extractor: Any = None,
        gazetteer: Iterable[str] = (),
        title_key: str = "title",
        **fields: Any,
    ) -> Self:
        """Build the graph from documents.

        Parameters
        ----------
        documents : iterable of Document
        embeddings : Embeddings, optional
            Embeds every passage (unless `vectors` are given) and each query.
        vectors : (P, d) array_like, optional
            The passages' embeddings.
        extractions, extractor, gazetteer
            ``triples``, ``extractor`` and ``gazetteer`` of :func:`phasegraph.graph.build_graph`; for LangChain's graph
            documents see :func:`~langchain_phasegraph.extractions_of`.
        title_key : str, default "title"
            Metadata key of a passage's title.
        **fields
            The other fields of the retriever.
        """
        held = {resolve_id(one.id, one.metadata, one.page_content)[0]: one for one in documents}
        graph = graph_of_documents(
            ((name, one.metadata, one.page_content) for name, one in held.items()),
            title_key=title_key, embed=None if embeddings is None else embeddings.embed_documents, vectors=vectors,
            triples=extractions, extractor=extractor, gazetteer=gazetteer,
        )  # fmt: skip
        return cls(graph=graph, documents=held, embeddings=embeddings, **fields)

    @property
    def needs(self) -> tuple[str, ...]:
        """Sources whose rankings seed the walk."""
        return tuple(getattr(self._source, "needs", ()))

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        given: Given | None = None,
        filter: Any = None,  # noqa: A002
    ) -> list[Document]:
        return self._find(query, check_count("k", self.k if k is None else k), given, filter)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        given: Given | None = None,
        filter: Any = None,  # noqa: A002
    ) -> list[Document]:
        wanted = check_count("k", self.k if k is None else k)
        return await run_in_executor(None, self._find, query, wanted, given, filter)

    def _find(self, query: str, k: int, given: Given | None, narrower: Any = None) -> list[Document]:
        if k == 0:
            return []
        ranking = self._within(narrower).search(query, k, {} if given is None else given)
        texts = self._fetch(ranking.ids) if len(ranking) else {}
        payloads = Passages(ranking, texts, self.score_key, self.provenance)
        if given is None:
            return list(payloads.values())
        found = ScoredDocuments(texts.get(one) or Document(page_content="", id=one) for one in ranking.ids)
        found.ranking, found.payloads = ranking, payloads
        return found

    def _within(self, narrower: Any) -> Source:
        """The source for those documents that the filters let through."""
        wanted = joined(check_filter(self.filter), check_filter(narrower))
        if wanted is None:
            return self._source
        ids = passage_ids(self._source)
        if self.documents is None:
            raise InvalidInputError(
                "a filter needs the documents of the graph: EntityGraphRetriever(graph=..., documents=...); got none"
            )
        held = self._fetch(ids)
        narrowed: Any = self._source
        made: Source = narrowed.within({name for name, document in held.items() if matches(document, wanted)})
        return made
