"""What a stored graph says, passage by passage: integer counts and provenance, no weights.

Weights depend on the whole graph (an entity's rarity does), so a store keeps counts and
`phasegraph.graph.entity_graph` derives the rest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from phasegraph.errors import InvalidInputError, InvalidTypeError


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
        Entity and number of mentions, at least 1 each; sorted by entity, each once.
    facts : tuple of (str, str, str, int)
        Subject, predicate, object and number of times stated, at least 1; sorted, each once.

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

    def __post_init__(self) -> None:
        for field in ("id", "title", "text"):
            if not isinstance(getattr(self, field), str):
                raise InvalidTypeError(f"{field} must be a str; {type(getattr(self, field)).__name__} was given")
        if not self.id.strip():
            raise InvalidInputError("id must not be blank; a blank one was given")
        object.__setattr__(self, "mentions", _counted(self.mentions, 1, "mentions"))
        object.__setattr__(self, "facts", _counted(self.facts, 3, "facts"))

    def digest(self) -> str:
        """Return a checksum of the contents: equal digests, equal passages."""
        content = [self.title, self.text, self.mentions, self.facts]
        return hashlib.sha256(json.dumps(content, ensure_ascii=True).encode()).hexdigest()[:32]


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
    stable_ids : bool
        False where the store has no id property and its internal ids had to serve.
    """

    passages: tuple[PassageRecord, ...]
    revision: int | None = None
    unplaced: tuple[tuple[str, str, str, int], ...] = ()
    stable_ids: bool = True


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
