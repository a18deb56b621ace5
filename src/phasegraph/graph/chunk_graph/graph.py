"""The value that holds a graph of chunks, and how it is built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse

from phasegraph._typing import Float32Array
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.chunk_graph.links import (
    Csr,
    identifiers,
    looks_like_code,
    matrix,
    references,
    semantic,
    sequential,
)
from phasegraph.graph.entity_graph import EntityGraph
from phasegraph.graph.entity_graph.graph import checked_embeddings
from phasegraph.graph.extraction.corpus import read_passages

KINDS = ("sequential", "semantic", "reference", "identifier")


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """Which edges there are, and what they weigh.

    Parameters
    ----------
    sequential, semantic, reference, identifier : float, default 1, 0.3, 0.3, 0.1
        Weight of an edge of that kind; a semantic one is multiplied by its cosine, the last two by the square
        root of how many markers or identifiers the chunks share. 0 leaves the kind out.
    threshold : float, default 0.7
        Least cosine of a semantic edge, in (0, 1].
    nearest : int, default 16
        Semantic edges a chunk asks for; an edge that either end asks for is there.
    fewest, most : int, default 2, 12
        An identifier counts where so many chunks of its document hold it.
    across : bool, default False
        Whether references mean the same in all documents.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Naming the field that is out of range.
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
        if not isinstance(self.across, bool):
            raise InvalidTypeError(f"ChunkSettings.across must be true or false; got {self.across!r}")
        for one in fields(self)[:-1]:
            value, whole = getattr(self, one.name), one.name in ("nearest", "fewest", "most")
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float | np.floating):
                raise InvalidTypeError(f"ChunkSettings.{one.name} must be a number; got {value!r}")
            least = 1 if whole else 0
            if not least <= value < np.inf or (one.name == "threshold" and not 0 < value <= 1):
                raise InvalidInputError(f"ChunkSettings.{one.name} must be finite and at least {least}; got {value!r}")


@dataclass(frozen=True, eq=False)
class ChunkGraph:
    """Chunks and the edges between them, by kind; made by :func:`build_chunk_graph`.

    Parameters
    ----------
    passages : tuple of str
        The P ids.
    links : mapping of str to (P, P) csr array of float32
        Symmetric, without a diagonal, weights included; keys are "sequential", "semantic", "reference" and
        "identifier", those without an edge left out.
    embeddings : (P, d) array of float32, optional
        L2-normalised.
    """

    passages: tuple[str, ...]
    links: Mapping[str, Csr]
    embeddings: Float32Array | None = field(default=None, repr=False)

    def counts(self) -> dict[str, int]:
        """How many edges there are of each kind, an edge counted once."""
        return {kind: link.nnz // 2 for kind, link in self.links.items()}

    def kinds(self, one: str, other: str) -> tuple[str, ...]:
        """What joins two chunks, the heaviest first; empty where nothing does."""
        rows = self.walkable.passage_rows
        unknown = next((name for name in (one, other) if name not in rows), None)
        if unknown is not None:
            raise InvalidInputError(f"a chunk must be in the graph; {unknown!r} is not")
        found = [(-float(link[rows[one], rows[other]]), kind) for kind, link in self.links.items()]
        return tuple(kind for weight, kind in sorted(found) if weight < 0)

    @cached_property
    def walkable(self) -> EntityGraph:
        """The same as a graph without entities, for walks."""
        count = len(self.passages)
        total: Csr = sparse.csr_array((count, count), dtype=np.float32)
        for link in self.links.values():
            total = total + link
        nothing = sparse.csr_array((count, 0), dtype=np.int32)
        return _Linked(
            self.passages, (), nothing, nothing.astype(np.int8), embeddings=self.embeddings, total=total.tocsr()
        )


@dataclass(frozen=True, eq=False)
class _Linked(EntityGraph):
    """A graph without entities whose passages are joined directly; not handed out, as it cannot be saved."""

    total: Csr = None

    @cached_property
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
    """Build the graph of a corpus' chunks.

    Parameters
    ----------
    passages : iterable of mapping or object
        As for :func:`~phasegraph.graph.build_graph`.
    documents : sequence of str, optional
        The document (or file) each passage is from; default: its title, and a passage without one stands alone.
    positions : sequence of float, optional
        Where in its document each passage stands; default: in the order given.
    code : sequence of bool, optional
        Which passages are code; default: those that look like it.
    embeddings : (P, d) array_like of float, optional
        One row per passage; without, there are no semantic edges.
    settings : ChunkSettings, optional

    Returns
    -------
    ChunkGraph

    Raises
    ------
    InvalidInputError, InvalidTypeError
        As :func:`~phasegraph.graph.build_graph`, and for sequences that do not have one item per passage.

    Notes
    -----
    The kinds of edges are those of GAHR; there references join chunks of all documents, here those of one unless
    asked, and weights are ours [R].

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
        links["sequential"] = matrix(sequential(where, places), count) * np.float32(chosen.sequential)
    if chosen.semantic and vectors is not None:
        links["semantic"] = semantic(vectors, chosen.threshold, chosen.nearest) * np.float32(chosen.semantic)
    if chosen.reference:
        shared = matrix(references(texts, where, across=chosen.across), count)
        links["reference"] = shared.sqrt() * np.float32(chosen.reference)
    if chosen.identifier:
        shared = matrix(identifiers(texts, where, coded, chosen.fewest, chosen.most), count)
        links["identifier"] = shared.sqrt() * np.float32(chosen.identifier)
    held = {kind: _frozen(links[kind]) for kind in KINDS if kind in links and links[kind].nnz}
    return ChunkGraph(ids, MappingProxyType(held), vectors)


def _fitting(name: str, given: Sequence[Any], count: int, kind: Any) -> list[Any]:
    values = list(given)
    if len(values) != count:
        raise InvalidInputError(f"{name} must have one item per passage ({count}); got {len(values)}")
    bad = next((row for row, value in enumerate(values) if not isinstance(value, kind)), None)
    if bad is not None:
        raise InvalidTypeError(f"{name} must hold {kind}; row {bad} is {values[bad]!r:.80}")
    if name == "positions" and not np.isfinite(values).all():
        raise InvalidInputError("positions must be finite; one is not")
    return values


def _frozen(link: Csr) -> Csr:
    whole = link.tocsr().astype(np.float32)
    for part in (whole.data, whole.indices, whole.indptr):
        part.flags.writeable = False
    return whole
