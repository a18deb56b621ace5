"""What a caller may say about one source of a framework's retriever."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.pipeline.checks import check_count, check_number
from phasegraph.sources import BreakerSettings, SourceSettings
from phasegraph.sources.settings import OnError


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the hits of one source are read.

    Parameters
    ----------
    id_fn : callable, optional
        ``id_fn(hit)`` gives the id by which hits of different sources meet; a hit is the framework's own document or
        node. Default: the id it carries, then the metadata keys ``_id``, ``id``, ``pk``, ``chunk_id``, ``doc_id``,
        ``source_id``, then a hash of its text.
    score_fn : callable, optional
        ``score_fn(hit)`` gives the source's own score.
    score_key : str, optional
        Metadata key that holds the source's own score.
    higher_is_better : bool, optional
        False for distances. Default: known for the store, or inferred once from the order of an answer.
    size : int, optional
        Number of passages the source searches.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is outside what is said above; the message names it.
    """

    id_fn: Callable[[Any], object] | None = None
    score_fn: Callable[[Any], object] | None = None
    score_key: str | None = None
    higher_is_better: bool | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        for name in ("id_fn", "score_fn"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise InvalidTypeError(f"{name} must be a function of a hit or None; got {given!r}")
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
    retriever : object
        Whatever the framework's retriever takes as a source.
    weight : float, optional
        >= 0; 0 = not fused, and not asked unless another source needs it. Default: by role, or 1 where any other
        source has a weight.
    limit : int or None
        Hits asked for, in place of the retriever's own number; None leaves it alone. Default: the `limit` of the
        retriever that fuses.
    deadline : float, optional
        Seconds, from its start.
    on_error : {"skip", "raise"}, default "skip"
    needs : sequence of str, optional
        Sources whose rankings it wants first.
    resolve : callable, optional
        ``resolve(ids)`` gives the passages of these ids, as a mapping or in the same order; for knowledge-graph hits
        whose ids name the passages they came from. May be a coroutine function.
    max_in_flight : int, default 256
        Searches of this source that may run at once.
    breaker : BreakerSettings or None
    in_thread : bool, default False
        Run it in a worker even where it is asynchronous: for coroutines that block their event loop.
    fingerprint : str, optional
        What gives its scores, such as model and store with their versions: what was fitted to scores of another is
        warned about, and refused when strict. Default: the classes of its store and embedding model and the model's
        name, as far as they can be read from it.
    id_fn, score_fn, score_key, higher_is_better, size
        See :class:`Reading`.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is outside what is said above; the message names it.

    Examples
    --------
    >>> SourceSpec(retriever=len, weight=0.3, limit=20).settings(50, ()).limit
    20
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
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        Reading.__post_init__(self)
        if self.weight is not None:
            check_number("weight", self.weight)
        if isinstance(self.limit, str) and self.limit != "default":
            raise InvalidTypeError(f"limit must be an integer >= 1 or None; got {self.limit!r}")
        if self.resolve is not None and not callable(self.resolve):
            raise InvalidTypeError(f"resolve must be a function of ids or None; got {self.resolve!r}")
        if self.fingerprint is not None and (not isinstance(self.fingerprint, str) or not self.fingerprint.strip()):
            raise InvalidTypeError(f"fingerprint must be text that is not blank or None; got {self.fingerprint!r}")
        self.settings(None, ())

    def settings(self, limit: int | None, needs: Sequence[str]) -> SourceSettings:
        """The core's settings, with the defaults of the retriever that fuses filled in."""
        return SourceSettings(
            limit=limit if isinstance(self.limit, str) else self.limit,
            deadline=self.deadline,
            on_error=self.on_error,
            needs=tuple(needs) if self.needs is None else self.needs,  # type: ignore[arg-type]
            max_in_flight=self.max_in_flight,
            breaker=self.breaker,
            in_thread=self.in_thread,
        )


def as_specs(vector: object, graph: object, retrievers: Mapping[str, object] | None) -> dict[str, SourceSpec]:
    """Every source by name, in name order.

    Parameters
    ----------
    vector, graph : retriever or SourceSpec, optional
        The sources of these names.
    retrievers : mapping of str to the same, optional

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there is none, a name is blank, or one is given twice.

    Examples
    --------
    >>> list(as_specs(len, None, {"lexical": SourceSpec(retriever=len)}))
    ['lexical', 'vector']
    """
    if retrievers is not None and not isinstance(retrievers, Mapping):
        raise InvalidTypeError(f"retrievers must be a mapping of names to retrievers; got {type(retrievers).__name__}")
    found: dict[str, object] = dict(retrievers or {})
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
