"""Passages in a folder, without a framework: they come, change and go by document."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from phasegraph._support.progress import with_progress
from phasegraph._support.validation import check_rows
from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.corpus.chroma import open_folder
from phasegraph.graph.corpus.corpus import Corpus
from phasegraph.graph.corpus.folder import check_new
from phasegraph.graph.corpus.passage_input import Keys, check_passages, check_source_key
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.index.records import PassageRecord
from phasegraph.graph.model.building import passage_field
from phasegraph.graph.model.entity_graph import Extraction
from phasegraph.lexical import Tokenizer
from phasegraph.retrieval.by_document import Content, SyncCounts
from phasegraph.retrieval.framework import Framework
from phasegraph.retrieval.kept import KeptPassages
from phasegraph.retrieval.plain_filters import PlainFilter, check_filter

_MANY = 256


class Passages(Framework):
    """The core's own passages: mappings with id, title, text and metadata."""

    name, hit, filters, model = "core", "passage", "where", "model"

    def of_record(self, record: PassageRecord) -> dict[str, Any]:
        """A passage of a corpus as a mapping."""
        return {"id": record.id, "title": record.title, "text": record.text, "metadata": record.metadata}

    def text_of(self, hit: Mapping[str, Any]) -> str:
        """The text of a passage."""
        return str(hit["text"])

    def filter_of(self, where: Any) -> PlainFilter:
        """A filter as a caller gave it, or an error."""
        return PlainFilter(check_filter(self.filters, where))

    def check_model(self, model: Any) -> None:
        """InvalidTypeError for anything but an embedding model."""
        if not isinstance(model, EmbeddingModel):
            raise InvalidTypeError(f"model must be an EmbeddingModel; got {type(model).__name__}")

    def model_of(self, model: EmbeddingModel | None) -> EmbeddingModel | None:
        """The model itself, checked."""
        if model is not None:
            self.check_model(model)
        return model

    def embedded(self, model: EmbeddingModel | None, hits: Sequence[Any], progress: bool | None) -> Any:
        """The vectors of passages, with a bar for many; None without a model."""
        if model is None:
            return None
        records = [PassageRecord(one["id"], one["title"], one["text"], Extraction(one["id"])) for one in hits]
        starts = range(0, len(records), _MANY)
        shown = with_progress(starts, progress if len(starts) > 1 else False, label="embed", unit="batch")
        return np.concatenate(
            [np.asarray(model.passages(records[first : first + _MANY]), dtype=np.float32) for first in shown]
        )


PASSAGES = Passages()


class PassageFolder(KeptPassages):
    """A folder of passages that were given as mappings or objects with ``id``, ``title``, ``text`` and ``metadata``.

    :meth:`sync`, :meth:`ids`, :meth:`delete` and :meth:`documents` work as those of a retriever. A filter (``where=``)
    maps metadata keys to a value, or to a list of values. The title is kept in the metadata, too.

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
        progress: bool = True,
    ) -> Self:
        """Make a folder of passages.

        Parameters
        ----------
        path : path
            New or empty.
        passages : iterable of mapping or object
        model : EmbeddingModel, optional
            Embeds every passage; its function ``passages`` gets records, whose ``content`` is title and text.
        tokenizer : str, default "english"
        source_key : str, optional
            Metadata key that names a passage's document; by default the first of ``source``, ``doc_id``,
            ``ref_doc_id`` and ``file_path``.
        progress : bool, default True
            Show bars for many passages.

        Raises
        ------
        InvalidInputError
            If there is no passage, one has no text, an id repeats, or `path` holds files.
        """
        check_new(Path(path))
        listed = [_plain(one) for one in check_rows("passages", passages)]
        check_source_key(source_key, [one["metadata"] for one in listed])
        check_passages(listed, kept=True, tokenizer=tokenizer)
        vectors = PASSAGES.embedded(PASSAGES.model_of(model), listed, progress)
        index = GraphIndex.build(
            listed, embeddings=vectors, tokenizer=tokenizer,
            progress=lambda rows: with_progress(rows, progress and len(listed) > _MANY, label="index", unit="passage"),
        )  # fmt: skip
        made_by = None if model is None else model.identity
        made = Corpus(index, model, made_by=made_by, keys=Keys("title", source_key))
        made.save(path, cls._folder_settings(vectors=model is not None), cls._uncounted)
        return cls.open(path, model, checks=False)

    @classmethod
    def open(cls, path: str | os.PathLike[str], model: EmbeddingModel | None = None, *, checks: bool = True) -> Self:
        """Open a folder, also that of a retriever of a framework.

        Parameters
        ----------
        path : path
        model : EmbeddingModel, optional
            The model that the passages were embedded with; needed to add some to a folder with vectors.
        checks : bool, default True
            Check that.

        Raises
        ------
        IntegrityError
            If the folder is damaged, foreign or newer.
        InvalidInputError
            If it was made with another model.
        """
        return cls(open_folder(path, None, model, vectors=None, checks=checks), model)

    @property
    def corpus(self) -> Corpus:
        """The passages, to be searched: ``corpus.source("graph")`` and others."""
        corpus: Corpus = self._corpus
        return corpus

    def documents(self) -> dict[str, int]:
        """Passages by document; under ``""`` those that name none."""
        return self._counts()

    def sync_files(
        self, passages: Iterable[Any], *, stays: Callable[[str], bool] | None = None, progress: bool = True
    ) -> SyncCounts:
        """As :meth:`sync` with all documents there are, but for those of which ``stays(name)`` says that they stay."""
        self._check_own()
        return self._synced(self._contents(passages), full=True, stays=stays, progress=progress)

    def reembed(self, model: EmbeddingModel, *, progress: bool = True) -> None:
        """Embed every passage anew, by another model, whose vectors may have another length; all or nothing.

        A call that was cut short goes on where it stopped.
        """
        self._check_own()
        self._reembed(model, progress)

    def _check_own(self) -> None:
        made_for = self._corpus.settings.get("framework")
        if made_for != PASSAGES.name:
            raise InvalidInputError(
                f"the folder was made for {made_for}, which embeds passages in its own way: open it there to add or "
                "embed passages"
            )

    def _contents(self, documents: Iterable[Any]) -> list[Content]:
        listed = [_plain(one) for one in check_rows("documents", documents)]
        return [Content(None, one["text"], one["metadata"], one["metadata"], one) for one in listed]

    def _passages(self, items: Sequence[Any]) -> list[dict[str, Any]]:
        self._check_own()
        return list(items)


def _plain(passage: Any) -> dict[str, Any]:
    """A passage as a corpus takes it, with its title in the metadata."""
    identity, title, text, metadata = (passage_field(passage, name) for name in ("id", "title", "text", "metadata"))
    title, metadata = title or "", metadata or {}
    if not isinstance(text, str) or not isinstance(title, str):
        raise InvalidInputError(f"passage {identity!r:.80} must have a text, and a title only if that is text, too")
    return {"id": identity, "title": title, "text": text, "metadata": ({"title": title} if title else {}) | metadata}
