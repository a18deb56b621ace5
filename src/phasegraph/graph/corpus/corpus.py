"""A corpus that changes: graph, words and vectors of the same passages, in memory or in a folder.

A folder holds the index with its vectors as a bundle (``graph``), and the changes since as one small bundle each
(``changes``). A change is made when its bundle is complete. A folder may hold a second copy of the vectors in Chroma
(``vectors``): that store follows the index, and is brought in step when the folder is opened after a crash.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any, Literal, Protocol, cast, get_args, runtime_checkable

import numpy as np

from phasegraph._support.apart import run_apart
from phasegraph._support.background import Background
from phasegraph._support.files import LOCK, make_folder, one_writer, sync_folder
from phasegraph._support.recent import Recent
from phasegraph._support.renamed import renamed_sources, warn_of_old_name
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
from phasegraph._support.shared import fork_safe_lock, of_call
from phasegraph._support.typing import Float32Array
from phasegraph._support.validation import check_choice, check_names
from phasegraph.embedding.identity import EmbeddingModel, ModelIdentity
from phasegraph.errors import (
    IntegrityError,
    InvalidInputError,
    InvalidTypeError,
    PhasegraphError,
    StoreError,
    warn,
)
from phasegraph.graph.chunk_graph import KIND as CHUNKS
from phasegraph.graph.chunk_graph import ChunkGraph
from phasegraph.graph.corpus.document_table import DocumentTable
from phasegraph.graph.corpus.embedded import check_model
from phasegraph.graph.corpus.reembedding import Embed, VectorCheckpoint
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
FLAT, CHROMA = STORES = ("flat", "chroma")
"""Where the vectors of a folder are searched: in its index, all compared; or in a Chroma collection beside it."""
STORE_KEY = "vector_store"
_FOLDER_ID, _VECTORS_ID = "folder_id", "vectors_id"
"""Settings that tell a folder, and the vectors of its model, from others."""
_DOUBTFUL, _NUMBERED = "withdrawn-", re.compile(r"[0-9]{8,18}")
_MERGING = ".merging"
"""The lock of the one process that merges the changes of a folder."""
MOST_CHANGED = 0.05
"""Passages in changes, as a share of the corpus, after which they are taken into the index's bundle."""
FEWEST_CHANGED, MOST_LOGGED = 1000, 10_000
"""So many are never too many, or always."""
OPENING = 600.0
"""Seconds for which one who opens a folder waits until another's change of it is made."""
CHANGING = 10.0
"""Seconds for which a change waits for another's, or for the moment in which a merge is taken over."""
MERGING = 3600.0
"""Seconds after which a merge is given up; the changes stay beside the index then."""
LOOKING, IDLE, AWAITED = 1.0, 5.0, 0.5
"""Seconds between looks at whether another process has changed a folder that is searched; seconds without a search
after which one waits for the new version, and for how long at most."""
_MOST_LOADS = 1000


class _DoubtError(StoreError):
    """The contents of a vector store are unknown."""


class VectorStore(Protocol):
    """A framework's store for the vectors of passages."""

    def write(self, records: Sequence[PassageRecord], vectors: Any, /) -> None:
        """Write passages, and replace passages with the same ids; `vectors` is None if the index has no vectors."""
        ...

    def remove(self, ids: Sequence[str], /) -> None:
        """Delete passages; unknown ids are ignored."""
        ...

    def ids(self) -> Collection[str]:
        """Return the ids of all passages in the store."""
        ...


@runtime_checkable
class RenewableStore(VectorStore, Protocol):
    """A vector store that can be rebuilt under another name at the same place."""

    name: str

    def reopened(self, name: str, /) -> RenewableStore:
        """Open the store with this name, as another process left it."""
        ...

    def beside(self, name: str, /) -> RenewableStore:
        """Create an empty store with this name at the same place."""
        ...

    def drop(self) -> None:
        """Delete the store."""
        ...


@dataclass(frozen=True)
class Change:
    """A change of a corpus: first remove passages, then add passages, with their extractions under ``given``.

    `settings` are the settings of the folder that change, too. `reembedded` says that `embeddings` are new vectors of
    all passages by another model.
    """

    removed: tuple[str, ...]
    passages: tuple[Mapping[str, Any], ...] = ()
    embeddings: Float32Array | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    reembedded: bool = False

    @property
    def size(self) -> int:
        """Number of passages in the change."""
        return len(self.touched) if self.embeddings is None or not self.reembedded else len(self.embeddings)

    @property
    def touched(self) -> frozenset[str]:
        """Ids of all passages in the change."""
        return frozenset(self.removed) | {one["id"] for one in self.passages}

    def made_in(self, index: GraphIndex) -> GraphIndex:
        """Return the index after the change."""
        if self.reembedded:
            return index.reembedded(self.embeddings)
        given = [Extraction(one["id"], *parts) for one in self.passages for parts in one.get("given", ())]
        return index.replace(self.removed, self.passages or None, triples=given, embeddings=self.embeddings)

    def write(self, directory: Path) -> None:
        """Write the change to a directory, in one step."""
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
        """Read a change that :meth:`write` wrote."""
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


