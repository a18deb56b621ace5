"""``phasegraph index``: a corpus to a saved entity graph, or to an updated one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, TypeVar

import numpy as np
import typer

from phasegraph._typing import Float32Array
from phasegraph.cli.output import console
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import Passage, read_corpus
from phasegraph.evaluation.reading import lines_of
from phasegraph.evaluation.vectors import read_vectors
from phasegraph.graph.entity_graph import Extraction, normalise_name
from phasegraph.graph.entity_graph.graph import checked_embeddings
from phasegraph.graph.extraction import read_openie
from phasegraph.graph.index import GraphIndex
from phasegraph.persistence.bundle import MANIFEST

T = TypeVar("T")
SAME = 1e-3
"""Two embeddings of one passage differ by at most this in every number."""


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
    gazetteer: Annotated[
        Path | None, typer.Option(help="Names to look for besides the titles, one a line.", exists=True, dir_okay=False)
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", help="Change the index in OUT: only what differs from it is read again.")
    ] = False,
) -> None:
    """Build the entity graph of a corpus by rules, without a model, and save it for evaluate, add and remove."""
    started = perf_counter()
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).is_file():
        raise InvalidInputError(f"{out}: the folder must be new, empty, or an index; it holds other files")
    old = _stage("loading", lambda: GraphIndex.load(out)) if update and (out / MANIFEST).is_file() else None
    given, malformed = _stage("reading", lambda: _read(corpus, embeddings, triples, gazetteer))
    label = "building" if old is None else "updating"
    fresh, said = _stage(label, lambda: (_built(given), "") if old is None else updated(old, given))
    if fresh is not old:
        _stage("saving", lambda: fresh.save(out))
    graph, to = fresh.graph, console()
    to.print(
        f"{len(graph.passages)} passages, {len(graph.entities)} entities, {graph.mentions.nnz} mentions, "
        f"{graph.facts.nnz // 2} facts in {perf_counter() - started:.1f} s: {out}",
        markup=False,
    )
    if said:
        to.print(said, markup=False)
    if malformed:
        to.print(f"{malformed} malformed triples left out of {triples}", markup=False)


@dataclass(frozen=True, eq=False)
class Given:
    """What the files of one command hold."""

    passages: tuple[Passage, ...]
    vectors: Float32Array | None
    records: tuple[Extraction, ...] | None
    names: tuple[str, ...] | None


def updated(old: GraphIndex, given: Given) -> tuple[GraphIndex, str]:
    """The index with the passages of `given`, and what changed.

    Raises
    ------
    InvalidInputError
        If there are embeddings for one and not for the other, or other names to look for.

    Notes
    -----
    A passage whose text, embedding or triples differ leaves and comes again. Passages that stay keep the triples
    they have where none are given. Where none stays, all is built anew.
    """
    vectors = _same_kind(old, given)
    by_id: dict[str, tuple[Extraction, ...]] = {}
    for record in given.records or ():
        by_id[record.passage_id] = (*by_id.get(record.passage_id, ()), record)
    there = {row[0]: (place, row) for place, row in enumerate(old.rows)}

    def stays(place: int, passage: Passage) -> bool:
        if passage.id not in there:
            return False
        row, kept = there[passage.id]
        same = kept == (passage.id, passage.title, passage.text)
        if vectors is not None and old.graph.embeddings is not None:
            same = same and bool(np.abs(vectors[place] - old.graph.embeddings[row]).max() <= SAME)
        return same and (given.records is None or by_id.get(passage.id, ()) == old.given.get(passage.id, ()))

    steady = {passage.id for place, passage in enumerate(given.passages) if stays(place, passage)}
    new = [place for place, passage in enumerate(given.passages) if passage.id not in steady]
    gone = [name for name in there if name not in steady]
    again = sum(given.passages[place].id in there for place in new)
    said = f"{len(new) - again} passages new, {len(gone) - again} gone, {again} changed, {len(steady)} as they were"
    if not steady:
        return _built(given, old), said
    fresh = old.remove(gone) if gone else old
    if new:
        triples = [record for place in new for record in by_id.get(given.passages[place].id, ())]
        rows = None if vectors is None else vectors[new]
        fresh = fresh.add([given.passages[place] for place in new], triples=triples, embeddings=rows)
    return fresh, said


def _same_kind(old: GraphIndex, given: Given) -> Float32Array | None:
    if (old.graph.embeddings is None) != (given.vectors is None):
        said = "has none" if given.vectors is not None else "has them"
        raise InvalidInputError(f"--embeddings must be given exactly where the index has embeddings; it {said}")
    if given.names is not None and {name for name in map(normalise_name, given.names) if name} != old.gazetteer:
        raise InvalidInputError("--gazetteer must hold the names of the index to update it; build it anew instead")
    if given.vectors is None or old.graph.embeddings is None:
        return None
    if given.vectors.shape[1] != old.graph.embeddings.shape[1]:
        wanted = old.graph.embeddings.shape[1]
        raise InvalidInputError(
            f"--embeddings must have {wanted} columns as in the index; got {given.vectors.shape[1]}"
        )
    return checked_embeddings("embeddings", given.vectors, len(given.passages))


def _built(given: Given, old: GraphIndex | None = None) -> GraphIndex:
    names = given.names if given.names is not None or old is None else sorted(old.gazetteer)
    weights = None if old is None else old.graph.weights
    return GraphIndex.build(
        given.passages, triples=given.records, embeddings=given.vectors, gazetteer=names or (), weights=weights
    )


def _read(corpus: Path, embeddings: Path | None, triples: Path | None, gazetteer: Path | None) -> tuple[Given, int]:
    passages = read_corpus(corpus)
    vectors = None if embeddings is None else read_vectors(embeddings, len(passages), corpus.name)
    found = None if triples is None else read_openie(triples, passages, entities=False)
    names = None if gazetteer is None else tuple(text for _, text in lines_of(gazetteer))
    records = None if found is None else found.extractions
    return Given(passages, vectors, records, names), 0 if found is None else found.malformed_triples


def _stage(label: str, work: Callable[[], T]) -> T:
    """Do a part of the work, named on a terminal while it lasts."""
    to = console()
    if not to.is_terminal:
        return work()
    with to.status(label):
        return work()
