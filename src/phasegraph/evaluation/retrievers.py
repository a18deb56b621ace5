"""Measure a user's own retriever, from any framework, on judged questions."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from phasegraph._support.jsonl import objects_of
from phasegraph._support.user_line import warn_at_user_line
from phasegraph.errors import AllSourcesFailed, InvalidInputError, InvalidTypeError, PhasegraphWarning
from phasegraph.evaluation.corpus_files import Passage, read_corpus
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.experiment import Answers, Table, compare
from phasegraph.evaluation.judgements import ids_by_page
from phasegraph.evaluation.measures import PAGE_MEASURES, Measure
from phasegraph.evaluation.query_files import Query, groups_of, queries_of
from phasegraph.evaluation.runs import check_known
from phasegraph.evaluation.significance import p_text
from phasegraph.ranking import Ranking
from phasegraph.result import Result
from phasegraph.retrieval import (
    adapted,
    answer_items,
    asearch_of,
    describe_type,
    head_and_score,
    is_number,
    parameters_of,
    plain_hit,
    resolve_id,
    search_of,
)
from phasegraph.retrieval.plain_hits import PlainHit
from phasegraph.sources.protocol import is_fatal
from phasegraph.sources.steps import awaited
from phasegraph.sources.workers import own_loop

Judged: TypeAlias = str | Path | Dataset | Mapping[str, Any] | Iterable[Query | Mapping[str, Any]]
Corpus: TypeAlias = str | Path | Sequence[Passage]
Ask: TypeAlias = Callable[[str], object]
Place: TypeAlias = Callable[[Query, "Sequence[Hit]"], "list[str]"]

OWN_MEASURES: tuple[Measure, ...] = (
    Measure("Recall", 5), Measure("Recall", 10), Measure("nDCG", 10), Measure("MRR", 10),
)  # fmt: skip
LAST_HOP: tuple[Measure, ...] = (Measure("LastHop", 5), Measure("LastHop", 10))
_HITS = "documents or nodes"


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """The figures of one or more retrievers on judged questions.

    Parameters
    ----------
    table : Table
        Means with intervals, paired differences to the first retriever, and milliseconds per question.
    errors : mapping of str to mapping of str to Exception
        Errors by retriever and question id; a question with an error counts as an empty answer.
    unknown : mapping of str to float or None
        The share, in [0, 1], of the ids returned by each retriever that are not in the corpus. None without a corpus,
        or if the retriever returned no ids.
    notes : tuple of str
        Remarks needed to read the figures.
    """

    table: Table
    errors: Mapping[str, Mapping[str, Exception]] = field(repr=False)
    unknown: Mapping[str, float | None]
    notes: tuple[str, ...] = ()

    @property
    def means(self) -> dict[str, dict[str, float]]:
        """The mean of each measure (such as ``"Recall@5"``) by retriever, in [0, 1] or as a mean count."""
        return {row.name: {str(measure): mean for measure, mean in row.means.items()} for row in self.table.rows}

    def to_dict(self) -> dict[str, object]:
        """Return the evaluation as JSON types: the table, the error classes by question, and `unknown` in percent."""
        state = self.table.to_dict()
        state["errors"] = {
            name: {query: type(error).__name__ for query, error in of.items()} for name, of in self.errors.items()
        }
        state["unknown_ids"] = {name: None if share is None else 100 * share for name, share in self.unknown.items()}
        return state | {"notes": list(self.notes)}

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the column headings and the rows of a table for reading.

        A cell has the mean in percent and, if the measure scores several questions, its 95 % interval in brackets. In
        parentheses, it has the corrected p-value of the comparison with the first retriever.
        """
        scored = self.table.scored
        kept = [measure for measure in self.table.measures if measure in self.table.tests]
        with_corpus = any(share is not None for share in self.unknown.values())
        rows = []
        for row in self.table.rows:
            cells = [row.name]
            for measure in kept:
                low, high = (measure.unit * end for end in row.intervals[measure])
                interval = f" [{low:.0f}, {high:.0f}]" if scored[measure] > 1 else ""
                tested = "" if row.name == self.table.baseline else f" ({p_text(row.p_holm[measure])})"
                cells.append(f"{measure.unit * row.means[measure]:.1f}{interval}{tested}")
            share = self.unknown[row.name]
            cells += ["–" if row.milliseconds is None else f"{row.milliseconds:.1f}", str(len(self.errors[row.name]))]
            rows.append(cells + ["–" if share is None else f"{100 * share:.1f} %"] * with_corpus)
        return ["retriever", *map(str, kept), "ms", "errors", *["unknown ids"] * with_corpus], rows

    def __str__(self) -> str:
        columns, rows = self.cells()
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in (columns, *rows)]
        return "\n".join([*lines, *self.notes])


