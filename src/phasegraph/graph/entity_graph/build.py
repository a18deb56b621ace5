"""Extraction records to a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.checks import check_range
from phasegraph.graph.entity_graph.graph import EntityGraph
from phasegraph.graph.entity_graph.records import Extraction
from phasegraph.graph.entity_graph.weights import HOME_LEAD, HOME_TITLE, Csr, EdgeWeights
from phasegraph.graph.entity_graph.words import normalise_name

Synonyms: TypeAlias = Mapping[tuple[str, str], float] | Callable[[Sequence[str]], Csr]


def graph_from_extractions(
    passage_ids: Sequence[str],
    extractions: Iterable[Extraction],
    *,
    embeddings: Any = None,
    synonyms: Synonyms | None = None,
    weights: EdgeWeights | None = None,
) -> EntityGraph:
    """Build the graph from records alone.

    Parameters
    ----------
    passage_ids : sequence of str
        The P ids, unique; their order is that of the rows.
    extractions : iterable of Extraction
        Any number per passage, in any order: mentions and triples add up. A name that stands in triples alone, or
        in titles, counts as mentioned once.
    embeddings : (P, d) array_like of float, optional
    synonyms : mapping of (name, name) to float, or callable, optional
        Similarities in (0, 1]; of a pair given twice the greater counts, and names that are no entity are left out.
        A callable (``NameSynonyms``, say) is given the E entities and returns the (E, E) matrix of similarities.
    weights : EdgeWeights, optional

    Returns
    -------
    EntityGraph

    Raises
    ------
    InvalidInputError
        If an id repeats, a record belongs to no passage, or a similarity is out of range (naming the pair).

    Examples
    --------
    >>> graph_from_extractions(["1"], [Extraction("1", ["ada"], titles=["ada"])]).homes.data.tolist()
    [2]
    """
    ids = tuple(passage_ids)
    rows = {name: row for row, name in enumerate(ids)}
    if len(rows) != len(ids):
        twice = next(name for row, name in enumerate(ids) if rows[name] != row)
        raise InvalidInputError(f"passage ids must be unique; {twice!r} is given more than once")
    mentioned: list[Counter[str]] = [Counter() for _ in ids]
    at_home: list[dict[str, int]] = [{} for _ in ids]
    facts: Counter[tuple[str, str]] = Counter()
    for record in extractions:
        row = rows.get(record.passage_id)
        if row is None:
            raise InvalidInputError(
                f"an extraction must belong to a passage; {record.passage_id!r} is not in the corpus"
            )
        count_record(record, mentioned[row], at_home[row], facts)
    for counts, own in zip(mentioned, at_home, strict=True):
        settle_counts(counts, own)
    entities = tuple(sorted(set(chain.from_iterable(mentioned))))
    place = {name: row for row, name in enumerate(entities)}
    shape, square = (len(ids), len(entities)), (len(entities), len(entities))
    return EntityGraph(
        ids,
        entities,
        count_rows(mentioned, place, shape, np.int32),
        count_rows(at_home, place, shape, np.int8),
        symmetric(facts, place, square, np.int32),
        _synonym_edges(synonyms, entities, place),
        weights if weights is not None else EdgeWeights(),
        embeddings,
    )


def _synonym_edges(synonyms: Synonyms | None, entities: tuple[str, ...], place: Mapping[str, int]) -> Csr | None:
    if synonyms is None or callable(synonyms):
        return None if synonyms is None else synonyms(entities)
    if not isinstance(synonyms, Mapping):
        raise InvalidTypeError(f"synonyms must be a mapping of pairs to numbers or a callable; got {synonyms!r:.80}")
    return symmetric(_similar(synonyms), place, (len(entities), len(entities)), np.float32)


def _similar(synonyms: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """Similarities of pairs, checked."""
    checked: dict[tuple[str, str], float] = {}
    for pair, value in synonyms.items():
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise InvalidTypeError(f"synonyms must have pairs of names as keys; got {pair!r:.80}")
        checked[pair] = check_range(f"the similarity of {pair!r:.120}", value, 0, 1, ends="(]")
    return checked


def count_record(
    record: Extraction, mentioned: Counter[str], at_home: dict[str, int], facts: Counter[tuple[str, str]]
) -> None:
    """Add one record to the counts of its passage, whose names of triples are counted 0 times so far."""
    mentioned.update(record.entities)
    for subject, _, obj in record.triples:
        ends = normalise_name(subject), normalise_name(obj)
        for name in ends:
            if name:
                mentioned.setdefault(name, 0)
        if all(ends) and ends[0] != ends[1]:
            facts[ends if ends[0] < ends[1] else ends[::-1]] += 1
    if record.lead:
        at_home.setdefault(record.lead, HOME_LEAD)
    for name in record.titles:
        at_home[name] = HOME_TITLE


def settle_counts(mentioned: Counter[str], at_home: Mapping[str, int]) -> None:
    """Once all records of a passage are in: what it only states a fact of, or only is about, it mentions once."""
    for name in (*at_home, *(name for name, count in mentioned.items() if count == 0)):
        mentioned[name] = max(mentioned[name], 1)


def count_rows(rows: Sequence[Mapping[str, int]], place: Mapping[str, int], shape: tuple[int, int], dtype: Any) -> Csr:
    """One row per mapping of names to counts, columns ascending."""
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=indptr[1:])
    total = int(indptr[-1])
    columns = np.fromiter((place[name] for row in rows for name in row), dtype=np.int32, count=total)
    values = np.fromiter((count for row in rows for count in row.values()), dtype=dtype, count=total)
    matrix = sparse.csr_array((values, columns, indptr), shape=shape)
    matrix.sort_indices()
    return matrix


def symmetric(
    pairs: Mapping[tuple[str, str], Any], place: Mapping[str, int], shape: tuple[int, int], dtype: Any
) -> Csr:
    """Both directions of every pair of two different entities."""
    kept = [
        (place[one], place[other], value)
        for (one, other), value in pairs.items()
        if one != other and one in place and other in place
    ]
    best: dict[tuple[int, int], Any] = {}
    for one, other, value in kept:
        key = (min(one, other), max(one, other))
        best[key] = max(best.get(key, value), value)
    first = np.fromiter((key[0] for key in best), dtype=np.int32, count=len(best))
    second = np.fromiter((key[1] for key in best), dtype=np.int32, count=len(best))
    values = np.fromiter(best.values(), dtype=dtype, count=len(best))
    rows, columns = np.concatenate([first, second]), np.concatenate([second, first])
    matrix = sparse.csr_array((np.concatenate([values, values]), (rows, columns)), shape=shape)
    matrix.sort_indices()
    return matrix
