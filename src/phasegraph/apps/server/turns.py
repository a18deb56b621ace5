"""Limit the number of concurrent requests, with a fair share for every tenant."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from time import monotonic

from phasegraph.errors import PhasegraphError

PATIENCE = 10.0
"""Maximum seconds that a request waits for a slot."""
_LONGEST_RETRY = 60
_HALF, _NOTHING = 10.0, 1e-3
"""Half-life, in seconds, of the slot time that a tenant used, and the seconds below which a tenant is inactive."""


class BusyError(PhasegraphError):
    """The error for a refused request: its tenant's queue is full, or it waited too long.

    `retry_after` is the number of seconds after which the tenant's queue is probably empty.
    """

    retry_after = 1


class Turns:
    """Slots for `most` concurrent requests, of which one tenant uses at most `each`.

    If no slot is free, a request waits up to `patience` seconds in its tenant's queue of at most `queue` requests. A
    free slot goes to the waiting tenant with the fewest slots. If tenants have equally many slots, it goes to the
    tenant whose requests recently used slots for the least time. All tenants above the average of this time together
    get at most a quarter of the slots. Other tenants therefore find a free slot, even if many tenants are above the
    average.
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
        self._most, self._each, self._queue, self._patience, self._now = most, each, queue, patience, now
        self._busy: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        self._used: dict[Hashable, tuple[float, float]] = {}  # used seconds, and the time of the last update
        self._usual: dict[Hashable, float] = {}

    @asynccontextmanager
    async def place(self, tenant: Hashable) -> AsyncIterator[None]:
        """Reserve a slot within the block; raise BusyError if the queue is full, or no slot becomes free in time."""
        if self._free(tenant) and tenant not in self._waiting:
            self._busy[tenant] += 1
        else:
            await self._wait(tenant)
        begun = self._now()
        try:
            yield
        finally:
            now = self._now()
            self._used[tenant] = (self._recently(tenant, now) + now - begun, now)
            self._usual[tenant] = 0.8 * self._usual.get(tenant, now - begun) + 0.2 * (now - begun)
            self._give_back(tenant)

    def _recently(self, tenant: Hashable, now: float) -> float:
        """Return the seconds for which a tenant used slots; past seconds count less, by an exponential decay."""
        seconds, then = self._used.get(tenant, (0.0, now))
        left = float(seconds * 0.5 ** ((now - then) / _HALF))
        return left if left > _NOTHING else 0.0

    def _heavy(self) -> set[Hashable]:
        """Return the tenants that recently used slots for longer than the average of all active tenants."""
        now = self._now()
        used = {one: self._recently(one, now) for one in self._used}
        active = [seconds for seconds in used.values() if seconds]
        return {one for one, seconds in used.items() if seconds * len(active) > sum(active)}

    async def _wait(self, tenant: Hashable) -> None:
        line = self._waiting.get(tenant, ())
        if len(line) >= self._queue:
            raise self._busy_error(tenant, f"{self._queue} requests are waiting")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line = self._waiting.setdefault(tenant, deque())
        line.append(turn)
        try:
            async with asyncio.timeout(self._patience):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._give_back(tenant)  # the slot became free just as the wait ended
            else:
                line.remove(turn)
                self._forget(tenant)
            if isinstance(error, TimeoutError):
                raise self._busy_error(tenant, f"no slot became free within {self._patience:g} s") from None
            raise

    def _busy_error(self, tenant: Hashable, said: str) -> BusyError:
        error = BusyError(said)
        rounds = (len(self._waiting.get(tenant, ())) + 1) / self._each
        error.retry_after = min(_LONGEST_RETRY, max(1, math.ceil(rounds * self._usual.get(tenant, 0.0))))
        return error

    def _give_back(self, tenant: Hashable) -> None:
        self._busy[tenant] -= 1
        if not self._busy[tenant]:
            del self._busy[tenant]
        while ready := [one for one in self._waiting if self._free(one)]:
            now = self._now()
            following = min(ready, key=lambda one: (self._busy[one], self._recently(one, now)))
            line = self._waiting.pop(following)
            turn = line.popleft()
            if line:
                self._waiting[following] = line  # the tenant moves to the end of the line
            if not turn.done():
                turn.set_result(None)
                self._busy[following] += 1

    def _free(self, tenant: Hashable) -> bool:
        if self._busy.total() >= self._most or self._busy[tenant] >= self._each:
            return False
        heavy = self._heavy()
        return tenant not in heavy or sum(self._busy[one] for one in heavy) < max(1, self._most // 4)

    def _forget(self, tenant: Hashable) -> None:
        if not self._waiting.get(tenant):
            self._waiting.pop(tenant, None)
