"""A graph of chunks, for corpora with few names, such as code, tables and manuals.

Edges link consecutive chunks of a document, chunks with similar embeddings, and chunks that share references ("Table
3") or identifiers.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from scipy import sparse

from phasegraph._support.frozen import by_fields
from phasegraph._support.products import times_vector
from phasegraph._support.recent import Recent
from phasegraph._support.serialization import MISFITS, check_mapped, mapped_in, read_bundle, write_bundle
from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import Float32Array, IntArray
from phasegraph._support.validation import check_count, check_flag, check_query, check_range
from phasegraph.errors import IntegrityError, InvalidInputError, InvalidTypeError
from phasegraph.graph.model.building import read_passages
from phasegraph.graph.model.entity_graph import (
    Csr,
    EntityGraph,
    check_kind,
    check_values,
    checked_embeddings,
    read_only_matrix,
)
from phasegraph.graph.model.storage import packed, packed_matrix, unpacked, unpacked_matrix
from phasegraph.graph.model.synonyms import synonym_pairs
from phasegraph.graph.walk.paths import WalkPath, WalkPaths
from phasegraph.graph.walk.relevance import unit_vector
from phasegraph.graph.walk.restricting import MOST_PARTS, Allowed, allowed_rows
from phasegraph.graph.walk.settings import LinkSettings, WalkSettings
from phasegraph.graph.walk.source import GraphSource
from phasegraph.graph.walk.walker import GraphWalker, best_passages
from phasegraph.ranking import Ranking
from phasegraph.sources.protocol import CallableSource, Source, Upstream

Pairs = Iterable[tuple[int, int]]
_REFERENCE = re.compile(r"\b(section|sec|figure|fig|table|chapter|equation|eq)s?\.?\s*\(?(\d+(?:\.\d+)*[a-z]?)\b", re.I)
_CITATION = re.compile(r"\[(\d{1,3}(?:\s*[,–-]\s*\d{1,3})*)\]")
_FULL = {"sec": "section", "fig": "figure", "eq": "equation"}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,}")
_CODE_SIGNS = frozenset("{}[]=;_<>")
_CODE_SHARE = 0.02
_COMMON = 100
_PLAIN = """
self class return import from else elif None True False with while yield lambda pass break continue raise except
finally assert async await global nonlocal print super property staticmethod classmethod public private protected
static void const function this null true false throw catch switch case default typedef struct enum interface
extends implements package namespace using template typename string boolean float double long short char unsigned
that have this when then will what which into only also must should would could there their they them some such
than been were your
"""
_KEYWORDS = frozenset(_PLAIN.split())


def sequential(documents: Sequence[str], positions: Sequence[float]) -> Pairs:
    """Yield the pairs of consecutive chunks of each document, as rows (earlier, later).

    `documents` contains the name of each chunk's document, and `positions` the position of each chunk in its document.

    >>> list(sequential(["a", "b", "a", "a"], [0, 0, 2, 1]))
    [(0, 3), (3, 2)]
    """
    members: dict[str, list[int]] = {}
    for row, name in enumerate(documents):
        members.setdefault(name, []).append(row)
    for rows in members.values():
        yield from pairwise(sorted(rows, key=lambda row: (positions[row], row)))


def references(texts: Sequence[str], documents: Sequence[str], *, across: bool = False) -> Pairs:
    """Yield the rows of every two chunks that contain the same reference ("Section 2.1", "Fig. 3", "[7]").

    `documents` contains the name of each chunk's document. The two chunks must be in the same document, unless
    `across` is True. A reference in more than a hundred chunks is ignored.

    >>> list(references(["See Fig. 3.", "Figure 3: growth [2]", "[1, 2]"], ["a", "a", "a"]))
    [(0, 1), (1, 2)]
    """
    named = ["" if across else name for name in documents]
    return _sharing(map(markers, texts), named, 2, _COMMON)


def _sharing(words: Iterable[Iterable[str]], documents: Sequence[str], fewest: int, most: int) -> Pairs:
    """Yield the rows of every two chunks that are in the same document and share a word.

    `words` contains the words of each chunk, and `documents` the name of each chunk's document. A word counts
    only if it occurs in at least `fewest` and at most `most` chunks of the document.
    """
    holders: dict[tuple[str, str], list[int]] = {}
    for row, own in enumerate(words):
        for word in dict.fromkeys(own):
            holders.setdefault((documents[row], word), []).append(row)
    for rows in holders.values():
        if fewest <= len(rows) <= most:
            yield from combinations(rows, 2)


def markers(text: str) -> Iterator[str]:
    """Yield the references in a text in a uniform spelling; for example, "Fig. 3" becomes "figure 3"."""
    for kind, number in _REFERENCE.findall(text):
        low = kind.lower()
        yield f"{_FULL.get(low, low)} {number.lower()}"
    for listed in _CITATION.findall(text):
        for number in re.findall(r"\d+", listed):
            yield f"[{number}]"


def identifiers(texts: Sequence[str], documents: Sequence[str], code: Sequence[bool], fewest: int, most: int) -> Pairs:
    """Yield the rows of every two code chunks that are in the same document and share an identifier.

    `code` is True for chunks of code. An identifier counts only if it occurs in at least `fewest` and at most `most`
    chunks of the document.

    >>> texts = ["def read_file(path): ...", "read_file(name)", "x = read_file"]
    >>> list(identifiers(texts, ["a", "a", "b"], [True, True, True], 2, 12))
    [(0, 1)]
    """
    words = (_IDENTIFIER.findall(text) if is_code else () for text, is_code in zip(texts, code, strict=True))
    return _sharing(([word for word in own if word not in _KEYWORDS] for own in words), documents, fewest, most)


def looks_like_code(text: str) -> bool:
    """Return True if more than 2 % of a text's visible characters are brackets, underscores, "=", ";", "<" or ">".

    >>> looks_like_code("if (n == 0) { return f(n); }"), looks_like_code("Ada met Bo (in Paris) and sang.")
    (True, False)
    """
    solid = [sign for sign in text if not sign.isspace()]
    return sum(sign in _CODE_SIGNS for sign in solid) > _CODE_SHARE * max(len(solid), 1)


def semantic(embeddings: Float32Array, threshold: float, nearest: int) -> Csr:
    """Compute a symmetric csr matrix of cosines between similar chunks, of shape (P, P).

    The matrix contains only pairs of chunks with a cosine of at least `threshold`. One chunk of a pair must also be
    among the `nearest` nearest chunks of the other chunk. `embeddings` has shape (P, d).

    >>> semantic(np.array([[1, 0], [1, 0.1], [0, 1]], dtype=np.float32), 0.7, 16).nnz
    2
    """
    size = len(embeddings)
    pairs = synonym_pairs(embeddings, threshold=threshold)
    rows = np.concatenate([pairs.left, pairs.right]).astype(np.int64)
    columns = np.concatenate([pairs.right, pairs.left]).astype(np.int64)
    cosines = np.concatenate([pairs.cosine, pairs.cosine])
    order = np.lexsort((columns, -cosines, rows))
    rows, columns, cosines = rows[order], columns[order], cosines[order]
    starts = np.searchsorted(rows, np.arange(size))
    kept = np.arange(len(rows)) - starts[rows] < nearest
    one_way = sparse.csr_array((cosines[kept], (rows[kept], columns[kept])), shape=(size, size))
    return one_way.maximum(one_way.T).tocsr().astype(np.float32)


def matrix(pairs: Pairs, size: int) -> Csr:
    """Return a symmetric csr matrix of shape (P, P) whose entry (i, j) counts the pairs of row i and row j.

    `size` is P. The order of the rows in a pair does not matter. Pairs of equal rows are ignored, so the diagonal is
    empty.
    """
    counted = Counter((min(pair), max(pair)) for pair in pairs if pair[0] != pair[1])
    left, right = np.array(list(counted), dtype=np.int32).reshape(-1, 2).T
    counts = np.array(list(counted.values()), dtype=np.float32)
    half = sparse.csr_array((counts, (left, right)), shape=(size, size))
    whole = (half + half.T).tocsr()
    whole.sort_indices()
    return whole


KINDS = ("sequential", "semantic", "reference", "identifier")
KIND, VERSION = "chunk-graph", 1


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """The kinds of edges between chunks, and their weights.

    Parameters
    ----------
    sequential, semantic, reference, identifier : float, default 1, 0.3, 0.3, 0.1
        Weight of an edge of each kind. The weight of a semantic edge is multiplied by its cosine. The weight of a
        reference or identifier edge is multiplied by the square root of the number of shared references or identifiers.
        With 0, the graph has no edges of this kind.
    threshold : float, default 0.7
        Minimum cosine of a semantic edge, in (0, 1].
    nearest : int, default 16
        Number of nearest chunks to which a chunk has semantic edges. Edges are undirected, so a chunk can have more
        semantic edges.
    fewest, most : int, default 2, 12
        Minimum and maximum number of chunks of a document that contain an identifier; other identifiers are ignored.
    across : bool, default False
        If True, equal references in different documents also link chunks.
    """

    sequential: float = 1.0
    semantic: float = 0.3
    reference: float = 0.3
    identifier: float = 0.1
    threshold: float = 0.7
    nearest: int = 16
    fewest: int = 2
    most: int = 12
    across: bool = False

    def __post_init__(self) -> None:
        check_flag("ChunkSettings.across", self.across)
        for name in KINDS:
            check_range(f"ChunkSettings.{name}", getattr(self, name))
        check_range("ChunkSettings.threshold", self.threshold, 0, 1, ends="(]")
        for name in ("nearest", "fewest", "most"):
            check_count(f"ChunkSettings.{name}", getattr(self, name), minimum=1)


@dataclass(frozen=True, eq=False)
class ChunkGraph:
    """A graph of chunks with edges of several kinds; :func:`build_chunk_graph` creates it.

    Parameters
    ----------
    passages : tuple of str
        The ids of the P chunks.
    links : mapping of str to (P, P) csr array of float32
        The weights of the edges for each kind of edge ("sequential", "semantic", "reference", "identifier"). The
        matrices are symmetric with an empty diagonal. Kinds without edges are left out.
    embeddings : (P, d) array of float32, optional
        L2-normalized embeddings; row i belongs to chunk i.

    Examples
    --------
    >>> rows = [{"id": "1", "title": "a", "text": "See Table 2."}, {"id": "2", "title": "a", "text": "Table 2: 4 EUR"}]
    >>> build_chunk_graph(rows).kinds("1", "2")
    ('sequential', 'reference')
    """

    passages: tuple[str, ...]
    links: Mapping[str, Csr]
    embeddings: Float32Array | None = field(default=None, repr=False)

    __reduce__ = by_fields

    def __repr__(self) -> str:
        return f"<ChunkGraph of {len(self.passages):,} chunks and {sum(self.counts().values()):,} edges>"

    def __post_init__(self) -> None:
        if len(set(self.passages)) != len(self.passages):
            raise InvalidInputError(
                f"passages must be unique; {Counter(self.passages).most_common(1)[0][0]!r} repeats: give each chunk "
                "its own id"
            )
        for kind, link in self.links.items():
            check_values(kind, link.data)
        links = {
            kind: read_only_matrix(link.tocsr().astype(np.float32, copy=False)) for kind, link in self.links.items()
        }
        object.__setattr__(self, "links", MappingProxyType(links))
        if self.embeddings is not None:
            vectors = checked_embeddings("embeddings", self.embeddings, len(self.passages))
            object.__setattr__(self, "embeddings", vectors)
        parts = [part for link in links.values() for part in (link.data, link.indices, link.indptr)]
        object.__setattr__(self, "_mapped", mapped_in([*parts, self.embeddings]))

    def check_files(self) -> None:
        """Raise IntegrityError if a memory-mapped file is damaged; see :meth:`EntityGraph.check_files`."""
        check_mapped(self._mapped)  # type: ignore[attr-defined]

    def counts(self) -> dict[str, int]:
        """Return the number of undirected edges of each kind."""
        return {kind: link.nnz // 2 for kind, link in self.links.items()}

    def kinds(self, one: str, other: str) -> tuple[str, ...]:
        """Return the kinds of edges between two chunks, heaviest first; empty if there is no edge."""
        self.check_files()
        rows = self.passage_rows
        unknown = next((name for name in (one, other) if name not in rows), None)
        if unknown is not None:
            raise InvalidInputError(f"chunk {unknown!r} is not in the graph: give ids of its chunks only")
        found = [(-float(link[rows[one], rows[other]]), kind) for kind, link in self.links.items()]
        return tuple(kind for weight, kind in sorted(found) if weight < 0)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Save the graph to a directory; an existing graph is replaced when the new graph is complete."""
        self.check_files()
        arrays = packed("passages", self.passages)
        for kind, link in self.links.items():
            arrays |= packed_matrix(kind, link)
        if self.embeddings is not None:
            arrays["embeddings"] = self.embeddings
        write_bundle(directory, KIND, VERSION, {"passages": len(self.passages), "kinds": list(self.links)}, arrays)

    @classmethod
    def load(cls, directory: str | os.PathLike[str], *, mmap: bool = True, verify: bool = True) -> ChunkGraph:
        """Load a graph that :meth:`save` wrote; it is identical to the saved graph.

        Parameters and errors are described at :func:`load_graph`.

        >>> import tempfile
        >>> graph = build_chunk_graph([{"id": "1", "title": "a", "text": "x"}, {"id": "2", "title": "a", "text": "y"}])
        >>> graph.save(folder := tempfile.mkdtemp())
        >>> ChunkGraph.load(folder).kinds("1", "2")
        ('sequential',)
        """
        body, arrays = read_bundle(directory, KIND, VERSION, mmap=mmap, verify=verify)
        try:
            passages = unpacked("passages", arrays)
            embeddings: Any = arrays.get("embeddings")
            if len(passages) != body["passages"]:
                raise InvalidInputError(
                    f"the arrays contain {len(passages)} passages, but the manifest states {body['passages']!r:.40}"
                )
            kinds: Any = body["kinds"]
            shape = (len(passages), len(passages))
            return cls(passages, {kind: unpacked_matrix(kind, arrays, shape, np.float32) for kind in kinds}, embeddings)
        except MISFITS as error:
            raise IntegrityError(
                f"{Path(directory).name}: the parts of the saved graph do not fit together: {error}. "
                "Restore the folder, or build the graph again"
            ) from error

    def within(self, allowed: Allowed) -> ChunkGraph | None:
        """Return the graph of the `allowed` chunks and the edges between them; None if no chunk is allowed.

        :meth:`ChunkGraphSource.within` describes `allowed`. The results of the last calls are cached.
        """
        self.check_files()
        rows = allowed_rows(self, allowed)
        if not len(rows):
            return None
        if len(rows) == len(self.passages):
            return self
        part: ChunkGraph = self._parts.get(rows.tobytes(), lambda: self._part(rows))
        return part

    @lazy_property
    def _parts(self) -> Recent:
        return Recent(most=MOST_PARTS)

    def _part(self, rows: IntArray) -> ChunkGraph:
        links = {kind: link[rows][:, rows] for kind, link in self.links.items()}
        ids = tuple(self.passages[row] for row in rows.tolist())
        vectors = None if self.embeddings is None else self.embeddings[rows]
        return ChunkGraph(ids, {kind: link for kind, link in links.items() if link.nnz}, vectors)

    @property
    def passage_rows(self) -> Mapping[str, int]:
        """The row of each chunk by id."""
        return self.walkable.passage_rows

    @lazy_property
    def walkable(self) -> EntityGraph:
        """The chunk graph in the form that the walk needs: an entity graph without entities."""
        count = len(self.passages)
        total = sum(self.links.values(), start=sparse.csr_array((count, count), dtype=np.float32)).tocsr()
        nothing = sparse.csr_array((count, 0), dtype=np.int8)
        return _Linked(self.passages, (), nothing, nothing, embeddings=self.embeddings, total=total)


