"""Convert a retriever's answer to a ranking: hits, ids, scores, and the passages behind the hits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Any

import numpy as np

from phasegraph._support.numbers import as_floats
from phasegraph._support.shared import go_on
from phasegraph._support.validation import nearest_key
from phasegraph.candidates import cap_ranking
from phasegraph.errors import InvalidTypeError
from phasegraph.ranking import Ranking
from phasegraph.retrieval.deletions import Deletions, LookUps
from phasegraph.retrieval.directions import Direction, _note
from phasegraph.retrieval.identity import Identities
from phasegraph.retrieval.once import Once
from phasegraph.retrieval.payloads import Payloads, hits_of
from phasegraph.retrieval.source_spec import FieldOf, HitFields
from phasegraph.sources.protocol import MalformedAnswerError
from phasegraph.sources.source_task import cut_note

SCORE_KEYS: Mapping[str, bool | None] = MappingProxyType(
    {"relevance_score": True, "similarity_score": True, "_score": True, "_similarity_score": True, "score": None}
)
"""The metadata keys that may contain a score, with True if a higher score is better, or None if that is unknown."""

_MOST_HITS = 100_000


@dataclass(frozen=True, slots=True)
class HitReader:
    """A reader of one source's answers; it remembers the score direction and the warnings that were given.

    `known` is the score direction that the class of the store implies: True if a higher score is better, False if a
    lower score is better, and None if the class implies no direction.
    """

    name: str
    fields: HitFields
    known: bool | None
    metadata: Callable[[Any], Mapping[str, Any]]
    text: Callable[[Any], str]
    direction: Direction = field(init=False)
    identities: Identities = field(init=False)
    _once: Once = field(init=False, default_factory=Once, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "direction", Direction(self.fields.higher_is_better, self.known, self.name))
        object.__setattr__(self, "identities", Identities(self.name))

    def ids(
        self,
        hits: Sequence[Any],
        own: Sequence[object],
        notes: list[str],
        *,
        parts: bool = False,
        advice: str | None = None,
    ) -> list[str]:
        """Return the ids of hits: the ids that :class:`HitFields` declares, or the hits' own ids `own`.

        Set `parts` to True if the hits are facts about passages: then several texts may share an id without a warning.
        `advice` is for :meth:`Identities.read`.
        """
        check_length(hits)
        if self.fields.id is not None:
            own = self._declared("id", self.fields.id, hits)
        ids = self.identities.read(own, lambda row: self._looked_into(hits[row]), notes, advice)
        if not parts and len(set(ids)) < len(ids):
            self.identities.repeated(ids, lambda row: self.text(hits[row]), notes)
        return ids

    def _looked_into(self, hit: Any) -> tuple[Mapping[str, Any], str]:
        go_on()
        return self.metadata(hit), self.text(hit)

    def scores(self, hits: Sequence[Any]) -> list[object] | None:
        """Return the scores of hits from the field that :class:`HitFields` declares; None if no field is declared."""
        where = self.fields.score
        return None if where is None else self._declared("score", where, hits)

    def stated_scores(
        self, hits: Sequence[Any], notes: list[str]
    ) -> tuple[list[object] | None, tuple[bool, str] | None]:
        """Return the scores under a metadata key that usually contains scores, and the direction of these scores.

        The direction is a pair: True if a higher score is better, and a note. Every hit must have a number under the
        key. The plain key ``score`` may have another meaning, such as the rating of a film. It is used only if its
        values fall from the first hit to the last. Without scores, both values are None.
        """
        first = self.metadata(hits[0]) if hits else {}
        if SCORE_KEYS.keys().isdisjoint(first):
            return None, None
        rows = [self.metadata(hit) for hit in hits]
        key = next((key for key in SCORE_KEYS if all(is_number(row.get(key)) for row in rows)), None)
        if key is None:
            return None, None
        scores, higher = [row[key] for row in rows], SCORE_KEYS[key]
        if higher is not None:
            return scores, (higher, f"higher is better: known for metadata key {key!r}")
        if self.direction.stated is None and not self.direction.falls(scores):
            notes.append(
                f"rank only: the values of metadata {key!r} do not descend from hit to hit, so they may not be scores"
            )
            return None, None
        return scores, (True, _note(True, "inferred from the order of its scores"))

    def _declared(self, name: str, where: FieldOf, hits: Sequence[Any]) -> list[object]:
        """Return the values of a declared field of the hits; warn once if it is a metadata key that no hit has.

        `name` is the name of the field, and `where` its declaration.
        """
        found = [self._field(where, hit) for hit in hits]
        if isinstance(where, str) and hits and name not in self._once and all(one is None for one in found):
            rows = [self.metadata(hit) for hit in hits]
            if not any(where in row for row in rows):
                self._once.warn(
                    f"source {self.name!r}: no hit has the metadata key {where!r} of HitFields({name}={where!r}); "
                    f"{nearest_key(where, rows)}",
                    key=name,
                )
        return found

    def _field(self, where: FieldOf, hit: Any) -> object:
        go_on()
        return self.metadata(hit).get(where) if isinstance(where, str) else where(hit)

    def ranking(
        self,
        ids: Sequence[str],
        scores: Sequence[Any] | None,
        payloads: Payloads,
        limit: int | None,
        notes: list[str],
        *,
        order: Sequence[object] | None = None,
        stated: tuple[bool, str] | None = None,
        ordered: bool = True,
    ) -> Ranking:
        """Convert n hits to a ranking, and add a note to `notes` for each repaired problem.

        Without scores, only the order of the hits counts. If `ordered` is False, the order has no meaning, and all hits
        get the same rank. Hits beyond `limit` are dropped, with a note. The direction of the scores is the declared
        direction. Without a declaration, it is the direction in `stated`, a pair (True if higher is better, note).
        Without `stated`, it is inferred from the values in `order`, or from the scores.
        """
        scores, joined = self._known_scores(scores, notes, len(ids)) if ordered else None, order is not None
        higher: bool | None = True
        if scores is not None:
            if stated is not None and self.direction.stated is None:
                higher, note = stated
            else:
                higher, note = self.direction.of(scores if order is None else order)
            if note and ids:
                notes.append(note)
            if higher is None:
                scores = None
        found = Ranking.from_hits(
            self.name, ids, scores, higher_is_better=higher is not False, size=self.fields.size, payloads=payloads
        )
        if found.dropped and len(found):
            notes.append(f"{found.dropped} of {len(ids)} hits dropped: their scores or ids are unusable")
        if scores is not None and len(found) < len(ids):
            values = as_floats(scores)
            payloads.best_first(values if higher is not False else -values)
        if found.ids == tuple(ids):
            payloads.follow(found)
        elif scores is not None and not joined and _contradicts(found, ids):
            notes.append("the order of its hits contradicts their scores; the scores were used")
        return limited(found if ordered else self._membership(found, notes), limit, notes)

    def _membership(self, ranking: Ranking, notes: list[str]) -> Ranking:
        """Return the ranking of unordered hits, in which all hits have the same rank."""
        if len(ranking):
            notes.append("all its hits get the same rank: they have no order")
            self.direction.warn_of_none()
        return replace(ranking, scores=np.full(len(ranking), -(len(ranking) + 1) / 2.0), rank_only=True)

    def _known_scores(self, scores: Sequence[Any] | None, notes: list[str], hits: int) -> Sequence[Any] | None:
        """Return the scores; if no hit has a score, return None and add a note. `hits` is the number of hits."""
        if scores is not None and not (scores and all(score is None for score in scores)):
            return scores
        if hits:
            where = self.fields.score
            looked = "it returns no scores" if where is None else "fields.score returned no score"
            notes.append(f"rank only: no score under {where!r}" if isinstance(where, str) else f"rank only: {looked}")
        return None


def limited(ranking: Ranking, limit: int | None, notes: list[str]) -> Ranking:
    """Cut the ranking to its best `limit` hits, and add a note if hits are dropped; None means no limit."""
    if limit is None or len(ranking) <= limit:
        return ranking
    notes.append(cut_note(len(ranking), limit))
    return cap_ranking(ranking, limit, "list", frozenset())


def _contradicts(ranking: Ranking, ids: Sequence[str]) -> bool:
    """Return True if the order of `ids` contradicts the scores of the ranking; equal scores may be in any order."""
    place = {identifier: row for row, identifier in enumerate(reversed(ids))}
    at = np.array([-place[identifier] for identifier in ranking.ids])
    scores = ranking.scores
    return bool(((at[1:] < at[:-1]) & (scores[1:] < scores[:-1])).any())


def with_passages(
    ranking: Ranking,
    found: object,
    unpack: Callable[[Any], Iterable[Any]],
    made: Callable[[str, Any], Any],
    notes: list[str],
) -> Ranking:
    """Replace payloads by the passages that ``resolve(ids)`` returned; a hit without a passage keeps its payload.

    `found` is the answer of ``resolve``: a mapping by id, or a list in the order of the ids with None for missing
    passages. `unpack` converts any other answer to a list, and ``made(id, value)`` creates the framework's passage.
    `notes` receives the number of missing passages. Raise InvalidTypeError if the list and the ids have different
    lengths.
    """
    if isinstance(found, Mapping):
        given = {str(key): value for key, value in found.items() if value is not None}
    else:
        values = list(found) if isinstance(found, list | tuple) else list(unpack(found))
        if len(values) != len(ranking.ids):
            raise InvalidTypeError(
                f"resolve must give one passage per id, or a mapping; got {len(values)} for {len(ranking.ids)} ids"
            )
        given = {key: value for key, value in zip(ranking.ids, values, strict=True) if value is not None}
    missing = sum(one not in given for one in ranking.ids)
    if missing:
        notes.append(f"resolve gave no passage for {missing} of {len(ranking.ids)} ids")
    payloads = ranking.payloads
    ids = [one for one in ranking.ids if one in given or one in payloads]
    hits = [made(one, given[one]) if one in given else payloads[one] for one in ids]
    return replace(ranking, payloads=Payloads(ids, hits, getattr(payloads, "evidence", payloads)))


def completed(
    ranking: Ranking,
    upstream: Iterable[Ranking | None],
    look_ups: LookUps,
    notes: list[str],
    deletions: Deletions,
    *,
    own: bool = False,
) -> Ranking:
    """Add passages to hits that have only an id, from the hits and the stores of other sources.

    The other sources' hits for the same query (`upstream`) are used first. Then the stores in `look_ups` are asked in
    order; a failed look-up adds a note. `deletions` drops passages that no store has. `own` is True if the source's own
    store was already asked.
    """
    payloads = ranking.payloads
    missing = [one for one, hit in zip(ranking.ids, hits_of(payloads, ranking.ids), strict=True) if hit is None]
    if not missing:
        return ranking
    found: dict[str, Any] = {}
    known = own or bool(look_ups)
    for other in upstream:
        held = {} if other is None or other.source == ranking.source else other.payloads
        found |= {one: held[one] for one in missing if one not in found and isinstance(held, Payloads) and one in held}
    for name, look_up in look_ups.items():
        left = [one for one in missing if one not in found]
        if not left:
            break
        try:
            given = look_up(left)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - the ranking is valid without the texts
            notes.append(f"source {name!r} could not be asked for the texts of passages ({type(error).__name__})")
            known = False
            continue
        new = {one: given[one] for one in left if given.get(one) is not None}
        if new:
            notes.append(f"texts of {len(new)} of {len(ranking)} passages from source {name!r}")
        found |= new
    if found:
        hits = [found.get(one) if payloads.get(one) is None else payloads[one] for one in ranking.ids]
        ranking = replace(ranking, payloads=Payloads(ranking.ids, hits, getattr(payloads, "evidence", payloads)))
    return deletions.without(ranking, [one for one in missing if one not in found] if known else (), notes)


def is_number(value: object) -> bool:
    """Return True if the value is a number that can be a score; booleans and texts are not."""
    return hasattr(value, "__float__") and not isinstance(value, bool | str)


def parameters_of(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of a function's parameters; the set is empty if Python cannot inspect the function."""
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()


