"""Coroutines of sources, on the caller's event loop or on our own."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress

from phasegraph.candidates import Ranking
from phasegraph.sources.answers import MalformedAnswerError
from phasegraph.sources.call import Call, Outcome, Slot


class TaskRunner:
    """Runs slots as tasks of one loop; safe to call from any thread.

    Parameters
    ----------
    loop : asyncio.AbstractEventLoop
        A running loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.tasks: set[asyncio.Task[None]] = set()

    def start(self, call: Call, slot: Slot) -> None:
        """Begin the slot's coroutine.

        Raises
        ------
        RuntimeError
            If the loop is closed.
        """
        if _is_running_here(self.loop):
            self._start(call, slot)
        else:
            self.loop.call_soon_threadsafe(self._start, call, slot)

    def _start(self, call: Call, slot: Slot) -> None:
        if slot.settled:
            slot.leave()
            return
        task = self.loop.create_task(attend(call, slot), context=slot.context)
        self.tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self.tasks.discard(task)
            slot.leave()  # a task that is cancelled before its first step never runs its own

        task.add_done_callback(done)

        def cancel() -> None:
            if _is_running_here(self.loop):
                task.cancel()
            else:
                with suppress(RuntimeError):  # the loop is closed and its tasks are gone
                    self.loop.call_soon_threadsafe(task.cancel)

        slot.cancel = cancel
        if slot.settled:
            task.cancel()


async def attend(call: Call, slot: Slot) -> None:
    """Await the source and settle its slot; a slot that was given up no longer listens."""
    outcome: Outcome
    try:
        outcome = await _ranking(call, slot)
    except BaseException as error:  # noqa: BLE001 - the caller gets it, whatever it is
        outcome = error
    slot.leave()
    call.settle(slot, outcome)


def run_to_end(call: Call, slot: Slot) -> Outcome:
    """Drive the source's coroutine on a loop of its own, on this thread."""
    try:
        return slot.context.run(asyncio.run, _ranking(call, slot))
    except BaseException as error:  # noqa: BLE001 - the caller gets it, whatever it is
        return error
    finally:
        slot.leave()


async def _ranking(call: Call, slot: Slot) -> Ranking:
    pending = call.answer(slot)
    if not inspect.isawaitable(pending):
        raise MalformedAnswerError(f"malformed: asearch must return an awaitable; got {type(pending).__name__}")
    return slot.ranking_from(await pending)


def _is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
