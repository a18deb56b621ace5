"""The command ``phasegraph evaluate``: compare systems on the same rankings.

With --protocol, a benchmark's rules decide which differences count.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from phasegraph._support.renamed import new_system
from phasegraph.apps.cli.output import (
    DEFAULT_OVERLAP,
    Embedder,
    FetchK,
    GraphDir,
    JsonTo,
    PipelineFile,
    SpanOverlap,
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
    percent,
    progress,
    say_old_name,
    show_table,
    write_json,
)
from phasegraph.errors import InsufficientDataError, InvalidInputError, MissingDependencyError, PhasegraphWarning
from phasegraph.evaluation import Evaluation
from phasegraph.evaluation import evaluate as measure_retrievers
from phasegraph.evaluation.ablation import STAGES, ablate, published_ablation
from phasegraph.evaluation.abstention import Abstention, ask_off_topic, ask_unanswerable
from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.evaluation.experiment import (
    NAMED_SYSTEMS,
    OWN_SYSTEMS,
    THREE,
    TWO,
    Answer,
    Answers,
    Batch,
    Confidences,
    System,
    Table,
    compare,
    pipeline_system,
    run_systems,
    run_within,
)
from phasegraph.evaluation.measures import ANSWER_MEASURES, DEFAULT_MEASURES, PAGE_MEASURES, Measure
from phasegraph.evaluation.peers import PEERS
from phasegraph.evaluation.protocol import PROTOCOLS, Protocol, Verdict, parts_of, verdicts
from phasegraph.evaluation.recommendation import (
    RECOMMENDED_BY,
    SIMPLE,
    WEIGHED,
    Recommendation,
    best_simple,
    gain_of,
    recommendation_of,
)
from phasegraph.evaluation.report import conclusion, evaluation_pictures, measure_to_show, write_report
from phasegraph.evaluation.runs import read_predictions
from phasegraph.evaluation.significance import p_text
from phasegraph.evaluation.source_runs import DEFAULT_LIMIT, ExperimentInput, graph_of, search_sources
from phasegraph.evaluation.splits import check_disjoint, split_rows
from phasegraph.evaluation.tuning import calibrated_pipeline
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.fusion.renamed_sources import with_new_source_names
from phasegraph.lexical import tokenizer_of
from phasegraph.ranking import Ranking
from phasegraph.sources.protocol import one_line


def write_pictures(
    target: Path, inputs: ExperimentInput, table: Table, sheet: Sheet, systems: Sequence[System]
) -> Path:
    """Write the report page with its pictures to the folder `target`, and return the path of the page.

    `sheet` is `table` as text, and `systems` are explained on the page.
    """
    data, pipeline = inputs.dataset, FusionPipeline()
    runs = search_sources(inputs, TWO)
    rankings = {name: runs[name].rankings for name in TWO}
    lists = [[rankings[name][row] for name in TWO] for row in range(len(data.queries))]
    results = [pipeline.decide(each, data.context(row, each)) for row, each in enumerate(lists)]
    labels = {passage.id: passage.title or passage.id for passage in data.passages}
    shown = next((row for row, result in enumerate(results) if len(result)), 0)
    pictures = evaluation_pictures(
        table, rankings, results, data.judgements, pipeline=pipeline, chosen=shown, labels=labels
    )
    lead = (
        "Values are percentages. In brackets and under W/L: p of the paired test against the baseline, with "
        "Holm's correction."
    )
    return write_report(
        target,
        title=sheet.title,
        lead=f"{conclusion(table)} {lead}".strip(),
        columns=sheet.columns,
        rows=sheet.rows,
        marked=OURS,
        pictures=pictures,
        notes=[*(f"left out: {line}" for line in table.left_out), *table.notes],
        terms=meanings(table, systems),
        sort_by=str(measure_to_show(table)),
    )


def calibrated(folder: Path, dataset: Dataset, fetch_k: int) -> System:
    """Return the system ``calibrated``: the default pipeline, fitted on a folder's queries without their labels.

    If this folder is the evaluated folder, a pipeline fitted on one half of the queries answers the other half
    (:func:`~phasegraph.evaluation.splits.split_rows`). If the queries are too few, the row is left out, and a note
    gives the reason.
    """
    if dataset.path is not None and folder.resolve() == dataset.path.resolve():
        return System(
            "calibrated",
            TWO,
            _crosswise,
            "default, with each half of the queries answered by a pipeline fitted on the other half",
            _half_fitted(dataset),
        )
    other = load_dataset(folder)
    check_disjoint(other, dataset)
    runs = search_sources(ExperimentInput(other, fetch_k, progress=progress), TWO)
    rankings = {name: run.rankings for name, run in runs.items()}
    try:
        fitted = _fitted(rankings, other, "the queries")
    except InsufficientDataError as error:
        return System("calibrated", TWO, _refusing(error), f"default, not fitted on {other.name}")
    return pipeline_system("calibrated", fitted, TWO, f"default, fitted on {other.name}", ours=True)


def _half_fitted(dataset: Dataset) -> Confidences:
    """Return a function that computes, for each question that it is asked, the confidence of the answer.

    The function uses a pipeline that is fitted on half of the questions of `dataset`, without labels.
    """

    def confidence(asked: Dataset, batch: Batch) -> Sequence[float | None]:
        half = dataset.subset(split_rows(dataset)[0])
        found = search_sources(ExperimentInput(half), ("vector",))["vector"].rankings
        fitted = _fitted({"vector": found}, half, "half of the queries")
        judge = pipeline_system("calibrated", replace(FusionPipeline(), confidence=fitted.confidence), TWO, ours=True)
        return judge.confidence(asked, batch) if judge.confidence is not None else ()

    return confidence


def _crosswise(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
    halves = [rows.tolist() for rows in split_rows(dataset)[:2]]
    out: list[tuple[str, ...]] = [()] * len(dataset.queries)
    for own, other in (halves, halves[::-1]):
        fitted = _fitted(_rows(batch, other), dataset, "half of the queries")
        system = pipeline_system("calibrated", fitted, TWO)
        for row, found in zip(own, system.answer(dataset.subset(own), _rows(batch, own), k), strict=True):
            out[row] = found
    return out


def _fitted(rankings: Mapping[str, Sequence[Ranking]], dataset: Dataset, what: str) -> FusionPipeline:
    try:
        return calibrated_pipeline(rankings, sizes=dict.fromkeys(rankings, len(dataset.passages)))
    except InsufficientDataError as error:
        raise InsufficientDataError(f"{what} of {dataset.name}: {error}") from error


def _refusing(reason: InsufficientDataError) -> Answer:
    """Return an answer function that raises `reason`; the table then leaves out the system, and gives this reason."""

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        raise reason

    return answer


def _rows(batch: Batch, rows: Sequence[int]) -> Mapping[str, Sequence[Ranking]]:
    return {name: [batch[name][row] for row in rows] for name in TWO}


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
OURS = ("default", "default-three")
"""The names of the rows that tables print in bold."""
KNOWN = {**OWN_SYSTEMS, **PEERS, **NAMED_SYSTEMS}
ADDED_BY = {"tuned": "--pipeline", "calibrated": "--calibrate-on"}
ON_REQUEST = ("ranx-rrf", "ranx-min-max-sum", "bayesian-bm25", *NAMED_SYSTEMS)
USUAL = tuple(name for name in KNOWN if name not in ON_REQUEST)
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
    share = DEFAULT_OVERLAP if rules is None else rules.span_overlap
    whole = open_dataset(folder, span_overlap, default=share)
    second = None if dev_set is None else open_dataset(dev_set, span_overlap, default=share)
    parts = None if rules is None else parts_of(whole, rules, second)
    tested = whole if parts is None else parts[0]
    labels = [] if by is None else labels_of(tested, by)
    said = predicted(predictions or (), whole, *(() if second is None else (second,)))
    inputs = ExperimentInput(
        whole, fetch_k, graph=kept, progress=progress, tokenizer=tokenizer, embedder=load_embedder(embedder)
    )
    others = None if off_topic is None else load_dataset(off_topic)
    if others is not None and kept is None:
        inputs = replace(inputs, graph=graph_of(whole, tokenizer))  # build the graph once for both question sets
    of_pages = (MRR, *PAGE_MEASURES) if any(judgement.pages for judgement in whole.judgements) else ()
    printed = tuple(dict.fromkeys([*DEFAULT_MEASURES, *of_pages, *further]))
    known = KNOWN | added_systems(pipeline, calibrate_on, whole, fetch_k)
    trial = Trial([known[name] for name in names], tuple(dict.fromkeys([*printed, MRR])), baseline, within)
    answers, left_out = trial.answers(inputs)
    table = trial.table(answers, tested, fetch_k, [*lacking, *left_out])
    output = Output(table.to_dict() | {"within": within}, [main_sheet(table, printed, within)])
    if best_simple(table):
        output.add("best_simple", against_simple(table, best_simple(table), printed))
    answered = answer_table(said, tested, baseline) if said else None
    if answered is not None:
        output.add("answers", (answered.to_dict(), answer_sheet(answered)))
    if rules is not None and parts is not None:
        other = parts[1]
        if second is not None:
            answers, _ = trial.answers(replace(inputs, dataset=other, graph=None))
        signs = trial.table(answers, other, fetch_k)
        output.add("protocol", judge(table, signs, rules.measures[0], rules, parts[2:]))
        if answered is not None:
            signs = answer_table(said, other, baseline)
            output.add("protocol_answers", judge(answered, signs, rules.answer_measure, rules, parts[2:]))
    if by is not None:
        output.add("by", means_by(table, labels, by, further[0] if further else Measure("Recall", 10)))
    if off_topic is not None or unanswerable:
        found = (
            ask_unanswerable(inputs, trial.systems) if others is None else ask_off_topic(inputs, trial.systems, others)
        )
        output.state["systems"] = {row.name: {**row.to_dict(), **found.of(row.name)} for row in table.rows}
        output.add("abstain", (found.asked, abstention_sheet(found, table)))
    to = output.show(recommendation_of(table), table, json_to)
    if rows_to is not None:
        table.write_rows(rows_to)
    if report_to is not None:
        page = write_pictures(report_to, replace(inputs, dataset=tested), table, output.sheets[0], trial.systems)
        to.print(f"report: {page}")


@dataclass(frozen=True, slots=True)
class Trial:
    """The systems to compare, the measures, the baseline, and the metadata field that ``--within`` names (or None)."""

    systems: Sequence[System]
    measures: tuple[Measure, ...]
    baseline: str
    within: str | None

    def answers(self, inputs: ExperimentInput) -> tuple[list[Answers], tuple[str, ...]]:
        """Answer every query with every system; the second value has a line for each system that could not run."""
        depth = max(measure.k for measure in self.measures)
        if self.within is not None:
            return run_within(inputs, self.systems, depth, self.within)
        needed = dict.fromkeys(source for system in self.systems for source in system.sources if source in TWO)
        return run_systems(inputs, self.systems, depth, search_sources(inputs, needed))

    def table(self, answers: Sequence[Answers], dataset: Dataset, fetch_k: int, left_out: Sequence[str] = ()) -> Table:
        """Score the answers to a data set's queries, and compare the systems; answers to other queries are ignored.

        `fetch_k` is the length of the fused rankings. `left_out` are systems that could not run, each with the reason.
        """
        queries = {query.id for query in dataset.queries}
        return compare(
            [replace(one, found={name: ids for name, ids in one.found.items() if name in queries}) for one in answers],
            dataset.judgements,
            baseline=self.baseline,
            measures=self.measures,
            dataset=dataset.name,
            limit=fetch_k,
            left_out=[*left_out, *_unjudged(dataset)],
            groups=dataset.groups,
            corpus=dataset.contents,
        )


@dataclass(frozen=True, slots=True)
class Output:
    """The output of ``phasegraph evaluate``: `state`, the object for ``--json``, and `sheets`, the printed tables."""

    state: dict[str, object]
    sheets: list[Sheet]

    def add(self, key: str, part: tuple[object, Sheet]) -> None:
        """Add a part of the output: its value under `key` in the JSON object, and its printed table."""
        self.state[key] = part[0]
        self.sheets.append(part[1])

    def show(self, advice: Recommendation | None, table: Table, json_to: str | None) -> Console:
        """Write the JSON to `json_to`, print the tables and the recommendation `advice`, and return the console.

        If `advice` is None, print which rows of `table` the recommendation needs.
        """
        if advice is not None:
            said = {"choice": advice.choice, "measure": str(RECOMMENDED_BY), "sentence": advice.sentence}
            self.state["recommendation"] = said
        to = write_json(self.state, json_to)
        for sheet in self.sheets:
            show_table(to, sheet.title, sheet.columns, sheet.rows, OURS)
            for line in sheet.notes:
                to.print(line)
        missing = [name for name in WEIGHED if not any(row.name == name for row in table.rows)]
        to.print(
            f"recommendation: {advice.sentence}"
            if advice is not None
            else f"no recommendation: it needs the rows {', '.join(missing)}"
        )
        return to


def main_sheet(table: Table, printed: Collection[Measure], within: str | None) -> Sheet:
    """Format the table of all systems for the measures in `printed`, with its notes.

    `within` is the field whose value restricts the search of a query, or None.
    """
    columns, cells = as_text(table, printed)
    notes = [*(f"left out: {line}" for line in table.left_out), *table.notes]
    if within is not None:
        notes.append(f"each query is answered only from the passages with its own {within}")
    if len(table.rows) > 1:
        notes.append(
            f"in brackets and under W/L: p of the paired test against {table.baseline}, with Holm's correction"
        )
    return Sheet(title_of(table), columns, cells, notes)


def added_systems(
    pipeline: Path | None, calibrate_on: Path | None, dataset: Dataset, fetch_k: int
) -> dict[str, System]:
    """Return, by name, the systems that options add: ``tuned`` for `pipeline`, ``calibrated`` for `calibrate_on`.

    ``tuned`` is the pipeline in this file. ``calibrated`` is fitted on the queries of this folder. An option that is
    None adds no system.
    """
    found: dict[str, System] = {}
    if pipeline is not None:
        tuned = with_new_source_names(FusionPipeline.load(pipeline), THREE)
        named = TWO if tuned.weights is None else tuple(tuned.weights)
        found["tuned"] = pipeline_system("tuned", tuned, named, "the pipeline of --pipeline", ours=True)
    if calibrate_on is not None:
        found["calibrated"] = calibrated(calibrate_on, dataset, fetch_k)
    return found


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
    show_table(to, f"{table.dataset}: {len(table.queries)} questions, 95 % intervals in brackets", *found.cells())
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
    measures = list(table.rows[0].means)
    columns = ["stages"]
    for measure in measures:
        columns += [measure, "difference [95 %]", "p", "p (Holm)"]
    rows = []
    for row in table.rows:
        cells = [row.name]
        for measure in measures:
            cells.append(percent(row.means[measure]))
            if measure in row.differences:
                mean, low, high = (100 * one for one in row.differences[measure])
                cells += [f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]", p_text(row.p[measure]), p_text(row.p_holm[measure])]
            else:
                cells += ["", "", ""]
        rows.append(cells)
    to = write_json(table.to_dict(), json_to)
    show_table(to, f"{table.name}: {table.queries} queries, all stages on, then each stage off", columns, rows)
    for line in table.notes:
        to.print(line)


def ranked_measure(text: str) -> Measure:
    """Parse a measure of rankings; refuse measures of predicted answers."""
    measure = measure_of(text, "--measures")
    if measure.name in ANSWER_MEASURES:
        raise typer.BadParameter(f"--measures: {text} measures predicted answers; give them as --predictions FILE")
    return measure


def chosen_systems(text: str, baseline: str, added: Sequence[str]) -> list[str]:
    """Return the names of the systems to compare: those in the comma-separated `text` and in `added`, and `baseline`.

    In `text`, ``usual`` and ``all`` stand for groups of systems.
    """
    groups = {"usual": USUAL, "all": tuple(KNOWN)}
    given = [new_system(part, say_old_name) for part in names_in(text)]
    names = list(dict.fromkeys(name for part in given for name in groups.get(part, (part,))))
    for name, option in ADDED_BY.items():
        if name in [*names, baseline] and name not in added:
            raise typer.BadParameter(f"--systems: {name!r} needs {option}")
    known = [*KNOWN, *added]
    for name in names or [""]:
        check_named("--systems", name, ["usual", "all", *known])
    check_named("--baseline", baseline, known)
    names += [name for name in added if name not in names]
    return names if baseline in names else [baseline, *names]


def title_of(table: Table) -> str:
    """Return the title of a table: data set, number of queries, length of the rankings, baseline."""
    return f"{table.dataset}: {len(table.queries)} queries, lists of {table.limit}, against {table.baseline}"


def meanings(
    table: Table,
    systems: Sequence[System],
    ms: str = "milliseconds per question to search the sources, one after another, and to fuse the hits",
) -> dict[str, str]:
    """Return an explanation for each measure, column and system in a table; `ms` explains the column of times."""
    terms = {measure.name: measure.about for measure in table.measures if measure.about}
    terms["@k"] = "the measure counts the first k passages"
    terms["(p)"] = f"p-value of the paired test against {table.baseline}, with Holm's correction"
    if any(measure.name == "LastHop" for measure in table.tests):
        terms["W/L"] = f"questions won and lost against {table.baseline}"
    terms["ms"] = ms
    return terms | {system.name: system.about for system in systems if system.about}


def as_text(table: Table, printed: Collection[Measure] | None = None) -> tuple[list[str], list[list[str]]]:
    """Format the table's columns and rows for the measures in `printed` (default all); best-simple is the last row."""
    kept = [measure for measure in table.tests if printed is None or measure in printed]
    hops = [measure for measure in kept if measure.name == "LastHop"]
    columns = ["system", *(f"{measure}" if measure in hops else f"{measure} (p)" for measure in kept)]
    for measure in hops:
        columns += [f"W/L@{measure.k}", f"p@{measure.k} (Holm)"]
    rows = []
    for row in table.rows:
        own = row.name == table.baseline
        cells = [row.name]
        for measure in kept:
            tested = "" if own or measure in hops else f" ({p_text(row.p_holm[measure])})"
            cells.append(f"{shown(measure, row.means[measure])}{tested}")
        for measure in hops:
            cells += ["", ""] if own else [f"{row.wins[measure]}/{row.losses[measure]}", p_text(row.p_holm[measure])]
        rows.append([*cells, "" if row.milliseconds is None else f"{row.milliseconds:.1f}"])
    simple = best_simple(table)
    if simple:
        best = [shown(measure, table[simple[measure]].means[measure]) if measure in simple else "" for measure in kept]
        rows.append(["best-simple", *best, *[""] * (len(columns) - len(best))])
    return [*columns, "ms"], rows


