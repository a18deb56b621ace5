"""The command ``phasegraph inspect``: explore the answers of a saved index on a local page."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

import typer

from phasegraph.apps.cli.models import opened_for_questions
from phasegraph.apps.cli.output import check_outputs, command_of, console, open_page, progress
from phasegraph.apps.inspector.inspector import OTHER, OWN, Inspector
from phasegraph.apps.inspector.server import LOOPBACK, exported, serve
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.corpus_files import Passage, read_corpus
from phasegraph.evaluation.judged_questions import read_judged
from phasegraph.evaluation.query_files import Query, read_questions
from phasegraph.evaluation.runs import write_text
from phasegraph.fusion.pipeline import PIPELINE_NAMES, FusionPipeline
from phasegraph.graph.chunk_graph import ChunkGraph
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.retrieval import PIPELINE

TOKEN = "PHASEGRAPH_INSPECT_TOKEN"
"""The name of the environment variable with the access token."""


def _pipeline_of(given: str | None, option: str) -> FusionPipeline | None:
    if given is None:
        return None
    if given in PIPELINE_NAMES:
        return FusionPipeline.named(given)
    if not Path(given).is_file():
        raise InvalidInputError(
            f"{option} must be a saved pipeline or one of {', '.join(PIPELINE_NAMES)}; got {given!r}"
        )
    return FusionPipeline.load(given)


def _judged_in(path: Path, passages: Sequence[Passage]) -> tuple[Query, ...]:
    """Read the judged questions of a file or of a data set folder.

    Questions judged by quotes or files need the texts of the passages.
    """
    if not passages:
        return read_judged(path)[0]
    return read_questions(path / "queries.jsonl" if path.is_dir() else path, passages)


def _passages_of(index: GraphIndex | ChunkGraph, corpus: Path | None) -> Sequence[Passage]:
    """Return the passages of an index, with their texts.

    A chunk graph stores no texts: its passages are read from the file `corpus`. If `corpus` is None, the result is then
    empty.
    """
    if isinstance(index, ChunkGraph):
        return () if corpus is None else read_corpus(corpus)
    if corpus is not None:
        raise InvalidInputError("--corpus must be left out, because this index contains the texts of its passages")
    return [
        Passage(one.id, one.title, one.text, {"source": one.metadata.get("source", "")})
        for one in index.records.values()
    ]


def run(
    context: typer.Context,
    folder: Path,
    embedder: str | None,
    corpus: Path | None,
    pipeline: str | None,
    compare: str | None,
    judged: Path | None,
    ask: str | None,
    export: Path | None,
    host: str,
    port: int,
    open_it: bool | None,
) -> None:
    """Run ``phasegraph inspect``; the parameters are the options of the command."""
    if (ask is None) != (export is None):
        raise InvalidInputError("--ask and --export go together: --export page.html --ask QUESTION")
    check_outputs(export=export)
    index, model, _ = opened_for_questions(folder, embedder)
    passages = () if judged is None and corpus is None else _passages_of(index, corpus)
    kept = folder / PIPELINE
    inspector = Inspector(
        index,
        folder.resolve().name,
        embedder=model,
        passages=passages,
        pipeline=_pipeline_of(pipeline or (str(kept) if kept.is_file() else None), "--pipeline"),
        compared=_pipeline_of(compare, "--compare"),
        judged=() if judged is None else _judged_in(judged, passages),
        command=command_of(context) if host in LOOPBACK else "",
    )
    to = console()
    if export is not None:
        other = None if compare is None else {"pipeline": OTHER}
        write_text(str(export), exported(inspector, ask, {"pipeline": OWN}, other))
        to.print(f"wrote {export}")
        return
    token = os.environ.get(TOKEN) or (None if host in LOOPBACK else secrets.token_urlsafe(24))
    inspector.prepare(progress)

    def say(address: str) -> None:
        to.print(f"{address}  (Ctrl-C stops it)")
        open_page(address, open_it)

    serve(inspector, host, port, token, say)
