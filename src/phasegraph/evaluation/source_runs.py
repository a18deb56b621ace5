"""The sources of an experiment, each searched once for all queries; all systems fuse the same rankings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from phasegraph._support.ordering import top_order
from phasegraph._support.validation import check_count
from phasegraph.errors import InvalidInputError, needed
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.published_walks import FlowWalk, HippoWalk, ranking_of_masses
from phasegraph.graph import ChunkGraph, ChunkGraphSource, EntityGraph, build_graph
from phasegraph.graph.walk.source import GraphSource
from phasegraph.graph.walk.walker import Embedder
from phasegraph.lexical import Tokenizer, tokenizer_of
from phasegraph.ranking import Ranking

DEFAULT_LIMIT = 50


@dataclass(frozen=True, slots=True)
class SourceRun:
    """The rankings of the source `name` for all queries in data set order, and the mean wall time per search (ms)."""

    name: str
    rankings: tuple[Ranking, ...]
    milliseconds: float


@dataclass(frozen=True, slots=True, eq=False)
class ExperimentInput:
    """The input of an experiment: a data set, its entity graph (built on first use), and the length of the rankings.

    Parameters
    ----------
    dataset : Dataset
        The passages, queries and embeddings.
    limit : int, default 50
        Number of hits requested from every source; >= 1.
    graph : EntityGraph or ChunkGraph, optional
        The graph to walk on. Default: built from the data set's passages and triples when a source needs it.
    progress : callable, optional
        ``progress(iterable, label)`` wraps an iterable of rows to show progress.
    tokenizer : str or callable, default "english"
        The tokenizer of BM25 and of the built graph, as in :func:`~phasegraph.graph.build_graph`.
    embedder : callable, optional
        ``embedder(text) -> (d,) vector``, from the model that made the data set's embeddings. With it, the walk also
        embeds the clauses of a question. The embeddings of whole questions still come from the data set.
    """

    dataset: Dataset
    limit: int = DEFAULT_LIMIT
    graph: EntityGraph | ChunkGraph | None = None
    progress: Callable[[Iterable[int], str], Iterable[int]] | None = None
    tokenizer: Tokenizer = "english"
    embedder: Embedder | None = None

    def __post_init__(self) -> None:
        check_count("limit", self.limit, minimum=1)

    def timed(self, name: str, search: Callable[[int], Ranking]) -> SourceRun:
        """Call ``search(row)`` once for each query, and return the rankings with the mean wall time.

        `name` is the name of the source. Progress is shown if `progress` is set.
        """
        rows: Iterable[int] = range(len(self.dataset.queries))
        started = perf_counter()
        rankings = tuple(search(row) for row in (rows if self.progress is None else self.progress(rows, name)))
        return SourceRun(name, rankings, 1000 * (perf_counter() - started) / max(len(rankings), 1))


Search: TypeAlias = Callable[[ExperimentInput, Mapping[str, SourceRun]], SourceRun]


def _vector(inputs: ExperimentInput, upstream: Mapping[str, SourceRun]) -> SourceRun:
    """Rank by exact cosine over the data set's embeddings; like a vector store, the source states no background."""
    data = inputs.dataset
    ids = [passage.id for passage in data.passages]

    def search(row: int) -> Ranking:
        scores = (data.passage_vectors @ data.query_vectors[row]).astype(np.float64)
        best = top_order(scores, ids, inputs.limit)
        return Ranking("vector", [ids[i] for i in best.tolist()], scores[best])

    return inputs.timed("vector", search)


