"""Synchronize a folder of passages with files: once, or whenever files change."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import typer

from phasegraph._support.text import counted, legible
from phasegraph.apps.cli.documents import check_empty, check_synced
from phasegraph.apps.cli.models import model_named
from phasegraph.apps.cli.output import console, progress
from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.errors import InvalidInputError, PhasegraphError, needed
from phasegraph.graph.corpus.document_table import document_of
from phasegraph.graph.corpus.folder import STATE
from phasegraph.lexical import tokenizer_of
from phasegraph.reading.files import FilesRead, FolderReader, NothingReadError
from phasegraph.reading.ignoring import IGNORE
from phasegraph.retrieval.passage_folder import PassageFolder

DEBOUNCE, LOOK, RETRY = 1600, 1000, 10
"""Milliseconds in which file changes are collected, milliseconds between checks, number of checks before a retry."""
FILES = "files"
"""The setting of a folder that contains the path of the last sync."""


class FileSync:
    """A folder of passages together with the user's files, from which the folder is updated.

    Parameters
    ----------
    corpus : path
        A file, a folder or an archive.
    out : path
        The folder of passages; the first sync creates it if it is missing or empty.
    embedder : str or EmbeddingModel, optional
        The embedding model, or its name.
    tokenizer : str, optional
        The tokenizer of a new folder; an existing folder must have the same tokenizer.
    allow_empty : bool, default False
        What happens if there is no file left to read. True: delete the passages of all deleted files. False: raise an
        error.
    moved : bool, default False
        What happens if the last sync read another path. True: the files are now at `corpus`. False: raise an error.
    """

    def __init__(
        self,
        corpus: Path,
        out: Path,
        embedder: str | EmbeddingModel | None,
        tokenizer: str | None,
        *,
        allow_empty: bool = False,
        moved: bool = False,
    ) -> None:
        self._reader, self.out, self._files = FolderReader(corpus, [out]), out, legible(os.path.abspath(corpus))
        self._model = embedder if isinstance(embedder, EmbeddingModel) else model_named(embedder)
        self._tokenizer, self._skipped, self._allow_empty = tokenizer, "", allow_empty
        self._moved = moved
        if tokenizer is not None:
            tokenizer_of(tokenizer)
        check_synced(out, corpus)
        self._folder = self._opened()
        if self._folder is None:
            check_empty(out)

    def _opened(self) -> PassageFolder | None:
        """Open the folder, and check that it fits the options; None if there is no folder yet."""
        if not (self.out / STATE).is_file():
            return None
        folder = PassageFolder.open(self.out, self._model, own=True)
        settings = folder.corpus.settings
        known = str(settings.get(FILES, self._files))
        same = known == self._files or Path(known).resolve() == self._reader.root.resolve()
        if not same and not self._moved:
            raise self._elsewhere(f"the folder was synced from {known}")
        if bool(settings.get("vectors")) != (self._model is not None):
            made_by = folder.corpus.made_by
            said = (
                "without vectors: leave --embedder out"
                if self._model is not None
                else f"with vectors{'' if made_by is None else f' from {made_by.name}'}: add --embedder"
            )
            raise InvalidInputError(f"{self.out}: the folder was created {said}, or name a new folder")
        lexical = folder.corpus.index.graph.view.lexical
        if self._tokenizer is not None and lexical is not None and lexical.tokenizer != self._tokenizer:
            raise InvalidInputError(
                f"--tokenizer must be the tokenizer of the folder, {lexical.tokenizer}; got {self._tokenizer}: name a "
                "new folder to change it"
            )
        return folder

    def _elsewhere(self, reason: str) -> InvalidInputError:
        """Return the error for files at another path than the files of the folder."""
        return InvalidInputError(
            f"{self.out}: {reason}; a sync from {self._files} would delete the passages of all files that are not "
            "there. Name a new folder, or add --moved if the files are now at that path"
        )

    def sync(self) -> str:
        """Update the folder to the files, and return a sentence about the changes."""
        found = self._read()
        passages = [_with_source(one, source) for one, source in zip(found.passages, found.sources, strict=True)]
        self._tell_skipped(found)
        self._folder = self._folder or self._opened()  # another process may have created the folder
        if self._folder is None:
            self._folder = PassageFolder.create(
                self.out, passages, self._model, tokenizer=self._tokenizer or "english", settings={FILES: self._files}
            )
            return f"{counted(len(passages), 'passage')} of {counted(len(self._folder.documents()), 'document')} added"
        stays = _unreadable(found)
        self._check_known(self._folder, passages, stays)
        self._folder.corpus.record_settings(
            {FILES: self._files}
        )  # before the changes: an error then leaves them undone
        return str(self._folder.sync_files(passages, stays=stays, allow_empty=self._allow_empty))

    def _check_known(
        self, folder: PassageFolder, passages: Sequence[Mapping[str, Any]], stays: Callable[[str], bool]
    ) -> None:
        """Raise InvalidInputError if a folder without the path of its files contains no document of the `passages`.

        A former version stored no path, and stored the row 3 of ``a.csv`` as the document ``a.csv:3``.
        """
        if FILES in folder.corpus.settings or self._moved or not passages:
            return
        given = {document_of(one["metadata"], folder.corpus.keys.source) for one in passages}
        stored = [name for name in folder.documents() if name]
        if stored and not any(name in given or name.rpartition(":")[0] in given or stays(name) for name in stored):
            raise self._elsewhere(
                f"{self._files} contains none of the {counted(len(stored), 'document')} of the folder"
            )

    def _read(self) -> FilesRead:
        if self._folder is None:
            return self._reader.read(progress)
        try:
            return self._reader.read(progress, allow_empty=self._allow_empty)
        except NothingReadError as error:
            raise InvalidInputError(
                f"{error}. {self.out} was not changed; to delete the passages of all deleted files, add --allow-empty"
            ) from error

    def _tell_skipped(self, found: FilesRead) -> None:
        """Print the skipped files if they differ from those of the last sync."""
        said = "\n".join(found.notes())
        if said and said != self._skipped:
            for line in found.notes():
                console().print(line)
        self._skipped = said

    def settle(self) -> None:
        """Wait until the background work of the folder is finished."""
        if self._folder is not None:
            self._folder.corpus.settle()

    def watch(self, told: Callable[[str], None], failed: Callable[[str], None]) -> None:
        """Update the folder now and whenever files change, until Ctrl-C.

        The function `told` receives a sentence about each sync. The function `failed` receives the reason of a failed
        sync, which is retried later. If the retries fail for the same reason, `failed` is not called again; after a
        change of a file, it receives a short sentence. Ctrl-C during a sync raises KeyboardInterrupt.

        A shell script starts background processes with Ctrl-C ignored, and Python loses a KeyboardInterrupt in a
        finalizer. Therefore, a handler of the signal sets an event, which ends the loop in both cases.
        """
        due, waited, syncing, stop, reason = True, RETRY, False, Event(), ""

        def interrupt(*_: object) -> None:
            stop.set()
            if syncing:
                raise KeyboardInterrupt

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            for changed in self._changes(stop):
                due, waited = due or changed, RETRY if changed else waited + 1
                if not due or waited < RETRY:
                    continue
                waited, syncing = 0, True
                try:
                    said = self.sync()
                except (PhasegraphError, OSError) as error:
                    syncing, last, reason = False, reason, str(error)
                    if reason != last:
                        failed(reason)
                    elif changed:
                        failed("the sync failed again for the same reason")
                else:
                    due, syncing, reason = False, False, ""
                    told(said)
        finally:
            signal.signal(signal.SIGINT, before)

    def _changes(self, stop: Event) -> Iterator[bool]:
        """Yield True as soon as files have changed, and False after each second without a change; end at `stop`."""
        with needed("--watch needs watchfiles; pip install 'phasegraph[watch]'"):
            from watchfiles import watch
        root, out = self._reader.root.resolve(), self.out.resolve()

        def counts(_: object, path: str) -> bool:
            place = Path(path)
            if not place.is_relative_to(root) or place.is_relative_to(out):
                return False
            return place.name == IGNORE or not any(one.startswith(".") for one in place.relative_to(root).parts)

        watched = root if root.is_dir() else root.parent
        for changes in watch(
            watched, watch_filter=counts, debounce=DEBOUNCE, rust_timeout=LOOK, yield_on_timeout=True, stop_event=stop
        ):
            yield bool(changes)


def _with_source(passage: Any, source: str) -> dict[str, Any]:
    """Return a passage as a mapping; its file is added to the metadata as ``source``, unless that key exists."""
    metadata = {"source": source} | dict(passage.metadata or {})
    return {"id": passage.id, "title": passage.title, "text": passage.text, "metadata": metadata}


def _unreadable(found: FilesRead) -> Callable[[str], bool]:
    """Return a function that tests, by its name, whether a document comes from a file that could not be read.

    The folder keeps such documents.
    """
    names = tuple(name.rstrip("/") for name in found.unread)
    below = tuple(f"{name}{end}" for name in names for end in ("/", ":"))
    return lambda document: document in names or document.startswith(below)


def run_sync(
    corpus: Path,
    out: Path,
    embedder: str | None,
    tokenizer: str | None,
    *,
    watch: bool,
    allow_empty: bool,
    moved: bool,
) -> None:
    """Update the folder `out` from the files in `corpus`, and print what changed.

    With `watch`, update it again after every change of a file. :class:`FileSync` describes the other parameters.
    """
    made, to = FileSync(corpus, out, embedder, tokenizer, allow_empty=allow_empty, moved=moved), console()
    if not watch:
        to.print(f"{made.sync()}: {out}")
        made.settle()
        return
    to.print(f"watching {corpus}  (press Ctrl-C to stop)")
    made.watch(lambda said: to.print(f"{said}: {out}"), lambda said: typer.echo(f"phasegraph: {said}", err=True))
    made.settle()
