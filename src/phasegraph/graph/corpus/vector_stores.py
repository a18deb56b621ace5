"""The interfaces of the stores in which a corpus keeps its vectors, and the names of the built-in stores."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol, runtime_checkable

from phasegraph.graph.index.records import PassageRecord

FLAT, CHROMA = STORES = ("flat", "chroma")
"""The stores for a folder's vectors: "flat" compares all vectors of the index; "chroma" queries a Chroma collection."""

STORE_KEY = "vector_store"
"""The key in a folder's settings that names the vector store."""


class VectorStore(Protocol):
    """The interface of a store for the vectors of passages, for example a framework's vector store."""

    def write(self, records: Sequence[PassageRecord], vectors: Any, /) -> None:
        """Write passages with their vectors, of shape (n, d), and replace passages that have the same ids.

        `vectors` is None if the index has no vectors.
        """
        ...

    def remove(self, ids: Sequence[str], /) -> None:
        """Delete passages; unknown ids are ignored."""
        ...

    def ids(self) -> Collection[str]:
        """Return the ids of all passages in the store."""
        ...


@runtime_checkable
class RenewableStore(VectorStore, Protocol):
    """The interface of a vector store that can create and open other stores by name, in its own folder or database.

    A corpus uses such a store to replace all vectors when the embedding model changes.
    """

    name: str

    def reopened(self, name: str, /) -> RenewableStore:
        """Open the store `name` of the same folder or database; the new object sees changes by other processes."""
        ...

    def beside(self, name: str, /) -> RenewableStore:
        """Create an empty store `name` in the folder or database of this store."""
        ...

    def drop(self) -> None:
        """Delete the store."""
        ...
