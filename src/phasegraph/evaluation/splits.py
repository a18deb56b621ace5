"""Split the queries of a data set: a part to tune on and a part to confirm on, or a part for each value of a field."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from phasegraph._support.typing import IntArray
from phasegraph._support.validation import file_error
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.query_files import Query


def split_by_id(ids: Sequence[str], part: Literal["tune", "confirm"], *, share: float = 0.5) -> IntArray:
    """Return the row numbers of the queries of one part, ``tune`` or ``confirm``; the MD5 of the id decides the part.

    The two parts are disjoint and cover all queries. The part of a query does not depend on other queries. `share`, in
    (0, 1), is the expected fraction of the tuning part.

    >>> split_by_id(["a", "b", "c", "d"], "tune"), split_by_id(["a", "b", "c", "d"], "confirm")
    (array([0, 2]), array([1, 3]))
    """
    if part not in ("tune", "confirm") or not 0 < share < 1:
        raise InvalidInputError(
            f"part must be 'tune' or 'confirm', and share must be in (0, 1); got {part!r} and {share!r}"
        )
    digests = [hashlib.md5(name.encode("utf-8"), usedforsecurity=False).digest() for name in ids]
    tuning = [int.from_bytes(digest[:8], "big") / 2**64 < share for digest in digests]
    return np.flatnonzero(np.array(tuning, dtype=bool) == (part == "tune"))


def parts_by(dataset: Dataset, name: str) -> dict[str, Dataset]:
    """Split a data set into parts by the field `name` of the queries and passages; return the parts by value.

    The parts are in the order of the queries. No part is made for a value of the field that no query has. A query may
    be judged by passages of another part; a search in the query's own part cannot find these passages. Raise
    InvalidInputError if a query or a passage lacks the field, or if no passage has the value of a query.
    """
    of_passage = {passage.id: passage.extra.get(name) for passage in dataset.passages}
    rows: dict[str, list[int]] = {}
    for row, query in enumerate(dataset.queries):
        value = query.extra.get(name)
        if value is None:
            raise _wrong_query(dataset, query, f"query {query.id!r} has no field {name!r}")
        rows.setdefault(str(value), []).append(row)
    places: dict[str, list[int]] = {}
    for place, passage in enumerate(dataset.passages):
        if of_passage[passage.id] is None:
            raise InvalidInputError(f"{dataset.name}: passage {passage.id!r} has no field {name!r}")
        places.setdefault(str(of_passage[passage.id]), []).append(place)
    lost = next((value for value in rows if value not in places), None)
    if lost is not None:
        raise InvalidInputError(
            f"{dataset.name}: no passage has the {name} {lost!r} of query {dataset.queries[rows[lost][0]].id!r}"
        )
    return {value: _part(dataset.subset(of_value), places[value]) for value, of_value in rows.items()}


def _wrong_query(dataset: Dataset, query: Query, message: str) -> InvalidInputError:
    file = Path(dataset.name) if dataset.path is None else dataset.path / "queries.jsonl"
    return file_error(file, query.line or None, message)


def _part(dataset: Dataset, places: Sequence[int]) -> Dataset:
    passages = tuple(dataset.passages[place] for place in places)
    triples = dataset.triples
    own = None if triples is None else {one.id: triples[one.id] for one in passages if one.id in triples}
    vectors = dataset.passage_vectors[np.array(places, dtype=np.intp)]
    return replace(dataset, passages=passages, passage_vectors=vectors, triples=own, path=None)


ORDER_OF_SPLITS = ("train", "calibration", "tune", "dev", "val", "valid", "validation", "confirm", "test")


def split_rows(dataset: Dataset, confirm: str | None = None) -> tuple[IntArray, IntArray, str]:
    """Return the rows to tune on, the rows to confirm on, and a description of the criterion that separates them.

    The rows to confirm on are the queries whose split is `confirm`; all other queries are the rows to tune on. The
    default of `confirm` is the split that comes last in this order: train, calibration, tune, dev (val, valid,
    validation), confirm, test. If there is no split or a single split, the MD5 of the ``collection_id`` decides, so
    that no collection is in both parts. Without collections, the MD5 of the query's id decides, as in
    :func:`split_by_id`. Raise InvalidInputError if only some queries have a split, or if no query has the split
    `confirm`. Also raise it if `confirm` is None and a split has an unknown name.
    """
    names = _splits(dataset)
    if confirm is not None and confirm not in names:
        listed = ", ".join(sorted(set(names))) or "none"
        raise InvalidInputError(f"the split {confirm!r} must be a split of {dataset.name}; its splits are: {listed}")
    if confirm is None and len(set(names)) > 1:
        other = sorted(set(names) - set(ORDER_OF_SPLITS))
        if other:
            raise InvalidInputError(
                f"{dataset.name}: the order of the splits {', '.join(other)} is unknown; name the split to confirm "
                "on (confirm=, on the command line --confirm-split)"
            )
        confirm = max(names, key=ORDER_OF_SPLITS.index)
    if confirm is not None:
        held = np.array(names, dtype=object) == confirm
        return np.flatnonzero(~held), np.flatnonzero(held), f"split {confirm!r}"
    groups = dataset.groups
    keys = [query.id for query in dataset.queries] if groups is None else groups
    told = "query id" if groups is None else "collection_id"
    return split_by_id(keys, "tune"), split_by_id(keys, "confirm"), f"MD5 of the {told}"


def _splits(dataset: Dataset) -> list[str]:
    """Return the split of every query, or an empty list if no query has a split."""
    given = [query.extra.get("split") for query in dataset.queries]
    if any(one is None for one in given) and not all(one is None for one in given):
        query = dataset.queries[given.index(None)]
        raise _wrong_query(
            dataset, query, f"either every query or no query must have a 'split'; {query.id!r} has no split"
        )
    return [str(one) for one in given if one is not None]


def check_disjoint(fitted_on: Dataset, scored_on: Dataset) -> None:
    """Raise InvalidInputError if a query is in both data sets, because queries used for fitting must not be scored."""
    scored = {query.id for query in scored_on.queries}
    for query in fitted_on.queries:
        if query.id in scored:
            message = f"a query must be in one of the two data sets only; {query.id!r} is also in {scored_on.name}"
            raise _wrong_query(fitted_on, query, message)
