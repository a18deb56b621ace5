"""Ask all sources at once, and be back in time whatever they do."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from types import MappingProxyType
from typing import Literal, TypeAlias

from phasegraph._validation import check_query, check_seconds
from phasegraph.errors import AllSourcesFailed, DegradedError, InvalidInputError, InvalidTypeError, PhasegraphError
from phasegraph.ranking import Ranking, SourceReport, Status, degradations, found_in
from phasegraph.sources.protocol import (
    AnySource,
    MalformedAnswerError,
    Search,
    Upstream,
    as_ranking,
    asearch_of,
    best_hits,
    is_fatal,
    one_line,
    reason_of,
    search_of,
)
from phasegraph.sources.settings import SourceHealth, SourceSettings, SourceState, check_settings
from phasegraph.sources.workers import own_loop, pool

Way: TypeAlias = Literal["search", "drive", "task"]
_NOTHING: Upstream = MappingProxyType({})


def cut_note(found: int, limit: int) -> str:
    """What the report says of an answer longer than was asked for."""
    return f"returned {found} hits where {limit} were asked for; the best {limit} were kept"


class Slot:
    """One source within one call."""

    __slots__ = (
        "_left",
        "admitted",
        "begun",
        "cancel",
        "context",
        "depends_on",
        "due",
        "error",
        "function",
        "hits",
        "launched",
        "milliseconds",
        "missing",
        "name",
        "notes",
        "probe",
        "ranking",
        "reason",
        "settings",
        "settled",
        "state",
        "status",
        "upstream",
        "way",
    )  # fmt: skip

    def __init__(
        self, name: str, settings: SourceSettings, state: SourceState, function: Search, way: Way, context: Context
    ) -> None:
        self.name = name
        self.settings = settings
        self.state = state
        self.function = function
        self.way: Way = way
        self.context = context
        self.depends_on = settings.depends_on
        self.upstream = _NOTHING
        self.missing: tuple[str, ...] = ()
        self.admitted = self.launched = self.begun = self.settled = self.probe = self._left = False
        self.due = float("inf")
        self.cancel: Callable[[], None] | None = None
        self.status: Status = "skipped"
        self.reason = ""
        self.notes: tuple[str, ...] = ()
        self.ranking: Ranking | None = None
        self.error: BaseException | None = None
        self.milliseconds = 0.0
        self.hits = 0

    def leave(self) -> None:
        """Note, once, that its search has ended, in time or late."""
        if not self._left:
            self._left = True
            self.state.leave()

    def ranking_from(self, answer: object) -> Ranking:
        """What the source returned, as a ranking of at most as many hits as were asked for."""
        ranking = as_ranking(self.name, answer)
        limit = self.settings.limit
        if limit is None or len(ranking) <= limit:
            return ranking
        self.notes = (cut_note(len(ranking), limit),)
        return best_hits(ranking, limit)

    def report(self) -> SourceReport:
        """Its line of the answer."""
        ranking, error = self.ranking, self.error
        return SourceReport(
            self.name,
            self.status,
            self.reason,
            "" if error is None or self.status == "skipped" else type(error).__name__,
            self.milliseconds,
            self.hits,
            0 if ranking is None else ranking.dropped,
            missing=self.missing,
            notes=self.notes,
        )


Ring: TypeAlias = Callable[[], None]
Outcome: TypeAlias = "Ranking | BaseException"
_LATE_SECONDS, _GRACE_SECONDS_CALL = 0.002, 0.005


class Call:
    """The state of one call over its slots.

    Parameters
    ----------
    query : str
        What is asked.
    slots : sequence of Slot
        In name order.
    timeout : float or None
        Seconds from now.
    begin : callable
        Starts an admitted slot; may raise, which settles the slot.
    ring : callable
        Wakes whoever waits; called from any thread.
    """

    def __init__(
        self,
        query: str,
        slots: Sequence[Slot],
        timeout: float | None,
        begin: Callable[[Call, Slot], None],
        ring: Ring,
    ) -> None:
        self.query = query
        self.slots = slots
        self.finished = False
        self.fatal: BaseException | None = None
        self._by_name: Mapping[str, Slot] = {slot.name: slot for slot in slots}
        self._begin = begin
        self._ring = ring
        self._lock = threading.Lock()
        self._open = len(slots)
        self._excused = 0.0
        self._started = monotonic()
        self._due = float("inf") if timeout is None else self._started + timeout
        self._patience = float("inf") if timeout is None else self._started + timeout / 2.0

    def start(self) -> None:
        """Launch every source whose needs are not to be waited for."""
        for slot in self.slots:
            if not slot.depends_on or all(self._is_settled(need) for need in slot.depends_on):
                self._launch(slot)

    def answer(self, slot: Slot) -> object:
        """Call the source; where it is asynchronous, a coroutine."""
        return slot.function(self.query, slot.settings.limit, slot.upstream)

    def search(self, slot: Slot) -> Outcome:
        """Run the source to its end on this thread; what it raises is the outcome."""
        try:
            return slot.context.run(self._search, slot)
        except BaseException as error:  # noqa: BLE001 - the caller gets it, whatever it is
            return error
        finally:
            slot.leave()

    def _search(self, slot: Slot) -> Ranking:
        return slot.ranking_from(self.answer(slot))

    def settle(self, slot: Slot, outcome: Outcome) -> None:
        """Take a slot's outcome, once; a later one is ignored, but the breaker hears of a trial that ended well."""
        if slot.probe and slot.status == "timeout" and isinstance(outcome, Ranking):
            slot.state.succeeded_late()
        elif isinstance(outcome, Ranking):
            status, reason = found_in(outcome)
            self._settle(slot, status, one_line(reason), outcome, None)
        elif is_fatal(outcome):
            self._fail(slot, outcome)
        else:
            self._settle(slot, "error", reason_of(outcome), None, outcome)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until something is due; None = nothing ever is."""
        due = self._due
        for slot in self.slots:
            if not slot.settled:
                due = min(due, slot.due if slot.launched else self._patience)
        return None if due == float("inf") else max(0.0, max(due, self._excused) - monotonic())

    def advance(self) -> None:
        """Do what has become due: launch sources that waited long enough, give up on late ones."""
        now = monotonic()
        for slot in self.slots:
            if slot.settled:
                continue
            due = min(self._due, slot.due)
            if now >= max(due, self._excused):
                if self._was_held_up(now, due):
                    return
                late = TimeoutError(f"source {slot.name!r} did not answer in time")
                self._settle(slot, "timeout", "no answer within the deadline", None, late)
            elif not slot.launched and now >= self._patience:
                self._launch(slot)

    def _was_held_up(self, now: float, due: float) -> bool:
        """Whether we come late ourselves, for the first time: then answers may lie ready that nobody had time to take.

        A process that gets no processor, or an event loop that something blocks, would else lose healthy sources. For
        a moment from `now` on nobody is given up; what is due later stays due then.
        """
        if self._excused or now - due < _LATE_SECONDS:
            return False
        self._excused = now + _GRACE_SECONDS_CALL
        return True

    def close(self) -> None:
        """Let go of the slots that have not settled: nothing they do later is heard."""
        with self._lock:
            self.finished = True
            left = [slot for slot in self.slots if not slot.settled]
            for slot in left:
                slot.settled = slot.launched = True
        for slot in left:
            slot.state.give_back(probe=slot.probe)
            _cancel(slot)

    def forget(self) -> None:
        """Let go of errors and tasks: their frames hold this call, and a circle waits for the collector."""
        self.fatal = None
        for slot in self.slots:
            slot.error = slot.cancel = None

    def _is_settled(self, name: str) -> bool:
        slot = self._by_name.get(name)
        return slot is None or slot.settled

    def _launch(self, slot: Slot) -> None:
        with self._lock:
            if slot.launched or slot.settled:
                return
            slot.launched = True
        reason, probe = slot.state.enter()
        if reason:
            skipped = PhasegraphError(f"source {slot.name!r} was not asked: {reason}")
            self._settle(slot, "skipped", reason, None, skipped)
            return
        with self._lock:
            gone = slot.settled
            slot.admitted, slot.probe = not gone, probe and not gone
        if gone:
            slot.leave()
            slot.state.give_back(probe=probe)
            return
        if slot.depends_on:
            self._hand_over(slot)
        if slot.settings.timeout is not None:
            slot.due = monotonic() + slot.settings.timeout
        try:
            self._begin(self, slot)
        except BaseException as error:  # noqa: BLE001 - settled as the source's error, or passed through
            slot.leave()
            self.settle(slot, error)

    def _hand_over(self, slot: Slot) -> None:
        upstream: dict[str, Ranking | None] = {}
        for need in slot.depends_on:
            found = self._by_name.get(need)
            upstream[need] = found.ranking if found is not None and found.hits else None
        slot.upstream = MappingProxyType(upstream)
        slot.missing = tuple(need for need in slot.depends_on if upstream[need] is None)

    def _fail(self, slot: Slot, error: BaseException) -> None:
        """End the call with an error that is nobody's to swallow."""
        with self._lock:
            if slot.settled or self.finished:
                return
            self.fatal = error
            self.finished = True
        self._ring()

    def _settle(
        self, slot: Slot, status: Status, reason: str, ranking: Ranking | None, error: BaseException | None
    ) -> None:
        with self._lock:
            if slot.settled or self.finished:
                return
            slot.milliseconds = (monotonic() - self._started) * 1000.0
            slot.status, slot.reason, slot.ranking, slot.error = status, reason, ranking, error
            slot.hits = 0 if ranking is None else len(ranking)
            slot.settled = True
            self._open -= 1
            if error is not None and slot.settings.on_error == "raise":
                self.fatal = error
            over = self.finished = self._open == 0 or self.fatal is not None
        if slot.admitted:
            slot.state.record(succeeded=error is None, probe=slot.probe)
        if status == "timeout":
            _cancel(slot)
        if over:
            self._ring()
        else:
            self._launch_after(slot.name)

    def _launch_after(self, name: str) -> None:
        for slot in self.slots:
            if name in slot.depends_on and not slot.launched and all(map(self._is_settled, slot.depends_on)):
                self._launch(slot)
                if slot.settings.timeout is not None:
                    self._ring()


