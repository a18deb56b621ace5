"""What a caller may say about the sources of a retriever, and whether it fits together."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from phasegraph._validation import KnownFields, check_choice, check_count, check_number
from phasegraph.errors import DegradedError, InvalidInputError, InvalidTypeError, warn
from phasegraph.pipeline import FusionPipeline, check_weights_mapping
from phasegraph.priors import EXACT_MATCH
from phasegraph.ranking import RERANK
from phasegraph.retrieval.rewriting import COMBINATIONS, Combine, Rewriting
from phasegraph.sources.settings import BreakerSettings, OnError, SourceSettings

FieldOf: TypeAlias = str | Callable[[Any], object]
Weights: TypeAlias = Mapping[str, float] | Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class HitFields(KnownFields):
    """Where the fields of a hit are found; a hit is the framework's own document or node.

    Parameters
    ----------
    id : str or callable, optional
        Metadata key, or ``id(hit)``, of the id by which hits of different sources meet. Default: the id that the hit
        carries, then the metadata keys ``_id``, ``id``, ``pk``, ``chunk_id``, ``doc_id``, ``source_id``, then its
        text.
    score : str or callable, optional
        Metadata key, or ``score(hit)``, of the source's own score. Default: what its search gives.
    higher_is_better : bool, optional
        False for distances. Default: known for the store, or inferred from the order of the answers so far.
    size : int, optional
        Number of passages the source searches.
    resolve : callable, optional
        ``resolve(ids)`` gives the passages of these ids, as a mapping or in the same order, for hits whose ids name
        passages that they do not hold. May be a coroutine function.
    fingerprint : str, optional
        What gives the scores, such as model and store with their versions: calibrators that were fitted to scores of
        another are warned about, and refused when strict. Default: the classes of store and embedding model and the
        model's name, as far as they can be read from the retriever.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is outside what is said above; the message names it.

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
    """How a source is run.

    Parameters
    ----------
    on_error : {"skip", "raise"}, default "skip"
        Go on without the source and report it, or raise its own error.
    max_in_flight : int, default 256
        Searches of this source that may run at once, those that outlived their call included; a further one waits its
        turn within its timeout, then the source is skipped as busy.
    circuit_breaker : BreakerSettings or None
        When to stop asking a source that keeps failing; None = always ask.
    in_thread : bool, default False
        Run it in a worker even where it is asynchronous: for coroutines that block their event loop.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is outside what is said above; the message names it.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec(KnownFields):
    """A retriever and how it is asked, read and run; every field but `retriever` has a default.

    Parameters
    ----------
    retriever : object
        Whatever the framework's retriever takes as a source.
    weight : float, optional
        >= 0; 0 = not fused, and not asked unless another source depends on it. Default: by role, or 1 where any
        other source has a weight.
    limit : int or None
        Hits asked for, in place of the retriever's own number; None leaves that alone. Default: the `limit` of the
        retriever that fuses.
    timeout : float, optional
        Seconds, from its start.
    depends_on : sequence of str, optional
        Sources whose rankings it wants first. Default: what the retriever itself declares.
    rewrite : callable, optional
        ``rewrite(query)`` gives the text to ask in place of the query, or a list of up to 16; plain or a coroutine
        function, what ``hyde``, ``step_back``, ``modality_hyde`` and ``multi_query`` make, a runnable of LangChain or a
        query transform of LlamaIndex. It may take half of the source's time; where it fails, the query is asked as it
        is, and the report says so.
    combine : {"single", "union", "rrf"}, optional
        Ask what `rewrite` gives alone; the query too, a hit of several having the score of the first, in the order of
        the scores; or the query too, by reciprocal rank. Default: what `rewrite` was made for, else ``single``.
    fields : HitFields
    execution : Execution

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
    timeout: float | None = None
    depends_on: Sequence[str] | None = None
    rewrite: Any = None
    combine: Combine | None = None
    fields: HitFields = field(default_factory=HitFields)
    execution: Execution = field(default_factory=Execution)

    def __post_init__(self) -> None:
        if self.weight is not None:
            check_number("weight", self.weight)
        if isinstance(self.limit, str) and self.limit != "default":
            raise InvalidTypeError(f"limit must be an integer >= 1 or None; got {self.limit!r}")
        for name, kind in (("fields", HitFields), ("execution", Execution)):
            if not isinstance(getattr(self, name), kind):
                raise InvalidTypeError(f"{name} must be {kind.__name__}(...); got {getattr(self, name)!r:.80}")
        if self.combine is not None:
            check_choice("combine", self.combine, COMBINATIONS)
            if self.rewrite is None:
                raise InvalidInputError("combine= says how rewritten queries are joined: give rewrite= too")
        self.settings(None, ())

    def settings(self, limit: int | None, depends_on: Sequence[str]) -> SourceSettings:
        """The core's settings, with the defaults of the retriever that fuses filled in.

        The limit is that of each text that is asked where the query is rewritten, and of no more than those.
        """
        return SourceSettings(
            limit=None if self.rewrite is not None else self.limit_or(limit),
            timeout=self.timeout,
            on_error=self.execution.on_error,
            depends_on=tuple(depends_on) if self.depends_on is None else self.depends_on,  # type: ignore[arg-type]
            max_in_flight=self.execution.max_in_flight,
            circuit_breaker=self.execution.circuit_breaker,
            in_thread=self.execution.in_thread,
        )

    def limit_or(self, limit: int | None) -> int | None:
        """Hits asked for, `limit` where it says nothing."""
        return limit if isinstance(self.limit, str) else self.limit

    def rewriting(
        self, name: str, limit: int | None, longest: int | None, adapt: Callable[[Any], Any]
    ) -> Rewriting | None:
        """How its queries are rewritten, `adapt` making a function of what a framework has for that."""
        if self.rewrite is None:
            return None
        return Rewriting.of(name, adapt(self.rewrite), self.combine, self.limit_or(limit), self.timeout, longest)


