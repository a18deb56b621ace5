"""Convert documents of the user or of a store to passages of the core, and define methods that change a corpus."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing.base import DocumentIndex
from langchain_core.vectorstores import VectorStore

import phasegraph  # the subpackage phasegraph.graph imports scipy.sparse, so it is imported only at its first use
from langchain_phasegraph.conversion import document_of
from langchain_phasegraph.filters import DocumentFilter, Wanted, check_filter
from langchain_phasegraph.store_filters import class_names
from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.retrieval import (
    Content,
    EmbeddingModel,
    Framework,
    KeptPassages,
    accepts_old_names,
    corpus_ids,
    in_thread,
    question_vector,
    resolve_id,
    with_progress,
)

if TYPE_CHECKING:
    import phasegraph.graph

_BATCH = 256


def held_by_id(documents: Iterable[Document]) -> dict[str, Document]:
    """Return the documents by id; if documents without an id repeat a text, only the first document is included."""
    listed, held = checked_documents(documents), dict[str, Document]()
    ids = corpus_ids(((one.id, one.metadata, one.page_content) for one in listed), "documents")
    for name, document in zip(ids, listed, strict=True):
        held.setdefault(name, document)
    return held


def checked_documents(documents: Iterable[Document]) -> list[Document]:
    """Return the documents as a list; raise InvalidTypeError if the argument is not an iterable of documents."""
    if isinstance(documents, Document | str) or not isinstance(documents, Iterable):
        raise InvalidTypeError(f"documents must be a list of documents; got {type(documents).__name__}")
    listed = list(documents)
    wrong = next((one for one in listed if not isinstance(one, Document)), None)
    if wrong is not None:
        raise InvalidTypeError(f"documents must be a list of documents; it contains a {type(wrong).__name__}")
    return listed


def passage_of(name: str, document: Document, title_key: str, given: Sequence[Any] = ()) -> dict[str, Any]:
    """Convert a document to a passage of the core with the id `name`.

    `title_key` is the metadata key of the title. `given` contains the document's extractions (triples and names).
    """
    return {
        "id": name,
        "title": str(document.metadata.get(title_key) or ""),
        "text": document.page_content,
        "metadata": dict(document.metadata),  # a copy, because the caller may change the original
        "given": given,
    }


def extractions_of(graph_documents: Iterable[Any]) -> list[phasegraph.graph.Extraction]:
    """Convert the output of LangChain's graph transformers to extractions of the core.

    Parameters
    ----------
    graph_documents : iterable of GraphDocument
        The output of ``LLMGraphTransformer``: objects with ``nodes``, ``relationships`` and their ``source`` document.
        Several graph documents of the same source are combined.

    Returns
    -------
    list of Extraction
        An extraction for each graph document. Its passage id is the id that the retriever uses for the source document.

    Raises
    ------
    InvalidTypeError
        If a graph document has no nodes, relationships or source.
    """
    from phasegraph.graph import Extraction, normalise_name

    found = []
    for row, one in enumerate(graph_documents):
        nodes, edges, source = (getattr(one, name, None) for name in ("nodes", "relationships", "source"))
        if nodes is None or edges is None or source is None:
            raise InvalidTypeError(
                f"graph_documents[{row}] must have nodes, relationships and a source; got {type(one).__name__}"
            )
        names = [normalise_name(str(node.id)) for node in nodes]
        triples = [(str(edge.source.id), str(edge.type), str(edge.target.id)) for edge in edges]
        passage, _ = resolve_id(source.id, source.metadata, source.page_content)
        found.append(Extraction(passage, [name for name in names if name], triples))
    return found


class Documents(Framework):
    """The operations on LangChain documents that the core needs."""

    name, hit, filters, model = "langchain", "document", "filter", "embeddings"

    def held_by_id(self, hits: Iterable[Document]) -> dict[str, Document]:
        """Return the documents by id; if documents without an id repeat a text, only the first document is included."""
        return held_by_id(hits)

    def of_record(self, record: phasegraph.graph.PassageRecord) -> Document:
        """Convert a stored passage to a document."""
        return document_of(record)

    def of_text(self, identifier: str, text: str, metadata: Mapping[str, Any], own: Collection[str] = ()) -> Document:
        """Convert a text to a document; `own` has no effect, unlike in the base class."""
        return Document(text, id=identifier, metadata=dict(metadata))

    def text_of(self, hit: Document) -> str:
        """Return a document's text."""
        return hit.page_content

    def with_text(self, hit: Document, text: str) -> Document:
        """Return a copy of a document with another text."""
        return hit.model_copy(update={"page_content": text})

    def passages_of(
        self, held: Mapping[str, Document], title_key: str, given: Mapping[str, Sequence[Any]] | None = None
    ) -> list[dict[str, Any]]:
        """Convert documents to passages of the core; `held` maps ids to documents, and `given` ids to extractions.

        An extraction contains triples and names. `title_key` is the metadata key of the title.
        """
        given = given or {}
        return [passage_of(name, one, title_key, given.get(name, ())) for name, one in held.items()]

    def filter_of(self, where: Any) -> DocumentFilter:
        """Convert the argument `where` of a method to a filter that the core can apply."""
        return DocumentFilter(check_filter(where) or Wanted())

    def check_model(self, model: object) -> None:
        """Raise InvalidTypeError unless the argument is an embedding model of LangChain."""
        if not isinstance(model, Embeddings):
            raise InvalidTypeError(f"embeddings must be a LangChain embedding model; got {type(model).__name__}")

    def model_of(self, model: Embeddings | None) -> EmbeddingModel | None:
        """Wrap an embedding model as a model of the core; return None if `model` is None."""
        if model is None:
            return None
        self.check_model(model)
        return EmbeddingModel(model, partial(_question_vector, model), partial(_embedded_again, model))

    def embeds_texts(self, model: Embeddings | None) -> Callable[[list[str]], Any] | None:
        """Return the model's function from a list of texts to vectors, or None if `model` is None."""
        return None if model is None else model.embed_documents

    def embedded(self, model: Embeddings | None, hits: Sequence[Document], progress: bool | None) -> Any:
        """Return the vectors of the documents, and show a progress bar if there are many; None if `model` is None."""
        if model is None:
            return None
        starts = range(0, len(hits), _BATCH)
        shown = with_progress(starts, progress if len(starts) > 1 else False, label="embed", unit="batch")
        batches = ([one.page_content for one in hits[first : first + _BATCH]] for first in shown)
        return [vector for texts in batches for vector in model.embed_documents(texts)]

    def embedded_text(self, hit: Document) -> str:
        """Return a document's text, because its metadata are not embedded."""
        return hit.page_content


