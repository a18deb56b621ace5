"""The tasks of a distributed build for one shard (a part of the corpus): functions that read and write files.

A build has two map steps, each with a reduction. In the first map step, :func:`stage` checks a shard's passages, and
writes them with the names from their titles. The first reduction,
:func:`~phasegraph.distributed.merging.write_gazetteer`, merges the names of all shards into a sorted file. In the
second map step, :func:`extract` searches these names in a shard's passages, and writes the counts. The second
reduction, :func:`~phasegraph.distributed.merging.merge`, merges the counts into an index. The order of the passages
follows the order of the shards and of their rows, and never the order in which tasks run.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib.metadata import version
from itertools import chain, count
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, cast
from zlib import crc32

import numpy as np

from phasegraph._support.files import file_digest
from phasegraph._support.serialization import MANIFEST, read_bundle, read_document, write_bundle
from phasegraph._support.typing import Float32Array, IntArray
from phasegraph.errors import InvalidInputError, InvalidTypeError, needed
from phasegraph.graph.index.records import PassageRecord, PassageRecords, check_plain
from phasegraph.graph.model.building import read_passages, texts_of
from phasegraph.graph.model.entity_graph import EdgeWeights, Extraction, checked_embeddings, graph_from_extractions
from phasegraph.graph.model.rules import extracted, title_names
from phasegraph.graph.model.storage import VERSION, packed, packed_matrix, packed_words
from phasegraph.graph.model.words import MAX_WORDS, Gazetteer, Words, normalise_name, split_words
from phasegraph.lexical import LexicalIndex, tokenizer_of
from phasegraph.pagerank.push import ranges

STAGED, GAZETTEER, READ = "staged-shard", "gazetteer", "shard"
OF = "of"
"""The key in a bundle's content with the name of the folder for which a worker wrote the bundle. A bundle in another
folder is ignored."""
ROWS = "rows.arrow"
EMBEDDING = "embedding"
"""The name of the column with the embeddings of passages."""
_BATCH = 1024
"""Number of passages in a batch; the names that can occur in these passages are selected once per batch."""
_FIELDS = ("id", "title", "text", "metadata", "triples")
_TEXTS = ("id", "title", "text")
GIVEN = "_given"
"""Key of a row with the caller's extractions as lists; see :func:`phasegraph.graph.fields_of`. Only phasegraph's own
files have this key."""
_COLUMNS = (*_FIELDS, GIVEN)


def arrow() -> Any:
    """Return the package pyarrow; raise MissingDependencyError if it is not installed."""
    with needed(
        "building in shards needs pyarrow; pip install 'phasegraph[distributed]' (it is part of [ray] and [spark])"
    ):
        import pyarrow
        import pyarrow.compute
    return pyarrow


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """The settings of a distributed build, which apply to all shards.

    `known_names` are names that are searched in the passages, in addition to the names from titles. `tokenizer` and
    `weights` are as for :func:`phasegraph.graph.build_graph`.
    """

    tokenizer: str = "english"
    known_names: tuple[str, ...] = ()
    weights: EdgeWeights = field(default_factory=EdgeWeights)

    def __post_init__(self) -> None:
        if not isinstance(self.tokenizer, str):
            raise InvalidTypeError(f"tokenizer must be a name, because the index is saved; got {self.tokenizer!r:.80}")
        tokenizer_of(self.tokenizer)
        names = {name for name in map(normalise_name, self.known_names) if name}
        object.__setattr__(self, "known_names", tuple(sorted(names)))

    @property
    def digest(self) -> str:
        """A digest of the settings and of the version of phasegraph."""
        weights = json.dumps(asdict(self.weights), sort_keys=True)
        return digest_of(version("phasegraph"), self.tokenizer, weights, *self.known_names)


def digest_of(*parts: str) -> str:
    """Return a digest of texts in the given order.

    >>> digest_of("a", "b") == digest_of("ab")
    False
    """
    made = hashlib.sha256()
    for part in parts:
        made.update(f"{len(part)}:".encode() + part.encode("utf-8", "surrogatepass"))
    return made.hexdigest()[:32]


PASSAGE = ("id", "text")
"""The columns that a table of passages must have."""


def rows_of(
    table: Any, needed: Sequence[str] = PASSAGE, fields: Sequence[str] = _FIELDS
) -> tuple[list[dict[str, Any]], Any]:
    """Convert an Arrow table to the input of :func:`stage`: a list of rows, and the embeddings or None.

    By default, the table has the columns ``id`` and ``text``, and optionally ``title``, ``metadata`` and ``triples``
    (values or JSON texts) and ``embedding`` (lists of numbers). `needed` are the required columns, and `fields` are the
    columns to read.
    """
    names = table.column_names
    lacking = [name for name in needed if name not in names]
    if lacking:
        raise InvalidInputError(f"the data must have a column {lacking[0]!r}; it has {', '.join(names) or 'none'}")
    rows = table.select([name for name in fields if name in names]).to_pylist()
    if EMBEDDING not in names or not len(rows):
        return rows, None
    column = table.column(EMBEDDING).combine_chunks()
    column = getattr(column, "storage", column)  # Ray stores tensors as lists
    if column.null_count:
        raise InvalidInputError(
            f"the column {EMBEDDING!r} must have a value in every row; {column.null_count} rows have none"
        )
    flat = column.flatten()
    if len(flat) % len(rows) or len(set(arrow().compute.list_value_length(column).unique().to_pylist())) != 1:
        raise InvalidInputError(
            f"the column {EMBEDDING!r} must contain lists of equal length; got the lengths "
            f"{sorted(arrow().compute.list_value_length(column).unique().to_pylist())!r:.80}"
        )
    return rows, flat.to_numpy(zero_copy_only=False).reshape(len(rows), -1)


def embed_texts(model: Any, texts: Sequence[str]) -> Float32Array:
    """Embed texts with a model of LangChain or LlamaIndex, or with a function; return an array of shape (n, d).

    If `model` is a class, it is instantiated once per process; this helps if a model cannot be sent to other processes.

    >>> embed_texts(lambda texts: [[len(text), 1.0] for text in texts], ["a", "bc"]).tolist()
    [[1.0, 1.0], [2.0, 1.0]]
    """
    held = made_here(model)
    methods = (getattr(held, name, None) for name in ("embed_documents", "get_text_embedding_batch", "encode"))
    ask = next(filter(callable, methods), held)
    if not callable(ask):
        raise InvalidTypeError(
            "embeddings must be an embedding model of LangChain or LlamaIndex, a model with encode(texts), a class of "
            f"such models, or a function from texts to vectors; got {type(model).__name__}"
        )
    vectors = np.asarray(ask(list(texts)), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise InvalidInputError(f"embeddings must give a row for each of {len(texts)} texts; got shape {vectors.shape}")
    return vectors


def made_here(model: Any) -> Any:
    """Return a model unchanged; for a class, return an instance, which is created once per process."""
    return _made(model) if isinstance(model, type) else model


@lru_cache(maxsize=1)
def _made(kind: type) -> Any:
    return kind()


def stage(rows: Sequence[Mapping[str, Any]], embeddings: Any, to: Path) -> None:
    """Check the passages of a shard, and write them to a folder with the entity names from their titles.

    This is the first map step. `rows` have ``id``, ``text`` and optionally ``title``, ``metadata`` and ``triples``; a
    shard may be empty. A row may also have ``_given``, the extractions (names and triples) that the caller gave for
    this passage. `embeddings` have shape (n, d) or are None. Invalid passages raise the errors of
    :func:`phasegraph.graph.build_graph`.
    """
    pa = arrow()
    read = read_passages(rows) if rows else []
    columns: dict[str, list[bytes | None]] = {name: [] for name in _COLUMNS}
    for row, parts in zip(rows, read, strict=True):
        for name, part in zip(_TEXTS, parts, strict=True):
            columns[name].append(part.encode("utf-8", "surrogatepass"))
        metadata, triples = (_parsed(parts[0], name, row.get(name)) for name in ("metadata", "triples"))
        if not isinstance(metadata, Mapping | NoneType):
            raise InvalidTypeError(f"metadata of passage {parts[0]!r} must be a mapping; got {metadata!r:.80}")
        columns["metadata"].append(_json(check_plain(parts[0], metadata)) if metadata else None)
        columns["triples"].append(_json(Extraction(parts[0], triples=triples).triples) if triples else None)
        columns[GIVEN].append(_json(row[GIVEN]) if row.get(GIVEN) else None)
    table = pa.table({name: pa.array(values, pa.large_binary()) for name, values in columns.items()})
    to.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(to / ROWS), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    forms = {form for _, title, _ in read for form in title_names(title) if form.count(" ") < MAX_WORDS}
    names = sorted(forms)
    arrays = packed("names", names) | {"keys": np.array([name_key(name) for name in names], dtype=np.uint32)}
    arrays["ids"] = np.array([id_hash(name) for name, _, _ in read], dtype=np.uint64)
    if embeddings is not None and len(read):
        arrays["embeddings"] = checked_embeddings("embeddings", embeddings, len(read))
    content = {OF: to.name, "passages": len(read), "rows": file_digest(to / ROWS)}
    write_bundle(to, STAGED, VERSION, content, arrays)


def _parsed(name: str, column: str, value: Any) -> Any:
    """Return the value of the field `column` of passage `name`; parse the value as JSON if it is a text."""
    if not isinstance(value, str | bytes):
        return value
    try:
        return json.loads(value) if value else None
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{column} of passage {name!r} must be JSON if it is a text; {error}") from error


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def id_hash(name: str) -> int:
    """Return a 64-bit hash of a passage id."""
    made = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(made.digest(), "little")


def name_key(name: str) -> int:
    """Return a 32-bit hash of the first two words of a name, or of its only word; names are looked up by this hash."""
    first, *second = map(_word_key, name.split(" ", 2)[:2])
    return int(_pair_key(np.uint32(first), np.uint32(second[0]))) if second else first


def _word_key(word: str) -> int:
    return crc32(word.encode("utf-8", "surrogatepass"))


def _pair_key(first: Any, second: Any) -> Any:
    """Combine the hashes of two words into a 32-bit hash, for each pair."""
    return (first * np.uint64(2654435761) + second).astype(np.uint32)


@dataclass(frozen=True, slots=True)
class Staged:
    """A shard whose passages :func:`stage` checked and wrote to `folder`.

    `passages` is the number of passages. `width` is the dimension of the embeddings, or 0 without embeddings. `digest`
    is a digest of the shard's content.
    """

    folder: Path
    passages: int
    width: int
    digest: str

    @classmethod
    def read(cls, folder: Path) -> Staged:
        """Read the manifest of a shard, but not its passages."""
        document = read_document(folder / MANIFEST, STAGED, VERSION)
        content: Any = document["content"]
        arrays: Any = document["arrays"]
        parts = [f"{name}={entry['sha256']}" for name, entry in sorted(arrays.items())]
        width = arrays["embeddings"]["shape"][1] if "embeddings" in arrays else 0
        return cls(folder, content["passages"], width, digest_of(content["rows"], *parts))

    def rows(self) -> list[dict[str, Any]]:
        """Return the passages of the shard in the form of the input of :func:`stage`."""
        pa = arrow()
        with pa.OSFile(str(self.folder / ROWS), "rb") as source:
            columns = pa.ipc.open_file(source).read_all().to_pydict()
        out = []
        for name, title, text, metadata, triples, given in zip(*(columns[name] for name in _COLUMNS), strict=True):
            row = {
                key: one.decode("utf-8", "surrogatepass") for key, one in zip(_TEXTS, (name, title, text), strict=True)
            }
            more = (("metadata", metadata), ("triples", triples), (GIVEN, given))
            out.append(row | {key: json.loads(one) for key, one in more if one is not None})
        return out


def check_shards(shards: Sequence[Staged]) -> None:
    """Raise InvalidInputError if a corpus has no passages, repeated passage ids, or inconsistent embeddings.

    Either all passages have embeddings of the same dimension, or no passage has an embedding. The check needs 8 bytes
    of memory per passage.
    """
    widths = {one.width: number for number, one in reversed([*enumerate(shards)]) if one.passages}
    if len(widths) > 1:
        said = [
            f"{f'{width} columns' if width else 'no embeddings'} in shard {number}"
            for width, number in sorted(widths.items(), key=lambda item: item[1])
        ]
        raise InvalidInputError(
            f"all passages must have embeddings of the same length, or none; there are {' and '.join(said)}"
        )
    hashes = [read_bundle(one.folder, STAGED, VERSION, verify=False)[1]["ids"] for one in shards]
    every = np.concatenate(hashes) if hashes else np.empty(0, dtype=np.uint64)
    if not len(every):
        raise InvalidInputError("passages is empty: give at least one passage")
    order = np.argsort(every, kind="stable")
    ordered = every[order]
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not len(twice):
        return
    suspects = frozenset(ordered[twice].tolist())
    seen: dict[str, int] = {}
    first = 0
    for shard, held in zip(shards, hashes, strict=True):
        if suspects & set(held.tolist()):
            for row, one in enumerate(shard.rows(), start=first):
                if one["id"] in seen:
                    raise InvalidInputError(
                        f"passage ids must be unique; {one['id']!r} is the id of rows {seen[one['id']]} and {row}: "
                        "give each passage its own id"
                    )
                if id_hash(one["id"]) in suspects:
                    seen[one["id"]] = row
        first += shard.passages


class MappedNames:
    """The entity names that a build searches in texts, memory-mapped from the files in a folder.

    A worker loads only names that its texts may contain. The function
    :func:`~phasegraph.distributed.merging.write_gazetteer` writes the files.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        _, arrays = read_bundle(folder, GAZETTEER, VERSION, verify=False)
        self._text, self._ends = memoryview(arrays["names_text"]), arrays["names_ends"]  # type: ignore[arg-type]
        self._keys, self._places = arrays["keys"], arrays["places"]

    def standing_in(self, batch: Iterable[Words]) -> Gazetteer:
        """Return a gazetteer, a lookup of names, with the names that may occur in a batch of texts.

        These are the names whose only word is in the batch, or whose first two words are adjacent in the batch.
        """
        number = defaultdict[str, int](count().__next__)
        texts = chain.from_iterable(words.texts for words in batch)
        places = np.fromiter(map(number.__getitem__, texts), dtype=np.int64)
        ones = np.fromiter(map(_word_key, number), dtype=np.uint32, count=len(number))
        wanted = np.unique(np.concatenate([ones, _pair_key(ones[places[:-1]], ones[places[1:]])]))
        first = np.searchsorted(self._keys, wanted)
        last = np.searchsorted(self._keys, wanted, side="right")
        rows = np.sort(self._places[ranges(first, last - first)])
        return Gazetteer(self._named(rows), normalised=True)

    def _named(self, rows: IntArray) -> Iterator[str]:
        starts = np.where(rows > 0, self._ends[rows - 1], 0) if len(rows) else rows
        for start, end in zip(starts.tolist(), self._ends[rows].tolist(), strict=True):
            yield str(self._text[start:end], "utf-8", "surrogatepass")


