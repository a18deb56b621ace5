"""Open a folder whose vectors are in the index or in a Chroma collection."""

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
from phasegraph.graph.corpus.folder import OPENING, VECTORS, Folder
from phasegraph.graph.corpus.vector_stores import CHROMA, FLAT, STORE_KEY, STORES
from phasegraph.graph.index.records import PassageRecord
from phasegraph.graph.walk.walker import Embedder

CHROMA_FOLDER = "vectors"
"""Where a folder holds its Chroma collections."""


class ChromaVectors:
    """A persistent Chroma collection of vectors by passage id, with texts and the metadata that Chroma supports.

    A missing folder is created. `progress` shows a bar if many passages are written.
    """

    @staticmethod
    def check_installed() -> None:
        """Raise MissingDependencyError if chromadb is not installed."""
        try:
            import chromadb  # noqa: F401
        except ImportError as error:
            raise MissingDependencyError(
                "vector_store='chroma' keeps vectors in Chroma; pip install 'phasegraph[chroma]'"
            ) from error

    def __init__(self, path: str | os.PathLike[str], name: str = VECTORS, *, progress: bool | None = False) -> None:
        self.check_installed()
        import chromadb
        from chromadb.api.shared_system_client import SharedSystemClient
        from chromadb.config import Settings

        self._path, self.name, self._progress = Path(path).absolute(), name, progress
        # Chroma goes on with what it read of a path first, though another process changed, moved or deleted that.
        SharedSystemClient._identifier_to_system.pop(str(self._path), None)
        try:
            self.client = chromadb.PersistentClient(str(self._path), settings=Settings(anonymized_telemetry=False))
            self.collection: Any = self.client.get_or_create_collection(
                name, configuration={"hnsw": {"space": "cosine", "ef_search": 200}}, embedding_function=None
            )
        except Exception as error:
            raise StoreError(f"{self._path.name}: Chroma cannot open it. {type(error).__name__}: {error}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        return ChromaVectors, (self._path, self.name)

    def reopened(self, name: str) -> ChromaVectors:
        """Open the collection with this name in the same folder, as another process left it."""
        return ChromaVectors(self._path, name, progress=self._progress)

    def beside(self, name: str) -> ChromaVectors:
        """Create an empty collection with this name in the same folder."""
        made = ChromaVectors(self._path, name, progress=self._progress)
        if made.ids():  # of a process that died
            made.drop()
            made = ChromaVectors(self._path, name, progress=self._progress)
        return made

    def drop(self) -> None:
        """Delete the collection."""
        self.client.delete_collection(self.name)

    def drop_others(self) -> None:
        """Delete collections that were replaced, and collections of processes that crashed."""
        for one in self.client.list_collections():
            if one.name != self.name and (one.name == VECTORS or one.name.startswith(f"{VECTORS}-")):
                self.client.delete_collection(one.name)

    def write(self, records: Sequence[PassageRecord], vectors: Float32Array) -> None:
        """Write passages, and replace passages that have the same ids."""
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
        """Ids of the passages nearest to a vector, approximately (HNSW)."""
        from chromadb.errors import NotFoundError

        try:
            ids: list[str] = self.collection.query(query_embeddings=[vector], n_results=limit, include=[])["ids"][0]
        except NotFoundError as error:
            raise StoreError(
                f"{self._path.parent.name}: another model embedded the passages again; load the folder again"
            ) from error
        return ids

    def _batches(self, count: int) -> list[tuple[int, int]]:
        most = self.client.get_max_batch_size()
        return [(first, min(first + most, count)) for first in range(0, count, most)]


def _flat(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata that Chroma supports; keys that begin with $ or # are reserved."""
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
    """Replace lone surrogates, which some PDF readers produce, by "?" so that UTF-8 can encode the text."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def check_store(vector_store: object) -> None:
    """Raise an error for an unknown kind of vector store, or for Chroma if it is not installed."""
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

    A folder with flat vectors is read without a lock, so it may be read-only. If Chroma is not installed or the folder
    is read-only, a folder with Chroma is read in the same way, because the index also contains the vectors.

    Parameters
    ----------
    path : path
    framework : str or None
        The framework of the caller; None accepts a folder of any framework.
    embedder : callable or None
    vectors : bool or None
        Whether the caller searches vectors and may change them; None: if the folder has vectors.
    progress : bool, default False
        Show a progress bar if many passages are written to Chroma.
    checks : bool, default True
        Check that the `embedder` is the model that embedded the passages. False: the model is known to be right, or all
        passages will be embedded again.
    vector_store : {"flat", "chroma"}, optional
        Move the vectors of the folder to this store. By default, the vectors stay in their present store.

    Raises
    ------
    InvalidInputError
        If the folder was made for another framework, by another model, or lacks vectors that are needed.
    IntegrityError
        If the folder is damaged, foreign or newer.
    """
    folder = Folder(path)
    settings = folder.settings
    vectors = bool(settings.get("vectors")) if vectors is None else vectors
    if framework is not None and settings.get("framework") != framework:
        raise InvalidInputError(f"{folder.path.name!r} was made for {settings.get('framework')}; open it there")
    if vectors and not settings.get("vectors"):
        raise InvalidInputError(f"{folder.path.name!r} was saved by an EntityGraphRetriever; load it with that")
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
    """Whether Chroma can open the vectors of a folder; otherwise a warning gives the reason."""
    try:
        ChromaVectors.check_installed()
        reason = "" if os.access(folder.path, os.W_OK) else "the folder cannot be written to, which Chroma needs"
    except MissingDependencyError:
        reason = "chromadb is not installed"
    if reason:
        warn(
            f"{folder.path.name}: its vectors in Chroma are not used, because {reason}. Each search compares all "
            "vectors of the index instead. load(..., vector_store='flat') moves the folder for good",
            stacklevel=4,
        )
    return not reason
