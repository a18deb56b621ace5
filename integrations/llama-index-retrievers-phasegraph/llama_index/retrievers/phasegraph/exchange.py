"""What a fusing retriever and its own kinds of sources tell each other beside the framework's `retrieve`."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field

from phasegraph import Ranking


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


EXCHANGE: ContextVar[Exchange | None] = ContextVar("phasegraph_llama_index_exchange", default=None)


def take() -> Exchange | None:
    """The exchange of the search that is running, once: retrievers asked further inside do not see it."""
    found = EXCHANGE.get()
    if found is not None:
        EXCHANGE.set(None)
    return found
