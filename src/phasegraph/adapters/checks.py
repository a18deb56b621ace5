"""Whether a retriever's weights and pipeline fit its sources; each error names the field."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace

from phasegraph.adapters.specs import SourceSpec
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.pipeline import FusionPipeline
from phasegraph.pipeline.checks import check_weights_mapping

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
    named["agreement_floor"] = dict.fromkeys(source for pair in pipeline.agreement_floor for source in pair)
    for name, given in named.items():
        unknown = sorted(set(given) - set(sources))
        if unknown:
            raise InvalidInputError(f"pipeline.{name} must name sources among {sorted(sources)}; got {unknown}")


def needs_of(name: str, spec: SourceSpec, specs: Mapping[str, SourceSpec]) -> tuple[str, ...]:
    """The needs a retriever declares itself, as far as there are such sources."""
    declared = getattr(spec.retriever, "needs", ())
    if spec.needs is not None or not isinstance(declared, list | tuple):
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
