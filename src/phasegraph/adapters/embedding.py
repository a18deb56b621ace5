"""Vectors of candidates, for a selection that weighs redundancy: from the source, else from an embedder."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from numpy.typing import ArrayLike

from phasegraph.candidates import Ranking
from phasegraph.errors import InvalidInputError
from phasegraph.pipeline import Context
from phasegraph.selection import SelectionPolicy
from phasegraph.sources.workers import pool

EmbedTexts: TypeAlias = Callable[[list[str]], ArrayLike]
AwaitTexts: TypeAlias = Callable[[list[str]], Awaitable[ArrayLike]]
VectorOf: TypeAlias = Callable[[Any], "Sequence[float] | None"]


class VectorsWanted(BaseException):
    """Raised in the place of vectors that must be awaited first; no error, so that no handler of errors takes it.

    Parameters
    ----------
    ids : sequence of str
        Candidates whose vectors are wanted.
    """

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__(f"vectors of {len(ids)} candidates")
        self.ids = list(ids)


@dataclass(frozen=True, slots=True)
class Embedding:
    """Where the vectors of a framework's own objects come from.

    Parameters
    ----------
    field : str
        The argument under which the framework's retriever takes an embedder, for errors.
    embed : callable, optional
        ``embed(texts) -> (n, d)``.
    aembed : callable, optional
        The same as a coroutine function, where the embedder has one of its own; else `embed` runs in a worker.
    text_of : callable
        The text of a hit to be embedded, or None.
    vector_of : callable, optional
        The vector that a hit carries, or None. Used where every candidate has one.

    Examples
    --------
    >>> ranking = Ranking.from_hits("v", ["a"], [1.0], payloads={"a": "a text"})
    >>> Embedding("embeddings", embed=lambda texts: [[float(len(text))] for text in texts]).vectors(["a"], [ranking])
    [[6.0]]
    """

    field: str = "embeddings"
    embed: EmbedTexts | None = None
    aembed: AwaitTexts | None = None
    text_of: Callable[[Any], str | None] = str
    vector_of: VectorOf | None = None

    def check(self, selection: SelectionPolicy | None) -> None:
        """Refuse a selection that needs vectors where there can be none."""
        if selection is None or not selection.needs_embeddings:
            return
        if self.embed is None and self.vector_of is None:
            raise InvalidInputError(
                f"selection by {selection.method} needs embeddings: {self.field}=, or context=; got neither"
            )

    def context(self, given: Context, rankings: Sequence[Ranking], *, later: bool = False) -> Context:
        """The context with vectors of the candidates, where it has none of its own.

        Parameters
        ----------
        given : Context
        rankings : sequence of Ranking
            Their payloads are the framework's own objects.
        later : bool
            Raise :class:`VectorsWanted` in place of asking the embedder.

        Raises
        ------
        InvalidInputError
            If there is no embedder, and no hit carries a vector.
        """
        if callable(given.embeddings) or given.embeddings:
            return given
        held = self._carried(rankings)
        if self.embed is None:
            if not held and any(map(len, rankings)):
                raise InvalidInputError(f"selection needs embeddings: {self.field}=, or context=; got neither")
            return replace(given, embeddings=held)

        def vectors(ids: Sequence[str]) -> ArrayLike:
            own = [held[one] for one in ids if one in held]
            if len(own) == len(ids) and len(set(map(len, own))) == 1:
                return own
            if later:
                raise VectorsWanted(ids)
            return self.vectors(ids, rankings)

        return replace(given, embeddings=vectors)

    def _carried(self, rankings: Sequence[Ranking]) -> dict[str, Any]:
        """The vectors that hits carry themselves, by id: of the first source that gives one."""
        found: dict[str, Any] = {}
        if self.vector_of is not None:
            for identifier, hit in (pair for one in rankings for pair in one.payloads.items()):
                vector = None if identifier in found else self.vector_of(hit)
                if vector is not None and len(vector):
                    found[identifier] = vector
        return found

    def vectors(self, ids: Sequence[str], rankings: Sequence[Ranking]) -> ArrayLike:
        """Vectors of the candidates, from the embedder."""
        return () if self.embed is None else self.embed(self._texts(ids, rankings))

    async def avectors(self, ids: Sequence[str], rankings: Sequence[Ranking], seconds: float | None) -> ArrayLike:
        """As :meth:`vectors`, without holding up the event loop; TimeoutError if it takes longer than `seconds`."""
        if self.embed is None:
            return ()
        texts = self._texts(ids, rankings)
        made = in_worker(self.embed, texts) if self.aembed is None else self.aembed(texts)
        return await asyncio.wait_for(made, seconds)

    def _texts(self, ids: Sequence[str], rankings: Sequence[Ranking]) -> list[str]:
        """Text of each candidate, from the first source that has it."""
        payloads = [one.payloads for one in rankings]
        found = []
        for identifier in ids:
            texts = (self.text_of(held[identifier]) for held in payloads if identifier in held)
            found.append(next(filter(None, texts), ""))
        return found


async def in_worker(function: Callable[[Any], Any], argument: object) -> Any:
    """What a plain function gives, on a daemon worker; cancelled, the worker's answer is dropped."""
    loop, context = asyncio.get_running_loop(), copy_context()
    future: asyncio.Future[Any] = loop.create_future()

    def run(given: object) -> tuple[Any, BaseException | None]:
        try:
            return context.run(function, given), None
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            return None, error

    def then(_: object, outcome: tuple[Any, BaseException | None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(_settle, future, outcome)

    pool().submit(run, then, argument)
    return await future


def _settle(future: asyncio.Future[Any], outcome: tuple[Any, BaseException | None]) -> None:
    if future.done():
        return
    value, error = outcome
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