def _bm25(inputs: ExperimentInput, upstream: Mapping[str, SourceRun]) -> SourceRun:
    """Rank by BM25, with the package bm25s and its defaults, the tokenizer of the walk, and no stemming.

    The rankings contain only hits with a positive score.
    """
    with needed("bm25 needs bm25s; pip install 'phasegraph[eval]'"):
        import bm25s
    data = inputs.dataset
    ids = [passage.id for passage in data.passages]
    split = tokenizer_of(inputs.tokenizer)
    index = bm25s.BM25()
    index.index([list(split(passage.content)) for passage in data.passages], show_progress=False)

    def search(row: int) -> Ranking:
        words = list(split(data.queries[row].text))
        scores = np.zeros(len(ids)) if not words else index.get_scores(words).astype(np.float64)
        best = top_order(scores, ids, inputs.limit)
        best = best[scores[best] > 0]
        return Ranking("bm25", [ids[i] for i in best.tolist()], scores[best])

    return inputs.timed("bm25", search)


def graph_of(dataset: Dataset, tokenizer: Tokenizer = "english") -> EntityGraph:
    """Build the entity graph of a data set from its passages, its embeddings, and its triples if present."""
    return build_graph(
        dataset.passages, triples=dataset.triples, embeddings=dataset.passage_vectors, tokenizer=tokenizer
    )


def _graph(inputs: ExperimentInput, upstream: Mapping[str, SourceRun]) -> SourceRun:
    """Rank by phasegraph's walk over the graph in `inputs` or, without a graph, over the data set's entity graph.

    The walk is seeded by the ranking of the source ``vector``. The rankings state their score background.
    """
    data = inputs.dataset
    graph = graph_of(data, inputs.tokenizer) if inputs.graph is None else inputs.graph
    if set(graph.passages) != {passage.id for passage in data.passages}:
        raise InvalidInputError(
            f"the graph must be built from {data.name}, but it contains other passages; build it with build_graph"
        )
    vectors = {query.text: vector for query, vector in zip(data.queries, data.query_vectors, strict=True)}

    def embed(text: str) -> Any:
        return vectors[text] if inputs.embedder is None or text in vectors else inputs.embedder(text)

    source: ChunkGraphSource | GraphSource
    if isinstance(graph, ChunkGraph):
        source = ChunkGraphSource(graph, embedder=embed)
    else:
        source = GraphSource(graph, embedder=embed, embed_clauses=inputs.embedder is not None)
    return inputs.timed(
        "graph",
        lambda row: source.search(data.queries[row].text, inputs.limit, {"vector": upstream["vector"].rankings[row]}),
    )


def _walked(name: str, walk_of: Callable[[Dataset], HippoWalk | FlowWalk]) -> Search:
    """Return the search function of a source that ranks by a published walk over the data set's facts.

    `name` is the name of the source, and ``walk_of(dataset)`` creates the walk.
    """

    def search(inputs: ExperimentInput, upstream: Mapping[str, SourceRun]) -> SourceRun:
        walk = walk_of(inputs.dataset)
        return inputs.timed(name, lambda row: ranking_of_masses(name, inputs.dataset, walk.masses(row), inputs.limit))

    return search


SOURCES: Mapping[str, tuple[tuple[str, ...], Search]] = MappingProxyType(
    {
        "vector": ((), _vector),
        "bm25": ((), _bm25),
        "graph": (("vector",), _graph),
        "hipporag2": ((), _walked("hipporag2", HippoWalk)),
        "semflow": ((), _walked("semflow", FlowWalk)),
    }
)
"""For each searchable source, by name: the names of the sources that it depends on, and its search function."""


def search_sources(
    inputs: ExperimentInput, names: Iterable[str], known: Mapping[str, SourceRun] = MappingProxyType({})
) -> dict[str, SourceRun]:
    """Search the named sources (keys of ``SOURCES``) and their dependencies once for every query.

    Sources in `known` are not searched again. Raise InvalidInputError for an unknown name. Raise MissingDependencyError
    if a source's package is not installed. Raise InsufficientDataError if the data set lacks data that a source needs.
    """
    found = dict(known)

    def add(name: str) -> None:
        if name not in SOURCES:
            raise InvalidInputError(f"a source must be one of {', '.join(SOURCES)}; got {name!r}")
        if name not in found:
            depends_on, search = SOURCES[name]
            for other in depends_on:
                add(other)
            found[name] = search(inputs, found)

    for name in names:
        add(name)
    return found
