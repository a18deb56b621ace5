"""Daemon threads that later calls reuse, and an event loop in a daemon thread.

A thread pool of the standard library joins its threads when the interpreter ends, so a hanging search would keep the
process alive. The threads of this module are daemons. Every job gets a thread at once; no search waits for another
search.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic, thread_time
from typing import Any, TypeAlias, TypeVar

from phasegraph._support.clock import DEADLINE, Deadline
from phasegraph._support.shared import OVER, go_on

Job: TypeAlias = tuple[Callable[[Any], Any], Callable[[Any, Any], None], Any]
_logger = logging.getLogger("phasegraph")
_IDLE_SECONDS = 30.0
_BLOCKED_SECONDS, _MOMENT_SECONDS, _ANSWER_SECONDS = 1.0, 0.05, 0.01
_MOST_IDLE = 64
_GLANCE_SECONDS = 0.2
"""Maximum time in seconds for which the main thread waits without handling an interrupt (Ctrl-C)."""
Item = TypeVar("Item")
Made = TypeVar("Made")


class WorkerPool:
    """A pool of daemon threads that starts every job at once; a new thread is created if no thread is idle.

    Notes
    -----
    All threads read the same queue. A thread that has finished a job takes the next job without a wake-up, which makes
    short jobs cheap. A thread ends after 30 idle seconds, or if more than 64 threads are idle.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._outstanding = 0

    @property
    def threads(self) -> int:
        """The number of living threads."""
        return self._threads

    @property
    def outstanding(self) -> int:
        """The number of queued and running jobs."""
        return self._outstanding

    def submit(self, run: Callable[[Any], Any], then: Callable[[Any, Any], None], argument: object) -> None:
        """Call ``then(argument, run(argument))`` on a worker thread; an error of either function is logged.

        Raise RuntimeError if the job needs a new thread and the system cannot create it. The job is then not run.
        """
        with self._lock:
            self._outstanding += 1
            short = self._outstanding > self._threads
            if short:
                self._threads += 1
        if short:
            try:
                threading.Thread(target=self._work, name="phasegraph-worker", daemon=True).start()
            except BaseException:
                with self._lock:
                    self._outstanding -= 1
                    self._threads -= 1
                raise
        self._jobs.put((run, then, argument))

    def _work(self) -> None:
        while True:
            try:
                run, then, argument = self._jobs.get(timeout=_IDLE_SECONDS)
            except Empty:
                if self._leave(0):
                    return
                continue
            try:
                then(argument, run(argument))
            except BaseException:  # an error of a job must not end the thread
                _logger.exception("a job of a worker thread raised an error, and its result is lost")
            del run, then, argument  # freeing their objects may take time, while the thread still counts as busy
            with self._lock:
                self._outstanding -= 1
            if self._threads - self._outstanding > _MOST_IDLE and self._leave(_MOST_IDLE):
                return

    def _leave(self, spare: int) -> bool:
        """Return True, and subtract this thread from the number of threads, if more than `spare` threads are idle."""
        with self._lock:
            if self._threads - self._outstanding <= spare:
                return False
            self._threads -= 1
            return True


def as_they_come(
    make: Callable[[Item], Made], items: Iterable[Item], workers: int, enough: Callable[[], bool] = lambda: False
) -> Iterator[tuple[Item, Made]]:
    """Yield pairs ``(item, make(item))`` in the order in which the calls end, with at most `workers` calls at once.

    An error of ``make`` is raised, and no further call is started. After ``enough()`` has returned True, no further
    call is started, and the results of the running calls are still yielded.
    """
    answers: SimpleQueue[tuple[Item, Any]] = SimpleQueue()
    jobs, waiting, stopped, under_way = WorkerPool(), list(items)[::-1], threading.Event(), 0

    def work(item: Any) -> Any:
        try:
            return None if stopped.is_set() else make(item)
        except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
            return _Raised(error)

    try:
        while waiting or under_way:
            while waiting and under_way < workers and not enough():
                jobs.submit(work, lambda item, made: answers.put((item, made)), waiting.pop())
                under_way += 1
            if not under_way:
                return
            try:
                item, made = answers.get(timeout=_GLANCE_SECONDS)
            except Empty:
                continue
            under_way -= 1
            if isinstance(made, _Raised):
                raise made.error
            yield item, made
    finally:
        stopped.set()


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


