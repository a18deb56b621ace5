"""Store a graph in a directory of arrays with a checksummed manifest; loading maps the arrays into memory."""

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
"""Stands beside the tokenizer's name where words were counted with the parts of identifiers."""
_LEXICAL = ("starts", "rows", "counts", "lengths")
_WALK = {
    "data": "weights", "indices": "indices", "indptr": "indptr", "inverse_out": "inverse_out",
    "out_degrees": "out_degrees", "costs": "costs",
}  # fmt: skip
PACKED_BYTES = 1024**2
"""Texts of more bytes than this stay packed when they are loaded; fewer become a tuple, which is as quick."""


def save_graph(graph: EntityGraph, directory: str | os.PathLike[str]) -> None:
    """Save a graph to a directory, in one step.

    Parameters
    ----------
    graph : EntityGraph
    directory : path
        The directory; created if missing. An existing graph is replaced when the new graph is complete.
    """
    body, arrays = graph_parts(graph)
    write_bundle(directory, KIND, VERSION, body, arrays, readers=("graph",))


def graph_parts(graph: EntityGraph) -> tuple[dict[str, object], dict[str, NDArray[Any]]]:
    """Convert a graph to a JSON-ready body and plain arrays."""
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
                f"a graph is saved with a tokenizer that has a name ({', '.join(TOKENIZERS)}, snowball:LANGUAGE), not "
                "a function: save it with dataclasses.replace(graph, lexical=None), and count the words again after "
                "loading"
            )
        arrays |= packed_words("vocabulary", "lexical", graph.lexical)
        body |= {"tokenizer": graph.lexical.tokenizer, PARTS: True}
    return body, arrays


def load_graph(directory: str | os.PathLike[str], *, mmap: bool = True, verify: Verify = True) -> EntityGraph:
    """Load a graph that :func:`save_graph` wrote.

    Parameters
    ----------
    directory : path
    mmap : bool, default True
        Map the arrays read-only in place of reading them into memory.
    verify : bool or "again", default True
        Check every array's checksum, and that the arrays fit together, once for each state of the files: what passed is
        noted in the user's cache directory, and files whose inode, size and times are those noted are not read again.
        Saving notes it of what it writes, so that a graph is read as a whole only where it was copied from elsewhere.
        Of more than 64 MiB, the arrays are checked to fit together at once, and checksums on a thread while the graph
        is in use: a damaged file is logged, and from then on searches and openings raise IntegrityError.
        "again" checks all at once, whatever is noted, and so finds what a disk has lost silently; False compares no
        checksums.

    Returns
    -------
    EntityGraph
        The graph, equal to the bit to the saved graph.

    Raises
    ------
    IntegrityError
        If a file is missing, truncated, damaged, foreign or newer; the message names it.
    """
    bundle = open_bundle(directory, KIND, VERSION, mmap=mmap, verify=verify, reader="graph")
    graph = graph_from_bundle(bundle)
    end_opening(bundle, graph, "graph")
    return graph


def graph_from_bundle(bundle: Bundle) -> EntityGraph:
    """The graph of a bundle, as of :func:`graph_from_parts`."""
    late = bundle.late is not None
    return graph_from_parts(bundle.body, bundle.plain, bundle.directory.name, sound=bundle.sound, late=late)


def end_opening(bundle: Bundle, graph: EntityGraph, *readers: str) -> None:
    """Say that a bundle passed the checks of these readers, and begin with the checks that were left for later."""
    checks = {} if graph.embeddings is None else {"embeddings": partial(unit_rows_fault, graph.embeddings.shape[1])}
    bundle.passed(*(readers if taken_as_is(bundle, graph) else ()), checks=checks)


def unit_rows_fault(dimensions: int, rows: bytes) -> str:
    """Describe what is wrong with float32 rows, which must have length 1 or 0; "" if nothing is wrong."""
    vectors = np.frombuffer(rows, dtype=np.float32).reshape(-1, dimensions)
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    if ((np.abs(lengths - 1) <= UNIT_TOLERANCE) | (lengths == 0)).all():
        return ""
    return "embeddings must be finite and of length 1; load the folder with verify='again', which normalises them"


def graph_from_parts(
    body: Mapping[str, object],
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    *,
    sound: bool = False,
    late: bool = False,
) -> EntityGraph:
    """Create a graph from the parts of :func:`graph_parts`; IntegrityError if the parts do not fit.

    Parts that are `sound` have been checked before. The lengths of embeddings are checked `late`, when all of them are
    read for their checksum.
    """
    try:
        passages, entities = unpacked_or_not("passages", arrays, sound), unpacked_or_not("entities", arrays, sound)
        if [len(passages), len(entities)] != [body["passages"], body["entities"]]:
            raise InvalidInputError(f"{len(passages)} passages and {len(entities)} entities do not match the manifest")
        shapes = {"mentions": (len(passages), len(entities)), "homes": (len(passages), len(entities))}
        square = (len(entities), len(entities))
        matrices = {
            one: unpacked_matrix(one, arrays, shapes.get(one, square), dtype, sound=sound)
            for one, dtype in _MATRICES.items()
        }
        weights = body["weights"]
        if not isinstance(weights, Mapping):
            raise InvalidInputError("weights must be a mapping")
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
        raise IntegrityError(f"{name}: the parts of the saved graph do not fit: {error}") from error