def check_length(hits: Sized) -> None:
    """Raise MalformedAnswerError for more than 100,000 hits, which would take too long to read."""
    if len(hits) > _MOST_HITS:
        raise MalformedAnswerError(
            f"the source returned {len(hits):,} hits, more than the maximum {_MOST_HITS:,}: return only its best hits"
        )


def drained(answer: Iterable[object]) -> list[object]:
    """Read an iterator of hits; raise MalformedAnswerError if the iterator fails, or yields more than 100,000 hits."""
    items: list[object] = []
    try:
        items.extend(islice(answer, _MOST_HITS + 1))
    except MemoryError:
        raise
    except Exception as error:
        raise MalformedAnswerError(f"the source raised {type(error).__name__} while its hits were read") from error
    if len(items) > _MOST_HITS:
        raise MalformedAnswerError(f"the source yielded more than {_MOST_HITS:,} hits: return only its best hits")
    return items


EXPECTED = (  # short enough for a source's report, which cuts messages at 200 characters
    "texts, dicts (text or id), triples, or pairs of these and a score; or one text, or a dict of id to score"
)


def answer_items(answer: object, hits: str) -> list[Any] | tuple[Any, ...]:
    """Return the hits of an answer: a text, a mapping of ids to scores, or an iterable of hits.

    Raise MalformedAnswerError for any other answer. `hits` is the framework's word for hits, for the message.

    >>> answer_items("the answer", "documents"), answer_items({"p": 0.5}, "documents")
    (['the answer'], [{'id': 'p', 'score': 0.5}])
    """
    if isinstance(answer, list | tuple | Mapping):
        check_length(answer)
    if isinstance(answer, list | tuple):
        return answer
    if isinstance(answer, str):
        return [answer] if answer.strip() else []
    if isinstance(answer, Mapping) and answer and all(map(is_number, answer.values())):
        return [{"id": str(name), "score": value} for name, value in answer.items()]
    # An iteration over a table gives the names of its columns; the rows of SQLAlchemy have a method `columns`.
    is_table = not callable(getattr(answer, "columns", callable))
    if is_table or isinstance(answer, bytes | Mapping) or not isinstance(answer, Iterable):
        said = f"a dict of {list(answer)!r:.50}" if isinstance(answer, Mapping) else type(answer).__name__
        said += "; give its rows" if is_table else ""
        if inspect.iscoroutine(answer):
            answer.close()  # otherwise Python warns that it was never awaited
        raise MalformedAnswerError(f"a retriever must return a list of {hits}, {EXPECTED}; got {said}")
    return drained(answer)
