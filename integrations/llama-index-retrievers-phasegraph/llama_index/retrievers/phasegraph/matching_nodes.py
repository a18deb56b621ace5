"""Find the nodes that match metadata filters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from llama_index.core.schema import BaseNode, NodeWithScore
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from llama_index.retrievers.phasegraph.filters import is_and, key_of, names_of
from llama_index.retrievers.phasegraph.nodes import UnnamedNode
from phasegraph.retrieval import FilterRefusedError

_Test: TypeAlias = Callable[[Mapping[str, Any]], bool | None]
"""A test of a node's metadata; None means that the metadata lack a key on which the answer depends."""


def matching_rows(nodes: Sequence[Any], filters: MetadataFilters) -> list[int]:
    """Return the positions of the nodes that match.

    A node without the filter's metadata key matches only the operator IS_EMPTY. A text, a row or an id from a function
    never matches without the key, because its passage can have the key. The function returns positions instead of ids,
    because several nodes may have the same id, or no id.
    """
    whole, partial = verdict_of(filters), verdict_of(filters, partial=True)
    return [
        row for row, node in enumerate(nodes)
        if (partial if isinstance(node, UnnamedNode) else whole)(node.metadata)
    ]  # fmt: skip


def verdict_of(filters: MetadataFilters, *, partial: bool = False) -> _Test:
    """Return a function from a node's metadata to True (the node matches), False, or None.

    None means that the metadata lack a key on which the answer depends. Such a node matches neither the filters nor
    their opposite. If `partial` is True, the metadata may lack keys that the node has.
    """
    tests = [
        verdict_of(one, partial=partial) if isinstance(one, MetadataFilters) else _test_of(one, partial)
        for one in filters.filters
    ]
    if is_and(filters):
        return functools.partial(_all, tests)
    none_matches = functools.partial(_all, [functools.partial(_opposite, test) for test in tests])
    return none_matches if filters.condition == FilterCondition.NOT else functools.partial(_opposite, none_matches)


def _test_of(one: MetadataFilter, partial: bool) -> _Test:
    matches: Any = build_metadata_filter_fn(cast("Any", dict), MetadataFilters(filters=[one]))
    if one.operator == FilterOperator.IS_EMPTY and not partial:
        return cast("Callable[[Mapping[str, Any]], bool]", matches)

    def test(metadata: Mapping[str, Any]) -> bool | None:
        if one.key not in metadata:
            return None
        try:
            return bool(matches(metadata))
        except TypeError as error:
            raise FilterRefusedError(
                f"filters cannot compare the values of the metadata key {one.key!r} with {one.value!r:.80} by the "
                f"operator {one.operator.value!r}: a passage has a {type(metadata[one.key]).__name__} under this key"
            ) from error

    return test


def _all(tests: Sequence[_Test], metadata: Mapping[str, Any]) -> bool | None:
    """Return False if a test fails, None if another lacks its key; otherwise True, or raise the refusal of a test.

    A passage that other tests exclude, such as a passage of another tenant, thus cannot make the filters fail.
    """
    unknown, refusal = False, None
    for test in tests:
        try:
            one = test(metadata)
        except FilterRefusedError as error:
            refusal = error
            continue
        if one is False:
            return False
        unknown = unknown or one is None
    if refusal is not None and not unknown:
        raise refusal
    return None if unknown else True


def _opposite(test: _Test, metadata: Mapping[str, Any]) -> bool | None:
    verdict = test(metadata)
    return None if verdict is None else not verdict


_COMPARES = (
    FilterOperator.EQ, FilterOperator.IN, FilterOperator.GT, FilterOperator.GTE, FilterOperator.LT, FilterOperator.LTE,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """Validated filters for nodes, with the interface of :class:`~phasegraph.retrieval.framework.HitFilter`."""

    filters: MetadataFilters
    key: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", key_of(self.filters))

    @property
    def names(self) -> frozenset[str]:
        """The metadata keys that the filters read."""
        return names_of(self.filters)

    @property
    def compared(self) -> dict[str, list[Any]]:
        """The values with which the filters compare each metadata key as a whole."""
        found: dict[str, list[Any]] = {}
        for one in _affirmed(self.filters):
            if one.operator in _COMPARES:
                several = one.operator == FilterOperator.IN and isinstance(one.value, list)
                found.setdefault(one.key, []).extend(cast("list[Any]", one.value) if several else [one.value])
        return found

    def rows(self, hits: Sequence[Any]) -> list[int]:
        """Return the positions of the nodes that match the filters."""
        return matching_rows(hits, self.filters)


def _affirmed(filters: MetadataFilters) -> Iterator[MetadataFilter]:
    """Return each filter that is not under the condition NOT."""
    for one in filters.filters if filters.condition != FilterCondition.NOT else ():
        if isinstance(one, MetadataFilters):
            yield from _affirmed(one)
        else:
            yield one


def allowed_ids(nodes: Iterable[BaseNode], filters: MetadataFilters) -> set[str]:
    """Return the ids of the nodes that match the filters."""
    held = list(nodes)
    return {held[row].node_id for row in matching_rows(held, filters)}


def only_matching(hits: Sequence[NodeWithScore], filters: MetadataFilters | None) -> list[NodeWithScore]:
    """Return the hits that match the filters; all hits if `filters` is None.

    The check is necessary, because a store can ignore filters.
    """
    if filters is None:
        return list(hits)
    return [hits[row] for row in matching_rows([hit.node for hit in hits], filters)]