def joined(changes: Sequence[Change]) -> list[Change]:
    """Combine consecutive changes into fewer changes with the same effect; a re-embedding stays separate.

    >>> first = Change((), ({"id": "a", "text": "Ada"}, {"id": "b", "text": "Bo"}))
    >>> joined([first, Change(("a", "c"), ({"id": "c", "text": "Cy"},))])
    [Change(removed=('c',), passages=({'id': 'b', 'text': 'Bo'}, {'id': 'c', 'text': 'Cy'}), embeddings=None, \
settings={}, reembedded=False)]
    """
    out: list[Change] = []
    run: list[Change] = []
    for one in changes:
        if one.reembedded:
            out += [*_as_one(run), one]
            run = []
        else:
            run.append(one)
    return [*out, *_as_one(run)]


def _as_one(changes: Sequence[Change]) -> list[Change]:
    """Combine changes without a re-embedding into one change, or into none."""
    if len(changes) < 2:
        return list(changes)
    removed: dict[str, None] = {}
    came: dict[str, tuple[Mapping[str, Any], Any]] = {}
    settings: dict[str, object] = {}
    for change in changes:
        for name in change.removed:
            if came.pop(name, None) is None:
                removed[name] = None
        vectors = itertools.repeat(None) if change.embeddings is None else change.embeddings
        came |= {one["id"]: (one, vector) for one, vector in zip(change.passages, vectors, strict=False)}
        settings |= change.settings
    rows = [vector for _, vector in came.values()]
    embeddings = np.array(rows, dtype=np.float32) if rows and rows[0] is not None else None
    return [Change(tuple(removed), tuple(one for one, _ in came.values()), embeddings, settings)]


def fields_of(given: Triples | None, known: Mapping[str, object]) -> dict[str, list[list[Any]]]:
    """Convert extractions to lists of fields by passage: entities, triples, titles, lead.

    `known` contains the existing ids; InvalidInputError for an unknown id.

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
    """Raise an error for passages that a corpus cannot contain, or that a folder cannot store if it is `kept` there.

    The error names the passage. Passages must have a text and a unique id, and JSON must be able to represent their
    metadata.
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
    """The metadata keys of a corpus: for the title of a passage, and for its document (None: the first usual key)."""

    title: str = "title"
    source: str | None = None

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> Keys:
        """Read the keys from the settings of a folder."""
        source = settings.get("source_key")
        return cls(str(settings.get("title_key", "title")), None if source is None else str(source))

    def to_json(self) -> dict[str, object]:
        """Convert the keys to settings of a folder."""
        told: dict[str, object] = {"title_key": self.title}
        return told if self.source is None else {**told, "source_key": self.source}


def check_source_key(source_key: str | None, metadata: Collection[Mapping[str, Any]]) -> None:
    """Warn if no passage names its document under the chosen key; an error if the key is not a text."""
    if source_key is not None and (not isinstance(source_key, str) or not source_key):
        raise InvalidTypeError(f"source_key must be the name of a metadata key; got {source_key!r:.80}")
    if source_key is None or any(source_key in one for one in metadata):
        return
    hint = nearest_key(source_key, metadata)
    warn(
        f"source_key {source_key!r} is in no passage's metadata, so no passage names its document; {hint}", stacklevel=3
    )


def sample_corpus(embedder: Embedder | None) -> Corpus:
    """Create a corpus with one passage, to check a retriever's settings before many passages are embedded."""
    return Corpus(GraphIndex.build([{"id": "sample", "text": "sample"}], embeddings=[[1.0]]), embedder)


@dataclass(frozen=True, slots=True)
class Version:
    """Identifies the contents of a folder: digests of its index and its last change, and its state id."""

    base: str
    last: int
    change: str
    state_id: object


