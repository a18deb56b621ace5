"""Records of passages with their mentions and facts, as read from Neo4j, and the entity graph of such records."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from phasegraph._support.validation import check_count, check_range
from phasegraph.errors import InvalidInputError, InvalidTypeError, warn
from phasegraph.graph.model.building import read_passages, texts_of
from phasegraph.graph.model.entity_graph import (
    HOME_LEAD,
    HOME_TITLE,
    Csr,
    EdgeWeights,
    EntityGraph,
    Extraction,
    replace_passages,
    rows_by_id,
    symmetric,
)
from phasegraph.graph.model.rules import lead_name, title_names
from phasegraph.graph.model.words import normalise_name
from phasegraph.lexical import LexicalIndex

# Nearly all names match this pattern; for them, normalization only converts to lower case.
_PLAIN = re.compile(r"[A-Za-z0-9]+(?: [A-Za-z0-9]+)*")


class Normalised(dict[str, str]):
    """A mapping of original names to normalized names; a name is normalized at its first lookup, then cached."""

    def __missing__(self, name: str) -> str:
        normal = self[name] = name.lower() if _PLAIN.fullmatch(name) else normalise_name(name)
        return normal


def assemble(
    records: Sequence[PassageRecord],
    synonyms: Iterable[tuple[str, str, float]],
    *,
    embeddings: Any = None,
    weights: EdgeWeights | None = None,
) -> EntityGraph:
    """Build the entity graph of passage records and synonyms; see `GraphRecords.graph`."""
    ids = tuple(record.id for record in records)
    if not ids:
        raise InvalidInputError(
            "passages is empty: give at least one passage; for read_graph, check corpus= and the names of the schema"
        )
    rows_by_id(ids)
    normal = Normalised()
    ends = [[normal[end] for fact in record.facts for end in (fact[0], fact[2])] for record in records]
    named = [[name for name, _ in record.mentions] for record in records]
    homes = [[row for row in record.homes if row[1] in (HOME_LEAD, HOME_TITLE)] for record in records]
    entities = tuple(sorted({*chain.from_iterable(named), *chain.from_iterable(ends)} - {""}))
    place = {"": -1, **{name: row for row, name in enumerate(entities)}}
    stated = _rows_of(ends, place)
    counts = np.fromiter((count for record in records for _, count in record.mentions), dtype=np.int32)
    shape, square = (len(ids), len(entities)), (len(entities), len(entities))
    return EntityGraph(
        ids,
        entities,
        _mentions(_rows_of(named, place), counts, stated, shape),
        _summed(
            _rows_of([[name for name, _ in row] for row in homes], place),
            np.fromiter((kind for row in homes for _, kind in row), dtype=np.int8),
            shape,
        ),
        _facts(stated[1], np.fromiter((fact[3] for each in records for fact in each.facts), dtype=np.int32), square),
        synonym_edges(synonyms, entities),
        weights if weights is not None else EdgeWeights(),
        embeddings,
        LexicalIndex.of(texts_of(record_texts(records))),
    )


def record_texts(records: Iterable[PassageRecord]) -> Iterable[tuple[str, str, str]]:
    """Return the id, title and text of each record; a missing title or text is ""."""
    return ((record.id, record.title or "", record.text or "") for record in records)


def synonym_edges(synonyms: Iterable[tuple[str, str, float]], entities: Sequence[str]) -> Csr:
    """Return the symmetric matrix of the similarities of synonyms, of shape (E, E), from pairs of `entities`.

    Each of the `synonyms` is a tuple (name, name, similarity) with a similarity in (0, 1].
    """
    pairs = {
        (one, other): check_range(f"the similarity of {(one, other)!r:.120}", similarity, 0, 1, ends="(]")
        for one, other, similarity in synonyms
    }
    place = {name: row for row, name in enumerate(entities)} if pairs else {}
    return symmetric(pairs, place, (len(entities), len(entities)), np.float32)


def _rows_of(names: Sequence[Sequence[str]], place: dict[str, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return two arrays with an entry per name: the position of its list in `names`, and its number in `place`."""
    rows = np.repeat(np.arange(len(names)), [len(row) for row in names])
    columns = np.fromiter((place[name] for row in names for name in row), dtype=np.int64, count=len(rows))
    return rows, columns


