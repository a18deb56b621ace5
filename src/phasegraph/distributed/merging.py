"""Merge the counts of all shards into an index; the memory depends on the numbers of names and words, not of passages.

An array with a row per passage is the concatenation of the arrays of the shards, in the order of the shards. Names and
words are merged in ranges of the alphabet. For each shard, a table maps its column numbers (names or words) to column
numbers of the index; the order of columns stays the same.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from phasegraph._support.serialization import MANIFEST, StreamedArray, read_document, write_bundle
from phasegraph._support.typing import IntArray
from phasegraph.distributed.shards import GAZETTEER, READ, STAGED, BuildSettings, Staged, arrow, digest_of, name_key
from phasegraph.errors import InvalidInputError
from phasegraph.graph.model.entity_graph import EdgeWeights, across_weights, count_weights, home_weights, kept_entities
from phasegraph.graph.model.storage import KIND, PARTS, VERSION, packed
from phasegraph.graph.model.words import MAX_WORDS
from phasegraph.pagerank import WalkOperator
from phasegraph.pagerank.operator import prepared
from phasegraph.pagerank.push import ranges

MOST_NAMES = 1_000_000
"""Approximate number of names, words or entries that are merged in one step, which limits memory."""
_BYTES = 16 * 1024**2


@dataclass(frozen=True, slots=True)
class Part:
    """A stored bundle (a folder of arrays with a manifest), whose arrays are read in slices.

    `content` is the content of the manifest, and `entries` contains the file, type and shape of each array.
    """

    folder: Path
    content: dict[str, Any]
    entries: dict[str, Any]

    @classmethod
    def read(cls, folder: Path, kind: str = READ) -> Part:
        """Read the manifest of a stored bundle of the kind `kind`; the arrays are read later."""
        document: Any = read_document(folder / MANIFEST, kind, VERSION)
        return cls(folder, document["content"], document["arrays"])

    def sums(self, *names: str) -> list[str]:
        """Return the checksums of the arrays with these names."""
        return [self.entries[name]["sha256"] for name in names]

    def length(self, name: str) -> int:
        """Return the number of rows of the array `name`."""
        return int(self.entries[name]["shape"][0])

    def array(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return the rows of the array `name` from `start` up to, but not including, `stop` (default: the end)."""
        entry = self.entries[name]
        dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
        stop, width = shape[0] if stop is None else stop, int(np.prod(shape[1:], dtype=np.int64))
        if stop <= start:
            return np.empty((0, *shape[1:]), dtype=dtype)
        file = self.folder / entry["file"]
        first = file.stat().st_size - dtype.itemsize * shape[0] * width  # the header precedes the data
        found = np.fromfile(file, dtype, (stop - start) * width, offset=first + start * width * dtype.itemsize)
        return found.reshape((stop - start, *shape[1:]))

    def slices(self, name: str) -> Iterator[NDArray[Any]]:
        """Yield the array `name` in slices of about 16 MB."""
        entry = self.entries[name]
        width = np.dtype(entry["dtype"]).itemsize * int(np.prod(entry["shape"][1:], dtype=np.int64))
        step = max(1, _BYTES // max(width, 1))
        for start in range(0, self.length(name), step):
            yield self.array(name, start, min(start + step, self.length(name)))

    def texts(self, name: str, start: int = 0, stop: int | None = None) -> Any:
        """Return the texts from `start` up to, but not including, `stop` (default: the end), as an Arrow array.

        The elements are bytes. `name` is the prefix of the two arrays that store the texts: their bytes and the ends of
        the texts.
        """
        pa = arrow()
        stop = self.length(f"{name}_ends") if stop is None else stop
        if stop <= start:
            return pa.array([], pa.large_binary())
        before = int(self.array(f"{name}_ends", start - 1, start)[0]) if start else 0
        ends = np.concatenate([[before], self.array(f"{name}_ends", start, stop)])
        text = self.array(f"{name}_text", before, int(ends[-1]))
        return pa.Array.from_buffers(
            pa.large_binary(), stop - start, [None, pa.py_buffer(ends - before), pa.py_buffer(text)]
        )


class Spool:
    """An array of elements of type `dtype` in the temporary file `path`; rows are appended until it is complete."""

    def __init__(self, path: Path, dtype: Any) -> None:
        self.path, self.dtype, self._rows = path, np.dtype(dtype), 0
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")

    def __len__(self) -> int:
        return self._rows

    def add(self, rows: NDArray[Any]) -> None:
        """Append rows to the array."""
        with self.path.open("ab") as handle:
            handle.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        self._rows += len(rows)

    def array(self, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return all rows of the array, or the rows from `start` up to, but not including, `stop`."""
        count = (self._rows if stop is None else stop) - start
        return np.fromfile(self.path, self.dtype, count, offset=start * self.dtype.itemsize)

    def streamed(self, width: int | None = None) -> StreamedArray:
        """Return the array in a form that can be written in parts; with `width`, as a matrix of `width` columns."""
        each = 1 if width is None else width
        rows, step = self._rows // max(each, 1), max(1, _BYTES // (self.dtype.itemsize * max(each, 1)))
        shape = (rows,) if width is None else (rows, width)

        def parts() -> Iterator[NDArray[Any]]:
            for start in range(0, rows, step):
                stop = min(start + step, rows)
                yield self.array(start * each, stop * each).reshape((stop - start, *shape[1:]))

        return StreamedArray(self.dtype, shape, parts)


class Names(NamedTuple):
    """Sorted names: their concatenated UTF-8 bytes (`text`), and the position in `text` at which each name ends."""

    text: NDArray[np.uint8]
    ends: IntArray

    def __len__(self) -> int:  # the number of names, not of fields
        return len(self.ends)


def merged(
    parts: Sequence[Part], name: str, most: int | None = None
) -> Iterator[tuple[Names, list[IntArray], list[tuple[int, int]]]]:
    """Merge the sorted names of all parts, and yield the distinct names in ranges of about `most` names.

    `name` is the prefix of the arrays with the names in each part. With each range, yield two lists with an entry per
    part. The first list contains, for each of the part's names in this range, its position among all distinct names.
    The second list contains the start and the end of these names in the part.
    """
    pa = arrow()
    base = 0
    bounds = _bounds(parts, name, MOST_NAMES if most is None else most)
    for at in range(len(bounds[0]) - 1 if bounds else 0):
        spans = [(one[at], one[at + 1]) for one in bounds]
        chunks = [part.texts(name, *span) for part, span in zip(parts, spans, strict=True)]
        encoded = pa.concat_arrays(chunks).dictionary_encode()
        order = pa.compute.array_sort_indices(encoded.dictionary)
        places = np.empty(len(order), dtype=np.int64)
        places[order.to_numpy()] = np.arange(len(order))
        codes = places[encoded.indices.to_numpy()] + base
        _, ends, text = encoded.dictionary.take(order).buffers()
        found = Names(
            np.frombuffer(text or b"", dtype=np.uint8), np.frombuffer(ends, dtype=np.int64)[1 : len(order) + 1]
        )
        yield found, np.split(codes, np.cumsum([len(one) for one in chunks])[:-1]), spans
        base += len(order)


def _bounds(parts: Sequence[Part], name: str, most: int) -> list[list[int]]:
    """Choose boundary names that divide the names of all parts together into ranges of about `most` names.

    Returns a list for each part: 0, the positions of the boundary names among the part's own names, and the number of
    the part's names. `name` is the prefix of the arrays with the names.
    """
    lengths = [part.length(f"{name}_ends") for part in parts]
    step = max(1, most // (2 * max(len(parts), 1)))
    limits: list[bytes] = []
    if sum(lengths) > most:
        sampled = sorted(one.as_py() for part in parts for one in part.texts(name)[::step])
        limits = sorted(set(sampled[2 * len(parts) :: 2 * len(parts)]))
    out = []
    for part, length in zip(parts, lengths, strict=True):
        texts: Any = part.texts(name) if limits else None
        places = [bisect_left(range(length), one, key=lambda row: texts[row].as_py()) for one in limits]
        out.append([0, *places, length])
    return out


class _Merge:
    """The merge of the counts of shards (`parts`) into an index; temporary arrays are in the folder `scratch`."""

    def __init__(self, parts: Sequence[Part], scratch: Path) -> None:
        self.parts, self.scratch = parts, scratch
        self.rows = [part.length("passages_ends") for part in parts]
        self.firsts = np.concatenate([[0], np.cumsum(self.rows)])[:-1].tolist()

    @property
    def passages(self) -> int:
        """The number of passages of all shards."""
        return sum(self.rows)

    def _whole(self, name: str, dtype: Any = None, change: Callable[[int, Any], Any] | None = None) -> StreamedArray:
        """Return the concatenation of the arrays `name` of all parts, with elements of type `dtype` if it is given.

        ``change(number, rows)`` converts the values in part `number` to values of the index; None keeps all values.
        """
        shape = tuple(self.parts[0].entries[name]["shape"][1:])
        kind = np.dtype(self.parts[0].entries[name]["dtype"] if dtype is None else dtype)

        def parts() -> Iterator[NDArray[Any]]:
            for number, part in enumerate(self.parts):
                for one in part.slices(name):
                    yield (one if change is None else change(number, one)).astype(kind, copy=False)

        return StreamedArray(kind, (sum(part.length(name) for part in self.parts), *shape), parts)

    def texts(self, name: str) -> dict[str, Any]:
        """Return two arrays that store a text of each passage, by name: the bytes of the texts, and their ends.

        `name` is the prefix of the names of both arrays.
        """
        starts = np.concatenate([[0], np.cumsum([part.length(f"{name}_text") for part in self.parts])])
        return {
            f"{name}_text": self._whole(f"{name}_text"),
            f"{name}_ends": self._whole(f"{name}_ends", change=lambda number, one: one + starts[number]),
        }

    def names(self, name: str) -> tuple[dict[str, Any], list[Spool]]:
        """Merge the sorted names of all parts; `name` is the prefix of the arrays with the names.

        Returns the arrays of the sorted distinct names, and a table for each part. The table contains the position of
        each of the part's names among the distinct names.
        """
        text, ends = (Spool(self.scratch / f"{name}_{kind}", dtype) for kind, dtype in (("text", "u1"), ("ends", "i8")))
        tables = [Spool(self.scratch / f"{name}-{number:06d}", np.int64) for number in range(len(self.parts))]
        for found, codes, _ in merged(self.parts, name):
            ends.add(found.ends + len(text))
            text.add(found.text)
            for table, code in zip(tables, codes, strict=True):
                table.add(code)
        return {f"{name}_text": text.streamed(), f"{name}_ends": ends.streamed()}, tables

    def matrix(self, name: str, tables: Sequence[Spool]) -> dict[str, Any]:
        """Return the arrays of the sparse matrix `name`, by name; it has a row per passage and a column per entity.

        `tables` contains, for each part, the new column of each of its entities.
        """
        starts = np.concatenate([[0], np.cumsum([part.length(f"{name}_data") for part in self.parts])])
        pointer = as_pointer(int(starts[-1]))

        def ends() -> Iterator[NDArray[Any]]:
            yield np.zeros(1, dtype=pointer)
            for number, part in enumerate(self.parts):
                yield (part.array(f"{name}_indptr")[1:] + starts[number]).astype(pointer)

        def columns(number: int, one: Any) -> Any:
            return tables[number].array()[one]

        return {
            f"{name}_data": self._whole(f"{name}_data"),
            f"{name}_indices": self._whole(f"{name}_indices", np.int32, columns),
            f"{name}_indptr": StreamedArray(np.dtype(pointer), (self.passages + 1,), ends),
        }

    def facts(self, tables: Sequence[Spool], entities: int) -> dict[str, Any]:
        """Return, by name, the arrays of the symmetric sparse matrix of facts between entities.

        The counts of several parts are added. `tables` contains, for each part, the new row of each of its entities.
        `entities` is the number of entities.
        """
        data, columns = Spool(self.scratch / "facts_data", np.int32), Spool(self.scratch / "facts_indices", np.int32)
        degrees = np.zeros(entities, dtype=np.int64)
        stating = [one for one, part in enumerate(self.parts) if part.length("facts_data")]
        for number in stating:
            degrees[tables[number].array()] += np.diff(self.parts[number].array("facts_indptr"))
        counts = np.zeros(entities + 1, dtype=np.int64)
        for first, last in _spans(degrees):
            found = [self._facts_of(number, tables[number].array(), first, last) for number in stating]
            keys = np.concatenate([np.empty(0, np.int64), *(rows * entities + others for rows, others, _ in found)])
            order = np.argsort(keys, kind="stable")
            keys, starts = np.unique(keys[order], return_index=True)
            values = np.concatenate([np.empty(0, np.int64), *(value for _, _, value in found)])[order]
            data.add(np.add.reduceat(values, starts) if len(starts) else values)
            rows, others = np.divmod(keys, max(entities, 1))
            columns.add(others)
            counts[1:] += np.bincount(rows, minlength=entities)
        self.fact_spools = data, columns
        pointer = np.cumsum(counts).astype(as_pointer(len(data)))
        return {
            "facts_data": data.streamed(), "facts_indices": columns.streamed(), "facts_indptr": pointer
        }  # fmt: skip

    def _facts_of(self, number: int, table: NDArray[Any], first: int, last: int) -> tuple[Any, Any, Any]:
        """Return the entries (row, column, count) of the matrix of facts that come from part `number`.

        The entries are those of the entities with the rows `first` to `last` - 1 in the index.

        `table` contains, for each entity of the part, its row in the index.
        """
        part = self.parts[number]
        start, stop = np.searchsorted(table, [first, last]).tolist()
        ends = part.array("facts_indptr", start, stop + 1).astype(np.int64)
        rows = np.repeat(table[start:stop], np.diff(ends))
        columns = table[part.array("facts_indices", int(ends[0]), int(ends[-1]))]
        return rows, columns, part.array("facts_data", int(ends[0]), int(ends[-1])).astype(np.int64)

    def words(self, vocabulary: str, name: str) -> dict[str, Any]:
        """Return, by name, the arrays of the inverted index of all passages.

        `vocabulary` is the prefix of the arrays with the words, and `name` the prefix of the other arrays. The entries
        of a word are in the order of the parts.
        """
        arrays, tables = self.names(vocabulary)
        size = arrays[f"{vocabulary}_ends"].shape[0]
        frequency = np.zeros(size, dtype=np.int64)
        for number, part in enumerate(self.parts):
            frequency[tables[number].array()] += np.diff(part.array(f"{name}_starts"))
        starts = np.concatenate([[0], np.cumsum(frequency)])
        rows, counts = (Spool(self.scratch / f"{name}_{kind}", np.int32) for kind in ("rows", "counts"))
        for first, last in _spans(frequency):
            room = int(starts[last] - starts[first])
            of_rows, of_counts = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
            free = starts[first:last] - starts[first]
            for number, part in enumerate(self.parts):
                table = tables[number].array()
                start, stop = np.searchsorted(table, [first, last]).tolist()
                ends = part.array(f"{name}_starts", start, stop + 1)
                lengths, terms = np.diff(ends), table[start:stop] - first
                places = ranges(free[terms], lengths)
                of_rows[places] = part.array(f"{name}_rows", int(ends[0]), int(ends[-1])) + self.firsts[number]
                of_counts[places] = part.array(f"{name}_counts", int(ends[0]), int(ends[-1]))
                free[terms] += lengths
            rows.add(of_rows)
            counts.add(of_counts)
        return arrays | {
            f"{name}_starts": starts, f"{name}_rows": rows.streamed(), f"{name}_counts": counts.streamed(),
            f"{name}_lengths": self._whole(f"{name}_lengths"),
        }  # fmt: skip

    def passages_order(self) -> NDArray[np.int32]:
        """Return the rows of the passages in ascending order of their ids; all ids are in memory for this step."""
        pa = arrow()
        ids = pa.concat_arrays([part.texts("passages") for part in self.parts])
        order: NDArray[np.int32] = pa.compute.array_sort_indices(ids).to_numpy().astype(np.int32)
        return order

    def walk(
        self, tables: Sequence[Spool], facts: Mapping[str, Any], synonyms: Mapping[str, Any], weights: EdgeWeights
    ) -> dict[str, Any]:
        """Return, by name, the arrays of the edges for walks, and of the number of passages that mention each entity.

        The edges are computed node by node; they equal the result of :func:`adjacency` for the whole graph. `facts` and
        `synonyms` are the arrays of these two matrices. `tables` contains, for each part, the new column of each of its
        entities.
        """
        entities = len(facts["facts_indptr"]) - 1
        frequency, homes = np.zeros(entities, dtype=np.int32), np.zeros(entities, dtype=np.int32)
        for number, part in enumerate(self.parts):
            table = tables[number].array()
            for counted, name in ((frequency, "mentions"), (homes, "homes")):
                counted[table] += np.bincount(part.array(f"{name}_indices"), minlength=len(table)).astype(np.int32)
        kept, rare = np.empty(entities, dtype=np.bool_), np.empty(entities, dtype=np.float32)
        for first in range(0, entities, MOST_NAMES):
            some = slice(first, first + MOST_NAMES)
            kept[some], rare[some] = kept_entities(frequency[some], homes[some], self.passages, weights)
        made = _Rows(self.scratch)
        inward: list[tuple[Spool, ...]] = []
        degrees = np.diff(facts["facts_indptr"])
        degrees += np.diff(synonyms["synonyms_indptr"]).astype(degrees.dtype)
        for number, part in enumerate(self.parts):
            table, ends = tables[number].array(), part.array("mentions_indptr")
            columns = part.array("mentions_indices")
            of_all = table[columns]
            outward = rare[of_all]
            led = outward != 0
            made.add(np.diff(np.concatenate([[0], np.cumsum(led)])[ends]), of_all[led] + self.passages, outward[led])
            values = count_weights(part.array("mentions_data"), weights)
            values *= kept[of_all]
            rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
            own = np.repeat(np.arange(len(ends) - 1), np.diff(part.array("homes_indptr"))) * len(table)
            places = np.searchsorted(rows * len(table) + columns, own + part.array("homes_indices"))
            values[places] += home_weights(part.array("homes_data"), weights)
            order = np.argsort(columns, kind="stable")
            order = order[values[order] != 0]
            starts = np.concatenate([[0], np.cumsum(np.bincount(columns[order], minlength=len(table)))])
            held = [Spool(self.scratch / f"inward-{kind}-{number:06d}", dtype) for kind, dtype in _INWARD]
            held[0].add(rows[order] + self.firsts[number])
            held[1].add(values[order])
            held[2].add(starts)
            inward.append(tuple(held))
            degrees[table] += np.diff(starts)
        counts, others = self.fact_spools
        for first, last in _spans(degrees):
            one, other = facts["facts_indptr"][[first, last]].tolist()
            stated = sparse.csr_array(
                (counts.array(one, other), others.array(one, other), facts["facts_indptr"][first : last + 1] - one),
                shape=(last - first, entities),
            )
            one, other = synonyms["synonyms_indptr"][[first, last]].tolist()
            alike = sparse.csr_array(
                (
                    synonyms["synonyms_data"][one:other],
                    synonyms["synonyms_indices"][one:other],
                    synonyms["synonyms_indptr"][first : last + 1] - one,
                ),
                shape=(last - first, entities),
            )
            across = across_weights(stated, alike, weights).tocsr()
            across.eliminate_zeros()
            across.sort_indices()
            self._entity_rows(made, inward, tables, across, first, last)
        return {
            **made.arrays(entities + self.passages), "frequency": frequency, "anchored": (homes > 0).view(np.int8)
        }  # fmt: skip

    def _entity_rows(
        self, made: _Rows, inward: Any, tables: Sequence[Spool], across: Any, first: int, last: int
    ) -> None:
        """Append to the matrix `made` the edges that leave the entities `first` to `last` - 1.

        First come an entity's edges to passages, from `inward`, which has an entry per part; then come its edges to
        entities, from the matrix `across`. `tables` contains, for each part, the new column of each of its entities.
        """
        pieces = []
        for number, (rows, values, starts) in enumerate(inward):
            table = tables[number].array()
            start, stop = np.searchsorted(table, [first, last]).tolist()
            ends = starts.array(start, stop + 1)
            one, other = int(ends[0]), int(ends[-1])
            pieces.append(
                (
                    table[start:stop] - first,
                    np.diff(ends),
                    rows.array(one, other),
                    values.array(one, other),
                )
            )
        pieces.append((np.arange(last - first), np.diff(across.indptr), across.indices + self.passages, across.data))
        degrees = np.zeros(last - first, dtype=np.int64)
        for terms, each, _, _ in pieces:
            degrees[terms] += each
        free = np.concatenate([[0], np.cumsum(degrees)])[:-1]
        to, weight = np.empty(int(degrees.sum()), dtype=np.int32), np.empty(int(degrees.sum()), dtype=np.float32)
        for terms, each, rows, values in pieces:
            places = ranges(free[terms], each)
            to[places], weight[places] = rows, values
            free[terms] += each
        made.add(degrees, to, weight)

    def embeddings(self) -> dict[str, Any]:
        """Return the array of the passages' embeddings, by its name in the index; empty if they have no embeddings."""
        return {"embeddings": self._whole("embeddings")} if "embeddings" in self.parts[0].entries else {}


_INWARD = (("rows", np.int32), ("values", np.float32), ("starts", np.int64))


class _Rows:
    """The matrix of edge weights for walks, to which the rows of nodes are appended; its files are in `scratch`."""

    def __init__(self, scratch: Path) -> None:
        self._data, self._indices = Spool(scratch / "walk_data", np.float32), Spool(scratch / "walk_indices", np.int32)
        self._degrees, self._inverse = Spool(scratch / "walk_degrees", np.int32), Spool(scratch / "walk_inverse", float)

    def add(self, degrees: NDArray[Any], indices: NDArray[Any], weights: NDArray[Any]) -> None:
        """Append rows; `degrees` contains the number of entries in each row.

        `indices` and `weights` contain the columns and the values of the entries.
        """
        ends = np.concatenate([[0], np.cumsum(degrees, dtype=np.int64)])
        self._inverse.add(WalkOperator(*prepared(ends, indices, weights)).inverse_out)
        self._degrees.add(degrees)
        self._indices.add(indices)
        self._data.add(weights)

    def arrays(self, nodes: int) -> dict[str, Any]:
        """Return the arrays in which an index stores the matrix, by name; `nodes` is the number of its rows."""
        degrees = self._degrees.streamed()

        def ends() -> Iterator[NDArray[Any]]:
            last = np.zeros(1, dtype=np.int64)
            yield last
            for each in degrees.parts():
                yield (found := last + np.cumsum(each, dtype=np.int64))
                last = found[-1:]

        return {
            "walk_data": self._data.streamed(), "walk_indices": self._indices.streamed(),
            "walk_indptr": StreamedArray(np.dtype(np.int64), (nodes + 1,), ends),
            "walk_inverse_out": self._inverse.streamed(), "walk_out_degrees": degrees,
            "walk_costs": StreamedArray(degrees.dtype, (nodes,), lambda: (np.maximum(n, 1) for n in degrees.parts())),
        }  # fmt: skip


def as_pointer(entries: int) -> Any:
    """Return the integer type that scipy uses for the row ends of a sparse matrix with this number of entries."""
    return np.int32 if entries < 2**31 else np.int64


def _spans(weights: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Divide rows into ranges with a total weight of about four times ``MOST_NAMES``; yield (first, end) per range."""
    ends = np.cumsum(weights, dtype=np.int64)
    limits = np.arange(4 * MOST_NAMES, ends[-1] if len(ends) else 0, 4 * MOST_NAMES)
    edges = [0, *np.searchsorted(ends, limits).tolist(), len(weights)]
    del ends
    for first, last in pairwise(edges):
        if first < last:
            yield first, last


def merge(
    parts: Sequence[Path],
    settings: BuildSettings,
    out: str | os.PathLike[str],
    scratch: Path,
    link: Callable[[Mapping[str, Any]], tuple[dict[str, Any], dict[str, object], int]] | None = None,
) -> dict[str, int]:
    """Merge the output of :func:`~phasegraph.distributed.shards.extract` for all shards, and write the index `out`.

    `parts` are the folders with the output, in the order of the passages. The index equals, byte by byte, the output of
    ``GraphIndex.build(all passages).save(out)``. The folder `scratch` needs about as much space as the index without
    its texts. ``link(arrays of the entity names)`` finds synonyms; it returns their arrays, their entry in the
    manifest, and the number of pairs. If `link` is None, the index has no synonyms. Returns the numbers of passages,
    entities, mentions, facts and synonyms, by name. The merge needs tens of bytes of memory per entity and per distinct
    word, plus a few hundred megabytes.
    """
    held = [Part.read(folder) for folder in parts]
    if not held:
        raise InvalidInputError("passages is empty: give at least one passage")
    whole = _Merge(held, scratch)
    entities, tables = whole.names("entities")
    count = entities["entities_ends"].shape[0]
    arrays: dict[str, Any] = whole.texts("passages") | whole.texts("records") | entities | whole.embeddings()
    facts = whole.facts(tables, count)
    synonyms: dict[str, Any] = {
        "synonyms_data": np.empty(0, np.float32), "synonyms_indices": np.empty(0, np.int32),
        "synonyms_indptr": np.zeros(count + 1, dtype=np.int32),
    }  # fmt: skip
    said, pairs = None, 0
    if link is not None:
        synonyms, said, pairs = link(entities)
    arrays |= whole.matrix("mentions", tables) | whole.matrix("homes", tables) | facts | synonyms
    arrays |= whole.walk(tables, facts, synonyms, settings.weights) | {"passages_order": whole.passages_order()}
    arrays |= whole.words("vocabulary", "lexical") | whole.words("name_words", "name_word")
    body: dict[str, object] = {
        "passages": whole.passages, "entities": count, "weights": asdict(settings.weights),
        "tokenizer": settings.tokenizer, PARTS: True, "gazetteer": list(settings.known_names),
        "change": 0, "retitled": sorted(name for part in held for name in part.content["retitled"]),
    } | ({} if said is None else {"synonyms": said})  # fmt: skip
    write_bundle(out, KIND, VERSION, body, arrays, readers=("graph", "index"))
    return {
        "passages": whole.passages, "entities": count, "mentions": arrays["mentions_data"].shape[0],
        "facts": arrays["facts_data"].shape[0] // 2, "synonyms": pairs,
    }  # fmt: skip


def write_gazetteer(shards: Sequence[Staged], settings: BuildSettings, to: Path) -> str:
    """Merge the names from all shards' titles with the known names, and write them sorted to the folder `to`.

    Returns a digest of the names. Workers map the files in this folder to memory. The merge needs 12 bytes of memory
    per name, and memory for one range of names of :func:`merged`.
    """
    own = [name for name in settings.known_names if name.count(" ") < MAX_WORDS]
    write_bundle(to / "own", STAGED, VERSION, {}, packed("names", own) | {
        "keys": np.array([name_key(name) for name in own], dtype=np.uint32)
    })  # fmt: skip
    parts = [Part.read(one, STAGED) for one in (*(shard.folder for shard in shards), to / "own")]
    text, ends = Spool(to / "text", np.uint8), Spool(to / "ends", np.int64)
    keys: list[Any] = []
    for names, codes, spans in merged(parts, "names"):
        base = sum(map(len, keys))
        fresh = np.empty(len(names), dtype=np.uint32)
        for part, code, (start, stop) in zip(parts, codes, spans, strict=True):
            fresh[code - base] = part.array("keys", start, stop)
        keys.append(fresh)
        ends.add(names.ends + len(text))
        text.add(names.text)
    every = np.concatenate([*keys, np.empty(0, np.uint32)])
    places = np.argsort(every, kind="stable")
    arrays: dict[str, Any] = {
        "names_text": text.streamed(), "names_ends": ends.streamed(), "keys": every[places], "places": places
    }  # fmt: skip
    write_bundle(to, GAZETTEER, VERSION, {"names": len(every)}, arrays)
    for spool in (text, ends):
        spool.path.unlink(missing_ok=True)
    return digest_of(*Part.read(to, GAZETTEER).sums("names_text", "names_ends"))
