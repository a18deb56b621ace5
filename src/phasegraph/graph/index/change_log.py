"""The change log, in memory: passages added to an index or deleted from it since its arrays were written.

The cost of a change depends only on the passages that the change affects. The arrays, most of them in files, stay
unchanged. New passages and entities get rows after the existing rows; deleted passages keep rows without incoming
edges. Edges are computed again only for nodes that a change affects. Edge weights that depend on the number of passages
are computed during a walk.

A search therefore finds the same passages as in a newly built graph, with two exceptions. Sums may be rounded
differently. An entity that no change affects keeps or lacks its edges as before, even if the new number of passages
changes whether the entity is too common to have edges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasegraph._support.packed import ChangedRows, NameRows
from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import Float32Array, IntArray
from phasegraph.graph.index.records import PassageRecord, PassageRecords
from phasegraph.graph.model.building import texts_of
from phasegraph.graph.model.entity_graph import HOME_TITLE, EntityGraph, count_records
from phasegraph.graph.model.rules import title_names
from phasegraph.graph.model.words import Gazetteer, word_texts
from phasegraph.lexical import LexicalIndex
from phasegraph.pagerank import WalkOperator
from phasegraph.pagerank.push import out_edges, ranges

Facts = Counter[tuple[str, str]]
Counted = tuple[Mapping[str, int], Mapping[str, int], Facts]


@dataclass(frozen=True, eq=False)
class ChangeLog:
    """The passages that were added to an index or deleted since its arrays were written; a change creates a new log.

    `base` is the graph of the unchanged arrays. `records` are the records of its passages, and `words` is an index of
    their words. `gone` maps the ids of deleted passages of the base graph to their rows, and `left` is a BM25 index of
    these passages. `again` contains passages of the base graph with new extractions. `came` contains the new passages
    in order, and `vectors` their embeddings. Two indexes contain the words of new passages. The tokenizer of the base
    graph splits the texts for `lexical`. The function :func:`word_texts` splits them for `name_words`, as for `words`.
    `counted` contains the counts of mentions, homes and facts in the passages of `came` and `again`, by passage id.
    `lost` contains the counts of facts that the passages of `gone` and `again` stated in the base graph, by passage id.
    """

    base: EntityGraph
    records: PassageRecords
    words: LexicalIndex
    gone: Mapping[str, int]
    came: Mapping[str, PassageRecord]
    again: Mapping[str, PassageRecord]
    vectors: Float32Array | None
    lexical: LexicalIndex
    name_words: LexicalIndex
    left: LexicalIndex
    counted: Mapping[str, Counted] = field(default_factory=dict)
    lost: Mapping[str, Facts] = field(default_factory=dict)
    _known: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, base: EntityGraph, records: PassageRecords, words: LexicalIndex) -> ChangeLog:
        """Create an empty log for the graph `base`, which must have a BM25 index and no synonyms."""
        tokenizer: Any = None if base.lexical is None else base.lexical.tokenizer
        none = LexicalIndex.of((), tokenizer)
        vectors = None if base.embeddings is None else base.embeddings[:0]
        return cls(base, records, words, {}, {}, {}, vectors, none, LexicalIndex.of((), word_texts), none)

    def changed(
        self,
        gone: Collection[str],
        came: Mapping[str, PassageRecord],
        again: Mapping[str, PassageRecord],
        vectors: Float32Array | None,
    ) -> ChangeLog:
        """Return the log after a further change.

        `gone` are the ids of deleted passages. `came` are the records of new passages, and `vectors` their embeddings.
        `again` are the records of existing passages with new extractions.
        """
        stay = [row for row, name in enumerate(self.came) if name not in gone]
        now = {name: again.get(name, one) for name, one in self.came.items() if name not in gone} | dict(came)
        leave = {name: self.base.passage_rows[name] for name in gone if name not in self.came}
        read = {name: one for name, one in {**self.again, **again}.items() if name not in gone and name not in now}
        kept = np.array([*stay, *[-1] * len(came)], dtype=np.int64)
        fresh = list(came.values())
        rows = [(one.id, one.title, one.text) for one in fresh]
        old = [self.records[name] for name in leave]
        before = [*range(len(self.left.lengths)), *[-1] * len(old)]
        counted = {
            name: self.counted[name] if one is self.came.get(name, self.again.get(name)) else _counted(one)
            for name, one in {**now, **read}.items()
        }
        if vectors is not None and self.vectors is not None:
            vectors = np.concatenate([self.vectors[stay], vectors])
        elif self.vectors is not None:
            vectors = self.vectors[stay]
        return ChangeLog(
            self.base, self.records, self.words, {**self.gone, **leave}, now, read, vectors,
            self.lexical.replaced(kept, dict(enumerate(texts_of(rows), len(stay)))),
            self.name_words.replaced(kept, {row: one.text for row, one in enumerate(fresh, len(stay))}),
            self.left.replaced(
                np.array(before, dtype=np.int64),
                {row: one.content for row, one in enumerate(old, len(self.left.lengths))},
            ),
            counted,
            {
                name: self.lost[name] if name in self.lost else _counted(self.records[name])[2]
                for name in (*self.gone, *leave, *read)
            },
            self._known,
        )  # fmt: skip

    @lazy_property
    def rows(self) -> Mapping[str, int]:
        """The row of each existing passage by id, in the order of the passages."""
        first = len(self.base.passages)
        return ChangedRows(self.base.passage_rows, self.gone, {name: first + at for at, name in enumerate(self.came)})

    @lazy_property
    def _titled(self) -> Mapping[str, Collection[str]]:
        """For each name in a title, the ids of the passages in `came` and `again` with this name in their title."""
        found: dict[str, set[str]] = {}
        for name, one in {**self.came, **self.again}.items():
            for form in title_names(one.title):
                found.setdefault(form, set()).add(name)
        return found

    def give(self, name: str, *, without: Collection[str] = ()) -> bool:
        """Return True if an existing passage has `name` in its title; ignore passages with ids in `without`."""
        if any(one not in without for one in self._titled.get(name, ())):
            return True
        column = self.base_row(name)
        if column < 0 or not self.base.anchored[column]:
            return False
        rows, _ = self.homes_of(np.array([column]), HOME_TITLE)
        ids = (self.base.passages[row] for row in rows.tolist())
        return any(
            one not in without
            and one not in self.gone
            and one not in self.again
            and (one not in self.records.retitled or name in title_names(self.records[one].title))
            for one in ids
        )

    def standing_in(self, texts: Iterable[str]) -> set[str]:
        """Return the names that are in the title of an existing passage, and also in at least one of the `texts`."""
        known = [
            Gazetteer.of_rows(NameRows(self.base.entities)),
            Gazetteer(self._titled, matcher="python", normalised=True),
        ]
        split = [word_texts(text) for text in texts]
        return {name for name in {one for each in known for words in split for one in each.standing_in(words)}
                if self.give(name)}  # fmt: skip

    def with_words(self, words: Collection[str]) -> list[str]:
        """Return the ids of the existing passages that contain all of the `words`."""
        ids = [self.base.passages[row] for row in self.words.passages_with(words).tolist()]
        came = list(self.came)
        return [name for name in ids if name not in self.gone] + [
            came[row] for row in self.name_words.passages_with(words).tolist()
        ]

    def base_row(self, name: str) -> int:
        """Return the row of an entity in the base graph; -1 if the base graph does not contain the entity."""
        row = self._known.get(name)
        if row is None:
            row = self._known[name] = self.base.entity_rows.get(name, -1)
        return row

    def homes_of(self, columns: IntArray, least: int = 1) -> tuple[IntArray, IntArray]:
        """Return the home passages (passages about an entity) of the entities in `columns`, in the base graph.

        The result is two arrays with an entry per home passage: its row, and the position of its entity in `columns`.
        `least` is the minimum value in the matrix of homes. The passages are found by edges, because an entity with a
        home passage has an edge to every passage that mentions the entity.
        """
        rows, place, _ = edges_from(self.base.operator, columns + len(self.base.passages))
        there = rows < len(self.base.passages)
        rows, place = rows[there], place[there]
        homes = self.base.homes
        counts = (homes.indptr[rows + 1] - homes.indptr[rows]).astype(np.int64)
        at = ranges(homes.indptr[rows].astype(np.int64), counts)
        owner = np.repeat(np.arange(len(rows)), counts)
        same = owner[(homes.indices[at] == columns[place[owner]]) & (homes.data[at] >= least)]
        return rows[same], place[same]


def _counted(record: PassageRecord) -> Counted:
    mentioned, homes, facts = count_records((record.id,), {record.id: record.extractions})
    return mentioned[0], homes[0], facts


def edges_from(walk: WalkOperator, nodes: IntArray) -> tuple[IntArray, IntArray, Float32Array]:
    """Return target node, position of the source node in `nodes`, and weight of each edge that leaves `nodes`."""
    places, edges = out_edges(walk, nodes)
    weights: Any = walk.weights.take(edges)
    return walk.indices.take(edges).astype(np.int64), places, weights
