"""What a caller may say about the sources of a retriever, and whether it fits together."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from phasegraph._validation import check_count, check_number
from phasegraph.errors import DegradedError, InvalidInputError, InvalidTypeError, PhasegraphWarning
from phasegraph.pipeline import FusionPipeline, check_weights_mapping
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
    timeout : float, optional
        Seconds, from its start.
    on_error : {"skip", "raise"}, default "skip"
    depends_on : sequence of str, optional
        Sources whose rankings it wants first.
    resolve : callable, optional
        ``resolve(ids)`` gives the passages of these ids, as a mapping or in the same order; for knowledge-graph hits
        whose ids name the passages they came from. May be a coroutine function.
    max_in_flight : int, default 256
        Searches of this source that may run at once.
    circuit_breaker : BreakerSettings or None
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
    timeout: float | None = None
    on_error: OnError = "skip"
    depends_on: Sequence[str] | None = None
    resolve: Callable[[Sequence[str]], object] | None = None
    max_in_flight: int = 256
    circuit_breaker: BreakerSettings | None = field(default_factory=BreakerSettings)
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

    def settings(self, limit: int | None, depends_on: Sequence[str]) -> SourceSettings:
        """The core's settings, with the defaults of the retriever that fuses filled in."""
        return SourceSettings(
            limit=limit if isinstance(self.limit, str) else self.limit,
            timeout=self.timeout,
            on_error=self.on_error,
            depends_on=tuple(depends_on) if self.depends_on is None else self.depends_on,  # type: ignore[arg-type]
            max_in_flight=self.max_in_flight,
            circuit_breaker=self.circuit_breaker,
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


_GRAPHS = ("EntityGraph", "GraphIndex", "GraphRecords", "Neo4jConnection")


def check_weights(given: Mapping[str, float] | None, specs: Mapping[str, SourceSpec]) -> Mapping[str, float] | None:
    """Weights of all sources by name, or None where nobody gave one."""
    own = {name: spec.weight for name, spec in specs.items() if spec.weight is not None}
    if given is None:
        return check_weights_mapping({name: own.get(name, 1.0) for name in specs}) if own else None
    if own:
        raise InvalidInputError(
            f"weights must be given in one place; got weights= and SourceSpec.weight of {list(own)}"
        )
    checked = check_weights_mapping(given)
    unknown = sorted(set(checked) - set(specs))
    if unknown:
        raise InvalidInputError(f"weights must be among the sources {list(specs)}; got {unknown}")
    missing = sorted(set(specs) - set(checked))
    if missing:
        raise InvalidInputError(f"weights must name every source; got none for {missing}")
    return checked


def check_pipeline(
    given: FusionPipeline | str | os.PathLike[str],
    weights: Mapping[str, float] | None,
    specs: Mapping[str, SourceSpec],
    *,
    strict: bool = False,
) -> FusionPipeline:
    """The pipeline in use: the one given or read, with the weights and the strictness of the retriever."""
    if isinstance(given, FusionPipeline):
        pipeline = given
    elif isinstance(given, str | os.PathLike):
        pipeline = FusionPipeline.load(given)
    else:
        raise InvalidTypeError(f"pipeline must be a FusionPipeline or a path; got {type(given).__name__}")
    if weights is not None:
        pipeline = replace(pipeline, weights=weights)
    elif pipeline.weights is not None and not set(specs) <= set(pipeline.weights):
        missing = sorted(set(specs) - set(pipeline.weights))
        raise InvalidInputError(f"pipeline.weights must name every source; got none for {missing}")
    return replace(pipeline, strict=True) if strict else pipeline


def check_names(pipeline: FusionPipeline, sources: Collection[str]) -> None:
    """Refuse caps, calibrators, thresholds and floors for a source that is not there: they would never act."""
    accept = pipeline.accept
    named: dict[str, Collection[str]] = {"pool_caps": pipeline.pool_caps, "calibrators": pipeline.calibrators}
    named["accept"] = () if accept is None else accept.thresholds
    named["min_agreement"] = dict.fromkeys(source for pair in pipeline.min_agreement for source in pair)
    for name, given in named.items():
        unknown = sorted(set(given) - set(sources))
        if unknown:
            raise InvalidInputError(f"pipeline.{name} must name sources among {sorted(sources)}; got {unknown}")


def needs_of(name: str, spec: SourceSpec, specs: Mapping[str, SourceSpec]) -> tuple[str, ...]:
    """The needs a retriever declares itself, as far as there are such sources."""
    declared = getattr(spec.retriever, "depends_on", ())
    if spec.depends_on is not None or not isinstance(declared, list | tuple):
        return ()
    return tuple(need for need in declared if need in specs and need != name)


def kind_of(given: object) -> str:
    """What was given in place of a retriever: its package and class, and what to make of it where that is a graph.

    Examples
    --------
    >>> kind_of("a question"), kind_of(FusionPipeline())
    ('str', 'phasegraph.FusionPipeline')
    """
    kind = type(given)
    if kind.__module__ == "builtins":
        return kind.__name__
    hint = "; make an EntityGraphRetriever of it" if kind.__name__ in _GRAPHS else ""
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}{hint}"


_INNER = ("bound", "runnable", "base_retriever", "retriever", "_retriever", "_index", "index")
_STORE = ("vectorstore", "_vector_store", "vector_store")
_MODEL = ("_embed_model", "embed_model", "embeddings", "_embedding_function", "embedding_function", "embedding")
_NAME = ("model_name", "model", "model_id", "deployment")
_DEEPEST = 6


def fingerprint_of(retriever: object, /) -> str:
    """Class of a retriever's vector store, class of its embedding model and the model's name.

    Parameters
    ----------
    retriever : object
        Of LangChain or LlamaIndex, or a store, an index, a query engine.

    Returns
    -------
    str
        Empty where it has neither a store nor a model that can be read.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(model_name="all-MiniLM-L6-v2")
    >>> fingerprint_of(SimpleNamespace(vectorstore=SimpleNamespace(embeddings=model)))
    'SimpleNamespace, SimpleNamespace all-MiniLM-L6-v2'
    >>> fingerprint_of(len)
    ''
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
        name: fingerprint_of(spec.retriever) if spec.fingerprint is None else spec.fingerprint
        for name, spec in specs.items()
    }


def check_fingerprints(pipeline: FusionPipeline, specs: Mapping[str, SourceSpec], /, *, strict: bool) -> dict[str, str]:
    """Sources whose calibrator was fitted to scores of something else, and what to say of them.

    Parameters
    ----------
    pipeline : FusionPipeline
    specs : mapping of str to SourceSpec
    strict : bool

    Returns
    -------
    dict of str to str
        In name order; a fingerprint that is not known on either side is no reason.

    Raises
    ------
    DegradedError
        If there is one and `strict`.

    Warns
    -----
    PhasegraphWarning
        If there is one.
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
        if strict:
            raise DegradedError(f"strict=True accepts no calibrator of another model; got {listed}")
        warnings.warn(listed, PhasegraphWarning, stacklevel=2)
    return found


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
