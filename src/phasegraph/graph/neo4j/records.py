"""What a stored graph says, passage by passage: integer counts and provenance, no weights.

Weights depend on the whole graph (an entity's rarity does), so a store keeps counts and
`phasegraph.graph.entity_graph` derives the rest.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.entity_graph import EdgeWeights, EntityGraph, Extraction
from phasegraph.graph.entity_graph.update import replace_passages
from phasegraph.graph.entity_graph.weights import HOME_LEAD, HOME_TITLE
from phasegraph.graph.neo4j.assembly import assemble, synonym_edges

MOST = 2**31 - 1


@dataclass(frozen=True)
class PassageRecord:
    """One passage with what was found in it.

    Parameters
    ----------
    id : str
        Not blank; unique in its corpus.
    title, text : str
        Either may be empty.
    mentions : tuple of (str, int)
        Normalised name of an entity and number of mentions, at least 1; what the passage is about and the ends of
        its facts count as mentioned.
    facts : tuple of (str, str, str, int)
        Subject, predicate, object and number of times stated, at least 1; the ends are normalised names.
    homes : tuple of (str, int)
        Names the passage is about: 2 a name of its title, 1 the name it starts with.

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
                raise InvalidTypeError(f"{field} must be a str; {type(getattr(self, field)).__name__} was given")
        if not self.id.strip():
            raise InvalidInputError("id must not be blank; a blank one was given")
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
        """Return a checksum of the contents: equal digests, equal passages."""
        content = [self.title, self.text, self.mentions, self.facts, self.homes]
        return hashlib.sha256(json.dumps(content, ensure_ascii=True).encode()).hexdigest()[:32]

    def extractions(self) -> list[Extraction]:
        """Return what `graph_from_extractions` takes: usually one record, one more per further lead."""
        names = [name for name, count in self.mentions for _ in range(count)]
        triples = [(subject, predicate, other) for subject, predicate, other, count in self.facts for _ in range(count)]
        titles = [name for name, kind in self.homes if kind == HOME_TITLE]
        leads = [name for name, kind in self.homes if kind == HOME_LEAD] or [""]
        whole = Extraction(self.id, names, triples, titles, leads[0])
        return [whole, *(Extraction(self.id, lead=lead) for lead in leads[1:])]


@dataclass(frozen=True)
class GraphRecords:
    """The passages of one corpus as a store holds them.

    Parameters
    ----------
    passages : tuple of PassageRecord
        Sorted by id.
    revision : int or None
        The store's own revision, where it keeps one: what to give as `since` next time.
    unplaced : tuple of (str, str, str, int)
        Facts that no passage can be named for; they belong to no passage and walk with none.
    synonyms : tuple of (str, str, float)
        Pairs of names for the same thing, the lesser first, with their similarity in (0, 1].
    stable_ids : bool
        False where the store has no id property and its internal ids had to serve.
    """

    passages: tuple[PassageRecord, ...]
    revision: int | None = None
    unplaced: tuple[tuple[str, str, str, int], ...] = ()
    synonyms: tuple[tuple[str, str, float], ...] = ()
    stable_ids: bool = True

    def graph(self, *, embeddings: Any = None, weights: EdgeWeights | None = None) -> EntityGraph:
        """Build the entity graph.

        Parameters
        ----------
        embeddings : (P, d) array_like of float, optional
            Row i = ``passages[i]``.
        weights : EdgeWeights, optional
            How counts become weights.

        Returns
        -------
        EntityGraph
            Passages in the order of the records.

        Raises
        ------
        InvalidInputError
            If there is no passage.
        """
        return assemble(self.passages, self.synonyms, embeddings=embeddings, weights=weights)

    def with_changes(self, changes: GraphChanges) -> GraphRecords:
        """Return what a full reading would give after these changes.

        Parameters
        ----------
        changes : GraphChanges
            Since this reading.

        Returns
        -------
        GraphRecords
            Passages that did not change are the same objects. These records are left as they are.
        """
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
        """Return the graph after these changes, counting again only what they touch.

        Parameters
        ----------
        graph : EntityGraph
            The graph of these records; left as it is.
        changes : GraphChanges
            Since this reading.
        embeddings : (P, d) array_like of float, optional
            Row i = ``with_changes(changes).passages[i]``.

        Returns
        -------
        EntityGraph
            To the bit ``with_changes(changes).graph(...)``, with the weights of `graph`.

        Raises
        ------
        InvalidInputError
            If the graph is not one of these passages, or no passage is left.
        """
        if graph.passages != tuple(record.id for record in self.passages):
            raise InvalidInputError("graph must be the graph of these records; its passages are others")
        after = self.with_changes(changes)
        touched = {record.id: record for record in changes.changed}
        gone = {*touched, *changes.removed}
        updated = replace_passages(
            replace(graph, synonyms=None),
            [record.id for record in after.passages],
            before={record.id: record.extractions() for record in self.passages if record.id in gone},
            after={record.id: record.extractions() for record in after.passages if record.id in touched},
            embeddings=embeddings,
        )
        return replace(updated, synonyms=synonym_edges(after.synonyms, updated.entities))