class Folder:
    """The folder of a corpus; one process at a time changes it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()  # wherever the process goes later
        self.last = self.pending = 0
        self._version: Version | None = None
        self._stamps: tuple[object, object] = (None, None)
        self._settings: dict[str, object] | None = None

    @classmethod
    def create(cls, path: str | os.PathLike[str], index: GraphIndex, settings: Mapping[str, object]) -> Folder:
        """Write the index to a new or empty folder."""
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
                folder._version = Version(folder._digest(INSIDE), 0, "", None)
                folder._stamps = folder._stamps_now()
                folder._write_state(0, {_FOLDER_ID: uuid.uuid4().hex, **settings})
            except BaseException as error:
                (folder.path / STATE).unlink(missing_ok=True)
                shutil.rmtree(folder.path / INSIDE, ignore_errors=True)
                if isinstance(error, OSError):
                    raise StoreError(f"{folder.path.name}: the folder could not be written: {error}") from error
                raise
        return folder

    @property
    def settings(self) -> dict[str, object]:
        """The settings of the folder, as of its last change."""
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
    def vector_store(self) -> str:
        """The kind of index that searches the vectors; empty if there are no vectors.

        Older versions supported only Chroma.
        """
        return str(self.settings.get(STORE_KEY, CHROMA)) if self.settings.get("vectors") else ""

    @property
    def collection(self) -> str:
        """The name of the Chroma collection with the vectors."""
        return str(self.settings.get("collection") or VECTORS)

    def load(self, known: GraphIndex | None = None, *, upto: int | None = None) -> tuple[GraphIndex, frozenset[str]]:
        """Read the index with all changes.

        Parameters
        ----------
        known : GraphIndex, optional
            The index of the last read or change of this folder. If possible, only newer changes are read.
        upto : int, optional
            The number of the last change to read.

        Returns
        -------
        index : GraphIndex
        behind : frozenset of str
            Ids of passages that the vector store may lack or hold in an old version.
        """
        for _ in range(_MOST_LOADS):
            there = self._there()
            try:
                loaded = self._load(known, upto)
                self._warn_of_strangers()
                return loaded
            except (IntegrityError, OSError):
                if self._there() == there:
                    raise  # else another process made, withdrew or merged changes: what was read may be gone
        raise StoreError(
            f"{self.path.name}: the folder changed at every attempt to read it; load it when its writers are done"
        )

    def reread(self, known: GraphIndex, embedder: object) -> tuple[Folder, GraphIndex, frozenset[str]]:
        """Read the folder's present state, and return a new folder object with the result of :meth:`load`.

        StoreError if the path now contains another folder. StoreError also if the passages were embedded again and an
        `embedder` is given, because its vectors would not fit.
        """
        fresh = copy.copy(self)
        index, behind = fresh.load(known)
        if fresh.settings.get(_VECTORS_ID) != self.settings.get(_VECTORS_ID) and embedder is not None:
            made_by = ModelIdentity.from_json(fresh.settings.get("model"))
            raise StoreError(
                f"{self.path.name}: its passages were embedded again with "
                f"{'another model' if made_by is None else made_by.name}: load it with that model"
            )
        if fresh.settings.get(_FOLDER_ID) != self.settings.get(_FOLDER_ID):
            raise StoreError(f"{self.path.name}: another folder is now at this path; load it again")
        return fresh, index, behind

    def _there(self) -> tuple[object, ...]:
        """Return a value that changes with every state of the folder."""
        return self._base(), self._changes(), self._doubtful(), self._state().get("applied")

    def _load(self, known: GraphIndex | None, upto: int | None) -> tuple[GraphIndex, frozenset[str]]:
        stamps, state = self._stamps_now(), self._state()
        applied, settings = _number(state.get("applied")), self._settings_in(state)
        base, digest = self._base(), self._digest(INSIDE)
        if known is not None and self._goes_on(digest):
            index, last, pending = known, self.last, self.pending
        else:
            index, last, pending = GraphIndex.load(self.path / INSIDE), base, 0
        if self._digest(INSIDE) != digest:
            raise IntegrityError("the index was replaced while it was read")
        behind = frozenset(name for one in self._doubtful() for name in Change.read(one).touched)
        since: list[Change] = []
        first = last + 1
        for number, directory in self._changes():
            if number <= last or (upto is not None and number > upto):
                continue
            if number != last + 1:
                raise IntegrityError(f"changes: change {last + 1} is missing; {number} follows")
            change = Change.read(directory)
            since.append(change)
            last, pending = number, pending + change.size
            if number > applied:
                behind |= change.touched
                settings = {**settings, **change.settings}
        for change in joined(since):
            try:
                index = change.made_in(index)
            except MISFITS as error:
                raise IntegrityError(f"changes: changes {first} to {last} do not fit the index: {error}") from error
        state = self._state()
        applied = _number(state.get("applied"))
        if last < applied and upto is None:
            raise IntegrityError(
                f"changes: change {applied} is missing, the last one is {last}. Without it, passages that were "
                "deleted would be back: restore the whole folder from a backup"
            )
        self.last, self.pending, self._settings, self._stamps = last, pending, settings, stamps
        self._version = Version(digest, last, self._change_digest(last), state.get("state_id"))
        return index, behind

    def _goes_on(self, digest: str) -> bool:
        """Whether the folder still begins with the index and changes that were read or written last."""
        seen = self._version
        return seen is not None and seen.base == digest and seen.change == self._change_digest(seen.last)

    def _digest(self, bundle: str) -> str:
        """Return a digest of a bundle's contents; "" if the bundle does not exist."""
        try:
            return hashlib.sha256((self.path / bundle / MANIFEST).read_bytes()).hexdigest()
        except FileNotFoundError:
            return ""

    def _change_digest(self, number: int) -> str:
        return self._digest(f"changes/{number:08d}")

    def _stamps_now(self) -> tuple[object, object]:
        """Return the system's data about the files that every change and every merge replaces."""
        found: list[object] = []
        for file in (self.path / STATE, self.path / INSIDE / MANIFEST):
            try:
                about = file.stat()
                found.append((about.st_ino, about.st_size, about.st_mtime_ns))
            except OSError:
                found.append(None)
        return found[0], found[1]

    def moved(self) -> bool:
        """Whether another process may have changed or merged the folder since the last read; takes two system calls."""
        return self._stamps != self._stamps_now()

    @property
    def content(self) -> tuple[int, object]:
        """Return a value that identifies the passages of the last read or change; a merge does not change it."""
        return self.last, None if self._version is None else self._version.state_id

    def outdated(self) -> bool:
        """Whether another process has changed, restored or replaced the folder; the caller holds the lock."""
        seen = self._version
        there = max((self._base(), *(number for number, _ in self._changes())))
        return seen is None or there != self.last or self._state().get("state_id") != seen.state_id

    def append(self, change: Change) -> None:
        """Store a change."""
        number = self.last + 1
        directory = self.path / "changes" / f"{number:08d}"
        try:
            change.write(directory)
        except OSError as error:
            shutil.rmtree(directory, ignore_errors=True)
            raise StoreError(
                f"{self.path.name}: the folder refused the change; nothing was changed. {error}"
            ) from error
        self._note_change(number, change.size)

    def _note_change(self, number: int, size: int) -> None:
        self.last, self.pending = number, self.pending + size
        if self._version is not None:
            self._version = replace(self._version, last=number, change=self._change_digest(number))

    def withdraw(self, change: Change, *, doubtful: bool = False) -> None:
        """Undo the last change; if the store may be `doubtful`, its passages are written again at the next load.

        Until that load, the change stays in the folder under another name.
        """
        directory = self.path / "changes" / f"{self.last:08d}"
        if doubtful:
            directory.rename(directory.with_name(f"{_DOUBTFUL}{uuid.uuid4().hex}"))
            sync_folder(directory.parent)
        else:
            _forget(directory)
        self._note_change(self.last - 1, -change.size)

    def applied(self, settings: Mapping[str, object] = MappingProxyType({})) -> None:
        """Record that the store contains the last change."""
        self._write_state(self.last, {**self.settings, **settings})
        for directory in self._doubtful():
            _forget(directory)

    def _doubtful(self) -> list[Path]:
        """Return changes that were undone but may still be in the store."""
        return [one for one in (self.path / "changes").glob(f"{_DOUBTFUL}*") if (one / MANIFEST).is_file()]

    def merge(self, upto: int) -> None:
        """Merge the changes up to a number into the bundle of the index, which takes as long as writing the index.

        Other processes can change the folder during a merge, except while the new index replaces the old one.
        StoreError if another process is merging, or if the folder was replaced meanwhile.
        """
        with self.held(patience=0.0, name=_MERGING):
            index, _ = self.load(upto=upto)
            if self.last > self._base():
                table = DocumentTable.beside(self.path / INSIDE)
                index.save(self.path / INSIDE, change=self.last, committing=self._as_read())
                file = GraphIndex.load(self.path / INSIDE).records.file
                if table is not None and file is not None:
                    table.keep(file, table.of(index).values())
            for number, directory in self._numbered():  # those that were begun and never complete, too
                if number <= self.last:
                    _forget(directory)

    @contextmanager
    def _as_read(self) -> Iterator[None]:
        """Lock the folder while its index and first changes are still as they were read."""
        seen = self._version
        with self.held(patience=OPENING):
            if seen is None or not self._goes_on(self._digest(INSIDE)):
                raise StoreError(f"{self.path.name}: the folder was restored or made anew while it was merged")
            yield

    @contextmanager
    def held(self, *, patience: float = 0.0, name: str = LOCK) -> Iterator[None]:
        """Lock the folder, so that no other process changes it; StoreError if the lock takes longer than `patience`.

        `patience` is in seconds; the error message contains it.
        """
        with ExitStack() as stack:
            with _translated(self.path.name):
                stack.enter_context(one_writer(self.path, patience=patience, name=name))
            yield

    def _changes(self) -> list[tuple[int, Path]]:
        """Return the complete changes by number; incomplete changes are left out."""
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
        """Return the number of the last change in the index's bundle."""
        manifest = self.path / INSIDE / MANIFEST
        if not manifest.is_file():
            raise IntegrityError(f"{self.path.name}: {INSIDE}/{MANIFEST} is missing")
        content = read_document(manifest, INDEX, VERSION).get("content")
        return _number(content.get("change")) if isinstance(content, dict) else 0

    def _state(self) -> dict[str, object]:
        if not (self.path / STATE).is_file():
            check_exists(self.path)
            raise IntegrityError(
                f"{self.path.name!r} is not a folder of a retriever: it has no {STATE} (if its "
                "creation was interrupted, delete it)"
            )
        return read_document(self.path / STATE, KIND, VERSION)

    def _write_state(self, applied: int, settings: Mapping[str, object]) -> None:
        """Write the state of the folder with a new random id that identifies this state."""
        fresh = uuid.uuid4().hex
        state = {"applied": applied, "settings": dict(settings), "state_id": fresh}
        try:
            write_document(self.path / STATE, KIND, VERSION, state)
        except OSError:
            with suppress(IntegrityError):  # which of both is there: a write may fail after the file is in its place
                self._note_state(self._state().get("state_id"))
            raise
        self._note_state(fresh)
        self._settings = dict(settings)

    def _note_state(self, state_id: object) -> None:
        self._stamps = self._stamps_now()[0], self._stamps[1]
        if self._version is not None:
            self._version = replace(self._version, state_id=state_id)


