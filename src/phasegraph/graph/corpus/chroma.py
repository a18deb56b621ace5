"""Store vectors in Chroma, and open a corpus folder whose vectors are in its index or in Chroma."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from phasegraph._support.progress import with_progress
from phasegraph._support.typing import Float32Array
from phasegraph.errors import InvalidInputError, MissingDependencyError, StoreError, warn
from phasegraph.graph.corpus.corpus import Corpus
from phasegraph.graph.corpus.folder import CORE, OPENING, VECTORS, Folder
from phasegraph.graph.corpus.vector_stores import CHROMA, FLAT, STORE_KEY, STORES
from phasegraph.graph.index.records import PassageRecord
from phasegraph.graph.walk.walker import Embedder

CHROMA_FOLDER = "vectors"
"""The name of the subfolder that contains the Chroma collections of a corpus folder."""


class ChromaVectors:
    """A vector store in a persistent Chroma collection, with each passage's id, text and supported metadata.

    `path` is the folder of the database; a missing folder is created. `progress` shows a progress bar if more than one
    batch of passages is written.
    """

    @staticmethod
    def check_installed() -> None:
        """Raise MissingDependencyError if chromadb is not installed."""
        try:
            import chromadb  # noqa: F401
        except ImportError as error:
            raise MissingDependencyError(
                "vector_store='chroma' needs chromadb, which is not installed: pip install 'phasegraph[chroma]'"
            ) from error

    def __init__(self, path: str | os.PathLike[str], name: str = VECTORS, *, progress: bool | None = False) -> None:
        self.check_installed()
        import chromadb
        from chromadb.api.shared_system_client import SharedSystemClient
        from chromadb.config import Settings

        self._path, self.name, self._progress = Path(path).absolute(), name, progress
        # Chroma caches a database by its path, even if another process has changed, moved or deleted the database.
        SharedSystemClient._identifier_to_system.pop(str(self._path), None)
        try:
            self.client = chromadb.PersistentClient(str(self._path), settings=Settings(anonymized_telemetry=False))
            self.collection: Any = self.client.get_or_create_collection(
                name, configuration={"hnsw": {"space": "cosine", "ef_search": 200}}, embedding_function=None
            )
        except Exception as error:
            raise StoreError(
                f"{self._path.name}: Chroma cannot open this folder. {type(error).__name__}: {error}. Check "
                "the rights of the folder, or restore it from a backup"
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return ChromaVectors, (self._path, self.name)

    def reopened(self, name: str) -> ChromaVectors:
        """Open the collection `name` of the same folder; the new object sees changes by other processes."""
        return ChromaVectors(self._path, name, progress=self._progress)

    def beside(self, name: str) -> ChromaVectors:
        """Create an empty collection `name` in the same folder."""
        made = ChromaVectors(self._path, name, progress=self._progress)
        if made.ids():  # a crashed process left passages in the collection
            made.drop()
            made = ChromaVectors(self._path, name, progress=self._progress)
        return made

    def drop(self) -> None:
        """Delete the collection."""
        self.client.delete_collection(self.name)

    def drop_others(self) -> None:
        """Delete the other collections of the corpus: replaced collections, and collections of a crashed process."""
        for one in self.client.list_collections():
            if one.name != self.name and (one.name == VECTORS or one.name.startswith(f"{VECTORS}-")):
                self.client.delete_collection(one.name)

    def write(self, records: Sequence[PassageRecord], vectors: Float32Array) -> None:
        """Write passages with their vectors, an array of shape (n, d), and replace passages that have the same ids."""
        self.remove([one.id for one in records])
        batches = self._batches(len(records))
        shown = with_progress(batches, self._progress if len(batches) > 1 else False, label="store", unit="batch")
        for first, last in shown:
            batch = records[first:last]
            self.collection.add(
                ids=[one.id for one in batch],
                embeddings=vectors[first:last],
                documents=[_written(one.text) for one in batch],
                metadatas=[_flat(one.metadata) or None for one in batch],
            )

    def remove(self, ids: Sequence[str]) -> None:
        """Delete passages; unknown ids are ignored."""
        for first, last in self._batches(len(ids)):
            self.collection.delete(ids=list(ids[first:last]))

    def ids(self) -> frozenset[str]:
        """Return the ids of all passages in the collection."""
        return frozenset(self.collection.get(include=[])["ids"])

    def nearest(self, vector: Float32Array, limit: int) -> list[str]:
        """Return the ids of the `limit` passages nearest to a vector, by approximate search (HNSW)."""
        from chromadb.errors import NotFoundError

        try:
            ids: list[str] = self.collection.query(query_embeddings=[vector], n_results=limit, include=[])["ids"][0]
        except NotFoundError as error:
            raise StoreError(
                f"{self._path.parent.name}: the passages were embedded again with another model; load the folder again"
            ) from error
        return ids

    def _batches(self, count: int) -> list[tuple[int, int]]:
        most = self.client.get_max_batch_size()
        return [(first, min(first + most, count)) for first in range(0, count, most)]


def _flat(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the metadata that Chroma supports: texts and numbers, without reserved keys."""
    return {
        key: value
        for key, value in metadata.items()
        if isinstance(value, str | int | float)
        and key
        and key[0] not in "$#"
        and key != "chroma:document"
        and all(one == _written(one) for one in (key, value) if isinstance(one, str))
    }


