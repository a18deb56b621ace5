"""Read a file of triples in worker processes, and assign the triples to the passages of all shards."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from phasegraph._support.serialization import read_bundle, write_bundle
from phasegraph.distributed.shards import OF, STAGED, Staged, digest_of, id_hash
from phasegraph.errors import InvalidInputError
from phasegraph.graph.model.building import (
    EXTRACTED,
    OpenieEntry,
    by_entry,
    by_line,
    openie_docs,
    sound_triples,
    stated_in,
    unplaced,
)
from phasegraph.graph.model.entity_graph import Extraction
from phasegraph.graph.model.storage import VERSION, packed

ROWS_OF_IDS, TRIPLES = "rows-of-ids", "triples"


def write_rows(shards: Sequence[Staged], to: Path) -> None:
    """Write a table that maps the hash of each passage id to the passage's row, with 16 bytes per passage.

    Workers map the table to memory (:class:`MappedRows`).
    """
    every = np.concatenate([read_bundle(one.folder, STAGED, VERSION, verify=False)[1]["ids"] for one in shards])
    order = np.argsort(every, kind="stable")
    write_bundle(to, ROWS_OF_IDS, VERSION, {}, {"hashes": every[order], "rows": order})


class MappedRows(Container[str]):
    """A lookup of the rows of all passages by id, in the table that :func:`write_rows` wrote to `folder`.

    The table is memory-mapped.
    """

    def __init__(self, folder: Path) -> None:
        _, arrays = read_bundle(folder, ROWS_OF_IDS, VERSION, verify=False)
        self._hashes, self._rows = arrays["hashes"], arrays["rows"]

    def row(self, name: str) -> int | None:
        """Return the row of a passage by id; None for an unknown id."""
        sought = np.uint64(id_hash(name))
        place = int(np.searchsorted(self._hashes, sought))
        return int(self._rows[place]) if place < len(self._hashes) and self._hashes[place] == sought else None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.row(name) is not None


@dataclass(frozen=True)
class TripleFile:
    """The file `path` of triples, with a digest of its content.

    A file with a line per passage is divided into `pieces`. A file in HippoRAG's format has no pieces and is read as a
    whole.
    """

    path: Path
    digest: str
    pieces: tuple[Any, ...]

    def tasks(
        self, shards: Sequence[Staged], rows: Path, folder: Path
    ) -> tuple[Callable[..., None], list[tuple[Any, ...]]]:
        """Return the task that reads the file, and the arguments of each call of the task.

        The last argument of a call is its output folder, a subfolder of `folder`. `rows` is the table of
        :func:`write_rows`.
        """
        key = digest_of(self.digest, *(one.digest for one in shards))
        if self.pieces:
            return read_lines, [
                (piece, rows, folder / digest_of(key, str(number))) for number, piece in enumerate(self.pieces)
            ]
        return read_docs, [
            (self.path, self.digest, one, rows, folder / digest_of(key, str(number)))
            for number, one in enumerate(shards)
        ]

    def placed(self, shards: Sequence[Staged], parts: Sequence[Path]) -> tuple[int, list[Stated]]:
        """Return the number of malformed triples and, for each shard, the triples of its passages.

        `parts` are the output folders of the tasks. Raise InvalidInputError if two entries belong to the same passage,
        or if an entry in HippoRAG's format belongs to no passage.
        """
        bundles = [read_bundle(one, TRIPLES, VERSION) for one in parts]
        rows, numbers = (np.concatenate([arrays[name] for _, arrays in bundles]) for name in ("rows", "numbers"))
        order = np.argsort(rows, kind="stable")
        twice = np.flatnonzero(np.diff(rows[order]) == 0)
        if len(twice):
            first, second = sorted(numbers[order[twice[0] : twice[0] + 2]].tolist())
            raise InvalidInputError(
                f"{self.path}:{second}: this line and line {first} name the same passage; merge both lines"
            )
        if not self.pieces:
            docs = _docs(self.path, self.digest)
            lost = sorted(set(range(len(docs))).difference(numbers.tolist()))
            if lost:
                raise unplaced(f"{self.path}: docs[{lost[0]}]", docs[lost[0]])
        malformed: Any = {tuple(one) for content, _ in bundles for one in content["malformed"]}  # type: ignore[attr-defined]
        firsts = np.cumsum([0, *(one.passages for one in shards)])[:-1].tolist()
        own = [tuple(parts)] * len(shards) if self.pieces else [(one,) for one in parts]
        return sum(count for _, count in malformed), [Stated(*each) for each in zip(own, firsts, strict=True)]


def read_lines(piece: Any, rows: Path, to: Path) -> None:
    """Read the triples in a piece of a file with a line per passage, and write them to the folder `to`.

    `rows` is the table of :func:`write_rows`.
    """
    known = MappedRows(rows)
    lines = (one.removeprefix(BOM_UTF8) for one in piece.lines())
    _write(by_line(piece.file, lines, known, piece.line), "", known, to)


def read_docs(file: Path, digest: str, shard: Staged, rows: Path, to: Path) -> None:
    """Read the triples of a shard's passages from a file in HippoRAG's format, and write them to the folder `to`.

    `digest` is the digest of the file, and `rows` is the table of :func:`write_rows`.
    """
    known = MappedRows(rows)
    listed = [(one["id"], one["title"], one["text"]) for one in shard.rows()]
    _write(by_entry(file, _docs(file, digest), listed, known, part=True), EXTRACTED, known, to)


@lru_cache(maxsize=1)
def _docs(file: Path, digest: str) -> list[Any]:
    return openie_docs(file, file.read_bytes().removeprefix(BOM_UTF8)) or []


def _write(entries: Iterator[OpenieEntry], prefix: str, known: MappedRows, to: Path) -> None:
    found: list[tuple[int, int, str, str]] = []
    malformed: list[tuple[int, int]] = []
    for ids, number, where, entry in entries:
        triples, lost = sound_triples(stated_in(where, entry, f"{prefix}triples"))
        malformed += [(number, lost)] if lost else []
        text = json.dumps(triples)
        found += [(row, number, name, text) for name in ids if (row := known.row(name)) is not None]
    found.sort()
    rows, numbers, names, texts = zip(*found, strict=True) if found else ((), (), (), ())
    arrays = packed("names", names) | packed("texts", texts)
    arrays |= {"rows": np.array(rows, dtype=np.int64), "numbers": np.array(numbers, dtype=np.int64)}
    write_bundle(to, TRIPLES, VERSION, {OF: to.name, "malformed": malformed}, arrays)


@dataclass(frozen=True, slots=True)
class Stated:
    """A function that returns the triples of a shard's passages.

    `parts` are folders with the triples that tasks have read, and `first` is the row of the shard's first passage.
    """

    parts: tuple[Path, ...]
    first: int

    def __call__(self, ids: Sequence[str]) -> dict[str, Extraction]:
        """Return the triples of the shard's passages by id; `ids` are the ids of all its passages."""
        out: dict[str, Extraction] = {}
        for part in self.parts:
            _, arrays = read_bundle(part, TRIPLES, VERSION, verify=False)
            start, stop = np.searchsorted(arrays["rows"], [self.first, self.first + len(ids)]).tolist()
            names, texts = (_texts(arrays, name, start, stop) for name in ("names", "texts"))
            for row, name, text in zip(arrays["rows"][start:stop].tolist(), names, texts, strict=True):
                if ids[row - self.first] != name:  # another id with the same digest
                    raise InvalidInputError(
                        f"triples: passage {name!r} is not in the corpus: add the passage, or remove its triples"
                    )
                out[name] = Extraction(name, triples=json.loads(text))
        return out


def _texts(arrays: Any, name: str, start: int, stop: int) -> Iterator[str]:
    text, ends = arrays[f"{name}_text"], arrays[f"{name}_ends"]
    for at in range(start, stop):
        yield bytes(text[int(ends[at - 1]) if at else 0 : int(ends[at])]).decode("utf-8", "surrogatepass")