def _most_changed(index: GraphIndex) -> float:
    """Return the number of changed passages from which a merge is worthwhile."""
    return min(max(FEWEST_CHANGED, MOST_CHANGED * len(index.records)), MOST_LOGGED)


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """Convert an error of the operating system to an error that names the folder."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{name}: the folder cannot be written to: {error}") from error


def merge_folder(path: str, upto: str) -> None:
    """Run :meth:`Folder.merge` in a separate process."""
    Folder(path).merge(int(upto))


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _forget(directory: Path) -> None:
    """Delete a change; without a manifest, a change counts as absent."""
    (directory / MANIFEST).unlink(missing_ok=True)
    sync_folder(directory)
    shutil.rmtree(directory)


def check_new(path: Path) -> None:
    """Raise InvalidInputError if a folder is not empty."""
    if path.is_dir() and any(one.name != LOCK for one in path.iterdir()):
        raise InvalidInputError(
            f"path must be a folder that is new or empty; {str(path)!r} holds files (load() opens one that was made)"
        )


class FollowedIndex:
    """The index in a folder (see :func:`opened`), which is read again when another process has changed it.

    `embedder` is the model of the queries, if there is one. An index with vectors of another model is not loaded.
    """

    def __init__(self, folder: Path, embedder: object = None) -> None:
        self._embedder = embedder
        self._folder = Folder(folder) if (folder / STATE).is_file() else None
        self._places = (folder, folder / INSIDE)
        self._stamp = self._stamp_now()
        self.index = opened(folder) if self._folder is None else self._folder.load()[0]

    def _stamp_now(self) -> list[object]:
        found = [one / MANIFEST for one in self._places]
        return [(about.st_ino, about.st_mtime_ns) for about in (one.stat() for one in found if one.is_file())]

    def refresh(self) -> bool:
        """Read changes of other processes, and return whether there were any; on an error, the old index stays."""
        before = self.index
        if self._folder is None:
            stamp = self._stamp_now()
            if stamp == self._stamp:
                return False
            self.index, self._stamp = opened(self._places[0]), stamp
        elif self._folder.moved() and isinstance(before, GraphIndex):
            self._folder, self.index, _ = self._folder.reread(before, self._embedder)
        return self.index is not before


def opened(folder: Path) -> GraphIndex | ChunkGraph:
    """Read the index in a folder, or in the folder of a saved retriever, with all changes.

    InvalidInputError if the folder has no index, or the index is damaged or was saved without its passages.
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
        f"{folder}: no index here, nor in its folder {INSIDE!r}; phasegraph index CORPUS.jsonl --out FOLDER "
        "makes an index"
    )


