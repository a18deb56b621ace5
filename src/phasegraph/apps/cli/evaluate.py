"""The command ``phasegraph evaluate``: compare systems on the same rankings.

With --retriever, it compares retrievers of your own. With --ablate, it measures one pipeline with
and without its stages. With --protocol, a benchmark's rules decide which differences count.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import typer

from phasegraph._support.renamed import new_system
from phasegraph._support.text import counted
from phasegraph.apps.cli.evaluate_output import (
    Output,
    ablation_sheet,
    against_simple,
    answer_sheet,
    main_sheet,
    means_by,
    protocol_part,
    show_sheet,
)
from phasegraph.apps.cli.evaluate_report import write_pictures
from phasegraph.apps.cli.models import model_named
from phasegraph.apps.cli.naming import say_old_name
from phasegraph.apps.cli.output import (
    DEFAULT_OVERLAP,
    check_dataset,
    check_heeded,
    check_named,
    check_outputs,
    embedding_doubts,
    kept_graph,
    load_object,
    measure_of,
    names_in,
    open_dataset,
    progress,
    show_table,
    write_json,
)
from phasegraph.apps.cli.system_choice import KNOWN, added_systems, chosen_systems
from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.errors import InvalidInputError, MissingDependencyError, PhasegraphWarning
from phasegraph.evaluation import Evaluation
from phasegraph.evaluation import evaluate as measure_retrievers
from phasegraph.evaluation.ablation import ablate, published_ablation
from phasegraph.evaluation.abstention import ask_off_topic, ask_unanswerable
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.experiment import Answers, Table, compare
from phasegraph.evaluation.measures import ANSWER_MEASURES, DEFAULT_MEASURES, PAGE_MEASURES, Measure
from phasegraph.evaluation.predicted_answers import answer_table, read_answers
from phasegraph.evaluation.protocol import PROTOCOLS, Protocol, parts_of
from phasegraph.evaluation.recommendation import best_simple, recommendation_of
from phasegraph.evaluation.source_runs import ExperimentInput, graph_of, search_sources
from phasegraph.evaluation.system_runs import run_systems, run_within
from phasegraph.evaluation.systems import TWO, System
from phasegraph.lexical import tokenizer_of
from phasegraph.sources.protocol import one_line

BESIDE_RETRIEVERS = ("folder", "retriever", "corpus", "id_key", "measures", "json_to", "rows_to")
MRR = Measure("MRR", 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemOptions:
    """The options of ``phasegraph evaluate`` under the heading "Systems": the systems and how they search."""

    systems: str
    baseline: str
    pipeline: Path | None
    calibrate_on: Path | None
    fetch_k: int
    graph: Path | None
    tokenizer: str
    embedder: str | None
    stages: str | None

    def chosen(self) -> tuple[list[str], str]:
        """Return the names of the systems to compare, and the name of the baseline, which is among them."""
        added = ["tuned"] * (self.pipeline is not None) + ["calibrated"] * (self.calibrate_on is not None)
        baseline = new_system(self.baseline, say_old_name)
        return chosen_systems(self.systems, baseline, added), baseline


@dataclass(frozen=True, slots=True)
class RetrieverOptions:
    """The options under the heading "Your own retrievers"."""

    retriever: Sequence[str] | None
    corpus: Path | None
    id_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """The options under the heading "Measures": the measures, and the queries and passages that they read."""

    measures: str
    span_overlap: float | None
    by: str | None
    within: str | None
    predictions: Sequence[Path] | None
    protocol: str | None
    dev_set: Path | None


@dataclass(frozen=True, slots=True)
class UnansweredOptions:
    """The options under the heading "Questions without an answer"."""

    off_topic: Path | None
    unanswerable: bool

    @property
    def asked(self) -> bool:
        """Whether questions without an answer are asked."""
        return self.off_topic is not None or self.unanswerable


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """The options under the heading "Output": where to write the result, the rows and the report."""

    json_to: str | None
    rows_to: Path | None
    report_to: Path | None


def run(
    context: typer.Context,
    folder: Path,
    systems: SystemOptions,
    own: RetrieverOptions,
    measured: MeasureOptions,
    unanswered: UnansweredOptions,
    to: OutputOptions,
) -> None:
    """Run ``phasegraph evaluate``: measure an ablation, the user's retrievers, or systems on the queries."""
    check_dataset(folder)
    if systems.stages is not None:
        check_heeded(context, "--ablate", {"folder", "stages", "fetch_k", "graph", "json_to"})
        show_ablation(folder, names_in(systems.stages), systems.fetch_k, systems.graph, to.json_to)
        return
    if own.retriever:
        goals = tuple(map(ranked_measure, names_in(measured.measures)))
        check_heeded(context, "--retriever", BESIDE_RETRIEVERS)
        evaluate_retrievers(folder, own, goals, to)
        return
    if own.corpus is not None or own.id_key is not None:
        raise typer.BadParameter("--corpus and --id-key need a --retriever")
    _check_together(folder, systems, measured, unanswered, to)
    compare_systems(folder, systems, measured, unanswered, to)