def as_specs(vector: object, graph: object, retrievers: object) -> dict[str, SourceSpec]:
    """Every source by name, in name order; those of a sequence are ``source_1``, ``source_2`` and so on.

    An error if there is none, a name is blank, or one is given twice.

    >>> list(as_specs(len, None, {"lexical": SourceSpec(retriever=len)})), list(as_specs(None, None, [len, len]))
    (['lexical', 'vector'], ['source_1', 'source_2'])
    """
    if retrievers is None:
        found: dict[Any, object] = {}
    elif isinstance(retrievers, Mapping):
        found = dict(retrievers)
    elif isinstance(retrievers, list | tuple):
        found = {f"source_{row}": one for row, one in enumerate(retrievers, start=1)}
    else:
        raise InvalidTypeError(
            f"retrievers must be a list of retrievers, or a mapping of names to them; got {type(retrievers).__name__}"
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


def check_weights(given: object, specs: Mapping[str, SourceSpec]) -> Mapping[str, float] | None:
    """Weights of all sources by name, or None where nobody gave one.

    A sequence of weights belongs to sources that were given as a sequence, in their order.
    """
    own = {name: spec.weight for name, spec in specs.items() if spec.weight is not None}
    if given is None:
        return check_weights_mapping({name: own.get(name, 1.0) for name in specs}) if own else None
    if own:
        raise InvalidInputError(
            f"weights are given twice: as weights= and as SourceSpec.weight of {list(own)}; keep one of them"
        )
    if isinstance(given, list | tuple):
        names = [f"source_{row}" for row in range(1, len(specs) + 1)]
        if set(names) != set(specs):
            raise InvalidInputError(
                "weights as a list cannot be used beside vector=, graph= or named retrievers; name them: weights={...}"
            )
        if len(given) != len(names):
            raise InvalidInputError(f"weights must be one per retriever: got {len(given)} for {len(names)}")
        given = dict(zip(names, given, strict=True))
    checked = check_weights_mapping(given)  # type: ignore[arg-type]
    unknown, missing = sorted(set(checked) - set(specs)), sorted(set(specs) - set(checked))
    if unknown:
        raise InvalidInputError(f"weights must be among the sources {list(specs)}; got {unknown}")
    if missing:
        raise InvalidInputError(f"weights must name every source; got none for {missing}")
    return checked


PIPELINE = "pipeline.json"
"""Of a retriever's folder, the file that holds its pipeline."""


def read_pipeline(given: FusionPipeline | str | os.PathLike[str]) -> FusionPipeline:
    """A pipeline as it was given, or as it was saved at a path."""
    if isinstance(given, FusionPipeline):
        return given
    if not isinstance(given, str | os.PathLike):
        raise InvalidTypeError(f"pipeline must be a FusionPipeline or the path of one; got {type(given).__name__}")
    if os.path.isdir(given):  # a retriever's, into which it was saved
        given = os.path.join(given, PIPELINE)
    if not os.path.exists(given):
        hint = _PRESETS.get(str(given).lower().replace("-", "_"), "")
        raise InvalidInputError(
            f"pipeline must be a FusionPipeline or the path of a saved one; there is no file {os.fspath(given)!r}{hint}"
        )
    return FusionPipeline.load(given)


_PRESETS = {
    **dict.fromkeys(("rrf", "reciprocal_rank", "reciprocal_rerank"), " (for RRF: FusionPipeline.reciprocal_rank())"),
    **dict.fromkeys(("phasegraph", "paper"), " (for the paper's: FusionPipeline.phasegraph())"),
    "adr": " (for the design record's: FusionPipeline.adr())",
    **dict.fromkeys(("convex", "tm2c2"), " (for TM2C2: FusionPipeline.convex())"),
}


def check_no_exact_match(sources: Collection[str]) -> None:
    """Refuse a source of the name that the bonus has as one more source: it would be taken for the bonus."""
    if EXACT_MATCH in sources:
        raise InvalidInputError(
            f"a source must not be named {EXACT_MATCH!r}: ExactMatchBonus is the source of that name; give it another"
        )
    if RERANK in sources:
        raise InvalidInputError(f"a source must not be named {RERANK!r}: rerank= makes one of that name")


def check_names(pipeline: FusionPipeline, sources: Collection[str], *, reranks: bool = False) -> None:
    """Refuse caps, calibrators, thresholds and floors for a source that is not there: they would never act."""
    check_no_exact_match(sources)
    if pipeline.weights is not None and not set(sources) <= set(pipeline.weights):
        missing = sorted(set(sources) - set(pipeline.weights))
        raise InvalidInputError(f"pipeline.weights must name every source; got none for {missing}")
    accept = pipeline.accept
    named: dict[str, Collection[str]] = {"pool_caps": pipeline.pool_caps, "calibrators": pipeline.calibrators}
    named["accept"] = () if accept is None else accept.thresholds
    named["min_agreement"] = dict.fromkeys(source for pair in pipeline.min_agreement for source in pair)
    for name, given in named.items():
        unknown = sorted(set(given) - set(sources) - ({RERANK} if reranks else set()))
        if unknown:
            raise InvalidInputError(f"pipeline.{name} must name sources among {sorted(sources)}; got {unknown}")


def declared_dependencies(name: str, spec: SourceSpec, specs: Mapping[str, SourceSpec]) -> tuple[str, ...]:
    """The sources that a retriever itself says it depends on, as far as there are such."""
    declared = getattr(spec.retriever, "depends_on", ())
    if spec.depends_on is not None or not isinstance(declared, list | tuple):
        return ()
    return tuple(one for one in declared if one in specs and one != name)


_GRAPHS = ("EntityGraph", "GraphIndex", "GraphRecords", "Neo4jConnection")


def describe_type(given: object) -> str:
    """What was given in place of a retriever: its package and class, and what to make of it where that is a graph.

    >>> describe_type("a question"), describe_type(FusionPipeline())
    ('str', 'phasegraph.FusionPipeline')
    """
    kind = type(given)
    if kind.__module__ == "builtins":
        return kind.__name__
    hint = "; make an EntityGraphRetriever of it" if kind.__name__ in _GRAPHS else ""
    hint = "; make a ChunkGraphSource of it" if kind.__name__ == "ChunkGraph" else hint
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}{hint}"


