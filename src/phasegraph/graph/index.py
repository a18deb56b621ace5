"""A corpus with its graph: passages come and go, and only what they touch is read again."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, compress
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from phasegraph._packed import NameRows
from phasegraph._shared import lazy_property
from phasegraph._typing import IntArray
from phasegraph._validation import check_names, check_rows
from phasegraph.errors import IntegrityError, InvalidInputError, InvalidTypeError
from phasegraph.graph.building import Triples, by_passage, passage_field, read_passages, texts_of
from phasegraph.graph.entity_graph import (
    HOME_TITLE,
    EdgeWeights,
    EntityGraph,
    Extraction,
    checked_embeddings,
    graph_from_extractions,
    replace_passages,
)
from phasegraph.graph.records import PassageRecord, PassageRecords
from phasegraph.graph.rules import RuleExtractor, title_names
from phasegraph.graph.storage import (
    KIND,
    VERSION,
    graph_from_parts,
    graph_parts,
    packed_words,
    taken_as_is,
    unpacked_words,
)
from phasegraph.graph.synonyms import NameSynonyms, NameVectors, synonym_parts, synonyms_from_parts
from phasegraph.graph.words import Gazetteer, normalise_name, word_texts
from phasegraph.lexical import LexicalIndex, Tokenizer
from phasegraph.ranking import by_fields
from phasegraph.serialization import MISFITS, Verify, check_mapped, mapped_in, open_bundle, write_bundle

Row = tuple[str, str, str]


@dataclass(frozen=True, eq=False)
class GraphIndex:
    """Passages, what was found in each, and the entity graph of it all; made by :meth:`build`.

    Parameters
    ----------
    records : PassageRecords
        Title, text, metadata and extractions by passage id.
    gazetteer : frozenset of str
        The user's own names, normalised.
    graph : EntityGraph
    words : LexicalIndex, optional
        Which passages have which words, as names are made of them; counted when the first change needs it.
    synonyms : NameSynonyms, optional
        Embedded names of the entities, from which the graph's synonym edges follow.

    Notes
    -----
    What the rules find in a passage depends on its text and on the known names in it: the titles of the corpus and the
    user's names. A new title is therefore looked up in all passages, and only those in which it stands are read again.

    Examples
    --------
    >>> index = GraphIndex.build([{"id": "a", "title": "Ada", "text": "Ada met Bo."}])
    >>> index = index.add([{"id": "b", "title": "Bo", "text": "Bo sang to Cy."}])
    >>> index.graph.passages, index.graph.entities
    (('a', 'b'), ('ada', 'bo', 'cy'))
    >>> index.remove(["a"]).graph.entities
    ('bo', 'cy')
    """

    records: PassageRecords = field(repr=False)
    gazetteer: frozenset[str] = field(repr=False)
    graph: EntityGraph = field(repr=False)
    words: LexicalIndex | None = field(default=None, repr=False)
    synonyms: NameSynonyms | None = field(default=None, repr=False)

    __reduce__ = by_fields

    @classmethod
    def build(
        cls,
        passages: Iterable[Any],
        *,
        triples: Triples | None = None,
        embeddings: Any = None,
        gazetteer: Iterable[str] = (),
        synonyms: NameSynonyms | None = None,
        weights: EdgeWeights | None = None,
        tokenizer: Tokenizer = "english",
        progress: Callable[[Sequence[Row]], Iterable[Row]] = iter,
    ) -> GraphIndex:
        """Read a corpus and build its graph; parameters and errors as in :func:`phasegraph.graph.build_graph`.

        Passages are gone through as `progress`, ``tqdm`` for instance, gives them back. `synonyms` is kept, with the
        names' embeddings, so that updates embed and compare new names only.
        """
        listed = list(check_rows("passages", passages))
        rows = read_passages(listed)
        names = frozenset(name for name in map(normalise_name, check_names("gazetteer", gazetteer)) if name)
        extract = RuleExtractor(names, titles=[title for _, title, _ in rows if title])
        known = {name: None for name, _, _ in rows}
        given = by_passage(triples, known)
        held = _recorded(progress(rows), listed, extract, given)
        graph = graph_from_extractions(
            list(held), chain.from_iterable(map(_extractions, held.values())),
            embeddings=embeddings, weights=weights, texts=texts_of(rows), tokenizer=tokenizer,
        )  # fmt: skip
        if synonyms is not None:
            synonyms = synonyms.knowing(graph.entities)
            graph = replace(graph, synonyms=synonyms.edges(graph.entities))
        return cls(PassageRecords(graph.passage_rows, held), names, graph, None, synonyms)

    @lazy_property
    def name_words(self) -> LexicalIndex:
        """The words of the passages, as names are made of them."""
        if self.words is not None:
            return self.words
        return LexicalIndex.of((one.text for one in self.records.values()), word_texts)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Id, title and text of each passage."""
        return tuple((one.id, one.title, one.text) for one in self.records.values())

    @property
    def found(self) -> dict[str, Extraction]:
        """What the rules found, by passage id."""
        return {name: one.found for name, one in self.records.items()}

    @property
    def given(self) -> dict[str, tuple[Extraction, ...]]:
        """What was handed over (triples of a language model, say), by the ids of the passages that were given some."""
        return {name: one.given for name, one in self.records.items() if one.given}

    def add(
        self,
        passages: Iterable[Any],
        *,
        triples: Triples | None = None,
        embeddings: Any = None,
        name_embeddings: NameVectors | None = None,
    ) -> GraphIndex:
        """A new index with passages added at the end, its graph equal to the bit to that of all passages built at once.

        The ids must be new, `triples` and `embeddings` are of the new passages; the latter are needed exactly where the
        index has embeddings. `name_embeddings` of new names are as for :meth:`NameSynonyms.of`, where the index has
        synonyms: one that was built with a callable goes on with that; after loading, it has to be given again once.
        """
        return self.replace([], passages, triples=triples, embeddings=embeddings, name_embeddings=name_embeddings)

    def remove(self, ids: Iterable[str], *, name_embeddings: NameVectors | None = None) -> GraphIndex:
        """A new index without these passages, its graph equal to the bit to that of the others built at once.

        At least one passage stays. `name_embeddings` as for :meth:`add`: without a title, other names may be found
        where it stood.
        """
        return self.replace(ids, None, name_embeddings=name_embeddings)

    def replace(
        self,
        ids: Iterable[str],
        passages: Iterable[Any] | None,
        *,
        triples: Triples | None = None,
        embeddings: Any = None,
        name_embeddings: NameVectors | None = None,
    ) -> GraphIndex:
        """A new index without the passages of these ids, and with others (None: no others), in one step.

        Parameters as for :meth:`add` and :meth:`remove`; a passage may leave and come again, changed.

        >>> index = GraphIndex.build([{"id": "a", "title": "Ada", "text": "Ada met Bo."}])
        >>> index.replace(["a"], [{"id": "a", "title": "Ada", "text": "Ada met Cy."}]).graph.entities
        ('ada', 'cy')
        """
        self._check_files()
        gone = dict.fromkeys(check_names("ids", ids))
        unknown = next((name for name in gone if name not in self.records), None)
        if unknown is not None:
            raise InvalidInputError(f"passage {unknown!r} is not in the index")
        listed = [] if passages is None else list(check_rows("passages", passages))
        new = [] if passages is None else read_passages(listed)
        came = {name: None for name, _, _ in new}
        clash = next((name for name in came if name in self.records and name not in gone), None)
        if clash is not None:
            raise InvalidInputError(f"passage {clash!r} is already in the index")
        given = by_passage(triples, came)
        if self.synonyms is None and name_embeddings is not None:
            raise InvalidInputError("name_embeddings= is for an index with synonyms; this one has none")
        stays = np.ones(len(self.graph.passages), dtype=np.bool_)
        stays[[self.graph.passage_rows[name] for name in gone]] = False
        kept = np.flatnonzero(stays)
        if not len(kept) and not new:
            raise InvalidInputError("an index keeps at least one passage: not all of them can be removed")
        vectors = self._vectors(kept, embeddings, len(new))
        ids_now = [*compress(self.graph.passages, stays.tolist()), *came]
        again, extract = self._read_again(gone, new)
        after = _recorded(new, listed, extract, given)
        after |= {one.id: replace(one, found=extract(one.id, one.title, one.text)) for one in again}
        graph = replace_passages(
            self.graph if self.synonyms is None else replace(self.graph, synonyms=None),
            ids_now,
            before={one.id: _extractions(one) for one in [*again, *(self.records[name] for name in gone)]},
            after={name: _extractions(one) for name, one in after.items()},
            embeddings=vectors,
            texts=dict(zip(came, texts_of(new), strict=True)),
        )
        synonyms = self.synonyms
        if synonyms is not None:
            synonyms = synonyms.knowing(graph.entities, name_embeddings)
            graph = replace(graph, synonyms=synonyms.edges(graph.entities, graph=self.graph, earlier=self.synonyms))
        words = self.name_words.replaced(
            np.concatenate([kept, np.full(len(new), -1)]),
            {len(kept) + place: text for place, (_, _, text) in enumerate(new)},
        )
        return GraphIndex(self.records.replaced(graph.passage_rows, after), self.gazetteer, graph, words, synonyms)

    def save(self, directory: str | os.PathLike[str], *, change: int = 0) -> None:
        """Save graph, passages and records in one step; :func:`~phasegraph.graph.load_graph` reads the graph of it.

        `change` is the number of the last change it holds, where changes are numbered.
        """
        self._check_files()
        body, arrays = graph_parts(self.graph)
        arrays |= self.records.packed() | packed_words("name_words", "name_word", self.name_words)
        body["gazetteer"] = sorted(self.gazetteer)
        body["change"] = change
        body["retitled"] = sorted(self.records.retitled)
        if self.synonyms is not None:
            body["synonyms"], vectors = synonym_parts(self.synonyms)
            arrays |= vectors
        write_bundle(directory, KIND, VERSION, body, arrays, readers=("graph", "index"))

    @classmethod
    def load(cls, directory: str | os.PathLike[str], *, mmap: bool = True, verify: Verify = True) -> GraphIndex:
        """Load what :meth:`save` wrote; IntegrityError where it is damaged, or a graph without its passages.

        Parameters as for :func:`~phasegraph.graph.load_graph`.
        """
        bundle = open_bundle(directory, KIND, VERSION, mmap=mmap, verify=verify, reader="index")
        body, arrays, sound = bundle.body, bundle.plain, bundle.sound
        name = Path(directory).name
        if "records_text" not in arrays:
            raise IntegrityError(f"{name}: this is a graph alone, saved without the passages that an index needs")
        graph = graph_from_parts(body, arrays, name, sound=sound)
        try:
            records = PassageRecords.unpacked(graph.passage_rows, arrays, body.get("retitled"), sound=sound)
            words = None  # saved by an older version
            if "name_word_rows" in arrays:
                words = unpacked_words("name_words", "name_word", arrays, word_texts, sound=sound)
            if words is not None and len(words.lengths) != len(records):
                raise InvalidInputError("the words of names must be those of the passages")
            names = frozenset(map(str, body["gazetteer"]))  # type: ignore[call-overload]
            made = cls(records, names, graph, words, synonyms_from_parts(body.get("synonyms"), arrays))
        except MISFITS as error:
            raise IntegrityError(f"{name}: the records of the saved index do not fit: {error}") from error
        if taken_as_is(bundle, graph):
            bundle.passed("graph", "index")
        return made

    def _check_files(self) -> None:
        """As :meth:`EntityGraph.check_files`, of the words and vectors of names, too."""
        self.graph.check_files()
        words, vectors = self.words, None if self.synonyms is None else self.synonyms.vectors
        counted = [] if words is None else [words.starts, words.rows, words.counts, words.lengths]
        check_mapped(mapped_in([*counted, vectors]))

    def _read_again(self, gone: Collection[str], came: Sequence[Row]) -> tuple[list[PassageRecord], RuleExtractor]:
        """Passages that stay and are read again, as names came or went in them, and what reads them and the new."""
        titles = _Titles(self)
        fresh = {form for _, title, _ in came for form in title_names(title)}
        lost = {form for name in gone for form in title_names(self.records[name].title)}
        went = {form for form in lost - fresh if not titles.give(form, without=gone)}
        wanted = Gazetteer(
            (went | {form for form in fresh if not titles.give(form)}) - self.gazetteer,
            matcher="python",
            normalised=True,
        )
        rows = {row for name in wanted.names for row in self.name_words.passages_with(set(name.split())).tolist()}
        held = (self.records[self.graph.passages[row]] for row in sorted(rows))
        again = [one for one in held if one.id not in gone and wanted.stands_in(word_texts(one.text))]
        texts = [*(one.text for one in again), *(text for _, _, text in came)]
        known = titles.standing_in(texts)
        return again, RuleExtractor({*self.gazetteer, *known, *fresh} - (went - self.gazetteer))

    def _vectors(self, kept: IntArray, embeddings: Any, count: int) -> Any:
        """Embeddings of the passages that stay and of the `count` new ones; None for an index without."""
        old = self.graph.embeddings
        if count and (old is None) != (embeddings is None):
            said = "has none" if old is None else "has them"
            raise InvalidInputError(f"embeddings= must be given exactly where the index has embeddings; it {said}")
        if old is None:
            return None
        stay = old if len(kept) == len(old) else old[kept]
        if not count:
            return stay
        new = np.asarray(embeddings)
        if new.shape != (count, old.shape[1]):
            raise InvalidInputError(f"embeddings must have shape {(count, old.shape[1])}; got {new.shape}")
        return np.concatenate([stay, checked_embeddings("embeddings", new, count)])