def shown(measure: Measure, value: float) -> str:
    """Format a value of a measure: a percentage, or a count."""
    return f"{measure.unit * value:.1f}"


def against_simple(
    table: Table, simple: Mapping[Measure, str], printed: Collection[Measure]
) -> tuple[dict[str, object], Sheet]:
    """Compare the default with the best simple system of each measure, whose name `simple` gives by measure.

    Return a mapping for JSON with all measures, and a printable table of the measures in `printed`. If the default is
    not in `table`, both contain only the best simple systems.
    """
    names = {row.name for row in table.rows}
    found: dict[str, object] = {}
    rows = []
    for measure, best in simple.items():
        mean = table[best].means[measure]
        gain = gain_of(table, "default", best, measure) if "default" in names else None
        found[str(measure)] = {
            "system": best,
            "mean": measure.unit * mean,
            "default": None if gain is None else gain.to_dict(),
        }
        if measure in printed:
            own = ["–", "–"] if gain is None else [shown(measure, table["default"].means[measure]), gain.text]
            rows.append([str(measure), best, shown(measure, mean), *own])
    state: dict[str, object] = {"of": [name for name in SIMPLE if name in names], "measures": found}
    columns = ["measure", "best simple way", "its mean", "default", "difference [95 %]"]
    note = "the best simple way is chosen on these queries, so the difference favors it over the default"
    return state, Sheet("default against the best simple way of each measure", columns, rows, [note])