def _summed(cells: tuple[Any, Any], counts: NDArray[Any], shape: tuple[int, int]) -> Csr:
    """Return a sparse matrix from cells (rows, columns) and their counts.

    If a cell occurs several times, its counts are added; a sum of 0 is stored.
    """
    matrix = sparse.csr_array((counts, cells), shape=shape, dtype=counts.dtype)
    matrix.sum_duplicates()
    return matrix


def _mentions(
    named: tuple[Any, Any], counts: NDArray[np.int32], stated: tuple[Any, Any], shape: tuple[int, int]
) -> Csr:
    """Return the matrix of mention counts, of shape (P, E).

    A cell is a pair of a passage row and an entity row. `named` are the cells of mentions, as two arrays, with their
    `counts`. `stated` are the cells of entities in facts; an entity that is only in facts of a passage has the count 1.
    """
    there = stated[1] >= 0
    rows = np.concatenate([named[0], stated[0][there]])
    columns = np.concatenate([named[1], stated[1][there]])
    counts = np.concatenate([counts, np.zeros(int(there.sum()), dtype=np.int32)])
    matrix = _summed((rows, columns), counts, shape)
    matrix.data = np.maximum(matrix.data, 1)
    return matrix


def _facts(ends: NDArray[np.int64], counts: NDArray[np.int32], shape: tuple[int, int]) -> Csr:
    """Return the symmetric matrix of the number of facts between two different entities, of shape (E, E).

    `ends` contains the subject and the object of each fact in turn. `counts` contains the number of occurrences of each
    fact.
    """
    one, other = ends[0::2], ends[1::2]
    kept = (one >= 0) & (other >= 0) & (one != other)
    one, other, counts = one[kept], other[kept], counts[kept]
    both = np.concatenate([one, other]), np.concatenate([other, one])
    return _summed(both, np.concatenate([counts, counts]), shape)


MOST = 2**31 - 1


@dataclass(frozen=True)
class PassageRecord:
    """A passage with the mentions and facts that were extracted from it.

    Parameters
    ----------
    id : str
        Id of the passage, not blank, unique in its corpus.
    title, text : str
        Title and text of the passage; each may be empty.
    mentions : tuple of (str, int)
        The normalized name of each mentioned entity, and its number of mentions, at least 1. Entities in `homes` and
        `facts` count as mentioned.
    facts : tuple of (str, str, str, int)
        Subject, predicate, object and number of occurrences, at least 1. Subject and object are normalized names.
    homes : tuple of (str, int)
        The name of each entity that the passage is about, and a number: 2 if the name is in the title, 1 if the text
        starts with the name.

    Raises
    ------
    InvalidInputError
        If an id, entity or predicate is blank, or a count is below 1.
    """

    id: str
    title: str = ""
    text: str = ""
    mentions: tuple[tuple[str, int], ...] = ()
    facts: tuple[tuple[str, str, str, int], ...] = ()
    homes: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        for field in ("id", "title", "text"):
            if not isinstance(getattr(self, field), str):
                raise InvalidTypeError(f"{field} must be a str; got {type(getattr(self, field)).__name__}")
        if not self.id.strip():
            raise InvalidInputError(f"id must not be blank; got {self.id!r:.40}: give the passage an id")
        homes = _counted(self.homes, 1, "homes")
        mentions = _counted(self.mentions, 1, "mentions")
        facts = _counted(self.facts, 3, "facts")
        named = {row[0] for row in mentions}
        meant = itertools.chain((row[0] for row in homes), (end for row in facts for end in (row[0], row[2])))
        missing = [(name, 1) for name in dict.fromkeys(meant) if name not in named]
        if missing:
            mentions = _counted([*mentions, *missing], 1, "mentions")
        object.__setattr__(self, "homes", homes)
        object.__setattr__(self, "mentions", mentions)
        object.__setattr__(self, "facts", facts)

    def digest(self) -> str:
        """Return a checksum of the passage's contents; passages with equal checksums are equal."""
        content = [self.title, self.text, self.mentions, self.facts, self.homes]
        return hashlib.sha256(json.dumps(content, ensure_ascii=True).encode()).hexdigest()[:32]

    def extractions(self) -> list[Extraction]:
        """Return the record in the form that `graph_from_extractions` accepts.

        The list contains one extraction with all names and facts. An extraction can contain only one name with which
        the text starts. If `homes` has several such names, each further name gets its own extraction.
        """
        names = [name for name, count in self.mentions for _ in range(count)]
        triples = [(subject, predicate, other) for subject, predicate, other, count in self.facts for _ in range(count)]
        titles = [name for name, kind in self.homes if kind == HOME_TITLE]
        leads = [name for name, kind in self.homes if kind == HOME_LEAD] or [""]
        whole = Extraction(self.id, names, triples, titles, leads[0])
        return [whole, *(Extraction(self.id, lead=lead) for lead in leads[1:])]


