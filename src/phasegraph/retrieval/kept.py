"""What retrievers over a corpus of their own share: how its passages come and go, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from time import monotonic
from typing import Any
from weakref import ref

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


def version_of(source: object) -> Hashable:
    """What tells whether a source's graph is another one than before; a graph is not kept alive by it."""
    graph = getattr(source, "graph", None)
    try:
        return None if graph is None else ref(graph)
    except TypeError:
        return id(graph)


class Recent:
    """The `most` last values that were made, by key, each for so many seconds; None is for good.

    A copy starts empty. Safe for any number of threads.

    >>> recent = Recent()
    >>> recent.get("a", lambda: 1), recent.get("a", lambda: 2)
    (1, 1)
    """

    __slots__ = ("_held", "most", "seconds")

    def __init__(self, seconds: float | None = None, most: int = 8) -> None:
        self.seconds, self.most = seconds, most
        self._held: dict[Hashable, tuple[float, Any]] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return Recent, (self.seconds, self.most)

    def __deepcopy__(self, memo: object) -> Recent:
        return Recent(self.seconds, self.most)

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The value of `key`, made where there is none that still serves."""
        held, now = self._held.get(key), monotonic()
        if held is not None and (self.seconds is None or now - held[0] < self.seconds):
            return held[1]
        value = make()
        self._held.pop(key, None)
        for oldest in list(self._held)[: 1 - self.most or None]:  # a list at once: other threads change it meanwhile
            self._held.pop(oldest, None)
        self._held[key] = now, value
        return value

    def forget(self, key: Hashable) -> None:
        """Make the value of `key` anew the next time."""
        self._held.pop(key, None)
