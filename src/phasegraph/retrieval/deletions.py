"""Compare a source's hits with the stores: drop deleted passages, and use the present form of changed passages."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from phasegraph._support.clock import DEADLINE, FOREVER
from phasegraph.errors import warn
from phasegraph.ranking import SUMMARY_PREFIX, Ranking
from phasegraph.retrieval.access import HitAccess
from phasegraph.retrieval.identity import is_text_id
from phasegraph.retrieval.payloads import Payloads
from phasegraph.sources.protocol import Upstream
from phasegraph.sources.workers import Late, within

LookUp: TypeAlias = Callable[[Sequence[str]], Mapping[str, Any]]
"""A function that returns the passages of a store by id."""

LookUps: TypeAlias = Mapping[str, LookUp]
"""A mapping of source names to functions ``look_up(ids)``, which return the passages of a store by id."""

_SAMPLE = 64
_PLAIN = (str, int, float)
_NONE = type(None)
_TEXTS = HitAccess()
_DROPPED = "{gone} of {total} hits dropped: their passages are not in the store"
_OF_SOURCE = (
    "source {source!r}: {said}. If they were deleted there, delete them from this source, too: its graph or index "
    "still contains them"
)
_UNKNOWN = "{gone} of {total} hits dropped: the store has no passages with their ids"
_OF_UNKNOWN = (
    "source {source!r}: {said}, for example {example!r}. If the store uses other ids, give the passages the same ids "
    "in both. If the passages were deleted, delete them from this source, too"
)
_OF_RETRIEVER = (
    "{said}. The graph and the word index of the retriever contain these passages. If they were deleted from the "
    "store, delete them here, too: retriever.delete([...])"
)
_NOT_LOOKED_UP = (
    "source {source!r}: source {example!r} answers, but cannot look up passages by id ({said}), so passages that were "
    "deleted from its store stay in the answers. Check that the store takes the ids of the passages"
)
_CHANGED = "{changed} of {total} hits changed in the store"
_OF_CHANGED = (
    "source {source!r}: {said}. The answer contains their present texts and metadata, but the source still ranks their "
    "old forms: change them in this source, too"
)
_CHANGED_IN_RETRIEVER = (
    "{said}. The answer contains their present texts and metadata, but the graph and the word index of the retriever "
    "still rank their old forms: give the changed documents to retriever.sync(...)"
)


def without_gone(ranking: Ranking, summaries: Mapping[str, Any], there: Collection[str]) -> Ranking:
    """Drop passages that no longer exist, and summaries that cover a passage that no longer exists.

    `summaries` maps the id of each summary in the ranking to the summary; its ``passages`` are the ids that it covers.
    `there` contains the ids of all existing passages.
    """

    def gone(one: str) -> bool:
        under = summaries[one].passages if one in summaries else (one,)
        return any(name not in there for name in under)

    return ranking.without(frozenset(filter(gone, ranking.ids)))


class TimelyLookup:
    """A look-up in a store that takes at most half of the time that the search has left.

    Without a limit, a store that hangs would also take the hits of a source that answered from memory. A late look-up
    continues in its thread. Until it ends, further look-ups fail at once, so a store that hangs blocks one thread.
    """

    __slots__ = ("_ended", "_look_up")

    def __init__(self, look_up: LookUp) -> None:
        self._look_up = look_up
        self._ended = [True]

    def __reduce__(self) -> tuple[object, ...]:
        return TimelyLookup, (self._look_up,)

    def __call__(self, ids: Sequence[str]) -> Mapping[str, Any]:
        """Return the existing passages by id; raise TimeoutError if the store does not answer in time."""
        deadline, ended = DEADLINE.get(), list[bool]()
        if deadline.due == FOREVER:
            return self._look_up(ids)
        if not self._ended:
            raise TimeoutError("an earlier look-up is still running")

        def look_up() -> Mapping[str, Any]:
            try:
                return self._look_up(ids)
            finally:
                ended.append(True)

        try:
            return within(look_up, deadline.part(0.5))
        except Late:
            self._ended = ended
            raise TimeoutError("the store did not answer in time") from None


def timely(look_up: LookUp) -> LookUp:
    """Return a look-up with a time limit; a look-up in memory does not wait, and is returned unchanged."""
    return TimelyLookup(look_up) if getattr(look_up, "waits", True) else look_up


class Deletions:
    """A comparison of one source's hits with the stores, which contain the present passages.

    Hits of deleted passages are dropped. The hit of a changed passage gets the passage of the store. Each of the two
    gives one warning.

    `corpus` contains the ids of the passages that the source has in memory. If `corpus` is empty, no hit is dropped.
    `stores` maps the name of each other source to a function that looks up passages in this source's store by their
    ids. A store is used only if it has at least half of a sample of the passages in `corpus`. A passage counts as
    deleted if at least one store is used, and no used store has the passage. A passage whose id was made from its text
    is never looked up, and its hit is kept. `access` reads the texts and metadata of hits. `narrowed` are the names of
    sources that search only a part of their stores: another part can have other passages with the same ids, so a
    look-up in these stores changes no hit.

    >>> held = {name: name for name in "abcd"}
    >>> stores = {"v": lambda ids: {one: held[one] for one in ids if one in held}}
    >>> deletions = Deletions("graph", list(held), stores)
    >>> deletions.checked(Ranking("graph", ["a", "b"], [2.0, 1.0]), {}, []).ids
    ('a', 'b')
    """

    __slots__ = ("_access", "_changed", "_has_corpus", "_narrowed", "_sample", "_source", "_stores", "_text", "_warned")

    def __init__(
        self,
        source: str,
        corpus: Iterable[str] = (),
        stores: LookUps | None = None,
        access: HitAccess = _TEXTS,
        narrowed: Collection[str] = (),
    ) -> None:
        ids = [one for one in corpus if not is_text_id(one)] if stores else []
        self._source = source
        self._sample = ids[:: -(-len(ids) // _SAMPLE) or 1]
        self._stores = dict(stores or {})
        self._has_corpus: dict[str, bool] = {}
        self._text, self._changed, self._warned = _OF_SOURCE, _OF_CHANGED, set[str]()
        self._access, self._narrowed = access, narrowed

    def __bool__(self) -> bool:
        """Return True if any passage can be looked up in a store."""
        return bool(self._sample)

    def belong_to_retriever(self, warned: set[str]) -> None:
        """Advise in the warnings to delete and sync with the retriever, which made the source itself.

        All sources of the retriever get the same set `warned`, so that only one of them warns.
        """
        self._text, self._changed, self._warned = _OF_RETRIEVER, _CHANGED_IN_RETRIEVER, warned

    def checked(
        self,
        ranking: Ranking,
        upstream: Upstream,
        notes: list[str],
        passes: Callable[[Any], bool] | None = None,
    ) -> Ranking:
        """Drop the hits of deleted passages, and use the present form of changed passages; `notes` gets the numbers.

        `upstream` contains the other sources' rankings for the same query. Passages in these rankings exist, so they
        are not looked up. ``passes(hit)`` says whether a hit matches the filter of the call; None means no filter. A
        passage that matches no longer is dropped. `notes` also receives the failures of look-ups.
        """
        if not self._sample or not len(ranking):
            return ranking
        seen = {name: other for name in self._stores if (other := upstream.get(name)) is not None}
        found = set[str]().union(*(other.ids for other in seen.values()))
        unseen = [one for one in ranking.ids if one not in found]
        left = [one for one in unseen if not one.startswith(SUMMARY_PREFIX) and not is_text_id(one)]
        present: dict[str, Any] = {}
        asked = False
        for name, look_up in self._stores.items():
            if not left:
                break
            try:
                if self._has_corpus.get(name) is None:
                    self._has_corpus[name] = 2 * len(look_up(self._sample)) >= len(self._sample)
                if not self._has_corpus[name]:
                    continue
                held = look_up(left)
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - a failed look-up does not show that passages are deleted
                notes.append(
                    f"source {name!r} failed to look up passages ({type(error).__name__}): deleted passages may remain"
                )
                # a late store does not answer at all, and a store without look-ups is in the guide's table
                if name in seen and not isinstance(error, TimeoutError | NotImplementedError):
                    self._warn(_NOT_LOOKED_UP, type(error).__name__, name)
                left = []
                break
            asked = True
            if name not in self._narrowed:
                present.update(held)
            left = [one for one in left if held.get(one) is None]
        if asked and left:
            ranking = self.counted(ranking.without(frozenset(left)), len(left), notes)
        for name, other in reversed(seen.items()):
            if isinstance(other.payloads, Payloads) and self._has_corpus.get(name) is not False:
                present |= other.payloads.all_by_id()
        return self._renewed(ranking, present, notes, passes)

    def _renewed(
        self, ranking: Ranking, present: Mapping[str, Any], notes: list[str], passes: Callable[[Any], bool] | None
    ) -> Ranking:
        """Replace the hits of changed passages by the hits in `present`; drop them if they match the filter no longer.

        `present` maps ids to the hits of the stores. A store may add metadata, or leave out metadata that it cannot
        store. A passage therefore counts as changed if its text or the value of a common key differs, or if only its
        old form matches the filter. A store without the text does not change the hit.
        """
        if not present or not isinstance(ranking.payloads, Payloads):
            return ranking
        hits = ranking.payloads.all_by_id()
        names = list(hits.keys() & present.keys())
        before, after = list(map(hits.__getitem__, names)), list(map(present.__getitem__, names))
        if self._are_equal(before, after):
            return ranking
        changed: dict[str, Any] = {}
        gone = set[str]()
        for one, hit, now in zip(names, before, after, strict=True):
            if hit is None or now is None or is_text_id(one) or self._are_equal([hit], [now]):
                continue
            if passes is not None and not passes(now):
                gone.add(one)
            elif self._access.text(now) and self._differ(hit, now):
                changed[one] = now
        if not gone and not changed:
            return ranking
        said = _CHANGED.format(changed=len(gone) + len(changed), total=len(ranking))
        notes.append(said)
        self._warn(self._changed, said)
        kept = ranking.without(gone) if gone else ranking
        renewed = [changed.get(one, hits.get(one)) for one in kept.ids]
        payloads = Payloads(kept.ids, renewed, ranking.payloads.evidence)
        return replace(kept, payloads=payloads, reason=kept.reason if len(kept) else said)

    def _are_equal(self, before: Sequence[Any], after: Sequence[Any]) -> bool:
        """Return True if all texts and metadata are equal; the loops run in C, because most calls only get here."""
        if _NONE in {*map(type, before), *map(type, after)}:
            return False
        text, metadata = self._access.text, self._access.metadata
        return list(map(text, before)) == list(map(text, after)) and list(map(metadata, before)) == list(
            map(metadata, after)
        )

    def _differ(self, before: Any, after: Any) -> bool:
        """Return True if the text or a plain value under a common metadata key differs; a store may convert types."""
        old, new = self._access.metadata(before), self._access.metadata(after)
        values = [(old[key], new[key]) for key in old.keys() & new.keys()]
        return self._access.text(before) != self._access.text(after) or any(
            isinstance(was, _PLAIN) and isinstance(now, _PLAIN) and was != now and not _is_converted(was, now)
            for was, now in values
        )

    def without(self, ranking: Ranking, gone: Collection[str], notes: list[str]) -> Ranking:
        """Return the ranking without the hits whose ids are in `gone`; add a note, and warn once.

        If no hit is left, the source and the store may use different ids, unless the retriever made both. The warning
        then says so.
        """
        if not gone:
            return ranking
        kept = ranking.without(frozenset(gone))
        other_ids = not len(kept) and self._text is _OF_SOURCE
        return self.counted(kept, len(gone), notes, ranking.ids[0] if other_ids else "")

    def counted(self, kept: Ranking, gone: int, notes: list[str], example: str = "") -> Ranking:
        """Add a note that `gone` hits were dropped, and warn once.

        `kept` is the ranking without these hits. Return this ranking, with `gone` added to its number of dropped hits.
        `example` is the id of a dropped hit if the store may use other ids than the source. If no hit is left, and all
        their passages were deleted, the ranking is just empty: the source's hits were usable, so it did not fail.
        """
        if not gone:
            return kept
        said = (_UNKNOWN if example else _DROPPED).format(gone=gone, total=len(kept) + gone)
        text = _OF_UNKNOWN if example else self._text
        notes.append(said)
        self._warn(text, said, example)
        deleted = kept.deleted + (0 if example else gone)
        reason = kept.reason if len(kept) else said
        return replace(kept, dropped=kept.dropped + gone, deleted=deleted, reason=reason)

    def _warn(self, text: str, said: str, example: str = "") -> None:
        """Give the warning `text` once."""
        if text not in self._warned:
            self._warned.add(text)
            warn(text.format(source=self._source, said=said, example=example))


def _is_converted(was: str | float, now: str | float) -> bool:
    """Return True if a store may have converted a value: True to "true", 5 to "5", or .1 to a 32-bit float."""
    if str(was).casefold() == str(now).casefold():
        return True
    return not isinstance(was, str) and not isinstance(now, str) and math.isclose(was, now, rel_tol=1e-6)
