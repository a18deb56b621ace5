"""Store a graph in a directory of arrays and a manifest with checksums; loading maps the arrays into memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from phasegraph._support.packed import PackedTexts, ascend, ascending_order
from phasegraph._support.serialization import (
    MISFITS,
    Bundle,
    StreamedArray,
    Verify,
    mapped_in,
    open_bundle,
    write_bundle,
)
from phasegraph._support.typing import IntArray
from phasegraph.errors import IntegrityError, InvalidInputError
from phasegraph.graph.model.entity_graph import UNIT_TOLERANCE, EdgeWeights, EntityGraph, check_kind, stored_graph
from phasegraph.lexical import TOKENIZERS, WITHOUT_PARTS, LexicalIndex, Tokenizer, tokenizer_of
from phasegraph.pagerank import WalkOperator

KIND, VERSION = "entity-graph", 1
_MATRICES: dict[str, type[np.generic]] = {
    "mentions": np.int32, "homes": np.int8, "facts": np.int32, "synonyms": np.float32
}  # fmt: skip
_PARTS = ("data", "indices", "indptr")
PARTS = "identifiers_split"
"""The manifest's key that states that parts of identifiers were counted as words; older versions did not count them."""
_LEXICAL = ("starts", "rows", "counts", "lengths")
_WALK = {
    "data": "weights", "indices": "indices", "indptr": "indptr", "inverse_out": "inverse_out",
    "out_degrees": "out_degrees", "costs": "costs",
}  # fmt: skip
PACKED_BYTES = 1024**2
"""Number of bytes above which loaded texts stay encoded and are decoded on demand; shorter texts become a tuple."""


def save_graph(graph: EntityGraph, directory: str | os.PathLike[str]) -> None:
    """Save a graph to a directory; the write is atomic.

    Parameters
    ----------
    graph : EntityGraph
        The graph to save.
    directory : path
        The directory; created if missing. An existing graph is replaced when the new graph is complete.
    """
    body, arrays = graph_parts(graph)
    write_bundle(directory, KIND, VERSION, body, arrays, readers=("graph",))


def graph_parts(graph: EntityGraph) -> tuple[dict[str, object], dict[str, NDArray[Any]]]:
    """Convert a graph to the parts that are stored: a mapping for the JSON manifest, and named arrays."""
    check_kind("graph", graph, EntityGraph)
    graph.check_files(settled=True)
    arrays: dict[str, NDArray[Any]] = {}
    for name in _MATRICES:
        arrays |= packed_matrix(name, getattr(graph, name))
    arrays |= packed("passages", graph.passages) | packed("entities", graph.entities)
    arrays |= {f"walk_{part}": getattr(graph.operator, name) for part, name in _WALK.items()}
    arrays |= {"frequency": graph.frequency, "anchored": graph.anchored.view(np.int8)}
    arrays["passages_order"] = ascending_order(graph.passages)
    if graph.embeddings is not None:
        arrays["embeddings"] = graph.embeddings
    body: dict[str, object] = {
        "passages": len(graph.passages), "entities": len(graph.entities), "weights": asdict(graph.weights)
    }  # fmt: skip
    if graph.lexical is not None:
        if not isinstance(graph.lexical.tokenizer, str):
            raise InvalidInputError(
                "a graph can be saved only with the name of a tokenizer "
                f"({', '.join(TOKENIZERS)}, snowball:LANGUAGE), not with a function: save "
                "dataclasses.replace(graph, lexical=None), and build the BM25 index again after loading"
            )
        arrays |= packed_words("vocabulary", "lexical", graph.lexical)
        body |= {"tokenizer": graph.lexical.tokenizer, PARTS: True}
    return body, arrays