@dataclass(frozen=True, eq=False)
class _Linked(EntityGraph):
    """An entity graph without entities, in which edges link passages directly.

    `total` is the matrix of edge weights, of shape (P, P). A graph of this class cannot be saved to a file, so the
    class is not part of the public interface.
    """

    total: Csr = None

    @lazy_property
    def adjacency(self) -> Csr:
        return self.total


def build_chunk_graph(
    passages: Iterable[Any],
    *,
    documents: Sequence[str] | None = None,
    positions: Sequence[float] | None = None,
    code: Sequence[bool] | None = None,
    embeddings: Any = None,
    settings: ChunkSettings | None = None,
) -> ChunkGraph:
    """Build the chunk graph of a corpus.

    Parameters
    ----------
    passages : iterable of mapping or object
        Chunks with ``id``, ``text`` and optionally ``title``, as for :func:`~phasegraph.graph.build_graph`.
    documents : sequence of str, optional
        The document or file of each passage. Default: the title; a passage without a title is its own document.
    positions : sequence of float, optional
        The position of each passage in its document. Default: the order of the passages.
    code : sequence of bool, optional
        True for each passage that is code. Default: True for passages that look like code.
    embeddings : (P, d) array_like of float, optional
        Embeddings, one row per passage. Without embeddings, the graph has no semantic edges.
    settings : ChunkSettings, optional
        The kinds of edges and their weights.

    Returns
    -------
    ChunkGraph

    Notes
    -----
    The kinds of edges come from the published method GAHR. In GAHR, references link chunks of all documents. Here, they
    link chunks of the same document, unless ``ChunkSettings(across=True)``. The weights are our own choice.

    Examples
    --------
    >>> graph = build_chunk_graph(
    ...     [
    ...         {"id": "1", "text": "See Table 2."},
    ...         {"id": "2", "text": "Prices."},
    ...         {"id": "3", "text": "Table 2: 4 EUR"},
    ...     ],
    ...     documents=["report"] * 3,
    ... )
    >>> graph.counts(), graph.kinds("1", "3")
    ({'sequential': 2, 'reference': 1}, ('reference',))
    """
    chosen = settings if settings is not None else ChunkSettings()
    rows = read_passages(passages)
    count = len(rows)
    ids, texts = tuple(row[0] for row in rows), [row[2] for row in rows]
    own = [title if title.strip() else f"\0{name}" for name, title, _ in rows]
    where = own if documents is None else _fitting("documents", documents, count, str)
    places = range(count) if positions is None else _fitting("positions", positions, count, int | float)
    coded = list(map(looks_like_code, texts)) if code is None else _fitting("code", code, count, bool)
    vectors = None if embeddings is None else checked_embeddings("embeddings", embeddings, count)
    links: dict[str, Csr] = {}
    if chosen.sequential:
        links["sequential"] = matrix(sequential(where, places), count)
    if chosen.semantic and vectors is not None:
        links["semantic"] = semantic(vectors, chosen.threshold, chosen.nearest)
    if chosen.reference:
        links["reference"] = matrix(references(texts, where, across=chosen.across), count).sqrt()
    if chosen.identifier:
        links["identifier"] = matrix(identifiers(texts, where, coded, chosen.fewest, chosen.most), count).sqrt()
    weighted = {kind: link * np.float32(getattr(chosen, kind)) for kind, link in links.items() if link.nnz}
    return ChunkGraph(ids, weighted, vectors)


