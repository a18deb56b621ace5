"""Ask several sources at once and return within the deadline, whatever they do."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from types import MappingProxyType
from typing import Literal, TypeAlias

from phasegraph._shared import DUE, OVER
from phasegraph._validation import LONGEST_QUERY, check_count, check_flag, check_query, check_seconds
from phasegraph.errors import (
    AllSourcesFailed,
    DegradedError,
    InvalidInputError,
    InvalidTypeError,
    PhasegraphError,
    PhasegraphWarning,
    blame,
    too_late,
    warn,
)
from phasegraph.ranking import Ranking, SourceReport, Status, degradations, found_in
from phasegraph.sources.protocol import (
    AnySource,
    AsyncSource,
    MalformedAnswerError,
    Search,
    Source,
    Upstream,
    as_ranking,
    best_hits,
    is_fatal,
    one_line,
    reason_of,
)
from phasegraph.sources.settings import SourceSettings, check_settings
from phasegraph.sources.workers import own_loop, pool, watch_own_loop

Mode: TypeAlias = Literal["search", "drive", "task"]  # in a worker; a coroutine in a worker; a task of an event loop
Outcome: TypeAlias = Ranking | BaseException
_NOTHING: Upstream = MappingProxyType({})
_FOREVER = float("inf")
_LATE_SECONDS, _GRACE_SECONDS = 0.002, 0.005
_CANCEL_SECONDS = 0.02


def search_of(source: object) -> Search | None:
    """The source's own ``search``, or None where it has none."""
    return _own(source, "search", Source.search)


def asearch_of(source: object) -> Search | None:
    """The source's own ``asearch``, or None where it has none or only inherits the protocol's empty one."""
    return _own(source, "asearch", AsyncSource.asearch)


def _own(source: object, name: str, stub: object) -> Search | None:
    method = getattr(source, name, None)
    if not callable(method) or getattr(method, "__func__", None) is stub:
        return None
    found: Search = method
    return found


def cut_note(found: int, limit: int) -> str:
    """What the report says of an answer longer than was asked for."""
    return f"returned {found} hits where {limit} were asked for; the best {limit} were kept"


@dataclass(slots=True, eq=False)
class SourceTask:
    """One source within one call."""

    name: str
    source: object
    settings: SourceSettings
    state: SourceState
    function: Search
    mode: Mode
    context: Context
    upstream: Upstream
    over: list[bool]
    missing: tuple[str, ...] = ()
    launched: bool = False
    queued: bool = False
    waited: bool = False
    admitted: bool = False
    begun: bool = False
    settled: bool = False
    probe: bool = False
    ended: bool = False
    due: float = _FOREVER
    cancel: Callable[[], None] | None = None
    status: Status = "skipped"
    reason: str = ""
    notes: tuple[str, ...] = ()
    ranking: Ranking | None = None
    error: BaseException | None = None
    milliseconds: float = 0.0
    hits: int = 0

    def search(self, query: str) -> Ranking:
        """The source's answer; call it on a worker."""
        return self._checked(self.function(query, self.settings.limit, self.upstream))

    async def asearch(self, query: str) -> Ranking:
        """The source's answer, awaited."""
        pending = self.function(query, self.settings.limit, self.upstream)
        if not inspect.isawaitable(pending):
            raise MalformedAnswerError(f"asearch must return an awaitable; got {type(pending).__name__}")
        return self._checked(await pending)

    def _checked(self, answer: object) -> Ranking:
        known = type(answer) is Ranking and answer.source == self.name
        ranking: Ranking = answer if known else as_ranking(self.name, answer)  # type: ignore[assignment]
        limit = self.settings.limit
        if limit is None or len(ranking) <= limit:
            return ranking
        self.notes = (cut_note(len(ranking), limit),)
        return best_hits(ranking, limit)

    def end(self) -> None:
        """Note, once, that the search has ended, in time or late."""
        if not self.ended:
            self.ended = True
            self.state.leave()

    def give_up(self) -> None:
        """Cancel the search where that is possible, and let it know."""
        self.over.append(True)
        if self.cancel is not None:
            self.cancel()

    def report(self) -> SourceReport:
        """What the source did, for the caller."""
        error_class = "" if self.error is None or self.status == "skipped" else type(self.error).__name__
        dropped, notes = 0 if self.ranking is None else self.ranking.dropped, getattr(self.source, "notes", None)
        if notes and isinstance(notes, list | tuple):
            self.notes = (*self.notes, *filter(None, notes))
        return SourceReport(
            self.name, self.status, self.reason, error_class, self.milliseconds, self.hits, dropped, "", self.missing,
            self.notes,
        )  # fmt: skip


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
        self._due = _FOREVER if timeout is None else self._started + timeout
        self._half_due = _FOREVER if timeout is None else self._started + timeout / 2.0

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
        return None if due == _FOREVER else max(0.0, max(due, self._excused) - monotonic())

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
                (self._runner or TaskRunner(own_loop(task.state.noticed), _keep)).start(self, task)
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


