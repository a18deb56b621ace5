"""A folder of passages without a framework; documents are added, changed and deleted as a whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from phasegraph._support.progress import with_progress
from phasegraph._support.validation import check_rows
from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.corpus.chroma import open_folder
from phasegraph.graph.corpus.corpus import Corpus
from phasegraph.graph.corpus.folder import CORE, Folder, check_new
from phasegraph.graph.corpus.passage_input import check_passages, check_source_key
from phasegraph.graph.index.records import PassageRecord
from phasegraph.graph.model.building import passage_field
from phasegraph.graph.model.entity_graph import Extraction
from phasegraph.lexical import Tokenizer
from phasegraph.retrieval.by_document import Content, SyncCounts
from phasegraph.retrieval.framework import Framework
from phasegraph.retrieval.indexing import MANY, Indexing
from phasegraph.retrieval.kept import KeptPassages
from phasegraph.retrieval.new_folder import write_folder
from phasegraph.retrieval.plain_filters import PlainFilter, check_filter


class Passages(Framework):
    """The operations on passages without a framework; a passage is a mapping with id, title, text and metadata."""

    name, hit, filters, model = CORE, "passage", "where", "model"

    def of_record(self, record: PassageRecord) -> dict[str, Any]:
        """Convert a stored passage to a mapping with id, title, text and metadata."""
        return {"id": record.id, "title": record.title, "text": record.text, "metadata": record.metadata}

    def text_of(self, hit: Mapping[str, Any]) -> str:
        """Return the text of a passage."""
        return str(hit["text"])

    def filter_of(self, where: Any) -> PlainFilter:
        """Check a caller's filter, and convert it to a :class:`PlainFilter`."""
        return PlainFilter(check_filter(self.filters, where))

    def check_model(self, model: Any) -> None:
        """Raise InvalidTypeError unless the argument is an :class:`EmbeddingModel`."""
        if not isinstance(model, EmbeddingModel):
            raise InvalidTypeError(f"model must be an EmbeddingModel; got {type(model).__name__}")

    def model_of(self, model: EmbeddingModel | None) -> EmbeddingModel | None:
        """Return the argument unchanged; raise InvalidTypeError unless it is an :class:`EmbeddingModel` or None."""
        if model is not None:
            self.check_model(model)
        return model

    def embedded(self, model: EmbeddingModel | None, hits: Sequence[Any], progress: bool | None) -> Any:
        """Embed passages, and return an array of shape (n, d); None without a model.

        A progress bar is shown for more than 256 passages.
        """
        if model is None:
            return None
        records = list(map(_record, hits))
        starts = range(0, len(records), MANY)
        shown = with_progress(starts, progress if len(starts) > 1 else False, label="embed", unit="batch")
        return np.concatenate(
            [np.asarray(model.passages(records[first : first + MANY]), dtype=np.float32) for first in shown]
        )

    def embedded_text(self, hit: Mapping[str, Any]) -> str:
        """Return the title and text of a passage, which the model embeds."""
        return _record(hit).content


def _record(hit: Mapping[str, Any]) -> PassageRecord:
    return PassageRecord(hit["id"], hit["title"], hit["text"], Extraction(hit["id"]))


PASSAGES = Passages()


