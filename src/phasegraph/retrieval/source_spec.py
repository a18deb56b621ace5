"""The settings that a user can give for one source of a retriever."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from phasegraph._support.renamed import accepts_old_names
from phasegraph._support.validation import KnownFields, check_choice, check_count, check_number
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.retrieval.stages.rewriting import COMBINATIONS, Combine, Rewriting
from phasegraph.sources.settings import BreakerSettings, OnError, SourceSettings

FieldOf: TypeAlias = str | Callable[[Any], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class HitFields(KnownFields):
    """The settings for reading the id, the score and the passage of a hit, which is a framework's document or node.

    Parameters
    ----------
    id : str or callable, optional
        Metadata key, or ``id(hit)``, of the id that joins hits of different sources. Default: the id that the hit
        carries, then the metadata keys ``_id``, ``id``, ``pk``, ``chunk_id``, ``doc_id``, ``source_id``, then an id
        made from its text.
    score : str or callable, optional
        Metadata key, or ``score(hit)``, of the source's own score. Default: the score that the search returns.
    higher_is_better : bool, optional
        False if a lower score is better, as for distances. Default: the direction known for the class of the store,
        or a direction that is inferred from the order of the source's answers.
    size : int, optional
        Number of passages that the source searches.
    resolve : callable, optional
        ``resolve(ids)`` returns the passages of these ids, as a mapping or as a list in the same order. It is needed
        for hits that have an id but no text. It may be a coroutine function.
    fingerprint : str, optional
        A text that identifies the origin of the scores, such as the model and the store with their versions. If a
        calibrator was fitted under another fingerprint, a warning says so; with ``strict``, it is an error. Default:
        the classes of the store and the embedding model, and the model's name, if the retriever shows them.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field has an invalid value or type; the message names the field.

    Examples
    --------
    >>> HitFields(score="distance", higher_is_better=False).score
    'distance'
    """

    id: FieldOf | None = None
    score: FieldOf | None = None
    higher_is_better: bool | None = None
    size: int | None = None
    resolve: Callable[[Sequence[str]], object] | None = None
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        for name in ("id", "score"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, str) and not callable(given):
                raise InvalidTypeError(f"{name} must be a metadata key or a function of a hit; got {given!r}")
        if self.higher_is_better is not None and not isinstance(self.higher_is_better, bool):
            raise InvalidTypeError(f"higher_is_better must be True, False or None; got {self.higher_is_better!r}")
        if self.size is not None:
            check_count("size", self.size, minimum=1)
        if self.resolve is not None and not callable(self.resolve):
            raise InvalidTypeError(f"resolve must be a function of ids or None; got {self.resolve!r}")
        if self.fingerprint is not None and (not isinstance(self.fingerprint, str) or not self.fingerprint.strip()):
            raise InvalidTypeError(f"fingerprint must be text that is not blank or None; got {self.fingerprint!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution(KnownFields):
    """Settings for running a source: errors, concurrency, circuit breaker and threads.

    Parameters
    ----------
    on_error : {"skip", "raise"}, default "skip"
        ``skip``: if the source fails, answer without it, and report the failure. ``raise``: raise the source's error.
    max_in_flight : int, default 256
        Maximum number of concurrent searches of this source. Searches that continue after the end of their call are
        counted, too. At the maximum, a new search waits; at its timeout, the source is skipped.
    circuit_breaker : BreakerSettings or None
        The conditions under which a failing source is skipped for some time. With None, the source is never skipped.
    in_thread : bool, default False
        Run the source in a worker even if it is asynchronous. Use this for coroutines that block their event loop.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field has an invalid value or type; the message names the field.
    """

    on_error: OnError = "skip"
    max_in_flight: int = 256
    circuit_breaker: BreakerSettings | None = field(default_factory=BreakerSettings)
    in_thread: bool = False

    def __post_init__(self) -> None:
        SourceSettings(
            on_error=self.on_error,
            max_in_flight=self.max_in_flight,
            circuit_breaker=self.circuit_breaker,
            in_thread=self.in_thread,
        )


def check_fetch_k(value: object) -> int | None:
    """Return the value; raise an error unless it is an integer >= 1, or None for the retriever's own number of hits."""
    return None if value is None else check_count("fetch_k", value, minimum=1)