def _unjudged(dataset: Dataset) -> list[str]:
    lost = dataset.unjudged
    return [f"{len(lost)} queries whose spans no passage covers: {', '.join(lost)}"] if lost else []


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table as text: title, columns, rows and notes."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


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


def judge(
    tested: Table, signs: Table, goal: str, protocol: Protocol, parts: tuple[str, str]
) -> tuple[dict[str, object], Sheet]:
    """Apply a protocol to the differences from the baseline in the measure `goal`.

    `tested` and `signs` are the tables of two parts of the queries, which `parts` names. A difference in `tested`
    counts as reliable only if it has the same sign in `signs`. Return the verdicts as a mapping for JSON, and as a
    printable table.
    """
    measure = Measure.parse(goal)
    found = verdicts(tested, signs, measure, protocol)
    state: dict[str, object] = {
        "name": protocol.name,
        "measure": goal,
        "tested": parts[0],
        "signs_from": parts[1],
        "queries": [len(tested.queries), len(signs.queries)],
        "baseline": tested.baseline,
        "level": protocol.level,
        "resamples": protocol.resamples,
        "systems": {name: one.to_dict() for name, one in found.items()},
    }
    columns = ["system", goal, "difference [95 %]", "p", "p (Holm)", "p of collections", f"on {parts[1]}", "reliable"]
    rows = [_verdict_row(name, one, tested[name].means[measure]) for name, one in found.items()]
    title = (
        f"{protocol.name}: {goal} on {parts[0]} ({len(tested.queries)} queries) against {tested.baseline}, "
        f"signs from {parts[1]} ({len(signs.queries)})"
    )
    rule = (
        f"reliable: paired bootstrap, Holm over the {len(found)} systems rejects at {protocol.level:g}, and the "
        f"difference on {parts[1]} has the same sign; p of collections is not used by the rule"
    )
    return state, Sheet(title, columns, rows, [rule])