DOCUMENTS = Documents()


def _question_vector(embeddings: Embeddings, query: str) -> list[float]:
    found: list[float] = question_vector(embeddings, query, partial(embeddings.embed_query, query))
    return found


def _embedded_again(embeddings: Embeddings, records: Sequence[phasegraph.graph.PassageRecord]) -> list[list[float]]:
    return embeddings.embed_documents([one.text for one in records])


Held = tuple[list[Document], Any]
_PAGE = 1000


def contents_of(store: VectorStore) -> tuple[dict[str, Document], Any]:
    """Return the documents of a store, by id and in the store's order, and their vectors.

    Raise InvalidInputError if the store's class is unknown.
    """
    kinds = class_names(store)
    read = next((_READERS[kind] for kind in kinds if kind in _READERS), None)
    if read is None:
        raise InvalidInputError(
            f"the contents of a {kinds[0]} cannot be read (known: {', '.join(_READERS)}); give its documents to "
            "EntityGraphRetriever.from_documents, and pass the new retriever as graph= and the store as vector="
        )
    documents, vectors = read(store)
    held = held_by_id(documents)
    if len(held) == len(documents):
        return held, vectors
    rows = {id(document): row for row, document in enumerate(documents)}
    return held, np.asarray(vectors)[[rows[id(document)] for document in held.values()]]


def keeps_vectors_exactly(store: Any) -> bool:
    """Return True unless the store is a FAISS index that keeps an approximation of its vectors, such as IndexIVFPQ."""
    return "FAISS" not in class_names(store) or "Flat" in type(store.index).__name__


class StoreVectors:
    """The user's vector store, which receives the changes of the corpus and embeds new documents."""

    def __init__(self, store: VectorStore) -> None:
        self.store: Any = store

    def write(self, records: Sequence[phasegraph.graph.PassageRecord], vectors: Any) -> None:
        """Write passages to the store, and replace passages that have the same ids."""
        if "LanceDB" in class_names(self.store) and getattr(self.store, "mode", None) == "overwrite":
            raise InvalidInputError(
                "LanceDB with mode='overwrite' deletes all rows when rows are added: use mode='append'"
            )
        self.remove([one.id for one in records])
        documents = [Document(one.text, id=one.id, metadata=dict(one.metadata)) for one in records]
        self.store.add_documents(documents, ids=[one.id for one in records])

    def remove(self, ids: Sequence[str]) -> None:
        """Delete passages from the store; unknown ids are ignored."""
        held = self._held(ids)
        for first in range(0, len(held), _PAGE):  # PostgreSQL limits the number of ids in one statement
            self.store.delete(held[first : first + _PAGE])

    def _held(self, ids: Sequence[str]) -> list[str]:
        if not ids:
            return []
        if "LanceDB" in class_names(self.store):  # documents of this store have no id: compare metadata or texts
            wanted = frozenset(ids)
            rows = self.store.get_table().to_arrow().to_pylist()
            return [
                row[self.store._id_key]
                for row, one in zip(rows, _lance(self.store)[0], strict=True)
                if resolve_id(one.id, one.metadata, one.page_content)[0] in wanted
            ]
        try:
            pages = [ids[first : first + _PAGE] for first in range(0, len(ids), _PAGE)]
            found = [one for page in pages for one in self.store.get_by_ids(list(page))]
            there = frozenset(resolve_id(one.id, one.metadata, one.page_content)[0] for one in found)
        except Exception:  # noqa: BLE001 - the store has no get_by_ids, or rejects an id of another type
            there = self.ids()
        if not there <= set(ids):
            there = self.ids()
        return [one for one in ids if one in there]

    def ids(self) -> frozenset[str]:
        """Return the ids of all passages in the store."""
        return frozenset(contents_of(self.store)[0])


