"""The entity graph: passages, entities, mentions of entities in passages, and the weighted edges of walks.

The graph is built from :class:`Extraction` records of any origin. It stores integer counts and computes every edge
weight from these counts. Two graphs with equal counts are therefore equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy import sparse

from phasegraph._support.frozen import by_fields
from phasegraph._support.packed import NameRows, PackedTexts, TextRows, ascend, merged_names
from phasegraph._support.products import times_vector
from phasegraph._support.serialization import check_mapped, mapped_in
from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import Float32Array, Int32Array, IntArray
from phasegraph._support.validation import check_range
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.model.words import normalise_name
from phasegraph.lexical import LexicalIndex, Tokenizer
from phasegraph.pagerank import WalkOperator
from phasegraph.pagerank.push import ranges

Triple: TypeAlias = tuple[str, str, str]
_MOST_TITLES = 50_000
"""Maximum size of a graph, in passages, for which the results of :meth:`EntityGraph.titles_at` are kept in memory."""


def check_kind(name: str, value: object, kind: type) -> None:
    """Raise InvalidTypeError unless the value is an instance of `kind`; the error contains the argument's `name`."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise InvalidTypeError(f"{name} must be {article} {kind.__name__}; got {type(value).__name__}")


@dataclass(frozen=True, slots=True)
class Extraction:
    """The names and facts in one passage.

    Parameters
    ----------
    passage_id : str
        Id of the passage.
    entities : sequence of str
        Names of the entities in the passage; a name is repeated for every mention.
    triples : sequence of (subject, predicate, object)
        Facts that the passage states; subject and object count as mentioned.
    titles : sequence of str
        Names of the entity that the passage is about: its title and other forms of the title.
    lead : str
        The name at the start of the passage ("Ada Lovelace was …"), which is probably the entity that the passage is
        about.

    Examples
    --------
    >>> Extraction("p1", ["ada lovelace"], [("ada lovelace", "worked with", "charles babbage")]).entities
    ('ada lovelace',)
    """

    passage_id: str
    entities: Sequence[str] = ()
    triples: Sequence[Triple] = ()
    titles: Sequence[str] = ()
    lead: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.passage_id, str) or not self.passage_id:
            raise InvalidTypeError(f"passage_id must be a non-empty string; got {self.passage_id!r}")
        for key in ("entities", "titles"):
            names = getattr(self, key)
            if isinstance(names, str) or not isinstance(names, Iterable):
                raise InvalidTypeError(f"{key} of passage {self.passage_id!r} must be a list; got {names!r}")
            if not all(isinstance(name, str) for name in names):
                raise InvalidTypeError(f"{key} of passage {self.passage_id!r} must be strings; got {names!r:.120}")
            object.__setattr__(self, key, tuple(names))
        if isinstance(self.triples, str) or not isinstance(self.triples, Iterable):
            raise InvalidTypeError(f"triples of passage {self.passage_id!r} must be a list; got {self.triples!r:.80}")
        object.__setattr__(self, "triples", tuple(_triple(self.passage_id, each) for each in self.triples))


def _triple(passage_id: str, given: object) -> Triple:
    if not isinstance(given, list | tuple):
        raise InvalidTypeError(f"triples of passage {passage_id!r} must be lists of three strings; got {given!r}")
    if len(given) != 3:
        raise InvalidInputError(
            f"triples of passage {passage_id!r} must have three parts; got {len(given)}: {given!r:.120}"
        )
    if not all(isinstance(part, str) for part in given):
        raise InvalidTypeError(f"triples of passage {passage_id!r} must contain only strings; got {given!r:.120}")
    subject, predicate, obj = given
    return subject, predicate, obj


class Extractor(Protocol):
    """The interface of a function that finds the names in a passage, in place of the built-in rules."""

    def __call__(self, passage_id: str, title: str, text: str, /) -> Extraction:
        """Return the extraction of one passage."""
        ...


Csr: TypeAlias = Any
HOME_TITLE, HOME_LEAD = 2, 1
"""Values of the homes matrix: the passage's title is the entity's name; the passage starts with the entity's name."""
FEWEST_COMMON = 10
"""Number of passages up to which an entity is never too common to have edges."""