def _shaped(embeddings: Any, rows: int) -> bool:
    """Whether embeddings have the saved type and shape; their lengths are not checked."""
    return (
        embeddings is not None
        and embeddings.dtype == np.float32
        and embeddings.ndim == 2
        and len(embeddings) == rows
        and embeddings.shape[1] > 0
        and bool(mapped_in([embeddings]))
    )


def taken_as_is(bundle: Bundle, graph: EntityGraph) -> bool:
    """Whether the graph uses the bundle's arrays unchanged, so that they need no further check."""
    pairs = [(graph.embeddings, bundle.arrays.get("embeddings"))]
    pairs += [(getattr(graph, one).indices, bundle.arrays[f"{one}_indices"]) for one in _MATRICES]
    whole = {f"walk_{part}" for part in _WALK} | {"frequency", "anchored", "passages_order"} <= bundle.arrays.keys()
    return whole and all(one is None or not one.size or np.may_share_memory(one, other) for one, other in pairs)


def _take_over(graph: EntityGraph, arrays: Mapping[str, NDArray[Any]], sound: bool) -> None:
    """Attach saved derived data to the graph, but not from a bundle of an older version."""
    if "walk_indptr" in arrays:
        weights, indices, indptr, inverse, degrees, costs = (arrays[f"walk_{part}"] for part in _WALK)
        if not sound:
            unpacked_matrix("walk", arrays, (graph.size, graph.size), np.float32)
            types = [arrays[f"walk_{part}"].dtype for part in _WALK]
            if types != [np.float32, np.int32, np.int64, np.float64, np.int32, np.int32]:
                raise InvalidInputError("the arrays of the walk must be those of a prepared graph")
        operator = WalkOperator(indptr, indices, weights, inverse)
        if not sound:
            same = np.array_equal(degrees, operator.out_degrees) and np.array_equal(costs, operator.costs)
            if not same or not operator.follows():
                raise InvalidInputError("the arrays of the walk do not follow from its edges")
        vars(operator).update(out_degrees=degrees, costs=costs)
        vars(graph)["operator"] = operator
    for name, dtype in (("frequency", np.int32), ("anchored", np.bool_)):
        if name in arrays:
            found = arrays[name]
            same = found.dtype.kind in "ib" and found.itemsize == dtype().itemsize
            if not sound and not (same and np.array_equal(found, getattr(graph, name))):
                raise InvalidInputError(f"{name} does not follow from the mentions and homes")
            vars(graph)[name] = found.view(dtype)


_AT_ONCE = 4096
"""Rows that are copied together."""


def streamed_rows(array: Any, rows: IntArray, more: Any) -> StreamedArray:
    """Yield some rows of an array, then the rows of another array, in parts."""

    def parts() -> Iterator[NDArray[Any]]:
        for first in range(0, len(rows), _AT_ONCE):
            yield array[rows[first : first + _AT_ONCE]]
        if len(more):
            yield np.asarray(more, dtype=array.dtype)

    return StreamedArray(array.dtype, (len(rows) + len(more), *array.shape[1:]), parts)


