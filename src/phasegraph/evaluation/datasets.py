"""Data sets in our folder format: passages, judged queries, their embeddings, and triples where there are any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from phasegraph._typing import Float32Array, IntArray
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.reading import flag_field, id_list, objects_of, text_field, wrong
from phasegraph.evaluation.vectors import read_vectors
from phasegraph.graph.entity_graph.records import Triple
from phasegraph.graph.extraction import read_openie

_EMPTY: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage of a corpus: id, title (may be empty), text, and whatever else its line holds."""

    id: str
    title: str
    text: str
    extra: Mapping[str, object] = field(default_factory=lambda: _EMPTY, repr=False)


@dataclass(frozen=True, slots=True)
class Query:
    """One judged question: id, text, judgement, whatever else its line holds, and that line's number (0: none)."""

    id: str
    text: str
    judgement: Judgement
    extra: Mapping[str, object] = field(default_factory=lambda: _EMPTY, repr=False)
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """A corpus with judged queries.

    Parameters
    ----------
    name : str
        The folder's name.
    passages : tuple of Passage
        The N passages; ids are unique.
    queries : tuple of Query
        The n queries; ids are unique, every judged passage is in the corpus.
    passage_vectors : (N, d) array of float32
        L2-normalised embeddings, row i = passage i.
    query_vectors : (n, d) array of float32
        Likewise.
    triples : mapping of str to tuple of (str, str, str), optional
        Triples by passage id.
    path : Path, optional
        Where it was read from.
    """

    name: str
    passages: tuple[Passage, ...]
    queries: tuple[Query, ...]
    passage_vectors: Float32Array
    query_vectors: Float32Array
    triples: Mapping[str, tuple[Triple, ...]] | None = None
    path: Path | None = None

    @property
    def judgements(self) -> tuple[Judgement, ...]:
        """The judgement of every query, in order."""
        return tuple(query.judgement for query in self.queries)

    def subset(self, rows: Sequence[int] | IntArray) -> Dataset:
        """The same corpus with the queries at `rows` only."""
        wanted = np.array(rows, dtype=np.intp)
        queries = tuple(self.queries[row] for row in wanted.tolist())
        return replace(self, queries=queries, query_vectors=self.query_vectors[wanted])


def load_dataset(folder: str | Path) -> Dataset:
    """Read a folder of our format.

    Parameters
    ----------
    folder : path
        Holds ``corpus.jsonl`` (``id, title, text``), ``queries.jsonl`` (``id, question, hops`` and optionally
        ``last_hop_known``, ``hop_alternatives``), ``passages.f16.npy`` and ``queries.f16.npy`` (row i = line
        i), and optionally ``triples.jsonl`` (``id, triples``, or HippoRAG's OpenIE format).

    Returns
    -------
    Dataset

    Raises
    ------
    InvalidInputError
        Naming file and line: for a missing file, a broken line, an id that repeats, a hop that is not in the
        corpus, or embeddings whose rows do not match the lines, whose widths differ, or that are all zeros.

    Notes
    -----
    Where ``hop_alternatives`` is given (per hop, the ids any of which will do), it is what counts. A hop that
    repeats counts once, at its last place. Embeddings that are not of unit length are scaled to it.
    Entities beside the triples are not read: names that stand in no triple made the walk worse, not better.
    """
    root = Path(folder)
    if not root.is_dir():
        raise wrong(root, None, "a data set must be a folder; there is none here")
    passages = read_corpus(root / "corpus.jsonl")
    known = {passage.id for passage in passages}
    queries = _read_queries(root / "queries.jsonl", known)
    vectors = read_vectors(root / "passages.f16.npy", len(passages), "corpus.jsonl")
    asked = read_vectors(root / "queries.f16.npy", len(queries), "queries.jsonl")
    if vectors.shape[1] != asked.shape[1]:
        message = f"must have as many columns as passages.f16.npy ({vectors.shape[1]}); got {asked.shape[1]}"
        raise wrong(root / "queries.f16.npy", None, message)
    stated = root / "triples.jsonl"
    triples = _read_triples(stated, passages) if stated.is_file() else None
    return Dataset(
        name=root.resolve().name,
        passages=passages,
        queries=queries,
        passage_vectors=vectors,
        query_vectors=asked,
        triples=triples,
        path=root,
    )


def read_corpus(path: str | Path) -> tuple[Passage, ...]:
    """Read passages, one JSON object ``{"id", "title", "text"}`` a line; title may be left out.

    Raises
    ------
    InvalidInputError
        Naming file and line.
    """
    file = Path(path)
    seen: dict[str, int] = {}
    passages = []
    for line, row in objects_of(file):
        name = _new_id(file, line, row, seen)
        title = text_field(file, line, row, "title", "")
        text = text_field(file, line, row, "text", "")
        if not (title.strip() or text.strip()):
            raise wrong(file, line, f"a passage must have a title or a text; {name!r} has neither")
        extra = {key: value for key, value in row.items() if key not in ("id", "title", "text")}
        passages.append(Passage(name, title, text, MappingProxyType(extra)))
    if not passages:
        raise wrong(file, None, "a corpus must hold at least one passage; the file is empty")
    return tuple(passages)


def _new_id(file: Path, line: int, row: Mapping[str, object], seen: dict[str, int]) -> str:
    name = text_field(file, line, row, "id")
    if name in seen:
        raise wrong(file, line, f"ids must not repeat; {name!r} is already on line {seen[name]}")
    seen[name] = line
    return name


def _read_queries(file: Path, known: set[str]) -> tuple[Query, ...]:
    seen: dict[str, int] = {}
    queries = []
    for line, row in objects_of(file):
        name = _new_id(file, line, row, seen)
        hops = _read_hops(file, line, row, known)
        last = flag_field(file, line, row, "last_hop_known", True)
        question = text_field(file, line, row, "question")
        extra = {key: value for key, value in row.items() if key not in ("id", "question", "hops")}
        queries.append(Query(name, question, Judgement(name, hops, last), MappingProxyType(extra), line))
    if not queries:
        raise wrong(file, None, "there must be at least one query; the file is empty")
    return tuple(queries)


def _read_hops(file: Path, line: int, row: Mapping[str, object], known: set[str]) -> tuple[tuple[str, ...], ...]:
    ids = id_list(file, line, row.get("hops"), "hops", repeats=True)
    hops: tuple[tuple[str, ...], ...] = tuple((passage,) for passage in ids)
    listed = row.get("hop_alternatives")
    if listed is not None:
        if not isinstance(listed, list) or len(listed) != len(hops):
            raise wrong(file, line, f"'hop_alternatives' must hold one list per hop ({len(hops)}); got {listed!r}")
        hops = tuple(id_list(file, line, of_hop, "hop_alternatives") for of_hop in listed)
    for hop in hops:
        for passage in hop:
            if passage not in known:
                raise wrong(file, line, f"a judged passage must be in corpus.jsonl; {passage!r} is not")
    return tuple(dict.fromkeys(reversed(hops)))[::-1]


def _read_triples(file: Path, passages: tuple[Passage, ...]) -> Mapping[str, tuple[Triple, ...]]:
    """Triples by passage, as the graph reads them; one that is not three texts is an error here."""
    found = read_openie(file, passages, entities=False, strict=True)
    return {one.passage_id: tuple(one.triples) for one in found.extractions}
