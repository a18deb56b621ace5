"""Check that the weights and the pipeline of a retriever fit its sources."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

from phasegraph._support.renamed import renamed_sources
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.fusion.exact_match import EXACT_MATCH
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.fusion.settings import check_weights_mapping
from phasegraph.ranking import RERANK
from phasegraph.retrieval.source_spec import SourceSpec


def check_weights(given: object, specs: Mapping[str, SourceSpec]) -> Mapping[str, float] | None:
    """Return the weights of all sources by name; None if no weight was given.

    A sequence of weights is valid only if the sources are also a sequence, in the same order.
    """
    own = {name: spec.weight for name, spec in specs.items() if spec.weight is not None}
    if given is None:
        return check_weights_mapping({name: own.get(name, 1.0) for name in specs}) if own else None
    if own:
        raise InvalidInputError(
            f"weights are given twice: as weights= and as SourceSpec.weight of {list(own)}; remove weights= or the "
            "weights of the SourceSpecs"
        )
    if isinstance(given, list | tuple):
        names = [f"source_{row}" for row in range(1, len(specs) + 1)]
        if set(names) != set(specs):
            raise InvalidInputError(
                "weights as a list cannot be combined with vector=, graph= or named retrievers: give a mapping of "
                "source names to weights"
            )
        if len(given) != len(names):
            raise InvalidInputError(
                f"weights must have one weight per retriever: got {len(given)} weights for {len(names)} retrievers"
            )
        given = dict(zip(names, given, strict=True))
    checked = check_weights_mapping(given)  # type: ignore[arg-type]
    known = renamed_sources(checked, specs)
    checked = check_weights_mapping({known.get(name, name): value for name, value in checked.items()})
    unknown, missing = sorted(set(checked) - set(specs)), sorted(set(specs) - set(checked))
    if unknown:
        raise InvalidInputError(f"weights must name sources among {list(specs)}; got {unknown}")
    if missing:
        raise InvalidInputError(f"weights must name every source; got no weight for {missing}")
    return checked


PIPELINE = "pipeline.json"
"""Name of the file in a retriever's folder that contains its pipeline."""


def read_pipeline(given: FusionPipeline | str | os.PathLike[str]) -> FusionPipeline:
    """Return the pipeline, or load it from a file or from a retriever's folder."""
    if isinstance(given, FusionPipeline):
        return given
    if not isinstance(given, str | os.PathLike):
        raise InvalidTypeError(
            f"pipeline must be a FusionPipeline or the path of a saved pipeline; got {type(given).__name__}"
        )
    if os.path.isdir(given):  # a retriever's folder
        given = os.path.join(given, PIPELINE)
    if not os.path.exists(given):
        hint = _PRESETS.get(str(given).lower().replace("-", "_"), "")
        raise InvalidInputError(
            "pipeline must be a FusionPipeline or the path of a saved pipeline; there is no file "
            f"{os.fspath(given)!r}{hint}"
        )
    return FusionPipeline.load(given)


_PRESETS = {
    **dict.fromkeys(("rrf", "reciprocal_rank", "reciprocal_rerank"), " (for RRF: FusionPipeline.reciprocal_rank())"),
    **dict.fromkeys(("phasegraph", "paper"), " (for the paper's pipeline: FusionPipeline.paper())"),
    "adr": " (for the design record's pipeline: FusionPipeline.adr())",
    **dict.fromkeys(("convex", "tm2c2"), " (for TM2C2: FusionPipeline.convex())"),
}


def check_no_exact_match(sources: Collection[str]) -> None:
    """Raise InvalidInputError if a source has a name that is reserved for the exact-match bonus or the reranker."""
    if EXACT_MATCH in sources:
        raise InvalidInputError(
            f"a source must not be named {EXACT_MATCH!r}, which ExactMatchBonus uses: rename the source"
        )
    if RERANK in sources:
        raise InvalidInputError(f"a source must not be named {RERANK!r}, which rerank= uses: rename the source")


def check_names(pipeline: FusionPipeline, sources: Collection[str], *, reranks: bool = False) -> None:
    """Raise InvalidInputError if a pipeline setting names an unknown source, and so would have no effect.

    With `reranks`, the reranker's ranking counts as a source.
    """
    check_no_exact_match(sources)
    if pipeline.weights is not None and not set(sources) <= set(pipeline.weights):
        missing = sorted(set(sources) - set(pipeline.weights))
        raise InvalidInputError(f"pipeline.weights must name every source; got no weight for {missing}")
    accept = pipeline.accept
    named: dict[str, Collection[str]] = {"pool_caps": pipeline.pool_caps, "calibrators": pipeline.calibrators}
    named["accept"] = () if accept is None else accept.thresholds
    named["min_agreement"] = dict.fromkeys(source for pair in pipeline.min_agreement for source in pair)
    for name, given in named.items():
        unknown = sorted(set(given) - set(sources) - ({RERANK} if reranks else set()))
        if unknown:
            raise InvalidInputError(f"pipeline.{name} must name sources among {sorted(sources)}; got {unknown}")


def dphf(retriever: Any, rewriter: Any) -> dict[str, Any]:
    """Return a retriever's arguments for dual-path hypothesis fusion: search the query and a HyDE text, then fuse.

    Parameters
    ----------
    retriever : object
        A dense retriever; it searches the query and the HyDE text.
    rewriter : Rewriter or callable
        A function from the query to the HyDE text, such as the result of :func:`~phasegraph.retrieval.hyde`.

    Returns
    -------
    dict
        Arguments of a fusing retriever: ``retrievers`` (``dense`` and ``hyde``) and ``pipeline`` (rank constant 60).

    Notes
    -----
    ``SourceSpec(retriever=..., rewrite=hyde(llm), combine="rrf")`` gives the same order within a single source, which
    can be fused with other sources.

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
