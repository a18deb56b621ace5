"""A corpus that changes: graph, words and vectors of the same passages, in memory or in a folder.

A folder holds the index as a bundle (``graph``), the changes since as one small bundle each (``changes``), and, where
a framework keeps vectors in a store of its own, that store. A change is made when its bundle is complete: the store
follows the index, and is brought in step when the folder is opened after a crash.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from phasegraph._files import LOCK, one_writer
from phasegraph._shared import fork_safe_lock, lazy_property
from phasegraph._typing import Float32Array
from phasegraph._validation import check_names
from phasegraph.errors import IntegrityError, InvalidInputError, InvalidTypeError, StoreError, warn
from phasegraph.graph.building import Triples, by_passage, read_passages
from phasegraph.graph.chunk_graph import KIND as CHUNKS
from phasegraph.graph.chunk_graph import ChunkGraph
from phasegraph.graph.entity_graph import EntityGraph, Extraction
from phasegraph.graph.flat import LexicalSource, VectorSource
from phasegraph.graph.index import GraphIndex
from phasegraph.graph.records import PassageRecord, check_plain
from phasegraph.graph.source import Embedder, GraphSource
from phasegraph.graph.storage import KIND as INDEX
from phasegraph.graph.storage import packed, unpacked
from phasegraph.ranking import Ranking
from phasegraph.retrieval.kept import Recent
from phasegraph.serialization import (
    MANIFEST,
    MISFITS,
    bundle_kind,
    read_bundle,
    read_document,
    write_bundle,
    write_document,
)
from phasegraph.sources.protocol import Upstream

KIND, CHANGE, VERSION = "passage-folder", "passage-change", 1
STATE, INSIDE = "folder.json", "graph"
"""Where a folder holds what it was made with, and its index."""
_DOUBTFUL = "withdrawn-"
MOST_CHANGED = 0.05
"""Passages in changes, as a share of the corpus, after which they are taken into the index's bundle."""
FEWEST_CHANGED, MOST_LOGGED = 1000, 10_000
"""So many are never too many, or always."""
OPENING = 600.0
"""Seconds for which one who opens a folder waits until another's change of it is made."""
_MOST_LOADS = 1000


class _DoubtError(StoreError):
    """What a vector store holds is not known."""


class VectorStore(Protocol):
    """Where a framework keeps the passages' vectors."""

    def write(self, records: Sequence[PassageRecord], vectors: Any, /) -> None:
        """Keep these passages, in place of any with their ids; `vectors` are theirs, None where the index has none."""
        ...

    def remove(self, ids: Sequence[str], /) -> None:
        """Forget passages; ids that are not there are passed over."""
        ...

    def ids(self) -> Collection[str]:
        """Ids of the passages there are."""
        ...


@dataclass(frozen=True)
class Change:
    """Passages that leave, then passages that come, with what was handed over of each under ``given``."""

    removed: tuple[str, ...]
    passages: tuple[Mapping[str, Any], ...] = ()
    embeddings: Float32Array | None = None

    @property
    def touched(self) -> frozenset[str]:
        """Ids of all of them."""
        return frozenset(self.removed) | {one["id"] for one in self.passages}

    def made_in(self, index: GraphIndex) -> GraphIndex:
        """The index with the change."""
        given = [Extraction(one["id"], *parts) for one in self.passages for parts in one.get("given", ())]
        return index.replace(self.removed, self.passages or None, triples=given, embeddings=self.embeddings)

    def write(self, directory: Path) -> None:
        """Write it, in one step."""
        lines = [json.dumps({**one, "metadata": check_plain(one["id"], one["metadata"])}) for one in self.passages]
        arrays = packed("passages", lines) | packed("removed", self.removed)
        if self.embeddings is not None:
            arrays["embeddings"] = self.embeddings
        write_bundle(directory, CHANGE, VERSION, {"passages": len(lines)}, arrays)

    @classmethod
    def read(cls, directory: Path) -> Change:
        """What :meth:`write` wrote."""
        _, arrays = read_bundle(directory, CHANGE, VERSION)
        try:
            passages = tuple(json.loads(line) for line in unpacked("passages", arrays))
            if not all(isinstance(one, dict) and isinstance(one["id"], str) for one in passages):
                raise InvalidTypeError("passages must be mappings with an id")
            vectors: Any = arrays.get("embeddings")
            return cls(unpacked("removed", arrays), passages, vectors)
        except MISFITS as error:
            raise IntegrityError(f"{directory.name}: the parts of the change do not fit: {error}") from error


