"""The command ``phasegraph try``: ask questions about your own files, and see the answers explained on a local page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from phasegraph.apps.cli.compare import compare_and_print
from phasegraph.apps.cli.index import check_folder, sizes_of
from phasegraph.apps.cli.output import (
    Embedder,
    OpenPage,
    Port,
    check_heeded,
    command_of,
    console,
    embed_with,
    load_model,
    load_object,
    open_page,
    progress,
)
from phasegraph.apps.cli.reading import ReadableFiles, embedded, read_and_tell
from phasegraph.apps.inspector.inspector import Inspector
from phasegraph.apps.inspector.server import check_installed, serve
from phasegraph.evaluation.natural_questions import natural_questions
from phasegraph.evaluation.query_files import read_questions
from phasegraph.graph.index.graph_index import GraphIndex

WITHOUT_MODEL = "without --embedder, passages are found by words and the graph; --embedder minilm adds vectors"


Questions = Annotated[
    Path | None,
    typer.Argument(
        metavar="QUESTIONS.jsonl",
        exists=True,
        dir_okay=False,
        help="Your questions and the passages that answer them (JSONL). Default: questions that phasegraph generates "
        "from the files.",
        show_default=False,
    ),
]
Compare = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:OBJECT",
        help="Your own retriever over these files, to compare it with vectors, BM25, the fusion of both, and "
        "phasegraph.",
    ),
]


def try_out(
    context: typer.Context,
    files: ReadableFiles,
    questions: Questions = None,
    compare: Compare = None,
    embedder: Embedder = None,
    ask: Annotated[
        str | None, typer.Option(metavar="QUESTION", help="Open the page with the answer to this question.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Save the index in this folder, for search, inspect and serve.", file_okay=False),
    ] = None,
    port: Port = 0,
    open_it: OpenPage = None,
) -> None:
    """Read your files, build a graph over them, and explain the answers to your questions on a local page.

    The command needs no model and no network. With --embedder, vectors also find passages. With judged questions,
    the page marks the passages that answer them with a star.

    With --compare, no page opens: the command says whether phasegraph finds more than your retriever does.
    """
    if compare is not None:
        check_heeded(context, "--compare", {"files", "questions", "compare", "embedder", "out"})
    else:
        check_installed()
    retriever = None if compare is None else load_object(compare, "--compare")
    if out is not None:
        check_folder(out, may_replace=False)
    model = load_model(embedder)
    passages = read_and_tell(files).passages
    vectors = None if model is None else embedded(model, passages)
    index = GraphIndex.build(passages, embeddings=vectors, progress=lambda rows: progress(rows, "building the graph"))
    to = console()
    to.print(f"built {sizes_of(index)}")
    if model is None:
        to.print(WITHOUT_MODEL)
    if out is not None:
        index.save(out)
        to.print(f"saved the index: {out}")
    inspector = Inspector(
        index,
        files.resolve().name,
        embedder=None if model is None else embed_with(model),
        judged=read_questions(questions, passages) if questions is not None and compare is None else (),
        made=natural_questions(passages, index.graph) if compare is None else (),
        command=command_of(context),
    )
    if compare is not None:
        compare_and_print(compare, retriever, questions, passages, inspector)
        return
    show_page(inspector, ask, port, open_it)


def show_page(inspector: Inspector, ask: str | None, port: int, open_it: bool | None) -> None:
    """Serve the inspector's page on this machine until interrupted; with `ask`, it shows the answer to this question.

    `open_it` says whether a browser is opened; None opens a browser if standard output is a terminal.
    """
    to = console()

    def say(address: str) -> None:
        page = address if ask is None else f"{address}#question={quote(ask)}"
        to.print(f"{page}  (Ctrl-C stops it)")
        open_page(page, open_it)

    serve(inspector, "127.0.0.1", port, None, say)
