"""The protocol of a source, an object with ``search`` or ``asearch``, and the conversion of its answer."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Protocol, TypeAlias, runtime_checkable

from phasegraph.errors import InvalidInputError, InvalidTypeError, PhasegraphError, text_of
from phasegraph.ranking import Ranking

_MOST_LAZY_HITS = 1_000_000
_LONGEST_REASON = 200


class MalformedAnswerError(InvalidTypeError):
    """The error for a source's answer that cannot be converted to a ranking."""


class FilterRefusedError(InvalidInputError):
    """The error for a source that cannot apply the filter of the call.

    It ends the whole call, because an answer must not contain passages that do not match the filter.
    """


def as_ranking(name: str, value: object) -> Ranking:
    """Convert a source's answer to a ranking; `name` is the name of the source.

    The answer is a ranking, which is returned unchanged, or an iterable of (id, score) pairs, higher is better. Raise
    :class:`MalformedAnswerError` for any other answer.

    Examples
    --------
    >>> as_ranking("v", [("a", 1.0), ("b", float("nan"))]).dropped
    1
    >>> as_ranking("v", None)
    Traceback (most recent call last):
        ...
    phasegraph.sources.protocol.MalformedAnswerError: a source must return a Ranking or (id, score) pairs; got NoneType
    """
    if isinstance(value, Ranking):
        if value.source != name:
            raise MalformedAnswerError(f"the source {name!r} returned a ranking named {value.source!r}; use one name")
        return value if type(value) is Ranking else _plain(value)
    if inspect.iscoroutine(value):
        value.close()
        raise MalformedAnswerError("search returned a coroutine: name the coroutine function asearch")
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise MalformedAnswerError(f"a source must return a Ranking or (id, score) pairs; got {type(value).__name__}")
    ids, scores = _unpack(value)
    try:
        return Ranking.from_hits(name, ids, scores)
    except InvalidInputError as error:
        raise MalformedAnswerError(str(error)) from error


def _plain(value: Ranking) -> Ranking:
    """Copy an object of a subclass to a plain :class:`Ranking`, which has no overridden methods."""
    made: Ranking = Ranking(**{one.name: getattr(value, one.name) for one in fields(Ranking) if one.init})
    return made


def _unpack(value: Iterable[object]) -> tuple[list[str], list[object]]:
    """Return the ids and the scores of (id, score) pairs as two lists; read at most 1,000,000 pairs of an iterator."""
    ids: list[str] = []
    scores: list[object] = []
    is_lazy = not hasattr(value, "__len__")
    try:
        for pair in islice(value, _MOST_LAZY_HITS + 1) if is_lazy else value:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                kind = type(pair).__name__
                shape = f"{kind} of {len(pair)}" if isinstance(pair, tuple | list) else kind
                raise MalformedAnswerError(f"a hit must be a pair (id, score); got {shape} at position {len(ids)}")
            ids.append(pair[0])
            scores.append(pair[1])
    except (MalformedAnswerError, MemoryError):
        raise
    except Exception as error:
        raise MalformedAnswerError(f"the source raised {type(error).__name__} at hit {len(ids) + 1}") from error
    if is_lazy and len(ids) > _MOST_LAZY_HITS:
        raise MalformedAnswerError(f"the source yielded more than {_MOST_LAZY_HITS:,} hits: yield only its best hits")
    return ids, scores


def best_hits(ranking: Ranking, limit: int) -> Ranking:
    """Return the ranking with only its first `limit` hits."""
    raw = ranking.raw if ranking.raw is None else ranking.raw[:limit]
    return replace(ranking, ids=ranking.ids[:limit], scores=ranking.scores[:limit], raw=raw)


def is_fatal(error: BaseException) -> bool:
    """Return True if an error ends the whole call: ``MemoryError``, an interrupt, a cancellation or a refused filter.

    Any other error only removes one source from the answer.
    """
    return isinstance(error, MemoryError | FilterRefusedError) or not isinstance(error, Exception)


def reason_of(error: BaseException) -> str:
    """Return a description of an error that is safe to log: the text of a phasegraph error, else the class name."""
    if not isinstance(error, PhasegraphError):
        return type(error).__name__
    return one_line(text_of(error)) or type(error).__name__


def one_line(text: str) -> str:
    """Return the first line of `text`, cut at 200 characters."""
    if not text:
        return ""
    first = text.splitlines()[0]
    return first if len(first) <= _LONGEST_REASON else first[: _LONGEST_REASON - 1] + "…"


Upstream: TypeAlias = Mapping[str, Ranking | None]
Hits: TypeAlias = Ranking | Iterable[tuple[str, object]]


@runtime_checkable
class Source(Protocol):
    """The protocol of an object that returns a ranking for a query.

    Notes
    -----
    The field `source` of the ranking must be the name of the source in the call. ``search`` may be called from several
    threads at once, and must not change `upstream`.

    Examples
    --------
    >>> isinstance(CallableSource("v", lambda query, limit: []), Source)
    True
    """

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Return the ranking for `query`.

        Parameters
        ----------
        query : str
            The query, which is not blank.
        limit : int or None
            Maximum number of hits; None leaves the number to the source.
        upstream : mapping of str to Ranking or None
            The rankings of the sources in `depends_on`, by name; None if a ranking is not available.

        Returns
        -------
        Ranking
            The hits, best first; an empty ranking if the source found nothing.
        """
        ...


@runtime_checkable
class AsyncSource(Protocol):
    """The protocol of an object that returns a ranking without blocking the event loop; see :class:`Source`."""

    async def asearch(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Return the ranking for `query`; the parameters and the result are those of :meth:`Source.search`."""
        ...


AnySource: TypeAlias = Source | AsyncSource
Search: TypeAlias = Callable[[str, int | None, Upstream], object]


@dataclass(frozen=True, slots=True)
class CallableSource:
    """A source that calls a plain function.

    Parameters
    ----------
    name : str
        The name of the source in a call.
    fn : callable
        ``fn(query, limit)`` returns a :class:`Ranking` or an iterable of (id, score), higher is better.

    Examples
    --------
    >>> CallableSource("v", lambda query, limit: [("a", 0.9), ("b", 0.4)]).search("who?", 50, {}).ids
    ('a', 'b')
    """

    name: str
    fn: Callable[[str, int | None], Hits]

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Call the function, and convert its answer to a ranking."""
        return as_ranking(self.name, self.fn(query, limit))


@dataclass(frozen=True, slots=True)
class AsyncCallableSource:
    """A source that awaits a coroutine function.

    Parameters
    ----------
    name : str
        The name of the source in a call.
    fn : callable
        ``await fn(query, limit)`` returns a :class:`Ranking` or an iterable of (id, score), higher is better.

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

    async def asearch(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Await the coroutine function, and convert its answer to a ranking."""
        return as_ranking(self.name, await self.fn(query, limit))
