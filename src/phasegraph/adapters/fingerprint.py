"""What a source's scores come from: a calibrator fitted to one model's scores says nothing about another's."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence

from phasegraph.adapters.specs import SourceSpec
from phasegraph.errors import DegradedError, PhasegraphWarning
from phasegraph.pipeline import FusionPipeline

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