@dataclass(frozen=True)
class GraphRecords:
    """The passages of a corpus, as they were read from a store.

    Parameters
    ----------
    passages : tuple of PassageRecord
        The passages, sorted by id.
    revision : int or None
        The revision of the corpus at the time of reading, if the store has revisions; pass it as `since` to
        `read_changes`.
    unplaced : tuple of (str, str, str, int)
        Facts without a known passage. They are not part of the entity graph.
    synonyms : tuple of (str, str, float)
        Pairs of names for the same entity in ascending order, with their similarity in (0, 1].
    stable_ids : bool
        False if the passages have no id property in the store; their ids are then the store's internal ids.
    """

    passages: tuple[PassageRecord, ...]
    revision: int | None = None
    unplaced: tuple[tuple[str, str, str, int], ...] = ()
    synonyms: tuple[tuple[str, str, float], ...] = ()
    stable_ids: bool = True

    def graph(self, *, embeddings: Any = None, weights: EdgeWeights | None = None) -> EntityGraph:
        """Build the entity graph of the records; the graph's passages have the order of the records.

        Parameters
        ----------
        embeddings : (P, d) array_like of float, optional
            Row i is the embedding of ``passages[i]``.
        weights : EdgeWeights, optional
            The settings that convert counts to edge weights.

        Raises
        ------
        InvalidInputError
            If there are no passages.
        """
        return assemble(self.passages, self.synonyms, embeddings=embeddings, weights=weights)

    def with_changes(self, changes: GraphChanges) -> GraphRecords:
        """Return the records after `changes`, equal to a new reading; records of unchanged passages are reused."""
        held = {record.id: record for record in (*self.passages, *changes.changed)}
        for gone in changes.removed:
            held.pop(gone, None)
        return replace(
            self,
            passages=in_order(held.values()),
            revision=changes.revision,
            unplaced=self.unplaced if changes.unplaced is None else changes.unplaced,
            synonyms=self.synonyms if changes.synonyms is None else changes.synonyms,
        )

    def update(self, graph: EntityGraph, changes: GraphChanges, *, embeddings: Any = None) -> EntityGraph:
        """Update the entity graph of these records after `changes`; only changed passages are counted again.

        The result is identical, to the bit, to ``with_changes(changes).graph(...)`` with the weights of `graph`.

        Parameters
        ----------
        graph : EntityGraph
            The graph of these records; it is not modified.
        changes : GraphChanges
            The changes since these records were read.
        embeddings : (P, d) array_like of float, optional
            Row i is the embedding of ``with_changes(changes).passages[i]``.

        Raises
        ------
        InvalidInputError
            If `graph` has other passages than these records, or no passages are left.
        """
        if graph.passages != tuple(record.id for record in self.passages):
            raise InvalidInputError(
                "graph must contain the passages of these records, but its passages differ: pass the graph that "
                "records.graph() returned"
            )
        after = self.with_changes(changes)
        if not after.passages:
            raise InvalidInputError("the changes leave no passage: at least one passage must stay")
        touched = {record.id: record for record in changes.changed}
        gone = {*touched, *changes.removed}
        updated = replace_passages(
            replace(graph, synonyms=None),
            [record.id for record in after.passages],
            before={record.id: record.extractions() for record in self.passages if record.id in gone},
            after={record.id: record.extractions() for record in after.passages if record.id in touched},
            embeddings=embeddings,
            texts=dict(zip(touched, texts_of(record_texts(touched.values())), strict=True)),
        )
        return replace(updated, synonyms=synonym_edges(after.synonyms, updated.entities))


@dataclass(frozen=True)
class GraphChanges:
    """The changes of a corpus since an earlier reading.

    Parameters
    ----------
    changed : tuple of PassageRecord
        New passages and passages with changed contents.
    removed : tuple of str
        Ids of removed passages, sorted.
    revision : int or None
        The revision of the corpus; see `GraphRecords`.
    synonyms, unplaced : tuple or None
        All current synonyms, and all current facts without a passage, as in `GraphRecords`; None if unchanged.
    """

    changed: tuple[PassageRecord, ...]
    removed: tuple[str, ...]
    revision: int | None = None
    synonyms: tuple[tuple[str, str, float], ...] | None = None
    unplaced: tuple[tuple[str, str, str, int], ...] | None = None