def _keep(task: asyncio.Task[None]) -> None:
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


@dataclass(frozen=True, slots=True)
class Gathered:
    """What the sources answered to one query; everything in name order.

    Parameters
    ----------
    rankings : tuple of Ranking
        Of the sources that returned at least one hit.
    reports : tuple of SourceReport
        One per source asked.
    causes : mapping of str to BaseException
        What the sources that failed raised: a ``TimeoutError`` for a missed deadline, a
        :class:`~phasegraph.errors.PhasegraphError` for one that was not asked.
    """

    rankings: tuple[Ranking, ...]
    reports: tuple[SourceReport, ...]
    causes: Mapping[str, BaseException] = field(default_factory=dict, repr=False)

    @property
    def degraded(self) -> bool:
        """Whether a source failed, answered only in part, or ran without a ranking that came late."""
        return bool(degradations(self.reports))


_WITHIN: ContextVar[tuple[int, ...]] = ContextVar("phasegraph_within", default=())


class Gatherer:
    """Asks sources concurrently; remembers between calls how each of them fares.

    Parameters
    ----------
    settings : mapping of str to SourceSettings
        One per source that will ever be asked.
    timeout : float or None, default 10.0
        Seconds a call may take, > 0; None = as long as the sources take.
    strict : bool, default False
        Whether any degradation raises :class:`~phasegraph.errors.DegradedError`.
    max_query_length : int or None, default 20000
        Characters of the longest query that is asked, >= 1; None = of any length.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a setting is outside its range, or `depends_on` names an unknown source or runs in a circle.

    Notes
    -----
    A call returns within its deadline and 50 ms whatever a source does, except where a coroutine blocks the caller's
    event loop itself (set ``in_thread=True`` for it). A search that outlives its call ends in a daemon thread and its
    answer is dropped; `max_in_flight` and the circuit breaker bound how many there can be. ``MemoryError``,
    ``KeyboardInterrupt``, ``SystemExit`` and cancellations pass through. Each source sees a copy of the caller's
    context variables. A source with `depends_on` begins when those have settled, or after half of the call's timeout
    without those still missing. One gatherer may be used from any number of threads and event loops, and after a fork.

    A source that starts to fail, is left out by its circuit breaker, because none of its hits is usable or because too
    many searches wait for it, or answers again is logged on the logger ``phasegraph`` and warned about
    (:class:`~phasegraph.errors.PhasegraphWarning`, what the source raised being the ``__cause__``), once per change.
    The warning is the last thing a call does: where a filter turns it into an error, that call raises it and the next
    one answers. A call that ends in an error of its own raises that, with the warning as a note.

    Examples
    --------
    >>> gatherer = Gatherer({"graph": SourceSettings(), "vector": SourceSettings(limit=2)})
    >>> from phasegraph.sources import CallableSource
    >>> found = gatherer.gather(
    ...     {
    ...         "vector": CallableSource("vector", lambda query, limit: [("a", 0.9), ("b", 0.1)]),
    ...         "graph": CallableSource("graph", lambda query, limit: 1 / 0),
    ...     },
    ...     "who?",
    ... )
    >>> [(report.source, report.status, report.reason) for report in found.reports]
    [('graph', 'error', 'ZeroDivisionError'), ('vector', 'ok', '')]
    """

    def __init__(
        self,
        settings: Mapping[str, SourceSettings],
        *,
        timeout: float | None = 10.0,
        strict: bool = False,
        max_query_length: int | None = LONGEST_QUERY,
    ) -> None:
        check_seconds("timeout", timeout)
        if max_query_length is not None:
            check_count("max_query_length", max_query_length, minimum=1)
        self.max_query_length = max_query_length
        self.settings: Mapping[str, SourceSettings] = MappingProxyType(check_settings(settings))
        self.timeout = timeout
        self.strict = check_flag("strict", strict)
        self._renew()

    def _renew(self) -> None:
        self._process = os.getpid()
        self._states = {name: SourceState(name, one) for name, one in self.settings.items()}

    def __reduce__(self) -> tuple[object, ...]:
        made = partial(Gatherer, timeout=self.timeout, strict=self.strict, max_query_length=self.max_query_length)
        return made, (dict(self.settings),)

    def __repr__(self) -> str:
        return f"Gatherer({list(self.settings)}, timeout={self.timeout}, strict={self.strict})"

    @property
    def health(self) -> Mapping[str, SourceHealth]:
        """Per source: searches running now, and the state of its circuit breaker."""
        return {name: state.health for name, state in self._states.items()}

    def gather(self, sources: Mapping[str, AnySource], query: str, *, seconds: float | None = None) -> Gathered:
        """Ask `sources` and wait for them.

        Parameters
        ----------
        sources : mapping of str to Source or AsyncSource
            Those to ask in this call, by a name of `settings`; at least one. A source with only ``asearch`` runs on
            an event loop of our own. What it has in a list ``notes`` goes to its report.
        query : str
            Not blank.
        seconds : float, optional
            What is left of a deadline that began before, > 0; default the whole of `timeout`.

        Returns
        -------
        Gathered

        Raises
        ------
        AllSourcesFailed
            If every source failed.
        DegradedError
            If `strict` and the answer is degraded.
        InvalidInputError, InvalidTypeError
            If the query is blank or too long, there is no source, or one is not known or not a source.
        """
        woken: SimpleQueue[None] = SimpleQueue()
        state = self._prepare(sources, query, seconds, lambda: woken.put(None), None)
        try:
            state.start()
            while not state.finished:
                try:
                    woken.get(timeout=state.seconds_left)
                except Empty:
                    state.advance()
        finally:
            state.close()
        return self._finish(state)

    async def agather(self, sources: Mapping[str, AnySource], query: str, *, seconds: float | None = None) -> Gathered:
        """Ask `sources` and await them; parameters, result and errors as in :meth:`gather`.

        A source whose class defines ``asearch`` is awaited on this event loop (unless ``in_thread``), any other
        runs in a worker. Cancelling the call cancels the coroutines and waits for them, at most 20 ms.
        """
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[None]] = []
        wakeup = Wakeup(loop)
        state = self._prepare(sources, query, seconds, wakeup.set, TaskRunner(loop, tasks.append))
        try:
            state.start()
            while not state.finished:
                if not await wakeup.wait(state.seconds_left):
                    state.advance()
        finally:
            state.close()
            left = [task for task in tasks if not task.done()]
            if left:  # cancelled; one that refuses would hold the caller beyond its deadline
                _, stubborn = await asyncio.wait(left, timeout=_CANCEL_SECONDS)
                for task in stubborn:
                    _keep(task)
        return self._finish(state)

    def _prepare(
        self,
        sources: Mapping[str, AnySource],
        query: str,
        seconds: float | None,
        wake: Callable[[], None],
        runner: TaskRunner | None,
    ) -> GatherState:
        longest = self.max_query_length
        check_query(query, longest)
        if seconds is not None:
            check_seconds("seconds", seconds)
        if not isinstance(sources, Mapping):
            raise InvalidTypeError(f"sources must be a mapping of names to sources; got {type(sources).__name__}")
        if not sources:
            raise InvalidInputError("sources must hold at least one source; got none")
        if self._process != os.getpid():
            self._renew()
        within = _WITHIN.get()
        if id(self) in within:
            raise InvalidInputError("the retriever contains itself")
        token = _WITHIN.set((*within, id(self)))
        try:
            tasks = [self._task(name, sources[name], runner is not None) for name in sorted(sources)]
        finally:
            _WITHIN.reset(token)
        return GatherState(query, tasks, self.timeout if seconds is None else seconds, wake, runner)

    def _task(self, name: str, source: AnySource, awaits: bool) -> SourceTask:
        settings = self.settings.get(name)
        if settings is None:
            raise InvalidInputError(f"source {name!r} has no settings; known are {list(self.settings)}")
        function, asearch = _own(source, "search", Source.search), _own(source, "asearch", AsyncSource.asearch)
        mode: Mode = "search"
        if asearch is not None and not settings.in_thread and (awaits or function is None):
            function, mode = asearch, "task"
        elif function is None:
            function, mode = asearch, "drive"
        if function is None:
            raise InvalidTypeError(f"sources[{name!r}] must have search or asearch; got {type(source).__name__}")
        context, over = copy_context(), list[bool]()
        context.run(OVER.set, over)
        return SourceTask(name, source, settings, self._states[name], function, mode, context, _NOTHING, over)

    def _finish(self, state: GatherState) -> Gathered:
        """What a finished call returns, or the error it ends in."""
        tasks, fatal = state.tasks, state.fatal
        if fatal is not None:
            state.forget()
            try:
                raise fatal
            finally:
                del fatal  # its traceback holds this frame
        reports = tuple([task.report() for task in tasks])
        rankings = tuple([task.ranking for task in tasks if task.ranking is not None and task.hits])
        causes = {task.name: task.error for task in tasks if task.error is not None}
        state.forget()
        failure: PhasegraphError | None = None
        if len(causes) == len(reports):
            failure = AllSourcesFailed(causes)
        elif self.strict and (degraded := degradations(reports)):
            listed = "; ".join(f"{name}: {why}" for name, why in degraded.items())
            failure = DegradedError(f"strict=True, and the answer is degraded. {listed}")
            if causes:
                blame(failure, causes)
        _announce(tasks, failure)
        if failure is None:
            return Gathered(rankings, reports, MappingProxyType(causes))
        try:
            raise failure
        finally:
            del failure