def _fitting(name: str, given: Sequence[Any], count: int, kind: Any) -> list[Any]:
    values = list(given)
    if len(values) != count:
        raise InvalidInputError(f"{name} must have one item per passage ({count}); got {len(values)}")
    bad = next((row for row, value in enumerate(values) if not isinstance(value, kind)), None)
    if bad is not None:
        raise InvalidTypeError(
            f"{name} must contain only {getattr(kind, '__name__', kind)}; row {bad} is {values[bad]!r:.80}"
        )
    if name == "positions" and not np.isfinite(values).all():
        raise InvalidInputError(
            f"positions must be finite; the position in row {int(np.argmin(np.isfinite(values)))} is NaN or infinite"
        )
    return values


SEEDS = LinkSettings(seed_passages=20, sharpness=10.0)
"""The default settings for seeds on a chunk graph."""
WALK = WalkSettings(follow_probability=0.5)
"""The default settings for walks on a chunk graph."""


@dataclass(frozen=True, slots=True)
class ChunkPath(WalkPath):
    """The path of a walk to a chunk: a :class:`~phasegraph.graph.walk.source.WalkPath` that contains only chunks.

    `kinds` lists, for each step of the path, the kinds of the edges between the two chunks, greatest weight first.
    """

    kinds: tuple[tuple[str, ...], ...] = ()

    def __str__(self) -> str:
        steps = (f" —{'+'.join(kinds)}> [{node.name}]" for kinds, node in zip(self.kinds, self.path[1:], strict=True))
        return f"[{self.path[0].name}]" + "".join(steps)