def changes_between(before: GraphRecords, after: GraphRecords) -> GraphChanges:
    """Return the changed and the removed passages between two readings of a corpus.

    The result also has the revision, all synonyms, and all facts without a passage of the reading `after`.
    """
    known = {passage.id: passage for passage in before.passages}
    current = {passage.id for passage in after.passages}
    changed = tuple(passage for passage in after.passages if known.get(passage.id) != passage)
    removed = tuple(sorted(passage_id for passage_id in known if passage_id not in current))
    return GraphChanges(changed, removed, after.revision, after.synonyms, after.unplaced)


def in_order(records: Iterable[PassageRecord]) -> tuple[PassageRecord, ...]:
    """Return the records sorted by id; raise InvalidInputError if two records have the same id."""
    ordered = sorted(records, key=lambda record: record.id)
    for first, second in itertools.pairwise(ordered):
        if first.id == second.id:
            raise InvalidInputError(
                f"two passages have the id {first.id[:40]!r}: set id_keys of the schema to a property whose values are "
                "unique"
            )
    return tuple(ordered)


def _counted(rows: Iterable[tuple[object, ...]], words: int, field: str) -> tuple[tuple[Any, ...], ...]:
    """Sort rows that consist of names and a count, and sum the counts of rows with equal names.

    `words` is the number of names in a row, and `field` describes the rows in messages. Raises InvalidInputError for a
    blank name, or for a count below 1.
    """
    given = [tuple(row) for row in rows]
    columns = list(zip(*given, strict=False))
    if len({len(row) for row in given}) == 1 and len(columns) == words + 1 and _plain(columns):
        return tuple(sorted(given))
    total: dict[tuple[str, ...], int] = {}
    for row in given:
        *names, count = row
        if len(names) != words or not all(isinstance(name, str) and name.strip() for name in names):
            raise InvalidInputError(f"{field} must have {words} nonblank text(s) and a count; got {row!r:.80}")
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
            raise InvalidInputError(f"the count of {field} must be an integer in [1, {MOST}]; got {count!r:.40}")
        key = tuple(str(name) for name in names)
        total[key] = total.get(key, 0) + count
    return tuple((*key, total[key]) for key in sorted(total))


def _plain(columns: list[tuple[Any, ...]]) -> bool:
    """Return True if all rows are distinct, and their names and counts are valid.

    `columns` are the columns of the rows: first the names, and last the counts. This check is quicker than a loop over
    the rows.
    """
    *words, counts = columns
    return (
        {type(count) for count in counts} == {int}
        and 1 <= min(counts) <= max(counts) <= MOST
        and all({type(word) for word in column} == {str} and all(map(str.strip, column)) for column in words)
        and len(set(zip(*words, strict=True))) == len(counts)
    )


def records_from_extractions(passages: Iterable[Any], extractions: Iterable[Extraction]) -> tuple[PassageRecord, ...]:
    """Create a record for each passage from its text and its extractions.

    Parameters
    ----------
    passages : iterable of mapping or object
        The passages, each with ``id``, ``text`` and optionally ``title``, as for `build_graph`.
    extractions : iterable of Extraction
        The extractions; a passage may have any number of extractions.

    Returns
    -------
    tuple of PassageRecord
        The records, sorted by id. Their graph equals the graph of the extractions.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an extraction has an unknown passage id or another type, or a passage is invalid.

    Examples
    --------
    >>> made = records_from_extractions([{"id": "1", "text": "Ada"}], [Extraction("1", ["ada", "ada"])])
    >>> made[0].mentions
    (('ada', 2),)
    """
    rows = {row[0]: row for row in read_passages(passages)}
    found: dict[str, list[Extraction]] = {passage: [] for passage in rows}
    for each in extractions:
        if not isinstance(each, Extraction):
            raise InvalidTypeError(
                f"extractions must contain only Extraction objects; got {type(each).__name__}: of a GraphIndex, give "
                "the values of found, and each item of the values of given"
            )
        if each.passage_id not in found:
            raise InvalidInputError(
                f"an extraction names the passage {each.passage_id!r:.80}, which is not among the passages: add the "
                "passage, or remove the extraction"
            )
        found[each.passage_id].append(each)
    return tuple(_merged(*rows[passage], found[passage]) for passage in sorted(rows))