def _announce(tasks: Sequence[SourceTask], error: PhasegraphError | None) -> None:
    """Log and warn about sources that have changed their condition; `error` is what the call ends in."""
    for task in tasks:
        while task.state.notices:
            try:
                condition, text, cause = task.state.notices.popleft()
            except IndexError:  # another call took it
                break
            try:
                warn(text, cause=cause, stacklevel=4)
            except PhasegraphWarning as raised:
                if error is not None:
                    error.add_note(str(raised))
                elif condition != "answering":  # good news cost no answer
                    raise


_FAILED = ("error", "timeout")


BreakerState: TypeAlias = Literal["closed", "open", "half_open"]


class Breaker:
    """A circuit breaker: open after `failures` consecutive failures, half open for one trial after `probe_interval`.

    Times are seconds on the monotonic clock. It has no lock; its owner guards it.

    Notes
    -----
    A trial that misses its deadline but ends well all the same is followed by another at once: a source that has just
    come back is slow at first, and would lose an interval.

    Examples
    --------
    >>> breaker = Breaker(failures=2, probe_interval=30.0)
    >>> for now in (0.0, 1.0):
    ...     breaker.record(succeeded=False, now=now)
    >>> breaker.allows(2.0), breaker.allows(31.0)
    (False, True)
    """

    __slots__ = ("_began", "_early", "_failed", "_failures", "_opened", "_probe_interval", "_probing", "_was_early")

    def __init__(self, failures: int, probe_interval: float) -> None:
        self._failures = failures
        self._probe_interval = probe_interval
        self._failed = 0
        self._opened: float | None = None
        self._began = 0.0
        self._probing = self._early = self._was_early = False

    @property
    def state(self) -> BreakerState:
        """``closed``, ``open`` or ``half_open`` (a trial is under way)."""
        if self._opened is None:
            return "closed"
        return "half_open" if self._probing else "open"

    def allows(self, now: float) -> bool:
        """Whether a search may begin at `now`."""
        if self._opened is None:
            return True
        return not self._probing and (self._early or now - self._opened >= self._probe_interval)

    def begin(self, now: float) -> bool:
        """Note that a search begins; True if it is a trial, and then the next interval counts from `now`."""
        if self._opened is None:
            return False
        self._probing = True
        self._was_early, self._early = self._early, False
        self._began = now
        return True

    def record(self, *, succeeded: bool, now: float, probe: bool = True) -> None:
        """Count a search that ended; one that began before the breaker opened cannot close or renew it."""
        if self._opened is not None and not probe:
            return
        self._probing = False
        if succeeded:
            self._failed, self._opened, self._early = 0, None, False
            return
        self._failed += 1
        if self._failed >= self._failures:
            self._opened = now if self._opened is None else self._began

    def succeeded_late(self) -> None:
        """Note that a trial which was given up has ended well: one more may begin, but not a third in a row."""
        if self._opened is not None and not self._probing:
            self._early = not self._was_early

    def release(self) -> None:
        """Give back a trial without an outcome (the caller went away); the next search may be one."""
        self._probing = False


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """The state of a source between calls.

    Parameters
    ----------
    in_flight : int
        Searches running now, those that outlived their call included.
    circuit_breaker : {"closed", "open", "half_open"}
        ``open``: it is not asked; ``half_open``: one search is trying again.
    """

    in_flight: int
    circuit_breaker: BreakerState


