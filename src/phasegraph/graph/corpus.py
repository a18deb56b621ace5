"""A corpus that changes: graph, words and vectors of the same passages, in memory or in a folder.

A folder holds the index as a bundle (``graph``), the changes since as one small bundle each (``changes``), and, where
a framework keeps vectors in a store of its own, that store. A change is made when its bundle is complete: the store
follows the index, and is brought in step when the folder is opened after a crash.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Literal, Protocol

import numpy as np

from phasegraph._typing import Float32Array
from phasegraph.errors import IntegrityError, InvalidInputError, StoreError
from phasegraph.graph.building import Triples, by_passage
from phasegraph.graph.entity_graph import EntityGraph, Extraction
from phasegraph.graph.flat import LexicalSource, VectorSource
from phasegraph.graph.index import GraphIndex
from phasegraph.graph.records import PassageRecord, check_plain
from phasegraph.graph.source import Embedder, GraphSource
from phasegraph.graph.storage import KIND as INDEX
from phasegraph.graph.storage import packed, unpacked
from phasegraph.ranking import Ranking
from phasegraph.serialization import MANIFEST, read_bundle, read_document, write_bundle, write_document
from phasegraph.sources.protocol import Upstream

KIND, CHANGE, VERSION = "passage-folder", "passage-change", 1
STATE = "folder.json"
MOST_CHANGED = 0.05
"""Passages in changes, as a share of the corpus, after which they are taken into the index's bundle."""
FEWEST_CHANGED = 1000


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
            vectors: Any = arrays.get("embeddings")
            return cls(unpacked("removed", arrays), passages, vectors)
        except (KeyError, TypeError, ValueError) as error:
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


class Folder:
    """Where a corpus is kept; one process at a time changes it.

    Parameters
    ----------
    path : path
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.last = self.pending = 0

    @classmethod
    def create(cls, path: str | os.PathLike[str], index: GraphIndex, settings: Mapping[str, object]) -> Folder:
        """Write the index to a folder that is new or empty."""
        folder = cls(path)
        check_new(folder.path)
        folder.path.mkdir(parents=True, exist_ok=True)
        index.save(folder.path / "graph")
        folder._write_state(0, settings)
        return folder

    @cached_property
    def settings(self) -> dict[str, object]:
        """What the folder was made with."""
        settings = self._state()["settings"]
        if not isinstance(settings, dict):
            raise IntegrityError(f"{STATE}: settings must be a mapping; it is damaged")
        return settings

    def load(self) -> tuple[GraphIndex, frozenset[str]]:
        """The index with all changes, and the ids of passages that the store may not have as they are."""
        applied = _number(self._state()["applied"])
        index, self.last = GraphIndex.load(self.path / "graph"), self._base()
        behind: frozenset[str] = frozenset()
        for number, directory in self._changes():
            if number <= self.last:
                continue
            if number != self.last + 1:
                raise IntegrityError(f"changes: change {self.last + 1} is missing; {number} follows")
            change = Change.read(directory)
            index, self.last, self.pending = change.made_in(index), number, self.pending + len(change.touched)
            if number > applied:
                behind |= change.touched
        return index, behind

    def append(self, change: Change) -> None:
        """Keep a change."""
        number = self.last + 1
        change.write(self.path / "changes" / f"{number:08d}")
        self.last, self.pending = number, self.pending + len(change.touched)

    def withdraw(self, change: Change) -> None:
        """Forget the last change."""
        _forget(self.path / "changes" / f"{self.last:08d}")
        self.last, self.pending = self.last - 1, self.pending - len(change.touched)

    def applied(self) -> None:
        """Note that the store is in step with the last change."""
        self._write_state(self.last, self.settings)

    def compact(self, index: GraphIndex) -> None:
        """Take all changes into the bundle of the index, which has them, where they have become many."""
        if self.pending <= max(FEWEST_CHANGED, MOST_CHANGED * len(index.records)):
            return
        index.save(self.path / "graph", change=self.last)
        for number, directory in self._changes():
            if number <= self.last:
                _forget(directory)
        self.pending = 0

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the folder for a change; StoreError where another process does, or has changed it since."""
        with (self.path / ".lock").open("a") as handle:
            try:
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except ImportError:  # not on this system: the number of the last change still tells
                pass
            except OSError as error:
                raise StoreError(f"{self.path.name}: another process is changing the folder; try again") from error
            there = max((number for number, _ in self._changes()), default=self._base())
            if there != self.last:
                raise StoreError(f"{self.path.name}: another process has changed the folder; load it again")
            yield

    def _changes(self) -> list[tuple[int, Path]]:
        """Changes by number; what was begun and never complete is left out."""
        found = (self.path / "changes").glob("[0-9]*")
        return sorted((int(one.name), one) for one in found if (one / MANIFEST).is_file())

    def _base(self) -> int:
        """The last change in the index's bundle."""
        content = read_document(self.path / "graph" / MANIFEST, INDEX, VERSION)["content"]
        return _number(content.get("change")) if isinstance(content, dict) else 0

    def _state(self) -> dict[str, object]:
        if not (self.path / STATE).is_file():
            raise IntegrityError(f"{self.path.name!r} is no folder of a retriever: it has no {STATE}")
        return read_document(self.path / STATE, KIND, VERSION)

    def _write_state(self, applied: int, settings: Mapping[str, object]) -> None:
        write_document(self.path / STATE, KIND, VERSION, {"applied": applied, "settings": dict(settings)})


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _forget(directory: Path) -> None:
    """Remove a change; without its manifest it counts as not there."""
    (directory / MANIFEST).unlink()
    shutil.rmtree(directory)