def _merged(passage: str, title: str, text: str, extractions: Iterable[Extraction]) -> PassageRecord:
    mentions: Counter[str] = Counter()
    facts: Counter[tuple[str, str, str]] = Counter()
    homes: dict[str, int] = {}
    for each in extractions:
        mentions.update(each.entities)
        for subject, predicate, other in each.triples:
            ends = normalise_name(subject), normalise_name(other)
            for name in ends:
                mentions.setdefault(name, 0)
            if all(ends):
                facts[ends[0], predicate.strip() or "-", ends[1]] += 1
        homes.setdefault(each.lead, HOME_LEAD)
        homes.update(dict.fromkeys(each.titles, HOME_TITLE))
    return PassageRecord(
        passage,
        title,
        text,
        tuple((name, max(count, 1)) for name, count in mentions.items() if name),
        tuple((*fact, count) for fact, count in facts.items()),
        tuple((name, kind) for name, kind in homes.items() if name),
    )


def named_record(
    passage: str,
    title: str,
    text: str,
    mentions: Iterable[tuple[str, int]],
    facts: Iterable[tuple[str, str, str, int]],
    normal: Mapping[str, str],
) -> PassageRecord:
    """Create a record from mentions and facts with original names, as another library stores them.

    `normal` maps each original name to its normalized name. The entities that the passage is about are taken from its
    title and its first words.
    """
    named = ((normal[name], count) for name, count in mentions)
    ended = ((normal[one], word, normal[other], count) for one, word, other, count in facts)
    homes = dict.fromkeys(title_names(title), HOME_TITLE)
    homes.setdefault(lead_name(title, text), HOME_LEAD)
    return PassageRecord(
        passage,
        title,
        text,
        tuple(mention for mention in named if mention[0]),
        tuple(fact for fact in ended if fact[0] and fact[2]),
        tuple((name, kind) for name, kind in homes.items() if name),
    )


MAX_KEY_BYTES = 2000


def check_corpus(corpus: str) -> None:
    """Raise InvalidInputError if a corpus name is blank, not valid Unicode, or too long for an index of the server."""
    if not isinstance(corpus, str) or not corpus.strip():
        raise InvalidInputError(f"corpus must be text that is not blank; got {corpus!r:.40}")
    if any("\ud800" <= letter <= "\udfff" for letter in corpus):
        raise InvalidInputError(
            f"corpus must not contain lone surrogates, which UTF-8 cannot encode; got {corpus!r:.60}"
        )
    check_key_length(corpus, "corpus")


def checked_records(passages: Iterable[PassageRecord], corpus: str, batch: int) -> list[PassageRecord]:
    """Return the records as a list; raise an error if the corpus, the batch size or a record is invalid."""
    check_corpus(corpus)
    check_count("batch", batch, minimum=1)
    if not isinstance(passages, Iterable):
        ours = isinstance(passages, GraphRecords)
        advice = "give its passages" if ours else "make the records with records_from_extractions"
        raise InvalidTypeError(
            f"passages must be a list of PassageRecord objects; got {type(passages).__name__}: {advice}"
        )
    records = list(passages)
    seen: set[str] = set()
    normal, other = Normalised(), dict[str, str]()
    for record in records:
        if not isinstance(record, PassageRecord):
            raise InvalidTypeError(
                f"passages must contain only PassageRecord objects; got {type(record).__name__}: make the records with "
                "records_from_extractions"
            )
        if record.id in seen:
            raise InvalidInputError(f"two passages have the id {record.id[:40]!r}: give each passage its own id")
        seen.add(record.id)
        check_key_length(record.id, "the id of a passage")
        ends = (name for subject, _, other, _ in record.facts for name in (subject, other))
        for name in itertools.chain((name for name, _ in record.mentions + record.homes), ends):
            check_key_length(name, "the name of an entity")
        other.update((name, normal[name]) for name, _ in record.mentions if normal[name] != name)
    if other:
        name, wanted = next(iter(other.items()))
        warn(
            f"{len(other)} names of entities are not normalized, so a question that names them does not find them: "
            f"apply phasegraph.graph.normalise_name, which makes {wanted[:40]!r} of {name[:40]!r}"
        )
    return records


def check_key_length(text: str, field: str) -> None:
    """Raise InvalidInputError if a text is too long for a range index of the server, which allows 2,000 bytes."""
    if len(text) > MAX_KEY_BYTES // 4 and len(text.encode(errors="replace")) > MAX_KEY_BYTES:
        raise InvalidInputError(f"{field} must have at most {MAX_KEY_BYTES} bytes in UTF-8; got {text[:40]!r}...")
