"""What a vector store holds: its documents under its own ids, and their vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

import phasegraph.graph
from langchain_phasegraph.corpus import held_by_id
from phasegraph import InvalidInputError
from phasegraph.retrieval import resolve_id

Held = tuple[list[Document], Any]
_PAGE = 1000


def contents_of(store: VectorStore) -> tuple[dict[str, Document], Any]:
    """Documents by id, in the store's order, and their vectors, one row for each.

    Raises
    ------
    InvalidInputError
        If the store's class is not known, or it holds nothing.
    """
    kinds = _kinds(store)
    read = next((_READERS[kind] for kind in kinds if kind in _READERS), None)
    if read is None:
        raise InvalidInputError(
            f"what a {kinds[0]} holds cannot be read (known: {', '.join(_READERS)}); give its documents to "
            "EntityGraphRetriever.from_documents, and that as graph= beside the store"
        )
    documents, vectors = read(store)
    if not documents:
        raise InvalidInputError(f"the {kinds[0]} must hold documents; it is empty")
    held = held_by_id(documents)
    if len(held) == len(documents):
        return held, vectors
    rows = {id(document): row for row, document in enumerate(documents)}
    return held, np.asarray(vectors)[[rows[id(document)] for document in held.values()]]


class StoreVectors:
    """A vector store of the user's own, kept in step; it embeds what is added to it."""

    def __init__(self, store: VectorStore) -> None:
        self.store: Any = store

    def write(self, records: Sequence[phasegraph.graph.PassageRecord], vectors: Any) -> None:
        """Keep these passages, in place of any with their ids."""
        if "LanceDB" in _kinds(self.store) and getattr(self.store, "mode", None) == "overwrite":
            raise InvalidInputError("LanceDB in its mode 'overwrite' forgets all when one is added: give mode='append'")
        self.remove([one.id for one in records])
        documents = [Document(one.text, id=one.id, metadata=dict(one.metadata)) for one in records]
        self.store.add_documents(documents, ids=[one.id for one in records])

    def remove(self, ids: Sequence[str]) -> None:
        """Forget passages; ids that are not there are passed over, which some stores would refuse."""
        held = self._held(ids)
        if held:
            self.store.delete(held)

    def _held(self, ids: Sequence[str]) -> list[str]:
        if not ids:
            return []
        if "LanceDB" in _kinds(self.store):  # its hits are told apart by metadata or text, its rows by another id
            wanted = frozenset(ids)
            rows = self.store.get_table().to_arrow().to_pylist()
            return [
                row[self.store._id_key]
                for row, one in zip(rows, _lance(self.store)[0], strict=True)
                if resolve_id(one.id, one.metadata, one.page_content)[0] in wanted
            ]
        try:
            found = self.store.get_by_ids(list(ids))
            there = frozenset(resolve_id(one.id, one.metadata, one.page_content)[0] for one in found)
        except Exception:  # noqa: BLE001 - it has no such method, or an id is none of its kind
            there = self.ids()
        if not there <= set(ids):
            there = self.ids()
        return [one for one in ids if one in there]

    def ids(self) -> frozenset[str]:
        """Ids of the passages there are."""
        return frozenset(contents_of(self.store)[0])


def _kinds(store: object) -> list[str]:
    return [kind.__name__ for kind in type(store).__mro__]


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
        "LanceDB": _lance,
    }
)
