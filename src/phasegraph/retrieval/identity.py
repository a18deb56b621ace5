"""Which hit is which: ids, texts in their place, passages that meet by text, ids that tell nothing, passages gone."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from phasegraph._text import composed
from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError, warn
from phasegraph.ranking import Ranking
from phasegraph.sources.protocol import Upstream

ID_KEYS = ("_id", "id", "pk", "chunk_id", "doc_id", "source_id")
_HASH_LENGTH = 32
_TEXT_ID = re.compile(f"text-[0-9a-f]{{{_HASH_LENGTH}}}")


def text_id(text: str, /) -> str:
    """A stable id for a text that has none: ``text-`` and 32 hexadecimal digits.

    Texts are compared after Unicode normalisation (NFC) and with every run of white space as one blank.

    >>> text_id("one  two ") == text_id("one two")
    True
    """
    normal = " ".join(composed(text).split())
    digest = hashlib.sha256(normal.encode("utf-8", "surrogatepass")).hexdigest()
    return f"text-{digest[:_HASH_LENGTH]}"


SUMMARY_PREFIX = "summary:"
"""What the ids of summaries begin with: they stand for passages, and no store holds them."""


def is_text_id(identifier: str, /) -> bool:
    """Whether an id is made from a text.

    >>> is_text_id(text_id("one two")), is_text_id("text-book")
    (True, False)
    """
    return identifier.startswith("text-") and _TEXT_ID.fullmatch(identifier) is not None


def resolve_id(
    own: object, metadata: Mapping[str, object], text: str, /, refused: Collection[str] = ()
) -> tuple[str, str]:
    """The id of one hit, and where it came from: ``"own"``, the metadata key, or ``"text"``.

    It is its own, else that of the first of the :data:`ID_KEYS` in its metadata, but for those `refused`, which name
    more than one passage; else made from its text.

    >>> resolve_id(None, {"pk": 7}, "some text")
    ('7', 'pk')
    """
    for origin, value in (("own", own), *((key, metadata.get(key)) for key in ID_KEYS if key not in refused)):
        if value is None or isinstance(value, bool | float):
            continue
        if (isinstance(value, str | int) or hasattr(value, "hex")) and str(value).strip():
            return str(value), origin
    return text_id(text), "text"


class Payloads(Mapping[str, Any]):
    """The framework's own hits by id, the first of each, and what the source says of how it found them.

    A hit that is None, of which the source names the id alone, counts as not there.

    >>> Payloads(["a", "b", "a"], [1, 2, 3])["a"]
    1
    """

    __slots__ = ("_hits", "_ids", "_index", "_ranking", "derived", "evidence")

    def __init__(
        self,
        ids: Sequence[str],
        hits: Sequence[Any],
        evidence: Mapping[str, object] | None = None,
    ) -> None:
        self._ids = ids
        self._hits = hits
        self._index: dict[str, Any] | None = None
        self._ranking: Ranking | None = None
        self.derived: frozenset[str] = getattr(ids, "derived", frozenset())
        """Ids that were read from metadata: two passages of one document may have the same."""
        self.evidence: Mapping[str, object] = {} if evidence is None else evidence

    def __reduce__(self) -> tuple[object, ...]:
        return Payloads, (list(self._ids), list(self._hits), dict(self.evidence))

    def follow(self, ranking: Ranking) -> None:
        """Find the hits by the rows of `ranking`, whose order is theirs: no index of their own is needed."""
        self._ranking = ranking

    def get(self, identifier: str, default: Any = None, /) -> Any:
        """The hit, or `default`."""
        if self._ranking is None:
            return self.by_id.get(identifier, default)
        row = self._ranking.row_of(identifier)
        hit = None if row is None else self._hits[row]
        return default if hit is None else hit

    def best_first(self, scores: FloatArray) -> None:
        """Let a repeated id stand for its best hit, rather than its first; NaN is the worst."""
        order = np.argsort(np.where(np.isfinite(scores), -scores, np.inf), kind="stable").tolist()
        self._ids, self._hits = [self._ids[row] for row in order], [self._hits[row] for row in order]

    @property
    def by_id(self) -> dict[str, Any]:
        """The hits as a plain dictionary."""
        if self._index is None:
            pairs = zip(reversed(self._ids), reversed(self._hits), strict=True)
            self._index = {name: hit for name, hit in pairs if hit is not None}
        return self._index

    def __getitem__(self, identifier: str) -> Any:
        return self.by_id[identifier]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_id)

    def __len__(self) -> int:
        return len(self.by_id)


def hits_of(payloads: Mapping[str, Any], ids: Sequence[str]) -> list[Any]:
    """The hits of some ids; None for those that are not there."""
    ranking = payloads._ranking if isinstance(payloads, Payloads) else None
    if ranking is None or not isinstance(payloads, Payloads):
        return list(map(payloads.get, ids))
    hits = payloads._hits
    return [None if row is None else hits[row] for row in map(ranking.row_of, ids)]


class _Ids(list[str]):
    """Ids of hits, and which of them were read from metadata."""

    def __init__(self, ids: Sequence[str], derived: frozenset[str]) -> None:
        super().__init__(ids)
        self.derived = derived


class Identities:
    """Reads the ids of one source's hits, and says once when it has to fall back on their text.

    >>> Identities("vector").read(["a", None], lambda row: ({"pk": "b"}, "text"), notes := [])
    ['a', 'b']
    >>> notes
    ["ids of 1 of 2 hits from metadata key 'pk'"]
    """

    __slots__ = ("_refused", "_repeated", "_source", "_warned")

    def __init__(self, source: str) -> None:
        self._source = source
        self._warned = False
        self._refused: set[str] = set()
        self._repeated = False

    def read(
        self,
        own: Sequence[object],
        details: Callable[[int], tuple[Mapping[str, object], str]],
        notes: list[str],
    ) -> list[str]:
        """Ids of the hits, their own or None; what those that carry none were given is added to `notes`.

        ``details(row) -> (metadata, text)`` is only called for these. Warns once per source when an id is made from a
        text, and once per metadata key that gave one id to different texts: a loader's id of a whole document, which
        is no passage's.
        """
        if set(map(type, own)) == {str} and "" not in own:
            return list(own)  # type: ignore[arg-type]
        hits = [
            (value, *(({}, "") if resolve_id(value, {}, "")[1] == "own" else details(row)))
            for row, value in enumerate(own)
        ]
        found = self._resolved(hits)
        ids = [identifier for identifier, _ in found]
        counts = Counter(origin for _, origin in found if origin != "own")
        if counts.get("text") and not self._warned:
            self._warned = True
            warn(
                f"source {self._source!r} returns hits without an id: they are told apart, and joined with those of "
                "other sources, by their text; give them ids, or fields=HitFields(id=...)",
                stacklevel=3,
            )
        for origin, count in counts.items():
            where = "their text" if origin == "text" else f"metadata key {origin!r}"
            notes.append(f"ids of {count} of {len(ids)} hits from {where}")
        return _Ids(ids, frozenset(one for one, origin in found if origin not in ("own", "text")))

    def learn(self, corpus: Iterable[Held]) -> list[str]:
        """The ids of a source's whole corpus, so that no answer is needed to see which keys are no ids.

        InvalidInputError where an id of their own is repeated.
        """
        rows = list(corpus)
        _refuse_repeated(f"source {self._source!r}", rows)
        return [identifier for identifier, _ in self._resolved(rows)]

    def _resolved(self, hits: Sequence[Held]) -> list[tuple[str, str]]:
        return _resolved(f"source {self._source!r}", hits, self._refused)

    def repeated(self, ids: Sequence[str], text: Callable[[int], str], notes: list[str]) -> None:
        """Say so, once, where an answer holds several texts under one id, of which all but the best are lost."""
        first: dict[str, str] = {}
        for row, identifier in enumerate(ids):
            held = first.setdefault(identifier, text(row))
            if held is not text(row) and text_id(held) != text_id(text(row)):
                said = f"different texts under one id ({identifier!r}), of which the best is kept"
                notes.append(said)
                if not self._repeated:
                    self._repeated = True
                    warn(f"source {self._source!r} returns {said}; give each passage an id of its own")
                return


def corpus_ids(corpus: Iterable[Held], what: str) -> list[str]:
    """The id of each passage, of (id or None, metadata, text); those without are read from metadata, or made from text.

    A passage without an id whose text was there before has the same id. InvalidInputError names an id that two
    passages carry. Warns where a metadata key gives one id to different texts (a loader's id of a whole document,
    repeated over what was split from it): it is read for none of them. And where passages without an id have the same
    text: they are one.

    >>> corpus_ids([("a", {}, "one"), (None, {"pk": 2}, "two")], "documents")
    ['a', '2']
    """
    rows = list(corpus)
    _refuse_repeated(what, rows)
    found = _resolved(what, rows, set())
    ids = [identifier for identifier, _ in found]
    twice = len(ids) - len(set(ids))
    if twice:
        warn(f"{what}: {twice} of {len(ids)} have no id of their own and the text of another; they are kept once")
    return ids


Held: TypeAlias = tuple[object, Mapping[str, object], str]
"""An id of its own or None, metadata and text."""


def _refuse_repeated(what: str, rows: Iterable[Held]) -> None:
    """Raise where two carry the same id."""
    counts = Counter(found for found, origin in (resolve_id(own, {}, "") for own, _, _ in rows) if origin == "own")
    repeated = [one for one, count in counts.items() if count > 1]
    if repeated:
        raise InvalidInputError(
            f"{what}: each must have an id of its own; {repeated[0]!r} is that of {counts[repeated[0]]}"
            + (f", and {len(repeated) - 1} other ids are repeated" if len(repeated) > 1 else "")
        )


def _resolved(what: str, rows: Sequence[Held], refused: set[str]) -> list[tuple[str, str]]:
    """Ids and where they are from; a metadata key that gives one to different texts is added to `refused`, and said."""
    found = [resolve_id(*row, refused) for row in rows]
    first: dict[tuple[str, str], str] = {}
    repeated: dict[str, str] = {}
    for (identifier, origin), (_, _, text) in zip(found, rows, strict=True):
        if origin in ("own", "text") or origin in repeated:
            continue
        held = first.setdefault((identifier, origin), text)
        if held is not text and text_id(held) != text_id(text):
            repeated[origin] = identifier
    if not repeated:
        return found
    for key, example in repeated.items():
        warn(
            f"{what}: metadata {key!r} gives one id to different texts ({example!r}): it names what they were split "
            "from, so they are told apart by their text; give each an id of its own"
        )
    refused.update(repeated)
    return _resolved(what, rows, refused)


def join_by_text(
    rankings: Sequence[Ranking], text: Callable[[Any], str]
) -> tuple[tuple[Ranking, ...], dict[str, list[str]]]:
    """Hits whose id is made from their text take the id of another source's hit that has the same text.

    Gives the rankings in their order, and what to note of each source. Where several ids have the same text, the first
    of them in alphabetical order is taken: the outcome does not depend on the order of the sources.
    """
    if len(rankings) < 2 or not any(["text-" in " ".join(ranking.ids) for ranking in rankings]):
        return tuple(rankings), {}
    named: dict[str, str] = {}
    for ranking in rankings:
        for identifier, hit in ranking.payloads.items() if isinstance(ranking.payloads, Payloads) else ():
            held = "" if is_text_id(identifier) else text(hit)
            made = text_id(held) if held else identifier
            if made != identifier and identifier < named.get(made, "\U0010ffff"):
                named[made] = identifier
    out, notes = [], {}
    for ranking in rankings:
        taken = {one: named[one] for one in ranking.ids if one in named}
        if not taken:
            out.append(ranking)
            continue
        out.append(_renamed(ranking, taken))
        notes[ranking.source] = [
            f"{len(taken)} of {len(ranking)} hits without an id joined to other sources' by their text"
        ]
    return tuple(out), notes


def named_by_text(upstream: Upstream, known: Collection[str], text: Callable[[Any], str]) -> Upstream:
    """The rankings, whose hits have ids of their own, under those of a source that knows its passages by their text.

    `known` are ids made from texts; nothing is done where there are none.
    """
    if not known:
        return upstream
    out: dict[str, Ranking | None] = {}
    for name, ranking in upstream.items():
        held = {} if ranking is None or not isinstance(ranking.payloads, Payloads) else ranking.payloads
        made = {one: text_id(text(hit)) for one, hit in held.items() if one not in known}
        taken = {one: other for one, other in made.items() if other in known}
        out[name] = _renamed(ranking, taken) if ranking is not None and taken else ranking
    return out


def _renamed(ranking: Ranking, taken: Mapping[str, str]) -> Ranking:
    """The ranking with some hits under other ids."""
    ids = [taken.get(one, one) for one in ranking.ids]
    payloads = ranking.payloads
    held = payloads if isinstance(payloads, Payloads) else Payloads((), ())
    evidence = getattr(payloads, "evidence", payloads)
    old = dict(zip(reversed(ids), reversed(ranking.ids), strict=True))
    return replace(
        ranking,
        ids=tuple(ids),
        payloads=Payloads(ids, [held.get(one) for one in ranking.ids], _Evidence(evidence, old)),
    )


@dataclass(frozen=True, slots=True)
class _Evidence(Mapping[str, object]):
    """Evidence by other ids than its source's, looked up where it is asked for: a path is worked out then."""

    held: Mapping[str, object]
    old: Mapping[str, str]

    def __getitem__(self, identifier: str) -> object:
        return self.held[self.old[identifier]]

    def __contains__(self, identifier: object) -> bool:
        return identifier in self.old and self.old[str(identifier)] in self.held

    def __iter__(self) -> Iterator[str]:
        return filter(self.__contains__, self.old)

    def __len__(self) -> int:
        return sum(1 for _ in self)