Part = Literal["graph", "bm25", "vector"]
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True, slots=True, eq=False)
class CorpusState:
    """The passages of a corpus at one time, with their walk, model and store; all are replaced together."""

    index: GraphIndex
    graph: GraphSource
    embedder: Embedder | None = None
    store: VectorStore | None = None
    version: int = 0
    """Counts the changes of the passages; merging is none."""


class Corpus:
    """A changeable set of passages with their graph, words and vectors.

    `embedder` maps a query to its vector, for an index with embeddings. Every change is stored in the `folder`; without
    a folder, the corpus is in memory. A `store` receives every change. `made_by` is the model that embedded the
    passages, if it is known and not stored in the folder. `checked` says that `embedder` is known to be the same model.
    `keys` are the metadata keys of titles and documents; by default, those of the folder. `embed_clauses` is the option
    of :class:`~phasegraph.graph.GraphSource`; :meth:`compare_clauses` sets it later.

    After any changes, graph and words equal, to the bit, those of a corpus that is built from the same passages in the
    order of their addition. A change is all or nothing: if the store refuses it, the old state is restored.
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
        embed_clauses: bool = False,
    ) -> None:
        self._folder, self._checked, self._embed_clauses = folder, checked, embed_clauses
        self.keys = keys if keys is not None else Keys() if folder is None else Keys.of(folder.settings)
        self.tables: dict[str | None, DocumentTable] = {}
        self._said: set[str] = set()
        self.made_by = made_by if folder is None else ModelIdentity.from_json(folder.settings.get("model")) or made_by
        self._changing = fork_safe_lock()
        self._merging, self._looking = Background("merge"), Background("look")
        self._next_look = self._tried = 0.0
        self._refused: object = None
        self._since: list[Change] | None = None
        self.state = CorpusState(index, self._walk(index, embedder), embedder, store)

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
            self._embed_clauses,
        )

    def _walk(self, index: GraphIndex, embedder: Embedder | None) -> GraphSource:
        embeds = embedder if index.graph.view.embeddings is not None else None
        return GraphSource(index.graph, embedder=embeds, embed_clauses=self._embed_clauses).prepare()

    def compare_clauses(self) -> None:
        """Have the walk embed the clauses of each question.

        Raises
        ------
        InvalidInputError
            If the passages have no embeddings, or no embedding model is given.
        """
        if self.state.graph.embedder is None:
            raise InvalidInputError(
                "embed_clauses=True needs passages with embeddings, and the model of these embeddings"
            )
        self._embed_clauses = True
        self.state = replace(self.state, graph=replace(self.state.graph, embed_clauses=True))

    @property
    def _store(self) -> VectorStore | None:
        return self.state.store

    @property
    def settings(self) -> Mapping[str, object]:
        """The settings of the folder; empty without a folder."""
        return {} if self._folder is None else self._folder.settings

    @property
    def seen(self) -> CorpusState:
        """The current state; all sources within one call of a retriever see the same state."""
        return of_call(self, self.state)

    @property
    def index(self) -> GraphIndex:
        """The index of the current passages."""
        return self.state.index

    @property
    def graph(self) -> GraphSource:
        """The source that walks the graph."""
        return self.state.graph

    @property
    def bm25(self) -> LexicalSource:
        """The source that ranks passages by BM25."""
        found: LexicalSource = self.in_state(self.state, "bm25")
        return found

    @property
    def lexical(self) -> LexicalSource:
        """The source that ranks passages by BM25, under its old name; see :attr:`bm25`."""
        warn_of_old_name("Corpus.lexical", "Corpus.bm25")
        return self.bm25

    @property
    def vector(self) -> VectorSource:
        """The source that ranks passages by vectors; if possible, the index of the store searches them."""
        found: VectorSource = self.in_state(self.state, "vector")
        return found

    def in_state(self, state: CorpusState, name: Part) -> Any:
        """Return a source over the passages of one state."""
        if name == "graph":
            return state.graph
        if name == "bm25":
            return LexicalSource(state.index.graph)
        nearest = getattr(state.store, "nearest", None)
        return VectorSource(state.index.graph, embedder=state.embedder, nearest=nearest)

    def __len__(self) -> int:
        return len(self.index.records)

    def __contains__(self, name: object) -> bool:
        return name in self.index.records

    def records(self, ids: Iterable[str]) -> dict[str, PassageRecord]:
        """Return the records of these passages; unknown ids are left out."""
        records = self.seen.index.records
        found = ((name, records.held.get(name) or records.get(name)) for name in ids)
        return {name: one for name, one in found if one is not None}

    def say_missing(self, names: Collection[str], records: Sequence[Any]) -> None:
        """Warn once about each key that a filter reads and no passage has."""
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
        """Return a source (``graph``, ``bm25`` or ``vector``) that follows all changes of the corpus."""
        source = cast("Part", renamed_sources([source], PARTS).get(source, source))
        check_choice("the source of a corpus", source, PARTS)
        return LiveSource(self, source)

    def keep_in(self, store: VectorStore, behind: Collection[str] = ()) -> None:
        """Use a store for the vectors: write missing passages and those in `behind`, and delete all others."""
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
                "the vector store could not be brought in step with the passages; the folder holds all data: load "
                f"it again when the store works. {type(error).__name__}: {error}"
            ) from error

    def check(self, passages: Sequence[Mapping[str, Any]]) -> None:
        """Raise the errors of :meth:`replace` before passages are embedded."""
        if passages:
            check_passages(passages, kept=self._folder is not None)

    def replace(
        self,
        ids: Iterable[str],
        passages: Iterable[Mapping[str, Any]] = (),
        embeddings: Any = None,
        *,
        planned: CorpusState | None = None,
    ) -> None:
        """Delete passages and add others, in one step.

        A new passage has ``id``, ``title``, ``text``, ``metadata`` and optionally ``given`` (see :func:`fields_of`). It
        replaces a passage with the same id. `embeddings` are the vectors of the new passages, for an index with
        embeddings. On an error, nothing is changed. InvalidInputError if an id to delete is unknown, and for the
        reasons of :meth:`GraphIndex.add`. StoreError if the store refuses the change, another process holds the folder,
        or passages changed since the `planned` state.
        """
        self._check_vectors()
        came, leaving = tuple(passages), check_names("ids", ids)
        vectors = None if embeddings is None or not came else np.asarray(embeddings, dtype=np.float32)
        with self._changing, self._held() as folder:
            index = self.index
            if planned is not None and planned.version != self.state.version:
                raise StoreError(
                    "passages were added or deleted while this change was prepared; nothing was changed: try again"
                )
            taken = [one["id"] for one in came if one["id"] in index.records]
            removed = tuple(dict.fromkeys([*leaving, *taken]))
            if not removed and not came:
                return
            change = Change(removed, came, vectors)
            fresh = change.made_in(index)
            if folder is None:
                self._follow(change, fresh)
                self._become(fresh)
                if self._since is not None:
                    self._since.append(change)
                self._merge_log()
                return
            folder.append(change)
            try:
                self._follow(change, fresh)
            except BaseException as error:
                folder.withdraw(change, doubtful=isinstance(error, _DoubtError))
                raise
            self._become(fresh)
            self._note(folder)

    @contextmanager
    def _held(self) -> Iterator[Folder | None]:
        """Lock the folder, if there is one; StoreError if another process holds the lock too long."""
        if self._folder is None:
            yield None
            return
        with self._folder.held(patience=CHANGING):
            if self._folder.outdated():
                self._take_over(self._folder)
            yield self._folder

    def check_model(self) -> None:
        """Refuse a change if the model is known to differ from the model that embedded the stored passages."""
        if self._checked:
            return
        state = self.state
        name = "the store" if self._folder is None else self._folder.path.name
        self._checked = check_model(state.index, self.made_by, state.embedder, name)
        if self._checked and isinstance(state.embedder, EmbeddingModel):
            self.made_by = state.embedder.identity

    def check_renewable(self) -> None:
        """Raise InvalidInputError if the corpus does not own its vectors and cannot embed its passages again."""
        self._check_vectors()
        if self.index.graph.view.embeddings is None:
            raise InvalidInputError(
                "the passages have no vectors: make the retriever from documents with an embedding model"
            )
        if self._store is not None and not isinstance(self._store, RenewableStore):
            raise InvalidInputError(
                "the vectors are in your own store: rebuild the store with the other model, then the retriever over it"
            )

    def embed_anew(self, model: EmbeddingModel, embed: Embed, progress: bool | None) -> None:
        """Raise InvalidInputError if the corpus cannot embed its passages again, because a caller owns the vectors.

        A folder keeps vectors that were computed before a crash, by the contents of the passages. The next call with
        the same model continues with these vectors.
        """
        self.check_renewable()
        state, folder = self.state, self._folder
        kept = VectorCheckpoint(None if folder is None else folder.path, model.identity)
        self.reembed(model, kept.embed(list(state.index.records.values()), embed, progress), planned=state)
        kept.forget()

    def reembed(self, model: EmbeddingModel, vectors: Any, *, planned: CorpusState | None = None) -> None:
        """Replace the vectors of all passages, in order, by those of another model; all or nothing.

        InvalidInputError if the vectors are in the caller's store or do not fit. StoreError if the folder or its store
        refuses the vectors, or if passages were added or deleted since the `planned` state.
        """
        with self._changing, self._held() as folder:
            state = self.state
            self.check_renewable()
            moved = planned is not None and planned.version != state.version
            if moved or len(vectors) != len(state.index.records):
                raise StoreError(
                    "passages were added or deleted while all were embedded again; nothing was changed: try again"
                )
            settings: dict[str, object] = {"model": model.identity.to_json(), _VECTORS_ID: uuid.uuid4().hex}
            change = Change((), (), np.asarray(vectors, dtype=np.float32), settings, True)
            fresh = change.made_in(state.index)
            if folder is None:
                self._take(fresh, model, None)
                return
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
                    f"the vector store refused the new vectors; nothing was changed. {type(error).__name__}: {error}"
                ) from error
            self._take(fresh, model, store)
            self._note(folder, change.settings)

    def _take(self, fresh: GraphIndex, model: EmbeddingModel, store: VectorStore | None) -> None:
        self.made_by, self._checked = model.identity, True
        self.state = CorpusState(fresh, self._walk(fresh, model), model, store, self.state.version + 1)

    def _note(self, folder: Folder, settings: Mapping[str, object] = MappingProxyType({})) -> None:
        """Record a complete change, and start to merge changes if there are many."""
        try:
            known = {} if self.made_by is None else {"model": self.made_by.to_json()}
            folder.applied({**known, **settings})
        except OSError as error:
            warn(
                f"{folder.path.name}: the change is made and kept, but the state of the folder could not be written, "
                f"which is tried again with the next change: {error}",
                cause=error,
                stacklevel=4,
            )
            return
        if folder.pending > max(_most_changed(self.index), self._tried):
            upto = folder.last
            self._merging.start(lambda: self._merge(folder, upto))

    def _become(self, index: GraphIndex, *, merged: bool = False) -> None:
        state = self.state
        self.state = replace(
            state, index=index, graph=self._walk(index, state.embedder), version=state.version + (not merged)
        )

    def _merge(self, folder: Folder, upto: int) -> None:
        """Merge the changes of the folder in another process, and use the merged index."""
        try:
            with folder.held(name=_MERGING):  # no other process merges
                pass
        except StoreError:
            return
        reason = _merged_apart(folder.path, upto)
        if reason:
            self._tried = folder.pending + _most_changed(self.index)
            warn(
                f"{folder.path.name}: {folder.pending} changed passages could not be merged into the index; they stay "
                f"beside it, and merging is tried again after {self._tried - folder.pending:.0f} more: {reason}"
            )
            return
        self._tried = 0.0
        self.refresh()

    def _merge_log(self) -> None:
        """Start to merge the log of an index in memory if it is long, because every change processes the whole log."""
        log = self.index.log
        if log is None or self._since is not None:
            return
        if len(log.gone) + len(log.came) + len(log.again) > _most_changed(self.index):
            index, self._since = self.index, []
            if not self._merging.start(lambda: self._merge_in_memory(index)):
                self._since = None

    def _merge_in_memory(self, index: GraphIndex) -> None:
        merged = None
        try:
            merged = index.compact()
        finally:
            with self._changing:
                since, self._since = self._since or [], None
                if merged is not None:
                    for change in joined(since):
                        merged = change.made_in(merged)
                    self._become(merged, merged=True)

    def refresh(self) -> bool:
        """Load changes and merges of other processes from the folder.

        Running searches continue with their old state.

        Returns
        -------
        bool
            Whether anything had changed.

        Raises
        ------
        StoreError
            If another model embedded the passages again. Then the corpus stays unchanged.
        """
        if self._folder is None or not self._folder.moved():
            return False
        with self._changing, ExitStack() as stack:
            folder = self._folder  # another thread may have taken it over meanwhile
            if self._store is not None:
                stack.enter_context(folder.held(patience=OPENING))
            return folder.moved() and self._take_over(folder)

    def _take_over(self, folder: Folder) -> bool:
        """Load the folder's present index; the caller holds the lock of changes."""
        state = self.state
        fresh, index, behind = folder.reread(state.index, state.embedder)
        changed = fresh.content != folder.content
        self._folder = fresh
        if not changed and index is state.index:
            return False
        store = state.store
        if changed and isinstance(store, RenewableStore):
            store = store.reopened(fresh.collection)
        self.state = CorpusState(
            index, self._walk(index, state.embedder), state.embedder, store, state.version + bool(changed)
        )
        if changed and store is not None:
            self.keep_in(store, behind)
        return True

    def look(self) -> None:
        """Load changes of other processes in the background, at most once a second.

        The first search after some idle seconds waits briefly, because its state may be outdated.
        """
        now, due = monotonic(), self._next_look
        if self._folder is None or now < due:
            return
        self._next_look = now + LOOKING
        if self._folder.moved():
            self._looking.start(self.follow)
            if now > due + IDLE:
                self._looking.wait(AWAITED)

    def follow(self) -> None:
        """Run :meth:`refresh`, but warn once instead of raising an error."""
        folder = self._folder
        try:
            self.refresh()
        except (PhasegraphError, OSError) as error:
            said = str(error)
            if folder is not None and self._refused != said:
                self._refused = said
                warn(
                    f"{folder.path.name}: the folder changed, and searches continue without the changes: {said}",
                    cause=error,
                    stacklevel=2,
                )

    def settle(self, timeout: float | None = None) -> None:
        """Wait for background merges and refreshes, at most `timeout` seconds."""
        self._looking.wait(timeout)
        self._merging.wait(timeout)

    def save(self, path: str | os.PathLike[str], settings: Mapping[str, object]) -> Folder:
        """Write the corpus to a new or empty folder."""
        known: dict[str, object] = {} if self.made_by is None else {"model": self.made_by.to_json()}
        return Folder.create(path, self.index, {**known, **self.keys.to_json(), **settings})

    def _check_vectors(self) -> None:
        if self._folder is not None and self._store is None and self._folder.vector_store == CHROMA:
            raise InvalidInputError(
                f"{self._folder.path.name!r} keeps vectors in Chroma, too: change it with a retriever that has them "
                "(chromadb must be installed), or move them first: load(..., vector_store='flat')"
            )

    def _follow(self, change: Change, fresh: GraphIndex) -> None:
        """Apply a change to the store; on an error, restore the store."""
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
                    f"the vector store refused a change ({type(error).__name__}: {error}), and then its reversal "
                    f"({type(second).__name__}: {second}); "
                    + ("build the retriever again" if self._folder is None else "load the folder again")
                    + " to bring the store in step"
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
    embed_clauses: bool,
) -> Corpus:
    return Corpus(
        index, embedder, folder=folder, store=store, made_by=made_by, checked=checked, keys=keys,
        embed_clauses=embed_clauses,
    )  # fmt: skip


