"""Files of a corpus to an entity graph, or to an updated one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from phasegraph._typing import Float32Array
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import Passage, read_corpus
from phasegraph.evaluation.reading import lines_of
from phasegraph.evaluation.vectors import read_vectors
from phasegraph.graph.checks import check_range
from phasegraph.graph.entity_graph import Extraction, normalise_name
from phasegraph.graph.entity_graph.graph import checked_embeddings
from phasegraph.graph.extraction import read_openie
from phasegraph.graph.index import GraphIndex
from phasegraph.graph.name_synonyms import NameSynonyms

SAME = 1e-3
"""Two embeddings of one passage differ by at most this in every number."""
DEFAULT_THRESHOLD = 0.8


@dataclass(frozen=True, eq=False)
class Embedded:
    """Names with their embeddings, and the least cosine of synonyms where it was said."""

    vectors: Mapping[str, Float32Array]
    threshold: float | None

    def made(self) -> NameSynonyms:
        """What an index is built with."""
        return NameSynonyms.of(self.vectors, threshold=DEFAULT_THRESHOLD if self.threshold is None else self.threshold)


@dataclass(frozen=True, eq=False)
class Given:
    """What the files of one command hold."""

    passages: tuple[Passage, ...]
    vectors: Float32Array | None
    records: tuple[Extraction, ...] | None
    names: tuple[str, ...] | None
    synonyms: Embedded | None = None


def updated(old: GraphIndex, given: Given) -> tuple[GraphIndex, str]:
    """The index with the passages of `given`, and what changed.

    Raises
    ------
    InvalidInputError
        If there are embeddings for one and not for the other, other names to look for, synonyms where the index has
        none, or another threshold of theirs.

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
        return built(given, old), said
    embedded = None if given.synonyms is None else given.synonyms.vectors
    if not gone and not new:
        return _knowing(old, given.synonyms), said
    fresh = old.remove(gone, name_embeddings=embedded) if gone else old
    if new:
        triples = [record for place in new for record in by_id.get(given.passages[place].id, ())]
        rows = None if vectors is None else vectors[new]
        came = [given.passages[place] for place in new]
        fresh = fresh.add(came, triples=triples, embeddings=rows, name_embeddings=embedded)
    return fresh, said


def _knowing(old: GraphIndex, given: Embedded | None) -> GraphIndex:
    """The index with the embeddings of these names, too; itself where there are none."""
    if given is None or old.synonyms is None:
        return old
    synonyms = old.synonyms.knowing(old.graph.entities, given.vectors)
    graph = replace(old.graph, synonyms=synonyms.edges(old.graph.entities))
    return replace(old, graph=graph, synonyms=synonyms)


def _same_kind(old: GraphIndex, given: Given) -> Float32Array | None:
    if (old.graph.embeddings is None) != (given.vectors is None):
        said = "has none" if given.vectors is not None else "has them"
        raise InvalidInputError(f"--embeddings must be given exactly where the index has embeddings; it {said}")
    if given.names is not None and {name for name in map(normalise_name, given.names) if name} != old.gazetteer:
        raise InvalidInputError("--gazetteer must hold the names of the index to update it; build it anew instead")
    if given.synonyms is not None:
        if old.synonyms is None:
            raise InvalidInputError("--names must be given when an index is built; it has no synonyms to update")
        held, wanted = old.synonyms.threshold, given.synonyms.threshold
        if wanted not in (None, held):
            raise InvalidInputError(
                f"--synonym-threshold must be that of the index to update it, {held:g}; got {wanted:g}"
            )
    if given.vectors is None or old.graph.embeddings is None:
        return None
    if given.vectors.shape[1] != old.graph.embeddings.shape[1]:
        width = old.graph.embeddings.shape[1]
        raise InvalidInputError(f"--embeddings must have {width} columns as in the index; got {given.vectors.shape[1]}")
    return checked_embeddings("embeddings", given.vectors, len(given.passages))


def built(given: Given, old: GraphIndex | None = None) -> GraphIndex:
    """The index of what the files hold; names, weights and synonyms as in an old one where they are not given."""
    names = given.names if given.names is not None or old is None else sorted(old.gazetteer)
    synonyms = None if given.synonyms is None else given.synonyms.made()
    if old is not None and old.synonyms is not None:
        synonyms = old.synonyms if given.synonyms is None else old.synonyms.knowing((), given.synonyms.vectors)
    return GraphIndex.build(
        given.passages,
        triples=given.records,
        embeddings=given.vectors,
        gazetteer=names or (),
        synonyms=synonyms,
        weights=None if old is None else old.graph.weights,
    )


def read_files(
    corpus: Path,
    embeddings: Path | None,
    triples: Path | None,
    gazetteer: Path | None,
    synonyms: tuple[Path | None, Path | None, float | None] = (None, None, None),
) -> tuple[Given, int]:
    """What the files hold, and how many triples of them are malformed.

    Parameters
    ----------
    corpus, embeddings, triples, gazetteer : path
    synonyms : (path, path, float)
        Names, their embeddings, the threshold.
    """
    embedded = _embedded(*synonyms)
    passages = read_corpus(corpus)
    vectors = None if embeddings is None else read_vectors(embeddings, len(passages), corpus.name)
    found = None if triples is None else read_openie(triples, passages, entities=False)
    names = None if gazetteer is None else tuple(text for _, text in lines_of(gazetteer))
    records = None if found is None else found.extractions
    return Given(passages, vectors, records, names, embedded), 0 if found is None else found.malformed_triples


def _embedded(names: Path | None, embeddings: Path | None, threshold: float | None) -> Embedded | None:
    if names is None and embeddings is None and threshold is None:
        return None
    if names is None or embeddings is None:
        raise InvalidInputError("--names and --name-embeddings must be given together, one row for each name")
    if threshold is not None:
        check_range("--synonym-threshold", threshold, 0, 1, ends="(]")
    texts = [text for _, text in lines_of(names)]
    vectors = read_vectors(embeddings, len(texts), names.name)
    found: dict[str, Float32Array] = {}
    for text, vector in zip(texts, vectors, strict=True):
        found.setdefault(text, vector)
    return Embedded(found, threshold)
