"""What retrievers over a corpus of their own share: its passages by id, and how they come and go."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from phasegraph._shared import fork_safe_lock
from phasegraph.errors import InvalidInputError
from phasegraph.retrieval.recent import Recent
from phasegraph.sources.workers import in_thread

_MOST_KEPT = 20_000


class CorpusLookup:
    """The passages of a corpus by their ids, in the framework's words; some of them are kept.

    Parameters
    ----------
    corpus : Corpus
    made : callable
        ``made(record)``: the framework's document of a :class:`~phasegraph.graph.records.PassageRecord`.
    """

    def __init__(self, corpus: Any, made: Callable[[Any], Any]) -> None:
        self.corpus, self._made = corpus, made
        self._kept: dict[str, tuple[object, Any]] = {}
        self._matching, self._turn = Recent(), fork_safe_lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return CorpusLookup, (self.corpus, self._made)

    def __repr__(self) -> str:
        return f"<{len(self.corpus)} passages>"

    def __len__(self) -> int:
        return len(self.corpus)

    def __call__(self, ids: Sequence[str]) -> dict[str, Any]:
        """Those that there are."""
        found = {}
        for name, record in self.corpus.records(ids).items():
            metadata, document = self._kept.get(name, (None, None))
            if document is None or metadata is not record.metadata:
                document = self._made(record)
                if len(self._kept) >= _MOST_KEPT:
                    self._kept.clear()
                self._kept[name] = record.metadata, document
            found[name] = document
        return found

    def matching(self, key: Hashable, passes: Callable[[Sequence[Any]], Iterable[int]]) -> frozenset[str]:
        """Ids of the passages that a filter lets through, worked out once for all sources over the corpus.

        Parameters
        ----------
        key : hashable
            What tells filters apart.
        passes : callable
            ``passes(records)``: the rows of those that it lets through; a record has ``id``, ``text`` and ``metadata``.
        """

        def made() -> tuple[Any, frozenset[str]]:
            now = self.corpus.index
            records = list(now.records.values())
            return now, frozenset(records[row].id for row in passes(records))

        with self._turn:
            index, ids = self._matching.get(key, made)
            if index is not self.corpus.index:
                self._matching.forget(key)
                _, ids = self._matching.get(key, made)
        found: frozenset[str] = ids
        return found


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
        if corpus.index.graph.embeddings is not None:
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