@dataclass(frozen=True, slots=True)
class EdgeWeights:
    """Parameters that convert counts to edge weights.

    Parameters
    ----------
    home : float, default 30
        Weight of the edge from an entity to a passage with the entity's name as title. An edge for a single mention has
        weight 1.
    lead : float, default 15
        Weight of the edge from an entity to a passage that starts with the entity's name.
    rarity_power : float, default 2
        Exponent of log(1 + N / df) in the weight of the edge from a passage to an entity. N is the number of passages,
        and df is the number of passages that mention the entity.
    count_power : float, default 0.5
        Exponent of the number of mentions in the weight of the edge from an entity to a passage.
    common_share : float, default 0.05
        Share of the passages, in [0, 1]. An entity has no edges if more than this share of all passages, and more than
        ten passages, mention it. An entity with a home passage (a passage about the entity) always has edges.
    fact : float, default 0.2
        Weight of an edge between two entities, for each triple that contains both entities.
    synonym : float, default 1
        Weight of an edge between two synonyms with similarity 1; the weight is proportional to the similarity.
    """

    home: float = 30.0
    lead: float = 15.0
    rarity_power: float = 2.0
    count_power: float = 0.5
    common_share: float = 0.05
    fact: float = 0.2
    synonym: float = 1.0

    def __post_init__(self) -> None:
        for one in fields(self):
            most = 1.0 if one.name == "common_share" else np.inf
            check_range(f"EdgeWeights.{one.name}", getattr(self, one.name), 0, most)


def adjacency(mentions: Csr, homes: Csr, facts: Csr, synonyms: Csr, weights: EdgeWeights) -> Csr:
    """Compute the matrix of edge weights, of shape (P + E, P + E); an edge leads from its row to its column.

    Passages come before entities. A passage has no edge to an entity that no other passage mentions, because the walk
    could only return from this entity. The edge from the entity to the passage exists, so the entity can be a seed.
    """
    passages = mentions.shape[0]
    frequency = _column_counts(mentions)
    kept, rare = kept_entities(frequency, _column_counts(homes), passages, weights)
    outward = sparse.csr_array((rare[mentions.indices], mentions.indices, mentions.indptr), shape=mentions.shape)
    counted = count_weights(mentions.data, weights)
    counted *= kept[mentions.indices]
    plain = sparse.csr_array((counted, mentions.indices, mentions.indptr), shape=mentions.shape)
    at_home = sparse.csr_array((home_weights(homes.data, weights), homes.indices, homes.indptr), shape=homes.shape)
    inward = (plain + at_home).T.tocsr()
    across = across_weights(facts, synonyms, weights).tocsr()
    whole = sparse.block_array([[None, outward], [inward, across]], format="csr", dtype=np.float32)
    whole.eliminate_zeros()
    whole.sort_indices()
    return whole


def kept_entities(frequency: Any, homes: Any, passages: int, weights: EdgeWeights) -> tuple[Any, Float32Array]:
    """Return two arrays: True for each entity with edges, and the weight of an edge from a passage to each entity.

    `frequency` is the number of passages that mention an entity, and `homes` the number of its home passages (passages
    about the entity). An entity has no edges if it is too common and has no home passage. All arrays have shape (E,).
    """
    kept = (frequency <= max(weights.common_share * passages, FEWEST_COMMON)) | (homes > 0)
    rare = np.where(kept & (frequency > 1), rarity_weights(frequency, passages, weights), 0.0)
    return kept, rare.astype(np.float32)


def _column_counts(matrix: Csr) -> Int32Array:
    return np.bincount(matrix.indices, minlength=matrix.shape[1]).astype(np.int32)


def rarity_weights(frequency: Any, passages: int, weights: EdgeWeights) -> Any:
    """Compute the weight of an edge from a passage to an entity, from the number of passages with the entity."""
    return np.log1p(passages / np.maximum(frequency, 1)) ** weights.rarity_power


def count_weights(counts: Any, weights: EdgeWeights) -> Float32Array:
    """Compute, from the `counts` of mentions, the part of entity-to-passage edge weights that depends on them."""
    counted: Float32Array = counts.astype(np.float32) ** np.float32(weights.count_power)
    return counted


def home_weights(homes: Any, weights: EdgeWeights) -> Float32Array:
    """Compute the part of an entity-to-passage edge weight for a home passage (a passage about the entity).

    For other passages, it is 0. The part for the number of mentions (:func:`count_weights`) is added to it.
    """
    by_kind: Float32Array = np.array([0.0, weights.lead, weights.home], dtype=np.float32)[homes]
    return by_kind


