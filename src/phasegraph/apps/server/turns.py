"""Limit concurrent requests, with a fair share for every tenant."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

from phasegraph.errors import PhasegraphError


class BusyError(PhasegraphError):
    """A request was refused: its tenant's queue is full, or it waited too long."""


class Turns:
    """Slots for `most` concurrent requests, of which one tenant uses at most `each`.

    If no slot is free, a request waits up to `patience` seconds in its tenant's queue of `queue` requests. A slot that
    becomes free goes to the waiting tenant with the fewest slots.
    """

    def __init__(self, most: int, *, each: int, queue: int = 64, patience: float = 10.0) -> None:
        self._most, self._each, self._queue, self._patience = most, each, queue, patience
        self._busy: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def place(self, tenant: Hashable) -> AsyncIterator[None]:
        """Hold a slot; BusyError if the tenant's queue is full, or no slot becomes free in time."""
        if self._free(tenant) and tenant not in self._waiting:
            self._busy[tenant] += 1
        else:
            await self._wait(tenant)
        try:
            yield
        finally:
            self._give_back(tenant)

    async def _wait(self, tenant: Hashable) -> None:
        line = self._waiting.setdefault(tenant, deque())
        if len(line) >= self._queue:
            raise BusyError(f"{self._queue} requests are waiting")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            async with asyncio.timeout(self._patience):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._give_back(tenant)  # the slot arrived just as the wait ended
            else:
                line.remove(turn)
                self._forget(tenant)
            if isinstance(error, TimeoutError):
                raise BusyError(f"no place became free within {self._patience:g} s") from None
            raise

    def _give_back(self, tenant: Hashable) -> None:
        self._busy[tenant] -= 1
        if not self._busy[tenant]:
            del self._busy[tenant]
        while ready := [one for one in self._waiting if self._free(one)]:
            following = min(ready, key=self._busy.__getitem__)
            line = self._waiting.pop(following)
            turn = line.popleft()
            if line:
                self._waiting[following] = line  # the tenant goes behind the others
            if not turn.done():
                turn.set_result(None)
                self._busy[following] += 1

    def _free(self, tenant: Hashable) -> bool:
        return self._busy.total() < self._most and self._busy[tenant] < self._each

    def _forget(self, tenant: Hashable) -> None:
        if not self._waiting.get(tenant):
            self._waiting.pop(tenant, None)
