"""Passages that were deleted: what a source names from memory, held against the stores that have the corpus now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from phasegraph.errors import warn
from phasegraph.ranking import Ranking
from phasegraph.retrieval.identity import SUMMARY_PREFIX, is_text_id
from phasegraph.sources.protocol import Upstream

LookUps: TypeAlias = Mapping[str, Callable[[Sequence[str]], Mapping[str, Any]]]
"""By source name, ``look_up(ids)``: the passages of these ids that the source's store has, in the framework's words."""

_SAMPLE = 64


class Deletions:
    """Drops the hits of one source whose passages are gone, and says so once.

    Parameters
    ----------
    source : str
        Name of the source.
    corpus : sequence of str
        Ids of the passages that it holds in memory; empty where nothing is known of them, and no store is asked then.
    stores : mapping of str to callable
        By source name, stores that can be asked for passages by id. A store has the source's corpus if it holds at
        least half of a sample of it; a passage is gone where none of those that have the corpus holds it.

    Notes
    -----
    Passages whose ids are made from their texts cannot be asked for.

    Examples
    --------
    >>> held = {name: name for name in "abcd"}
    >>> stores = {"v": lambda ids: {one: held[one] for one in ids if one in held}}
    >>> deletions = Deletions("graph", list(held), stores)
    >>> deletions.checked(Ranking("graph", ["a", "b"], [2.0, 1.0]), {}, []).ids
    ('a', 'b')
    """

    __slots__ = ("_has_corpus", "_sample", "_source", "_stores", "_warned")

    def __init__(self, source: str, corpus: Iterable[str] = (), stores: LookUps | None = None) -> None:
        ids = [one for one in corpus if not is_text_id(one)] if stores else []
        self._source = source
        self._sample = ids[:: -(-len(ids) // _SAMPLE) or 1]
        self._stores = dict(stores or {})
        self._has_corpus: dict[str, bool] = {}
        self._warned = False

    def checked(self, ranking: Ranking, upstream: Upstream, notes: list[str]) -> Ranking:
        """The ranking without the hits whose passages are gone.

        Parameters
        ----------
        ranking : Ranking
        upstream : mapping of str to Ranking or None
            What the stores' own sources found for the same query: those passages are not asked for again.
        notes : list of str
            Takes how many were dropped, and what could not be asked.
        """
        if not self._sample or not len(ranking):
            return ranking
        seen = [other for name in self._stores if (other := upstream.get(name)) is not None]
        named = (one for one in ranking.ids if not is_text_id(one) and not one.startswith(SUMMARY_PREFIX))
        left = [one for one in named if not any(one in other.positions for other in seen)]
        asked = False
        for name, look_up in self._stores.items():
            if not left:
                return ranking
            try:
                if self._has_corpus.get(name) is None:
                    self._has_corpus[name] = 2 * len(look_up(self._sample)) >= len(self._sample)
                if not self._has_corpus[name]:
                    continue
                held = look_up(left)
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - what cannot be asked says nothing of what was deleted
                notes.append(
                    f"source {name!r} could not be asked which passages it still holds ({type(error).__name__})"
                )
                return ranking
            asked, left = True, [one for one in left if held.get(one) is None]
        return self.without(ranking, left, notes) if asked else ranking

    def without(self, ranking: Ranking, gone: Collection[str], notes: list[str]) -> Ranking:
        """The ranking without hits that are gone, which are counted, noted, and warned about once."""
        return self.counted(ranking.without(frozenset(gone)), len(gone), notes) if gone else ranking

    def counted(self, kept: Ranking, gone: int, notes: list[str]) -> Ranking:
        """As :meth:`without`, for a ranking from which they are gone already."""
        if not gone:
            return kept
        said = f"{gone} of {len(kept) + gone} hits dropped: no store holds their passages any more"
        notes.append(said)
        if not self._warned:
            self._warned = True
            text = (
                f"source {self._source!r}: {said}; delete them there too (its graph or index is built from documents "
                "that are gone)"
            )
            warn(text, stacklevel=4)
        return replace(kept, dropped=kept.dropped + gone, reason=kept.reason if len(kept) else said)
