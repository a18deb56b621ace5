"""Limit the number of concurrent requests, with a fair share for every tenant."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection, Hashable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from time import monotonic
from typing import Literal, TypeAlias

from phasegraph.errors import PhasegraphError
from phasegraph.sources.workers import SPENT

PATIENCE = 10.0
"""Maximum seconds that a request waits for a slot."""
_LONGEST_RETRY = 60
_HALF, _NOTHING = 10.0, 1e-3
"""Half-life, in seconds, of a tenant's recent processor time; processor seconds below which a tenant is inactive."""
_ABOVE, _REST, _LONGEST_REST = 1.25, 3.0, 5.0
"""A tenant is heavy above `_ABOVE` times the average; it then pauses for `_REST` times the duration of its request, at
most `_LONGEST_REST` seconds, which is less than the patience of the next request."""
_LONG, _LEAST_LONG, _LEAST_LONG_OF_SEVERAL = 2.0, 0.1, 0.02
"""A request is long above `_LONG` times the median of the tenants' usual times, and above `_LEAST_LONG` seconds.

For a tenant with other running or waiting requests, `_LEAST_LONG_OF_SEVERAL` applies."""
_MOST_SHARES = 2.0
"""Maximum processor time of one tenant that counts in the average, in equal shares of one processor."""
_REQUEST = 0.002
"""Processor seconds that the event loop needs for a request, in addition to the time of the worker threads."""

LOW_PRIORITY: ContextVar[bool] = ContextVar("LOW_PRIORITY", default=False)
"""Whether the request of this context is answered with low priority."""


class BusyError(PhasegraphError):
    """The error for a refused request: its tenant's queue is full, or it waited too long.

    `retry_after` is the number of seconds after which the tenant's queue is probably empty.
    """

    retry_after = 1


Kind: TypeAlias = Literal["normal", "long", "heavy"]


