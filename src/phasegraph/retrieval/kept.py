"""What retrievers over a corpus of their own share: how its passages come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phasegraph.errors import InvalidInputError
from phasegraph.sources.workers import in_thread


class KeptPassages:
    """Part of a retriever that was made of passages, or opened from a folder: they come and go.

    A retriever inherits it beside its framework's class, and keeps the corpus in ``_corpus``, None where it has none,
    the metadata key of titles in ``_title_key``, and the embedding model in ``_embeds``.
    """

    def delete(self, ids: Sequence[str]) -> None:
        """Delete passages from every source at once.

        Raises
        ------
        InvalidInputError
            If an id is not there, no passage would stay, or the retriever was made of other retrievers.
        StoreError
            If the folder or its vectors cannot be changed. Nothing is deleted then.
        """
        corpus = self._changing()
        corpus.replace(ids)
        self._changed(corpus)

    async def adelete(self, ids: Sequence[str]) -> None:
        """As :meth:`delete`, without blocking the event loop."""
        await in_thread(self.delete, ids)

    def _add(self, passages: Sequence[Any], embedded: Callable[[], Any]) -> None:
        """Add passages that are checked first; `embedded` makes their vectors, where the corpus has any."""
        corpus, vectors = self._changing(), None
        corpus.check(passages)
        if corpus.index.graph.view.embeddings is not None:
            if getattr(self, "_embeds", None) is None:
                raise InvalidInputError(
                    "its passages have vectors: load it with its model (embeddings=, or embed_model= in LlamaIndex) to "
                    "add others"
                )
            vectors = embedded()
        corpus.replace((), passages, vectors)
        self._changed(corpus)

    def _changed(self, corpus: Any) -> None:
        """What a retriever has to renew."""

    def _changing(self) -> Any:
        corpus = getattr(self, "_corpus", None)
        if corpus is None:
            raise InvalidInputError(
                f"this {type(self).__name__} was made of sources of yours: change those. One made of documents, over a "
                "store, or by load changes its own"
            )
        return corpus
