"""Ask several sources at once, and return within the deadline even if sources fail or hang."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Empty, SimpleQueue
from types import MappingProxyType

from phasegraph._support.clock import CLOCK, Clock
from phasegraph._support.shared import OVER
from phasegraph._support.validation import LONGEST_QUERY, check_count, check_flag, check_query, check_seconds
from phasegraph.errors import (
    AllSourcesFailed,
    DegradedError,
    InvalidInputError,
    InvalidTypeError,
    PhasegraphError,
    PhasegraphWarning,
    blame,
    warn,
)
from phasegraph.ranking import Ranking
from phasegraph.reports import SourceReport, degradations
from phasegraph.sources.gathering import GatherState, TaskRunner, Wakeup, keep
from phasegraph.sources.protocol import AnySource, Upstream
from phasegraph.sources.settings import CALL_TIMEOUT, SourceSettings, check_settings
from phasegraph.sources.source_state import SourceHealth, SourceState
from phasegraph.sources.source_task import Mode, SourceTask, asearch_of, search_of
from phasegraph.sources.workers import CALLER_LOOP

_NOTHING: Upstream = MappingProxyType({})

_CANCEL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Gathered:
    """The answers of the sources to one query, in name order.

    Parameters
    ----------
    rankings : tuple of Ranking
        The rankings of the sources that returned at least one hit.
    reports : tuple of SourceReport
        The reports of all sources of the call.
    causes : mapping of str to BaseException
        The errors of the failed sources, by name. A missed deadline is a ``TimeoutError``. A skipped source has a
        :class:`~phasegraph.errors.PhasegraphError`.
    """

    rankings: tuple[Ranking, ...]
    reports: tuple[SourceReport, ...]
    causes: Mapping[str, BaseException] = field(default_factory=dict, repr=False)

    @property
    def degraded(self) -> bool:
        """True if a source failed, was skipped, has unusable hits, or ran without a ranking on which it depends."""
        return bool(degradations(self.reports))


_WITHIN: ContextVar[tuple[int, ...]] = ContextVar("phasegraph_within", default=())


class Gatherer:
    """An object that asks sources concurrently, and remembers the health of each source between calls.

    Parameters
    ----------
    settings : mapping of str to SourceSettings
        The settings of all sources that any call will ask, by name.
    timeout : float or None, default 10.0
        Maximum duration of a call in seconds, > 0; None waits for all sources without a limit.
    strict : bool, default False
        If True, any degradation raises :class:`~phasegraph.errors.DegradedError`.
    max_query_length : int or None, default 20000
        Maximum length of a query in characters, >= 1; None means no limit.
    clock : Clock, optional
        The clock of all deadlines and breakers. Default: the monotonic clock of the machine. A test passes a
        :class:`phasegraph.testing.ManualClock`.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a setting is invalid, or `depends_on` contains an unknown source or a cycle of dependencies.

    Notes
    -----
    A call returns at most 50 ms after its deadline, even if a source hangs. The exception is a coroutine that blocks
    the caller's event loop; set ``in_thread=True`` for such a source. A search that misses the deadline continues in a
    daemon thread, and its answer is dropped. `max_in_flight` and the circuit breaker limit the number of such searches.
    ``MemoryError``, ``KeyboardInterrupt``, ``SystemExit`` and cancellations are raised to the caller. Each source gets
    a copy of the caller's context variables. A source with `depends_on` begins when the sources named there have
    answered or failed. After half of the call's timeout, it begins without the missing rankings. A gatherer may be used
    from any number of threads and event loops, and after a fork.

    A change in the state of a source causes one :class:`~phasegraph.errors.PhasegraphWarning` and one message on the
    logger ``phasegraph``. The changes are: the source begins to fail, its circuit breaker opens, all its hits are
    unusable, it is busy, or it answers again. The source's error is the ``__cause__`` of the warning. The warning is
    given at the end of a call. If a warning filter turns the warning into an error, this call raises the error; later
    calls answer again. If a call ends in another error, the warning becomes a note of that error.

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
        timeout: float | None = CALL_TIMEOUT,
        strict: bool = False,
        max_query_length: int | None = LONGEST_QUERY,
        clock: Clock = CLOCK,
    ) -> None:
        check_seconds("timeout", timeout)
        if max_query_length is not None:
            check_count("max_query_length", max_query_length, minimum=1)
        self.max_query_length = max_query_length
        self.settings: Mapping[str, SourceSettings] = MappingProxyType(check_settings(settings))
        self.timeout = timeout
        self.clock = clock
        self.strict = check_flag("strict", strict)
        self._identity = object()  # what the gatherers of at_least() share
        self._renew()

    def at_least(self, count: int, names: Collection[str]) -> Gatherer:
        """Return a gatherer that requests at least `count` hits from the sources `names`.

        It shares the health of all sources with this gatherer. A source without a limit still has none.
        """
        if self._process != os.getpid():
            self._renew()
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.settings = MappingProxyType(
            {
                name: replace(one, limit=max(one.limit, count)) if one.limit is not None and name in names else one
                for name, one in self.settings.items()
            }
        )
        return made

    def _renew(self) -> None:
        self._process = os.getpid()
        self._states = {name: SourceState(name, one) for name, one in self.settings.items()}

    def __reduce__(self) -> tuple[object, ...]:
        options = {name: getattr(self, name) for name in ("timeout", "strict", "max_query_length", "clock")}
        return partial(Gatherer, **options), (dict(self.settings),)

    def __repr__(self) -> str:
        return f"Gatherer({list(self.settings)}, timeout={self.timeout}, strict={self.strict})"

    @property
    def health(self) -> Mapping[str, SourceHealth]:
        """The number of running searches and the state of the circuit breaker of each source, by name."""
        return {name: state.health for name, state in self._states.items()}

    def gather(self, sources: Mapping[str, AnySource], query: str, *, seconds: float | None = None) -> Gathered:
        """Ask `sources`, and wait for their answers.

        Parameters
        ----------
        sources : mapping of str to Source or AsyncSource
            The sources of this call, by their names in `settings`; at least one. A source with only ``asearch`` runs on
            an event loop in a daemon thread. If a source has an attribute ``notes``, a list of texts, these texts are
            added to the source's report.
        query : str
            The query, which must not be blank.
        seconds : float, optional
            Maximum duration of this call in seconds, > 0. Default: `timeout`.

        Returns
        -------
        Gathered
            The rankings, reports and errors of the sources.

        Raises
        ------
        AllSourcesFailed
            If every source failed.
        DegradedError
            If the answer is degraded and `strict` is True.
        InvalidInputError, InvalidTypeError
            If the query is blank or too long, no source is given, or a source is unknown or has no search method.
        """
        woken: SimpleQueue[None] = SimpleQueue()
        state = self._prepare(sources, query, seconds, lambda: woken.put(None), None)
        try:
            state.start()
            while not state.finished:
                try:
                    self.clock.get(woken, state.due)
                except Empty:
                    state.advance()
        finally:
            state.close()
        return self._finish(state)

    async def agather(self, sources: Mapping[str, AnySource], query: str, *, seconds: float | None = None) -> Gathered:
        """Ask `sources` as :meth:`gather` does, without blocking the event loop.

        The parameters, the result and the errors are those of :meth:`gather`. If a source has ``asearch``, it is
        awaited on this event loop, unless ``in_thread`` is set. Other sources run in worker threads. Canceling the
        call cancels the coroutines, and waits at most 20 ms for them.
        """
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[None]] = []
        wakeup = Wakeup(loop, self.clock)
        state = self._prepare(sources, query, seconds, wakeup.set, TaskRunner(loop, tasks.append))
        try:
            state.start()
            while not state.finished:
                if not await wakeup.wait(state.due):
                    state.advance()
        finally:
            state.close()
            left = [task for task in tasks if not task.done()]
            if left:  # wait only briefly, because a task that ignores its cancellation must not delay the caller
                await self.clock.wait(left, self.clock.now() + _CANCEL_SECONDS)
                for task in left:
                    if not task.done():
                        keep(task)
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
            raise InvalidInputError("sources is empty: give at least one source")
        if self._process != os.getpid():
            self._renew()
        within = _WITHIN.get()
        if id(self._identity) in within:
            raise InvalidInputError(
                "the retriever contains itself, directly or through another retriever: remove it from its own sources"
            )
        token = _WITHIN.set((*within, id(self._identity)))
        try:
            loop = None if runner is None else runner.loop
            tasks = [self._task(name, sources[name], loop) for name in sorted(sources)]
        finally:
            _WITHIN.reset(token)
        return GatherState(query, tasks, self.timeout if seconds is None else seconds, self.clock, wake, runner)

    def _task(self, name: str, source: AnySource, loop: asyncio.AbstractEventLoop | None) -> SourceTask:
        settings = self.settings.get(name)
        if settings is None:
            raise InvalidInputError(f"source {name!r} has no settings; settings are given for {list(self.settings)}")
        function, asearch = search_of(source), asearch_of(source)
        mode: Mode = "search"
        if asearch is not None and not settings.in_thread and (loop is not None or function is None):
            function, mode = asearch, "task"
        elif function is None:
            function, mode = asearch, "drive"
        if function is None:
            raise InvalidTypeError(f"sources[{name!r}] must have search or asearch; got {type(source).__name__}")
        context, over = copy_context(), list[bool]()
        context.run(OVER.set, over)
        context.run(CALLER_LOOP.set, loop)
        return SourceTask(name, source, settings, self._states[name], function, mode, context, _NOTHING, over)

    def _finish(self, state: GatherState) -> Gathered:
        """Return the answer of a finished call, or raise the error that ended it."""
        tasks, fatal = state.tasks, state.fatal
        if fatal is not None:
            state.forget()
            try:
                raise fatal
            finally:
                del fatal  # its traceback refers to this frame
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
    """Log and warn about sources that began to fail or recovered; `error` is the error that ends the call, or None."""
    for task in tasks:
        while task.state.notices:
            try:
                condition, text, cause = task.state.notices.popleft()
            except IndexError:  # a concurrent call has taken the last notice
                break
            try:
                warn(text, cause=cause)
            except PhasegraphWarning as raised:
                if error is not None:
                    error.add_note(str(raised))
                elif condition != "answering":  # a recovered source must not make the call fail
                    raise
