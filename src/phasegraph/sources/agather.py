"""Wait for a call as a coroutine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from phasegraph.sources.call import Call, Ring
from phasegraph.sources.tasks import TaskRunner, keep

_GRACE_SECONDS = 0.02


async def await_call(prepare: Callable[[Ring, TaskRunner], Call]) -> Call:
    """Start the call that `prepare` makes and await its end; cancelled, leave no task behind.

    Notes
    -----
    Coroutines that were given up are cancelled and awaited, for 20 ms at most: one that refuses to be cancelled
    would otherwise hold the caller beyond its deadline.
    """
    loop = asyncio.get_running_loop()
    runner = TaskRunner(loop)
    bell = _Bell(loop)
    call = prepare(bell.ring, runner)
    try:
        call.start()
        while not call.finished:
            if not await bell.rung(call.seconds_left):
                call.advance()
    finally:
        call.close()
        left = [task for task in runner.tasks if not task.done()]
        if left:
            _, stubborn = await asyncio.wait(left, timeout=_GRACE_SECONDS)
            for task in stubborn:
                keep(task)
    return call


class _Bell:
    """What a coroutine waits for and any thread may ring."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._future: asyncio.Future[bool] = loop.create_future()

    def ring(self) -> None:
        """Wake the waiter."""
        if threading.get_ident() == self._thread:
            self._end(True)
        else:
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(self._end, True)

    async def rung(self, seconds: float | None) -> bool:
        """Whether it was rung within `seconds`."""
        if self._future.done():
            self._future = self._loop.create_future()
        timer = None if seconds is None else self._loop.call_later(seconds, self._end, False)
        try:
            return await self._future
        finally:
            if timer is not None:
                timer.cancel()

    def _end(self, rung: bool) -> None:
        if not self._future.done():
            self._future.set_result(rung)
