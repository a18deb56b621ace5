"""Helpers of all commands: data sets, imported objects, tables, JSON and progress bars."""

from __future__ import annotations

import inspect
import json
import os
import shlex
import sys
import webbrowser
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import reduce
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from phasegraph._support.progress import with_progress
from phasegraph._support.serialization import MANIFEST, bundle_kind
from phasegraph._support.text import legible, legible_json
from phasegraph.apps.cli.naming import did_you_mean
from phasegraph.embedding import EMBEDDERS, named_embedder
from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import Dataset, embeddings_fit, load_dataset
from phasegraph.evaluation.measures import Measure
from phasegraph.evaluation.query_files import SPANS
from phasegraph.evaluation.runs import write_text
from phasegraph.graph.chunk_graph import KIND, ChunkGraph
from phasegraph.graph.corpus.folder import STATE
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.model.storage import load_graph
from phasegraph.reading.files import CORPUS, QUERIES
from phasegraph.retrieval.plain_filters import check_filter

DEFAULT_OVERLAP = 0.5


def kept_graph(folder: Path | None) -> EntityGraph | ChunkGraph | None:
    """Load the entity graph or chunk graph that is saved in a folder; None without a folder."""
    if folder is None:
        return None
    return ChunkGraph.load(folder) if bundle_kind(folder) == KIND else load_graph(folder)


def check_dataset(folder: Path) -> None:
    """Raise InvalidInputError if a folder that must contain a data set is an index."""
    if (folder / CORPUS).is_file() or not any((folder / name).is_file() for name in (MANIFEST, STATE)):
        return
    raise InvalidInputError(
        f"{folder}: the folder is an index, but the command needs a data set (a folder with {CORPUS} and {QUERIES}); "
        "evaluate and explain take the index of a data set as --graph FOLDER. To measure retrieval over your own "
        "files, use phasegraph try FILES QUESTIONS.jsonl --compare MODULE:OBJECT. To explain the answer to a question "
        "of your own, use phasegraph search or phasegraph inspect on the index"
    )


def open_dataset(
    folder: Path,
    span_overlap: float | None = None,
    *,
    default: float = DEFAULT_OVERLAP,
    model: EmbeddingModel | None = None,
) -> Dataset:
    """Load the data set of a folder.

    `span_overlap` is the fraction of a gold span that a relevant passage must cover; None means `default`. `model`
    embeds the texts if the folder has no embeddings. Raise InvalidInputError in three cases: the folder is an index;
    `span_overlap` is given, but no query is judged by spans; or `model` is given, but only one of the two embedding
    files exists.
    """
    check_dataset(folder)
    if model is not None:
        _check_embeddings(folder)
    if span_overlap is None:
        return load_dataset(folder, share=default, model=model)
    dataset = load_dataset(folder, share=span_overlap, model=model)
    if not dataset.unjudged and not any(key in query.extra for query in dataset.queries for key in SPANS):
        raise InvalidInputError(
            f"--span-overlap has no effect: no query of {dataset.name} is judged by spans; leave it out"
        )
    return dataset


def embedding_doubts(dataset: Dataset, embedder: str | None = None) -> list[str]:
    """Return a line if the questions' embeddings do not fit the embeddings of the passages that answer them.

    `embedder` is the name of the model that embedded the texts if the folder of the data set has no embeddings.
    """
    if embeddings_fit(dataset):
        return []
    advice = (
        "check that row i of passages.f16.npy and queries.f16.npy belongs to line i of corpus.jsonl and queries.jsonl, "
        "and that one model made both"
    )
    if embedder is not None and dataset.path is not None and not (dataset.path / "passages.f16.npy").is_file():
        advice = (
            f"check that --embedder {embedder} embeds questions and passages with the same model, and that the model "
            "knows the language of the texts"
        )
    return [
        "on average, the embedding of a question is not clearly nearer to the question's own passages than to the "
        f"other passages: {advice}"
    ]


def _check_embeddings(folder: Path) -> None:
    """Raise InvalidInputError if only one of a data set's two files of embeddings exists; the other needs its model."""
    files = folder / "passages.f16.npy", folder / "queries.f16.npy"
    held, lacking = sorted(files, key=Path.is_file, reverse=True)
    if held.is_file() and not lacking.is_file():
        raise InvalidInputError(
            f"{held} exists, but {lacking} does not, and the model of --embedder may differ from the model of the "
            "existing file: write the missing file with the same model, or move the existing file away"
        )


