"""Embedded names, and the synonym edges that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from phasegraph._typing import Float32Array, IntArray
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.checks import check_range
from phasegraph.graph.entity_graph import EntityGraph, normalise_name
from phasegraph.graph.entity_graph.graph import checked_embeddings
from phasegraph.graph.entity_graph.weights import Csr
from phasegraph.graph.storage import packed, unpacked
from phasegraph.graph.synonyms import synonym_pairs

NameVectors: TypeAlias = Mapping[str, Any] | Callable[[Sequence[str]], Any]


@dataclass(frozen=True, eq=False)
class NameSynonyms:
    """Embedded names, of which those with a high enough cosine are synonyms; made by :meth:`of`.

    Parameters
    ----------
    threshold : float, default 0.8
        Least cosine of synonyms, in (0, 1].
    names : tuple of str
        Normalised, unique and in ascending order.
    vectors : (n, d) array of float32, optional
        L2-normalised, row i = name i; None where there are no names.
    embed : callable, optional
        ``embed(names) -> (n, d) vectors`` of names that have none yet. A name's vector must not depend on what else
        is embedded with it, or updates differ from rebuilds.
    required : bool, default False
        Whether every entity has to have a vector; otherwise one without has no synonyms.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the threshold is out of range, or the vectors do not fit the names or hold NaN (naming the row).

    Notes
    -----
    Pairs are found exactly (:func:`synonym_pairs`); the weight of an edge is the cosine, whose part in the walk
    is ``EdgeWeights.synonym``. HippoRAG 2 takes cosines of 0.8 and above.

    References
    ----------
    Gutiérrez, B. J. et al. (2025). From RAG to memory (HippoRAG 2). arXiv:2502.14802

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> synonyms = NameSynonyms.of({"Bo": [1.0, 0.1], "Bodil": [1.0, 0.0], "Ada": [0.0, 1.0]}, threshold=0.9)
    >>> passages = [{"id": "a", "text": "Ada met Bo."}, {"id": "b", "text": "Bodil sang."}]
    >>> graph = build_graph(passages, synonyms=synonyms)
    >>> graph.entities, (graph.synonyms.toarray() * 1000).astype(int).tolist()
    (('ada', 'bo', 'bodil'), [[0, 0, 0], [0, 0, 995], [0, 995, 0]])
    """

    threshold: float = 0.8
    names: tuple[str, ...] = ()
    vectors: Float32Array | None = field(default=None, repr=False)
    embed: Callable[[Sequence[str]], Any] | None = None
    required: bool = False

    def __post_init__(self) -> None:
        check_range("threshold", self.threshold, 0, 1, ends="(]")
        if (self.vectors is None) != (not self.names):
            raise InvalidInputError(f"vectors must be given exactly where names are; got {len(self.names)} names")
        if self.vectors is not None:
            vectors = checked_embeddings("name embeddings", self.vectors, len(self.names))
            object.__setattr__(self, "vectors", vectors)

    @classmethod
    def of(cls, embeddings: NameVectors, *, threshold: float = 0.8) -> NameSynonyms:
        """Take what embeds names.

        Parameters
        ----------
        embeddings : mapping of str to (d,) array_like, or callable
            Vectors by name (of spellings that normalise alike the first counts; entities that are not in it have no
            synonyms), or ``embeddings(names) -> (n, d) vectors``, which is asked for every entity.
        threshold : float, default 0.8
            Least cosine of synonyms, in (0, 1].

        Returns
        -------
        NameSynonyms

        Raises
        ------
        InvalidInputError, InvalidTypeError
            As for the class, and for what is neither a mapping nor callable.
        """
        return cls(threshold).knowing((), embeddings)

    def __call__(self, entities: Sequence[str]) -> Csr:
        """The synonym edges of a graph with these entities: what ``build_graph(..., synonyms=)`` calls."""
        return self.knowing(entities).edges(entities)

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """Row of each name."""
        return {name: row for row, name in enumerate(self.names)}

    def knowing(self, entities: Sequence[str], more: NameVectors | None = None) -> NameSynonyms:
        """The same with vectors for these entities.

        Parameters
        ----------
        entities : sequence of str
            Normalised names.
        more : mapping or callable, optional
            As for :meth:`of`. A callable is kept in place of the one there was.

        Returns
        -------
        NameSynonyms
            Where vectors can be made again, those of other names are let go.

        Raises
        ------
        InvalidInputError
            If a name lacks a vector that it has to have, or is given one that differs from its own.
        """
        if more is None:
            return self._embedded(entities)
        if isinstance(more, Mapping):
            return self._with(_normalised(more))._embedded(entities)
        if not callable(more):
            raise InvalidTypeError(
                f"name embeddings must be a mapping of names to vectors or a callable; got {type(more).__name__}"
            )
        return replace(self, embed=more, required=True)._embedded(entities)

    def edges(self, entities: Sequence[str]) -> Csr:
        """The synonym edges among entities, those without a vector left out.

        Returns
        -------
        (E, E) csr array of float32
            Cosines from `threshold` to 1; symmetric, no diagonal.
        """
        held = [name for name in entities if name in self.rows]
        none = np.empty(0, dtype=np.intp)
        return self._matrix(entities, held, 0, (none, none, np.empty(0, dtype=np.float32)))

    def edges_after(self, graph: EntityGraph, earlier: NameSynonyms, entities: Sequence[str]) -> Csr:
        """To the bit what :meth:`edges` gives, from the edges of a graph that shares most entities.

        Parameters
        ----------
        graph : EntityGraph
            Its synonym edges are those that `earlier` gives.
        earlier : NameSynonyms
            With the same threshold and, for the names both know, the same vectors.
        entities : sequence of str
            Those of the new graph. New ones are compared with old and new, old ones with new ones only.

        Returns
        -------
        (E, E) csr array of float32
        """
        held = [name for name in entities if name in self.rows]
        known = graph.entity_rows.keys() & earlier.rows.keys()
        order = [name for name in held if name in known]
        kept = len(order)
        order += [name for name in held if name not in known]
        place = {name: row for row, name in enumerate(entities)}
        moved = np.array([place.get(name, -1) if name in known else -1 for name in graph.entities], dtype=np.intp)
        old = graph.synonyms.tocoo()
        first, second = (moved.take(each) if len(each) else each for each in old.coords)
        there = (first >= 0) & (second > first)
        return self._matrix(entities, order, kept, (first[there], second[there], old.data[there]))

    def _matrix(
        self,
        entities: Sequence[str],
        order: list[str],
        start: int,
        old: tuple[IntArray, IntArray, Float32Array],
    ) -> Csr:
        """Old edges and those of which an end stands at `start` or later in `order`, both ways."""
        first, second, values = old
        if self.vectors is not None and start < len(order):
            vectors = self.vectors[[self.rows[name] for name in order]]
            found = synonym_pairs(vectors, threshold=self.threshold, start=start)
            place = {name: row for row, name in enumerate(entities)}
            rows = np.array([place[name] for name in order], dtype=np.intp)
            first = np.concatenate([first, rows[found.left]])
            second = np.concatenate([second, rows[found.right]])
            values = np.concatenate([values, found.cosine.astype(np.float32)])
        ends = np.concatenate([first, second]), np.concatenate([second, first])
        shape = (len(entities), len(entities))
        entries: Any = (np.concatenate([values, values]), ends)
        matrix: Csr = sparse.csr_array(entries, shape=shape).astype(np.float32)
        matrix.sort_indices()
        return matrix

    def _embedded(self, entities: Sequence[str]) -> NameSynonyms:
        lacking = [name for name in dict.fromkeys(entities) if name not in self.rows]
        found: dict[str, Any] = {}
        if lacking and self.embed is not None:
            found = dict(zip(lacking, self._checked(self.embed(lacking), len(lacking)), strict=True))
        elif lacking and self.required:
            raise InvalidInputError(f"every entity must have an embedding of its name; {lacking[0]!r} has none")
        wider = self._with(found)
        if not self.required:
            return wider
        wanted = sorted(set(entities))
        if not wanted or wider.vectors is None:
            return replace(wider, names=(), vectors=None)
        return replace(wider, names=tuple(wanted), vectors=wider.vectors[[wider.rows[name] for name in wanted]])

    def _with(self, found: Mapping[str, Any]) -> NameSynonyms:
        """The same with vectors of these normalised names, too."""
        if not found:
            return self
        try:
            given = np.array([np.asarray(each, dtype=np.float32) for each in found.values()])
        except (TypeError, ValueError) as error:
            raise InvalidTypeError(f"name embeddings must be numbers in rows of one length; {error}") from error
        vectors = dict(zip(found, self._checked(given, len(found)), strict=True))
        for name in vectors.keys() & self.rows.keys():
            if self.vectors is not None and not np.array_equal(vectors[name], self.vectors[self.rows[name]]):
                raise InvalidInputError(f"a name must have one embedding; {name!r} is given another")
        own = {} if self.vectors is None else dict(zip(self.names, self.vectors, strict=True))
        names = sorted({**own, **vectors})
        return replace(self, names=tuple(names), vectors=np.array([own.get(n, vectors.get(n)) for n in names]))

    def _checked(self, given: Any, count: int) -> Float32Array:
        vectors = checked_embeddings("name embeddings", given, count)
        if self.vectors is not None and vectors.shape[1] != self.vectors.shape[1]:
            raise InvalidInputError(
                f"name embeddings must have {self.vectors.shape[1]} columns, as the others; got {vectors.shape[1]}"
            )
        return vectors


def _normalised(given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, vector in given.items():
        if not isinstance(name, str):
            raise InvalidTypeError(f"names must be strings; got {name!r}")
        found.setdefault(normalise_name(name), vector)
    found.pop("", None)
    return found


def synonym_parts(synonyms: NameSynonyms) -> tuple[dict[str, object], dict[str, NDArray[Any]]]:
    """Embedded names as a JSON-ready body and plain arrays; the callable is not among them."""
    arrays: dict[str, NDArray[Any]] = dict(packed("names", synonyms.names))
    if synonyms.vectors is not None:
        arrays["names_vectors"] = synonyms.vectors
    return {"threshold": float(synonyms.threshold), "required": synonyms.required}, arrays


def synonyms_from_parts(body: Any, arrays: Mapping[str, NDArray[Any]]) -> NameSynonyms | None:
    """What :func:`synonym_parts` gave; None where there was none."""
    if body is None:
        return None
    vectors: Any = arrays.get("names_vectors")
    return NameSynonyms(body["threshold"], unpacked("names", arrays), vectors, required=bool(body["required"]))
