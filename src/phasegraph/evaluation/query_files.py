"""Judged queries, and the functions that read them from the files of a data set or of a user.

A missing or broken file raises ``InvalidInputError``, whose message names the file and the line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from phasegraph._support.jsonl import flag_field, id_list, objects_of, text_field
from phasegraph._support.validation import check_range, check_text, file_error
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.corpus_files import NO_FIELDS, Passage, unique_id
from phasegraph.evaluation.judgements import Judgement, Span, ids_by_page, judgement_from_spans


@dataclass(frozen=True, slots=True)
class Query:
    """A judged question: its id, text and judgement, the other fields of its line in the file (`extra`), and `line`.

    `line` is the number of that line, or 0 if the question does not come from a file.
    """

    id: str
    text: str
    judgement: Judgement
    extra: Mapping[str, object] = field(default_factory=lambda: NO_FIELDS, repr=False)
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


def queries_of(
    file: Path,
    rows: Iterable[tuple[int, Mapping[str, object]]],
    passages: Sequence[Passage] | None = None,
    *,
    share: float = 0.5,
) -> tuple[Query, ...]:
    """Convert the JSON objects of `file`, given with their line numbers, to judged queries.

    :func:`~phasegraph.evaluation.datasets.load_dataset` describes the fields. The question may also be named ``text``
    or ``query``, and the default ``id`` is the line number. ``relevant`` is a list of relevant ids, or another name for
    ``grades``. With `passages`, a judged id that is not among them is an error. Without `passages`, any id is accepted,
    and spans are an error. ``pages`` is read if passages have a ``source``, or if `passages` is not given. A query with
    ``pages`` alone has a hop for each page, with the passages of this page; without `passages`, these hops are empty.
    If no passage covers a span of a query, the judgement of this query has no hops.
    """
    known = None if passages is None else {passage.id for passage in passages}
    sources = MappingProxyType(_sources(passages or ()))
    by_page = ids_by_page(sources)
    places: dict[str, Span] = {}
    seen: dict[str, int] = {}
    queries = []
    for line, row in rows:
        name = unique_id(file, line, {"id": str(line), **row}, seen)
        spans = next((key for key in SPANS if key in row), None)
        answers = _read_answers(file, line, row)
        pages: tuple[str, ...] = ()
        if "pages" in row and (passages is None or sources):
            pages = _read_pages(file, line, row, None if passages is None else by_page)
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
            elif pages and "hops" not in row:
                judgement = Judgement(
                    name, tuple(tuple(by_page.get(page, ())) for page in pages), False, answers=answers
                )
            else:
                hops = _read_hops(file, line, row, known)
                ordered = flag_field(file, line, row, "hop_order_known", True)
                last = flag_field(file, line, row, "last_hop_known", ordered)
                judgement = Judgement(name, hops, last, grades, answers)
                _check_graded(file, line, judgement)
        judgement = replace(judgement, pages=pages, sources=sources)
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


def _read_pages(file: Path, line: int, row: Mapping[str, object], named: Collection[str] | None) -> tuple[str, ...]:
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
        raise file_error(
            file, line,
            f"{key!r} must be {'a list of ids, or ' * (key == 'relevant')}an object of gains by passage id; "
            f"got {value!r}",
        )  # fmt: skip
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
    if "hops" not in row:
        raise file_error(
            file, line,
            "a judged question must have one of the fields 'relevant', 'hops', 'grades' and 'spans', or 'pages' if the "
            "passages have a 'source'",
        )  # fmt: skip
    ids = id_list(file, line, row["hops"], "hops", repeats=True)
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


QUOTES, PAGES = "quotes", "pages"
_BY_IDS = ("relevant", "grades", "hops", "spans", "gold_spans")


def read_questions(path: str | Path, passages: Sequence[Passage]) -> tuple[Query, ...]:
    """Read a user's questions, each judged by passage ids, by quotes, or by whole files.

    Parameters
    ----------
    path : path
        A JSONL file. Each line has a ``question`` and one kind of judgement. ``quotes`` are sentences of the files that
        answer the question. ``pages`` are names of files; any passage of such a file counts as an answer. ``relevant``
        and ``hops`` are ids of passages, as in :func:`phasegraph.evaluation.evaluate`.
    passages : sequence of Passage
        The passages of the user's files, in which quotes, files and ids are looked up.

    Returns
    -------
    tuple of Query
        The questions in the order of the file, judged by ids of `passages`.

    Raises
    ------
    InvalidInputError
        If a line has no judgement, no passage contains a quote, or a named file or passage does not exist.
    """
    file = Path(path)
    texts = {passage.id: _plain(passage.content) for passage in passages}
    by_page = ids_by_page(_sources(passages))
    rows = []
    for line, row in objects_of(file):
        if not any(key in row for key in _BY_IDS):
            hops = _hops_of(file, line, row, texts, by_page)
            named = {"hops": [hop[0] for hop in hops], "hop_alternatives": hops, "last_hop_known": False}
            row = {key: value for key, value in row.items() if key not in (QUOTES, PAGES)} | named
        rows.append((line, row))
    return tuple(query for query in queries_of(file, rows, passages) if query.judgement.hops)


def _hops_of(
    file: Path, line: int, row: Mapping[str, object], texts: Mapping[str, str], by_page: Mapping[str, list[str]]
) -> list[list[str]]:
    """Return, for each quote and each page in a line of the question file, the ids of the passages that match it.

    `texts` are the plain texts of the passages by id, and `by_page` the ids of passages by page.
    """
    hops = []
    quoted, pages = row.get(QUOTES), row.get(PAGES)
    listed = [quoted] if isinstance(quoted, str) else quoted
    for quote in [] if listed is None else id_list(file, line, listed, QUOTES):
        held = [name for name, text in texts.items() if _plain(quote) in text]
        if not held:
            raise file_error(
                file, line, f"no passage contains the quote {quote!r:.80}; copy a sentence from the file unchanged"
            )
        hops.append(held)
    for page in [] if pages is None else id_list(file, line, pages, PAGES):
        if page not in by_page:
            raise file_error(file, line, f"no file with the name {page!r} was read; check the spelling in {PAGES!r}")
        hops.append(by_page[page])
    if not hops:
        fields = ", ".join(map(repr, (QUOTES, PAGES, "relevant", "hops")))
        raise file_error(
            file, line, f"a question needs one of the fields {fields}, which give the passages of its answer"
        )
    return hops


def _plain(text: str) -> str:
    """Return a text in lower case with single spaces between its words."""
    return " ".join(text.lower().split())