class OwnLoop:
    """An event loop in a daemon thread; it survives errors of its tasks, and detects a task that blocks it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._retired = False
        self._asked: float | None = None
        self._unanswered = 0
        self._answered = threading.Event()
        threading.Thread(target=self._run, name="phasegraph-loop", daemon=True).start()

    def _run(self) -> None:
        while not self._retired:
            try:
                self.loop.run_forever()
            except BaseException:  # SystemExit or KeyboardInterrupt in a task stops the loop for all tasks
                _logger.debug("a task stopped the event loop of sources; the loop is started again", exc_info=True)
        self.loop.close()

    def ask(self) -> None:
        """Schedule a test callback on the loop; :meth:`is_blocked` checks whether the loop has run the callback."""
        self._unanswered += 1
        if self._asked is None:
            self._asked = monotonic()
        self.loop.call_soon_threadsafe(self.loop.call_later, _ANSWER_SECONDS, self._answer)

    def _answer(self) -> None:
        self._answered.set()  # before taking the lock, because a thread that waits for this event holds the lock
        with _process.lock:
            self._unanswered -= 1
            self._asked = monotonic() if self._unanswered else None

    def is_blocked(self) -> bool:
        """Return True if the loop has not run a callback that was scheduled at least a second ago."""
        if self._asked is None or monotonic() - self._asked < _BLOCKED_SECONDS:
            return False
        self._answered.clear()
        return not self._answered.wait(_MOMENT_SECONDS)  # a last chance, in case the whole machine was suspended

    def retire(self) -> str:
        """Stop the loop as soon as its tasks have ended, and return the name of the task that now blocks it.

        The result is "a task" if no task is running.
        """
        task = asyncio.current_task(self.loop)
        self.loop.call_soon_threadsafe(self._end)
        return "a task" if task is None else task.get_name()

    def _end(self) -> None:
        if asyncio.all_tasks(self.loop):
            self.loop.call_later(_MOMENT_SECONDS, self._end)
        else:
            self._retired = True
            self.loop.stop()


class _Process:
    """The worker threads and the event loop of this process; a forked child gets new threads and a new loop."""

    def __init__(self) -> None:
        self.pool = WorkerPool()
        self.lock = threading.Lock()
        self.turn = threading.Lock()
        self.loop: OwnLoop | None = None


_process = _Process()


def _renew() -> None:
    global _process
    _process = _Process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def pool() -> WorkerPool:
    """Return the worker threads of this process."""
    return _process.pool


@contextmanager
def turn() -> Iterator[None]:
    """Run the ``with`` block in one thread at a time, for computations that hold the interpreter's lock.

    Such computations are slower if they run in several threads at once. Raise TimeoutError if the call has given up
    the search before the block can start.
    """
    with _process.turn:
        go_on()
        yield


def own_loop(replaced: Callable[[str], object] = str) -> asyncio.AbstractEventLoop:
    """Return the event loop in the daemon thread, which runs ``asearch`` for synchronous callers.

    The loop is created at the first call. If a coroutine blocks the loop, a new loop replaces it, and
    ``replaced(message)`` is called.
    """
    process = _process
    with process.lock:
        if process.loop is not None and process.loop.is_blocked():
            replaced(
                f"{process.loop.retire()} blocks the event loop that sources share, so a new event loop replaces it: "
                "other searches on the blocked loop may be late. Await inside the coroutine, or give its source "
                "Execution(in_thread=True)"
            )
            process.loop = None
        if process.loop is None:
            process.loop = OwnLoop()
        return process.loop.loop


def watch_own_loop() -> None:
    """Start to check that no task blocks the event loop in the daemon thread; call this after adding a task."""
    process = _process
    with process.lock:
        if process.loop is not None:
            process.loop.ask()


Answered = TypeVar("Answered")
LEAST_SECONDS = 0.02
"""Minimum time in seconds that a step gets, even after the deadline; a late source does not prevent a quick step."""


class Late(TimeoutError):  # noqa: N818 - a missed deadline is an expected outcome, not an error
    """The exception for a step that missed the deadline of its call."""


def _until(deadline: Deadline) -> float:
    """Return the time at which a step is late: at the deadline, but at least .02 seconds from now."""
    return max(deadline.due, deadline.clock.now() + LEAST_SECONDS)


def within(function: Callable[[], Answered], deadline: Deadline) -> Answered:
    """Run a function on a worker thread, and return its value; raise Late at the deadline, and ignore a later value."""
    answered: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
    context, over = copy_context(), list[bool]()
    context.run(OVER.set, over)
    until = _until(deadline)
    pool().submit(
        lambda given: context.run(metered, outcome_of, given), lambda _, outcome: answered.put(outcome), function
    )
    try:
        value, error = deadline.clock.get(answered, until)
    except Empty:
        over.append(True)
        raise Late from None
    if error is not None:
        raise error
    found: Answered = value
    return found


async def awithin(function: Callable[[], Answered], deadline: Deadline) -> Answered:
    """Run a function as :func:`within` does, without blocking the event loop."""
    over = list[bool]()

    def step() -> Answered:
        OVER.set(over)
        return function()

    try:
        value, error = await deadline.clock.wait_for(in_thread(outcome_of, step), _until(deadline))
    except TimeoutError:
        raise Late from None
    finally:
        over.append(True)
    if error is not None:
        raise error
    found: Answered = value
    return found


SPENT: ContextVar[list[float] | None] = ContextVar("phasegraph_spent", default=None)
"""A list that gets the processor seconds of each job that worker threads run for the current request; None: no list."""


def metered(function: Callable[..., Answered], *given: object) -> Answered:
    """Call a function, and return its value; append its processor seconds to :data:`SPENT`, if this is a list."""
    spent = SPENT.get()
    if spent is None:
        return function(*given)
    begun = thread_time()
    try:
        return function(*given)
    finally:
        spent.append(thread_time() - begun)


def outcome_of(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Call a function, and return (value, None), or (None, error) if the function raises an error."""
    try:
        return function(), None
    except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
        return None, error


