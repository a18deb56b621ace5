"""The store and the model that a source's scores come from.

A calibrator that was fitted to the scores of one model says nothing about the scores of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from phasegraph.embedding.identity import model_name, read_attribute
from phasegraph.errors import DegradedError, warn
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.retrieval.source_spec import SourceSpec

# What a source's scores come from: a calibrator fitted to one model's scores says nothing about another's.

_INNER = ("bound", "runnable", "base_retriever", "retriever", "_retriever", "_index", "index")

_STORE = ("vectorstore", "_vector_store", "vector_store")

_MODEL = ("_embed_model", "embed_model", "embeddings", "_embedding_function", "embedding_function", "embedding")

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
        said.append(model_name(model))
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


def _chain(retriever: object, depth: int) -> Iterator[object]:
    """The retriever and what it wraps, outermost first."""
    yield retriever
    inner = _first(retriever, _INNER) if depth < _DEEPEST else None
    if inner is not None and inner is not retriever:
        yield from _chain(inner, depth + 1)


def _first(holder: object, names: Sequence[str]) -> object:
    """The first of these attributes that is an object of its own."""
    for name in names:
        found = read_attribute(holder, name)
        if found is not None and not callable(getattr(type(holder), name, None)) and not isinstance(found, str):
            return found
    return None
