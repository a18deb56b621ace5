"""The state of one call to several sources, and the event loop's side of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from types import MappingProxyType
from typing import TypeAlias

from phasegraph._support.shared import DUE
from phasegraph.errors import PhasegraphError, too_late
from phasegraph.ranking import Ranking
from phasegraph.reports import Status, found_in
from phasegraph.sources.protocol import is_fatal, one_line, reason_of
from phasegraph.sources.source_task import FOREVER, SourceTask
from phasegraph.sources.workers import own_loop, pool, watch_own_loop

Outcome: TypeAlias = Ranking | BaseException

_LATE_SECONDS = 0.002

_GRACE_SECONDS = 0.005


class GatherState:
    """The state of one call. Its tasks, in name order, settle from any thread; `wake` is called when it has finished.

    `runner` is that of the caller's event loop, where there is one.
    """

    def __init__(
        self,
        query: str,
        tasks: Sequence[SourceTask],
        timeout: float | None,
        wake: Callable[[], None],
        runner: TaskRunner | None,
    ) -> None:
        self.query = query
        self.tasks = tasks
        self.finished = False
        self.fatal: BaseException | None = None
        self._by_name: Mapping[str, SourceTask] = {task.name: task for task in tasks}
        self._wake = wake
        self._runner = runner
        self._lock = threading.Lock()
        self._open = len(tasks)
        self._excused = 0.0
        self._started = monotonic()
        self._due = FOREVER if timeout is None else self._started + timeout
        self._half_due = FOREVER if timeout is None else self._started + timeout / 2.0

    def start(self) -> None:
        """Launch every source that waits for no other."""
        for task in self.tasks:
            if all(map(self._is_settled, task.settings.depends_on)):
                self._launch(task)

    def run(self, task: SourceTask) -> Outcome:
        """Run the search to its end on this thread; what it raises is the outcome."""
        try:
            if task.mode == "drive":
                return task.context.run(asyncio.run, task.asearch(self.query))
            return task.context.run(task.search, self.query)
        except BaseException as error:  # noqa: BLE001 - the caller gets it, whatever it is
            return error
        finally:
            task.end()

    async def attend(self, task: SourceTask) -> None:
        """Await the search and settle its task."""
        outcome: Outcome
        task.begun = True
        try:
            outcome = await task.asearch(self.query)
        except BaseException as error:  # noqa: BLE001 - the caller gets it, whatever it is
            outcome = error
        task.end()
        self.settle(task, outcome)

    def settle(self, task: SourceTask, outcome: Outcome) -> None:
        """Take a task's outcome, once; of a later one only the breaker hears, if it is a trial that ended well.

        It never raises: nobody waits for a source whose outcome was not taken.
        """
        try:
            self._take(task, outcome)
        except BaseException as error:  # noqa: BLE001 - code of the source's own, in an answer or an error
            self._settle(task, "error", type(error).__name__, None, error)
            self._wake()

    def _take(self, task: SourceTask, outcome: Outcome) -> None:
        if task.probe and task.status == "timeout" and isinstance(outcome, Ranking):
            task.state.succeeded_late()
        elif isinstance(outcome, Ranking):
            status, reason = found_in(outcome)
            self._settle(task, status, one_line(reason) if reason else "", outcome, None)
        elif not is_fatal(outcome):
            self._settle(task, "error", reason_of(outcome), None, outcome)
        else:
            with self._lock:
                if task.settled or self.finished:
                    return
                self.fatal = outcome
                self.finished = True
            self._wake()

    @property
    def seconds_left(self) -> float | None:
        """Seconds until something is due; None = nothing ever is."""
        due = self._due
        for task in self.tasks:
            if not task.settled:
                due = min(due, task.due if task.launched else self._half_due)
        return None if due == FOREVER else max(0.0, max(due, self._excused) - monotonic())

    def advance(self) -> None:
        """Do what is due: launch sources that have waited for half of the timeout, give up those that are late."""
        now = monotonic()
        for task in self.tasks:
            if task.settled:
                continue
            due = min(self._due, task.due)
            if now >= max(due, self._excused):
                if not self._excused and now - due >= _LATE_SECONDS:
                    # We are late ourselves (no processor, or a blocked event loop): answers may be ready that nobody
                    # had time to take. Once per call, nobody is given up for a moment.
                    self._excused = now + _GRACE_SECONDS
                    return
                if task.queued:
                    self._skip(task, "busy")
                    continue
                self._settle(task, "timeout", "no answer in time", None, too_late(task.name))
            elif not task.launched and now >= self._half_due:
                self._launch(task)

    def close(self) -> None:
        """Give up the tasks that have not settled; what they do later changes nothing."""
        with self._lock:
            self.finished = True
            left = [task for task in self.tasks if not task.settled]
            for task in left:
                task.settled = task.launched = True
        for task in left:
            task.state.give_back(probe=task.probe)
            task.state.withdraw(task)
            task.give_up()

    def forget(self) -> None:
        """Drop errors and asyncio tasks: their frames hold this object, a cycle only the collector would free."""
        self.fatal = None
        for task in self.tasks:
            task.error = task.cancel = None

    def _is_settled(self, name: str) -> bool:
        task = self._by_name.get(name)
        return task is None or task.settled

    def _launch(self, task: SourceTask) -> None:
        with self._lock:
            if task.launched or task.settled:
                return
            task.launched = True
        if task.settings.timeout is not None:
            task.due = monotonic() + task.settings.timeout
        task.context.run(DUE.set, min(self._due, task.due))
        self._enter(task)

    def _enter(self, task: SourceTask, *, first: bool = False) -> None:
        """Begin the search, or wait until another one of the source has ended; `first` = it has waited longest."""
        if task.settled:
            return
        task.queued = True
        refused, probe = task.state.enter(task, partial(self._enter, task, first=True), first=first)
        if refused is None:
            task.waited = True
            return
        if refused:
            task.queued = False
            self._skip(task, refused)
            return
        with self._lock:
            gone = task.settled
            task.queued = False
            task.admitted, task.probe = not gone, probe and not gone
        if gone:
            task.end()
            task.state.give_back(probe=probe)
            return
        if task.settings.depends_on:
            needs = {name: self._by_name.get(name) for name in task.settings.depends_on}
            upstream = {name: need.ranking if need is not None and need.hits else None for name, need in needs.items()}
            task.upstream = MappingProxyType(upstream)
            task.missing = tuple(name for name in upstream if upstream[name] is None)
        try:
            if task.mode == "task":
                (self._runner or TaskRunner(own_loop(task.state.noticed), keep)).start(self, task)
                if self._runner is None:
                    watch_own_loop()
            else:
                pool().submit(self.run, self.settle, task)
        except BaseException as error:  # noqa: BLE001 - settled as the source's error, or passed through
            task.end()
            self.settle(task, error)

    def _skip(self, task: SourceTask, reason: str) -> None:
        self._settle(task, "skipped", reason, None, PhasegraphError(f"source {task.name!r} was not asked: {reason}"))

    def _settle(
        self, task: SourceTask, status: Status, reason: str, ranking: Ranking | None, error: BaseException | None
    ) -> None:
        with self._lock:
            if task.settled or self.finished:
                return
            task.milliseconds = (monotonic() - self._started) * 1000.0
            task.status, task.reason, task.ranking, task.error = status, reason, ranking, error
            task.hits = 0 if ranking is None else len(ranking)
            task.settled = True
            self._open -= 1
            if error is not None and task.settings.on_error == "raise":
                self.fatal = error
            over = self.finished = self._open == 0 or self.fatal is not None
        if (task.queued or task.waited) and status in ("skipped", "timeout"):  # no fault of the source
            task.state.withdraw(task)
            task.state.give_back(probe=task.probe)
            task.state.was_busy()
        elif task.admitted:
            task.state.record(status, reason, error, probe=task.probe)
        if status == "timeout":
            task.give_up()
        if over:
            self._wake()
            return
        for other in self.tasks:
            if task.name in other.settings.depends_on and all(map(self._is_settled, other.settings.depends_on)):
                self._launch(other)
                if other.settings.timeout is not None:
                    self._wake()


_kept: set[asyncio.Task[None]] = set()


def keep(task: asyncio.Task[None]) -> None:
    """Hold on to a task until it is done: an event loop does not."""
    _kept.add(task)
    task.add_done_callback(_kept.discard)


def _call_on(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: object) -> None:
    """Call it on the thread of `loop`; RuntimeError if that is closed."""
    try:
        is_here = asyncio.get_running_loop() is loop
    except RuntimeError:
        is_here = False
    if is_here:
        function(*arguments)
    else:
        loop.call_soon_threadsafe(function, *arguments)


class TaskRunner:
    """Runs searches as tasks of one event loop; thread-safe. `keep` takes each asyncio task."""

    def __init__(self, loop: asyncio.AbstractEventLoop, keep: Callable[[asyncio.Task[None]], None]) -> None:
        self._loop = loop
        self._keep = keep

    def start(self, state: GatherState, source_task: SourceTask) -> None:
        """Begin the search; RuntimeError if the loop is closed."""
        _call_on(self._loop, self._start, state, source_task)

    def _start(self, state: GatherState, source_task: SourceTask) -> None:
        if source_task.settled:
            source_task.end()
            return
        name = f"source {source_task.name!r}"
        task = self._loop.create_task(state.attend(source_task), name=name, context=source_task.context)
        self._keep(task)
        source_task.cancel = partial(self._cancel, source_task, task)
        if source_task.settled:
            source_task.cancel()

    def _cancel(self, source_task: SourceTask, task: asyncio.Task[None]) -> None:
        with suppress(RuntimeError):  # the loop is closed and its tasks are gone
            _call_on(self._loop, self._cancel_here, source_task, task)

    def _cancel_here(self, source_task: SourceTask, task: asyncio.Task[None]) -> None:
        task.cancel()
        if not source_task.begun:
            source_task.end()  # a task that is cancelled before its first step never runs its own


class Wakeup:
    """An event that a coroutine waits for and any thread may set."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[bool] = loop.create_future()

    def set(self) -> None:
        """Wake the waiter."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            _call_on(self._loop, self._end, True)

    async def wait(self, seconds: float | None) -> bool:
        """Whether it was set within `seconds`."""
        if self._future.done():
            self._future = self._loop.create_future()
        timer = None if seconds is None else self._loop.call_later(seconds, self._end, False)
        try:
            return await self._future
        finally:
            if timer is not None:
                timer.cancel()

    def _end(self, is_set: bool) -> None:
        if not self._future.done():
            self._future.set_result(is_set)
