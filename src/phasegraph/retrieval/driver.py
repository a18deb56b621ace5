"""Run the steps of a call (a flow), synchronously or asynchronously, and define the requests that a flow can yield.

A flow is a generator without I/O. The functions :func:`run` and :func:`arun` carry out its requests, and give each
request the deadline of the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeAlias, TypeVar

from numpy.typing import ArrayLike

from phasegraph._support.clock import FOREVER, NO_DEADLINE, Deadline
from phasegraph.errors import AllSourcesFailed
from phasegraph.ranking import Ranking
from phasegraph.retrieval.access import HitAccess
from phasegraph.retrieval.notices import DeadlineGuard
from phasegraph.sources.gatherer import Gathered, Gatherer
from phasegraph.sources.protocol import AnySource, Upstream
from phasegraph.sources.steps import Step, Tried
from phasegraph.sources.workers import Late, awithin, outcome_of, pool, within

Item = TypeVar("Item")

Sources: TypeAlias = Mapping[str, AnySource]

HALF = 0.5

_GRACE_SECONDS = 0.25


class Request(Protocol):
    """An operation whose outcome a flow (the steps of a call) needs.

    The functions :func:`run` and :func:`arun` carry it out on the caller's thread or event loop.
    """

    def run(self, deadline: Deadline) -> Any:
        """Run the operation on this thread, and return its outcome."""

    async def arun(self, deadline: Deadline) -> Any:
        """Run the operation on the event loop, and return its outcome."""


Flow: TypeAlias = Generator[Request, Any, Item]
"""The type of a call's steps: a generator without I/O that yields requests and receives their outcomes."""


def run(flow: Flow[Item], deadline: Deadline) -> Item:
    """Run a flow (the steps of a call) to the end on this thread, and return its value."""
    error: Exception | None = None
    outcome: Any = None
    try:
        while True:
            request = flow.send(outcome) if error is None else flow.throw(error)
            try:
                outcome, error = request.run(deadline), None
            except Exception as raised:  # noqa: BLE001 - the flow contains it or raises it
                outcome, error = None, raised
    except StopIteration as done:
        made: Item = done.value
        return made
    finally:
        error = outcome = None  # the traceback of a raised error refers to this frame
        flow.close()  # however the call ends, steps that still run are given up now


async def arun(flow: Flow[Item], deadline: Deadline) -> Item:
    """Run a flow (the steps of a call) to the end on the caller's event loop, and return its value."""
    error: Exception | None = None
    outcome: Any = None
    try:
        while True:
            request = flow.send(outcome) if error is None else flow.throw(error)
            try:
                outcome, error = await request.arun(deadline), None
            except Exception as raised:  # noqa: BLE001 - the flow contains it or raises it
                outcome, error = None, raised
    except StopIteration as done:
        made: Item = done.value
        return made
    finally:
        error = outcome = None
        flow.close()


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to ask sources for their rankings."""

    gatherer: Gatherer
    sources: Sources
    query: str

    def run(self, deadline: Deadline) -> Gathered:
        """Ask the sources, and return their rankings and reports."""
        return self.gatherer.gather(self.sources, self.query, seconds=deadline.left())

    async def arun(self, deadline: Deadline) -> Gathered:
        """Ask the sources without blocking the event loop, and return their rankings and reports."""
        return await self.gatherer.agather(self.sources, self.query, seconds=deadline.left())


@dataclass(frozen=True, slots=True)
class Compute:
    """A request to call a slow function in a worker; its methods raise Late if the function misses the deadline."""

    function: Callable[[], Any]
    guard: DeadlineGuard

    def run(self, deadline: Deadline) -> Any:
        """Call `function`, and return its value; with a deadline, a worker calls it."""
        if deadline.due == FOREVER:
            return self.function()
        return within(self.guard.bounded(self.function), deadline)

    async def arun(self, deadline: Deadline) -> Any:
        """Call `function`, and return its value; with a deadline, a worker calls it, so the event loop is free."""
        if deadline.due == FOREVER:
            return self.function()
        return await awithin(self.guard.bounded(self.function), deadline)


@dataclass(frozen=True, slots=True)
class Embed:
    """A request to embed candidates; its methods raise Late at the deadline."""

    access: HitAccess
    ids: Sequence[str]
    rankings: Sequence[Ranking]
    guard: DeadlineGuard

    def run(self, deadline: Deadline) -> ArrayLike:
        """Return the embeddings of the n candidates as an array of shape (n, d)."""
        vectors: ArrayLike = Compute(partial(self.access.vectors, self.ids, self.rankings), self.guard).run(deadline)
        return vectors

    async def arun(self, deadline: Deadline) -> ArrayLike:
        """Return the same embeddings as :meth:`run`, without blocking the event loop."""
        return await self.access.avectors(self.ids, self.rankings, deadline)


@dataclass(frozen=True, slots=True)
class RunStep:
    """A request to run a step, which is a function of the user, within a `share` of the call's remaining time.

    ``read(answer)`` checks and converts the answer of the function. An error of the function is not raised; the outcome
    contains the error.
    """

    step: Step
    arguments: Sequence[Any]
    read: Callable[[Any], Any]
    share: float = 1.0

    def run(self, deadline: Deadline) -> Tried:
        """Run the step on this thread, and return its outcome: a value, or the error that the step raised."""
        return self.step.run(self.arguments, deadline.part(self.share), self.read)

    async def arun(self, deadline: Deadline) -> Tried:
        """Run the step without blocking the event loop, and return its outcome."""
        return await self.step.arun(self.arguments, deadline.part(self.share), self.read)


@dataclass(frozen=True, slots=True)
class Given:
    """A search function that returns a ranking that is already known, for any query."""

    ranking: Ranking

    def __call__(self, query: str, limit: int | None) -> Ranking:
        """Return the known ranking."""
        return self.ranking


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A source that returns the answer of a search that is already running, instead of searching again."""

    source: AnySource
    answer: Callable[[], Any]

    @property
    def notes(self) -> Sequence[str]:
        return getattr(self.source, "notes", ())

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Any:
        return self.answer()


