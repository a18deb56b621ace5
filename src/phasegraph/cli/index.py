"""``phasegraph index``: a corpus to a saved entity graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasegraph.cli.output import console
from phasegraph.evaluation.datasets import read_corpus, read_triples, read_vectors
from phasegraph.graph import build_graph
from phasegraph.graph.storage import save_graph


def index(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS.jsonl", exists=True, dir_okay=False)],
    out: Annotated[Path, typer.Option(help="Folder for the graph.", file_okay=False)],
    embeddings: Annotated[
        Path | None, typer.Option(help="Passage embeddings (.npy), row i for line i.", exists=True, dir_okay=False)
    ] = None,
    triples: Annotated[
        Path | None, typer.Option(help="Triples by passage (.jsonl).", exists=True, dir_okay=False)
    ] = None,
) -> None:
    """Build the entity graph of a corpus by rules, without a model, and save it."""
    passages = read_corpus(corpus)
    found = None if triples is None else read_triples(triples, {passage.id for passage in passages})[0]
    vectors = None if embeddings is None else read_vectors(embeddings, len(passages), corpus.name)
    graph = build_graph(passages, triples=found, embeddings=vectors)
    save_graph(graph, out)
    counts = f"{len(graph.passages)} passages, {len(graph.entities)} entities, {graph.mentions.nnz} mentions"
    console().print(f"{counts}: {out}", markup=False)
