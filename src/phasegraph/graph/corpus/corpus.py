"""A corpus that changes: graph, words and vectors of the same passages, in memory or in a folder.

A folder holds the index as a bundle (``graph``), the changes since as one small bundle each (``changes``), and, where
a framework keeps vectors in a store of its own, that store. A change is made when its bundle is complete: the store
follows the index, and is brought in step when the folder is opened after a crash.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from phasegraph._support.files import LOCK, make_folder, one_writer, sync_folder
from phasegraph._support.recent import Recent
from phasegraph._support.serialization import (
    MANIFEST,
    MISFITS,
    bundle_kind,
    check_exists,
    read_bundle,
    read_document,
    write_bundle,
    write_document,
)
from phasegraph._support.shared import fork_safe_lock
from phasegraph._support.typing import Float32Array
from phasegraph._support.validation import check_names
from phasegraph.embedding.identity import EmbeddingModel, ModelIdentity
from phasegraph.errors import IntegrityError, InvalidInputError, InvalidTypeError, StoreError, warn
from phasegraph.graph.chunk_graph import KIND as CHUNKS
from phasegraph.graph.chunk_graph import ChunkGraph
from phasegraph.graph.corpus.embedded import check_model
from phasegraph.graph.flat import LexicalSource, VectorSource
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.index.records import PassageRecord, check_plain
from phasegraph.graph.model.building import Triples, by_passage, nearest_key, read_passages
from phasegraph.graph.model.entity_graph import EntityGraph, Extraction
from phasegraph.graph.model.storage import KIND as INDEX
from phasegraph.graph.model.storage import packed, unpacked
from phasegraph.graph.walk.source import GraphSource
from phasegraph.graph.walk.walker import Embedder
from phasegraph.ranking import Ranking
from phasegraph.sources.protocol import Upstream

KIND, CHANGE, VERSION = "passage-folder", "passage-change", 1
STATE, INSIDE, VECTORS = "folder.json", "graph", "passages"
"""Where a folder holds what it was made with, and its index; its first collection of vectors."""
_DOUBTFUL, _NUMBERED = "withdrawn-", re.compile(r"[0-9]{8,18}")
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


@runtime_checkable
class RenewableStore(VectorStore, Protocol):
    """A store that can be made anew beside itself, under another name."""

    name: str

    def beside(self, name: str, /) -> RenewableStore:
        """An empty store of this name at the same place."""
        ...

    def drop(self) -> None:
        """Forget the store."""
        ...


@dataclass(frozen=True)
class Change:
    """Passages that leave, then passages that come, with what was handed over of each under ``given``.

    `settings` are those of the folder that change with it. `reembedded` says that the embeddings are new ones of all
    passages there are, by another model.
    """

    removed: tuple[str, ...]
    passages: tuple[Mapping[str, Any], ...] = ()
    embeddings: Float32Array | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    reembedded: bool = False

    @property
    def size(self) -> int:
        """Passages in it."""
        return len(self.touched) if self.embeddings is None or not self.reembedded else len(self.embeddings)

    @property
    def touched(self) -> frozenset[str]:
        """Ids of all of them."""
        return frozenset(self.removed) | {one["id"] for one in self.passages}

    def made_in(self, index: GraphIndex) -> GraphIndex:
        """The index with the change."""
        if self.reembedded:
            return index.reembedded(self.embeddings)
        given = [Extraction(one["id"], *parts) for one in self.passages for parts in one.get("given", ())]
        return index.replace(self.removed, self.passages or None, triples=given, embeddings=self.embeddings)

    def write(self, directory: Path) -> None:
        """Write it, in one step."""
        lines = [json.dumps({**one, "metadata": check_plain(one["id"], one["metadata"])}) for one in self.passages]
        arrays = packed("passages", lines) | packed("removed", self.removed)
        if self.embeddings is not None:
            arrays["embeddings"] = self.embeddings
        body: dict[str, object] = {"passages": len(lines)}
        if self.settings:
            body["settings"] = dict(self.settings)
        if self.reembedded:
            body["reembedded"] = True
        write_bundle(directory, CHANGE, VERSION, body, arrays)

    @classmethod
    def read(cls, directory: Path) -> Change:
        """What :meth:`write` wrote."""
        body, arrays = read_bundle(directory, CHANGE, VERSION)
        try:
            passages = tuple(json.loads(line) for line in unpacked("passages", arrays))
            if not all(isinstance(one, dict) and isinstance(one["id"], str) for one in passages):
                raise InvalidTypeError("passages must be mappings with an id")
            vectors: Any = arrays.get("embeddings")
            settings: Any = body.get("settings", {})
            reembedded = body.get("reembedded") is True
            return cls(unpacked("removed", arrays), passages, vectors, dict(settings), reembedded)
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


@dataclass(frozen=True, slots=True)
class Keys:
    """Metadata keys of a corpus: of a passage's title, and of its document (None: the first usual key there is)."""

    title: str = "title"
    source: str | None = None

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> Keys:
        """Those in the settings of a folder."""
        source = settings.get("source_key")
        return cls(str(settings.get("title_key", "title")), None if source is None else str(source))

    def to_json(self) -> dict[str, object]:
        """As settings of a folder."""
        told: dict[str, object] = {"title_key": self.title}
        return told if self.source is None else {**told, "source_key": self.source}


