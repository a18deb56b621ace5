"""An index of passages with their entity graph, to which passages can be added at a cost that depends on the change."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import chain, compress
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from phasegraph._support.frozen import by_fields
from phasegraph._support.packed import NameRows
from phasegraph._support.renamed import accepts_old_names, warn_of_old_name
from phasegraph._support.serialization import MISFITS, Verify, check_mapped, mapped_in, open_bundle, write_bundle
from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import BoolArray, Float32Array
from phasegraph._support.validation import check_names, check_rows
from phasegraph.errors import IntegrityError, InvalidInputError, InvalidTypeError
from phasegraph.graph.index.change_log import ChangeLog
from phasegraph.graph.index.logged_graph import LoggedGraph
from phasegraph.graph.index.records import PassageRecord, PassageRecords
from phasegraph.graph.model.building import Triples, by_passage, passage_field, read_passages, texts_of
from phasegraph.graph.model.entity_graph import (
    HOME_TITLE,
    EdgeWeights,
    EntityGraph,
    Extraction,
    checked_embeddings,
    graph_from_extractions,
    replace_passages,
)
from phasegraph.graph.model.rules import RuleExtractor, title_names
from phasegraph.graph.model.storage import (
    KIND,
    VERSION,
    end_opening,
    graph_from_bundle,
    graph_parts,
    packed_words,
    streamed_rows,
    unpacked_words,
)
from phasegraph.graph.model.synonyms import NameSynonyms, NameVectors, synonym_parts, synonyms_from_parts
from phasegraph.graph.model.words import Gazetteer, normalise_name, word_texts
from phasegraph.lexical import LexicalIndex, Tokenizer

Row = tuple[str, str, str]
LOGGED = 50_000
"""Number of passages above which a change is recorded in a change log instead of creating new arrays."""


@dataclass(frozen=True, eq=False)
class GraphIndex:
    """The passages of a corpus with their names and their entity graph; passages can be added, deleted and replaced.

    An index is immutable: each change returns a new index. Create the first index with :meth:`build`.

    Parameters
    ----------
    records : PassageRecords
        Title, text, metadata and extractions by passage id.
    known_names : frozenset of str
        The names that the user supplied, normalized.
    graph : EntityGraph
        The entity graph of the passages.
    words : LexicalIndex, optional
        An index of the words of the passages, split by :func:`~phasegraph.graph.model.words.word_texts`. By default, it
        is created for the first change.
    synonyms : NameSynonyms, optional
        The embedded names of the entities, from which the graph's synonym edges are computed.
    log : ChangeLog, optional
        The passages that were added and deleted since the arrays were written; see :meth:`compact`.

    Notes
    -----
    The names that the default extractor finds in a passage depend on its text and on the known names in this text.
    Known names are the titles of the corpus and the user's names. For a new title, all passages that contain this title
    are therefore processed again; an index of words finds these passages.

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
    known_names: frozenset[str] = field(repr=False)
    graph: EntityGraph = field(repr=False)
    words: LexicalIndex | None = field(default=None, repr=False)
    synonyms: NameSynonyms | None = field(default=None, repr=False)
    log: ChangeLog | None = field(default=None, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return by_fields(self.compact())

    @property
    def gazetteer(self) -> frozenset[str]:
        """The old name of `known_names`, the names that the user supplied."""
        warn_of_old_name("gazetteer", "known_names")
        return self.known_names

    @classmethod
    @accepts_old_names
    def build(
        cls,
        passages: Iterable[Any],
        *,
        triples: Triples | None = None,
        embeddings: Any = None,
        known_names: Iterable[str] = (),
        synonyms: NameSynonyms | None = None,
        weights: EdgeWeights | None = None,
        tokenizer: Tokenizer = "english",
        progress: Callable[[Sequence[Row]], Iterable[Row]] = iter,
    ) -> GraphIndex:
        """Build the index of a corpus; parameters and errors as in :func:`phasegraph.graph.build_graph`.

        `progress`, such as ``tqdm``, wraps the iteration over passages. The index stores `synonyms` with the embeddings
        of all names; later changes therefore embed and compare only new names.
        """
        listed = list(check_rows("passages", passages))
        rows = read_passages(listed)
        names = frozenset(name for name in map(normalise_name, check_names("known_names", known_names)) if name)
        extract = RuleExtractor(names, titles=[title for _, title, _ in rows if title])
        known = {name: None for name, _, _ in rows}
        given = by_passage(triples, known)
        held = _recorded(progress(rows), listed, extract, given)
        graph = graph_from_extractions(
            list(held), chain.from_iterable(one.extractions for one in held.values()),
            embeddings=embeddings, weights=weights, texts=texts_of(rows), tokenizer=tokenizer,
        )  # fmt: skip
        if synonyms is not None:
            synonyms = synonyms.knowing(graph.entities)
            graph = replace(graph, synonyms=synonyms.edges(graph.entities))
        return cls(PassageRecords(graph.passage_rows, held), names, graph, None, synonyms)

    @lazy_property
    def name_words(self) -> LexicalIndex:
        """An index of words for finding names; :func:`~phasegraph.graph.model.words.word_texts` splits the texts."""
        if self.words is not None:
            return self.words
        if self.log is not None:
            return self._merged.name_words
        return LexicalIndex.of((one.text for one in self.records.values()), word_texts)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The tuple (id, title, text) of each passage."""
        return tuple((one.id, one.title, one.text) for one in self.records.values())

    @property
    def found(self) -> dict[str, Extraction]:
        """The names that the default extractor found in each passage, as an extraction by passage id."""
        return {name: one.found for name, one in self.records.items()}

    @property
    def given(self) -> dict[str, tuple[Extraction, ...]]:
        """The extractions that the caller supplied, such as triples of a language model, by passage id."""
        return {name: one.given for name, one in self.records.items() if one.given}

    def add(
        self,
        passages: Iterable[Any],
        *,
        triples: Triples | None = None,
        embeddings: Any = None,
        name_embeddings: NameVectors | None = None,
    ) -> GraphIndex:
        """Return a new index with additional passages at the end.

        The graph is identical, to the bit, to a graph that is built from all passages at once. The ids must be new.
        `triples` and `embeddings` belong to the new passages; `embeddings` are required if the index has embeddings,
        and are an error otherwise. For an index with synonyms, `name_embeddings` are embeddings of new names or a
        function, as in :meth:`NameSynonyms.of`. An index that was built with a function uses this function again.
        Loading an index does not restore the function, so pass it to the first change after loading.
        """
        return self.replace([], passages, triples=triples, embeddings=embeddings, name_embeddings=name_embeddings)

    def remove(self, ids: Iterable[str], *, name_embeddings: NameVectors | None = None) -> GraphIndex:
        """Return a new index without the passages `ids`.

        The graph is identical, to the bit, to a graph that is built from the other passages. If all passages are
        deleted, the new index keeps the settings, its sources find nothing, and passages can be added to it. An index
        with synonyms may need `name_embeddings`, described at :meth:`add`: after a title is deleted, the default
        extractor may find new names in other passages.
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
        """Return a new index without the passages `ids`, and with the additional `passages`.

        `passages` may be None. The other parameters are described at :meth:`add` and :meth:`remove`. To change a
        passage, delete and add it in the same call.

        >>> index = GraphIndex.build([{"id": "a", "title": "Ada", "text": "Ada met Bo."}])
        >>> index.replace(["a"], [{"id": "a", "title": "Ada", "text": "Ada met Cy."}]).graph.entities
        ('ada', 'cy')
        """
        self._check_files()
        gone = dict.fromkeys(check_names("ids", ids))
        unknown = next((name for name in gone if name not in self.records), None)
        if unknown is not None:
            raise InvalidInputError(f"passage {unknown!r} is not in the index: remove only ids that the index contains")
        listed = [] if passages is None else list(check_rows("passages", passages))
        new = [] if passages is None else read_passages(listed)
        came = {name: None for name, _, _ in new}
        clash = next((name for name in came if name in self.records and name not in gone), None)
        if clash is not None:
            raise InvalidInputError(
                f"passage {clash!r} is already in the index: remove it first, or give the new passage another id"
            )
        given = by_passage(triples, came)
        if self.synonyms is None and name_embeddings is not None:
            raise InvalidInputError(
                "name_embeddings= needs an index with synonyms; this index has no synonyms: leave out "
                "name_embeddings=, or build the index with synonyms="
            )
        if len(gone) == len(self.records) and not new:
            return self._emptied()
        known = self._known()
        again, extract = self._read_again(known, gone, new)
        fresh = _recorded(new, listed, extract, given)
        reread = {one.id: replace(one, found=extract(one.id, one.title, one.text)) for one in again}
        vectors = self._new_vectors(embeddings, len(new))
        if isinstance(known, ChangeLog):
            return self._logged(known.changed(gone, fresh, reread, vectors))
        return self._arrayed(gone, fresh, reread, vectors, name_embeddings)

    def _arrayed(
        self,
        gone: Collection[str],
        came: Mapping[str, PassageRecord],
        again: Mapping[str, PassageRecord],
        embeddings: Float32Array | None,
        name_embeddings: NameVectors | None = None,
        *,
        with_vectors: bool = True,
    ) -> GraphIndex:
        """Return the index after a change, with newly written arrays and without a change log.

        `gone` are the ids of deleted passages, `came` the records of new passages, and `again` the records of existing
        passages with a new extraction. If `with_vectors` is False, the graph of the result has no embeddings.
        """
        stays = self._stays(gone)
        kept = np.flatnonzero(stays)
        vectors = self.graph.embeddings if with_vectors else None
        if vectors is not None:
            vectors = vectors if len(kept) == len(vectors) else vectors[kept]
            vectors = vectors if embeddings is None else np.concatenate([vectors, embeddings])
        before = [self.records[name] for name in (*again, *gone)]
        after = {**came, **again}
        graph = replace_passages(
            self.graph if self.synonyms is None else replace(self.graph, synonyms=None),
            [*compress(self.graph.passages, stays.tolist()), *came],
            before={one.id: one.extractions for one in before},
            after={name: one.extractions for name, one in after.items()},
            embeddings=vectors,
            texts={name: one.content for name, one in came.items()},
        )
        synonyms = self.synonyms
        if synonyms is not None:
            synonyms = synonyms.knowing(graph.entities, name_embeddings)
            graph = replace(graph, synonyms=synonyms.edges(graph.entities, graph=self.graph, earlier=self.synonyms))
        words = self.name_words.replaced(
            np.concatenate([kept, np.full(len(came), -1)]),
            {len(kept) + place: one.text for place, one in enumerate(came.values())},
        )
        return GraphIndex(self.records.replaced(graph.passage_rows, after), self.known_names, graph, words, synonyms)

    def _emptied(self) -> GraphIndex:
        """Return the index without passages, with its settings, without reading the passages."""
        old = self.graph.view
        vectors = None if old.embeddings is None else np.empty((0, old.embeddings.shape[1]), dtype=np.float32)
        words = None if old.lexical is None else LexicalIndex.of([], old.lexical.tokenizer)
        graph = EntityGraph((), (), None, None, weights=old.weights, embeddings=vectors, lexical=words)
        return GraphIndex(PassageRecords(graph.passage_rows, {}), self.known_names, graph, None, self.synonyms)

    def _stays(self, gone: Iterable[str]) -> BoolArray:
        """Return a boolean array of shape (P,): False for the passages with ids in `gone`, True for the others."""
        stays = np.ones(len(self.graph.passages), dtype=np.bool_)
        stays[[self.graph.passage_rows[name] for name in gone]] = False
        return stays

    def _known(self) -> ChangeLog | _Titles:
        """Return an object that looks up titles and words of existing passages.

        The object is the index's change log, if there is one. Otherwise, a large index gets a new change log. Small
        indexes, and indexes with synonyms or without a BM25 index, get a lookup in their arrays.
        """
        if self.log is not None:
            return self.log
        if len(self.records) <= LOGGED or self.synonyms is not None or self.graph.lexical is None:
            return _Titles(self)
        return ChangeLog.of(self.graph, self.records, self.name_words)

    def _logged(self, log: ChangeLog) -> GraphIndex:
        """Return an index with the arrays of this index and the changes in `log`."""
        base = vars(self).get("_base", self)
        records = base.records.replaced(log.rows, {**log.came, **log.again})
        made = GraphIndex(records, self.known_names, LoggedGraph.of(log, lambda: made._merged.graph), log=log)
        vars(made)["_base"] = base
        return made

    def reembedded(self, embeddings: Any) -> GraphIndex:
        """Return the index with new embeddings of its passages, in the order of the passages.

        The number of dimensions may change.

        >>> index = GraphIndex.build([{"id": "a", "text": "Ada met Bo."}], embeddings=[[1.0, 0.0]])
        >>> index.reembedded([[0.0, 0.0, 1.0]]).graph.embeddings.tolist()
        [[0.0, 0.0, 1.0]]
        """
        whole = self.compact()
        whole._check_files()
        vectors = checked_embeddings("embeddings", embeddings, len(whole.records))
        return replace(whole, graph=replace(whole.graph, embeddings=vectors))

    def compact(self) -> GraphIndex:
        """Return an index without a change log: merge the changes into new arrays.

        The result is identical, to the bit, to a newly built index. In an index with more than 50,000 passages and
        without embedded names, changes are recorded in a change log. Searches that score only some passages read the
        log beside the arrays. All other uses merge the log first: other searches, reading the arrays, and saving. A
        corpus in a folder merges a long log in the background.

        >>> index = GraphIndex.build([{"id": "a", "title": "Ada", "text": "Ada met Bo."}])
        >>> index.compact() is index
        True
        """
        return self if self.log is None else self._merged

    @lazy_property
    def _merged(self) -> GraphIndex:
        log, base = self.log, vars(self).get("_base")
        if log is None or base is None:
            return self
        base._check_files()
        made: GraphIndex = base._arrayed(log.gone, log.came, log.again, log.vectors if log.came else None)
        return made

    def save(
        self,
        directory: str | os.PathLike[str],
        *,
        change: int = 0,
        committing: AbstractContextManager[object] | None = None,
    ) -> None:
        """Save the index with its graph and records; the write is atomic.

        :func:`~phasegraph.graph.load_graph` can load the graph of a saved index alone. `change` is the number of the
        folder's last change that the index contains. The context manager `committing`, such as a lock, is active while
        the new index replaces the old index. A change log is merged first, without loading all vectors and records into
        memory.
        """
        log, base = self.log, vars(self).get("_base")
        more: dict[str, Any] = {}
        made = self
        if log is not None and base is not None:
            base._check_files(settled=True)
            made = base._arrayed(log.gone, log.came, log.again, None, with_vectors=False)
            if base.graph.embeddings is not None:
                kept = np.flatnonzero(base._stays(log.gone))
                more["embeddings"] = streamed_rows(base.graph.embeddings, kept, log.vectors)
        made._write(directory, change, more, committing)

    def _write(
        self,
        directory: str | os.PathLike[str],
        change: int,
        more: Mapping[str, Any],
        committing: AbstractContextManager[object] | None,
    ) -> None:
        """Write the index; the arrays in `more` replace the index's arrays with the same names."""
        self._check_files(settled=True)
        body: dict[str, object]
        arrays: dict[str, Any]
        body, arrays = graph_parts(self.graph)
        arrays |= more
        arrays |= self.records.packed() | packed_words("name_words", "name_word", self.name_words)
        body["gazetteer"] = sorted(self.known_names)
        body["change"] = change
        body["retitled"] = sorted(self.records.retitled)
        if self.synonyms is not None:
            body["synonyms"], vectors = synonym_parts(self.synonyms)
            arrays |= vectors
        write_bundle(directory, KIND, VERSION, body, arrays, readers=("graph", "index"), committing=committing)

    @classmethod
    def load(cls, directory: str | os.PathLike[str], *, mmap: bool = True, verify: Verify = True) -> GraphIndex:
        """Load an index that :meth:`save` wrote; parameters as in :func:`~phasegraph.graph.load_graph`.

        Raises IntegrityError if the index is damaged, or if the directory contains a graph without passages.
        """
        bundle = open_bundle(directory, KIND, VERSION, mmap=mmap, verify=verify, reader="index")
        body, arrays, sound = bundle.body, bundle.plain, bundle.sound
        name = Path(directory).name
        if "records_text" not in arrays:
            raise IntegrityError(
                f"{name}: this is a graph alone, saved without the passages that an index needs; load it with "
                "load_graph, or save a GraphIndex"
            )
        graph = graph_from_bundle(bundle)
        try:
            records = PassageRecords.unpacked(graph.passage_rows, arrays, body.get("retitled"), sound=sound)
            words = None  # saved by an older version
            if "name_word_rows" in arrays:
                words = unpacked_words("name_words", "name_word", arrays, word_texts, sound=sound)
            if words is not None and len(words.lengths) != len(records):
                raise InvalidInputError(
                    f"the index of words must have {len(records)} passages; it has {len(words.lengths)}"
                )
            names = frozenset(map(str, body["gazetteer"]))  # type: ignore[call-overload]
            made = cls(records, names, graph, words, synonyms_from_parts(body.get("synonyms"), arrays))
        except MISFITS as error:
            raise IntegrityError(
                f"{name}: the parts of the saved index do not fit together: {error}. Restore the folder, "
                "or build the index again"
            ) from error
        end_opening(bundle, graph, "graph", "index")
        return made

    def _check_files(self, *, settled: bool = False) -> None:
        """Check all memory-mapped files of the index; see :meth:`EntityGraph.check_files`."""
        self.graph.check_files(settled=settled)
        words, vectors = self.words, None if self.synonyms is None else self.synonyms.vectors
        counted = [] if words is None else [words.starts, words.rows, words.counts, words.lengths]
        check_mapped(mapped_in([*counted, vectors]), settled=settled)

    def _read_again(
        self, known: ChangeLog | _Titles, gone: Collection[str], came: Sequence[Row]
    ) -> tuple[list[PassageRecord], RuleExtractor]:
        """Return the existing passages whose names must be extracted again, and the extractor to use.

        These are the passages whose texts contain a title that the change adds or deletes. `known` looks up the titles
        and words of existing passages. `gone` are the ids of deleted passages, and `came` the (id, title, text) of new
        passages.
        """
        fresh = {form for _, title, _ in came for form in title_names(title)}
        lost = {form for name in gone for form in title_names(self.records[name].title)}
        went = {form for form in lost - fresh if not known.give(form, without=gone)}
        wanted = Gazetteer(
            (went | {form for form in fresh if not known.give(form)}) - self.known_names,
            matcher="python",
            normalised=True,
        )
        there = dict.fromkeys(one for name in sorted(wanted.names) for one in known.with_words(set(name.split())))
        held = (self.records[name] for name in there if name not in gone)
        again = [one for one in held if wanted.stands_in(word_texts(one.text))]
        texts = [*(one.text for one in again), *(text for _, _, text in came)]
        titles = known.standing_in(texts)
        return again, RuleExtractor({*self.known_names, *titles, *fresh} - (went - self.known_names))

    def _new_vectors(self, embeddings: Any, count: int) -> Float32Array | None:
        """Check and return the embeddings of `count` new passages; None if the index has no embeddings or `count` is 0.

        Raises InvalidInputError if embeddings are missing, not expected or of another shape.
        """
        old = self.graph.view.embeddings
        if count and (old is None) != (embeddings is None):
            raise InvalidInputError(
                "embeddings= was given, but this index has no embeddings: leave out embeddings="
                if old is None
                else "embeddings= is missing, but this index has embeddings: give one embedding per new passage"
            )
        if old is None or not count:
            return None
        new = np.asarray(embeddings)
        if new.shape != (count, old.shape[1]):
            raise InvalidInputError(f"embeddings must have shape {(count, old.shape[1])}; got {new.shape}")
        return checked_embeddings("embeddings", new, count)


class _Titles:
    """A lookup of passages by title or word in the arrays of an index, which does not read the passages' texts."""

    def __init__(self, index: GraphIndex) -> None:
        self._index = index
        homes = index.graph.homes
        given = homes.data == HOME_TITLE
        columns = homes.indices[given]
        order = np.argsort(columns, kind="stable")
        self._columns = columns[order]
        self._rows = np.repeat(np.arange(homes.shape[0]), np.diff(homes.indptr))[given][order]

    def give(self, name: str, *, without: Collection[str] = ()) -> bool:
        """Return True if a passage has `name` in its title; ignore passages with ids in `without`."""
        column = self._index.graph.entity_rows.get(name)
        return column is not None and self._gives(column, name, without)

    def standing_in(self, texts: Iterable[str]) -> set[str]:
        """Return the names that are in the title of a passage, and also in at least one of the `texts`."""
        names = Gazetteer.of_rows(NameRows(self._index.graph.entities))
        return {
            name for name in {one for text in texts for one in names.standing_in(word_texts(text))} if self.give(name)
        }

    def with_words(self, words: Collection[str]) -> list[str]:
        """Return the ids of the passages that contain all of the `words`."""
        passages = self._index.graph.passages
        return [passages[row] for row in self._index.name_words.passages_with(words).tolist()]

    def _gives(self, column: int, name: str, without: Collection[str]) -> bool:
        ends = np.array([column, column + 1], dtype=self._columns.dtype)  # same type: the columns are not converted
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
    """Extract the names of passages, and return the passages' records by id.

    `rows` are (id, title, text) of the passages, and `listed` are the caller's objects, which contain the metadata.
    `given` are the caller's extractions by passage id.
    """
    held = {}
    for (name, title, text), passage in zip(rows, listed, strict=True):
        metadata = passage_field(passage, "metadata")
        if not isinstance(metadata, Mapping | NoneType):
            raise InvalidTypeError(f"metadata of passage {name!r} must be a mapping; got {metadata!r:.80}")
        found = extract(name, title, text)
        held[name] = PassageRecord(name, title, text, found, given.get(name, ()), metadata or {})
    return held
