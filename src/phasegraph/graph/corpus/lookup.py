"""Find the passages of a corpus by id, and restrict its sources to the passages that match a filter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any

from phasegraph._support.recent import Recent
from phasegraph._support.shared import fork_safe_lock
from phasegraph.graph.corpus.corpus import LiveSource
from phasegraph.graph.index.graph_index import GraphIndex

MOST_LOOKED_UP = 20_000
"""Maximum number of passages whose framework documents are cached."""


class CorpusLookup:
    """A lookup of a corpus's passages by id; ``made(record)`` converts a record to the framework's document."""

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
        """Return the framework's documents by passage id; ids that are not in the corpus are left out."""
        found = {}
        for name, record in self.corpus.records(ids).items():
            metadata, document = self._kept.get(name, (None, None))
            if document is None or metadata is not record.metadata:
                document = self._made(record)
                if len(self._kept) >= MOST_LOOKED_UP:
                    self._kept.clear()
                self._kept[name] = record.metadata, document
            found[name] = document
        return found

    def within(
        self,
        source: Any,
        key: Hashable,
        passes: Callable[[Sequence[Any]], Iterable[int]],
        names: Collection[str] = (),
    ) -> Any:
        """Restrict a source to the passages that match a filter.

        `key` identifies the filter in the cache. ``passes(records)`` returns the positions of the records that match.
        `names` are the metadata keys that the filter reads; a key that is in no passage causes one warning.

        If `source` searches this corpus, the result searches only the passages that the corpus has now. Later changes
        of the corpus affect neither the filter nor the search.
        """
        self.corpus.look()
        state = self.corpus.seen
        if isinstance(source, LiveSource) and source.corpus is self.corpus:
            source = self.corpus.in_state(state, source.name)
        return source.within(self._matching_in(state.index, key, passes, names))

    def _matching_in(
        self,
        index: GraphIndex,
        key: Hashable,
        passes: Callable[[Sequence[Any]], Iterable[int]],
        names: Collection[str],
    ) -> frozenset[str]:
        """Return the ids of passages that match a filter; the result is cached for all sources of the corpus.

        :meth:`within` describes the parameters `key`, `passes` and `names`.
        """

        def made() -> tuple[Any, frozenset[str]]:
            records = list(index.records.values())
            self.corpus.say_missing(names, records)
            return index, frozenset(records[row].id for row in passes(records))

        with self._turn:
            of, ids = self._matching.get(key, made)
            if of is not index:
                self._matching.forget(key)
                _, ids = self._matching.get(key, made)
        found: frozenset[str] = ids
        return found
