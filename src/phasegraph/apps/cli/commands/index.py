"""The options of ``phasegraph index``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasegraph.apps.cli.options import Embedder, EngineName, ReadableFiles, Shards, Workers, WorkFolder, file_option

KnownNames = Annotated[
    Path | None, file_option("File of additional entity names to find in the texts, one name per line.")
]
Update = Annotated[
    bool,
    typer.Option(
        "--update", help="Update the index in OUT: process only new and changed passages, and remove deleted passages."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the index in OUT without asking.")]
Sync = Annotated[
    bool,
    typer.Option(
        "--sync",
        help="Update OUT after changes of the files: read new and changed files, and remove the passages "
        "of deleted files.",
    ),
]
Watch = Annotated[bool, typer.Option("--watch", help="Run --sync now, and again whenever the files change.")]
AllowEmpty = Annotated[
    bool,
    typer.Option(
        "--allow-empty", help="With --sync or --watch: if all files were deleted, delete all passages from OUT."
    ),
]
Moved = Annotated[
    bool,
    typer.Option("--moved", help="With --sync or --watch: the files are at another path than at the last sync of OUT."),
]
Names = Annotated[Path | None, file_option("File of entity names to compare for synonyms, one name per line.")]
NameEmbeddings = Annotated[
    Path | None, file_option("Embeddings of the names in --names (.npy); row i belongs to name i.")
]
SynonymThreshold = Annotated[float | None, typer.Option(help="Minimum cosine of two synonyms, in (0, 1]; default 0.8.")]
Chunks = Annotated[
    bool,
    typer.Option(
        "--chunks", help="Build a chunk graph instead of an entity graph, for corpora whose passages share no names."
    ),
]
DocumentField = Annotated[
    str | None,
    typer.Option(
        "--document", help="With --chunks: the field with the name of a chunk's document; default: the title."
    ),
]
PositionField = Annotated[
    str | None,
    typer.Option(
        "--position", help="With --chunks: the field with a chunk's position in its document; default: the line order."
    ),
]
EntitiesTo = Annotated[
    Path | None,
    typer.Option(
        "--entities-to",
        help="Write the entity names to this file, one per line, so that you can embed them for --name-embeddings.",
        dir_okay=False,
    ),
]


def index(
    corpus: ReadableFiles,
    out: Annotated[Path, typer.Option(help="Folder for the index: new, empty, or an older index.", file_okay=False)],
    embeddings: Annotated[
        Path | None, file_option("Embeddings of the passages (.npy); row i belongs to line i of the corpus.")
    ] = None,
    embedder: Embedder = None,
    triples: Annotated[
        Path | None, file_option("Triples of the passages (.jsonl, or HippoRAG's OpenIE .json).")
    ] = None,
    known_names: KnownNames = None,
    names: Names = None,
    name_embeddings: NameEmbeddings = None,
    synonym_threshold: SynonymThreshold = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="How texts are split into words: english (default), german, plain (keeps stop words), or "
            "snowball:LANGUAGE (stemmed)."
        ),
    ] = None,
    entities_to: EntitiesTo = None,
    update: Update = False,
    force: Force = False,
    sync: Sync = False,
    watch: Watch = False,
    allow_empty: AllowEmpty = False,
    moved: Moved = False,
    chunks: Chunks = False,
    document: DocumentField = None,
    position: PositionField = None,
    engine: EngineName = None,
    shards: Shards = None,
    workers: Workers = None,
    work: WorkFolder = None,
) -> None:
    """Build the graph of your files by rules, without a model, and save it for search, inspect, serve and retrieve.

    Each line of a JSONL file with {"id", "title", "text"} is a passage; other files are split into passages.

    With --engine, a corpus of any size is indexed in shards; the resulting files are identical. The lines of its JSONL
    or Parquet file may contain triples and metadata. Without --engine, shards are used if free memory is too small.
    """
    from phasegraph.apps.cli.index import IndexOptions, run

    options = IndexOptions(
        embeddings=embeddings, embedder=embedder, triples=triples, known_names=known_names, names=names,
        name_embeddings=name_embeddings, synonym_threshold=synonym_threshold, tokenizer=tokenizer,
        entities_to=entities_to, update=update, force=force, sync=sync, watch=watch, allow_empty=allow_empty,
        moved=moved, chunks=chunks, document=document, position=position, engine=engine, shards=shards,
        workers=workers, work=work,
    )  # fmt: skip
    run(corpus, out, options)