class EarlyGather:
    """A request to ask some sources before the others.

    If the answers are not complete after half of the remaining time, the request raises Late, and the searches
    continue. The sources in :attr:`under_way` then return the answers of these searches.
    """

    __slots__ = ("_gatherer", "_outcome", "_query", "_sources", "_task")

    def __init__(self, gatherer: Gatherer, sources: Sources, query: str) -> None:
        self._gatherer, self._sources, self._query = gatherer, sources, query
        self._outcome: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._task: asyncio.Task[Gathered] | None = None

    def run(self, deadline: Deadline) -> Gathered:
        """Ask the sources, and return their rankings and reports."""
        gather = partial(self._gatherer.gather, self._sources, self._query, seconds=self._seconds(deadline))
        half = deadline.part(HALF)
        if half.due == FOREVER:
            return gather()
        context = copy_context()
        pool().submit(lambda given: context.run(outcome_of, given), lambda _, one: self._outcome.put(one), gather)
        return self._found(half)

    async def arun(self, deadline: Deadline) -> Gathered:
        """Ask the sources without blocking the event loop, and return their rankings and reports."""
        seconds, half = self._seconds(deadline), deadline.part(HALF)
        self._task = asyncio.create_task(self._gatherer.agather(self._sources, self._query, seconds=seconds))
        self._task.add_done_callback(self._ended)
        try:
            await deadline.clock.wait({self._task}, half.due)
        except asyncio.CancelledError:
            self.give_up()
            raise
        if not self._task.done():
            raise Late
        return self._task.result()

    @staticmethod
    def _seconds(deadline: Deadline) -> float | None:
        """Return the remaining seconds plus .25, or None without a deadline.

        Because of the extra time, the later :class:`Ask` request reaches the deadline first, and reports the late
        sources.
        """
        left = deadline.left()
        return None if left is None else left + _GRACE_SECONDS

    def _ended(self, task: asyncio.Task[Gathered]) -> None:
        if task.cancelled():
            self._outcome.put((None, Late()))
        else:
            error = task.exception()
            self._outcome.put((None if error is not None else task.result(), error))

    def _found(self, deadline: Deadline = NO_DEADLINE) -> Gathered:
        try:
            outcome = deadline.clock.get(self._outcome, deadline.due)
        except Empty:
            raise Late from None
        self._outcome.put(outcome)
        found, error = outcome
        if error is not None:
            raise error
        answer: Gathered = found
        return answer

    @property
    def under_way(self) -> Sources:
        """Replacements for the sources, by name, which wait for the searches that are already running."""
        return {name: _UnderWay(source, partial(self._answer, name)) for name, source in self._sources.items()}

    def _answer(self, name: str) -> Any:
        try:
            found = self._found()
        except AllSourcesFailed as error:
            raise error.causes[name] from None
        if name in found.causes:
            raise found.causes[name]
        return next((one for one in found.rankings if one.source == name), ())

    def give_up(self) -> None:
        """Cancel the task of an asynchronous search, if there is one."""
        if self._task is not None:
            self._task.cancel()
