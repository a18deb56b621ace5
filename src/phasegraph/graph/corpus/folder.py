"""The folder of a corpus: an index, the changes since, and a state file.

The index and its vectors are a bundle (``graph``). Each later change is a small bundle (``changes``) and exists when
the bundle is complete. A folder may also hold a copy of the vectors in Chroma (``vectors``). The copy follows
the index; it is brought up to date when the folder is opened after a crash.
"""

from __future__ import annotations

import copy
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from phasegraph._support.apart import run_apart
from phasegraph._support.files import LOCK, make_folder, one_writer, sync_folder
from phasegraph._support.serialization import MANIFEST, MISFITS, check_exists, read_document, write_document
from phasegraph.embedding.identity import ModelIdentity
from phasegraph.errors import IntegrityError, InvalidInputError, PhasegraphError, StoreError, warn
from phasegraph.graph.corpus.change import VERSION, Change, joined
from phasegraph.graph.corpus.document_table import DocumentTable
from phasegraph.graph.corpus.vector_stores import CHROMA, STORE_KEY
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.model.storage import KIND as INDEX

KIND = "passage-folder"
STATE, INSIDE, VECTORS = "folder.json", "graph", "passages"
"""Where a folder holds what it was made with, and its index; its first collection of vectors."""
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
_MOST_LOADS = 1000


class _DoubtError(StoreError):
    """The contents of a vector store are unknown."""


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
    def create(
        cls,
        path: str | os.PathLike[str],
        index: GraphIndex,
        settings: Mapping[str, object],
        table: DocumentTable | None = None,
    ) -> Folder:
        """Write the index to a new or empty folder; with a `table`, the documents of the passages too."""
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
                folder._keep_table(table, index)
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
                self._keep_table(table, index)
            for number, directory in self._numbered():  # those that were begun and never complete, too
                if number <= self.last:
                    _forget(directory)

    def _keep_table(self, table: DocumentTable | None, index: GraphIndex) -> None:
        """Store the documents of the passages next to the index that was just written, if the index is large."""
        file = None if table is None else GraphIndex.load(self.path / INSIDE).records.file
        if table is not None and file is not None:
            table.keep(file, table.of(index).values())

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


def merge_apart(path: Path, upto: int) -> str:
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
