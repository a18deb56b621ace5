"""The state of one call that asks several sources, and the asyncio tasks of these searches."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from phasegraph._support.clock import DEADLINE, FOREVER, Clock, Deadline
from phasegraph.errors import PhasegraphError, too_late
from phasegraph.ranking import Ranking
from phasegraph.reports import Status, found_in
from phasegraph.sources.protocol import is_fatal, one_line, reason_of
from phasegraph.sources.source_task import SourceTask
from phasegraph.sources.workers import metered, own_loop, pool, watch_own_loop

Outcome: TypeAlias = Ranking | BaseException

_LATE_SECONDS = 0.002

_GRACE_SECONDS = 0.005


class GatherState:
    """The state of one call: a :class:`SourceTask` for each source, in name order.

    A task is settled when its outcome is recorded, which any thread may do. ``wake()`` is called when the call has
    finished. `runner` runs tasks on the caller's event loop; it is None for a synchronous call.
    """

    def __init__(
        self,
        query: str,
        tasks: Sequence[SourceTask],
        timeout: float | None,
        clock: Clock,
        wake: Callable[[], None],
        runner: TaskRunner | None,
    ) -> None:
        self.query = query
        self.tasks = tasks
        self.finished = False
        self.fatal: BaseException | None = None
        self._by_name: Mapping[str, SourceTask] = {task.name: task for task in tasks}
        self._clock = clock
        self._wake = wake
        self._runner = runner
        self._lock = threading.Lock()
        self._open = len(tasks)
        self._excused = 0.0
        self._started = clock.now()
        self._due = FOREVER if timeout is None else self._started + timeout
        self._half_due = FOREVER if timeout is None else self._started + timeout / 2.0

    def start(self) -> None:
        """Start every source that depends on no other source of the call."""
        for task in self.tasks:
            if all(map(self._is_settled, task.settings.depends_on)):
                self._launch(task)

    def run(self, task: SourceTask) -> Outcome:
        """Run the search of `task` on this thread, and return its ranking or its error."""
        try:
            call = (asyncio.run, task.asearch(self.query)) if task.mode == "drive" else (task.search, self.query)
            found: Outcome = task.context.run(metered, *call)
            return found
        except BaseException as error:  # noqa: BLE001 - the caller gets every error
            return error
        finally:
            task.end()

    async def attend(self, task: SourceTask) -> None:
        """Await the search of `task`, and record its outcome, which is a ranking or an error."""
        outcome: Outcome
        task.begun = True
        try:
            outcome = await task.asearch(self.query)
        except BaseException as error:  # noqa: BLE001 - the caller gets every error
            outcome = error
        task.end()
        self.settle(task, outcome)

    def settle(self, task: SourceTask, outcome: Outcome) -> None:
        """Record the outcome of a task; a second outcome is ignored.

        A trial that succeeds after its deadline is reported to the circuit breaker. This method never raises an error,
        because an error would make the call wait for the source until its deadline.
        """
        try:
            self._take(task, outcome)
        except BaseException as error:  # noqa: BLE001 - an answer or an error of the source may run its own code
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
    def due(self) -> float:
        """The next time, on the clock of the call, at which :meth:`advance` has something to do."""
        due = self._due
        for task in self.tasks:
            if not task.settled:
                due = min(due, task.due if task.launched else self._half_due)
        return max(due, self._excused)

    def advance(self) -> None:
        """Give up late sources; after half of the timeout, start the sources that still wait for other sources."""
        now = self._clock.now()
        for task in self.tasks:
            if task.settled:
                continue
            due = min(self._due, task.due)
            if now >= max(due, self._excused):
                if not self._excused and now - due >= _LATE_SECONDS:
                    # This thread itself is late (a busy processor or a blocked event loop), so answers may be ready but
                    # not yet recorded. Once per call, wait a moment before giving up any source.
                    self._excused = now + _GRACE_SECONDS
                    return
                if task.queued:
                    self._skip(task, "earlier searches were still running")
                    continue
                self._settle(task, "timeout", "no answer in time", None, too_late(task.name))
            elif not task.launched and now >= self._half_due:
                self._launch(task)

    def close(self) -> None:
        """Give up the tasks that have no outcome; a later outcome has no effect."""
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
        """Drop the errors and asyncio tasks of the call, because their stack frames and this object form a cycle."""
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
            task.due = self._clock.now() + task.settings.timeout
        task.context.run(DEADLINE.set, Deadline(self._clock, min(self._due, task.due)))
        self._enter(task)

    def _enter(self, task: SourceTask, *, first: bool = False) -> None:
        """Begin the search of `task`, or make it wait until another search of the same source has ended.

        `first` is True if the task was at the head of the queue. If it must wait again, it returns to the head.
        """
        if task.settled:
            return
        task.queued = True
        again = partial(self._enter, task, first=True)
        refused, probe = task.state.enter(task, again, now=self._clock.now(), first=first)
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
        except BaseException as error:  # noqa: BLE001 - recorded as the source's error, or ends the call
            task.end()
            self.settle(task, error)

    def _skip(self, task: SourceTask, reason: str) -> None:
        self._settle(task, "skipped", reason, None, PhasegraphError(f"source {task.name!r} was skipped: {reason}"))

    def _settle(
        self, task: SourceTask, status: Status, reason: str, ranking: Ranking | None, error: BaseException | None
    ) -> None:
        now = self._clock.now()
        with self._lock:
            if task.settled or self.finished:
                return
            task.milliseconds = (now - self._started) * 1000.0
            task.status, task.reason, task.ranking, task.error = status, reason, ranking, error
            task.hits = 0 if ranking is None else len(ranking)
            task.settled = True
            self._open -= 1
            if error is not None and task.settings.on_error == "raise":
                self.fatal = error
            over = self.finished = self._open == 0 or self.fatal is not None
        if (task.queued or task.waited) and status in ("skipped", "timeout"):  # waiting is not a failure of the source
            task.state.withdraw(task)
            task.state.give_back(probe=task.probe)
            task.state.was_busy()
        elif task.admitted:
            task.state.record(status, reason, error, now=now, probe=task.probe)
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
    """Store a reference to a task until the task is done, because an event loop has only a weak reference to it."""
    _kept.add(task)
    task.add_done_callback(_kept.discard)


def _call_on(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: object) -> None:
    """Call a function on the thread of `loop`; raise RuntimeError if the loop is closed."""
    try:
        is_here = asyncio.get_running_loop() is loop
    except RuntimeError:
        is_here = False
    if is_here:
        function(*arguments)
    else:
        loop.call_soon_threadsafe(function, *arguments)


class TaskRunner:
    """A runner of searches as tasks of one event loop; thread-safe. ``keep(task)`` stores a reference to a task."""

    def __init__(self, loop: asyncio.AbstractEventLoop, keep: Callable[[asyncio.Task[None]], None]) -> None:
        self.loop = loop
        self._keep = keep

    def start(self, state: GatherState, source_task: SourceTask) -> None:
        """Start the search of a source as a task; raise RuntimeError if the loop is closed."""
        _call_on(self.loop, self._start, state, source_task)

    def _start(self, state: GatherState, source_task: SourceTask) -> None:
        if source_task.settled:
            source_task.end()
            return
        name = f"source {source_task.name!r}"
        task = self.loop.create_task(state.attend(source_task), name=name, context=source_task.context)
        self._keep(task)
        source_task.cancel = partial(self._cancel, source_task, task)
        if source_task.settled:
            source_task.cancel()

    def _cancel(self, source_task: SourceTask, task: asyncio.Task[None]) -> None:
        with suppress(RuntimeError):  # the loop is closed, so its tasks no longer exist
            _call_on(self.loop, self._cancel_here, source_task, task)

    def _cancel_here(self, source_task: SourceTask, task: asyncio.Task[None]) -> None:
        task.cancel()
        if not source_task.begun:
            source_task.end()  # a task that is canceled before its first step never calls end() itself


class Wakeup:
    """An event that a coroutine waits for, and that any thread may set."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._future: asyncio.Future[bool] = loop.create_future()

    def set(self) -> None:
        """Set the event, and wake the waiting coroutine."""
        with suppress(RuntimeError):  # the loop is closed, so no coroutine waits
            _call_on(self._loop, self._end, True)

    async def wait(self, until: float) -> bool:
        """Wait for the event; return True if it was set before the time `until`, else False."""
        if self._future.done():
            self._future = self._loop.create_future()
        timer = None if until == FOREVER else self._clock.call_at(self._loop, until, self._end, False)
        try:
            return await self._future
        finally:
            if timer is not None:
                timer.cancel()

    def _end(self, is_set: bool) -> None:
        if not self._future.done():
            self._future.set_result(is_set)
