"""Drop the hits that do not match a filter, and search a FAISS index within one."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from phasegraph.ranking import Ranking
from phasegraph.retrieval.payloads import Payloads
from phasegraph.sources.protocol import FilterRefusedError


def note_dropped(dropped: int, count: int, notes: list[str]) -> None:
    """Note hits that a source returned although they do not match the filter."""
    if dropped:
        notes.append(f"{dropped} of {count} hits dropped: they do not match the filter")


def within_filter(ranking: Ranking, passes: Callable[[Any], bool], notes: list[str]) -> Ranking:
    """The ranking without the hits that ``resolve`` gave a passage which the filter does not let through.

    `passes` says of a payload whether it has what the filter asks for; `notes` takes how many were dropped.
    """
    payloads = ranking.payloads
    gone = [one for one in ranking.ids if (held := payloads.get(one)) is None or not passes(held)]
    if not gone:
        return ranking
    said = (
        f"{len(gone)} of {len(ranking)} hits dropped: what resolve gave for them does not match the filter, or does "
        "not say (it must have the metadata that the filter asks for)"
    )
    notes.append(said)
    kept = ranking.without(frozenset(gone))
    held = Payloads(kept.ids, [payloads[one] for one in kept.ids], getattr(payloads, "evidence", payloads))
    return replace(kept, payloads=held, reason=kept.reason if len(kept) else said)


def without_gone(ranking: Ranking, summaries: Mapping[str, Any], there: Collection[str]) -> Ranking:
    """The ranking without the passages that are no longer `there`, and without the summaries over any of them.

    `summaries` are those in the ranking, by id, with their ``passages``.
    """

    def gone(one: str) -> bool:
        under = summaries[one].passages if one in summaries else (one,)
        return any(name not in there for name in under)

    return ranking.without(frozenset(filter(gone, ranking.ids)))


class SelectedIndex:
    """A FAISS index in which only some rows are looked at: the library's own selection, made before it scores.

    An index that cannot select raises when it is asked: no answer rather than one with other rows.
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
        """The nearest of the selected rows; FilterRefusedError where the index cannot select."""
        try:
            return self._index.search(vectors, k, params=self._parameters)
        except RuntimeError as error:  # FAISS throws of its own kinds; their text quotes its source
            raise FilterRefusedError(
                f"a FAISS {type(self._index).__name__} cannot look at some of its rows alone: filter over a flat, HNSW "
                "or IVF index, or give each tenant one of its own"
            ) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)
