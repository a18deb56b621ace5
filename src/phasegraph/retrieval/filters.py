"""Drop hits that do not match a filter, and restrict the search of a FAISS index to some rows."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from phasegraph.ranking import Ranking
from phasegraph.retrieval.payloads import Payloads
from phasegraph.sources.protocol import FilterRefusedError


def note_dropped(dropped: int, count: int, notes: list[str]) -> None:
    """Add a note if `dropped` of `count` hits do not match the filter."""
    if dropped:
        notes.append(f"{dropped} of {count} hits dropped: they do not match the filter")


def within_filter(ranking: Ranking, passes: Callable[[Any], bool], notes: list[str]) -> Ranking:
    """Drop hits for which ``HitFields.resolve`` returned no passage, or a passage that does not match the filter.

    ``passes(passage)`` returns True if a passage matches the filter. `notes` receives the number of dropped hits.
    """
    payloads = ranking.payloads
    gone = [one for one in ranking.ids if (held := payloads.get(one)) is None or not passes(held)]
    if not gone:
        return ranking
    said = (
        f"{len(gone)} of {len(ranking)} hits dropped: the passages that resolve returned do not match the filter, or "
        "lack the metadata that the filter reads"
    )
    notes.append(said)
    kept = ranking.without(frozenset(gone))
    held = Payloads(kept.ids, [payloads[one] for one in kept.ids], getattr(payloads, "evidence", payloads))
    return replace(kept, payloads=held, reason=kept.reason if len(kept) else said)


def without_gone(ranking: Ranking, summaries: Mapping[str, Any], there: Collection[str]) -> Ranking:
    """Drop passages that no longer exist, and summaries that cover a passage that no longer exists.

    `summaries` maps the id of each summary in the ranking to the summary; its ``passages`` are the ids that it covers.
    `there` contains the ids of all existing passages.
    """

    def gone(one: str) -> bool:
        under = summaries[one].passages if one in summaries else (one,)
        return any(name not in there for name in under)

    return ranking.without(frozenset(filter(gone, ranking.ids)))


class SelectedIndex:
    """A wrapper around a FAISS index that computes scores only for selected rows.

    If the index cannot select rows, its search raises an error instead of returning other rows.
    """

    def __init__(self, index: Any, rows: list[int]) -> None:
        self._index, self._rows = index, rows
        library = importlib.import_module("faiss")
        chosen, probes = library.IDSelectorBatch(rows), getattr(index, "nprobe", None)
        self._parameters = (
            library.SearchParameters(sel=chosen)
            if probes is None
            else library.SearchParametersIVF(sel=chosen, nprobe=probes)
        )

    def __reduce__(self) -> tuple[object, ...]:
        return SelectedIndex, (self._index, self._rows)

    def search(self, vectors: Any, k: int) -> Any:
        """Return the distances and row numbers of the `k` nearest selected rows.

        Raise FilterRefusedError if the index cannot search only some of its rows.
        """
        try:
            return self._index.search(vectors, k, params=self._parameters)
        except RuntimeError as error:  # FAISS has its own exceptions, whose messages contain its source code
            raise FilterRefusedError(
                f"a FAISS {type(self._index).__name__} cannot search only some of its rows: use a flat, HNSW "
                "or IVF index, or give each tenant its own index"
            ) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)
