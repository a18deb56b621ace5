"""Data sets in phasegraph's folder format: passages, judged queries, embeddings, facts, and disjoint splits.

A missing or broken file raises ``InvalidInputError``, whose message names the file and the line.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import time
from tokenize import TokenError
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.lib import format as npy_format
from scipy import sparse

from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import Float32Array, FloatArray, IntArray
from phasegraph._support.validation import check_count, check_range, check_text
from phasegraph.errors import InsufficientDataError, InvalidInputError, InvalidTypeError
from phasegraph.fusion.context import Context
from phasegraph.graph.model.building import read_openie
from phasegraph.graph.model.entity_graph import Triple
from phasegraph.lexical import read_hits
from phasegraph.ranking import Ranking


def wrong(path: Path, line: int | None, message: str) -> InvalidInputError:
    """Return an InvalidInputError whose message starts with ``path:line:``, or with ``path:`` if `line` is None."""
    where = f"{path}:{line}" if line is not None else f"{path}"
    return InvalidInputError(f"{where}: {message}")


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the non-blank lines of a file with their line numbers, which start at 1."""
    if not path.is_file():
        raise wrong(path, None, "the file does not exist")
    with path.open("rb") as handle:
        yield from texts_in(path, handle)


def texts_in(path: Path, lines: Iterable[bytes], first: int = 1) -> Iterator[tuple[int, str]]:
    """Decode the lines of a file and yield the non-blank lines with their numbers, counted from `first`."""
    for number, raw in enumerate(lines, start=first):
        try:
            text = (
                raw.decode("utf-8").removeprefix("\ufeff").strip()
            )  # a concatenation of files can contain several byte order marks
        except UnicodeDecodeError as error:
            raise wrong(path, number, f"the line must be UTF-8 text; byte {error.start} is invalid") from error
        if text:
            yield number, text


def objects_of(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield the JSON objects of a JSONL file with their line numbers."""
    return objects_in(path, lines_of(path))


def objects_in(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Parse numbered lines of a file and yield their JSON objects with the line numbers."""
    for number, text in lines:
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise wrong(path, number, f"the line must be one JSON object; {error}") from error
        if not isinstance(row, dict):
            raise wrong(path, number, f"the line must be one JSON object; got {type(row).__name__}")
        yield number, row


def text_field(path: Path, line: int, row: Mapping[str, object], name: str, default: str | None = None) -> str:
    """Return the value of the field `name` of a JSON object; raise an error unless the value is text.

    If the field is missing, return `default`. If `default` is None, the field is required, and its value must not be
    blank. The error names `path` and `line`, where the object `row` is.
    """
    value = row.get(name, default)
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise wrong(path, line, f"{name!r} must be text that is not blank; got {value!r}")
    return value


def flag_field(path: Path, line: int, row: Mapping[str, object], name: str, default: bool) -> bool:
    """Return the value of the field `name` of a JSON object; raise an error unless the value is true or false.

    If the field is missing, return `default`. The error names `path` and `line`, where the object is.
    """
    value = row.get(name, default)
    if not isinstance(value, bool):
        raise wrong(path, line, f"{name!r} must be true or false; got {value!r}")
    return value


def id_list(path: Path, line: int, value: object, name: str, *, repeats: bool = False) -> tuple[str, ...]:
    """Return the ids in `value`, the field `name` of a JSON object; raise an error unless it is a list of ids.

    The list must contain at least one id. The ids must be distinct, unless `repeats` is true.
    """
    if not isinstance(value, list) or not value:
        raise wrong(path, line, f"{name!r} must be a list of at least one id; got {value!r}")
    for item in value:
        if not isinstance(item, str) or not item:
            raise wrong(path, line, f"{name!r} must contain ids (text); got {item!r}")
    if not repeats and len(set(value)) != len(value):
        raise wrong(path, line, f"{name!r} must not repeat an id; got {value!r}")
    return tuple(value)


def check_ids(owner: str, ids: object, what: str = "an id") -> None:
    """Raise InvalidTypeError if an id is not text, such as an (id, score) pair.

    The message starts with `owner`, for example the name of a system, and says what to pass instead. `what` is the word
    for an id in the message.
    """
    if isinstance(ids, str | bytes) or not isinstance(ids, Collection):
        raise InvalidTypeError(f"{owner}: ids must be a sequence of text, best first; got {ids!r:.80}")
    for one in ids:
        if not isinstance(one, str):
            pair = isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str)
            advice = (
                "pass the ids alone, [identifier for identifier, score in hits]"
                if pair
                else "pass text, such as str(id)"
            )
            raise InvalidTypeError(f"{owner}: {what} must be text; got {one!r:.80}; {advice}")


UNIT = 2e-3
"""Maximum deviation from length 1 at which a vector still counts as a unit vector rounded to half precision."""


