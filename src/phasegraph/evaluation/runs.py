"""Read and write runs (all rankings of one system), and read judgements in TREC's formats.

A missing or broken file raises ``InvalidInputError``, whose message names the file and the line. The readers of
ir-measures report no line numbers, and accept NaN scores and repeated ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np

from phasegraph._support.files import replace_file
from phasegraph._support.jsonl import flag_field, id_list, lines_of, objects_of, text_field
from phasegraph._support.validation import file_error
from phasegraph.errors import InvalidInputError, InvalidTypeError, needed
from phasegraph.evaluation.judgements import Judgement
from phasegraph.ranking import Ranking


def write_text(path: str | Path, text: str) -> None:
    """Write text to a file atomically; symbolic links are followed, and devices and pipes are written directly."""
    file = Path(path).resolve()
    if file.exists() and not file.is_file():
        with Path(path).open("w", encoding="utf-8") as handle:
            handle.write(text)
        return
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{file.name}: text must be encodable in UTF-8; got the lone surrogate {text[error.start]!r}"
        ) from error
    replace_file(file, data)


@dataclass(frozen=True, slots=True)
class Run:
    """All rankings of one system.

    Parameters
    ----------
    name : str
        Name of the system, not blank.
    rankings : mapping of str to Ranking
        Rankings by query id, each ordered by descending score, then by ascending id.
    """

    name: str
    rankings: Mapping[str, Ranking]

    def __post_init__(self) -> None:
        for query, ranking in self.rankings.items():
            if not isinstance(ranking, Ranking):
                raise InvalidTypeError(
                    f"run {self.name!r}, question {query!r}: the answer must be a Ranking; got {type(ranking).__name__}"
                )

    def found(self) -> dict[str, tuple[str, ...]]:
        """Return the ids, best first, by query id."""
        return {query: tuple(ranking.ids) for query, ranking in self.rankings.items()}


def read_run(path: str | Path, name: str | None = None) -> Run:
    """Read a run in TREC's six columns, or from JSONL (name ends in ``.jsonl``) or Parquet (``.parquet``).

    Parameters
    ----------
    path : path
        TREC: ``query Q0 id rank score tag``. JSONL: ``{"query", "ids", "scores"}``, one query per line. Parquet: the
        file written by ``phasegraph retrieve``, with the columns ``id``, ``ids``, ``scores``.
    name : str, optional
        Name of the run; default: the file name without its last suffix.

    Raises
    ------
    InvalidInputError
        For a broken file, an id repeated within a query, a non-finite score, or scores that rise within a query.

    Notes
    -----
    Hits with equal scores are ordered by id, not as in the file: see :mod:`phasegraph.evaluation.measures`.
    """
    file = Path(path)
    label = file.stem if name is None else name
    read = _HITS.get(file.suffix, _trec_hits)(file)
    ids: dict[str, dict[str, float]] = {}
    last: dict[str, float] = {}
    for line, query, passage, score in read:
        hits = ids.setdefault(query, {})
        if passage in hits:
            raise file_error(file, line, f"an id must occur once per query; {passage!r} repeats in {query!r}")
        if score > last.get(query, score):
            raise file_error(file, line, f"scores must not rise within a query; {score} follows {last[query]}")
        hits[passage] = last[query] = score
    if not ids:
        raise file_error(file, None, "a run must have at least one line; the file is empty")
    return Run(label, {query: Ranking(label, list(h), np.array(list(h.values()))) for query, h in ids.items()})


def _trec_hits(file: Path) -> Iterable[tuple[int, str, str, float]]:
    for line, text in lines_of(file):
        columns = text.split()
        if len(columns) != 6:
            raise file_error(file, line, f"a run line must be 'query Q0 id rank score tag'; got {text!r}")
        yield line, columns[0], columns[2], _number(file, line, columns[4])


def _jsonl_hits(file: Path) -> Iterable[tuple[int, str, str, float]]:
    return _listed_hits(file, objects_of(file))


def _parquet_hits(file: Path) -> Iterable[tuple[int, str, str, float]]:
    with needed(f"{file}: Parquet needs pyarrow; pip install pyarrow"):
        import pyarrow
        import pyarrow.parquet as pq
    try:
        rows = pq.read_table(file, columns=["id", "ids", "scores"]).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise file_error(
            file, None, f"the file must be Parquet with the columns id, ids and scores; {error}"
        ) from error
    return _listed_hits(file, enumerate(({**row, "query": row["id"]} for row in rows), start=1))


_HITS = {".jsonl": _jsonl_hits, ".parquet": _parquet_hits}


def _listed_hits(file: Path, rows: Iterable[tuple[int, Mapping[str, object]]]) -> Iterable[tuple[int, str, str, float]]:
    seen: dict[str, int] = {}
    for line, row in rows:
        query = text_field(file, line, row, "query")
        if query in seen:
            raise file_error(file, line, f"a query must have one line; {query!r} is already on line {seen[query]}")
        seen[query] = line
        ids = id_list(file, line, row.get("ids"), "ids")
        scores = row.get("scores")
        if not isinstance(scores, list) or len(scores) != len(ids):
            raise file_error(file, line, f"'scores' must have one number per id ({len(ids)}); got {scores!r}")
        for passage, score in zip(ids, scores, strict=True):
            yield line, query, passage, _number(file, line, score)


def _number(file: Path, line: int, value: object) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float) else float("nan")
    except (ValueError, OverflowError):
        number = float("nan")
    if isinstance(value, bool) or not isfinite(number):
        raise file_error(file, line, f"a score must be a finite number; got {value!r}")
    return number


def write_run(run: Run, path: str | Path) -> None:
    """Write a run in TREC's six columns.

    Scores are written with full precision (17 digits); reading the file therefore returns the same numbers. Raise
    InvalidInputError if a name or an id contains white space, which separates the columns.
    """
    lines = []
    for query, ranking in run.rankings.items():
        rows = zip(ranking.ids, ranking.scores.tolist(), strict=True)
        for rank, (passage, score) in enumerate(rows, start=1):
            check_columns(run.name, query, passage)
            lines.append(f"{query} Q0 {passage} {rank} {score!r} {run.name}\n")
    write_text(path, "".join(lines))


def check_columns(*texts: str) -> None:
    """Raise InvalidInputError if a name or an id is empty or contains white space, which TREC's columns forbid."""
    for text in texts:
        if len(text.split()) != 1:
            raise InvalidInputError(
                f"the names and ids of a run must be non-empty text without white space; got {text!r}"
            )


