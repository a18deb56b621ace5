"""The folder of a corpus: an index, later changes, and a state file; many changes are merged into the index.

The subfolder ``graph`` contains the index with its vectors. Each later change is a bundle (arrays and a manifest) in
the subfolder ``changes``; a change counts when its bundle is complete. The subfolder ``vectors`` may contain a copy of
the vectors in Chroma. After a crash, this copy is synchronized with the index when the folder is opened.
"""

from __future__ import annotations

import copy
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from phasegraph._support.files import BUILDING, LOCK, make_folder, one_writer, sync_folder
from phasegraph._support.serialization import MANIFEST, MISFITS, check_exists, read_document, write_document
from phasegraph.embedding.identity import ModelIdentity
from phasegraph.errors import IntegrityError, InvalidInputError, StoreError, warn
from phasegraph.graph.corpus.change import VERSION, Change, joined
from phasegraph.graph.corpus.document_table import DocumentTable
from phasegraph.graph.corpus.vector_stores import CHROMA, STORE_KEY
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.model.storage import KIND as INDEX

KIND = "passage-folder"
STATE, INSIDE, VECTORS = "folder.json", "graph", "passages"
"""The name of the state file; the subfolder of the index; the name of the first Chroma collection."""
CORE = "core"
"""The setting ``framework`` of a folder without a framework, which ``phasegraph index --sync`` writes."""
NO_FILES: Mapping[str, Callable[[Path], object]] = MappingProxyType({})
_FOLDER_ID, VECTORS_ID = "folder_id", "vectors_id"
"""Keys of two random ids in the settings: the id of the folder, and the id of its vectors.

The id of the vectors changes when all passages are embedded again.
"""
_DOUBTFUL, _NUMBERED = "withdrawn-", re.compile(r"[0-9]{8,18}")
MERGE_LOCK = ".merging"
"""The lock file of a merge; only one process at a time merges the changes of a folder."""
OPENING = 600.0
"""Seconds that opening a folder waits for the lock while another process changes the folder."""
CHANGING = 10.0
"""Seconds that a change waits for the lock while another process changes the folder or replaces the index."""
_MOST_LOADS = 1000


class DoubtfulStoreError(StoreError):
    """An error in a vector store that leaves unknown whether the store contains a change."""


@dataclass(frozen=True, slots=True)
class Version:
    """The identity of a folder's contents.

    `base` is the digest of the index, and `state_id` is the random id of the state file. `last` is the number of the
    last change, and `change` the digest of this change.
    """

    base: str
    last: int
    change: str
    state_id: object