def check_source_key(source_key: str | None, metadata: Collection[Mapping[str, Any]]) -> None:
    """Warn if no passage names its document under the key that the caller chose; an error for what is no key."""
    if source_key is not None and (not isinstance(source_key, str) or not source_key):
        raise InvalidTypeError(f"source_key must be the name of a metadata key; got {source_key!r:.80}")
    if source_key is None or any(source_key in one for one in metadata):
        return
    hint = nearest_key(source_key, metadata)
    warn(
        f"source_key {source_key!r} is in no passage's metadata, so that none names its document; {hint}", stacklevel=3
    )


def sample_corpus(embedder: Embedder | None) -> Corpus:
    """A corpus of one passage, to try a retriever's settings on before many are embedded."""
    return Corpus(GraphIndex.build([{"id": "sample", "text": "sample"}], embeddings=[[1.0]]), embedder)


class Folder:
    """Where a corpus is kept; one process at a time changes it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()  # wherever the process goes later
        self.last = self.pending = 0
        self._state_id: object = None
        self._settings: dict[str, object] | None = None

    @classmethod
    def create(cls, path: str | os.PathLike[str], index: GraphIndex, settings: Mapping[str, object]) -> Folder:
        """Write the index to a folder that is new or empty."""
        folder = cls(path)
        check_new(folder.path)
        try:
            make_folder(folder.path)
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

    @property
    def settings(self) -> dict[str, object]:
        """What the folder was made with, as it is since the last change."""
        if self._settings is None:
            self._settings = self._settings_in(self._state())
        return self._settings

    @staticmethod
    def _settings_in(state: Mapping[str, object]) -> dict[str, object]:
        settings = state.get("settings")
        if not isinstance(settings, dict):
            raise IntegrityError(f"{STATE}: settings must be a mapping; it is damaged")
        return settings

    @property
    def collection(self) -> str:
        """The name of the collection of its vectors."""
        return str(self.settings.get("collection") or VECTORS)

    def load(self) -> tuple[GraphIndex, frozenset[str]]:
        """The index with all changes, and the ids of passages that the store may not have as they are."""
        for _ in range(_MOST_LOADS):
            there = self._there()
            try:
                loaded = self._load()
                self._warn_of_strangers()
                return loaded
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
        state = self._state()
        applied, settings = _number(state.get("applied")), self._settings_in(state)
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
            index, self.last, self.pending = fresh, number, self.pending + change.size
            if number > applied:
                behind |= change.touched
                settings = {**settings, **change.settings}
        state = self._state()
        applied = _number(state.get("applied"))
        if self.last < applied:
            raise IntegrityError(
                f"changes: change {applied} is missing, the last one is {self.last}. Without it, passages that were "
                "deleted would be back: restore the whole folder from a backup"
            )
        self._state_id, self._settings = state.get("state_id"), settings
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
        self.last, self.pending = number, self.pending + change.size

    def withdraw(self, change: Change, *, doubtful: bool = False) -> None:
        """Take the last change back; where it is `doubtful` what the store has, what it touched is written anew later.

        That is when the folder is loaded: the change stays there under another name until then.
        """
        directory = self.path / "changes" / f"{self.last:08d}"
        if doubtful:
            directory.rename(directory.with_name(f"{_DOUBTFUL}{uuid.uuid4().hex}"))
            sync_folder(directory.parent)
        else:
            _forget(directory)
        self.last, self.pending = self.last - 1, self.pending - change.size

    def applied(self, settings: Mapping[str, object] = MappingProxyType({})) -> None:
        """Note that the store is in step with the last change."""
        self._write_state(self.last, {**self.settings, **settings})
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
        for number, directory in self._numbered():  # those that were begun and never complete, too
            if number <= self.last:
                _forget(directory)
        self.pending = 0
        return index

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the folder for a change; StoreError where another process does, or has changed or replaced it since."""
        with self.held():
            there = max((self._base(), *(number for number, _ in self._changes())))
            if there != self.last or self._state().get("state_id") != self._state_id:
                raise StoreError(
                    f"{self.path.name}: the folder is not in the state in which it was loaded: another process has "
                    "changed it, or it was restored or made anew; load it again"
                )
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
        return [(number, one) for number, one in self._numbered() if (one / MANIFEST).is_file()]

    def _numbered(self) -> list[tuple[int, Path]]:
        found = (self.path / "changes").glob("[0-9]*")
        return sorted((int(one.name), one) for one in found if _NUMBERED.fullmatch(one.name))

    def _warn_of_strangers(self) -> None:
        known = {one for _, one in self._numbered()} | set(self._doubtful())
        for one in sorted((self.path / "changes").glob(f"*/{MANIFEST}")):
            if one.parent not in known:
                warn(
                    f"{self.path.name}: changes/{one.parent.name} is not a change of this folder and is left out. A "
                    "sync service may have made it: compare it with the others, then delete it",
                    stacklevel=4,
                )

    def _base(self) -> int:
        """The last change in the index's bundle."""
        manifest = self.path / INSIDE / MANIFEST
        if not manifest.is_file():
            raise IntegrityError(f"{self.path.name}: {INSIDE}/{MANIFEST} is missing")
        content = read_document(manifest, INDEX, VERSION).get("content")
        return _number(content.get("change")) if isinstance(content, dict) else 0

    def _state(self) -> dict[str, object]:
        if not (self.path / STATE).is_file():
            check_exists(self.path)
            raise IntegrityError(
                f"{self.path.name!r} is no folder of a retriever: it has no {STATE} (delete it if "
                "its making was cut short)"
            )
        return read_document(self.path / STATE, KIND, VERSION)

    def _write_state(self, applied: int, settings: Mapping[str, object]) -> None:
        """Note the state of the folder under a new random id, which tells it from every other state and folder."""
        fresh = uuid.uuid4().hex
        state = {"applied": applied, "settings": dict(settings), "state_id": fresh}
        try:
            write_document(self.path / STATE, KIND, VERSION, state)
        except OSError:
            with suppress(IntegrityError):  # which of both is there: a write may fail after the file is in its place
                self._state_id = self._state().get("state_id")
            raise
        self._state_id, self._settings = fresh, dict(settings)