def fields_of(given: Triples | None, known: Mapping[str, object]) -> dict[str, list[list[Any]]]:
    """Extractions handed over, by passage, as lists of the fields beside it: entities, triples, titles, lead.

    `known` holds the ids there are; InvalidInputError for any other.

    >>> fields_of({"a": [("Ada", "met", "Bo")]}, {"a": None})
    {'a': [[[], [['Ada', 'met', 'Bo']], [], '']]}
    """
    return {
        name: [
            [list(one.entities), [list(triple) for triple in one.triples], list(one.titles), one.lead] for one in each
        ]
        for name, each in by_passage(given, known).items()
    }


def check_passages(passages: Sequence[Mapping[str, Any]], *, kept: bool, tokenizer: object = "") -> None:
    """Refuse passages that cannot be in a corpus, and where it is `kept` in a folder what cannot be in that.

    The error names the passage: one without text or with an id that repeats; metadata that JSON has no word for.
    """
    for one in passages:
        if not one["text"].strip() and not one["title"].strip():
            raise InvalidInputError(
                f"passage {one['id']!r} must have text; leave it out if its page is blank (metadata: "
                f"{dict(one['metadata'])!r:.200})"
            )
    read_passages(passages)
    if kept and not isinstance(tokenizer, str):
        raise InvalidInputError(f"a folder needs a tokenizer that has a name; got {tokenizer!r:.80}")
    for one in passages if kept else ():
        check_plain(one["id"], one["metadata"])
        if any("\ud800" <= letter <= "\udfff" for letter in one["id"]):
            raise InvalidInputError(f"passage {one['id']!r} must have an id of whole characters to be kept in a folder")


def sample_corpus(embedder: Embedder | None) -> Corpus:
    """A corpus of one passage, to try a retriever's settings on before many are embedded."""
    return Corpus(GraphIndex.build([{"id": "sample", "text": "sample"}], embeddings=[[1.0]]), embedder)


