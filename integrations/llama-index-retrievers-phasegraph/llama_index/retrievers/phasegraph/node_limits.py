"""Find sources that can return nodes outside another source's limit to some nodes of an index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.retrievers import QueryFusionRetriever

from llama_index.retrievers.phasegraph.filters import bm25_ids, is_bm25
from llama_index.retrievers.phasegraph.lookup import lists_all_nodes, own_ids
from llama_index.retrievers.phasegraph.own_retriever import OwnRetriever
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
        inner = retriever.searched()
    elif isinstance(retriever, QueryFusionRetriever):
        inner = retriever._retrievers
    for one in inner:
        if one is retriever:
            yield one
        else:
            yield from _leaves(one)


def _exceeds(other: object, limited: Any) -> bool:
    """Return True if `other` is known to search nodes of the index of `limited` that are outside the limit."""
    part = part_of(limited)
    if not part:
        return False
    held, inside = _ids(other), _inside(limited, part)
    if held is None or inside is None:
        return part_of(other) != part and not _stores(limited).isdisjoint(_stores(other))
    outside = held - inside
    return bool(outside & own_ids(limited._index) if lists_all_nodes(limited._index) else outside)


def _inside(limited: Any, part: Mapping[str, frozenset[str]]) -> Set[str] | None:
    """Return the ids of the nodes in the limit `part`; None if only the vector store knows the documents' nodes."""
    if "doc_ids" not in part:
        return part["node_ids"]
    index = limited._index
    if not lists_all_nodes(index):
        return None
    names = own_ids(index) & part["node_ids"] if "node_ids" in part else own_ids(index)
    nodes = index.docstore.get_nodes(list(names), raise_error=False)
    return {node.node_id for node in nodes if node.ref_doc_id in part["doc_ids"]}


def _ids(retriever: Any) -> Set[str] | None:
    """Return the ids of the nodes that a retriever searches; None if they are unknown."""
    if is_bm25(retriever):
        return set(bm25_ids(retriever))
    if getattr(retriever, "walks", False) is True:
        return frozenset(retriever.kept_ids()) or None
    if not isinstance(retriever, VectorIndexRetriever):
        return None
    part = part_of(retriever)
    if part:
        return _inside(retriever, part)
    return own_ids(retriever._index) if lists_all_nodes(retriever._index) else None


def _stores(retriever: Any) -> frozenset[int]:
    """Return the identities of the index, docstore and vector store that a retriever searches."""
    if getattr(retriever, "walks", False) is True:
        store = None if retriever.corpus is None else retriever.corpus.state.store
        held = [retriever.look_up and retriever.look_up.held, getattr(store, "index", None)]
    else:
        held = [getattr(retriever, name, None) for name in ("_index", "_vector_store", "_docstore")]
    return frozenset(id(one) for one in held if one is not None)