@lru_cache(maxsize=1)
def _mapped(folder: str, digest: str) -> MappedNames:
    """Map the names in a folder to memory; the last mapping is reused unless folder or `digest` of the names differ."""
    return MappedNames(folder)


def extract(
    shard: Staged,
    gazetteer: Path,
    digest: str,
    settings: BuildSettings,
    stated: Callable[[Sequence[str]], Mapping[str, Extraction]] | None,
    to: Path,
) -> None:
    """Extract entities and facts from a shard's passages, and write their counts to the folder `to`.

    This is the second map step. The arrays have the same names as in an index. `gazetteer` is the output folder of
    ``write_gazetteer``, and `digest` the digest of its names. ``stated(ids)`` returns the additional extractions of the
    shard's passages by id; `stated` is None if there are none.
    """
    known = _mapped(str(gazetteer), digest)
    listed = shard.rows()
    rows = [(one["id"], one["title"], one["text"]) for one in listed]
    more = {} if stated is None else stated([row["id"] for row in listed])
    held: dict[str, PassageRecord] = {}
    texts: list[list[str]] = []
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        words = [split_words(text) for _, _, text in batch]
        names = known.standing_in(words)
        for (name, title, text), split, row in zip(batch, words, listed[start : start + _BATCH], strict=True):
            found = extracted(name, title, text, split, names)
            given = [Extraction(name, triples=row["triples"])] if "triples" in row else []
            given += [Extraction(name, *each) for each in row.get(GIVEN, ())]
            given += [more[name]] if name in more else []
            metadata = row.get("metadata", MappingProxyType({}))
            held[name] = PassageRecord(name, title, text, found, tuple(given), metadata)
        texts += [split.texts for split in words]
    extractions = (each for one in held.values() for each in (one.found, *one.given))
    vectors: Float32Array | None = cast("Any", read_bundle(shard.folder, STAGED, VERSION)[1].get("embeddings"))
    graph = graph_from_extractions(
        list(held), extractions, embeddings=vectors, weights=settings.weights, texts=texts_of(rows),
        tokenizer=settings.tokenizer,
    )  # fmt: skip
    counted = LexicalIndex.of(cast("list[str]", texts), _as_split)
    arrays = packed("passages", graph.passages) | packed("entities", graph.entities)
    for name in ("mentions", "homes", "facts"):
        arrays |= packed_matrix(name, getattr(graph, name))
    if graph.lexical is not None:
        arrays |= packed_words("vocabulary", "lexical", graph.lexical)
    records = PassageRecords(graph.passage_rows, held)
    arrays |= packed_words("name_words", "name_word", counted) | records.packed()
    if graph.embeddings is not None:
        arrays["embeddings"] = graph.embeddings
    content = {OF: to.name, "passages": len(held), "retitled": sorted(records.retitled)}
    write_bundle(to, READ, VERSION, content, arrays)


def _as_split(words: str) -> Sequence[str]:
    """Return the words unchanged; this is the tokenizer for texts that are already split into words."""
    return words


def is_whole(folder: Path, kind: str = READ) -> bool:
    """Return True if a folder contains the complete, undamaged output of the task that wrote to this folder.

    `kind` is the kind of the output.
    """
    try:
        content, _ = read_bundle(folder, kind, VERSION)
        if content[OF] != folder.name:
            return False
        return kind != STAGED or content["rows"] == file_digest(folder / ROWS)
    except (OSError, ValueError, KeyError):
        return False
