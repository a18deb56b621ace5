"""Warn if a store has passages that the graph does not have, because they were added to the store directly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from phasegraph.retrieval.identity import is_text_id
from phasegraph.retrieval.once import Once
from phasegraph.sources.protocol import Upstream

_REMEMBERED = 10_000
_MISSING = "{missing} of {total} hits of {store!r} are not in the graph"
_ADVICE = (
    "{said}: the retriever does not know passages that were added to the store directly, and ranks them too low. Add "
    "them with the retriever (add_documents, add_nodes or sync)"
)


class Additions:
    """A check for passages that only a store has; it warns once.

    `store` is the name of the source that searches the store from which the retriever made its corpus, or None. The
    store of a graph that the user made is not checked, because the graph may cover a part of the store. A passage whose
    id was made from its text is not counted. ``look_up(ids)`` returns the passages of the store by id, or is None if
    the store cannot look up ids. A hit that the store does not contain is not counted: its source got it elsewhere.
    An id that the store has is remembered, and not looked up again.
    ``text(hit)`` returns the text of a hit; a hit without text is not counted.
    """

    __slots__ = ("_held", "_look_up", "_once", "_store", "_text")

    def __init__(
        self,
        store: str | None = None,
        look_up: Callable[[Sequence[str]], Mapping[str, Any]] | None = None,
        text: Callable[[Any], str] | None = None,
    ) -> None:
        self._store, self._look_up, self._text, self._once = store, look_up, text, Once()
        self._held: frozenset[str] = frozenset()

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
        if self._text is not None:
            hits = {name: ranking.payloads.get(name) for name in missing}
            missing = [name for name, hit in hits.items() if hit is None or self._text(hit).strip()]
        known = self._held
        asked = [name for name in missing if name not in known]
        if asked and self._look_up is not None:
            try:
                found = self._look_up(asked)
                held = known.union(name for name in asked if name in found)
                missing = [name for name in missing if name in held]
                self._held = held if len(held) <= _REMEMBERED else frozenset()
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - a failed look-up does not show where the hits come from
                notes.append(f"source {self._store!r} failed to look up passages ({type(error).__name__})")
                return
        if not missing:
            return
        said = _MISSING.format(missing=len(missing), total=len(ranking.ids), store=self._store)
        notes.append(said)
        self._once.warn(_ADVICE.format(said=said))