@dataclass(frozen=True)
class GraphChanges:
    """What differs from an earlier reading.

    Parameters
    ----------
    changed : tuple of PassageRecord
        New passages, and those whose contents differ.
    removed : tuple of str
        Ids that are gone, sorted.
    revision : int or None
        As in `GraphRecords`.
    synonyms, unplaced : tuple or None
        As in `GraphRecords`, all of them; None where they are as before.
    """

    changed: tuple[PassageRecord, ...]
    removed: tuple[str, ...]
    revision: int | None = None
    synonyms: tuple[tuple[str, str, float], ...] | None = None
    unplaced: tuple[tuple[str, str, str, int], ...] | None = None


def changes_between(before: GraphRecords, after: GraphRecords) -> GraphChanges:
    """Return what to add and what to remove to come from one reading to the next.

    Parameters
    ----------
    before, after : GraphRecords
        Two readings of one corpus.

    Returns
    -------
    GraphChanges
        Empty tuples where nothing changed.
    """
    known = {passage.id: passage for passage in before.passages}
    current = {passage.id for passage in after.passages}
    changed = tuple(passage for passage in after.passages if known.get(passage.id) != passage)
    removed = tuple(sorted(passage_id for passage_id in known if passage_id not in current))
    return GraphChanges(changed, removed, after.revision, after.synonyms, after.unplaced)


def in_order(records: Iterable[PassageRecord]) -> tuple[PassageRecord, ...]:
    """Return the records sorted by id, which tells them apart."""
    ordered = sorted(records, key=lambda record: record.id)
    for first, second in itertools.pairwise(ordered):
        if first.id == second.id:
            raise InvalidInputError(f"id_keys must tell passages apart; two are called {first.id[:40]!r}")
    return tuple(ordered)


def _counted(rows: Iterable[tuple[object, ...]], words: int, field: str) -> tuple[tuple[Any, ...], ...]:
    """Sum equal rows, sort them, and refuse blanks and counts below 1."""
    given = [tuple(row) for row in rows]
    columns = list(zip(*given, strict=False))
    if len({len(row) for row in given}) == 1 and len(columns) == words + 1 and _plain(columns):
        return tuple(sorted(given))
    total: dict[tuple[str, ...], int] = {}
    for row in given:
        *names, count = row
        if len(names) != words or not all(isinstance(name, str) and name.strip() for name in names):
            raise InvalidInputError(
                f"{field} must hold {words} words that are not blank and a count; {row!r:.80} was given"
            )
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
            raise InvalidInputError(
                f"the count of {field} must be an integer of at least 1 and at most {MOST}; {count!r:.40} was given"
            )
        key = tuple(str(name) for name in names)
        total[key] = total.get(key, 0) + count
    return tuple((*key, total[key]) for key in sorted(total))


def _plain(columns: list[tuple[Any, ...]]) -> bool:
    """Whether all is as it should be and no row stands twice, which is the rule and takes no loop to see."""
    *words, counts = columns
    return (
        {type(count) for count in counts} == {int}
        and 1 <= min(counts) <= max(counts) <= MOST
        and all({type(word) for word in column} == {str} and all(map(str.strip, column)) for column in words)
        and len(set(zip(*words, strict=True))) == len(counts)
    )
