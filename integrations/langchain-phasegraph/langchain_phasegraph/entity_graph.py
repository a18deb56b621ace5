"""The entity graph as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, cast

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import run_in_executor
from pydantic import PrivateAttr, model_validator

from langchain_phasegraph.base import CheckedRetriever, Count
from langchain_phasegraph.conversion import BLOCK, ScoredDocuments
from langchain_phasegraph.filters import check_filter, joined, matches
from phasegraph import InvalidInputError, InvalidTypeError, Ranking
from phasegraph._validation import check_count
from phasegraph.graph import EntityGraph, Extraction, GraphSource
from phasegraph.graph.building import graph_of_documents
from phasegraph.graph.chunk_graph import not_a_graph, prepare
from phasegraph.graph.source import passage_ids
from phasegraph.neo4j import GraphSchema, Neo4jConnection, OpenedGraph, open_graph
from phasegraph.retrieval import plain, resolve_id
from phasegraph.sources import Source, Upstream

Fetch = Callable[[Sequence[str]], Mapping[str, Document]]


class Passages(Mapping[str, Document]):
    """Copies of the passages' documents with their evidence, each made when it is asked for."""

    def __init__(self, ranking: Ranking, texts: Mapping[str, Document], score_key: str | None, block: bool) -> None:
        self._ranking = ranking
        self._texts = texts
        self._score_key = score_key
        self._block = block
        self._rows = {identifier: row for row, identifier in enumerate(ranking.ids)}

    def __getitem__(self, identifier: str) -> Document:
        row, document = self._rows[identifier], self._texts.get(identifier)
        score = float(self._ranking.scores[row])
        metadata = {} if document is None else dict(document.metadata)
        if self._block:
            trail: Any = self._ranking.payloads.get(identifier)
            block: dict[str, Any] = {"score": score, "rank": row + 1}
            if hasattr(trail, "path"):
                block["path"] = [[step.kind, step.name] for step in trail.path]
                block["seeds"] = [[step.kind, step.name, share] for step, share in trail.seeds]
            elif trail is not None:
                block["evidence"] = plain(trail)
            metadata[BLOCK] = block
        if self._score_key is not None:
            metadata.setdefault(self._score_key, score)
        if document is None:
            return Document(page_content="", id=identifier, metadata=metadata)
        return document.model_copy(update={"id": document.id or identifier, "metadata": metadata})

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def fetcher(documents: Any) -> Fetch:
    """A function of ids that gives the documents there are."""
    if documents is None:
        return lambda ids: {}
    if isinstance(documents, Mapping):
        return lambda ids: _kept(ids, [documents.get(one) for one in ids])
    if hasattr(documents, "get_by_ids"):
        return lambda ids: {str(one.id): one for one in documents.get_by_ids(list(ids))}
    if hasattr(documents, "mget"):
        return lambda ids: _kept(ids, documents.mget(list(ids)))
    if callable(documents):
        return lambda ids: _fetched(ids, documents(ids))
    if isinstance(documents, str | bytes) or not isinstance(documents, Iterable):
        raise InvalidTypeError(f"documents must be documents, a store or a function; got {type(documents).__name__}")
    listed = list(documents)
    wrong = next((one for one in listed if not isinstance(one, Document)), None)
    if wrong is not None:
        raise InvalidTypeError(f"documents must hold documents; got {type(wrong).__name__}")
    return fetcher({resolve_id(one.id, one.metadata, one.page_content)[0]: one for one in listed})


def _fetched(ids: Sequence[str], found: Any) -> dict[str, Document]:
    return _kept(ids, [found.get(one) for one in ids] if isinstance(found, Mapping) else list(found))


def _kept(ids: Sequence[str], found: Sequence[Any]) -> dict[str, Document]:
    """Documents by id; a text becomes a document."""
    return {
        one: held if isinstance(held, Document) else Document(page_content=str(held), id=one)
        for one, held in zip(ids, found, strict=True)
        if held is not None
    }


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
        embeddings: Embeddings | None = None,
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
        embeddings : Embeddings, optional
            Embeds every passage and each query; with `load` only.
        **fields
            The other fields of the retriever. Neo4j holds texts and titles: a `filter` on other metadata needs
            ``documents=`` (your vector store, say), which then take the place of its texts, also in a fusion.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If there is no such corpus, no schema that fits, no passage, or an argument is out of range.
        StoreError
            If the server cannot be reached, refuses, or does not answer in time.
        """
        opened = open_graph(
            connection, corpus, schema=schema, load=load,
            embed=None if embeddings is None else embeddings.embed_documents,
            embed_query=None if embeddings is None else embeddings.embed_query,
        )  # fmt: skip
        given = {"documents": _Documents(opened), "embeddings": embeddings, **fields}
        return cast(Any, cls)(graph=opened.source, **given)  # type: ignore[no-any-return]


class _Documents:
    """The documents of some ids, their titles as metadata."""

    def __init__(self, opened: OpenedGraph) -> None:
        self._texts = opened.texts

    def __call__(self, ids: Sequence[str]) -> dict[str, Document]:
        return {
            name: Document(text, id=name, metadata={"title": title} if title else {})
            for name, (title, text) in self._texts(ids).items()
        }


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
    Within a ``PhaseGraphRetriever`` it declares that it needs ``vector`` (the names in ``graph.depends_on``): the dense
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
    def depends_on(self) -> tuple[str, ...]:
        """Sources whose rankings seed the walk."""
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
        return self._find(query, check_count("k", self.k if k is None else k), upstream, filter)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        upstream: Upstream | None = None,
        filter: Any = None,  # noqa: A002
    ) -> list[Document]:
        wanted = check_count("k", self.k if k is None else k)
        return await run_in_executor(None, self._find, query, wanted, upstream, filter)

    def _find(self, query: str, k: int, upstream: Upstream | None, narrower: Any = None) -> list[Document]:
        if k == 0:
            return []
        ranking = self._within(narrower).search(query, k, {} if upstream is None else upstream)
        texts = self._fetch(ranking.ids) if len(ranking) else {}
        payloads = Passages(ranking, texts, self.score_key, self.provenance)
        if upstream is None:
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