def read_vectors(path: str | Path, rows: int, lines_in: str, *, span: tuple[int, int] | None = None) -> Float32Array:
    """Read embeddings from an ``.npy`` file that has one row per line of the file `lines_in`.

    The result is a read-only (rows, d) float32 array of L2-normalized rows. With `span`, the result contains only the
    rows from ``span[0]`` to ``span[1] - 1``. A row that has unit length up to half-precision rounding is returned
    unchanged. Raise InvalidInputError if the file is no such array, the number of rows differs, or a row is all zeros
    or not finite in float32.
    """
    file = Path(path)
    array = _array(file, "f", "a (rows, d) array of floats", (2,))
    _check_rows(file, len(array), rows, lines_in)
    first, last = (0, rows) if span is None else span
    with np.errstate(over="ignore"):
        vectors = np.array(array[first:last], dtype=np.float32)
    lengths = _lengths(file, vectors, first)
    off = np.flatnonzero(np.abs(lengths - 1.0) > UNIT)
    vectors[off] = vectors[off] / lengths[off, None]
    vectors.setflags(write=False)
    return vectors


def read_packed(numbers: str | Path, scales: str | Path, rows: int, lines_in: str) -> Float32Array:
    """Read embeddings stored as (rows, d) integers in the file `numbers`, with a scale per row in the file `scales`.

    A row of the result is the integer row times its scale. Its length is 1 up to the precision of the integers. Both
    files must have a row per line of the file `lines_in`, which has `rows` lines. The errors are those of
    :func:`read_vectors`.
    """
    file, beside = Path(numbers), Path(scales)
    array = _array(file, "i", "a (rows, d) array of whole numbers", (2,))
    factors = _array(beside, "f", "a (rows,) or (rows, 1) array of floats", (1, 2))
    _check_rows(file, len(array), rows, lines_in)
    _check_rows(beside, factors.size, rows, lines_in)
    with np.errstate(over="ignore"):
        scale = np.array(factors, dtype=np.float32).reshape(-1, 1)
        bad = np.flatnonzero(~np.isfinite(scale))
        if len(bad):
            raise wrong(beside, None, f"scales must be finite; row {bad[0]} (line {bad[0] + 1}) is not finite")
        vectors: Float32Array = np.array(array, dtype=np.float32) * scale
    _lengths(file, vectors)
    vectors.setflags(write=False)
    return vectors


def _array(file: Path, kind: str, what: str, dimensions: tuple[int, ...]) -> Any:
    if not file.is_file():
        raise wrong(file, None, "the file does not exist")
    try:
        array = npy_format.open_memmap(file, mode="r")
    except (ValueError, OSError, EOFError, SyntaxError, TokenError) as error:
        raise wrong(file, None, f"the file must be a complete .npy array of numbers; {error}") from error
    if array.ndim not in dimensions or array.dtype.kind != kind or 0 in array.shape[1:]:
        raise wrong(
            file, None, f"the file must contain {what}; got an array of shape {array.shape} and type {array.dtype}"
        )
    return array


def _check_rows(file: Path, got: int, rows: int, lines_in: str) -> None:
    if got != rows:
        raise wrong(file, None, f"the file must have one row per line of {lines_in} ({rows}); got {got}")


def _lengths(file: Path, vectors: Float32Array, first: int = 0) -> Any:
    """Return the L2 norm of each row in double precision; raise an error for a row of zeros, NaN or infinity.

    `first` is the row of the first vector in the file, for the message.
    """
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise wrong(
            file,
            None,
            f"embeddings must be finite; row {first + bad[0]} (line {first + bad[0] + 1}) is not finite in float32",
        )
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    empty = np.flatnonzero(lengths == 0)
    if len(empty):
        raise wrong(
            file,
            None,
            f"an embedding must not be all zeros; row {first + empty[0]} (line {first + empty[0] + 1}) is all zeros",
        )
    return lengths


_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Judgement:
    """The relevant passages, answers and pages of one query.

    Parameters
    ----------
    query : str
        Id of the query.
    hops : tuple of tuple of str
        For each hop (a step of the question), the ids of the passages that satisfy it; usually a single id.
    last_hop_known : bool, default True
        True if the last element of `hops` is the last hop of the question; otherwise LastHop leaves the query out.
    grades : mapping of str to float, optional
        Gain per id for nDCG. Default: gain 1 for the first retrieved passage of each hop.
    answers : tuple of str
        The correct answers, for EM and F1; both measures leave out a query without answers.
    pages : tuple of str
        The pages that answer the query, for PageRecall, which leaves out a query without pages.
    sources : mapping of str to str
        The page of every corpus passage, by passage id; all queries of a data set share this mapping.
    """

    query: str
    hops: tuple[tuple[str, ...], ...]
    last_hop_known: bool = True
    grades: Mapping[str, float] = field(default_factory=lambda: _EMPTY)
    answers: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=lambda: _EMPTY, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_text("a question's id", self.query)
        for hop in self.hops:
            if isinstance(hop, str):
                raise InvalidTypeError(
                    f"the judgement of {self.query!r}: a hop must be a tuple of ids; got {hop!r}; pass (({hop!r},),) "
                    "for one hop"
                )
            check_ids(f"the judgement of {self.query!r}", hop)
        check_ids(f"the grades of {self.query!r}", self.grades)
        check_ids(f"the answers of {self.query!r}", self.answers, "an answer")
        check_ids(f"the pages of {self.query!r}", self.pages, "a page")

    @property
    def passages(self) -> frozenset[str]:
        """The ids of all passages of all hops."""
        return frozenset(passage for hop in self.hops for passage in hop)


