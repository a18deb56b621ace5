"""Fingerprints of sources: texts that name the store and the model that compute a source's scores.

A calibrator that was fitted to the scores of one model is not valid for the scores of another model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from phasegraph.embedding.identity import model_name, read_attribute
from phasegraph.errors import DegradedError
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.retrieval.once import warn_of_settings
from phasegraph.retrieval.source_spec import SourceSpec

_INNER = ("bound", "runnable", "base_retriever", "retriever", "_retriever", "_index", "index")

_STORE = ("vectorstore", "_vector_store", "vector_store")

_MODEL = ("_embed_model", "embed_model", "embeddings", "_embedding_function", "embedding_function", "embedding")

_DEEPEST = 6


def fingerprint_of(retriever: object, /) -> str:
    """Return a text that names the retriever's vector store and embedding model; empty if both are unknown.

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
    """Return the fingerprint of each source: the declared fingerprint, or the result of :func:`fingerprint_of`."""
    return {
        name: fingerprint_of(spec.retriever) if spec.fields.fingerprint is None else spec.fields.fingerprint
        for name, spec in specs.items()
    }


def check_fingerprints(pipeline: FusionPipeline, specs: Mapping[str, SourceSpec], /) -> dict[str, str]:
    """Return a message for each source with a calibrator that was fitted to another store or model, by source name.

    The mapping is in name order. If the fingerprint of the source or of the calibrator is unknown, there is no message.
    One warning contains all messages; a strict pipeline raises DegradedError instead.
    """
    fitted = {name: getattr(one, "fingerprint", "") for name, one in pipeline.calibrators.items()}
    wanted = {name: spec for name, spec in specs.items() if fitted.get(name)}
    found = {
        name: f"calibrated on scores of {fitted[name]}, but now gives scores of {own}: calibrate it again"
        for name, own in sorted(fingerprints(wanted).items())
        if own and own != fitted[name]
    }
    if found:
        listed = "; ".join(f"source {name!r}: {said}" for name, said in found.items())
        if pipeline.strict:
            raise DegradedError(f"strict=True refuses a calibrator that was fitted to another store or model: {listed}")
        warn_of_settings(listed)
    return found


def _chain(retriever: object, depth: int) -> Iterator[object]:
    """Yield the retriever and the retrievers that it wraps, outermost first.

    `depth` is the number of retrievers around this retriever; deeply nested retrievers are left out.
    """
    yield retriever
    inner = _first(retriever, _INNER) if depth < _DEEPEST else None
    if inner is not None and inner is not retriever:
        yield from _chain(inner, depth + 1)


def _first(holder: object, names: Sequence[str]) -> object:
    """Return the first attribute of `holder` in `names` that is neither None nor a text nor a method; else None."""
    for name in names:
        found = read_attribute(holder, name)
        if found is not None and not callable(getattr(type(holder), name, None)) and not isinstance(found, str):
            return found
    return None