class Folder:
    """The folder of a corpus on disk; only one process at a time can change it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()  # the process may change its working directory later
        self.last = self.pending = 0
        self._version: Version | None = None
        self._stamps: tuple[object, object] = (None, None)
        self._settings: dict[str, object] | None = None

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        index: GraphIndex | Path,
        settings: Mapping[str, object],
        table: DocumentTable | None = None,
        files: Mapping[str, Callable[[Path], object]] = NO_FILES,
    ) -> Folder:
        """Write the index to a new or empty folder, and return the folder.

        `index` may also be the folder of a saved index on the same file system; this folder is then moved. If a `table`
        is given, the document names of the passages are also stored. `files` maps the name of a further file to the
        function that writes it.
        """
        folder = cls(path)
        check_new(folder.path)
        try:
            make_folder(folder.path)
        except OSError as error:
            raise StoreError(f"{folder.path.name}: the folder could not be created: {error}") from error
        with folder.held():
            check_new(folder.path)  # another process may have written to the folder before this lock
            try:
                if isinstance(index, GraphIndex):
                    index.save(folder.path / INSIDE)
                else:
                    os.replace(index, folder.path / INSIDE)
                    sync_folder(folder.path)
                folder._keep_table(table, index if isinstance(index, GraphIndex) else None)
                folder._version = Version(folder._digest(INSIDE), 0, "", None)
                folder._stamps = folder._stamps_now()
                for name, write in files.items():
                    write(folder.path / name)
                folder._write_state(0, {_FOLDER_ID: uuid.uuid4().hex, **settings})
            except BaseException as error:
                for name in (STATE, *files):
                    (folder.path / name).unlink(missing_ok=True)
                shutil.rmtree(folder.path / INSIDE, ignore_errors=True)
                if isinstance(error, OSError):
                    raise StoreError(f"{folder.path.name}: the folder could not be written: {error}") from error
                raise
        return folder

    def is_at(self, path: Path) -> bool:
        """Return True if `path` is this folder, and no other folder has taken its place."""
        if not (path / STATE).is_file() or not self.path.is_dir() or not self.path.samefile(path):
            return False
        return Folder(path).settings.get(_FOLDER_ID) == self.settings.get(_FOLDER_ID)

    @property
    def settings(self) -> dict[str, object]:
        """The folder's settings: the settings in its state file, updated by the settings in later changes."""
        if self._settings is None:
            self._settings = self._settings_in(self._state())
        return self._settings

    @staticmethod
    def _settings_in(state: Mapping[str, object]) -> dict[str, object]:
        settings = state.get("settings")
        if not isinstance(settings, dict):
            raise IntegrityError(f"{STATE} is damaged: its settings are not a mapping; restore it from a backup")
        return settings

    @property
    def vector_store(self) -> str:
        """The name of the store that searches the vectors ("flat" or "chroma"); empty if there are no vectors.

        Folders of older versions do not name their store, which is always Chroma.
        """
        return str(self.settings.get(STORE_KEY, CHROMA)) if self.settings.get("vectors") else ""

    @property
    def collection(self) -> str:
        """The name of the Chroma collection with the vectors."""
        return str(self.settings.get("collection") or VECTORS)

    def load(self, known: GraphIndex | None = None, *, upto: int | None = None) -> tuple[GraphIndex, frozenset[str]]:
        """Read the index from the folder, and apply the folder's changes to it.

        Parameters
        ----------
        known : GraphIndex, optional
            The index after the last read or change of this folder. If possible, only newer changes are read.
        upto : int, optional
            The number of the last change to read; by default, all changes are read.

        Returns
        -------
        index : GraphIndex
            The index, with the changes applied.
        behind : frozenset of str
            Ids of passages that the vector store may lack or contain in an old version.
        """
        for _ in range(_MOST_LOADS):
            there = self._there()
            try:
                loaded = self._load(known, upto)
                self._warn_of_strangers()
                return loaded
            except (IntegrityError, OSError):
                if self._there() == there:
                    raise  # otherwise, another process changed the folder while it was read: read it again
        raise StoreError(
            f"{self.path.name}: the folder changed at every one of {_MOST_LOADS} attempts to read it; load it when no "
            "process changes it"
        )

    def reread(self, known: GraphIndex, embedder: object) -> tuple[Folder, GraphIndex, frozenset[str]]:
        """Read the folder's current state, and return a new folder object with the result of :meth:`load`.

        Raises StoreError if another folder is now at the path. If there is an `embedder`, also raises StoreError if the
        passages were embedded again, because the query's vectors would not match the new vectors.
        """
        fresh = copy.copy(self)
        index, behind = fresh.load(known)
        if fresh.settings.get(VECTORS_ID) != self.settings.get(VECTORS_ID) and embedder is not None:
            made_by = ModelIdentity.from_json(fresh.settings.get("model"))
            raise StoreError(
                f"{self.path.name}: its passages were embedded again with "
                f"{'another model' if made_by is None else made_by.name}: load it with that model"
            )
        if fresh.settings.get(_FOLDER_ID) != self.settings.get(_FOLDER_ID):
            raise StoreError(
                f"{self.path.name}: another folder is now at this path: load it again, or restart the server"
            )
        return fresh, index, behind

    def _there(self) -> tuple[object, ...]:
        """Return a value that identifies the current index and the current changes in the folder."""
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
            raise IntegrityError("the index was replaced while it was read; load the folder again")
        behind = frozenset(name for one in self._doubtful() for name in Change.read(one).touched)
        since: list[Change] = []
        first = last + 1
        for number, directory in self._changes():
            if number <= last or (upto is not None and number > upto):
                continue
            if number != last + 1:
                raise IntegrityError(
                    f"changes: change {last + 1} is missing, but change {number} exists: restore "
                    "the whole folder from a backup"
                )
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
                raise IntegrityError(
                    f"changes: changes {first} to {last} do not fit the index: {error}. Restore "
                    "the whole folder from a backup"
                ) from error
        state = self._state()
        applied = _number(state.get("applied"))
        if last < applied and upto is None:
            raise IntegrityError(
                f"changes: change {applied} is missing; the last change in the folder is {last}. Without the missing "
                "change, deleted passages would reappear: restore the whole folder from a backup"
            )
        self.last, self.pending, self._settings, self._stamps = last, pending, settings, stamps
        self._version = Version(digest, last, self._change_digest(last), state.get("state_id"))
        return index, behind

    def _goes_on(self, digest: str) -> bool:
        """Return True if the folder still contains the index and the changes that were last read or written.

        The folder may contain newer changes, too. `digest` is the current digest of the index.
        """
        seen = self._version
        return seen is not None and seen.base == digest and seen.change == self._change_digest(seen.last)

    def _digest(self, bundle: str) -> str:
        """Return a digest of the contents of the index or change in the subfolder `bundle`; "" if it does not exist."""
        try:
            return hashlib.sha256((self.path / bundle / MANIFEST).read_bytes()).hexdigest()
        except FileNotFoundError:
            return ""

    def _change_digest(self, number: int) -> str:
        return self._digest(f"changes/{number:08d}")

    def _stamps_now(self) -> tuple[object, object]:
        """Return the inode, size and modification time of two files: the state file, and the index's manifest.

        Every change replaces the state file, and every merge replaces the manifest.
        """
        found: list[object] = []
        for file in (self.path / STATE, self.path / INSIDE / MANIFEST):
            try:
                about = file.stat()
                found.append((about.st_ino, about.st_size, about.st_mtime_ns))
            except OSError:
                found.append(None)
        return found[0], found[1]

    def moved(self) -> bool:
        """Return True if another process may have changed or merged the folder since the last read.

        The check is fast: it takes two system calls.
        """
        return self._stamps != self._stamps_now()

    @property
    def content(self) -> tuple[int, object]:
        """A value that identifies the passages after the last read or change; a merge does not change the value."""
        return self.last, None if self._version is None else self._version.state_id

    def outdated(self) -> bool:
        """Return True if another process has changed, restored or replaced the folder since the last read.

        The caller must lock the folder.
        """
        seen = self._version
        there = max((self._base(), *(number for number, _ in self._changes())))
        return seen is None or there != self.last or self._state().get("state_id") != seen.state_id

    def append(self, change: Change) -> None:
        """Write a change to a new directory in the subfolder ``changes``; raise StoreError if the write fails."""
        number = self.last + 1
        directory = self.path / "changes" / f"{number:08d}"
        try:
            change.write(directory)
        except OSError as error:
            shutil.rmtree(directory, ignore_errors=True)
            raise StoreError(
                f"{self.path.name}: the change could not be written to the folder; nothing was changed. {error}"
            ) from error
        self._note_change(number, change.size)

    def _note_change(self, number: int, size: int) -> None:
        self.last, self.pending = number, self.pending + size
        if self._version is not None:
            self._version = replace(self._version, last=number, change=self._change_digest(number))

    def withdraw(self, change: Change, *, doubtful: bool = False) -> None:
        """Undo `change`, the last change: remove it from the folder.

        Set `doubtful` if it is unknown whether the vector store contains the change. The change then stays in the
        folder under another name, and the next load synchronizes its passages in the vector store.
        """
        directory = self.path / "changes" / f"{self.last:08d}"
        if doubtful:
            directory.rename(directory.with_name(f"{_DOUBTFUL}{uuid.uuid4().hex}"))
            sync_folder(directory.parent)
        else:
            _forget(directory)
        self._note_change(self.last - 1, -change.size)

    def applied(self, settings: Mapping[str, object] = MappingProxyType({})) -> None:
        """Record that the vector store contains the last change, and update `settings` of the folder."""
        self._write_state(self.last, {**self.settings, **settings})
        for directory in self._doubtful():
            _forget(directory)

    def _doubtful(self) -> list[Path]:
        """Return the directories of changes that :meth:`withdraw` undid but the vector store may still contain."""
        return [one for one in (self.path / "changes").glob(f"{_DOUBTFUL}*") if (one / MANIFEST).is_file()]

    def merge(self, upto: int) -> None:
        """Merge the changes up to number `upto` into the stored index; this writes the whole index again.

        Other processes can change the folder during a merge, except while the new index replaces the old index. Raises
        StoreError if another process is merging, or if the folder was replaced during the merge.
        """
        with self.held(patience=0.0, name=MERGE_LOCK):
            index, _ = self.load(upto=upto)
            if self.last > self._base():
                table = DocumentTable.beside(self.path / INSIDE)
                index.save(self.path / INSIDE, change=self.last, committing=self._as_read())
                self._keep_table(table, index)
            for number, directory in self._numbered():  # including changes that were never completed
                if number <= self.last:
                    _forget(directory)

    def _keep_table(self, table: DocumentTable | None, index: GraphIndex | None) -> None:
        """Store the document names of the passages next to the newly written index, if the index is large.

        `index` is the written index in memory; None if the passages must be read from the files.
        """
        if table is None:
            return
        stored = GraphIndex.load(self.path / INSIDE)
        file = stored.records.file
        if file is not None:
            table.keep(file, table.of(stored if index is None else index))

    @contextmanager
    def _as_read(self) -> Iterator[None]:
        """Lock the folder if it still contains the index and the changes that this object has read.

        Raises StoreError if another process has replaced the index or one of these changes.
        """
        seen = self._version
        with self.held(patience=OPENING):
            if seen is None or not self._goes_on(self._digest(INSIDE)):
                raise StoreError(
                    f"{self.path.name}: the folder was restored or created again during the merge, which was stopped; "
                    "load the folder again"
                )
            yield

    @contextmanager
    def held(self, *, patience: float = 0.0, name: str = LOCK) -> Iterator[None]:
        """Lock the folder against changes by other processes; wait for the lock for at most `patience` seconds.

        `name` is the name of the lock file. Raises StoreError if another process does not release the lock in time.
        """
        with ExitStack() as stack:
            with _translated(self.path.name):
                stack.enter_context(one_writer(self.path, patience=patience, name=name))
            yield

    def _changes(self) -> list[tuple[int, Path]]:
        """Return the pairs (number, directory) of the complete changes, in ascending order of the numbers."""
        return [(number, one) for number, one in self._numbered() if (one / MANIFEST).is_file()]

    def _numbered(self) -> list[tuple[int, Path]]:
        found = (self.path / "changes").glob("[0-9]*")
        return sorted((int(one.name), one) for one in found if _NUMBERED.fullmatch(one.name))

    def _warn_of_strangers(self) -> None:
        for one in sorted((self.path / "changes").glob(f"*/{MANIFEST}")):
            name = one.parent.name  # the name decides, because another writer may add a change at any time
            if not _NUMBERED.fullmatch(name) and not name.startswith(_DOUBTFUL):
                warn(
                    f"{self.path.name}: changes/{name} is not a change of this folder and is ignored. A "
                    "sync service may have created it: compare it with the other changes, then delete it"
                )

    def _base(self) -> int:
        """Return the number of the last change that was merged into the stored index."""
        manifest = self.path / INSIDE / MANIFEST
        if not manifest.is_file():
            raise IntegrityError(f"{self.path.name}: {INSIDE}/{MANIFEST} is missing; restore the folder from a backup")
        content = read_document(manifest, INDEX, VERSION).get("content")
        return _number(content.get("change")) if isinstance(content, dict) else 0

    def _state(self) -> dict[str, object]:
        if not (self.path / STATE).is_file():
            check_exists(self.path)
            names = {one.name for one in self.path.glob("*")}
            if INSIDE in names and all(one == INSIDE or _is_temporary(one) for one in names):
                advice = "if the creation of the folder was interrupted, delete the folder"
            elif MANIFEST in names:
                advice = (
                    "it contains an index that phasegraph index wrote without --sync. Open it with phasegraph search, "
                    "or create a retriever in a new folder from the documents, with path="
                )
            else:
                advice = "check the path"
            raise IntegrityError(f"{str(self.path)!r} is not a folder of a retriever: it has no {STATE}; {advice}")
        return read_document(self.path / STATE, KIND, VERSION)

    def _write_state(self, applied: int, settings: Mapping[str, object]) -> None:
        """Write the state file of the folder: the last applied change, the settings, and a new random id."""
        fresh = uuid.uuid4().hex
        state = {"applied": applied, "settings": dict(settings), "state_id": fresh}
        try:
            write_document(self.path / STATE, KIND, VERSION, state)
        except OSError:
            with suppress(IntegrityError):  # a write may fail after the file was replaced: read which state is on disk
                self._note_state(self._state().get("state_id"))
            raise
        self._note_state(fresh)
        self._settings = dict(settings)

    def _note_state(self, state_id: object) -> None:
        self._stamps = self._stamps_now()[0], self._stamps[1]
        if self._version is not None:
            self._version = replace(self._version, state_id=state_id)


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """Convert an OSError within a ``with`` block to a StoreError that contains the folder's `name`."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{name}: the folder cannot be written to: {error}") from error


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _forget(directory: Path) -> None:
    """Delete the directory of a change; delete its manifest first, because a change without a manifest is ignored."""
    (directory / MANIFEST).unlink(missing_ok=True)
    sync_folder(directory)
    shutil.rmtree(directory)


def _is_temporary(name: str) -> bool:
    """Return True for the name of a lock file, or of a temporary folder of a build."""
    return name == LOCK or name.startswith(BUILDING)


def check_new(path: Path) -> None:
    """Raise InvalidInputError if the folder exists and is not empty."""
    if path.is_dir() and not all(_is_temporary(one.name) for one in path.iterdir()):
        raise InvalidInputError(
            f"path must be a new or empty folder; {str(path)!r} contains files (to open an existing folder, use load())"
        )
