"""Find sources that can return nodes outside another source's limit to some nodes of an index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.retrievers import QueryFusionRetriever

from llama_index.retrievers.phasegraph.lookup import lists_all_nodes, own_ids
from llama_index.retrievers.phasegraph.own_retriever import OwnRetriever
from llama_index.retrievers.phasegraph.restricted_search import bm25_ids, is_bm25
from phasegraph.retrieval import warn


def part_of(retriever: object) -> dict[str, frozenset[str]]:
    """Return the ids to which a retriever's search is limited, by the name of the retriever's argument.

    The result is empty if the retriever searches all nodes of its index, or is no retriever of a vector index.
    """
    if not isinstance(retriever, VectorIndexRetriever):
        return {}
    nodes = frozenset(retriever._node_ids or ())  # an index that stores its nodes lists all its ids in this attribute
    every = frozenset(retriever._index.index_struct.nodes_dict.values())
    given = {"node_ids": frozenset[str]() if every and every <= nodes else nodes}
    given["doc_ids"] = frozenset(retriever._doc_ids or ())
    return {name: ids for name, ids in given.items() if ids}


def warn_of_limits(asked: Mapping[str, object]) -> None:
    """Warn of each source that is limited to some nodes if another source can return other nodes of the same index.

    `asked` maps the names of the sources to their retrievers.
    """
    leaves = {name: list(_leaves(retriever)) for name, retriever in asked.items()}
    for name, mine in leaves.items():
        for limited in mine:
            others = [
                other for other in leaves if other != name and any(_exceeds(one, limited) for one in leaves[other])
            ]  # fmt: skip
            if others:
                warn(
                    f"source {name!r} searches only a part of its index ({'=, '.join(part_of(limited))}=), and answers "
                    f"can contain other nodes of this index, which {', '.join(map(repr, others))} can find: give "
                    "filters= on a metadata key instead. If nodes were inserted into the index after as_retriever(), "
                    "make the retriever again"
                )


def _leaves(retriever: object) -> Iterator[object]:
    """Return the retrievers that a retriever asks; the retriever itself if it asks no others."""
    inner: Sequence[object] = [retriever]
    if isinstance(retriever, OwnRetriever):
        inner = retriever._searched_retrievers()
    elif isinstance(retriever, QueryFusionRetriever):
        inner = retriever._retrievers
    for one in inner:
        if one is retriever:
            yield one
        else:
            yield from _leaves(one)


def _exceeds(other: object, limited: Any) -> bool:
    """Return True if `other` is known to search nodes of the index of `limited` that are outside the limit.

    A BM25 retriever is known to do so only for a limit to nodes, because the nodes of documents would have to be read.
    """
    part, others = part_of(limited), part_of(other)
    if all(name in others and others[name] <= ids for name, ids in part.items()):
        return False
    if is_bm25(other):
        outside = set(bm25_ids(other)) - part["node_ids"] if "node_ids" in part else set()
        return bool(outside & own_ids(limited._index))
    return not _searched(limited).isdisjoint(_searched(other))


def _searched(retriever: Any) -> frozenset[int]:
    """Return the identities of the index and the vector store that a retriever searches."""
    if getattr(retriever, "walks", False) is True:
        store = None if retriever.corpus is None else retriever.corpus.state.store
        held = [retriever.look_up and retriever.look_up.held, getattr(store, "index", None)]
    else:
        index = getattr(retriever, "_index", None)
        whole = isinstance(index, VectorStoreIndex) and not lists_all_nodes(index)  # a search of the whole store
        held = [index, getattr(retriever, "_vector_store", None) if whole else None]
    return frozenset(id(one) for one in held if one is not None)
