"""What a stored graph says, passage by passage: integer counts and provenance, no weights.

Weights depend on the whole graph (an entity's rarity does), so a store keeps counts and
`phasegraph.graph.entity_graph` derives the rest.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.entity_graph import (
    EdgeWeights,
    EntityGraph,
    Extraction,
    graph_from_extractions,
    normalise_name,
)
from phasegraph.graph.entity_graph.weights import HOME_LEAD, HOME_TITLE
from phasegraph.graph.extraction import lead_name, read_passages, title_names


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
        Normalised name of an entity and number of mentions, at least 1; what the passage is about counts as
        mentioned.
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
        named = {row[0] for row in mentions}
        missing = [(row[0], 1) for row in homes if row[0] not in named]
        if missing:
            mentions = _counted([*mentions, *missing], 1, "mentions")
        object.__setattr__(self, "homes", homes)
        object.__setattr__(self, "mentions", mentions)
        object.__setattr__(self, "facts", _counted(self.facts, 3, "facts"))

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
        extractions = [each for record in self.passages for each in record.extractions()]
        pairs = {(one, other): similarity for one, other, similarity in self.synonyms}
        ids = [record.id for record in self.passages]
        return graph_from_extractions(ids, extractions, embeddings=embeddings, synonyms=pairs, weights=weights)


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
    """

    changed: tuple[PassageRecord, ...]
    removed: tuple[str, ...]
    revision: int | None = None


def records_from_extractions(passages: Iterable[Any], extractions: Iterable[Extraction]) -> tuple[PassageRecord, ...]:
    """Return one record per passage, with everything that was extracted from it.

    Parameters
    ----------
    passages : iterable of mapping or object
        Each with ``id``, ``text`` and optionally ``title``, as for `build_graph`.
    extractions : iterable of Extraction
        Any number per passage.

    Returns
    -------
    tuple of PassageRecord
        Sorted by id; the graph made of them equals the one made of the extractions.

    Raises
    ------
    InvalidInputError
        If an extraction belongs to no passage, or a passage is not one.

    Examples
    --------
    >>> made = records_from_extractions([{"id": "1", "text": "Ada"}], [Extraction("1", ["ada", "ada"])])
    >>> made[0].mentions
    (('ada', 2),)
    """
    rows = {row[0]: row for row in read_passages(passages)}
    found: dict[str, list[Extraction]] = {passage: [] for passage in rows}
    for each in extractions:
        if each.passage_id not in found:
            raise InvalidInputError(f"an extraction must belong to a passage; {each.passage_id!r:.80} does not")
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
) -> PassageRecord:
    """Return a record from names as another library wrote them; title and opening words say what it is about."""
    named = ((normalise_name(name), count) for name, count in mentions)
    ended = ((normalise_name(one), word, normalise_name(other), count) for one, word, other, count in facts)
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
    return GraphChanges(changed, removed, after.revision)


def _counted(rows: Iterable[tuple[object, ...]], words: int, field: str) -> tuple[tuple[object, ...], ...]:
    """Sum equal rows, sort them, and refuse blanks and counts below 1."""
    total: dict[tuple[str, ...], int] = {}
    for row in rows:
        *names, count = row
        if len(names) != words or not all(isinstance(name, str) and name.strip() for name in names):
            raise InvalidInputError(
                f"{field} must hold {words} words that are not blank and a count; {row!r:.80} was given"
            )
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InvalidInputError(f"the count of {field} must be an integer of at least 1; {count!r:.40} was given")
        key = tuple(str(name) for name in names)
        total[key] = total.get(key, 0) + count
    return tuple((*key, total[key]) for key in sorted(total))
