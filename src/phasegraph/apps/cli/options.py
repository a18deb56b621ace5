"""Options that several commands share, with their help texts; no import of numpy, so that ``--help`` is quick."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


def file_option(about: str, **more: Any) -> Any:
    """Declare a command-line option that takes the path of an existing file; `about` is its help text."""
    return typer.Option(help=about, exists=True, dir_okay=False, **more)


def folder_option(about: str) -> Any:
    """Declare a command-line option that takes the path of an existing folder; `about` is its help text."""
    return typer.Option(help=about, exists=True, file_okay=False)


DatasetDir = Annotated[
    Path,
    typer.Argument(
        metavar="DATASET_DIR", help="A folder with corpus, queries and embeddings.", exists=True, file_okay=False
    ),
]
IndexFolder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER", help="A folder written by index, or a saved retriever.", exists=True, file_okay=False
    ),
]
SyncedFolder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER", help="A folder written by index --sync, or a saved retriever.", exists=True, file_okay=False
    ),
]
Embedder = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|MODULE:OBJECT",
        help="The embedding model: minilm, fastembed, or your own object (LangChain's, LlamaIndex's, or a function "
        "from text to vector).",
    ),
]
FETCH_K = 50
"""The default of :data:`FetchK`; the same number as phasegraph.evaluation.source_runs.DEFAULT_LIMIT."""
FetchK = Annotated[int, typer.Option(min=1, help="Number of hits to request from every source.")]
JsonTo = Annotated[
    str | None, typer.Option("--json", help="Write the result as JSON to this file ('-': standard output).")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port of the local server; 0 chooses a free port.")]
OpenPage = Annotated[
    bool | None,
    typer.Option("--open/--no-open", help="Open the page in a browser; by default only from a terminal."),
]
PipelineFile = Annotated[Path | None, file_option("A file with a saved pipeline.")]
GraphDir = Annotated[Path | None, folder_option("A saved graph of this corpus (see index).")]
SpanOverlap = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        help="For questions judged by text spans: the share of a span that a passage must contain to be relevant; "
        "default 0.5, or 0.3 with --protocol.",
    ),
]
ReadableFiles = Annotated[
    Path,
    typer.Argument(
        metavar="FILE|FOLDER|ARCHIVE",
        exists=True,
        help="A file (text, Markdown, HTML, CSV, JSONL, PDF, code or configuration), a folder, or a zip or tar archive "
        "of such files.",
    ),
]


class Engine(StrEnum):
    """The names of the engines that process shards."""

    local = "local"
    ray = "ray"
    spark = "spark"


EngineName = Annotated[
    Engine | None,
    typer.Option(
        "--engine",
        help="Split the work into shards, and run them in processes on this machine (local), on Ray (the cluster at "
        "RAY_ADDRESS, or a local cluster), or on Spark.",
    ),
]
Shards = Annotated[int | None, typer.Option("--shards", min=1, help="With --engine: number of shards.")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="With --engine: number of processes; default one per core.")
]
WorkFolder = Annotated[
    Path | None,
    typer.Option(
        "--work",
        help="With --engine: folder for finished shards, which an interrupted build uses again; default OUT.work.",
        file_okay=False,
    ),
]
