"""The command ``phasegraph index``: build and save an entity graph, or a chunk graph."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import typer

from phasegraph._support.files import building_place
from phasegraph._support.jsonl import lines_of
from phasegraph._support.serialization import MANIFEST
from phasegraph._support.text import counted
from phasegraph._support.typing import Float32Array
from phasegraph._support.validation import check_range
from phasegraph._support.vector_files import read_vectors
from phasegraph.apps.cli import engines
from phasegraph.apps.cli.documents import check_empty
from phasegraph.apps.cli.options import Engine
from phasegraph.apps.cli.output import check_outputs, console, load_model, stage
from phasegraph.apps.cli.reading import embedded, read_and_tell
from phasegraph.apps.cli.syncing import run_sync
from phasegraph.distributed import EmbeddedNames, local
from phasegraph.distributed.building import Run
from phasegraph.distributed.shards import BuildSettings
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.corpus_files import Passage
from phasegraph.graph.chunk_graph import ChunkGraph, build_chunk_graph
from phasegraph.graph.corpus.folder import STATE
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.model.building import read_openie
from phasegraph.graph.model.entity_graph import Extraction, checked_embeddings
from phasegraph.graph.model.synonyms import NameSynonyms
from phasegraph.graph.model.words import normalise_name
from phasegraph.lexical import Tokenizer, tokenizer_of
from phasegraph.retrieval.indexing import BuildPlan

SAME = 1e-3
"""Maximum difference per number between two embeddings that count as equal."""
DEFAULT_THRESHOLD = 0.8


@dataclass(frozen=True, eq=False)
class Embedded:
    """Entity names with their embeddings (`vectors`), and the minimum cosine of synonyms (`threshold`).

    A threshold of None means that the user gave no minimum cosine.
    """

    vectors: Mapping[str, Float32Array]
    threshold: float | None

    def made(self) -> NameSynonyms:
        """Return pairs of similar names (synonyms): names whose embeddings have at least the minimum cosine."""
        return NameSynonyms.of(self.vectors, threshold=DEFAULT_THRESHOLD if self.threshold is None else self.threshold)


@dataclass(frozen=True, eq=False)
class IndexFiles:
    """The input of ``phasegraph index``: passages, vectors, triples (`records`), known names, synonyms, tokenizer.

    None means that the user did not give this input.
    """

    passages: tuple[Passage, ...]
    vectors: Float32Array | None
    records: tuple[Extraction, ...] | None
    names: tuple[str, ...] | None
    synonyms: Embedded | None = None
    tokenizer: str | None = None


def updated(old: GraphIndex, given: IndexFiles) -> tuple[GraphIndex, str]:
    """Update an index to the passages of `given`; return the index and a sentence about the changes.

    A passage is replaced if its text, metadata, embedding or triples differ. Without triples in `given`, unchanged
    passages keep their triples. If every passage changes, the index is built anew.
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
        same = same and old.records[passage.id].metadata == (passage.metadata or {})
        if vectors is not None and old.graph.embeddings is not None:
            same = same and bool(np.abs(vectors[place] - old.graph.embeddings[row]).max() <= SAME)
        return same and (given.records is None or by_id.get(passage.id, ()) == old.given.get(passage.id, ()))

    steady = {passage.id for place, passage in enumerate(given.passages) if stays(place, passage)}
    new = [place for place, passage in enumerate(given.passages) if passage.id not in steady]
    gone = [name for name in there if name not in steady]
    again = sum(given.passages[place].id in there for place in new)
    added = counted(len(new) - again, "passage")
    said = f"{added} new, {len(gone) - again} gone, {again} changed, {len(steady)} unchanged"
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
    """Add the names and embeddings in `given` to an index with synonyms, and return the index with new synonyms.

    Without names in `given`, or without synonyms in the index, return the same index.
    """
    if given is None or old.synonyms is None:
        return old
    synonyms = old.synonyms.knowing(old.graph.entities, given.vectors)
    graph = replace(old.graph, synonyms=synonyms.edges(old.graph.entities))
    return replace(old, graph=graph, synonyms=synonyms)


