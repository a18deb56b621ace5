"""What a caller may say about one source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.documents import Document

from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.pipeline.checks import check_count, check_number
from phasegraph.sources import BreakerSettings, SourceSettings
from phasegraph.sources.settings import OnError


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the hits of one source are read.

    Parameters
    ----------
    id_fn : callable, optional
        ``id_fn(document)`` gives the id by which hits of different sources meet. Default: the document's id, then
        the metadata keys ``_id``, ``id``, ``pk``, ``chunk_id``, ``doc_id``, ``source_id``, then a hash of its text.
    score_fn : callable, optional
        ``score_fn(document)`` gives the source's own score.
    score_key : str, optional
        Metadata key that holds the source's own score.
    higher_is_better : bool, optional
        False for distances. Default: known for the store, or inferred once from the order of an answer.
    size : int, optional
        Number of passages the source searches.
    """

    id_fn: Callable[[Document], object] | None = None
    score_fn: Callable[[Document], object] | None = None
    score_key: str | None = None
    higher_is_better: bool | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        for name in ("id_fn", "score_fn"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise InvalidTypeError(f"{name} must be a function of a document or None; got {given!r}")
        if self.score_key is not None and not isinstance(self.score_key, str):
            raise InvalidTypeError(f"score_key must be a metadata key or None; got {self.score_key!r}")
        if self.score_fn is not None and self.score_key is not None:
            raise InvalidInputError("score_fn and score_key must not both be given; got both")
        if self.higher_is_better is not None and not isinstance(self.higher_is_better, bool):
            raise InvalidTypeError(f"higher_is_better must be True, False or None; got {self.higher_is_better!r}")
        if self.size is not None:
            check_count("size", self.size, minimum=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec(Reading):
    """A retriever and how it is asked and read; every field but `retriever` has a default.

    Parameters
    ----------
    retriever : retriever, vector store, runnable or callable
        A ``BaseRetriever``, ``VectorStore``, any ``Runnable`` that returns documents, a source of the core, or a
        function of the query (and, where it takes one, of the limit) that returns documents or (document, score)
        pairs; it may be a coroutine function.
    weight : float, optional
        >= 0; 0 = not fused, and not asked unless another source needs it. Default: by role, or 1 where any other
        source has a weight.
    limit : int or None
        Hits asked for, in place of the retriever's own ``k``; None leaves it alone. Default: the retriever's `limit`.
    deadline : float, optional
        Seconds, from its start.
    on_error : {"skip", "raise"}, default "skip"
    needs : sequence of str, optional
        Sources whose rankings it wants first; handed over as the keyword ``given``.
    resolve : callable, optional
        ``resolve(ids)`` gives the passages of these ids, as a mapping or as documents in the same order; for
        knowledge-graph hits whose `id_fn` names the passage they came from. May be a coroutine function.
    max_in_flight : int, default 256
        Searches of this source that may run at once.
    breaker : BreakerSettings or None
    in_thread : bool, default False
        Run it in a worker even where it is asynchronous: for coroutines that block their event loop.
    id_fn, score_fn, score_key, higher_is_better, size
        See :class:`Reading`.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is outside what is said above; the message names it.
    """

    retriever: Any
    weight: float | None = None
    limit: int | str | None = "default"
    deadline: float | None = None
    on_error: OnError = "skip"
    needs: Sequence[str] | None = None
    resolve: Callable[[Sequence[str]], object] | None = None
    max_in_flight: int = 256
    breaker: BreakerSettings | None = field(default_factory=BreakerSettings)
    in_thread: bool = False

    def __post_init__(self) -> None:
        Reading.__post_init__(self)
        if self.weight is not None:
            check_number("weight", self.weight)
        if isinstance(self.limit, str) and self.limit != "default":
            raise InvalidTypeError(f"limit must be an integer >= 1 or None; got {self.limit!r}")
        if self.resolve is not None and not callable(self.resolve):
            raise InvalidTypeError(f"resolve must be a function of ids or None; got {self.resolve!r}")
        self.settings(None, ())

    def settings(self, limit: int | None, needs: Sequence[str]) -> SourceSettings:
        """The core's settings, with the defaults of the retriever filled in."""
        return SourceSettings(
            limit=limit if isinstance(self.limit, str) else self.limit,
            deadline=self.deadline,
            on_error=self.on_error,
            needs=tuple(needs) if self.needs is None else self.needs,  # type: ignore[arg-type]
            max_in_flight=self.max_in_flight,
            breaker=self.breaker,
            in_thread=self.in_thread,
        )


def as_specs(vector: object, graph: object, retrievers: Mapping[str, object]) -> dict[str, SourceSpec]:
    """Every source by name, in name order.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there is none, a name is blank, or one is given twice.
    """
    found: dict[str, object] = dict(retrievers)
    for name, given in (("vector", vector), ("graph", graph)):
        if given is None:
            continue
        if name in found:
            raise InvalidInputError(f"source names must differ; got {name!r} both as an argument and in retrievers")
        found[name] = given
    if not found:
        raise InvalidInputError("retrievers must hold at least one source (or vector=, graph=); got none")
    for name, given in found.items():
        if not isinstance(name, str) or not name.strip():
            raise InvalidTypeError(f"retrievers must have names that are not blank; got {name!r}")
        if given is None:
            raise InvalidTypeError(f"retrievers[{name!r}] must be a retriever; got None")
    return {
        name: given if isinstance(given, SourceSpec) else SourceSpec(retriever=given)
        for name, given in sorted(found.items())
    }