def _check_together(
    folder: Path, systems: SystemOptions, measured: MeasureOptions, unanswered: UnansweredOptions, to: OutputOptions
) -> None:
    """Raise BadParameter if `folder` is a file, or if options exclude each other, such as --within and --graph."""
    if not folder.is_dir():
        raise typer.BadParameter(f"DATASET_DIR must be a folder unless --retriever is given; got the file {folder}")
    if measured.within is not None and (systems.graph is not None or to.report_to is not None):
        raise typer.BadParameter("--within builds a graph for each value of the field: leave out --graph and --report")
    if unanswered.off_topic is not None and unanswered.unanswerable:
        raise typer.BadParameter("--off-topic and --unanswerable exclude each other: give one of them")
    if measured.within is not None and unanswered.asked:
        raise typer.BadParameter(
            "--within searches one part of the corpus at a time: leave out --off-topic and --unanswerable"
        )


def compare_systems(
    folder: Path, systems: SystemOptions, measured: MeasureOptions, unanswered: UnansweredOptions, to: OutputOptions
) -> None:
    """Compare systems on the queries of a folder, print the tables, and write the requested files."""
    rules = protocol_of(measured.protocol, measured.dev_set)
    names, baseline = systems.chosen()
    further, lacking = further_measures(measured.measures, rules)
    check_outputs(json=to.json_to, rows=to.rows_to)
    tokenizer_of(systems.tokenizer)
    kept = kept_graph(systems.graph)
    model = model_named(systems.embedder)
    data = read_data(folder, measured, rules, model)
    whole, tested = data.whole, data.tested
    inputs = ExperimentInput(
        whole, systems.fetch_k, graph=kept, progress=progress, tokenizer=systems.tokenizer, embedder=model
    )
    off_topic = None if unanswered.off_topic is None else open_dataset(unanswered.off_topic, model=model)
    if off_topic is not None and kept is None:
        inputs = replace(inputs, graph=graph_of(whole, systems.tokenizer))  # build it once for both question sets
    printed = printed_measures(whole, further)
    known = KNOWN | added_systems(systems.pipeline, systems.calibrate_on, whole, systems.fetch_k)
    measures = tuple(dict.fromkeys([*printed, MRR]))
    trial = Trial([known[name] for name in names], measures, baseline, measured.within, systems.fetch_k)
    answers, left_out = trial.answers(inputs)
    table = trial.table(answers, tested, [*lacking, *left_out])
    doubts = _doubts(whole, printed, systems, measured.within)
    state = table.to_dict() | {"within": measured.within, "notes": [*table.notes, *doubts]}
    output = Output(state, [main_sheet(table, printed, measured.within, doubts)])
    if best_simple(table):
        output.add("best_simple", against_simple(table, best_simple(table), printed))
    add_answers_and_protocol(output, data, trial, inputs, answers, table)
    if measured.by is not None:
        goal = further[0] if further else Measure("Recall", 10)
        output.add("by", means_by(table, data.labels, measured.by, goal))
    if off_topic is not None:
        output.add_abstention(ask_off_topic(inputs, trial.systems, off_topic), table)
    if unanswered.unanswerable:
        output.add_abstention(ask_unanswerable(inputs, trial.systems), table)
    shown = output.show(recommendation_of(table), table, to.json_to)
    if to.rows_to is not None:
        table.write_rows(to.rows_to)
    if to.report_to is not None:
        page = write_pictures(to.report_to, replace(inputs, dataset=tested), table, output.sheets[0], trial.systems)
        shown.print(f"report: {page}")


def _doubts(dataset: Dataset, measures: Sequence[Measure], systems: SystemOptions, within: str | None) -> list[str]:
    """Return a line for each reason to doubt the figures: lists shorter than a measure, or wrong embeddings.

    With `within`, questions of different collections may be equal, so their embeddings are not checked.
    """
    found, limit = [], systems.fetch_k
    deep = [measure for measure in measures if measure.k > limit and len(dataset.passages) > limit]
    if deep:
        found.append(
            f"lists of {counted(limit, 'hit')} are too short for {', '.join(map(str, deep))}: a fusion can return more "
            f"hits than one source; --fetch-k {max(measure.k for measure in deep)} gives lists of sufficient length"
        )
    return found + embedding_doubts(dataset, systems.embedder) if within is None else found


