"""The command ``phasegraph evaluate``: compare systems on the same rankings.

With --retriever, it compares retrievers of your own. With --ablate, it measures one pipeline with
and without its stages. With --protocol, a benchmark's rules decide which differences count.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

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
from phasegraph.apps.cli.naming import say_old_name
from phasegraph.apps.cli.output import (
    DEFAULT_OVERLAP,
    Embedder,
    FetchK,
    GraphDir,
    JsonTo,
    PipelineFile,
    SpanOverlap,
    check_dataset,
    check_heeded,
    check_named,
    check_outputs,
    file_option,
    folder_option,
    kept_graph,
    load_embedder,
    load_object,
    measure_of,
    names_in,
    open_dataset,
    progress,
    show_table,
    write_json,
)
from phasegraph.apps.cli.system_choice import KNOWN, added_systems, chosen_systems
from phasegraph.errors import InvalidInputError, MissingDependencyError, PhasegraphWarning
from phasegraph.evaluation import Evaluation
from phasegraph.evaluation import evaluate as measure_retrievers
from phasegraph.evaluation.ablation import STAGES, ablate, published_ablation
from phasegraph.evaluation.abstention import ask_off_topic, ask_unanswerable
from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.evaluation.experiment import TWO, Answers, System, Table, compare, run_systems, run_within
from phasegraph.evaluation.measures import ANSWER_MEASURES, DEFAULT_MEASURES, PAGE_MEASURES, Measure
from phasegraph.evaluation.predicted_answers import answer_table, read_answers
from phasegraph.evaluation.protocol import PROTOCOLS, Protocol, parts_of
from phasegraph.evaluation.recommendation import best_simple, recommendation_of
from phasegraph.evaluation.source_runs import DEFAULT_LIMIT, ExperimentInput, graph_of, search_sources
from phasegraph.lexical import tokenizer_of
from phasegraph.sources.protocol import one_line

JudgedFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATASET_DIR",
        help="A folder with corpus, queries and embeddings; with --retriever or --ablate also a file.",
        exists=True,
    ),
]
BESIDE_RETRIEVERS = ("folder", "retriever", "corpus", "id_key", "measures", "json_to", "rows_to")
MRR = Measure("MRR", 10)
Retrievers = Annotated[
    list[str] | None,
    typer.Option(
        "--retriever",
        metavar="MODULE:OBJECT",
        help="Measure your own retriever: LangChain's, LlamaIndex's, a source or a function (repeatable).",
    ),
]
Systems = Annotated[
    str,
    typer.Option(
        help="Comma-separated names of systems, 'usual' or 'all'. A fusion such as rrf fuses vectors and the walk; "
        "rrf-words fuses vectors and BM25; rrf-three fuses all three."
    ),
]
CorpusFile = Annotated[
    Path | None,
    file_option("With --retriever: the corpus (JSONL). The table then counts returned ids that are not in the corpus."),
]
IdKey = Annotated[
    str | None,
    typer.Option(help="With --retriever: the metadata key or attribute of a hit that contains the id of its passage."),
]
CalibrateOn = Annotated[
    Path | None,
    folder_option(
        "Add the row 'calibrated': the default pipeline, fitted on the queries of this folder, without their labels."
    ),
]
Predictions = Annotated[list[Path] | None, file_option("File of predicted answers, to measure EM and F1 (repeatable).")]
ProtocolName = Annotated[
    str | None, typer.Option("--protocol", help=f"Measure by the rules of a benchmark: {', '.join(PROTOCOLS)}.")
]
DevSet = Annotated[
    Path | None, folder_option("With --protocol: the folder of the dev split, if DATASET_DIR does not contain it.")
]
OffTopic = Annotated[
    Path | None,
    folder_option(
        "Also ask the questions of this folder, which the corpus does not answer. Add abstain_auc: how well each "
        "system's confidence separates them from the other questions."
    ),
]
Unanswerable = Annotated[
    bool,
    typer.Option(
        "--unanswerable",
        help="Remove the gold passages of each half of the questions in turn. Add abstain_auc: how well each "
        "system's confidence shows that the answer is missing.",
    ),
]
RowsTo = Annotated[
    Path | None,
    typer.Option(
        "--rows", help="Write the returned ids and the measures of each query to this JSONL file.", dir_okay=False
    ),
]
Ablated = Annotated[
    str | None,
    typer.Option(
        "--ablate",
        help=f"Measure a pipeline with these stages, and then without each of these stages: {', '.join(STAGES)} or "
        "all. DATASET_DIR may also be a JSON file of published values per query.",
    ),
]
ReportTo = Annotated[
    Path | None, typer.Option("--report", help="Write a report page with pictures into this folder.", file_okay=False)
]
PANELS = {
    "Systems": (
        "systems", "baseline", "pipeline", "calibrate_on", "fetch_k", "graph", "tokenizer", "embedder", "stages",
    ),
    "Your own retrievers": ("retriever", "corpus", "id_key"),
    "Measures": ("measures", "span_overlap", "by", "within", "predictions", "protocol", "dev_set"),
    "Questions without an answer": ("off_topic", "unanswerable"),
    "Output": ("json_to", "rows_to", "report_to"),
}  # fmt: skip
"""The options of the command, by the heading under which the help lists them."""


def _check_together(
    folder: Path,
    within: str | None,
    graph: Path | None,
    report_to: Path | None,
    off_topic: Path | None,
    unanswerable: bool,
) -> None:
    """Raise BadParameter if `folder` is a file, or if options exclude each other, such as --within and --graph."""
    if not folder.is_dir():
        raise typer.BadParameter(f"DATASET_DIR must be a folder unless --retriever is given; got the file {folder}")
    if within is not None and (graph is not None or report_to is not None):
        raise typer.BadParameter("--within builds a graph for each value of the field: leave out --graph and --report")
    if off_topic is not None and unanswerable:
        raise typer.BadParameter("--off-topic and --unanswerable exclude each other: give one of them")
    if within is not None and (off_topic is not None or unanswerable):
        raise typer.BadParameter(
            "--within searches one part of the corpus at a time: leave out --off-topic and --unanswerable"
        )


def evaluate(
    context: typer.Context,
    folder: JudgedFile,
    retriever: Retrievers = None,
    corpus: CorpusFile = None,
    id_key: IdKey = None,
    systems: Systems = "usual",
    pipeline: PipelineFile = None,
    calibrate_on: CalibrateOn = None,
    fetch_k: FetchK = DEFAULT_LIMIT,
    baseline: Annotated[str, typer.Option(help="The system with which all other systems are compared.")] = "vector",
    measures: Annotated[str, typer.Option(help="Additional measures, such as nDCG@10,MRR@10.")] = "",
    graph: GraphDir = None,
    tokenizer: Annotated[
        str, typer.Option(help="The tokenizer of BM25 and of the graph; same values as for phasegraph index.")
    ] = "english",
    embedder: Embedder = None,
    span_overlap: SpanOverlap = None,
    by: Annotated[
        str | None,
        typer.Option(help="Also print the means for each value of a field of the queries, such as collection_id."),
    ] = None,
    within: Annotated[
        str | None,
        typer.Option(help="Search for each query only the passages with the same value of this field as the query."),
    ] = None,
    predictions: Predictions = None,
    protocol: ProtocolName = None,
    dev_set: DevSet = None,
    off_topic: OffTopic = None,
    unanswerable: Unanswerable = False,
    json_to: JsonTo = None,
    rows_to: RowsTo = None,
    report_to: ReportTo = None,
    stages: Ablated = None,
) -> None:
    """Measure systems on a folder of queries, passages and embeddings, and print one table with exact tests.

    For each measure, the row best-simple shows the best value of the simple systems. These are vectors alone, BM25
    alone, and the fusions that the frameworks offer, of two or three of vectors, BM25 and the walk. The last line
    recommends plain vectors, a fusion or the default, from the figures and their intervals. PageRecall, Pages and MRR
    are measured if questions have the field pages, and passages the field source.

    With --embedder, the walk also compares each clause of a question with the passages: one embedding per clause.

    A saved pipeline adds the row 'tuned'. The baseline is always a row. With --protocol, the tables show the part of
    the queries that the protocol tests. With --retriever, your own retrievers are measured instead of the systems. With
    --ablate, one pipeline is measured with and without its stages; simple functions replace the models.
    """
    check_dataset(folder)
    if stages is not None:
        check_heeded(context, "--ablate", {"folder", "stages", "fetch_k", "graph", "json_to"})
        show_ablation(folder, names_in(stages), fetch_k, graph, json_to)
        return
    if retriever:
        goals = tuple(map(ranked_measure, names_in(measures)))
        check_heeded(context, "--retriever", BESIDE_RETRIEVERS)
        evaluate_retrievers(retriever, folder, corpus, id_key, goals, json_to, rows_to)
        return
    if corpus is not None or id_key is not None:
        raise typer.BadParameter("--corpus and --id-key need a --retriever")
    _check_together(folder, within, graph, report_to, off_topic, unanswerable)
    rules = protocol_of(protocol, dev_set)
    added = ["tuned"] * (pipeline is not None) + ["calibrated"] * (calibrate_on is not None)
    baseline = new_system(baseline, say_old_name)
    names = chosen_systems(systems, baseline, added)
    of_protocol, lacking = ([], []) if rules is None else protocol_measures(rules)
    further = [*of_protocol, *map(ranked_measure, names_in(measures))]
    check_outputs(json=json_to, rows=rows_to)
    tokenizer_of(tokenizer)
    kept = kept_graph(graph)
    questions = read_questions(folder, dev_set, span_overlap, rules)
    whole, tested = questions.whole, questions.tested
    labels = [] if by is None else labels_of(tested, by)
    predicted = read_answers(predictions or (), whole, *(() if questions.dev is None else (questions.dev,)))
    inputs = ExperimentInput(
        whole, fetch_k, graph=kept, progress=progress, tokenizer=tokenizer, embedder=load_embedder(embedder)
    )
    others = None if off_topic is None else load_dataset(off_topic)
    if others is not None and kept is None:
        inputs = replace(inputs, graph=graph_of(whole, tokenizer))  # build the graph once for both question sets
    printed = printed_measures(whole, further)
    known = KNOWN | added_systems(pipeline, calibrate_on, whole, fetch_k)
    trial = Trial([known[name] for name in names], tuple(dict.fromkeys([*printed, MRR])), baseline, within, fetch_k)
    answers, left_out = trial.answers(inputs)
    table = trial.table(answers, tested, [*lacking, *left_out])
    output = Output(table.to_dict() | {"within": within}, [main_sheet(table, printed, within)])
    if best_simple(table):
        output.add("best_simple", against_simple(table, best_simple(table), printed))
    answered = answer_table(predicted, tested, baseline) if predicted else None
    if answered is not None:
        output.add("answers", (answered.to_dict(), answer_sheet(answered)))
    if rules is not None and questions.signs is not None:
        if questions.dev is not None:
            answers, _ = trial.answers(replace(inputs, dataset=questions.signs, graph=None))
        judged = protocol_part(table, trial.table(answers, questions.signs), rules.measures[0], rules, questions.parts)
        output.add("protocol", judged)
        if answered is not None:
            signs = answer_table(predicted, questions.signs, baseline)
            output.add("protocol_answers", protocol_part(answered, signs, rules.answer_measure, rules, questions.parts))
    if by is not None:
        output.add("by", means_by(table, labels, by, further[0] if further else Measure("Recall", 10)))
    if off_topic is not None or unanswerable:
        output.add_abstention(
            ask_unanswerable(inputs, trial.systems) if others is None else ask_off_topic(inputs, trial.systems, others),
            table,
        )
    to = output.show(recommendation_of(table), table, json_to)
    if rows_to is not None:
        table.write_rows(rows_to)
    if report_to is not None:
        page = write_pictures(report_to, replace(inputs, dataset=tested), table, output.sheets[0], trial.systems)
        to.print(f"report: {page}")


@dataclass(frozen=True, slots=True)
class Questions:
    """The data sets of one evaluation: the whole data set, that of ``--dev-set``, and the parts of a protocol.

    Without a protocol, `tested` is the whole data set, and `signs` is None. With a protocol, a difference in `tested`
    must have the same sign in `signs`, and `parts` names the two parts.
    """

    whole: Dataset
    dev: Dataset | None
    tested: Dataset
    signs: Dataset | None
    parts: tuple[str, str]


def read_questions(folder: Path, dev_set: Path | None, span_overlap: float | None, rules: Protocol | None) -> Questions:
    """Read the data sets of two folders, and divide their queries by a protocol; `dev_set` and `rules` may be None."""
    share = DEFAULT_OVERLAP if rules is None else rules.span_overlap
    whole = open_dataset(folder, span_overlap, default=share)
    dev = None if dev_set is None else open_dataset(dev_set, span_overlap, default=share)
    if rules is None:
        return Questions(whole, dev, whole, None, ("", ""))
    tested, signs, first, second = parts_of(whole, rules, dev)
    return Questions(whole, dev, tested, signs, (first, second))


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


def evaluate_retrievers(
    names: Sequence[str],
    judged: Path,
    corpus: Path | None,
    id_key: str | None,
    further: Sequence[Measure],
    json_to: str | None,
    rows_to: Path | None,
) -> None:
    """Measure the user's retrievers (``module:object`` texts), print the table, and write the requested files."""
    check_outputs(json=json_to, rows=rows_to)
    given = {name: load_object(name, "--retriever") for name in dict.fromkeys(names)}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*none of the .* ids it returned", category=PhasegraphWarning)
        found = measure_retrievers(given, judged, corpus=corpus, measures=further, id_key=id_key, progress=progress)
    to = write_json(found.to_dict(), json_to)
    if rows_to is not None:
        found.table.write_rows(rows_to)
    table = found.table
    show_table(
        to, f"{table.dataset}: {counted(len(table.queries), 'question')}, 95 % intervals in brackets", *found.cells()
    )
    for line in [*found.notes, *_first_errors(found)]:
        to.print(line)


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


def protocol_measures(protocol: Protocol) -> tuple[list[Measure], list[str]]:
    """Return the measures of a protocol, and a line for each measure whose library is not installed."""
    found, lacking = [], []
    for text in protocol.measures:
        try:
            found.append(Measure.parse(text))
        except MissingDependencyError as error:
            lacking.append(f"{text}: {error}")
    return found, lacking


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