def _same_kind(old: GraphIndex, given: IndexFiles) -> Float32Array | None:
    if (old.graph.embeddings is None) != (given.vectors is None):
        said = "has none: leave it out" if given.vectors is not None else "has embeddings: give it"
        raise InvalidInputError(f"--embeddings must match the index, which {said}")
    if given.names is not None and {name for name in map(normalise_name, given.names) if name} != old.known_names:
        raise InvalidInputError(
            "--known-names must contain the same names as the index; build the index anew (--force) to change them"
        )
    if given.tokenizer not in (None, _tokenizer_of(old)):
        raise InvalidInputError(
            f"--tokenizer must be the tokenizer of the index, {_tokenizer_of(old)}; got {given.tokenizer}: build "
            "the index anew (--force) to change it"
        )
    if given.synonyms is not None:
        if old.synonyms is None:
            raise InvalidInputError(
                "--names cannot be added to an index without synonyms; build the index anew (--force) with --names"
            )
        held, wanted = old.synonyms.threshold, given.synonyms.threshold
        if wanted not in (None, held):
            raise InvalidInputError(
                f"--synonym-threshold must be the threshold of the index, {held:g}; got {wanted:g}: leave it out, or "
                "build the index anew (--force) to change it"
            )
    if given.vectors is None or old.graph.embeddings is None:
        return None
    if given.vectors.shape[1] != old.graph.embeddings.shape[1]:
        width = old.graph.embeddings.shape[1]
        raise InvalidInputError(
            f"--embeddings must have {width} columns as in the index; got {given.vectors.shape[1]}: use the model that "
            "embedded the index, or build the index anew (--force)"
        )
    return checked_embeddings("embeddings", given.vectors, len(given.passages))


def built(given: IndexFiles, old: GraphIndex | None = None) -> GraphIndex:
    """Build an index of the input `given`; missing names, synonyms and tokenizer, and all weights, come from `old`."""
    names = given.names if given.names is not None or old is None else sorted(old.known_names)
    synonyms = None if given.synonyms is None else given.synonyms.made()
    if old is not None and old.synonyms is not None:
        synonyms = old.synonyms if given.synonyms is None else old.synonyms.knowing((), given.synonyms.vectors)
    return GraphIndex.build(
        given.passages,
        triples=given.records,
        embeddings=given.vectors,
        known_names=names or (),
        synonyms=synonyms,
        weights=None if old is None else old.graph.weights,
        tokenizer=given.tokenizer if given.tokenizer is not None else _tokenizer_of(old),
    )


def _tokenizer_of(old: GraphIndex | None) -> Tokenizer:
    return "english" if old is None or old.graph.lexical is None else old.graph.lexical.tokenizer


def passages_and_vectors(
    corpus: Path, out: Path, embeddings: Path | None, embedder: str | None
) -> tuple[tuple[Passage, ...], Float32Array | None]:
    """Read the passages of the user's files, and their embeddings from a file or a model (None without either).

    The files in `out`, the folder of the index, are left out.
    """
    model = load_model(embedder)
    passages = read_and_tell(corpus, out).passages
    if embeddings is not None:
        return passages, read_vectors(embeddings, len(passages), corpus.name)
    return passages, None if model is None else embedded(model, passages)


def read_beside(
    passages: tuple[Passage, ...],
    vectors: Float32Array | None,
    triples: Path | None,
    known_names: Path | None,
    synonyms: tuple[Path | None, Path | None, float | None] = (None, None, None),
) -> tuple[IndexFiles, int]:
    """Read the files of triples, names and synonyms (None: no such file); return the input and a number.

    The input also contains `passages` and `vectors`. The number is that of malformed triples. `synonyms` contains the
    file of names, the file of their embeddings, and the minimum cosine of synonyms.
    """
    embedded_names = _embedded(*synonyms)
    found = None if triples is None else read_openie(triples, passages, entities=False)
    names = None if known_names is None else tuple(text for _, text in lines_of(known_names))
    records = None if found is None else found.extractions
    return IndexFiles(
        passages, vectors, records, names, embedded_names
    ), 0 if found is None else found.malformed_triples


