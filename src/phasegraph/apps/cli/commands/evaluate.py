"""The options of ``phasegraph evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasegraph.apps.cli.options import (
    FETCH_K,
    Embedder,
    FetchK,
    GraphDir,
    JsonTo,
    PipelineFile,
    SpanOverlap,
    file_option,
    folder_option,
)

JudgedFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATASET_DIR",
        help="A folder with corpus, queries and embeddings; with --retriever or --ablate also a file.",
        exists=True,
    ),
]
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
ProtocolName = Annotated[str | None, typer.Option("--protocol", help="Measure by the rules of a benchmark: hetdocqa.")]
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
        help="Measure a pipeline with these stages, and then without each of these stages: rewrite, rerank, route, "
        "correct, summaries, facts, graph or all. DATASET_DIR may also be a JSON file of published values per query.",
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


def evaluate(
    context: typer.Context,
    folder: JudgedFile,
    retriever: Retrievers = None,
    corpus: CorpusFile = None,
    id_key: IdKey = None,
    systems: Systems = "usual",
    pipeline: PipelineFile = None,
    calibrate_on: CalibrateOn = None,
    fetch_k: FetchK = FETCH_K,
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
    recommends plain vectors, BM25, a fusion or the default; with fewer than 40 questions, it recommends nothing.
    PageRecall, Pages and MRR are measured if questions have the field pages, and passages the field source.

    With --embedder, the walk also compares each clause of a question with the passages: one embedding per clause. If
    the folder has no embeddings, the model also embeds the passages and the questions.

    A saved pipeline adds the row 'tuned'. The baseline is always a row. With --protocol, the tables show the part of
    the queries that the protocol tests. With --retriever, your own retrievers are measured instead of the systems. With
    --ablate, one pipeline is measured with and without its stages; simple functions replace the models.
    """
    from phasegraph.apps.cli import evaluate as work

    work.run(
        context,
        folder,
        work.SystemOptions(
            systems=systems,
            baseline=baseline,
            pipeline=pipeline,
            calibrate_on=calibrate_on,
            fetch_k=fetch_k,
            graph=graph,
            tokenizer=tokenizer,
            embedder=embedder,
            stages=stages,
        ),
        work.RetrieverOptions(retriever, corpus, id_key),
        work.MeasureOptions(
            measures=measures,
            span_overlap=span_overlap,
            by=by,
            within=within,
            predictions=predictions,
            protocol=protocol,
            dev_set=dev_set,
        ),
        work.UnansweredOptions(off_topic, unanswerable),
        work.OutputOptions(json_to, rows_to, report_to),
    )
