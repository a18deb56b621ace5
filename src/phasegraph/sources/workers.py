"""Daemon threads, kept between calls, and one event loop in a daemon thread.

A thread pool of the standard library joins its threads when the interpreter ends: a search that hangs would
keep the process alive. These threads are daemons, and there are always at least as many as there are jobs, so
that no search waits behind another.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, TypeAlias, TypeVar

from phasegraph._support.shared import OVER, go_on

Job: TypeAlias = tuple[Callable[[Any], Any], Callable[[Any, Any], None], Any]
_logger = logging.getLogger("phasegraph")
_IDLE_SECONDS = 30.0
_BLOCKED_SECONDS, _MOMENT_SECONDS = 1.0, 0.05
_MOST_IDLE = 64
_GLANCE_SECONDS = 0.2
"""Between looks for an interrupt."""
Item = TypeVar("Item")
Made = TypeVar("Made")


class WorkerPool:
    """Threads that run every job at once.

    Notes
    -----
    All threads read one queue: a thread that has finished takes the next job without a wake-up, which makes
    short jobs cheap. A thread ends after 30 idle seconds, or when more than 64 are idle.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._outstanding = 0

    @property
    def threads(self) -> int:
        """How many threads are alive."""
        return self._threads

    @property
    def outstanding(self) -> int:
        """How many jobs are queued or running."""
        return self._outstanding

    def submit(self, run: Callable[[Any], Any], then: Callable[[Any, Any], None], argument: object) -> None:
        """Call ``then(argument, run(argument))`` on a worker; what either raises is logged.

        RuntimeError if a new thread is needed and the system gives none; the job is then not run.
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
            except BaseException:  # the thread goes on, whatever a job does
                _logger.exception("a job of a worker raised, and its answer is lost")
            del run, then, argument  # what they hold may take its time to go; until then the thread is busy
            with self._lock:
                self._outstanding -= 1
            if self._threads - self._outstanding > _MOST_IDLE and self._leave(_MOST_IDLE):
                return

    def _leave(self, spare: int) -> bool:
        """Count this thread out, unless fewer than `spare` would be left idle."""
        with self._lock:
            if self._threads - self._outstanding <= spare:
                return False
            self._threads -= 1
            return True


def as_they_come(
    make: Callable[[Item], Made], items: Iterable[Item], workers: int, enough: Callable[[], bool] = lambda: False
) -> Iterator[tuple[Item, Made]]:
    """Each item with what is made of it, at most `workers` under way; an error is raised, and nothing begun after it.

    Once there is `enough`, no more are begun, and those under way still come.
    """
    answers: SimpleQueue[tuple[Item, Any]] = SimpleQueue()
    jobs, waiting, stopped, under_way = WorkerPool(), list(items)[::-1], threading.Event(), 0

    def work(item: Any) -> Any:
        try:
            return None if stopped.is_set() else make(item)
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread, which raises it
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
    """An event loop in a daemon thread, which goes on whatever its tasks raise, and knows whether one blocks it."""

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
            except BaseException:  # a task that raises SystemExit or KeyboardInterrupt ends the loop, and all others
                _logger.debug("a task ended the event loop of sources, which goes on", exc_info=True)
        self.loop.close()

    def ask(self) -> None:
        """Have it show that it goes on, once what it was given before has begun."""
        self._unanswered += 1
        if self._asked is None:
            self._asked = monotonic()
        self.loop.call_soon_threadsafe(self.loop.call_later, _MOMENT_SECONDS / 5, self._answer)

    def _answer(self) -> None:
        self._answered.set()  # first: whoever waits for it holds the lock
        with _process.lock:
            self._unanswered -= 1
            self._asked = monotonic() if self._unanswered else None

    def is_blocked(self) -> bool:
        """Whether it was asked a second ago, and has not answered since."""
        if self._asked is None or monotonic() - self._asked < _BLOCKED_SECONDS:
            return False
        self._answered.clear()
        return not self._answered.wait(_MOMENT_SECONDS)  # whoever slept meanwhile was perhaps the machine

    def retire(self) -> str:
        """Let it end once its tasks have; the name of the task that blocks it."""
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
    """The workers and the event loop of this process; a forked child starts with new ones."""

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
    """The workers of this process."""
    return _process.pool


@contextmanager
def turn() -> Iterator[None]:
    """One at a time: for computing that keeps the interpreter to itself, which many at once make slower.

    TimeoutError where, when its turn has come, nobody waits for the search any more.
    """
    with _process.turn:
        go_on()
        yield


def own_loop(replaced: Callable[[str], object] = str) -> asyncio.AbstractEventLoop:
    """The event loop of our own thread, started on first use: for ``asearch`` when the caller is not async.

    One that a coroutine blocks is replaced; `replaced` is told so.
    """
    process = _process
    with process.lock:
        if process.loop is not None and process.loop.is_blocked():
            replaced(
                f"{process.loop.retire()} blocks the event loop that sources share, and another one took its place: "
                "what else ran there may be late. Await inside the coroutine, or give its source "
                "Execution(in_thread=True)"
            )
            process.loop = None
        if process.loop is None:
            process.loop = OwnLoop()
        return process.loop.loop


def watch_own_loop() -> None:
    """Notice it where what was just given to our own event loop blocks that."""
    process = _process
    with process.lock:
        if process.loop is not None:
            process.loop.ask()


Answered = TypeVar("Answered")
LEAST_SECONDS = 0.02
"""What a step is given though nothing is left, so that one that is quick is not lost to a source that was late."""


class Late(TimeoutError):  # noqa: N818 - not an error: what was wanted did not come in time
    """A step of a call took longer than the call had left."""


def within(function: Callable[[], Answered], seconds: float) -> Answered:
    """What a plain function gives, on a daemon worker; Late if it takes longer, and then its answer is dropped."""
    answered: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
    context, over = copy_context(), list[bool]()
    context.run(OVER.set, over)

    pool().submit(lambda given: context.run(outcome_of, given), lambda _, outcome: answered.put(outcome), function)
    try:
        value, error = answered.get(timeout=max(seconds, LEAST_SECONDS))
    except Empty:
        over.append(True)
        raise Late from None
    if error is not None:
        raise error
    found: Answered = value
    return found


async def awithin(function: Callable[[], Answered], seconds: float) -> Answered:
    """As :func:`within`, without holding up the event loop."""
    over = list[bool]()

    def step() -> Answered:
        OVER.set(over)
        return function()

    try:
        value, error = await asyncio.wait_for(in_thread(outcome_of, step), max(seconds, LEAST_SECONDS))
    except TimeoutError:
        raise Late from None
    finally:
        over.append(True)
    if error is not None:
        raise error
    found: Answered = value
    return found


def outcome_of(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """What a function gives, or what it raises."""
    try:
        return function(), None
    except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
        return None, error


async def in_thread(function: Callable[[Any], Any], argument: object) -> Any:
    """What a plain function gives, on a daemon worker; cancelled, the worker's answer is dropped."""
    loop, context = asyncio.get_running_loop(), copy_context()
    future: asyncio.Future[Any] = loop.create_future()

    def then(_: object, outcome: tuple[Any, BaseException | None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(_settle, future, outcome)

    pool().submit(lambda given: context.run(outcome_of, given), then, partial(function, argument))
    return await future


def _settle(future: asyncio.Future[Any], outcome: tuple[Any, BaseException | None]) -> None:
    if future.done():
        return
    value, error = outcome
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
