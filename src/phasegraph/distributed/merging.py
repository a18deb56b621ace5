"""Merge the counts of all shards into an index; the memory depends on the numbers of names and words, not of passages.

An array with a row per passage is the concatenation of the arrays of the shards, in the order of the shards. Names and
words are merged in ranges of the alphabet. For each shard, a table maps its column numbers (names or words) to column
numbers of the index; the order of columns stays the same.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import phasegraph.distributed.array_files as array_files
from phasegraph._support.serialization import StreamedArray, write_bundle
from phasegraph._support.typing import IntArray
from phasegraph.distributed.array_files import Part, Spool, as_pointer, weighted_ranges
from phasegraph.distributed.shards import GAZETTEER, STAGED, BuildSettings, Staged, arrow, digest_of, name_key
from phasegraph.distributed.walk_edges import Links, WalkEdges
from phasegraph.errors import InvalidInputError
from phasegraph.graph.model.storage import KIND, PARTS, VERSION, packed
from phasegraph.graph.model.words import MAX_WORDS
from phasegraph.pagerank.push import ranges


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
    bounds = _bounds(parts, name, array_files.MOST_NAMES if most is None else most)
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

    def facts(self, tables: Sequence[Spool], entities: int) -> tuple[dict[str, Any], Links]:
        """Return the symmetric sparse matrix of facts between entities: its arrays, by name, and the matrix.

        The counts of several parts are added. `tables` contains, for each part, the new row of each of its entities.
        `entities` is the number of entities.
        """
        data, columns = Spool(self.scratch / "facts_data", np.int32), Spool(self.scratch / "facts_indices", np.int32)
        degrees = np.zeros(entities, dtype=np.int64)
        stating = [one for one, part in enumerate(self.parts) if part.length("facts_data")]
        for number in stating:
            degrees[tables[number].array()] += np.diff(self.parts[number].array("facts_indptr"))
        counts = np.zeros(entities + 1, dtype=np.int64)
        for first, last in weighted_ranges(degrees):
            found = [self._facts_of(number, tables[number].array(), first, last) for number in stating]
            keys = np.concatenate([np.empty(0, np.int64), *(rows * entities + others for rows, others, _ in found)])
            order = np.argsort(keys, kind="stable")
            keys, starts = np.unique(keys[order], return_index=True)
            values = np.concatenate([np.empty(0, np.int64), *(value for _, _, value in found)])[order]
            data.add(np.add.reduceat(values, starts) if len(starts) else values)
            rows, others = np.divmod(keys, max(entities, 1))
            columns.add(others)
            counts[1:] += np.bincount(rows, minlength=entities)
        links = Links(data, columns, np.cumsum(counts).astype(as_pointer(len(data))))
        return {
            "facts_data": data.streamed(), "facts_indices": columns.streamed(), "facts_indptr": links.ends
        }, links  # fmt: skip

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
        for first, last in weighted_ranges(frequency):
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

    def embeddings(self) -> dict[str, Any]:
        """Return the array of the passages' embeddings, by its name in the index; empty if they have no embeddings."""
        return {"embeddings": self._whole("embeddings")} if "embeddings" in self.parts[0].entries else {}


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
    facts, fact_links = whole.facts(tables, count)
    synonyms: dict[str, Any] = {
        "synonyms_data": np.empty(0, np.float32), "synonyms_indices": np.empty(0, np.int32),
        "synonyms_indptr": np.zeros(count + 1, dtype=np.int32),
    }  # fmt: skip
    said, pairs = None, 0
    if link is not None:
        synonyms, said, pairs = link(entities)
    arrays |= whole.matrix("mentions", tables) | whole.matrix("homes", tables) | facts | synonyms
    synonym_links = Links(*(synonyms[f"synonyms_{name}"] for name in ("data", "indices", "indptr")))
    edges = WalkEdges(held, tables, whole.firsts, whole.passages, settings.weights, scratch)
    arrays |= edges.arrays(fact_links, synonym_links) | {"passages_order": whole.passages_order()}
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