@dataclass(frozen=True, slots=True)
class Span:
    """The characters [start, end) of a document, with 0 <= start < end.

    A span is the place of a passage, or a *gold span*, which answers a query and has a grade > 0.
    """

    document: str
    start: int
    end: int
    grade: float = 1.0

    def __post_init__(self) -> None:
        check_count("the start of a span", self.start)
        check_count("the end of a span", self.end, minimum=self.start + 1)
        check_range("the grade of a span", self.grade, ends="(]")

    def holds(self, gold: Span, share: float = 0.5) -> bool:
        """Return True if this span, the place of a passage, covers at least the fraction `share` of a gold span.

        Examples
        --------
        >>> passage = Span("d", 0, 100)
        >>> passage.holds(Span("d", 90, 110)), passage.holds(Span("d", 91, 110))
        (True, False)
        """
        overlap = min(self.end, gold.end) - max(self.start, gold.start)
        return self.document == gold.document and overlap >= share * (gold.end - gold.start)


def judgement_from_spans(
    query: str, gold: Sequence[Span], passages: Mapping[str, Span], *, share: float = 0.5
) -> Judgement | None:
    """Judge the passages of a query by its gold spans; `passages` gives the span of each passage by id.

    Each gold span is a hop. A passage satisfies the hop if it covers at least the fraction `share`, in (0, 1], of the
    span. The grade of a passage is the largest grade of the spans that it covers. The last hop is unknown. Return None
    if no passage covers any span. The query then cannot be scored on these passages, and the caller must count the
    query as left out.

    >>> cut = {"p1": Span("d", 0, 50), "p2": Span("d", 50, 100)}
    >>> judgement_from_spans("q", [Span("d", 40, 70)], cut).hops
    (('p2',),)
    """
    check_range("share", share, 0, 1, ends="(]")
    hops: list[tuple[str, ...]] = []
    grades: dict[str, float] = {}
    for span in gold:
        holders = tuple(sorted(name for name, passage in passages.items() if passage.holds(span, share)))
        hops += [holders] * bool(holders)
        grades |= {passage: max(grades.get(passage, 0.0), span.grade) for passage in holders}
    return Judgement(query, tuple(hops), last_hop_known=False, grades=grades) if hops else None


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of a corpus: id, title (may be empty), text, and all other fields of its line in the file (`extra`)."""

    id: str
    title: str
    text: str
    extra: Mapping[str, object] = field(default_factory=lambda: _EMPTY, repr=False)

    def __post_init__(self) -> None:
        check_text("Passage.id", self.id)

    @property
    def content(self) -> str:
        """The title, a line break and the text: the string that is embedded and that lexical sources index."""
        return f"{self.title}\n{self.text}"

    @property
    def metadata(self) -> object:
        """The field ``metadata`` of the passage's line; an index stores it with the passage."""
        return self.extra.get("metadata")


@dataclass(frozen=True, slots=True)
class Query:
    """A judged question: its id, text and judgement, the other fields of its line in the file (`extra`), and `line`.

    `line` is the number of that line, or 0 if the question does not come from a file.
    """

    id: str
    text: str
    judgement: Judgement
    extra: Mapping[str, object] = field(default_factory=lambda: _EMPTY, repr=False)
    line: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        check_text("Query.id", self.id)