def across_weights(facts: Any, synonyms: Any, weights: EdgeWeights) -> Any:
    """Compute the weights of edges between entities from the counts of facts and the similarities of synonyms."""
    return facts.astype(np.float32) * np.float32(weights.fact) + synonyms * np.float32(weights.synonym)


@dataclass(frozen=True, eq=False)
class EntityGraph:
    """A graph of passages and entities, with counts of mentions and facts.

    Create it with :func:`phasegraph.graph.build_graph`. Matrices are CSR with int32 indices and are read-only. A node
    is a passage (0 to P - 1) or an entity (P to P + E - 1).

    Parameters
    ----------
    passages : tuple of str
        The P unique passage ids; in a graph that is memory-mapped from a folder, a sequence of another type.
    entities : tuple of str
        The E normalized names, unique and in ascending order; in a memory-mapped graph, a sequence of another type.
    mentions : (P, E) csr array of int32
        Number of times that a passage mentions an entity; 1 if the passage is about the entity but does not mention it.
    homes : (P, E) csr array of int8
        2 if the entity's name is the passage's title, 1 if the passage starts with the entity's name.
    facts : (E, E) csr array of int32, optional
        Number of triples that contain both entities; symmetric, with an empty diagonal.
    synonyms : (E, E) csr array of float32, optional
        Similarity in (0, 1] of two names for the same thing; symmetric, with an empty diagonal.
    weights : EdgeWeights
        Parameters that convert the counts to edge weights.
    embeddings : (P, d) array of float32, optional
        L2-normalized embeddings; row i belongs to passage i.
    lexical : LexicalIndex, optional
        The BM25 index of the passages, by which the words of a query affect the walk.

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph(
    ...     [{"id": "a", "title": "Ada", "text": "Ada met Bo."}, {"id": "b", "title": "Bo", "text": "Bo sang."}]
    ... )
    >>> graph.entities, graph.mentions.toarray().tolist()
    (('ada', 'bo'), [[1, 1], [0, 1]])
    """

    passages: Sequence[str]
    entities: Sequence[str]
    mentions: Csr
    homes: Csr
    facts: Csr = None
    synonyms: Csr = None
    weights: EdgeWeights = field(default_factory=EdgeWeights)
    embeddings: Float32Array | None = None
    lexical: LexicalIndex | None = None

    __reduce__ = by_fields

    def __repr__(self) -> str:
        return f"<EntityGraph of {len(self.passages):,} passages and {len(self.entities):,} entities>"

    mapped: tuple[Any, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        shape, square = (len(self.passages), len(self.entities)), (len(self.entities), len(self.entities))
        self._check_unique()
        if not ascend(self.entities):
            raise InvalidInputError(
                "entities must be unique and in ascending order; the order breaks at row "
                + str(next((row for row, one in enumerate(self.entities) if row and one <= self.entities[row - 1]), 0))
            )
        for name, (dtype, most) in _TYPES.items():
            size = shape if name in ("mentions", "homes") else square
            object.__setattr__(self, name, _checked(name, getattr(self, name), dtype, size, most))
        if self.embeddings is not None:
            vectors = checked_embeddings("embeddings", self.embeddings, len(self.passages))
            object.__setattr__(self, "embeddings", vectors)
        if self.lexical is not None:
            check_kind("lexical", self.lexical, LexicalIndex)
            if len(self.lexical.lengths) != len(self.passages):
                raise InvalidInputError(
                    f"lexical must index {len(self.passages)} passages; got {len(self.lexical.lengths)}"
                )
        matrices = (getattr(self, name) for name in _TYPES)
        arrays = [part for one in matrices for part in (one.data, one.indices, one.indptr)]
        arrays += [] if self.lexical is None else self.lexical.files
        object.__setattr__(self, "mapped", mapped_in([*arrays, self.embeddings]))

    def _check_unique(self) -> None:
        if isinstance(self.passages, PackedTexts):
            rows = np.asarray(self.passages.order)
            whole = np.array_equal(np.sort(rows), np.arange(len(self.passages)))
            if whole and self.passages.ascend_by(rows):
                return
            rows_by_id(self.passages)
            raise InvalidInputError("the stored order of the passage ids does not match the ids")
        _ = self.passage_rows  # raises an error for a repeated id

    def check_files(self, *, settled: bool = False) -> None:
        """Raise IntegrityError if a memory-mapped file was truncated or is known to be damaged.

        Without this check, reading a truncated file would crash the process. If `settled` is True, wait until checks of
        the files in the background have ended.
        """
        check_mapped(self.mapped, settled=settled)

    @lazy_property
    def size(self) -> int:
        """The number of nodes."""
        return len(self.passages) + len(self.entities)

    @lazy_property
    def count(self) -> int:
        """The number of passages."""
        return len(self.passages)

    def rows_at(self, places: IntArray) -> IntArray:
        """Convert positions among the existing passages to rows.

        Positions and rows differ only in a graph with a change log, where rows of removed passages remain unused.
        """
        return places

    def places_of(self, rows: IntArray) -> IntArray:
        """Convert rows to positions among the existing passages; see :meth:`rows_at`."""
        return rows

    def titles_at(self, rows: IntArray) -> IntArray:
        """Return a pair of numbers that identifies the title of each of n passages, an array of shape (n, 2).

        The numbers are the lowest and the highest entity row among the names in the title. Passages with equal titles
        have equal pairs. A passage without a title has the pair (-1, -1).
        """
        if len(self.passages) <= _MOST_TITLES:
            return self._all_titles[rows]
        return self._titles_of(rows)

    @lazy_property
    def _all_titles(self) -> IntArray:
        return self._titles_of(np.arange(len(self.passages)))

    def _titles_of(self, rows: IntArray) -> IntArray:
        owner, columns, kinds = entries_of(self.homes, rows)
        named = kinds == HOME_TITLE
        return least_and_greatest(owner[named], columns[named], len(rows))

    def cosines_to(self, unit: Float32Array) -> Float32Array:
        """Compute the cosine of each passage's embedding to a unit vector, an array of shape (P,).

        The graph must have embeddings.
        """
        cosines: Float32Array = times_vector(self.embeddings, unit)
        return cosines

    @property
    def view(self) -> EntityGraph:
        """The form of this graph for searches that score only some passages.

        For a graph with a change log, the view reads the log without merging it. Otherwise, it is the graph itself.
        """
        return self

    @lazy_property
    def adjacency(self) -> Csr:
        """The weights of the edges from row to column, a csr array of float32 with shape (P + E, P + E)."""
        return read_only_matrix(adjacency(self.mentions, self.homes, self.facts, self.synonyms, self.weights))

    @lazy_property
    def operator(self) -> WalkOperator:
        """The adjacency matrix, prepared for walks."""
        return WalkOperator.from_adjacency(self.adjacency)

    @lazy_property
    def frequency(self) -> Int32Array:
        """The number of passages that mention each entity, an int32 array of shape (E,)."""
        counts = _column_counts(self.mentions)
        counts.flags.writeable = False
        return counts

    @lazy_property
    def anchored(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """A boolean array of shape (E,): True for an entity with a home passage (a passage about the entity)."""
        has_home = _column_counts(self.homes) > 0
        has_home.flags.writeable = False
        return has_home

    @lazy_property
    def passage_rows(self) -> Mapping[str, int]:
        """The row of each passage id."""
        if isinstance(self.passages, PackedTexts):
            return TextRows(self.passages)
        return MappingProxyType(rows_by_id(self.passages))

    def ids_at(self, rows: IntArray) -> list[str]:
        """Return the ids of the passages in the given rows; :attr:`passage_rows` then finds these ids quickly."""
        if isinstance(self.passage_rows, TextRows):
            return self.passage_rows.texts_at(rows)
        return [self.passages[row] for row in rows.tolist()]

    @lazy_property
    def entity_rows(self) -> Mapping[str, int]:
        """The row of each entity name."""
        return NameRows(self.entities)


def entries_of(matrix: Csr, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the entries of some rows of a CSR matrix as three arrays: position in `rows`, column, and value."""
    counts = (matrix.indptr[rows + 1] - matrix.indptr[rows]).astype(np.int64)
    at = ranges(matrix.indptr[rows].astype(np.int64), counts)
    return np.repeat(np.arange(len(rows)), counts), matrix.indices[at].astype(np.int64), matrix.data[at]


def least_and_greatest(owners: IntArray, values: IntArray, count: int) -> IntArray:
    """Return the least and the greatest of the values of each owner, an array of shape (count, 2).

    ``values[i]`` belongs to the owner ``owners[i]``, a number from 0 to count - 1. An owner without a value gets -1.

    >>> least_and_greatest(np.array([0, 0, 2]), np.array([7, 5, 3]), 3).tolist()
    [[5, 7], [-1, -1], [3, 3]]
    """
    found = np.full((count, 2), -1, dtype=np.int64)
    found[owners, 0] = np.iinfo(np.int64).max
    np.minimum.at(found[:, 0], owners, values)
    np.maximum.at(found[:, 1], owners, values)
    return found


def rows_by_id(ids: Sequence[str]) -> dict[str, int]:
    """Return the row of each passage id; raise InvalidInputError if an id repeats, with the id and two of its rows.

    >>> rows_by_id(["a", "b"])
    {'a': 0, 'b': 1}
    """
    rows = {name: row for row, name in enumerate(ids)}
    if len(rows) != len(ids):
        first, name = next((row, name) for row, name in enumerate(ids) if rows[name] != row)
        raise InvalidInputError(
            f"passage ids must be unique; {name!r:.80} is the id of rows {first} and {rows[name]}: give each passage "
            "its own id"
        )
    return rows


def stored_graph(made: Mapping[str, Any], arrays: Iterable[Any]) -> EntityGraph:
    """Create a graph from its fields `made`, which were checked before, without reading the memory-mapped `arrays`."""
    graph = object.__new__(EntityGraph)
    for name, value in made.items():
        object.__setattr__(graph, name, value)
    object.__setattr__(graph, "mapped", mapped_in(arrays))
    return graph


_TYPES: dict[str, tuple[Any, float]] = {
    "mentions": (np.int32, np.inf), "homes": (np.int8, HOME_TITLE), "facts": (np.int32, np.inf),
    "synonyms": (np.float32, 1.001),
}  # fmt: skip
"""The data type and the maximum value of each matrix; rounding can make a cosine slightly greater than 1."""


def _checked(name: str, given: Csr, dtype: Any, shape: tuple[int, int], most: float) -> Csr:
    if given is None:
        return read_only_matrix(sparse.coo_array(shape, dtype=dtype).tocsr())
    matrix: Any = given
    if not sparse.issparse(given):
        raise InvalidTypeError(f"{name} must be a scipy sparse matrix; got {type(given).__name__}")
    if matrix.shape != shape:
        raise InvalidInputError(f"{name} must have shape {shape}; got {matrix.shape}")
    check_values(name, matrix.data, most)
    return read_only_matrix(matrix.tocsr().astype(dtype, copy=False))


def check_values(name: str, values: Any, most: float = np.inf) -> None:
    """Raise InvalidInputError unless the values of a matrix are finite and in [0, `most`]."""
    if len(values) and not (float(values.min()) >= 0 and float(values.max()) <= min(most, 3e38)):
        raise InvalidInputError(
            f"{name} must contain finite values >= 0{f' and <= {most:g}' if most < np.inf else ''}; got "
            f"{next(one for one in values.tolist() if not 0 <= one <= min(most, 3e38)):g}"
        )


def read_only_matrix(matrix: Csr) -> Csr:
    """Return a CSR matrix with the same entries, int32 indices and read-only arrays; arrays are shared if possible."""
    out = sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
    out.data = _read_only(matrix.data)
    out.indices = _read_only(matrix.indices.astype(np.int32, copy=False))
    out.indptr = _read_only(matrix.indptr.astype(np.int32 if matrix.nnz < 2**31 else np.int64, copy=False))
    return out


def _read_only(array: Any) -> Any:
    view = array.view()
    view.flags.writeable = False
    return view


UNIT_TOLERANCE = 1e-6
"""Maximum difference between 1 and the length of an embedding that is used without normalization."""


def checked_embeddings(name: str, given: Any, rows: int) -> Float32Array:
    """Convert embeddings to a read-only float32 array of shape (rows, d) with rows of length 1.

    A row of zeros stays zero. Error messages contain `name`.
    """
    try:
        vectors = np.asarray(given, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{name} must be numbers in rows of equal length; got {given!r:.80}") from error
    if vectors.ndim != 2 or len(vectors) != rows or not vectors.shape[1]:
        raise InvalidInputError(f"{name} must have {rows} rows, and at least one column; got shape {vectors.shape}")
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    bad = np.flatnonzero(~np.isfinite(lengths))
    if len(bad):
        raise InvalidInputError(f"{name} must be finite; row {int(bad[0])} contains NaN or infinity")
    loose = (lengths > 0) & (np.abs(lengths - 1) > UNIT_TOLERANCE)
    if loose.any():
        divisors = np.where(loose, lengths, 1).astype(np.float32)
        vectors = np.divide(vectors, divisors[:, None], dtype=np.float32)
    frozen: Float32Array = _read_only(np.ascontiguousarray(vectors))
    return frozen


Synonyms: TypeAlias = Mapping[tuple[str, str], float] | Callable[[Sequence[str]], Csr]


def graph_from_extractions(
    passage_ids: Sequence[str],
    extractions: Iterable[Extraction],
    *,
    embeddings: Any = None,
    synonyms: Synonyms | None = None,
    weights: EdgeWeights | None = None,
    texts: Sequence[str] | None = None,
    tokenizer: Tokenizer = "english",
) -> EntityGraph:
    """Build an entity graph from extractions, without extracting names from texts.

    Parameters
    ----------
    passage_ids : sequence of str
        The P unique passage ids, in the order of the graph's rows.
    extractions : iterable of Extraction
        Any number of extractions per passage, in any order; their mentions and triples are summed. A name that is only
        in triples or titles of a passage counts as mentioned once.
    embeddings : (P, d) array_like of float, optional
        The embeddings of the passages.
    synonyms : mapping of (name, name) to float, or callable, optional
        Similarities in (0, 1] of pairs of names. If a pair is given in both orders, the greater similarity counts.
        Names that are not entities are left out. A callable, for example a ``NameSynonyms``, takes the E entities and
        returns the matrix of similarities, of shape (E, E).
    weights : EdgeWeights, optional
        Parameters that convert counts to edge weights.
    texts : sequence of str, optional
        The texts of the P passages; the graph then has a BM25 index, by which the query's words affect the walk.
    tokenizer : str or callable, default "english"
        Splits the texts into words; see :class:`~phasegraph.lexical.LexicalIndex`.

    Returns
    -------
    EntityGraph

    Raises
    ------
    InvalidInputError
        If there is no id, an id repeats, an extraction belongs to no passage, or a similarity is out of range.

    Examples
    --------
    >>> graph_from_extractions(["1"], [Extraction("1", ["ada"], titles=["ada"])]).homes.data.tolist()
    [2]
    """
    ids = tuple(passage_ids)
    if not ids:
        raise InvalidInputError("passages is empty: give at least one passage")
    rows = rows_by_id(ids)
    mentioned, at_home, facts = count_records(ids, grouped(extractions, rows))
    entities = tuple(sorted(set(chain.from_iterable(mentioned))))
    place = {name: row for row, name in enumerate(entities)}
    shape, square = (len(ids), len(entities)), (len(entities), len(entities))
    return EntityGraph(
        ids,
        entities,
        count_rows(mentioned, place, shape, np.int32),
        count_rows(at_home, place, shape, np.int8),
        symmetric(facts, place, square, np.int32),
        _synonym_edges(synonyms, entities, place),
        weights if weights is not None else EdgeWeights(),
        embeddings,
        None if texts is None else LexicalIndex.of(texts, tokenizer),
    )


def grouped(extractions: Iterable[Extraction], known: Mapping[str, object]) -> dict[str, list[Extraction]]:
    """Group extractions by passage id; raise InvalidInputError if an id is not in `known`, the ids of the corpus."""
    found: dict[str, list[Extraction]] = {}
    for record in extractions:
        if record.passage_id not in known:
            raise InvalidInputError(
                f"an extraction belongs to the passage {record.passage_id!r}, which is not in the corpus: add the "
                "passage, or remove the extraction"
            )
        found.setdefault(record.passage_id, []).append(record)
    return found


def _synonym_edges(synonyms: Synonyms | None, entities: tuple[str, ...], place: Mapping[str, int]) -> Csr | None:
    if synonyms is None or callable(synonyms):
        return None if synonyms is None else synonyms(entities)
    if not isinstance(synonyms, Mapping):
        raise InvalidTypeError(f"synonyms must be a mapping of pairs to numbers or a callable; got {synonyms!r:.80}")
    checked: dict[tuple[str, str], float] = {}
    for pair, value in synonyms.items():
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise InvalidTypeError(f"synonyms must have pairs of names as keys; got {pair!r:.80}")
        checked[pair] = check_range(f"the similarity of {pair!r:.120}", value, 0, 1, ends="(]")
    return symmetric(checked, place, (len(entities), len(entities)), np.float32)


Records = Mapping[str, Sequence[Extraction]]


def count_records(
    ids: Sequence[str], records: Records
) -> tuple[list[Mapping[str, int]], list[Mapping[str, int]], Counter[tuple[str, str]]]:
    """Count mentions and triples, and find the entities that each passage is about (its homes).

    `records` are the extractions by passage id. Returns three values. The first value contains, for each passage, the
    number of mentions by entity. The second value contains, for each passage, the kind of home (title or lead) by
    entity. The third value is the number of triples of each pair of entities. The mappings of a passage without
    extractions are empty.
    """
    none: dict[str, int] = {}
    mentioned: list[Mapping[str, int]] = [none] * len(ids)
    at_home: list[Mapping[str, int]] = [none] * len(ids)
    facts: Counter[tuple[str, str]] = Counter()
    for row, name in enumerate(ids):
        if name not in records:
            continue
        counts: Counter[str] = Counter()
        homes: dict[str, int] = {}
        for record in records[name]:
            counts.update(record.entities)
            for subject, _, obj in record.triples:
                ends = normalise_name(subject), normalise_name(obj)
                for end in filter(None, ends):
                    counts.setdefault(end, 0)
                if all(ends) and ends[0] != ends[1]:
                    facts[ends if ends[0] < ends[1] else ends[::-1]] += 1
            if record.lead:
                homes.setdefault(record.lead, HOME_LEAD)
            homes.update(dict.fromkeys(record.titles, HOME_TITLE))
        # An entity that is only in triples, or only in the title or lead, counts as mentioned once.
        for end in (*homes, *(end for end, count in counts.items() if count == 0)):
            counts[end] = max(counts[end], 1)
        mentioned[row], at_home[row] = counts, homes
    return mentioned, at_home, facts


def count_rows(rows: Sequence[Mapping[str, int]], place: Mapping[str, int], shape: tuple[int, int], dtype: Any) -> Csr:
    """Build a CSR matrix of counts; each of the `rows` maps names to counts, and `place` maps names to columns."""
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=indptr[1:])
    total = int(indptr[-1])
    columns = np.fromiter((place[name] for row in rows for name in row), dtype=np.int32, count=total)
    values = np.fromiter((count for row in rows for count in row.values()), dtype=dtype, count=total)
    matrix = sparse.csr_array((values, columns, indptr), shape=shape)
    matrix.sort_indices()
    return matrix


def symmetric(
    pairs: Mapping[tuple[str, str], Any], place: Mapping[str, int], shape: tuple[int, int], dtype: Any
) -> Csr:
    """Build a symmetric CSR matrix from values of pairs of names; `place` contains the row of each name.

    Pairs with an unknown name and pairs of equal names are left out. If a pair is given in both orders, the greater
    value counts.
    """
    best: dict[tuple[int, int], Any] = {}
    for (one, other), value in pairs.items():
        if one != other and one in place and other in place:
            key = (min(place[one], place[other]), max(place[one], place[other]))
            best[key] = max(best.get(key, value), value)
    first = np.fromiter((key[0] for key in best), dtype=np.int32, count=len(best))
    second = np.fromiter((key[1] for key in best), dtype=np.int32, count=len(best))
    values = np.fromiter(best.values(), dtype=dtype, count=len(best))
    rows, columns = np.concatenate([first, second]), np.concatenate([second, first])
    matrix = sparse.csr_array((np.concatenate([values, values]), (rows, columns)), shape=shape)
    matrix.sort_indices()
    return matrix


def replace_passages(
    graph: EntityGraph,
    passages: Sequence[str],
    *,
    before: Records,
    after: Records,
    embeddings: Any = None,
    texts: Mapping[str, str] | None = None,
) -> EntityGraph:
    """Return the graph after passages were added, changed and deleted.

    The result is identical, to the bit, to a graph that is built from all extractions. `passages` are all ids of the
    new graph. `before` contains the old extractions of deleted and changed passages, and `after` contains the new
    extractions of added and changed passages, both by passage id. `embeddings` has one row for each id in `passages`.
    `texts` are the texts of added and changed passages; they are required if the graph has a BM25 index. Raises
    InvalidInputError for a graph with synonyms, because the set of names may change; ``GraphIndex`` can update such a
    graph.
    """
    if graph.synonyms.nnz:
        raise InvalidInputError(
            "a graph with synonym edges cannot be updated: update the graph without synonyms, then add the synonyms "
            "again"
        )
    ids = tuple(passages)
    rows_by_id(ids)
    old_rows = graph.passage_rows if isinstance(graph.passages, tuple) else rows_by_id(graph.passages)
    lacking = next((name for name in ids if name not in after and name not in old_rows), None)
    if lacking is not None:
        raise InvalidInputError(
            f"passage {lacking!r} is new and has no extraction in `after`: add an extraction of this passage"
        )
    kept = np.array([-1 if name in after else old_rows[name] for name in ids], dtype=np.int64)
    mentioned, at_home, gained = count_records(ids, after)
    entities, moved = _entities(graph, kept, mentioned)
    place = NameRows(entities)
    shape = (len(ids), len(entities))
    _, _, lost = count_records(tuple(before), before)
    return EntityGraph(
        ids,
        entities,
        _merged(graph.mentions, kept, moved, count_rows(mentioned, place, shape, np.int32)),
        _merged(graph.homes, kept, moved, count_rows(at_home, place, shape, np.int8)),
        _facts(graph, entities, moved, gained, lost),
        None,
        graph.weights,
        embeddings,
        None if graph.lexical is None else _words_of(graph.lexical, ids, old_rows, texts or {}),
    )


def _words_of(
    lexical: LexicalIndex, ids: Sequence[str], rows: Mapping[str, int], texts: Mapping[str, str]
) -> LexicalIndex:
    """Return the BM25 index of the passages `ids`, from an old index and the texts of some passages.

    The words of `texts` are counted. For other passages, the counts are copied from `lexical`, the old index, in which
    `rows` are the rows of the passages.
    """
    lacking = next((name for name in ids if name not in texts and name not in rows), None)
    if lacking is not None:
        raise InvalidInputError(
            f"passage {lacking!r} is new and the graph has a BM25 index: `texts` must contain the passage's text"
        )
    kept = np.array([-1 if name in texts else rows[name] for name in ids], dtype=np.int64)
    return lexical.replaced(kept, {row: texts[name] for row, name in enumerate(ids) if name in texts})


def _entities(
    graph: EntityGraph, kept: np.ndarray[Any, Any], mentioned: Iterable[Mapping[str, int]]
) -> tuple[Sequence[str], Int32Array]:
    """Return the ascending names of the new graph, and the new row of each old name; -1 for a removed name.

    `kept` contains the old rows of unchanged passages, and -1 for others. `mentioned` contains the mentions of added
    and changed passages.
    """
    held = np.zeros(len(graph.entities), dtype=np.bool_)
    held[graph.mentions[kept[kept >= 0]].indices] = True
    entities, moved = merged_names(graph.entities, held, {name for counts in mentioned for name in counts})
    return entities, moved.astype(np.int32)


def _merged(old: Csr, kept: np.ndarray[Any, Any], moved: Int32Array, changed: Csr) -> Csr:
    """Merge two matrices by row: take row `kept[i]` of `old`, or row i of `changed` if `kept[i]` is -1.

    `moved` contains the new column of each column of `old`.
    """
    stay = kept >= 0
    taken = old[kept[stay]]
    lengths = np.diff(changed.indptr).astype(np.int64)
    lengths[stay] = np.diff(taken.indptr)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    from_old = np.repeat(stay, lengths)
    indices = np.empty(int(indptr[-1]), dtype=np.int32)
    data = np.empty(int(indptr[-1]), dtype=old.dtype)
    indices[from_old], data[from_old] = moved[taken.indices], taken.data
    indices[~from_old], data[~from_old] = changed.indices, changed.data
    matrix = sparse.csr_array((data, indices, indptr), shape=changed.shape)
    matrix.sort_indices()
    return matrix


def _facts(
    graph: EntityGraph,
    entities: Sequence[str],
    moved: Int32Array,
    gained: Counter[tuple[str, str]],
    lost: Counter[tuple[str, str]],
) -> Csr:
    """Return the matrix of facts of the new graph: the old counts, plus `gained` triples, minus `lost` triples.

    `moved` contains the new row of each old entity.
    """
    place = NameRows(entities)
    square = (len(entities), len(entities))
    old = graph.facts.tocoo()
    rows, columns, counts = moved[old.row], moved[old.col], old.data
    there = (rows >= 0) & (columns >= 0)
    base = sparse.csr_array((counts[there], (rows[there], columns[there])), shape=square, dtype=np.int32)
    change = symmetric(gained, place, square, np.int32) - symmetric(lost, place, square, np.int32)
    total = (base + change).tocsr().astype(np.int32)
    total.eliminate_zeros()
    total.sort_indices()
    return total