class Shown(str):
    """A text that shows itself as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


_SHOWN_VALUE, _SHOWN_ALL, _SHOWN_MANY = 60, 200, 9


def shown(fields: Mapping[str, object]) -> list[tuple[str, Shown]]:
    """What a retriever's ``repr`` says of its arguments: small values as they are, of anything else its class.

    Never more than some 250 characters: a log, a trace or a configuration must not hold the corpus.

    >>> shown({"vector": SourceSpec(retriever=FusionPipeline()), "k": 3})
    [('vector', FusionPipeline), ('k', 3)]
    """
    found: list[tuple[str, Shown]] = []
    room = _SHOWN_ALL
    given = {name: value for name, value in fields.items() if value is not None}
    for name, value in given.items():
        if room <= 0:
            return [*found, ("and", Shown(f"{len(given) - len(found)} more"))]
        said = _cut(_shown(value))
        found.append((name, Shown(said)))
        room -= len(name) + len(said) + 3
    return found


def _shown(value: object) -> str:
    if isinstance(value, str):
        return repr(value[:_SHOWN_VALUE])
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, Mapping | list | tuple) and len(value) > _SHOWN_MANY:
        return f"{len(value)} in a {type(value).__name__}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!s:.30}: {_shown(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_shown, value)) + "]"
    if isinstance(value, SourceSpec):
        return _shown(value.retriever)
    return type(value).__name__


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_VALUE else f"{text[: _SHOWN_VALUE - 1]}…"


# What a source's scores come from: a calibrator fitted to one model's scores says nothing about another's.

_INNER = ("bound", "runnable", "base_retriever", "retriever", "_retriever", "_index", "index")
_STORE = ("vectorstore", "_vector_store", "vector_store")
_MODEL = ("_embed_model", "embed_model", "embeddings", "_embedding_function", "embedding_function", "embedding")
_NAME = ("model_name", "model", "model_id", "deployment")
_DEEPEST = 6


def fingerprint_of(retriever: object, /) -> str:
    """Class of a retriever's vector store, class of its embedding model and the model's name; empty if it has neither.

    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(model_name="all-MiniLM-L6-v2")
    >>> fingerprint_of(SimpleNamespace(vectorstore=SimpleNamespace(embeddings=model)))
    'SimpleNamespace, SimpleNamespace all-MiniLM-L6-v2'
    """
    chain = list(_chain(retriever, 0))
    store = next((found for one in chain if (found := _first(one, _STORE)) is not None), None)
    model = next((found for one in [*chain, store] if (found := _first(one, _MODEL)) is not None), None)
    if store is None and model is not None:
        store = chain[-1]
    said = [] if store is None else [type(store).__name__]
    if model is not None:
        named = next((name for key in _NAME if isinstance(name := _read(model, key), str)), "")
        said.append(f"{type(model).__name__} {named}".strip())
    return ", ".join(said)


def fingerprints(specs: Mapping[str, SourceSpec], /) -> dict[str, str]:
    """Each source's own fingerprint, or what can be read from its retriever."""
    return {
        name: fingerprint_of(spec.retriever) if spec.fields.fingerprint is None else spec.fields.fingerprint
        for name, spec in specs.items()
    }