def _written(text: str) -> str:
    """Replace each lone surrogate, which UTF-8 cannot encode and some PDF readers produce, with "?"."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def check_store(vector_store: object) -> None:
    """Raise InvalidInputError for an unknown kind of vector store, or MissingDependencyError if Chroma is missing."""
    if vector_store not in STORES:
        raise InvalidInputError(f"vector_store must be {' or '.join(map(repr, STORES))}; got {vector_store!r:.80}")
    if vector_store == CHROMA:
        ChromaVectors.check_installed()


def open_folder(
    path: str | os.PathLike[str],
    framework: str | None,
    embedder: Embedder | None,
    *,
    vectors: bool | None,
    progress: bool | None = False,
    checks: bool = True,
    vector_store: str | None = None,
) -> Corpus:
    """Open the corpus of a folder, with its vectors if they are needed.

    The index of a folder always contains the vectors. In a folder with the store "flat", searches compare all vectors
    of the index. In a folder with the store "chroma", searches use a copy of the vectors in Chroma. A flat folder is
    read without a lock, so it may be read-only. A Chroma folder is treated as flat, with a warning, if Chroma is not
    installed or the folder is read-only.

    Parameters
    ----------
    path : path
        The folder.
    framework : str or None
        The name of the caller's framework, "LangChain" or "LlamaIndex"; None accepts a folder of any framework.
    embedder : callable or None
        The embedding model: a function that maps a query to its vector.
    vectors : bool or None
        If True, the caller searches the vectors and may change them. None means True if the folder has vectors.
    progress : bool, default False
        If True, show a progress bar if many passages are written to Chroma.
    checks : bool, default True
        If True, check that the `embedder` is the model that embedded the passages. Use False if the model is known to
        be the same, or if all passages will be embedded again.
    vector_store : {"flat", "chroma"}, optional
        If given, move the vectors of the folder to this store.

    Returns
    -------
    Corpus

    Raises
    ------
    InvalidInputError
        If the folder was created for another framework or with another model, or lacks vectors that are needed.
    IntegrityError
        If the folder is damaged, is not a corpus folder, or was written by a newer version of phasegraph.
    """
    folder = Folder(path)
    settings = folder.settings
    vectors = bool(settings.get("vectors")) if vectors is None else vectors
    if framework is not None and settings.get("framework") != framework:
        made_for = settings.get("framework")
        raise InvalidInputError(
            f"{str(folder.path)!r} was written by phasegraph index --sync, not by a retriever for {framework}: open it "
            "with phasegraph search or serve, or build a retriever from your documents, with path= and a new folder"
            if made_for == CORE
            else f"{str(folder.path)!r} was made for {made_for}, not for {framework}; open it with the retriever for "
            f"{made_for}"
        )
    if vectors and not settings.get("vectors"):
        raise InvalidInputError(
            f"{str(folder.path)!r} was saved by an EntityGraphRetriever and has no vectors; load it with "
            "EntityGraphRetriever.load"
        )
    if vector_store is not None:
        check_store(vector_store)
    moves = vector_store not in (None, folder.vector_store)
    wanted = folder.vector_store if vector_store is None else vector_store
    if vectors and not moves and wanted == CHROMA and not _chroma_serves(folder):
        wanted = FLAT
    if not vectors or (wanted == FLAT and not moves):
        return _read(folder, embedder, checks)[0]
    with folder.held(patience=OPENING):
        corpus, behind = _read(folder, embedder, checks)
        if wanted == FLAT:
            shutil.rmtree(folder.path / CHROMA_FOLDER, ignore_errors=True)
            folder.applied({STORE_KEY: FLAT})
            return corpus
        store = ChromaVectors(folder.path / CHROMA_FOLDER, folder.collection, progress=progress)
        corpus.keep_in(store, frozenset(corpus.index.records) if moves else behind)
        store.drop_others()
        if moves:
            folder.applied({STORE_KEY: CHROMA})
    return corpus


def _read(folder: Folder, embedder: Embedder | None, checks: bool) -> tuple[Corpus, frozenset[str]]:
    index, behind = folder.load()
    corpus = Corpus(index, embedder, folder=folder, checked=not checks)
    if checks:
        corpus.check_model()
    return corpus, behind


def _chroma_serves(folder: Folder) -> bool:
    """Return True if Chroma can open the vectors of a folder; otherwise, warn with the reason and return False."""
    try:
        ChromaVectors.check_installed()
        reason = (
            "" if os.access(folder.path, os.W_OK) else "Chroma must write to the folder, and the folder is not writable"
        )
    except MissingDependencyError:
        reason = "chromadb is not installed"
    if reason:
        warn(
            f"{folder.path.name}: the folder's vectors in Chroma are not used, because {reason}. Each search compares "
            "all vectors of the index instead. load(..., vector_store='flat') moves the vectors permanently"
        )
    return not reason
