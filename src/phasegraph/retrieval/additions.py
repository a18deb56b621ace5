"""Warn if a store has passages that the graph does not have, because they were added to the store directly."""

from __future__ import annotations

from typing import Any

from phasegraph.retrieval.identity import is_text_id
from phasegraph.retrieval.once import Once
from phasegraph.sources.protocol import Upstream

_MISSING = "{missing} of {total} hits of {store!r} are not in the graph"
_ADVICE = (
    "{said}: the retriever does not know passages that were added to the store directly, and ranks them too low. Add "
    "them with the retriever (add_documents, add_nodes or sync)"
)


class Additions:
    """A check for passages that only a store has; it warns once.

    `store` is the name of the source that searches the store from which the retriever made its corpus, or None. The
    store of a graph that the user made is not checked, because the graph may cover a part of the store. A passage whose
    id was made from its text is not counted.
    """

    __slots__ = ("_once", "_store")

    def __init__(self, store: str | None = None) -> None:
        self._store, self._once = store, Once()

    def see(self, corpus: Any, upstream: Upstream, notes: list[str]) -> None:
        """Add a note if the store's ranking in `upstream` has passages that are not in `corpus`, and warn once.

        During a change of the corpus, nothing is checked, because the store receives new passages before the graph. A
        passage that was deleted after the search began is not counted.
        """
        ranking = None if self._store is None else upstream.get(self._store)
        if ranking is None or corpus.is_changing:
            return
        before = corpus.records(ranking.ids)
        missing = [name for name in ranking.ids if name not in corpus and name not in before and not is_text_id(name)]
        if not missing:
            return
        said = _MISSING.format(missing=len(missing), total=len(ranking.ids), store=self._store)
        notes.append(said)
        self._once.warn(_ADVICE.format(said=said))