def _most_changed(index: GraphIndex) -> float:
    """Passages in changes up to which they are not many."""
    return min(max(FEWEST_CHANGED, MOST_CHANGED * len(index.records)), MOST_LOGGED)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _forget(directory: Path) -> None:
    """Remove a change; without its manifest it counts as not there."""
    (directory / MANIFEST).unlink(missing_ok=True)
    sync_folder(directory)
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


Part = Literal["graph", "lexical", "vector"]


@dataclass(frozen=True, slots=True, eq=False)
class CorpusState:
    """The passages of a corpus at one time, the walk over them, and their model and store: replaced together."""

    index: GraphIndex
    graph: GraphSource
    embedder: Embedder | None = None
    store: VectorStore | None = None


class Corpus:
    """Passages with their graph, words and vectors, which come and go together.

    `embedder`, from a query to its vector, is for an index with embeddings. Every change is kept in the `folder`;
    without, the corpus is in memory. A `store` is kept in step. `made_by` is the model that embedded the passages, if
    that is known and no folder says it; `checked` that the `embedder` is known to be the same. `keys` are the metadata
    keys of titles and documents, those of the folder unless given.

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
        made_by: ModelIdentity | None = None,
        checked: bool = False,
        keys: Keys | None = None,
    ) -> None:
        self._folder, self._checked = folder, checked
        self.keys = keys if keys is not None else Keys() if folder is None else Keys.of(folder.settings)
        self.tables: dict[Any, Any] = {}
        self._said: set[str] = set()
        self.made_by = made_by if folder is None else ModelIdentity.from_json(folder.settings.get("model")) or made_by
        self._changing = fork_safe_lock()
        self.state = CorpusState(index, _walk(index, embedder), embedder, store)

    def __reduce__(self) -> tuple[Any, ...]:
        state = self.state
        return _corpus_of, (
            state.index,
            state.embedder,
            self._folder,
            state.store,
            self.made_by,
            self._checked,
            self.keys,
        )

    @property
    def _store(self) -> VectorStore | None:
        return self.state.store

    @property
    def settings(self) -> Mapping[str, object]:
        """What its folder was made with; empty without a folder."""
        return {} if self._folder is None else self._folder.settings

    @property
    def index(self) -> GraphIndex:
        """Its passages, as they are now."""
        return self.state.index

    @property
    def graph(self) -> GraphSource:
        """Its passages by the walk."""
        return self.state.graph

    @property
    def lexical(self) -> LexicalSource:
        """Its passages by words."""
        found: LexicalSource = self.in_state(self.state, "lexical")
        return found

    @property
    def vector(self) -> VectorSource:
        """Its passages by cosine, those of a store that can be asked by its index."""
        found: VectorSource = self.in_state(self.state, "vector")
        return found

    def in_state(self, state: CorpusState, name: Part) -> Any:
        """A source over the passages of one state."""
        if name == "graph":
            return state.graph
        if name == "lexical":
            return LexicalSource(state.index.graph)
        nearest = getattr(state.store, "nearest", None)
        return VectorSource(state.index.graph, embedder=state.embedder, nearest=nearest)

    def __len__(self) -> int:
        return len(self.index.records)

    def __contains__(self, name: object) -> bool:
        return name in self.index.records

    def records(self, ids: Iterable[str]) -> dict[str, PassageRecord]:
        """The passages that there are of these ids."""
        records = self.index.records
        found = ((name, records.held.get(name) or records.get(name)) for name in ids)
        return {name: one for name, one in found if one is not None}

    def say_missing(self, names: Collection[str], records: Sequence[Any]) -> None:
        """Warn once of a key that a filter asks for and no passage has."""
        missing = set(names) - self._said
        for record in records:
            if not missing:
                return
            missing -= record.metadata.keys()
        for name in sorted(missing):
            self._said.add(name)
            hint = nearest_key(name, (one.metadata for one in records))
            warn(f"filter key {name!r} is in no passage; {hint}", stacklevel=2)

    def source(self, source: Part) -> LiveSource:
        """A source over the passages that there are at every search."""
        return LiveSource(self, source)

    def keep_in(self, store: VectorStore, behind: Collection[str] = ()) -> None:
        """Keep the vectors in a store: it gets the passages `behind` anew and those it lacks, and loses the others."""
        self.state, held = replace(self.state, store=store), self.index.records
        try:
            there, known = frozenset(store.ids()), frozenset(held)
            gone = sorted(there - known)
            wanted = [one for one in held if one in behind or one not in there]
            if gone:
                store.remove(gone)
            if wanted:
                self._write(store, self.index, wanted)
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
        self._check_vectors()
        came, leaving = tuple(passages), check_names("ids", ids)
        with self._changing:
            taken = [one["id"] for one in came if one["id"] in self.index.records]
            removed = tuple(dict.fromkeys([*leaving, *taken]))
            vectors = None if embeddings is None or not came else np.asarray(embeddings, dtype=np.float32)
            if not removed and not came:
                return
            change = Change(removed, came, vectors)
            fresh = change.made_in(self.index)
            if self._folder is None:
                self._follow(change, fresh)
                self._become(fresh)
                log = fresh.log  # every change goes through all of it
                if log is not None and len(log.gone) + len(log.came) + len(log.again) > _most_changed(fresh):
                    self._become(fresh.compact())
            else:
                with self._folder.changing():
                    self._folder.append(change)
                    try:
                        self._follow(change, fresh)
                    except BaseException as error:
                        self._folder.withdraw(change, doubtful=isinstance(error, _DoubtError))
                        raise
                    self._become(fresh)
                    self._note(self._folder, fresh)

    def check_model(self) -> None:
        """Refuse a change where the model is known to be another than the one that embedded the passages there are."""
        if self._checked:
            return
        state = self.state
        name = "the store" if self._folder is None else self._folder.path.name
        self._checked = check_model(state.index, self.made_by, state.embedder, name)
        if self._checked and isinstance(state.embedder, EmbeddingModel):
            self.made_by = state.embedder.identity

    def check_renewable(self) -> None:
        """Refuse to embed passages anew where the vectors are not the corpus's own: InvalidInputError."""
        self._check_vectors()
        if self.index.graph.view.embeddings is None:
            raise InvalidInputError("its passages have no vectors: make it of the documents, with an embedding model")
        if self._store is not None and not isinstance(self._store, RenewableStore):
            raise InvalidInputError(
                "its vectors are in a store of yours: make that anew with the other model, and the retriever over it"
            )

    def reembed(self, model: EmbeddingModel, vectors: Any) -> None:
        """Take vectors by another model, of all passages in their order; all or nothing.

        InvalidInputError where the vectors are in a store of the caller's, or do not fit; StoreError where the folder
        or its store refuses them.
        """
        with self._changing:
            state, folder = self.state, self._folder
            self.check_renewable()
            if len(vectors) != len(state.index.records):
                raise StoreError("passages came or went while all were embedded anew; nothing was changed: try again")
            change = Change((), (), np.asarray(vectors, dtype=np.float32), {"model": model.identity.to_json()}, True)
            fresh = change.made_in(state.index)
            if folder is None:
                self._take(fresh, model, None)
                return
            with folder.changing():
                old, store = state.store, None
                if isinstance(old, RenewableStore):
                    store = old.beside(f"{VECTORS}-{folder.last + 1}")
                    change = replace(change, settings={**change.settings, "collection": store.name})
                try:
                    if store is not None:
                        self._write(store, fresh, list(fresh.records))
                    folder.append(change)
                except BaseException as error:
                    if store is not None:
                        with suppress(Exception):  # it is forgotten when the folder is loaded
                            store.drop()
                    if isinstance(error, StoreError) or not isinstance(error, Exception):
                        raise
                    raise StoreError(
                        "the vector store refused the new vectors; nothing was changed. "
                        f"{type(error).__name__}: {error}"
                    ) from error
                self._take(fresh, model, store)
                self._note(folder, fresh, change.settings)

    def _take(self, fresh: GraphIndex, model: EmbeddingModel, store: VectorStore | None) -> None:
        self.made_by, self._checked = model.identity, True
        self.state = CorpusState(fresh, _walk(fresh, model), model, store)

    def _note(self, folder: Folder, fresh: GraphIndex, settings: Mapping[str, object] = MappingProxyType({})) -> None:
        """Note that a change is made, and take changes into the index where they have become many."""
        try:
            known = {} if self.made_by is None else {"model": self.made_by.to_json()}
            folder.applied({**known, **settings})
            merged = folder.compact(fresh)
            if merged is not fresh:
                self._become(merged)
        except OSError as error:
            warn(
                f"{folder.path.name}: the change is made and kept, but changes could not be taken "
                f"into the index, which is tried again with the next: {error}",
                cause=error,
                stacklevel=4,
            )

    def _become(self, index: GraphIndex) -> None:
        self.state = replace(self.state, index=index, graph=_walk(index, self.state.embedder))

    def save(self, path: str | os.PathLike[str], settings: Mapping[str, object]) -> Folder:
        """Write the corpus to a folder that is new or empty."""
        known = {} if self.made_by is None else {"model": self.made_by.to_json()}
        return Folder.create(path, self.index, {**known, **self.keys.to_json(), **settings})

    def _check_vectors(self) -> None:
        if self._folder is not None and self._store is None and self._folder.settings.get("vectors"):
            raise InvalidInputError(
                f"{self._folder.path.name!r} keeps vectors, too: change it with a retriever that has them, not this one"
            )

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
    index: GraphIndex,
    embedder: Embedder | None,
    folder: Folder | None,
    store: VectorStore | None,
    made_by: ModelIdentity | None,
    checked: bool,
    keys: Keys,
) -> Corpus:
    return Corpus(index, embedder, folder=folder, store=store, made_by=made_by, checked=checked, keys=keys)


