"""Measure a user's own retriever, from any framework, on judged questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from phasegraph.errors import AllSourcesFailed, InvalidInputError
from phasegraph.evaluation.experiment import Answers, Table, compare
from phasegraph.evaluation.judged_questions import Corpus, Judged, read_judged
from phasegraph.evaluation.judgements import Judgement, check_known, ids_by_page
from phasegraph.evaluation.measures import PAGE_MEASURES, Measure
from phasegraph.evaluation.query_files import Query, groups_of
from phasegraph.evaluation.retriever_runs import RetrieverRun, ask_of, ids_by_text, run_notes, run_retriever
from phasegraph.evaluation.significance import p_text

OWN_MEASURES: tuple[Measure, ...] = (
    Measure("Recall", 5), Measure("Recall", 10), Measure("nDCG", 10), Measure("MRR", 10),
)  # fmt: skip
LAST_HOP: tuple[Measure, ...] = (Measure("LastHop", 5), Measure("LastHop", 10))


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
    measures : str, or sequence of str, Measure or measures of ir-measures, optional
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
    goals = _goals(queries, measures)
    depth = max(measure.k for measure in goals)
    given = retriever if isinstance(retriever, Mapping) else {_name_of(retriever): retriever}
    asks = {str(key): ask_of(one, depth) for key, one in given.items()}
    texts = ids_by_text(passages or ())
    runs = {
        key: run_retriever(ask, queries if progress is None else progress(queries, key), texts, id_key)
        for key, ask in asks.items()
    }
    if runs and all(len(run.errors) == len(queries) for run in runs.values()):
        raise AllSourcesFailed({key: next(iter(run.errors.values())) for key, run in runs.items()})
    answers = [Answers(key, run.found, run.milliseconds) for key, run in runs.items()]
    judgements = [query.judgement for query in queries]
    known = None if passages is None else {one.id for one in passages}
    table = compare(
        answers,
        _by_pages_of_hits(judgements, runs) if known is None else judgements,
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


def _goals(queries: Sequence[Query], further: Sequence[str | Measure]) -> tuple[Measure, ...]:
    """Return the default measures, the measures that the judgements of `queries` allow, and the measures `further`."""
    goals = OWN_MEASURES + LAST_HOP * any(query.judgement.last_hop_known for query in queries)
    goals += PAGE_MEASURES * any(query.judgement.pages for query in queries)
    listed = [further] if isinstance(further, str) else further
    parsed = (one if isinstance(one, Measure) else Measure.parse(str(one)) for one in listed)
    return tuple(dict.fromkeys([*goals, *parsed]))


def _by_pages_of_hits(judgements: Sequence[Judgement], runs: Mapping[str, RetrieverRun]) -> list[Judgement]:
    """Return the judgements with the pages that hits name in their metadata, because no corpus gives the pages.

    If a question is judged by pages alone, each hop becomes the ids of the hits of a page. Raise InvalidInputError if
    such a question exists, but no hit names a page. Without judged pages, raise it if no id of a retriever is judged.
    """
    if not any(one.pages for one in judgements):  # pages make the id of each hit with a page known
        for key, run in runs.items():
            check_known(run.found, judgements, name=repr(key))
    pages = MappingProxyType({found: page for run in runs.values() for found, page in run.pages.items()})
    returned = any(ids for run in runs.values() for ids in run.found.values())
    if returned and not pages and any(one.pages and not one.passages for one in judgements):
        raise InvalidInputError(
            "questions that are judged by pages alone need the page of each hit: return hits with the page in the "
            "metadata field 'source', or pass the passages (corpus=, on the command line --corpus)"
        )
    by_page = ids_by_page(pages)
    hops = [one.hops if one.passages else [by_page.get(page, ()) for page in one.pages] for one in judgements]
    return [replace(one, sources=pages, hops=tuple(map(tuple, of))) for one, of in zip(judgements, hops, strict=True)]


def _name_of(retriever: object) -> str:
    named = getattr(retriever, "name", None) or getattr(retriever, "__name__", None)
    return named if isinstance(named, str) else type(retriever).__name__