async def in_thread(function: Callable[[Any], Any], argument: object) -> Any:
    """Call a function on a worker thread, and return its value; if the caller is canceled, the value is ignored."""
    loop, context = asyncio.get_running_loop(), copy_context()
    future: asyncio.Future[Any] = loop.create_future()

    def then(_: object, outcome: tuple[Any, BaseException | None]) -> None:
        with suppress(RuntimeError):  # the loop is closed, so no coroutine waits
            loop.call_soon_threadsafe(_settle, future, outcome)

    pool().submit(lambda given: context.run(metered, outcome_of, given), then, partial(function, argument))
    return await future


CALLER_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("phasegraph_caller_loop", default=None)
"""The event loop on which the call of a source awaits; None in a synchronous call."""


def caller_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of the asynchronous call for which this thread works.

    Return None in a synchronous call, and on the thread of an event loop, which must not wait for a coroutine.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return CALLER_LOOP.get()
    return None


def await_on(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Answered]) -> Answered:
    """Run a coroutine on the event loop of another thread, and return its value.

    At the deadline of the running search, cancel the coroutine, and raise TimeoutError. If the loop is closed, raise
    RuntimeError.
    """
    try:
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:
        coroutine.close()  # otherwise, Python warns of a coroutine that was never awaited
        raise
    try:
        return future.result(DEADLINE.get().left())
    finally:
        future.cancel()


def _settle(future: asyncio.Future[Any], outcome: tuple[Any, BaseException | None]) -> None:
    if future.done():
        return
    value, error = outcome
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