class Folder:
    """Where a corpus is kept; one process at a time changes it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()  # wherever the process goes later
        self.last = self.pending = 0

    @classmethod
    def create(cls, path: str | os.PathLike[str], index: GraphIndex, settings: Mapping[str, object]) -> Folder:
        """Write the index to a folder that is new or empty."""
        folder = cls(path)
        check_new(folder.path)
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{folder.path.name}: the folder could not be made: {error}") from error
        with folder.held():
            check_new(folder.path)  # another process may have been first
            try:
                index.save(folder.path / INSIDE)
                folder._write_state(0, settings)
            except BaseException as error:
                (folder.path / STATE).unlink(missing_ok=True)
                shutil.rmtree(folder.path / INSIDE, ignore_errors=True)
                if isinstance(error, OSError):
                    raise StoreError(f"{folder.path.name}: the folder could not be written: {error}") from error
                raise
        return folder

    @lazy_property
    def settings(self) -> dict[str, object]:
        """What the folder was made with."""
        settings = self._state().get("settings")
        if not isinstance(settings, dict):
            raise IntegrityError(f"{STATE}: settings must be a mapping; it is damaged")
        return settings

    def load(self) -> tuple[GraphIndex, frozenset[str]]:
        """The index with all changes, and the ids of passages that the store may not have as they are."""
        for _ in range(_MOST_LOADS):
            there = self._there()
            try:
                return self._load()
            except (IntegrityError, OSError):
                if self._there() == there:
                    raise  # else another process made, withdrew or compacted changes: what was read may be gone
        raise StoreError(
            f"{self.path.name}: the folder changed at every attempt to read it; load it when its writers are done"
        )

    def _there(self) -> tuple[object, ...]:
        """What tells one state of the folder from another."""
        return self._base(), self._changes(), self._doubtful(), self._state().get("applied")

    def _load(self) -> tuple[GraphIndex, frozenset[str]]:
        applied = _number(self._state().get("applied"))
        base = self._base()
        index, self.last, self.pending = GraphIndex.load(self.path / INSIDE), base, 0
        if self._base() != base:
            raise IntegrityError("the index was replaced while it was read")
        behind = frozenset(name for one in self._doubtful() for name in Change.read(one).touched)
        for number, directory in self._changes():
            if number <= self.last:
                continue
            if number != self.last + 1:
                raise IntegrityError(f"changes: change {self.last + 1} is missing; {number} follows")
            change = Change.read(directory)
            try:
                fresh = change.made_in(index)
            except MISFITS as error:
                raise IntegrityError(f"changes: change {number} does not fit the index: {error}") from error
            index, self.last, self.pending = fresh, number, self.pending + len(change.touched)
            if number > applied:
                behind |= change.touched
        return index, behind

    def append(self, change: Change) -> None:
        """Keep a change."""
        number = self.last + 1
        directory = self.path / "changes" / f"{number:08d}"
        try:
            change.write(directory)
        except OSError as error:
            shutil.rmtree(directory, ignore_errors=True)
            raise StoreError(
                f"{self.path.name}: the folder refused the change; nothing was changed. {error}"
            ) from error
        self.last, self.pending = number, self.pending + len(change.touched)

    def withdraw(self, change: Change, *, doubtful: bool = False) -> None:
        """Take the last change back; where it is `doubtful` what the store has, what it touched is written anew later.

        That is when the folder is loaded: the change stays there under another name until then.
        """
        directory = self.path / "changes" / f"{self.last:08d}"
        if doubtful:
            directory.rename(directory.with_name(f"{_DOUBTFUL}{uuid.uuid4().hex}"))
        else:
            _forget(directory)
        self.last, self.pending = self.last - 1, self.pending - len(change.touched)

    def applied(self) -> None:
        """Note that the store is in step with the last change."""
        self._write_state(self.last, self.settings)
        for directory in self._doubtful():
            _forget(directory)

    def _doubtful(self) -> list[Path]:
        """Changes that were taken back, of which the store may have something."""
        return [one for one in (self.path / "changes").glob(f"{_DOUBTFUL}*") if (one / MANIFEST).is_file()]

    def compact(self, index: GraphIndex) -> GraphIndex:
        """Take all changes into the bundle of the index, which has them, where they have become many.

        Returns the index, merged where it was.
        """
        if self.pending <= _most_changed(index):
            return index
        index = index.compact()
        index.save(self.path / INSIDE, change=self.last)
        for directory in (self.path / "changes").glob("[0-9]*"):  # those that were begun and never complete, too
            if int(directory.name) <= self.last:
                _forget(directory)
        self.pending = 0
        return index

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the folder for a change; StoreError where another process does, or has changed it since."""
        with self.held():
            there = max((self._base(), *(number for number, _ in self._changes())))
            if there != self.last:
                raise StoreError(f"{self.path.name}: another process has changed the folder; load it again")
            yield

    @contextmanager
    def held(self, *, patience: float = 0.0) -> Iterator[None]:
        """Hold the folder, so that no other process changes it; StoreError where one does for longer than `patience`.

        In seconds; the message names it.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(one_writer(self.path, patience=patience))
            except OSError as error:
                raise StoreError(f"{self.path.name}: the folder cannot be written to: {error}") from error
            yield

    def _changes(self) -> list[tuple[int, Path]]:
        """Changes by number; what was begun and never complete is left out."""
        found = (self.path / "changes").glob("[0-9]*")
        return sorted((int(one.name), one) for one in found if (one / MANIFEST).is_file())

    def _base(self) -> int:
        """The last change in the index's bundle."""
        manifest = self.path / INSIDE / MANIFEST
        if not manifest.is_file():
            raise IntegrityError(f"{self.path.name}: {INSIDE}/{MANIFEST} is missing")
        content = read_document(manifest, INDEX, VERSION).get("content")
        return _number(content.get("change")) if isinstance(content, dict) else 0

    def _state(self) -> dict[str, object]:
        if not (self.path / STATE).is_file():
            raise IntegrityError(
                f"{self.path.name!r} is no folder of a retriever: it has no {STATE} (delete it if "
                "its making was cut short)"
            )
        return read_document(self.path / STATE, KIND, VERSION)

    def _write_state(self, applied: int, settings: Mapping[str, object]) -> None:
        write_document(self.path / STATE, KIND, VERSION, {"applied": applied, "settings": dict(settings)})