@accepts_old_names
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec(KnownFields):
    """A retriever with the settings for searching it, reading its hits and running it; only `retriever` is required.

    Parameters
    ----------
    retriever : object
        Any object that the fusing retriever accepts as a source.
    weight : float, optional
        Weight of the source in the fusion, >= 0. A source with weight 0 is not fused, and is searched only if another
        source depends on it. Default: 1 if any other source has a weight; otherwise the pipeline sets the weights.
    fetch_k : int or None
        Number of hits to request instead of the retriever's own number; None keeps the retriever's number. Default: the
        `fetch_k` of the retriever that fuses.
    timeout : float, optional
        Maximum duration of the source's search, in seconds.
    depends_on : sequence of str, optional
        Sources whose rankings this source needs first. Default: the dependencies that the retriever declares.
    rewrite : callable, optional
        ``rewrite(query)`` returns the text to search instead of the query, or a list of up to 16 texts. It is a
        function, a coroutine function, or the result of ``hyde``, ``step_back``, ``modality_hyde`` or ``multi_query``.
        It may also be a LangChain runnable or a LlamaIndex query transform. Rewriting may use half of the source's
        time. If rewriting fails, the original query is searched, and the report says so.
    combine : {"single", "union", "rrf"}, optional
        ``single`` searches only the rewritten texts. ``union`` also searches the query, and orders all hits by score.
        If several searches find a hit, the score from the first of these searches counts. ``rrf`` also searches the
        query, and fuses the lists by reciprocal rank. Default: the `combine` setting of the object in `rewrite`;
        ``single`` for a function.
    fields : HitFields
        The fields of a hit that contain its id and score, and related settings.
    execution : Execution
        Settings for errors, concurrency, circuit breaker and threads.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field has an invalid value or type; the message names the field.

    Examples
    --------
    >>> SourceSpec(retriever=len, weight=0.3, fetch_k=20).settings(50, ()).limit
    20
    """

    retriever: Any
    weight: float | None = None
    fetch_k: int | str | None = "default"
    timeout: float | None = None
    depends_on: Sequence[str] | None = None
    rewrite: Any = None
    combine: Combine | None = None
    fields: HitFields = field(default_factory=HitFields)
    execution: Execution = field(default_factory=Execution)

    def __post_init__(self) -> None:
        if self.weight is not None:
            check_number("weight", self.weight)
        if isinstance(self.fetch_k, str) and self.fetch_k != "default":
            raise InvalidTypeError(f"fetch_k must be an integer >= 1 or None; got {self.fetch_k!r}")
        check_fetch_k(None if isinstance(self.fetch_k, str) else self.fetch_k)
        for name, kind in (("fields", HitFields), ("execution", Execution)):
            if not isinstance(getattr(self, name), kind):
                raise InvalidTypeError(f"{name} must be {kind.__name__}(...); got {getattr(self, name)!r:.80}")
        if self.combine is not None:
            check_choice("combine", self.combine, COMBINATIONS)
            if self.rewrite is None:
                raise InvalidInputError(
                    f"combine={self.combine!r} needs rewrite=, whose searches it combines: give rewrite= too"
                )
        self.settings(None, ())

    def settings(self, fetch_k: int | None, depends_on: Sequence[str]) -> SourceSettings:
        """Return the core's settings of the source.

        `fetch_k` and `depends_on` are the defaults for a source that does not set these fields. If the query is
        rewritten, the settings have no limit on hits: the limit then applies to the search of each rewritten text.
        """
        return SourceSettings(
            limit=None if self.rewrite is not None else self.fetch_k_or(fetch_k),
            timeout=self.timeout,
            on_error=self.execution.on_error,
            depends_on=tuple(depends_on) if self.depends_on is None else self.depends_on,  # type: ignore[arg-type]
            max_in_flight=self.execution.max_in_flight,
            circuit_breaker=self.execution.circuit_breaker,
            in_thread=self.execution.in_thread,
        )

    def fetch_k_or(self, default: int | None) -> int | None:
        """Return the number of hits to request: the source's `fetch_k`, or `default` if `fetch_k` is not set."""
        return default if isinstance(self.fetch_k, str) else self.fetch_k

    def rewriting(
        self, name: str, fetch_k: int | None, longest: int | None, adapt: Callable[[Any], Any]
    ) -> Rewriting | None:
        """Return the settings for rewriting the source's queries; None without `rewrite`.

        `name` is the name of the source. `fetch_k` is the number of hits to request if the source sets no number.
        `longest` is the maximum length of a text in characters; None means no limit. ``adapt(rewrite)`` converts a
        framework's object to a function.
        """
        if self.rewrite is None:
            return None
        return Rewriting.of(name, adapt(self.rewrite), self.combine, self.fetch_k_or(fetch_k), self.timeout, longest)


