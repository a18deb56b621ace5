"""What a row of the matrix is: a store filled with the slice, and how its own score search answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from matrix_servers import Servers
from matrix_slice import Slice

TESTED = "the store tests every document"
DROPPED = "phasegraph requests all rows (up to 10,000), drops the rows of the other tenant, and ranks the other rows"
REBUILT = "phasegraph builds an index of the matching documents only, once per filter"
SELECTED = "FAISS searches only the rows with matching metadata"
RESCORED = "the store's own filter; with a filter, the store scores by (1 + cosine) / 2"
WALLED = "the walk runs on a graph of the matching passages only"

OURS = "phasegraph's"

UNTOLD = frozenset(
    {"LlamaIndex BM25Retriever", "LangChain LanceDB, l2", 'LangChain LanceDB, `distance="cosine"`'}
    | {
        f"{framework} Neo4jVector, {kind}"
        for framework in ("LangChain", "LlamaIndex")
        for kind in ("cosine", "euclidean")
    }
)
"""Stores beside which the passages that another source names by id alone stay without a text."""

Scored = Sequence[tuple[str, float | None]]


@dataclass(frozen=True)
class Opened:
    """A store in use.

    ``given`` is what our retriever is handed, ``own(question, k)`` what the store itself answers (ids and raw
    scores, best first), ``function(question, k)`` the same as the framework's documents and scores, for a retriever
    that cannot know the store; ``relevance(question)`` what the framework's relevance function makes of it;
    ``id_fn(hit)`` reads the id where it has to be read.
    """

    given: Any
    own: Callable[[str, int], Scored]
    function: Callable[..., Any] | None = None
    relevance: Callable[[str], list[float]] | None = None
    id_fn: Callable[[Any], str] | None = None
    identity: str = ""
    close: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Row:
    """One store and metric.

    ``better`` is "higher", "lower" or "ranks only"; ``exact`` says that its order is that of the exact cosines, within
    ``tolerance``; ``filtered`` says what keeps a filter.
    """

    framework: str
    store: str
    score: str
    better: str
    open: Callable[[Slice, Servers], Opened]
    exact: bool = True
    tolerance: float = 1e-4
    neo4j: bool = False
    filtered: str = "the store's own filter"

    @property
    def server(self) -> str:
        """The real server that it needs, if any."""
        return "Neo4j" if self.neo4j else "PostgreSQL" if self.store.startswith(("PGVector", "Postgres")) else ""

    @property
    def name(self) -> str:
        return f"{self.framework} {self.store}"


@dataclass(frozen=True)
class Graph:
    """A knowledge-graph retriever in use: what ours is handed, and with which settings."""

    given: Any
    settings: dict[str, Any] = field(default_factory=dict)
    close: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class GraphRow:
    """One knowledge-graph retriever.

    ``facts``: its hits are triples, which ours turns into passages; ``passages``: it leads to passages at all;
    ``filtered`` says what keeps a filter, and is empty where it is refused one.
    """

    framework: str
    store: str
    score: str
    hit: str
    passage: str
    open: Callable[[Slice, Servers], Graph]
    facts: bool = False
    passages: bool = True
    neo4j: bool = False
    filtered: str = ""

    @property
    def server(self) -> str:
        """The real server that it needs, if any."""
        return "Neo4j" if self.neo4j else ""

    @property
    def ours(self) -> bool:
        return self.store.startswith(OURS)

    @property
    def name(self) -> str:
        return f"{self.framework} {self.store}"