def _name_files(names: Path | None, embeddings: Path | None, threshold: float | None) -> tuple[Path, Path] | None:
    """Return the file of names and the file of their embeddings; None if no option is given.

    Raise InvalidInputError if an option is given, but one of the two files is missing.
    """
    if names is None and embeddings is None and threshold is None:
        return None
    if names is None or embeddings is None:
        raise InvalidInputError(
            "--names and --name-embeddings must be given together, because the embeddings have one row for each name; "
            "got " + ("--names" if names else "--name-embeddings" if embeddings else "neither")
        )
    if threshold is not None:
        check_range("--synonym-threshold", threshold, 0, 1, ends="(]")
    return names, embeddings


def _embedded(names: Path | None, embeddings: Path | None, threshold: float | None) -> Embedded | None:
    files = _name_files(names, embeddings, threshold)
    if files is None:
        return None
    texts = [text for _, text in lines_of(files[0])]
    vectors = read_vectors(files[1], len(texts), files[0].name)
    found: dict[str, Float32Array] = {}
    for text, vector in zip(texts, vectors, strict=True):
        found.setdefault(text, vector)
    return Embedded(found, threshold)


def chunks_of(
    passages: tuple[Passage, ...],
    vectors: Float32Array | None,
    name: str,
    document: str | None = None,
    position: str | None = None,
) -> ChunkGraph:
    """Build the chunk graph of a corpus; `name` is the name of its file, for error messages.

    `vectors` are the embeddings of the passages, or None. `document` and `position` are the fields of a line with the
    chunk's document and with its position. If a field is None, it is not read.
    """

    def column(option: str, field: str | None, kinds: tuple[type, ...]) -> list[Any] | None:
        if field is None:
            return None
        values = [passage.extra.get(field) for passage in passages]
        for passage, value in zip(passages, values, strict=True):
            if not isinstance(value, kinds) or isinstance(value, bool):
                named = " or ".join(kind.__name__ for kind in kinds)
                raise InvalidInputError(
                    f"{option} {field}: this field must be {named} in every line of {name}; {passage.id!r} has "
                    f"{value!r:.80}"
                )
        return values

    documents, positions = column("--document", document, (str, int)), column("--position", position, (int, float))
    named = None if documents is None else list(map(str, documents))
    return build_chunk_graph(passages, documents=named, positions=positions, embeddings=vectors)


def check_folder(out: Path, corpus: Path, *, may_replace: bool) -> None:
    """Raise if `out` contains anything but an index; ask for confirmation before an index is replaced."""
    if (out / STATE).is_file():
        raise InvalidInputError(
            f"{out}: the folder belongs to phasegraph index --sync or to a retriever: name a new folder. If index "
            f"--sync wrote it, you can update it with phasegraph index {corpus} --out {out} --sync"
        )
    if not (out / MANIFEST).is_file():
        check_empty(out)
        return
    if may_replace:
        return
    if not sys.stdin.isatty():
        raise InvalidInputError(
            f"{out}: the folder already contains an index; --update changes it, --force replaces it"
        )
    typer.confirm(
        f"{out}: the folder already contains an index (--update changes it). Replace it?", abort=True, err=True
    )


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """The options of ``phasegraph index`` by their names; None and False mean that the user did not give an option."""

    embeddings: Path | None
    embedder: str | None
    triples: Path | None
    known_names: Path | None
    names: Path | None
    name_embeddings: Path | None
    synonym_threshold: float | None
    tokenizer: str | None
    entities_to: Path | None
    update: bool
    force: bool
    sync: bool
    watch: bool
    allow_empty: bool
    moved: bool
    chunks: bool
    document: str | None
    position: str | None
    engine: Engine | None
    shards: int | None
    workers: int | None
    work: Path | None

    @property
    def given(self) -> list[str]:
        """The options that the user gave, such as ``--known-names``."""
        values = ((one.name, getattr(self, one.name)) for one in fields(self))
        return [f"--{name.replace('_', '-')}" for name, value in values if value is not None and value is not False]

    @property
    def synonyms(self) -> tuple[Path | None, Path | None, float | None]:
        """The file of names, the file of their embeddings, and the minimum cosine of synonyms."""
        return self.names, self.name_embeddings, self.synonym_threshold


