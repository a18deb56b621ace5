"""A corpus that accepts changes: the entity graph, BM25 index and vectors of its passages, in memory or in a folder."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any, Literal, cast, get_args

import numpy as np

from phasegraph._support.background import Background
from phasegraph._support.renamed import renamed_sources, warn_of_old_name
from phasegraph._support.shared import fork_safe_lock, of_call
from phasegraph._support.validation import check_choice, check_names, nearest_key
from phasegraph.embedding.identity import EmbeddingModel, ModelIdentity
from phasegraph.errors import InvalidInputError, PhasegraphError, StoreError, warn
from phasegraph.graph.corpus.change import Change
from phasegraph.graph.corpus.document_table import DocumentTable
from phasegraph.graph.corpus.embedded import OF_FOLDER, OF_STORE, check_model
from phasegraph.graph.corpus.folder import (
    CHANGING,
    NO_FILES,
    OPENING,
    VECTORS,
    VECTORS_ID,
    DoubtfulStoreError,
    Folder,
)
from phasegraph.graph.corpus.merging import Merges
from phasegraph.graph.corpus.passage_input import Keys, check_passages
from phasegraph.graph.corpus.reembedding import Embed, VectorCheckpoint
from phasegraph.graph.corpus.vector_stores import CHROMA, RenewableStore, VectorStore
from phasegraph.graph.flat import LexicalSource, VectorSource
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.index.records import PassageRecord
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.source import GraphSource
from phasegraph.graph.walk.walker import Embedder
from phasegraph.ranking import Ranking
from phasegraph.sources.protocol import Upstream

LOOKING, IDLE, AWAITED = 1.0, 5.0, 0.5
"""Times in seconds for detecting changes by other processes: the interval between two checks of the folder; the time
without a search after which the next search waits for such changes; the longest such wait."""


def create_folder(
    path: str | os.PathLike[str],
    index: GraphIndex | Path,
    keys: Keys,
    made_by: ModelIdentity | None,
    settings: Mapping[str, object],
    uncounted: Collection[str] = (),
    files: Mapping[str, Callable[[Path], object]] = NO_FILES,
) -> Folder:
    """Create the folder of a corpus from an index, or from the folder of a saved index, which is moved.

    `keys` are the metadata keys for titles and documents, and `made_by` identifies the model that embedded the
    passages. `settings`, `uncounted` and `files` are described at :meth:`Corpus.save`.
    """
    known: dict[str, object] = {} if made_by is None else {"model": made_by.to_json()}
    table = DocumentTable(keys.source, uncounted)
    return Folder.create(path, index, {**known, **keys.to_json(), **settings}, table, files)


def sample_corpus(embedder: Embedder | None) -> Corpus:
    """Create a corpus with one sample passage.

    With this corpus, a retriever can check its settings before many passages are embedded.
    """
    return Corpus(GraphIndex.build([{"id": "sample", "text": "sample"}], embeddings=[[1.0]]), embedder)


Part = Literal["graph", "bm25", "vector"]

PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True, slots=True, eq=False)
class CorpusState:
    """An immutable snapshot of a corpus: its index, graph source, embedding model and vector store.

    A change of the corpus replaces the whole snapshot.
    """

    index: GraphIndex
    graph: GraphSource
    embedder: Embedder | None = None
    store: VectorStore | None = None
    version: int = 0
    """The number of changes of the passages so far; merging changes into the index does not count."""


class Corpus:
    """A set of passages that can be changed, with their entity graph, BM25 index and vectors.

    `index` contains the passages. `embedder` maps a query to its vector, for an index with embeddings. Every change is
    stored in the `folder`; without a folder, the corpus exists only in memory. If there is a vector `store`, every
    change is also applied to the store. `made_by` identifies the model that embedded the passages, if it is known and
    not stored in the folder. `checked` is True if `embedder` is known to be this model. `keys` are the metadata keys
    for titles and documents; the default is the folder's keys. `embed_clauses` is the option of
    :class:`~phasegraph.graph.GraphSource`; :meth:`compare_clauses` turns it on later.

    Changes give the same graph and BM25 index, to the bit, as building both from the current passages in the order of
    their addition. A change is all or nothing: if the store refuses a change, the old state is restored.
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
        self._merges, self._looking = Merges(), Background("look")
        self._next_look = 0.0
        self._refused: object = None
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
        """Turn on `embed_clauses`: the graph source also compares passages with each embedded clause of a question.

        Raises
        ------
        InvalidInputError
            If the passages have no embeddings, or no embedding model is given.
        """
        if self.state.graph.embedder is None:
            raise InvalidInputError(
                "embed_clauses=True needs passages with embeddings, and their embedding model: give both, or leave "
                "out embed_clauses="
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
        """The source that walks the entity graph of the current passages."""
        return self.state.graph

    @property
    def bm25(self) -> LexicalSource:
        """The source that ranks passages by BM25."""
        found: LexicalSource = self.in_state(self.state, "bm25")
        return found

    @property
    def lexical(self) -> LexicalSource:
        """The old name of :attr:`bm25`; its use causes a deprecation warning."""
        warn_of_old_name("Corpus.lexical", "Corpus.bm25")
        return self.bm25

    @property
    def vector(self) -> VectorSource:
        """The source that ranks passages by vector similarity; it searches the vector store if the store can search."""
        found: VectorSource = self.in_state(self.state, "vector")
        return found

    def in_state(self, state: CorpusState, name: Part) -> Any:
        """Return the source with this name (``graph``, ``bm25`` or ``vector``) over the passages of a snapshot."""
        if name == "graph":
            return state.graph
        if name == "bm25":
            return LexicalSource(state.index.graph)
        nearest = getattr(state.store, "nearest", None)
        return VectorSource(state.index.graph, embedder=state.embedder, nearest=nearest)

    @property
    def is_changing(self) -> bool:
        """True while a change of the corpus is running; its vector store may already contain the new passages."""
        return self._changing.locked()

    @contextmanager
    def unchanged(self) -> Iterator[GraphIndex]:
        """Within the ``with`` block, no change of the corpus runs; yield its index."""
        with self._changing:
            yield self.index

    def __len__(self) -> int:
        return len(self.index.records)

    def __contains__(self, name: object) -> bool:
        return name in self.index.records

    def records(self, ids: Iterable[str]) -> dict[str, PassageRecord]:
        """Return the passage records by id; unknown ids are left out."""
        records = self.seen.index.records
        return {name: one for name in ids if (one := records.get(name)) is not None}

    def say_missing(self, names: Collection[str], records: Sequence[Any]) -> None:
        """Warn about each filter key in `names` that is in no record's metadata; each key causes only one warning."""
        say_missing(names, records, self._said)

    def source(self, source: Part) -> LiveSource:
        """Return a source (``graph``, ``bm25`` or ``vector``) that always searches the corpus's current passages."""
        source = cast("Part", renamed_sources([source], PARTS).get(source, source))
        check_choice("the source of a corpus", source, PARTS)
        return LiveSource(self, source)

    def keep_in(self, store: VectorStore, behind: Collection[str] = ()) -> None:
        """Use a vector store, and make its contents equal to the corpus.

        The store receives the passages that it lacks and the passages with ids in `behind`. Passages that are not in
        the corpus are deleted from the store.
        """
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
                "the vector store could not be synchronized with the passages; the folder contains all data: load "
                f"it again when the store works. {type(error).__name__}: {error}"
            ) from error

    def check(self, passages: Sequence[Mapping[str, Any]]) -> None:
        """Raise the errors that :meth:`replace` would raise for invalid passages; call it before embedding them."""
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

        A new passage has the keys ``id``, ``title``, ``text``, ``metadata`` and optionally ``given``, its extractions
        (see :func:`fields_of`). A new passage replaces an existing passage with the same id. `embeddings` are the
        vectors of the new passages, for an index with embeddings. On an error, nothing is changed.

        Raises InvalidInputError if an id to delete is unknown, and in the cases that :meth:`GraphIndex.add` describes.
        Raises StoreError if the store refuses the change, or if another process has locked the folder. Also raises
        StoreError if passages were added or deleted after the snapshot `planned`, for which the change was prepared.
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
                self._merge_in_memory(change)
                return
            folder.append(change)
            try:
                self._follow(change, fresh)
            except BaseException as error:
                folder.withdraw(change, doubtful=isinstance(error, DoubtfulStoreError))
                raise
            self._become(fresh)
            self._note(folder)

    @contextmanager
    def _held(self) -> Iterator[Folder | None]:
        """Lock the corpus's folder, load newer changes by other processes, and yield the folder.

        Yields None if the corpus has no folder. Raises StoreError if another process does not release the lock in time.
        """
        if self._folder is None:
            yield None
            return
        with self._folder.held(patience=CHANGING):
            if self._folder.outdated():
                self._take_over(self._folder)
            yield self._folder

    def check_model(self) -> None:
        """Raise InvalidInputError if the embedding model differs from the model that embedded the stored passages."""
        if self._checked:
            return
        state = self.state
        name = "the store" if self._folder is None else repr(self._folder.path.name)
        remedy = OF_STORE if self._folder is None else OF_FOLDER
        self._checked = check_model(state.index, self.made_by, state.embedder, name, remedy)
        if self._checked and isinstance(state.embedder, EmbeddingModel):
            self.made_by = state.embedder.identity

    def check_renewable(self) -> None:
        """Raise InvalidInputError if the vectors cannot be replaced.

        This is the case if the corpus has no vectors, or if its vectors are in the caller's own store.
        """
        self._check_vectors()
        if self.index.graph.view.embeddings is None:
            raise InvalidInputError(
                "the passages have no vectors: create the retriever from documents with an embedding model"
            )
        if self._store is not None and not isinstance(self._store, RenewableStore):
            raise InvalidInputError(
                "the vectors are in your own store: rebuild the store with the other model, then create a new "
                "retriever with this store"
            )

    def embed_anew(self, model: EmbeddingModel, embed: Embed, progress: bool | None) -> None:
        """Embed all passages again with another model, and replace their vectors.

        Finished vectors are stored in the folder during the work. If the work is interrupted, the next call with the
        same model reuses them. Raises InvalidInputError in the cases of :meth:`check_renewable`.
        """
        self.check_renewable()
        state, folder = self.state, self._folder
        kept = VectorCheckpoint(None if folder is None else folder.path, model.identity)
        self.reembed(model, kept.embed(list(state.index.records.values()), embed, progress), planned=state)
        kept.forget()

    def reembed(self, model: EmbeddingModel, vectors: Any, *, planned: CorpusState | None = None) -> None:
        """Replace the vectors of all passages by the vectors of another model; all or nothing.

        `vectors` is an array of shape (n, d), in the order of the passages. Raises InvalidInputError if the vectors are
        in the caller's own store or have a wrong shape. Raises StoreError if the folder or its store refuses the
        vectors. Also raises StoreError if passages were added or deleted after the snapshot `planned`, whose passages
        were embedded.
        """
        with self._changing, self._held() as folder:
            state = self.state
            self.check_renewable()
            moved = planned is not None and planned.version != state.version
            if moved or len(vectors) != len(state.index.records):
                raise StoreError(
                    "passages were added or deleted while all were embedded again; nothing was changed: try again"
                )
            settings: dict[str, object] = {"model": model.identity.to_json(), VECTORS_ID: uuid.uuid4().hex}
            if not len(vectors):  # no passage was embedded: the model embeds a word, to say how long its vectors are
                vectors = np.empty((0, np.size(model("passage"))))
            change = Change((), (), np.asarray(vectors, dtype=np.float32), settings, True)
            fresh = change.made_in(state.index)
            if folder is None:
                self._take(fresh, model, None)
                self._merge_in_memory(change)
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
                    with suppress(Exception):  # if this fails, the next load of the folder deletes the collection
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

    def record_settings(self, settings: Mapping[str, object]) -> None:
        """Store settings in the corpus's folder, unless it already contains them."""
        if settings.items() <= self.settings.items():
            return
        with self._changing, self._held() as folder:
            if folder is not None:
                folder.applied(settings)

    def _note(self, folder: Folder, settings: Mapping[str, object] = MappingProxyType({})) -> None:
        """Record in the folder that a change is complete, and start a merge if the folder has many changes."""
        try:
            known = {} if self.made_by is None else {"model": self.made_by.to_json()}
            folder.applied({**known, **settings})
        except OSError as error:
            warn(
                f"{folder.path.name}: the change is complete and stored, but the state file of the folder could not be "
                f"written; the next change writes it again: {error}",
                cause=error,
            )
            return
        self._merges.in_folder(folder, self.index, self.refresh)

    def _become(self, index: GraphIndex, *, merged: bool = False) -> None:
        state = self.state
        self.state = replace(
            state, index=index, graph=self._walk(index, state.embedder), version=state.version + (not merged)
        )

    def _merge_in_memory(self, change: Change) -> None:
        """Merge the change log of an index in memory if the log is long; `change` is the last change."""
        self._merges.in_memory(change, self.index, self._changing, partial(self._become, merged=True))

    def refresh(self) -> bool:
        """Load changes and merges by other processes from the folder.

        Running searches continue with their old state.

        Returns
        -------
        bool
            True if a change or a merge was loaded.

        Raises
        ------
        StoreError
            If another process embedded the passages again with another model. The corpus then stays unchanged.
        """
        if self._folder is None or not self._folder.moved():
            return False
        with self._changing, ExitStack() as stack:
            folder = self._folder  # another thread may have replaced it in the meantime
            if self._store is not None:
                stack.enter_context(folder.held(patience=OPENING))
            return folder.moved() and self._take_over(folder)

    def _take_over(self, folder: Folder) -> bool:
        """Load the folder's current index, and return True if it differs from the index in memory.

        The caller must hold the lock for changes.
        """
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
        """Load changes by other processes in the background; check for changes at most once a second.

        The first call after more than five seconds without a call waits up to half a second for the new state.
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
        """Run :meth:`refresh`, and turn an error into a warning; a repeated error causes no further warning."""
        folder = self._folder
        try:
            self.refresh()
        except (PhasegraphError, OSError) as error:
            said = str(error)
            if folder is not None and self._refused != said:
                self._refused = said
                warn(
                    f"{folder.path.name}: loading the changes of the folder failed; searches continue without the "
                    f"changes: {said}",
                    cause=error,
                )

    def settle(self, timeout: float | None = None) -> None:
        """Wait for background merges and refreshes to end, each for at most `timeout` seconds; None sets no limit."""
        self._looking.wait(timeout)
        self._merges.wait(timeout)

    def save(
        self,
        path: str | os.PathLike[str],
        settings: Mapping[str, object],
        uncounted: Collection[str] = (),
        files: Mapping[str, Callable[[Path], object]] = NO_FILES,
    ) -> Folder:
        """Write the corpus to a new or empty folder, and return the folder.

        `settings` are stored in the folder. `uncounted` are metadata keys that digests of passages leave out. `files`
        maps the name of a further file to the function that writes it; an incomplete folder cannot be opened.
        """
        return create_folder(path, self.index, self.keys, self.made_by, settings, uncounted, files)

    def is_in(self, path: Path) -> bool:
        """Return True if `path` is the folder in which the corpus is stored."""
        return self._folder is not None and self._folder.is_at(path)

    def _check_vectors(self) -> None:
        if self._folder is not None and self._store is None and self._folder.vector_store == CHROMA:
            raise InvalidInputError(
                f"{self._folder.path.name!r} also stores its vectors in Chroma. Change it with a retriever that uses "
                "these vectors (chromadb must be installed), or first move them: load(..., vector_store='flat')"
            )

    def _follow(self, change: Change, fresh: GraphIndex) -> None:
        """Apply a change to the vector store, if there is one; on an error, restore the store's old contents.

        `fresh` is the index after the change. Raises StoreError if the store refuses the change.
        """
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
            except BaseException as second:  # noqa: BLE001 - report the unknown state of the store after any error
                raise DoubtfulStoreError(
                    f"the vector store refused a change ({type(error).__name__}: {error}), and could not restore its "
                    f"old contents ({type(second).__name__}: {second}); "
                    + ("build the retriever again" if self._folder is None else "load the folder again")
                    + " to synchronize the store"
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


def say_missing(names: Collection[str], records: Sequence[Any], said: set[str]) -> None:
    """Warn about each filter key in `names` that is in no record's metadata, except for keys in `said`.

    The keys of new warnings are added to `said`. The records are passages, documents or nodes.
    """
    missing = set(names) - said if records else set()
    for record in records:
        if not missing:
            return
        missing -= record.metadata.keys()
    for name in sorted(missing):
        said.add(name)
        hint = nearest_key(name, (one.metadata for one in records))
        warn(f"filter key {name!r} is in no passage; {hint}")


class LiveSource:
    """A source that always searches the current passages of a corpus, including all changes before the search."""

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
        """Return a source over those current passages whose ids are `allowed`; later changes do not affect it."""
        return self._now.within(allowed)

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Rank passages for `query`; parameters and result as in :meth:`phasegraph.sources.Source.search`."""
        ranking: Ranking = self._now.search(query, limit, upstream)
        return ranking