def as_specs(vector: object, graph: object, retrievers: object) -> dict[str, SourceSpec]:
    """Return a :class:`SourceSpec` for every source, by name and in name order.

    Sources in a sequence get the names ``source_1``, ``source_2`` and so on. Raise an error if there is no source, or
    if a name is blank or repeated.

    >>> list(as_specs(len, None, {"bm25": SourceSpec(retriever=len)})), list(as_specs(None, None, [len, len]))
    (['bm25', 'vector'], ['source_1', 'source_2'])
    """
    if retrievers is None:
        found: dict[Any, object] = {}
    elif isinstance(retrievers, Mapping):
        found = dict(retrievers)
    elif isinstance(retrievers, list | tuple):
        found = {f"source_{row}": one for row, one in enumerate(retrievers, start=1)}
    else:
        raise InvalidTypeError(
            "retrievers must be a list of retrievers, or a mapping of names to retrievers; got "
            f"{type(retrievers).__name__}"
        )
    for name, given in (("vector", vector), ("graph", graph)):
        if given is None:
            continue
        if name in found:
            raise InvalidInputError(f"source {name!r} is given twice: as an argument and in retrievers")
        found[name] = given
    if not found:
        raise InvalidInputError("no sources: give vector=, graph= or retrievers=")
    for name, given in found.items():
        if not isinstance(name, str) or not name.strip():
            raise InvalidTypeError(f"retrievers must have names that are not blank; got {name!r}")
        if given is None:
            raise InvalidTypeError(f"retrievers[{name!r}] must be a retriever; got None")
    return {
        name: given if isinstance(given, SourceSpec) else SourceSpec(retriever=given)
        for name, given in sorted(found.items())
    }


def declared_dependencies(name: str, spec: SourceSpec, specs: Mapping[str, SourceSpec]) -> tuple[str, ...]:
    """Return the dependencies that the retriever of source `name` declares, without sources that are not in `specs`.

    The result is empty if `spec` sets `depends_on`, which replaces the declaration.
    """
    declared = getattr(spec.retriever, "depends_on", ())
    if spec.depends_on is not None or not isinstance(declared, list | tuple):
        return ()
    return tuple(one for one in declared if one in specs and one != name)


_GRAPHS = ("EntityGraph", "GraphIndex", "GraphRecords", "Neo4jConnection")


def describe_type(given: object) -> str:
    """Return the type name of an invalid retriever for an error message, with a hint for a graph, a class or a list.

    >>> from phasegraph import FusionPipeline
    >>> describe_type("a question"), describe_type(FusionPipeline())
    ('str', 'phasegraph.FusionPipeline')
    >>> describe_type(FusionPipeline)
    'the class FusionPipeline; give an object of the class: FusionPipeline(...)'
    """
    if isinstance(given, type):
        return f"the class {given.__name__}; give an object of the class: {given.__name__}(...)"
    kind = type(given)
    if isinstance(given, list | tuple):
        return f"{kind.__name__}; give several sources as retrievers="
    if kind.__module__ == "builtins":
        return kind.__name__
    hint = "; make an EntityGraphRetriever of it" if kind.__name__ in _GRAPHS else ""
    hint = "; make a ChunkGraphSource of it" if kind.__name__ == "ChunkGraph" else hint
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}{hint}"