def load_graph(directory: str | os.PathLike[str], *, mmap: bool = True, verify: Verify = True) -> EntityGraph:
    """Load a graph that :func:`save_graph` wrote.

    Parameters
    ----------
    directory : path
        The directory of the graph.
    mmap : bool, default True
        If True, map the files of the arrays into memory, read-only; if False, read them into memory.
    verify : bool or "again", default True
        True checks the checksum of every array, and that the arrays fit together. A passed check is recorded in the
        user's cache directory and is not repeated while inode, size and times of the file stay the same. Saving also
        records a passed check, so only a graph that was copied from elsewhere is read completely. If the arrays have
        more than 64 MiB, a thread compares checksums while the graph is in use. If it finds damage, it logs an error,
        and later searches and loads raise IntegrityError. "again" repeats all checks before returning, so it finds
        silent disk errors. False compares no checksums.

    Returns
    -------
    EntityGraph
        The graph, identical to the saved graph to the bit.

    Raises
    ------
    IntegrityError
        If a file is missing, truncated or damaged, is not part of a graph, or was written by a newer version. The
        message names the file.
    """
    bundle = open_bundle(directory, KIND, VERSION, mmap=mmap, verify=verify, reader="graph")
    graph = graph_from_bundle(bundle)
    end_opening(bundle, graph, "graph")
    return graph


def graph_from_bundle(bundle: Bundle) -> EntityGraph:
    """Create the graph of an opened bundle, a directory of arrays and a manifest; see :func:`graph_from_parts`."""
    late = bundle.late is not None
    return graph_from_parts(bundle.body, bundle.plain, bundle.directory.name, sound=bundle.sound, late=late)


def end_opening(bundle: Bundle, graph: EntityGraph, *readers: str) -> None:
    """End the loading of a graph: record passed checks, and start the checks that run in the background.

    `bundle` is the opened directory of the graph. `readers` are names of code that has checked this directory; each
    name is recorded, so that the same code need not check unchanged files again.
    """
    checks = {} if graph.embeddings is None else {"embeddings": partial(unit_rows_fault, graph.embeddings.shape[1])}
    bundle.passed(*(readers if taken_as_is(bundle, graph) else ()), checks=checks)


def unit_rows_fault(dimensions: int, rows: bytes) -> str:
    """Return an error message if a vector has a length other than 1 or 0; otherwise, return an empty string.

    `rows` are the bytes of float32 vectors of `dimensions` numbers each.
    """
    vectors = np.frombuffer(rows, dtype=np.float32).reshape(-1, dimensions)
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    if ((np.abs(lengths - 1) <= UNIT_TOLERANCE) | (lengths == 0)).all():
        return ""
    return "embeddings must be finite and of length 1; load the folder with verify='again', which normalizes them"


def graph_from_parts(
    body: Mapping[str, object],
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    *,
    sound: bool = False,
    late: bool = False,
) -> EntityGraph:
    """Create a graph from the parts of :func:`graph_parts`; raise IntegrityError if the parts are inconsistent.

    `name` is the name of the directory, for messages. `sound` is True if the parts were checked before. `late` is True
    if the background check of checksums also checks the lengths of the embeddings.
    """
    try:
        passages, entities = unpacked_or_not("passages", arrays, sound), unpacked_or_not("entities", arrays, sound)
        if [len(passages), len(entities)] != [body["passages"], body["entities"]]:
            raise InvalidInputError(
                f"the arrays contain {len(passages)} passages and {len(entities)} entities, but the manifest states "
                f"{body['passages']!r:.40} passages and {body['entities']!r:.40} entities"
            )
        shapes = {"mentions": (len(passages), len(entities)), "homes": (len(passages), len(entities))}
        square = (len(entities), len(entities))
        matrices = {
            one: unpacked_matrix(one, arrays, shapes.get(one, square), dtype, sound=sound)
            for one, dtype in _MATRICES.items()
        }
        weights = body["weights"]
        if not isinstance(weights, Mapping):
            raise InvalidInputError(f"the weights in the manifest must be a mapping; got {weights!r:.80}")
        embeddings: Any = arrays.get("embeddings")
        made = {
            "passages": passages, "entities": entities, **matrices, "weights": EdgeWeights(**weights),
            "embeddings": embeddings, "lexical": _words_of(body, arrays, sound),
        }  # fmt: skip
        if not sound:
            unread = late and _shaped(embeddings, len(passages))
            checked = EntityGraph(**made | ({"embeddings": None} if unread else {}))
            made |= {one: getattr(checked, one) for one in (*_MATRICES, *(() if unread else ("embeddings",)))}
        graph = stored_graph(made, arrays.values())
        _take_over(graph, arrays, sound)
        return graph
    except MISFITS as error:
        raise IntegrityError(
            f"{name}: the parts of the saved graph do not fit together: {error}. Restore the folder, "
            "or build the graph again"
        ) from error


