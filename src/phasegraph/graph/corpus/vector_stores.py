"""What a corpus asks of the store of its vectors, and the stores that a folder can name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol, runtime_checkable

from phasegraph.graph.index.records import PassageRecord

FLAT, CHROMA = STORES = ("flat", "chroma")
"""Where the vectors of a folder are searched: in its index, all compared; or in a Chroma collection beside it."""

STORE_KEY = "vector_store"


class VectorStore(Protocol):
    """A framework's store for the vectors of passages."""

    def write(self, records: Sequence[PassageRecord], vectors: Any, /) -> None:
        """Write passages, and replace passages with the same ids; `vectors` is None if the index has no vectors."""
        ...

    def remove(self, ids: Sequence[str], /) -> None:
        """Delete passages; unknown ids are ignored."""
        ...

    def ids(self) -> Collection[str]:
        """Return the ids of all passages in the store."""
        ...


@runtime_checkable
class RenewableStore(VectorStore, Protocol):
    """A vector store that can be rebuilt under another name at the same place."""

    name: str

    def reopened(self, name: str, /) -> RenewableStore:
        """Open the store with this name, as another process left it."""
        ...

    def beside(self, name: str, /) -> RenewableStore:
        """Create an empty store with this name at the same place."""
        ...

    def drop(self) -> None:
        """Delete the store."""
        ...
