"""What a framework's retriever returned, as a ranking."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from phasegraph.errors import InvalidTypeError
from phasegraph.ranking import Ranking, cap_ranking
from phasegraph.retrieval.directions import Direction
from phasegraph.retrieval.ids import Identities, Payloads
from phasegraph.retrieval.source_config import FieldOf, HitFields
from phasegraph.sources.gatherer import cut_note
from phasegraph.sources.protocol import MalformedAnswerError

_MOST_LAZY_HITS = 100_000


@dataclass(frozen=True, slots=True)
class HitReader:
    """Reads the answers of one source; remembers its direction, and that it warned about ids.

    Parameters
    ----------
    name : str
    fields : HitFields
    known : bool or None
        Whether higher is better, as the class of the source's store says.
    metadata, text : callable
        Metadata and text of a hit.
    """

    name: str
    fields: HitFields
    known: bool | None
    metadata: Callable[[Any], Mapping[str, Any]]
    text: Callable[[Any], str]
    direction: Direction = field(init=False)
    identities: Identities = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "direction", Direction(self.fields.higher_is_better, self.known, self.name))
        object.__setattr__(self, "identities", Identities(self.name))

    def ids(self, hits: Sequence[Any], own: Sequence[object], notes: list[str]) -> list[str]:
        """The ids of hits that carry `own`, or what :class:`HitFields` says in their place."""
        if self.fields.id is not None:
            own = [self._field(self.fields.id, hit) for hit in hits]
        return self.identities.read(own, lambda row: (self.metadata(hits[row]), self.text(hits[row])), notes)

    def scores(self, hits: Sequence[Any]) -> list[object] | None:
        """The scores that :class:`HitFields` names, or None where it names none."""
        where = self.fields.score
        return None if where is None else [self._field(where, hit) for hit in hits]

    def _field(self, where: FieldOf, hit: Any) -> object:
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
        told: tuple[bool, str] | None = None,
    ) -> Ranking:
        """The hits as a ranking; what had to be handled is added to `notes`.

        Parameters
        ----------
        ids : (n,) sequence of str
        scores : (n,) sequence or None
            None, or None for every hit: only their order is known.
        payloads : Payloads
        limit : int or None
            Hits asked for; further ones are cut, and noted.
        notes : list of str
        order : sequence of object, optional
            Scores whose order tells the direction, where they are not `scores`.
        told : (bool, str), optional
            Whether higher is better, and a note, where the answer itself says it; a declaration wins.
        """
        scores, joined = self._known_scores(scores, notes, len(ids)), order is not None
        higher: bool | None = True
        if scores is not None:
            if told is not None and self.direction.higher_is_better is None:
                higher, note = told
            else:
                higher, note = self.direction.of(scores if order is None else order)
            if note and ids:
                notes.append(note)
            if higher is None:
                scores = None
        found = Ranking.from_hits(
            self.name, ids, scores, higher_is_better=higher is not False, size=self.fields.size, payloads=payloads
        )
        if found.ids == tuple(ids):
            payloads.follow(found)
        elif scores is not None and not joined and _contradicts(found, ids):
            notes.append("its order contradicts its scores; the scores were believed")
        return limited(found, limit, notes)

    def _known_scores(self, scores: Sequence[Any] | None, notes: list[str], hits: int) -> Sequence[Any] | None:
        """The scores; None, with a note that says where they were looked for, if there are none at all."""
        if scores is not None and not (scores and all(score is None for score in scores)):
            return scores
        if hits:
            where = self.fields.score
            looked = "it returns no scores" if where is None else "fields.score gave none"
            notes.append(f"rank only: no score under {where!r}" if isinstance(where, str) else f"rank only: {looked}")
        return None


def limited(ranking: Ranking, limit: int | None, notes: list[str]) -> Ranking:
    """The ranking's best `limit` hits, which is noted; all of them where it is None."""
    if limit is None or len(ranking) <= limit:
        return ranking
    notes.append(cut_note(len(ranking), limit))
    return cap_ranking(ranking, limit, "list", frozenset())


def _contradicts(ranking: Ranking, ids: Sequence[str]) -> bool:
    """Whether the order in which hits came differs from the order of their scores, ties apart."""
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
    """The ranking with the passages that ``resolve(ids)`` gave; a hit without one keeps its own payload.

    Parameters
    ----------
    ranking : Ranking
    found : mapping or sequence
        By id, or one per id in the same order; None for those that are not there.
    unpack : callable
        The framework's own reading of an answer that is neither.
    made : callable
        ``made(id, value)``: what was given as the framework's own passage.
    notes : list of str
        Takes how many ids were given no passage.

    Raises
    ------
    InvalidTypeError
        If there are more or fewer than ids.
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


def parameters_of(function: Callable[..., Any]) -> frozenset[str]:
    """Names of a function's parameters; none where it does not tell."""
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()


def drained(answer: Iterable[object]) -> list[object]:
    """What an iterator of hits yields; MalformedAnswerError if it raises, or does not end within 100,000 hits."""
    items: list[object] = []
    try:
        items.extend(islice(answer, _MOST_LAZY_HITS + 1))
    except MemoryError:
        raise
    except Exception as error:
        raise MalformedAnswerError(f"{type(error).__name__} raised while its hits were iterated over") from error
    if len(items) > _MOST_LAZY_HITS:
        raise MalformedAnswerError(f"the source yielded more than {_MOST_LAZY_HITS:,} hits")
    return items