def _in_memory(store: Any) -> Held:
    rows = list(store.store.values())
    documents = [Document(row["text"], id=row["id"], metadata=row["metadata"]) for row in rows]
    return documents, [row["vector"] for row in rows]


def _chroma(store: Any) -> Held:
    found = store.get(include=["documents", "metadatas", "embeddings"])
    rows = zip(found["ids"], found["documents"], found["metadatas"], strict=True)
    return [Document(text, id=name, metadata=metadata or {}) for name, text, metadata in rows], found["embeddings"]


def _faiss(store: Any) -> Held:
    names = [store.index_to_docstore_id[row] for row in range(store.index.ntotal)]
    documents = [store.docstore.search(name) for name in names]
    named = [one if one.id else one.model_copy(update={"id": name}) for one, name in zip(documents, names, strict=True)]
    return named, store.index.reconstruct_n(0, store.index.ntotal)


def _qdrant(store: Any) -> Held:
    documents: list[Document] = []
    vectors: list[Any] = []
    name, after = store.vector_name, None
    while True:
        points, after = store.client.scroll(
            store.collection_name, limit=_PAGE, offset=after, with_payload=True, with_vectors=True
        )
        for point in points:
            documents.append(
                store._document_from_point(
                    point, store.collection_name, store.content_payload_key, store.metadata_payload_key
                )
            )
            vectors.append(point.vector[name] if isinstance(point.vector, Mapping) else point.vector)
        if after is None:
            return documents, vectors


def _postgres(store: Any) -> Held:
    with store._make_sync_session() as session:
        collection = store.get_collection(session)
        kind = store.EmbeddingStore
        rows = session.query(kind).filter(kind.collection_id == collection.uuid).order_by(kind.id).all()
        documents = [Document(row.document, id=row.id, metadata=row.cmetadata or {}) for row in rows]
        return documents, [row.embedding for row in rows]


def _postgres_table(store: Any) -> Held:
    if store._engine._loop is None:
        raise InvalidInputError(
            "the PGVectorStore takes asynchronous calls only, so its contents cannot be read: create its engine with "
            "PGEngine.from_connection_string, or give its documents to EntityGraphRetriever.from_documents, and pass "
            "the new retriever as graph= and the store as vector="
        )
    found = store.get(include=["documents", "metadatas", "embeddings"])
    columns = (found[name] for name in ("ids", "documents", "metadatas", "embeddings"))
    rows = sorted(zip(*columns, strict=True), key=itemgetter(0))
    documents = [Document(text, id=name, metadata=metadata) for name, text, metadata, _ in rows]
    return documents, [json.loads(one) if isinstance(one, str) else one for *_, one in rows]


def _lance(store: Any) -> Held:
    rows = store.get_table().to_arrow().to_pylist()
    documents = [Document(row[store._text_key], metadata=row.get("metadata") or {}) for row in rows]
    return documents, [row[store._vector_key] for row in rows]


_READERS: Mapping[str, Callable[[Any], Held]] = MappingProxyType(
    {
        "InMemoryVectorStore": _in_memory,
        "Chroma": _chroma,
        "FAISS": _faiss,
        "QdrantVectorStore": _qdrant,
        "PGVector": _postgres,
        "PGVectorStore": _postgres_table,
        "LanceDB": _lance,
    }
)