def evaluate(
    retriever: object,
    judged: Judged,
    *,
    corpus: Corpus | None = None,
    measures: Sequence[str | Measure] = (),
    id_key: str | None = None,
    progress: Callable[[Iterable[Any], str], Iterable[Any]] | None = None,
) -> Evaluation:
    """Measure a retriever on judged questions, or compare several retrievers.

    Parameters
    ----------
    retriever : object or mapping of str to object
        A LangChain retriever or another runnable (with ``invoke``), a LlamaIndex retriever (with ``retrieve``), or a
        source of this library. A function of the question is also possible; it may be asynchronous. If a mapping gives
        several retrievers by name, each is compared with the first. Questions are asked one after another, with the
        retriever's own settings, so set the number of its hits beforehand. A source, or a function with a parameter
        ``k`` or ``limit``, receives the depth of the deepest measure.
    judged : path, Dataset, mapping or iterable
        The judged questions in one of these forms. A JSONL file has one line per question: ``question`` (or ``text``),
        and ``relevant``, a list of ids or gains by id, or ``pages``, a list of page names; or the fields of a data
        set's ``queries.jsonl`` (``hops``, ``grades``, ...; ``id`` is optional). A folder contains such a
        ``queries.jsonl`` and its ``corpus.jsonl``. An iterable contains mappings like these lines, or
        :class:`~phasegraph.evaluation.query_files.Query` objects. A mapping contains the relevant ids, or the gains by
        id, for each question.
    corpus : path or sequence of Passage, optional
        The passages of the corpus (JSONL: ``id``, ``title``, ``text``). With a corpus, a judgement of an unknown id is
        an error. Returned ids that are not in the corpus are counted. Hits without an id are matched by their text.
    measures : sequence of str or Measure, optional
        Additional measures. The default measures are Recall at 5 and 10, nDCG@10 and MRR@10. LastHop at 5 and 10 is
        added if the order of ``hops`` is known. PageRecall and Pages at 5 and 10 are added if questions have ``pages``
        and the corpus has the field ``source``; without a corpus, the metadata of the hits must have this field.
    id_key : str, optional
        Metadata key (or attribute, such as LlamaIndex's ``ref_doc_id``) with the judged id. Default: the hit's own id,
        then the metadata ``_id``, ``id``, ``pk``, ``chunk_id``, ``doc_id``, ``source_id``.
    progress : callable, optional
        ``progress(iterable, label)`` wraps the questions to show progress.

    Returns
    -------
    Evaluation
        Means, differences and errors by retriever; ``print`` shows them as a table.

    Raises
    ------
    InvalidInputError
        If the questions cannot be read, if there is no question, or if no id of a retriever is in the corpus or judged.
    InvalidTypeError
        If `retriever` is not a retriever.
    AllSourcesFailed
        If every question failed, with the first error of each retriever.

    Warns
    -----
    PhasegraphWarning
        If a retriever returned passages of the corpus, but no returned passage is judged for any question.

    Notes
    -----
    The order of the hits is not changed. An id that repeats in an answer counts once, at its first rank. A question
    that fails counts as an empty answer, and stays in the mean.

    Examples
    --------
    >>> def search(question):
    ...     return ["b", "a"]
    >>> found = evaluate(search, {"Who is Ada?": ["a"], "Who is Bo?": ["b"]})
    >>> found.means["search"]["Recall@5"], found.means["search"]["MRR@10"]
    (1.0, 0.75)
    """
    queries, passages, name = read_judged(judged, corpus)
    goals = OWN_MEASURES + LAST_HOP * any(query.judgement.last_hop_known for query in queries)
    goals += PAGE_MEASURES * any(query.judgement.pages for query in queries)
    further = (Measure.parse(one) if isinstance(one, str) else one for one in measures)
    goals = tuple(dict.fromkeys([*goals, *further]))
    depth = max(measure.k for measure in goals)
    given = retriever if isinstance(retriever, Mapping) else {_name_of(retriever): retriever}
    asks = {str(key): ask_of(one, depth) for key, one in given.items()}
    texts = ids_by_text(passages or ())
    known = None if passages is None else {one.id for one in passages}
    runs = {
        key: run_retriever(ask, queries if progress is None else progress(queries, key), texts, id_key)
        for key, ask in asks.items()
    }
    if runs and all(len(run.errors) == len(queries) for run in runs.values()):
        raise AllSourcesFailed({key: next(iter(run.errors.values())) for key, run in runs.items()})
    answers = [Answers(key, run.found, run.milliseconds) for key, run in runs.items()]
    judgements = [query.judgement for query in queries]
    if passages is None:
        if not any(one.pages for one in judgements):  # pages make the id of each hit with a page known
            for key, run in runs.items():
                check_known(run.found, judgements, name=repr(key))
        pages = MappingProxyType({found: page for run in runs.values() for found, page in run.pages.items()})
        by_page = ids_by_page(pages)
        returned = any(ids for run in runs.values() for ids in run.found.values())
        if returned and not pages and any(one.pages and not one.passages for one in judgements):
            raise InvalidInputError(
                "questions that are judged by pages alone need the page of each hit: return hits with the page in the "
                "metadata field 'source', or pass the passages (corpus=, on the command line --corpus)"
            )
        hops = [one.hops if one.passages else [by_page.get(page, ()) for page in one.pages] for one in judgements]
        judgements = [
            replace(one, sources=pages, hops=tuple(map(tuple, of))) for one, of in zip(judgements, hops, strict=True)
        ]
    table = compare(
        answers,
        judgements,
        baseline=next(iter(runs), ""),
        measures=goals,
        dataset=name,
        groups=groups_of(queries),
        corpus=known or (),
    )
    notes = list(table.notes)
    for key, run in runs.items():
        notes += run_notes(key, run, queries, depth, None if known is None else len(known))
    return Evaluation(
        table,
        MappingProxyType({key: MappingProxyType(run.errors) for key, run in runs.items()}),
        MappingProxyType({key: run.unknown(known) for key, run in runs.items()}),
        tuple(notes),
    )