@dataclass(frozen=True, slots=True)
class EvaluatedData:
    """The data sets of one evaluation: the whole data set, that of ``--dev-set``, and the parts of a protocol.

    Without a protocol (`rules`), `tested` is the whole data set, and `signs` is None. With a protocol, a difference in
    `tested` must have the same sign in `signs`, and `parts` names the two parts. `labels` are the values of the field
    of ``--by`` in `tested`, and `predicted` the predicted answers by system and query id.
    """

    rules: Protocol | None
    whole: Dataset
    dev: Dataset | None
    tested: Dataset
    signs: Dataset | None
    parts: tuple[str, str]
    labels: Sequence[str]
    predicted: Mapping[str, Mapping[str, tuple[str, ...]]]


def read_data(
    folder: Path, measured: MeasureOptions, rules: Protocol | None, model: EmbeddingModel | None
) -> EvaluatedData:
    """Read the data sets and the predicted answers, and divide the queries by the protocol `rules`, if there is one.

    `model` embeds the texts of folders without embeddings.
    """
    share = DEFAULT_OVERLAP if rules is None else rules.span_overlap
    opened = partial(open_dataset, span_overlap=measured.span_overlap, default=share, model=model)
    whole = opened(folder)
    dev = None if measured.dev_set is None else opened(measured.dev_set)
    tested, signs, first, second = (whole, None, "", "") if rules is None else parts_of(whole, rules, dev)
    labels = [] if measured.by is None else labels_of(tested, measured.by)
    predicted = read_answers(measured.predictions or (), *([whole] if dev is None else [whole, dev]))
    return EvaluatedData(rules, whole, dev, tested, signs, (first, second), labels, predicted)


@dataclass(frozen=True, slots=True)
class Trial:
    """The systems to compare, the measures, the baseline, and the length of the rankings that are fused.

    `within` is the metadata field that ``--within`` names, or None.
    """

    systems: Sequence[System]
    measures: tuple[Measure, ...]
    baseline: str
    within: str | None
    fetch_k: int

    def answers(self, inputs: ExperimentInput) -> tuple[list[Answers], tuple[str, ...]]:
        """Answer every query with every system; the second value has a line for each system that could not run."""
        depth = max(measure.k for measure in self.measures)
        if self.within is not None:
            return run_within(inputs, self.systems, depth, self.within)
        needed = dict.fromkeys(source for system in self.systems for source in system.sources if source in TWO)
        return run_systems(inputs, self.systems, depth, search_sources(inputs, needed))

    def table(self, answers: Sequence[Answers], dataset: Dataset, left_out: Sequence[str] = ()) -> Table:
        """Score the answers to a data set's queries, and compare the systems; answers to other queries are ignored.

        `left_out` are systems that could not run, each with the reason.
        """
        queries = {query.id for query in dataset.queries}
        return compare(
            [replace(one, found={name: ids for name, ids in one.found.items() if name in queries}) for one in answers],
            dataset.judgements,
            baseline=self.baseline,
            measures=self.measures,
            dataset=dataset.name,
            limit=self.fetch_k,
            left_out=[*left_out, *_unjudged(dataset)],
            groups=dataset.groups,
            corpus=dataset.contents,
        )


def add_answers_and_protocol(
    output: Output,
    data: EvaluatedData,
    trial: Trial,
    inputs: ExperimentInput,
    answers: Sequence[Answers],
    table: Table,
) -> None:
    """Add the table of the predicted answers, and the tables of the protocol, if the questions have them.

    `answers` are the answers to the questions of `inputs`, and `table` is their table.
    """
    rules, signs, predicted = data.rules, data.signs, data.predicted
    answered = answer_table(predicted, data.tested, trial.baseline) if predicted else None
    if answered is not None:
        output.add("answers", (answered.to_dict(), answer_sheet(answered)))
    if rules is None or signs is None:
        return
    if data.dev is not None:
        answers, _ = trial.answers(replace(inputs, dataset=signs, graph=None))
    judged = protocol_part(table, trial.table(answers, signs), rules.measures[0], rules, data.parts)
    output.add("protocol", judged)
    if answered is not None:
        said = answer_table(predicted, signs, trial.baseline)
        output.add("protocol_answers", protocol_part(answered, said, rules.answer_measure, rules, data.parts))