def only_with(given: Sequence[str], option: str) -> dict[str, Any]:
    """Parse the ``KEY=VALUE`` texts of an option to a metadata filter; a value is JSON, or else plain text.

    >>> only_with(["team=red", "level=[1, 2]"], "--filter")
    {'team': 'red', 'level': [1, 2]}
    """
    wanted: dict[str, Any] = {}
    for one in given:
        key, sign, text = one.partition("=")
        if not key or not sign:
            raise typer.BadParameter(f"{option} must be KEY=VALUE; got {one!r}")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text
        if key in wanted:
            raise typer.BadParameter(
                f'{option} {key} is given twice: give {option} \'{key}=["a", "b"]\' to accept both values'
            )
        wanted[key] = value
    check_filter(option, wanted)
    return wanted


def names_in(text: str) -> list[str]:
    """Return the distinct names of a comma-separated list, in order."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def check_named(option: str, name: str, known: Collection[str]) -> None:
    """Raise BadParameter for an unknown name; the message suggests similar names, or lists all known names."""
    if name not in known:
        known_names = did_you_mean(name, known) or f"; it must be one of {', '.join(known)}"
        raise typer.BadParameter(f"{option}: the name {name!r} is unknown{known_names}")


def measure_of(text: str, option: str) -> Measure:
    """Parse the measure that an option names, such as ``Recall@5``."""
    try:
        return Measure.parse(text)
    except InvalidInputError as error:
        raise typer.BadParameter(f"{option}: {error}") from error


T = TypeVar("T")
Embed = Callable[[str], Any]
WIDE = 1000
"""Line width of output without a terminal, in characters; wide enough for every table."""


class _Console(Console):
    """A console that escapes control characters in the texts it prints."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as :class:`rich.console.Console` does, with each text escaped and on one line."""
        super().print(*(legible(one) if isinstance(one, str) else one for one in objects), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render a text or table as :class:`rich.console.Console` does, with every control character escaped."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text == "\n":
                yield segment
            else:
                yield segment._replace(text="\n".join(map(legible, segment.text.split("\n"))))


def console(*, beside_json: bool = False) -> Console:
    """Return the console for messages: standard output, or standard error if JSON goes to standard output."""
    found = _Console(stderr=beside_json, highlight=False, markup=False, soft_wrap=True)
    return found if found.is_terminal else _Console(stderr=beside_json, highlight=False, markup=False, width=WIDE)


def progress(items: Iterable[T], label: str) -> Iterable[T]:
    """Return an iterable of the same items, with a progress bar if standard error is a terminal."""
    return with_progress(items, True, label=label, unit="item")


def write_json(state: object, target: str | None) -> Console:
    """Write JSON to the file `target`, and return the console for messages.

    If `target` is ``-``, the JSON goes to standard output. If it is None, nothing is written.
    """
    if target is not None:
        text = legible_json(json.dumps(state, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"
        if target == "-":
            sys.stdout.write(text)
        else:
            write_text(target, text)
    return console(beside_json=target == "-")


def check_outputs(**options: str | Path | None) -> None:
    """Raise InvalidInputError before any work if an option names a file that cannot be written."""
    for name, target in options.items():
        if target is None or str(target) == "-":
            continue
        parent = Path(target).resolve().parent
        if not parent.is_dir():
            raise InvalidInputError(f"--{name}: the folder of {target} must exist; {parent} does not exist")
        if not os.access(parent, os.W_OK):
            raise InvalidInputError(f"--{name}: the folder of {target} must be writable; {parent} is not writable")


def check_heeded(context: typer.Context, with_option: str, heeded: Collection[str]) -> None:
    """Raise BadParameter if the user gave a parameter that has no effect together with the option `with_option`.

    `heeded` contains the names of the parameters that have an effect.
    """
    for name, option in given_options(context):
        if name not in heeded:
            raise typer.BadParameter(f"{option} must be left out with {with_option}")


def given_options(context: typer.Context) -> Iterator[tuple[str, str]]:
    """Yield the name and the option, such as ``k`` and ``--k``, of each parameter that the user gave."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            yield name, parameter.opts[0]


def command_of(context: typer.Context) -> str:
    """Return the shell command that runs this command again with the same options."""
    parts = ["phasegraph", str(context.info_name)]
    for parameter in context.command.params:
        source, value = context.get_parameter_source(parameter.name or ""), context.params.get(parameter.name or "")
        if source is None or source.name != "COMMANDLINE" or value is None:
            continue
        if parameter.param_type_name == "argument":
            parts.append(str(value))
        elif isinstance(value, bool):
            parts.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        else:
            parts += [parameter.opts[0], str(value)]
    return shlex.join(parts)


def show_table(
    to: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], marked: Collection[str] = ()
) -> None:
    """Print a title and a table; the first column is aligned left, all others right; `marked` rows are bold.

    The table shows the first columns that fit in a line of the console, and a line below it names the hidden columns.
    """
    to.print(Text(legible(title), style="bold"))
    kept = _fitting(columns, rows, to.width)
    hidden, columns, rows = columns[kept:], columns[:kept], [row[:kept] for row in rows]
    table = RichTable()
    for place, column in enumerate(columns):
        table.add_column(
            Text(legible(column)), justify="left" if place == 0 else "right", no_wrap=place == 0, overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(legible(cell)) for cell in row), style="bold" if row[0] in marked else None)
    to.print(table)
    if hidden:
        to.print(f"not shown in {to.width} characters: {', '.join(hidden)}")


def _fitting(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> int:
    """Return the number of columns that fit into a line; at least two."""
    widths = [3 + max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    return max(sum(1 + total <= width for total in accumulate(widths)), 2)


def percent(value: float | None) -> str:
    """Format a share in [0, 1] as a percentage; ``–`` for None or NaN."""
    return "–" if value is None or value != value else f"{100 * value:.1f}"


def load_object(text: str, option: str) -> object:
    """Import the object named ``module:object`` from the current folder or an installed package.

    A function without parameters is called as a factory. Raise BadParameter, which names the `option`, if the module or
    object does not exist. Errors inside the module are raised unchanged.
    """
    module, colon, names = text.partition(":")
    if not (module and colon and names) or module.endswith(".py"):
        raise typer.BadParameter(f"{option} must have the form MODULE:OBJECT, such as my_rag:retriever; got {text!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = reduce(getattr, names.split("."), import_module(module))
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise typer.BadParameter(
            f"{option}: the module {module!r} is neither in the current folder nor installed"
        ) from error
    except AttributeError as error:
        if module not in sys.modules:
            raise
        raise typer.BadParameter(f"{option}: the module {module!r} has no object {names!r}") from error
    if inspect.isfunction(found) and not inspect.signature(found).parameters:
        return found()
    return found


def load_model(text: str | None) -> object | None:
    """Load an embedding model by its name (:data:`~phasegraph.embedding.EMBEDDERS`) or from ``module:object``.

    Return None if `text` is None. Raise BadParameter if there is no such model, or if the object is a class.
    """
    if text is None:
        return None
    if text in EMBEDDERS:
        found: object = named_embedder(text)
        return found
    if ":" not in text:
        like = did_you_mean(text, EMBEDDERS)
        raise typer.BadParameter(f"--embedder must be {', '.join(EMBEDDERS)} or MODULE:OBJECT; got {text!r}{like}")
    model = load_object(text, "--embedder")
    if isinstance(model, type):
        raise typer.BadParameter(
            f"--embedder: {text} is a class: name an instance or a function, such as {text.partition(':')[0]}:model"
        )
    return model


def embed_with(model: object) -> Embed | None:
    """Return the function from question to vector of an embedding model; None if `model` is None."""
    from phasegraph.distributed.retrieval import query_embedder

    return query_embedder(model, "--embedder must name")


def stage(label: str, work: Callable[[], T]) -> T:
    """Call `work`, and return its value; on a terminal, show the text `label` until the call ends."""
    to = console()
    if not to.is_terminal:
        return work()
    with to.status(label):
        return work()


def open_page(address: str, wanted: bool | None) -> None:
    """Open an address in the browser if `wanted` is true, or if it is None and standard output is a terminal."""
    if console().is_terminal if wanted is None else wanted:
        webbrowser.open(address)
