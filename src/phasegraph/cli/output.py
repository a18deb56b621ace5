"""Options, objects named on the command line, output, tables and progress: what the commands share."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from phasegraph._text import legible, legible_json
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import SPANS, Dataset, load_dataset
from phasegraph.evaluation.measures import Measure
from phasegraph.evaluation.runs import write_text
from phasegraph.graph.chunk_graph import KIND, ChunkGraph
from phasegraph.graph.entity_graph import EntityGraph
from phasegraph.graph.storage import load_graph
from phasegraph.retrieval import with_progress
from phasegraph.serialization import bundle_kind


def file_option(about: str, **more: Any) -> Any:
    """An option that names a file that is there."""
    return typer.Option(help=about, exists=True, dir_okay=False, **more)


def folder_option(about: str) -> Any:
    """An option that names a folder that is there."""
    return typer.Option(help=about, exists=True, file_okay=False)


DatasetDir = Annotated[
    Path,
    typer.Argument(
        metavar="DATASET_DIR", help="A folder with corpus, queries and embeddings.", exists=True, file_okay=False
    ),
]
IndexFolder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="What index wrote, or a saved retriever.", exists=True, file_okay=False)
]
Embedder = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:OBJECT",
        help="The model that embedded the passages: LangChain's, LlamaIndex's, or a function from text to vector.",
    ),
]
Limit = Annotated[int, typer.Option(min=1, help="Hits asked of every source.")]
JsonTo = Annotated[str | None, typer.Option("--json", help="Write it as JSON ('-': standard output).")]
PipelineFile = Annotated[Path | None, file_option("A saved pipeline.")]
GraphDir = Annotated[Path | None, folder_option("A saved graph of this corpus (see index).")]
SpanOverlap = Annotated[
    float | None,
    typer.Option(
        min=0.0, max=1.0, help="Share of a gold span that a relevant passage holds; default .5, a protocol's own .3."
    ),
]
DEFAULT_OVERLAP = 0.5


def kept_graph(folder: Path | None) -> EntityGraph | ChunkGraph | None:
    """The graph that was saved in a folder, of either kind."""
    if folder is None:
        return None
    return ChunkGraph.load(folder) if bundle_kind(folder) == KIND else load_graph(folder)


def open_dataset(folder: Path, span_overlap: float | None = None, *, default: float = DEFAULT_OVERLAP) -> Dataset:
    """The data set of a folder; an overlap that nothing would be measured by is an error, a `default` one is not."""
    if span_overlap is None:
        return load_dataset(folder, share=default)
    dataset = load_dataset(folder, share=span_overlap)
    if not dataset.unjudged and not any(key in query.extra for query in dataset.queries for key in SPANS):
        raise InvalidInputError(f"--span-overlap: no query of {dataset.name} is judged by spans")
    return dataset


def names_in(text: str) -> list[str]:
    """The names of a comma-separated list, each once, in order."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def measure_of(text: str) -> Measure:
    """A measure, or the command line's own error."""
    try:
        return Measure.parse(text)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from error


T = TypeVar("T")
Embed = Callable[[str], Any]
WIDE = 200


class _Console(Console):
    """A console on which the texts of passages and names are shown, and steer nothing."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As of :class:`rich.console.Console`; a text is one line."""
        super().print(*(legible(one) if isinstance(one, str) else one for one in objects), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is shown, signs that would steer the terminal written out."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text == "\n":
                yield segment
            else:
                yield segment._replace(text="\n".join(map(legible, segment.text.split("\n"))))


def console(*, beside_json: bool = False) -> Console:
    """The console for people: standard output, or standard error while JSON goes to standard output."""
    found = _Console(stderr=beside_json, highlight=False, markup=False, soft_wrap=True)
    return found if found.is_terminal else _Console(stderr=beside_json, highlight=False, markup=False, width=WIDE)


def progress(items: Iterable[T], label: str) -> Iterable[T]:
    """Progress bar on a terminal; nothing anywhere else."""
    return with_progress(items, True, label=label)


def write_json(state: object, target: str | None) -> Console:
    """Write JSON to a file, or to standard output for ``-``, where it is asked for; the console for people."""
    if target is not None:
        text = legible_json(json.dumps(state, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"
        if target == "-":
            sys.stdout.write(text)
        else:
            write_text(target, text)
    return console(beside_json=target == "-")


def check_outputs(**options: str | Path | None) -> None:
    """Raise before the work starts where an option names a file that could not be written after it."""
    for name, target in options.items():
        if target is None or str(target) == "-":
            continue
        parent = Path(target).resolve().parent
        if not parent.is_dir():
            raise InvalidInputError(f"--{name}: the folder of {target} must exist; {parent} does not")
        if not os.access(parent, os.W_OK):
            raise InvalidInputError(f"--{name}: the folder of {target} must be writable; {parent} is not")


def show_table(
    to: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], marked: Collection[str] = ()
) -> None:
    """A line and a table under it: first column to the left, the others to the right; rows of `marked` names bold."""
    to.print(Text(legible(title), style="bold"))
    table = RichTable()
    for place, column in enumerate(columns):
        table.add_column(
            Text(legible(column)), justify="left" if place == 0 else "right", no_wrap=place == 0, overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(legible(cell)) for cell in row), style="bold" if row[0] in marked else None)
    to.print(table)


def percent(value: float | None) -> str:
    """A share in [0, 1] as a percentage, ``–`` for none."""
    return "–" if value is None or value != value else f"{100 * value:.1f}"


def load_object(text: str) -> object:
    """The object that ``module:object`` names, looked for in the current folder, too; a function of nothing is called.

    BadParameter if there is no such module or object; errors raised inside the module are its own.
    """
    module, colon, names = text.partition(":")
    if not (module and colon and names) or module.endswith(".py"):
        raise typer.BadParameter(f"must read MODULE:OBJECT, such as my_rag:retriever; got {text!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = reduce(getattr, names.split("."), import_module(module))
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise typer.BadParameter(f"there is no module {module!r} here or installed") from error
    except AttributeError as error:
        if module not in sys.modules:
            raise
        raise typer.BadParameter(f"the module {module!r} has no {names!r}") from error
    if inspect.isfunction(found) and not inspect.signature(found).parameters:
        return found()
    return found


def load_embedder(text: str | None) -> Embed | None:
    """How to ask the embedding model that ``module:object`` names for the embedding of a question."""
    if text is None:
        return None
    from phasegraph.distributed.retrieval import query_embedder

    return query_embedder(load_object(text), "--embedder must name")