def evaluate_retrievers(judged: Path, own: RetrieverOptions, further: Sequence[Measure], to: OutputOptions) -> None:
    """Measure the user's retrievers (``module:object`` texts), print the table, and write the requested files."""
    check_outputs(json=to.json_to, rows=to.rows_to)
    given = {name: load_object(name, "--retriever") for name in dict.fromkeys(own.retriever or ())}
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=r".*: none of the \d+ returned ids is judged", category=PhasegraphWarning
        )
        found = measure_retrievers(
            given, judged, corpus=own.corpus, measures=further, id_key=own.id_key, progress=progress
        )
    shown = write_json(found.to_dict(), to.json_to)
    if to.rows_to is not None:
        found.table.write_rows(to.rows_to)
    table = found.table
    title = f"{table.dataset}: {counted(len(table.queries), 'question')}, 95 % intervals in brackets"
    if len(table.rows) > 1:
        title += f"; in parentheses: p of the paired test against {table.baseline}, with Holm's correction"
    show_table(shown, title, *found.cells())
    for line in [*found.notes, *_first_errors(found)]:
        shown.print(line)


def _first_errors(found: Evaluation) -> list[str]:
    """Return each retriever's first error with the error's text; the text is printed, and never written to a file."""
    firsts = {name: next(iter(of.items())) for name, of in found.errors.items() if of}
    return [
        f"{name}: the first, on question {query!r}: {type(error).__name__}: {one_line(str(error))}"
        for name, (query, error) in firsts.items()
    ]


def show_ablation(folder: Path, stages: Sequence[str], fetch_k: int, graph: Path | None, json_to: str | None) -> None:
    """Print a table of a pipeline with all `stages`, and without each of them.

    If `folder` is a folder, the pipeline answers the queries of this data set. If it is a file, its published values
    are compared.
    """
    check_outputs(json=json_to)
    if folder.is_dir():
        kept = kept_graph(graph)
        table = ablate(ExperimentInput(open_dataset(folder), fetch_k, graph=kept, progress=progress), stages)
    else:
        table = published_ablation(folder, stages)
    show_sheet(write_json(table.to_dict(), json_to), ablation_sheet(table))


def printed_measures(dataset: Dataset, further: Sequence[Measure]) -> tuple[Measure, ...]:
    """Return the measures of the printed table: the default measures, those of judged pages if any, and `further`."""
    of_pages = (MRR, *PAGE_MEASURES) if any(judgement.pages for judgement in dataset.judgements) else ()
    return tuple(dict.fromkeys([*DEFAULT_MEASURES, *of_pages, *further]))


def ranked_measure(text: str) -> Measure:
    """Parse a measure of rankings; refuse measures of predicted answers."""
    measure = measure_of(text, "--measures")
    if measure.name in ANSWER_MEASURES:
        raise typer.BadParameter(f"--measures: {text} measures predicted answers; give them as --predictions FILE")
    return measure


def _unjudged(dataset: Dataset) -> list[str]:
    lost = dataset.unjudged
    return (
        [f"{counted(len(lost), 'query', 'queries')} whose spans no passage covers: {', '.join(lost)}"] if lost else []
    )


def protocol_of(name: str | None, dev_set: Path | None) -> Protocol | None:
    """Return the evaluation protocol `name`, such as that of HetDocQA; None if `name` is None.

    A protocol is a benchmark's rules for which differences count. Raise BadParameter for an unknown name, or for a
    `dev_set` without a protocol.
    """
    if name is not None:
        check_named("--protocol", name, PROTOCOLS)
    if name is None and dev_set is not None:
        raise typer.BadParameter("--dev-set needs a --protocol")
    return None if name is None else PROTOCOLS[name]


def further_measures(given: str, protocol: Protocol | None) -> tuple[list[Measure], list[str]]:
    """Return the measures of a protocol and of ``--measures``, and a line for each measure whose library is missing."""
    found, lacking = [], []
    for text in () if protocol is None else protocol.measures:
        try:
            found.append(Measure.parse(text))
        except MissingDependencyError as error:
            lacking.append(f"{text}: {error}")
    return [*found, *map(ranked_measure, names_in(given))], lacking


def labels_of(dataset: Dataset, field: str) -> list[str]:
    """Return the value of a field of every query; ``–`` for a query without the field."""
    if not any(field in query.extra for query in dataset.queries):
        known = sorted({name for query in dataset.queries for name in query.extra})
        raise InvalidInputError(
            f"--by: no query of {dataset.name} has the field {field!r}; the queries have the fields: "
            f"{', '.join(known) or 'none'}"
        )
    values = [query.extra.get(field, "–") for query in dataset.queries]
    return [" + ".join(map(str, value)) if isinstance(value, list) else str(value) for value in values]