Condition: TypeAlias = Literal["answering", "failing", "unusable", "open", "busy"]


class SourceState:
    """What is known of one source between calls: searches in flight, its breaker, its condition. Thread-safe.

    `notices` holds the changes that no call has announced yet, as (condition, text, what the source raised).
    """

    __slots__ = (
        "_breaker", "_condition", "_handing_on", "_in_flight", "_lock", "_name", "_settings", "_waiting", "notices",
    )  # fmt: skip

    def __init__(self, name: str, settings: SourceSettings) -> None:
        self._name = name
        self._settings = settings
        self._lock = threading.Lock()
        self._in_flight = 0
        self._waiting: OrderedDict[int, Callable[[], None]] = OrderedDict()
        self._handing_on = False
        breaker = settings.circuit_breaker
        self._breaker = None if breaker is None else Breaker(breaker.failures, breaker.probe_interval)
        self._condition: Condition = "answering"
        self.notices: deque[tuple[Condition, str, BaseException | None]] = deque(maxlen=16)

    def enter(self, task: SourceTask, again: Callable[[], None], *, first: bool) -> tuple[str | None, bool]:
        """Begin a search: ("", whether it is a trial), or the reason why it may not begin.

        None in place of a reason: as many run as may. The task waits for its turn behind those that wait already, at
        the head where it is `first`, and then `again` is called.
        """
        breaker, now = self._breaker, monotonic()
        with self._lock:
            if breaker is not None and not breaker.allows(now):
                return "circuit breaker open", False
            if self._in_flight >= self._settings.max_in_flight or (self._waiting and not first):
                self._waiting[id(task)] = again
                if first:
                    self._waiting.move_to_end(id(task), last=False)
                return None, False
            self._in_flight += 1
            return "", breaker is not None and breaker.begin(now)

    def withdraw(self, task: SourceTask) -> None:
        """Take a task out of the queue, if it is there."""
        if self._waiting:
            with self._lock:
                self._waiting.pop(id(task), None)

    def leave(self) -> None:
        """Note that a search has ended, in time or late, and let those begin that wait."""
        with self._lock:
            self._in_flight -= 1
            if self._handing_on or not self._waiting:
                return
            self._handing_on = True
        try:
            while True:
                with self._lock:
                    if not self._waiting or self._in_flight >= self._settings.max_in_flight:
                        self._handing_on = False
                        return
                    _, again = self._waiting.popitem(last=False)
                again()
        finally:
            self._handing_on = False

    def noticed(self, text: str) -> None:
        """Have the next call say it, once."""
        self.notices.append(("busy", text, None))

    def was_busy(self) -> None:
        """Note that a search could not begin before its time was over."""
        with self._lock:
            if self._condition == "answering":
                self._condition = "busy"
                self.notices.append(("busy", self._describe("busy", ""), None))

    def record(self, status: Status, reason: str, error: BaseException | None, *, probe: bool) -> None:
        """Note how an admitted search ended for its call."""
        healthy = status == "ok" and self._condition == "answering"
        if healthy and self._breaker is None:
            return
        with self._lock:
            if self._breaker is not None:
                self._breaker.record(succeeded=status not in _FAILED, now=monotonic(), probe=probe)
            if healthy:
                return
            before, self._condition = self._condition, self._condition_after(status)
            if self._condition != before:
                self.notices.append((self._condition, self._describe(self._condition, reason), error))

    def _condition_after(self, status: Status) -> Condition:
        if self._breaker is not None and self._breaker.state != "closed":
            return "open"
        if status == "partial":
            return "unusable"
        if status in _FAILED:  # an error that is raised to the caller needs no notice
            starts = self._condition in ("answering", "busy") and self._settings.on_error == "skip"
            return "failing" if starts else self._condition
        if self._condition == "busy" and self._waiting:
            return "busy"
        # An answer without hits says nothing of their scores.
        return "unusable" if status == "empty" and self._condition == "unusable" else "answering"

    def _describe(self, condition: Condition, reason: str) -> str:
        source, breaker = f"source {self._name!r}", self._settings.circuit_breaker
        if condition == "open" and breaker is not None:
            return (
                f"{source} failed {breaker.failures} times in a row (last: {reason}) and is left out; one search in "
                f"{breaker.probe_interval:g} s tries it again. Check the service behind it"
            )
        if condition == "unusable":
            return f"{source} returns hits without a usable score and id, and is left out. Check how its hits are read"
        if condition == "busy":
            return (
                f"{source} was busy: others of its {self._settings.max_in_flight} searches at once went on for as long "
                "as one had time; answers go without it. Raise its timeout or max_in_flight"
            )
        if condition == "failing":
            return f"{source} failed ({reason}); answers go without it"
        return f"{source} answers again"

    def succeeded_late(self) -> None:
        """Note that a trial which was given up has ended well."""
        if self._breaker is not None:
            with self._lock:
                self._breaker.succeeded_late()

    def give_back(self, *, probe: bool) -> None:
        """Note that the call ended without an answer of this source, for no fault of its own."""
        if probe and self._breaker is not None:
            with self._lock:
                self._breaker.release()

    @property
    def health(self) -> SourceHealth:
        """A snapshot."""
        with self._lock:
            return SourceHealth(self._in_flight, "closed" if self._breaker is None else self._breaker.state)