class _Titles:
    """Which names the titles of an index give: read from the homes, so that no passage is."""

    def __init__(self, index: GraphIndex) -> None:
        self._index = index
        homes = index.graph.homes
        given = homes.data == HOME_TITLE
        columns = homes.indices[given]
        order = np.argsort(columns, kind="stable")
        self._columns = columns[order]
        self._rows = np.repeat(np.arange(homes.shape[0]), np.diff(homes.indptr))[given][order]

    def give(self, name: str, *, without: Collection[str] = ()) -> bool:
        """Whether a title gives the name, those of the passages `without` left out."""
        column = self._index.graph.entity_rows.get(name)
        return column is not None and self._gives(column, name, without)

    def standing_in(self, texts: Iterable[str]) -> set[str]:
        """Names that titles give and that stand in one of these texts."""
        names = Gazetteer.of_rows(NameRows(self._index.graph.entities))
        return {
            name for name in {one for text in texts for one in names.standing_in(word_texts(text))} if self.give(name)
        }

    def _gives(self, column: int, name: str, without: Collection[str]) -> bool:
        ends = np.array([column, column + 1], dtype=self._columns.dtype)  # of another type, all would be converted
        first, last = np.searchsorted(self._columns, ends).tolist()
        passages, records = self._index.graph.passages, self._index.records
        held = (passages[row] for row in self._rows[first:last].tolist())
        return any(
            one not in without and (one not in records.retitled or name in title_names(records[one].title))
            for one in held
        )


def _recorded(
    rows: Iterable[Row], listed: Sequence[Any], extract: RuleExtractor, given: Mapping[str, tuple[Extraction, ...]]
) -> dict[str, PassageRecord]:
    """The records of passages; `listed` are these as they were given, with their metadata."""
    held = {}
    for (name, title, text), passage in zip(rows, listed, strict=True):
        metadata = passage_field(passage, "metadata")
        if not isinstance(metadata, Mapping | NoneType):
            raise InvalidTypeError(f"metadata of passage {name!r} must be a mapping; got {metadata!r:.80}")
        found = extract(name, title, text)
        held[name] = PassageRecord(name, title, text, found, given.get(name, ()), metadata or {})
    return held


def _extractions(record: PassageRecord) -> tuple[Extraction, ...]:
    return (record.found, *record.given)