def packed(name: str, texts: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Convert texts to one run of bytes and the end of each text."""
    if isinstance(texts, PackedTexts):
        return {f"{name}_text": texts.text, f"{name}_ends": texts.ends}
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([len(one) for one in encoded], dtype=np.int64) if encoded else np.empty(0, dtype=np.int64)
    return {f"{name}_text": np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{name}_ends": ends}


def offsets(name: str, arrays: Mapping[str, NDArray[Any]], *, unique: bool = True) -> NDArray[Any]:
    """Return the ends of packed texts; InvalidInputError if they are not ascending.

    With `unique`, it is an error if many texts are empty.
    """
    text, ends = arrays[f"{name}_text"], arrays[f"{name}_ends"]
    if text.ndim != 1 or ends.ndim != 1 or text.dtype != np.uint8 or ends.dtype != np.int64:
        raise InvalidInputError(f"{name} must be bytes and where each text ends")
    lengths = np.diff(ends, prepend=0)
    if (int(ends[-1]) if len(ends) else 0) != len(text) or (lengths < 0).any() or (ends < 0).any():
        raise InvalidInputError(f"the ends of {name} must ascend to the length of their text")
    if unique and np.count_nonzero(lengths == 0) > 1:
        raise InvalidInputError(f"{name} must be unique; several are empty")
    return ends


def unpacked(name: str, arrays: Mapping[str, NDArray[Any]], *, unique: bool = True) -> tuple[str, ...]:
    """Decode texts that :func:`packed` encoded."""
    text, ends = arrays[f"{name}_text"].tobytes(), offsets(name, arrays, unique=unique).tolist()
    return tuple(
        text[start:end].decode("utf-8", "surrogatepass") for start, end in zip([0, *ends[:-1]], ends, strict=False)
    )


def unpacked_or_not(name: str, arrays: Mapping[str, NDArray[Any]], sound: bool) -> Sequence[str]:
    """Decode texts that :func:`packed` encoded; long texts stay packed and are decoded on demand.

    Arrays that are `sound` have been checked before.
    """
    if arrays[f"{name}_text"].nbytes <= PACKED_BYTES:
        return unpacked(name, arrays)
    ends = arrays[f"{name}_ends"] if sound else offsets(name, arrays)
    order: Any = arrays.get(f"{name}_order")
    texts = PackedTexts(arrays[f"{name}_text"], ends, order)
    texts.ascends = order is None and (sound or ascend(texts))  # names and words are saved so, ids with their order
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
    """Convert an index of words to plain arrays, with its vocabulary under a separate name."""
    return packed(vocabulary, words.vocabulary) | {f"{name}_{part}": getattr(words, part) for part in _LEXICAL}


def unpacked_words(
    vocabulary: str, name: str, arrays: Mapping[str, NDArray[Any]], tokenizer: Tokenizer, *, sound: bool = False
) -> LexicalIndex:
    """Read an index of words from arrays; InvalidInputError if the arrays do not fit together."""
    parts: list[Any] = [arrays[f"{name}_{part}"] for part in _LEXICAL]
    if any(one.ndim != 1 or one.dtype.kind != "i" for one in parts):
        raise InvalidInputError("the arrays of the words must be flat and of integers")
    starts, rows, counts, lengths = parts
    words = unpacked_or_not(vocabulary, arrays, sound)
    if sound:
        return LexicalIndex(words, starts, rows, counts, lengths, tokenizer)
    if len(starts) != len(words) + 1 or int(starts[-1]) != len(rows) or len(rows) != len(counts):
        raise InvalidInputError("the arrays of the words must describe one run of passages for each")
    if starts[0] != 0 or (np.diff(starts) < 1).any() or not ascend(words):
        raise InvalidInputError("each word must stand once, in order, and have passages")
    if len(rows) and not (int(rows.min()) >= 0 and int(rows.max()) < len(lengths) and int(counts.min()) >= 1):
        raise InvalidInputError(f"a word's passages must be rows below {len(lengths)}, with counts from 1")
    falls = rows[1:] <= rows[:-1]
    falls[starts[1:-1] - 1] = False  # from one word's passages to the next one's
    if falls.any() or (len(lengths) and int(lengths.min()) < 0):
        raise InvalidInputError("a word's passages must ascend, and lengths be 0 or more")
    return LexicalIndex(words, starts, rows, counts, lengths, tokenizer)


def packed_matrix(name: str, matrix: Any) -> dict[str, NDArray[Any]]:
    """A CSR matrix as its three arrays."""
    return {f"{name}_{part}": getattr(matrix, part) for part in _PARTS}


def unpacked_matrix(
    name: str,
    arrays: Mapping[str, NDArray[Any]],
    shape: tuple[int, int],
    dtype: type[np.generic],
    *,
    sound: bool = False,
) -> Any:
    """Read a matrix that :func:`packed_matrix` wrote; InvalidInputError if its arrays do not fit the shape.

    The checks protect compiled code from reading or writing outside its memory.
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
        raise InvalidInputError(f"the arrays of {name} must be flat, the values {np.dtype(dtype)}")
    if any(one.dtype not in (np.int32, np.int64) for one in (indices, indptr)):
        raise InvalidInputError(f"the columns and row ends of {name} must be integers of 32 or 64 bits")
    if len(indptr) != shape[0] + 1 or int(indptr[-1]) != len(indices) or len(indices) != len(data):
        raise InvalidInputError(f"the arrays of {name} must describe a matrix of shape {shape}")
    if int(indptr[0]) != 0 or (indptr[1:] < indptr[:-1]).any():
        raise InvalidInputError(f"the row ends of {name} must ascend from 0")
    if len(indices) and not (int(indices.min()) >= 0 and int(indices.max()) < shape[1]):
        raise InvalidInputError(f"the columns of {name} must be below {shape[1]}")
