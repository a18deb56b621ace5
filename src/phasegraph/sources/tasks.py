"""Coroutines of sources, on the caller's event loop or on our own."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from functools import partial

from phasegraph.candidates import Ranking
from phasegraph.sources.answers import MalformedAnswerError
from phasegraph.sources.call import Call, Outcome
from phasegraph.sources.slot import Slot
from phasegraph.sources.workers import own_loop

_kept: set[asyncio.Task[None]] = set()


class TaskRunner:
    """Runs slots as tasks of one loop; safe to call from any thread.

    Parameters
    ----------
    loop : asyncio.AbstractEventLoop
        A running loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.tasks: list[asyncio.Task[None]] = []

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
        self._remember(task)
        slot.cancel = partial(self._cancel, slot, task)
        if slot.settled:
            slot.cancel()

    def _remember(self, task: asyncio.Task[None]) -> None:
        self.tasks.append(task)

    def _cancel(self, slot: Slot, task: asyncio.Task[None]) -> None:
        if not _is_running_here(self.loop):
            with suppress(RuntimeError):  # the loop is closed and its tasks are gone
                self.loop.call_soon_threadsafe(self._cancel, slot, task)
            return
        task.cancel()
        if not slot.begun:
            slot.leave()  # a task that is cancelled before its first step never runs its own


class OwnTasks(TaskRunner):
    """Runs slots on the event loop of our own thread."""

    def __init__(self) -> None:
        super().__init__(own_loop())

    def _remember(self, task: asyncio.Task[None]) -> None:
        keep(task)


def keep(task: asyncio.Task[None]) -> None:
    """Hold on to a task until it is done: an event loop does not."""
    _kept.add(task)
    task.add_done_callback(_kept.discard)


async def attend(call: Call, slot: Slot) -> None:
    """Await the source and settle its slot; a slot that was given up no longer listens."""
    outcome: Outcome
    slot.begun = True
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