# Reading the questions.


def read_judged(
    judged: Judged, corpus: Corpus | None = None
) -> tuple[tuple[Query, ...], Sequence[Passage] | None, str]:
    """Return the judged questions, the passages, and the name of the data set.

    The passages are None if neither `corpus` nor `judged` provides them; :func:`evaluate` describes both arguments.
    """
    passages: Sequence[Passage] | None
    passages = read_corpus(corpus) if isinstance(corpus, str | Path) else corpus
    if isinstance(judged, Dataset):
        return judged.queries, judged.passages if passages is None else passages, judged.name
    name, file = "judged", Path("judged")
    rows: Iterable[tuple[int, Mapping[str, object]]]
    if isinstance(judged, str | Path):
        file, name = Path(judged), Path(judged).resolve().stem
        if file.is_dir():
            passages = read_corpus(file / "corpus.jsonl") if passages is None else passages
            file = file / "queries.jsonl"
        rows = objects_of(file)
    elif isinstance(judged, Mapping):
        rows = [
            (row, {"question": question, "relevant": dict(ids) if isinstance(ids, Mapping) else list(ids)})
            for row, (question, ids) in enumerate(judged.items(), start=1)
        ]
    else:
        listed = list(judged)
        if listed and all(isinstance(one, Query) for one in listed):
            return tuple(one for one in listed if isinstance(one, Query)), passages, name
        if not all(isinstance(one, Mapping) for one in listed):
            raise InvalidTypeError(
                "judged must be a path, a Dataset, ids by question, a list of mappings, or a list of Query objects; "
                f"got a {type(judged).__name__} of {', '.join(sorted({type(one).__name__ for one in listed}))}"
            )
        rows = [(row, one) for row, one in enumerate(listed, start=1) if isinstance(one, Mapping)]
    queries = tuple(query for query in queries_of(file, rows, passages) if query.judgement.hops)
    if not queries:
        raise InvalidInputError(
            f"{file}: no passage covers any gold span of any query: check that the spans and the passages come from "
            "the same documents"
        )
    return queries, passages, name


# Asking the retriever.


def _name_of(retriever: object) -> str:
    named = getattr(retriever, "name", None) or getattr(retriever, "__name__", None)
    return named if isinstance(named, str) else type(retriever).__name__