def _shaped(embeddings: Any, rows: int) -> bool:
    """Return True if embeddings are memory-mapped and have the right data type and shape (rows, d)."""
    return (
        embeddings is not None
        and embeddings.dtype == np.float32
        and embeddings.ndim == 2
        and len(embeddings) == rows
        and embeddings.shape[1] > 0
        and bool(mapped_in([embeddings]))
    )


def taken_as_is(bundle: Bundle, graph: EntityGraph) -> bool:
    """Return True if the graph uses all arrays of the opened directory `bundle` unchanged.

    Later loads can then skip the checks.
    """
    pairs = [(graph.embeddings, bundle.arrays.get("embeddings"))]
    pairs += [(getattr(graph, one).indices, bundle.arrays[f"{one}_indices"]) for one in _MATRICES]
    whole = {f"walk_{part}" for part in _WALK} | {"frequency", "anchored", "passages_order"} <= bundle.arrays.keys()
    return whole and all(one is None or not one.size or np.may_share_memory(one, other) for one, other in pairs)


def _take_over(graph: EntityGraph, arrays: Mapping[str, NDArray[Any]], sound: bool) -> None:
    """Attach the saved edge weights and entity counts to the graph, so that they need not be computed again.

    Graphs that an older version saved lack these arrays. `sound` is True if the arrays were checked before.
    """
    if "walk_indptr" in arrays:
        weights, indices, indptr, inverse, degrees, costs = (arrays[f"walk_{part}"] for part in _WALK)
        if not sound:
            unpacked_matrix("walk", arrays, (graph.size, graph.size), np.float32)
            types = [arrays[f"walk_{part}"].dtype for part in _WALK]
            if types != [np.float32, np.int32, np.int64, np.float64, np.int32, np.int32]:
                listed = ", ".join(f"walk_{part}: {one}" for part, one in zip(_WALK, types, strict=True))
                raise InvalidInputError(f"the stored edges of the walk have wrong data types ({listed})")
        operator = WalkOperator(indptr, indices, weights, inverse)
        if not sound:
            same = np.array_equal(degrees, operator.out_degrees) and np.array_equal(costs, operator.costs)
            if not same or not operator.follows():
                raise InvalidInputError(
                    "the stored edges of the walk have a weight that is not positive, or degrees, costs or sums of "
                    "weights that do not match the edges"
                )
        vars(operator).update(out_degrees=degrees, costs=costs)
        vars(graph)["operator"] = operator
    for name, dtype in (("frequency", np.int32), ("anchored", np.bool_)):
        if name in arrays:
            found = arrays[name]
            same = found.dtype.kind in "ib" and found.itemsize == dtype().itemsize
            if not sound and not (same and np.array_equal(found, getattr(graph, name))):
                raise InvalidInputError(f"the array {name!r} does not match the mentions and homes of the graph")
            vars(graph)[name] = found.view(dtype)


_AT_ONCE = 4096
"""Number of rows that are copied at a time."""


def streamed_rows(array: Any, rows: IntArray, more: Any) -> StreamedArray:
    """Return an array whose parts are produced while it is written: the `rows` of `array`, then the rows of `more`."""

    def parts() -> Iterator[NDArray[Any]]:
        for first in range(0, len(rows), _AT_ONCE):
            yield array[rows[first : first + _AT_ONCE]]
        if len(more):
            yield np.asarray(more, dtype=array.dtype)

    return StreamedArray(array.dtype, (len(rows) + len(more), *array.shape[1:]), parts)