def _verdict_row(name: str, one: Verdict, mean: float) -> list[str]:
    found = one.difference
    change = f"{100 * found.mean:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"
    of_groups = "–" if one.p_groups is None else p_text(one.p_groups)
    said = "yes" if one.reliable else "no"
    return [
        name,
        percent(mean),
        change,
        p_text(found.p),
        p_text(one.p_holm),
        of_groups,
        f"{100 * one.other:+.1f}",
        said,
    ]


ANSWER_GOALS = (Measure("EM", 1), Measure("F1", 1))


def predicted(files: Sequence[Path], *datasets: Dataset) -> dict[str, dict[str, tuple[str, ...]]]:
    """Read the predicted answers of all files; return them by system and query id.

    Answers to queries that were left out of a data set, because no passage covers their gold spans, are dropped. Raise
    InvalidInputError for a query outside the data sets, or a system in two files.
    """
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    known = {query.id for dataset in datasets for query in dataset.queries}
    dropped = {name for dataset in datasets for name in dataset.unjudged}
    for file in files:
        for system, answers in read_predictions(file).items():
            if system in found:
                raise InvalidInputError(
                    f"{file}: the answers of system {system!r} are also in another file; keep one of them"
                )
            unknown = next((query for query in answers if query not in known | dropped), None)
            if unknown is not None:
                raise InvalidInputError(f"{file}: query {unknown!r}, answered by {system!r}, is not in the data set")
            found[system] = {query: given for query, given in answers.items() if query in known}
    return found


