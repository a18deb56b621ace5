"""Ask several sources at once and return within the deadline, whatever they do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from types import MappingProxyType

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
from phasegraph.sources.settings import SourceSettings, check_settings
from phasegraph.sources.source_state import SourceHealth, SourceState
from phasegraph.sources.source_task import Mode, SourceTask, asearch_of, search_of

_NOTHING: Upstream = MappingProxyType({})

_CANCEL_SECONDS = 0.02


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
        function, asearch = search_of(source), asearch_of(source)
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
