"""Data sets in phasegraph's folder format: passages, judged queries, embeddings and triples.

A missing or broken file raises ``InvalidInputError``, whose message names the file and the line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import time
from types import MappingProxyType
from typing import Any

import numpy as np

from phasegraph._support.jsonl import flag_field, id_list, objects_of, text_field
from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import Float32Array, IntArray
from phasegraph._support.validation import check_range, check_text, file_error
from phasegraph._support.vector_files import read_vectors
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.judgements import Judgement, Span, judgement_from_spans
from phasegraph.fusion.context import Context
from phasegraph.graph.model.building import read_openie
from phasegraph.graph.model.entity_graph import Triple
from phasegraph.lexical import read_hits
from phasegraph.ranking import Ranking

_EMPTY: Mapping[str, Any] = MappingProxyType({})


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
        raise file_error(root, None, "the folder does not exist; a data set must be a folder")
    passages = read_corpus(root / "corpus.jsonl")
    listed = queries_of(root / "queries.jsonl", objects_of(root / "queries.jsonl"), passages, share=share)
    vectors = read_vectors(root / "passages.f16.npy", len(passages), "corpus.jsonl")
    asked = read_vectors(root / "queries.f16.npy", len(listed), "queries.jsonl")
    if vectors.shape[1] != asked.shape[1]:
        message = f"the file must have as many columns as passages.f16.npy ({vectors.shape[1]}); got {asked.shape[1]}"
        raise file_error(root / "queries.f16.npy", None, message)
    rows = [row for row, query in enumerate(listed) if query.judgement.hops]
    if not rows:
        raise file_error(
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
            raise file_error(file, line, f"a passage must have a title or a text; {name!r} has neither")
        extra = {key: value for key, value in row.items() if key not in ("id", "title", "text")}
        passages.append(Passage(name, title, text, MappingProxyType(extra)))
    if not passages:
        raise file_error(file, None, "a corpus must have at least one passage; the file is empty")
    return tuple(passages)


def _new_id(file: Path, line: int, row: Mapping[str, object], seen: dict[str, int]) -> str:
    name = text_field(file, line, row, "id")
    if name in seen:
        raise file_error(file, line, f"ids must not repeat; {name!r} is already on line {seen[name]}")
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
                raise file_error(
                    file, line, f"{spans!r} needs the passages; pass the passages, or judge the query by ids"
                )
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
        raise file_error(file, None, "there must be at least one query; the file is empty")
    return tuple(queries)


def _read_answers(file: Path, line: int, row: Mapping[str, object]) -> tuple[str, ...]:
    """Return the texts of the field ``answer`` (a text or a list of texts); empty if it is missing, null or blank."""
    value = row.get("answer")
    listed = value if isinstance(value, list) else [] if value is None else [value]
    for one in listed:
        if isinstance(one, bool) or not isinstance(one, str | int | float):
            raise file_error(file, line, f"'answer' must be text or a list of texts; got {value!r}")
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
        raise file_error(file, line, f"the judged page {lost!r} is the 'source' of no passage")
    return pages


QUESTIONS = ("question", "text", "query")
GRADES = ("grades", "relevant")


def _read_grades(file: Path, line: int, row: Mapping[str, object], known: set[str] | None) -> Mapping[str, float]:
    given = [key for key in GRADES if key in row]
    if len(given) > 1:
        raise file_error(
            file, line, f"{' and '.join(map(repr, given))} have the same meaning; keep one of the two fields"
        )
    key = given[0] if given else GRADES[0]
    value = row.get(key, {})
    if key == "relevant" and isinstance(value, list):
        value = dict.fromkeys(id_list(file, line, value, key), 1.0)
    if not isinstance(value, dict):
        raise file_error(file, line, f"{key!r} must be an object of gains by passage id; got {value!r}")
    for name, grade in value.items():
        if known is not None and name not in known:
            raise file_error(file, line, f"the graded passage {name!r} is not in the corpus")
        try:
            check_range(f"the grade of {name!r}", grade)
        except InvalidInputError as error:
            raise file_error(file, line, str(error)) from error
    if given and not any(value.values()):
        raise file_error(file, line, f"{key!r} must contain a gain above 0; got {value!r}")
    return MappingProxyType({name: float(grade) for name, grade in value.items()})


def _check_graded(file: Path, line: int, judgement: Judgement) -> None:
    """Raise InvalidInputError if no passage of a hop has a grade above 0, because the hop could never add gain."""
    for hop in judgement.hops if judgement.grades else ():
        if not any(judgement.grades.get(passage, 0.0) > 0 for passage in hop):
            raise file_error(
                file, line, f"'grades' or 'relevant' must give every hop a gain above 0; {hop[0]!r} has none"
            )


SPANS = ("spans", "gold_spans")


def _span(row: Mapping[str, Any]) -> Span:
    document = row["document_id"] if "document_id" in row else row["doc_id"]
    return Span(document, row["char_start"], row["char_end"], row.get("grade", 1.0))


def _read_spans(file: Path, line: int, listed: object, key: str) -> list[Span]:
    try:
        spans = [_span(one) for one in listed] if isinstance(listed, list) else []
    except (KeyError, TypeError, InvalidInputError) as error:
        raise file_error(
            file, line, f"each item of {key!r} must have doc_id, char_start, char_end and optionally grade; {error}"
        ) from error
    if not spans:
        raise file_error(file, line, f"{key!r} must be a list of at least one span; got {listed!r}")
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
            raise file_error(file, None, message) from error
    return places


def _read_hops(file: Path, line: int, row: Mapping[str, object], known: set[str] | None) -> tuple[tuple[str, ...], ...]:
    ids = id_list(file, line, row.get("hops"), "hops", repeats=True)
    hops: tuple[tuple[str, ...], ...] = tuple((passage,) for passage in ids)
    listed = row.get("hop_alternatives")
    if listed is not None:
        if not isinstance(listed, list) or len(listed) != len(hops):
            raise file_error(file, line, f"'hop_alternatives' must have one list per hop ({len(hops)}); got {listed!r}")
        hops = tuple(id_list(file, line, of_hop, "hop_alternatives") for of_hop in listed)
    for hop in hops:
        for passage in hop:
            if known is not None and passage not in known:
                raise file_error(file, line, f"the judged passage {passage!r} is not in the corpus")
    return tuple(dict.fromkeys(reversed(hops)))[::-1]