_FIRST_ANSWERS, _FEWEST = 3, 5


class FirstMeetings:
    """Watches whether sources meet in their first answers, and warns once of a pair that never shares an id.

    That is the sign of different ids for the same passages, which could then neither agree nor be joined: at once where
    two sources return one text under two ids, else after three answers of at least five hits each.

    Examples
    --------
    >>> FirstMeetings().see([Ranking("v", ["a"], [0.1]), Ranking("w", ["a"], [0.1])], str)
    """

    __slots__ = ("_apart", "_parted")

    def __init__(self) -> None:
        self._apart: dict[tuple[str, str], int | None] = {}
        self._parted: set[str] = set()

    def part(
        self, rankings: Sequence[Ranking], text: Callable[[Any], str]
    ) -> tuple[tuple[Ranking, ...], dict[str, list[str]]]:
        """Hits whose id is read from metadata, and under which another source has another text, are told by their text.

        Gives the rankings in their order, and what to note of each source; warns once of each.
        """
        held = [one.payloads if isinstance(one.payloads, Payloads) else None for one in rankings]
        if len(rankings) < 2 or not any([one is not None and one.derived for one in held]):
            return tuple(rankings), {}
        out, notes = [], {}
        for row, (ranking, own) in enumerate(zip(rankings, held, strict=True)):
            taken: dict[str, str] = {}
            for identifier in sorted(own.derived) if own is not None else ():
                others = (one.get(identifier) for place, one in enumerate(held) if place != row and one is not None)
                mine = text(own.get(identifier)) if own is not None and own.get(identifier) is not None else ""
                if mine and any(_differ(mine, text(hit)) for hit in others if hit is not None):
                    taken[identifier] = text_id(mine)
            if taken:
                ranking = _renamed(ranking, taken)
                said = f"{len(taken)} ids read from metadata are other sources' ids of other texts: told apart by text"
                notes[ranking.source] = [said]
                if ranking.source not in self._parted:
                    self._parted.add(ranking.source)
                    warn(
                        f"source {ranking.source!r}: {said} ({next(iter(taken))!r}); give each passage an id of its own"
                    )
            out.append(ranking)
        return tuple(out), notes

    def see(self, rankings: Sequence[Ranking], text: Callable[[Any], str]) -> None:
        """Look at one answer of all sources, until each pair has met or is warned about."""
        for row, one in enumerate(rankings):
            for other in rankings[:row]:
                pair = (other.source, one.source)
                count = self._apart.get(pair, 0)
                if count is None or not len(one) or not len(other):
                    continue
                if not one.positions.keys().isdisjoint(other.positions):
                    self._apart[pair] = None
                    continue
                twice = _one_text(one, other, text)
                count += min(len(one), len(other)) >= _FEWEST
                self._apart[pair] = None if twice or count == _FIRST_ANSWERS else count
                if twice:
                    warn(
                        f"sources {pair[0]!r} and {pair[1]!r} share no id, and return one text under two ids "
                        f"({twice[0]!r} and {twice[1]!r}): what both find counts as two passages; give them the same "
                        "ids, or fields=HitFields(id=...) of what they share"
                    )
                elif count == _FIRST_ANSWERS:
                    warn(
                        f"sources {pair[0]!r} and {pair[1]!r} shared no id in their first {count} answers: if they "
                        f"search the same passages, give them the same ids ({other.ids[0]!r} and {one.ids[0]!r})"
                    )


