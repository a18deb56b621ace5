"""The entity graph as a LangChain retriever."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from pydantic import PrivateAttr

import phasegraph  # its rooms graph and neo4j are loaded when they are first named: they bring scipy.sparse
from langchain_phasegraph.base import CheckedRetriever, Count, Key, configured
from langchain_phasegraph.conversion import NamedDocument, ScoredDocuments, copy_of, document_of, text_of
from langchain_phasegraph.corpus import KeptDocuments, built, folder_settings, held_by_id, opened
from langchain_phasegraph.filters import (
    Wanted,
    check_filter,
    check_required,
    filter_of,
    joined,
    key_of,
    matches,
    names_of,
)
from phasegraph import InvalidTypeError, Ranking, Source
from phasegraph.retrieval import (
    LONGEST_QUERY,
    SUMMARY_PREFIX,
    EvidenceBlock,
    FilterRefusedError,
    MalformedAnswerError,
    Payloads,
    Recent,
    Upstream,
    as_ranking,
    check_count,
    check_query,
    in_thread,
    is_text_id,
    known_arguments,
    named_by_text,
    plain_evidence,
    resolve_id,
    version_of,
    warn,
    without_gone,
)

if TYPE_CHECKING:
    import phasegraph.graph
    import phasegraph.neo4j


_SECONDS = 60.0
"""How long it is remembered which documents of a store a filter lets through."""
Documents: TypeAlias = Mapping[str, Document] | Callable[[Sequence[str]], Mapping[str, Document]]


class EntityGraphRetriever(KeptDocuments, CheckedRetriever):
    """Passages by personalised PageRank over an entity graph, with the path to each of them.

    Parameters
    ----------
    graph : EntityGraph or core source
        The graph; or any source of the core, such as a ``GraphSource`` with settings of its own.
    documents : sequence or mapping of documents, store or callable, optional
        Where the passages' documents come from: a list of them, a mapping by id, a vector store
        (``get_by_ids``), a key-value store (``mget``), or ``documents(ids)``. Without, documents have no text, which
        is warned about; within a :class:`~langchain_phasegraph.PhaseGraphRetriever` they are taken from the other
        sources: what those found, then their stores by id.
    k : int, default 10
        Documents returned, >= 0; also a keyword of ``invoke``.
    embeddings : Embeddings, optional
        Embeds the query, so that passages nearer to it are entered more readily; for a graph with embeddings.
    score_key : str, optional
        Metadata key for the score: positive, higher is better, of no fixed range.
    metadata_key : str, optional
        Metadata key for the evidence: score, rank, and the path on which most of the mass came.
    filter : mapping of str to value, optional
        Metadata that a document must have to be walked through or returned, as for
        :class:`~langchain_phasegraph.PhaseGraphRetriever`; also a keyword of ``invoke``, and ``phasegraph_filter``
        under ``configurable``, which narrow it further.
        Which documents of a store it lets through is remembered for a minute: one that is changed or deleted meanwhile
        is never returned, one that is added comes after it.
    require_filter : str, optional
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
    score_key: str | None = None
    metadata_key: str | None = None
    filter: Mapping[str, Any] | None = None
    require_filter: Key | None = None
    max_query_length: Count | None = LONGEST_QUERY

    _source: Source = PrivateAttr()
    _corpus: Any = PrivateAttr(default=None)
    _embeds: Any = PrivateAttr(default=None)
    _lookup: Lookup = PrivateAttr()
    _without_id: frozenset[str] = PrivateAttr()
    _parts: Recent = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Make the graph ready and check where documents come from."""
        from phasegraph.graph import EntityGraph, GraphSource, not_a_graph, prepare

        if isinstance(self.graph, EntityGraph):
            self._source = GraphSource(
                self.graph, embedder=None if self.embeddings is None else self.embeddings.embed_query
            )
        elif isinstance(self.graph, Source):
            self._source = self.graph
        else:
            raise InvalidTypeError(not_a_graph(self.graph))
        self._lookup = Lookup.of(self.documents)
        self._find_missing_ids()
        self._parts = Recent(None if self._lookup.kind == "mapping" else _SECONDS)
        check_filter(self.filter)
        prepare(self._source)

    @property
    def lookup(self) -> Lookup:
        """Its documents by id."""
        return self._lookup

    @property
    def corpus(self) -> phasegraph.graph.Corpus | None:
        """The corpus of its documents; None where it has none of its own."""
        return self.documents.corpus if isinstance(self.documents, phasegraph.graph.CorpusLookup) else None

    def kept_ids(self) -> Iterable[str]:
        """Ids of the documents that it keeps itself; none where they come from a store."""
        if self.corpus is not None:
            passages: Iterable[str] = self.corpus.index.records
            return passages
        return self._lookup.held if self._lookup.kind == "mapping" else ()

    def _find_missing_ids(self) -> None:
        view = getattr(getattr(self._source, "graph", None), "view", None)
        self._without_id = frozenset(filter(is_text_id, getattr(view, "passage_rows", ())))

    def _follow(self, checked: Self, name: str) -> None:
        if self._corpus is not None and name not in ("graph", "embeddings"):
            self._lookup = checked._lookup
            return
        self._source, self._lookup, self._without_id = checked._source, checked._lookup, checked._without_id
        self._corpus = None
        self._parts = checked._parts

    @classmethod
    @known_arguments
    def from_documents(
        cls,
        documents: Iterable[Document],
        *,
        embeddings: Embeddings | None = None,
        vectors: Any = None,
        extractions: Iterable[phasegraph.graph.Extraction] | Mapping[str, Sequence[tuple[str, str, str]]] | None = None,
        extractor: Any = None,
        gazetteer: Iterable[str] = (),
        tokenizer: Any = "english",
        title_key: str = "title",
        source_key: str | None = None,
        progress: bool | None = True,
        **fields: Any,
    ) -> Self:
        """Build the graph from documents, which can be added to and deleted from later.

        Parameters
        ----------
        documents : iterable of Document
        embeddings : Embeddings, optional
            Embeds every passage (unless `vectors` are given) and each query.
        vectors : (P, d) array_like, optional
            The passages' embeddings.
        extractions, extractor, gazetteer
            ``triples``, ``extractor`` and ``gazetteer`` of :func:`phasegraph.graph.build_graph`; for LangChain's graph
            documents see :func:`~langchain_phasegraph.extractions_of`. What an `extractor` of yours built is not
            changed later.
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
        from phasegraph.graph import graph_of_documents

        held = held_by_id(documents)
        if extractor is None:
            corpus = built(
                held, embeddings, keys=phasegraph.graph.Keys(title_key, source_key),
                vectors=vectors, triples=extractions, gazetteer=gazetteer,
                tokenizer=tokenizer, progress=progress,
            )  # fmt: skip
            return cls._over(corpus, embeddings, fields)
        graph = graph_of_documents(
            ((name, one.metadata, one.page_content) for name, one in held.items()),
            title_key=title_key, embed=None if embeddings is None else embeddings.embed_documents, vectors=vectors,
            triples=extractions, extractor=extractor, gazetteer=gazetteer, tokenizer=tokenizer,
        )  # fmt: skip
        return cls(graph=graph, documents=held, embeddings=embeddings, **fields)

    @classmethod
    @known_arguments
    def load(cls, path: str | os.PathLike[str], embeddings: Embeddings | None = None, **fields: Any) -> Self:
        """Open a folder that :meth:`save`, or ``PhaseGraphRetriever.from_documents``, made.

        Parameters
        ----------
        path : path
        embeddings : Embeddings, optional
            The model that the passages were embedded with.
        **fields
            The other fields of the retriever.

        Raises
        ------
        IntegrityError
            If the folder is damaged, foreign or newer.
        InvalidInputError
            If it was made for another framework, or with another model: `embeddings` embeds three of the documents
            again to see that.
        """
        corpus = opened(path, embeddings, vectors=False)
        return cls._over(corpus, embeddings, fields)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write graph and documents to a folder that is new or empty; the tokenizer must be one with a name."""
        self._changing().save(path, folder_settings(vectors=False))

    @classmethod
    def _over(cls, corpus: phasegraph.graph.Corpus, embeddings: Embeddings | None, fields: Mapping[str, Any]) -> Self:
        held = phasegraph.graph.CorpusLookup(corpus, document_of)
        made = cls(**{"graph": corpus.index.graph, "documents": held, "embeddings": embeddings, **fields})
        made._corpus, made._embeds = corpus, embeddings
        made._source = corpus.source("graph")
        return made

    def _remodelled(self, model: Embeddings) -> None:
        self._take("embeddings", model)

    def _changed(self, corpus: phasegraph.graph.Corpus) -> None:
        self._take("graph", corpus.index.graph)
        self._find_missing_ids()

    @classmethod
    @known_arguments
    def from_neo4j(
        cls,
        connection: phasegraph.neo4j.Neo4jConnection,
        corpus: str | None = None,
        *,
        schema: str | phasegraph.neo4j.GraphSchema | None = None,
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
            (only those of ``write_graph``), without the words of the passages. What changes in Neo4j later is seen with
            False only.
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
        from phasegraph.neo4j import open_graph

        opened = open_graph(
            connection, corpus, schema=schema, load=load,
            embed=None if embeddings is None else embeddings.embed_documents,
            embed_query=None if embeddings is None else embeddings.embed_query,
        )  # fmt: skip
        return cls(**{"graph": opened.source, "documents": _Texts(opened), "embeddings": embeddings, **fields})

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
        """Documents with what was asked for in their metadata; for a retriever of ours bare, with the ranking."""
        wanted = self.k if k is None else check_count("k", k)
        if upstream is None:
            check_query(query, self.max_query_length)
        if wanted == 0:
            return []
        seeds = named_by_text(upstream or {}, self._without_id, text_of) if self._without_id else upstream or {}
        config, every = configured(), None
        if config or self.filter is not None or narrower is not None:
            every = joined(check_filter(self.filter), check_filter(narrower), filter_of(config))
        if self.require_filter is not None:
            check_required(self.require_filter, every)
        ranking, held = self._searched(query, wanted, seeds, every)
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
        """Copies for a caller that is no retriever of ours; passages that `documents` has not are left out."""
        rows = [row for row, one in enumerate(found) if not isinstance(one, NamedDocument)]
        missing = len(found) - len(rows)
        if missing and self.documents is None:
            rows = list(range(len(found)))
            warn(
                "documents= was not given: the passages that the walk found have an id and no text",
                stacklevel=2,
            )
        elif missing:
            warn(
                f"documents= has no document for {missing} of {len(found)} passages that the walk found: they are left "
                "out",
                stacklevel=2,
            )
        return [self._copy(found[row], ranking, row) for row in rows]

    def _copy(self, document: Document, ranking: Ranking, row: int) -> Document:
        identifier, score = ranking.ids[row], float(ranking.scores[row])
        extra: dict[str, Any] = {}
        if self.metadata_key is not None:
            path = plain_evidence(ranking.payloads.get(identifier))
            block = {"score": score, "rank": row + 1, **(path if isinstance(path, dict) else {"evidence": path})}
            extra[self.metadata_key] = EvidenceBlock(block)
        if self.score_key is not None and self.score_key not in document.metadata:
            extra[self.score_key] = score
        return copy_of(document, document.id or identifier, extra)

    def _searched(
        self, query: str, limit: int, seeds: Upstream, wanted: Wanted | None
    ) -> tuple[Ranking, dict[str, Document]]:
        """The ranking and its documents, all of them let through by the filter as they are now."""
        from phasegraph.graph import summaries_in

        if wanted is None:
            found = self._source.search(query, limit, seeds)
            ranking = found if isinstance(found, Ranking) else as_ranking("graph", found)
            if SUMMARY_PREFIX not in " ".join(ranking.ids):
                return ranking, self._lookup(ranking.ids) if ranking.ids else {}
            own = summaries_in(ranking)
            ids = [one for one in ranking.ids if one not in own]
            return ranking, (self._lookup(ids) if ids else {}) | _as_documents(own)
        if self.documents is None:
            raise FilterRefusedError("filter= needs the passages' metadata: pass documents=")
        for _ in range(2):
            ranking = self._within(wanted).search(query, limit, seeds)
            own = summaries_in(ranking)
            ids = list(dict.fromkeys(chain((one for one in ranking.ids if one not in own), _under(own))))
            held = self._lookup(ids) if ids else {}
            kept = {one for one in ids if one in held and matches(held[one], wanted)}
            if len(kept) == len(ids):
                return ranking, held | _as_documents(own, held)
            self._parts.forget(self._key(wanted))  # documents were changed or deleted since
        if isinstance(self.documents, phasegraph.graph.CorpusLookup):  # and they are while it searches
            ranking = without_gone(ranking, own, kept)
            return ranking, held | _as_documents(summaries_in(ranking), held)
        raise MalformedAnswerError("its graph returned documents that do not match the filter")

    def _key(self, wanted: Wanted) -> tuple[object, ...]:
        size = len(self._lookup.held) if self._lookup.kind == "mapping" else -1
        return size, version_of(self._source), *key_of(wanted)

    def _within(self, wanted: Wanted) -> Source:
        """The source for those documents that the filter lets through, made once while they stay what they are."""
        from phasegraph.graph import passage_ids

        def made() -> Source:
            narrowed: Any = self._source
            part: Source
            if isinstance(self.documents, phasegraph.graph.CorpusLookup):
                part = self.documents.within(
                    narrowed,
                    key_of(wanted),
                    lambda records: (row for row, one in enumerate(records) if matches(document_of(one), wanted)),
                    names_of(wanted),
                )
            else:
                part = narrowed.within(self._allowed(passage_ids(self._source), wanted))
            return part

        part: Source = self._parts.get(self._key(wanted), made)
        return part

    def _allowed(self, ids: Sequence[str], wanted: Wanted) -> Collection[str]:
        """Which of the passages the filter lets through."""
        return {name for name, document in self._lookup(ids).items() if matches(document, wanted)}


@dataclass(frozen=True, slots=True)
class Lookup:
    """Documents by passage id, from wherever they are."""

    kind: str
    held: Any

    @classmethod
    def of(cls, documents: Any) -> Lookup:
        """The lookup for what was given as documents; InvalidTypeError if it is none of those."""
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
        listed = list(documents)
        wrong = next((one for one in listed if not isinstance(one, Document)), None)
        if wrong is not None:
            raise InvalidTypeError(f"documents must hold documents; got {type(wrong).__name__}")
        return cls("mapping", held_by_id(listed))

    def __call__(self, ids: Sequence[str]) -> dict[str, Document]:
        """The documents that there are; a text becomes a document."""
        if self.kind == "none":
            return {}
        if self.kind == "get_by_ids":
            held = self.held.get_by_ids(list(ids))  # Qdrant's carry theirs in the metadata
            return {resolve_id(one.id, one.metadata, one.page_content)[0]: one for one in held}
        if self.kind == "mapping":
            found: Any = self.held
        else:
            found = self.held.mget(list(ids)) if self.kind == "mget" else self.held(ids)
        values = [found.get(one) for one in ids] if isinstance(found, Mapping) else list(found)
        return {
            one: value if isinstance(value, Document) else Document(page_content=str(value), id=one)
            for one, value in zip(ids, values, strict=True)
            if value is not None
        }


def _under(summaries: Mapping[str, phasegraph.graph.Summary]) -> Iterable[str]:
    """The passages under some summaries."""
    return chain.from_iterable(one.passages for one in summaries.values())


def _as_documents(
    summaries: Mapping[str, phasegraph.graph.Summary], held: Mapping[str, Document] | None = None
) -> dict[str, Document]:
    """Summaries as documents, with the metadata in which their passages, where they are known, agree."""
    found = {}
    for name, one in summaries.items():
        known = [held[passage].metadata for passage in one.passages] if held else [{}]
        shared = {key: value for key, value in known[0].items() if all(each.get(key) == value for each in known)}
        metadata = {**shared, "summary_level": one.level, "summary_of": list(one.passages)}
        found[name] = Document(one.text, id=name, metadata=metadata)
    return found


class _Texts:
    """The documents of a graph in Neo4j by their ids, titles as metadata."""

    def __init__(self, opened: Any) -> None:
        self._texts = opened.texts

    def __call__(self, ids: Sequence[str]) -> dict[str, Document]:
        return {
            name: Document(text, id=name, metadata={"title": title} if title else {})
            for name, (title, text) in self._texts(ids).items()
        }
