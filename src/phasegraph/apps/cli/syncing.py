"""Keep a folder of passages in step with files: once, or whenever files change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from phasegraph._support.serialization import MANIFEST
from phasegraph.apps.cli.output import console, embed_with, load_model, progress
from phasegraph.apps.cli.reading import embedded
from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.errors import InvalidInputError, PhasegraphError, needed
from phasegraph.graph.corpus.folder import STATE, check_new
from phasegraph.graph.index.records import PassageRecord
from phasegraph.lexical import tokenizer_of
from phasegraph.reading.files import FilesRead, FolderReader
from phasegraph.reading.ignoring import IGNORE
from phasegraph.retrieval.passage_folder import PassageFolder

DEBOUNCE, LOOK, RETRY = 1600, 1000, 10
"""Milliseconds for which changes of files are collected, and after which a watch looks up; looks until a retry."""


def model_named(embedder: str | None) -> EmbeddingModel | None:
    """The model that ``--embedder`` names, as a folder takes it; None without a name."""
    model = load_model(embedder)
    if model is None:
        return None

    def passages(records: Sequence[PassageRecord]) -> Any:
        return embedded(model, records)

    return EmbeddingModel(model, embed_with(model), passages)  # type: ignore[arg-type]


class FileSync:
    """A folder of passages, and the files that they are read from.

    Parameters
    ----------
    corpus : path
        A file, a folder or an archive.
    out : path
        The folder of passages; made at the first sync if it is missing or empty.
    embedder : str or EmbeddingModel, optional
        The embedding model, or its name.
    tokenizer : str, optional
        For a folder that is made.
    """

    def __init__(self, corpus: Path, out: Path, embedder: str | EmbeddingModel | None, tokenizer: str | None) -> None:
        self._reader, self.out = FolderReader(corpus, [out]), out
        self._model = embedder if isinstance(embedder, EmbeddingModel) else model_named(embedder)
        self._tokenizer, self._skipped = tokenizer, ""
        self._folder: PassageFolder | None = None
        if tokenizer is not None:
            tokenizer_of(tokenizer)
        if (out / STATE).is_file():
            self._folder = self._opened()
        elif (out / MANIFEST).is_file():
            raise InvalidInputError(
                f"{out}: it holds an index without a log of changes; --sync needs a folder of its own: name a new one"
            )
        else:
            check_new(out)

    def _opened(self) -> PassageFolder:
        folder = PassageFolder.open(self.out, self._model)
        settings = folder.corpus.settings
        if bool(settings.get("vectors")) != (self._model is not None):
            said = "with vectors: add --embedder" if self._model is None else "without vectors: leave --embedder out"
            raise InvalidInputError(f"{self.out}: the folder was made {said}, or name a new folder")
        lexical = folder.corpus.index.graph.view.lexical
        if self._tokenizer is not None and lexical is not None and lexical.tokenizer != self._tokenizer:
            raise InvalidInputError(
                f"--tokenizer must be that of the folder, {lexical.tokenizer}; got {self._tokenizer}: name a new "
                "folder to change it"
            )
        return folder

    def sync(self) -> str:
        """Bring the folder in step with the files; what was done, in words."""
        found = self._reader.read(progress)
        passages = [_with_source(one, source) for one, source in zip(found.passages, found.sources, strict=True)]
        self._tell_skipped(found)
        if self._folder is None:
            self._folder = PassageFolder.create(self.out, passages, self._model, tokenizer=self._tokenizer or "english")
            return f"{len(passages)} passages of {len(self._folder.documents())} documents added"
        return str(self._folder.sync_files(passages, stays=_unreadable(found)))

    def _tell_skipped(self, found: FilesRead) -> None:
        """Say which files were skipped, where others were the last time."""
        said = "\n".join(found.notes())
        if said and said != self._skipped:
            for line in found.notes():
                console().print(line)
        self._skipped = said

    def settle(self) -> None:
        """Wait for what goes on in the background."""
        if self._folder is not None:
            self._folder.corpus.settle()

    def watch(self, told: Callable[[str], None], failed: Callable[[str], None]) -> None:
        """Bring the folder in step at once, and whenever files have changed, until Ctrl-C.

        `told` gets what was done, `failed` why a sync could not be made; it is tried again then.
        """
        due, waited = True, RETRY
        for changed in self._changes():
            due, waited = due or changed, RETRY if changed else waited + 1
            if not due or waited < RETRY:
                continue
            waited = 0
            try:
                told(self.sync())
                due = False
            except (PhasegraphError, OSError) as error:
                failed(str(error))

    def _changes(self) -> Iterator[bool]:
        """Whether files changed; once a second, and at once after a change."""
        with needed("--watch needs watchfiles; pip install 'phasegraph[watch]'"):
            from watchfiles import watch
        root, out = self._reader.root.resolve(), self.out.resolve()

        def counts(_: object, path: str) -> bool:
            place = Path(path)
            if not place.is_relative_to(root) or place.is_relative_to(out):
                return False
            return place.name == IGNORE or not any(one.startswith(".") for one in place.relative_to(root).parts)

        watched = root if root.is_dir() else root.parent
        with suppress(KeyboardInterrupt):
            for changes in watch(
                watched, watch_filter=counts, debounce=DEBOUNCE, rust_timeout=LOOK, yield_on_timeout=True
            ):
                yield bool(changes)


def _with_source(passage: Any, source: str) -> dict[str, Any]:
    """A passage with the file that it was read from as its document, unless it names another."""
    metadata = {"source": source} | dict(passage.metadata or {})
    return {"id": passage.id, "title": passage.title, "text": passage.text, "metadata": metadata}


def _unreadable(found: FilesRead) -> Callable[[str], bool]:
    """Whether a document is of a file that is there and could not be read now: it stays as it is."""
    names = tuple(found.skipped)
    below = tuple(f"{name}{end}" for name in names for end in ("/", ":"))
    return lambda document: document in names or document.startswith(below)


def run_sync(corpus: Path, out: Path, embedder: str | None, tokenizer: str | None, *, watch: bool) -> None:
    """Sync once, or go on with every change; print what was done."""
    made, to = FileSync(corpus, out, embedder, tokenizer), console()
    if not watch:
        to.print(f"{made.sync()}: {out}")
        made.settle()
        return
    to.print(f"watching {corpus}  (Ctrl-C stops it)")
    made.watch(lambda said: to.print(f"{said}: {out}"), lambda said: typer.echo(f"phasegraph: {said}", err=True))
    made.settle()
