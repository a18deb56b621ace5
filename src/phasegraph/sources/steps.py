"""Run a function of the caller, such as a reranker, within a time limit; its errors do not end the call."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Literal, TypeAlias

from phasegraph._support.clock import Deadline
from phasegraph._support.shared import fork_safe_lock
from phasegraph.errors import InvalidTypeError, PhasegraphError, warn
from phasegraph.sources.breaker import Breaker
from phasegraph.sources.protocol import is_fatal, reason_of
from phasegraph.sources.workers import pool

Outcome: TypeAlias = tuple[Any, BaseException | None]

StageStatus: TypeAlias = Literal["ok", "failed", "late", "skipped", "unused"]

_FAILURES, _PROBE_SECONDS, _MOST_IN_FLIGHT = 10, 30.0, 256


@dataclass(frozen=True, slots=True)
class Tried:
    """The outcome of a step, which is one call of a user's function: its value, or the error that it raised."""

    value: Any
    error: BaseException | None
    milliseconds: float

    @property
    def status(self) -> StageStatus:
        """The status of the step for a :class:`StageReport`: ``ok``, ``failed``, ``late`` or ``skipped``."""
        if self.error is None:
            return "ok"
        if isinstance(self.error, SkippedError):
            return "skipped"
        return "late" if isinstance(self.error, LateError) else "failed"

    @property
    def reason(self) -> str:
        """The reason of a failure in one line; empty if the step succeeded."""
        return "" if self.error is None else reason_of(self.error)


class LateError(PhasegraphError, TimeoutError):
    """The error for a step that missed its deadline."""


class SkippedError(PhasegraphError, RuntimeError):
    """The error for a step that was not run, because it failed too often or earlier calls still run."""


class Step:
    """A function or coroutine function of the caller, with its circuit breaker and pending warnings. Thread-safe.

    `given` may also be an object with a coroutine method ``acall`` and a ``__call__``. Warnings contain `name`, and
    `instead`, a text that says what the call does if the step fails. A function runs on a worker thread. A coroutine
    function runs as a task of the caller's event loop. At its deadline, the step is given up. After 10 consecutive
    failures, the step is skipped, except for one trial every 30 seconds. Errors of the function are returned and not
    raised, including ``SystemExit``. ``MemoryError`` and ``KeyboardInterrupt`` are raised.

    >>> from phasegraph._support.clock import NO_DEADLINE
    >>> step = Step("division", lambda number: 1 / number, "none is done")
    >>> step.run((4,), NO_DEADLINE, float).value, step.run((0,), NO_DEADLINE, float).reason
    (0.25, 'ZeroDivisionError')
    """

    def __init__(self, name: str, given: Any, instead: str) -> None:
        call = getattr(given, "__call__", None)  # noqa: B004 - an instance's coroutine method
        acall = getattr(given, "acall", None)
        if not callable(given) or isinstance(given, type):
            raise InvalidTypeError(f"{name} must be a function or a model; got {type(given).__name__}")
        self.name, self.given, self.instead = name, given, instead
        self._call: Callable[..., Any] | None
        self._acall: Callable[..., Awaitable[Any]] | None
        if inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(call):
            self._call, self._acall = None, given
        else:
            self._call, self._acall = given, acall if callable(acall) else None
        self._breaker = Breaker(_FAILURES, _PROBE_SECONDS)
        self._lock = fork_safe_lock()
        self._in_flight = 0
        self._failing = self._unused = False
        self._notices: deque[tuple[str, BaseException | None]] = deque(maxlen=16)

    def __reduce__(self) -> tuple[object, ...]:
        return Step, (self.name, self.given, self.instead)

    def run(self, arguments: Sequence[Any], deadline: Deadline, read: Callable[[Any], Any]) -> Tried:
        """Call the function, and wait until the deadline.

        ``read(answer)`` converts the answer to the value of the step, or raises an error if the answer is malformed.
        """
        clock = deadline.clock
        begun, refused = self._begin(clock.now())
        if refused is not None:
            return Tried(None, refused, 0.0)
        answered: SimpleQueue[Outcome] = SimpleQueue()
        try:
            self._submit(arguments, read, lambda _, outcome: answered.put(outcome))
            outcome = clock.get(answered, deadline.due)
        except Empty:
            outcome = None, LateError("no answer in time")
        except RuntimeError as error:  # the system cannot create a thread
            outcome = None, error
        except BaseException:  # the caller is interrupted
            self._release()
            raise
        return self._end(begun, clock.now(), outcome)

    async def arun(self, arguments: Sequence[Any], deadline: Deadline, read: Callable[[Any], Any]) -> Tried:
        """Run the step as :meth:`run` does, without blocking the event loop."""
        clock = deadline.clock
        begun, refused = self._begin(clock.now())
        if refused is not None:
            return Tried(None, refused, 0.0)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome]
        if self._acall is not None:
            future = loop.create_task(self._awaited(self._acall, arguments, read))
        else:
            future = loop.create_future()

            def then(_: object, outcome: Outcome) -> None:
                with suppress(RuntimeError):  # the loop is closed, so no coroutine waits
                    loop.call_soon_threadsafe(_settle, future, outcome)

            try:
                self._submit(arguments, read, then)
            except RuntimeError as error:
                return self._end(begun, clock.now(), (None, error))
        try:
            await clock.wait({future}, deadline.due)
        except asyncio.CancelledError:  # the caller was canceled
            self._release()
            raise
        finally:
            in_time = future.done()
            if not in_time:
                future.cancel()
        return self._end(begun, clock.now(), future.result() if in_time else (None, LateError("no answer in time")))

    def plain(self, *arguments: Any) -> Any:
        """Call the function on this thread, and return its answer unchecked; errors are raised."""
        return self._answer(arguments, lambda answer: answer)

    @property
    def awaits(self) -> Callable[..., Awaitable[Any]] | None:
        """The coroutine function; None if the step has no coroutine function."""
        return self._acall

    def _submit(
        self, arguments: Sequence[Any], read: Callable[[Any], Any], then: Callable[[Any, Outcome], None]
    ) -> None:
        with self._lock:
            self._in_flight += 1
        try:
            pool().submit(partial(self._worked, copy_context(), arguments), then, read)
        except BaseException:
            self._leave()
            raise

    def _worked(self, context: Context, arguments: Sequence[Any], read: Callable[[Any], Any]) -> Outcome:
        """Call the function in `context`; return (value, None), or (None, error) if the function or `read` fails.

        This method runs on a worker thread. ``read(answer)`` converts the function's answer to the value.
        """
        try:
            return context.run(self._answer, arguments, read), None
        except BaseException as error:  # noqa: BLE001 - the waiting thread gets every error
            return None, error
        finally:
            self._leave()

    def _answer(self, arguments: Sequence[Any], read: Callable[[Any], Any]) -> Any:
        function: Any = self._acall if self._call is None else self._call
        answer = function(*arguments)
        return read(asyncio.run(awaited(answer)) if inspect.isawaitable(answer) else answer)

    async def _awaited(
        self, acall: Callable[..., Any], arguments: Sequence[Any], read: Callable[[Any], Any]
    ) -> Outcome:
        with self._lock:
            self._in_flight += 1
        try:
            return read(await acall(*arguments)), None
        except BaseException as error:  # noqa: BLE001 - the waiting coroutine gets it; raised in a task, it may stop the loop
            return None, error
        finally:
            self._leave()

    def _release(self) -> None:
        """Record in the circuit breaker that a trial has ended without an outcome."""
        with self._lock:
            self._breaker.release()

    def _leave(self) -> None:
        with self._lock:
            self._in_flight -= 1

    def _begin(self, now: float) -> tuple[tuple[float, bool], SkippedError | None]:
        with self._lock:
            if not self._breaker.allows(now):
                return (now, False), SkippedError(f"it failed {_FAILURES} times in a row")
            if self._in_flight >= _MOST_IN_FLIGHT:
                return (now, False), SkippedError("earlier calls were still running")
            return (now, self._breaker.begin(now)), None

    def _end(self, begun: tuple[float, bool], now: float, outcome: Outcome) -> Tried:
        (start, probe), (value, error) = begun, outcome
        if isinstance(error, MemoryError | KeyboardInterrupt):
            self._release()
            raise error
        with self._lock:
            self._breaker.record(succeeded=error is None, now=now, probe=probe)
            if (error is not None) != self._failing:
                self._failing = error is not None
                said = f"failed ({reason_of(error)}): {self.instead}" if error is not None else "answers again"
                self._notices.append((f"{self.name} {said}", error))
        return Tried(value, error, (now - start) * 1000.0)

    def note_unused(self, reason: str) -> None:
        """Make :meth:`announce` warn, once, that no source used the result of the step; the warning says `reason`."""
        with self._lock:
            if not self._unused:
                self._unused = True
                self._notices.append((f"{self.name} is not used ({reason}): {self.instead}", None))

    def announce(self) -> None:
        """Warn once if the step has begun to fail, answers again, or has a result that no source used."""
        while self._notices:
            try:
                text, cause = self._notices.popleft()
            except IndexError:  # a concurrent call has taken the last notice
                return
            warn(text, cause=cause)