def answer_table(said: Mapping[str, Mapping[str, tuple[str, ...]]], dataset: Dataset, baseline: str) -> Table:
    """Score predicted answers, given by system and query id, by EM and F1.

    If `baseline` has no answers, the first system is the baseline.
    """
    wanted = {query.id for query in dataset.queries}
    answers = [
        Answers(name, {query: given for query, given in of.items() if query in wanted}) for name, of in said.items()
    ]
    lost = [f"{one.name}: {len(wanted) - len(one.found)} queries without an answer score 0" for one in answers]
    return compare(
        answers,
        dataset.judgements,
        baseline=baseline if baseline in said else next(iter(said)),
        measures=ANSWER_GOALS,
        dataset=dataset.name,
        left_out=[line for line, one in zip(lost, answers, strict=True) if len(one.found) < len(wanted)],
        groups=dataset.groups,
    )


def answer_sheet(table: Table) -> Sheet:
    """Format the table of EM and F1 of predicted answers."""
    rows = []
    for row in table.rows:
        cells = [row.name]
        for measure in ANSWER_GOALS:
            p = row.p_holm[measure]
            cells += [percent(row.means[measure]), "" if row.name == table.baseline or p != p else p_text(p)]
        rows.append(cells)
    title = f"answers: {len(table.queries)} queries, against {table.baseline}"
    return Sheet(title, ["system", "EM", "p (Holm)", "F1", "p (Holm)"], rows, [*table.left_out, *table.notes])


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