def _cancel(slot: Slot) -> None:
    if slot.cancel is not None:
        slot.cancel()


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
        """Whether a source could not look, looked only in part, or ran without a ranking that came late."""
        return bool(degradations(self.reports))


def conclude(call: Call, *, raise_if_none: bool, strict: bool) -> Gathered:
    """The outcome of a call that has finished.

    Raises
    ------
    AllSourcesFailed
        If every source failed and `raise_if_none`.
    DegradedError
        If `strict` and anything was degraded.
    """
    causes = {slot.name: slot.error for slot in call.slots if slot.error is not None}
    reports = tuple([slot.report() for slot in call.slots])
    rankings = tuple([slot.ranking for slot in call.slots if slot.ranking is not None and slot.hits])
    fatal = call.fatal
    call.forget()
    if fatal is not None:
        try:
            raise fatal
        finally:
            del fatal
    if len(causes) == len(reports) and raise_if_none:
        raise AllSourcesFailed(causes)
    if strict:
        found = degradations(reports)
        if found:
            listed = "; ".join(f"{name}: {why}" for name, why in found.items())
            raise DegradedError(f"strict=True wants every source to answer in full; got {listed}")
    return Gathered(rankings, reports, MappingProxyType(causes))


OnAllFailed: TypeAlias = Literal["raise", "empty"]
_WITHIN: ContextVar[tuple[int, ...]] = ContextVar("phasegraph_within", default=())


