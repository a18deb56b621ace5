"""Replace deprecated source names in a pipeline; pipelines that were saved with these names therefore remain usable."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from phasegraph._support.renamed import SOURCES, renamed_sources
from phasegraph.acceptance import AcceptancePolicy, Threshold
from phasegraph.fusion.settings import FusionSettings

Settings = TypeVar("Settings", bound=FusionSettings)
Value = TypeVar("Value")


def with_new_source_names(pipeline: Settings, names: Collection[str]) -> Settings:
    """Return the pipeline with deprecated source names replaced by the current names in `names`, and warn.

    A pipeline without such names is returned unchanged.

    >>> from phasegraph import FusionPipeline
    >>> kept = FusionPipeline(weights={"bm25": 1.0, "vector": 2.0})
    >>> with_new_source_names(kept, ["bm25", "vector"]) is kept
    True
    """
    if SOURCES.keys().isdisjoint(names) and SOURCES.keys().isdisjoint(_mentioned(pipeline)):
        return pipeline
    known = renamed_sources(_mentioned(pipeline), names)
    if not known:
        return pipeline
    changes: dict[str, Any] = {
        name: _renamed(getattr(pipeline, name), known) for name in ("pool_caps", "calibrators", "weights")
    }
    changes["rule_options"] = {
        name: _renamed(value, known) if isinstance(value, Mapping) else value
        for name, value in pipeline.rule_options.items()
    }
    changes["min_agreement"] = {
        (known.get(first, first), known.get(second, second)): share
        for (first, second), share in pipeline.min_agreement.items()
    }
    if pipeline.accept is not None:
        changes["accept"] = renamed_policy(pipeline.accept, known)
    return replace(pipeline, **changes)


def renamed_policy(policy: AcceptancePolicy, known: Mapping[str, str]) -> AcceptancePolicy:
    """Return the policy with the source names of its thresholds replaced by `known`, a mapping of old to new names."""

    def renamed(value: Any) -> Any:
        if isinstance(value, Threshold):
            return replace(value, sources=tuple(known.get(one, one) for one in value.sources))
        return (
            {known.get(name, name): renamed(one) for name, one in value.items()}
            if isinstance(value, Mapping)
            else value
        )

    return replace(policy, **{one.name: renamed(getattr(policy, one.name)) for one in fields(policy)})


def _renamed(given: Mapping[str, Value] | None, known: Mapping[str, str]) -> Mapping[str, Value] | None:
    return None if given is None else {known.get(name, name): value for name, value in given.items()}


def _mentioned(pipeline: FusionSettings) -> set[str]:
    """Return all source names in the fields of a pipeline."""
    by_source = (value for value in pipeline.rule_options.values() if isinstance(value, Mapping))
    accept = () if pipeline.accept is None else pipeline.accept.thresholds
    pairs = (name for pair in pipeline.min_agreement for name in pair)
    return {*pipeline.pool_caps, *pipeline.calibrators, *(pipeline.weights or ()), *accept, *pairs}.union(*by_source)