def _walk(index: GraphIndex, embedder: Embedder | None) -> GraphSource:
    return GraphSource(index.graph, embedder=embedder if index.graph.view.embeddings is not None else None).prepare()


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

    def within(
        self,
        source: Any,
        key: Hashable,
        passes: Callable[[Sequence[Any]], Iterable[int]],
        names: Collection[str] = (),
    ) -> Any:
        """A source within the passages that a filter lets through; one over the corpus searches them as they are now.

        `key` tells filters apart; ``passes(records)`` gives the rows of those that it lets through; `names` are the
        metadata keys that it asks for: one that no passage has is said once. Passages that change meanwhile change
        neither what passes nor what is searched.
        """
        state = self.corpus.state
        if isinstance(source, LiveSource) and source.corpus is self.corpus:
            source = self.corpus.in_state(state, source.name)
        return source.within(self._matching_in(state.index, key, passes, names))

    def _matching_in(
        self,
        index: GraphIndex,
        key: Hashable,
        passes: Callable[[Sequence[Any]], Iterable[int]],
        names: Collection[str],
    ) -> frozenset[str]:
        """Ids of the passages that a filter lets through, worked out once for all sources over the corpus."""

        def made() -> tuple[Any, frozenset[str]]:
            records = list(index.records.values())
            self.corpus.say_missing(names, records)
            return index, frozenset(records[row].id for row in passes(records))

        with self._turn:
            of, ids = self._matching.get(key, made)
            if of is not index:
                self._matching.forget(key)
                _, ids = self._matching.get(key, made)
        found: frozenset[str] = ids
        return found
