"""One filter for every source, in the framework's own words."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.schema import BaseNode, NodeWithScore
from llama_index.core.vector_stores.types import FilterCondition, MetadataFilters
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from phasegraph import InvalidInputError, InvalidTypeError


def check_filters(given: object) -> MetadataFilters:
    """Filters of the framework, not nested.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If they are something else, hold none, or hold filters within filters.
    """
    if not isinstance(given, MetadataFilters):
        raise InvalidTypeError(f"filters must be MetadataFilters; got {type(given).__name__}")
    if not given.filters:
        raise InvalidInputError("filters must hold at least one filter; got none")
    if any(isinstance(one, MetadataFilters) for one in given.filters):
        raise InvalidInputError("filters must not be nested; put them into one list")
    return given


def joined(*given: MetadataFilters | None) -> MetadataFilters | None:
    """What all of them ask for.

    Raises
    ------
    InvalidInputError
        If there are several and one of them is not a plain "and".
    """
    found = [one for one in given if one is not None]
    if len(found) < 2:
        return found[0] if found else None
    if any(one.condition not in (None, FilterCondition.AND) for one in found):
        raise InvalidInputError("filters that are joined must all have the condition AND")
    return MetadataFilters(filters=[part for one in found for part in one.filters], condition=FilterCondition.AND)


def matching_rows(nodes: Sequence[BaseNode], filters: MetadataFilters) -> list[int]:
    """Places of the nodes that they let through; a node without the key is never let through.

    By place, not by id: nodes that share one, or have none, are each looked at by themselves.
    """
    test = build_metadata_filter_fn(lambda row: nodes[int(row)].metadata, filters)
    keys = [one.key for one in filters.filters if not isinstance(one, MetadataFilters)]
    return [row for row, node in enumerate(nodes) if all(key in node.metadata for key in keys) and test(str(row))]


def allowed_ids(nodes: Iterable[BaseNode], filters: MetadataFilters) -> set[str]:
    """Ids of the nodes that they let through."""
    held = list(nodes)
    return {held[row].node_id for row in matching_rows(held, filters)}


def filtered(retriever: Any, filters: MetadataFilters) -> Any:
    """A copy that searches within the filters and its own.

    Raises
    ------
    InvalidInputError
        If it cannot: better no answer than one that shows too much.
    """
    if hasattr(retriever, "within"):
        return retriever.within(filters)
    if not isinstance(retriever, VectorIndexRetriever):
        raise InvalidInputError(f"a source must take filters where some are given; {type(retriever).__name__} does not")
    made = copy.copy(retriever)
    made._filters = joined(retriever._filters, filters)
    return made


def only_matching(hits: Sequence[NodeWithScore], filters: MetadataFilters | None) -> list[NodeWithScore]:
    """The hits that match: a store that did not heed its filter gives nothing away."""
    if filters is None:
        return list(hits)
    return [hits[row] for row in matching_rows([hit.node for hit in hits], filters)]