def run(corpus: Path, out: Path, options: IndexOptions) -> None:
    """Run ``phasegraph index``: build or update the index of the files `corpus` in the folder `out`."""
    started = perf_counter()
    check_outputs(**{"entities-to": options.entities_to})
    if options.sync or options.watch:
        unheeded = [name for name in options.given if name not in _OF_SYNC]
        _leave_out(options, unheeded, f"with {'--watch' if options.watch else '--sync'}")
        run_sync(
            corpus, out, options.embedder, options.tokenizer,
            watch=options.watch, allow_empty=options.allow_empty, moved=options.moved,
        )  # fmt: skip
        return
    for name in {"--allow-empty", "--moved"}.intersection(options.given):
        raise InvalidInputError(f"{name} needs --sync or --watch: add one of them, or leave out {name}")
    _check_options(options, corpus)
    check_folder(out, corpus, may_replace=options.update or options.force)
    if options.tokenizer is not None:
        tokenizer_of(options.tokenizer)
    if options.engine is None:
        outcome = _built_here(corpus, out, options)
    else:
        vectors = None if options.embeddings is None else local.VectorFile(options.embeddings.absolute())
        with engines.started(options.engine, options.workers) as engine:
            outcome = _built_in_shards(corpus, vectors, out, options, engine)
    outcome.show(perf_counter() - started, out, options.triples)


def _built_here(corpus: Path, out: Path, options: IndexOptions) -> Outcome:
    """Build the index without ``--engine``: in memory, or in shards if free memory is too small."""
    found = passages_and_vectors(corpus, out, options.embeddings, options.embedder)
    plan = BuildPlan() if options.chunks or options.update else _planned(*found)
    if plan.in_shards:
        with building_place(out) as place:
            files = _written(*found, place)
            found = ((), None)  # free the memory for building
            return _built_in_shards(*files, out, options, local.engine_of(plan.workers))
    if options.chunks:
        graph = stage("building", lambda: chunks_of(*found, corpus.name, options.document, options.position))
        return _saved_chunks(out, graph)
    read, malformed = stage(
        "reading", lambda: read_beside(*found, options.triples, options.known_names, options.synonyms)
    )
    return _saved_entities(out, replace(read, tokenizer=options.tokenizer), malformed, options)


def _planned(passages: tuple[Passage, ...], vectors: Float32Array | None) -> BuildPlan:
    """Decide whether the index is built in memory or in shards; print a message if it is too large for memory."""
    text = sum(len(one.title) + len(one.text) for one in passages)
    plan = BuildPlan.of(text, 0 if vectors is None else vectors.nbytes)
    if plan.message:
        console().print(plan.message)
    return plan