def _differ(one: str, other: str) -> bool:
    """Whether both are there and say different things."""
    return bool(one and other) and one != other and text_id(one) != text_id(other)


def _one_text(one: Ranking, other: Ranking, text: Callable[[Any], str]) -> tuple[str, str] | None:
    """The ids under which two sources hold the same text."""
    if not isinstance(one.payloads, Payloads) or not isinstance(other.payloads, Payloads):
        return None
    named = {text_id(text(hit)): identifier for identifier, hit in other.payloads.items() if text(hit)}
    found = ((named.get(text_id(text(hit))), identifier) for identifier, hit in one.payloads.items() if text(hit))
    return next(((first, second) for first, second in found if first is not None), None)


LookUps: TypeAlias = Mapping[str, Callable[[Sequence[str]], Mapping[str, Any]]]
"""By source name, ``look_up(ids)``: the passages of these ids that the source's store has, in the framework's words."""

_SAMPLE = 64


class Deletions:
    """Drops the hits of one source whose passages are gone, and says so once.

    `corpus` are ids of the passages that it holds in memory; empty where nothing is known of them, and no store is
    asked then. The `stores`, by source, can be asked for passages by id. A store has the source's corpus if it holds
    at least half of a sample of it; a passage is gone where none of those that have the corpus holds it. Passages
    whose ids are made from their texts cannot be asked for.

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

    def __bool__(self) -> bool:
        """Whether there is anything to ask about."""
        return bool(self._sample)

    def checked(self, ranking: Ranking, upstream: Upstream, notes: list[str]) -> Ranking:
        """The ranking without the hits whose passages are gone; `notes` takes how many, and what could not be asked.

        What the stores' own sources found for the same query, `upstream`, is not asked for again.
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
