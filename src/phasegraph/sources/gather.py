"""Ask all sources at once, and be back in time whatever they do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import Literal, TypeAlias

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.pipeline.checks import check_query
from phasegraph.sources import workers
from phasegraph.sources.agather import await_call
from phasegraph.sources.call import Call, Ring
from phasegraph.sources.gathered import Gathered, conclude
from phasegraph.sources.protocol import AnySource, asearch_of, search_of
from phasegraph.sources.settings import SourceSettings, check_seconds, check_settings
from phasegraph.sources.slot import Slot
from phasegraph.sources.state import SourceHealth, SourceState
from phasegraph.sources.tasks import OwnTasks, TaskRunner, run_to_end

OnAllFailed: TypeAlias = Literal["raise", "empty"]
_WITHIN: ContextVar[tuple[int, ...]] = ContextVar("phasegraph_within", default=())


class Gatherer:
    """Asks sources concurrently; remembers between calls how each of them fares.

    Parameters
    ----------
    settings : mapping of str to SourceSettings
        One per source that will ever be asked.
    deadline : float or None, default 10.0
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
        deadline: float | None = 10.0,
        on_all_failed: OnAllFailed = "raise",
        strict: bool = False,
    ) -> None:
        check_seconds("deadline", deadline)
        if on_all_failed not in ("raise", "empty"):
            raise InvalidInputError(f"on_all_failed must be 'raise' or 'empty'; got {on_all_failed!r}")
        if not isinstance(strict, bool):
            raise InvalidTypeError(f"strict must be True or False; got {strict!r}")
        self.settings: Mapping[str, SourceSettings] = MappingProxyType(check_settings(settings))
        self.deadline = deadline
        self.on_all_failed: OnAllFailed = on_all_failed
        self.strict = strict
        self._raise_if_none = on_all_failed == "raise"
        self._renew()

    def _renew(self) -> None:
        self._process = os.getpid()
        self._states = {name: SourceState(one) for name, one in self.settings.items()}

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (dict(self.settings), self.deadline, self.on_all_failed, self.strict)

    def __repr__(self) -> str:
        return f"Gatherer({list(self.settings)}, deadline={self.deadline}, strict={self.strict})"

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
            What is left of a deadline that began before, > 0; default the whole of `deadline`.

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
                workers.pool().submit(run, call.settle, slot)

        return Call(query, slots, self.deadline if seconds is None else seconds, begin, ring)

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
    settings: Mapping[str, SourceSettings], deadline: float | None, on_all_failed: OnAllFailed, strict: bool
) -> Gatherer:
    return Gatherer(settings, deadline=deadline, on_all_failed=on_all_failed, strict=strict)
