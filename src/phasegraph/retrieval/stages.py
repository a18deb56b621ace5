"""What does I/O around deciding: embeddings of candidates; and how hits are read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

from numpy.typing import ArrayLike

from phasegraph._over import OVER, go_on
from phasegraph.errors import InvalidInputError
from phasegraph.lexical import HitWords, read_hits
from phasegraph.pipeline import FusionPipeline
from phasegraph.priors import Context
from phasegraph.ranking import Ranking
from phasegraph.sources.workers import pool

EmbedTexts: TypeAlias = Callable[[list[str]], ArrayLike]
Answered = TypeVar("Answered")
LEAST_SECONDS = 0.02
"""What a step is given though nothing is left, so that one that is quick is not lost to a source that was late."""
LONGEST_TEXT = 200_000
"""Characters of a hit that are looked through for the query's words."""
AwaitTexts: TypeAlias = Callable[[list[str]], Awaitable[ArrayLike]]


def _no_metadata(_: object) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class HitAccess:
    """How to look into a framework's own documents or nodes.

    Parameters
    ----------
    text : callable
        Text of a hit; empty for one that only names its passage.
    metadata : callable
    to_embed : callable, optional
        The text of a hit that is embedded; default `text`.
    vector : callable, optional
        The embedding that a hit carries, or None.
    embed : callable, optional
        ``embed(texts) -> (n, d)``, of the model that one of the sources embeds with.
    aembed : callable, optional
        The same as a coroutine function, where the model has one of its own; else `embed` runs in a worker.
    """

    text: Callable[[Any], str] = str
    metadata: Callable[[Any], Mapping[str, Any]] = _no_metadata
    to_embed: Callable[[Any], str] | None = None
    vector: Callable[[Any], Sequence[float] | None] | None = None
    embed: EmbedTexts | None = None
    aembed: AwaitTexts | None = None

    def check(self, pipeline: FusionPipeline) -> None:
        """Refuse a selection that needs embeddings where there can be none."""
        policy = pipeline.selection
        if policy is not None and policy.needs_embeddings and self.embed is None and self.vector is None:
            raise InvalidInputError(
                f"selection by {policy.method} needs embeddings of the candidates, and no source has an embedding "
                "model: use a vector store that has one, or a selection without redundancy"
            )

    def carried(self, ids: Sequence[str], rankings: Sequence[Ranking]) -> list[Any] | None:
        """The embeddings that hits carry themselves, if all of them do and agree on their length."""
        if self.vector is None:
            return None
        found = []
        for identifier in ids:
            vectors = (self.vector(one.payloads[identifier]) for one in rankings if identifier in one.payloads)
            found.append(next((vector for vector in vectors if vector is not None and len(vector)), None))
        known = [len(vector) for vector in found if vector is not None]
        return found if len(known) == len(ids) and len(set(known)) == 1 else None

    def texts(self, ids: Sequence[str], rankings: Sequence[Ranking]) -> list[str]:
        """The text of each candidate, from the first source that has it."""
        read, found = self.to_embed or self.text, []
        for identifier in ids:
            texts = (read(one.payloads[identifier]) for one in rankings if identifier in one.payloads)
            found.append(next(filter(None, texts), ""))
        return found

    def context(self, query: str) -> Context:
        """What deciding may look at: the query, the time, and how to read the hits."""
        return Context(query=query, now=time.time(), metadata_of=self.metadata, text_of=self.text)

    def words(self, query: str, rankings: Sequence[Ranking]) -> HitWords:
        """What the texts of the hits, and their titles, say about the query's words."""

        def text(identifier: str) -> str:
            go_on()
            for hit in (one.payloads[identifier] for one in rankings if identifier in one.payloads):
                held, title = self.text(hit)[:LONGEST_TEXT], self.metadata(hit).get("title")
                if held:
                    return f"{title}\n{held}" if isinstance(title, str) and not held.startswith(f"{title}\n") else held
            return ""

        return read_hits(query, rankings, text)

    def vectors(self, ids: Sequence[str], rankings: Sequence[Ranking]) -> ArrayLike:
        """Embeddings of the candidates: their own, else from the model.

        Raises
        ------
        InvalidInputError
            If there is no model, and not every hit carries an embedding.
        """
        carried = self.carried(ids, rankings)
        if carried is not None:
            return carried
        if self.embed is None:
            raise InvalidInputError(
                "selection needs embeddings: no source has an embedding model, and not all hits one"
            )
        return self.embed(self.texts(ids, rankings))

    async def avectors(self, ids: Sequence[str], rankings: Sequence[Ranking], seconds: float | None) -> ArrayLike:
        """As :meth:`vectors`, without holding up the event loop; TimeoutError if it takes longer than `seconds`."""
        if self.embed is None or self.carried(ids, rankings) is not None:
            return self.vectors(ids, rankings)
        texts = self.texts(ids, rankings)
        made = in_thread(self.embed, texts) if self.aembed is None else self.aembed(texts)
        return await asyncio.wait_for(made, seconds)


class Late(TimeoutError):  # noqa: N818 - not an error: what was wanted did not come in time
    """A step of a call took longer than the call had left."""


def within(function: Callable[[], Answered], seconds: float) -> Answered:
    """What a plain function gives, on a daemon worker; Late if it takes longer, and then its answer is dropped."""
    answered: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
    context, over = copy_context(), list[bool]()
    context.run(OVER.set, over)

    pool().submit(lambda given: context.run(_outcome, given), lambda _, outcome: answered.put(outcome), function)
    try:
        value, error = answered.get(timeout=max(seconds, LEAST_SECONDS))
    except Empty:
        over.append(True)
        raise Late from None
    if error is not None:
        raise error
    found: Answered = value
    return found


async def awithin(function: Callable[[], Answered], seconds: float) -> Answered:
    """As :func:`within`, without holding up the event loop."""
    over = list[bool]()

    def step() -> Answered:
        OVER.set(over)
        return function()

    try:
        value, error = await asyncio.wait_for(in_thread(_outcome, step), max(seconds, LEAST_SECONDS))
    except TimeoutError:
        raise Late from None
    finally:
        over.append(True)
    if error is not None:
        raise error
    found: Answered = value
    return found


def _outcome(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return function(), None
    except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
        return None, error


async def in_thread(function: Callable[[Any], Any], argument: object) -> Any:
    """What a plain function gives, on a daemon worker; cancelled, the worker's answer is dropped."""
    loop, context = asyncio.get_running_loop(), copy_context()
    future: asyncio.Future[Any] = loop.create_future()

    def then(_: object, outcome: tuple[Any, BaseException | None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(_settle, future, outcome)

    pool().submit(lambda given: context.run(_outcome, given), then, partial(function, argument))
    return await future


def _settle(future: asyncio.Future[Any], outcome: tuple[Any, BaseException | None]) -> None:
    if future.done():
        return
    value, error = outcome
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