def ask_of(retriever: object, depth: int) -> Ask:
    """Return the function that asks a retriever a question, without importing the retriever's framework.

    `depth` is the number of hits to request, if the retriever accepts such a number.
    """
    if not isinstance(retriever, type):
        for method in ("invoke", "retrieve"):
            found: Ask | None = getattr(retriever, method, None)
            if callable(found):
                return found
        retriever = adapted(retriever)
        if (search := search_of(retriever) or asearch_of(retriever)) is not None:
            return lambda question: search(question, depth, {})
        if callable(retriever):
            function: Callable[..., object] = retriever
            return partial(function, **dict.fromkeys(parameters_of(function) & {"k", "limit"}, depth))
    got = f"the class {retriever.__name__}" if isinstance(retriever, type) else describe_type(retriever)
    raise InvalidTypeError(
        "retriever must be a LangChain retriever or runnable, a LlamaIndex retriever, a source or a function; got "
        f"{got} (for a store or an index, give its as_retriever())"
    )


@dataclass(slots=True)
class RetrieverRun:
    """The answers of one retriever to all questions.

    `found` are ids by question id, `errors` the errors of failed questions, and `milliseconds` the mean time per
    question (None without answers). `repeated` counts hits whose id repeats in an answer, and `nameless` hits without
    an id. `pages` are page names by hit id.
    """

    found: dict[str, tuple[str, ...]]
    errors: dict[str, Exception]
    milliseconds: float | None
    repeated: int
    nameless: int
    pages: dict[str, str]

    def failures(self, name: str) -> list[str]:
        """Return one line, which starts with `name` and counts the failed questions by error class, in a list.

        The list is empty if no question failed.
        """
        kinds = Counter(type(error).__name__ for error in self.errors.values()).most_common()
        said = ", ".join(f"{kind} {count}" for kind, count in kinds)
        asked = len(self.found) + len(self.errors)
        return [f"{name}: {len(self.errors)} of {asked} questions failed and count 0 ({said})"] if kinds else []

    def unknown(self, known: set[str] | None) -> float | None:
        """Return the share of the returned ids that are not in `known`, the ids of the corpus.

        Return None without a corpus or returned ids.
        """
        returned = [one for ids in self.found.values() for one in ids]
        return sum(one not in known for one in returned) / len(returned) if known and returned else None


class Hit(NamedTuple):
    """A hit in the answer of a user's retriever.

    Parameters
    ----------
    id : str
        The id of the hit, which is compared with the judged ids.
    named : bool, default True
        False if the id is derived from the hit's text, and no passage of the corpus has this text.
    page : str
        The page named in the hit's metadata; empty if there is none.
    text : str
        The hit's text; empty if the answer contains only ids.
    """

    id: str
    named: bool = True
    page: str = ""
    text: str = ""


def ids_by_text(passages: Iterable[Passage]) -> dict[str, str]:
    """Return the id of each passage, by the id that is derived from the passage's text.

    :func:`run_retriever` derives such an id from the text of a hit that has no id.
    """
    return {_id_of_text(text): one.id for one in passages for text in (one.text, one.content)}


def run_retriever(
    ask: Ask, queries: Iterable[Query], texts: Mapping[str, str], id_key: str | None, place: Place | None = None
) -> RetrieverRun:
    """Ask a retriever all questions, one after another.

    Parameters
    ----------
    ask : callable
        The function that asks the retriever, from :func:`ask_of`.
    queries : iterable of Query
        The questions to ask.
    texts : mapping of str to str
        The result of :func:`ids_by_text`, by which hits without an id are matched to passages.
    id_key : str or None
        As in :func:`evaluate`.
    place : callable, optional
        ``place(query, hits) -> ids``: the ids of the passages that the hits match. Default: the hits' own ids.

    Returns
    -------
    RetrieverRun
        The ids by question, the errors and the mean time.
    """
    run, spent = RetrieverRun({}, {}, None, 0, 0, {}), 0.0
    for query in queries:
        started = perf_counter()
        try:
            answer = ask(query.text)
            if inspect.isawaitable(answer):
                answer = asyncio.run_coroutine_threadsafe(awaited(answer), own_loop()).result()
            hits = _read_hits(answer, texts, id_key)
        except Exception as error:
            if is_fatal(error):
                raise
            run.errors[query.id] = error
            continue
        spent += perf_counter() - started
        ids = [hit.id for hit in hits] if place is None else place(query, hits)
        run.found[query.id] = tuple(dict.fromkeys(ids))
        run.repeated += len(ids) - len(run.found[query.id])
        run.nameless += sum(not hit.named for hit in hits)
        run.pages |= {hit.id: hit.page for hit in hits if hit.page}
    run.milliseconds = 1000 * spent / len(run.found) if run.found else None
    return run


