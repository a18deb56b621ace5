"""Injection of reproducible faults into sources, to test how an application handles them.

:class:`FaultySource` wraps a source and breaks its answers according to a :class:`FaultPlan`. A plan is a pure function
of the source's name and the query; a run is therefore repeatable.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from phasegraph.errors import InvalidInputError
from phasegraph.ranking import Ranking
from phasegraph.sources.protocol import Source, Upstream

Fault = Callable[[Ranking, float], object]
_HUGE = 10_000


class InjectedError(RuntimeError):
    """The error that an injected fault raises."""


def _raises(kind: type[Exception], text: str) -> Fault:
    def fault(ranking: Ranking, seconds: float) -> object:
        raise kind(text)

    return fault


def _returns(value: object) -> Fault:
    return lambda ranking, seconds: value


def _hang(ranking: Ranking, seconds: float) -> object:
    time.sleep(seconds)
    return ranking


def _wrong_arity(ranking: Ranking, seconds: float) -> object:
    return [(ids, 1.0, "extra") for ids in ranking.ids] or [("a", 1.0, "extra")]


def _breaks_midway(ranking: Ranking, seconds: float) -> object:
    def hits() -> Iterator[tuple[str, float]]:
        yield "a", 1.0
        raise InjectedError("injected fault: the list of hits ends with this error after the first hit")

    return hits()


def _coroutine(ranking: Ranking, seconds: float) -> object:
    async def answer() -> Ranking:
        return ranking

    return answer()


def _wrong_name(ranking: Ranking, seconds: float) -> object:
    return Ranking(f"not {ranking.source}", ranking.ids, ranking.scores)


def _stops(ranking: Ranking, seconds: float) -> object:
    raise StopIteration(ranking)


def _recurses(ranking: Ranking, seconds: float) -> object:
    return _recurses(ranking, seconds)


def _wrong_types(ranking: Ranking, seconds: float) -> object:
    return [3, object()]


def _exits(ranking: Ranking, seconds: float) -> object:
    raise SystemExit(3)


def _empty(ranking: Ranking, seconds: float) -> object:
    return Ranking.from_hits(ranking.source, (), ())


def _pairs(ranking: Ranking) -> list[tuple[str, float]]:
    return list(zip(ranking.ids, ranking.scores.tolist(), strict=True))


def _extra(score: object) -> Fault:
    return lambda ranking, seconds: [("injected", score), *_pairs(ranking)]


def _duplicates(ranking: Ranking, seconds: float) -> object:
    return _pairs(ranking) + [(ids, score - 1.0) for ids, score in _pairs(ranking)]


def _huge(ranking: Ranking, seconds: float) -> object:
    lowest = float(ranking.scores[-1]) if len(ranking) else 0.0
    return _pairs(ranking) + [(f"injected-{row}", lowest - 1.0 - row) for row in range(_HUGE)]


def _unusable(ranking: Ranking, seconds: float) -> object:
    return [(ids, float("nan")) for ids in ranking.ids]


def _reversed(ranking: Ranking, seconds: float) -> object:
    return _pairs(ranking)[::-1]


FAILING: Mapping[str, Fault] = MappingProxyType(
    {
        "raise": _raises(InjectedError, "injected: secret=hunter2"),
        "key error": _raises(KeyError, "injected"),
        "none": _returns(None),
        "number": _returns(42),
        "text": _returns("a passage"),
        "wrong types": _wrong_types,
        "wrong arity": _wrong_arity,
        "breaks midway": _breaks_midway,
        "coroutine": _coroutine,
        "wrong name": _wrong_name,
        "stops": _stops,
        "recurses": _recurses,
    }
)
"""The names of the faults after which a source counts as failed."""
HARMLESS: Mapping[str, Fault] = MappingProxyType(
    {
        "nan": _extra(float("nan")),
        "infinite": _extra(float("inf")),
        "minus infinite": _extra(float("-inf")),
        "none score": _extra(None),
        "text score": _extra("high"),
        "true score": _extra(True),
        "duplicates": _duplicates,
        "reversed": _reversed,
    }
)
"""The names of the faults that must not change the source's ranking."""
FAULTS: Mapping[str, Fault] = MappingProxyType(
    {**FAILING, **HARMLESS, "empty": _empty, "hang": _hang, "unusable": _unusable, "huge": _huge}
)
"""All faults by name. A fault is a function of the correct ranking and of a delay in seconds; it returns the answer.

In addition to :data:`FAILING` and :data:`HARMLESS`: ``empty`` returns no hits. ``hang`` answers after the delay.
``unusable`` returns only NaN scores, so the source counts as partial and degraded. ``huge`` adds 10,000 worse hits,
which have no effect if the correct ranking already has as many hits as the limit.
"""
FATAL: Mapping[str, Fault] = MappingProxyType({"exits": _exits})
"""Faults by name that raise ``SystemExit`` and similar exceptions; a plan has them only if its `kinds` name them."""


def broken(kind: str, ranking: Ranking, seconds: float, /) -> object:
    """Return the answer of a source with the fault `kind`.

    `ranking` is the correct answer, and `seconds` the delay of the fault ``hang``.
    """
    return (FAULTS.get(kind) or FATAL[kind])(ranking, seconds)


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """A plan that assigns faults to pairs of a source and a query by a hash.

    `rate` is the share of pairs with a fault, in [0, 1]. `kinds` are the names of the faults, from :data:`FAULTS` or
    :data:`FATAL`; default all of :data:`FAULTS`. A different `seed` gives a different plan.

    >>> FaultPlan(rate=1.0, kinds=["nan"]).strikes("vector", "who?")
    'nan'
    >>> FaultPlan(rate=0.0).strikes("vector", "who?")
    """

    rate: float
    kinds: Sequence[str] = tuple(FAULTS)
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 1.0:
            raise InvalidInputError(f"FaultPlan.rate must be in [0, 1]; got {self.rate!r}")
        known = [*FAULTS, *FATAL]
        if not self.kinds or not set(self.kinds) <= set(known):
            raise InvalidInputError(f"FaultPlan.kinds must be among {known}; got {list(self.kinds)}")

    def strikes(self, source: str, query: str) -> str | None:
        """Return the name of the fault for a source and a query, or None for no fault."""
        key = repr((self.seed, source, query)).encode("utf-8", "surrogatepass")
        drawn = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")
        share, which = drawn % 1_000_003 / 1_000_003, drawn // 1_000_003
        return self.kinds[which % len(self.kinds)] if share < self.rate else None


@dataclass(frozen=True, slots=True)
class FaultySource:
    """A source that returns the answers of a wrapped source, with the faults of a plan.

    `hang_seconds` is the delay of the fault ``hang`` in seconds.

    >>> from phasegraph.sources import CallableSource
    >>> healthy = CallableSource("v", lambda query, limit: [("a", 1.0)])
    >>> FaultySource(healthy, "v", FaultPlan(1.0, ["number"])).search("who?", 50, {})
    42
    """

    source: Source
    name: str
    plan: FaultPlan
    hang_seconds: float = 1.0

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Return the wrapped source's answer, with a fault if the plan has a fault for the query."""
        ranking = self.source.search(query, limit, upstream)
        kind = self.plan.strikes(self.name, query)
        return ranking if kind is None else broken(kind, ranking, self.hang_seconds)  # type: ignore[return-value]
