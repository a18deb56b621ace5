"""The arguments for indexing passages, and the decision whether their index is built in memory or in shards."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from phasegraph._support import memory
from phasegraph.errors import InvalidTypeError

MANY = 256
"""Maximum number of passages that are indexed without a progress bar."""
WORKER = 1024**3
"""Free memory required per process that builds shards, in bytes."""


@dataclass(frozen=True, slots=True)
class Indexing:
    """The arguments for reading and indexing passages, which all constructors from passages share."""

    triples: Any = None
    known_names: Iterable[str] = ()
    tokenizer: Any = "english"
    title_key: str = "title"
    source_key: str | None = None
    progress: bool | None = True

    def __post_init__(self) -> None:
        from phasegraph.graph.model.entity_graph import Extraction

        for record in self.triples if isinstance(self.triples, list | tuple) else ():
            if not isinstance(record, Extraction):
                raise InvalidTypeError(
                    "triples must be {'PASSAGE ID': [(subject, predicate, object)]} or a list of Extraction, but the "
                    f"list contains a {type(record).__name__}. For LangChain's graph documents, use "
                    "langchain_phasegraph.extractions_of"
                )


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """The decision whether an index is built in memory or in shards (parts of the corpus).

    `sizes` states the needed and the available memory if the index is too large for memory; otherwise, it is "".
    `in_shards` is True if the index is too large and pyarrow is installed, which a build in shards needs.
    """

    sizes: str = ""
    in_shards: bool = False

    @classmethod
    def of(cls, text: int, vectors: int = 0) -> BuildPlan:
        """Decide whether the index of passages is built in memory or in shards.

        `text` is the number of characters in all texts and titles. `vectors` is the number of bytes of all vectors.
        """
        sizes = memory.too_large(text, vectors)
        return cls(sizes, bool(sizes) and find_spec("pyarrow") is not None)

    @property
    def message(self) -> str:
        """The needed and the available memory, and where the index is built; "" if the index fits in memory."""
        if not self.sizes:
            return ""
        if self.in_shards:
            return f"{self.sizes}: the index is built in shards"
        return (
            f"{self.sizes}: the index is built in memory; to build it in shards, pip install 'phasegraph[distributed]'"
        )

    @property
    def workers(self) -> int:
        """The number of processes for which the free memory suffices: at least 1, and at most one per core."""
        return max(1, min(os.cpu_count() or 1, (memory.free_memory() or 0) // WORKER))