def _id_of_text(text: str) -> str:
    """Return the id derived from the text of a hit without an id."""
    return resolve_id(None, {}, text)[0]


def _read_hits(answer: object, texts: Mapping[str, str], id_key: str | None) -> list[Hit]:
    """Convert a retriever's answer to a list of hits, best first; `texts` and `id_key` are as in `run_retriever`."""
    if isinstance(answer, Ranking | Result):
        return list(map(Hit, answer.ids))
    if isinstance(answer, Mapping) and answer and all(map(is_number, answer.values())):
        scores = {str(found): float(score) for found, score in answer.items()}
        return list(map(Hit, sorted(scores, key=lambda one: (-scores[one], one))))
    if isinstance(answer, Mapping) and "result" in answer:
        answer = answer["result"]  # the answer of a question-answering chain
    return [_read_hit(item, row, texts, id_key) for row, item in enumerate(answer_items(answer, _HITS))]


def _read_hit(item: object, row: int, texts: Mapping[str, str], id_key: str | None) -> Hit:
    head = head_and_score(item)[0]
    if isinstance(head, str):
        return Hit(texts.get(_id_of_text(head), head), text=head)
    hit = getattr(head, "node", head)
    if hasattr(hit, "page_content"):
        read = PlainHit(hit.page_content, hit.id, hit.metadata)
    elif hasattr(hit, "get_content"):
        read = PlainHit(hit.get_content(), hit.node_id, hit.metadata)
    else:
        read = plain_hit(hit, _HITS, row)
    page = read.metadata.get("source")
    page = page if isinstance(page, str) else ""
    if id_key is not None:
        value = read.metadata.get(id_key, getattr(hit, id_key, None))
        if value is None:
            held = ", ".join(map(str, read.metadata)) or "nothing"
            raise InvalidInputError(f"hit {row} has no id under id_key={id_key!r}; its metadata keys are: {held}")
        return Hit(str(value), True, page, read.text or "")
    found, origin = resolve_id(read.id, read.metadata, read.text or "")
    return Hit(texts.get(found, found), origin != "text" or found in texts, page, read.text or "")


def run_notes(name: str, run: RetrieverRun, queries: Sequence[Query], depth: int, passages: int | None) -> list[str]:
    """Return remarks on the run of one retriever; warn if no returned id is judged for any question.

    `depth` is the largest depth of the measures, and `passages` the number of passages in the corpus, if known.
    """
    notes, longest = run.failures(name), max(map(len, run.found.values()), default=0)
    if longest < depth and (passages is None or longest < passages):
        notes.append(
            f"{name} returned at most {longest} hits, so deeper measures gain nothing (LangChain: k or search_kwargs, "
            "LlamaIndex: similarity_top_k)"
        )
    if run.repeated:
        notes.append(f"{name}: {run.repeated} hits repeat an id of the same answer and are left out")
    if run.nameless:
        notes.append(f"{name}: {run.nameless} hits have no id, and no passage of the corpus has their text")
    judged = {one for query in queries for one in (*query.judgement.passages, *query.judgement.grades)}
    returned = dict.fromkeys(one for ids in run.found.values() for one in ids)
    pages = {page for query in queries for page in query.judgement.pages}
    if passages is None and pages and pages.isdisjoint(run.pages.values()):
        theirs = f"the hits have {min(run.pages.values())!r:.60}" if run.pages else "the hits have no 'source'"
        notes.append(
            f"{name}: no hit has a judged page, such as {min(pages)!r:.60}, in the metadata 'source': {theirs}"
        )
    if returned and judged and judged.isdisjoint(returned):
        notes.append(
            f"{name}: none of the {len(returned)} returned ids is judged for any question; a returned id is "
            f"{next(iter(returned))!r:.60}, a judged id is {min(judged)!r:.60}; set id_key (--id-key on the command "
            "line) if the ids are in another field"
        )
        warn_at_user_line(PhasegraphWarning(notes[-1]), again=False)
    return notes
