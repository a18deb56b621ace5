"""What a source is: an object with ``search``, or ``asearch``, or both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from phasegraph.candidates import Ranking
from phasegraph.sources.answers import as_ranking

Given: TypeAlias = Mapping[str, Ranking | None]
Hits: TypeAlias = Ranking | Iterable[tuple[str, object]]


@runtime_checkable
class Source(Protocol):
    """What returns a ranking for a query.

    Notes
    -----
    The ranking carries the name the source is registered under. ``search`` may be called from several threads
    at once. It must not change `given`.

    Examples
    --------
    >>> isinstance(CallableSource("v", lambda query, limit: []), Source)
    True
    """

    def search(self, query: str, limit: int | None, given: Given) -> Ranking:
        """The ranking for `query`.

        Parameters
        ----------
        query : str
            Not blank.
        limit : int or None
            The most hits wanted; None leaves it to the source.
        given : mapping of str to Ranking or None
            The rankings this source asked for (its `needs`); None = there is none to be had.

        Returns
        -------
        Ranking
            With any number of hits; none at all means that nothing was found.
        """
        ...


@runtime_checkable
class AsyncSource(Protocol):
    """What returns a ranking for a query without blocking an event loop; see :class:`Source`."""

    async def asearch(self, query: str, limit: int | None, given: Given) -> Ranking:
        """The ranking for `query`; parameters and result as in :meth:`Source.search`."""
        ...


AnySource: TypeAlias = Source | AsyncSource
Search: TypeAlias = Callable[[str, int | None, Given], object]


@dataclass(frozen=True, slots=True)
class CallableSource:
    """A plain function as a source.

    Parameters
    ----------
    name : str
        The name it is registered under.
    fn : callable
        ``fn(query, limit)`` returns a :class:`Ranking` or an iterable of (id, score), higher is better.

    Examples
    --------
    >>> CallableSource("v", lambda query, limit: [("a", 0.9), ("b", 0.4)]).search("who?", 50, {}).ids
    ('a', 'b')
    """

    name: str
    fn: Callable[[str, int | None], Hits]

    def search(self, query: str, limit: int | None, given: Given) -> Ranking:
        """Call the function; its answer as a ranking."""
        return as_ranking(self.name, self.fn(query, limit))


@dataclass(frozen=True, slots=True)
class AsyncCallableSource:
    """A plain coroutine function as a source.

    Parameters
    ----------
    name : str
        The name it is registered under.
    fn : callable
        ``await fn(query, limit)`` gives a :class:`Ranking` or an iterable of (id, score), higher is better.

    Examples
    --------
    >>> import asyncio
    >>> async def look_up(query, limit):
    ...     return [("a", 0.9)]
    >>> asyncio.run(AsyncCallableSource("v", look_up).asearch("who?", 50, {})).ids
    ('a',)
    """

    name: str
    fn: Callable[[str, int | None], Awaitable[Hits]]

    async def asearch(self, query: str, limit: int | None, given: Given) -> Ranking:
        """Await the function; its answer as a ranking."""
        return as_ranking(self.name, await self.fn(query, limit))


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