class Gatherer:
    """Asks sources concurrently; remembers between calls how each of them fares.

    Parameters
    ----------
    settings : mapping of str to SourceSettings
        One per source that will ever be asked.
    timeout : float or None, default 10.0
        Seconds a call may take, > 0; None = as long as the sources take.
    on_all_failed : {"raise", "empty"}, default "raise"
        Whether a call in which every source failed raises :class:`~phasegraph.errors.AllSourcesFailed`.
    strict : bool, default False
        Whether any degradation raises :class:`~phasegraph.errors.DegradedError`.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a setting is outside its range, a need is unknown, or needs go round in a circle.

    Notes
    -----
    A call returns within its deadline and 50 ms whatever a source does, except where a coroutine blocks the
    caller's event loop itself (``in_thread=True`` mends that). Each source sees a copy of the caller's context
    variables. A search that outlives its call is left to end by
    itself in a daemon thread and is never heard again; `max_in_flight` and the breaker bound how many there can
    be. ``MemoryError``, ``KeyboardInterrupt``, ``SystemExit`` and cancellations pass through.

    A source that needs another's ranking begins when that one has settled, or after half of the call's deadline,
    and then without it. One gatherer may be used from any number of threads and event loops, and after a fork.

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
        on_all_failed: OnAllFailed = "raise",
        strict: bool = False,
    ) -> None:
        check_seconds("timeout", timeout)
        if on_all_failed not in ("raise", "empty"):
            raise InvalidInputError(f"on_all_failed must be 'raise' or 'empty'; got {on_all_failed!r}")
        if not isinstance(strict, bool):
            raise InvalidTypeError(f"strict must be True or False; got {strict!r}")
        self.settings: Mapping[str, SourceSettings] = MappingProxyType(check_settings(settings))
        self.timeout = timeout
        self.on_all_failed: OnAllFailed = on_all_failed
        self.strict = strict
        self._raise_if_none = on_all_failed == "raise"
        self._renew()

    def _renew(self) -> None:
        self._process = os.getpid()
        self._states = {name: SourceState(one) for name, one in self.settings.items()}

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (dict(self.settings), self.timeout, self.on_all_failed, self.strict)

    def __repr__(self) -> str:
        return f"Gatherer({list(self.settings)}, timeout={self.timeout}, strict={self.strict})"

    @property
    def health(self) -> Mapping[str, SourceHealth]:
        """Per source: searches running now, and the state of its breaker."""
        return {name: state.health for name, state in self._states.items()}

    def gather(self, sources: Mapping[str, AnySource], query: str, *, seconds: float | None = None) -> Gathered:
        """Ask `sources` and wait for them.

        Parameters
        ----------
        sources : mapping of str to Source or AsyncSource
            Those to ask in this call, by a name of `settings`; at least one. A source with only ``asearch`` is
            driven on an event loop of our own.
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
            If every source failed (unless ``on_all_failed="empty"``).
        DegradedError
            If `strict` and a source could not look, or looked only in part.
        InvalidInputError, InvalidTypeError
            If the query is blank, there is no source, or one is not known or not a source.
        """
        bell: SimpleQueue[None] = SimpleQueue()
        call = self._call(sources, query, seconds, lambda: bell.put(None), None)
        try:
            call.start()
            while not call.finished:
                try:
                    bell.get(timeout=call.seconds_left)
                except Empty:
                    call.advance()
        finally:
            call.close()
        return conclude(call, raise_if_none=self._raise_if_none, strict=self.strict)

    async def agather(self, sources: Mapping[str, AnySource], query: str, *, seconds: float | None = None) -> Gathered:
        """Ask `sources` and await them.

        A source whose class defines ``asearch`` is awaited on this event loop (unless ``in_thread``), any other
        runs in a worker. Cancelling the call cancels the coroutines and waits for them.

        Parameters
        ----------
        sources : mapping of str to Source or AsyncSource
            As in :meth:`gather`.
        query : str
            Not blank.
        seconds : float, optional
            As in :meth:`gather`.

        Returns
        -------
        Gathered
            The same as :meth:`gather` gives.

        Raises
        ------
        AllSourcesFailed, DegradedError, InvalidInputError, InvalidTypeError
            As in :meth:`gather`.
        """
        call = await await_call(lambda ring, runner: self._call(sources, query, seconds, ring, runner))
        return conclude(call, raise_if_none=self._raise_if_none, strict=self.strict)

    def _call(
        self,
        sources: Mapping[str, AnySource],
        query: str,
        seconds: float | None,
        ring: Ring,
        runner: TaskRunner | None,
    ) -> Call:
        """The call, not begun; `runner` holds the caller's event loop, where it has one."""
        check_query(query)
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
            raise InvalidInputError("a retriever must not be among its own sources; it was asked from within itself")
        token = _WITHIN.set((*within, id(self)))
        try:
            slots = [self._slot(name, sources[name], runner is not None) for name in sorted(sources)]
        finally:
            _WITHIN.reset(token)

        def begin(call: Call, slot: Slot) -> None:
            if slot.way == "task":
                (runner or OwnTasks()).start(call, slot)
            else:
                run = call.search if slot.way == "search" else partial(run_to_end, call)
                pool().submit(run, call.settle, slot)

        return Call(query, slots, self.timeout if seconds is None else seconds, begin, ring)

    def _slot(self, name: str, source: AnySource, awaits: bool) -> Slot:
        settings = self.settings.get(name)
        if settings is None:
            raise InvalidInputError(f"sources must be among the settings {list(self.settings)}; got {name!r}")
        search, asearch = search_of(source), asearch_of(source)
        context = copy_context()
        state = self._states[name]
        if asearch is not None and not settings.in_thread and (awaits or search is None):
            return Slot(name, settings, state, asearch, "task", context)
        if search is not None:
            return Slot(name, settings, state, search, "search", context)
        if asearch is not None:
            return Slot(name, settings, state, asearch, "drive", context)
        raise InvalidTypeError(f"sources[{name!r}] must have search or asearch; got {type(source).__name__}")


def _rebuild(
    settings: Mapping[str, SourceSettings], timeout: float | None, on_all_failed: OnAllFailed, strict: bool
) -> Gatherer:
    return Gatherer(settings, timeout=timeout, on_all_failed=on_all_failed, strict=strict)