def abstention_sheet(found: Abstention, table: Table) -> Sheet:
    """Format a table: how well each system's confidence separates questions with and without an answer."""
    rows = [
        [row.name, *("–" if one is None else f"{one:.1f}" for one in found.of(row.name).values())] for row in table.rows
    ]
    lines = [f"left out: {line}" for line in found.left_out]
    return Sheet(f"AUC of confidence against {found.asked}", ["system", *found.of(table.baseline)], rows, lines)


WIDEST = 8


def means_by(table: Table, labels: Sequence[str], field: str, measure: Measure) -> tuple[dict[str, object], Sheet]:
    """Compute the means for each value in `labels`, the values of the field `field`, and the mean of these means.

    Return a mapping for JSON with all measures, and a printable table of `measure` alone.
    """
    found, counts = table.means_by(labels), Counter(labels)
    names = [row.name for row in table.rows]
    macro = {
        name: {str(goal): _mean([of[name][str(goal)] for of in found.values()]) for goal in table.measures}
        for name in names
    }
    rows = [
        [label, *("–" if mean is None else f"{mean:.1f}" for mean in (of[name][str(measure)] for name in names))]
        for label, of in [
            *((f"{label} ({counts[label]})", of) for label, of in found.items()),
            ("mean of these", macro),
        ]
    ]
    columns = [field, *names]
    if len(found) <= WIDEST:
        columns, *rows = [list(cells) for cells in zip(columns, *rows, strict=True)]
        columns[0] = "system"
    state: dict[str, object] = {"field": field, "queries": dict(counts), "means": found, "macro": macro}
    return state, Sheet(f"{measure} by {field} (queries)", columns, rows)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