class KeptDocuments(KeptPassages):
    """Base class of a retriever that owns its documents, with the methods that add, replace and delete documents."""

    _framework = DOCUMENTS

    if TYPE_CHECKING:  # annotations only, because the pydantic model defines the private attributes
        _corpus: phasegraph.graph.Corpus | None
        _embeds: Embeddings | None

    @accepts_old_names
    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        triples: phasegraph.graph.Triples | None = None,
        progress: bool | None = True,
    ) -> list[str]:
        """Add documents to every source in one step, and replace stored documents that have the same ids.

        Parameters
        ----------
        documents : iterable of Document
            The documents; ids are read as in ``from_documents``.
        triples : optional
            Triples of the new documents, as for ``from_documents``.
        progress : bool, default True
            Show a progress bar for many documents, if standard error is a terminal and tqdm is installed.

        Returns
        -------
        list of str
            The documents' ids.

        Raises
        ------
        InvalidInputError
            If the retriever wraps other retrievers, an id is repeated, a document has no text, or a document whose id
            comes from its metadata would replace a different text.
        StoreError
            If the folder or its vectors cannot be written. In this case, nothing is changed.
        """
        return self._add(documents, triples, progress)

    def _check_added(self, corpus: phasegraph.graph.Corpus, held: Mapping[str, Document]) -> None:
        """Raise InvalidInputError if a new document with an id from metadata would replace a document with other text.

        `held` maps ids to the new documents. Several documents can have the same id from metadata, for example the
        chunks of a file with its name as id.
        """
        there = corpus.records(held)
        for name, record in there.items():
            one = held[name]
            origin = resolve_id(one.id, one.metadata, one.page_content)[1]
            if origin not in ("own", "text") and record.text != one.page_content:
                raise InvalidInputError(
                    f"documents: metadata {origin!r} gives the id {name!r}, which belongs to another text: set "
                    f"Document.id to this id to replace the stored document, or to another id to add a document"
                )

    def _contents(self, documents: Iterable[Document]) -> Iterator[Content]:
        listed = checked_documents(documents)
        own = [one.id for one in listed if one.id]
        if set(map(type, own)) - {str} or len(set(own)) < len(own):
            corpus_ids(((one, {}, "") for one in own), "documents")  # raises an error for repeated ids
        return (Content(one.id or None, one.page_content, one.metadata, one.metadata, one) for one in listed)

    def _passages(self, items: Sequence[Document]) -> list[dict[str, Any]]:
        read = [resolve_id(one.id, one.metadata, one.page_content) for one in items]
        often = Counter(name for name, _ in read)
        ids = [
            resolve_id(None, {}, one.page_content)[0] if origin != "own" and often[name] > 1 else name
            for one, (name, origin) in zip(items, read, strict=True)
        ]
        title_key = self._own_corpus().keys.title
        return [passage_of(name, one, title_key) for name, one in zip(ids, items, strict=True)]

    def as_document_index(self) -> DocumentIndex:
        """Return a document index that changes this retriever, for LangChain's ``index()`` with a record manager.

        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from langchain_core.indexing import InMemoryRecordManager, index
        >>> from langchain_phasegraph import PhaseGraphRetriever
        >>> first = Document("Ada met Bo.", metadata={"source": "a.md"})
        >>> retriever = PhaseGraphRetriever.from_documents([first], DeterministicFakeEmbedding(size=8))
        >>> manager = InMemoryRecordManager("letters")
        >>> manager.create_schema()
        >>> more = [Document("Cy sang.", metadata={"source": "b.md"})]
        >>> done = index(
        ...     more,
        ...     manager,
        ...     retriever.as_document_index(),
        ...     cleanup="incremental",
        ...     source_id_key="source",
        ...     key_encoder="sha256",
        ... )
        >>> done["num_added"], retriever.documents()
        (1, {'a.md': 1, 'b.md': 1})
        """
        from langchain_phasegraph.document_index import RetrieverIndex

        return RetrieverIndex(retriever=self)

    def reembed(self, embeddings: Embeddings, *, progress: bool | None = True) -> None:
        """Embed every document again with another model; the new vectors may have another length.

        If the retriever is in a folder, you can repeat an interrupted call; it continues with the remaining documents.

        Parameters
        ----------
        embeddings : Embeddings
            The new model.
        progress : bool, default True
            Show a progress bar for many documents, if standard error is a terminal and tqdm is installed.

        Raises
        ------
        InvalidInputError
            If the vectors are in your own store, or the retriever wraps other retrievers.
        StoreError
            If the new vectors cannot be written to the folder. In this case, the old vectors and the old model stay.
        """
        self._reembed(embeddings, progress)

    async def areembed(self, embeddings: Embeddings, **options: Any) -> None:
        """Run :meth:`reembed` without blocking the event loop."""
        await in_thread(lambda given: self.reembed(given, **options), embeddings)

    async def aadd_documents(self, documents: Iterable[Document], **options: Any) -> list[str]:
        """Run :meth:`add_documents` without blocking the event loop."""
        ids: list[str] = await in_thread(lambda given: self.add_documents(given, **options), documents)
        return ids