def groups_of(queries: Sequence[Query]) -> tuple[str, ...] | None:
    """Return the ``collection_id`` of every query (default: the query's id), or None if no query has this field.

    Queries of one collection share passages, so they are not independent samples.
    """
    if not any("collection_id" in query.extra for query in queries):
        return None
    return tuple(str(query.extra.get("collection_id", query.id)) for query in queries)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A corpus with judged queries.

    Parameters
    ----------
    name : str
        The folder's name.
    passages : tuple of Passage
        The N passages, with unique ids.
    queries : tuple of Query
        The n queries, with unique ids; every judged passage is in the corpus.
    passage_vectors : (N, d) array of float32
        L2-normalized embeddings; row i belongs to passage i.
    query_vectors : (n, d) array of float32
        L2-normalized embeddings; row i belongs to query i.
    triples : mapping of str to tuple of (str, str, str), optional
        Triples by passage id.
    path : Path, optional
        The folder from which the data set was read.
    unjudged : tuple of str
        Ids of the queries left out because no passage covers any of their gold spans.
    """

    name: str
    passages: tuple[Passage, ...]
    queries: tuple[Query, ...]
    passage_vectors: Float32Array
    query_vectors: Float32Array
    triples: Mapping[str, tuple[Triple, ...]] | None = None
    path: Path | None = None
    unjudged: tuple[str, ...] = ()

    @property
    def judgements(self) -> tuple[Judgement, ...]:
        """The judgement of every query, in order."""
        return tuple(query.judgement for query in self.queries)

    @property
    def groups(self) -> tuple[str, ...] | None:
        """The group of every query, such as its collection; None if queries have no groups. See :func:`groups_of`."""
        return groups_of(self.queries)

    def vectors_by_text(self) -> dict[str, Float32Array]:
        """Return the embeddings of all questions and passages, by question text and passage content."""
        known = {query.text: vector for query, vector in zip(self.queries, self.query_vectors, strict=True)}
        passages = zip(self.passages, self.passage_vectors, strict=True)
        return known | {passage.content: vector for passage, vector in passages}

    @lazy_property
    def contents(self) -> Mapping[str, str]:
        """Title and text of each passage, by passage id."""
        return {passage.id: passage.content for passage in self.passages}

    @lazy_property
    def attributes(self) -> Mapping[str, Mapping[str, object]]:
        """The metadata of each passage for the priors, by passage id.

        The metadata are the further fields of the passage's line in the corpus file, and the field ``text``. The field
        ``text`` has the passage's title and text.
        """
        return {passage.id: {**passage.extra, "text": passage.content} for passage in self.passages}

    def context(self, row: int, rankings: Sequence[Ranking]) -> Context:
        """Return the context for fusing the rankings of the query at `row`.

        The context contains the query's text, the fields of the passages, the current time, and the query's words in
        the hits.
        """
        query, contents = self.queries[row].text, self.contents
        words = read_hits(query, rankings, lambda passage: contents.get(passage, ""))
        return Context(query=query, now=time(), attributes=self.attributes, words=words)

    def subset(self, rows: Sequence[int] | IntArray) -> Dataset:
        """Return the data set with the same corpus and only the queries at `rows`."""
        wanted = np.array(rows, dtype=np.intp)
        queries = tuple(self.queries[row] for row in wanted.tolist())
        return replace(self, queries=queries, query_vectors=self.query_vectors[wanted])


def load_dataset(folder: str | Path, *, share: float = 0.5) -> Dataset:
    """Read a data set from a folder in phasegraph's format.

    Parameters
    ----------
    folder : path
        A folder with these files. ``corpus.jsonl`` has ``id, title, text`` and optionally ``source``, the passage's
        page. ``queries.jsonl`` has ``id, question, hops`` and optionally ``hop_order_known``, ``last_hop_known``,
        ``hop_alternatives``, ``grades``, ``answer``, ``pages``, ``collection_id``, ``split``. ``passages.f16.npy`` and
        ``queries.f16.npy`` are embeddings (row i = line i). The optional ``triples.jsonl`` has ``id, triples``, or
        HippoRAG's OpenIE format. A query may be judged by ``spans`` (or HetDocQA's ``gold_spans``), a list of
        ``doc_id`` (or ``document_id``), ``char_start``, ``char_end`` and optionally ``grade``; every passage then has
        the first three of these fields.
    share : float, default 0.5
        The fraction of a gold span that a relevant passage must cover, in (0, 1].

    Returns
    -------
    Dataset
        The passages, judged queries, embeddings and triples of the folder.

    Raises
    ------
    InvalidInputError
        For a missing or broken file, a repeated id, or a hop that is not in the corpus. Also if embeddings do not have
        one row per line, or differ in width.

    Notes
    -----
    ``hop_alternatives`` gives, for each hop, the ids that satisfy it, and replaces ``hops``. A repeated hop counts
    once, at its last position. ``last_hop_known`` says if the last hop is known; its default is ``hop_order_known``,
    whose default is true. nDCG reads ``grades`` (gain by passage id). If a query has grades but no ``hops``, every
    passage with a gain is a hop, in unknown order. If a query has spans and hops, the spans are used, because they stay
    valid when the documents are split differently. Embeddings are scaled to unit length. Entities outside the triples
    are not read, because names that occur in no triple made the walk worse.
    """
    root = Path(folder)
    if not root.is_dir():
        raise wrong(root, None, "the folder does not exist; a data set must be a folder")
    passages = read_corpus(root / "corpus.jsonl")
    listed = queries_of(root / "queries.jsonl", objects_of(root / "queries.jsonl"), passages, share=share)
    vectors = read_vectors(root / "passages.f16.npy", len(passages), "corpus.jsonl")
    asked = read_vectors(root / "queries.f16.npy", len(listed), "queries.jsonl")
    if vectors.shape[1] != asked.shape[1]:
        message = f"must have as many columns as passages.f16.npy ({vectors.shape[1]}); got {asked.shape[1]}"
        raise wrong(root / "queries.f16.npy", None, message)
    rows = [row for row, query in enumerate(listed) if query.judgement.hops]
    if not rows:
        raise wrong(
            root / "queries.jsonl", None,
            "no passage covers any gold span of any query: check that the spans and the passages come from the same "
            "documents",
        )  # fmt: skip
    triples = None
    if (root / "triples.jsonl").is_file():
        read = read_openie(root / "triples.jsonl", passages, entities=False, strict=True)
        triples = {one.passage_id: tuple(one.triples) for one in read.extractions}
    return Dataset(
        name=root.resolve().name,
        passages=passages,
        queries=tuple(listed[row] for row in rows),
        passage_vectors=vectors,
        query_vectors=asked if len(rows) == len(listed) else asked[rows],
        triples=triples,
        path=root,
        unjudged=tuple(query.id for query in listed if not query.judgement.hops),
    )


def read_corpus(path: str | Path) -> tuple[Passage, ...]:
    """Read passages from a JSONL file with one object ``{"id", "title", "text"}`` per line; the title is optional."""
    file = Path(path)
    return passages_in(file, objects_of(file))


def passages_in(file: Path, rows: Iterable[tuple[int, Mapping[str, object]]]) -> tuple[Passage, ...]:
    """Convert the JSON objects of a file, given with their line numbers, to passages."""
    seen: dict[str, int] = {}
    passages = []
    for line, row in rows:
        name = _new_id(file, line, row, seen)
        title = text_field(file, line, row, "title", "")
        text = text_field(file, line, row, "text", "")
        if not (title.strip() or text.strip()):
            raise wrong(file, line, f"a passage must have a title or a text; {name!r} has neither")
        extra = {key: value for key, value in row.items() if key not in ("id", "title", "text")}
        passages.append(Passage(name, title, text, MappingProxyType(extra)))
    if not passages:
        raise wrong(file, None, "a corpus must have at least one passage; the file is empty")
    return tuple(passages)


def _new_id(file: Path, line: int, row: Mapping[str, object], seen: dict[str, int]) -> str:
    name = text_field(file, line, row, "id")
    if name in seen:
        raise wrong(file, line, f"ids must not repeat; {name!r} is already on line {seen[name]}")
    seen[name] = line
    return name


def queries_of(
    file: Path,
    rows: Iterable[tuple[int, Mapping[str, object]]],
    passages: Sequence[Passage] | None = None,
    *,
    share: float = 0.5,
) -> tuple[Query, ...]:
    """Convert the JSON objects of `file`, given with their line numbers, to judged queries.

    :func:`load_dataset` describes the fields. The question may also be named ``text`` or ``query``, and the default
    ``id`` is the line number. ``relevant`` is a list of relevant ids, or another name for ``grades``. With `passages`,
    a judged id that is not among them is an error. Without `passages`, any id is accepted, and spans are an error.
    ``pages`` is read if passages have a ``source``, or if `passages` is not given. If no passage covers a span of a
    query, the judgement of this query has no hops.
    """
    known = None if passages is None else {passage.id for passage in passages}
    sources = MappingProxyType(_sources(passages or ()))
    named = frozenset(sources.values())
    places: dict[str, Span] = {}
    seen: dict[str, int] = {}
    queries = []
    for line, row in rows:
        name = _new_id(file, line, {"id": str(line), **row}, seen)
        spans = next((key for key in SPANS if key in row), None)
        answers = _read_answers(file, line, row)
        if spans is not None:
            if passages is None:
                raise wrong(file, line, f"{spans!r} needs the passages; pass the passages, or judge the query by ids")
            places = places or _places(file.with_name("corpus.jsonl"), passages)
            judged = judgement_from_spans(name, _read_spans(file, line, row[spans], spans), places, share=share)
            judgement = Judgement(name, (), last_hop_known=False) if judged is None else judged
            judgement = replace(judgement, answers=answers)
        else:
            grades = _read_grades(file, line, row, known)
            if grades and "hops" not in row:  # the order of graded passages is unknown
                judgement = Judgement(name, tuple((one,) for one in grades if grades[one] > 0), False, grades, answers)
            else:
                hops = _read_hops(file, line, row, known)
                ordered = flag_field(file, line, row, "hop_order_known", True)
                last = flag_field(file, line, row, "last_hop_known", ordered)
                judgement = Judgement(name, hops, last, grades, answers)
                _check_graded(file, line, judgement)
        if "pages" in row and (passages is None or sources):
            judgement = replace(judgement, pages=_read_pages(file, line, row, None if passages is None else named))
        judgement = replace(judgement, sources=sources)
        for key in ("collection_id", "split"):
            if key in row:
                text_field(file, line, row, key)
        asked = next((key for key in QUESTIONS if key in row), QUESTIONS[0])
        question = text_field(file, line, row, asked)
        extra = {key: value for key, value in row.items() if key not in ("id", asked, "hops")}
        queries.append(Query(name, question, judgement, MappingProxyType(extra), line))
    if not queries:
        raise wrong(file, None, "there must be at least one query; the file is empty")
    return tuple(queries)


def _read_answers(file: Path, line: int, row: Mapping[str, object]) -> tuple[str, ...]:
    """Return the texts of the field ``answer`` (a text or a list of texts); empty if it is missing, null or blank."""
    value = row.get("answer")
    listed = value if isinstance(value, list) else [] if value is None else [value]
    for one in listed:
        if isinstance(one, bool) or not isinstance(one, str | int | float):
            raise wrong(file, line, f"'answer' must be text or a list of texts; got {value!r}")
    return tuple(text for text in map(str, listed) if text.strip())


def _sources(passages: Sequence[Passage]) -> dict[str, str]:
    """Return the page (field ``source``) of each passage that has one, by passage id."""
    named = {passage.id: passage.extra.get("source") for passage in passages}
    return {name: page for name, page in named.items() if isinstance(page, str) and page}


def _read_pages(file: Path, line: int, row: Mapping[str, object], named: frozenset[str] | None) -> tuple[str, ...]:
    """Return the names in the field ``pages`` of a query; raise an error if a name is not in `named`.

    `named` contains the pages of all passages; None accepts every name.
    """
    pages = id_list(file, line, row["pages"], "pages")
    lost = next((page for page in pages if named is not None and page not in named), None)
    if lost is not None:
        raise wrong(file, line, f"the judged page {lost!r} is the 'source' of no passage")
    return pages


QUESTIONS = ("question", "text", "query")
GRADES = ("grades", "relevant")


def _read_grades(file: Path, line: int, row: Mapping[str, object], known: set[str] | None) -> Mapping[str, float]:
    given = [key for key in GRADES if key in row]
    if len(given) > 1:
        raise wrong(file, line, f"{' and '.join(map(repr, given))} have the same meaning; keep one of the two fields")
    key = given[0] if given else GRADES[0]
    value = row.get(key, {})
    if key == "relevant" and isinstance(value, list):
        value = dict.fromkeys(id_list(file, line, value, key), 1.0)
    if not isinstance(value, dict):
        raise wrong(file, line, f"{key!r} must be an object of gains by passage id; got {value!r}")
    for name, grade in value.items():
        if known is not None and name not in known:
            raise wrong(file, line, f"the graded passage {name!r} is not in the corpus")
        try:
            check_range(f"the grade of {name!r}", grade)
        except InvalidInputError as error:
            raise wrong(file, line, str(error)) from error
    if given and not any(value.values()):
        raise wrong(file, line, f"{key!r} must contain a gain above 0; got {value!r}")
    return MappingProxyType({name: float(grade) for name, grade in value.items()})


def _check_graded(file: Path, line: int, judgement: Judgement) -> None:
    """Raise InvalidInputError if no passage of a hop has a grade above 0, because the hop could never add gain."""
    for hop in judgement.hops if judgement.grades else ():
        if not any(judgement.grades.get(passage, 0.0) > 0 for passage in hop):
            raise wrong(file, line, f"'grades' or 'relevant' must give every hop a gain above 0; {hop[0]!r} has none")


SPANS = ("spans", "gold_spans")


def _span(row: Mapping[str, Any]) -> Span:
    document = row["document_id"] if "document_id" in row else row["doc_id"]
    return Span(document, row["char_start"], row["char_end"], row.get("grade", 1.0))


def _read_spans(file: Path, line: int, listed: object, key: str) -> list[Span]:
    try:
        spans = [_span(one) for one in listed] if isinstance(listed, list) else []
    except (KeyError, TypeError, InvalidInputError) as error:
        raise wrong(
            file, line, f"each item of {key!r} must have doc_id, char_start, char_end and optionally grade; {error}"
        ) from error
    if not spans:
        raise wrong(file, line, f"{key!r} must be a list of at least one span; got {listed!r}")
    return spans


def _places(file: Path, passages: Sequence[Passage]) -> dict[str, Span]:
    """Return the :class:`Span` of each passage, by passage id."""
    places = {}
    for passage in passages:
        try:
            places[passage.id] = _span(passage.extra)
        except (KeyError, InvalidInputError) as error:
            message = (
                f"passage {passage.id!r} must have doc_id, char_start and char_end, because a query has spans; {error}"
            )
            raise wrong(file, None, message) from error
    return places


def _read_hops(file: Path, line: int, row: Mapping[str, object], known: set[str] | None) -> tuple[tuple[str, ...], ...]:
    ids = id_list(file, line, row.get("hops"), "hops", repeats=True)
    hops: tuple[tuple[str, ...], ...] = tuple((passage,) for passage in ids)
    listed = row.get("hop_alternatives")
    if listed is not None:
        if not isinstance(listed, list) or len(listed) != len(hops):
            raise wrong(file, line, f"'hop_alternatives' must have one list per hop ({len(hops)}); got {listed!r}")
        hops = tuple(id_list(file, line, of_hop, "hop_alternatives") for of_hop in listed)
    for hop in hops:
        for passage in hop:
            if known is not None and passage not in known:
                raise wrong(file, line, f"the judged passage {passage!r} is not in the corpus")
    return tuple(dict.fromkeys(reversed(hops)))[::-1]


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """The facts that passages state about entities, as HippoRAG 2 builds them from triples.

    `entities` are the E normalized subjects and objects, in ascending order. `pairs`, of shape (F, 2), gives the
    subject and the object of each of the F facts as rows of `entities`. `vectors`, of shape (F, d), are the embeddings
    of "subject predicate object". `mentions`, a sparse array of shape (P, E), is 1 if a passage states a fact about the
    entity. `links`, a sparse symmetric array of shape (E, E), counts the triples that join two different entities,
    summed over the passages.
    """

    entities: tuple[str, ...]
    pairs: IntArray
    vectors: Float32Array
    mentions: Any
    links: Any

    @property
    def frequency(self) -> FloatArray:
        """The number of passages that state a fact about each entity, as an array of shape (E,)."""
        counted: FloatArray = np.asarray(self.mentions.sum(axis=0), dtype=np.float64).ravel()
        return counted


def normalised(text: str) -> str:
    """Normalize a name as HippoRAG does.

    The name is converted to lower case. All characters except ASCII letters, ASCII digits and spaces become spaces.
    """
    return re.sub(r"[^A-Za-z0-9 ]", " ", text.lower()).strip()


def load_facts(dataset: Dataset) -> Facts:
    """Load the facts of a data set from its folder, which has ``triples.jsonl`` and embeddings of the facts.

    The embeddings are in ``facts.f16.npy``, or in ``facts.i8.npy`` with ``facts.scale.f16.npy``; row i is the embedding
    of fact i. The facts are the distinct normalized triples without an empty part, in ascending order. Raise
    InsufficientDataError if triples or their embeddings are missing. Raise InvalidInputError if the embeddings do not
    have one row per fact, or differ in width from the queries' embeddings.
    """
    if dataset.triples is None or dataset.path is None:
        raise InsufficientDataError(f"this walk needs triples; {dataset.name} has no triples.jsonl")
    plain = {
        name: [(normalised(subject), normalised(predicate), normalised(item)) for subject, predicate, item in triples]
        for name, triples in dataset.triples.items()
    }
    stated = {name: [triple for triple in triples if all(triple)] for name, triples in plain.items()}
    unique = sorted({triple for triples in stated.values() for triple in triples})
    if not unique:
        raise InsufficientDataError(
            f"this walk needs triples with a subject and an object; {dataset.name} has no such triple"
        )
    vectors = _fact_vectors(dataset, dataset.path, len(unique))
    names = tuple(sorted({end for subject, _, item in unique for end in (subject, item)}))
    place = {name: row for row, name in enumerate(names)}
    pairs = np.array([(place[subject], place[item]) for subject, _, item in unique], dtype=np.intp)
    mentioned: list[tuple[int, int]] = []
    linked: list[tuple[int, int]] = []
    for row, passage in enumerate(dataset.passages):
        for subject, _, item in stated.get(passage.id, ()):
            ends = place[subject], place[item]
            mentioned += [(row, end) for end in ends]
            if ends[0] != ends[1]:
                linked += [ends, ends[::-1]]
    mentions = _counted(mentioned, (len(dataset.passages), len(names)))
    mentions.data[:] = 1.0
    return Facts(names, pairs, vectors, mentions, _counted(linked, (len(names), len(names))))


def _fact_vectors(dataset: Dataset, folder: Path, count: int) -> Float32Array:
    whole, packed = folder / "facts.f16.npy", folder / "facts.i8.npy"
    rows_of = "unique normalised triples"
    if whole.is_file():
        file, vectors = whole, read_vectors(whole, count, rows_of)
    elif packed.is_file():
        file, vectors = packed, read_packed(packed, folder / "facts.scale.f16.npy", count, rows_of)
    else:
        raise InsufficientDataError(
            f"this walk needs embeddings of the facts; {dataset.name} has neither {whole.name} nor {packed.name}"
        )
    width = dataset.query_vectors.shape[1]
    if vectors.shape[1] != width:
        raise wrong(
            file, None, f"the file must have as many columns as queries.f16.npy ({width}); got {vectors.shape[1]}"
        )
    return vectors


def _counted(entries: list[tuple[int, int]], shape: tuple[int, int]) -> Any:
    array = np.array(entries, dtype=np.intp).reshape(-1, 2)
    return sparse.coo_array((np.ones(len(array)), (array[:, 0], array[:, 1])), shape=shape).tocsr()


def split_by_id(ids: Sequence[str], part: Literal["tune", "confirm"], *, share: float = 0.5) -> IntArray:
    """Return the row numbers of the queries of one part, ``tune`` or ``confirm``; the MD5 of the id decides the part.

    The two parts are disjoint and cover all queries. The part of a query does not depend on other queries. `share`, in
    (0, 1), is the expected fraction of the tuning part.

    >>> split_by_id(["a", "b", "c", "d"], "tune"), split_by_id(["a", "b", "c", "d"], "confirm")
    (array([0, 2]), array([1, 3]))
    """
    if part not in ("tune", "confirm") or not 0 < share < 1:
        raise InvalidInputError(
            f"part must be 'tune' or 'confirm', and share must be in (0, 1); got {part!r} and {share!r}"
        )
    digests = [hashlib.md5(name.encode("utf-8"), usedforsecurity=False).digest() for name in ids]
    tuning = [int.from_bytes(digest[:8], "big") / 2**64 < share for digest in digests]
    return np.flatnonzero(np.array(tuning, dtype=bool) == (part == "tune"))


def parts_by(dataset: Dataset, name: str) -> dict[str, Dataset]:
    """Split a data set into parts by the field `name` of the queries and passages; return the parts by value.

    The parts are in the order of the queries. No part is made for a value of the field that no query has. A query may
    be judged by passages of another part; a search in the query's own part cannot find these passages. Raise
    InvalidInputError if a query or a passage lacks the field, or if no passage has the value of a query.
    """
    of_passage = {passage.id: passage.extra.get(name) for passage in dataset.passages}
    rows: dict[str, list[int]] = {}
    for row, query in enumerate(dataset.queries):
        value = query.extra.get(name)
        if value is None:
            raise _wrong_query(dataset, query, f"query {query.id!r} has no field {name!r}")
        rows.setdefault(str(value), []).append(row)
    places: dict[str, list[int]] = {}
    for place, passage in enumerate(dataset.passages):
        if of_passage[passage.id] is None:
            raise InvalidInputError(f"{dataset.name}: passage {passage.id!r} has no field {name!r}")
        places.setdefault(str(of_passage[passage.id]), []).append(place)
    lost = next((value for value in rows if value not in places), None)
    if lost is not None:
        raise InvalidInputError(
            f"{dataset.name}: no passage has the {name} {lost!r} of query {dataset.queries[rows[lost][0]].id!r}"
        )
    return {value: _part(dataset.subset(of_value), places[value]) for value, of_value in rows.items()}


def _wrong_query(dataset: Dataset, query: Query, message: str) -> InvalidInputError:
    file = Path(dataset.name) if dataset.path is None else dataset.path / "queries.jsonl"
    return wrong(file, query.line or None, message)


def _part(dataset: Dataset, places: Sequence[int]) -> Dataset:
    passages = tuple(dataset.passages[place] for place in places)
    triples = dataset.triples
    own = None if triples is None else {one.id: triples[one.id] for one in passages if one.id in triples}
    vectors = dataset.passage_vectors[np.array(places, dtype=np.intp)]
    return replace(dataset, passages=passages, passage_vectors=vectors, triples=own, path=None)


ORDER_OF_SPLITS = ("train", "calibration", "tune", "dev", "val", "valid", "validation", "confirm", "test")


def split_rows(dataset: Dataset, confirm: str | None = None) -> tuple[IntArray, IntArray, str]:
    """Return the rows to tune on, the rows to confirm on, and a description of the criterion that separates them.

    The rows to confirm on are the queries whose split is `confirm`; all other queries are the rows to tune on. The
    default of `confirm` is the split that comes last in this order: train, calibration, tune, dev (val, valid,
    validation), confirm, test. If there is no split or a single split, the MD5 of the ``collection_id`` decides, so
    that no collection is in both parts. Without collections, the MD5 of the query's id decides, as in
    :func:`split_by_id`. Raise InvalidInputError if only some queries have a split, or if no query has the split
    `confirm`. Also raise it if `confirm` is None and a split has an unknown name.
    """
    names = _splits(dataset)
    if confirm is not None and confirm not in names:
        listed = ", ".join(sorted(set(names))) or "none"
        raise InvalidInputError(f"the split {confirm!r} must be a split of {dataset.name}; its splits are: {listed}")
    if confirm is None and len(set(names)) > 1:
        other = sorted(set(names) - set(ORDER_OF_SPLITS))
        if other:
            raise InvalidInputError(
                f"{dataset.name}: the order of the splits {', '.join(other)} is unknown; pass the split to confirm on "
                "as confirm="
            )
        confirm = max(names, key=ORDER_OF_SPLITS.index)
    if confirm is not None:
        held = np.array(names, dtype=object) == confirm
        return np.flatnonzero(~held), np.flatnonzero(held), f"split {confirm!r}"
    groups = dataset.groups
    keys = [query.id for query in dataset.queries] if groups is None else groups
    told = "query id" if groups is None else "collection_id"
    return split_by_id(keys, "tune"), split_by_id(keys, "confirm"), f"MD5 of the {told}"


def _splits(dataset: Dataset) -> list[str]:
    """Return the split of every query, or an empty list if no query has a split."""
    given = [query.extra.get("split") for query in dataset.queries]
    if any(one is None for one in given) and not all(one is None for one in given):
        query = dataset.queries[given.index(None)]
        raise _wrong_query(
            dataset, query, f"either every query or no query must have a 'split'; {query.id!r} has no split"
        )
    return [str(one) for one in given if one is not None]


def check_disjoint(fitted_on: Dataset, scored_on: Dataset) -> None:
    """Raise InvalidInputError if a query is in both data sets, because queries used for fitting must not be scored."""
    scored = {query.id for query in scored_on.queries}
    for query in fitted_on.queries:
        if query.id in scored:
            message = f"a query must be in one of the two data sets only; {query.id!r} is also in {scored_on.name}"
            raise _wrong_query(fitted_on, query, message)
