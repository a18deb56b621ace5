"""The graph of chunks as a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from phasegraph.candidates import Ranking
from phasegraph.errors import InvalidTypeError
from phasegraph.graph.chunk_graph.graph import ChunkGraph
from phasegraph.graph.linking import LinkSettings
from phasegraph.graph.source import GraphSource, Trail, Trails, WalkSettings
from phasegraph.sources.protocol import Given

SEEDS = LinkSettings(seed_passages=20, sharpness=10.0)
WALK = WalkSettings(follow_probability=0.5)


@dataclass(frozen=True, slots=True)
class ChunkTrail:
    """Why a chunk was found.

    Parameters
    ----------
    seeds : tuple of (str, float)
        Ids where the walk restarted, with each one's share of the mass, greatest first.
    path : tuple of str
        Ids from a seed to the chunk.
    kinds : tuple of tuple of str
        What joins each chunk of the path to the next, the heaviest kind of edge first.
    """

    seeds: tuple[tuple[str, float], ...]
    path: tuple[str, ...]
    kinds: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        steps = (f" —{'+'.join(kinds)}> [{name}]" for kinds, name in zip(self.kinds, self.path[1:], strict=True))
        return f"[{self.path[0]}]" + "".join(steps)


@dataclass(frozen=True, eq=False)
class ChunkGraphSource:
    """A source that ranks chunks by a walk from the best hits of another source.

    Parameters
    ----------
    graph : ChunkGraph
    name : str, default "graph"
    needs : sequence of str, default ("vector",)
        Rankings to take seeds from, the first of them that there is; without any, nothing is found.
    embedder : callable, optional
        ``embedder(query) -> (d,) vector``; as for :class:`~phasegraph.graph.GraphSource`.
    linking : LinkSettings
        Only what it says of passages matters.
    walk : WalkSettings

    Notes
    -----
    Scores and background are those of :class:`~phasegraph.graph.GraphSource`. A passage's payload is its
    :class:`ChunkTrail`.

    Examples
    --------
    >>> from phasegraph.graph.chunk_graph import build_chunk_graph
    >>> graph = build_chunk_graph(
    ...     [
    ...         {"id": "1", "text": "See Table 2."},
    ...         {"id": "2", "text": "Prices."},
    ...         {"id": "3", "text": "Table 2: 4 EUR"},
    ...     ],
    ...     documents=["a", "b", "a"],
    ... )
    >>> ranking = ChunkGraphSource(graph).search("price?", 10, {"vector": Ranking("vector", ["1"], [0.9])})
    >>> ranking.ids, str(ranking.payloads["3"])
    (('1', '3'), '[1] —sequential+reference> [3]')
    """

    graph: ChunkGraph
    name: str = "graph"
    needs: Sequence[str] = ("vector",)
    embedder: Callable[[str], Any] | None = None
    linking: LinkSettings = field(default=SEEDS)
    walk: WalkSettings = field(default=WALK)

    def __post_init__(self) -> None:
        if not isinstance(self.graph, ChunkGraph):
            raise InvalidTypeError(f"graph must be a ChunkGraph; got {type(self.graph).__name__}")
        object.__setattr__(self, "needs", self._walker.needs)

    @cached_property
    def _walker(self) -> GraphSource:
        return GraphSource(self.graph.walkable, self.name, self.needs, self.embedder, self.linking, self.walk)

    def prepare(self) -> ChunkGraphSource:
        """Do now what the first search would wait for; see :meth:`phasegraph.graph.GraphSource.prepare`."""
        self._walker.prepare()
        return self

    def search(self, query: str, limit: int | None, given: Given) -> Ranking:
        """Rank chunks for `query`; parameters and result as in :meth:`phasegraph.sources.Source.search`."""
        ranking = self._walker.search(query, limit, given)
        if not len(ranking):
            return ranking
        trails = ranking.payloads
        return replace(ranking, payloads=_ChunkTrails(self.graph, trails) if isinstance(trails, Trails) else trails)


@dataclass(frozen=True, eq=False)
class _ChunkTrails(Mapping[str, ChunkTrail]):
    """Trails with the kinds of their edges, each worked out when it is asked for."""

    graph: ChunkGraph = field(repr=False)
    trails: Mapping[str, Trail]

    def __getitem__(self, passage_id: str) -> ChunkTrail:
        found = self.trails[passage_id]
        path = tuple(step.name for step in found.path)
        kinds = tuple(self.graph.kinds(one, other) for one, other in pairwise(path))
        return ChunkTrail(tuple((step.name, share) for step, share in found.seeds), path, kinds)

    def __iter__(self) -> Iterator[str]:
        return iter(self.trails)

    def __len__(self) -> int:
        return len(self.trails)