def check_fingerprints(pipeline: FusionPipeline, specs: Mapping[str, SourceSpec], /) -> dict[str, str]:
    """Sources whose calibrator was fitted to scores of something else, and what to say of them.

    In name order; a fingerprint that is not known on either side is no reason. Warns of what it finds, or raises a
    DegradedError if the pipeline is strict.
    """
    fitted = {name: getattr(one, "fingerprint", "") for name, one in pipeline.calibrators.items()}
    wanted = {name: spec for name, spec in specs.items() if fitted.get(name)}
    found = {
        name: f"calibrated on scores of {fitted[name]}, and is {own} now: calibrate it again"
        for name, own in sorted(fingerprints(wanted).items())
        if own and own != fitted[name]
    }
    if found:
        listed = "; ".join(f"source {name!r}: {said}" for name, said in found.items())
        if pipeline.strict:
            raise DegradedError(f"strict=True accepts no calibrator of another model; got {listed}")
        warn(listed, stacklevel=2)
    return found


def dphf(retriever: Any, rewriter: Any) -> dict[str, Any]:
    """Dual-path hypothesis fusion: the query and its HyDE text to one retriever, fused by reciprocal rank.

    Parameters
    ----------
    retriever : object
        A dense retriever, for both paths.
    rewriter : Rewriter or callable
        As :func:`~phasegraph.retrieval.hyde` makes it.

    Returns
    -------
    dict
        Arguments of a fusing retriever: ``retrievers`` (``dense`` and ``hyde``) and ``pipeline`` (rank constant 60).

    Notes
    -----
    ``SourceSpec(retriever=..., rewrite=hyde(llm), combine="rrf")`` gives the same order within one source of several.

    References
    ----------
    .. [1] "Beyond the Reranker", and its public code qarkapp/sscc-rag-paper

    Examples
    --------
    >>> from phasegraph.retrieval import hyde
    >>> sorted(dphf(len, hyde(str.upper)))
    ['pipeline', 'retrievers']
    """
    specs = {"dense": SourceSpec(retriever=retriever), "hyde": SourceSpec(retriever=retriever, rewrite=rewriter)}
    return {"retrievers": specs, "pipeline": FusionPipeline.reciprocal_rank()}


def _chain(retriever: object, depth: int) -> Iterator[object]:
    """The retriever and what it wraps, outermost first."""
    yield retriever
    inner = _first(retriever, _INNER) if depth < _DEEPEST else None
    if inner is not None and inner is not retriever:
        yield from _chain(inner, depth + 1)


def _first(holder: object, names: Sequence[str]) -> object:
    """The first of these attributes that is an object of its own."""
    for name in names:
        found = _read(holder, name)
        if found is not None and not callable(getattr(type(holder), name, None)) and not isinstance(found, str):
            return found
    return None


def _read(holder: object, name: str) -> object:
    try:
        return getattr(holder, name, None)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - an attribute that cannot be read says nothing
        return None