_BEIR = ["query-id", "corpus-id", "score"]
"""The columns in the first line of BEIR's files of judgements."""


def read_qrels(path: str | Path, *, passages: Iterable[str] | None = None) -> tuple[Judgement, ...]:
    """Read judgements in TREC's four columns or BEIR's three, or from JSONL if the name ends in ``.jsonl``.

    Parameters
    ----------
    path : path
        TREC: ``query 0 id grade``; grades are integers, and a grade >= 1 means relevant. BEIR: the first line is
        ``query-id corpus-id score``, and tabs separate the columns of all lines. JSONL: ``{"query", "hops"}`` with an
        optional ``"last_hop_known"`` (default false), one query per line.
    passages : iterable of str, optional
        The ids of the corpus; a judgement of any other id is an error.

    Returns
    -------
    tuple of Judgement
        Judgements in the order of the file. Every relevant id is a hop; in a TREC file the last hop is unknown.
        Queries without a relevant id are included, and score 0.
    """
    file = Path(path)
    known = None if passages is None else frozenset(passages)
    if file.suffix == ".jsonl":
        return _jsonl_judgements(file, known)
    grades: dict[str, dict[str, float]] = {}
    beir = False
    for line, text in lines_of(file):
        if not grades and text.split("\t") == _BEIR:
            beir = True
            continue
        columns = text.split("\t") if beir else text.split()
        if len(columns) != (3 if beir else 4):
            raise file_error(
                file, line,
                "a qrels line must be 'query 0 id grade', or query, id and grade between tabs below BEIR's line of "
                f"names; got {text!r}",
            )  # fmt: skip
        query, passage, given = columns[0], columns[-2], columns[-1]
        try:
            grade = float(int(given))
        except (ValueError, OverflowError) as error:
            raise file_error(file, line, f"a grade must be a whole number; got {given!r}") from error
        _check_known(file, line, passage, known)
        of_query = grades.setdefault(query, {})
        if passage in of_query:
            raise file_error(file, line, f"an id must be judged once per query; {passage!r} repeats in {query!r}")
        of_query[passage] = grade
    if not grades:
        raise file_error(file, None, "qrels must have at least one line; the file is empty")
    return tuple(
        Judgement(query, tuple((p,) for p, grade in of.items() if grade >= 1), False, of)
        for query, of in grades.items()
    )


def _jsonl_judgements(file: Path, known: frozenset[str] | None) -> tuple[Judgement, ...]:
    found: dict[str, Judgement] = {}
    for line, row in objects_of(file):
        query = text_field(file, line, row, "query")
        if query in found:
            raise file_error(file, line, f"a query must have one line; {query!r} repeats")
        hops = id_list(file, line, row.get("hops"), "hops")
        for passage in hops:
            _check_known(file, line, passage, known)
        last = flag_field(file, line, row, "last_hop_known", False)
        found[query] = Judgement(query, tuple((passage,) for passage in hops), last)
    if not found:
        raise file_error(file, None, "judgements must have at least one line; the file is empty")
    return tuple(found.values())


def _check_known(file: Path, line: int, passage: str, known: frozenset[str] | None) -> None:
    if known is not None and passage not in known:
        raise file_error(file, line, f"the judged passage {passage!r} is not in the corpus")