def most_of_each_kind(most: int) -> dict[Kind, int]:
    """Return the number of requests of each kind that are answered at once; `most` is the number of normal requests."""
    few = max(1, most // 4)
    return {"normal": most, "long": few, "heavy": few}


class Turns:
    """Slots for concurrent requests: normal requests, long requests and requests of heavy tenants.

    There are `most` slots for normal requests, and a quarter as many for each other kind, at least one. One tenant uses
    at most `each` slots. If no slot is free, a request waits up to `patience` seconds in its tenant's queue of at most
    `queue` requests. A free slot goes to the waiting tenant with the fewest slots. If tenants have equally many slots,
    it goes to the tenant whose recent requests asked for the least processor time. A refused request also counts, with
    the usual time of its tenant. Otherwise, a tenant with many refused requests would seem to ask for little. The usual
    time depends on the size of a request, because long questions take long. A tenant's usual time for a size may be
    unknown. Its request then counts with the longest usual time of other tenants for this size. If that is unknown too,
    it counts with the tenant's own usual time for all sizes, and at first with the longest such time of other tenants.

    Long requests and the requests of heavy tenants have low priority and separate slots. Otherwise, they would
    sometimes hold all slots, and all other requests would have to wait for their end. A request is long if it usually
    takes much more processor time than the requests of at least half of the tenants. If its tenant has other requests
    at the same time, a shorter time is enough, because many such requests together hold slots for a long time.

    A tenant is heavy if it asks for clearly more processor time than the average. The time for which a request holds
    its slot would not show this: while heavy requests run, every request takes long. While other tenants have requests,
    heavy tenants also pause: after a request of t seconds, the next request of a heavy tenant waits for 3 t seconds, at
    most five.
    """

    def __init__(
        self,
        most: int,
        *,
        each: int,
        queue: int = 64,
        patience: float = PATIENCE,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._most, self._each = most_of_each_kind(most), each
        self._queue, self._patience, self._now = queue, patience, now
        self._busy: Counter[Hashable] = Counter()
        self._waiting: dict[tuple[Hashable, bool], deque[asyncio.Future[Kind]]] = {}  # by tenant, and whether long
        self._in_use: Counter[Kind] = Counter()  # slots
        self._asked: dict[Hashable, tuple[float, float]] = {}  # processor seconds, and the time of the last update
        self._usual: dict[Hashable, float] = {}  # processor seconds of a request
        self._usual_of_size: dict[int, dict[Hashable, float]] = {}
        self._usually_takes: dict[Hashable, float] = {}
        self._rested = -math.inf  # the time until which heavy tenants make way for others
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def place(self, tenant: Hashable, size: int = 0) -> AsyncIterator[None]:
        """Reserve a slot for a ``with`` block; raise BusyError if the queue is full or no slot becomes free in time.

        `size` is the size class of the request, a small number.
        """
        of_size = self._usual_of_size.setdefault(size, {})
        own = self._usual.get(tenant, max(self._usual.values(), default=0.0))
        expected = of_size.get(tenant, max(of_size.values(), default=own))
        self._ask(tenant, expected)
        long = self._is_long(tenant, expected)
        heavy = self._heavy()
        if (tenant, long) not in self._waiting and self._free(tenant, long, heavy):
            kind = self._take(tenant, long, heavy)
        else:
            kind = await self._wait(tenant, long)
        begun, jobs = self._now(), list[float]()
        before, priority = SPENT.set(jobs), LOW_PRIORITY.set(kind != "normal")
        try:
            yield
        finally:
            SPENT.reset(before)
            LOW_PRIORITY.reset(priority)
            took, spent = self._now() - begun, _REQUEST + sum(jobs)
            self._ask(tenant, spent - expected)
            for usual, now in ((self._usual, spent), (of_size, spent), (self._usually_takes, took)):
                usual[tenant] = 0.8 * usual.get(tenant, now) + 0.2 * now
            if tenant in self._heavy():
                self._rested = self._now() + min(_REST * took, _LONGEST_REST)
            self._give_back(tenant, kind)

    def _ask(self, tenant: Hashable, seconds: float) -> None:
        now = self._now()
        self._asked[tenant] = (self._recently(tenant, now) + seconds, now)

    def _recently(self, tenant: Hashable, now: float) -> float:
        """Return the processor seconds that a tenant recently asked for; the sum decays with the half-life `_HALF`."""
        seconds, then = self._asked.get(tenant, (0.0, now))
        left = float(seconds * 0.5 ** ((now - then) / _HALF))
        return left if left > _NOTHING else 0.0

    @staticmethod
    def _kind(tenant: Hashable, long: bool, heavy: Collection[Hashable]) -> Kind:
        return "heavy" if tenant in heavy else "long" if long else "normal"

    def _free(self, tenant: Hashable, long: bool, heavy: Collection[Hashable]) -> bool:
        kind = self._kind(tenant, long, heavy)
        if self._busy[tenant] >= self._each or self._in_use[kind] >= self._most[kind]:
            return False
        if kind != "heavy" or self._now() >= self._rested:
            return True
        return all(one in heavy for one in (*self._busy, *self._queued()))

    def _take(self, tenant: Hashable, long: bool, heavy: Collection[Hashable]) -> Kind:
        """Occupy a slot; return its kind."""
        kind = self._kind(tenant, long, heavy)
        self._busy[tenant] += 1
        self._in_use[kind] += 1
        return kind

    def _active(self) -> set[Hashable]:
        """Return the tenants that have a request, or had a request in the last `_HALF` seconds."""
        now = self._now()
        return {one for one, (_, then) in self._asked.items() if now - then < _HALF} | {*self._busy, *self._queued()}

    def _queued(self) -> set[Hashable]:
        """Return the tenants that have a waiting request."""
        return {one for one, _ in self._waiting}

    def _is_long(self, tenant: Hashable, expected: float) -> bool:
        """Return True if a request is long; `expected` is the processor time that such a request usually takes.

        It is compared with the lower median of the active tenants, each with the usual time of its slowest size. Other
        sizes may be the handshakes of agents, which search nothing. With one tenant, no request is long.
        """
        active, sizes = self._active(), self._usual_of_size.values()
        slowest = sorted(max(of.get(one, 0.0) for of in sizes) for one in active if one in self._usual)
        least = _LEAST_LONG_OF_SEVERAL if self._busy[tenant] or self._count(tenant) else _LEAST_LONG
        return len(slowest) > 1 and expected > max(least, _LONG * slowest[(len(slowest) - 1) // 2])

    def _heavy(self) -> set[Hashable]:
        """Return the tenants that recently asked for clearly more processor time than the average of active tenants.

        Tenants that stopped do not count. Otherwise, they would lower the average, and tenants that ask all the time
        would be heavy. In the average, the time of each tenant counts up to two equal shares of one processor.
        Otherwise, a tenant with very many requests would raise the average so far that other heavy tenants would not
        exceed it. If all active tenants are heavy, the result is empty.
        """
        now = self._now()
        asked = {one: seconds for one in self._active() if (seconds := self._recently(one, now))}
        most = _MOST_SHARES * _HALF / math.log(2) / max(1, len(asked))
        average = sum(min(most, seconds) for seconds in asked.values()) / max(1, len(asked))
        heavy = {one for one, seconds in asked.items() if seconds > _ABOVE * average}
        return heavy if len(heavy) < len(asked) else set()  # they slow down nobody else

    async def _wait(self, tenant: Hashable, long: bool) -> Kind:
        """Wait for a slot; return its kind."""
        if self._count(tenant) >= self._queue:
            raise self._busy_error(tenant, f"the server is busy: {self._queue} of your requests are already waiting")
        turn: asyncio.Future[Kind] = asyncio.get_running_loop().create_future()
        line = self._waiting.setdefault((tenant, long), deque())
        line.append(turn)
        self._wake_after_pause()
        try:
            async with asyncio.timeout(self._patience):
                return await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._give_back(tenant, turn.result())  # the slot became free just as the wait ended
            else:
                with suppress(ValueError):  # a free slot was for this request, which had just left
                    line.remove(turn)
                if not self._waiting.get((tenant, long)):
                    self._waiting.pop((tenant, long), None)
            if isinstance(error, TimeoutError):
                raise self._busy_error(
                    tenant, f"the server is busy: no slot became free within {self._patience:g} s"
                ) from None
            raise

    def _busy_error(self, tenant: Hashable, said: str) -> BusyError:
        error = BusyError(said)
        rounds = (self._count(tenant) + 1) / self._each
        error.retry_after = min(_LONGEST_RETRY, max(1, math.ceil(rounds * self._usually_takes.get(tenant, 0.0))))
        return error

    def _count(self, tenant: Hashable) -> int:
        """Return the number of waiting requests of a tenant."""
        return sum(len(self._waiting.get((tenant, long), ())) for long in (False, True))

    def _give_back(self, tenant: Hashable, kind: Kind) -> None:
        self._in_use[kind] -= 1
        self._busy[tenant] -= 1
        if not self._busy[tenant]:
            del self._busy[tenant]
        self._hand_out()

    def _hand_out(self) -> None:
        """Give free slots to waiting requests."""
        heavy = self._heavy()
        while ready := [(one, long) for one, long in self._waiting if self._free(one, long, heavy)]:
            now = self._now()
            following = min(ready, key=lambda line: (self._busy[line[0]], self._recently(line[0], now)))
            line = self._waiting.pop(following)
            turn = line.popleft()
            if line:
                self._waiting[following] = line  # the tenant moves to the end of the line
            if not turn.done():
                turn.set_result(self._take(*following, heavy))
        self._wake_after_pause()

    def _wake_after_pause(self) -> None:
        """Hand out slots at the end of the pause of heavy tenants, if a request waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rest = self._rested - self._now()
        if rest > 0 and self._waiting:
            self._timer = asyncio.get_running_loop().call_later(rest, self._hand_out)
