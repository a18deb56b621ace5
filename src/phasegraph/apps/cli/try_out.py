"""The command ``phasegraph try``: ask questions about your own files, and see the answers explained on a local page."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import typer

from phasegraph.apps.cli.compare import compare_and_print
from phasegraph.apps.cli.index import check_folder, sizes_of
from phasegraph.apps.cli.output import (
    check_heeded,
    command_of,
    console,
    embed_with,
    load_model,
    load_object,
    open_page,
    progress,
)
from phasegraph.apps.cli.reading import embedded, read_and_tell
from phasegraph.apps.inspector.inspector import Inspector
from phasegraph.apps.inspector.server import check_installed, serve
from phasegraph.evaluation.natural_questions import natural_questions
from phasegraph.evaluation.query_files import read_questions
from phasegraph.graph.index.graph_index import GraphIndex

WITHOUT_MODEL = "without --embedder, passages are found by words and the graph; --embedder minilm adds vectors"


def run(
    context: typer.Context,
    files: Path,
    questions: Path | None,
    compare: str | None,
    embedder: str | None,
    ask: str | None,
    out: Path | None,
    port: int,
    open_it: bool | None,
) -> None:
    """Run ``phasegraph try``; the parameters are the options of the command."""
    if compare is not None:
        check_heeded(context, "--compare", {"files", "questions", "compare", "embedder", "out"})
    else:
        check_installed()
    retriever = None if compare is None else load_object(compare, "--compare")
    if out is not None:
        check_folder(out, files, may_replace=False)
    model = load_model(embedder)
    passages = read_and_tell(files, out).passages
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