def check_new(path: Path) -> None:
    """Refuse a folder that holds something: InvalidInputError."""
    if path.is_dir() and any(path.iterdir()):
        raise InvalidInputError(
            f"path must be a folder that is new or empty; {str(path)!r} holds files (load() opens one that was made)"
        )


class Corpus:
    """Passages with their graph, words and vectors, which come and go together.

    Parameters
    ----------
    index : GraphIndex
    embedder : callable, optional
        ``embedder(query) -> (d,) vector``, for an index with embeddings.
    folder : Folder, optional
        Where every change is kept; without, the corpus is in memory.
    store : VectorStore, optional
        Kept in step.

    Notes
    -----
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
        self._changing = Lock()
        self.index = index
        self.graph = self._walk(index)

    def __reduce__(self) -> tuple[Any, ...]:
        return Corpus, (self.index, self._embedder)

    def _walk(self, index: GraphIndex) -> GraphSource:
        return GraphSource(
            index.graph, embedder=self._embedder if index.graph.embeddings is not None else None
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
        held = self.index.records
        return {name: held[name] for name in ids if name in held}

    def source(self, leg: Leg) -> LiveSource:
        """A source over the passages that there are at every search."""
        return LiveSource(self, leg)

    def reconcile(self, behind: Collection[str] = ()) -> None:
        """Bring the store in step: it gets the passages `behind` anew and those it lacks, and loses the others."""
        if self._store is None:
            return
        there, held = frozenset(self._store.ids()), self.index.records
        gone = sorted(one for one in there if one not in held)
        wanted = [one for one in held if one in behind or one not in there]
        if gone:
            self._store.remove(gone)
        if wanted:
            self._write(self._store, self.index, wanted)
        if self._folder is not None and (gone or wanted or behind):
            self._folder.applied()

    def replace(self, ids: Iterable[str], passages: Iterable[Mapping[str, Any]] = (), embeddings: Any = None) -> None:
        """Let passages leave and others come, in one step.

        Parameters
        ----------
        ids : iterable of str
            Passages that leave.
        passages : iterable of mapping
            Passages that come, with ``id``, ``title``, ``text``, ``metadata`` and perhaps ``given`` (see
            :func:`fields_of`); in place of any with their ids.
        embeddings : (n, d) array_like, optional
            Theirs, for an index with embeddings.

        Raises
        ------
        InvalidInputError
            If an id that is to leave is not there, or as for :meth:`GraphIndex.add`; nothing is changed.
        StoreError
            If the store, or another process, is in the way; nothing is changed.
        """
        if self._folder is not None and self._store is None and self._folder.settings.get("vectors"):
            raise InvalidInputError(
                f"{self._folder.path.name!r} keeps vectors, too: change it with a retriever that has them, not this one"
            )
        came = tuple(passages)
        with self._changing:
            taken = [one["id"] for one in came if one["id"] in self.index.records]
            removed = tuple(dict.fromkeys([*ids, *taken]))
            vectors = None if embeddings is None or not came else np.asarray(embeddings, dtype=np.float32)
            if not removed and not came:
                return
            change = Change(removed, came, vectors)
            fresh = change.made_in(self.index)
            walk = self._walk(fresh)
            if self._folder is None:
                self._follow(change, fresh)
                self.index, self.graph = fresh, walk
            else:
                with self._folder.changing():
                    self._folder.append(change)
                    try:
                        self._follow(change, fresh)
                    except BaseException:
                        self._folder.withdraw(change)
                        raise
                    self.index, self.graph = fresh, walk
                    self._folder.applied()
                    self._folder.compact(fresh)

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
        except Exception as error:
            try:
                self._store.remove([one for one in came if one not in self.index.records])
                self._write(self._store, self.index, change.removed)
            except Exception as second:  # noqa: BLE001 - whatever a store raises
                raise StoreError(
                    f"the vector store refused a change ({type(error).__name__}: {error}), and then to take it back "
                    f"({type(second).__name__}: {second}); load the folder again, which brings it in step"
                ) from error
            raise StoreError(
                f"the vector store refused the change; nothing was changed. {type(error).__name__}: {error}"
            ) from error

    @staticmethod
    def _write(store: VectorStore, index: GraphIndex, ids: Sequence[str]) -> None:
        vectors, rows = index.graph.embeddings, index.graph.passage_rows
        if ids:
            known = None if vectors is None else vectors[[rows[one] for one in ids]]
            store.write([index.records[one] for one in ids], known)


Leg = Literal["graph", "lexical", "vector"]


class LiveSource:
    """A source of a corpus that follows its changes.

    Parameters
    ----------
    corpus : Corpus
    name : {"graph", "lexical", "vector"}
    """

    def __init__(self, corpus: Corpus, name: Leg) -> None:
        self.corpus, self.name = corpus, name
        self.depends_on = tuple(self._now.depends_on) if name == "graph" else ()

    @property
    def _now(self) -> Any:
        return getattr(self.corpus, self.name)

    @property
    def graph(self) -> EntityGraph:
        """The graph of the passages there are."""
        return self.corpus.index.graph

    def passage_ids(self) -> tuple[str, ...]:
        """Ids of the passages there are."""
        return self.graph.passages

    def within(self, allowed: Collection[str]) -> Any:
        """The source, as it is now, for one who may see only these passages."""
        return self._now.within(allowed)

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Rank passages for `query`; as in :meth:`phasegraph.sources.Source.search`."""
        ranking: Ranking = self._now.search(query, limit, upstream)
        return ranking
