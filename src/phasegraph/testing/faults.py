"""Make sources fail on purpose, repeatably.

:class:`FaultySource` wraps a source of your own and breaks its answers by a plan, to test how your application copes.
A plan is a pure function of the source's name and the query, so that a run can be repeated.
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
    """Raised by a source that is made to fail."""


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
        raise InjectedError("injected midway")

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
"""Faults after which a source counts as failed."""
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
"""Faults that must leave the ranking as it would have been."""
FAULTS: Mapping[str, Fault] = MappingProxyType(
    {**FAILING, **HARMLESS, "empty": _empty, "hang": _hang, "unusable": _unusable, "huge": _huge}
)
"""Every fault by name; called with the healthy ranking and the seconds a hang lasts, it returns the answer.

Besides those that fail and those that are harmless: ``empty`` finds nothing, ``hang`` is late, ``unusable`` has no
score that is a number (the source counts as partial, and as degraded), ``huge`` adds 10,000 worse hits (harmless where
the ranking fills the limit by itself).
"""
FATAL: Mapping[str, Fault] = MappingProxyType({"exits": _exits})
"""What passes through a call in place of an answer; no part of a plan that does not name it."""


def broken(kind: str, ranking: Ranking, seconds: float, /) -> object:
    """What a source answers that the fault strikes, where it would have answered `ranking`."""
    return (FAULTS.get(kind) or FATAL[kind])(ranking, seconds)


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Which fault strikes which query, decided by a hash: `rate` is the share of (source, query) pairs, in [0, 1].

    `kinds` are names of :data:`FAULTS` (default all) or :data:`FATAL`; another `seed` is another plan.

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
        """Name of the fault for this pair, or None."""
        key = repr((self.seed, source, query)).encode("utf-8", "surrogatepass")
        drawn = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")
        share, which = drawn % 1_000_003 / 1_000_003, drawn // 1_000_003
        return self.kinds[which % len(self.kinds)] if share < self.rate else None


@dataclass(frozen=True, slots=True)
class FaultySource:
    """A source that fails by plan and otherwise answers like the healthy one it wraps.

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
        """The wrapped source's answer, broken where the plan strikes."""
        ranking = self.source.search(query, limit, upstream)
        kind = self.plan.strikes(self.name, query)
        return ranking if kind is None else broken(kind, ranking, self.hang_seconds)  # type: ignore[return-value]
