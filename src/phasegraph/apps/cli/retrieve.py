"""The command ``phasegraph retrieve``: answer a file of questions from a saved index."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from phasegraph.apps.cli import engines
from phasegraph.apps.cli.models import check_model_of
from phasegraph.apps.cli.options import Engine
from phasegraph.apps.cli.output import check_outputs, console, load_object
from phasegraph.apps.cli.search import unused_embeddings
from phasegraph.distributed import retrieval
from phasegraph.graph.corpus.opening import opened_with_model


def run(
    index: Path,
    queries: Path,
    out: Path,
    k: int,
    embedder: str | None,
    engine: Engine | None,
    shards: int | None,
    workers: int | None,
    work: Path | None,
) -> None:
    """Run ``phasegraph retrieve``; the parameters are the options of the command."""
    began = perf_counter()
    check_outputs(out=out)
    model = None if embedder is None else load_object(embedder, "--embedder")
    if model is not None:
        check_model_of(index, model)
    with engines.started(engine or Engine.local, workers) as chosen:
        took = retrieval.retrieve(queries, index, out, k=k, embeddings=model, shards=shards, work=work, engine=chosen)
    console().print(
        f"{queries} answered in {perf_counter() - began:.1f} s ({took.cpu:.1f} s of CPU, at most "
        f"{took.peak / 1e6:,.0f} MB per process including mapped files): {out}",
        markup=False,
    )
    if model is None and not retrieval.are_embedded(queries) and (said := unused_embeddings(*opened_with_model(index))):
        console().print(said)
