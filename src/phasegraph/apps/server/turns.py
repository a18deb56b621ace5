"""Limit the number of concurrent requests, with a fair share for every tenant."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection, Hashable
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import TypeAlias

from phasegraph.errors import PhasegraphError
from phasegraph.sources.workers import SPENT

PATIENCE = 10.0
"""Maximum seconds that a request waits for a slot."""
_LONGEST_RETRY = 60
_HALF, _NOTHING = 10.0, 1e-3
"""Half-life, in seconds, of a tenant's recent processor time; processor seconds below which a tenant is inactive."""
_ABOVE, _REST = 1.25, 3.0
"""A tenant is heavy above `_ABOVE` times the average; it then pauses for `_REST` times the duration of its request."""
_LONG, _LEAST_LONG = 2.0, 0.1
"""A request is long above `_LONG` times the median of the tenants' usual times, and above `_LEAST_LONG` seconds."""
_MOST_SHARES = 4.0
"""Maximum processor time of one tenant that counts in the average, in fair shares of one processor."""
_REQUEST = 0.002
"""Processor seconds that the event loop needs for a request, in addition to the time of the worker threads."""


_Line: TypeAlias = tuple[Hashable, bool]
"""A tenant, and whether its requests in this line are long."""


class BusyError(PhasegraphError):
    """The error for a refused request: its tenant's queue is full, or it waited too long.

    `retry_after` is the number of seconds after which the tenant's queue is probably empty.
    """

    retry_after = 1