def packed(name: str, texts: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Convert texts to two arrays whose names start with `name`: their concatenated UTF-8 bytes, and their ends."""
    if isinstance(texts, PackedTexts):
        return {f"{name}_text": texts.text, f"{name}_ends": texts.ends}
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([len(one) for one in encoded], dtype=np.int64) if encoded else np.empty(0, dtype=np.int64)
    return {f"{name}_text": np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{name}_ends": ends}


def offsets(name: str, arrays: Mapping[str, NDArray[Any]], *, unique: bool = True) -> NDArray[Any]:
    """Return the end positions of packed texts.

    Raise InvalidInputError unless the positions ascend, and the last position is the number of bytes. With `unique`,
    two empty texts are also an error.
    """
    text, ends = arrays[f"{name}_text"], arrays[f"{name}_ends"]
    if text.ndim != 1 or ends.ndim != 1 or text.dtype != np.uint8 or ends.dtype != np.int64:
        raise InvalidInputError(
            f"{name} must be stored as two flat arrays: {name}_text (bytes) and {name}_ends (end positions, int64)"
        )
    lengths = np.diff(ends, prepend=0)
    if (int(ends[-1]) if len(ends) else 0) != len(text) or (lengths < 0).any() or (ends < 0).any():
        raise InvalidInputError(
            f"{name}_ends must ascend and end at the size of {name}_text ({len(text)} bytes); the last of {len(ends)} "
            f"end positions is {int(ends[-1]) if len(ends) else 0}"
        )
    if unique and np.count_nonzero(lengths == 0) > 1:
        raise InvalidInputError(f"{name} must be unique; {np.count_nonzero(lengths == 0)} texts are empty")
    return ends


def unpacked(name: str, arrays: Mapping[str, NDArray[Any]], *, unique: bool = True) -> tuple[str, ...]:
    """Decode texts that :func:`packed` encoded, and return them as a tuple; errors as for :func:`offsets`."""
    text, ends = arrays[f"{name}_text"].tobytes(), offsets(name, arrays, unique=unique).tolist()
    return tuple(
        text[start:end].decode("utf-8", "surrogatepass") for start, end in zip([0, *ends[:-1]], ends, strict=False)
    )


def unpacked_or_not(name: str, arrays: Mapping[str, NDArray[Any]], sound: bool) -> Sequence[str]:
    """Return the texts that :func:`packed` encoded; if they have many bytes, decode each text when it is read.

    `sound` is True if the arrays were checked before.
    """
    if arrays[f"{name}_text"].nbytes <= PACKED_BYTES:
        return unpacked(name, arrays)
    ends = arrays[f"{name}_ends"] if sound else offsets(name, arrays)
    order: Any = arrays.get(f"{name}_order")
    texts = PackedTexts(arrays[f"{name}_text"], ends, order)
    texts.ascends = order is None and (sound or ascend(texts))  # names and words are saved in order, ids with an order
    return texts


def _words_of(body: Mapping[str, object], arrays: Mapping[str, NDArray[Any]], sound: bool) -> LexicalIndex | None:
    if "tokenizer" not in body:
        return None
    tokenizer = str(body["tokenizer"])
    if PARTS not in body:  # saved by an older version
        tokenizer += WITHOUT_PARTS
    tokenizer_of(tokenizer)
    return unpacked_words("vocabulary", "lexical", arrays, tokenizer, sound=sound)


def packed_words(vocabulary: str, name: str, words: LexicalIndex) -> dict[str, NDArray[Any]]:
    """Convert a BM25 index to plain arrays; `vocabulary` and `name` are the prefixes of the arrays' names."""
    return packed(vocabulary, words.vocabulary) | {f"{name}_{part}": getattr(words, part) for part in _LEXICAL}


def unpacked_words(
    vocabulary: str, name: str, arrays: Mapping[str, NDArray[Any]], tokenizer: Tokenizer, *, sound: bool = False
) -> LexicalIndex:
    """Create a BM25 index from arrays of :func:`packed_words`; raise InvalidInputError if they are inconsistent.

    `sound` is True if the arrays were checked before; they are then not checked again.
    """
    parts: list[Any] = [arrays[f"{name}_{part}"] for part in _LEXICAL]
    if any(one.ndim != 1 or one.dtype.kind != "i" for one in parts):
        raise InvalidInputError(
            "the arrays of the BM25 index must be one-dimensional and contain integers; got "
            + ", ".join(f"{part}: {one.dtype} {one.shape}" for part, one in zip(_LEXICAL, parts, strict=True))
        )
    starts, rows, counts, lengths = parts
    words = unpacked_or_not(vocabulary, arrays, sound)
    if sound:
        return LexicalIndex(words, starts, rows, counts, lengths, tokenizer)
    if len(starts) != len(words) + 1 or int(starts[-1]) != len(rows) or len(rows) != len(counts):
        raise InvalidInputError(
            f"the arrays of the BM25 index must contain one posting list for each of {len(words)} words; got "
            f"{len(starts)} starts, {len(rows)} rows and {len(counts)} counts"
        )
    if starts[0] != 0 or (np.diff(starts) < 1).any() or not ascend(words):
        raise InvalidInputError(
            "the words of the BM25 index must be unique and sorted, the posting lists must begin at 0, and each word "
            f"must have a passage; got {'sorted' if ascend(words) else 'unsorted or repeated'} words, a first list at "
            f"{starts[0]}, and {np.count_nonzero(np.diff(starts) < 1)} of {len(words)} words without a passage"
        )
    if len(rows) and not (int(rows.min()) >= 0 and int(rows.max()) < len(lengths) and int(counts.min()) >= 1):
        raise InvalidInputError(
            f"the BM25 index has {len(lengths)} passages: rows must be in [0, {len(lengths)}), and word counts >= 1; "
            f"got rows from {rows.min()} to {rows.max()}, and counts from {counts.min()}"
        )
    falls = rows[1:] <= rows[:-1]
    falls[starts[1:-1] - 1] = False  # the first row of a word's posting list can be any row
    if falls.any() or (len(lengths) and int(lengths.min()) < 0):
        raise InvalidInputError(
            f"the rows of a word's passages must ascend, and lengths must be at least 0; {np.count_nonzero(falls)} "
            f"rows do not ascend, and {np.count_nonzero(lengths < 0)} lengths are below 0"
        )
    return LexicalIndex(words, starts, rows, counts, lengths, tokenizer)


def packed_matrix(name: str, matrix: Any) -> dict[str, NDArray[Any]]:
    """Convert a CSR matrix to its three arrays, with names that start with `name`."""
    return {f"{name}_{part}": getattr(matrix, part) for part in _PARTS}


def unpacked_matrix(
    name: str,
    arrays: Mapping[str, NDArray[Any]],
    shape: tuple[int, int],
    dtype: type[np.generic],
    *,
    sound: bool = False,
) -> Any:
    """Create a matrix from arrays of :func:`packed_matrix`; raise InvalidInputError if they do not fit `shape`.

    The checks prevent compiled code from reading or writing outside the arrays. `sound` is True if the arrays were
    checked before.
    """
    data, indices, indptr = (arrays[f"{name}_{part}"] for part in _PARTS)
    if not sound:
        _check_matrix(name, data, indices, indptr, shape, dtype)
    matrix = sparse.csr_array(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def _check_matrix(
    name: str, data: Any, indices: Any, indptr: Any, shape: tuple[int, int], dtype: type[np.generic]
) -> None:
    if any(one.ndim != 1 for one in (data, indices, indptr)) or data.dtype != dtype:
        raise InvalidInputError(
            f"the arrays of {name} must be one-dimensional, with values of {np.dtype(dtype)}; got values of "
            f"{data.dtype}, and the shapes {data.shape}, {indices.shape} and {indptr.shape}"
        )
    if any(one.dtype not in (np.int32, np.int64) for one in (indices, indptr)):
        raise InvalidInputError(
            f"the columns and row ends of {name} must be integers of 32 or 64 bits; got {indices.dtype} and "
            f"{indptr.dtype}"
        )
    if len(indptr) != shape[0] + 1 or int(indptr[-1]) != len(indices) or len(indices) != len(data):
        raise InvalidInputError(
            f"the arrays of {name} must describe a matrix of shape {shape}; got {len(data)} values, {len(indices)} "
            f"columns and {len(indptr)} row ends"
        )
    if int(indptr[0]) != 0 or (indptr[1:] < indptr[:-1]).any():
        raise InvalidInputError(
            f"the row ends of {name} must start with 0 and ascend; the first is {int(indptr[0])}, and "
            f"{np.count_nonzero(indptr[1:] < indptr[:-1])} are below the one before"
        )
    if len(indices) and not (int(indices.min()) >= 0 and int(indices.max()) < shape[1]):
        raise InvalidInputError(
            f"the column numbers of {name} must be in [0, {shape[1]}); got {indices.min()} to {indices.max()}"
        )
