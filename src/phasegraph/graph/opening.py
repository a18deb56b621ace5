"""What is in a folder: an index or a graph of chunks, saved alone or with a retriever."""

from __future__ import annotations

from pathlib import Path

from phasegraph.errors import InvalidInputError
from phasegraph.graph.chunk_graph import KIND as CHUNKS
from phasegraph.graph.chunk_graph import ChunkGraph
from phasegraph.graph.corpus import STATE, Folder
from phasegraph.graph.index import GraphIndex
from phasegraph.graph.storage import KIND as ENTITIES
from phasegraph.serialization import MANIFEST, bundle_kind

INSIDE = "graph"
"""Where a saved retriever keeps its index."""


def opened(folder: Path) -> GraphIndex | ChunkGraph:
    """The index in a folder, or in the one where a saved retriever keeps it, all changes since included.

    Raises
    ------
    InvalidInputError
        If there is none, or it is damaged, or saved without its passages.
    """
    if (folder / STATE).is_file():
        return Folder(folder).load()[0]
    places = (folder, folder / INSIDE)
    for place in places:
        if (kind := bundle_kind(place)) in (ENTITIES, CHUNKS):
            return GraphIndex.load(place) if kind == ENTITIES else ChunkGraph.load(place)
    for place in places:
        if (place / MANIFEST).is_file():
            return GraphIndex.load(place)  # which says what is wrong with it
    raise InvalidInputError(
        f"{folder}: there is no index in it, nor in its folder {INSIDE!r}; phasegraph index CORPUS.jsonl --out FOLDER "
        "makes one"
    )
