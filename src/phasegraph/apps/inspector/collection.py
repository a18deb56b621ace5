"""The data of the inspector: passages, their entity graph or chunk graph, and descriptions of the graph's relations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.corpus_files import Passage
from phasegraph.graph.chunk_graph import ChunkGraph, ChunkGraphSource
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.index.records import PassageRecord
from phasegraph.graph.model.entity_graph import EntityGraph, Extraction
from phasegraph.graph.model.words import normalise_name
from phasegraph.graph.walk.source import GraphSource
from phasegraph.graph.walk.walker import Embedder
from phasegraph.lexical import LexicalIndex

_EDGES = MappingProxyType(
    {
        "sequential": "stands next to",
        "semantic": "is similar to",
        "reference": "refers to",
        "identifier": "shares an identifier with",
    }
)


@dataclass(frozen=True, eq=False)
class Collection:
    """The passages of an index, and the graph on which the walk runs.

    Parameters
    ----------
    graph : EntityGraph
        The entity graph, with its word index and embeddings; for a chunk graph, the entity graph (without
        entities) on which the walk runs.
    records : mapping of str to PassageRecord
        Passages by id; empty if the texts are unknown.
    chunks : ChunkGraph, optional
        The chunk graph from which `graph` was made; None for an entity graph.
    """

    graph: EntityGraph
    records: Mapping[str, PassageRecord] = field(repr=False)
    chunks: ChunkGraph | None = None

    @classmethod
    def of(cls, index: GraphIndex | ChunkGraph, passages: Sequence[Passage] = ()) -> Collection:
        """Create a collection from an index; a chunk graph stores only ids, so `passages` provides its texts.

        Raise InvalidInputError if a chunk is not in `passages`.

        >>> from phasegraph.graph import build_chunk_graph
        >>> rows = [Passage("1", "a", "See Table 2."), Passage("2", "a", "Table 2: 4 EUR")]
        >>> found = Collection.of(build_chunk_graph(rows), rows)
        >>> found.relations([("passage", "1"), ("passage", "2")])
        ['stands next to, refers to']
        """
        if isinstance(index, GraphIndex):
            return cls(index.graph, index.records)
        known = {one.id: PassageRecord(one.id, one.title, one.text, Extraction(one.id)) for one in passages}
        if not known:
            return cls(index.walkable, {}, index)
        lacking = next((name for name in index.passages if name not in known), None)
        if lacking is not None:
            raise InvalidInputError(f"the corpus must contain every chunk of the graph; {lacking!r} is missing")
        records = {name: known[name] for name in index.passages}
        words = LexicalIndex.of([record.content for record in records.values()])
        return cls(replace(index.walkable, lexical=words), records, index)

    @property
    def size(self) -> str:
        """The number of passages, and of the names of an entity graph or the edges of a chunk graph, as text."""
        count = f"{len(self.graph.passages):,} {'passage' if len(self.graph.passages) == 1 else 'passages'}"
        if self.chunks is None:
            return f"{count} · {len(self.graph.entities):,} names"
        return f"{count} · {sum(self.chunks.counts().values()):,} edges"

    def walker(self, embedder: Embedder | None, depends_on: Sequence[str]) -> Any:
        """Return the source that walks the graph.

        `embedder` embeds a question; None means a walk without vectors of questions. `depends_on` names the sources
        whose hits start the walk on a chunk graph; a walk on an entity graph ignores it.
        """
        if self.chunks is None:
            source = GraphSource(self.graph, embedder=embedder)
            return source.prepare() if self.records else source
        return ChunkGraphSource(self.chunks, depends_on=depends_on, embedder=embedder).prepare()

    def read(self, name: str) -> tuple[str, str]:
        """Return the title and text of the passage with the id `name`; two empty texts for an unknown id."""
        record = self.records.get(name)
        return ("", "") if record is None else (record.title, record.text)

    def content(self, name: str) -> str:
        """Return the title and text of the passage with the id `name` as one text; "" for an unknown id."""
        record = self.records.get(name)
        return "" if record is None else record.content

    def relations(self, path: Sequence[Sequence[str]]) -> list[str]:
        """Describe each step of a path of (kind, name) nodes: the graph's relation between a node and the next node."""
        return [self._relation(*one, *other) for one, other in pairwise(path)]

    def _relation(self, kind: str, name: str, next_kind: str, following: str) -> str:
        if self.chunks is not None:
            return ", ".join(_EDGES.get(one, one) for one in self.chunks.kinds(name, following))
        if kind == next_kind:
            return next(self._stated(name, following), "is written like")
        passage, entity = (name, following) if kind == "passage" else (following, name)
        rows = self.graph.passage_rows[passage], self.graph.entity_rows[entity]
        if self.graph.homes[rows[0], rows[1]]:
            return "is about" if kind == "passage" else "is the topic of"
        return "mentions" if kind == "passage" else "is mentioned in"

    def _stated(self, name: str, other: str) -> Iterator[str]:
        """Yield the predicates of the triples that join two names, from the passages that mention both names."""
        columns = [self.graph.entity_rows[name], self.graph.entity_rows[other]]
        both = self.graph.mentions[:, columns].astype(bool).sum(axis=1) == len(columns)
        for row in both.nonzero()[0].tolist():
            record = self.records.get(self.graph.passages[row])
            for triple in (one for found in (record.extractions if record else ()) for one in found.triples):
                ends = [normalise_name(triple[0]), normalise_name(triple[2])]
                if ends == [name, other]:
                    yield triple[1]
                elif ends == [other, name]:
                    yield f"is the object of “{triple[1]}”"
