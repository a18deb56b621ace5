"""``phasegraph index``: a corpus to a saved entity graph, or to an updated one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Annotated, TypeVar

import typer

from phasegraph.cli.indexing import built, read_files, updated
from phasegraph.cli.output import check_outputs, console
from phasegraph.errors import InvalidInputError
from phasegraph.graph.index import GraphIndex
from phasegraph.persistence.bundle import MANIFEST

T = TypeVar("T")
Gazetteer = Annotated[
    Path | None, typer.Option(help="Names to look for besides the titles, one a line.", exists=True, dir_okay=False)
]
Update = Annotated[
    bool, typer.Option("--update", help="Change the index in OUT: only what differs from it is read again.")
]
Names = Annotated[
    Path | None,
    typer.Option(help="Names whose embeddings tell synonyms, one a line.", exists=True, dir_okay=False),
]
NameEmbeddings = Annotated[
    Path | None, typer.Option(help="Their embeddings (.npy), row i for name i.", exists=True, dir_okay=False)
]
SynonymThreshold = Annotated[
    float | None, typer.Option(help="Least cosine of synonyms, in (0, 1]: 0.8 where it is not given.")
]
EntitiesTo = Annotated[
    Path | None, typer.Option("--entities-to", help="Write the entities' names, to be embedded.", dir_okay=False)
]


def index(
    corpus: Annotated[
        Path,
        typer.Argument(metavar="CORPUS.jsonl", exists=True, dir_okay=False, help='{"id", "title", "text"} a line.'),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the index: new, empty, or an older index.", file_okay=False)],
    embeddings: Annotated[
        Path | None, typer.Option(help="Passage embeddings (.npy), row i for line i.", exists=True, dir_okay=False)
    ] = None,
    triples: Annotated[
        Path | None,
        typer.Option(help="Triples by passage (.jsonl, or HippoRAG's OpenIE .json).", exists=True, dir_okay=False),
    ] = None,
    gazetteer: Gazetteer = None,
    names: Names = None,
    name_embeddings: NameEmbeddings = None,
    synonym_threshold: SynonymThreshold = None,
    entities_to: EntitiesTo = None,
    update: Update = False,
) -> None:
    """Build the entity graph of a corpus by rules, without a model, and save it for evaluate, add and remove."""
    started = perf_counter()
    check_outputs(**{"entities-to": entities_to})
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).is_file():
        raise InvalidInputError(f"{out}: the folder must be new, empty, or an index; it holds other files")
    old = _stage("loading", lambda: GraphIndex.load(out)) if update and (out / MANIFEST).is_file() else None
    synonyms = (names, name_embeddings, synonym_threshold)
    given, malformed = _stage("reading", lambda: read_files(corpus, embeddings, triples, gazetteer, synonyms))
    label = "building" if old is None else "updating"
    fresh, said = _stage(label, lambda: (built(given), "") if old is None else updated(old, given))
    if fresh is not old:
        _stage("saving", lambda: fresh.save(out))
    if entities_to is not None:
        entities_to.write_text("".join(f"{name}\n" for name in fresh.graph.entities), encoding="utf-8")
    to = console()
    to.print(f"{sizes_of(fresh)} in {perf_counter() - started:.1f} s: {out}", markup=False)
    if said:
        to.print(said, markup=False)
    if malformed:
        to.print(f"{malformed} malformed triples left out of {triples}", markup=False)


def sizes_of(index: GraphIndex) -> str:
    """How much there is of everything, in words."""
    graph = index.graph
    counts = [
        (len(graph.passages), "passages"),
        (len(graph.entities), "entities"),
        (graph.mentions.nnz, "mentions"),
        (graph.facts.nnz // 2, "facts"),
    ]
    if index.synonyms is not None:
        counts.append((graph.synonyms.nnz // 2, "synonyms"))
    return ", ".join(f"{count} {what}" for count, what in counts)


def _stage(label: str, work: Callable[[], T]) -> T:
    """Do a part of the work, named on a terminal while it lasts."""
    to = console()
    if not to.is_terminal:
        return work()
    with to.status(label):
        return work()
