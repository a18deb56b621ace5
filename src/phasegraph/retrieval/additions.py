"""Warn if a store has passages that the graph does not have, because they were added to the store directly."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from phasegraph.errors import warn
from phasegraph.retrieval.identity import is_text_id
from phasegraph.sources.protocol import Upstream

_MISSING = "{missing} of {total} hits of {store!r} are not in the graph"
_ADVICE = (
    "{said}: the retriever does not know passages that were added to the store directly, and ranks them too low. Add "
    "them with the retriever (add_documents, add_nodes or sync)"
)


class Additions:
    """A check for passages that only a store has; it warns once.

    `stores` are the names of the sources that search the store from which the retriever made its corpus. The store of
    a graph that the user made is not checked, because the graph may cover a part of the store. A passage whose id was
    made from its text is not counted.
    """

    __slots__ = ("_stores", "_warned")

    def __init__(self, stores: Collection[str] = ()) -> None:
        self._stores, self._warned = stores, False

    def see(self, corpus: Any, upstream: Upstream, notes: list[str]) -> None:
        """Add a note for each store whose ranking in `upstream` has passages that are not in `corpus`, and warn once.

        During a change of the corpus, nothing is checked, because the store receives new passages before the graph. A
        passage that was deleted after the search began is not counted.
        """
        if not self._stores or corpus.is_changing:
            return
        for store in self._stores:
            ids = () if (ranking := upstream.get(store)) is None else ranking.ids
            before = corpus.records(ids)
            missing = [name for name in ids if name not in corpus and name not in before and not is_text_id(name)]
            if not missing:
                continue
            said = _MISSING.format(missing=len(missing), total=len(ids), store=store)
            notes.append(said)
            if not self._warned:
                self._warned = True
                warn(_ADVICE.format(said=said))