class Turns:
    """Slots for `most` concurrent requests, of which one tenant uses at most `each`.

    If no slot is free, a request waits up to `patience` seconds in its tenant's queue of at most `queue` requests. A
    free slot goes to the waiting tenant with the fewest slots. If tenants have equally many slots, it goes to the
    tenant whose recent requests asked for the least processor time. A refused request also counts, with the usual time
    of its tenant. Otherwise, a tenant with many refused requests would seem to ask for little. The usual time depends
    on the size of a request, because long questions take long. A tenant's usual time for a size may be unknown. Its
    request then counts with the longest usual time of other tenants for this size. If that is unknown too, it counts
    with the tenant's own usual time for all sizes, and at first with the longest such time of other tenants.

    Costly requests together get at most a quarter of the slots: long requests, and all requests of heavy tenants. A
    request is long if it usually takes much more processor time than the requests of at least half of the tenants.
    Without the limit, long requests would sometimes hold all slots, although no tenant asks for more than its share. A
    tenant is heavy if it asks for clearly more processor time than the average. The time for which a request holds its
    slot would not show this: while heavy requests run, every request takes long. While other tenants have requests,
    heavy tenants also get at most a quarter of the time: after a request of t seconds, the next request of a heavy
    tenant waits for 3 t seconds.

    A free slot for costly requests is for the tenant that recently asked for the least processor time. If this tenant
    already has `each` slots, the slot stays free until one of its requests ends.
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
        self._busy: Counter[_Line] = Counter()
        self._waiting: dict[_Line, deque[asyncio.Future[None]]] = {}
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
        line = tenant, self._is_long(expected)
        await self._wait(line)
        begun, jobs = self._now(), list[float]()
        before = SPENT.set(jobs)
        try:
            yield
        finally:
            SPENT.reset(before)
            took, spent = self._now() - begun, _REQUEST + sum(jobs)
            self._ask(tenant, spent - expected)
            for usual, now in ((self._usual, spent), (of_size, spent), (self._usually_takes, took)):
                usual[tenant] = 0.8 * usual.get(tenant, now) + 0.2 * now
            if tenant in self._heavy():
                self._rested = self._now() + _REST * took
            self._give_back(line)

    def _ask(self, tenant: Hashable, seconds: float) -> None:
        now = self._now()
        self._asked[tenant] = (self._recently(tenant, now) + seconds, now)

    def _recently(self, tenant: Hashable, now: float) -> float:
        """Return the processor seconds that a tenant recently asked for; the sum decays with the half-life `_HALF`."""
        seconds, then = self._asked.get(tenant, (0.0, now))
        left = float(seconds * 0.5 ** ((now - then) / _HALF))
        return left if left > _NOTHING else 0.0

    def _active(self) -> set[Hashable]:
        """Return the tenants that have a request, or had a request in the last `_HALF` seconds."""
        now = self._now()
        return {one for one, (_, then) in self._asked.items() if now - then < _HALF} | self._present()

    def _present(self) -> set[Hashable]:
        """Return the tenants that have a running or waiting request."""
        return {tenant for tenant, _ in (*self._busy, *self._waiting)}

    def _slots(self, tenant: Hashable) -> int:
        """Return the number of slots that a tenant holds."""
        return self._busy[tenant, False] + self._busy[tenant, True]

    def _is_long(self, expected: float) -> bool:
        """Return True if a request is long; `expected` is the processor time that such a request usually takes.

        The usual times of active tenants are compared by their lower median. With one tenant, no request is long.
        """
        usual = sorted(self._usual[one] for one in self._active() if one in self._usual)
        return len(usual) > 1 and expected > max(_LEAST_LONG, _LONG * usual[(len(usual) - 1) // 2])

    def _heavy(self) -> set[Hashable]:
        """Return the tenants that recently asked for clearly more processor time than the average of active tenants.

        Tenants that stopped do not count. Otherwise, they would lower the average, and tenants that ask all the time
        would be heavy. In the average, the time of each tenant counts up to four times an equal share of one processor.
        Otherwise, a tenant with very many requests would raise the average so far that other heavy tenants would not
        exceed it. If all active tenants are heavy, the result is empty.
        """
        now = self._now()
        asked = {one: seconds for one in self._active() if (seconds := self._recently(one, now))}
        most = _MOST_SHARES * _HALF / math.log(2) / max(1, len(asked))
        average = sum(min(most, seconds) for seconds in asked.values()) / max(1, len(asked))
        heavy = {one for one, seconds in asked.items() if seconds > _ABOVE * average}
        return heavy if len(heavy) < len(asked) else set()  # they slow down nobody else

    async def _wait(self, line: _Line) -> None:
        if self._count(line[0]) >= self._queue:
            raise self._busy_error(line[0], f"the server is busy: {self._queue} of your requests are already waiting")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(line, deque())
        waiting.append(turn)
        if len(waiting) == 1 and line in self._ready(self._heavy()):
            self._start(line)
            return
        self._wake_after_pause()
        try:
            async with asyncio.timeout(self._patience):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._give_back(line)  # the slot became free just as the wait ended
            else:
                with suppress(KeyError, ValueError):  # a free slot was for this request, which had just left
                    self._waiting[line].remove(turn)
                if not self._waiting.get(line):
                    self._waiting.pop(line, None)
                self._hand_out()  # a slot may have been kept for this request
            if isinstance(error, TimeoutError):
                raise self._busy_error(
                    line[0], f"the server is busy: no slot became free within {self._patience:g} s"
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

    def _give_back(self, line: _Line) -> None:
        self._busy[line] -= 1
        self._busy += Counter()  # forget tenants without slots
        self._hand_out()

    def _hand_out(self) -> None:
        """Give free slots to waiting requests."""
        heavy = self._heavy()
        while ready := self._ready(heavy):
            now = self._now()
            self._start(min(ready, key=lambda line: (self._slots(line[0]), self._recently(line[0], now))))
        self._wake_after_pause()

    def _start(self, line: _Line) -> None:
        """Give a slot to the first request of a line."""
        waiting = self._waiting.pop(line)
        turn = waiting.popleft()
        if waiting:
            self._waiting[line] = waiting  # the line moves behind the lines of other tenants
        if not turn.done():
            turn.set_result(None)
            self._busy[line] += 1

    def _wake_after_pause(self) -> None:
        """Hand out slots at the end of the pause of heavy tenants, if a request waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rest = self._rested - self._now()
        if rest > 0 and self._waiting:
            self._timer = asyncio.get_running_loop().call_later(rest, self._hand_out)

    def _ready(self, heavy: Collection[Hashable]) -> list[_Line]:
        """Return the lines whose next request may get a slot."""
        if self._busy.total() >= self._most:
            return []
        now = self._now()
        ready = [line for line in self._waiting if not _is_costly(line, heavy)]
        held = sum(count for line, count in self._busy.items() if _is_costly(line, heavy))
        if held < max(1, self._most // 4):
            pause = now < self._rested and not self._present() <= set(heavy)
            costly = (one for one in self._waiting if _is_costly(one, heavy) and not (pause and one[0] in heavy))
            ready += sorted(costly, key=lambda line: self._recently(line[0], now))[:1]
        return [line for line in ready if self._slots(line[0]) < self._each]


def _is_costly(line: _Line, heavy: Collection[Hashable]) -> bool:
    tenant, long = line
    return long or tenant in heavy
