"""A caller's own function as a step: run within its time, whatever it does, and its failure contained."""

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
from time import monotonic
from typing import Any, Literal, TypeAlias

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
    """What came of a step: a value, or the error in place of it."""

    value: Any
    error: BaseException | None
    milliseconds: float

    @property
    def status(self) -> StageStatus:
        """As in a :class:`StageReport`."""
        if self.error is None:
            return "ok"
        if isinstance(self.error, SkippedError):
            return "skipped"
        return "late" if isinstance(self.error, LateError) else "failed"

    @property
    def reason(self) -> str:
        """One line; empty where it went well."""
        return "" if self.error is None else reason_of(self.error)


class LateError(PhasegraphError, TimeoutError):
    """A step has not answered in time."""


class SkippedError(PhasegraphError, RuntimeError):
    """A step was not run."""


class Step:
    """A function of the caller's, plain or a coroutine function, and how it fared until now. Thread-safe.

    `given` may also be an object that has ``acall``, a coroutine method, beside its ``__call__``; `name` and
    `instead`, what is done where it fails, are for warnings. It runs on a daemon worker, or as a task of the caller's
    event loop where it is a coroutine function; nobody waits for it longer than its time. After 10 failures in a row
    it is left out, one call in 30 s trying it again. What it raises is contained, ``SystemExit`` included;
    ``MemoryError`` and ``KeyboardInterrupt`` pass through.

    >>> step = Step("division", lambda number: 1 / number, "none is done")
    >>> step.run((4,), None, float).value, step.run((0,), None, float).reason
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

    def run(self, arguments: Sequence[Any], seconds: float | None, read: Callable[[Any], Any]) -> Tried:
        """Call it and wait for at most `seconds`; ``read(answer)`` gives the value, or raises where it is malformed."""
        begun, refused = self._begin()
        if refused is not None:
            return Tried(None, refused, 0.0)
        answered: SimpleQueue[Outcome] = SimpleQueue()
        try:
            self._submit(arguments, read, lambda _, outcome: answered.put(outcome))
            outcome = answered.get(timeout=seconds)
        except Empty:
            outcome = None, LateError("no answer in time")
        except RuntimeError as error:  # the system gives no thread
            outcome = None, error
        except BaseException:  # the caller is interrupted
            self._release()
            raise
        return self._end(begun, outcome)

    async def arun(self, arguments: Sequence[Any], seconds: float | None, read: Callable[[Any], Any]) -> Tried:
        """As :meth:`run`, without holding up the event loop."""
        begun, refused = self._begin()
        if refused is not None:
            return Tried(None, refused, 0.0)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome]
        if self._acall is not None:
            future = loop.create_task(self._awaited(self._acall, arguments, read))
        else:
            future = loop.create_future()

            def then(_: object, outcome: Outcome) -> None:
                with suppress(RuntimeError):  # the loop is closed: nobody waits
                    loop.call_soon_threadsafe(_settle, future, outcome)

            try:
                self._submit(arguments, read, then)
            except RuntimeError as error:
                return self._end(begun, (None, error))
        try:
            done, _ = await asyncio.wait({future}, timeout=seconds)
        except asyncio.CancelledError:  # the caller went away
            self._release()
            raise
        finally:
            if not future.done():
                future.cancel()
        return self._end(begun, future.result() if done else (None, LateError("no answer in time")))

    def plain(self, *arguments: Any) -> Any:
        """Its answer, on this thread, whatever it is; nothing is contained."""
        return self._answer(arguments, lambda answer: answer)

    @property
    def awaits(self) -> Callable[..., Awaitable[Any]] | None:
        """The coroutine function, where there is one."""
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
        """The whole of it on a worker."""
        try:
            return context.run(self._answer, arguments, read), None
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it, whatever it is
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
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it, and a task that raises may end the loop
            return None, error
        finally:
            self._leave()

    def _release(self) -> None:
        """Give back a trial that has no outcome."""
        with self._lock:
            self._breaker.release()

    def _leave(self) -> None:
        with self._lock:
            self._in_flight -= 1

    def _begin(self) -> tuple[tuple[float, bool], SkippedError | None]:
        now = monotonic()
        with self._lock:
            if not self._breaker.allows(now):
                return (now, False), SkippedError(f"it failed {_FAILURES} times in a row")
            if self._in_flight >= _MOST_IN_FLIGHT:
                return (now, False), SkippedError("busy")
            return (now, self._breaker.begin(now)), None

    def _end(self, begun: tuple[float, bool], outcome: Outcome) -> Tried:
        (start, probe), (value, error) = begun, outcome
        now = monotonic()
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
        """Have :meth:`announce` warn, the first time, that nothing used what it gave."""
        with self._lock:
            if not self._unused:
                self._unused = True
                self._notices.append((f"{self.name} is not used ({reason}): {self.instead}", None))

    def announce(self) -> None:
        """Warn that it has begun to fail, answers again, or is not used; once per change."""
        while self._notices:
            try:
                text, cause = self._notices.popleft()
            except IndexError:  # another call took it
                return
            warn(text, cause=cause, stacklevel=4)


def is_unused(text: str, query: str) -> bool:
    """Whether a rewritten query differs from the query only in texts to embed, which no source embedded.

    A text that carries texts to embed says so by an attribute ``embedded``: whether a source took them. Ask after the
    search.

    >>> is_unused("Who?", "Who?")
    False
    """
    return getattr(text, "embedded", None) is False and str.__eq__(text, query)


async def awaited(answer: Awaitable[Any]) -> Any:
    """An awaitable as a coroutine."""
    return await answer


def _settle(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


def run_all(functions: Sequence[Callable[[], Any]]) -> list[Outcome]:
    """What plain functions give, each on a worker of its own but the first, which runs here; waits for all."""
    answered: SimpleQueue[tuple[int, Outcome]] = SimpleQueue()

    def run(row: int) -> Outcome:
        try:
            return contexts[row].run(functions[row]), None
        except BaseException as error:  # noqa: BLE001 - the caller gets it, whatever it is
            return None, error

    contexts = [copy_context() for _ in functions]
    for row in range(1, len(functions)):
        pool().submit(run, lambda row, outcome: answered.put((row, outcome)), row)
    found = {0: run(0), **dict(answered.get() for _ in functions[1:])}
    return [found[row] for row in range(len(functions))]


async def await_all(pending: Sequence[Awaitable[Any]]) -> list[Outcome]:
    """What awaitables give, all at once."""

    async def one(awaitable: Awaitable[Any]) -> Outcome:
        try:
            return await awaitable, None
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the caller gets it, and a task that raises may end the loop
            return None, error

    return list(await asyncio.gather(*map(one, pending)))


def values_of(outcomes: Sequence[Outcome]) -> list[Any]:
    """The values of those that went well; the first one's error where none did, or where it is to end the call."""
    found = [value for value, error in outcomes if error is None]
    for _, error in outcomes:
        if error is not None and (not found or is_fatal(error)):
            raise error
    return found