def _most_changed(index: GraphIndex) -> float:
    """Passages in changes up to which they are not many."""
    return min(max(FEWEST_CHANGED, MOST_CHANGED * len(index.records)), MOST_LOGGED)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _forget(directory: Path) -> None:
    """Remove a change; without its manifest it counts as not there."""
    (directory / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(directory)


def check_new(path: Path) -> None:
    """Refuse a folder that holds something: InvalidInputError."""
    if path.is_dir() and any(one.name != LOCK for one in path.iterdir()):
        raise InvalidInputError(
            f"path must be a folder that is new or empty; {str(path)!r} holds files (load() opens one that was made)"
        )


def opened(folder: Path) -> GraphIndex | ChunkGraph:
    """The index in a folder, or in the one where a saved retriever keeps it, all changes since included.

    InvalidInputError if there is none, or it is damaged, or saved without its passages.
    """
    if (folder / STATE).is_file():
        return Folder(folder).load()[0]
    places = (folder, folder / INSIDE)
    for place in places:
        if (kind := bundle_kind(place)) in (INDEX, CHUNKS):
            return GraphIndex.load(place) if kind == INDEX else ChunkGraph.load(place)
    for place in places:
        if (place / MANIFEST).is_file():
            return GraphIndex.load(place)  # which says what is wrong with it
    raise InvalidInputError(
        f"{folder}: there is no index in it, nor in its folder {INSIDE!r}; phasegraph index CORPUS.jsonl --out FOLDER "
        "makes one"
    )


class Corpus:
    """Passages with their graph, words and vectors, which come and go together.

    `embedder`, from a query to its vector, is for an index with embeddings. Every change is kept in the `folder`;
    without, the corpus is in memory. A `store` is kept in step.

    After any changes graph and words equal, to the bit, those of a corpus that was built of the passages there are, in
    the order in which they came. A change is all or nothing: where the store refuses it, what was there is restored.
    """

    def __init__(
        self,
        index: GraphIndex,
        embedder: Embedder | None = None,
        *,
        folder: Folder | None = None,
        store: VectorStore | None = None,
    ) -> None:
        self._embedder, self._folder, self._store = embedder, folder, store
        self._changing = fork_safe_lock()
        self.index = index
        self.graph = self._walk(index)

    def __reduce__(self) -> tuple[Any, ...]:
        return _corpus_of, (self.index, self._embedder, self._folder, self._store)

    def _walk(self, index: GraphIndex) -> GraphSource:
        return GraphSource(
            index.graph, embedder=self._embedder if index.graph.view.embeddings is not None else None
        ).prepare()

    @property
    def lexical(self) -> LexicalSource:
        """Its passages by words."""
        return LexicalSource(self.index.graph)

    @property
    def vector(self) -> VectorSource:
        """Its passages by cosine, those of a store that can be asked by its index."""
        return VectorSource(self.index.graph, embedder=self._embedder, nearest=getattr(self._store, "nearest", None))

    def __len__(self) -> int:
        return len(self.index.records)

    def __contains__(self, name: object) -> bool:
        return name in self.index.records

    def records(self, ids: Iterable[str]) -> dict[str, PassageRecord]:
        """The passages that there are of these ids."""
        records = self.index.records
        found = ((name, records.held.get(name) or records.get(name)) for name in ids)
        return {name: one for name, one in found if one is not None}

    def source(self, source: Part) -> LiveSource:
        """A source over the passages that there are at every search."""
        return LiveSource(self, source)

    def reconcile(self, behind: Collection[str] = ()) -> None:
        """Bring the store in step: it gets the passages `behind` anew and those it lacks, and loses the others."""
        if self._store is None:
            return
        held = self.index.records
        try:
            there, known = frozenset(self._store.ids()), frozenset(held)
            gone = sorted(there - known)
            wanted = [one for one in held if one in behind or one not in there]
            if gone:
                self._store.remove(gone)
            if wanted:
                self._write(self._store, self.index, wanted)
            if self._folder is not None and (gone or wanted or behind):
                self._folder.applied()
        except Exception as error:
            raise StoreError(
                "the vectors could not be brought in step with the passages; all that is needed is in the folder: load "
                f"it again when that is mended. {type(error).__name__}: {error}"
            ) from error

    def check(self, passages: Sequence[Mapping[str, Any]]) -> None:
        """Refuse passages that :meth:`replace` would, before they are embedded."""
        if passages:
            check_passages(passages, kept=self._folder is not None)

    def replace(self, ids: Iterable[str], passages: Iterable[Mapping[str, Any]] = (), embeddings: Any = None) -> None:
        """Let passages leave and others come, in one step.

        Those that come, with ``id``, ``title``, ``text``, ``metadata`` and perhaps ``given`` (see :func:`fields_of`),
        take the place of any with their ids; `embeddings` are theirs, for an index with embeddings. Nothing is changed
        where an id that is to leave is not there, or as for :meth:`GraphIndex.add` (InvalidInputError), or where the
        store, or another process, is in the way (StoreError).
        """
        if self._folder is not None and self._store is None and self._folder.settings.get("vectors"):
            raise InvalidInputError(
                f"{self._folder.path.name!r} keeps vectors, too: change it with a retriever that has them, not this one"
            )
        came, leaving = tuple(passages), check_names("ids", ids)
        with self._changing:
            taken = [one["id"] for one in came if one["id"] in self.index.records]
            removed = tuple(dict.fromkeys([*leaving, *taken]))
            vectors = None if embeddings is None or not came else np.asarray(embeddings, dtype=np.float32)
            if not removed and not came:
                return
            change = Change(removed, came, vectors)
            fresh = change.made_in(self.index)
            walk = self._walk(fresh)
            if self._folder is None:
                self._follow(change, fresh)
                self.index, self.graph = fresh, walk
                log = fresh.log  # every change goes through all of it
                if log is not None and len(log.gone) + len(log.came) + len(log.again) > _most_changed(fresh):
                    self.index = fresh.compact()
                    self.graph = self._walk(self.index)
            else:
                with self._folder.changing():
                    self._folder.append(change)
                    try:
                        self._follow(change, fresh)
                    except BaseException as error:
                        self._folder.withdraw(change, doubtful=isinstance(error, _DoubtError))
                        raise
                    self.index, self.graph = fresh, walk
                    try:
                        self._folder.applied()
                        merged = self._folder.compact(fresh)
                        if merged is not fresh:
                            self.index, self.graph = merged, self._walk(merged)
                    except OSError as error:
                        warn(
                            f"{self._folder.path.name}: the change is made and kept, but changes could not be taken "
                            f"into the index, which is tried again with the next: {error}",
                            cause=error,
                            stacklevel=3,
                        )

    def save(self, path: str | os.PathLike[str], settings: Mapping[str, object]) -> Folder:
        """Write the corpus to a folder that is new or empty."""
        return Folder.create(path, self.index, settings)

    def _follow(self, change: Change, fresh: GraphIndex) -> None:
        """Change the store; where that fails, restore what was there."""
        if self._store is None:
            return
        came = [one["id"] for one in change.passages]
        try:
            left = [one for one in change.removed if one not in fresh.records]
            if left:
                self._store.remove(left)
            if came:
                self._write(self._store, fresh, came)
        except BaseException as error:
            try:
                self._store.remove([one for one in came if one not in self.index.records])
                self._write(self._store, self.index, change.removed)
            except BaseException as second:  # noqa: BLE001 - nothing may hide that
                raise _DoubtError(
                    f"the vector store refused a change ({type(error).__name__}: {error}), and then to take it back "
                    f"({type(second).__name__}: {second}); "
                    + ("make the retriever anew" if self._folder is None else "load the folder again")
                    + ", which brings it in step"
                ) from error
            if not isinstance(error, Exception):
                raise
            raise StoreError(
                f"the vector store refused the change; nothing was changed. {type(error).__name__}: {error}"
            ) from error

    @staticmethod
    def _write(store: VectorStore, index: GraphIndex, ids: Sequence[str]) -> None:
        vectors, rows = index.graph.view.embeddings, index.graph.view.passage_rows
        if ids:
            known = None if vectors is None else vectors[[rows[one] for one in ids]]
            store.write([index.records[one] for one in ids], known)


def _corpus_of(
    index: GraphIndex, embedder: Embedder | None, folder: Folder | None, store: VectorStore | None
) -> Corpus:
    return Corpus(index, embedder, folder=folder, store=store)


Part = Literal["graph", "lexical", "vector"]


class LiveSource:
    """A source of a corpus that follows its changes."""

    def __init__(self, corpus: Corpus, name: Part) -> None:
        self.corpus, self.name = corpus, name
        self.depends_on = tuple(self._now.depends_on) if name == "graph" else ()

    @property
    def _now(self) -> Any:
        return getattr(self.corpus, self.name)

    @property
    def graph(self) -> EntityGraph:
        """The graph of the passages there are."""
        return self.corpus.index.graph

    def passage_ids(self) -> Sequence[str]:
        """Ids of the passages there are."""
        return self.graph.passages

    def within(self, allowed: Collection[str]) -> Any:
        """The source, as it is now, for one who may see only these passages."""
        return self._now.within(allowed)

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Rank passages for `query`; as in :meth:`phasegraph.sources.Source.search`."""
        ranking: Ranking = self._now.search(query, limit, upstream)
        return ranking


MOST_LOOKED_UP = 20_000
"""Passages in the framework's words that are kept."""


class CorpusLookup:
    """The passages of a corpus by their ids, in the framework's words, made of records by `made`; some are kept."""

    def __init__(self, corpus: Any, made: Callable[[Any], Any]) -> None:
        self.corpus, self._made = corpus, made
        self._kept: dict[str, tuple[object, Any]] = {}
        self._matching, self._turn = Recent(), fork_safe_lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return CorpusLookup, (self.corpus, self._made)

    def __repr__(self) -> str:
        return f"<{len(self.corpus)} passages>"

    def __len__(self) -> int:
        return len(self.corpus)

    def __call__(self, ids: Sequence[str]) -> dict[str, Any]:
        """Those that there are."""
        found = {}
        for name, record in self.corpus.records(ids).items():
            metadata, document = self._kept.get(name, (None, None))
            if document is None or metadata is not record.metadata:
                document = self._made(record)
                if len(self._kept) >= MOST_LOOKED_UP:
                    self._kept.clear()
                self._kept[name] = record.metadata, document
            found[name] = document
        return found

    def matching(self, key: Hashable, passes: Callable[[Sequence[Any]], Iterable[int]]) -> frozenset[str]:
        """Ids of the passages that a filter lets through, worked out once for all sources over the corpus.

        `key` tells filters apart; ``passes(records)`` gives the rows of those that it lets through.
        """

        def made() -> tuple[Any, frozenset[str]]:
            now = self.corpus.index
            records = list(now.records.values())
            return now, frozenset(records[row].id for row in passes(records))

        with self._turn:
            index, ids = self._matching.get(key, made)
            if index is not self.corpus.index:
                self._matching.forget(key)
                _, ids = self._matching.get(key, made)
        found: frozenset[str] = ids
        return found
