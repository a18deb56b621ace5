"""What a fusing retriever and its own kinds of sources tell each other beside the framework's `retrieve`."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from llama_index.core.schema import QueryBundle
from llama_index_instrumentation.dispatcher import active_instrument_tags

from phasegraph import Ranking
from phasegraph.sources import Given


@dataclass(slots=True)
class Exchange:
    """One search of one source.

    Parameters
    ----------
    limit : int or None
        Hits asked for.
    given : mapping of str to Ranking or None
        Rankings of the sources that it needs.
    ranking : Ranking or None
        The source's own ranking, background and evidence included, where it has one to hand back.
    """

    limit: int | None = None
    given: Mapping[str, Ranking | None] = field(default_factory=dict)
    ranking: Ranking | None = None


TAG = "phasegraph_source"
EXCHANGE: ContextVar[Exchange | None] = ContextVar("phasegraph_llama_index_exchange", default=None)


def take() -> Exchange | None:
    """The exchange of the search that is running, once: retrievers asked further inside do not see it."""
    found = EXCHANGE.get()
    if found is not None:
        EXCHANGE.set(None)
    return found


def own_copy(bundle: QueryBundle, query: str) -> QueryBundle:
    """A bundle of one's own: retrievers write their embedding into the one they are given.

    A query that is not the bundle's (a corrected one) gets a plain bundle: what was embedded belongs to the other.
    """
    if query != bundle.query_str:
        return QueryBundle(query)
    texts = bundle.custom_embedding_strs
    return replace(bundle, custom_embedding_strs=None if texts is None else list(texts))


class Asking:
    """Events and spans inside carry the source's name; our own kinds of retrievers find what is asked of them."""

    __slots__ = ("_asked", "_name", "_tags", "_token")

    def __init__(self, name: str, limit: int | None, given: Given) -> None:
        self._name = name
        self._asked = Exchange(limit, given)

    def __enter__(self) -> Exchange:
        self._token = EXCHANGE.set(self._asked)
        self._tags = active_instrument_tags.set({**active_instrument_tags.get(), TAG: self._name})
        return self._asked

    def __exit__(self, *raised: object) -> None:
        active_instrument_tags.reset(self._tags)
        EXCHANGE.reset(self._token)
