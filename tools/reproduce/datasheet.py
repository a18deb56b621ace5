"""The datasheet of the data sets: the contents of each, and a comparison of HetDocQA with its authors' datasheet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from claims import judge, plain
from page import Page, number, share, table
from phasegraph.evaluation.datasets import Dataset

KINDS = ("factual", "code", "cross_document", "multi_hop", "thematic")
PRINTED_QUESTIONS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"calibration": (34, 37, 52, 43, 38), "dev": (32, 34, 48, 40, 41)}
)
"""Table 1 of "Beyond the Reranker": questions of the open splits by type."""
PRINTED_DOCUMENTS: Mapping[str, int] = MappingProxyType(
    {"prose": 118, "pdf": 92, "markdown": 22, "code": 22, "table": 4}
)


def documents_of(dataset: Dataset) -> dict[str, str]:
    """Return the modality (such as code or prose) of each document, by document id; empty if passages name none."""
    extras = [passage.extra for passage in dataset.passages]
    return {
        str(extra.get("doc_id", extra.get("source"))): str(extra.get("modality", ""))
        for extra in extras
        if "doc_id" in extra or "source" in extra
    }


def sheet_row(dataset: Dataset) -> list[object]:
    """Return the row of a data set in the datasheet: its counts (of questions, passages, …), means and shares."""
    gold = np.array([len(query.judgement.passages) for query in dataset.queries])
    words = np.array([len(passage.content.split()) for passage in dataset.passages])
    kinds = Counter(str(query.extra.get("type", "")) for query in dataset.queries)
    return [
        dataset.name,
        len(dataset.queries),
        ", ".join(f"{kind} {count}".strip() for kind, count in sorted(kinds.items())),
        number(float(gold.mean()), 2),
        share(float((gold > 1).mean())),
        share(float(np.mean([query.judgement.last_hop_known for query in dataset.queries]))),
        len(dataset.passages),
        len(documents_of(dataset)) or "–",
        sum(map(len, dataset.triples.values())) if dataset.triples else "–",
        f"{np.median(words):.0f}",
        share(float(np.mean([bool(query.judgement.answers) for query in dataset.queries]))),
    ]


def datasheet_page(datasets: Sequence[Dataset]) -> Page:
    """Return the page `datasheet`: figures of every data set, and HetDocQA's figures beside those of its authors."""
    columns = [
        "data set",
        "questions",
        "types",
        "gold passages per question",
        "questions with several gold passages, %",
    ]
    columns += [
        "questions with a known last hop, %",
        "passages",
        "documents",
        "triples",
        "median words per passage",
        "questions with an answer, %",
    ]
    parts = [
        "This page describes the data sets of the reproduction. musique-openie and postgresql are in the "
        "repository. Gold passages are the passages that answer a question, including alternatives. Documents are "
        "counted only if the passages name their documents.",
        table(columns, [sheet_row(dataset) for dataset in datasets]),
    ]
    verdicts = []
    hetdocqa = next((one for one in datasets if any("modalities" in query.extra for query in one.queries)), None)
    if hetdocqa is not None:
        found = Counter((query.extra.get("split"), query.extra.get("type")) for query in hetdocqa.queries)
        rows = [
            [split, kind, said, found[split, kind], found[split, kind] - said]
            for split, counts in PRINTED_QUESTIONS.items()
            for kind, said in zip(KINDS, counts, strict=True)
        ]
        kinds = Counter(documents_of(hetdocqa).values())
        parts += [
            f"Number of questions in {hetdocqa.name}, compared with the numbers that its authors print, for the "
            "calibration and development splits. A question is left out if the text of its source could not be "
            "recovered.",
            table(["split", "type", "printed", "here", "difference"], rows),
            "Number of documents by modality, in all splits:",
            table(
                ["modality", "printed", "here", "difference"],
                [[kind, said, kinds[kind], kinds[kind] - said] for kind, said in PRINTED_DOCUMENTS.items()],
            ),
        ]
        missing = {
            split: float(sum(counts) - sum(found[split, kind] for kind in KINDS))
            for split, counts in PRINTED_QUESTIONS.items()
        }
        absent = {kind: float(said - kinds[kind]) for kind, said in PRINTED_DOCUMENTS.items()}
        verdicts = [
            judge(
                "Our copy contains every published question of the open splits (missing questions)",
                missing,
                0,
                0,
                plain,
            ),
            judge(
                "Every published document has at least one passage (documents without a passage)", absent, 0, 0, plain
            ),
        ]
    return Page("datasheet", "The data sets in figures", tuple(parts), tuple(verdicts))