class PassageFolder(KeptPassages):
    """A folder of passages, given as mappings or objects with ``id``, ``title``, ``text`` and ``metadata``.

    :meth:`sync`, :meth:`ids`, :meth:`delete` and :meth:`documents` work like the methods of a retriever. A filter
    (``where=``) maps metadata keys to a required value, or to a list of allowed values. The title is also stored in the
    metadata, where it replaces a value under the key ``title``.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> rows = [
    ...     {"id": "1", "text": "Ada met Bo.", "metadata": {"source": "a.md"}},
    ...     {"id": "2", "text": "Cy sang.", "metadata": {"source": "b.md"}},
    ... ]
    >>> folder = PassageFolder.create(mkdtemp(), rows)
    >>> str(folder.sync([{"id": "3", "text": "Ada met Cy.", "metadata": {"source": "a.md"}}]))
    '0 documents added, 1 changed, 0 deleted, 0 as they were; 0 passages embedded'
    >>> folder.documents(), folder.delete(where={"source": "b.md"})
    ({'b.md': 1, 'a.md': 1}, 1)
    """

    _framework = PASSAGES

    def __init__(self, corpus: Corpus, model: EmbeddingModel | None = None) -> None:
        self._corpus, self._embeds = corpus, model

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        passages: Iterable[Any],
        model: EmbeddingModel | None = None,
        *,
        tokenizer: Tokenizer = "english",
        source_key: str | None = None,
        settings: Mapping[str, object] = MappingProxyType({}),
        progress: bool = True,
    ) -> Self:
        """Create a folder of passages; the index is built in shards if it would not fit in the free memory.

        Parameters
        ----------
        path : path
            A new or empty folder.
        passages : iterable of mapping or object
            The passages, with ``id``, ``title``, ``text`` and ``metadata``.
        model : EmbeddingModel, optional
            The model that embeds every passage. Its function ``passages`` receives records; the ``content`` of a record
            is its title and text.
        tokenizer : str, default "english"
            The name of the tokenizer that splits texts into words.
        source_key : str, optional
            Metadata key that names a passage's document. Default: the first key that exists among ``source``,
            ``doc_id``, ``ref_doc_id`` and ``file_path``.
        settings : mapping, optional
            Values in JSON that the folder stores; ``corpus.settings`` contains them.
        progress : bool, default True
            Show progress bars for many passages.

        Raises
        ------
        InvalidInputError
            If there is no passage, a passage has no text, an id is repeated, or the folder `path` is not empty.
        """
        check_new(Path(path))
        listed = [_plain(one) for one in check_rows("passages", passages)]
        check_source_key(source_key, [one["metadata"] for one in listed])
        check_passages(listed, kept=True, tokenizer=tokenizer)
        write_folder(
            path, PASSAGES, PASSAGES.model_of(model), listed, listed,
            Indexing(tokenizer=tokenizer, source_key=source_key, progress=progress),
            made_by=None if model is None else model.identity,
            settings={**settings, **cls._folder_settings(vectors=model is not None)}, uncounted=cls._uncounted,
        )  # fmt: skip
        return cls.open(path, model, checks=False)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        model: EmbeddingModel | None = None,
        *,
        checks: bool = True,
        own: bool = False,
    ) -> Self:
        """Open a folder of passages, including a folder that a framework's retriever created.

        Parameters
        ----------
        path : path
            The folder.
        model : EmbeddingModel, optional
            The model that embedded the passages. It is needed to add passages to a folder with vectors.
        checks : bool, default True
            Check that `model` is the model that embedded the passages.
        own : bool, default False
            Refuse a folder that a framework's retriever created, because passages can only be deleted from it.

        Raises
        ------
        IntegrityError
            If the folder is damaged, has another format, or was written by a newer version.
        InvalidInputError
            If the passages were embedded by another model. With `own`, if a framework's retriever created the folder.
        """
        if own:
            _check_own(Folder(path).settings, f"{path}: ")
        return cls(open_folder(path, None, model, vectors=None, checks=checks), model)

    @property
    def corpus(self) -> Corpus:
        """The corpus of the passages; ``corpus.source("graph")`` returns a source that searches it."""
        corpus: Corpus = self._corpus
        return corpus

    def documents(self) -> dict[str, int]:
        """Return the number of passages by document name; the name ``""`` counts passages without a document."""
        return self._counts()

    def sync_files(
        self,
        passages: Iterable[Any],
        *,
        stays: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        progress: bool = True,
    ) -> SyncCounts:
        """Run :meth:`sync` with ``full=True``, but do not delete a document for which ``stays(name)`` is True."""
        _check_own(self._corpus.settings)
        return self._synced(
            self._contents(passages), full=True, allow_empty=allow_empty, stays=stays, progress=progress
        )

    def reembed(self, model: EmbeddingModel, *, progress: bool = True) -> None:
        """Embed every passage again with another model, in one step; the new vectors may have another length.

        After an interruption, a second call continues at the passage where the first call stopped.
        """
        _check_own(self._corpus.settings)
        self._reembed(model, progress)

    def _contents(self, documents: Iterable[Any]) -> Iterator[Content]:
        listed = [_plain(one) for one in check_rows("documents", documents)]
        return (Content(None, one["text"], one["metadata"], one["metadata"], one) for one in listed)

    def _passages(self, items: Sequence[Any]) -> list[dict[str, Any]]:
        _check_own(self._corpus.settings)
        return list(items)


def _check_own(settings: Mapping[str, object], where: str = "") -> None:
    """Raise InvalidInputError if `settings` belong to a folder that a framework's retriever created."""
    made_for = settings.get("framework")
    if made_for != PASSAGES.name:
        raise InvalidInputError(
            f"{where}the folder was created by a retriever of {made_for}, which embeds passages differently: open it "
            "with that retriever to add or embed passages"
        )


def _plain(passage: Any) -> dict[str, Any]:
    """Convert a mapping or object to a passage of the corpus, with its title in the metadata.

    The title replaces a value under the key ``title``: a sync compares metadata, and must see a changed title.
    """
    identity, title, text, metadata = (passage_field(passage, name) for name in ("id", "title", "text", "metadata"))
    title, metadata = title or "", metadata or {}
    if not isinstance(text, str) or not isinstance(title, str):
        raise InvalidInputError(
            f"passage {identity!r:.80} must have a text and, optionally, a title; got text of type "
            f"{type(text).__name__} and title of type {type(title).__name__}"
        )
    return {"id": identity, "title": title, "text": text, "metadata": metadata | ({"title": title} if title else {})}