@dataclass(frozen=True, eq=False)
class ChunkGraphSource(GraphWalker):
    """A source that ranks chunks by a walk from the best hits of another source.

    Parameters
    ----------
    graph : ChunkGraph
        The graph to walk.
    name : str, default "graph"
        Name of the source in rankings and reports.
    depends_on : sequence of str, default ("vector",)
        Names of sources whose rankings can supply the seeds; the first available ranking is used. Without a ranking,
        the seeds are the chunks nearest to the query. This needs an `embedder` and `graph.embeddings`; otherwise, the
        ranking is empty.
    embedder : callable, optional
        A function ``embedder(query) -> (d,) vector``; the walk then prefers chunks near the query.
    linking : LinkSettings
        Settings for the seeds; only `seed_passages` and `sharpness` have an effect.
    walk : WalkSettings
        Settings for the walk and for the scores of chunks.

    Notes
    -----
    Scores and background are computed as in :class:`~phasegraph.graph.GraphSource`. The payload of a chunk is its
    :class:`ChunkPath`.

    Examples
    --------
    >>> from phasegraph.graph.chunk_graph import build_chunk_graph
    >>> texts = {"1": "See Table 2.", "2": "Prices.", "3": "Table 2: 4 EUR"}
    >>> passages = [{"id": name, "text": text} for name, text in texts.items()]
    >>> graph = build_chunk_graph(passages, documents=["a", "b", "a"])
    >>> ranking = ChunkGraphSource(graph).search("price?", 10, {"vector": Ranking("vector", ["1"], [0.9])})
    >>> ranking.ids, str(ranking.payloads["3"])
    (('1', '3'), '[1] —sequential+reference> [3]')
    """

    graph: ChunkGraph
    name: str = "graph"
    depends_on: Sequence[str] = ("vector",)
    embedder: Callable[[str], Any] | None = None
    linking: LinkSettings = field(default=SEEDS)
    walk: WalkSettings = field(default=WALK)

    def __post_init__(self) -> None:
        check_kind("graph", self.graph, ChunkGraph)
        object.__setattr__(self, "depends_on", self._walker.depends_on)

    @lazy_property
    def _walker(self) -> GraphSource:
        return GraphSource(self.graph.walkable, self.name, self.depends_on, self.embedder, self.linking, self.walk)

    def prepare(self) -> Self:
        """Prepare the first search; see :meth:`phasegraph.graph.GraphSource.prepare`."""
        self._walker.prepare()
        return self

    def passage_ids(self) -> tuple[str, ...]:
        """Return the ids of all chunks; :meth:`within` accepts these ids."""
        return self.graph.passages

    def within(self, allowed: Allowed) -> Source:
        """Return a source over the `allowed` chunks; the walk does not pass through other chunks and never names them.

        `allowed` is a collection of ids, or a function ``allowed(id)``. The edges between allowed chunks may depend on
        other chunks, because they were computed from all chunks. For complete isolation, build a graph for each tenant.
        """
        part = self.graph.within(allowed)
        if part is not None:
            return replace(self, graph=part)
        nothing = Ranking(self.name, (), np.empty(0), reason="no chunk of the graph is allowed")
        return CallableSource(self.name, lambda query, limit: nothing)

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Rank chunks for `query`; parameters and result as in :meth:`phasegraph.sources.Source.search`."""
        self.graph.check_files()
        walker = self._walker
        if self.embedder is not None and all(upstream.get(name) is None for name in self.depends_on):
            walker, upstream = self._from_nearest(self.embedder(check_query(query)))
        ranking = walker.search(query, limit, upstream)
        if not len(ranking):
            return replace(ranking, reason=self._unseeded(walker.depends_on, upstream))
        paths = ranking.payloads
        return replace(ranking, payloads=_ChunkPaths(self.graph, paths) if isinstance(paths, WalkPaths) else paths)

    def _unseeded(self, asked: Sequence[str], upstream: Upstream) -> str:
        """Return the message for an empty ranking: why the walk had no seeds, and which input is missing.

        `asked` are the names of the sources whose rankings could have supplied the seeds.
        """
        if any(upstream.get(name) is not None for name in asked):
            return "the ranking that was handed over contains no chunk of the graph"
        wanted = " or ".join(map(repr, self.depends_on)) or "another source"
        alone = "an embedder" if self.embedder is None else "graph.embeddings in addition to its embedder"
        return f"no ranking was handed over: the walk starts from the hits of {wanted}; without them, it needs {alone}"

    def _from_nearest(self, vector: Any) -> tuple[GraphSource, Upstream]:
        """Return a graph source, and the ranking from which its walk starts: the chunks nearest to a query.

        `vector` is the query's embedding. The ranking is in a mapping by source name, as the argument `upstream` of a
        search. The mapping is empty if the graph has no embeddings.
        """
        graph, name = self.graph, "nearest"
        walker = replace(self._walker, depends_on=(name,), embedder=lambda _: vector)
        if graph.embeddings is None:
            return walker, {}
        near = times_vector(graph.embeddings, unit_vector(vector, graph.embeddings.shape[1]))
        rows = np.flatnonzero(near > 0).astype(np.int32)
        ids, scores = best_passages(graph.walkable, rows, near[rows].astype(np.float64), self.linking.seed_passages)
        return walker, {name: Ranking(name, ids, scores)}


@dataclass(frozen=True, eq=False)
class _ChunkPaths(Mapping[str, ChunkPath]):
    """A mapping of chunk ids to paths; each path is computed on demand, and a pickle contains all paths as a dict."""

    graph: ChunkGraph = field(repr=False)
    paths: Mapping[str, WalkPath]

    def __getitem__(self, passage_id: str) -> ChunkPath:
        found = self.paths[passage_id]
        kinds = tuple(self.graph.kinds(one.name, other.name) for one, other in pairwise(found.path))
        return ChunkPath(found.seeds, found.path, kinds=kinds)

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)
