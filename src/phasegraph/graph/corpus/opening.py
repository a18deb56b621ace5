"""Open the index of a folder, and read it again when another process changes it."""

from __future__ import annotations

from pathlib import Path

from phasegraph._support.serialization import MANIFEST, bundle_kind
from phasegraph.embedding.identity import ModelIdentity
from phasegraph.errors import InvalidInputError
from phasegraph.graph.chunk_graph import KIND as CHUNKS
from phasegraph.graph.chunk_graph import ChunkGraph
from phasegraph.graph.corpus.embedded import check_question_model
from phasegraph.graph.corpus.folder import INSIDE, STATE, Folder
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.model.storage import KIND as INDEX
from phasegraph.graph.walk.walker import Embedder


class FollowedIndex:
    """An index in a folder (see :func:`opened`), which :meth:`refresh` reads again after changes by other processes.

    `embedder` is the model that embeds queries; None if queries are not embedded.
    :func:`~phasegraph.graph.corpus.embedded.check_question_model` checks the model. If there is an embedder, and
    another process embeds the passages again with another model, :meth:`refresh` raises StoreError. :attr:`made_by` is
    the model that embedded the passages when the folder was opened; None if the folder does not name it.
    """

    def __init__(self, folder: Path, embedder: Embedder | None = None) -> None:
        self._embedder = embedder
        self._folder = Folder(folder) if (folder / STATE).is_file() else None
        self._places = (folder, folder / INSIDE)
        self._stamp = self._stamp_now()
        self.index = opened(folder) if self._folder is None else self._folder.load()[0]
        self.made_by = None if self._folder is None else recorded_model(self._folder)
        if isinstance(self.index, GraphIndex):
            check_question_model(self.index, self.made_by, embedder, repr(folder.name))

    def _stamp_now(self) -> list[object]:
        found = [one / MANIFEST for one in self._places]
        return [(about.st_ino, about.st_mtime_ns) for about in (one.stat() for one in found if one.is_file())]

    def refresh(self) -> bool:
        """Read changes by other processes, and return True if there were changes.

        If reading raises an error, :attr:`index` stays the old index.
        """
        before = self.index
        if self._folder is None:
            stamp = self._stamp_now()
            if stamp == self._stamp:
                return False
            self.index, self._stamp = opened(self._places[0]), stamp
        elif self._folder.moved() and isinstance(before, GraphIndex):
            self._folder, self.index, _ = self._folder.reread(before, self._embedder)
        return self.index is not before


def opened(folder: Path) -> GraphIndex | ChunkGraph:
    """Read the index in a folder, or in the folder of a saved retriever, with all changes.

    Raises InvalidInputError if the folder has no index, or if the index is damaged or was saved without its passages.
    """
    return opened_with_model(folder)[0]


def opened_with_model(folder: Path) -> tuple[GraphIndex | ChunkGraph, ModelIdentity | None]:
    """Read the index in a folder as :func:`opened` does, and return it with the model that embedded its passages.

    The model is None if the folder does not name it.
    """
    if (folder / STATE).is_file():
        kept = Folder(folder)
        return kept.load()[0], recorded_model(kept)
    places = (folder, folder / INSIDE)
    for place in places:
        if (kind := bundle_kind(place)) in (INDEX, CHUNKS):
            return GraphIndex.load(place) if kind == INDEX else ChunkGraph.load(place), None
    for place in places:
        if (place / MANIFEST).is_file():
            return GraphIndex.load(place), None  # raises an error that describes the defect
    raise InvalidInputError(
        f"{folder}: there is no index in this folder, nor in its subfolder {INSIDE!r}; if it contains "
        f"your documents, create an index with: phasegraph index {folder} --out NEW"
    )


def recorded_model(folder: Folder) -> ModelIdentity | None:
    """Return the model that embedded the passages of a loaded folder; None if the folder does not name it."""
    return ModelIdentity.from_json(folder.settings.get("model"))