def _written(
    passages: tuple[Passage, ...], vectors: Float32Array | None, place: Path
) -> tuple[Path, local.VectorFile | None]:
    """Write the passages and their vectors to two files in the folder `place`; return the path and a VectorFile.

    If `vectors` is None, the second value is None.
    """
    corpus, rows = place / "passages.jsonl", place / "vectors.npy"
    local.write_passages(corpus, passages)
    if vectors is None:
        return corpus, None
    np.save(rows, vectors)
    return corpus, local.VectorFile(rows, own=True)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of ``phasegraph index``: index sizes, a sentence on changes, and a count of malformed triples."""

    sizes: str
    changes: str = ""
    malformed: int = 0

    def show(self, seconds: float, out: Path, triples: Path | None) -> None:
        """Print the outcome; `out` is the folder of the index, and `triples` the file of triples, if there is one."""
        to = console()
        to.print(f"{self.sizes} in {seconds:.1f} s: {out}")
        if self.changes:
            to.print(self.changes)
        if self.malformed:
            to.print(f"skipped {counted(self.malformed, 'malformed triple')} of {triples}")


def _built_in_shards(
    corpus: Path, vectors: local.VectorFile | None, out: Path, options: IndexOptions, engine: Run
) -> Outcome:
    """Build the index of a JSONL or Parquet file in shards; with ``--entities-to``, write the names of its entities."""
    files = _name_files(*options.synonyms)
    listed = () if options.known_names is None else [text for _, text in lines_of(options.known_names)]
    threshold = options.synonym_threshold or DEFAULT_THRESHOLD
    report = local.build_files(
        corpus, out, BuildSettings(options.tokenizer or "english", tuple(listed)), engine, vectors=vectors,
        triples=options.triples, names=None if files is None else EmbeddedNames(*files, threshold),
        shards=options.shards, work=options.work,
    )  # fmt: skip
    if options.entities_to is not None:
        _write_entities(options.entities_to, GraphIndex.load(out).graph.entities)
    nouns = ["passage", "mention", "fact", *(["synonym"] if options.names is not None else [])]
    sizes = [counted(getattr(report, f"{noun}s"), noun) for noun in nouns]
    sizes.insert(1, counted(report.entities, "entity", "entities"))
    return Outcome(", ".join(sizes), str(report), report.malformed)


def _saved_chunks(out: Path, graph: ChunkGraph) -> Outcome:
    """Save a chunk graph in the folder `out`, and return the outcome."""
    stage("saving", lambda: graph.save(out))
    edges = ", ".join(f"{count} {kind}" for kind, count in graph.counts().items()) or "0"
    return Outcome(f"{counted(len(graph.passages), 'passage')}, {edges} edges")


def _saved_entities(out: Path, given: IndexFiles, malformed: int, options: IndexOptions) -> Outcome:
    """Build an index of entities from `given`, or with ``--update`` change the index in the folder `out`.

    The index is saved if it changed. With ``--entities-to``, the names of its entities are also written. `malformed` is
    the number of malformed triples, for the outcome.
    """
    old = stage("loading", lambda: GraphIndex.load(out)) if options.update and (out / MANIFEST).is_file() else None
    label = "building" if old is None else "updating"
    fresh, changes = stage(label, lambda: (built(given), "") if old is None else updated(old, given))
    if fresh is not old:
        stage("saving", lambda: fresh.save(out))
    if options.entities_to is not None:
        _write_entities(options.entities_to, fresh.graph.entities)
    return Outcome(sizes_of(fresh), changes, malformed)


_OF_SYNC = ("--embedder", "--tokenizer", "--sync", "--watch", "--allow-empty", "--moved")
_OF_ENGINE = ("--shards", "--workers", "--work")
_OF_CHUNKS = ("--document", "--position")
_OF_ENTITIES = (
    "--triples", "--known-names", "--names", "--name-embeddings", "--synonym-threshold", "--tokenizer",
    "--entities-to", "--update",
)  # fmt: skip


def _check_options(options: IndexOptions, corpus: Path) -> None:
    """Raise InvalidInputError for options of ``phasegraph index`` that contradict each other.

    `corpus` is the path to read.
    """
    if options.engine is not None:
        _leave_out(options, ("--chunks", "--update", "--embedder", *_OF_CHUNKS), "with --engine")
        if corpus.is_dir():
            raise InvalidInputError(
                f"--engine reads one JSONL or Parquet file, but {corpus} is a folder: give one file, or leave out "
                "--engine"
            )
    else:
        _leave_out(options, _OF_ENGINE, "without --engine")
        with_or_without = "with" if options.chunks else "without"
        _leave_out(options, _OF_ENTITIES if options.chunks else _OF_CHUNKS, f"{with_or_without} --chunks")
    if options.embeddings is not None:
        _leave_out(options, ("--embedder",), "with --embeddings")


def _leave_out(options: IndexOptions, names: Iterable[str], when: str) -> None:
    """Raise InvalidInputError if the user gave an option in `names`.

    `when` completes the message "… must be left out", such as "with --engine".
    """
    named = next((name for name in names if name in options.given), None)
    if named is not None:
        raise InvalidInputError(f"{named} must be left out {when}")


def _write_entities(file: Path, names: Iterable[str]) -> None:
    with file.open("wb") as lines:
        lines.writelines(f"{name}\n".encode("utf-8", "replace") for name in names)


def sizes_of(index: GraphIndex) -> str:
    """Format the numbers of passages, entities, mentions, facts and synonyms of an index."""
    graph = index.graph
    counts = [
        counted(len(graph.passages), "passage"),
        counted(len(graph.entities), "entity", "entities"),
        counted(graph.mentions.nnz, "mention"),
        counted(graph.facts.nnz // 2, "fact"),
    ]
    if index.synonyms is not None:
        counts.append(counted(graph.synonyms.nnz // 2, "synonym"))
    return ", ".join(counts)