async def awaited(answer: Awaitable[Any]) -> Any:
    """Await any awaitable; ``asyncio.run`` does not accept an awaitable, but accepts the coroutine of this function."""
    return await answer


def _settle(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


def run_all(functions: Sequence[Callable[[], Any]]) -> list[Outcome]:
    """Run functions at the same time, and return their outcomes in order: (value, None) or (None, error).

    The first function runs on this thread, and each of the others on a worker thread.
    """
    answered: SimpleQueue[tuple[int, Outcome]] = SimpleQueue()

    def run(row: int) -> Outcome:
        try:
            return contexts[row].run(functions[row]), None
        except BaseException as error:  # noqa: BLE001 - the caller gets every error
            return None, error

    contexts = [copy_context() for _ in functions]
    for row in range(1, len(functions)):
        pool().submit(run, lambda row, outcome: answered.put((row, outcome)), row)
    found = {0: run(0), **dict(answered.get() for _ in functions[1:])}
    return [found[row] for row in range(len(functions))]


async def await_all(pending: Sequence[Awaitable[Any]]) -> list[Outcome]:
    """Await several awaitables at the same time, and return their outcomes in order: (value, None) or (None, error)."""

    async def one(awaitable: Awaitable[Any]) -> Outcome:
        try:
            return await awaitable, None
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the caller gets it; raised in a task, it may stop the loop
            return None, error

    return list(await asyncio.gather(*map(one, pending)))


def values_of(outcomes: Sequence[Outcome]) -> list[Any]:
    """Return the values of the successful outcomes.

    If no outcome is successful, raise the first error. Also raise an error that ends the whole call.
    """
    found = [value for value, error in outcomes if error is None]
    for _, error in outcomes:
        if error is not None and (not found or is_fatal(error)):
            raise error
    return found
