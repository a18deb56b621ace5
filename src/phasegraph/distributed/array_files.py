"""Read the stored arrays of shards in slices, and append the rows of the index's arrays to temporary files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasegraph._support.serialization import MANIFEST, StreamedArray, read_document
from phasegraph.distributed.shards import READ, arrow
from phasegraph.graph.model.storage import VERSION

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


def as_pointer(entries: int) -> Any:
    """Return the integer type that scipy uses for the row ends of a sparse matrix with this number of entries."""
    return np.int32 if entries < 2**31 else np.int64


def weighted_ranges(weights: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Divide rows into ranges with a total weight of about four times ``MOST_NAMES``; yield (first, end) per range."""
    ends = np.cumsum(weights, dtype=np.int64)
    limits = np.arange(4 * MOST_NAMES, ends[-1] if len(ends) else 0, 4 * MOST_NAMES)
    edges = [0, *np.searchsorted(ends, limits).tolist(), len(weights)]
    del ends
    for first, last in pairwise(edges):
        if first < last:
            yield first, last


def blocks(count: int) -> Iterator[slice]:
    """Divide `count` rows into ranges of ``MOST_NAMES`` rows; the last range may be shorter."""
    for first in range(0, count, MOST_NAMES):
        yield slice(first, first + MOST_NAMES)