def _merged_apart(path: Path, upto: int) -> str:
    """Merge a folder in another process, or in this thread if that fails; return the reason of a failure."""
    try:
        return run_apart(__name__, "merge_folder", [str(path), str(upto)], MERGING)
    except OSError:
        pass
    try:
        Folder(path).merge(upto)
    except (PhasegraphError, OSError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


class LiveSource:
    """A source of a corpus that follows all changes of the corpus."""

    def __init__(self, corpus: Corpus, name: Part) -> None:
        self.corpus, self.name = corpus, name
        self.depends_on = tuple(self._now.depends_on) if name == "graph" else ()

    @property
    def _now(self) -> Any:
        self.corpus.look()
        return self.corpus.in_state(self.corpus.seen, self.name)

    @property
    def graph(self) -> EntityGraph:
        """The graph of the current passages."""
        return self.corpus.seen.index.graph

    def passage_ids(self) -> Sequence[str]:
        """The ids of the current passages."""
        return self.graph.passages

    def within(self, allowed: Collection[str]) -> Any:
        """Restrict the source, in its current state, to the allowed passages."""
        return self._now.within(allowed)

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Rank passages for `query`; as in :meth:`phasegraph.sources.Source.search`."""
        ranking: Ranking = self._now.search(query, limit, upstream)
        return ranking


MOST_LOOKED_UP = 20_000
"""Passages in the framework's words that are kept."""


class CorpusLookup:
    """Finds the passages of a corpus by id; ``made(record)`` converts a record to the framework's form."""

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
        """Return the passages that exist for these ids."""
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
        """Restrict a source to the passages that match a filter; a source of the corpus uses the current passages.

        `key` identifies the filter. ``passes(records)`` returns the rows that match. `names` are the metadata keys that
        the filter reads; a key that no passage has causes one warning. Later changes of the corpus affect neither the
        filter nor the search.
        """
        self.corpus.look()
        state = self.corpus.seen
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
        """Return the ids of passages that match a filter; the result is cached for all sources of the corpus."""

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
