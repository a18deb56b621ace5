"""Read judged questions in any form that ``evaluate`` accepts: a file, a folder, a data set, mappings or queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from phasegraph._support.jsonl import objects_of
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.evaluation.corpus_files import Passage, read_corpus
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.query_files import Query, queries_of

Judged: TypeAlias = str | Path | Dataset | Mapping[str, Any] | Iterable[Query | Mapping[str, Any]]
Corpus: TypeAlias = str | Path | Sequence[Passage]


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
            (row, {"question": question, "relevant": _plain(ids)})
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


def _plain(ids: object) -> object:
    """Return gains as a dict, and a collection of ids as a list; return any other value unchanged."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        return ids
    return dict(ids) if isinstance(ids, Mapping) else list(ids)
