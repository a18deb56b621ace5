"""Retrievers over documents of one's own, which come and go in every source at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

import phasegraph  # its room graph is loaded when it is first named: it brings scipy.sparse
from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.retrieval import KeptPassages, corpus_ids, in_thread, resolve_id, with_progress

if TYPE_CHECKING:
    import phasegraph.graph

FRAMEWORK = "langchain"
_BATCH = 256


def held_by_id(documents: Iterable[Document]) -> dict[str, Document]:
    """Documents by id, the first of those that have the same text and no id of their own."""
    if isinstance(documents, Document | str) or not isinstance(documents, Iterable):
        raise InvalidTypeError(f"documents must be a list of documents; got {type(documents).__name__}")
    listed, held = list(documents), dict[str, Document]()
    wrong = next((one for one in listed if not isinstance(one, Document)), None)
    if wrong is not None:
        raise InvalidTypeError(f"documents must hold documents; got {type(wrong).__name__}")
    ids = corpus_ids(((one.id, one.metadata, one.page_content) for one in listed), "documents")
    for name, document in zip(ids, listed, strict=True):
        held.setdefault(name, document)
    return held


def passages_of(
    held: Mapping[str, Document], title_key: str, given: Mapping[str, Sequence[Any]] | None = None
) -> list[dict[str, Any]]:
    """Documents as passages of the core, with the extractions handed over."""
    return [
        {
            "id": name,
            "title": str(one.metadata.get(title_key) or ""),
            "text": one.page_content,
            "metadata": dict(one.metadata),  # the caller's may change
            "given": [] if given is None else given.get(name, []),
        }
        for name, one in held.items()
    ]


def embedded(embeddings: Embeddings | None, texts: Sequence[str], progress: bool | None) -> list[list[float]] | None:
    """The texts' embeddings, with a bar where there are many."""
    if embeddings is None:
        return None
    starts = range(0, len(texts), _BATCH)
    shown = with_progress(starts, progress if len(starts) > 1 else False, label="embed", unit="batch")
    return [vector for first in shown for vector in embeddings.embed_documents(list(texts[first : first + _BATCH]))]


def built(
    held: Mapping[str, Document],
    embeddings: Embeddings | None,
    *,
    title_key: str,
    vectors: Any = None,
    triples: Any = None,
    gazetteer: Iterable[str] = (),
    tokenizer: Any = "english",
    progress: bool | None = True,
    store: Any = None,
    kept: bool = False,
) -> phasegraph.graph.Corpus:
    """A corpus of documents, in memory, with their vectors in a store if there is one; to be `kept` in a folder."""
    from phasegraph.graph import Corpus, GraphIndex, check_passages

    passages = passages_of(held, title_key)
    check_passages(passages, kept=kept, tokenizer=tokenizer)  # before anything is embedded
    if vectors is None:
        vectors = embedded(embeddings, [one["text"] for one in passages], progress)
    many = progress if len(passages) > _BATCH else False
    index = GraphIndex.build(
        passages, triples=triples, embeddings=vectors, gazetteer=gazetteer, tokenizer=tokenizer,
        progress=lambda rows: with_progress(rows, many, label="index", unit="passage"),
    )  # fmt: skip
    return Corpus(index, None if embeddings is None else embeddings.embed_query, store=store)


class KeptDocuments(KeptPassages):
    """Part of a retriever that was made of documents, or opened from a folder: they come and go."""

    if TYPE_CHECKING:  # of the model; a value here would hide it
        _corpus: phasegraph.graph.Corpus | None
        _title_key: str
        _embeds: Embeddings | None

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        extractions: Iterable[phasegraph.graph.Extraction] | Mapping[str, Sequence[tuple[str, str, str]]] | None = None,
        progress: bool | None = True,
    ) -> list[str]:
        """Add documents to every source at once; one with the id of a document that is there takes its place.

        Parameters
        ----------
        documents : iterable of Document
            Their ids are read as by ``from_documents``.
        extractions : optional
            Triples, as for ``from_documents``.
        progress : bool, default True
            Show a bar for many documents, where standard error is a terminal and tqdm is installed.

        Returns
        -------
        list of str
            The documents' ids.

        Raises
        ------
        InvalidInputError
            If the retriever was made of other retrievers, an id repeats, a document has no text, or one whose id is
            read from its metadata would take the place of another text.
        StoreError
            If the folder or its vectors cannot be changed. Nothing is changed then.
        """
        from phasegraph.graph import fields_of

        corpus, held = self._changing(), held_by_id(documents)
        _refuse_taken(corpus, held)
        passages = passages_of(held, self._title_key, fields_of(extractions, held))
        self._add(passages, lambda: embedded(self._embeds, [one["text"] for one in passages], progress))
        return list(held)

    async def aadd_documents(self, documents: Iterable[Document], **options: Any) -> list[str]:
        """As :meth:`add_documents`, without blocking the event loop."""
        ids: list[str] = await in_thread(lambda given: self.add_documents(given, **options), documents)
        return ids


def _refuse_taken(corpus: phasegraph.graph.Corpus, held: Mapping[str, Document]) -> None:
    """Refuse to replace a text by another for an id in metadata: it may be that of a file that both were split from."""
    there = corpus.records(held)
    for name, record in there.items():
        one = held[name]
        origin = resolve_id(one.id, one.metadata, one.page_content)[1]
        if origin not in ("own", "text") and record.text != one.page_content:
            raise InvalidInputError(
                f"documents: metadata {origin!r} names {name!r}, which is there with another text: give the document "
                f"that as its own id (Document.id) to replace it, else another"
            )


def folder_settings(title_key: str, *, vectors: bool) -> dict[str, object]:
    """What a folder is to be opened with."""
    return {"framework": FRAMEWORK, "title_key": title_key, "vectors": vectors}


def opened(
    path: str | os.PathLike[str], embeddings: Embeddings | None, *, vectors: bool, progress: bool | None = False
) -> tuple[phasegraph.graph.Corpus, str]:
    """The corpus of a folder, with its vectors where they are wanted, and its title key."""
    from phasegraph.graph import open_folder

    embed = None if embeddings is None else embeddings.embed_query
    return open_folder(path, FRAMEWORK, embed, vectors=vectors, progress=progress)
